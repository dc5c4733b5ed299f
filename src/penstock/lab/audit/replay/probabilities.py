"""Logarithms of the probabilities of answers, from the laws of the noise alone.

Nothing here is shared with the ledger or with the sampler of noise.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from penstock.core.arrays import FloatArray, IntArray

REACH = 45.0
"""Terms that are e^-45 times the largest term of a sum are left out."""

MAX_CELLS = 2_000_000
"""The most probabilities that are held at once."""

PARTS = 16
"""Into how many values a scale is divided where a sum is estimated."""

Question = tuple[int, bool]
"""How far the threshold lies above the statistic, without noise, and the answer."""


def log_reached(distance: FloatArray, scale: float) -> FloatArray:
    """The logarithm of P(X ≥ distance) for discrete Laplace noise X of this scale.

    Parameters
    ----------
    distance : array of float
        Whole numbers.
    scale : float
        The scale of the noise.

    >>> round(float(np.exp(log_reached(np.array([0.0, 1.0]), 2.0)).sum()), 12)
    1.0
    """
    rate = 1 / scale
    tail = math.log1p(math.exp(-rate))  # of 1 + q
    above = -rate * distance - tail
    below = -np.exp(np.minimum(-rate * (1 - distance) - tail, -1e-9))
    return np.where(distance >= 1, above, np.log1p(below))


def log_layers(noise: IntArray, scale: float, layers: int) -> FloatArray:
    """The logarithm of P(X₁ + … + X_layers = noise), for discrete Laplace noise of one scale.

    Constants that do not depend on `noise` are left out. Two layers have a closed form; more of
    them are summed up.

    Parameters
    ----------
    noise : array of int
        The sums.
    scale : float
        The scale of each layer.
    layers : int
        The number of layers.

    >>> log_layers(np.array([0, 3]), 2.0, 1).tolist()
    [-0.0, -1.5]
    """
    rate, size = 1 / scale, np.abs(noise).astype(np.float64)
    if layers == 1:
        return -rate * size
    if layers == 2:
        square = math.exp(-2 * rate)
        return -rate * size + np.log(size + (1 + square) / -math.expm1(-2 * rate))
    reach = int(REACH * scale) + 1
    near = np.arange(-reach, reach + 1)
    parts = log_layers(near, scale, 1)[:, None] + log_layers(
        noise[None, :] - near[:, None], scale, layers - 1
    )
    return np.asarray(np.logaddexp.reduce(parts, axis=0))


def log_sampled(value: int, count: int, keep: float, scale: float) -> float:
    """The logarithm of P(sample of `count` + noise = value), without the constant of the noise.

    Parameters
    ----------
    value : int
        The noisy number of events in the sample.
    count : int
        The number of events.
    keep : float
        The probability with which each of them is in the sample, between 0 and 1.
    scale : float
        The scale of the noise.

    >>> round(log_sampled(0, 1, 0.5, 1.0), 6) == round(math.log(0.5 + 0.5 * math.exp(-1)), 6)
    True
    """
    from scipy.special import gammaln

    kept = np.arange(count + 1, dtype=np.float64)
    binomial = (
        gammaln(count + 1.0)
        - gammaln(kept + 1)
        - gammaln(count - kept + 1)
        + kept * math.log(keep)
        + (count - kept) * math.log1p(-keep)
    )
    return _log_sum(binomial - np.abs(value - kept) / scale)


def log_answers(
    questions: Sequence[Question],
    threshold: Fraction | None,
    question: Fraction,
    *,
    fine: bool = True,
) -> float:
    """The logarithm of the probability of all answers of one run of the sparse vector technique.

    The noise of the threshold is drawn once and is secret, so the probability is a sum over all its
    values. Without the constant of that noise. The summand is log-concave: it is summed around its
    largest value.

    Parameters
    ----------
    questions : sequence of (int, bool)
        Per question: the threshold less the statistic, and the answer.
    threshold : Fraction or None
        The scale of the threshold's noise; None if there is none.
    question : Fraction
        The scale of the noise on each question.
    fine : bool
        Whether to sum over all values, not over some that are evenly apart. Default: True.

    >>> one = log_answers([(0, True)], None, Fraction(2))
    >>> two = log_answers([(0, False)], None, Fraction(2))
    >>> round(math.exp(one) + math.exp(two), 12)
    1.0
    """
    scale = float(question)
    times = Counter(questions)  # streams that stand still ask the same again and again
    signs = np.array([1.0 if yes else -1.0 for _, yes in times])[:, None]
    starts = np.array([float(d) if yes else 1.0 - d for d, yes in times])[:, None]
    often = np.array([float(count) for count in times.values()])

    def total(noise: FloatArray) -> FloatArray:
        prior = np.zeros(len(noise)) if threshold is None else -np.abs(noise) / float(threshold)
        rows = max(1, MAX_CELLS // len(noise))
        for first in range(0, len(often), rows):
            some = slice(first, first + rows)
            prior += often[some] @ log_reached(starts[some] + signs[some] * noise, scale)
        return prior

    if threshold is None:
        return float(total(np.zeros(1))[0])
    places = [0.0, *(-float(distance) for distance, _ in questions)]
    low, high = int(min(places)), int(max(places)) + 1
    while high - low > 2:  # the largest summand, by thirds
        third = (high - low) // 3
        left, right = low + third, high - third
        one, other = total(np.array([left, right], np.float64))
        low, high = (left, high) if one < other else (low, right)
    top = (low + high) // 2
    reach = int(REACH * max(float(threshold), 1.0)) + 2
    apart = 1 if fine else max(1, int(min(float(threshold), scale) / PARTS))
    return _log_sum(total(np.arange(top - reach, top + reach + 1.0, apart))) + math.log(apart)


def _log_sum(terms: FloatArray) -> float:
    """The logarithm of the sum of e^term; much faster than adding one after the other."""
    largest = float(terms.max())
    return largest + math.log(float(np.exp(terms - largest).sum()))


def gaussian_delta(rho: float, epsilon: float) -> float:
    """The δ at this ε of Gaussian noise that costs ρ in all (Balle and Wang, ICML 2018).

    Parameters
    ----------
    rho : float
        Half of the squared distance of the two streams, in standard deviations.
    epsilon : float
        The ε.

    >>> round(gaussian_delta(0.5, 1.0), 6)
    0.126937
    """
    if rho <= 0:
        return 0.0
    from scipy.special import log_ndtr

    length = math.sqrt(2 * rho)
    one = float(log_ndtr(length / 2 - epsilon / length))
    other = epsilon + float(log_ndtr(-length / 2 - epsilon / length))
    return math.exp(one) * -math.expm1(other - one) if other < one else 0.0


def gaussian_epsilon(rho: float, delta: float) -> float:
    """The ε at this δ of Gaussian noise that costs ρ in all.

    Parameters
    ----------
    rho : float
        The ρ.
    delta : float
        The δ, above 0.

    >>> round(gaussian_epsilon(0.5, 0.126937), 4)
    1.0
    """
    if gaussian_delta(rho, 0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while gaussian_delta(rho, high) > delta:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(rho, middle) > delta else (low, middle)
    return high
