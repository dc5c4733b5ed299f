"""What finished Parquet files say about how early their events are, and that it is never more than
the truth.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import InputError
from penstock.private.sources import files as files_module
from penstock.private.sources.base import Columns, Intake
from penstock.private.sources.files import NOTHING, FileSource
from penstock.private.sources.parquet import ParquetFormat

from tests.private.sources.events import FORMATS, events, source

HOUR = 3_600_000_000
UTC = pa.timestamp("us", "UTC")


def write(path, times, *, kind=UTC, group=2, **options):
    array = times if isinstance(times, pa.Array) else pa.array(times, pa.int64()).cast(kind)
    table = pa.table(
        {"person": pa.array(range(len(array))), "ts": array, "key": ["a"] * len(array)}
    )
    pq.write_table(table, path, row_group_size=group, **options)


def read(pattern, *, rows=100, growing=False, format=ParquetFormat(), **columns):  # noqa: A002, B008
    columns = Columns("ts", "key", person="person", person_type="integer", **columns)
    return FileSource(
        pattern=pattern,
        format=format,
        intake=Intake(columns=columns, domain=["a"]),
        rows=rows,
        growing=growing,
    )


def certain(*args, **options):
    return [batch.certain for batch in read(*args, **options).batches()]


def true_to_its_word(batches):
    """Whether no batch holds what one before it has excluded."""
    batches = list(batches)
    later = [
        np.concatenate([batch.time for batch in batches[place + 1 :]] or [[]])
        for place in range(len(batches))
    ]
    return all(
        batch.certain is None or (rest >= batch.certain).all()
        for batch, rest in zip(batches, later, strict=True)
    )


def test_of_a_file_in_order_everything_before_the_next_row_group_is_certain(tmp_path):
    write(tmp_path / "a", [10, 11, 20, 21, 30, 31])
    assert certain(tmp_path / "a") == [20, 30, None]


def test_inside_of_a_row_group_no_more_is_certain_than_its_smallest_time(tmp_path):
    write(tmp_path / "a", [10, 11, 12, 20, 21, 22], group=3)
    assert certain(tmp_path / "a", rows=2) == [10, 20, 20, None]


def test_of_a_file_out_of_order_only_what_holds_for_all_the_rest_is_certain(tmp_path):
    write(tmp_path / "a", [50, 60, 20, 70, 40, 90, 30, 31])
    assert certain(tmp_path / "a") == [20, 30, 30, None]


def test_of_several_files_all_that_follow_are_asked(tmp_path):
    write(tmp_path / "1", [10, 20, 30, 40])
    write(tmp_path / "2", [50, 60])
    write(tmp_path / "3", [35, 70])
    assert certain(tmp_path / "?") == [30, 35, 35, None]


@pytest.mark.parametrize("missing", ["1", "2", "3"])
def test_as_long_as_one_file_to_come_says_nothing_nothing_is_certain(tmp_path, missing):
    for place, name in enumerate("123"):
        write(tmp_path / name, [10 * place, 10 * place + 1], write_statistics=name != missing)
    known = [10, 20, None]
    assert certain(tmp_path / "?") == [
        each if place >= int(missing) - 1 else None for place, each in enumerate(known)
    ]


def test_a_damaged_file_is_reported_in_its_turn(tmp_path):
    write(tmp_path / "1", [10, 20, 30, 40])
    (tmp_path / "2").write_bytes(b"PAR1")
    batches = read(tmp_path / "?").batches()
    assert [next(batches).certain, next(batches).certain] == [None, None]
    with pytest.raises(InputError, match="2: the file is not Parquet"):
        next(batches)


def test_row_groups_without_times_and_files_without_rows_exclude_nothing(tmp_path):
    write(tmp_path / "1", pa.array([10, 20, None, None, None, 30], UTC))
    write(tmp_path / "2", [])
    write(tmp_path / "3", pa.array([None, None], UTC))
    write(tmp_path / "4", [40])
    assert certain(tmp_path / "?") == [30, 30, 40, 40, None]


def test_from_a_position_on_the_same_is_certain(tmp_path):
    write(tmp_path / "1", [10, 20, 30, 40, 50, 60])
    write(tmp_path / "2", [55, 70])
    batches = list(read(tmp_path / "?", rows=1).batches())
    for place, batch in enumerate(batches):
        rest = list(read(tmp_path / "?", rows=1).batches(batch.position))
        assert [each.certain for each in rest] == [each.certain for each in batches[place + 1 :]]


def test_of_files_that_may_grow_and_of_lines_nothing_is_certain(tmp_path):
    write(tmp_path / "1", [10, 20, 30, 40])
    write(tmp_path / "2", [50, 60])
    assert certain(tmp_path / "?", growing=True) == [None, None, None]
    for kind in ("csv", "jsonl"):
        FORMATS[kind][1](tmp_path / kind, events(4))
        batches = list(source(tmp_path / kind, FORMATS[kind][0], rows=1).batches())
        assert len(batches) >= 4
        assert {batch.certain for batch in batches} == {None}


def test_very_many_files_are_not_asked_all_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(files_module, "MAX_FILES_ASKED", 2)
    for place in range(5):
        write(tmp_path / str(place), [place])
    assert certain(tmp_path / "?") == [None, None, 3, 4, None]


CLOCKS = [
    (pa.int64(), {"clock": "seconds"}, 1_000_000),
    (pa.int32(), {"clock": "milliseconds"}, 1_000),
    (pa.int16(), {"clock": "microseconds"}, 1),
    (pa.timestamp("s", "UTC"), {}, 1_000_000),
    (pa.timestamp("ms"), {}, 1_000),
    (pa.timestamp("us"), {"zone": "UTC"}, 1),
    (pa.timestamp("ms", "Asia/Kolkata"), {"zone": "Europe/Paris"}, 1_000),
    (UTC, {"clock": "seconds"}, 1),
]


@pytest.mark.parametrize(("kind", "columns", "factor"), CLOCKS, ids=str)
def test_times_are_instants_by_the_same_rules_as_in_the_rows(tmp_path, kind, columns, factor):
    write(tmp_path / "a", [-5, 7, -3, 9, 20, 30], kind=kind)
    assert certain(tmp_path / "a", **columns) == [-3 * factor, 20 * factor, None]


def test_nanoseconds_are_cut_and_days_begin_at_midnight(tmp_path):
    write(tmp_path / "a", [0, 1, -1, 5, 2_999, 3_000], kind=pa.timestamp("ns"))
    assert certain(tmp_path / "a") == [-1, 2, None]
    write(tmp_path / "a", pa.array([date(1970, 1, 1), date(1970, 1, 2), date(1970, 1, 3)]), group=1)
    assert certain(tmp_path / "a", zone="Europe/Paris") == [23 * HOUR, 47 * HOUR, None]


UNKNOWN = {
    "text": (pa.array(["1970-01-01", "1970-01-02", "1970-01-03"]), {}),
    "text of digits": (pa.array(["1", "2", "3"]), {"clock": "seconds"}),
    "unsigned": (pa.array([1, 2, 3], pa.uint32()), {"clock": "seconds"}),
    "long and unsigned": (pa.array([1, 2, 2**64 - 1], pa.uint64()), {"clock": "seconds"}),
    "numbers that are no times": (pa.array([1, 2, 3]), {}),
    "fractions": (pa.array([1.0, float("nan"), 3.0]), {"clock": "seconds"}),
    "categories": (pa.array(["1970-01-01", "1970-01-02", "1970-01-03"]).dictionary_encode(), {}),
}


@pytest.mark.parametrize(("times", "columns"), UNKNOWN.values(), ids=UNKNOWN)
def test_of_times_whose_statistics_could_mean_something_else_nothing_is_certain(
    tmp_path, times, columns
):
    write(tmp_path / "a", times, group=1)
    assert certain(tmp_path / "a", **columns) == [None] * 3


def test_of_times_in_96_bits_nothing_is_certain(tmp_path):
    write(tmp_path / "a", [10, 20, 30, 40], use_deprecated_int96_timestamps=True)
    assert certain(tmp_path / "a") == [None, None]


def test_a_field_inside_of_another_is_not_mistaken_for_the_column(tmp_path):
    table = pa.table(
        {
            "a": [{"ts": 1}, {"ts": 2}],
            "ts": pa.array([10, 20], UTC),
            "key": ["a", "a"],
            "person": [1, 2],
        }
    )
    pq.write_table(table, tmp_path / "a", row_group_size=1)
    assert certain(tmp_path / "a") == [20, None]


SHOWN = st.integers(-400 * HOUR, 400 * HOUR).map(lambda time: time // 60_000_000 * 60_000_000)


@pytest.mark.parametrize(
    "zone", ["UTC", "Europe/Paris", "America/New_York", "Australia/Lord_Howe", "Africa/Monrovia"]
)
@given(
    shown=st.lists(SHOWN, min_size=1, max_size=30),
    turn=st.sampled_from([1_774_746_000, 1_792_890_000, 1_772_956_800, 63_593_070]),
)
@settings(derandomize=True, deadline=None, max_examples=25)
def test_what_is_certain_holds_in_every_zone_and_where_clocks_are_changed(
    tmp_path_factory, zone, shown, turn
):
    path = tmp_path_factory.mktemp("zones") / "a"
    write(path, [turn * 1_000_000 + each for each in shown], kind=pa.timestamp("us"))
    batches = list(read(path, zone=zone).batches())
    assert true_to_its_word(batches)
    for place, batch in enumerate(batches[:-1], 1):
        assert batch.certain == min(each.time.min() for each in batches[place:])


@pytest.mark.slow
@given(
    times=st.lists(
        st.integers(-(2**63), 2**63 - 1)
        | st.sampled_from([-62_135_596_800_000_000, 253_402_300_799_999_999]),
        max_size=12,
    )
)
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@settings(derandomize=True, deadline=None, max_examples=25)
def test_what_is_certain_holds_at_the_ends_of_time(tmp_path_factory, times, unit):
    path = tmp_path_factory.mktemp("ends") / "a"
    kind = {
        "s": pa.int64(),
        "ms": pa.timestamp("ms"),
        "us": pa.timestamp("us"),
        "ns": pa.timestamp("ns"),
    }[unit]
    write(path, times, kind=kind)
    clock = "seconds" if unit == "s" else "iso"
    for zone in ("UTC", "Asia/Kolkata", "America/New_York"):
        assert true_to_its_word(read(path, zone=zone, clock=clock).batches())


@dataclass(frozen=True)
class Lying(ParquetFormat):
    """Files whose statistics are of other rows."""

    shift: int = 0

    def earliest(self, file, columns):
        return [
            (row, each if each in (None, NOTHING) else each + self.shift)
            for row, each in super().earliest(file, columns)
        ]


def test_rows_that_do_not_fit_their_statistics_are_refused_before_anyone_sees_them(tmp_path):
    write(tmp_path / "a", [10, 11, 20, 21, 30, 31])
    assert certain(tmp_path / "a", format=Lying(-1)) == [19, 29, None]
    batches = read(tmp_path / "a", format=Lying(1)).batches()
    assert next(batches).certain == 21
    with pytest.raises(
        InputError, match=r"^a: its statistics do not fit its rows\. It was read up to there\.$"
    ):
        next(batches)


def test_a_file_that_is_replaced_after_it_was_asked_cannot_break_the_promise(tmp_path):
    write(tmp_path / "1", [10, 20])
    write(tmp_path / "2", [30, 40])
    batches = read(tmp_path / "?").batches()
    assert next(batches).certain == 30
    write(tmp_path / "2", [25, 40])
    with pytest.raises(InputError, match="2: its statistics do not fit"):
        next(batches)
