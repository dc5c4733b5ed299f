"""`apb`: keys in groups that share one noise, the groups chosen from a noisy histogram."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.error_bounds import laplace_variance
from penstock.core.errors import ConfigurationError
from penstock.core.exact import Exact, exact
from penstock.private.noise import Noise
from penstock_bench.competitors.competitor import ADDING, Estimated


@dataclass(frozen=True, kw_only=True)
class AdaptiveBudget(Estimated):
    r"""Group keys that look alike under a part of the budget, and measure the groups with the rest.

    Per unit: counts with noise of scale 1/ε₁, ε₁ = `share`·ε, are sorted, and neighbours are
    grouped as long as a group's estimated error, :math:`\max(\sum(\tilde x-\bar
    x)^2-(m-1)v_1,0)+v_2/m`, is below that of keys by themselves. Group sums get noise of scale
    1/ε₂, ε₂ = ε − ε₁. A key's estimate is the mean of its group, by both draws, each with the
    weight that the other's variance gives it. Sums over units are post-processing.

    ε-private for adding or removing one event: it is in one key and in one group, ε₁ + ε₂.

    References
    ----------
    Tang et al., Application Research of Computers 37(7), 2020, as described by Wang et al.,
    Tsinghua Science and Technology 29(6), 2024. Departures: groups come from noisy counts; on raw
    ones the choice would cost what nobody pays. The split is a parameter, since its best value
    depends on the data.
    """

    name = "apb"
    promise = ADDING

    share: Exact = "0.5"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "share", exact(self.share, name="share"))
        if not 0 < exact(self.share) < 1:
            raise ConfigurationError(f"share must lie between 0 and 1, not {self.share}.")

    def publish(self, counts: IntArray, *, noise: Noise, unit: int = 1) -> FloatArray:
        """One histogram."""
        first, second = self.scales
        seen = counts + noise.laplace(first, len(counts), unit=unit, label="watch")
        one, other = laplace_variance(np.array([first, second], np.float64)).tolist()
        of = groups(seen, one, other)
        sizes = np.bincount(of)
        sums = noise.laplace(second, len(sizes), unit=unit, label="publish")
        np.add.at(sums, of, counts)
        before = np.bincount(of, seen) / sizes
        weight = other / (
            other + one * sizes
        )  # weights of the two estimates of the mean: variances one/m and other/m²
        mean = weight * before + (1 - weight) * sums / sizes
        return np.asarray(mean[of], np.float64)

    @property
    def scales(self) -> tuple[Fraction, Fraction]:
        """The noise of the counts that groups are chosen from, and of the sums."""
        share = exact(self.share)
        return 1 / (self.budget * share), 1 / (self.budget * (1 - share))


def groups(seen: IntArray | FloatArray, one: float, other: float) -> IntArray:
    """The group of each key, chosen greedily in the order of the noisy counts.

    >>> groups(np.array([70, 3, 71, 2]), 1.0, 4.0)
    array([1, 0, 1, 0])
    """
    order = np.argsort(seen, kind="stable")
    of = np.zeros(len(seen), np.int64)
    number, size, mean, square, error = -1, 0, 0.0, 0.0, 0.0
    for key, value in zip(order.tolist(), seen[order].tolist(), strict=True):
        grown = square + (value - mean) ** 2 * size / (size + 1)
        joined = max(grown - size * one, 0.0) + other / (size + 1)
        if size and joined <= error + other:
            size, mean, square, error = size + 1, mean + (value - mean) / (size + 1), grown, joined
        else:
            number, size, mean, square, error = number + 1, 1, float(value), 0.0, other
        of[key] = number
    return of
