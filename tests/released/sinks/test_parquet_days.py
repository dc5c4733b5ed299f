"""One Parquet file per day: no unit is lost or repeated, wherever the merging process dies."""

from __future__ import annotations

import logging
import os
import shutil
from dataclasses import replace
from pathlib import Path

import duckdb
import polars as pl
import pyarrow.parquet as pq
import pytest

from penstock.core import files as core_files
from penstock.released.sinks import parquet_days as module
from penstock.released.sinks.parquet import ParquetSink

from tests.released.sinks.items import KEYS, item, items, link, series
from tests.released.sinks.killing import dies_before_change

TAPS = series()
DAY = "series=taps/day=2026-01-"


def names(path: Path) -> list[str]:
    return sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())


def rows(path: Path) -> list[tuple]:
    """All rows, as a reader of the pattern sees them."""
    frame = pl.read_parquet(f"{path}/**/*.parquet", hive_partitioning=False)
    return sorted(frame.rows())


def unit_by_unit(
    path: Path, last: int, *, first: int = 1, hours: int = 1, **options
) -> ParquetSink:
    sink = ParquetSink(path, **options)
    for unit in range(first, last + 1):
        sink.put([item(TAPS, unit, hours=hours)])
    return sink


def test_the_files_of_a_day_become_one_when_it_is_over(tmp_path):
    out = tmp_path / "out"
    sink = unit_by_unit(out, 23)
    assert len(names(out)) == 23
    sink.put([item(TAPS, 24)])
    assert names(out) == [f"{DAY}01/units-0000000001-0000000024.parquet"]
    sink.put([item(TAPS, 25)])
    assert names(out) == [
        f"{DAY}01/units-0000000001-0000000024.parquet",
        f"{DAY}02/unit-0000000025.parquet",
    ]
    unit_by_unit(tmp_path / "parts", 25, compact=False)
    assert rows(out) == rows(tmp_path / "parts")
    assert ParquetSink(out).head("taps") == sink.head("taps") == (25, link(TAPS, 25))
    assert not (tmp_path / "out.compacting").exists()


def test_the_one_file_has_the_facts_of_its_newest_unit(tmp_path):
    sink = ParquetSink(tmp_path / "out")
    for unit in range(1, 25):
        sink.put([item(TAPS, unit, private=unit != 3)])
    (path,) = (tmp_path / "out").rglob("*.parquet")
    about = pq.read_metadata(path).metadata
    assert about[b"penstock.unit"] == b"24"
    assert about[b"penstock.link"] == link(TAPS, 24).encode()
    assert about[b"penstock.private"] == b"false"
    assert about[b"penstock.promise"].decode() == TAPS.promise
    assert all(field.metadata[b"description"] for field in pq.read_schema(path))


def test_a_day_that_a_put_leaves_behind_is_over(tmp_path):
    sink = ParquetSink(tmp_path / "out")
    odd = [item(TAPS, unit, hours=5) for unit in range(1, 12)]  # no unit ends at midnight at first
    for one in odd:
        sink.put([one])
    assert names(tmp_path / "out") == [
        f"{DAY}01/units-0000000001-0000000005.parquet",
        f"{DAY}02/units-0000000006-0000000010.parquet",
        f"{DAY}03/unit-0000000011.parquet",
    ]


def test_days_of_earlier_starts_are_merged_some_at_each_put(tmp_path, monkeypatch):
    out = tmp_path / "out"
    unit_by_unit(out, 14, hours=6, compact=False)
    monkeypatch.setattr(module, "MAX_DAYS_PER_PUT", 2)
    before, sink = rows(out), ParquetSink(out)
    sink.put([item(TAPS, 15, hours=6)])
    assert len(names(out)) == 2 + 4 + 3
    sink.put([item(TAPS, 16, hours=6)])
    assert len(names(out)) == 4
    assert [row for row in rows(out) if row[0] <= 14] == before


@pytest.mark.parametrize(
    "change",
    [
        {"nonnegative": True},
        {"series": replace(series(), mechanism="ba")},
    ],
)
def test_files_that_mean_different_things_stay_apart(tmp_path, change):
    sink = ParquetSink(tmp_path / "out")
    for unit in range(1, 26):
        one = item(TAPS, unit)
        sink.put([replace(one, **change) if unit > 12 else one])
    assert len(names(tmp_path / "out")) == 25


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path):
    out = tmp_path / "out"
    sink = unit_by_unit(out, 23)
    (out / f"{DAY}01" / "notes.txt").write_text("mine")
    sink.put([item(TAPS, 24)])
    assert len(names(out)) == 25
    assert (out / f"{DAY}01" / "notes.txt").read_text() == "mine"


