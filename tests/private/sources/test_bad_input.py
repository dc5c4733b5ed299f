"""Bad rows are dropped by themselves and counted; nothing that is said shows a cell."""

from __future__ import annotations

import json
import tracemalloc

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.core.errors import InputError
from penstock.private.sources.base import Columns, Intake
from penstock.private.sources.csv import CsvFormat
from penstock.private.sources.jsonl import JsonLinesFormat, _judged, _parsed, _types, schema_of
from penstock.private.sources.parquet import ParquetFormat

from tests.private.sources.events import (
    COLUMNS,
    FORMATS,
    KEYS,
    START,
    csv_line,
    events,
    iso,
    jsonl_text,
    rows_of,
    source,
    table_of,
)

GOOD = b"2026-01-01T00:00:00Z,north,1\n"
HEADER = b"time,key,person\n"

CSV_LINES = {
    "too few fields": (b"2026-01-01T00:00:00Z,north\n", "wrong number of fields"),
    "too many fields": (b"2026-01-01T00:00:00Z,north,1,2\n", "wrong number of fields"),
    "a lost quote": (b'2026-01-01T00:00:00Z,"north,1\n', "broken line"),
    "two lost quotes": (b'2026-01-01T00:00:00Z,no"rth,"1\n', "broken line"),
    "text after a quote": (b'2026-01-01T00:00:00Z,"north"x,1\n', "broken line"),
    "a return inside": (
        b"2026-01-01T00:00:00Z,north,1\r2026-01-01T00:00:00Z,north,1\n",
        "broken line",
    ),
    "not UTF-8": (b"2026-01-01T00:00:00Z,north,\xff\n", "not UTF-8"),
    "UTF-8 cut off": (b"2026-01-01T00:00:00Z,north\xe2\x82,1\n", "not UTF-8"),
    "a surrogate": (b"2026-01-01T00:00:00Z,\xed\xa0\x80,1\n", "not UTF-8"),
    "NUL bytes": (b"\0\0\0\n", "wrong number of fields"),
    "no time": (b",north,1\n", "missing value"),
    "no key": (b"2026-01-01T00:00:00Z,,1\n", "missing value"),
    "no person": (b"2026-01-01T00:00:00Z,north,\n", "missing value"),
    "an unknown key": (b"2026-01-01T00:00:00Z,mars,1\n", "unknown key"),
    "a key in other case": (b"2026-01-01T00:00:00Z,North,1\n", "unknown key"),
    "a time that is no time": (b"yesterday,north,1\n", "wrong type"),
    "a day that there is not": (b"2026-02-29T00:00:00Z,north,1\n", "wrong type"),
    "a person that is no number": (b"2026-01-01T00:00:00Z,north,bob\n", "wrong type"),
    "a person with zeros before": (b"2026-01-01T00:00:00Z,north,01\n", "wrong type"),
    "a person of 65 bits": (b"2026-01-01T00:00:00Z,north,9223372036854775808\n", "wrong type"),
    "the year 0": (b"0000-01-01T00:00:00Z,north,1\n", "time out of range"),
    "too long": (b"2026-01-01T00:00:00Z,north," + b"1" * 300 + b"\n", "line too long"),
}

