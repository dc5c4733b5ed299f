"""Made-up events, and files of them in every format."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import feather

from penstock.private.sources.arrow_file import ArrowFileFormat
from penstock.private.sources.base import Columns, Intake
from penstock.private.sources.csv import CsvFormat
from penstock.private.sources.files import FileSource
from penstock.private.sources.jsonl import JsonLinesFormat
from penstock.private.sources.parquet import ParquetFormat

KEYS = ("north", "south", 'île, "Ω"')
START = 1_790_000_000_000_000


def events(count, seed=0):
    """Times, keys and persons, the persons as ids of 64 bits."""
    rng = np.random.default_rng(seed)
    time = START + rng.integers(0, 10**12, count)
    key = rng.integers(0, len(KEYS), count)
    person = rng.integers(-(2**63), 2**63 - 1, count)
    return [(int(t), KEYS[k], int(p)) for t, k, p in zip(time, key, person, strict=True)]


def iso(time):
    return str(np.datetime64(time, "us")) + "Z"


def csv_line(cells):
    return (
        ",".join(
            '"' + str(cell).replace('"', '""') + '"' if '"' in str(cell) else str(cell)
            for cell in cells
        )
        + "\n"
    )


def csv_text(rows, header=("time", "key", "person")):
    return csv_line(header) + "".join(
        csv_line((iso(time), key, person)) for time, key, person in rows
    )


def jsonl_text(rows):
    lines = (
        json.dumps({"time": iso(time), "key": key, "person": person, "more": {"a": [1]}})
        for time, key, person in rows
    )
    return "".join(line + "\n" for line in lines)


def write_csv(path, rows):
    path.write_text(csv_text(rows), encoding="utf-8")


def write_jsonl(path, rows):
    path.write_text(jsonl_text(rows), encoding="utf-8")


def table_of(rows):
    time, key, person = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {
            "more": pa.array([None] * len(rows), pa.float64()),
            "person": pa.array(person, pa.int64()),
            "time": pa.array(time, pa.timestamp("us", "UTC")),
            "key": pa.array(key, pa.string()),
        }
    )


def write_parquet(path, rows, group=3):
    pq.write_table(table_of(rows), path, row_group_size=group)


def write_arrow(path, rows, batch=3):
    feather.write_feather(table_of(rows), path, chunksize=batch)


COLUMNS = Columns("time", "key", person="person", person_type="integer")
INTAKE = Intake(columns=COLUMNS, domain=KEYS)
FORMATS = {
    "csv": (CsvFormat(), write_csv),
    "jsonl": (JsonLinesFormat(), write_jsonl),
    "parquet": (ParquetFormat(), write_parquet),
    "arrow": (ArrowFileFormat(), write_arrow),
}


def source(pattern, format, *, intake=INTAKE, **parameters):  # noqa: A002
    return FileSource(pattern=pattern, format=format, intake=intake, **parameters)


def rows_of(batches, keys=KEYS):
    """The events of batches, as they were written."""
    rows = []
    for batch in batches:
        persons = [None] * len(batch) if batch.person is None else batch.person.tolist()
        rows += [
            (t, keys[k], p)
            for t, k, p in zip(batch.time.tolist(), batch.key.tolist(), persons, strict=True)
        ]
    return rows
