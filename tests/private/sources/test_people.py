"""Events without the id of a person, and ids that are written as numbers or as text."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import ConfigurationError, UnreadableRowsError
from penstock.private.sources.base import Columns, Intake, Rejections
from penstock.private.sources.jsonl import JsonLinesFormat
from penstock.private.sources.stdin import StdinSource

from tests.private.sources.events import FORMATS, source, write_csv, write_parquet

NOON = "2026-01-01T12:00:00Z"
KEYS = ("7", "8", "a")


def columns(**more):
    return Columns("time", "key", person="person", **more)


def taken(people, *, missing="drop", person_type="text"):
    """The ids that are taken of an Arrow column, and why others are not."""
    table = pa.table({"time": [NOON] * len(people), "key": ["a"] * len(people), "person": people})
    rejections = Rejections()
    how = columns(missing_person=missing, person_type=person_type)
    batch = Intake(columns=how, domain=KEYS).batch(table, position=None, rejections=rejections)
    assert len(batch) == len(batch.person)
    return batch.person.tolist(), rejections.for_operator()


PEOPLE = {
    "text": pa.array(["x", None, "", "x" * 200]),
    "large text": pa.array(["x", None, "", "x" * 200], pa.large_string()),
    "text view": pa.array(["x", None, "", "x" * 200], pa.string_view()),
    "bytes": pa.array([b"x", None, b"", b"x" * 200]),
    "dictionary": pa.array(["x", None, "", "x" * 200]).dictionary_encode(),
}


@pytest.mark.parametrize("people", PEOPLE.values(), ids=PEOPLE.keys())
def test_an_event_without_an_id_is_dropped_or_stays_without_one(people):
    ids, rejected = taken(people)
    assert (len(ids), ids[0] in ("x", b"x"), rejected) == (2, True, {"missing value": 2})
    ids, rejected = taken(people, missing="each")
    assert ([each is None for each in ids], rejected) == ([False, True, True, False], {})


@pytest.mark.parametrize("people", [pa.array([7, None]), pa.array(["7", ""])])
def test_whole_numbers_may_be_missing_too(people):
    assert taken(people, person_type="integer") == ([7], {"missing value": 1})
    assert taken(people, person_type="integer", missing="each") == (["7", None], {})


@pytest.mark.parametrize(
    "people", [pa.array(["x", None]), pa.array(["x", ""]), pa.array([1, None])]
)
def test_one_event_without_an_id_refuses_everything_if_none_may_lack_it(people):
    with pytest.raises(UnreadableRowsError, match=r"an event has no person in 'person'.*\"drop\""):
        taken(people, missing="refuse")
    assert taken(people[:1], missing="refuse")[1] == {}


def test_missing_ids_need_a_column_and_a_known_choice():
    with pytest.raises(ConfigurationError, match="missing_person needs the column of the person"):
        Columns("time", "key", missing_person="each")
    with pytest.raises(ConfigurationError, match="'drop', 'each' or 'refuse', not 'keep'"):
        columns(missing_person="keep")


@pytest.mark.parametrize("growing", [False, True])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_refused_file_is_not_left_out_for_the_next_one(tmp_path, kind, growing):
    write = {"csv": write_csv, "parquet": write_parquet}[kind]
    write(tmp_path / "1", [(0, "7", 5)])
    write(tmp_path / "2", [(0, "7", None)] if kind == "parquet" else [(0, "7", "")])
    write(tmp_path / "3", [(0, "7", 6)])
    intake = Intake(columns=columns(missing_person="refuse"), domain=KEYS)
    files = source(tmp_path / "*", FORMATS[kind][0], intake=intake, growing=growing)
    found = files.batches()
    assert len(next(found)) == 1
    with pytest.raises(UnreadableRowsError):
        list(found)


@pytest.mark.parametrize("person_type", ["text", "integer"])
@pytest.mark.parametrize("missing", ["drop", "each"])
def test_whole_numbers_beside_missing_ones_are_ids_as_pandas_has_them(person_type, missing):
    people = pa.array([7.0, float("nan"), None, 1.5, 2.0**53, -3.0, float("inf")])
    ids, rejected = taken(people, missing=missing, person_type=person_type)
    text = person_type == "text" or missing == "each"
    named = ["7", "-3"] if text else [7, -3]
    assert [each for each in ids if each is not None] == named
    assert len(ids) == (2 if missing == "drop" else 4)
    dropped = {"missing value": 2} if missing == "drop" else {}
    assert rejected == {"wrong type": 3} | dropped


def test_keys_may_be_whole_floating_point_numbers():
    table = pa.table({"time": [NOON] * 3, "key": [7.0, 9.0, None]})
    batch = Intake(columns=Columns("time", "key"), domain=KEYS).batch(
        table, position=None, rejections=Rejections()
    )
    assert [KEYS[code] for code in batch.key.tolist()] == ["7"]


# -- JSON ------------------------------------------------------------------------------------------


def of_json(text, **more):
    """Keys and persons that are taken of JSON lines, and why others are not."""
    intake = Intake(columns=columns(**more), domain=KEYS)
    read = StdinSource(format=JsonLinesFormat(), intake=intake, stream=pa.BufferReader(text))
    rows = []
    for batch in read.batches():
        people = batch.person.tolist()
        rows += zip([KEYS[code] for code in batch.key.tolist()], people, strict=True)
    return rows, read.rejections.for_operator()


def line(key, person):
    return json.dumps({"time": NOON, "key": key, "person": person}) + "\n"


@pytest.mark.parametrize("person_type", ["text", "integer"])
def test_a_person_is_the_same_whether_written_as_a_number_or_as_text(person_type):
    text = line("a", 7) + line("a", "7") + line(7, -5) + line("7", "-5")
    rows, rejected = of_json(text.encode(), person_type=person_type)
    seven, five = (7, -5) if person_type == "integer" else ("7", "-5")
    assert (sorted(rows), rejected) == (sorted([("a", seven)] * 2 + [("7", five)] * 2), {})


CELLS = st.one_of(
    st.integers(-9, 9),
    st.integers(2**63 - 2, 2**63 + 1),
    st.integers(-(2**63) - 1, -(2**63)),
    st.sampled_from(["7", "07", "-0", "x", "", "9223372036854775808", None, True, 1.0, "٣"]),
)


@settings(max_examples=200, deadline=None)
@given(
    cells=st.lists(st.tuples(CELLS, CELLS), max_size=6),
    person_type=st.sampled_from(["text", "integer"]),
    deep=st.lists(st.integers(0, 5)),
)
def test_whether_a_line_of_json_is_taken_depends_on_no_other_line(cells, person_type, deep):
    lines = [
        line(*each).replace("}", f', "x": {"[" * 600 + "]" * 600}}}' if place in deep else "}")
        for place, each in enumerate(cells)
    ]
    together, _ = of_json("".join(lines).encode(), person_type=person_type)
    alone = [of_json(each.encode(), person_type=person_type)[0] for each in lines]
    assert sorted(together, key=str) == sorted((row for rows in alone for row in rows), key=str)


def test_an_event_without_the_field_does_not_pass_for_one_without_a_person():
    wrong = json.dumps({"time": NOON, "key": "a", "persn": "x", "more": {"person": 1}}) + "\n"
    text = line("a", "x") + wrong + line("a", None) + line("a", "")
    for text_type in ("text", "integer"):
        rows, rejected = of_json(
            text.replace("x", "5").encode(), missing_person="each", person_type=text_type
        )
        assert rows == [("a", "5"), ("a", None), ("a", None)]
        assert rejected == {"missing field": 1}
