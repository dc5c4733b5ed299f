"""Live updates: server-sent events that carry the number of each new unit and its link."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import msgspec
from fastapi import Response
from starlette.concurrency import run_in_threadpool

from penstock.core.connections import LIVE_SCOPE
from penstock.engine.chain import Head
from penstock.service.api_errors import ApiError
from penstock.service.streams import ServedStream, ServedStreams

COMMENT_SECONDS = 15.0
"""How often a comment shows that the connection lives."""

COMMENT = b": still here\n\n"

RETRY_MILLISECONDS = 2000
"""After how long a reader comes back whose connection was lost."""

MAX_UNITS_RESUMED = 10_000
"""How many units a reader gets at most that it has missed. The releases have the others."""

MAX_READERS = 1000
"""How many readers may follow at the same time."""

UNITS_PER_WRITE = 500

SECONDS_PER_WRITE = 10.0
"""How long a reader may take to read a write, before it is dropped."""


class LiveHub:
    """Wakes the readers of each stream when it has a new unit.

    Parameters
    ----------
    streams : ServedStreams
        The streams.
    """

    def __init__(self, streams: ServedStreams) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._readers: dict[str, set[asyncio.Event]] = {}
        self.closed = False
        streams.listen(self.announce)

    @property
    def readers(self) -> int:
        """How many readers follow now."""
        return sum(map(len, self._readers.values()))

    def begin(self) -> None:
        """Note the loop in which readers are served. It is called in that loop."""
        self._loop = asyncio.get_running_loop()

    def announce(self, name: str, head: Head) -> None:
        """Wake the readers of a stream, from any thread.

        Parameters
        ----------
        name : str
            The stream.
        head : Head
            Its newest unit.
        """
        self._call(self._wake, name)

    def close(self) -> None:
        """End all answers, from any thread."""
        self.closed = True
        self._call(self._wake, None)

    def _call(self, function: Any, name: str | None) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(function, name)

    def _wake(self, name: str | None) -> None:
        for each in list(self._readers) if name is None else [name]:
            for event in self._readers.get(each, ()):
                event.set()

    def join(self, name: str) -> asyncio.Event:
        """Take in a reader of a stream. Too many readers are an `ApiError`."""
        if self.readers >= MAX_READERS:
            raise ApiError(429, "too many readers follow now. Try again later.", retry_after=30)
        event = asyncio.Event()
        self._readers.setdefault(name, set()).add(event)
        return event

    def leave(self, name: str, event: asyncio.Event) -> None:
        """Forget a reader."""
        self._readers.get(name, set()).discard(event)


class LiveEvents(Response):
    """The answer of a live request. It lasts until the reader or the server goes.

    Parameters
    ----------
    hub : LiveHub
        Wakes this reader.
    stream : ServedStream
        The stream.
    seen : int, optional
        The newest unit that the reader has. Default: none; then the first event is the newest unit.
    """

    media_type = "text/event-stream"

    def __init__(self, hub: LiveHub, stream: ServedStream, seen: int | None) -> None:
        self._hub, self._stream = hub, stream
        self._seen = max(stream.head.unit - 1, 0) if seen is None else seen
        self._event = hub.join(stream.name)
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send events until the reader goes, or is too slow."""
        scope[LIVE_SCOPE] = True
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            async for chunk in self._chunks(gone):
                body = {"type": "http.response.body", "body": chunk, "more_body": True}
                await asyncio.wait_for(send(body), SECONDS_PER_WRITE)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (TimeoutError, OSError):
            raise ConnectionAbortedError from None  # the server closes the connection
        finally:
            self._hub.leave(self._stream.name, self._event)
            gone.cancel()

    async def _chunks(self, gone: asyncio.Future[Any]) -> AsyncIterator[bytes]:
        yield f"retry: {RETRY_MILLISECONDS}\n\n".encode()
        seen, told = self._seen, False
        seen = max(seen, self._stream.head.unit - MAX_UNITS_RESUMED)
        while not (gone.done() or self._hub.closed):
            self._event.clear()
            newest = self._stream.head.unit
            if newest < seen and not told:
                yield _event("older", self._stream.head)
            told = newest < seen
            while seen < newest:
                last = min(newest, seen + UNITS_PER_WRITE)
                heads = await self._heads(seen + 1, last)
                yield b"".join(_event("unit", each) for each in heads)
                seen = last
            waiting: asyncio.Future[Any] = asyncio.ensure_future(self._event.wait())
            await asyncio.wait(
                {waiting, gone}, timeout=COMMENT_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            if not waiting.done():
                waiting.cancel()
                if not gone.done():
                    yield COMMENT

    async def _heads(self, first: int, last: int) -> list[Head]:
        known = self._stream.known_heads(first, last)
        if known is not None:
            return known
        return await run_in_threadpool(self._stream.heads, first, last)


async def _disconnected(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _event(kind: str, head: Head) -> bytes:
    data = msgspec.json.encode({"unit": head.unit, "link": head.link.hex()})
    number = b"" if kind == "older" else b"id: %d\n" % head.unit
    return b"%bevent: %b\ndata: %b\n\n" % (number, kind.encode(), data)
