"""Whatever counts units also takes a duration: keys of a pipeline and options of verbs."""

from __future__ import annotations

import dataclasses
import typing
from pathlib import Path

import pytest

from penstock.cli import build
from penstock.core.durations import UNITS, UnitCount
from penstock.engine.pipeline import Pipeline
from penstock.engine.pipeline import options as tables
from penstock.private.mechanisms.registry import MECHANISMS

from tests.cli.outcome import Outcome

PIPELINE = {
    "stream": {"name": "taps", "every": "1h", "origin": "2026-01-01"},
    "source": {"kind": "stdin", "time": "ts", "key": "station"},
    "domain": {"keys": ["north", "south", "east", "west"]},
}


def unit_parameters() -> list[tuple[str, str]]:
    """Every parameter of a mechanism that counts units."""
    found = []
    for name, cls in MECHANISMS.items():
        hints = typing.get_type_hints(cls, include_extras=True)
        found += [
            (name, field.name)
            for field in dataclasses.fields(cls)
            if field.init and UNITS in repr(hints[field.name])
        ]
    return found


def test_parameters_that_count_units_are_found() -> None:
    assert UnitCount.__metadata__ == (UNITS,)
    assert {("tide", "periods"), ("tide", "longest"), ("fixed", "every")} <= {*unit_parameters()}


@pytest.mark.parametrize(("mechanism", "parameter"), unit_parameters())
def test_a_parameter_of_a_mechanism_takes_a_duration(mechanism: str, parameter: str) -> None:
    def made(value: object) -> object:
        privacy = {"mechanism": mechanism, "epsilon": "1", parameter: value}
        windowed = "window" in {each.name for each in dataclasses.fields(MECHANISMS[mechanism])}
        privacy |= {"window": "2d"} if windowed else {}
        return Pipeline.of({**PIPELINE, "privacy": privacy}).mechanism()

    assert made("1d") == made(24)


@pytest.mark.parametrize("key", [each.name for each in tables.PRIVACY if each.type == "units"])
def test_a_key_of_the_promise_takes_a_duration(key: str) -> None:
    def made(value: object) -> object:
        privacy = {"mechanism": "uniform", "epsilon": "1", "window": 24, key: value}
        return Pipeline.of({**PIPELINE, "privacy": privacy}).guarantee

    assert made("1d") == made(24)


def test_options_of_verbs_take_a_duration(capsys: pytest.CaptureFixture[str]) -> None:
    Path("taps.csv").write_text("ts,station\n2026-01-01T00:10Z,north\n")
    tokens = ["--yes", "--from", "taps.csv", "--origin", "2026-01-01", "--until", "2026-01-04"]
    given = [*tokens, "--keys", "north,south", "--mechanism", "uniform", "--window", "1d"]
    assert Outcome(capsys, "init", "taps.toml", *given).code == 0
    assert Pipeline.read("taps.toml").guarantee.window == 24
    assert Outcome(capsys, "run", "taps.toml", "--log", "none").code == 0
    for short, long in (
        (["sum", "--window", "24"], ["sum", "--window", "1d"]),
        (["counts", "--last", "24"], ["counts", "--last", "1d"]),
        (["low", "--window", "12", "--delta", "5"], ["low", "--window", "12h", "--delta", "5"]),
        (["counts", "--filtered", "--period", "24"], ["counts", "--filtered", "--period", "1d"]),
    ):
        asked = ["query", "taps.db"]
        units, duration = Outcome(capsys, *asked, *short), Outcome(capsys, *asked, *long)
        assert (units.code, units.out) == (0, duration.out), duration.err


def test_the_simulated_city_takes_durations(capsys: pytest.CaptureFixture[str]) -> None:
    tokens = ["lab", "city", "--hours", "2d", "--window", "7d"]
    _, bound, _ = build(tokens).parse_args(tokens)
    assert (bound.arguments["hours"], bound.arguments["window"]) == (48, 168)
    done = Outcome(capsys, "lab", "city", "--hours", "90min")
    assert (done.code, "write a number of units." in done.err) == (2, True)


def test_units_without_a_length_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    done = Outcome(capsys, "audit", "uniform", "--window", "1d")
    assert done.code == 2
    assert "units have no length here: write a number of units, not '1d'." in done.err
