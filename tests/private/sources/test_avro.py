"""Avro against the library of others, value by value."""

from __future__ import annotations

import io
import json

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import ConfigurationError
from penstock.private.sources.avro import MAX_DEPTH, MAX_ITEMS_PER_MESSAGE, AvroMessages
from penstock.private.sources.base import Columns, Intake, Rejections

TREE = {
    "type": "record",
    "name": "Tree",
    "fields": [
        {"name": "left", "type": ["null", "Tree"]},
        {"name": "right", "type": ["null", "Tree"]},
    ],
}
SCHEMA = {
    "type": "record",
    "name": "Tap",
    "namespace": "org.example",
    "fields": [
        {"name": "flag", "type": "boolean"},
        {"name": "time", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string", "long"]}},
        {
            "name": "key",
            "type": ["null", {"type": "enum", "name": "Gate", "symbols": ["north", "south"]}],
        },
        {"name": "more", "type": {"type": "map", "values": {"type": "array", "items": "double"}}},
        {"name": "raw", "type": {"type": "fixed", "name": "Raw", "size": 3}},
        {"name": "tree", "type": TREE},
        {"name": "other", "type": ["null", "Gate", "float", "bytes"]},
        {"name": "person", "type": ["string", "null"]},
        {"name": "number", "type": "int"},
    ],
}
PARSED = fastavro.parse_schema(json.loads(json.dumps(SCHEMA)))
BLOCKS = ("tags", "more")
FLAT = {**SCHEMA, "fields": [each for each in SCHEMA["fields"] if each["name"] not in BLOCKS]}
FLAT_PARSED = fastavro.parse_schema(json.loads(json.dumps(FLAT)))
COLUMNS = Columns("time", "key", person="person", clock="microseconds")

TEXTS = st.text(max_size=20)
LEAVES = st.fixed_dictionaries({"left": st.none(), "right": st.none()})
TREES = st.recursive(
    LEAVES,
    lambda inner: st.fixed_dictionaries({"left": st.none() | inner, "right": st.none() | inner}),
    max_leaves=5,
)
RECORDS = st.fixed_dictionaries(
    {
        "flag": st.booleans(),
        "time": st.integers(-(2**63), 2**63 - 1),
        "tags": st.lists(st.none() | TEXTS | st.integers(-(2**63), 2**63 - 1), max_size=4),
        "key": st.sampled_from([None, "north", "south"]),
        "more": st.dictionaries(
            TEXTS, st.lists(st.floats(allow_nan=False), max_size=3), max_size=3
        ),
        "raw": st.binary(min_size=3, max_size=3),
        "tree": TREES,
        "other": st.none() | st.sampled_from(["north", "south"]) | st.binary(max_size=5),
        "person": st.none() | TEXTS,
        "number": st.integers(-(2**31), 2**31 - 1),
    }
)


def written(record, parsed=PARSED):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, parsed, record)
    return out.getvalue()


def read(values, schema=SCHEMA, **parameters):
    """The rows, each as a tuple of time, key and person as they are written, and what was not
    taken.
    """
    rejections = Rejections()
    table = AvroMessages(schema, **parameters).table(values, COLUMNS, rejections=rejections)
    arrays = [table.column(name).combine_chunks() for name in COLUMNS.names]
    plain = [
        array.cast("int64") if str(array.type).startswith("timestamp") else array
        for array in arrays
    ]
    return list(
        zip(*(column.to_pylist() for column in plain), strict=True)
    ), rejections.for_operator()


def expected(records):
    return [
        (each["time"], each["key"], None if each["person"] is None else each["person"].encode())
        for each in records
    ]


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(
    st.lists(RECORDS, max_size=8),
    st.sampled_from([(b"", None), (b"", False), (b"\0\0\0\1\7", True), (b"\0\0\0\1\7", None)]),
)
def test_what_others_write_is_read(records, form):
    header, framed = form
    assert read([header + written(each) for each in records], framed=framed) == (
        expected(records),
        {},
    )


@settings(deadline=None, max_examples=50)
@given(st.lists(RECORDS, min_size=1, max_size=4), st.data())
def test_a_value_that_is_cut_or_goes_on_loses_only_itself(records, data):
    values = [written(each) for each in records]
    place = data.draw(st.integers(0, len(values) - 1))
    cut = data.draw(st.integers(1, len(values[place]) - 1))
    values.insert(place, values[place][:cut])
    values.append(written(records[0]) + b"\2")
    assert read(values, framed=False) == (expected(records), {"broken line": 2})