JSON_LINES = {
    "cut off": (b'{"time":"2026-01-01T00:00:00Z","key":"north","per\n', "broken line"),
    "no object": (b"5\n", "broken line"),
    "a list": (b"[1]\n", "broken line"),
    "null": (b"null\n", "broken line"),
    "two objects": (
        b'{"time":"2026-01-01T00:00:00Z","key":"north","person":1}{"time":"2026-01-01T00:00:00Z","key":"north","person":1}\n',
        "broken line",
    ),
    "an object that goes on": (b'{"x":[0,\n', "broken line"),
    "an object and more": (
        b'{"time":"2026-01-01T00:00:00Z","key":"north","person":1},"x":{}\n',
        "broken line",
    ),
    "a line that opens more than it closes": (b'{"x":[{}\n', "broken line"),
    "a zero byte": (b'{"x":1}\0{}\n', "broken line"),
    "text in braces": (b"{north}\n", "broken line"),
    "a field twice": (
        b'{"time":"2026-01-01T00:00:00Z","key":"north","key":"south","person":1}\n',
        "wrong type",
    ),
    "not UTF-8": (b'{"x":"\xff"}\n', "not UTF-8"),
    "half a surrogate pair": (
        b'{"time":"2026-01-01T00:00:00Z","key":"\\ud800","person":1}\n',
        "wrong type",
    ),
    "no time": (b'{"key":"north","person":1}\n', "missing value"),
    "a key that is null": (
        b'{"time":"2026-01-01T00:00:00Z","key":null,"person":1}\n',
        "missing value",
    ),
    "a number that is no key": (
        b'{"time":"2026-01-01T00:00:00Z","key":1,"person":1}\n',
        "unknown key",
    ),
    "text for a person": (
        b'{"time":"2026-01-01T00:00:00Z","key":"north","person":"bob"}\n',
        "wrong type",
    ),
    "zeros before a person": (
        b'{"time":"2026-01-01T00:00:00Z","key":"north","person":"01"}\n',
        "wrong type",
    ),
    "a fraction for a person": (
        b'{"time":"2026-01-01T00:00:00Z","key":"north","person":1.5}\n',
        "wrong type",
    ),
    "a person of 65 bits": (
        b'{"time":"2026-01-01T00:00:00Z","key":"north","person":9223372036854775808}\n',
        "wrong type",
    ),
    "an object for a key": (
        b'{"time":"2026-01-01T00:00:00Z","key":{"a":1},"person":1}\n',
        "wrong type",
    ),
    "an unknown key": (b'{"time":"2026-01-01T00:00:00Z","key":"mars","person":1}\n', "unknown key"),
    "a time that is no time": (b'{"time":"soon","key":"north","person":1}\n', "wrong type"),
    "too long": (b'{"x":"' + b"x" * 300 + b'"}\n', "line too long"),
    "nested deeply": (b'{"x":' + b"[" * 100 + b"}\n", "broken line"),
}


def reader_of(kind, **parameters):
    return {"csv": CsvFormat, "jsonl": JsonLinesFormat}[kind](**parameters)


def line_of(kind, row):
    time, key, person = row
    return (csv_line((iso(time), key, person)) if kind == "csv" else jsonl_text([row])).encode()


CASES = [("csv", what, *case) for what, case in CSV_LINES.items()] + [
    ("jsonl", what, *case) for what, case in JSON_LINES.items()
]


@pytest.mark.parametrize(
    ("kind", "what", "bad", "reason"), CASES, ids=[f"{kind}: {what}" for kind, what, *_ in CASES]
)
@pytest.mark.parametrize("rows", [1, 100])
def test_a_bad_line_is_dropped_by_itself_and_counted(tmp_path, kind, what, bad, reason, rows):
    good = events(6)
    around = [line_of(kind, row) for row in good]
    header = HEADER if kind == "csv" else b""
    data = header + around[0] + bad + around[1] + around[2] + bad + bad + b"".join(around[3:])
    (tmp_path / "events").write_bytes(data)
    files = source(tmp_path / "events", reader_of(kind, limit=250), rows=rows)
    assert rows_of(files.batches()) == good
    assert files.rejections.for_operator() == {reason: 3}


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(["csv", "jsonl"]),
    junk=st.lists(
        st.one_of(
            st.binary(max_size=30),
            st.text(st.sampled_from('{}[]",:0 trow\r'), max_size=20).map(str.encode),
        ),
        max_size=6,
    ),
)
def test_whatever_a_line_is_it_touches_no_other(tmp_path_factory, kind, junk):
    path = tmp_path_factory.mktemp("junk") / "events"
    good = events(len(junk) + 1)
    data = [HEADER if kind == "csv" else b"", line_of(kind, good[0])]
    for row, line in zip(good[1:], junk, strict=True):
        data += [line.replace(b"\n", b""), b"\n", line_of(kind, row)]
    path.write_bytes(b"".join(data))
    files = source(path, reader_of(kind))
    assert rows_of(files.batches()) == good
    assert sum(files.rejections.for_operator().values()) <= len(junk)


CELLS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5)
NAMES = st.sampled_from(["time", "key", "person", "x"])
JUNK = st.one_of(
    st.text(st.sampled_from('{}[]",:0 trow\r\\ue.-'), max_size=30).map(
        lambda text: "{" + text + "}"
    ),
    st.dictionaries(
        NAMES,
        CELLS | st.lists(CELLS, max_size=2) | st.dictionaries(NAMES, CELLS, max_size=2),
        max_size=4,
    ).map(lambda value: json.dumps(value, ensure_ascii=False)),
)


