from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from penstock.core.errors import ConfigurationError
from penstock.core.released import Released
from penstock.core.sketch import total_weight
from penstock.lab.checks import CHECKS, Check
from penstock.private.mechanisms.eshp import GRID, WeightedHistogram, similar
from penstock.testing import NoNoise, RecordingNoise, TestNoise


def weighted(stream: np.ndarray, mechanism: WeightedHistogram) -> np.ndarray:
    """The true weighted sums at the end of a stream."""
    recent = stream[::-1][: mechanism.span]
    return mechanism.weights.sequence(len(recent)) @ recent


def play(mechanism: WeightedHistogram, stream: Iterable[np.ndarray], noise: Any) -> list[Released]:
    run = None
    released = []
    for counts in stream:
        run = run or mechanism.run(len(counts), noise=noise)
        released.append(run.step(counts))
    return released


@pytest.mark.parametrize("check", CHECKS[:5], ids=lambda check: check.__name__)
def test_it_passes_with_its_options_on(check: Check) -> None:
    class Configured(WeightedHistogram):
        def __init__(self, **given: Any) -> None:
            options: dict[str, Any] = {
                "gamma": "0.8",
                "span": 9,
                "beta": "0.5",
                "tolerance": "0.5",
                "replacement": True,
            }
            super().__init__(**{**options, **given})

    check(Configured, quick=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gamma", "units", "once", "each"), [("0.91", 150, 11.63, 246.9), ("0.99", 700, 100.5, 20_000)]
)
def test_noise_that_is_added_once_has_the_variance_of_the_formula(
    gamma: str, units: int, once: float, each: float
) -> None:
    """Over 4,000 keys a sample variance is within 10 % but for 6 standard deviations: a false alarm
    has chance 1e-8.
    """
    mechanism = WeightedHistogram(epsilon=1, gamma=gamma, span=2_000, grouping=False)
    released = play(mechanism, [np.zeros(4_000, np.int64)] * units, TestNoise(1))[-1]
    rate, total = float(gamma), total_weight(Fraction(gamma), 2_000)
    formula = 2 * (1 - rate**4_000) / (1 - rate**2)
    assert formula == pytest.approx(once, rel=1e-3)
    assert 2 * total**2 == pytest.approx(each, rel=1e-3)
    # discrete noise of scale 1 has the variance 1.84, not 2
    assert float(released.variance[0]) == pytest.approx(formula * 0.92067, rel=2e-4)
    assert np.square(released.estimate).mean() == pytest.approx(
        float(released.variance[0]), rel=0.14
    )


def test_without_noise_it_gives_the_weighted_sums() -> None:
    mechanism = WeightedHistogram(epsilon=1, gamma="0.9", span=15, beta="0.1", grouping=False)
    stream = np.random.default_rng(1).integers(0, 500, (60, 7))
    for unit, released in enumerate(play(mechanism, stream, NoNoise()), start=1):
        assert (
            np.abs(released.estimate - weighted(stream[:unit], mechanism)).max()
            <= 0.5 / GRID + 1e-9
        )
        assert not released.public["off"].any()  # 15 units fit into 20 blocks
        assert released.layers == min(unit, 15)


def test_the_sketch_is_never_further_off_than_it_says() -> None:
    mechanism = WeightedHistogram(epsilon=1, gamma="0.98", span=80, beta="0.2", grouping=False)
    rng = np.random.default_rng(2)
    stream = rng.poisson(30, (250, 9)) * (rng.random((250, 9)) < 0.3)
    worst = 0.0
    for unit, released in enumerate(play(mechanism, stream, NoNoise()), start=1):
        off = np.abs(released.estimate - weighted(stream[:unit], mechanism))
        assert (off <= (released.public["off"] + 0.5) / GRID + 1e-9).all()
        worst = max(worst, float(off.max()))
    assert worst > 1  # it does leave something out


def test_what_is_released_follows_from_the_noisy_counts_alone() -> None:
    """Fed with what it showed of its counts, and no noise, it releases the same: all else is
    post-processing.
    """
    mechanism = WeightedHistogram(epsilon="0.5", gamma="0.9", span=20, beta="0.2", tolerance="0.3")
    stream = np.random.default_rng(3).integers(50, 90, (80, 12))
    first = play(mechanism, stream, TestNoise(5))
    again = play(mechanism, [each.public["noisy"] for each in first], NoNoise())
    for one, other in zip(first, again, strict=True):
        assert (one.value == other.value).all()
        assert np.array_equal(one.repeated, other.repeated)


