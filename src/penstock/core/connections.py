"""The connections of one server: how many there may be, from whom, and for how long.

Every connection is in one phase at a time, and every phase has a limit of time. A peer that opens
many connections, or is slow on purpose, loses its own; when there is no room left, connections
that wait for nothing make room first. Counts are kept for the operator. No address, path or
content is kept or logged.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from ipaddress import IPv6Address, ip_address
from typing import Final

CLOSING_SECONDS: Final = 5.0
"""Time for the last bytes of a connection that was closed."""

GRACE_SECONDS: Final = 5.0
"""Time of a body before its transfer rate is looked at."""

NOTICE_SECONDS: Final = 60.0
"""Between two notices about connections."""

IPV6_NETWORK_BYTES: Final = 8
"""One customer or machine has a whole /64 of IPv6 addresses."""

LIVE_SCOPE: Final = "penstock.live"
"""The key in the scope of a request by which an application says that its answer has no end."""

log = logging.getLogger(__name__)


class Phase(Enum):
    """What a connection waits for."""

    OPENING = "a handshake, or the head of a request"
    BODY = "the body of a request"
    ANSWER = "our answer"
    LIVE = "news, for as long as the peer stays"
    REST = "the rest of a body whose request was answered early"
    IDLE = "the next request"
    CLOSING = "the last bytes of a closed connection"


EVICTED_FIRST: Final = (Phase.IDLE, Phase.CLOSING, Phase.REST, Phase.OPENING)
"""Phases in which a connection may be closed to make room, in this order.

A sender in one of the other phases has shown its token or waits for its answer.
"""


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """The limits of one server.

    Parameters
    ----------
    connections : int
        The most connections at the same time.
    per_peer : int
        The most connections of one peer: an IPv4 address, or a /64 network of IPv6.
    spare_files : int
        File descriptors of the process that these connections leave to others.
    head : float
        Seconds for a TLS handshake, and again for the head of each request. Default: 10.
    body : float
        Seconds for the body of a request. Default: 30.
    rate : int
        The fewest bytes per second of a body, on average, after five seconds. Default: 1024.
    answer : float
        Seconds until an answer was written. Default: 60.
    idle : float
        Seconds between two requests. Default: 75.
    """

    connections: int
    per_peer: int
    spare_files: int
    head: float = 10.0
    body: float = 30.0
    rate: int = 1024
    answer: float = 60.0
    idle: float = 75.0

    @property
    def sweep_seconds(self) -> float:
        """How often to look for connections that are over their time."""
        return min(1.0, self.head / 4, self.body / 4, self.answer / 4, self.idle / 4)


@dataclass(eq=False, slots=True)
class PeerConnection:
    """One connection. `overdue` is called when its phase has taken too long."""

    peer: bytes
    transport: asyncio.Transport
    overdue: Callable[[], None]
    since: float
    phase: Phase = Phase.OPENING
    received: int = 0


class ConnectionTally:
    """Counts of what went wrong with connections, and one notice per minute about them.

    - `malformed`: requests that are not HTTP, and TLS handshakes that failed.
    - `slow`: requests that did not come in time.
    - `refused`: connections above the limits.
    - `displaced`: connections that were closed to make room for others.
    - `failed`: errors of our own.

    >>> tally = ConnectionTally("http")
    >>> tally.add("slow")
    >>> tally.for_operator()
    {'slow': 1}
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._counts: Counter[str] = Counter()
        self._told: Counter[str] = Counter()
        self._told_at = float("-inf")

    def add(self, what: str) -> None:
        self._counts[what] += 1

    def for_operator(self) -> Mapping[str, int]:
        """All counts since the start."""
        return dict(sorted(self._counts.items()))

    def tell(self, now: float) -> None:
        """Log what is new, at most once a minute and without saying from whom it came."""
        news = self._counts - self._told
        if news and now - self._told_at >= NOTICE_SECONDS:
            text = ", ".join(f"{count} {what}" for what, count in sorted(news.items()))
            log.warning("%s: requests or connections since the last notice: %s.", self._name, text)
            self._told, self._told_at = self._counts.copy(), now