PAIRS = st.lists(
    st.tuples(NAMES, CELLS | st.sampled_from(["\ud83d", "\ude00", "\ud83d\ude00"])), max_size=4
)
DOUBLED = PAIRS.map(
    lambda pairs: (
        "{" + ",".join(f"{json.dumps(name)}:{json.dumps(value)}" for name, value in pairs) + "}"
    )
)


def parsed(*lines):
    return _parsed(
        pa.array([line.encode(errors="replace") + b"\n" for line in lines], pa.large_binary()),
        schema_of(COLUMNS),
    )


@settings(max_examples=300, deadline=None)
@given(line=JUNK | DOUBLED)
@example(line='{"x":' + "[" * 50_000 + "]" * 50_000 + "}")
@example(line='{"x":' + "1" * 5000 + "}")
@example(line='{"time":null,"time":null}')
@example(line='{},"x":{}')
def test_python_gives_up_no_line_of_json_that_arrow_can_read(line):
    """So whether a line is taken does not depend on whether others in its block were read one by
    one.
    """
    if isinstance(_judged(line.encode(errors="replace"), _types(schema_of(COLUMNS))), tuple):
        assert parsed(line) is None


@pytest.mark.parametrize(
    "line",
    [
        '{"person":18446744073709551615}',
        '{"person":-9223372036854775809}',
        '{"person":' + "9" * 5000 + "}",
        '{"key":"a","key":"b"}',
        '{"time":null,"ti\\u006de":null}',
        '{"x":["\\uD83D"]}',
    ],
)
def test_what_arrow_refuses_is_found_without_asking_it_line_by_line(line):
    """One call of Arrow for one line takes a hundred times as long as the look of Python."""
    assert _judged(line.encode(), _types(schema_of(COLUMNS))).reason == "wrong type"
    assert parsed(line) is None


@pytest.mark.parametrize(
    "line",
    [
        '{"x":1,"x":2}',
        '{"x":{"key":1,"key":2}}',
        '{"person":9223372036854775807}',
        '{"person":-9223372036854775808}',
        '{"x":' + "9" * 5000 + "}",
        '{"key":"\\ud83d\\ude00","x":"\\\\ud83d"}',
    ],
)
def test_what_arrow_can_read_is_left_to_it(line):
    assert _judged(line.encode(), _types(schema_of(COLUMNS))) == frozenset()
    assert parsed(line) is not None


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(some=st.lists(JUNK, min_size=1, max_size=4))
@example(some=['{"x":[{}', "{}]}{}"])
@example(some=['{"x":"}', '{"}'])
@example(some=["{}{}", '{"x":{}', "{}}"])
def test_lines_of_json_are_read_together_if_each_is_alone(some):
    together, alone = parsed(*some), [parsed(line) for line in some]
    if any(each is None for each in alone):
        assert together is None
    else:
        assert together.equals(pa.concat_tables(alone))


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("last", [True, False])
def test_a_line_of_fifty_megabytes_is_skipped_without_being_held(tmp_path, kind, last):
    good = events(4)
    with (tmp_path / "events").open("wb") as file:
        file.write(HEADER if kind == "csv" else b"")
        file.writelines(line_of(kind, row) for row in good[:2])
        file.seek(50_000_000, 1)  # a hole: all zero
        if not last:
            file.write(b"\n")
            file.writelines(line_of(kind, row) for row in good[2:])
        else:
            file.write(b"x")
    files = source(tmp_path / "events", reader_of(kind, limit=1000, block=65_536))
    arrow_before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        batches = list(files.batches())
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert rows_of(batches) == (good[:2] if last else good)
    assert files.rejections.for_operator() == {"line too long": 1}
    assert most < 5_000_000
    assert pa.total_allocated_bytes() - arrow_before < 5_000_000
    assert batches[-1].position["offset"] == (tmp_path / "events").stat().st_size
    assert rows_of(files.batches(batches[-1].position)) == []


def test_with_quoted_newlines_a_lost_quote_reaches_to_the_next_quote_or_the_limit(tmp_path):
    good = [(START, "north", number) for number in range(40)]
    data = [line_of("csv", row) for row in good]
    data.insert(1, b'2026-01-01,"north,1\n')
    (tmp_path / "events").write_bytes(HEADER + b"".join(data))
    files = source(tmp_path / "events", CsvFormat(quoted_newlines=True, limit=200))
    assert rows_of(files.batches()) == good
    assert files.rejections.for_operator() == {"broken line": 1}
    data.insert(4, b'2026-01-01,no"rth,1\n')
    (tmp_path / "events").write_bytes(HEADER + b"".join(data))
    files = source(tmp_path / "events", CsvFormat(quoted_newlines=True, limit=200))
    assert rows_of(files.batches()) == good[:1] + good[3:]
    assert files.rejections.for_operator() == {"broken line": 1}


