"""Every format gives the same events, in batches of any size, from any position on."""

from __future__ import annotations

import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import feather

from penstock.core.errors import ConfigurationError, InputError, StateError
from penstock.private.sources.base import Columns, Intake, Rejections
from penstock.private.sources.csv import CsvFormat
from penstock.private.sources.files import FileReading, lines
from penstock.private.sources.jsonl import JsonLinesFormat
from penstock.private.sources.parquet import ParquetFormat
from penstock.private.sources.stdin import StdinSource

from tests.private.sources.events import (
    COLUMNS,
    FORMATS,
    INTAKE,
    KEYS,
    START,
    csv_text,
    events,
    jsonl_text,
    rows_of,
    source,
    write_csv,
    write_parquet,
)

SMALL = {
    "csv": CsvFormat(block=50),
    "jsonl": JsonLinesFormat(block=50),
    "parquet": ParquetFormat(),
    "arrow": FORMATS["arrow"][0],
}


@pytest.mark.parametrize("kind", FORMATS)
def test_what_was_written_is_read(tmp_path, kind):
    reader, write = FORMATS[kind]
    rows = events(1000)
    write(tmp_path / "events", rows)
    files = source(tmp_path / "events", reader)
    assert rows_of(files.batches()) == rows
    assert files.rejections.for_operator() == {}


@pytest.mark.parametrize("kind", FORMATS)
def test_no_events_are_no_events(tmp_path, kind):
    reader, write = FORMATS[kind]
    write(tmp_path / "events", [])
    assert rows_of(source(tmp_path / "events", reader).batches()) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("block", ["small", "large"])
def test_from_any_position_on_come_exactly_the_rows_that_follow(tmp_path, kind, block):
    """Exhaustive over two files of 7 and 5 rows: every batch size, every boundary, every other
    batch size.
    """
    reader, write = FORMATS[kind]
    reader = SMALL[kind] if block == "small" else reader
    rows = events(12)
    write(tmp_path / "a", rows[:7])
    write(tmp_path / "b", rows[7:])
    sizes = (1, 2, 3, 5, 100)
    for size in sizes:
        taken = []
        for batch in source(tmp_path / "*", reader, rows=size).batches():
            assert len(batch) <= size
            taken += rows_of([batch])
            position = json.loads(json.dumps(batch.position))
            for other in sizes:
                assert (
                    taken + rows_of(source(tmp_path / "*", reader, rows=other).batches(position))
                    == rows
                )
        assert taken == rows


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@settings(max_examples=60, deadline=None)
@given(
    cells=st.lists(
        st.tuples(st.sampled_from(KEYS), st.text(st.sampled_from('ab,"\n\r é'), max_size=6)).map(
            lambda pair: (START, *pair)
        ),
        max_size=12,
    ),
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    blocks=st.tuples(st.integers(1, 80), st.integers(1, 80)),
)
def test_quoted_text_and_any_block_size_change_nothing(
    tmp_path_factory, kind, cells, sizes, blocks
):
    path = tmp_path_factory.mktemp("any") / "events"
    rows = [(time, key, person or "x") for time, key, person in cells]
    if kind == "csv":
        quoted = [
            (time, key, f'{person}"') for time, key, person in rows
        ]  # so that each is put in quotes
        rows, text = quoted, csv_text(quoted)
        first, second = (CsvFormat(block=block, quoted_newlines=True) for block in blocks)
    else:
        text = jsonl_text(rows)
        first, second = (JsonLinesFormat(block=block) for block in blocks)
    path.write_bytes(text.encode())
    intake = Intake(columns=Columns("time", "key", person="person"), domain=KEYS)
    taken = []
    for batch in source(path, first, intake=intake, rows=sizes[0]).batches():
        taken += rows_of([batch])
        rest = source(path, second, intake=intake, rows=sizes[1]).batches(batch.position)
        assert taken + rows_of(rest) == rows
    assert taken == rows


