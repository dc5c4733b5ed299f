"""What every server of ours has in common; needs uvicorn (extra `serve`)."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from penstock.core.errors import ConfigurationError, StateError
from penstock.core.optional import require


def configuration(
    application: Any, *, patience: float, connections: int, idle: int, grace: int, purpose: str
) -> Any:
    """How uvicorn serves: nothing about requests is logged, and nothing that they say of where they
    come from is believed.
    """
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
    """HTTP/1.1, but whoever connects and does not say what it wants is let go: connections are
    limited.
    """

    class HttpProtocol(require("uvicorn.protocols.http.h11_impl", "serve", purpose).H11Protocol):  # type: ignore[misc]
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            asyncio.get_running_loop().call_later(patience, self._begun)

        def _begun(self) -> None:
            if self.cycle is None:
                self.transport.close()

    return HttpProtocol


def bound(host: str, port: int, *, key: str) -> socket.socket:
    """A socket that listens there; `key` is what the configuration calls it."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM
        )[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigurationError(
            f"{key}: {host!r} cannot be found ({type(error).__name__})."
        ) from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        listening.bind(place)
        listening.listen()
    except OSError as error:
        listening.close()
        raise StateError(
            f"{key}: {host}:{port} cannot be bound ({error.strerror}): wait for it, or use another port. Nothing was published."
        ) from None
    return listening
