"""`dsat`: how its threshold moves. What it shares with `dsft` is in test_sampling.py."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from penstock import AdaptiveThreshold
from penstock.core.errors import ConfigurationError
from penstock.private.mechanisms.dsat import MAX_THRESHOLD, MIN_THRESHOLD, PAUSE
from penstock.testing import NoNoise, TestNoise

from tests.private.mechanisms.patterns import play


def thresholds(mechanism: AdaptiveThreshold, pattern: list[bool]) -> tuple[list[float], list[int]]:
    """The threshold in every unit, and the units that were released."""
    run = mechanism.run(1, noise=NoNoise())
    seen, made = [], []
    for unit, leap in enumerate(pattern, start=1):
        last = 0 if run.last is None else int(run.last.value[0])
        if run.step([(last + 10**9) % (2 * 10**9) if leap else last]).repeated is False:
            made.append(unit)
        seen.append(run._state.threshold)
    return seen, made


def by_hand(mechanism: AdaptiveThreshold, made: list[int], units: int) -> list[float]:
    """The controller written down once more, from the units of the releases alone."""
    window, most = mechanism.window, mechanism.most
    goal = most if mechanism.guarantee.user_level else max(most - 1, most / 2)
    proportional, integral, derivative = map(
        float, (mechanism.proportional, mechanism.integral, mechanism.derivative)
    )
    threshold, errors, result = float(mechanism.threshold), [], []
    for unit in range(1, units + 1):
        within = [each for each in made if unit - window < each < unit]
        if len(within) < most and 1 < unit != mechanism.horizon and unit > mechanism.burn_in:
            counted = sum(each < unit - window // (PAUSE * most) for each in within)
            errors.append(counted - goal * min(unit, window) / window)
            now, last, before = (errors[max(len(errors) - back, 0)] for back in (1, 2, 3))
            move = (
                proportional * (now - last)
                + integral * now * goal / window
                + derivative * (now - 2 * last + before)
            )
            threshold = min(max(threshold * math.exp(move), MIN_THRESHOLD), MAX_THRESHOLD)
        result.append(threshold)
    return result


@pytest.mark.parametrize("horizon", [None, 60, 130])
@pytest.mark.parametrize(
    "gains",
    [
        {},
        {"integral": 0},
        {"derivative": "0.5", "proportional": "1.5"},
        {"burn_in": 7},
        {"releases": 1},
    ],
)
def test_the_threshold_follows_from_the_releases_alone(
    horizon: int | None, gains: dict[str, Any]
) -> None:
    mechanism = AdaptiveThreshold(
        **{"epsilon": 1, "window": 60, "horizon": horizon, "releases": 4, **gains}
    )
    pattern = [unit % 11 == 3 or unit in (40, 41, 99) for unit in range(130)]
    units = 130 if horizon is None else min(horizon, 130)
    seen, made = thresholds(mechanism, pattern[:units])
    assert seen == pytest.approx(by_hand(mechanism, made, units), rel=1e-9)
    assert len(set(seen)) > 1 or mechanism.most == 1


def test_it_falls_while_nothing_is_released_and_rises_after_a_release() -> None:
    mechanism = AdaptiveThreshold(epsilon=1, window=100, horizon=100, releases=5)
    seen, made = thresholds(mechanism, [False] * 60 + [True] + [False] * 10)
    assert made == [1, 61]
    assert all(np.diff(seen[25:61]) < 0)
    assert seen[61] > 2 * seen[60]


def test_a_release_is_counted_after_a_pause() -> None:
    mechanism = AdaptiveThreshold(epsilon=1, window=600, horizon=600, releases=5)
    seen, made = thresholds(mechanism, [False] * 200 + [True] + [False] * 20)
    assert made == [1, 201]
    pause = 600 // (PAUSE * 5)
    assert pause == 4
    steps = np.diff(seen)
    assert [int(unit) + 2 for unit in np.flatnonzero(steps > 0.01 * seen[200]) if unit > 100] == [
        201 + pause + 1
    ]


def test_the_public_threshold_keeps_to_its_bounds() -> None:
    quiet = AdaptiveThreshold(epsilon=1, window=50, releases=10, integral=100)
    assert min(thresholds(quiet, [False] * 200)[0]) == MIN_THRESHOLD
    busy = AdaptiveThreshold(epsilon=1, window=50, horizon=50, releases=40, proportional=1000)
    assert max(thresholds(busy, [True] * 50)[0]) == MAX_THRESHOLD
    assert (
        AdaptiveThreshold(epsilon=1, window=50, threshold="1e900").first_threshold()
        == MAX_THRESHOLD
    )


def test_nothing_is_asked_while_it_rests() -> None:
    mechanism = AdaptiveThreshold(epsilon=1, window=20, horizon=20, releases=3, burn_in=8)
    run = play(mechanism, [True] * 20)
    asked = [line.unit for line in run.ledger if line.kind == "ask"]
    assert asked[0] == 9
    everything = play(replace(mechanism, burn_in=100), [True] * 20)
    assert [line.unit for line in everything.ledger] == [1, 20]
    assert everything.account().worst == 1


@pytest.mark.parametrize("first", ["0.001", "0.05", "1"])
def test_the_releases_last_for_the_stream_wherever_the_threshold_begins(first: str) -> None:
    """A steady drift: a fixed threshold that is too small is done at once, one that is too large
    never begins.
    """
    drift = np.linspace(0, 50_000, 400).astype(np.int64)
    stream = np.stack([drift, 100_000 - drift], axis=1)
    mechanism = AdaptiveThreshold(
        epsilon=1, window=400, horizon=400, threshold=first, population=100_000
    )
    run = mechanism.run(2, noise=TestNoise(2))
    made = [
        unit for unit, counts in enumerate(stream, start=1) if run.step(counts).repeated is False
    ]
    assert 7 <= len(made) <= 10
    assert max(np.diff([*made, 400])) <= 200


@pytest.mark.parametrize("gain", ["proportional", "integral", "derivative"])
def test_gains_are_numbers_between_0_and_1000(gain: str) -> None:
    for value in ("-0.1", 1001):
        with pytest.raises(ConfigurationError, match=f"{gain} must lie between 0 and 1000"):
            AdaptiveThreshold(**{"epsilon": 1, "window": 10, gain: value})
    with pytest.raises(ConfigurationError, match=gain):
        AdaptiveThreshold(**{"epsilon": 1, "window": 10, gain: 0.5})


def test_the_rest_is_a_whole_number() -> None:
    with pytest.raises(ConfigurationError, match="burn_in must be a whole number of at least 0"):
        AdaptiveThreshold(epsilon=1, window=10, burn_in=-1)