@pytest.mark.parametrize("quoted", [False, True])
@settings(max_examples=200, deadline=None)
@given(
    pieces=st.lists(
        st.sampled_from([*(bytes([code]) for code in b'ab,"\n\r\xff'), b"xyzxyzxyz"]), max_size=40
    ),
    blocks=st.tuples(st.integers(1, 30), st.integers(1, 30)),
    limit=st.integers(1, 12),
)
def test_what_counts_as_a_line_does_not_depend_on_blocks(quoted, pieces, blocks, limit):
    data = b"".join(pieces)

    def cut(block, start, rows):
        rejections = Rejections()
        file = io.BytesIO(data)
        file.seek(start)
        quote = b'"' if quoted else None
        how = FileReading(
            name="data",
            columns=Columns("time", "key"),
            rows=rows,
            final=True,
            rejections=rejections,
        )
        found = lines(file, start, how, limit=limit, block=block, quote=quote)
        return [(array.to_pylist(), offset) for array, offset in found], rejections.for_operator()

    def flat(parts):
        return [line for some, _ in parts for line in some]

    whole, tally = cut(10_000, 0, 10_000)
    pieces, other = cut(blocks[0], 0, 1)
    assert flat(pieces) == flat(whole)
    assert other == tally
    if pieces:
        assert pieces[-1][1] == len(data)
    for place, (_, offset) in enumerate(pieces):
        rest, _ = cut(blocks[1], offset, 3)
        assert flat(pieces[: place + 1]) + flat(rest) == flat(whole)


def test_a_batch_is_never_larger_than_asked_and_blocks_bound_the_memory(tmp_path):
    rows = events(5000)
    write_csv(tmp_path / "events", rows)
    size = (tmp_path / "events").stat().st_size
    pa.default_memory_pool().release_unused()
    before, most = pa.total_allocated_bytes(), 0
    for batch in source(tmp_path / "events", CsvFormat(block=4096), rows=64).batches():
        assert len(batch) <= 64
        most = max(most, pa.total_allocated_bytes() - before)
    assert most < size / 10


def test_only_the_needed_columns_of_parquet_are_read(tmp_path):
    wide = pa.table(
        {
            "time": pa.array([START], pa.timestamp("us", "UTC")),
            "key": ["north"],
            "person": [1],
            "list": [[1, 2]],
        }
    )
    pq.write_table(wide, tmp_path / "events")
    assert rows_of(source(tmp_path / "events", ParquetFormat()).batches()) == [(START, "north", 1)]


@pytest.mark.parametrize("kind", FORMATS)
def test_without_persons_there_is_no_column_of_them(tmp_path, kind):
    reader, write = FORMATS[kind]
    write(tmp_path / "events", events(3))
    intake = Intake(columns=Columns("time", "key"), domain=KEYS)
    assert all(
        batch.person is None
        for batch in source(tmp_path / "events", reader, intake=intake).batches()
    )


@pytest.mark.parametrize("kind", FORMATS)
def test_persons_may_be_text_in_every_format(tmp_path, kind):
    reader, _ = FORMATS[kind]
    if kind == "jsonl":
        text = "".join(
            json.dumps({"time": "2026-09-21", "key": "north", "person": name}) + "\n"
            for name in ("7", "007")
        )
        (tmp_path / "events").write_text(text)
    elif kind == "csv":
        (tmp_path / "events").write_text(
            "time,key,person\n2026-09-21,north,7\n2026-09-21,north,007\n"
        )
    else:
        table = {
            "time": pa.array([START] * 2, pa.timestamp("us")),
            "key": ["north"] * 2,
            "person": ["7", "007"],
        }
        write = feather.write_feather if kind == "arrow" else pq.write_table
        write(pa.table(table), tmp_path / "events")
    intake = Intake(columns=Columns("time", "key", person="person"), domain=KEYS)
    (batch,) = source(tmp_path / "events", reader, intake=intake).batches()
    assert batch.person.to_pylist() == ["7", "007"]


def test_csv_with_other_delimiters_names_ends_and_a_byte_order_mark(tmp_path):
    intake = Intake(columns=Columns("when", "where", clock="seconds"), domain=KEYS)
    path = tmp_path / "events"
    path.write_bytes(b"\xef\xbb\xbfwhere;x;when\r\nnorth;;5\r\n\r\nsouth;a,b;6")
    expected = [(5_000_000, "north", None), (6_000_000, "south", None)]
    assert rows_of(source(path, CsvFormat(delimiter=";"), intake=intake).batches()) == expected
    path.write_bytes(b"north\t5\nsouth\t6\n")
    reader = CsvFormat(delimiter="\t", names=("where", "when"))
    assert rows_of(source(path, reader, intake=intake).batches()) == expected
    first, *_ = source(path, reader, intake=intake, rows=1).batches()
    assert rows_of(source(path, reader, intake=intake).batches(first.position)) == expected[1:]


