"""A deadline for a whole exchange over a connection, however slowly the other side answers.

The timeout of a socket is for one wait: a receiver that sends a byte now and then keeps a request
open for ever. A `ConnectionDeadline` shuts the connection down from another thread instead.
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from typing import Self


class ConnectionDeadline:
    """Shuts a connection down when its time is over, or when `abort` is called.

    Use it as a context, and give it the connection with `watch` as soon as there is one. Whoever
    reads from the connection then gets an error or its end, and asks `over`.
    """

    def __init__(self, seconds: float) -> None:
        self.over = False
        self._lock = threading.Lock()
        self._watched: socket.socket | None = None
        self._seconds = seconds
        self._timer = self._new_timer()

    def _new_timer(self) -> threading.Timer:
        timer = threading.Timer(self._seconds, self.abort)
        timer.daemon = True
        return timer

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            self._let_go()

    def watch(self, descriptor: int) -> None:
        """Watch the connection with this file descriptor, instead of any before."""
        with self._lock:
            self._let_go()
            self._watched = socket.socket(fileno=os.dup(descriptor))
            if self.over:
                self._shut_down()

    def renew(self) -> None:
        """Begin the time anew, for the next of several exchanges."""
        self._timer.cancel()
        self._timer = self._new_timer()
        self._timer.start()

    def abort(self) -> None:
        """End the exchange now. Any thread may call it."""
        with self._lock:
            self.over = True
            self._shut_down()

    def _shut_down(self) -> None:
        if self._watched is not None:
            with suppress(OSError):  # the other side was faster
                self._watched.shutdown(socket.SHUT_RDWR)

    def _let_go(self) -> None:
        if self._watched is not None:
            self._watched.close()
            self._watched = None
