"""k-ary randomised response: people tell the truth with a known probability."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.exact import whole
from penstock.lab.survey_answers import answers
from penstock.private.noise import Noise
from penstock.private.noise.fixed import exp_bounds
from penstock_bench.competitors.competitor import Estimated

_BITS = 128


def truth(epsilon: Fraction, keys: int) -> Fraction:
    r"""P(truth): a rational just below :math:`e^\varepsilon/(e^\varepsilon+M-1)`; the promise is
    exact.

    >>> float(truth(Fraction(1), 2))
    0.7310585786300049
    """
    if whole(keys, name="keys", least=1) == 1:
        return Fraction(1)
    _, above = exp_bounds(epsilon, _BITS)  # at least e^−ε
    one = 1 << _BITS
    return Fraction(one, one + (keys - 1) * above)


def loss(honest: Fraction, keys: int) -> float:
    """The log of the largest likelihood ratio of an answer; infinite for a negative survey."""
    lie = (1 - honest) / (keys - 1)
    low, high = sorted([honest, lie])
    return float(np.log(float(high / low))) if low else float("inf")


@dataclass(frozen=True, kw_only=True)
class RandomisedResponse(Estimated):
    r"""Every event says its own key with a known chance, else another.

    Its own with :math:`p=e^\varepsilon/(e^\varepsilon+M-1)`, each other of the M keys with
    :math:`q=(1-p)/(M-1)`. Of n events
    :math:`r_k` say k: :math:`(r_k-nq)/(p-q)` is an unbiased estimate of its count. Sums over units
    are post-processing.

    ε-private for **replacing** one event by another: p/q ≤ e^ε. The number n of events in a unit is
    public; adding or removing one is not covered. p is a rational rounded down, and every answer is
    drawn exactly.

    References
    ----------
    Warner, JASA 60(309), 1965; Kairouz, Oh and Viswanath, NeurIPS 2014. In place of the negative
    surveys of Wang et al., Tsinghua Science and Technology 29(6), 2024, section 6: those never say
    the truth, so an answer rules its key out.
    """

    name = "randomised_response"
    promise = "replacing one event by another"

    def publish(self, counts: IntArray, *, noise: Noise, unit: int = 1) -> FloatArray:
        """One histogram: the unbiased estimate of every count."""
        keys = len(counts)
        honest = truth(self.budget, keys)
        said = answers(counts, honest, noise=noise, unit=unit)
        if keys == 1:
            return said.astype(np.float64)
        lie = (1 - honest) / (keys - 1)
        return np.asarray((said - int(counts.sum()) * float(lie)) / float(honest - lie), np.float64)

    def variance(self, counts: IntArray) -> FloatArray:
        """The variance of every estimate."""
        keys = len(counts)
        honest = truth(self.budget, keys)
        p, q = float(honest), float((1 - honest) / max(keys - 1, 1))
        return np.asarray(
            (counts * p * (1 - p) + (counts.sum() - counts) * q * (1 - q)) / (p - q) ** 2,
            np.float64,
        )