@settings(deadline=None, max_examples=100)
@given(st.lists(st.binary(min_size=1, max_size=60), max_size=6), RECORDS)
def test_whatever_comes_good_values_are_read_and_bad_ones_are_counted(rubbish, record):
    rows, refused = read([written(record), *rubbish, written(record)], framed=False)
    assert rows[0] == rows[-1] == expected([record])[0]
    assert len(rows) - 2 + refused.get("broken line", 0) == len(rubbish)


@settings(deadline=None, max_examples=100)
@given(st.lists(RECORDS, min_size=1, max_size=3), st.data())
def test_a_value_with_a_changed_byte_is_read_as_others_read_it_or_is_refused(records, data):
    values = [bytearray(written(each, FLAT_PARSED)) for each in records]
    for value in values:
        place = data.draw(st.integers(0, len(value) - 1))
        value[place] = data.draw(st.integers(0, 255))
    each_alone = [read([bytes(value)], FLAT, framed=False)[0] for value in values]
    for value, rows in zip(values, each_alone, strict=True):
        if rows:
            stream = io.BytesIO(value)
            try:
                found = fastavro.schemaless_reader(stream, FLAT_PARSED)
            except (
                UnicodeDecodeError,
                OverflowError,
            ):  # we look at text later, and Python has fewer times
                continue
            assert stream.tell() == len(value)
            assert rows[0][1:] == (
                found["key"],
                None if found["person"] is None else found["person"].encode(),
            )
    assert read(list(map(bytes, values)), FLAT, framed=False)[0] == [
        row for rows in each_alone for row in rows
    ]


def test_missing_and_long_values_are_refused():
    record = {
        "flag": True,
        "time": 1,
        "tags": [],
        "key": "north",
        "more": {},
        "raw": b"abc",
        "tree": {"left": None, "right": None},
        "other": None,
        "person": "p" * 100,
        "number": 1,
    }
    rows, refused = read([None, b"", written(record)], limit=50)
    assert rows == []
    assert refused == {"missing value": 2, "line too long": 1}


def plain(fields, **parameters):
    return AvroMessages(
        {
            "type": "record",
            "name": "Tap",
            "fields": [{"name": name, "type": kind} for name, kind in fields],
        },
        **parameters,
    )


@pytest.mark.parametrize(
    ("kind", "value", "clock"),
    [
        ({"type": "long", "logicalType": "timestamp-millis"}, 1_790_000_000_000, "iso"),
        ({"type": "long", "logicalType": "timestamp-micros"}, 1_790_000_000_000_000, "iso"),
        ({"type": "long", "logicalType": "timestamp-nanos"}, 1_790_000_000_000_000_000, "iso"),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, 1_790_000_000_000, "iso"),
        ("long", 1_790_000_000, "seconds"),
        ("string", "2026-09-21T14:13:20Z", "iso"),
    ],
)
def test_times_are_taken_as_they_are_written(kind, value, clock):
    form = plain([("time", kind), ("key", "string"), ("person", "bytes")])
    parsed = {
        "type": "record",
        "name": "Tap",
        "fields": [{"name": "time", "type": "long" if isinstance(value, int) else "string"}],
    }
    parsed["fields"] += [{"name": "key", "type": "string"}, {"name": "person", "type": "bytes"}]
    columns = Columns("time", "key", person="person", clock=clock)
    rejections = Rejections()
    values = [
        written({"time": value, "key": "north", "person": person}, parsed)
        for person in (b"anna", b"\xff")
    ]
    batch = Intake(columns=columns, domain=["north"]).batch(
        form.table(values, columns, rejections=rejections), position=None, rejections=rejections
    )
    assert batch.time.tolist() == [1_790_000_000_000_000]
    assert batch.person.to_pylist() == ["anna"]
    assert rejections.for_operator() == {"wrong type": 1}


def test_a_date_is_its_midnight():
    form = plain([("time", {"type": "int", "logicalType": "date"}), ("key", "string")])
    parsed = {
        "type": "record",
        "name": "Tap",
        "fields": [{"name": "time", "type": "int"}, {"name": "key", "type": "string"}],
    }
    columns, rejections = Columns("time", "key"), Rejections()
    table = form.table(
        [written({"time": 20_000, "key": "north"}, parsed)], columns, rejections=rejections
    )
    batch = Intake(columns=columns, domain=["north"]).batch(
        table, position=None, rejections=rejections
    )
    assert batch.time.tolist() == [20_000 * 86_400 * 10**6]


