"""`ServiceServer`: the read service at one address, in a thread of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from penstock.core.connections import ConnectionLimits
from penstock.core.optional import require
from penstock.core.web_server import WebServer
from penstock.service.options import ServiceOptions
from penstock.service.streams import POLL_SECONDS, OpenStore, ServedStreams

PURPOSE = "the read service"
SHUTDOWN_SECONDS = 2
LIMITS = ConnectionLimits(connections=1200, per_peer=600, spare_files=128, answer=60.0)
"""Readers of live events hold their connections, so there may be many."""


def require_packages() -> None:
    """Refuse to go on without the packages of the extra `serve`."""
    for name in ("fastapi", "uvicorn"):
        require(name, "serve", PURPOSE)


class ServiceServer:
    """The read service: opens stores for reading, copies them by key, and answers.

    Parameters
    ----------
    options : ServiceOptions
        The settings.
    stores : sequence of callable
        Each opens a new connection to a store, for reading.
    folder : Path
        The folder of the copies by key.
    poll_seconds : float
        How often SQLite is asked whether anybody has committed. Default: 0.05.
    """

    def __init__(
        self,
        options: ServiceOptions,
        stores: Sequence[OpenStore],
        folder: Path,
        *,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        require_packages()
        from penstock.service.application import build

        self.streams = ServedStreams(stores, folder)
        self.poll_seconds = poll_seconds
        try:
            app = build(options, self.streams)
            self._hub = app.state.hub
            host, port = options.address
            self._server = WebServer(
                app,
                host=host,
                port=port,
                key="listen",
                name="service",
                limits=LIMITS,
                grace=SHUTDOWN_SECONDS,
                purpose=PURPOSE,
                tls=options.tls,
                begin=self._hub.begin,
            )
        except BaseException:
            self.streams.close()
            raise

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """Where it listens."""
        return self._server.url

    @property
    def live_readers(self) -> int:
        """How many readers follow new units now."""
        found: int = self._hub.readers
        return found

    @property
    def alive(self) -> bool:
        """Whether it serves."""
        return self._server.alive

    def start(self) -> None:
        """Follow the stores and answer requests, in threads of their own."""
        self.streams.start(poll_seconds=self.poll_seconds)
        self._server.start()

    def wake(self, series: str = "") -> None:
        """Look for new units now, from any thread.

        Parameters
        ----------
        series : str
            The series that has a new unit. Default: any.
        """
        self.streams.wake(series)

    def close(self) -> None:
        """End all answers, free the address, and close the stores."""
        self._hub.close()
        self._server.close()
        self.streams.close()
