"""Where releases go. A sink gets only what is public, and holds every unit of a series once,
however often it is sent.

`base` says what a sink is, `release_document` what it is sent. Sinks that need a client of their
own stand in their files only: `kafka.KafkaSink` (extra `kafka`) and `postgres.PostgresSink` (extra
`postgres`).
"""

from typing import TYPE_CHECKING

from penstock.core.deprecated import moved
from penstock.released.series import Series
from penstock.released.sinks.base import ReleaseItem, Sink, SinkError
from penstock.released.sinks.csv_files import CsvSink
from penstock.released.sinks.jsonl import JsonLinesSink
from penstock.released.sinks.parquet import ParquetSink
from penstock.released.sinks.webhook import WebhookSink

__all__ = [
    "CsvSink",
    "JsonLinesSink",
    "ParquetSink",
    "ReleaseItem",
    "Series",
    "Sink",
    "SinkError",
    "WebhookSink",
]

if not TYPE_CHECKING:
    __getattr__ = moved(__name__)
