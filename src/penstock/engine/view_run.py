"""One view at work: its open units, its mechanism's run, and the unit that it commits next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.budget.grid import Budget, promised
from penstock.budget.ledger import Line
from penstock.core.calendar import duration
from penstock.core.errors import StateError
from penstock.core.released import Released
from penstock.engine.pipeline import Pipeline, View
from penstock.engine.store import Committed, Store
from penstock.private.counting import Counted
from penstock.private.noise import Noise
from penstock.private.state import PiecewiseSnapshot
from penstock.private.units import Units
from penstock.released.series import Series


@dataclass(frozen=True, kw_only=True, repr=False)
class PreparedUnit:
    """A unit that is drawn and not stored. It is stored as it is, or nobody ever sees it."""

    unit: int
    lines: tuple[Line, ...]
    release: Released
    state: PiecewiseSnapshot


@dataclass(frozen=True, kw_only=True)
class CommittedView:
    """The newest release that is shown, and the cost of the window that ends with it: public.

    The run is ahead of this while a drawn unit waits. Nobody may see that unit.
    """

    release: Released | None
    cost: Budget

    @property
    def unit(self) -> int:
        """The newest unit that is shown; 0 before the first."""
        return 0 if self.release is None else self.release.unit


class ViewRun:
    """Counts events in the open units of a view, draws each due unit once, and writes it.

    Parameters
    ----------
    pipeline : Pipeline
        The configuration.
    view : View
        The view of it.
    finite : bool
        Whether the input has an end.
    noise : Noise or None
        The noise of the view; None for secure noise.
    counter : callable
        Makes the counter of the view, from its units, the number of keys and the most events of a
        person in a unit.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        view: View,
        *,
        finite: bool,
        noise: Noise | None,
        counter: Callable[[Units, int, int], Counted],
    ) -> None:
        stream = pipeline.stream
        self.view = view
        self.name = pipeline.series(view.name)
        self.run = view.mechanism.run(pipeline.domain(), noise=noise)
        self.series = Series.of(
            self.run, name=self.name, calendar=view.calendar, facts=pipeline.facts()
        )
        self.lateness = 0 if finite else duration(stream.lateness, name="lateness")
        units = Units(
            view.calendar,
            lateness="0s" if finite else stream.lateness,
            late="drop" if finite else stream.late,
            tolerance=stream.tolerance,
        )
        self.counting = counter(units, pipeline.domain().size, view.mechanism.contribution)
        self.prepared: PreparedUnit | None = None
        self.committed = CommittedView(release=None, cost=self.run.cost)

    def __repr__(self) -> str:
        return f"<ViewRun {self.name!r} at unit {self.run.unit}>"

    @property
    def closed(self) -> int:
        """The newest unit that is stored."""
        return self.counting.units.closed

    def closes(self, unit: int) -> int:
        """Return when the clock closes a unit, in microseconds."""
        return self.view.calendar.ends(unit) + self.lateness

    def restore(self, committed: Committed) -> None:
        """Go on from what the store has."""
        if committed.state is not None:
            self.run.load(committed.state, committed.pieces)
            shown = committed.release is not None and committed.release.unit == committed.unit
            # The cost with a unit that waits is not for the public: its limit is told instead.
            cost = self.run.cost if shown else promised(self.run.guarantee)
            self.committed = CommittedView(release=committed.release, cost=cost)
        self.counting.restore(committed.private)

    def prepare(self, unit: int) -> PreparedUnit:
        """Draw a unit that is due. This happens once, whatever becomes of its commit.

        The unit before must be stored: its state is that of the run.
        """
        if self.prepared is not None:
            raise StateError(f"unit {self.prepared.unit} of {self.name!r} is not stored yet.")
        release = self.run.step(self.counting.counts(unit), unit=unit)
        lines = tuple(line for line in self.run.ledger if line.unit == unit)
        self.prepared = PreparedUnit(
            unit=unit, lines=lines, release=release, state=self.run.snapshot_in_pieces()
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
        """Commit the prepared unit if there is one; otherwise store the open units only.

        The caller's transaction makes both final. Then it calls `stored`.
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
            state=ready.state.head,
            pieces=ready.state.pieces,
            positions=positions,
            private=private,
        )

    def stored(self, *, commit: bool) -> None:
        """Note that the transaction succeeded. A unit that it has closed may wait to be shown."""
        ready = self.prepared if commit else None
        self.counting.settled()
        if ready is not None:
            self.counting.close(ready.unit)
            self.prepared = None

    def shown(self) -> int | None:
        """Note that everything stored is shown; return the unit that is new, if any."""
        release = self.run.last
        if release is None or release.unit == self.committed.unit:
            return None
        self.committed = CommittedView(release=release, cost=self.run.cost)
        return release.unit
