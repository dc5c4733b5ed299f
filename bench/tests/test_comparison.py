from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from penstock import BudgetAbsorption, Uniform
from penstock.core.errors import ConfigurationError, InexactError
from penstock.testing import NoNoise, TestNoise
from penstock_bench.comparison import FLOOR, build, errors, publish
from penstock_bench.comparison_page import Demo, render
from penstock_bench.simulated.city import City

CITY = City(stations=12, people=3_000, seed=5)


@pytest.fixture(scope="module")
def demo() -> Demo:
    return build(
        CITY,
        hours=72,
        epsilon="1/2",
        window=6,
        command="penstock lab city --compare",
        noise=lambda: TestNoise(1),
    )


def test_every_mechanism_that_differs_in_its_output_is_there(demo: Demo) -> None:
    assert {track.mechanism for track in demo.tracks} == {
        "uniform",
        "sample",
        "bd",
        "ba",
        "bd_grouped",
        "ba_grouped",
        "tide",
    }
    assert [track.mae for track in demo.tracks] == sorted(track.mae for track in demo.tracks)


def test_the_truth_is_the_city(demo: Demo) -> None:
    assert np.array_equal(demo.truth, CITY.counts(72))
    assert demo.keys == CITY.keys
    assert (demo.epsilon, demo.window, demo.units) == ("1/2", 6, 72)


def test_no_window_on_the_page_costs_more_than_promised(demo: Demo) -> None:
    for track in demo.tracks:
        assert 0 < track.window_spent.max() <= 0.5 * (1 + 1e-12)
        sums = np.array([track.spent[max(0, t - 5) : t + 1].sum() for t in range(72)])
        assert np.allclose(sums, track.window_spent)


def test_intervals_stand_around_releases_and_are_unknown_before_the_first(demo: Demo) -> None:
    for track in demo.tracks:
        known = np.isfinite(track.low)
        assert np.array_equal(known, np.isfinite(track.high))
        assert np.array_equal(known, np.cumsum(track.fresh, axis=0) > 0)
        assert (track.low[known] <= track.released[known]).all()
        assert (track.released[~known] == 0).all()


def test_repeated_releases_are_not_called_fresh(demo: Demo) -> None:
    sample = next(track for track in demo.tracks if track.mechanism == "sample")
    assert sample.fresh[:, 0].tolist() == [hour % 6 == 0 for hour in range(72)]
    assert np.array_equal(sample.released[1], sample.released[0])


def test_the_interval_holds_the_truth_of_fresh_releases(demo: Demo) -> None:
    """864 intervals of 95 %: fewer than 91 % right has a chance below 1e-6 for a new seed."""
    uniform = next(track for track in demo.tracks if track.mechanism == "uniform")
    assert ((uniform.low <= demo.truth) & (demo.truth <= uniform.high)).mean() > 0.91


def test_the_baselines_are_zeros_and_means(demo: Demo) -> None:
    zeros, means = demo.baselines
    assert zeros[1] == pytest.approx(demo.truth.mean())
    assert means[1] == pytest.approx(np.abs(demo.truth - demo.truth.mean(axis=0)).mean())
    assert "not private" in means[0]


def test_relative_errors_divide_by_no_less_than_the_floor() -> None:
    mae, mre = errors(np.array([[3.0, 150.0]]), np.array([[0, 100]]))
    assert (mae, mre) == (26.5, (3 / FLOOR + 0.5) / 2)


def test_without_noise_a_mechanism_that_always_publishes_is_right() -> None:
    truth = CITY.counts(24)
    track = publish(Uniform(epsilon="1", window=4), CITY.keys, truth, noise=NoNoise())
    assert (track.mae, track.mre, track.title) == (0, 0, "Uniform")
    assert np.array_equal(track.released, truth)
    assert np.allclose(track.spent, 0.25)


def test_progress_is_told_hour_by_hour() -> None:
    told: list[tuple[str, int, int]] = []
    publish(
        BudgetAbsorption(epsilon=Fraction(1), window=4),
        CITY.keys,
        CITY.counts(3),
        noise=TestNoise(1),
        progress=lambda *what: told.append(what),
    )
    assert told == [("ba", 1, 3), ("ba", 2, 3), ("ba", 3, 3)]


def test_the_page_says_how_relative_errors_are_floored(demo: Demo) -> None:
    page = render(demo)
    assert f"or by {FLOOR} where it is smaller" in page
    assert "Each mechanism keeps the promise by itself" in page
    assert "penstock lab city --compare" in page


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"epsilon": "0"}, ConfigurationError),
        ({"epsilon": 0.5}, InexactError),
        ({"hours": 0}, ConfigurationError),
        ({"window": 0}, ConfigurationError),
    ],
)
def test_an_impossible_demo_is_refused(wrong: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error, match=next(iter(wrong))):
        build(CITY, **wrong)  # type: ignore[arg-type]
