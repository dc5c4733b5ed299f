"""The witnesses that a pipeline names, asked for the heads that they have.

A store alone cannot show that units were deleted at its end, or that it is an old backup. A witness
outside of the store can: the head file, and every sink that reports what it holds.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from penstock.core.errors import PenstockError, StateError, StoreUnavailableError
from penstock.engine import factory
from penstock.engine.chain import Head, HeadFile
from penstock.engine.pipeline import Pipeline, SinkConfig
from penstock.engine.sealing import Key
from penstock.engine.store import Reader

SHOW_SECONDS = 2.0
"""How long a publisher may take to show a unit after the head file has it."""


@dataclass(frozen=True, kw_only=True)
class WitnessAnswer:
    """The newest head that a witness has of each series, or why it was not asked."""

    witness: str
    """Its name in messages, such as "sink 'archive'"."""
    heads: Mapping[str, Head] | None = None
    """None if it was not asked."""
    reason: str = ""
    """Why it was not asked."""
    problem: str = ""
    """What is wrong with the witness itself."""


def ask_witnesses(pipeline: Pipeline, known: Collection[str]) -> list[WitnessAnswer]:
    """Ask every witness that a pipeline names; `known` are the series of its store.

    Ask before the store is read: a later look at the store finds everything that they have, also
    while a publisher is at work. Only the head file is ahead of the store for a moment.
    """
    own = [pipeline.series(view.name) for view in pipeline.views]
    answers = []
    if pipeline.store.head is not None:
        answers.append(_head_file(pipeline, pipeline.store.head, {*own, *known}))
    for sink in pipeline.sinks:
        wanted = [
            pipeline.series(view.name)
            for view in pipeline.views
            if not sink.views or view.name in sink.views
        ]
        answers.append(_sink(pipeline, sink, wanted))
    return answers


def _head_file(pipeline: Pipeline, path: str, series: Collection[str]) -> WitnessAnswer:
    """The heads of these series: streams of other stores may share the file."""
    witness = f"the head file {path}"
    try:
        pipeline.path(path).open("rb").close()
    except FileNotFoundError:
        return WitnessAnswer(witness=witness, reason="there is no such file.")
    except OSError as error:
        return WitnessAnswer(witness=witness, reason=f"it cannot be read: {error.strerror}.")
    try:
        heads = HeadFile(pipeline.path(path)).read()
    except StateError as error:  # it is there, and damaged
        return WitnessAnswer(witness=witness, heads={}, problem=str(error))
    return WitnessAnswer(
        witness=witness, heads={name: head for name, head in heads.items() if name in series}
    )


def _sink(pipeline: Pipeline, declared: SinkConfig, series: Sequence[str]) -> WitnessAnswer:
    witness = f"sink {declared.name!r}"
    if not declared.declaration.reports:
        reason = f"a {declared.kind} does not report what it holds."
        return WitnessAnswer(witness=witness, reason=reason)
    try:
        sink = factory.sink(declared, pipeline)
        try:
            heads = {name: sink.head(name) for name in series}
        finally:
            sink.close()
        return WitnessAnswer(
            witness=witness,
            heads={
                name: Head(head[0], bytes.fromhex(head[1]))
                for name, head in heads.items()
                if head is not None
            },
        )
    except PenstockError as error:
        return WitnessAnswer(witness=witness, reason=str(error))
    except Exception as error:  # a mistake in a sink; texts of errors that are not ours may leak
        reason = f"an unexpected error ({type(error).__name__})."
        return WitnessAnswer(witness=witness, reason=reason)


def contradictions(
    reader: Reader, answer: WitnessAnswer, *, key: Key | None = None
) -> dict[str, str]:
    """By series, a sentence for each head that the witness has and the store never had.

    A publisher that crashed may have left a unit that the head file has and nobody was shown yet.
    That is no contradiction. With a sealed store, `key` is needed to see it.
    """
    found = {}
    for name, head in (answer.heads or {}).items():
        if name not in reader.series_names:
            found[name] = (
                f"series {name!r} is not in the store, and {answer.witness} has unit {head.unit} "
                "of it."
            )
            continue
        _wait_for(reader, name, head.unit)
        try:
            reader.check_past(name, head, answer.witness)
        except StoreUnavailableError:
            raise
        except StateError as error:
            if reader.waiting_head(name, key) != head:
                found[name] = str(error)
    return found


def _wait_for(reader: Reader, series: str, unit: int) -> None:
    """Give a publisher that is at work a moment to show the unit whose head it has just moved."""
    deadline = time.monotonic() + SHOW_SECONDS
    while (
        reader.head(series).unit == unit - 1
        and ((lease := reader.lease(series)) is None or lease.owner)
        and time.monotonic() < deadline
    ):
        time.sleep(0.05)
