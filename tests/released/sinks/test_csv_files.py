"""CSV files by series and day: whole units, each once, with the promise beside them."""

from __future__ import annotations

import csv
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest

from penstock.core.released import Released
from penstock.released.sinks import csv_files as module
from penstock.released.sinks.base import SinkError
from penstock.released.sinks.csv_files import CsvSink
from penstock.released.sinks.release_document import document

from tests.released.sinks.items import AWKWARD, KEYS, item, items, link, series
from tests.released.sinks.killing import dies_before_change, killed_often

TAPS = series()
FULL = ["unit", "begins", "ends", "key", "value", "deviation", "low", "high", "repeated"]


def names(path: Path) -> list[str]:
    return sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())


def contents(path: Path) -> dict[str, bytes]:
    return {name: (path / name).read_bytes() for name in names(path)}


def rows(path: Path) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    for file in sorted(path.rglob("*.csv")):
        with file.open(encoding="utf-8", newline="") as lines:
            found += csv.DictReader(line for line in lines if not line.startswith("#"))
    return sorted(found, key=lambda row: int(row["unit"]))


def units(path: Path) -> list[int]:
    return [int(row["unit"]) for row in rows(path)]


def about(path: Path, name: str = "taps") -> dict:
    return json.loads((path / f"series={name}" / "about.json").read_text(encoding="utf-8"))


def test_there_is_a_file_per_day_and_one_that_says_what_they_hold(tmp_path):
    sink = CsvSink(tmp_path)
    sink.put(items(TAPS, 1, 20))
    sink.put(items(TAPS, 21, 30))
    folder = "series=taps"
    assert names(tmp_path) == [
        f"{folder}/2026-01-01.csv",
        f"{folder}/2026-01-02.csv",
        f"{folder}/about.json",
    ]
    assert sink.head("taps") == CsvSink(tmp_path).head("taps") == (30, link(TAPS, 30))
    assert units(tmp_path) == sorted([*range(1, 31)] * len(KEYS))


def test_rows_have_the_numbers_of_the_document(tmp_path):
    one = item(TAPS, 2, value=np.array([-3, 0, 7, 2**40]))
    CsvSink(tmp_path).put([item(TAPS, 1), one])
    wanted = json.loads(document(one))
    found = [row for row in rows(tmp_path) if row["unit"] == "2"]
    assert list(found[0]) == FULL
    assert [row["key"] for row in found] == list(KEYS)
    for name, column in (("value", "values"), ("deviation", "deviations"), ("low", "low")):
        assert [float(row[name]) for row in found] == wanted[column]
    assert {row["begins"] for row in found} == {wanted["begins"]}
    assert {row["ends"] for row in found} == {wanted["ends"]}
    assert {row["repeated"] for row in found} == {"true"}
    assert found[3]["value"] == str(2**40)


def test_what_is_not_known_is_empty(tmp_path):
    nothing = Released.nothing(len(KEYS), TAPS.guarantee).again(1)
    CsvSink(tmp_path).put([item(TAPS, 1, release=nothing)])
    (first, *_) = rows(tmp_path)
    assert (first["value"], first["deviation"], first["low"], first["high"]) == ("0", "", "", "")


def test_about_json_has_the_promise_and_the_meaning_of_the_columns(tmp_path):
    CsvSink(tmp_path).put([replace(one, nonnegative=True) for one in items(TAPS, 1, 3)])
    told = about(tmp_path)
    assert told["promise"] == TAPS.promise
    assert told["guarantee"] == repr(TAPS.guarantee)
    assert (told["unit"], told["link"]) == (3, link(TAPS, 3))
    assert told["private"] is True
    assert told["nonnegative"]["method"] == "cut at 0"
    assert list(told["columns"]) == FULL
    assert told["columns"]["value"].endswith("made non-negative")


def test_numbers_of_test_noise_are_never_called_private_again(tmp_path):
    sink = CsvSink(tmp_path)
    sink.put([item(TAPS, 1, private=False)])
    CsvSink(tmp_path).put([item(TAPS, 2)])
    assert about(tmp_path)["private"] is False


def test_the_long_format_has_six_columns(tmp_path):
    CsvSink(tmp_path, long=True).put(items(TAPS, 1, 2))
    assert list(rows(tmp_path)[0]) == ["unit", "begins", "key", "value", "low", "high"]


