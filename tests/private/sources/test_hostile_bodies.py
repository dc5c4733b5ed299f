"""The worst bodies of every content type cost little more memory than their allowed size."""

from __future__ import annotations

import gzip
import io
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from penstock.private.bounding import Bounding
from penstock.private.person_ids import MAX_TEXT_BYTES, shortened
from penstock.private.sources.avro import AvroMessages
from penstock.private.sources.base import Columns, Intake, Rejections
from penstock.private.sources.json_arrays import ArrayError, array_lines
from penstock.private.sources.message_formats import JsonMessages
from penstock.private.sources.mqtt import _values
from penstock.private.sources.request_bodies import JSON, NDJSON, STREAM, BodyError, RequestBodies

SIZE = 4 * 2**20
ROWS = 50_000
MAX_PEAK_BYTES = 40 * 2**20
INTAKE = Intake(columns=Columns("time", "key", person="person"), domain=["north"])
EVENT = b'{"time":"2026-01-01T00:00:00Z","key":"north","person":"%d"}'


def filled(piece, before=b"", after=b""):
    return before + piece * ((SIZE - len(before) - len(after)) // len(piece)) + after


def stream(*batches):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def columns(person):
    rows = len(person)
    return pa.record_batch(
        {
            "time": pa.array(np.zeros(rows, np.int64), pa.timestamp("us", "UTC")),
            "key": pa.array(["north"] * rows),
            "person": person,
        }
    )


def words(indices, dictionary):
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(dictionary))


LONG = [f"{number:060}" for number in range(ROWS)]
POOLS = []  # columns outlive the test, and a pool must outlive its columns
TOO_LARGE, BROKEN, TAKEN = 413, 400, 200
BODIES = {
    "empty objects": (NDJSON, filled(b"{}\n"), TOO_LARGE),
    "empty lines": (NDJSON, filled(b"\n"), TOO_LARGE),
    "one endless line": (NDJSON, filled(b"x"), TAKEN),
    "broken lines": (NDJSON, filled(b'{"time":[' + b" " * 100 + b"\n"), TAKEN),
    "numbers near the largest": (NDJSON, filled(b'{"a":1.11111111111111111111e328}\n'), TOO_LARGE),
    "few numbers near the largest": (NDJSON, b'{"a":1.11111111111111111111e328}\n' * 2000, BROKEN),
    "deep values": (NDJSON, filled(b'{"a":' + b"[" * 9_000 + b"]" * 9_000 + b"}\n"), BROKEN),
    "broken deep values": (NDJSON, filled(b'{"a":' + b"[" * 9_000 + b"}\n"), TAKEN),
    "small objects in a broken line": (NDJSON, filled(b"{}," * 300_000, b'{"a":[', b"]}"), TAKEN),
    "long numbers": (NDJSON, filled(b'{"person":' + b"9" * 900_000 + b"}\n"), TAKEN),
    "small numbers": (JSON, filled(b"1,", b"[", b"1]"), TOO_LARGE),
    "empty objects in an array": (JSON, filled(b"{},", b"[", b"{}]"), TOO_LARGE),
    "small numbers by name": (JSON, filled(b"1,", b'{"events":[', b"1]}"), TOO_LARGE),
    "an array in an array": (JSON, filled(b"1,", b"[[", b"1]]"), TAKEN),
    "open brackets": (JSON, filled(b"["), BROKEN),
    "backslashes": (JSON, filled(b"\\", b'["', b'"]'), TAKEN),
    "one large object": (JSON, filled(b'"a":1,', b"{", b'"a":1}'), TOO_LARGE),
    "much before the events": (JSON, filled(b'"a":[],', b"{", b'"events":[]}'), TOO_LARGE),
    "a dictionary of one word": (STREAM, stream(columns(words([0] * ROWS, ["x" * 2**20]))), 413),
    "a dictionary in every batch": (
        STREAM,
        stream(*[columns(words([number], LONG)) for number in range(500)]),
        TAKEN,
    ),
    "too many rows": (STREAM, stream(columns(pa.array(["x"] * (ROWS + 1)))), TOO_LARGE),
}


def peak(read):
    """The most bytes that Python and Arrow had at one time, above those before."""
    usual = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(usual)
    POOLS.append(pool)
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        return read(), tracemalloc.get_traced_memory()[1] + pool.max_memory()
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(usual)


@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("what", BODIES)
def test_no_body_costs_much_more_than_its_allowed_size(what, zipped):
    media, body, expected = BODIES[what]
    bodies = RequestBodies(intake=INTAKE, size=SIZE, rows=ROWS)
    body, encoding = (gzip.compress(body, 1), "gzip") if zipped else (body, "")

    def read():
        found = []
        try:
            found += bodies.batches(body, media, encoding, Rejections())
        except BodyError as error:
            return error.status, found
        return TAKEN, found

    (status, found), most = peak(read)
    assert status == expected
    assert sum(map(len, found)) <= ROWS
    assert most < MAX_PEAK_BYTES


def test_rows_are_limited_before_they_are_read():
    bodies = RequestBodies(intake=INTAKE, size=2**26, rows=150_000)
    lines = b"".join(EVENT % number + b"\n" for number in range(150_001))
    taken = bodies.batches(gzip.compress(lines, 1), NDJSON, "gzip", Rejections())
    first = len(next(taken))
    assert 0 < first < 150_000
    with pytest.raises(BodyError, match="more than 150000 events"):
        first += sum(map(len, taken))
    assert first <= 150_000