def test_files_that_others_wrote_under_our_names_are_left_alone(tmp_path):
    out = tmp_path / "out"
    sink = unit_by_unit(out, 23, first=21)
    pl.DataFrame({"mine": [1]}).write_parquet(out / f"{DAY}01" / "unit-0000000020.parquet")
    sink.put([item(TAPS, 24)])
    assert len(names(out)) == 5


def test_a_gap_between_files_is_left_alone(tmp_path):
    out = tmp_path / "out"
    sink = unit_by_unit(out, 23)
    (out / f"{DAY}01" / "unit-0000000007.parquet").unlink()
    sink.put([item(TAPS, 24)])
    assert len(names(out)) == 23


def by_polars(listed: list[str]) -> int:
    return pl.read_parquet(listed).height


def by_duckdb(listed: list[str]) -> int:
    with duckdb.connect() as duck:
        return duck.read_parquet(listed).count("*").fetchall()[0][0]


@pytest.mark.parametrize("read", [by_polars, by_duckdb])
def test_a_reader_that_listed_the_old_files_gets_an_error_and_never_half_a_day(tmp_path, read):
    out = tmp_path / "out"
    sink = unit_by_unit(out, 23, first=21)
    listed = sorted(str(path) for path in out.rglob("*.parquet"))
    assert read(listed) == 3 * len(KEYS)
    sink.put([item(TAPS, 24)])
    with pytest.raises((OSError, duckdb.IOException)):
        read(listed)
    assert read([str(path) for path in out.rglob("*.parquet")]) == 4 * len(KEYS)


def test_where_folders_cannot_be_exchanged_files_stay_and_a_warning_says_so(
    tmp_path, monkeypatch, caplog
):
    def cannot(one: Path, other: Path) -> None:
        raise OSError(22, os.strerror(22))

    monkeypatch.setattr(module, "exchange", cannot)
    with caplog.at_level(logging.WARNING):
        unit_by_unit(tmp_path / "out", 25)
    assert len(names(tmp_path / "out")) == 25
    (record,) = caplog.records
    assert "not merged (Invalid argument). All releases are there" in record.getMessage()
    assert str(tmp_path) not in record.getMessage()
    assert not names(tmp_path / "out.compacting")


@pytest.mark.slow
def test_a_writer_that_dies_before_any_change_of_the_disk_loses_and_repeats_nothing(tmp_path):
    whole = rows(unit_by_unit(tmp_path / "whole", 26, first=21, compact=False).path)
    start, out = tmp_path / "start", tmp_path / "out"
    unit_by_unit(start, 23, first=21)
    for number in range(1, 100):
        shutil.rmtree(out, ignore_errors=True)
        shutil.rmtree(tmp_path / "out.compacting", ignore_errors=True)
        shutil.copytree(start, out)
        died = dies_before_change(number, lambda: ParquetSink(out).put([item(TAPS, 24)]))
        there = rows(out)
        assert there == [row for row in whole if row[0] <= there[-1][0]], number
        head = ParquetSink(out).head("taps")
        assert head == (there[-1][0], link(TAPS, there[-1][0]))
        ParquetSink(out).put(items(TAPS, 24, 26))
        assert rows(out) == whole
        assert len(names(out)) == 2
        assert not names(tmp_path / "out.compacting")
        if not died:
            break
    assert number > 15  # of which some are before, at and after the exchange


def test_a_day_with_many_rows_is_merged_in_row_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "ROWS_PER_GROUP", 5 * len(KEYS))
    unit_by_unit(tmp_path / "out", 24)
    (path,) = (tmp_path / "out").rglob("*.parquet")
    file = pq.ParquetFile(path)
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [
        *[5 * len(KEYS)] * 4,
        4 * len(KEYS),
    ]


def test_folders_are_exchanged_with_all_that_is_in_them(tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text(name)
    core_files.exchange(tmp_path / "one", tmp_path / "other")
    assert names(tmp_path) == ["one/other", "other/one"]
    with pytest.raises(FileNotFoundError):
        core_files.exchange(tmp_path / "one", tmp_path / "nobody")
