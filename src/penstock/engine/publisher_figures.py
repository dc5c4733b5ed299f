"""The figures of a running publisher: what anybody may know of it, and what only its operator may.

Public figures follow from the configuration, the clock and what is committed, so that whoever reads
the releases could work them out. Nothing of a unit that is drawn and not committed is in them:
after a crash it would be drawn again. How many events there were, how long the work took and what a
problem was are private, and have types of their own that do not print.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import penstock
from penstock.budget.grid import promised
from penstock.core.calendar import SECOND, duration
from penstock.core.errors import StateError
from penstock.core.files import write_file
from penstock.core.released import Released
from penstock.engine.delivery import Delivery
from penstock.engine.publisher import Publisher, State
from penstock.engine.view_run import ViewRun

GRACE = 60
"""Seconds that a unit may be overdue before its stream is not on time any more."""


@dataclass(frozen=True, kw_only=True)
class SinkFigures:
    """Whether a sink takes what is sent, and how many units it lacks; None while it has not said
    what it holds.
    """

    name: str
    up: bool
    behind: int | None


@dataclass(frozen=True, kw_only=True)
class SeriesFigures:
    """One view: what was released last, and what it has cost.

    `behind` is how many units the clock has closed and nobody has seen yet, `overdue` for how many
    seconds the first of them should have been out; both are None for a finite input, which no clock
    closes. `cost` is what the newest window has cost and `most` what it may, in the `currency` of
    the promise: epsilon, or rho where that has a delta. `fresh` is the part of the newest release
    that does not repeat an earlier one; `private` is False where the noise was a test's.
    """

    series: str
    view: str
    mechanism: str
    every: str
    unit: int
    ends: datetime | None
    behind: int | None
    overdue: int | None
    epsilon: Fraction
    delta: Fraction
    window: int
    currency: str
    cost: Fraction
    most: Fraction
    fresh: float | None
    private: bool | None


@dataclass(frozen=True, kw_only=True)
class StreamFigures:
    """One stream: its promise, its views and its sinks. `lease` says whether this process may
    publish it.
    """

    stream: str
    state: State
    finite: bool
    on_time: bool
    lease: bool
    epsilon: Fraction
    delta: Fraction
    window: int
    promise: str
    series: tuple[SeriesFigures, ...]
    sinks: tuple[SinkFigures, ...]


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What anybody may know of some publishers."""

    version: str
    streams: tuple[StreamFigures, ...]

    @property
    def on_time(self) -> bool:
        """Whether all streams are."""
        return all(stream.on_time for stream in self.streams)