def test_comments_have_the_promise_above_the_header(tmp_path):
    sink = CsvSink(tmp_path, comments=True)
    sink.put(items(TAPS, 1, 2))
    sink.put(items(TAPS, 3, 4))
    lines = (tmp_path / "series=taps" / "2026-01-01.csv").read_text(encoding="utf-8").splitlines()
    above = [line for line in lines if line.startswith("#")]
    assert lines[: len(above)] == above
    assert f"# promise: {' '.join(TAPS.promise.split())}" in above
    assert any(line.startswith("# low: the lower end") for line in above)
    assert units(tmp_path) == sorted([1, 2, 3, 4] * len(KEYS))
    frame = pl.read_csv(tmp_path / "series=taps" / "2026-01-01.csv", comment_prefix="#")
    assert frame.height == 4 * len(KEYS)


def test_others_read_it(tmp_path):
    CsvSink(tmp_path).put(items(TAPS, 1, 30))
    with duckdb.connect() as duck:
        count = duck.execute(
            "SELECT count(*), count(DISTINCT key) FROM read_csv(?)", [f"{tmp_path}/**/*.csv"]
        ).fetchone()
    assert count == (30 * len(KEYS), len(KEYS))
    frame = pl.scan_csv(f"{tmp_path}/**/*.csv", try_parse_dates=True).collect()
    assert frame.height == 30 * len(KEYS)
    assert set(frame["key"]) == set(KEYS)
    assert frame.schema["begins"] == pl.Datetime("us", "UTC")


def test_repeating_changes_nothing(tmp_path):
    sink = CsvSink(tmp_path)
    sink.put(items(TAPS, 1, 5))
    before = contents(tmp_path)
    sink.put(items(TAPS, 1, 5))
    CsvSink(tmp_path).put(items(TAPS, 4, 5))
    assert contents(tmp_path) == before
    CsvSink(tmp_path).put(items(TAPS, 4, 7))
    assert units(tmp_path) == sorted([*range(1, 8)] * len(KEYS))


def test_however_units_come_the_files_are_the_same(tmp_path):
    CsvSink(tmp_path / "one").put(items(TAPS, 1, 30))
    for unit in range(1, 31):
        CsvSink(tmp_path / "other").put([item(TAPS, unit)])
    assert contents(tmp_path / "one") == contents(tmp_path / "other")


