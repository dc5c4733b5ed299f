"""Bodies in every format, damaged, hostile or too large."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import ConfigurationError
from penstock.private.sources.base import Columns, Intake, Rejections
from penstock.private.sources.request_bodies import JSON, NDJSON, STREAM, BodyError, RequestBodies

from tests.private.sources.events import INTAKE, KEYS, events, iso, jsonl_text, rows_of, table_of

ROWS = events(50)
OBJECTS = [json.loads(line) for line in jsonl_text(ROWS).splitlines()]


def stream(table, *, chunk=None, **options):
    sink = io.BytesIO()
    with ipc.new_stream(sink, table.schema, options=ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=chunk)
    return sink.getvalue()


def dictionaries(table, *names):
    for name in names:
        place = table.column_names.index(name)
        table = table.set_column(place, name, table[name].dictionary_encode())
    return table


def read(body, media, encoding="", *, intake=INTAKE, **limits):
    rejections = Rejections()
    batches = RequestBodies(intake=intake, **limits).batches(body, media, encoding, rejections)
    return rows_of(batches), rejections.for_operator()


def refused(body, media, encoding="", **limits):
    with pytest.raises(BodyError) as error:
        read(body, media, encoding, **limits)
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__ or error.value.__context__ is None
    return error.value.status, str(error.value)


TABLE = table_of(ROWS)
COMPRESSED = {
    "Arrow, LZ4": stream(TABLE, compression="lz4"),
    "Arrow, Zstandard": stream(TABLE, compression="zstd"),
    "Arrow, Zstandard, with dictionaries": stream(
        dictionaries(TABLE, "key", "person"), chunk=20, compression="zstd"
    ),
}
ZIPPED = gzip.compress(jsonl_text(ROWS).encode(), mtime=0)
GOOD = {
    "lines": (jsonl_text(ROWS).encode(), NDJSON),
    "lines without a last end": (jsonl_text(ROWS).strip().encode(), NDJSON),
    "lines that end as on Windows": (jsonl_text(ROWS).replace("\n", "\r\n").encode(), NDJSON),
    "an array": (json.dumps(OBJECTS).encode(), JSON),
    "an array over many lines": (
        json.dumps(OBJECTS, indent=2).replace("\n", "\r\n").encode(),
        JSON,
    ),
    "an array by name": (json.dumps({"sender": "gate 1", "events": OBJECTS}).encode(), JSON),
    "Arrow": (stream(TABLE), STREAM),
    "Arrow in several batches": (stream(TABLE, chunk=7), STREAM),
    "Arrow without its end": (stream(TABLE)[:-8], STREAM),
    "Arrow with dictionaries": (
        stream(dictionaries(TABLE, "key", "person"), chunk=20),
        STREAM,
    ),
    "Arrow, large text": (
        stream(TABLE.set_column(3, "key", TABLE["key"].cast(pa.large_string()))),
        STREAM,
    ),
    "Arrow, text times": (
        stream(TABLE.set_column(2, "time", pa.array([iso(time) for time, _, _ in ROWS]))),
        STREAM,
    ),
}


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("what", GOOD)
def test_every_format_gives_the_same_events(what, zipped):
    body, media = GOOD[what]
    assert read(gzip.compress(body) if zipped else body, media, "gzip" if zipped else "") == (
        ROWS,
        {},
    )


def test_one_object_is_one_event():
    assert read(json.dumps(OBJECTS[3], indent=1).encode(), JSON) == (ROWS[3:4], {})


@pytest.mark.parametrize(
    ("body", "media"), [(b"", NDJSON), (b"\n \n", NDJSON), (b"[]", JSON), (b'{"events":[]}', JSON)]
)
def test_no_events_are_no_error(body, media):
    assert read(body, media) == ([], {})
    assert read(stream(TABLE.slice(0, 0)), STREAM) == ([], {})


BAD_VALUES = {
    "broken": (b'{"time":', "broken line"),
    "not UTF-8": (b'{"key":"\xff"}', "not UTF-8"),
    "no object": (b"5", "broken line"),
    "text for a person": (
        b'{"time":"2026-01-01T00:00:00Z","key":"north","person":"bob"}',
        "wrong type",
    ),
    "no person": (b'{"time":"2026-01-01T00:00:00Z","key":"north"}', "missing value"),
    "an unknown key": (b'{"time":"2026-01-01T00:00:00Z","key":"mars","person":1}', "unknown key"),
    "too long": (b'{"x":"' + b"x" * 2**20 + b'"}', "line too long"),
}


@pytest.mark.parametrize("what", BAD_VALUES)
@pytest.mark.parametrize("media", [NDJSON, JSON])
def test_a_bad_row_is_dropped_by_itself_and_counted(what, media):
    bad, reason = BAD_VALUES[what]
    lines = [json.dumps(each).encode() for each in OBJECTS]
    lines[10:10] = [bad, bad]
    body = b"\n".join(lines) if media == NDJSON else b"[" + b",".join(lines) + b"]"
    if what == "broken" and media == JSON:
        assert refused(body, media) == (400, "the body is not JSON.")
    else:
        assert read(body, media) == (ROWS, {reason: 2})


@pytest.mark.parametrize("media", [NDJSON, JSON])
@pytest.mark.parametrize("field", ["time", "key", "person"])
def test_a_body_whose_events_call_a_field_by_another_name_is_refused(field, media):
    lines = [json.dumps(each).replace(f'"{field}"', '"typo"').encode() for each in OBJECTS]
    body = b"\n".join(lines) if media == NDJSON else b"[" + b",".join(lines) + b"]"
    assert refused(body, media) == (400, f"no event has the field {field!r}. Nothing was kept.")


def test_a_field_that_is_null_in_every_event_is_there():
    line = b'{"time":"2026-01-01T00:00:00Z","key":"north","person":null}\n'
    assert read(line * 2, NDJSON) == ([], {"missing value": 2})


def test_an_event_without_a_person_refuses_its_body_if_none_may_lack_it():
    line = b'{"time":"2026-01-01T00:00:00Z","key":"north","person":%b}\n'
    intake = replace(INTAKE, columns=replace(INTAKE.columns, missing_person="refuse"))
    bodies = RequestBodies(intake=intake)
    with pytest.raises(BodyError, match=r"^an event has no 'person'\. Nothing was kept\.$"):
        list(bodies.batches(line % b"1" + line % b"null", NDJSON, "", Rejections()))


def test_a_line_that_never_ends_is_one_bad_row():
    body = jsonl_text(ROWS).encode() + b'{"x":"' + b"x" * 20_000_000
    assert read(body, NDJSON) == (ROWS, {"line too long": 1})


def test_text_of_arrow_that_is_not_utf_8_is_a_bad_row():
    raw = TABLE["key"].cast(pa.binary()).to_pylist()
    raw[7] = b"\xff"
    chunk = pa.array(raw, pa.binary())
    text = pa.Array.from_buffers(pa.string(), len(chunk), chunk.buffers())
    for column in (text, pa.DictionaryArray.from_arrays(pa.array(range(len(raw))), text)):
        body = stream(TABLE.set_column(3, "key", column))
        assert read(body, STREAM) == (ROWS[:7] + ROWS[8:], {"wrong type": 1})


def test_missing_values_of_arrow_are_bad_rows():
    person = TABLE["person"].to_pylist()
    person[:2] = [None, None]
    assert read(stream(TABLE.set_column(1, "person", pa.array(person))), STREAM) == (
        ROWS[2:],
        {"missing value": 2},
    )


@pytest.mark.parametrize(
    "body",
    [b"", b"soon", b"[1", b'[{"a":1},]', b'{"events":[1', b"[" * 100_000, b"\xff\xfe", b'["a\nb"]'],
)
def test_what_is_no_json_is_refused(body):
    assert refused(body, JSON) == (400, "the body is not JSON.")


@pytest.mark.parametrize(
    ("body", "media"),
    [(b"soon\nnever\n", NDJSON), (b"[1,2]", JSON), (b"5", NDJSON), (b"\0" * 99, NDJSON)],
)
def test_a_body_of_bad_rows_alone_is_taken(body, media):
    rows, counts = read(body, media)
    assert (rows, list(counts)) == ([], ["broken line"])


@pytest.mark.parametrize(
    "body", [b"", b"soon", b"\0" * 100, b"\xff" * 100, stream(TABLE)[:-300], stream(TABLE)[:100]]
)
def test_what_is_no_arrow_is_refused(body):
    status, text = refused(body, STREAM)
    assert (status, text) == (400, "the body cannot be read.")


@pytest.mark.parametrize(
    "column",
    [
        pa.nulls(50),
        pa.array([1.5] * 50),
        pa.array([True] * 50),
        pa.array([["north"]] * 50),
        pa.array(["north"] * 50, pa.string_view()),
        pa.RunEndEncodedArray.from_arrays(pa.array([50]), pa.array(["north"])),
        pa.DictionaryArray.from_arrays(pa.array([0] * 50), pa.array([1.5])),
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16] * 50, pa.binary(16))),
        TABLE["time"],
    ],
    ids=lambda column: str(column.type),
)
def test_types_of_arrow_that_could_hurt_are_refused(column):
    assert refused(stream(TABLE.set_column(3, "key", column)), STREAM) == (
        400,
        "the stream's column 'key' is of a type that is not accepted.",
    )


def test_a_column_of_arrow_must_be_there_once():
    for table in (TABLE.drop_columns(["key"]), TABLE.append_column("key", TABLE["key"])):
        assert refused(stream(table), STREAM) == (400, "the stream must have one column 'key'.")


def test_other_columns_may_be_anything():
    odd = pa.array([[{"a": 1.5}]] * 50)
    assert read(stream(TABLE.append_column("odd", odd)), STREAM) == (ROWS, {})


def test_an_index_beyond_its_dictionary_is_refused():
    indices = pa.array([0] * 49 + [9], pa.int32())
    column = pa.DictionaryArray.from_arrays(indices, pa.array(KEYS), safe=False)
    assert refused(stream(TABLE.set_column(3, "key", column)), STREAM)[0] == 400


def test_more_events_than_allowed_are_refused():
    for body, media in GOOD.values():
        assert refused(body, media, rows=49) == (413, "the body has more than 49 events.")
        assert read(body, media, rows=50) == (ROWS, {})


COMPRESSION_REFUSED = (
    415,
    "the stream's buffers are compressed: send them uncompressed, or use Content-Encoding: gzip.",
)


@pytest.mark.parametrize("what", COMPRESSED)
def test_compressed_buffers_are_refused(what):
    assert refused(COMPRESSED[what], STREAM) == COMPRESSION_REFUSED
    assert refused(gzip.compress(COMPRESSED[what]), STREAM, "gzip") == COMPRESSION_REFUSED


def test_a_compressed_dictionary_is_refused_before_it_is_allocated():
    words = pa.array(["a" * 100] * 300_000)
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 50, pa.int8()), words)
    body = stream(TABLE.set_column(3, "key", column), compression="zstd")
    before = pa.default_memory_pool().max_memory()
    assert refused(body, STREAM) == COMPRESSION_REFUSED
    assert pa.default_memory_pool().max_memory() == before


def test_what_grows_when_decompressed_is_refused_before_it_does():
    zeros = pa.table(
        {
            name: pa.array(np.zeros(900_000, np.int64))
            for name in ("time", "key", "person", "a", "b", "c", "d", "e", "f")
        }
    )
    for compression in ("lz4", "zstd"):
        body = stream(zeros, compression=compression)
        assert len(body) < 2**20
        before = pa.default_memory_pool().max_memory()
        assert refused(body, STREAM) == COMPRESSION_REFUSED
        assert pa.default_memory_pool().max_memory() == before
    bomb = gzip.compress(b"\0" * 2**24)
    assert refused(bomb, NDJSON, "gzip", size=2**20) == (
        413,
        f"the body has more than {2**20} bytes when decompressed.",
    )


def test_a_dictionary_that_grows_when_written_out_is_refused():
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 50, pa.int8()), pa.array(["x" * 2**16]))
    status, text = refused(stream(TABLE.set_column(3, "key", column)), STREAM, size=2**20)
    assert (status, text) == (
        413,
        f"the body has more than {2**20} bytes when its dictionaries are written out.",
    )


def test_a_stream_of_very_many_messages_is_refused():
    many = pa.concat_tables([TABLE] * 30)
    assert refused(stream(many, chunk=1), STREAM)[0] == 413


@pytest.mark.parametrize(
    "body", [b"", b"no", ZIPPED[:-1], ZIPPED + b"more", ZIPPED * 2], ids=range(5)
)
def test_damaged_gzip_is_refused(body):
    assert refused(body, NDJSON, "gzip")[0] == 400


@settings(max_examples=300, deadline=None)
@given(
    what=st.sampled_from([name for name in (*GOOD, *COMPRESSED) if name.startswith("Arrow")]),
    seed=st.integers(0, 2**32),
    changes=st.integers(1, 8),
)
def test_a_damaged_stream_is_read_or_refused(what, seed, changes):
    chance, body = (
        random.Random(seed),
        bytearray(COMPRESSED[what] if what in COMPRESSED else GOOD[what][0]),
    )
    for _ in range(changes):
        body[chance.randrange(len(body))] = chance.randrange(256)
    with contextlib.suppress(BodyError):
        rows, _ = read(bytes(body), STREAM)
        assert len(rows) <= len(ROWS)


def test_persons_may_be_text():
    intake = Intake(columns=Columns("time", "key", person="person"), domain=KEYS)
    rows = [(time, key, f"é{person}") for time, key, person in ROWS]
    table = TABLE.set_column(1, "person", pa.array([person for _, _, person in rows]))
    assert read(stream(table), STREAM, intake=intake) == (rows, {})
    assert read(jsonl_text(rows).encode(), NDJSON, intake=intake) == (rows, {})


@pytest.mark.parametrize("limits", [{"size": 0}, {"rows": 0}])
def test_limits_are_numbers(limits):
    with pytest.raises(ConfigurationError):
        RequestBodies(intake=INTAKE, **limits)
