"""`penstock.publish`: the publisher for a notebook, with the same engine, store and promise."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from penstock.budget.ledger import Line
from penstock.core.calendar import Calendar
from penstock.core.deprecated import renamed
from penstock.core.domain import AnyDomain, Domain
from penstock.core.errors import ConfigurationError, StateError
from penstock.core.exact import Exact
from penstock.core.guarantee import Guarantee
from penstock.core.optional import require
from penstock.engine import factory
from penstock.engine.pipeline import AUTO, AnyMechanism, Pipeline, units_of
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


@renamed(user="person", user_type="person_type")
# reason: one keyword per line
def publish(
    source: str | os.PathLike[str],
    *,
    time: str,
    key: str | tuple[str, ...],
    every: str,
    origin: str | datetime,
    domain: AnyDomain,
    mechanism: AnyMechanism | Literal["auto"] = "auto",
    epsilon: Exact | None = None,
    window: int | str | None = None,
    contribution: int = 1,
    delta: Exact | None = None,
    typical: Exact | None = None,
    seasons: Sequence[str] = (),
    sparse: bool = False,
    stock: bool = False,
    sample: str | os.PathLike[str] | None = None,
    person: str | None = None,
    until: str | datetime | None = None,
    zone: str = "UTC",
    other: str | None = None,
    name: str | None = None,
    store: str | os.PathLike[str] | None = None,
    clock: Literal["iso", "seconds", "milliseconds", "microseconds"] = "iso",
    key_type: Literal["text", "integer"] = "text",
    person_type: Literal["text", "integer"] = "text",
    noise: Noise | None = None,
    anyway: bool = False,
) -> Publication:
    """Publish finished files of events, and return what was released.

    **The same stream published again gives the same numbers**: they are read from the store. Fresh
    noise for the same events would let anyone average the noise away.

    Parameters
    ----------
    source : path
        A Parquet, CSV or JSON lines file, or a pattern such as ``"taps/*.csv"``.
    time : str
        The column with the time of an event.
    key : str or tuple of str
        The column with the key; for a `Product`, one column per attribute.
    every : str
        The length of a unit, such as ``"1h"``.
    origin : str or datetime
        When unit 1 begins. It is public and never taken from the data.
    domain : Domain or list of str
        All keys. It is public and never taken from the data.
    mechanism : Mechanism or "auto"
        The mechanism, with its promise; default: "auto", what `penstock.plan` recommends from
        `typical`, `seasons`, `sparse`, `stock` and `sample`. The store keeps the first choice for
        ever.
    epsilon : int, Fraction or str, optional
        With "auto", the ε of a window; it is needed then.
    window : int or str, optional
        With "auto", the window: units, or a duration such as ``"1d"``; it is needed then.
    contribution : int
        With "auto", the most events of one person that count in one unit; default: 1.
    delta : int, Fraction or str, optional
        With "auto", the δ that a mechanism may use; default: none.
    typical : int, Fraction or str, optional
        The mean count of a key in a unit, as far as it is publicly known; default: unknown.
    seasons : sequence of str
        Durations after which the stream looks similar again; default: none.
    sparse : bool
        Whether a few keys have almost all events; default: False.
    stock : bool
        Whether counts are what is present in a unit, and not events; default: False.
    sample : path, optional
        A public file of similar events or counts, never the source; default: none.
    person : str, optional
        The column with the person; default: none, each event counts as its own person.
    until : str or datetime, optional
        When the last unit ends; default: now. It is public and never taken from the data.
    zone : str
        The time zone of units, and of times without an offset; default: "UTC".
    other : str, optional
        The key that counts events with an unknown key; default: none, they are left out.
    name : str, optional
        The name of the stream; default: the name of the file.
    store : path, optional
        The SQLite file with releases and ledger; default: NAME.db in the current folder.
    clock : {"iso", "seconds", "milliseconds", "microseconds"}
        How times are written: as text, or as numbers since 1970; default: "iso".
    key_type : {"text", "integer"}
        The type of the key column; default: "text".
    person_type : {"text", "integer"}
        The type of the person column; default: "text".
    noise : Noise, optional
        Noise for tests; default: secure noise.
    anyway : bool
        Whether to publish although fewer than half of the rows of a sample can be taken; default:
        False, which is an `UnreadableRowsError` and releases nothing.

    Returns
    -------
    Publication
        The releases, to look at and to query.

    Examples
    --------
    >>> import tempfile, penstock as ps
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "taps.csv").write_text(
    ...     "ts,station\\n2026-01-01T00:10Z,north\\n2026-01-01T01:20Z,south\\n"
    ... )
    >>> stream = ps.publish(
    ...     folder / "taps.csv", time="ts", key="station", every="1h", origin="2026-01-01",
    ...     until="2026-01-01T03:00Z", mechanism=ps.Laplace(epsilon="1"),
    ...     domain=["north", "south"], store=folder / "taps.db",
    ... )
    >>> stream
    <Publication 'taps': 3 units of 1h over 2 keys, Guarantee(epsilon=1, window=1)>
    >>> stream.verify().account.worst
    Fraction(1, 1)
    """
    path = Path(source)
    kind = _kind(path)
    title = name or path.stem.replace("*", "").strip("._-") or "stream"
    declared = Domain.of(domain)
    if other is not None and other not in declared.keys:
        raise ConfigurationError(
            f"other must be a key of the domain, such as {declared.keys[0]!r}, not {other!r}.",
            parameter="other",
        )
    stream = {"name": title, "every": every, "zone": zone, "origin": _text(origin)}
    columns = {"time": time, "key": key, "clock": clock}
    columns |= {"key_type": key_type, "person_type": person_type}
    promise = {"epsilon": epsilon, "window": window, "delta": delta}
    known: dict[str, Any] = {"typical": typical, "seasons": list(seasons) or None}
    known |= {"sparse": sparse or None, "stock": stock or None}
    known |= {"sample": None if sample is None else _absolute(sample)}
    if mechanism != AUTO:
        _refuse_beside_a_mechanism(promise | known)
    pipeline = Pipeline.of(
        {
            "stream": stream | ({} if until is None else {"until": _text(until)}),
            "source": {"kind": kind, "path": _absolute(path)}
            | columns
            | ({} if person is None else {"person": person}),
            "domain": declared,
            "privacy": promise | {"mechanism": AUTO, "contribution": contribution}
            if mechanism == AUTO
            else mechanism,
            "plan": known,
            "store": {"path": _absolute(f"{title}.db" if store is None else store)},
        }
    )
    pipeline = replace(pipeline, other=other)
    with Publisher(pipeline, noise=lambda: noise, anyway=anyway) as publisher:
        publisher.run()
    return Publication(factory.reader(pipeline), pipeline.series())


def _kind(path: Path) -> str:
    kind = kind_of_file(path.name)
    if kind is None:
        endings = ", ".join(end for each in SOURCES.own.values() for end in each.suffixes)
        raise ConfigurationError(
            f"source must be a file or a pattern that ends in {endings}, not {path.name!r}.",
            parameter="source",
        )
    return kind


def _absolute(path: str | os.PathLike[str]) -> str:
    return str(Path(path).absolute())


def _refuse_beside_a_mechanism(given: Mapping[str, Any]) -> None:
    """Refuse what only `auto` can use."""
    for name, value in given.items():
        if value is not None:
            raise ConfigurationError(
                f'{name} is for mechanism="auto": a mechanism that is given has its own promise.',
                parameter=name,
            )


def _text(moment: str | datetime) -> str:
    return moment if isinstance(moment, str) else moment.isoformat()


class Publication:
    """The releases of one series, to look at and to query.

    Parameters
    ----------
    reader : Reader
        The store. The publication closes it.
    name : str
        The name of the series.

    Examples
    --------
    `penstock.publish` returns one, and `Publication.read` opens a store:

    >>> import tempfile, penstock as ps
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "taps.csv").write_text("ts,station\\n2026-01-01T00:10Z,north\\n")
    >>> ps.publish(
    ...     folder / "taps.csv", time="ts", key="station", every="1h", origin="2026-01-01",
    ...     until="2026-01-02", mechanism=ps.Laplace(epsilon="1"), domain=["north", "south"],
    ...     store=folder / "taps.db",
    ... ).close()
    >>> with ps.Publication.read(folder / "taps.db") as stream:
    ...     len(stream), stream.domain.keys, stream.window("6h").series().estimate.shape
    (24, ('north', 'south'), (19, 2))
    """

    def __init__(self, reader: Reader, name: str) -> None:
        self.log: Log = SeriesLog(reader, name)
        self.name = name
        self._reader = reader
        self._series = reader.series(name)

    @classmethod
    def read(cls, store: str | os.PathLike[str], name: str | None = None) -> Publication:
        """Open a store, also while somebody publishes into it.

        Parameters
        ----------
        store : path
            The SQLite file.
        name : str, optional
            The name of the series; default: the only one in the store.
        """
        reader = SQLiteReader(store)
        names = reader.series_names
        if name is None and len(names) != 1:
            reader.close()
            raise ConfigurationError(
                f"name must be one of the series in the store: {', '.join(names) or 'none yet'}.",
                parameter="name",
            )
        return cls(reader, name or names[0])

    def __repr__(self) -> str:
        calendar = self._series.calendar
        units = f"{len(self)} units" + (f" of {calendar.every}" if calendar else "")
        what = f"{units} over {self.domain.size} keys" + (", filtered" if self.log.filter else "")
        return f"<Publication {self.name!r}: {what}, {self.guarantee}>"

    def __len__(self) -> int:
        """The number of released units."""
        return len(self.log)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store."""
        self._reader.close()

    @property
    def domain(self) -> Domain:
        """The keys."""
        return self._series.domain

    @property
    def guarantee(self) -> Guarantee:
        """The promise; of a view, the promise of all views of its stream together."""
        return self._series.stream_guarantee

    @property
    def promise(self) -> str:
        """The promise in words."""
        return self._series.promise

    @property
    def calendar(self) -> Calendar:
        """When units begin and end."""
        if self._series.calendar is None:
            raise StateError(f"series {self.name!r} has no calendar.")
        return self._series.calendar

    @property
    def ledger(self) -> tuple[Line, ...]:
        """All charges, in order."""
        return tuple(self._reader.lines(self.name))

    def verify(self) -> VerifiedLedger:
        """Recompute every link of the chain and the cost of every window."""
        return self._reader.verify(self.name)

    def window(self, length: str | int) -> LogQuery:
        """Return the query for sums over the newest units. Other queries take the `log`.

        Parameters
        ----------
        length : str or int
            A duration such as ``"1d"``, or a number of units.
        """
        return LogQuery(SlidingSum(units_of(length, self.calendar, name="length")), self.log)

    def filtered(
        self,
        periods: int | str | Iterable[int | str] = (),
        *,
        kind: str = "flow",
        point: str = "median",
    ) -> Publication:
        """Return this publication with filtered numbers, which costs no budget.

        Tables, figures and queries of the result are those of the filtered numbers, with intervals
        for the counts themselves. Both publications share the store.

        Parameters
        ----------
        periods : int, str, or several of them
            The seasons of the stream, such as ``("1d", "7d")``, or numbers of units. Default:
            none.
        kind : {"flow", "stock"}
            Whether counts are events of a unit, or what is present in it. Default: "flow".
        point : {"median", "mean"}
            The number to report. Medians have the least absolute error. Means add up: use them for
            sums over keys or units. Default: "median".
        """
        found = copy(self)
        found.log = self.log.filtered(periods, kind=kind, point=point)
        return found

    def to_polars(self) -> Any:
        """Return all counts as a Polars table: begins, unit, key, value, low, high, repeated.

        `low` and `high` are 95 % intervals, which cover the added noise only. Filtered numbers have
        90 % intervals for the counts.
        """
        polars: Any = import_module("polars")
        names = ("begins", "unit", "key", "value", "low", "high", "repeated")
        if not len(self):
            return polars.DataFrame({name: [] for name in names})
        answer = UnitCounts().series(self.log)
        low, high = answer.interval(self.log.confidence)
        units, keys = answer.units, len(answer.names)
        moments = [self.calendar.start(unit) for unit in units.tolist()]
        repeated = [np.broadcast_to(release.repeated, release.value.shape) for release in self.log]
        columns = (
            [moment for moment in moments for _ in range(keys)],
            np.repeat(units, keys),
            list(answer.names) * len(moments),
            answer.estimate.ravel(),
            low.ravel(),
            high.ravel(),
            np.concatenate(repeated),
        )
        return polars.DataFrame(dict(zip(names, columns, strict=True)))

    def plot(self, *keys: str, path: str | os.PathLike[str] | None = None) -> Any:
        """Return a Matplotlib figure of some keys over time, with their 95 % intervals.

        Filtered numbers have 90 % intervals.

        Parameters
        ----------
        *keys : str
            The keys to draw; default: the first five.
        path : path, optional
            Where to write the figure; default: nowhere.
        """
        answer = UnitCounts().series(self.log)
        low, high = answer.interval(self.log.confidence)
        moments: Any = [self.calendar.start(unit) for unit in answer.units.tolist()]
        figures = require("matplotlib.figure", "plots", "drawing a figure")
        figure = figures.Figure(figsize=(9, 4), layout="constrained")
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
        title = f"{self.name}, filtered" if self.log.filter else self.name
        axes.set_title(f"{title}: {self.guarantee}", loc="left", fontsize=10)
        axes.set_ylabel(f"count every {self.calendar.every}")
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
        if path is not None:
            figure.savefig(path, dpi=120)
        return figure


@dataclass(frozen=True)
class LogQuery:
    """A query and the log that it is asked of."""

    query: NumberQuery
    log: Log

    def answer(self, unit: Units = None) -> Answer:
        """Answer for the newest unit, for one unit, or for a `range` of units."""
        return self.query.answer(self.log, unit)

    def series(self) -> Answer:
        """Answer for every unit for which that is possible."""
        return self.query.series(self.log)