@dataclass(frozen=True, kw_only=True, repr=False)
class _Unprinted:
    """What only the operator may know: it never prints."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(private)"


@dataclass(frozen=True, kw_only=True, repr=False)
class PrivateSeries(_Unprinted):
    """One view: events that came late, from the future and from before unit 1; those of open units,
    by unit, before bounding.

    `pending` are events that a restart would have to get from the source again.
    """

    series: str
    late: int
    future: int
    past: int
    pending: int
    open: Mapping[int, int]


@dataclass(frozen=True, kw_only=True, repr=False)
class PrivateStream(_Unprinted):
    """One stream: rows that were not taken, by reason; problems in words; seconds that the last
    commits took.
    """

    stream: str
    rejections: Mapping[str, int]
    problem: str
    sinks: Mapping[str, str]
    commits: tuple[float, ...]
    series: tuple[PrivateSeries, ...] = field(default=())


def public(publishers: Iterable[Publisher]) -> Figures:
    """What anybody may know of these publishers now. It asks neither the store nor the sinks, and
    waits for nobody.
    """
    return Figures(
        version=penstock.__version__, streams=tuple(_stream(each) for each in publishers)
    )


def private(publishers: Iterable[Publisher]) -> tuple[PrivateStream, ...]:
    """What only the operator of these publishers may know."""
    return tuple(_private(each) for each in publishers)


def save(publisher: Publisher, path: Path) -> None:
    """Write what only the operator may know into a file that only its owner can read."""
    content = json.dumps(plain(_private(publisher)), indent=2).encode()
    try:
        write_file(path, content, mode=0o600, durable=False)
    except OSError as error:
        raise StateError(
            f"the file for private figures {path.name!r} cannot be written: {error.strerror}."
        ) from None


def plain(figures: Any) -> Any:
    """Figures as JSON can write them: exact amounts and times as text.

    >>> plain({"cost": Fraction(1, 24), "up": True})
    {'cost': '1/24', 'up': True}
    """
    if dataclasses.is_dataclass(figures):
        return {
            each.name: plain(getattr(figures, each.name)) for each in dataclasses.fields(figures)
        }
    if isinstance(figures, Mapping):
        return {str(name): plain(value) for name, value in figures.items()}
    if isinstance(figures, tuple):
        return [plain(value) for value in figures]
    if isinstance(figures, Fraction):
        return str(figures)
    return figures.isoformat() if isinstance(figures, datetime) else figures


def _stream(publisher: Publisher) -> StreamFigures:
    pipeline, now = publisher.pipeline, publisher.clock.now()
    series = tuple(_series(publisher, view, now) for view in publisher.views)
    state = publisher.state
    late = any(each.overdue is not None and each.overdue > GRACE for each in series)
    promise = pipeline.guarantee
    return StreamFigures(
        stream=pipeline.stream.name,
        state=state,
        finite=publisher.finite,
        on_time=not late and (state == "publishing" or (publisher.finite and state == "ended")),
        lease=publisher.committer.leases.held,
        epsilon=promise.epsilon,
        delta=promise.delta,
        window=promise.window,
        promise=publisher.views[0].series.promise
        if len(series) == 1
        else promise.clauses.protection,
        series=series,
        sinks=tuple(_sink(publisher, each) for each in publisher.deliveries),
    )


def _series(publisher: Publisher, view: ViewRun, now: int) -> SeriesFigures:
    committed, calendar, promise = view.committed, view.view.calendar, view.run.guarantee
    release, unit = committed.release, committed.unit
    most = promised(promise)
    behind = overdue = None
    if not publisher.finite:
        behind = max(calendar.unit_at(now - view.lateness) - 1 - unit, 0)
        pace = duration(publisher.pipeline.stream.pace, name="pace")
        overdue = max(now - view.closes(unit + 1) - pace, 0) // SECOND if behind else 0
    return SeriesFigures(
        series=view.name,
        view=view.view.name,
        mechanism=view.run.mechanism.name,
        every=calendar.every,
        unit=unit,
        ends=calendar.end(unit) if unit else None,
        behind=behind,
        overdue=overdue,
        epsilon=promise.epsilon,
        delta=promise.delta,
        window=promise.window,
        currency=most.grid.currency,
        cost=committed.cost.amount,
        most=most.amount,
        fresh=None if release is None else _fresh(release),
        private=None if release is None else release.private,
    )


def _fresh(release: Released) -> float:
    return 1.0 - float(np.mean(release.repeated))


def _sink(publisher: Publisher, delivery: Delivery) -> SinkFigures:
    units = {view.name: view.committed.unit for view in publisher.views}
    lacks = [units[name] - sent for name, sent in list(delivery.sent.items())]
    behind = 0 if delivery.gathering else max(0, *lacks)  # gathered units are on their way
    return SinkFigures(
        name=delivery.name,
        up=not delivery.problem,
        behind=behind if delivery.known else None,
    )


def _private(publisher: Publisher) -> PrivateStream:
    return PrivateStream(
        stream=publisher.pipeline.stream.name,
        rejections=publisher.source.rejections.for_operator(),
        problem=publisher.problem,
        sinks={each.name: each.problem for each in publisher.deliveries},
        commits=tuple(publisher.committer.seconds),
        series=tuple(_private_series(view) for view in publisher.views),
    )


def _private_series(view: ViewRun) -> PrivateSeries:
    tally = view.counting.units.tally
    return PrivateSeries(
        series=view.name,
        late=tally.late,
        future=tally.future,
        past=tally.past,
        pending=view.counting.pending,
        open=view.counting.held,
    )
