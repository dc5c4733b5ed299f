"""From a configuration to the parts that it names: a source, a store and sinks. Secrets are read
here, and nowhere kept.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from penstock.core.errors import ConfigurationError
from penstock.engine import pipeline as config
from penstock.engine.pipeline import Pipeline
from penstock.engine.sealing import Key
from penstock.engine.sqlite import SQLiteReader, SQLiteStore
from penstock.engine.store import Reader, Store
from penstock.private.sources.base import Intake, Source
from penstock.private.sources.csv import CsvFormat
from penstock.private.sources.files import FileSource, Format, StdinSource
from penstock.private.sources.jsonl import JsonLinesFormat
from penstock.private.sources.parquet import ParquetFormat
from penstock.private.sources.prefetch import PrefetchSource
from penstock.released import sinks


def finite(pipeline: Pipeline) -> bool:
    """Whether the input has an end: files that do not grow, or standard input with a declared end."""
    kind, options = pipeline.source.kind, pipeline.source.options
    if kind == "stdin":
        return pipeline.stream.until is not None
    return kind in ("parquet", "csv", "jsonl") and not options["growing"]


def secret(options: Mapping[str, Any] | object, name: str, pipeline: Pipeline) -> str | None:
    """What an environment variable (…_env) or a file (…_file) holds; None where neither is named."""
    found = options if isinstance(options, Mapping) else vars(options)
    variable, file = found.get(f"{name}_env"), found.get(f"{name}_file")
    if variable:
        value = os.environ.get(variable)
        if not value:
            raise ConfigurationError(
                f"the environment variable {variable} is not set: it must hold the {name}."
            )
        return value
    if file:
        try:
            value = pipeline.path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise ConfigurationError(
                f"the file {file!r} for the {name} cannot be read: {reason}."
            ) from None
        if not value:
            raise ConfigurationError(f"the file {file!r} is empty: it must hold the {name}.")
        return value
    return None


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


# -- sources ---------------------------------------------------------------------------------------


def source(pipeline: Pipeline) -> Source:
    """The source of events."""
    declared = pipeline.source
    options = declared.options
    intake = Intake(columns=declared.columns, domain=pipeline.domain(), other=pipeline.other)
    if declared.kind in ("parquet", "csv", "jsonl"):
        form = _format(declared.kind, options)
        return FileSource(
            pattern=pipeline.path(options["path"]),
            format=form,
            intake=intake,
            growing=options["growing"],
        )
    if declared.kind == "stdin":
        piped = StdinSource(format=_format(options["format"], options), intake=intake)
        return piped if finite(pipeline) else PrefetchSource(piped)
    if declared.kind == "http":
        from penstock.private.sources.http import HttpSource

        host, port = _address(options["listen"])
        token = secret(options, "token", pipeline)
        assert token is not None
        return HttpSource(intake=intake, host=host, port=port, token=token)
    username, password = (
        secret(options, "username", pipeline),
        secret(options, "password", pipeline),
    )
    if declared.kind == "kafka":
        from penstock.private.sources.avro import AvroMessages
        from penstock.private.sources.kafka import KafkaSource
        from penstock.private.sources.message_formats import JsonMessages

        avro = options["format"] == "avro"
        return KafkaSource(
            intake=intake,
            servers=options["servers"],
            topic=options["topic"],
            group=options["group"],
            format=AvroMessages(_read(pipeline, options["schema_file"]), framed=options["framed"])
            if avro
            else JsonMessages(),
            username=username,
            password=password,
            mechanism=options["mechanism"],
            accept_loss=options["accept_loss"],
            **_connection(options, pipeline),
        )
    from penstock.private.sources.mqtt import MqttSource

    return MqttSource(
        intake=intake,
        server=options["server"],
        topic=options["topic"],
        client=options["client"],
        username=username,
        password=password,
        **_connection(options, pipeline),
    )


def _connection(options: Mapping[str, Any], pipeline: Pipeline) -> dict[str, Any]:
    """Whether a broker is spoken to by TLS, and whom to trust then."""
    authority = options.get("authority")
    return {
        "tls": options.get("tls"),
        "authority": None if authority is None else str(pipeline.path(authority)),
    }


def _format(kind: str, options: Mapping[str, Any]) -> Format:
    if kind == "parquet":
        return ParquetFormat()
    if kind == "jsonl":
        return JsonLinesFormat()
    return CsvFormat(
        delimiter=options["delimiter"],
        names=options["names"],
        quoted_newlines=options["quoted_newlines"],
    )


def _read(pipeline: Pipeline, name: str) -> str:
    try:
        return pipeline.path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise ConfigurationError(f"the file {name!r} cannot be read.") from None


# -- stores ----------------------------------------------------------------------------------------


def store(pipeline: Pipeline) -> Store:
    """The store, for publishing."""
    declared = pipeline.store
    key = None
    if declared.key_env is not None:
        key = Key.from_environment(declared.key_env)
    elif declared.key_file is not None:
        key = Key.from_file(pipeline.path(declared.key_file))
    head = None if declared.head is None else pipeline.path(declared.head)
    if declared.path is not None:
        return SQLiteStore(pipeline.path(declared.path), head=head, key=key)
    from penstock.engine.postgres import PostgresStore

    return PostgresStore(
        _url(declared, pipeline),
        password=secret(declared, "password", pipeline),
        head=head,
        key=key,
    )


def reader(pipeline: Pipeline) -> Reader:
    """The store, for reading what is public."""
    declared = pipeline.store
    if declared.path is not None:
        return SQLiteReader(pipeline.path(declared.path))
    from penstock.engine.postgres import PostgresReader

    return PostgresReader(_url(declared, pipeline), password=secret(declared, "password", pipeline))


def _url(options: Mapping[str, Any] | object, pipeline: Pipeline) -> str:
    found = options if isinstance(options, Mapping) else vars(options)
    url = found.get("url") or secret(options, "url", pipeline)
    if not url or not urlsplit(url).scheme:
        raise ConfigurationError("the address that url_env names is not an address.")
    return str(url)


# -- sinks -----------------------------------------------------------------------------------------


def sink(declared: config.SinkConfig, pipeline: Pipeline) -> sinks.Sink:
    """One sink."""
    options = declared.options
    if declared.kind == "parquet":
        return sinks.ParquetSink(pipeline.path(options["path"]))
    if declared.kind == "jsonl":
        return sinks.JsonLinesSink(pipeline.path(options["path"]))
    if declared.kind == "webhook":
        return sinks.WebhookSink(_url(options, pipeline), token=secret(options, "token", pipeline))
    if declared.kind == "kafka":
        from penstock.released.sinks.kafka import KafkaSink

        username, password = (
            secret(options, "username", pipeline),
            secret(options, "password", pipeline),
        )
        return KafkaSink(
            options["servers"],
            options["topic"],
            username=username,
            password=password,
            mechanism=options["mechanism"],
            **_connection(options, pipeline),
        )
    from penstock.released.sinks.postgres import PostgresSink

    return PostgresSink(
        _url(options, pipeline),
        password=secret(options, "password", pipeline),
        table=options["table"],
    )
