"""`penstock serve`."""

from __future__ import annotations

import signal
import threading
from dataclasses import replace
from pathlib import Path
from types import FrameType

from penstock.cli.formatting import say
from penstock.cli.store_argument import open_store
from penstock.core.errors import ConfigurationError
from penstock.engine.sql_store import SqlReader
from penstock.service.options import ServiceOptions
from penstock.service.server import ServiceServer, require_packages


def serve(where: str, *, listen: str | None = None, copy: Path | None = None) -> None:
    """Serve what is released: a read API, live updates and a dashboard.

    It reads the public part of a store, which a publisher may be writing, and costs no budget. To
    serve while publishing in one process, write [service] into the pipeline instead.

    For example:

    * penstock serve taps.toml

    * penstock serve export.db --listen 0.0.0.0:8080

    Parameters
    ----------
    where
        The store: a file, a pipeline.toml that names it, or postgresql://… with the password in
        PGPASSWORD. An export and a release log are read as well.
    listen
        The host and the port. Default: 127.0.0.1:8080, or as the pipeline says.
    copy
        The folder of the copy by key, which is made again if it is not there. Default: beside the
        store.
    """
    require_packages()
    options = ServiceOptions()
    if listen is not None:
        options = replace(options, listen=listen)

    def open_reader() -> SqlReader:
        found = open_store(where)
        if not isinstance(found, SqlReader):
            raise ConfigurationError(f"{where} is no store that can be served.")
        return found

    folder = copy or Path(where + ".copy")
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.set()

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, stop)
    with ServiceServer(options, [open_reader], folder) as server:
        say(f"Open {server.url}")
        while server.alive and not stopped.wait(0.5):
            pass
