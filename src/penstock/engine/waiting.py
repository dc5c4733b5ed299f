"""Time and threads of a publisher, waits that a stop ends, and pauses between retries."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Runtime:
    """The time that passes and the threads that work, as the system gives them.

    All parts of a publisher ask one runtime, so that a simulation can give another.
    """

    def monotonic(self) -> float:
        """Return the seconds of a clock that nobody sets."""
        return time.monotonic()

    def elapsed(self) -> float:
        """Return the same, with the time in which the machine slept, where the system can tell."""
        if hasattr(time, "CLOCK_BOOTTIME"):
            return time.clock_gettime(time.CLOCK_BOOTTIME)
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Let this much time pass."""
        time.sleep(seconds)

    def event(self) -> threading.Event:
        """Return a new event that threads of this runtime can wait for."""
        return threading.Event()

    def thread(self, work: Callable[[], None], *, name: str) -> threading.Thread:
        """Return a new thread, which is not started. It does not keep the process alive."""
        return threading.Thread(target=work, name=name, daemon=True)


class StopFlag:
    """Whether the publisher was asked to stop.

    A signal handler may set it while its own thread waits for it. There is no lock in it, because
    the handler would wait for that lock for ever.
    """

    def __init__(self, runtime: Runtime | None = None) -> None:
        self.runtime = runtime or Runtime()
        self._flag = False

    def set(self) -> None:
        self._flag = True

    def is_set(self) -> bool:
        return self._flag

    def wait(self, seconds: float) -> bool:
        """Wait until the flag is set, at most this long; return whether it is set."""
        deadline = self.runtime.monotonic() + seconds
        while not self._flag and (left := deadline - self.runtime.monotonic()) > 0:
            self.runtime.sleep(min(left, 0.05))
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
