"""After the demo: the city goes on, and a service shows it while its publisher is killed."""

from __future__ import annotations

import io
import json
import os
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pytest
from rich.console import Console

import penstock as ps
from penstock.engine.sqlite import SQLiteReader
from penstock_bench.commands import city as command
from penstock_bench.live_city.going_on import EndlessGates, GoingOn, city_service, kills
from penstock_bench.live_city.run import (
    DAILY,
    HOURLY,
    CityEvent,
    CityPlan,
    CityShow,
    TapGates,
    local_time,
    run,
)
from penstock_bench.simulated.city import City

HOURS, FURTHER = 27, 10
KILL = 32  # in the rush hour of the second day


def plan_in(folder: Path) -> CityPlan:
    return CityPlan.of(
        folder / "city", people=600, hours=HOURS, epsilon="1", window=24, seed=3, seconds=0
    )


@pytest.fixture(scope="module")
def over(tmp_path_factory: pytest.TempPathFactory) -> CityPlan:
    """A city whose hours are over."""
    plan = plan_in(tmp_path_factory.mktemp("over"))
    run(plan)
    return plan


@pytest.fixture
def plan(over: CityPlan, tmp_path: Path) -> CityPlan:
    """A copy of it that may go on."""
    shutil.copytree(over.folder, tmp_path / "city")
    return replace(over, folder=tmp_path / "city")


def test_later_hours_have_the_taps_of_the_city() -> None:
    town = City(stations=12, people=500, seed=4)
    gates, known = EndlessGates(town), TapGates(town, 60)
    for hour in (50, 51, 59):
        for one, other in zip(gates._taps(hour), known._taps(hour), strict=True):
            assert np.array_equal(one, other)
    assert gates.hour(56).sent.batches > 0


def test_the_city_goes_on_and_the_service_shows_every_unit(plan: CityPlan) -> None:
    shown: list[CityEvent] = []
    answered: dict[int, int] = {}

    with city_service(plan) as service, ps.connect(service.url, HOURLY) as stream:
        assert len(stream) == HOURS
        followed = stream.follow()

        def watch(event: CityEvent, reader: SQLiteReader) -> None:
            shown.append(event)
            if "is killed" in event.line:  # the service answers while the publisher is away
                with ps.connect(service.url, HOURLY) as another:
                    answered[event.hour] = len(another)

        GoingOn(plan, watch).go_on(FURTHER)
        with SQLiteReader(plan.folder / "city.db") as reader:
            newest = reader.head(HOURLY).unit
        units = [next(followed).unit for _ in range(newest - HOURS)]
        assert units == list(range(HOURS + 1, newest + 1))
        assert newest >= HOURS + FURTHER - 1
        assert stream.verify().account.kept
    lines = [(event.hour, event.line) for event in shown if event.line]
    assert [(hour, "is killed (SIGKILL)" in line) for hour, line in lines] == [
        (KILL, True),
        (KILL, False),
    ]
    assert "started again" in lines[1][1]
    assert KILL - 1 <= answered[KILL] <= KILL + 1


def test_the_dashboard_has_a_map_and_the_events_of_the_story(plan: CityPlan) -> None:
    with city_service(plan) as service:

        def get(path: str) -> dict[str, object]:
            with urlopen(f"{service.url}{path}", timeout=30) as reply:
                found: dict[str, object] = json.load(reply)
            return found

        about = get("/v1")
        assert about["title"] == "A simulated city"
        assert about["map"] == {"url": "/v1/map", "key": "station"}
        features = get("/v1/map")["features"]
        assert isinstance(features, list)
        names = tuple(each["properties"]["station"] for each in features)
        assert names == plan.city.keys
        told = get(f"/v1/streams/{HOURLY}")["events"]
        assert isinstance(told, list)
        assert [each["text"] for each in told if each["unit"] == plan.crash + 1] == [
            "The publisher is killed (SIGKILL) and started again"
        ]
        assert any(each["unit"] == KILL + 1 for each in told)
        streams = get("/v1/streams")["streams"]
        assert isinstance(streams, list)
        assert [each["name"] for each in streams] == [DAILY, HOURLY]


@pytest.mark.parametrize("hours", [336, 26, 24])
def test_the_first_kill_comes_within_two_days(hours: int) -> None:
    plan = replace(plan_in(Path("x")), hours=hours, crash=0)
    found = [hour for hour in range(hours + 10 * 24) if kills(plan, hour)]
    assert hours <= found[0] < hours + 48
    assert {later - hour for hour, later in pairwise(found)} == {48}
    assert local_time(found[0])[11:] == "08:00"


def test_the_command_says_where_to_look_and_how_to_look_again(
    plan: CityPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "SECONDS_PER_HOUR", 0.0)
    screen = Console(file=io.StringIO(), width=120)
    command._go_on(plan, screen, hours=FURTHER, down=lambda: None)
    assert isinstance(screen.file, io.StringIO)
    said = screen.file.getvalue()
    for words in (
        "Open http://127.0.0.1:",
        "goes on in fast motion",
        "the publisher is killed (SIGKILL)",
        "started again after",
        "The city has stopped",
        f"serve {plan.folder}/city.toml",
    ):
        assert words in said


def test_an_interrupt_ends_everything_in_order(
    plan: CityPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while the publisher is down: it is started once more, and ends after whole units."""
    monkeypatch.setattr(command, "SECONDS_PER_HOUR", 0.0)
    screen = Console(file=io.StringIO(), width=120)
    command._go_on(plan, screen, down=_interrupted)
    assert isinstance(screen.file, io.StringIO)
    assert "The city has stopped" in screen.file.getvalue()
    with SQLiteReader(plan.folder / "city.db") as reader:
        assert reader.verify(HOURLY).account.kept
        assert reader.head(HOURLY).unit >= KILL - 1


def _interrupted() -> None:
    raise KeyboardInterrupt


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("terminal", "variable", "watched"),
    [(True, None, True), (True, "", True), (True, "true", False), (False, None, False)],
)
def test_only_people_are_served(
    terminal: bool, variable: str | None, watched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    if variable is not None:
        monkeypatch.setenv("CI", variable)
    monkeypatch.setattr("sys.stdin", Terminal() if terminal else io.StringIO())
    screen = Console(file=Terminal() if terminal else io.StringIO(), force_terminal=terminal)
    assert command._is_watched(screen) == watched


def test_the_key_of_the_state_is_in_no_file(over: CityPlan) -> None:
    assert isinstance(CityShow(over, lambda shown, reader: None), CityShow)
    for path in over.folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            for secret in (over.secrets.key, over.secrets.token):
                assert secret.encode() not in content
    assert over.secrets.key not in repr(over)
    assert over.secrets.key not in os.environ.values()
