"""A blocking source, read by its own thread, so that the clock goes on while nothing comes."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from penstock.core.errors import PenstockError, StateError
from penstock.private.sources.base import Batch, Position, Receiver, Rejections, Source

MAX_WAITING_BATCHES = 8
"""The most batches that wait to be taken; then reading pauses."""


class _Read(NamedTuple):
    """A batch, an error or the end, and the rejections of the rows before it."""

    found: Batch | PenstockError | None
    rejections: Rejections


class PrefetchSource(Receiver):
    """Standard input, or another source that can be read once and blocks until something comes.

    It cannot resume: events that were read and not kept are gone after a crash.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self.rejections = Rejections()
        self._batches: queue.Queue[_Read] = queue.Queue(MAX_WAITING_BATCHES)
        self._next: _Read | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._work, name="source", daemon=True)
        self._ended = False

    @property
    def resumable(self) -> bool:
        return True

    @property
    def ended(self) -> bool:
        return self._ended

    def open(self, parts: Mapping[str, bytes]) -> None:
        """Start reading."""
        self._thread.start()

    def batches(self, after: Position | None = None) -> Iterator[Batch]:
        """The batches that have come so far."""
        while not self._ended:
            if self._next is None:
                try:
                    self._next = self._batches.get_nowait()
                except queue.Empty:
                    return
            (found, rejections), self._next = self._next, None
            self.rejections.add_all(rejections)
            if isinstance(found, PenstockError):
                self._ended = True
                raise found
            if found is None:
                self._ended = True
                return
            yield replace(found, position=None)

    def wait(self, seconds: float) -> None:
        """Wait until something has come, at most `seconds`."""
        if self._ended:
            self._closed.wait(seconds)
        elif self._next is None:
            try:
                self._next = self._batches.get(timeout=seconds)
            except queue.Empty:
                return

    def close(self) -> None:
        """Stop. A thread that still waits for input ends with the process."""
        self._closed.set()

    def _work(self) -> None:
        try:
            for batch in self._source.batches():
                read = self._with_rejections(batch)
                while not self._closed.is_set():
                    try:
                        self._batches.put(read, timeout=0.5)
                        break
                    except queue.Full:
                        continue
                if self._closed.is_set():
                    return
            self._batches.put(self._with_rejections(None))
        except PenstockError as error:
            self._batches.put(self._with_rejections(error))
        except Exception:
            failure = StateError("standard input cannot be read any more.")
            self._batches.put(self._with_rejections(failure))
            raise

    def _with_rejections(self, found: Batch | PenstockError | None) -> _Read:
        """Take the rejections since the last batch, so that they count together with this one."""
        return _Read(found, self._source.rejections.take())