def test_a_long_file_is_followed_by_another_of_the_same_day(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_BYTES_PER_FILE", 2000)
    sink = CsvSink(tmp_path)
    for unit in range(1, 25):
        sink.put([item(TAPS, unit)])
    found = names(tmp_path)
    assert found[:2] == ["series=taps/2026-01-01.2.csv", "series=taps/2026-01-01.3.csv"]
    assert "series=taps/2026-01-01.csv" in found
    assert units(tmp_path) == sorted([*range(1, 25)] * len(KEYS))


@pytest.mark.parametrize("change", [{"nonnegative": True}, {"comments": True}, {"long": True}])
def test_numbers_that_mean_something_else_go_into_another_file(tmp_path, change):
    CsvSink(tmp_path).put(items(TAPS, 1, 2))
    cut = change.pop("nonnegative", False)
    CsvSink(tmp_path, **change).put([replace(one, nonnegative=cut) for one in items(TAPS, 3, 4)])
    assert [name.rpartition("/")[2] for name in names(tmp_path)] == [
        "2026-01-01.2.csv",
        "2026-01-01.csv",
        "about.json",
    ]
    assert units(tmp_path) == sorted([1, 2, 3, 4] * len(KEYS))


def test_two_series_do_not_meet(tmp_path):
    other = series(AWKWARD, keys=3)
    sink = CsvSink(tmp_path)
    sink.put([item(TAPS, 1), item(other, 1), item(TAPS, 2)])
    assert sink.head("taps") == (2, link(TAPS, 2))
    assert sink.head(AWKWARD) == (1, link(other, 1))
    assert sink.head("Zürich") is None


@pytest.mark.slow
@pytest.mark.parametrize("first", [1, 25])
def test_a_writer_that_dies_before_any_change_of_the_disk_loses_and_repeats_nothing(
    tmp_path, first
):
    CsvSink(tmp_path / "whole").put(items(TAPS, 1, 26))
    whole, out = contents(tmp_path / "whole"), tmp_path / "out"
    for number in range(1, 60):
        shutil.rmtree(out, ignore_errors=True)
        if first > 1:
            CsvSink(out).put(items(TAPS, 1, first - 1))
        died = dies_before_change(number, lambda: CsvSink(out).put(items(TAPS, first, 25)))
        there = units(out)
        assert there == sorted([*range(1, max(there, default=0) + 1)] * len(KEYS))
        head = CsvSink(out).head("taps")
        assert head is None or head[0] <= max(there)
        CsvSink(out).put(items(TAPS, 1 if head is None else head[0] + 1, 26))
        assert contents(out) == whole
        if not died:
            break
    assert number > 5


@pytest.mark.slow
def test_a_killed_writer_leaves_every_unit_whole_and_once(tmp_path):
    def look(confirmed: int) -> None:
        head = CsvSink(tmp_path).head("kept")
        assert head is not None
        assert head[0] >= confirmed
        there = units(tmp_path)
        assert there == sorted([*range(1, max(there) + 1)] * 2000)
        assert max(there) >= head[0]

    killed_often("csv", tmp_path, kills=2, seen=look)


def test_another_past_is_refused_and_nothing_is_written(tmp_path):
    sink = CsvSink(tmp_path)
    sink.put([item(TAPS, 1)])
    wrong = item(TAPS, 1)
    object.__setattr__(wrong, "link", "0" * 64)
    before = contents(tmp_path)
    with pytest.raises(SinkError, match="another link"):
        sink.put([wrong, item(TAPS, 2)])
    assert contents(tmp_path) == before


def test_a_file_that_something_has_cut_is_named_with_what_to_do(tmp_path):
    CsvSink(tmp_path).put(items(TAPS, 1, 2))
    path = tmp_path / "series=taps" / "2026-01-01.csv"
    os.truncate(path, 100)
    with pytest.raises(SinkError, match=r"2026-01-01.csv is shorter.*Move both away") as caught:
        CsvSink(tmp_path).put([item(TAPS, 3)])
    assert caught.value.lasting
    path.unlink()
    (tmp_path / "series=taps" / "about.json").unlink()
    CsvSink(tmp_path).put(items(TAPS, 1, 3))
    assert units(tmp_path) == sorted([1, 2, 3] * len(KEYS))


def test_a_file_that_was_moved_away_is_begun_again_with_the_next_unit(tmp_path):
    sink = CsvSink(tmp_path)
    sink.put(items(TAPS, 1, 2))
    (tmp_path / "series=taps" / "2026-01-01.csv").rename(tmp_path / "kept.csv")
    sink.put([item(TAPS, 3)])
    assert units(tmp_path / "series=taps") == [3] * len(KEYS)


def test_a_file_of_somebody_else_is_never_overwritten(tmp_path):
    (tmp_path / "series=taps").mkdir()
    (tmp_path / "series=taps" / "2026-01-01.csv").write_text("my,own\n1,2\n")
    with pytest.raises(SinkError, match="was not written by this sink") as caught:
        CsvSink(tmp_path).put([item(TAPS, 1)])
    assert caught.value.lasting
    assert names(tmp_path) == ["series=taps/2026-01-01.csv"]


@pytest.mark.parametrize(
    "damage", [b"", b"{}", b"[1]", b'{"format":["other",1]}', b'{"format":["penstock csv",1]}']
)
def test_a_damaged_about_json_is_named_with_what_to_do(tmp_path, damage):
    CsvSink(tmp_path).put(items(TAPS, 1, 3))
    path = tmp_path / "series=taps" / "about.json"
    path.write_bytes(damage)
    with pytest.raises(SinkError, match=r"about.json of 'taps' is damaged.*move it away") as caught:
        CsvSink(tmp_path).head("taps")
    assert caught.value.lasting
    before = (tmp_path / "series=taps" / "2026-01-01.csv").read_bytes()
    path.unlink()
    CsvSink(tmp_path).put(items(TAPS, 1, 3))
    assert (tmp_path / "series=taps" / "2026-01-01.csv").read_bytes() == before


@pytest.mark.parametrize("name", ["..", "a/../../b", "100%", "a b"])
def test_no_name_leaves_its_folder(tmp_path, name):
    CsvSink(tmp_path / "out").put([item(series(name), 1)])
    assert {found.count("/") for found in names(tmp_path)} == {2}


def test_a_file_in_the_way_is_an_error_with_advice(tmp_path):
    (tmp_path / "taken").write_text("something")
    sink = CsvSink(tmp_path / "taken")
    with pytest.raises(SinkError, match="taken cannot be used: Not a directory"):
        sink.put([item(TAPS, 1)])
    assert repr(sink) == "<Csv 'taken'>"
