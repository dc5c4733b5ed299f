"""Arrow messages: many events each; a damaged one loses only itself."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import ConfigurationError, InputError
from penstock.private.sources.arrow_messages import ArrowMessages
from penstock.private.sources.base import Columns, Intake, Rejections

INTAKE = Intake(
    columns=Columns("time", "key", person="person", clock="seconds"), domain=("north", "south")
)
EVENTS = pa.table(
    {
        "time": pa.array([10, 20, 30]),
        "key": pa.array(["north", "south", "nowhere"]),
        "person": pa.array(["a", "b", "c"]),
        "more": pa.array([1.5, None, 2.5]),
    }
)


def message(table: pa.Table, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    with ipc.new_stream(
        sink, table.schema, options=ipc.IpcWriteOptions(compression=compression)
    ) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def events(
    values: list[bytes | None], form: ArrowMessages | None = None
) -> tuple[list[tuple[int, int, object]], dict[str, int]]:
    """The events as time, code and person, and what was rejected."""
    form, rejections, found = form or ArrowMessages(), Rejections(), []
    packs = form.packed(values, rejections=rejections)
    for table in form.tables(packs, INTAKE.columns, rejections=rejections):
        batch = INTAKE.batch(table, position=None, rejections=rejections)
        people: Any = batch.person
        person = [each if isinstance(each, str) else each.decode() for each in people.to_pylist()]
        found += list(zip(batch.time.tolist(), batch.key.tolist(), person, strict=True))
    return found, rejections.for_operator()


TWO = [(10_000_000, 0, "a"), (20_000_000, 1, "b")]


def test_a_message_has_many_events() -> None:
    assert events([message(EVENTS)] * 2) == (TWO * 2, {"unknown key": 2})


def test_messages_may_have_different_types() -> None:
    """Dictionaries, timestamps and narrow numbers mean the same events."""
    others = [
        EVENTS.set_column(1, "key", EVENTS["key"].dictionary_encode()),
        EVENTS.set_column(2, "person", EVENTS["person"].dictionary_encode()),
        EVENTS.set_column(0, "time", EVENTS["time"].cast(pa.timestamp("s", "UTC"))),
        EVENTS.set_column(0, "time", EVENTS["time"].cast(pa.int16())),
    ]
    found, rejected = events([message(each) for each in others])
    assert sorted(found) == sorted(TWO * 4)
    assert rejected == {"unknown key": 4}


@pytest.mark.parametrize(
    "bad",
    [
        b"no stream",
        message(EVENTS)[:-40],
        message(EVENTS, compression="zstd"),
        message(EVENTS.drop_columns(["person"])),
        message(EVENTS.set_column(0, "time", pa.array([1.0, 2.0, 3.0]))),
        message(EVENTS.append_column("time", EVENTS["time"])),
    ],
    ids=["text", "cut", "compressed", "no column", "wrong type", "twice"],
)
def test_a_bad_message_loses_only_itself(bad: bytes) -> None:
    found, rejected = events([message(EVENTS), bad, message(EVENTS)])
    assert found == TWO * 2
    assert rejected == {"unknown key": 2, "broken line": 1}


def test_missing_and_long_messages_are_counted() -> None:
    form = ArrowMessages(limit=len(message(EVENTS)))
    found, rejected = events([None, b"", message(EVENTS), message(EVENTS) + b"x"], form)
    assert found == TWO
    assert rejected == {"missing value": 2, "line too long": 1, "unknown key": 1}


def test_a_message_of_too_many_events_is_refused() -> None:
    assert events([message(EVENTS)], ArrowMessages(rows=2)) == ([], {"broken line": 1})


def test_a_dictionary_that_grows_too_much_is_refused() -> None:
    words = pa.array(["x" * 10_000])
    people = pa.DictionaryArray.from_arrays(pa.array([0] * 1_000, pa.int8()), words)
    table = pa.table(
        {"time": pa.array([1] * 1_000), "key": pa.array(["north"] * 1_000), "person": people}
    )
    assert events([message(table)]) == ([], {"broken line": 1})


@given(place=st.integers(0), content=st.binary(min_size=1, max_size=8))
def test_a_damaged_message_breaks_nothing_else(place: int, content: bytes) -> None:
    whole = message(EVENTS)
    place %= len(whole)
    found, _ = events([message(EVENTS), whole[:place] + content + whole[place + len(content) :]])
    assert found[:2] == TWO or found[-2:] == TWO


def test_one_table_has_all_messages_or_refuses() -> None:
    form, rejections = ArrowMessages(), Rejections()
    coded = EVENTS.set_column(1, "key", EVENTS["key"].dictionary_encode())
    values = [message(EVENTS), message(coded)]
    assert form.table(values, INTAKE.columns, rejections=rejections).num_rows == 6
    assert form.table([], INTAKE.columns, rejections=rejections).num_rows == 0
    dated = EVENTS.set_column(0, "time", EVENTS["time"].cast(pa.timestamp("s", "UTC")))
    with pytest.raises(InputError, match="different types"):
        form.table([*values, message(dated)], INTAKE.columns, rejections=rejections)


def test_limits_are_checked() -> None:
    with pytest.raises(ConfigurationError, match="limit"):
        ArrowMessages(limit=0)
