"""One view under way: its open units, its mechanism's run, and everything of a unit that commits
together.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.budget.grid import Budget
from penstock.budget.ledger import Line
from penstock.core.calendar import duration
from penstock.core.released import Released
from penstock.engine.pipeline import Pipeline, View
from penstock.engine.store import Committed, Store
from penstock.private.counting import Counting
from penstock.private.noise import Noise
from penstock.private.units import Units
from penstock.released.series import Series


@dataclass(frozen=True, kw_only=True, repr=False)
class PreparedUnit:
    """A unit that is drawn and not committed: it is committed as it stands, or never seen."""

    unit: int
    lines: tuple[Line, ...]
    release: Released
    state: bytes


@dataclass(frozen=True, kw_only=True)
class CommittedView:
    """What is committed, and so public: the newest release, and what the window that ends with it
    has cost.

    The run is ahead of it while a unit is drawn and not committed: nobody may see anything of that.
    """

    release: Released | None
    cost: Budget


class ViewRun:
    """A view: events go into its open units, and each unit that is due is drawn once and committed
    as it was drawn.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        view: View,
        *,
        finite: bool,
        noise: Noise | None,
        folder: Path | None,
    ) -> None:
        stream = pipeline.stream
        self.view = view
        self.name = pipeline.series(view.name)
        self.run = view.mechanism.run(pipeline.domain(), noise=noise)
        self.stream = Series.of(
            self.run, name=self.name, calendar=view.calendar, facts=pipeline.facts()
        )
        self.lateness = 0 if finite else duration(stream.lateness, name="lateness")
        units = Units(
            view.calendar,
            lateness="0s" if finite else stream.lateness,
            late="drop" if finite else stream.late,
            tolerance=stream.tolerance,
        )
        self.counting = Counting(
            units,
            keys=pipeline.domain().size,
            contribution=view.mechanism.contribution,
            finite=finite,
            folder=folder,
        )
        self.prepared: PreparedUnit | None = None
        self.standing = CommittedView(release=None, cost=self.run.cost)

    def __repr__(self) -> str:
        return f"<Track {self.name!r} at unit {self.run.unit}>"

    @property
    def closed(self) -> int:
        """The last unit that was committed."""
        return self.counting.units.closed

    def closes(self, unit: int) -> int:
        """When the clock closes a unit."""
        return self.view.calendar.ends(unit) + self.lateness

    def restore(self, committed: Committed) -> None:
        """Go on from what the store has."""
        if committed.state is not None:
            self.run.load(committed.state)
            self.standing = CommittedView(release=self.run.last, cost=self.run.cost)
        self.counting.restore(committed.private)

    def prepare(self, unit: int) -> PreparedUnit:
        """Draw a unit that is due: once, whatever becomes of its commit."""
        release = self.run.step(self.counting.counts(unit), unit=unit)
        lines = tuple(line for line in self.run.ledger if line.unit == unit)
        self.prepared = PreparedUnit(
            unit=unit, lines=lines, release=release, state=self.run.snapshot()
        )
        return self.prepared

    def write(
        self,
        store: Store,
        positions: dict[str, Any],
        parts: dict[str, bytes | None],
        *,
        commit: bool,
    ) -> None:
        """Commit what is prepared, or else keep what was read of open units; `settled` follows when
        that is on disk.
        """
        ready = self.prepared if commit else None
        private = self.counting.changes(closing=None if ready is None else ready.unit) | parts
        if ready is None:
            store.save(self.name, positions=positions, private=private)
            return
        store.commit(
            self.name,
            ready.unit,
            lines=ready.lines,
            release=ready.release,
            state=ready.state,
            positions=positions,
            private=private,
        )

    def settled(self, *, commit: bool) -> PreparedUnit | None:
        """What was written is on disk; the unit that is closed by it, if any."""
        ready = self.prepared if commit else None
        self.counting.settled()
        if ready is not None:
            self.counting.close(ready.unit)
            self.standing = CommittedView(release=ready.release, cost=self.run.cost)
            self.prepared = None
        return ready
