"""`adapub` and `rescuedp`: what a unit costs, what is read, and what the published forms get
wrong."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from penstock.core.arrays import IntArray
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.testing import NoNoise, TestNoise
from penstock_bench.competitors.adapub import LONGEST, AdaPub, PublishedAdaPub
from penstock_bench.competitors.competitor import WEventCompetitor
from penstock_bench.competitors.registry import COMPETITORS
from penstock_bench.competitors.rescuedp import PublishedRescueDp, RescueDp

PRIVATE = [AdaPub, RescueDp]
PUBLISHED = [PublishedAdaPub, PublishedRescueDp]


class Recorder(TestNoise):
    """Test noise that keeps the largest 1/scale of the publications of every unit."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.charges: dict[int, Fraction] = {}

    def laplace(self, scale: Fraction, size: int, *, unit: int, label: str) -> IntArray:
        self._charge([scale], unit, label)
        return super().laplace(scale, size, unit=unit, label=label)

    def laplace_each(
        self, scales: list[Fraction], which: IntArray, *, unit: int, label: str
    ) -> IntArray:
        self._charge(scales, unit, label)
        return super().laplace_each(scales, which, unit=unit, label=label)

    def _charge(self, scales: list[Fraction], unit: int, label: str) -> None:
        if label == "publish":
            self.charges[unit] = max(self.charges.get(unit, Fraction(0)), 1 / min(scales))

    def worst(self, window: int, units: int) -> Fraction:
        spent = [self.charges.get(unit, Fraction(0)) for unit in range(1, units + 1)]
        return max(sum(spent[at : at + window], Fraction(0)) for at in range(units))


class Hiding(NoNoise):
    """The noise that hides a change of the only key: the noisy counts stay the same."""

    def __init__(self, change: IntArray) -> None:
        super().__init__()
        self.change = change

    def laplace(self, scale: Fraction, size: int, *, unit: int, label: str) -> IntArray:
        return np.full(size, -self.change[unit - 1] if label == "publish" else 0)

    def laplace_each(
        self, scales: list[Fraction], which: IntArray, *, unit: int, label: str
    ) -> IntArray:
        return self.laplace(scales[0], len(which), unit=unit, label=label)


def stream(units: int = 60, keys: int = 30) -> IntArray:
    """Busy keys that move at different times, and quiet ones."""
    rng = np.random.default_rng(3)
    level = 200 * (np.arange(units)[:, None] // 7 % 3 == np.arange(keys) % 5) + np.arange(keys)
    return rng.poisson(level)


@pytest.mark.parametrize("cls", PRIVATE)
@pytest.mark.parametrize("window", [1, 4, 12])
def test_any_window_costs_at_most_epsilon(cls: type[WEventCompetitor], window: int) -> None:
    counts, noise = stream(), Recorder(1)
    competitor = cls(epsilon="0.7", window=window)
    competitor.run(counts, noise=noise)
    assert competitor.private
    assert competitor.protected == window
    assert 0 < noise.worst(window, len(counts)) <= Fraction(7, 10)


def test_rescuedp_as_published_costs_a_person_who_moves_more_than_epsilon() -> None:
    counts, noise = stream(), Recorder(1)
    PublishedRescueDp(epsilon=1, window=12).run(counts, noise=noise)
    assert noise.worst(12, len(counts)) > 1


@pytest.mark.parametrize(("private", "published"), list(zip(PRIVATE, PUBLISHED, strict=True)))
def test_only_the_published_form_shows_what_noise_has_hidden(
    private: type[WEventCompetitor], published: type[WEventCompetitor]
) -> None:
    """Two streams with the same noisy counts: a form that reads nothing else shows the same."""
    place = np.arange(40) % 3
    counts, change = np.where(place == 0, 4, 0)[:, None], np.where(place == 1, 90, 0)
    other = counts + change[:, None]
    for cls, same in ((private, True), (published, False)):
        competitor = cls(epsilon=1, window=3)
        one = competitor.run(counts, noise=NoNoise())
        two = competitor.run(other, noise=Hiding(change))
        assert bool(np.allclose(one, two)) is same
    assert published.private is False
    assert published.promise == "nothing"


@pytest.mark.parametrize("cls", [*PRIVATE, *PUBLISHED])
def test_what_is_kept_does_not_grow(cls: type[WEventCompetitor]) -> None:
    course = cls(epsilon=1, window=5).begin(Domain.of(30), noise=TestNoise(2))
    sizes = []
    for counts in stream(3 * LONGEST):
        course.step(counts)
        sizes.append(sum(np.asarray(each).nbytes for each in course.kept()))  # type: ignore[attr-defined]
    assert all(one == two for one, two in pairwise(sizes[2 * LONGEST :]))


@pytest.mark.parametrize("cls", [*PRIVATE, *PUBLISHED])
def test_a_seed_repeats_a_run_and_another_does_not(cls: type[WEventCompetitor]) -> None:
    competitor = cls(epsilon=1, window=6)
    one, two, three = (competitor.run(stream(), noise=TestNoise(seed)) for seed in (1, 1, 2))
    assert (one == two).all()
    assert (one != three).any()
    assert COMPETITORS[competitor.name] is cls


@pytest.mark.parametrize("cls", PRIVATE)
def test_with_much_epsilon_a_steady_stream_is_found(cls: type[WEventCompetitor]) -> None:
    """Keys far apart in size, so that groups hold one key each."""
    steady = np.tile(np.array([100, 4_000, 9_000]), (60, 1))
    shown = cls(epsilon=1000, window=3).run(steady, noise=TestNoise(1))
    assert np.allclose(shown[30:], steady[30:], rtol=0.05)


def test_parameters_are_checked() -> None:
    with pytest.raises(ConfigurationError, match="window"):
        RescueDp(epsilon=1, window=0)
    with pytest.raises(ConfigurationError, match="pivots"):
        AdaPub(epsilon=1, window=1, pivots=0)
