"""Events from standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

from penstock.core.declaration import Option, Options
from penstock.core.errors import ConfigurationError, StateError
from penstock.core.exact import whole
from penstock.private.sources.base import (
    Batch,
    Intake,
    Position,
    Rejections,
    Source,
    SourceKind,
    SourceSetup,
    sealed,
)
from penstock.private.sources.csv import CSV_OPTIONS, csv_format
from penstock.private.sources.files import MAX_ROWS_PER_BATCH, FileReading, Format, Mark
from penstock.private.sources.jsonl import JsonLinesFormat
from penstock.private.sources.prefetch import PrefetchSource


@dataclass(frozen=True, kw_only=True)
class StdinSource(Source):
    """Events from standard input, or another stream that can be read once. It cannot resume."""

    format: Format
    intake: Intake
    rows: int = MAX_ROWS_PER_BATCH
    stream: BinaryIO | None = field(default=None, repr=False, compare=False)
    rejections: Rejections = field(default_factory=Rejections, init=False, compare=False)

    def __post_init__(self) -> None:
        whole(self.rows, name="rows", least=1)
        if not self.format.streamed:
            raise ConfigurationError(
                f"format: {type(self.format).__name__} cannot be read from standard input.",
                parameter="format",
            )

    @property
    def resumable(self) -> bool:
        return False

    def batches(self, after: Position | None = None) -> Iterator[Batch]:
        """All events until the stream ends. Batches have no position."""
        if after is not None:
            raise StateError("standard input cannot go on from a position.")
        stream: Any = sys.stdin.buffer if self.stream is None else self.stream
        how = FileReading(
            name="standard input",
            columns=self.intake.columns,
            rows=self.rows,
            final=True,
            rejections=self.rejections,
        )
        with sealed(how.name):
            for table, _ in self.format.tables(stream, Mark(), how):
                yield self.intake.batch(table, position=None, rejections=self.rejections)


def _format(options: Options) -> Format:
    return csv_format(options) if options["format"] == "csv" else JsonLinesFormat()


def _check(options: Options) -> None:
    _format(options)


def _build(setup: SourceSetup) -> Source:
    piped = StdinSource(format=_format(setup.options), intake=setup.intake)
    return piped if setup.finite else PrefetchSource(piped)


KIND = SourceKind(
    name="stdin",
    summary="Standard input. Without `until` in [stream] it is live.",
    options=(
        Option(
            name="format",
            choices=("jsonl", "csv"),
            default="jsonl",
            help="how events are written",
        ),
        *(replace(option, when=("format", "csv")) for option in CSV_OPTIONS),
    ),
    describe=lambda options: f"standard input ({options['format']})",
    check=_check,
    build=_build,
    finite=lambda options, until: until,
    no_dry_run="",
)
