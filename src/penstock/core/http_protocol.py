"""HTTP/1.1 by uvicorn and h11, with limits for every request. Only `web_server` imports this."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import ssl
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import Server

from penstock.core.connections import LIVE_SCOPE, ConnectionTable, PeerConnection, Phase
from penstock.core.server_tls import ReloadedTls

SLOW_HEAD = "the request did not come in time."
SLOW_BODY = "the body did not come in time; nothing was taken."
NOT_HTTP = "this is not a request in HTTP/1.1."

_SILENT = logging.Logger("penstock.silent")
_SILENT.disabled = True  # uvicorn logs a line per bad request: a stranger could fill the log

MAX_QUEUED = 1024
"""Connections that the system holds until they are accepted. A full queue drops newcomers."""


class QueueingServer(Server):
    """A server with a longer queue than asyncio accepts at once (`backlog`).

    What is accepted at once takes files before its number is limited.
    """

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(MAX_QUEUED)


class HttpProtocol(H11Protocol):
    """One connection, which tells the table of all connections its phase.

    TLS begins here and not when the connection is accepted, so that a peer that never shakes hands
    counts among the connections as well.

    Parameters
    ----------
    table : ConnectionTable
        All connections of the server.
    tls : ReloadedTls, optional
        The certificate. Default: plain HTTP.
    """

    def __init__(self, *, table: ConnectionTable, tls: ReloadedTls | None, **uvicorn: Any) -> None:
        super().__init__(**uvicorn)
        self.logger = _SILENT
        self._table, self._tls = table, tls
        self._connection: PeerConnection | None = None
        self._securing: asyncio.Task[None] | None = None
        self._early = b""

    # -- as asyncio calls it -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        connection = self._connection = self._table.admit(transport, self._overdue)
        if connection is None:
            transport.abort()
        elif self._tls is None:
            super().connection_made(transport)
        else:
            transport.pause_reading()
            self._securing = self.loop.create_task(self._secure(connection, self._tls.context))

    async def _secure(self, connection: PeerConnection, context: ssl.SSLContext) -> None:
        secured = None
        try:
            secured = await self.loop.start_tls(
                connection.transport, self, context, server_side=True
            )
        except ssl.SSLError:
            self._table.tally.add("malformed")
        except OSError:
            pass  # the peer has gone, or was sent away
        finally:
            if secured is None:
                self._table.end(connection)
        if secured is not None:
            super().connection_made(secured)
            self._table.enter(connection, Phase.OPENING)
            if self._early:
                self.data_received(self._early)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._connection is not None:
            self._table.leave(self._connection)
        if self._has_begun:
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._has_begun:  # the last bytes of a handshake may bring a request
            self._early += data
            return
        super().data_received(data)
        self._note_phase(len(data))

    @property
    def _has_begun(self) -> bool:
        """Whether HTTP has begun; before that there is TLS to agree on, or nothing."""
        return self.flow is not None

    # -- as uvicorn calls it -----------------------------------------------------------------------

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._note_phase()

    def send_400_response(self, msg: str) -> None:
        self._table.tally.add("malformed")
        self._end(400, NOT_HTTP)

    # -- the phases of a connection ----------------------------------------------------------------

    def _note_phase(self, received: int = 0) -> None:
        connection, phase = self._connection, self._phase()
        assert connection is not None
        if phase is not connection.phase:
            self._table.enter(connection, phase)
        connection.received += received

    def _phase(self) -> Phase:
        request = self._request
        answered = request is None or request.response_complete
        live = request is not None and request.scope.get(LIVE_SCOPE)
        if self.transport.is_closing():
            return Phase.CLOSING
        if self.conn.their_state is h11.SEND_BODY:
            return Phase.REST if answered else Phase.BODY
        if not answered:
            return Phase.LIVE if live else Phase.ANSWER
        return Phase.OPENING if request is None or self._has_part_of_a_head else Phase.IDLE

    @property
    def _request(self) -> RequestResponseCycle | None:
        """The request that is being answered, or was last; None before the first."""
        return self.cycle

    @property
    def _has_part_of_a_head(self) -> bool:
        return bool(self.conn.trailing_data[0])

    def _overdue(self) -> None:
        """End the connection, because its phase has taken too long."""
        connection = self._connection
        assert connection is not None
        phase = connection.phase
        # Before HTTP has begun there is no transport to ask: a handshake is too slow.
        if self._has_begun and self._phase() is Phase.LIVE:
            self._note_phase()
            return
        if phase not in (Phase.IDLE, Phase.CLOSING):
            self._table.tally.add("slow")
        if phase is Phase.IDLE:
            self._end()
        elif phase is Phase.OPENING and self._has_begun:
            self._end(408 if self._has_part_of_a_head else 0, SLOW_HEAD)
        elif phase is Phase.BODY:
            self._end(408, SLOW_BODY)
        else:
            self._table.end(connection)

    def _end(self, status: int = 0, text: str = "") -> None:
        """Close the connection, and answer first where the request has no answer yet."""
        request = self._request
        if request is not None and not request.response_complete:
            request.disconnected = True
            request.message_event.set()
        if status and self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            content = json.dumps({"error": text}).encode()
            headers = {
                "content-type": "application/json",
                "content-length": str(len(content)),
                "connection": "close",
            }
            head = h11.Response(status_code=status, headers=list(headers.items()))
            for event in (head, h11.Data(data=content), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
        self._note_phase()
