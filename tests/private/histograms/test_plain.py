from __future__ import annotations

from fractions import Fraction

import numpy as np

from penstock import FixedSampling, Plain, Sample
from penstock.testing import NoNoise, RecordingNoise, TestNoise


def test_one_draw_takes_all_that_was_given() -> None:
    noise = RecordingNoise(TestNoise(1))
    run = FixedSampling(epsilon="1", window=6, every=2, contribution=2, histogram=Plain()).run(
        5, noise=noise, record=True
    )
    released = run.step([1, 2, 3, 4, 5])
    assert [(draw.label, draw.scale, draw.size) for draw in noise.draws] == [
        ("publish", Fraction(6), 5)
    ]
    assert (float(released.scale), released.divisor, released.layers, released.kind) == (
        6.0,
        1,
        1,
        "sum",
    )
    assert run.cost.epsilon == Fraction(1, 3)


def test_without_noise_it_gives_the_counts() -> None:
    counts = np.array([0, 7, 10**6])
    assert (Sample(epsilon=1, window=2).run(3, noise=NoNoise()).step(counts).value == counts).all()


def test_it_is_what_sample_does_unless_told_otherwise() -> None:
    told, untold = (Sample(epsilon=1, window=2, **given) for given in ({"histogram": Plain()}, {}))
    assert told == untold
    counts = [3, 1, 4]
    assert (
        told.run(3, noise=TestNoise(2)).step(counts).value
        == untold.run(3, noise=TestNoise(2)).step(counts).value
    ).all()
