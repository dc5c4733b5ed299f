"""`penstock export`."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from penstock.engine.sqlite import SQLiteReader, SQLiteStore
from penstock.released.series import Series
from penstock.released.sinks.release_document import COLUMNS

from tests.cli.outcome import Outcome
from tests.engine.published import KEYS, pipeline, publish, several

pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(autouse=True)
def _store() -> None:
    publish(Path("taps.db"), several(), 50)


def rows(form: str, *tokens: str, capsys) -> list[dict]:
    """What a table has, as the same plain values whatever its format."""
    done = Outcome(capsys, "export", "taps.db", f"out.{form}", *tokens)
    assert done.code == 0, done.err
    if form == "jsonl":
        return [
            json.loads(line) for line in Path("out.jsonl").read_text(encoding="utf-8").splitlines()
        ]
    if form == "parquet":
        found = pq.read_table("out.parquet").to_pylist()
        return [
            row
            | {name: row[name].isoformat().replace("+00:00", "Z") for name in ("begins", "ends")}
            for row in found
        ]
    with Path("out.csv").open(encoding="utf-8", newline="") as file:
        read = {
            "unit": int,
            "value": float,
            "deviation": _maybe,
            "low": _maybe,
            "high": _maybe,
            "repeated": "true".__eq__,
        }
        return [
            {name: read.get(name, str)(text) for name, text in row.items()}
            for row in csv.DictReader(file)
        ]


def _maybe(text: str) -> float | None:
    return float(text) if text else None


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_table_has_one_row_a_unit_and_key(form, capsys):
    found = rows(form, capsys=capsys)
    assert len(found) == (50 + 2) * 3
    assert tuple(found[0]) == COLUMNS
    with SQLiteReader("taps.db") as reader:
        releases = [
            (name, release) for name in reader.series_names for release in reader.releases(name)
        ]
    of = {(row["series"], row["unit"], row["key"]): row for row in found}
    for name, release in releases:
        repeated = np.broadcast_to(release.repeated, release.value.shape)
        for place, key in enumerate(KEYS):
            row = of[name, release.unit, key]
            assert (row["value"], row["repeated"]) == (release.estimate[place], repeated[place])
            variance = release.variance[place]
            assert row["deviation"] == (
                pytest.approx(variance**0.5, rel=1e-6) if np.isfinite(variance) else None
            )
    day = of["taps/daily", 2, "wést"]
    assert (day["begins"], day["ends"]) == ("2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z")
    assert day["low"] < day["value"] < day["high"]


def test_all_formats_say_the_same(capsys):
    first, *others = (rows(form, capsys=capsys) for form in ("csv", "jsonl", "parquet"))
    for other in others:
        assert other == first


def test_one_view_or_several_are_chosen(capsys):
    assert {row["series"] for row in rows("csv", "--stream", "taps/daily", capsys=capsys)} == {
        "taps/daily"
    }
    both = rows("jsonl", "--stream", "taps/daily", "--stream", "taps", capsys=capsys)
    assert len(both) == (50 + 2) * 3
    assert (
        "there is no stream 'tabs'"
        in Outcome(capsys, "export", "taps.db", "x.csv", "--stream", "tabs").err
    )


def test_a_store_is_exported_whole_and_brought_up_to_date(capsys):
    done = Outcome(capsys, "export", "taps.db", "public.db")
    assert done.code == 0, done.err
    assert "taps/hourly (50 units)" in done.out
    assert Outcome(capsys, "ledger", "verify", "public.db").code == 0
    assert Outcome(capsys, "ledger", "verify", "taps.db", "--export", "public.db").code == 0
    assert Outcome(capsys, "status", "public.db").code == 0
    assert Outcome(capsys, "query", "public.db", "counts", "--stream", "taps/daily").code == 0
    assert Outcome(capsys, "export", "taps.db", "public.db").code == 0


def test_units_without_times_have_none(capsys):
    declared = pipeline()
    run = declared.mechanism().run(declared.domain(), record=True)
    with SQLiteStore("plain.db") as store:
        store.begin(Series.of(run, name="plain"))
        store.commit(
            "plain", 1, lines=run.ledger, release=run.step([1, 2, 3]), state=b"", positions={}
        )
    for form in ("parquet", "jsonl", "csv"):
        assert Outcome(capsys, "export", "plain.db", f"plain.{form}").code == 0
    assert pq.read_table("plain.parquet").column("begins").null_count == 3
    assert json.loads(Path("plain.jsonl").read_text().splitlines()[0])["begins"] is None


def test_many_units_go_out_in_several_portions(capsys, monkeypatch):
    monkeypatch.setattr(sys.modules["penstock.cli.export"], "_NUMBERS_PER_BATCH", 21)
    assert len(rows("parquet", capsys=capsys)) == (50 + 2) * 3
    assert pq.ParquetFile("out.parquet").num_row_groups == 9


def test_a_table_never_replaces_a_file_and_leaves_no_half(capsys, tmp_path, monkeypatch):
    Path("mine.csv").write_text("mine")
    done = Outcome(capsys, "export", "taps.db", "mine.csv")
    assert done.code == 2
    assert "is not replaced" in done.err
    assert Path("mine.csv").read_text() == "mine"

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device", "out.csv")

    monkeypatch.setattr(sys.modules["penstock.cli.export"], "numbers", fails)
    full = Outcome(capsys, "export", "taps.db", "out.csv")
    assert (full.code, full.err) == (
        2,
        f"penstock: {Path.cwd()}/out.csv cannot be used: No space left on device.\n",
    )
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith("taps.db")] == [
        "mine.csv"
    ]


def test_the_format_must_be_known(capsys):
    assert "choose a format with --format" in Outcome(capsys, "export", "taps.db", "releases").err
    assert Outcome(capsys, "export", "taps.db", "releases", "--format", "csv").code == 0
    assert Path("releases").read_text().startswith("series,unit,")
