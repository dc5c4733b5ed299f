"""`penstock.Publication`: the releases of one series, to look at, to cut and to query."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from threading import Event
from typing import Any, Generic, Self, TypeVar, overload

import numpy as np

from penstock.budget.ledger_lines import LedgerLines
from penstock.core.arrays import IntArray
from penstock.core.calendar import Calendar
from penstock.core.domain import Domain
from penstock.core.durations import even_units_of, length
from penstock.core.errors import ConfigurationError, InputError, NotCoveredError, StateError
from penstock.core.exact import Exact
from penstock.core.guarantee import Guarantee
from penstock.core.hierarchy import Hierarchy, Nodes
from penstock.core.nearest_name import nearest_names
from penstock.core.nonnegative import nonnegative_facts
from penstock.core.notebook_html import Html, card
from penstock.core.released import Released
from penstock.core.tables import TableColumns, Tabular
from penstock.engine.sqlite import SQLiteReader
from penstock.engine.store import Reader, SeriesLog, VerifiedLedger
from penstock.released.log import Log
from penstock.released.pages.chart import Chart
from penstock.released.queries.answer import Alerts, Answer, Ranking
from penstock.released.queries.as_released import AsReleased
from penstock.released.queries.jump import Drop, Jump
from penstock.released.queries.low_signal import LowSignal
from penstock.released.queries.query import NumberQuery, Query, Units
from penstock.released.queries.sliding_sum import SlidingSum
from penstock.released.queries.top_k import TopK
from penstock.released.queries.unit_counts import UnitCounts

Found = TypeVar("Found", bound=Answer | Alerts | Ranking)

MAX_UNITS_SHOWN = 200
"""The most units that the charts of a notebook's card show: the newest."""

MAX_KEYS_OF_A_CHART = 20
"""The keys that a chart has where none is named: those with the largest numbers."""


