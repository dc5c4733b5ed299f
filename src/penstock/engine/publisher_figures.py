"""The figures of a running publisher: public ones for anybody, private ones for its operator.

Public figures follow from the configuration, the clock and the committed units: every reader of the
releases could compute them. The state of the source is the one exception: see `source_health`. They
hold nothing of a unit that is drawn and not committed, because after a crash that unit is drawn
again. The number of events, the time that work takes and the text of problems are private. Their
types do not print.
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
from penstock.engine.source_health import SourceState
from penstock.engine.view_run import ViewRun

ON_TIME_SECONDS = 60
"""How long a unit may be overdue while its stream still counts as on time."""


@dataclass(frozen=True, kw_only=True)
class SinkFigures:
    """Whether a sink takes releases, and how many units it lacks (None while that is unknown)."""

    name: str
    up: bool
    behind: int | None


@dataclass(frozen=True, kw_only=True)
class SeriesFigures:
    """One view: its newest release and the cost of its newest window.

    Attributes
    ----------
    behind : int, optional
        Units that the clock has closed and that are not released; None for a finite input.
    overdue : int, optional
        Seconds since the first of them should have been released; None for a finite input.
    currency : str
        "epsilon", or "rho" where the promise has a delta.
    cost, most : Fraction
        The cost of the newest window, and the limit of every window.
    fresh : float, optional
        The share of the newest release that does not repeat an earlier one.
    private : bool, optional
        False if the noise was a test's; None before the first release.
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
    """One stream: its promise, its views and its sinks. `lease`: this process may publish it."""

    stream: str
    state: State
    finite: bool
    on_time: bool
    source: SourceState
    lease: bool
    epsilon: Fraction
    delta: Fraction
    window: int
    promise: str
    series: tuple[SeriesFigures, ...]
    sinks: tuple[SinkFigures, ...]


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The public figures of some publishers."""

    version: str
    streams: tuple[StreamFigures, ...]

    @property
    def on_time(self) -> bool:
        """Whether all streams are on time."""
        return all(stream.on_time for stream in self.streams)


@dataclass(frozen=True, kw_only=True, repr=False)
class _Unprinted:
    """Private figures. They never print."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(private)"


@dataclass(frozen=True, kw_only=True, repr=False)
class PrivateSeries(_Unprinted):
    """One view: how many events were late, from the future, or from before unit 1.

    `pending`: events that a restart would read again. `open`: events of each open unit, before
    bounding.
    """

    series: str
    late: int
    future: int
    past: int
    pending: int
    open: Mapping[int, int]


@dataclass(frozen=True, kw_only=True, repr=False)
class PrivateStream(_Unprinted):
    """One stream: rejected rows by reason, problems in words, and the seconds of recent commits.

    `connections`: what went wrong with connections of senders, as in `ConnectionTally`.
    `taken`: rows that were read since the start and not rejected. `check_pending`: the check of a
    sample of rows is not over.
    """

    stream: str
    taken: int
    rejections: Mapping[str, int]
    connections: Mapping[str, int]
    check_pending: bool
    problem: str
    sinks: Mapping[str, str]
    commits: tuple[float, ...]
    series: tuple[PrivateSeries, ...] = field(default=())


def public(publishers: Iterable[Publisher]) -> Figures:
    """Return the public figures now. This asks neither store nor sinks, and waits for nobody."""
    return Figures(
        version=penstock.__version__, streams=tuple(_stream(each) for each in publishers)
    )


def private(publishers: Iterable[Publisher]) -> tuple[PrivateStream, ...]:
    """Return the private figures, for the operator only."""
    return tuple(_private(each) for each in publishers)


def save(publisher: Publisher, path: Path) -> None:
    """Write the private figures into a file that only its owner can read."""
    content = json.dumps(plain(_private(publisher)), indent=2).encode()
    try:
        write_file(path, content, mode=0o600, durable=False)
    except OSError as error:
        raise StateError(
            f"the file {path.name!r} for private figures cannot be written: {error.strerror}."
        ) from None


def plain(figures: Any) -> Any:
    """Return figures as JSON can write them: exact amounts and times as text.

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
    late = any(each.overdue is not None and each.overdue > ON_TIME_SECONDS for each in series)
    promise = pipeline.guarantee
    return StreamFigures(
        stream=pipeline.stream.name,
        state=state,
        finite=publisher.finite,
        on_time=not late and (state == "publishing" or (publisher.finite and state == "ended")),
        source=publisher.progress.health.state,
        lease=publisher.committer.leases.held,
        epsilon=promise.epsilon,
        delta=promise.delta,
        window=promise.window,
        promise=publisher.views[0].series.stream_promise,
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
        taken=publisher.progress.health.taken,
        rejections=publisher.source.rejections.for_operator(),
        connections=publisher.source.connection_counts,
        check_pending=publisher.progress.check.pending,
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