@pytest.mark.parametrize(("replacement", "scale"), [(False, 6), (True, 12)])
def test_a_replaced_event_counts_twice(replacement: bool, scale: int) -> None:
    mechanism = WeightedHistogram(epsilon=1, window=2, contribution=3, replacement=replacement)
    noise = RecordingNoise(TestNoise(1))
    run = mechanism.run(4, noise=noise)
    released = run.step([1, 2, 3, 4])
    assert [draw.scale for draw in noise.draws] == [Fraction(scale)]
    assert float(released.scale) == scale
    assert run.cost.epsilon == Fraction(1, 2)


def grouping_ratio(rates: np.ndarray, *, epsilon: str) -> float:
    """The mean square error with groups over that without, the same stream and noise, after the
    first 80 of 160 units.
    """
    rng = np.random.default_rng(4)
    stream = rng.poisson(rates, (160, len(rates)))
    errors = []
    for grouping in (True, False):
        mechanism = WeightedHistogram(epsilon=epsilon, gamma="0.9", span=50, grouping=grouping)
        released = play(mechanism, stream, TestNoise(6))
        ends = range(80, 160)
        errors.append(
            np.mean(
                [
                    np.square(released[t].estimate - weighted(stream[: t + 1], mechanism)).mean()
                    for t in ends
                ]
            )
        )
    return float(errors[0] / errors[1])


def test_similar_keys_gain_by_sharing_their_mean() -> None:
    assert grouping_ratio(np.full(60, 5.0), epsilon="0.1") < 0.2
    assert grouping_ratio(np.repeat([3.0, 80.0], 32), epsilon="0.1") < 0.4


def test_keys_that_differ_lose_little() -> None:
    assert grouping_ratio(np.linspace(0, 200, 100), epsilon="0.1") < 1.1
    assert grouping_ratio(np.full(60, 50.0), epsilon="1") < 1.1
    assert grouping_ratio(np.array([1.0, 10, 40, 90, 200]), epsilon="1") == 1


def test_groups_are_the_largest_stretches_that_look_like_noise() -> None:
    rng = np.random.default_rng(7)
    row = np.concatenate([rng.normal(0, 10, 64), rng.normal(1_000, 10, 32), [5_000, 9_000]]).astype(
        np.int64
    )
    means, sizes = similar(row, 100.0)
    assert sizes[0] >= 16
    assert (sizes[-2:] == 1).all()
    assert (means[-2:] == row[-2:]).all()
    for size in np.unique(sizes[sizes > 1]):
        for mean in np.unique(means[sizes == size]):
            assert np.count_nonzero(means == mean) >= size
    assert abs(int(means.sum()) - int(row.sum())) <= len(row)


def test_few_keys_are_never_averaged() -> None:
    for number in (1, 2, 3):
        means, sizes = similar(np.full(number, 7), 1e9)
        assert (means == 7).all()
        assert (sizes == 1).all()


def test_a_still_key_repeats_its_last_release() -> None:
    mechanism = WeightedHistogram(epsilon=1, gamma="0.5", span=8, tolerance=2, grouping=False)
    released = play(
        mechanism, [np.array([40, 40]), np.array([20, 20]), *[np.array([20, 500])] * 2], NoNoise()
    )
    assert released[0].repeated.tolist() == [False, False]
    assert released[3].repeated.tolist() == [True, False]
    assert released[3].value[0] == released[2].value[0]
    assert released[3].value[1] > released[2].value[1]
    assert (released[3].public["noisy"] == [20, 500]).all()
    variance = released[3].variance
    assert variance[0] < variance[1]  # it stands for the layers that it was made of


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("gamma", "0"),
        ("gamma", "1.5"),
        ("beta", "0"),
        ("span", 0),
        ("tolerance", "-1"),
        ("grouping", 1),
        ("replacement", "no"),
    ],
)
def test_bad_parameters_are_refused(name: str, bad: object) -> None:
    with pytest.raises(ConfigurationError, match=name):
        WeightedHistogram(epsilon=1, **{name: bad})  # type: ignore[arg-type]


def test_no_decay_is_a_plain_window() -> None:
    mechanism = WeightedHistogram(epsilon=1, gamma=1, span=10, grouping=False)
    stream = np.random.default_rng(8).integers(0, 9, (40, 3))
    released = play(mechanism, stream, NoNoise())[-1]
    assert (released.estimate == stream[-10:].sum(axis=0)).all()
