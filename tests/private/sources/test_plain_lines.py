"""The compiled loop for plain JSON lines gives what the careful readers give, line by line."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.private.sources import jsonl
from penstock.private.sources.base import Arrow, Columns, Reason, Rejections
from penstock.private.sources.files import good_lines
from penstock.private.sources.message_formats import JsonMessages

json_fast = pytest.importorskip("penstock.private.json_fast")

FORMS = (
    Columns("time", "key", person="person", person_type="integer"),
    Columns("time", "key", person="person", missing_person="each"),
    Columns("time", ("key", "gate"), key_type=("text", "integer"), clock="seconds"),
    Columns("t", "key", person="key", clock="milliseconds", person_type="integer"),
    Columns("tïme", "a long name of a column", person="person", person_type="integer"),
)
NAMES = ("time", "key", "person", "gate", "t", "tïme", "a long name of a column", "other", "")
PLAIN = b'{"time":"2026-09-01T10:00:00Z","key":"A","person":%d,"gate":"in"}'

ODD_NUMBERS = """
    0 1 -1 -0 00 007 7 +7 7.0 7.5 -7.25 .5 5. 1e3 1E+400 1e-400 - 999999999999999999
    1000000000000000000 9223372036854775807 9223372036854775808 -9223372036854775808
    -9223372036854775809 12345678901234567890123456789012345