class Publication(Tabular):
    """The releases of one series, to look at, to cut and to query.

    - `stream["Jamaica"]` is the publication of one key, `stream[["Jamaica", "Astoria"]]` of some.
    - `stream["2026-06-01":"2026-06-08"]` is the publication of a stretch of time. The end does not
      belong to it. A time without an offset is local time in the zone of the stream.
    - `stream[1:25]` is the publication of units 1 to 24, and `stream[-24:]` of the newest 24.
    - `stream[5]` is the release of unit 5, and `stream[-1]` the newest one. Iteration gives all
      releases, one after the other.

    Tables, charts and queries of the result are those of its keys and units. Sums over a window
    also use the units before the stretch.

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
    ...     stream["north"]["2026-01-01T06:00":]
    ...     stream[-1]
    (24, ('north', 'south'), (19, 2))
    <Publication 'taps': 18 units of 1h, key 'north', Guarantee(epsilon=1, window=1)>
    <Released unit 24: 2 numbers, Guarantee(epsilon=1, window=1)>
    """

    def __init__(self, reader: Reader, name: str) -> None:
        self.log: Log = SeriesLog(reader, name)
        """The release log of the whole series, for any query."""
        self.name = name
        self._reader = reader
        self._series = reader.series(name)
        self._chosen: tuple[str, ...] | None = None
        self._first = 1
        self._stop: int | None = None
        self._closed = Event()  # shared with all publications that are cut from this one

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
        if self._closed.is_set():
            return f"<Publication {self.name!r}: closed>"
        return f"<Publication {self.name!r}: {self._extent}, {self.guarantee}>"

    def __len__(self) -> int:
        """The number of released units."""
        return len(self.units)

    def __iter__(self) -> Iterator[Released]:
        """The releases, one after the other."""
        units = self.units
        for release in self.log.between(units.start, units.stop - 1):
            yield self._cut(release)

    def __contains__(self, key: object) -> bool:
        """Whether this is one of the keys."""
        return key in self.keys

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store."""
        self._closed.set()
        self._reader.close()

    @overload
    def __getitem__(self, what: int) -> Released: ...
    @overload
    def __getitem__(self, what: str | slice | Iterable[str]) -> Self: ...
    def __getitem__(self, what: int | str | slice | Iterable[str]) -> Released | Self:
        """One key, some keys, a stretch of units or of time, or one release."""
        if isinstance(what, (int, np.integer)):
            return self._release(int(what))
        found = copy(self)
        if isinstance(what, slice):
            if what.step is not None:
                raise ConfigurationError("a publication is cut without steps: stream[start:end].")
            units = self.units
            found._first = max(self._unit(what.start, units, end=False), units.start)
            if what.stop is not None:
                found._stop = min(self._unit(what.stop, units, end=True), units.stop)
        else:
            keys = (what,) if isinstance(what, str) else tuple(what)
            self._check_keys(keys)
            found._chosen = keys
            vars(found).pop("_places", None)
        return found

    # -- what is published -------------------------------------------------------------------------

    @property
    def domain(self) -> Domain:
        """All keys of the series."""
        return self._series.domain

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of this publication."""
        return self.domain.keys if self._chosen is None else self._chosen

    @property
    def units(self) -> range:
        """The released units of this publication."""
        here = self.log.units
        first = max(here.start, self._first)
        stop = here.stop if self._stop is None else min(here.stop, self._stop)
        return range(first, max(stop, first))

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
    def ledger(self) -> LedgerLines:
        """All charges, in order."""
        return LedgerLines(self._reader.lines(self.name), self._series.guarantee)

    def verify(self) -> VerifiedLedger:
        """Recompute every link of the chain and the cost of every window."""
        return self._reader.verify(self.name)

    # -- questions ---------------------------------------------------------------------------------

    def window(self, length: str | int) -> LogQuery[Answer]:
        """Return the query for sums over the newest units.

        Parameters
        ----------
        length : str or int
            A duration such as ``"1d"``, or a number of units. A day has 24 hours here, also where
            clocks are changed.
        """
        return self.ask(SlidingSum(even_units_of(length, self.calendar, name="length")))

    def jump(self, width: str | int, delta: float, *, hindsight: bool = False) -> LogQuery[Alerts]:
        """Return the query for alerts where a count rises by at least `delta` within some units.

        Parameters
        ----------
        width : str or int
            A duration such as ``"3h"``, or a number of units, at least 2.
        delta : float
            The threshold.
        hindsight : bool
            Whether releases that came later are used as well. Default: False.
        """
        units = even_units_of(width, self._series.calendar, name="width")
        return self.ask(Jump(units, delta, hindsight=hindsight))

    def drop(self, width: str | int, delta: float, *, hindsight: bool = False) -> LogQuery[Alerts]:
        """Return the query for alerts where a count falls by at least `delta` within some units.

        Parameters
        ----------
        width : str or int
            A duration such as ``"3h"``, or a number of units, at least 2.
        delta : float
            The threshold.
        hindsight : bool
            Whether releases that came later are used as well. Default: False.
        """
        units = even_units_of(width, self._series.calendar, name="width")
        return self.ask(Drop(units, delta, hindsight=hindsight))

    def top(self, k: int, *, window: str | int | None = None) -> LogQuery[Ranking]:
        """Return the query for the keys with the largest numbers, and how sure their order is.

        Parameters
        ----------
        k : int
            How many keys.
        window : str or int, optional
            Rank sums over the newest units: a duration such as ``"1d"``, or a number of units.
            Default: rank the counts of one unit.
        """
        if window is None:
            return self.ask(TopK(k))
        units = even_units_of(window, self._series.calendar, name="window")
        return self.ask(TopK(k, of=SlidingSum(units)))

    @overload
    def ask(self, query: NumberQuery) -> LogQuery[Answer]: ...
    @overload
    def ask(self, query: Jump | LowSignal) -> LogQuery[Alerts]: ...
    @overload
    def ask(self, query: TopK) -> LogQuery[Ranking]: ...
    @overload
    def ask(self, query: Query) -> LogQuery[Any]: ...
    def ask(self, query: Query) -> LogQuery[Any]:
        """Return any query, asked of the keys and units of this publication.

        Parameters
        ----------
        query : Query
            The query: one of `penstock.released.queries`, or one of your own.
        """
        return LogQuery(query, self.log, self._chosen, self._limits)

    def filtered(
        self,
        periods: int | str | Iterable[int | str] = (),
        *,
        kind: str = "flow",
        point: str = "median",
    ) -> Self:
        """Return this publication with filtered numbers, which costs no budget.

        Tables, charts and queries of the result are those of the filtered numbers, with intervals
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

    # -- tables and charts -------------------------------------------------------------------------

    def table_columns(
        self, confidence: Exact | None = None, *, nonnegative: bool = False
    ) -> TableColumns:
        """The numbers of the table, with intervals, and whether each repeats an earlier release.

        Parameters
        ----------
        confidence : int, Fraction or str, optional
            The confidence. Default: 0.95; 0.9 for filtered numbers.
        nonnegative : bool
            Whether negative numbers are replaced. Default: False.
        """
        units, chosen = self.units, self.log.confidence if confidence is None else confidence
        value = low = high = np.empty((0, len(self.keys)))
        repeated: Any = value.astype(np.bool_)
        if units:
            answer = self._counts(units, nonnegative=nonnegative)
            value, (low, high) = answer.estimate, answer.interval(chosen)
            repeated = [
                np.broadcast_to(release.repeated, release.value.shape)
                for release in self.log.between(units[0], units[-1])
            ]
            repeated = np.stack(repeated)[:, self._places]
        return TableColumns(
            units=np.array(units, np.int64),
            keys=self.keys,
            value=value,
            low=low,
            high=high,
            calendar=self._series.calendar,
            more={"repeated": repeated},
            confidence=str(chosen),
            filtered=bool(units) and self.log[units[-1]].kind == "filtered",
            nonnegative=nonnegative_facts(self.domain) if nonnegative else None,
            about={
                "penstock.series": self.name,
                "penstock.mechanism": self._series.mechanism,
                "penstock.promise": self.promise,
            },
        )

    def plot(self, *keys: str, path: str | os.PathLike[str] | None = None) -> Chart:
        """Return a chart of some keys over time, with intervals. A notebook shows it.

        Intervals have 95 % confidence, those of filtered numbers 90 %.

        Parameters
        ----------
        *keys : str
            The keys to choose from; default: the 20 with the largest numbers.
        path : path, optional
            Where to write the chart as an HTML page; default: nowhere.
        """
        shown = self[keys] if keys else self
        if not shown.units:
            raise NotCoveredError(f"{self.name!r} has no units to draw.")
        answer = shown._counts(shown.units)
        if not keys and len(answer.names) > MAX_KEYS_OF_A_CHART:
            answer = answer.largest(MAX_KEYS_OF_A_CHART)
        low, high = answer.interval(self.log.confidence)
        chart = Chart(
            title=f"{self.name}, filtered" if self.log.filter else self.name,
            promise=self.promise,
            confidence=self._confidence,
            units=answer.units,
            names=answer.names,
            estimate=answer.estimate,
            low=low,
            high=high,
            calendar=self._series.calendar,
            note=self._note,
            measure=f"Counts per {length(self._series.calendar.every)}"
            if self._series.calendar
            else "Counts",
        )
        if path is not None:
            target = Path(path)
            if target.suffix not in (".html", ".htm"):
                raise ConfigurationError(
                    f"path must end in .html, not {target.name!r}: the chart is a page.",
                    parameter="path",
                )
            target.write_text(chart.page(), encoding="utf-8")
        return chart

    def _repr_html_(self) -> str:
        """The publication for a notebook: the promise, and the newest numbers with intervals."""
        if self._closed.is_set():
            return card(self.name, lead="The store is closed.")
        parts, note = list[Html](), ""
        lead, units, calendar = self._extent, self.units, self._series.calendar
        if units and calendar is not None:
            lead += f", {calendar.short_label(units[0])} to {calendar.short_label(units[-1])}"
            lead += f" ({calendar.zone})"
        units = units[-MAX_UNITS_SHOWN:]
        if units:
            parts = [self._counts(units).html_table(self.log.confidence)]
            note = self._note
        title = f"{self.name}: {self.keys[0]}" if len(self.keys) == 1 else self.name
        return card(title, lead=f"{lead}.", promise=self.promise, parts=parts, note=note)

    # -- inside ------------------------------------------------------------------------------------

    @property
    def _extent(self) -> str:
        """The units and the keys in words."""
        units = f"{len(self)} units"
        if self._series.calendar is not None:
            units += f" of {self._series.calendar.every}"
        if self._chosen is not None and len(self._chosen) == 1:
            what = f"{units}, key {self._chosen[0]!r}"
        else:
            what = f"{units} over {len(self.keys)} keys"
        return what + (", filtered" if self.log.filter else "")

    @property
    def _confidence(self) -> str:
        return f"{float(self.log.confidence):.0%}".replace("%", " %")

    @property
    def _note(self) -> str:
        if self.log.filter:
            return f"{self._confidence} intervals are for the counts, as the filter believes."
        note = f"{self._confidence} intervals cover the added noise only."
        if self._has_counts:
            return note
        return f"Each number is {self.log.way(self.log.last).weights.in_words()}. {note}"

    @property
    def _limits(self) -> range | None:
        """The units, if this publication was cut; None if it has all of them."""
        return None if self._first == 1 and self._stop is None else self.units

    @cached_property
    def _places(self) -> IntArray:
        """The columns of the keys."""
        if self._chosen is None:
            return np.arange(self.domain.size)
        place = {key: number for number, key in enumerate(self.domain.keys)}
        return np.array([place[key] for key in self._chosen], np.int64)

    @property
    def _has_counts(self) -> bool:
        """Whether its numbers are counts of units. If not, each is a sum of several units."""
        return not len(self.log) or self.log.way(self.log.last).has_counts

    def _counts(self, units: range, *, nonnegative: bool = False) -> Answer:
        """The counts of these units and of the chosen keys, or the sums that were released.

        Totals need all keys: non-negative numbers are computed before keys are chosen.
        """
        query = UnitCounts() if self._has_counts else AsReleased()
        if not nonnegative or not isinstance(self.domain, Hierarchy | Nodes):
            found = query.answer(self.log, units, keys=self._chosen)
            return found.nonnegative() if nonnegative else found
        whole = query.answer(self.log, units).nonnegative()
        return whole if self._chosen is None else whole.of(*self._chosen)

    def _cut(self, release: Released) -> Released:
        """A release with its names, and of the chosen keys only."""
        named = release.named(self.domain, self._series.calendar)
        return named if self._chosen is None else named.among(self._places)

    def _release(self, unit: int) -> Released:
        units = self.units
        found = units.stop + unit if unit < 0 else unit
        if found not in units:
            there = f"it has units {units[0]} to {units[-1]}" if units else "it has no units"
            raise InputError(f"unit {unit} is not in {self.name!r}: {there}.")
        return self._cut(self.log[found])

    def _check_keys(self, keys: tuple[str, ...]) -> None:
        known = frozenset(self.keys)
        if not keys or len(set(keys)) != len(keys):
            raise ConfigurationError("name at least one key, and no key twice.", parameter="keys")
        for key in keys:
            if key not in known:
                raise ConfigurationError(
                    f"there is no key {key!r} in {self.name!r}.{nearest_names(key, self.keys)}"
                    f"{_time_hint(key)}",
                    parameter="keys",
                )

    def _unit(self, bound: int | str | date | None, units: range, *, end: bool) -> int:
        """The unit that a stretch begins with, or the one after its last."""
        if bound is None:
            return units.start
        if isinstance(bound, (int, np.integer)):
            return max(units.stop + int(bound), 1) if bound < 0 else int(bound)
        moment = self.calendar.moment(bound, name="end" if end else "start")
        return self.calendar.unit_at(moment - 1) + 1 if end else self.calendar.unit_at(moment)


def _time_hint(key: object) -> str:
    """How to cut by time, where a time was given in the place of a key."""
    try:
        date.fromisoformat(str(key)[:10])
    except ValueError:
        return ""
    return f" For a stretch of time write stream[{key!r}:]."


@dataclass(frozen=True)
class LogQuery(Generic[Found]):
    """A query, the log that it is asked of, and the keys and units that are wanted.

    Parameters
    ----------
    query : Query
        The query.
    log : Log
        The release log.
    keys : tuple of str, optional
        The keys to answer for. Default: all.
    units : range, optional
        The units to answer for. Default: all.
    """

    query: Query
    log: Log
    keys: tuple[str, ...] | None = None
    units: range | None = None

    def __repr__(self) -> str:
        return f"<LogQuery {self.query.in_words()!r} of {self.log.name!r}>"

    def answer(self, unit: Units = None) -> Found:
        """Answer for the newest unit, for one unit, or for a `range` of units.

        Parameters
        ----------
        unit : int, range or None
            The unit, or consecutive units. Default: the newest.
        """
        if unit is None and self.units:
            unit = self.units[-1]
        found: Any = self.query.answer(self.log, unit, keys=self.keys)
        return found  # type: ignore[no-any-return]

    def series(self) -> Found:
        """Answer for every unit for which that is possible."""
        can = self.query.units(self.log)
        if self.units is not None:
            can = range(max(can.start, self.units.start), min(can.stop, self.units.stop))
        if not can:
            raise NotCoveredError(f"{self.query.in_words()}: no unit here can be answered.")
        return self.answer(can)
