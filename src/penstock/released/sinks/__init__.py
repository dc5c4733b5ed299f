"""Where releases go. A sink gets only what is public, and holds every unit of a series once, however often it is sent.

`base` says what a sink is, `document` what it is sent. Sinks that need a client of their own stand in their files only:
`kafka.Kafka` (extra `kafka`) and `postgres.Postgres` (extra `postgres`); `Parquet` asks for PyArrow (extra `columns`) when it
is made.
"""

from penstock.released.sinks.base import Item, Series, Sink, SinkError
from penstock.released.sinks.jsonl import JsonLines
from penstock.released.sinks.parquet import Parquet
from penstock.released.sinks.webhook import Webhook

__all__ = ["Item", "JsonLines", "Parquet", "Series", "Sink", "SinkError", "Webhook"]
