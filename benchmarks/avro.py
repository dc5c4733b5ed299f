"""Avro messages into columns: our reader against fastavro.

    python benchmarks/avro.py [--json]

The messages are card readings as a transport company sends them: eleven fields, of which the
columns are time, station and card. Two schemas: the whole record, and a small one with these three
fields only. Both ways give the same Arrow table and refuse messages that do not end where the
schema says. fastavro reads in the way that serves it best: with or without a reader's schema that
has only the three fields, and without logical types, which would cost it a datetime per message.
CPU seconds, medians of alternating rounds.

We keep our own reader as long as it is at least twice as fast. Measured in November 2026: fastavro
takes 8 to 9 times the CPU time with eleven fields, 6 times with three.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import fastavro
import numpy as np
import pyarrow as pa

from penstock.private.sources.avro import AvroMessages
from penstock.private.sources.base import Columns, Rejections

from report import Figure, main, ratios

MESSAGES = 20_000
"""As many values as the Kafka source makes into columns together."""

ROUNDS = 7
COLUMNS = Columns("time", "station", person="card", clock="microseconds", person_type="integer")

Fields: TypeAlias = list[dict[str, Any]]

PLACE = {
    "type": "record",
    "name": "Place",
    "fields": [{"name": "latitude", "type": "double"}, {"name": "longitude", "type": "double"}],
}
NEEDED: Fields = [
    {"name": "time", "type": "long"},
    {"name": "station", "type": "string"},
    {"name": "card", "type": "long"},
]
FIELDS: Fields = [
    {"name": "id", "type": "string"},
    NEEDED[0],
    NEEDED[1],
    {"name": "gate", "type": "int"},
    {"name": "place", "type": ["null", PLACE]},
    NEEDED[2],
    {
        "name": "product",
        "type": {"type": "enum", "name": "Product", "symbols": ["single", "day", "month"]},
    },
    {"name": "fare", "type": ["null", "double"]},
    {"name": "valid", "type": "boolean"},
    {"name": "note", "type": ["null", "string"]},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
]


def schema(fields: Fields) -> dict[str, Any]:
    return {"type": "record", "name": "Reading", "fields": fields}


def messages(fields: Fields) -> list[bytes]:
    """Random readings, as fastavro writes them."""
    rng = np.random.default_rng(14)
    parsed = fastavro.parse_schema(schema(fields))
    made = []
    for number in range(MESSAGES):
        reading = {
            "id": f"{rng.integers(2**62):016x}",
            "time": 1_790_000_000_000_000 + 1_000 * number,
            "station": f"station {rng.integers(500)}",
            "gate": int(rng.integers(12)),
            "place": {"latitude": 48.85, "longitude": 2.35} if number % 3 else None,
            "card": int(rng.integers(2**40)),
            "product": ("single", "day", "month")[number % 3],
            "fare": 2.15 if number % 2 else None,
            "valid": True,
            "note": None,
            "tags": ["peak"] if number % 4 == 0 else [],
        }
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, reading)
        made.append(out.getvalue())
    return made


def theirs(values: list[bytes], fields: Fields, *, projected: bool) -> Callable[[], pa.Table]:
    """fastavro, message by message; with `projected` it skips the fields that are not needed."""
    writer = fastavro.parse_schema(schema(fields))
    reader = fastavro.parse_schema(schema(NEEDED)) if projected else None

    def read() -> pa.Table:
        rows = []
        for value in values:
            stream = io.BytesIO(value)
            row: Any = fastavro.schemaless_reader(stream, writer, reader)
            if stream.tell() == len(value):
                rows.append(row)
        return pa.table({name: pa.array([row[name] for row in rows]) for name in COLUMNS.names})

    return read


def ours(values: list[bytes], fields: Fields) -> Callable[[], pa.Table]:
    form = AvroMessages(schema(fields), framed=False)

    def read() -> pa.Table:
        table: pa.Table = form.table(values, COLUMNS, rejections=Rejections())
        return table

    return read


def measure() -> Iterator[Figure]:
    for name, fields in (("eleven fields", FIELDS), ("three fields", NEEDED)):
        values = messages(fields)
        mine = ours(values, fields)
        found = []
        for projected in (True, False):
            other = theirs(values, fields, projected=projected)
            expected = other()
            assert mine().cast(expected.schema).equals(expected)
            found.append(ratios(other, mine, rounds=ROUNDS)[0])
            way = "with a reader's schema" if projected else "whole records"
            yield Figure(f"{name}: fastavro, {way} / ours", found[-1], "x")
        yield Figure(f"{name}: fastavro's best / ours", min(found), "x", 2.0, at_least=True)


if __name__ == "__main__":
    main(str(__doc__).partition("\n")[0], measure)
