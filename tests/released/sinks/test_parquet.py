"""Parquet files by series and day: whole or not there, read by others, and never written twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import duckdb
import polars as pl
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from penstock.core.errors import InputError
from penstock.released.sinks import parquet as module
from penstock.released.sinks.base import SinkError
from penstock.released.sinks.parquet import ParquetSink
from penstock.released.sinks.release_document import table

from tests.released.sinks.items import AWKWARD, KEYS, ROOT_OF_TESTS, item, items, link, series
from tests.released.sinks.killing import killed_often

TAPS = series()


def files(path: Path) -> list[str]:
    return sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())


def contents(path: Path) -> dict[str, bytes]:
    return {name: (path / name).read_bytes() for name in files(path)}


def units(path: Path) -> list[int]:
    """The unit of every row."""
    found = []
    for file in path.rglob("*.parquet"):
        found += pq.ParquetFile(file).read().column("unit").to_pylist()
    return sorted(found)


def test_a_unit_is_a_file_in_the_folder_of_its_day(tmp_path):
    sink = ParquetSink(tmp_path / "out", compact=False)
    sink.put([item(TAPS, 17)])
    sink.put([item(TAPS, 18)])
    sink.put(items(TAPS, 19, 26))
    day = "series=taps/day=2026-01-"
    assert files(tmp_path / "out") == [
        f"{day}01/unit-0000000017.parquet",
        f"{day}01/unit-0000000018.parquet",
        f"{day}01/units-0000000019-0000000024.parquet",
        f"{day}02/units-0000000025-0000000026.parquet",
    ]
    assert sink.head("taps") == ParquetSink(tmp_path / "out").head("taps") == (26, link(TAPS, 26))


def test_a_file_holds_the_table_of_its_units_and_their_newest_link(tmp_path):
    ParquetSink(tmp_path).put(items(TAPS, 1, 2))
    (path,) = tmp_path.rglob("*.parquet")
    found = pq.ParquetFile(path).read()
    wanted = [
        row for one in items(TAPS, 1, 2) for row in table(one).drop_columns("series").to_pylist()
    ]
    assert found.to_pylist() == wanted
    about = found.schema.metadata
    assert about[b"penstock.link"] == link(TAPS, 2).encode()
    assert about[b"penstock.unit"] == b"2"
    assert about[b"penstock.guarantee"] == b"Guarantee(epsilon=1/2, window=24)"
    assert about[b"penstock.private"] == b"true"


def test_a_file_says_what_is_promised_and_what_its_columns_mean(tmp_path):
    ParquetSink(tmp_path).put([replace(item(TAPS, 1), nonnegative=True)])
    (path,) = tmp_path.rglob("*.parquet")
    schema = pq.read_schema(path)
    assert schema.metadata[b"penstock.promise"].decode() == TAPS.promise
    assert json.loads(schema.metadata[b"penstock.nonnegative"])["method"] == "cut at 0"
    assert {field.name for field in schema if field.metadata[b"description"]} == set(schema.names)


def test_the_long_format_has_six_columns(tmp_path):
    sink = ParquetSink(tmp_path, long=True)
    sink.put(items(TAPS, 1, 3))
    sink.put(items(TAPS, 4, 24))
    (path,) = tmp_path.rglob("*.parquet")
    found = pq.ParquetFile(path).read()
    assert found.column_names == ["unit", "begins", "key", "value", "low", "high"]
    assert found.column("unit").to_pylist() == sorted([*range(1, 25)] * len(KEYS))


def test_nothing_is_there_before_anything_was_put(tmp_path):
    sink = ParquetSink(tmp_path / "new" / "folder")
    assert sink.head("taps") is None
    sink.put([])
    assert not (tmp_path / "new").exists()


def test_repeating_changes_nothing(tmp_path):
    sink = ParquetSink(tmp_path)
    sink.put(items(TAPS, 1, 5))
    before = contents(tmp_path)
    sink.put(items(TAPS, 1, 5))
    sink.put([item(TAPS, 3)])
    ParquetSink(tmp_path).put(items(TAPS, 4, 5))
    assert contents(tmp_path) == before
    ParquetSink(tmp_path).put(items(TAPS, 4, 7))
    assert units(tmp_path) == sorted([*range(1, 8)] * len(KEYS))


def test_the_same_units_are_the_same_bytes(tmp_path):
    for name in ("one", "other"):
        ParquetSink(tmp_path / name).put(items(TAPS, 1, 30))
    assert contents(tmp_path / "one") == contents(tmp_path / "other")


def test_two_series_do_not_meet(tmp_path):
    other = series(AWKWARD, keys=3)
    sink = ParquetSink(tmp_path)
    sink.put([item(TAPS, 1), item(other, 1), item(TAPS, 2)])
    assert sink.head("taps") == (2, link(TAPS, 2))
    assert sink.head(AWKWARD) == (1, link(other, 1))
    assert sink.head("Zürich") is None


@pytest.mark.parametrize("name", ["..", "a/../../b", "100%", "=", "a b", "%2F"])
def test_no_name_leaves_its_folder(tmp_path, name):
    odd = series(name)
    ParquetSink(tmp_path / "out").put([item(odd, 1)])
    (found,) = files(tmp_path)
    assert found.count("/") == 3
    assert ParquetSink(tmp_path / "out").head(name) == (1, link(odd, 1))


def test_others_read_it_with_their_partitions(tmp_path):
    sink, awkward = ParquetSink(tmp_path), series(AWKWARD)
    for of in (TAPS, awkward):
        sink.put(items(of, 1, 30))
    (tmp_path / "series=taps" / "day=2026-01-02" / ".unit-0000000031.parquet.new").write_bytes(
        b"torn"
    )
    wanted = {
        (name, day): count * len(KEYS)
        for name in ("taps", AWKWARD)
        for day, count in (("2026-01-01", 24), ("2026-01-02", 6))
    }
    pattern = f"{tmp_path}/**/*.parquet"
    with duckdb.connect() as duck:
        rows = duck.execute(
            "SELECT series, day::text, count(*) "
            "FROM read_parquet(?, hive_partitioning = true) GROUP BY ALL",
            [pattern],
        ).fetchall()
    assert {(name, day): count for name, day, count in rows} == wanted
    frame = (
        pl.scan_parquet(pattern, hive_partitioning=True)
        .group_by("series", pl.col("day").cast(pl.String))
        .len()
        .collect()
    )
    assert {(name, day): count for name, day, count in frame.rows()} == wanted
    arrow = (
        ds.dataset(tmp_path, partitioning="hive")
        .to_table()
        .group_by(["series", "day"])
        .aggregate([([], "count_all")])
    )
    assert {(row["series"], row["day"]): row["count_all"] for row in arrow.to_pylist()} == wanted


def test_a_file_never_holds_too_much(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_ROWS_PER_FILE", 3 * len(KEYS))
    monkeypatch.setattr(module, "ROWS_PER_GROUP", 2 * len(KEYS))
    ParquetSink(tmp_path).put(items(TAPS, 1, 7))
    assert [name[-34:] for name in files(tmp_path)] == [
        "day=2026-01-01/unit-0000000007.parquet"[-34:],
        "units-0000000001-0000000003.parquet"[-34:],
        "units-0000000004-0000000006.parquet"[-34:],
    ]
    assert units(tmp_path) == sorted([*range(1, 8)] * len(KEYS))


def test_many_keys_fit(tmp_path):
    big = series("cells", 88_762)
    ParquetSink(tmp_path).put(items(big, 1, 2))
    assert len(units(tmp_path)) == 2 * 88_762


def test_what_a_crash_has_left_is_cleared_away_and_never_read(tmp_path):
    ParquetSink(tmp_path).put(items(TAPS, 1, 2))
    day = tmp_path / "series=taps" / "day=2026-01-01"
    (day / ".units-0000000003-0000000009.parquet.new").write_bytes(b"PAR1 torn")
    (tmp_path / "series=taps" / "day=2026-01-02").mkdir()
    sink = ParquetSink(tmp_path)
    assert sink.head("taps") == (2, link(TAPS, 2))
    sink.put(items(TAPS, 3, 4))
    assert units(tmp_path) == sorted([*range(1, 5)] * len(KEYS))
    assert not list(day.glob(".*"))


@pytest.mark.slow
def test_a_killed_writer_leaves_every_unit_whole_and_once(tmp_path):
    of = series("kept", keys=2000)

    def look(confirmed: int) -> None:
        head = ParquetSink(tmp_path).head("kept")
        assert head is not None
        assert head[0] >= confirmed
        assert head[1] == link(of, head[0])
        assert units(tmp_path) == sorted([*range(1, head[0] + 1)] * 2000)

    killed_often("parquet", tmp_path, kills=4, seen=look)


def test_another_past_is_refused_and_nothing_is_written(tmp_path):
    other = series("other")
    sink = ParquetSink(tmp_path)
    sink.put([item(TAPS, 1)])
    wrong = item(TAPS, 1)
    object.__setattr__(wrong, "link", "0" * 64)
    before = contents(tmp_path)
    with pytest.raises(SinkError, match="another link") as caught:
        sink.put([item(other, 1), wrong, item(TAPS, 2)])
    assert caught.value.lasting
    assert contents(tmp_path) == before


def test_a_gap_is_refused(tmp_path):
    sink = ParquetSink(tmp_path)
    sink.put([item(TAPS, 1)])
    with pytest.raises(SinkError, match="unit 3 of 'taps' does not follow unit 1"):
        sink.put([item(TAPS, 3)])
    with pytest.raises(InputError, match="in order"):
        sink.put([item(TAPS, 2), item(TAPS, 4)])
    sink.put(items(TAPS, 2, 3))
    assert sink.head("taps") == (3, link(TAPS, 3))


@pytest.mark.parametrize("damage", [b"", b"not parquet at all", b"PAR1PAR1"])
def test_a_damaged_newest_file_is_named_with_what_to_do(tmp_path, damage):
    ParquetSink(tmp_path).put([item(TAPS, 1)])
    ParquetSink(tmp_path).put([item(TAPS, 2)])
    newest = max(tmp_path.rglob("*.parquet"))
    newest.write_bytes(damage)
    with pytest.raises(SinkError, match=r"unit-0000000002.parquet.*move it away") as caught:
        ParquetSink(tmp_path).head("taps")
    assert caught.value.lasting
    newest.unlink()
    ParquetSink(tmp_path).put(items(TAPS, 1, 2))
    assert units(tmp_path) == sorted([1, 2] * len(KEYS))


def test_a_file_of_another_series_is_not_believed(tmp_path):
    ParquetSink(tmp_path).put([item(TAPS, 1)])
    (tmp_path / "series=taps").rename(tmp_path / "series=other")
    with pytest.raises(SinkError, match="was not written by this sink"):
        ParquetSink(tmp_path).head("other")


def limited(script: str, path: Path) -> str:
    """What a script prints in a process whose files cannot grow beyond 16 kB: as on a full disk."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384))\n"
    done = subprocess.run(
        [sys.executable, "-c", limit + script, str(path)],
        cwd=ROOT_OF_TESTS,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


FULL = """
import sys
from penstock.released.sinks import *
from tests.released.sinks.items import *
sink = ParquetSink(sys.argv[1])
sink.put([item(series(), 1)])
try:
    sink.put([item(series(keys=20000, name="large"), 1)])
except SinkError as error:
    print(error)
sink.put([item(series(), 2)])
"""


def test_a_full_disk_leaves_whole_files_only(tmp_path):
    said = limited(FULL, tmp_path)
    assert "File too large. Check that the disk is there and not full" in said
    assert [name[-23:] for name in files(tmp_path)] == [
        "unit-0000000001.parquet",
        "unit-0000000002.parquet",
    ]
    ParquetSink(tmp_path).put([item(series(keys=20_000, name="large"), 1)])
    assert len(units(tmp_path)) == 20_000 + 2 * len(KEYS)


def test_a_folder_that_may_not_be_written_is_an_error_with_advice(tmp_path):
    folder = tmp_path / "guarded"
    folder.mkdir(mode=0o500)
    if os.access(folder, os.W_OK):
        pytest.skip("the administrator may write anywhere")
    sink = ParquetSink(folder)
    with pytest.raises(
        SinkError, match=r"guarded cannot be used: Permission denied.*may write to it"
    ) as caught:
        sink.put([item(TAPS, 1)])
    assert str(tmp_path) not in str(caught.value)
    folder.chmod(0o700)
    sink.put([item(TAPS, 1)])
    assert sink.head("taps") == (1, link(TAPS, 1))


@pytest.mark.parametrize(
    "place", ["taken", "taken/series=taps", "taken/series=taps/day=2026-01-01"]
)
def test_a_file_in_the_way_is_an_error_with_advice_and_not_an_empty_sink(tmp_path, place):
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_text("something")
    sink = ParquetSink(tmp_path / "taken")
    for attempt in (lambda: sink.head("taps"), lambda: sink.put([item(TAPS, 1)])):
        with pytest.raises(
            SinkError, match=r"taken cannot be used: Not a directory.*may write to it"
        ):
            attempt()
    assert (tmp_path / place).read_text() == "something"


def test_its_repr_has_a_name_only(tmp_path):
    assert repr(ParquetSink(tmp_path / "out")) == "<Parquet 'out'>"
    assert json.dumps(repr(ParquetSink(tmp_path / "out"))).count(str(tmp_path)) == 0
