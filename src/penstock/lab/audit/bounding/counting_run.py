"""A stream of events through the shipped source, units and bounding, with restarts.

The order of calls is that of the publisher: read all that is there, ask the clock, draw the units
that are due, store everything in one transaction. A restart makes all objects anew from what was
stored.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.core.calendar import Calendar
from penstock.core.errors import PenstockError
from penstock.lab.audit.bounding.feeds import EventFeed, FeedMaker
from penstock.lab.audit.bounding.naive_counts import Counts
from penstock.lab.audit.bounding.streams import (
    ORIGIN,
    ClockStep,
    EventCase,
    Random,
    StreamSetting,
    ViewSetting,
)
from penstock.private import counting as shipped
from penstock.private.counting import Counting
from penstock.private.sources.base import Batch, Position
from penstock.private.units import ReplayClock, Units

MAX_RESTARTS = 6
"""The most restarts of one run."""


class RestartError(Exception):
    """A unit that was drawn before a crash has other counts after it."""


@dataclass(frozen=True)
class CountedStream:
    """The result of a run: counts by view and unit, how it failed, and the restarts."""

    counts: tuple[Counts, ...]
    failure: str = ""
    """The error of the run, with its text. Empty if it went well."""
    foreseen: bool = False
    """Whether the error is one of Penstock's own, which refuse an input."""
    restarts: int = 0


def counted(
    case: EventCase, maker: FeedMaker, folder: Path, rng: Random, *, restarts: bool = False
) -> CountedStream:
    """Count a stream with the shipped classes.

    Parameters
    ----------
    case : EventCase
        The stream and how it is counted.
    maker : callable
        Makes the source.
    folder : Path
        An empty folder for the source's files.
    rng : Generator
        Chooses how rows are written and where a run is stored and killed.
    restarts : bool
        Whether the run is killed and goes on from what was stored. Default: False.
    """
    with _limits(case.setting):
        run = _CountingRun(case.setting, maker(case.setting, folder, rng), rng, restarts=restarts)
        failure, foreseen = "", False
        try:
            if case.setting.finite:
                run.replay(case.steps[0])
            else:
                run.follow(case.steps)
        except Exception as error:  # whatever the audited code raises is a finding
            failure = f"{type(error).__name__}: {error}".replace(str(folder.absolute()), "FOLDER")
            foreseen = isinstance(error, PenstockError)
        finally:
            run.end()
        return CountedStream(tuple(run.drawn), failure, foreseen, run.restarted)


@contextmanager
def _limits(setting: StreamSetting) -> Iterator[None]:
    """Use whole units or plain loops where the setting says so; shipped limits afterwards."""
    changed: Any = shipped
    bounding, most = changed.Bounding, changed.MAX_SINGLE_EVENTS
    if setting.fast is not None:
        changed.Bounding = functools.partial(bounding, fast=setting.fast)
    if setting.whole_units:
        changed.MAX_SINGLE_EVENTS = 0
    try:
        yield
    finally:
        changed.Bounding, changed.MAX_SINGLE_EVENTS = bounding, most


@dataclass
class _Stored:
    """What a store would have: parts of each view, those of the source, and its position."""

    views: list[dict[str, bytes]]
    source: dict[str, bytes] = field(default_factory=dict)
    position: Position | None = None


