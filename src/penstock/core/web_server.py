"""A server of ours: one address, one thread, limited connections. Needs uvicorn (extra `serve`)."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from penstock.core.connections import (
    EVICTED_FIRST,
    ConnectionLimits,
    ConnectionTable,
    ConnectionTally,
    Phase,
)
from penstock.core.errors import ConfigurationError, StateError
from penstock.core.optional import require
from penstock.core.server_tls import ReloadedTls, ServerTls

BACKLOG: Final = 100
"""Connections that are accepted at once."""

TLS_REFRESH_SECONDS: Final = 10.0

log = logging.getLogger(__name__)


class WebServer:
    """A thread that serves one address. The address is bound at once, and served from `start` on.

    Parameters
    ----------
    application : Any
        The ASGI application.
    host, port : str, int
        The address.
    key : str
        The address's name in the configuration, for messages.
    name : str
        The server's name in the log.
    limits : ConnectionLimits
        The limits of its connections.
    grace : int
        Seconds for which requests may finish when the server closes.
    purpose : str
        What it is for, for the message that a package is missing.
    tls : ServerTls, optional
        The files for TLS. Default: plain HTTP.
    begin : callable, optional
        Called in the server's thread before the first request. Default: nothing.
    """

    def __init__(
        self,
        application: Any,
        *,
        host: str,
        port: int,
        key: str,
        name: str,
        limits: ConnectionLimits,
        grace: int,
        purpose: str,
        tls: ServerTls | None = None,
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        self.table = ConnectionTable(limits=limits, tally=ConnectionTally(name))
        self.tls = None if tls is None else ReloadedTls(tls, name)
        self._name, self._grace, self._begin = name, grace, begin
        self._socket = bound(host, port, key=key)
        self.address: tuple[str, int] = self._socket.getsockname()[:2]
        uvicorn = require("uvicorn", "serve", purpose)
        from penstock.core.http_protocol import HttpProtocol, QueueingServer  # they need uvicorn

        self._server = QueueingServer(
            uvicorn.Config(
                application,
                http=partial(HttpProtocol, table=self.table, tls=self.tls),
                loop="asyncio",
                ws="none",
                lifespan="off",
                access_log=False,
                log_config=None,
                log_level="warning",
                proxy_headers=False,
                server_header=False,
                backlog=BACKLOG,
                timeout_keep_alive=int(limits.idle) + 1,
                timeout_graceful_shutdown=grace,
            )
        )
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"penstock-{name}", daemon=True)

    @property
    def alive(self) -> bool:
        """Whether it serves."""
        return self._thread.is_alive()

    @property
    def url(self) -> str:
        """The address as a URL."""
        host, port = self.address
        scheme = "http" if self.tls is None else "https"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    def start(self) -> None:
        """Serve; return when `begin` was called."""
        self._thread.start()
        self._ready.wait()

    def stop(self) -> None:
        """Ask the server to end, from any thread."""
        self._server.should_exit = True

    def close(self) -> None:
        """End the server and free its address."""
        self.stop()
        if self._thread.ident is not None:
            self._thread.join(2 * self._grace)
        self._socket.close()

    def _run(self) -> None:
        try:
            asyncio.run(self.serve())
        except Exception as error:
            log.error("%s: the server has failed (%s).", self._name, type(error).__name__)
        finally:
            self._ready.set()
            self._socket.close()

    async def serve(self) -> None:
        """Serve until `stop`, in the running loop."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda *_: self.table.tally.add("failed"))
        self.table.clock = loop.time
        self._begin()
        self._ready.set()
        sweeping = loop.create_task(self._sweep())
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            sweeping.cancel()
            self.table.abort(*Phase)
            await asyncio.sleep(0)

    async def _sweep(self) -> None:
        table = self.table
        refreshed = table.clock()
        while True:
            await asyncio.sleep(table.limits.sweep_seconds)
            try:
                table.sweep()
                if self._server.should_exit:
                    table.abort(*EVICTED_FIRST)
                if self.tls is not None and table.clock() - refreshed >= TLS_REFRESH_SECONDS:
                    refreshed = table.clock()
                    self.tls.refresh()
            except Exception:
                table.tally.add("failed")


def bound(host: str, port: int, *, key: str) -> socket.socket:
    """Return a listening socket; `key` is the address's name in the configuration."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM
        )[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigurationError(
            f"{key}: host {host!r} cannot be found ({type(error).__name__})."
        ) from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        listening.bind(place)
        listening.listen()
    except OSError as error:
        listening.close()
        raise StateError(
            f"{key}: {host}:{port} cannot be bound ({error.strerror}). Nothing was published. "
            "Use another port, or stop the program that uses this one."
        ) from None
    return listening
