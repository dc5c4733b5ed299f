"""The live city, small: real gates, a real publisher in a process of its own, really killed."""

from __future__ import annotations

import dataclasses
import io
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.errors import ConfigurationError, InexactError, MissingExtraError, StateError
from penstock.engine.pipeline import Pipeline
from penstock_bench.live_city.findings import CityFindings, find
from penstock_bench.live_city.page import commands, render
from penstock_bench.live_city.run import (
    BEGIN,
    DAILY,
    HOUR,
    HOURLY,
    MARK,
    CityEvent,
    CityOutcome,
    CityPlan,
    Outside,
    Parcel,
    TapGates,
    needed,
    run,
)
from penstock_bench.simulated.city import City

from tests.browser import check_page, needs_chromium, open_browser

HOURS = 27


def plan_in(folder: Path, **other: object) -> CityPlan:
    wanted = {
        "people": 600,
        "hours": HOURS,
        "epsilon": "1",
        "window": 24,
        "seed": 3,
        "seconds": 0.0,
    }
    return CityPlan.of(folder / "city", **(wanted | other))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def shown() -> list[CityEvent]:
    return []


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory, shown: list[CityEvent]) -> CityOutcome:
    return run(plan_in(tmp_path_factory.mktemp("live")), lambda each, reader: shown.append(each))


@pytest.fixture(scope="module")
def found(outcome: CityOutcome) -> CityFindings:
    return find(outcome)


# -- the gates -------------------------------------------------------------------------------------


def taps_of(parcel: Parcel) -> tuple[list[tuple[int, str, int]], int]:
    """The taps in a parcel, and how many of its lines are none."""
    if "arrow" in parcel.media:
        table = pa.ipc.open_stream(io.BytesIO(parcel.body)).read_all()
        return list(
            zip(
                *(table.column(name).to_pylist() for name in ("at", "station", "card")), strict=True
            )
        ), 0
    taps, broken = [], 0
    for line in parcel.body.split(b"\n")[:-1]:
        try:
            row = json.loads(line)
            taps.append((row["at"], row["station"], row["card"]))
        except (ValueError, KeyError):
            broken += 1
    return taps, broken