@dataclass(kw_only=True, eq=False)
class ConnectionTable:
    """All connections of one server. Every method is called in the server's thread."""

    limits: ConnectionLimits
    tally: ConnectionTally
    clock: Callable[[], float] = time.monotonic
    _phases: dict[Phase, dict[PeerConnection, None]] = field(init=False)
    _peers: Counter[bytes] = field(default_factory=Counter, init=False)
    _file_limit: float = field(init=False)

    def __post_init__(self) -> None:
        self._phases = {phase: {} for phase in Phase}
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        spare = min(self.limits.spare_files, files // 4)
        unlimited = files == resource.RLIM_INFINITY
        self._file_limit = float("inf") if unlimited else files - spare

    def __len__(self) -> int:
        return sum(map(len, self._phases.values()))

    def count(self, phase: Phase) -> int:
        """The number of connections in a phase."""
        return len(self._phases[phase])

    def admit(
        self, transport: asyncio.Transport, overdue: Callable[[], None]
    ) -> PeerConnection | None:
        """Take in a connection, or refuse it by None.

        The system gives a new connection the lowest free number among the files of the process. So
        the number shows how many files are open, whoever opened them.
        """
        peer = peer_of(transport)
        if self._peers[peer] >= self.limits.per_peer and not self._evict(peer):
            self.tally.add("refused")
            return None
        full = len(self) >= self.limits.connections
        full |= transport.get_extra_info("socket").fileno() >= self._file_limit
        if full and not self._evict(None):
            self.tally.add("refused")
            return None
        connection = PeerConnection(peer, transport, overdue, self.clock())
        self._peers[peer] += 1
        self._phases[connection.phase][connection] = None
        return connection

    def enter(self, connection: PeerConnection, phase: Phase) -> None:
        """Note a new phase. Its time begins now; the rest of a body is part of the body's time."""
        if self.holds(connection):
            del self._phases[connection.phase][connection]
            if (connection.phase, phase) != (Phase.BODY, Phase.REST):
                connection.since, connection.received = self.clock(), 0
            connection.phase = phase
            self._phases[phase][connection] = None

    def holds(self, connection: PeerConnection) -> bool:
        """Whether a connection was admitted and has not left."""
        return connection in self._phases[connection.phase]

    def leave(self, connection: PeerConnection) -> None:
        """Forget a connection; it may have left before."""
        if self.holds(connection):
            del self._phases[connection.phase][connection]
            self._peers[connection.peer] -= 1
            if not self._peers[connection.peer]:
                del self._peers[connection.peer]

    def end(self, connection: PeerConnection) -> None:
        """Forget a connection and close it at once."""
        self.leave(connection)
        connection.transport.abort()

    def sweep(self) -> None:
        """End all connections that are over their time, and tell what has happened."""
        now = self.clock()
        for connections in self._phases.values():
            for connection in list(connections):
                if self._is_overdue(connection, now):
                    connection.overdue()
        self.tally.tell(now)

    def abort(self, *phases: Phase) -> None:
        """End all connections in these phases at once."""
        for phase in phases:
            for connection in list(self._phases[phase]):
                self.end(connection)

    def _is_overdue(self, connection: PeerConnection, now: float) -> bool:
        limits, spent = self.limits, now - connection.since
        match connection.phase:
            case Phase.OPENING:
                return spent >= limits.head
            case Phase.BODY | Phase.REST:
                slow = spent > GRACE_SECONDS and connection.received < limits.rate * spent
                return slow or spent >= limits.body
            case Phase.ANSWER:
                return spent >= limits.answer
            case Phase.LIVE:
                return True  # has no limit of time; only asked whether it is closing
            case Phase.IDLE:
                return spent >= limits.idle
            case Phase.CLOSING:
                return spent >= CLOSING_SECONDS

    def _evict(self, peer: bytes | None) -> bool:
        """Close the connection that has waited longest for nothing, of this peer or of all."""
        for phase in EVICTED_FIRST:
            for connection in self._phases[phase]:
                if peer is None or connection.peer == peer:
                    self.tally.add("displaced")
                    self.end(connection)
                    return True
        return False


def peer_of(transport: asyncio.Transport) -> bytes:
    """Whom a connection belongs to: an IPv4 address, or a /64 network of IPv6."""
    host = str(transport.get_extra_info("peername")[0])
    address = ip_address(host.partition("%")[0])
    if not isinstance(address, IPv6Address):
        return address.packed
    mapped = address.ipv4_mapped
    return address.packed[:IPV6_NETWORK_BYTES] if mapped is None else mapped.packed
