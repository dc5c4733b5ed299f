from __future__ import annotations

from fractions import Fraction

import numpy as np

from penstock.testing import NoNoise, RecordingNoise, TestNoise
from penstock_bench.competitors.competitor import decayed
from penstock_bench.competitors.recurrence import Recurrence


def test_every_unit_is_drawn_for_once_with_all_of_epsilon() -> None:
    noise = RecordingNoise(TestNoise(1))
    Recurrence(epsilon="0.5", span=3).run(np.zeros((4, 2), np.int64), noise=noise)
    assert [(draw.unit, draw.scale) for draw in noise.draws] == [
        (unit, Fraction(2)) for unit in (1, 2, 3, 4)
    ]


def test_it_is_too_large_by_what_has_left_the_window() -> None:
    stream = np.random.default_rng(1).integers(0, 50, (100, 3))
    competitor = Recurrence(epsilon=1, gamma="0.9", span=20)
    found, exact = competitor.run(stream, noise=NoNoise()), decayed(stream, competitor.weights)
    assert np.allclose((found - exact)[20:], 0.9**20 * found[:-20])
    assert (found[19:] - exact[19:]).max() > 1


def test_a_long_window_is_not_told_from_an_endless_one() -> None:
    stream = np.random.default_rng(2).integers(0, 50, (900, 3))
    competitor = Recurrence(epsilon=1, gamma="0.91", span=600)
    assert np.allclose(
        competitor.run(stream, noise=NoNoise()), decayed(stream, competitor.weights), rtol=1e-12
    )