def test_every_tap_is_sent_once_but_for_those_still_withheld_at_the_end() -> None:
    city = City(stations=12, people=3_000, seed=4)
    gates = TapGates(city, 30)
    hours = [gates.hour(hour) for hour in range(30)]
    parcels = [parcel for hour in hours for half in hour.halves for parcel in half]
    sent = [tap for parcel in parcels for tap in taps_of(parcel)[0]]
    assert len(set(sent)) == len(sent)
    assert sum(parcel.taps for parcel in parcels) == len(sent)
    counts = np.zeros((30, 12), np.int64)
    for at, station, _ in sent:
        counts[(at - BEGIN) // HOUR, city.keys.index(station)] += 1
    assert np.array_equal(gates.truth, city.counts(30))
    assert np.array_equal(counts[:-1], gates.truth[:-1])
    assert 0 <= (gates.truth[-1] - counts[-1]).sum() < 0.05 * gates.truth[-1].sum()
    assert len({parcel.key for parcel in parcels}) == len(parcels) == hours[-1].sent.batches


def test_gates_are_careless() -> None:
    gates = TapGates(City(stations=12, people=3_000, seed=4), 30)
    hours = [gates.hour(hour) for hour in range(30)]
    sent = hours[-1].sent
    assert min(sent.twice, sent.late, sent.delayed, sent.broken) > 0
    parcels = [parcel for hour in hours for half in hour.halves for parcel in half]
    assert sum(taps_of(parcel)[1] for parcel in parcels) == sent.broken
    late = sum(
        at < BEGIN + i * HOUR
        for i, hour in enumerate(hours)
        for p in hour.halves[1]
        for at, _, _ in taps_of(p)[0]
    )
    assert late == sent.late
    ordered = [at for at, _, _ in taps_of(max(parcels, key=lambda parcel: parcel.taps))[0]]
    assert ordered != sorted(ordered)


# -- the show --------------------------------------------------------------------------------------


def test_every_unit_is_released_and_none_has_changed(
    outcome: CityOutcome, found: CityFindings
) -> None:
    assert set(outcome.seen) == {(HOURLY, unit) for unit in range(1, HOURS + 1)} | {(DAILY, 1)}
    assert (found.changed, found.sunk, found.well) == (0, HOURS + 1, True)


def test_the_publisher_is_killed_and_goes_on_where_it_was(
    outcome: CityOutcome, shown: list[CityEvent]
) -> None:
    crash = outcome.crash
    assert crash.hour == outcome.plan.crash
    assert crash.whole
    assert crash.waited in (0, 1)  # the hour may be stored, and not yet shown, when it is killed
    assert crash.released[HOURLY] in (crash.hour - 1, crash.hour)
    told = [
        each.line
        for each in shown
        if "publisher is killed (SIGKILL)" in each.line or "started again" in each.line
    ]
    assert ["killed" in line for line in told] == [True, False]
    assert [(each.hour, each.half) for each in shown if not each.line] == [
        (h, i) for h in range(HOURS) for i in (0, 1)
    ]


def test_the_releases_lie_around_the_truth(outcome: CityOutcome, found: CityFindings) -> None:
    """1,620 intervals of 95 % in one view: fewer than 90 % right has a chance below 1e-12."""
    assert found.hourly.truth.shape == (HOURS, 60)
    assert found.hourly.held > 0.9
    assert found.daily is not None
    assert np.array_equal(found.daily.truth[0], outcome.truth[:24].sum(axis=0))


def test_all_views_together_cost_what_was_promised_and_no_more(found: CityFindings) -> None:
    assert found.joint.kept
    assert len(found.joint.windows) == HOURS
    assert set(found.joint.by_view) == {"hourly", "daily"}


def test_a_release_that_has_changed_is_noticed(outcome: CityOutcome) -> None:
    other = outcome.seen[HOURLY, 5] + 1
    found = find(dataclasses.replace(outcome, seen=outcome.seen | {(HOURLY, 5): other}))
    assert (found.changed, found.well) == (1, False)


def test_a_release_that_no_sink_has_is_noticed(outcome: CityOutcome, tmp_path: Path) -> None:
    copied = tmp_path / "city"
    shutil.copytree(outcome.plan.folder, copied)
    next((copied / "releases" / "series=city%2Fdaily").glob("*/*.parquet")).unlink()
    found = find(
        dataclasses.replace(outcome, plan=dataclasses.replace(outcome.plan, folder=copied))
    )
    assert (found.changed, found.sunk, found.well) == (1, HOURS, False)


def test_the_configuration_that_is_left_is_a_valid_one(outcome: CityOutcome) -> None:
    pipeline = Pipeline.read(outcome.plan.folder / "city.toml")
    assert [pipeline.series(view.name) for view in pipeline.views] == [HOURLY, DAILY]
    assert pipeline.guarantee.epsilon == outcome.plan.epsilon


# -- the page --------------------------------------------------------------------------------------


def test_the_page_tells_the_story(found: CityFindings) -> None:
    page = render(found, command="penstock lab city <&>")
    for words in (
        "Killed in the middle",
        "none has changed",
        "✓ The promise was kept.",
        "Alerts, from the releases alone",
    ):
        assert words in page
    assert "penstock lab city &lt;&amp;&gt;" in page
    assert "default-src 'none'" in page
    for _, line in commands(found.outcome.plan):
        assert line.split("--key")[0] in page


def test_the_page_does_not_hide_what_went_wrong(outcome: CityOutcome) -> None:
    crash = dataclasses.replace(outcome.crash, resumed={HOURLY: 0, DAILY: 0})
    wrong = dataclasses.replace(
        outcome, crash=crash, seen=outcome.seen | {(HOURLY, 2): outcome.seen[HOURLY, 2] + 1}
    )
    page = render(find(wrong), command="")
    assert "✗ not the same" in page
    assert "✗ 1 have changed" in page


@needs_chromium
def test_the_map_and_the_charts_are_drawn(found: CityFindings, tmp_path: Path) -> None:
    page = tmp_path / "city.html"
    page.write_text(render(found, command="penstock lab city"), encoding="utf-8")
    with open_browser(tmp_path / "profile") as browser:
        check_page(browser, page)
        assert browser.run("document.querySelectorAll('canvas').length") >= 5
        assert browser.run("document.querySelectorAll('.disc').length") == 60
        browser.tap("#chart .u-over", x=0.01)
        assert browser.run("document.querySelector('#readout').innerText").startswith(
            "Mon 1 Jun 2026, 00:00 · truth "
        )
        browser.tap("#map g[data-key='7']")
        assert "Orchard New Town" in browser.run("document.querySelector('#map-readout').innerText")


# -- what is refused -------------------------------------------------------------------------------


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    plan = plan_in(tmp_path)
    plan.folder.mkdir()
    (plan.folder / "thesis.txt").write_text("years of work")
    with pytest.raises(ConfigurationError, match="was not made by this command"):
        plan.write()
    assert (plan.folder / "thesis.txt").read_text() == "years of work"


def test_a_folder_of_an_earlier_demo_is_made_anew(tmp_path: Path) -> None:
    plan = plan_in(tmp_path)
    plan.write()
    (plan.folder / "city.db").write_text("old")
    plan.write()
    assert {path.name for path in plan.folder.iterdir()} == {"city.toml", "city.geojson"}
    assert (plan.folder / "city.toml").read_text().startswith(MARK)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"hours": 1}, ConfigurationError),
        ({"window": 0}, ConfigurationError),
        ({"epsilon": "0"}, ConfigurationError),
        ({"epsilon": 0.5}, InexactError),
        ({"people": 0}, ConfigurationError),
        ({"seconds": -1.0}, ConfigurationError),
    ],
)
def test_an_impossible_plan_is_refused(
    wrong: dict[str, object], error: type[Exception], tmp_path: Path
) -> None:
    with pytest.raises(error, match=next(iter(wrong))):
        plan_in(tmp_path, **wrong)


@pytest.mark.parametrize(("module", "extra"), [("fastapi", "serve"), ("uvicorn", "serve")])
def test_a_missing_part_is_named_with_its_extra(
    module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"penstock\[{extra}\]"):
        needed()


def test_the_page_needs_a_folder_with_a_name() -> None:
    with pytest.raises(ConfigurationError, match="name of its own"):
        CityPlan.of(Path(), people=10, hours=4, epsilon="1", window=2, seed=1, seconds=0)


def test_a_publisher_that_cannot_start_says_why(tmp_path: Path) -> None:
    plan = plan_in(tmp_path)
    plan.write()
    (plan.folder / "city.toml").write_text("[stream]\n")
    outside = Outside(plan.folder, plan.secrets)
    outside.begin()
    with pytest.raises(StateError, match=r"did not start: (.|\n)*name"):
        outside.ready()
