"""The first and the last words of `penstock run`: where events go in, and where units are."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from penstock.cli.formatting import begin
from penstock.engine.pipeline import Pipeline
from penstock.engine.publisher import Publisher
from penstock.engine.view_run import ViewRun


def accepting(pipeline: Pipeline) -> str:
    """Where events are accepted: an address to post to, or what is read, with its whole path."""
    source = pipeline.source
    options = source.options
    if "listen" in options:
        scheme = "https" if options.get("tls_cert") else "http"
        token = options.get("token_env") or options.get("token_file")
        return f"POST events to {scheme}://{options['listen']}/events, with the token in {token}."
    if options.get("path") is not None:
        options = {**options, "path": str(pipeline.path(options["path"]).absolute())}
    return f"events are read from {source.declaration.describe(options)}."


def published(view: ViewRun, pipeline: Pipeline, *, before: int) -> str:
    """How many units are published, of which time, and where they are."""
    calendar, last = view.view.calendar, view.committed.unit
    path = pipeline.store.path
    store = "the database of [store]" if path is None else str(pipeline.path(path).absolute())
    if not last:
        return f"no unit is published yet. The store is {store}."
    units = f"{last:,} unit{'' if last == 1 else 's'} of {calendar.every}"
    fresh = "all new" if not before else f"{last - before:,} new"
    end = begin(calendar, last + 1) if last < calendar.last else str(calendar.end(last))
    sinks = ", ".join(
        sink.name for sink in pipeline.sinks if view.view.name in (sink.views or (view.view.name,))
    )
    return (
        f"{units} ({fresh}), {begin(calendar, 1)} to {end} in {calendar.zone}. They are in {store}"
        f"{f' and at {sinks}' if sinks else ''}."
    )


def next_commands(publisher: Publisher, file: Path) -> Iterator[str]:
    """The commands that show what was published, to be copied."""
    name = shlex.quote(str(file))
    view = publisher.views[0]
    stream = f" --stream {shlex.quote(view.name)}" if len(publisher.views) > 1 else ""
    page = shlex.quote(f"{publisher.pipeline.stream.name}.html")
    yield f"penstock query {name} top{stream}"
    yield f"penstock query {name} counts{stream} --plot {page}"
    yield f"penstock ledger verify {name}"
