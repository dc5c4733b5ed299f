"""A dry run says whether a source can be read, and leaves no trace."""

from __future__ import annotations

import io
import json
import sys
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from penstock.core.errors import ConfigurationError, UnusableSourceError
from penstock.engine.dry_run import DryRun, dry_run
from penstock.engine.pipeline import Pipeline

NOW = datetime(2026, 3, 1, tzinfo=UTC)
DAY = {"until": "2026-01-03"}


def tried(
    folder: Path, source: dict[str, Any] | None = None, *, stream: dict[str, Any] | None = None
) -> DryRun:
    where = {"kind": "csv", "path": "*.csv", "time": "ts", "key": "station", "person": "card"}
    pipeline = Pipeline.of(
        {
            "stream": {"name": "taps", "every": "1h", "origin": "2026-01-01"}
            | (DAY if stream is None else stream),
            "source": where | (source or {}),
            "domain": {"keys": ["north", "south"]},
            "privacy": {"mechanism": "laplace", "epsilon": "1"},
            "store": {"path": "taps.db"},
        },
        folder=folder,
    )
    before = sorted(path.name for path in folder.iterdir())
    try:
        return dry_run(pipeline, now=NOW)
    finally:
        assert sorted(path.name for path in folder.iterdir()) == before


def written(folder: Path, *rows: str, name: str = "taps.csv") -> None:
    (folder / name).write_text("\n".join(["ts,station,card", *rows]) + "\n")


GOOD = ["2026-01-01T05:00Z,north,1", "2026-01-02T23:59Z,south,2"]


def test_a_source_that_can_be_read_shows_columns_a_class_and_two_days(tmp_path: Path) -> None:
    written(tmp_path, *GOOD * 20, "soon,north,3")
    found = tried(tmp_path)
    assert found.readable
    assert found.columns == ("ts", "station", "card")
    assert found.percent == (90, 100)
    assert (found.first, found.last) == (date(2026, 1, 1), date(2026, 1, 2))
    assert (found.reason, found.files, found.empty) == ("", (), False)
    assert repr(found) == "<DryRun, private>"


@pytest.mark.parametrize(
    ("good", "bad", "percent"),
    [(0, 7, (0, 10)), (1, 9, (10, 20)), (5, 5, (50, 60)), (59, 41, (50, 60)), (9, 1, (90, 100))],
)
def test_the_share_of_rows_is_told_in_classes_of_ten_per_cent(
    tmp_path: Path, good: int, bad: int, percent: tuple[int, int]
) -> None:
    written(tmp_path, *[GOOD[0]] * good, *["2026-01-01T05:00Z,mars,1"] * bad)
    found = tried(tmp_path)
    assert (found.percent, found.readable) == (percent, good >= bad)
    assert bool(found.reason) == (good < 0.9 * (good + bad))
    if found.reason:
        assert found.reason == "the key in 'station' is not in [domain], which has no other"


def test_the_kind_of_mistake_is_named_without_any_data(tmp_path: Path) -> None:
    written(tmp_path, *["12345,north,7"] * 5)
    found = tried(tmp_path)
    assert found.reason.startswith("the time in 'ts' cannot be read with clock = \"iso\": write ")
    assert (found.columns, found.first, found.readable) == (("ts", "station", "card"), None, False)


def test_times_outside_of_all_units_are_no_rows_to_take(tmp_path: Path) -> None:
    written(tmp_path, *["2025-01-01T05:00Z,north,1"] * 9)
    found = tried(tmp_path)
    assert (found.percent, found.readable) == ((0, 10), False)
    assert "lies before the origin of [stream], or after its end or now" in found.reason
    assert (found.first, found.last) == (date(2025, 1, 1), date(2025, 1, 1))


def test_a_file_that_cannot_be_read_among_others_is_named(tmp_path: Path) -> None:
    written(tmp_path, *GOOD * 50, name="1.csv")
    written(tmp_path, *["2026-01-01T05:00Z,mars,1"] * 20, name="2.csv")
    written(tmp_path, *GOOD * 50, name="3.csv")
    found = tried(tmp_path)
    assert (found.percent, found.files, found.readable) == ((90, 100), ("2.csv",), False)


def test_days_are_those_of_the_stream(tmp_path: Path) -> None:
    written(tmp_path, "2026-01-01T20:00Z,north,1")
    found = tried(tmp_path, stream=DAY | {"zone": "Asia/Tokyo"})
    assert (found.first, found.last) == (date(2026, 1, 2), date(2026, 1, 2))


