"""`penstock serve`."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

from penstock.cli.formatting import say
from penstock.cli.service_options import copy_folder, service_options, sql_reader
from penstock.cli.store_argument import configures, is_address, open_store, read_pipeline
from penstock.core.declaration import secret_value
from penstock.core.errors import StateError
from penstock.engine.pipeline import Pipeline
from penstock.engine.sql_store import SqlReader
from penstock.service.options import ServiceOptions
from penstock.service.server import ServiceServer, require_packages

UNSEALED = (
    "{store} holds the state of the publisher, and it is not sealed: whoever breaks into a service "
    "could read it. Give the store a key (key_env or key_file in [store]), serve an export "
    "(penstock export), or, in PostgreSQL, connect as a role that may read the public tables only."
)


def serve(
    where: str,
    /,
    *,
    listen: str | None = None,
    copy: Path | None = None,
    token_env: str | None = None,
    token_file: Path | None = None,
) -> None:
    """Serve what is released: a read API, live updates and a dashboard.

    It reads the public part of a store, which a publisher may be writing, and costs no budget. To
    serve while publishing, in one process, write [service] into the pipeline instead. A store whose
    state is not sealed with a key is refused.

    For example:

    * penstock serve taps.toml

    * penstock serve public.db --listen 0.0.0.0:8090

    * penstock serve postgresql://reader@db/city --copy /var/cache/penstock

    Parameters
    ----------
    where
        The store: a file, a pipeline.toml that names it, or postgresql://… with the password in
        PGPASSWORD. An export and a release log are read as well.
    listen
        The host and the port. Default: as the pipeline says, or 127.0.0.1:8090.
    copy
        The folder of the copy of the releases by key. Default: as the pipeline says, or beside the
        store; for an address, a temporary folder.
    token_env
        The environment variable with the token that readers must show. Default: as the pipeline
        says, or none.
    token_file
        The file with the token that readers must show. Default: as token_env.
    """
    require_packages()
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
    pipeline = read_pipeline(where) if configures(where) else None
    options = ServiceOptions(title=_title(where)) if pipeline is None else service_options(pipeline)
    given = {"token_env": token_env, "token_file": None if token_file is None else str(token_file)}
    token = secret_value(given, "token", Path())
    options = replace(options, listen=listen or options.listen, token=token or options.token)

    def open_reader() -> SqlReader:
        return sql_reader(lambda: open_store(where))

    with open_reader() as reader:
        if reader.shows_state() or (pipeline is not None and _lacks_key(pipeline)):
            raise StateError(UNSEALED.format(store=reader.name))
    with ExitStack() as stack:
        if copy is None and pipeline is not None:
            copy = copy_folder(pipeline)
        elif copy is None and is_address(where):
            copy = Path(stack.enter_context(TemporaryDirectory(prefix="penstock-")))
        server = ServiceServer(options, [open_reader], copy or Path(f"{where}.copy"))
        stopped = _stopped_by_signals()
        stack.enter_context(server)
        say(f"Open {server.url}")
        while server.alive and not stopped.wait(0.5):
            pass
        if not stopped.is_set():
            raise StateError("the service has ended with an error.")


def _lacks_key(pipeline: Pipeline) -> bool:
    """Whether the publisher of this pipeline would write state into a file, and not seal it."""
    store = pipeline.store
    return store.path is not None and store.key_env is None and store.key_file is None


def _title(where: str) -> str:
    """The title of a service over a store: the name of its file."""
    return "Penstock" if is_address(where) else Path(where).stem


def _stopped_by_signals() -> threading.Event:
    """An event that SIGTERM and SIGINT set."""
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.set()

    if threading.current_thread() is threading.main_thread():
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, stop)
    return stopped
