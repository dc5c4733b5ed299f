"""`rescuedp` and `rescuedp_published`: samples at a pace that follows the stream, filtered."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.core.domain import Domain
from penstock.private.noise import Noise
from penstock_bench.competitors.competitor import ADDING, Course, WEventCompetitor

PROPORTIONAL, INTEGRAL = 0.9, 0.1
"""The gains of the last change and of the mean of the last three, as in the paper."""

PACE = 10.0
"""How fast intervals between samples change: θ in the paper."""

SHARE, MOST_SHARE, MOST = 0.2, 0.6, Fraction(1, 5)
"""A sample spends 0.2·ln(interval + 1) of the rest, at most 0.6 of it, and at most ε/5."""

LARGE, ALIKE, NEAR = 30.0, 0.5, 25.0
"""Keys with a prediction above 30 stay by themselves. Others are grouped if the correlation of
their releases is above 0.5 and their predictions differ by less than 25.
"""

RECENT = 3
"""The releases of a key that predictions, correlations and mean changes are made of."""

START = 100.0
"""The variance of the filter before the first sample."""

SMALLEST = 10**6
"""A budget below ε divided by this samples nothing."""


@dataclass(frozen=True, kw_only=True)
class RescueDp(WEventCompetitor):
    r"""Sample more often while keys change; quiet keys share noise; a filter smooths.

    All keys are sampled together. The next interval is :math:`\max(1, I+10(1-(e/\lambda)^2))`. Here
    :math:`e` is 0.9 of the last change of the releases plus 0.1 of the mean of three, averaged over
    keys, and :math:`\lambda` the noise of the next sample. A sample spends 0.2·ln(I + 1) of the
    budget that the window has left. Keys with small, correlated releases form groups; a group's
    noisy sum is divided by its size. A Kalman filter per key follows the samples.

    (ε, w)-private: a unit's sums are over disjoint groups of keys and cost this budget once. It is
    part of what the other units of any window have left of ε. Times, groups and filters are
    functions of releases.

    References
    ----------
    Wang et al., IEEE Transactions on Dependable and Secure Computing 15(4), 2018. Departures: one
    pace and one budget for all keys, and a filter that learns from noisy counts (see
    `rescuedp_published`); λ is that of the next sample, not of all that is left. Budgets are
    rounded down to five binary digits.
    """

    name = "rescuedp"
    promise = ADDING

    def begin(self, domain: Domain, *, noise: Noise) -> Course:
        return _Sampling(self, domain.size, noise)


@dataclass(frozen=True, kw_only=True)
class PublishedRescueDp(RescueDp):
    r"""RescueDP as it was published: a pace and an ε per key, and a filter tuned on raw counts.

    **Not (ε, w)-private**: every key spends ε in a window, at its own times. A person who moves
    meets the dear units of one key after those of another. The filter's variance is that of the
    key's raw counts, which nobody pays for.
    """

    name = "rescuedp_published"
    promise = "nothing"
    private = False


class _Sampling(Course):
    """The pace, the filter and the last releases of every key."""

    def __init__(self, competitor: RescueDp, keys: int, noise: Noise) -> None:
        self._competitor, self._noise, self._unit = competitor, noise, 0
        self._spent: deque[FloatArray] = deque(maxlen=competitor.window - 1)
        self._interval, self._due = np.ones(keys), np.ones(keys, np.int64)
        self._shown, self._variance = np.zeros(keys), np.full(keys, START)
        self._releases, self._changes = np.zeros((RECENT, keys)), np.zeros((RECENT, keys))
        self._samples = np.zeros(keys, np.int64)
        self._seen, self._sum, self._squares, self._noises = (np.zeros(keys) for _ in range(4))

    def step(self, counts: IntArray) -> FloatArray:
        self._unit += 1
        if not self._competitor.private:
            self._learn(counts.astype(np.float64), np.ones(len(counts), np.bool_), 0.0)
        steps, drift = self._budgets(), self._drift()
        sampled = (self._due <= self._unit) & (steps > 0)
        self._variance += drift
        if sampled.any():
            self._sample(counts, sampled, steps)
        charged = np.where(sampled, steps, 0.0)
        if self._competitor.private:  # a person may be at any key: one ledger for all
            charged = np.full(len(charged), charged.max())
        self._spent.append(charged)
        if sampled.any():
            self._pace(sampled)
        return self._shown.copy()

    # -- the budget --------------------------------------------------------------------------------

    def _left(self) -> FloatArray:
        """The part of ε that each key's window has left."""
        return 1.0 - np.sum(self._spent, axis=0) if self._spent else np.ones(len(self._shown))

    def _budgets(self) -> FloatArray:
        """The parts of ε that samples of this unit spend, each with five binary digits."""
        share = np.minimum(SHARE * np.log(self._interval + 1), MOST_SHARE)
        part = np.minimum(share * self._left(), float(MOST))
        if self._competitor.private:
            due = self._due <= self._unit
            part = np.full(len(part), part[due].max() if due.any() else 0.0)
        exponent = np.floor(np.log2(np.maximum(part, 1 / SMALLEST))) - 4
        rounded = np.floor(part / 2.0**exponent) * 2.0**exponent
        return np.where(part * SMALLEST < 1, 0.0, rounded)

    # -- one unit ----------------------------------------------------------------------------------

    def _sample(self, counts: IntArray, sampled: BoolArray, steps: FloatArray) -> None:
        keys = np.flatnonzero(sampled)
        of = self._groups(keys)
        sizes = np.bincount(of)
        least = np.full(len(sizes), np.inf)
        np.minimum.at(least, of, steps[keys])
        steps[keys] = least[of]
        budgets, which = np.unique(least, return_inverse=True)
        scales = [1 / (self._competitor.budget * Fraction(each)) for each in budgets.tolist()]
        sums = self._noise.laplace_each(scales, which, unit=self._unit, label="publish")
        np.add.at(sums, of, counts[keys])
        noisy = (sums / sizes)[of]
        noise = 2 / np.square(float(self._competitor.budget) * least * sizes)
        if self._competitor.private:
            seen = np.zeros(len(counts))
            seen[keys] = noisy
            self._learn(seen, sampled, noise[of])
        measurement = (self._competitor.window / float(self._competitor.budget)) ** 2
        gain = self._variance[keys] / (self._variance[keys] + measurement)
        gain[self._samples[keys] == 0] = 1.0
        before = self._shown[keys]
        self._shown[keys] = before + gain * (noisy - before)
        self._variance[keys] *= 1 - gain
        self._releases[:, keys] = np.roll(self._releases[:, keys], 1, axis=0)
        self._releases[0, keys] = self._shown[keys]
        self._changes[:, keys] = np.roll(self._changes[:, keys], 1, axis=0)
        self._changes[0, keys] = np.abs(self._shown[keys] - before)
        self._samples[keys] += 1

    def _pace(self, sampled: BoolArray) -> None:
        """The next sample of those that were sampled now."""
        keys = np.flatnonzero(sampled)
        known = np.clip(self._samples[keys] - 1, 1, RECENT)
        change = PROPORTIONAL * self._changes[0, keys] + INTEGRAL * (
            self._changes[:, keys].sum(axis=0) / known
        )
        left = self._left()[keys] * float(self._competitor.budget)
        if self._competitor.private:
            change = np.full(len(keys), change.mean())
            left *= np.minimum(SHARE * np.log(self._interval[keys] + 1), MOST_SHARE)
        longer = self._interval[keys] + PACE * (1 - np.square(change * left))
        first = self._samples[keys] == 1  # one release shows no change yet
        self._interval[keys] = np.where(first, 1.0, np.maximum(longer, 1.0))
        self._due[keys] = self._unit + self._interval[keys].astype(np.int64)

    def _groups(self, keys: IntArray) -> IntArray:
        """The group of each sampled key, from releases alone."""
        number = len(keys)
        recent = self._releases[:, keys]
        predicted = recent.mean(axis=0)
        of = np.arange(number)
        alone = (predicted > LARGE) | (self._samples[keys] < RECENT)
        left = np.flatnonzero(~alone)
        left = left[np.argsort(predicted[left], kind="stable")]
        apart = recent - predicted
        length = np.sqrt(np.square(apart).sum(axis=0))
        while len(left) > 1:
            pivot, rest = left[0], left[1:]
            with np.errstate(divide="ignore", invalid="ignore"):
                alike = apart[:, pivot] @ apart[:, rest] / (length[pivot] * length[rest]) > ALIKE
            before = predicted[pivot] + np.cumsum(np.where(alike, predicted[rest], 0.0))
            before = np.concatenate([predicted[pivot : pivot + 1], before[:-1]])
            full = (before >= LARGE) | (predicted[rest] - predicted[pivot] >= NEAR)
            end = int(np.argmax(full)) if full.any() else len(rest)
            joining = alike & (np.arange(len(rest)) < end)
            of[rest[joining]] = pivot
            left = rest[~joining]
        return np.unique(of, return_inverse=True)[1].reshape(number)

    # -- the filter's variance ---------------------------------------------------------------------

    def _learn(self, values: FloatArray, where: BoolArray, noise: float | FloatArray) -> None:
        """Add what was seen, and the variance of its noise."""
        self._seen[where] += 1
        self._sum[where] += values[where]
        self._squares[where] += np.square(values[where])
        self._noises[where] += noise

    def _drift(self) -> FloatArray:
        """The variance of what was seen, less that of its noise; 1 before there are two values."""
        seen = np.maximum(self._seen, 1)
        spread = self._squares / seen - np.square(self._sum / seen) - self._noises / seen
        return np.where(self._seen < 2, 1.0, np.maximum(spread, 1.0 / math.e))

    def kept(self) -> object:
        return [
            value for name, value in vars(self).items() if name not in ("_noise", "_competitor")
        ]