def test_the_earliest_and_the_latest_time_have_a_day_in_every_zone(tmp_path: Path) -> None:
    written(tmp_path, "0001-01-01T00:00Z,north,1", "9999-12-31T23:00Z,north,1", GOOD[0])
    for zone in ("Asia/Tokyo", "America/New_York"):
        found = tried(tmp_path, stream=DAY | {"zone": zone})
        assert found.first is not None
        assert found.last is not None
        assert (found.first.year, found.last.year) == (1, 9999)


@pytest.mark.parametrize(("until", "empty"), [("2026-01-03", False), ("2026-01-09", True)])
def test_units_that_will_mostly_be_empty_are_told(tmp_path: Path, until: str, empty: bool) -> None:
    written(tmp_path, *GOOD)
    assert tried(tmp_path, stream={"until": until}).empty is empty
    assert tried(tmp_path, stream={}).empty  # without an end, units go on until now


def test_a_source_without_rows_is_not_judged(tmp_path: Path) -> None:
    written(tmp_path)
    found = tried(tmp_path)
    assert (found.percent, found.columns, found.readable) == (None, (), True)


def test_a_missing_column_or_file_is_an_error_as_in_a_run(tmp_path: Path) -> None:
    with pytest.raises(UnusableSourceError, match="no file matches"):
        tried(tmp_path)
    written(tmp_path, *GOOD)
    with pytest.raises(UnusableSourceError, match=r"has no column 'when'; it has 'ts'"):
        tried(tmp_path, {"time": "when"})


@pytest.mark.parametrize("stream", [DAY, {}], ids=["finite", "live"])
def test_standard_input_is_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: dict[str, Any]
) -> None:
    lines = [{"ts": "2026-01-01T05:00Z", "station": "north", "card": 7}] * 3
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    where = {"kind": "stdin", "time": "ts", "key": "station", "person": "card"}
    pipeline = Pipeline.of(
        {
            "stream": {"name": "taps", "every": "1h", "origin": "2026-01-01"} | stream,
            "source": where,
            "domain": {"keys": ["north"]},
            "privacy": {"mechanism": "laplace", "epsilon": "1"},
        },
        folder=tmp_path,
    )
    found = dry_run(pipeline, now=NOW)
    assert (found.percent, found.readable, found.empty) == ((90, 100), True, False)


def test_columns_are_found_up_to_the_first_that_no_event_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = json.dumps({"ts": "2026-01-01T05:00Z", "statoin": "north", "card": 7}) + "\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(line.encode() * 9)))
    where = {"kind": "stdin", "time": "ts", "key": "station", "person": "card"}
    pipeline = Pipeline.of(
        {
            "stream": {"name": "taps", "every": "1h", "origin": "2026-01-01"} | DAY,
            "source": where,
            "domain": {"keys": ["north"]},
            "privacy": {"mechanism": "laplace", "epsilon": "1"},
        },
        folder=tmp_path,
    )
    found = dry_run(pipeline, now=NOW)
    assert (found.columns, found.readable) == (("ts",), False)
    assert found.reason == "'station' has no value"


def test_a_growing_file_is_read_as_it_is_now(tmp_path: Path) -> None:
    (tmp_path / "taps.csv").write_text("ts,station,card\n" + GOOD[0] + "\n" + GOOD[1])
    found = tried(tmp_path, {"growing": True}, stream={})
    assert (found.percent, found.last) == ((90, 100), date(2026, 1, 1))


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ({"kind": "http", "token_env": "TOKEN"}, "events are sent to it"),
        ({"kind": "mqtt", "server": "localhost:1883", "topic": "t"}, "gives each message once"),
    ],
)
def test_a_source_that_gives_events_once_says_why_it_cannot_be_tried(
    tmp_path: Path, source: dict[str, Any], reason: str
) -> None:
    pipeline = Pipeline.of(
        {
            "stream": {"name": "taps", "every": "1h", "origin": "2026-01-01"},
            "source": {"time": "ts", "key": "station"} | source,
            "domain": {"keys": ["north"]},
            "privacy": {"mechanism": "laplace", "epsilon": "1"},
        },
        folder=tmp_path,
    )
    with pytest.raises(ConfigurationError, match=f"has no dry run: .*{reason}.* Nothing was read"):
        dry_run(pipeline)
