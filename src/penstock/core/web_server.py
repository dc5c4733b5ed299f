"""Common parts of the HTTP source and the monitor. Needs uvicorn (extra `serve`)."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from penstock.core.errors import ConfigurationError, StateError
from penstock.core.optional import require


def configuration(
    application: Any, *, patience: float, connections: int, idle: int, grace: int, purpose: str
) -> Any:
    """Return uvicorn's configuration: log nothing about requests, and trust no proxy headers."""
    return require("uvicorn", "serve", purpose).Config(
        application,
        http=_protocol(patience, purpose),
        loop="asyncio",
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        log_level="warning",
        proxy_headers=False,
        server_header=False,
        limit_concurrency=connections,
        timeout_keep_alive=idle,
        timeout_graceful_shutdown=grace,
    )


def _protocol(patience: float, purpose: str) -> Any:
    """Return HTTP/1.1 that closes connections without a request: their number is limited."""

    class HttpProtocol(require("uvicorn.protocols.http.h11_impl", "serve", purpose).H11Protocol):  # type: ignore[misc]
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            asyncio.get_running_loop().call_later(patience, self._close_if_silent)

        def _close_if_silent(self) -> None:
            if self.cycle is None:
                self.transport.close()

    return HttpProtocol


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
