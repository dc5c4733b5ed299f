"""Live events of a service: the newest unit of a stream, as soon as it is released."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from threading import Event
from typing import Any, Final

from penstock.client.service_connection import ServiceConnection
from penstock.core.errors import StateError, StoreUnavailableError
from penstock.engine.chain import SIZE, Head

FIRST_WAIT: Final = 2.0
"""Seconds before the first new attempt, unless the service says otherwise."""

MAX_WAIT: Final = 30.0
"""The most seconds between two attempts."""


@dataclass(frozen=True)
class ServerEvent:
    """One server-sent event.

    Parameters
    ----------
    kind : str
        The name of the event.
    data : str
        Its content.
    retry : int, optional
        After how many milliseconds to connect again. Default: None, it does not say.
    """

    kind: str
    data: str
    retry: int | None = None


def server_events(lines: Iterable[bytes]) -> Iterator[ServerEvent]:
    """The events in the lines of a stream of server-sent events. Comments are left out.

    Parameters
    ----------
    lines : iterable of bytes
        The lines, each with its end.

    Examples
    --------
    >>> list(server_events([b"retry: 50\\n", b"\\n", b": still here\\n", b"\\n"]))
    [ServerEvent(kind='', data='', retry=50)]
    >>> list(server_events([b"event: unit\\n", b'data: {"unit": 7}\\n', b"\\n"]))
    [ServerEvent(kind='unit', data='{"unit": 7}', retry=None)]
    """
    kind, data, retry = "", list[str](), None
    for line in lines:
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if not text:
            if kind or data or retry is not None:
                yield ServerEvent(kind, "\n".join(data), retry)
            kind, data, retry = "", [], None
            continue
        name, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            kind = value
        elif name == "data":
            data.append(value)
        elif name == "retry" and value.isascii() and value.isdigit():
            retry = int(value)


def live_heads(
    connection: ServiceConnection, series: str, *, after: int, closed: Event
) -> Iterator[Head]:
    """The head of a stream whenever it has moved. A lost connection is opened again.

    A service whose newest unit is older than one that was seen is a `StateError`: it was restored
    from an old backup, or is another one.

    Parameters
    ----------
    connection : ServiceConnection
        The service.
    series : str
        The name of the series.
    after : int
        The newest unit that is known.
    closed : threading.Event
        Ends the iteration when it is set.
    """
    newest, wait, failures = after, FIRST_WAIT, 0
    while not closed.is_set():
        headers = {
            "Accept": "text/event-stream",
            "Cache-Control": "no-store",
            "Last-Event-ID": str(newest),
        }
        try:
            with connection.lines("streams", series, "live", headers=headers) as lines:
                for event in server_events(lines):
                    if event.retry is not None:
                        wait = min(max(event.retry / 1000, 0.01), MAX_WAIT)
                    if event.kind == "older":
                        raise StateError(
                            f"{connection.url} has an older history of {series!r} than the one "
                            f"that was followed up to unit {newest}: it was restored from a "
                            "backup, or is another service. Nothing newer is taken from it."
                        )
                    if event.kind == "unit":
                        failures = 0
                        head = _head(event.data, connection.url)
                        if head.unit > newest:
                            newest = head.unit
                            yield head
        except StoreUnavailableError:
            failures += 1
        closed.wait(min(wait * 2 ** min(failures, 10), MAX_WAIT) if failures else wait)


def _head(data: str, url: str) -> Head:
    try:
        found: dict[str, Any] = json.loads(data)
        return head_of(found)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise StateError(f"{url} sends live events that cannot be read.") from None


def head_of(found: dict[str, Any]) -> Head:
    """A head from `unit`, `link` and `signature`; a `ValueError` or the like if it is none.

    Parameters
    ----------
    found : dict
        The object of an answer or of an event.
    """
    unit, link, signature = found["unit"], found["link"], found.get("signature")
    head = Head(unit, bytes.fromhex(link), bytes.fromhex(signature) if signature else None)
    if isinstance(unit, bool) or not isinstance(unit, int) or unit < 0 or len(head.link) != SIZE:
        raise ValueError("no head")
    return head