@pytest.mark.parametrize("delimiter", ["", ",,", '"', "\n", "é"])
def test_a_delimiter_is_one_character(delimiter):
    with pytest.raises(ConfigurationError, match="delimiter must be"):
        CsvFormat(delimiter=delimiter)


@pytest.mark.parametrize("delimiter", [*"|^-]\\ .*;"])
def test_a_delimiter_has_no_other_meaning(tmp_path, delimiter):
    line = f'"7"{delimiter}north\n'
    (tmp_path / "events").write_text(f"time{delimiter}key\n{line}{line}")
    intake = Intake(columns=Columns("time", "key", clock="seconds"), domain=KEYS)
    assert (
        rows_of(
            source(tmp_path / "events", CsvFormat(delimiter=delimiter), intake=intake).batches()
        )
        == [(7_000_000, "north", None)] * 2
    )


class Pipe(io.RawIOBase):
    """What comes through a pipe: a few bytes at a time, once."""

    def __init__(self, data, most):
        self.data, self.most = io.BytesIO(data), most

    def readable(self):
        return True

    def read(self, size=-1):
        return self.data.read(min(size, self.most))


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("most", [1, 7, 10_000])
def test_standard_input_is_read_once_and_says_so(kind, most):
    rows = events(20)
    text = csv_text(rows) if kind == "csv" else jsonl_text(rows)
    stdin = StdinSource(format=FORMATS[kind][0], intake=INTAKE, stream=Pipe(text.encode(), most))
    assert not stdin.resumable
    batches = list(stdin.batches())
    assert rows_of(batches) == rows
    assert {batch.position for batch in batches} == {None}
    with pytest.raises(StateError, match="standard input cannot go on"):
        next(stdin.batches({}))


def test_parquet_does_not_come_through_standard_input():
    with pytest.raises(
        ConfigurationError, match="ParquetFormat cannot be read from standard input"
    ):
        StdinSource(format=ParquetFormat(), intake=INTAKE)


def test_the_process_own_standard_input_is_the_default(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(csv_text(events(3)).encode())))
    assert len(rows_of(StdinSource(format=CsvFormat(), intake=INTAKE).batches())) == 3


def test_a_damaged_parquet_file_is_named_and_nothing_else_is(tmp_path):
    (tmp_path / "events.parquet").write_bytes(b"PAR1 secret 4711 PAR1")
    with pytest.raises(
        InputError, match=r"^/.*/events\.parquet: the file is not Parquet, or is damaged\.$"
    ):
        list(source(tmp_path / "events.parquet", ParquetFormat()).batches())
    write_parquet(tmp_path / "events.parquet", events(100))
    data = bytearray((tmp_path / "events.parquet").read_bytes())
    data[4:400] = b"\xff" * 396
    (tmp_path / "events.parquet").write_bytes(data)
    with pytest.raises(InputError, match="damaged"):
        list(source(tmp_path / "events.parquet", ParquetFormat()).batches())


def test_a_damaged_arrow_file_is_named_and_nothing_else_is(tmp_path):
    path = tmp_path / "events.arrow"
    path.write_bytes(b"ARROW1 secret 4711 ARROW1")
    with pytest.raises(
        InputError, match=r"^/.*/events\.arrow: the file is not Arrow, or is damaged"
    ):
        list(source(path, FORMATS["arrow"][0]).batches())


def test_the_same_batches_of_arrays_in_every_format(tmp_path):
    rows, found = events(50), []
    for kind, (reader, write) in FORMATS.items():
        write(tmp_path / kind, rows)
        found.append(
            [
                np.concatenate(
                    [getattr(b, part) for b in source(tmp_path / kind, reader).batches()]
                )
                for part in ("time", "key", "person")
            ]
        )
    for other in found[1:]:
        assert all(
            (a == b).all() and a.dtype == b.dtype == np.int64
            for a, b in zip(found[0], other, strict=True)
        )
    assert COLUMNS.names == ("time", "key", "person")
