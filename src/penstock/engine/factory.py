"""From a configuration to the parts that it names: a source, a store and sinks.

Secrets are read here and kept nowhere.
"""

from __future__ import annotations

from penstock.core.declaration import EndpointSetup
from penstock.core.optional import require
from penstock.core.server_tls import ServerTls
from penstock.engine.pipeline import AlertConfig, Pipeline, SinkConfig, StoreConfig
from penstock.engine.sealing import Key
from penstock.engine.signing import SigningKey
from penstock.engine.sink_fence import SinkFenceHeads, SinkHeadFile, fencing_sink, open_fence
from penstock.engine.sqlite import SQLiteReader, SQLiteStore
from penstock.engine.store import Reader, Store
from penstock.private.sources.base import Intake, Source, SourceSetup
from penstock.released.sinks.base import Sink
from penstock.released.sinks.http_post import HttpPoster


def finite(pipeline: Pipeline) -> bool:
    """Whether the input has an end."""
    declared = pipeline.source
    return declared.declaration.finite(declared.options, pipeline.stream.until is not None)


def require_packages(pipeline: Pipeline) -> None:
    """Refuse to go on without an optional package that a part needs. Nothing is opened yet."""
    for kind in (pipeline.source.declaration, *(sink.declaration for sink in pipeline.sinks)):
        kind.require_modules()
    if pipeline.store.path is None:
        require("psycopg", "postgres", "a store in PostgreSQL")


def source(pipeline: Pipeline, *, once: bool = False) -> Source:
    """The source of events. `once`: it is read to its end, whether or not an end is declared."""
    declared = pipeline.source
    setup = SourceSetup(
        options=declared.options,
        folder=pipeline.folder,
        intake=intake(pipeline),
        finite=once or finite(pipeline),
    )
    return declared.declaration.build(setup)


def intake(pipeline: Pipeline) -> Intake:
    """What makes batches of the columns of events."""
    columns = pipeline.source.columns
    return Intake(columns=columns, domain=pipeline.domain(), other=pipeline.other)


def sink(declared: SinkConfig, pipeline: Pipeline) -> Sink:
    """One sink."""
    return declared.declaration.build(
        EndpointSetup(options=declared.options, folder=pipeline.folder)
    )


def alert_poster(declared: AlertConfig, pipeline: Pipeline) -> HttpPoster:
    """The address that the alerts of a rule are posted to."""
    setup = EndpointSetup(options=declared.options, folder=pipeline.folder)
    return HttpPoster(setup.url(), token=setup.secret("token"))


def fence(pipeline: Pipeline) -> SinkFenceHeads | SinkHeadFile | None:
    """The fence that is a sink; None where it is the head file, or where there is none."""
    declared = fencing_sink(pipeline)
    if declared is None:
        return None
    setup = EndpointSetup(options=declared.options, folder=pipeline.folder)
    return open_fence(declared.declaration, setup, declared.name)


def store(pipeline: Pipeline) -> Store:
    """The store, for publishing."""
    declared, setup = _store_setup(pipeline)
    head, key, signing = setup.path("head"), state_key(pipeline), signing_key(pipeline)
    if declared.path is not None:
        path = pipeline.path(declared.path)
        return SQLiteStore(path, head=head, key=key, signing_key=signing)
    from penstock.engine.postgres import PostgresStore

    password = setup.secret("password")
    return PostgresStore(setup.url(), password=password, head=head, key=key, signing_key=signing)


def state_key(pipeline: Pipeline) -> Key | None:
    """The key that seals the secret part of the store; None where no key is named."""
    declared = pipeline.store
    if declared.key_env is not None:
        return Key.from_environment(declared.key_env)
    if declared.key_file is not None:
        return Key.from_file(pipeline.path(declared.key_file))
    return None


def signing_key(pipeline: Pipeline) -> SigningKey | None:
    """The key that heads are signed with; None where no key is named."""
    _, setup = _store_setup(pipeline)
    text = setup.secret("signing_key")
    return None if text is None else SigningKey.from_pem(text)


def reader(pipeline: Pipeline) -> Reader:
    """The store, for reading its public part."""
    declared, setup = _store_setup(pipeline)
    if declared.path is not None:
        return SQLiteReader(pipeline.path(declared.path))
    from penstock.engine.postgres import PostgresReader

    return PostgresReader(setup.url(), password=setup.secret("password"))


def operator_token(pipeline: Pipeline) -> str | None:
    """The token that shows private figures; None where no token is named."""
    return _operator_setup(pipeline).secret("token")


def operator_tls(pipeline: Pipeline) -> ServerTls | None:
    """The TLS files of the address that serves figures; None for plain HTTP."""
    return ServerTls.of(_operator_setup(pipeline))


def _operator_setup(pipeline: Pipeline) -> EndpointSetup:
    return EndpointSetup(options=vars(pipeline.operator), folder=pipeline.folder)


def _store_setup(pipeline: Pipeline) -> tuple[StoreConfig, EndpointSetup]:
    return pipeline.store, EndpointSetup(options=vars(pipeline.store), folder=pipeline.folder)