def test_a_quote_that_is_open_at_the_end_of_a_file_takes_only_its_own_line(tmp_path):
    good = [(START, "north", number) for number in range(4)]
    data = [line_of("csv", row) for row in good]
    data.insert(2, b'2026-01-01,"north,1\n')
    (tmp_path / "events").write_bytes(HEADER + b"".join(data))
    files = source(tmp_path / "events", CsvFormat(quoted_newlines=True))
    assert rows_of(files.batches()) == good
    assert files.rejections.for_operator() == {"broken line": 1}
    growing = source(tmp_path / "events", CsvFormat(quoted_newlines=True), growing=True)
    assert rows_of(growing.batches()) == good[:2]


def test_a_missing_column_of_a_csv_file_is_named_with_what_there_is(tmp_path):
    (tmp_path / "day.csv").write_bytes(b"time,station,person\n" + GOOD)
    with pytest.raises(
        InputError,
        match=r"^/.*/day\.csv has no column 'key'; it has 'time', 'station', 'person'\.",
    ):
        list(source(tmp_path / "*.csv", CsvFormat()).batches())


@pytest.mark.parametrize("first", [GOOD, b"\n", b"x" * 200_000 + b"\n", b"\0\n", b"bob,,2026\n"])
def test_a_first_line_that_is_an_event_is_not_shown(tmp_path, first):
    (tmp_path / "day.csv").write_bytes(first + GOOD)
    with pytest.raises(InputError) as caught:
        list(source(tmp_path / "day.csv", CsvFormat()).batches())
    assert (
        str(caught.value)
        == f"{tmp_path}/day.csv has no column 'time'; it has names that do not look like names of "
        "columns. Write the name of a column in [source]."
    )


def test_a_column_that_is_there_twice_is_refused(tmp_path):
    (tmp_path / "day.csv").write_bytes(b"time,key,person,key\n")
    with pytest.raises(InputError, match=r"day\.csv has more than one column 'key'"):
        list(source(tmp_path / "day.csv", CsvFormat()).batches())


def test_a_missing_column_of_a_parquet_file_is_named_with_what_there_is(tmp_path):
    pq.write_table(table_of(events(3)).drop_columns(["person"]), tmp_path / "day.parquet")
    with pytest.raises(
        InputError,
        match=r"^/.*/day\.parquet has no column 'person'; it has 'more', 'time', 'key'\.",
    ):
        list(source(tmp_path / "day.parquet", ParquetFormat()).batches())


@pytest.mark.parametrize("rows", [1, 100])
def test_a_field_that_no_line_of_a_finished_file_has_is_an_error(tmp_path, rows):
    line = json.dumps({"time": "2026-01-01", "station": "north", "person": 1}) + "\n"
    path = tmp_path / "day.jsonl"
    path.write_text("garbage\n" + line * 5)
    with pytest.raises(
        InputError,
        match=r"^/.*/day\.jsonl has no column 'key'; it has 'time', 'station', 'person'\.",
    ):
        list(source(path, JsonLinesFormat(), rows=rows).batches())
    growing = source(path, JsonLinesFormat(), rows=rows, growing=True)
    assert rows_of(growing.batches()) == []
    assert growing.rejections.for_operator() == {"broken line": 1, "missing value": 5}


def test_one_line_without_a_field_is_no_error(tmp_path):
    path = tmp_path / "day.jsonl"
    path.write_text('{"time":"2026-01-01"}\n' + jsonl_text(events(2)))
    files = source(path, JsonLinesFormat(), rows=1)
    assert rows_of(files.batches()) == events(2)
    assert files.rejections.for_operator() == {"missing value": 1}


