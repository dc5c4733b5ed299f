from __future__ import annotations

import json
import sqlite3
from fractions import Fraction
from pathlib import Path

import pytest

from penstock.core.calendar import Calendar
from penstock.core.errors import ConfigurationError, InputError, LedgerError, StateError
from penstock.core.unit_range import units_from
from penstock.engine.ledger_report import newest, spent, streams_of, together
from penstock.engine.sqlite import SQLiteReader

from tests.engine.published import pipeline, publish, several


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "taps.db"


def changed_fact(path: Path, series: str, **facts: str) -> None:
    """Write other facts into a store, as nobody may."""
    file = sqlite3.connect(path, isolation_level=None)
    ((about,),) = file.execute("SELECT about FROM streams WHERE name = ?", (series,)).fetchall()
    content = json.loads(about)
    content["facts"] |= {name.replace("__", "."): value for name, value in facts.items()}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    file.execute("UPDATE streams SET about = ? WHERE name = ?", (text, series))
    file.close()


def test_series_are_found_by_their_streams(path):
    publish(path, several(), 24)
    publish(path, pipeline(stream={"name": "alone", "every": "1h", "origin": "2026-01-01"}), 2)
    with SQLiteReader(path) as reader:
        found = streams_of(reader)
        assert sorted(found) == ["alone", "taps"]
        assert (found["alone"].several, found["taps"].several) == (False, True)
        assert sorted(found["taps"].series) == ["daily", "hourly"]
        assert found["taps"].guarantee == several().guarantee
        assert found["taps"].calendar == several().stream.calendar
        assert found["alone"].guarantee == pipeline().guarantee


def test_what_views_cost_together_is_what_each_costs(path):
    publish(path, several(), 60, seed=1)
    with SQLiteReader(path) as reader:
        found = together(reader, streams_of(reader)["taps"])
        hourly, daily = spent(reader, "taps/hourly"), spent(reader, "taps/daily")
    assert len(found.windows) == 60
    for unit in (1, 24, 25, 48, 49, 60):
        day = min((unit - 1) // 24 + 1, 2)  # the third day is not over
        assert found.window(unit) == hourly.window(unit) + 2 * daily.window(day)
    assert found.kept
    assert found.worst <= 1


def test_a_view_that_is_ahead_sets_the_pace(path):
    publish(path, several(), 48, only=("daily",))
    publish(path, several(), 3, only=("hourly",))
    with SQLiteReader(path) as reader:
        assert len(together(reader, streams_of(reader)["taps"]).windows) == 48


@pytest.mark.parametrize("mechanism", ["ba", "sample", "dsat", "rg", "pegasus"])
@pytest.mark.parametrize("units", [0, 1, 5, 40])
def test_the_newest_window_costs_the_same_from_its_own_lines(mechanism, units, path):
    publish(
        path,
        pipeline(privacy={"mechanism": mechanism, "epsilon": "2", "window": 12}),
        units,
        seed=3,
    )
    with SQLiteReader(path) as reader:
        assert newest(reader, "taps") == (
            spent(reader, "taps").window(units) if units else Fraction(0)
        )


def test_a_view_that_is_missing_is_found_out(path):
    publish(path, several(), 24, only=("hourly",))
    with (
        SQLiteReader(path) as reader,
        pytest.raises(LedgerError, match="view 'daily' is not in the store"),
    ):
        together(reader, streams_of(reader)["taps"])


def test_a_view_that_is_missing_before_anything_was_released_is_no_mistake(path):
    publish(path, several(), 0, only=("hourly",))
    with SQLiteReader(path) as reader:
        assert together(reader, streams_of(reader)["taps"]).worst == 0


def test_facts_that_make_it_look_cheaper_are_refused(path):
    publish(path, several(), 48)
    for series in ("taps/hourly", "taps/daily"):
        changed_fact(path, series, view__daily__times="1")
    with (
        SQLiteReader(path) as reader,
        pytest.raises(LedgerError, match="counts 1 times, and must count 2 times"),
    ):
        together(reader, streams_of(reader)["taps"])
    for series in ("taps/hourly", "taps/daily"):
        changed_fact(path, series, view__daily__times="2", privacy__window="72")
    with (
        SQLiteReader(path) as reader,
        pytest.raises(LedgerError, match="a window of the stream meets"),
    ):
        together(reader, streams_of(reader)["taps"])
    changed_fact(path, "taps/daily", privacy__window="24")
    with (
        SQLiteReader(path) as reader,
        pytest.raises(LedgerError, match="what its views are of differs"),
    ):
        together(reader, streams_of(reader)["taps"])


def test_facts_that_are_not_there_are_an_error_that_says_so(path):
    publish(path, several(), 24)
    for series in ("taps/hourly", "taps/daily"):
        changed_fact(path, series, privacy__epsilon="much", stream__every="often")
    with SQLiteReader(path) as reader:
        views = streams_of(reader)["taps"]
        with pytest.raises(StateError, match="what is promised"):
            _ = views.guarantee
        with pytest.raises(StateError, match="what its units are"):
            _ = views.calendar


HOURS = Calendar(every="1h", zone="Europe/Zurich", origin="2026-03-28")


@pytest.mark.parametrize(
    ("first", "until", "units"),
    [
        (None, None, range(1, 101)),
        ("3", "5", range(3, 6)),
        ("0", "900", range(1, 101)),
        ("2026-03-29", "2026-03-29", range(25, 48)),  # 23 hours
        ("2026-03-28T23:30", "2026-03-29T00:00+01:00", range(24, 26)),
        ("2020-01-01", None, range(1, 101)),
        ("2030-01-01", None, range(0)),
    ],
)
def test_units_are_chosen_by_number_or_by_time(first, until, units):
    assert list(units_from(HOURS, 100, first, until)) == list(units)


def test_times_that_cannot_be_read_are_refused():
    with pytest.raises(ConfigurationError, match="--from must be"):
        units_from(HOURS, 100, "yesterday", None)
    with pytest.raises(InputError, match="--to: these units have no times"):
        units_from(None, 100, None, "2026-01-01")