"""
numbers = st.sampled_from(ODD_NUMBERS.split()) | st.integers().map(str)
texts = st.one_of(
    st.text(max_size=20).map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.text(max_size=6).map(json.dumps),
    numbers.map(lambda text: f'"{text}"'),
    st.sampled_from(
        ['""', '"\x7f"', '"\t"', '"\\ud800"', '"a\\"b"', '"é漢😀"', '"12345678"', '"123456789"']
    ),
)
values = st.recursive(
    st.one_of(numbers, texts, st.sampled_from(["null", "true", "false", "nul", "True", "nan"])),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda each: f"[{', '.join(each)}]")
        | st.dictionaries(texts, inner, max_size=3).map(
            lambda each: "{" + ",".join(f"{name}:{value}" for name, value in each.items()) + "}"
        )
    ),
    max_leaves=6,
)
names = st.sampled_from(NAMES).map(lambda name: json.dumps(name, ensure_ascii=False)) | texts
blanks = st.sampled_from(["", "", "", " ", "\t", "  ", "\r", "\n", "\u00a0"])
fields = st.tuples(blanks, names, blanks, values, blanks).map(
    lambda parts: "{}{}{}:{}{}".format(*parts)
)
good_fields = st.tuples(
    st.sampled_from(['"2026-09-01T10:00:00Z"', '"2026"', "17", '"17"', "null"]),
    st.sampled_from(['"A"', '"é"', "5", '"5"', "null", '""']),
    st.integers(-(2**63), 2**63 - 1).map(str) | st.sampled_from(["null", '"8"', "-5", '"-5"']),
).map(lambda parts: '"time":{},"key":{},"person":{},"gate":4,"t":5'.format(*parts))
objects = st.one_of(
    st.lists(fields, max_size=6).map(",".join),
    good_fields,
    st.tuples(good_fields, fields).map(",".join),
    st.tuples(fields, good_fields).map(", ".join),
).map(lambda text: "{" + text + "}")


@st.composite
def broken(draw: st.DrawFn) -> bytes:
    """An object of which some bytes are changed, removed or added."""
    data = bytearray(draw(objects).encode())
    for _ in range(draw(st.integers(1, 2))):
        place = draw(st.integers(0, len(data)))
        data[place : place + draw(st.integers(0, 2))] = draw(st.binary(max_size=2))
    return bytes(data)


lines = st.one_of(
    objects.map(str.encode),
    broken(),
    st.integers(0, 10**20).map(lambda number: PLAIN % number),
    st.integers(2**63 - 2, 2**63 + 1).map(lambda number: PLAIN % number),
    st.integers(-(2**63) - 2, -(2**63) + 2).map(lambda number: PLAIN % number),
    st.integers(1, 40).map(lambda depth: b'{"x":' + b"[" * depth + b"]" * depth + b"}"),
    st.sampled_from([b"", b" ", b"{}", b"[]", b"{} ", b" {}", b"{}{}", b'{"key":1}\n{"key":2}']),
)


def array_of(values: list[bytes], rejections: Rejections | None = None) -> Arrow:
    bounds = np.zeros(len(values) + 1, np.int64)
    np.cumsum([len(value) + 1 for value in values], out=bounds[1:])
    data = b"\n".join((*values, b""))
    return good_lines(data, bounds, limit=2**20, rejections=rejections or Rejections())


def rows_of(table: Arrow) -> list[dict[str, object]]:
    table.validate(full=True)
    rows: list[dict[str, object]] = table.to_pylist()
    return rows


@pytest.mark.parametrize("columns", FORMS)
@given(values=st.lists(lines, max_size=8), times=st.integers(1, 3))
def test_the_loop_reads_as_the_careful_readers_do(
    columns: Columns, values: list[bytes], times: int
) -> None:
    array = array_of([value for value in values for _ in range(times)])
    ours, theirs = Rejections(), Rejections()
    table = jsonl.objects(array, columns, ours)
    careful = jsonl.careful_objects(array, columns, theirs)
    assert table.schema.equals(careful.schema)
    assert rows_of(table) == rows_of(careful)
    assert ours.by_column() == theirs.by_column()


@pytest.mark.parametrize("columns", FORMS)
@given(values=st.lists(lines, max_size=8), times=st.integers(1, 3))
def test_lines_whose_ends_are_not_known_are_read_as_others_are(
    columns: Columns, values: list[bytes], times: int
) -> None:
    some = [each for each in values if each.isascii() and b"\n" not in each]
    some = [value for value in some for _ in range(times)]
    ours, theirs = Rejections(), Rejections()
    data = b"\n".join((*some, b"")) + jsonl.PADDING
    table = jsonl.objects_of_lines(data, len(some), columns, ours, json_fast)
    careful = jsonl.careful_objects(array_of(some), columns, theirs)
    theirs.add(Reason.MISSING, some.count(b""))
    assert table.schema.equals(careful.schema)
    assert rows_of(table) == rows_of(careful)
    assert ours.by_column() == theirs.by_column()


@given(values=st.lists(lines, max_size=8), split=st.integers(0, 8))
def test_messages_are_read_as_the_careful_readers_do(values: list[bytes], split: int) -> None:
    """In packs of which some have line breaks or other letters in them, and some do not."""
    columns, form = FORMS[0], JsonMessages()
    ours, theirs = Rejections(), Rejections()
    packs = [
        pack
        for part in (values[:split], values[split:])
        for pack in form.packed(part, rejections=ours)
    ]
    found = [row for each in form.tables(packs, columns, rejections=ours) for row in rows_of(each)]
    expected = []
    for each in values:
        theirs.add(Reason.MISSING, int(not each))
        some = array_of([each] if each else [], theirs)
        expected += rows_of(jsonl.careful_objects(some, columns, theirs))
    assert found == expected
    assert ours.by_column() == theirs.by_column()


def test_plain_lines_need_no_careful_reader() -> None:
    """Otherwise the test above could pass without the loop."""
    values = [PLAIN % number for number in range(5)] + [b'{"key": 5, "n": {"a": [1.5, null]}}'] * 2
    values += [b'{"time":null,"key":"A","person":"-8","gate":[],"x":true}'] * 2
    table, sure = jsonl.plain_objects(array_of(values), FORMS[0], json_fast)
    assert sure.all()
    assert table.column("person").to_pylist() == [0, 1, 2, 3, 4, None, None, -8, -8]
    assert table.column("key").to_pylist() == ["A"] * 5 + ["5"] * 2 + ["A"] * 2


def test_odd_lines_lose_nobody_else_the_loop() -> None:
    values = [PLAIN % 1, b'{"key":"\\u0041"}', PLAIN % 2, b'{"key":1e3}', b"}", PLAIN % 3]
    _, sure = jsonl.plain_objects(array_of(values), FORMS[0], json_fast)
    assert sure.tolist() == [True, False, True, False, False, True]


@pytest.mark.parametrize("size", range(1, 40))
def test_texts_of_every_length_are_copied(size: int) -> None:
    """Also next to the end of the data, which is not read beyond."""
    values = [b'{"key":"%b","time":"%b"}' % (b"x" * size, b"y" * number) for number in range(20)]
    table, sure = jsonl.plain_objects(array_of(values), FORMS[0], json_fast)
    assert sure.all()
    assert table.column("key").to_pylist() == ["x" * size] * 20
    assert table.column("time").to_pylist() == ["y" * number for number in range(20)]


def test_lines_that_are_read_in_small_pieces_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [PLAIN % number for number in range(30)]
    values[7:7] = [b"{", b'{"key":7}', b'{"key":"A","key":"A"}']
    found = []
    for size in (2**20, 100, 1):
        monkeypatch.setattr(jsonl, "BYTES_PER_PARSE", size)
        rejections = Rejections()
        rows = rows_of(jsonl.careful_objects(array_of(values), FORMS[0], rejections))
        found.append((rows, rejections.by_column()))
    assert found[0] == found[1] == found[2]
    assert len(found[0][0]) == 31
