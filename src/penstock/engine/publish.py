"""`penstock.publish`: the publisher for a notebook. The same engine, the same store, the same
promise.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from penstock.budget.ledger import Line
from penstock.core.calendar import Calendar
from penstock.core.domain import AnyDomain, Domain
from penstock.core.errors import ConfigurationError, MissingExtraError, StateError
from penstock.core.guarantee import Guarantee
from penstock.engine import factory
from penstock.engine.pipeline import AnyMechanism, Pipeline, units_of
from penstock.engine.publisher import Publisher
from penstock.engine.sqlite import SQLiteReader
from penstock.engine.store import Reader, SeriesLog, VerifiedLedger
from penstock.private.noise import Noise
from penstock.private.sources.registry import SOURCES, kind_of_file
from penstock.released.log import Log
from penstock.released.queries.answer import Answer
from penstock.released.queries.query import NumberQuery, Units
from penstock.released.queries.sliding_sum import SlidingSum
from penstock.released.queries.unit_counts import UnitCounts


def publish(
    source: str | os.PathLike[str],
    *,
    time: str,
    key: str | tuple[str, ...],
    every: str,
    origin: str | datetime,
    mechanism: AnyMechanism,
    domain: AnyDomain,
    user: str | None = None,
    until: str | datetime | None = None,
    zone: str = "UTC",
    other: str | None = None,
    name: str | None = None,
    store: str | os.PathLike[str] | None = None,
    clock: Literal["iso", "seconds", "milliseconds", "microseconds"] = "iso",
    key_type: Literal["text", "integer"] = "text",
    user_type: Literal["text", "integer"] = "text",
    noise: Noise | None = None,
) -> Publication:
    """Publish finished files of events, and give back what was released.

    `source` is a Parquet, CSV or JSON lines file, or a pattern of such; `time`, `key` and `user`
    are its columns. Units begin at `origin` and end by `until`, or now: both are public, and never
    taken from the data.

    Releases and ledger stand in `store`, a SQLite file (NAME.db here if nothing is said).
    **Published again, the same stream gives the same numbers**: they are read from there, as fresh
    noise for the same events would let anyone average it away.

    >>> import tempfile, penstock as ps
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "taps.csv").write_text("ts,station\\n2026-01-01T00:10Z,north\\n2026-01-01T01:20Z,south\\n")
    >>> stream = ps.publish(
    ...     folder / "taps.csv", time="ts", key="station", every="1h", origin="2026-01-01", until="2026-01-01T03:00Z",
    ...     mechanism=ps.Laplace(epsilon="1"), domain=["north", "south"], store=folder / "taps.db",
    ... )
    >>> stream, stream.verify().account.worst
    (<Publication 'taps': 3 units of 1h over 2 keys, Guarantee(epsilon=1, window=1)>, Fraction(1,
    1))
    """
    path = Path(source)
    kind = kind_of_file(path.name)
    if kind is None:
        endings = ", ".join(end for each in SOURCES.own.values() for end in each.suffixes)
        raise ConfigurationError(
            f"source must be a file or a pattern that ends in {endings}, not {path.name!r}.",
            parameter="source",
        )
    title = name or path.stem.replace("*", "").strip("._-") or "stream"
    declared = Domain.of(domain)
    if other is not None and other not in declared.keys:
        raise ConfigurationError(
            f"other must be a key of the domain, such as {declared.keys[0]!r}, not {other!r}."
        )
    stream = {"name": title, "every": every, "zone": zone, "origin": _text(origin)}
    columns = {
        "time": time,
        "key": key,
        "clock": clock,
        "key_type": key_type,
        "person_type": user_type,
    }
    pipeline = Pipeline.of(
        {
            "stream": stream | ({} if until is None else {"until": _text(until)}),
            "source": {"kind": kind, "path": str(path.absolute())}
            | columns
            | ({} if user is None else {"person": user}),
            "domain": declared,
            "privacy": mechanism,
            "store": {"path": str(Path(f"{title}.db" if store is None else store).absolute())},
        }
    )
    pipeline = replace(pipeline, other=other)
    with Publisher(pipeline, noise=lambda: noise) as publisher:
        publisher.run()
    return Publication(factory.reader(pipeline), pipeline.series())


def _text(moment: str | datetime) -> str:
    return moment if isinstance(moment, str) else moment.isoformat()


class Publication:
    """What was released of a stream, to look at and to ask."""

    def __init__(self, reader: Reader, name: str) -> None:
        self.log: Log = SeriesLog(reader, name)
        self.name = name
        self._reader = reader
        self._stream = reader.series(name)

    @classmethod
    def read(cls, store: str | os.PathLike[str], name: str | None = None) -> Publication:
        """From a store, also while somebody publishes into it."""
        reader = SQLiteReader(store)
        names = reader.series_names
        if name is None and len(names) != 1:
            reader.close()
            raise ConfigurationError(
                f"which stream? The store has {', '.join(names) or 'none'}: name one."
            )
        return cls(reader, name or names[0])

    def __repr__(self) -> str:
        calendar = self._stream.calendar
        units = f"{len(self)} units" + (f" of {calendar.every}" if calendar else "")
        return (
            f"<Publication {self.name!r}: {units} over {self.domain.size} keys, {self.guarantee}>"
        )

    def __len__(self) -> int:
        return len(self.log)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the store."""
        self._reader.close()

    @property
    def domain(self) -> Domain:
        """The keys."""
        return self._stream.domain

    @property
    def guarantee(self) -> Guarantee:
        """What is promised; of a view, what all views of its stream promise together, in the
        stream's units.
        """
        return self._stream.stream_guarantee

    @property
    def promise(self) -> str:
        """The same in words."""
        return self._stream.promise

    @property
    def calendar(self) -> Calendar:
        """When units begin and end."""
        if self._stream.calendar is None:
            raise StateError(f"stream {self.name!r} has no calendar.")
        return self._stream.calendar

    @property
    def ledger(self) -> tuple[Line, ...]:
        """What was spent, line by line."""
        return tuple(self._reader.lines(self.name))

    def verify(self) -> VerifiedLedger:
        """Recompute every link of the ledger and the cost of every window."""
        return self._reader.verify(self.name)

    def window(self, length: str | int) -> LogQuery:
        """Sums of the last so many units, or of so long: window("1d").answer(). Other queries take
        the `log`.
        """
        return LogQuery(SlidingSum(units_of(length, self.calendar, name="length")), self.log)

    def to_polars(self) -> Any:
        """All counts as a Polars table: begins, unit, key, value, low, high, repeated."""
        try:
            import polars
        except ImportError:
            raise MissingExtraError("polars", "columns", "a table of releases") from None
        return polars.DataFrame(self._columns())

    def plot(self, *keys: str, path: str | os.PathLike[str] | None = None) -> Any:
        """A figure of some keys over time with their 95 % intervals; written to `path` if one is
        given.
        """
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise MissingExtraError("matplotlib", "plots", "drawing a figure") from None
        answer = UnitCounts().series(self.log)
        low, high = answer.interval()
        moments: Any = [self.calendar.start(unit) for unit in answer.units.tolist()]
        figure = Figure(figsize=(9, 4), layout="constrained")
        axes = figure.subplots()
        for key in keys or self.domain.keys[:5]:
            if key not in answer.names:
                raise ConfigurationError(f"there is no key {key!r} in {self.name!r}.")
            column = answer.names.index(key)
            (line,) = axes.step(moments, answer.estimate[:, column], where="post", label=key)
            axes.fill_between(
                moments,
                low[:, column],
                high[:, column],
                step="post",
                alpha=0.15,
                color=line.get_color(),
            )
        axes.set_title(f"{self.name}: {self.guarantee}", loc="left", fontsize=10)
        axes.set_ylabel(f"count every {self.calendar.every}")
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
        if path is not None:
            figure.savefig(path, dpi=120)
        return figure

    def _columns(self) -> dict[str, list[Any]]:
        if not len(self.log):
            return {
                name: [] for name in ("begins", "unit", "key", "value", "low", "high", "repeated")
            }
        answer = UnitCounts().series(self.log)
        low, high = answer.interval()
        repeated = [np.broadcast_to(release.repeated, release.value.shape) for release in self.log]
        moments = [self.calendar.start(unit) for unit in answer.units.tolist()]
        width = len(answer.names)
        return {
            "begins": [moment for moment in moments for _ in range(width)],
            "unit": np.repeat(answer.units, width).tolist(),
            "key": list(answer.names) * len(moments),
            "value": answer.estimate.ravel().tolist(),
            "low": low.ravel().tolist(),
            "high": high.ravel().tolist(),
            "repeated": np.concatenate(repeated).tolist() if repeated else [],
        }


@dataclass(frozen=True)
class LogQuery:
    """A query and the log that it is asked of."""

    query: NumberQuery
    log: Log

    def answer(self, unit: Units = None) -> Answer:
        """Of the newest unit, of one, or of a `range` of them."""
        return self.query.answer(self.log, unit)

    def series(self) -> Answer:
        """Of every unit that can be answered."""
        return self.query.series(self.log)
