"""`AESketch`: weighted sums over a window from a few blocks per key."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.core.errors import ConfigurationError
from penstock.core.exact import Exact, exact, whole

Number: TypeAlias = np.float64 | np.int64


@dataclass(frozen=True)
class AESketch:
    r"""Per key, the sum :math:`G=\sum_{a<w}\gamma^a x_{t-a}` of the last `span` = w values, from at
    most 2⌈1/β⌉ blocks.

    A block is a run of units, with the sum and the mass :math:`\sum\gamma^a|x|` of its values *as
    seen from now*. Every unit adds a block; one that lies wholly before the window is dropped;
    where there is no room, the two neighbours of least joint mass inside the window become one. The
    one block that reaches over the window's end counts half.

    With M the mass of the window, the merged pair has at most βM, because ⌈1/β⌉ disjoint pairs
    share M. So the estimate is off by at most half the mass of the straddling block (`error`, known
    at all times), and for values in [−1, 1] by at most θ/2 with
    :math:`\theta=\beta(1-\gamma^w)/(1-\gamma)`: a block of sum A + B, of which only B is in the
    window, counts (A + B)/2, and |B − A|/2 is at most half its mass whatever the signs are. Up to
    unit w, and always if w ≤ 2⌈1/β⌉, it is exact.

    Counting half is for the worst stream. `even` takes the units of the straddling block to be
    alike and counts what they have of their weight in the window: on steady streams it is closer by
    far, at worst off by nearly all of the block's mass.

    All keys have the same number of blocks, so a step is a few operations on arrays of keys ×
    blocks. Weights are multiplied by γ in every unit, so the newest has weight 1 and nothing can
    overflow; after w steps that is accurate to w roundings.

    **No sketch is needed where** :math:`\gamma^w` **is negligible**: then :math:`G\leftarrow\gamma
    G+x`, one number a key, is off by :math:`\gamma^w` of a sum only: 1e−82 of it for γ = 0.91, w =
    2000.

    >>> sketch = AESketch.start(1, gamma="0.95", span=3, beta="0.5")
    >>> for value in (1, 1, 1, 1):
    ...     sketch = sketch.add(np.array([value]))
    >>> sketch.estimate
    array([2.8525])

    References
    ----------
    Wang et al., Tsinghua Science and Technology 29(6), 2024, section 4.1.
    Departures: the paper decays and adds twice and expires nothing. Here blocks know where they
    begin, are compared as seen from now, and are merged only where there is no room, by the size of
    what is in them.
    """

    gamma: Fraction
    span: int
    beta: Fraction
    unit: int
    first: IntArray
    weight: FloatArray
    mass: FloatArray

    @classmethod
    def start(cls, keys: int, *, gamma: Exact, span: int, beta: Exact) -> AESketch:
        """Before the first unit."""
        rate, share = exact(gamma, name="gamma"), exact(beta, name="beta")
        if not 0 < rate <= 1:
            raise ConfigurationError(
                f"gamma must lie above 0 and not above 1, not {rate}.", parameter="gamma"
            )
        if not 0 < share <= 1:
            raise ConfigurationError(
                f"beta must lie above 0 and not above 1, not {share}.", parameter="beta"
            )
        nothing = np.zeros((keys, 0))
        return cls(
            rate,
            whole(span, name="span", least=1),
            share,
            0,
            nothing.astype(np.int64),
            nothing,
            nothing,
        )

    @property
    def room(self) -> int:
        """The most blocks that a key has."""
        return min(2 * -(-self.beta.denominator // self.beta.numerator), self.span)

    @property
    def blocks(self) -> int:
        """The number of blocks that every key has now."""
        return int(self.first.shape[1])

    @property
    def threshold(self) -> float:
        """θ: twice the largest error of the estimate if all values lie in [−1, 1]."""
        return float(self.beta) * total_weight(self.gamma, self.span)

    def add(self, values: NDArray[Number]) -> AESketch:
        """The sketch after one more unit, with one value per key."""
        unit, gamma = self.unit + 1, float(self.gamma)
        start = unit - self.span + 1
        column = np.asarray(values, np.float64)[:, None]
        first = np.concatenate([self.first, np.full((len(column), 1), unit)], axis=1)
        weight = np.concatenate([self.weight * gamma, column], axis=1)
        mass = np.concatenate([self.mass * gamma, np.abs(column)], axis=1)
        after = replace(self, unit=unit, first=first, weight=weight, mass=mass)
        return after if after.blocks <= self.room else after._without_one(start)

    def _without_one(self, start: int) -> AESketch:
        """One block less for every key: drop the expired one, or merge the lightest pair."""
        expired = self.first[:, 1] <= start
        joint = self.mass[:, :-1] + self.mass[:, 1:]
        joint[self.first[:, 0] < start, 0] = np.inf  # what straddles is not made larger
        place = np.where(expired, -1, np.argmin(joint, axis=1))[:, None]
        places = np.arange(self.blocks - 1)
        left, here = places > place, places == place
        return replace(
            self,
            first=np.where(left, self.first[:, 1:], self.first[:, :-1]),
            weight=_joined(self.weight, left, here),
            mass=_joined(self.mass, left, here),
        )

    @property
    def straddles(self) -> BoolArray:
        """Whether each key's oldest block reaches over the end of the window."""
        if not self.blocks:
            return np.zeros(len(self.first), np.bool_)
        return np.asarray(self.first[:, 0] < self.unit - self.span + 1)

    @property
    def estimate(self) -> FloatArray:
        """The weighted sum of each key."""
        total: FloatArray = self.weight.sum(axis=1)
        return total - np.where(self.straddles, self._oldest(self.weight) / 2, 0.0)

    @property
    def error(self) -> FloatArray:
        """The largest error of each estimate."""
        return np.where(self.straddles, self._oldest(self.mass) / 2, 0.0)

    @property
    def even(self) -> FloatArray:
        """The sums, if the units of a straddling block are alike."""
        total: FloatArray = self.weight.sum(axis=1)
        return total - (1 - self._inside()) * self._oldest(self.weight)

    @property
    def even_error(self) -> FloatArray:
        """The largest error of each `even` estimate: from `error` to less than twice that."""
        inside = self._inside()
        return np.where(
            self.straddles, np.maximum(inside, 1 - inside) * self._oldest(self.mass), 0.0
        )

    def _inside(self) -> FloatArray:
        """The share of the weight of the oldest block's units that lies in the window."""
        if self.blocks < 2:
            return np.ones(len(self.first))
        end = self.first[:, 1]
        inside, all_ = (
            np.minimum(end - (self.unit - self.span + 1), end - self.first[:, 0]),
            end - self.first[:, 0],
        )
        share: FloatArray = (
            inside / all_
            if self.gamma == 1
            else np.expm1(inside * self._log) / np.expm1(all_ * self._log)
        )
        return share

    @property
    def _log(self) -> float:
        return float(np.log(float(self.gamma)))

    def _oldest(self, of: FloatArray) -> FloatArray:
        return of[:, 0] if self.blocks else np.zeros(len(of))


def _joined(of: FloatArray, left: BoolArray, here: BoolArray) -> FloatArray:
    """Blocks moved one to the left behind the chosen place, and added up there."""
    return np.where(left, of[:, 1:], of[:, :-1]) + np.where(here, of[:, 1:], 0.0)


def total_weight(gamma: Fraction, span: int) -> float:
    """(1 − γ^w)/(1 − γ): the sum over a window of ones; w for γ = 1."""
    if gamma == 1:
        return float(span)
    return float(-np.expm1(span * np.log(float(gamma))) / float(1 - gamma))
