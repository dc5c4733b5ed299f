"""The ledgers of a store: the cost of every window, per series and for all views of a stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from penstock.budget.accountant import Account, account
from penstock.budget.grid import Grid
from penstock.budget.joint import Joint, Part, joint
from penstock.core.calendar import Calendar
from penstock.core.errors import ConfigurationError, LedgerError, StateError
from penstock.core.guarantee import Guarantee
from penstock.engine.chain import Head
from penstock.engine.pipeline import reach, units_in
from penstock.engine.store import Reader
from penstock.released.series import Series

_RUNS = ("open", "ask", "yes", "close")


@dataclass(frozen=True, kw_only=True)
class ViewsLedger:
    """The series of one stream, by the names of its views.

    A stream without views has one series, which has the stream's name.
    """

    name: str
    series: Mapping[str, Series]

    @property
    def several(self) -> bool:
        """Whether the promise is about several views together."""
        return len({*self.series, *self.named}) > 1 or self.first.name != self.name

    @property
    def named(self) -> tuple[str, ...]:
        """The views that were declared, whether or not the store has them."""
        return self.first.stream.views

    @property
    def guarantee(self) -> Guarantee:
        """The promise for all views together, in the stream's own units."""
        if not self.several:
            return self.first.guarantee
        contribution = max(each.guarantee.contribution for each in self.series.values())
        try:
            return self.first.stream.guarantee(contribution)
        except (KeyError, ValueError):
            raise StateError(
                f"stream {self.name!r}: the store does not say what is promised for its views "
                "together."
            ) from None

    @property
    def calendar(self) -> Calendar | None:
        """The calendar of the stream's own units, the shortest ones."""
        calendar = self.first.calendar
        if not self.several or calendar is None:
            return calendar
        try:
            every = self.first.stream.every or ""
            return Calendar(every=every, zone=calendar.zone, origin=calendar.origin)
        except ConfigurationError:
            raise StateError(
                f"stream {self.name!r}: the store does not say what its units are."
            ) from None

    @property
    def first(self) -> Series:
        """One of its series: all of them declare the same stream."""
        return next(iter(self.series.values()))


def streams_of(reader: Reader) -> dict[str, ViewsLedger]:
    """All streams of a store, each with its series."""
    found: dict[str, dict[str, Series]] = {}
    for name in reader.series_names:
        series = reader.series(name)
        whole = series.stream.name or name
        found.setdefault(whole, {})[name.removeprefix(f"{whole}/")] = series
    return {name: ViewsLedger(name=name, series=series) for name, series in found.items()}


def spent(reader: Reader, series: str) -> Account:
    """The cost of every window of a series, from its lines alone."""
    return account(
        reader.lines(series), reader.series(series).guarantee, units=reader.head(series).unit
    )


def newest(reader: Reader, series: str) -> Fraction:
    """The cost of the newest window of a series so far.

    It reads the lines of that window only, unless a run began before it.
    """
    promise, last = reader.series(series).guarantee, reader.head(series).unit
    lines = list(reader.lines(series, max(last - promise.window + 1, 1), last))
    opened = {line.run for line in lines if line.kind == "open"}
    if any(
        line.kind in _RUNS and line.run not in opened for line in lines
    ):  # a run that began before the window
        return int(spent(reader, series).windows[-1]) * Grid.of(promise).quantum
    found = account(lines, promise, units=last).windows[-1:]
    return (int(found[0]) if len(found) else 0) * Grid.of(promise).quantum


def together(
    reader: Reader, views: ViewsLedger, accounts: Mapping[str, Account] | None = None
) -> Joint:
    """The joint cost of a stream's views, for every unit of the stream up to the newest release.

    Whether each view's window is long enough, and how often it counts, is recomputed and not taken
    from the store.
    """
    small, promise = views.calendar, views.guarantee
    heads = {view: reader.head(series.name) for view, series in views.series.items()}
    _complete(views, heads)
    calendars = {view: series.calendar for view, series in views.series.items()}
    if small is None or any(calendar is None for calendar in calendars.values()):
        raise StateError(
            f"stream {views.name!r}: the store does not say when its units are, so its views "
            "cannot be added up."
        )
    ends = [
        calendar.ends(heads[view].unit)
        for view, calendar in calendars.items()
        if calendar and heads[view].unit
    ]
    last = max((small.unit_at(end - 1) for end in ends), default=0)
    begins = np.array([small.begins(unit) for unit in range(1, last + 1)], np.int64)
    parts = {}
    for view, series in views.series.items():
        calendar = calendars[view]
        assert calendar is not None
        found = accounts[view] if accounts else spent(reader, series.name)
        parts[view] = Part(
            account=found,
            times=_times(views, view, small, calendar, promise),
            places=calendar.unit_of(begins),
        )
    return joint(parts, promise)


def _times(
    views: ViewsLedger, view: str, small: Calendar, calendar: Calendar, promise: Guarantee
) -> int:
    """How often a view's cost counts: as declared, and at least as often as it must."""
    fits = units_in(small, calendar)
    if fits is None:
        raise LedgerError(
            f"stream {views.name!r}: the units of view {view!r} are no whole numbers of the "
            "stream's."
        )
    window, times = reach(promise.window, fits[0], most=fits[1], horizon=promise.horizon)
    has = views.series[view].guarantee
    if has.window < window:
        raise LedgerError(
            f"stream {views.name!r}: view {view!r} keeps its promise in any {has.window} of its "
            f"units, and a window of the stream meets {window}."
        )
    declared = views.first.stream.times(view)
    told = times if declared is None else declared
    if told < times:
        raise LedgerError(
            f"stream {views.name!r}: view {view!r} counts {told} times, and must count {times} "
            "times."
        )
    return told


def _complete(views: ViewsLedger, heads: Mapping[str, Head]) -> None:
    """Refuse views with different declarations, or a missing view if others have released."""
    for view, series in views.series.items():
        if series.facts != views.first.facts:
            raise LedgerError(
                f"stream {views.name!r}: what its views are of differs, at view {view!r}."
            )
    missing = sorted(set(views.named) - views.series.keys())
    if missing and any(head.unit for head in heads.values()):
        raise LedgerError(
            f"stream {views.name!r}: view {missing[0]!r} is not in the store, and others have "
            "released."
        )
