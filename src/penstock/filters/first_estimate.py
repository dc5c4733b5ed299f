"""The first belief about keys: a prior learned over all keys from their first noisy sums."""

from __future__ import annotations

import numpy as np

from penstock.core.arrays import FloatArray
from penstock.filters.observation import NoiseLaw

GRID_POINTS, STEPS, MAX_KEYS, AT_ONCE = 45, 40, 3000, 5000
"""Points of the prior's grid, steps of the EM algorithm, keys it learns from, keys at once."""

FINEST = 1 / 200
"""The least level of the grid above 0, in noise scales."""


def first_estimate(
    sums: FloatArray, scale: float | FloatArray, law: NoiseLaw = "laplace"
) -> tuple[FloatArray, FloatArray]:
    r"""Posterior means and variances of levels :math:`\theta\ge0`, given θ plus noise per key.

    The prior is the nonparametric maximum likelihood estimate on a geometric grid, by the EM
    algorithm over all keys (evenly spaced quantiles if there are many), under the law of the noise.
    `scale` is one number, or one per key; 2 × its square is the variance of the noise. The order of
    keys does not matter.

    >>> mean, variance = first_estimate(np.array([0.0, 1.0, 50.0]), 1.0)
    >>> bool(mean[0] < 1), bool(abs(mean[2] - 50) < 2)
    (True, True)
    """
    scales = np.broadcast_to(np.asarray(scale, np.float64), sums.shape)
    highest = max(float(sums.max()), float(scales.max())) * 1.5
    lowest = float(scales.min()) * FINEST
    grid = np.concatenate([[0.0], np.geomspace(lowest, highest, GRID_POINTS)])
    some = np.unique(np.linspace(0, len(sums) - 1, min(len(sums), MAX_KEYS)).astype(np.int64))
    chosen = np.lexsort((scales, sums))[some]
    likelihood = _likelihood(sums[chosen], grid, scales[chosen], law)
    prior = np.full(len(grid), 1 / len(grid))
    for _ in range(STEPS):
        posterior = likelihood * prior
        posterior /= posterior.sum(axis=1, keepdims=True)
        prior = np.maximum(posterior.mean(axis=0), 1e-9)
    mean, square = np.empty(len(sums)), np.empty(len(sums))
    for first in range(0, len(sums), AT_ONCE):
        part = slice(first, first + AT_ONCE)
        posterior = _likelihood(sums[part], grid, scales[part], law) * prior
        posterior /= posterior.sum(axis=1, keepdims=True)
        mean[part] = (posterior * grid).sum(axis=1)
        square[part] = (posterior * np.square(grid)).sum(axis=1)
    return mean, np.maximum(square - np.square(mean), 1e-9)


def _likelihood(
    sums: FloatArray, grid: FloatArray, scales: FloatArray, law: NoiseLaw
) -> FloatArray:
    """The likelihood of each grid point, up to a factor per key."""
    away: FloatArray = np.abs(sums[:, None] - grid) / scales[:, None]
    if law == "gaussian":
        away = np.square(away) / 4
    return np.asarray(np.exp(away.min(axis=1, keepdims=True) - away))
