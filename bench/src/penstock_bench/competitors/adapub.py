"""`adapub` and `adapub_published`: keys in groups by their last release, medians over stretches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.core.domain import Domain
from penstock.core.exact import whole
from penstock.private.noise import Noise
from penstock_bench.competitors.competitor import ADDING, Course, WEventCompetitor

PROPORTIONAL, INTEGRAL = 0.9, 0.1
"""The gains of the feedback error and of its mean over the stretch, as in the paper."""

PERTURBATION = Fraction(4, 5)
"""The part of ε for the counts, as in the paper. The rest is for the deviations of raw counts."""

LONGEST = 32
"""The most units in a stretch: the memory of a key."""


@dataclass(frozen=True, kw_only=True)
class AdaPub(WEventCompetitor):
    r"""Keys of similar size share one noise, and stretches without change share one median.

    In every unit, `pivots` values between the least and the largest number of the last release cut
    the keys into groups. A group's sum gets noise of scale :math:`w/\varepsilon`, and each of its
    keys the sum divided by the group's size. A key's stretch of units goes on while the deviation
    of its noisy counts from their mean is at most :math:`\theta` above the noise's own. The release
    is the median of the stretch. :math:`\theta=\max(1,e^2/\varepsilon)`, where :math:`e` is 0.9 of
    the last relative change plus 0.1 of its mean over the stretch.

    (ε, w)-private: each unit's counts are read once, by sums over disjoint groups that cost ε/w
    together. Groups and stretches are functions of noisy counts.

    References
    ----------
    Wang et al., IPCCC 2019, "Adaptive Differentially Private Data Stream Publishing in
    Spatio-temporal Monitoring of IoT". Departures: the deviation is that of noisy counts (see
    `adapub_published`), and all of ε is for the counts. Pivots are evenly spread, not random. A
    stretch has at most 32 units.
    """

    name = "adapub"
    promise = ADDING

    pivots: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "pivots", whole(self.pivots, name="pivots", least=1))

    @property
    def scale(self) -> Fraction:
        """The noise of a group's sum."""
        return self.window / self.budget

    def begin(self, domain: Domain, *, noise: Noise) -> Course:
        return _Stretching(self, domain.size, noise, _noisy_deviation)


@dataclass(frozen=True, kw_only=True)
class PublishedAdaPub(AdaPub):
    r"""AdaPub as it was published: stretches end by the deviation of raw counts.

    Counts have :math:`0.8\,\varepsilon`. In every unit, a key's deviation of raw counts over its
    stretch gets noise of scale :math:`2w/0.2\,\varepsilon`.

    **Not (ε, w)-private**: the deviation of every later unit of a stretch reads an event again, and
    these readings are not paid for. A stretch of n units reads w events of one person up to n
    times each.
    """

    name = "adapub_published"
    promise = "nothing"
    private = False

    @property
    def scale(self) -> Fraction:
        return self.window / (self.budget * PERTURBATION)

    @property
    def deviation_scale(self) -> Fraction:
        """The noise of a deviation."""
        return 2 * self.window / (self.budget * (1 - PERTURBATION))

    def begin(self, domain: Domain, *, noise: Noise) -> Course:
        return _Stretching(self, domain.size, noise, self._raw_deviation)

    def _raw_deviation(self, course: _Stretching) -> FloatArray:
        spread = _spread(course.raw, course.inside)
        drawn = course.noise.laplace(
            self.deviation_scale, len(spread), unit=course.unit, label="deviation"
        )
        return np.maximum(spread + drawn, 0.0)


class _Stretching(Course):
    """Rings of the last units, the newest row at `unit`: raw and noisy counts, and releases."""

    def __init__(
        self,
        competitor: AdaPub,
        keys: int,
        noise: Noise,
        deviation: Callable[[_Stretching], FloatArray],
    ) -> None:
        self.noise, self._competitor, self._deviation = noise, competitor, deviation
        self.raw, self.noisy, self._shown, self._errors = (
            np.zeros((LONGEST, keys)) for _ in range(4)
        )
        self.scales = np.zeros(keys)
        self.unit = 0
        self._length = np.zeros(keys, np.int64)
        self._closed = np.ones(keys, np.bool_)

    @property
    def inside(self) -> BoolArray:
        """The rows of the rings that belong to each key's stretch, this unit included."""
        age = (self.unit - np.arange(LONGEST)) % LONGEST
        return np.asarray(age[:, None] < self._length)

    def step(self, counts: IntArray) -> FloatArray:
        last = self._shown[self.unit % LONGEST].copy()
        self.unit += 1
        row = self.unit % LONGEST
        self.raw[row], self.noisy[row] = counts, self._perturbed(counts, last)
        noisy = self.noisy[row]
        self._errors[row] = np.abs(last - noisy) / np.maximum(noisy, 1.0)
        self._length = np.where(self._closed, 1, np.minimum(self._length + 1, LONGEST))
        inside = self.inside
        mean = (self._errors * inside).sum(axis=0) / self._length
        error = PROPORTIONAL * self._errors[row] + INTEGRAL * mean
        theta = np.maximum(1.0, np.square(error) / float(self._competitor.budget))
        ended = ~self._closed & (self._deviation(self) >= theta)
        self._length[ended] = 1
        self._closed = ended
        self._shown[row] = noisy
        self._shown[row] = _medians(self._shown, self.inside)
        return np.array(self._shown[row])

    def _perturbed(self, counts: IntArray, last: FloatArray) -> FloatArray:
        """Noisy means of groups of keys; in the first unit, every key by itself."""
        if self.unit == 1:
            of = np.arange(len(counts))
        else:
            cuts = np.linspace(last.min(), last.max(), self._competitor.pivots)
            _, of = np.unique(np.searchsorted(cuts, last), return_inverse=True)
        sizes = np.bincount(of)
        sums = self.noise.laplace(
            self._competitor.scale, len(sizes), unit=self.unit, label="publish"
        )
        np.add.at(sums, of, counts)
        self.scales = (float(self._competitor.scale) / sizes)[of]
        return np.asarray((sums / sizes)[of])

    def kept(self) -> object:
        return self.raw, self.noisy, self._shown, self._errors, self._length, self._closed


def _noisy_deviation(course: _Stretching) -> FloatArray:
    """The deviation of the noisy counts that their noise does not explain."""
    inside = course.inside
    explained = inside.sum(axis=0) * course.scales
    return np.asarray(np.maximum(_spread(course.noisy, inside) - explained, 0.0))


def _spread(rows: FloatArray, inside: BoolArray) -> FloatArray:
    """The sum of distances of each key's rows from their mean."""
    mean = (rows * inside).sum(axis=0) / inside.sum(axis=0)
    return np.asarray((np.abs(rows - mean) * inside).sum(axis=0))


def _medians(rows: FloatArray, inside: BoolArray) -> FloatArray:
    """The median of each key's rows."""
    ordered = np.sort(np.where(inside, rows, np.inf), axis=0)
    number, keys = inside.sum(axis=0), np.arange(rows.shape[1])
    return np.asarray((ordered[(number - 1) // 2, keys] + ordered[number // 2, keys]) / 2)