def test_numbers_of_all_lengths_are_read():
    values = [
        sign * 2**power + step for power in range(63) for sign in (1, -1) for step in (-1, 0, 1)
    ] + [2**63 - 1, -(2**63)]
    form = plain([("time", "long"), ("key", "string")])
    parsed = {
        "type": "record",
        "name": "Tap",
        "fields": [{"name": "time", "type": "long"}, {"name": "key", "type": "string"}],
    }
    table = form.table(
        [written({"time": each, "key": ""}, parsed) for each in values],
        Columns("time", "key", clock="seconds"),
        rejections=Rejections(),
    )
    assert table.column("time").to_pylist() == values


def test_a_number_without_end_is_broken():
    form, rejections = plain([("time", "long"), ("key", "string")], framed=False), Rejections()
    values = [
        b"\xff" * 9 + b"\x01\x00",
        b"\xff" * 9 + b"\x02\x00",
        b"\xff" * 10 + b"\x00",
        b"\xff" * 40,
    ]
    table = form.table(values, Columns("time", "key", clock="seconds"), rejections=rejections)
    assert table.num_rows == 1
    assert rejections.for_operator() == {"broken line": 3}


@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param(
            b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01" + b"\x00",
            id="an array of nearly 2**63 nothings",
        ),
        pytest.param(
            b"\x01\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00", id="a block of nearly 2**63 bytes"
        ),
        pytest.param(b"\x01\x01\x00", id="a block of less than no bytes"),
        pytest.param(
            b"\x01\x00" * 3 * MAX_ITEMS_PER_MESSAGE + b"\x00", id="blocks of no bytes, many"
        ),
        pytest.param(b"\x02" * 3 * MAX_ITEMS_PER_MESSAGE + b"\x00", id="blocks of one item, many"),
    ],
)
def test_a_hostile_array_is_refused_and_soon(hostile):
    form, rejections = (
        plain([("list", {"type": "array", "items": "null"}), ("time", "long"), ("key", "string")]),
        Rejections(),
    )
    good = b"\x04\x00\x02\x00"
    table = form.table(
        [good, hostile + b"\x02\x00", good],
        Columns("time", "key", clock="seconds"),
        rejections=rejections,
    )
    assert table.num_rows == 2
    assert rejections.for_operator() == {"broken line": 1}


def test_a_sized_block_is_passed_over_at_once():
    form, rejections = (
        plain([("list", {"type": "array", "items": "long"}), ("time", "long"), ("key", "string")]),
        Rejections(),
    )
    block = (
        b"\x01\x80\x80\x01" + b"\x02" * 8192 + b"\x00"
    )  # one item short of nothing: its number does not matter, its size does
    table = form.table(
        [block + b"\x0e\x00"], Columns("time", "key", clock="seconds"), rejections=rejections
    )
    assert table.column("time").to_pylist() == [7]


def test_what_is_nested_too_deeply_is_refused():
    form = plain([("tree", TREE), ("time", "long"), ("key", "string")])
    rejections = Rejections()

    def nested(depth):
        return b"\x02" * depth + b"\x00" * (depth + 1) + b"\x00" + b"\x0e\x00"

    table = form.table(
        [nested(MAX_DEPTH - 2), nested(5 * MAX_DEPTH)],
        Columns("time", "key", clock="seconds"),
        rejections=rejections,
    )
    assert table.column("time").to_pylist() == [7]
    assert rejections.for_operator() == {"broken line": 1}


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{", "not JSON"),
        ('"long"', "must be of a record"),
        ({"type": "record", "name": "A", "fields": [{"name": "a"}]}, "lacks its name or type"),
        (
            {"type": "record", "name": "A", "fields": 2 * [{"name": "a", "type": "long"}]},
            "has the name of another field",
        ),
        (
            {"type": "record", "name": "A", "fields": [{"name": "a", "type": "Nowhere"}]},
            "'Nowhere'",
        ),
        ({"type": "record", "fields": []}, "without a name"),
        ({"type": "record", "name": "A", "fields": [{"name": "a", "type": 7}]}, "no type"),
        (
            {"type": "record", "name": "A", "fields": [{"name": "a", "type": {"type": "array"}}]},
            "no type",
        ),
    ],
)
def test_a_bad_schema_is_refused(schema, message):
    with pytest.raises(ConfigurationError, match=message):
        AvroMessages(schema)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (Columns("when", "key"), "no field 'when'"),
        (Columns("time", "flag"), "'flag' must be"),
        (Columns("time", "other"), "'other' must be"),
        (Columns("time", "tags"), "'tags' must be"),
        (Columns("time", "tree"), "'tree' must be"),
    ],
)
def test_a_column_that_the_schema_cannot_give_is_refused(columns, message):
    with pytest.raises(ConfigurationError, match=message):
        AvroMessages(json.dumps(SCHEMA)).check(columns)