@dataclass
class _CountingRun:
    """All views of one stream."""

    setting: StreamSetting
    feed: EventFeed
    rng: Random
    _: Any = field(default=None, repr=False)
    restarts: bool = False
    restarted: int = 0
    drawn: list[Counts] = field(init=False)

    def __post_init__(self) -> None:
        views = self.setting.views
        self.drawn = [{} for _ in views]
        self._foretold: list[Counts] = [{} for _ in views]
        self._stored = _Stored([{} for _ in views])
        self._position: Position | None = None
        self._fresh: dict[str, bytes | None] = {}
        self._unkept: list[Batch] = []
        self._views = [self._counting(view) for view in views]

    # -- live --------------------------------------------------------------------------------------

    def follow(self, steps: tuple[ClockStep, ...]) -> None:
        """Count a stream that goes on, step by step."""
        for step in steps:
            self.feed.put(step.rows)
            while not self._read_live(step.now):
                pass
            while self._close(step.now):
                pass
            if self.restarts:  # events that are read again are sorted by the clock of that time
                self._save()

    def _read_live(self, now: int) -> bool:
        """Take all that is there; return False if the run was killed on the way."""
        for batch in self.feed.batches(self._position):
            for view in self._views:
                view.take(batch, now)
            if batch.position is not None:
                self._position = batch.position
            self._fresh |= batch.parts
            self._unkept.append(batch)
            if self.feed.answers or (batch.position is not None and self._chance(0.3)):
                self._save()
            if self._chance(0.1):
                self._restart()
                return False
        return True

    # -- finite ------------------------------------------------------------------------------------

    def replay(self, step: ClockStep) -> None:
        """Count an input that has an end."""
        self.feed.put(step.rows)
        while not self._read_finite(step.now):
            pass

    def _read_finite(self, end: int) -> bool:
        clock = ReplayClock(end)
        waiting: deque[tuple[Position | None, list[int]]] = deque()
        for batch in self.feed.batches(self._stored.position):
            waiting.append((batch.position, [view.take(batch, end) for view in self._views]))
            if batch.certain is not None:
                clock.beat(min(batch.certain, end))
                while self._close(clock.now(), waiting):
                    pass
            if self._chance(0.1):
                self._restart()
                return False
        clock.finish()
        while self._close(clock.now(), waiting):
            if self._chance(0.1):
                self._restart()
                return False
        return True

    # -- both --------------------------------------------------------------------------------------

    def _close(
        self, now: int, waiting: deque[tuple[Position | None, list[int]]] | None = None
    ) -> bool:
        """Draw the next unit of every view that has one due, and store it. Whether one was due."""
        due = [next(iter(view.due(now)), None) for view in self._views]
        if not any(due):
            return False
        for place, unit in enumerate(due):
            if unit is None:
                continue
            counts = tuple(self._views[place].counts(unit).tolist())
            if self._foretold[place].setdefault(unit, counts) != counts:
                raise RestartError(f"unit {unit} has other counts when it is drawn again")
        if not self.setting.finite and self._chance(0.1):
            self._restart()
            while not self._read_live(now):
                pass
            return True
        if waiting is not None:
            self._move_on(due, waiting)
        self._save(due)
        for place, unit in enumerate(due):
            if unit is not None:
                self.drawn[place][unit] = self._foretold[place][unit]
                self._views[place].close(unit)
        return True

    def _move_on(
        self, due: list[int | None], waiting: deque[tuple[Position | None, list[int]]]
    ) -> None:
        """Move the position of a finite input past batches whose units are all closed."""
        closed = [
            view.units.closed if unit is None else unit
            for view, unit in zip(self._views, due, strict=True)
        ]
        while waiting and all(
            last <= unit for last, unit in zip(waiting[0][1], closed, strict=True)
        ):
            self._position = waiting.popleft()[0]

    def _save(self, closing: list[int | None] | None = None) -> None:
        """Store all that changed, as one transaction."""
        for place, view in enumerate(self._views):
            changes = view.changes(closing=None if closing is None else closing[place])
            _apply(self._stored.views[place], changes)
        _apply(self._stored.source, self._fresh)
        self._stored.position = self._position
        for view in self._views:
            view.settled()
        for batch in self._unkept:
            self.feed.kept(batch)
        self._unkept, self._fresh = [], {}

    def _restart(self) -> None:
        """Make everything anew from what was stored."""
        self.restarted += 1
        self.end()
        self._views = [self._counting(view) for view in self.setting.views]
        for view, parts in zip(self._views, self._stored.views, strict=True):
            if parts:
                view.restore(dict(parts))
        self._position, self._fresh, self._unkept = self._stored.position, {}, []
        self.feed.restart(self._stored.source)

    def end(self) -> None:
        """Close the files of units that wait, as the end of a process does."""
        for view in self._views:
            for unit in view._open.values():
                if unit.file is not None:
                    unit.file._file.close()

    def _chance(self, share: float) -> bool:
        """Whether something happens here, in runs with restarts."""
        return self.restarts and self.restarted < MAX_RESTARTS and float(self.rng.random()) < share

    def _counting(self, view: ViewSetting) -> Counting:
        setting = self.setting
        units = Units(
            _calendar(view.every, view.zone),
            lateness=f"{setting.lateness}s",
            late=setting.late,
            tolerance=f"{setting.tolerance}s",
        )
        return Counting(
            units,
            keys=len(setting.keys),
            contribution=view.contribution,
            finite=setting.finite,
            rows=setting.held,
        )


@functools.cache
def _calendar(every: str, zone: str) -> Calendar:
    return Calendar(every=every, zone=zone, origin=ORIGIN.isoformat())


def _apply(parts: dict[str, bytes], changes: dict[str, bytes | None]) -> None:
    """Write changes to a store: a name without content is deleted."""
    for name, content in changes.items():
        if content is None:
            parts.pop(name, None)
        else:
            parts[name] = content
