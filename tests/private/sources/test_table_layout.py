"""Columns in the names of folders: what is read, and what is not of its type."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from penstock.private.sources.base import Columns
from penstock.private.sources.table_layout import TableLayout, folder_values

ROWS = pa.record_batch({"x": [1, 2, 3]})


@pytest.mark.parametrize(
    ("kind", "folder", "value"),
    [
        ("string", "a=Old%20Town", "Old Town"),
        ("string", "A=x=y", "x=y"),
        ("string", "a=__HIVE_DEFAULT_PARTITION__", None),
        ("int", "a=-7", -7),
        ("tinyint", "a=127", 127),
        ("tinyint", "a=128", None),
        ("bigint", "a=seven", None),
        ("date", "a=2026-02-28", date(2026, 2, 28)),
        ("date", "a=2026-02-30", None),
    ],
)
def test_a_value_is_read_from_the_name_of_a_folder(kind, folder, value):
    layout = TableLayout(folders={"a": kind})
    found = layout.completed(ROWS, f"{folder}/part-0.parquet")
    assert found.column("a").to_pylist() == [value] * 3
    assert found.column("x").to_pylist() == [1, 2, 3]


def test_rows_without_any_column_of_their_own_keep_their_number():
    rows = ROWS.select([])
    found = TableLayout(folders={"a": "string"}).completed(rows, "a=b/part-0.parquet")
    assert found.to_pylist() == [{"a": "b"}] * 3


def test_a_path_without_the_folder_of_a_column_is_noticed():
    layout = TableLayout(folders={"day": "date", "station": "string"})
    assert layout.lacks("day=2026-01-01/station=north/0.parquet") == ""
    assert layout.lacks("Day=2026-01-01/0.parquet") == "station"
    assert layout.lacks("/elsewhere/day=x.parquet") == "day"
    assert folder_values("/elsewhere/day=x.parquet") == {}


def test_only_columns_outside_folders_are_expected_in_files():
    layout = TableLayout(folders={"station": "string"})
    assert layout.names_in_files(Columns("ts", "station", person="card")) == ("ts", "card")


def test_an_instant_without_a_time_zone_is_in_utc_and_other_times_stay():
    naive = pa.array([datetime(2026, 1, 1, 5)], pa.timestamp("ns"))  # noqa: DTZ001
    rows = pa.record_batch({"ts": naive, "other": naive})
    found = TableLayout(instants=("ts",)).completed(rows, "0.parquet")
    assert found.column("ts").to_pylist()[0] == datetime(2026, 1, 1, 5, tzinfo=UTC)
    assert found.column("other").type.tz is None
