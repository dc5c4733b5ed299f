"""Waits that a stop ends, and pauses between retries."""

from __future__ import annotations

import time


class StopFlag:
    """Whether the publisher was asked to stop.

    A signal handler may set it while its own thread waits for it. There is no lock in it, because
    the handler would wait for that lock for ever.
    """

    def __init__(self) -> None:
        self._flag = False

    def set(self) -> None:
        self._flag = True

    def is_set(self) -> bool:
        return self._flag

    def wait(self, seconds: float) -> bool:
        """Wait until the flag is set, at most this long; return whether it is set."""
        deadline = time.monotonic() + seconds
        while not self._flag and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, 0.05))
        return self._flag


class Backoff:
    """Pauses between retries: each is twice as long as the one before, up to a limit.

    >>> backoff = Backoff(0.5, 1.5)
    >>> [backoff.next_pause() for _ in range(3)]
    [0.5, 1.0, 1.5]
    """

    def __init__(self, first: float, longest: float) -> None:
        self._first = self._next = first
        self._longest = longest

    def next_pause(self) -> float:
        """Return the seconds to wait before the next retry."""
        pause, self._next = self._next, min(2 * self._next, self._longest)
        return pause

    def reset(self) -> None:
        """Begin with the shortest pause again, after a success."""
        self._next = self._first
