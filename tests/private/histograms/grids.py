"""Grids to release by trees."""

from __future__ import annotations

from penstock.private.histograms.base import Histogram
from penstock.private.mechanisms.sample import Sample
from penstock.private.noise import Noise
from penstock.private.run import Run
from penstock.testing import NoNoise

SHAPES = [(1, 1), (1, 2), (2, 3), (5, 7), (1, 13), (9, 1), (3, 40), (16, 16)]


def run_of(
    histogram: Histogram,
    size: int,
    *,
    epsilon: str = "1",
    noise: Noise | None = None,
    contribution: int = 1,
) -> Run:
    mechanism = Sample(epsilon=epsilon, window=1, histogram=histogram, contribution=contribution)
    return mechanism.run(size, noise=NoNoise() if noise is None else noise, record=True)