def test_what_a_batch_of_arrow_holds_is_not_the_body():
    body = bytearray(stream(columns(pa.array(LONG))))
    found = list(RequestBodies(intake=INTAKE).batches(body, STREAM, "", Rejections()))
    body.clear()  # a buffer over it would refuse that
    assert sum(map(len, found)) == ROWS


def lines_of(text, *, limit, cut):
    pieces = (text[start : start + cut] for start in range(0, len(text), cut))
    return b"".join(array_lines(pieces, limit=limit))


@pytest.mark.parametrize("cut", [1, 2, 7, 1_000])
def test_an_array_is_split_alike_wherever_its_pieces_end(cut):
    text = b'[{"a":"},{\\\\"}, {"b":[{},{}]},\n{"c":"\\"]"} , 5]'
    assert lines_of(text, limit=100, cut=cut).splitlines() == [
        b'{"a":"},{\\\\"}',
        b'{"b":[{},{}]}',
        b'{"c":"\\"]"}',
        b"5",
    ]


@pytest.mark.parametrize("cut", [1, 2, 7, 1_000])
def test_an_element_that_is_too_long_is_passed_on_and_the_others_are_found(cut):
    long = b'{"long":"' + b'\\"],' * 100 + b'"}'
    found = lines_of(b"[1," + long + b",2," + long + b"]", limit=50, cut=cut)
    assert found.splitlines() == [b"1", long, b"2", long]


@pytest.mark.parametrize(
    "text",
    [
        b"[1,]", b"[,1]", b"[1,,2]", b"[1 , ,2]", b"[1}", b"[1]]", b"[1] 2", b"[1", b"[", b"1", b"",
        b'{"events":[1]} 2', b'{"events":[1],"events":[2]}', b'{"events":[1]', b'{"events":[1]]',
        b'{"a":1,"events":[1],}',
    ],
)  # fmt: skip
@pytest.mark.parametrize("cut", [1, 3, 1_000])
def test_what_is_no_array_is_refused_wherever_its_pieces_end(text, cut):
    with pytest.raises(ArrayError):
        lines_of(text, limit=100, cut=cut)


@pytest.mark.parametrize("cut", [1, 3, 1_000])
def test_an_array_by_name_is_found_at_the_top_only(cut):
    text = b'{"a":{"events":[1]},"\\"events":[2],"events": [3,\n4],"z":"]"}'
    assert lines_of(text, limit=100, cut=cut) == b"3\n4\n"
    assert lines_of(b'{"a":{"events":[1]}}', limit=100, cut=cut) == b'{"a":{"events":[1]}}\n'


def test_a_person_with_a_long_id_stays_one_person_whatever_came_first():
    long, other = "x" * 500, "x" * 499 + "y"
    columns = Columns("time", "key", person="person")
    table = pa.table(
        {
            "time": ["2026-01-01T00:00:00Z"] * 4,
            "key": ["north"] * 4,
            "person": [long, "a", other, long],
        }
    )
    batch = Intake(columns=columns, domain=["north"]).batch(
        table, position=None, rejections=Rejections()
    )
    assert max(map(len, batch.person.to_pylist())) == MAX_TEXT_BYTES + 1
    unit = Bounding(keys=1, contribution=1)
    for person in (batch.person, table["person"].combine_chunks(), shortened(batch.person)):
        unit.add(person, batch.key, batch.time)
    assert unit.counts().tolist() == [3]


AVRO = {
    "type": "record",
    "name": "Tap",
    "fields": [
        {"name": "time", "type": "string"},
        {"name": "key", "type": "string"},
        {"name": "person", "type": "bytes"},
    ],
}


def long_avro(size):
    """A message with a person of that many bytes."""
    length, number = b"", 2 * size
    while number > 127:
        length, number = length + bytes([number % 128 + 128]), number // 128
    return b"\x14" + b"2026-01-01" + b"\x0a" + b"north" + length + bytes([number]) + b"x" * size


MESSAGES = {
    "long values": (JsonMessages(), [EVENT % 1 + b" " * 900_000] * 12, 12),
    "broken long values": (JsonMessages(), [b'{"a":[' + b"{}," * 300_000 + b"]}"] * 3, 0),
    "many small values": (JsonMessages(), [b"{}"] * 100_000, 0),
    "long texts of Avro": (AvroMessages(AVRO), [long_avro(900_000)] * 12, 12),
    "texts of Avro": (AvroMessages(AVRO), [long_avro(200)] * 5_000, 5_000),
}


@pytest.mark.parametrize("what", MESSAGES)
def test_no_messages_cost_much_more_than_their_size(what):
    form, values, expected = MESSAGES[what]
    size = sum(map(len, values))

    def read():
        rejections = Rejections()
        table = form.table(values, INTAKE.columns, rejections=rejections)
        return len(INTAKE.batch(table, position=None, rejections=rejections))

    rows, most = peak(read)
    assert rows == expected
    assert most < MAX_PEAK_BYTES + 3 * size


@pytest.mark.parametrize(
    ("payload", "objects", "reasons"),
    [
        (b"[" + b"1," * 2_000_000 + b"1]", 0, {"line too long": 1}),
        (b"\n" * 2 + b"1\n" * 2_000_000, 0, {"line too long": 1}),
        (b"[" + b"1," * 999 + b"1]", 1_000, {}),
        (None, 0, {"line too long": 1}),
    ],
)
def test_a_payload_of_very_many_objects_is_dropped_without_reading_them(payload, objects, reasons):
    rejections = Rejections()
    values, most = peak(lambda: _values(payload, rejections))
    assert (len(values), rejections.for_operator()) == (objects, reasons)
    assert most < MAX_PEAK_BYTES
