"""How far a source was read: events counted, events stored, and where a restart goes on."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.core.errors import InputError, StateError
from penstock.engine.source_check import SourceCheck
from penstock.engine.source_health import SourceHealth
from penstock.engine.store import Committed
from penstock.engine.view_run import ViewRun
from penstock.private.sources.base import Batch, Position, Receiver, Source

_PREFIX = "source "
"""Begins the names under which the store keeps the source's own parts."""


class SourceProgress:
    """Counts batches in all views, and knows what the next transaction stores about the source.

    A live stream cannot be read twice, so its open units are stored beside the position. A finite
    input is read again from the last position before which all events are in closed units.
    """

    def __init__(
        self, source: Source, views: Sequence[ViewRun], check: SourceCheck, health: SourceHealth
    ) -> None:
        self.source = source
        self.check = check
        self.health = health
        self.position: Position | None = None
        self.complete = False  # whether all of a finite input was read
        self.parts: dict[str, bytes | None] = {}
        self._views = views
        self._unstored: Batch | None = None
        self._replayed: deque[tuple[Position | None, tuple[int, ...]]] = deque()

    def restore(self, committed: Mapping[str, bytes], positions: Mapping[str, Any]) -> None:
        """Go on from what the store has, and open a source that listens."""
        position = positions.get("source")
        if position is not None and self.source.resumable:
            self.position = position
        self.check.restore(positions.get("check"), self.position)
        if isinstance(self.source, Receiver):
            self.source.open(committed)

    def close(self) -> None:
        """Let a source that listens stop."""
        if isinstance(self.source, Receiver):
            self.source.close()

    def count_live(self, batch: Batch, now: int) -> None:
        """Count a batch of a live stream."""
        self._count(batch, now)
        if batch.position is not None:
            self.position = batch.position
        self.parts |= {_PREFIX + name: content for name, content in batch.parts.items()}
        self._unstored = batch

    def count_replayed(self, batch: Batch, now: int) -> None:
        """Count a batch of a finite input."""
        self._replayed.append((batch.position, self._count(batch, now)))

    def _count(self, batch: Batch, now: int) -> tuple[int, ...]:
        """Count a batch in every view; return the last unit that it reaches in each.

        An error is final: some views may have counted the batch, and others not.
        """
        before = self._outside()
        try:
            reached = tuple(view.counting.take(batch, now) for view in self._views)
        except InputError as error:
            raise StateError(
                f"{error} The batch cannot be counted, and nothing of it was stored."
            ) from None
        self.health.taken += len(batch)
        self.check.note(batch, self._outside() - before)
        return reached

    def counted_elsewhere(self, taken: int, outside: int) -> None:
        """Note rows that a counter has read itself, before a unit of them is released.

        Parameters
        ----------
        taken : int
            The rows that could be taken.
        outside : int
            How many of them lie before unit 1 or in the future.
        """
        self.health.taken += taken
        self.check.note_rows(self.source.part(self.position), taken, outside)

    def _outside(self) -> int:
        """Events so far from before unit 1 or from the future. All views have the same."""
        tally = self._views[0].counting.units.tally
        return tally.past + tally.future

    def positions_to_store(self) -> dict[str, Any]:
        """Where to read on from after a restart, once the drawn units are committed, and which
        rows of the source have passed the check.
        """
        return {"source": self._position_to_store(), "check": self.check.record()}

    def _position_to_store(self) -> Position | None:
        closed = [view.prepared.unit if view.prepared else view.closed for view in self._views]
        while self._replayed and all(
            last <= unit for last, unit in zip(self._replayed[0][1], closed, strict=True)
        ):
            self.position = self._replayed.popleft()[0]
        return self.position

    def stored(self) -> None:
        """Note that a transaction succeeded, and answer the senders that wait for it."""
        batch, self._unstored, self.parts = self._unstored, None, {}
        if batch is not None and isinstance(self.source, Receiver):
            self.source.kept(batch)

    @property
    def sender_waits(self) -> bool:
        """Whether somebody waits to hear that the newest batch is stored."""
        return (
            self._unstored is not None and isinstance(self.source, Receiver) and self.source.answers
        )

    @property
    def pending(self) -> int:
        """Events that are read and not stored, in the view with most of them. Private."""
        return max(view.counting.pending for view in self._views)

    @property
    def share(self) -> float:
        """The share of a finite input that was read, from 0 to 1. Other threads may ask."""
        if self.complete:
            return 1.0
        try:
            position = self._replayed[-1][0]
        except IndexError:
            position = self.position
        return 0.0 if position is None else self.source.progress(position)


def source_parts(committed: Committed) -> dict[str, bytes]:
    """Return the parts that a source has stored with its batches."""
    return {
        name.removeprefix(_PREFIX): committed.private[name]
        for name in committed.private
        if name.startswith(_PREFIX)
    }