def test_parquet_files_with_other_types_in_the_middle_are_taken_as_far_as_they_fit(tmp_path):
    rows = events(4)
    table = table_of(rows)
    other = {
        "b": table.set_column(2, "time", table["time"].cast(pa.timestamp("ns", "UTC"))),
        "c": table.set_column(3, "key", table["key"].cast(pa.large_string()).dictionary_encode()),
        "d": table.set_column(1, "person", table["person"].cast(pa.string())),
        "e": table.select(["key", "person", "time"]),
        "f": table.set_column(3, "key", pa.array([1.5] * 4)),
        "g": table.set_column(2, "time", pa.array([True] * 4)),
        "h": table.set_column(1, "person", pa.array([[1]] * 4)),
        "i": table.set_column(1, "person", pa.array([2**63, 1, None, 2], pa.uint64())),
        "j": table.set_column(3, "key", table["key"].cast(pa.binary())),
        "k": table,
    }
    pq.write_table(table, tmp_path / "a")
    for name, each in other.items():
        pq.write_table(each, tmp_path / name)
    files = source(tmp_path / "?", ParquetFormat())
    some = [(rows[1][0], rows[1][1], 1), (rows[3][0], rows[3][1], 2)]
    assert rows_of(files.batches()) == rows * 5 + some + rows * 2
    assert files.rejections.for_operator() == {"wrong type": 3 * 4 + 1, "missing value": 1}


def test_parquet_text_that_is_not_utf_8_is_dropped(tmp_path):
    def text(values):
        return pa.array(values, pa.binary()).view(pa.string())

    rows = {
        "time": text([b"2026-09-21", b"2026-09-21", b"\xff", b"2026-09-21", None]),
        "key": text([b"north", b"\xff", b"north", b"north", b"north"]),
        "person": text([b"a", b"b", b"c", b"\xc0\x80", b"e"]),
    }
    pq.write_table(pa.table(rows), tmp_path / "events")
    intake = Intake(columns=Columns("time", "key", person="person"), domain=KEYS)
    files = source(tmp_path / "events", ParquetFormat(), intake=intake)
    (batch,) = files.batches()
    assert batch.person.to_pylist() == ["a"]
    assert files.rejections.for_operator() == {"wrong type": 3, "missing value": 1}


@pytest.mark.parametrize("kind", FORMATS)
def test_unknown_keys_go_to_other_if_there_is_one(tmp_path, kind):
    reader, write = FORMATS[kind]
    rows = [(START, "north", 1), (START, "mars", 2), (START, "rest", 3)]
    write(tmp_path / "events", rows)
    intake = Intake(columns=COLUMNS, domain=["rest", "north"], other="rest")
    files = source(tmp_path / "events", reader, intake=intake)
    assert rows_of(files.batches(), ["rest", "north"]) == [
        (START, "north", 1),
        (START, "rest", 2),
        (START, "rest", 3),
    ]
    assert files.rejections.for_operator() == {}


def test_every_bad_row_is_counted_once(tmp_path):
    (tmp_path / "events").write_bytes(HEADER + b"soon,mars,bob\n,mars,bob\n" + GOOD)
    files = source(tmp_path / "events", CsvFormat())
    assert len(rows_of(files.batches())) == 1
    assert files.rejections.for_operator() == {"wrong type": 1, "missing value": 1}


def test_a_batch_of_bad_rows_moves_the_position(tmp_path):
    (tmp_path / "events").write_bytes(HEADER + b"soon,mars,bob\n" * 5)
    *_, last = source(tmp_path / "events", CsvFormat(), rows=2).batches()
    assert len(last) == 0
    assert last.position["offset"] == (tmp_path / "events").stat().st_size


@pytest.mark.parametrize("blank", [b"\n", b"\r\n"])
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("rows", [1, 2, 100])
def test_blank_lines_are_nothing(tmp_path, kind, blank, rows):
    good = events(3)
    header = HEADER if kind == "csv" else b""
    (tmp_path / "events").write_bytes(
        header + blank * 3 + b"".join(line_of(kind, row) + blank * 2 for row in good)
    )
    files = source(tmp_path / "events", reader_of(kind), rows=rows)
    assert rows_of(files.batches()) == good
    assert files.rejections.for_operator() == {}


def test_a_zero_byte_does_not_put_two_rows_of_one_line_in_the_place_of_another_line(tmp_path):
    good = events(2)
    twice = line_of("jsonl", (START, "south", 1)).strip() * 2
    (tmp_path / "events").write_bytes(
        line_of("jsonl", good[0]) + twice + b"\0}\n" + line_of("jsonl", good[1])
    )
    files = source(tmp_path / "events", JsonLinesFormat())
    assert rows_of(files.batches()) == good
    assert files.rejections.for_operator() == {"broken line": 1}
