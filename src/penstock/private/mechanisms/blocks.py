"""The public arithmetic of `sw_tree` and `kary`: blocks whose noise adds up to that of a window.

Unit t is at place t − 1. A level of size s has nodes side by side, [0, s), [s, 2s), …; the sizes
are 1, k, k², … A window of places is rounded to whole nodes at every level. Each level carries the
places of its own rounding that are not in the next level's, less those that are only in the next
level's. All levels together are the window itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from penstock.core.durations import UnitCount
from penstock.private.gate import Combination, Node


@dataclass(frozen=True)
class Blocks:
    """Nodes of `levels` sizes, the powers of `arity`, for windows of `span` units.

    Signed: both ends are rounded to the nearest node, which needs an odd `arity`; where that is
    outwards, finer nodes are subtracted. Unsigned: both ends are rounded inwards, and nothing is
    subtracted.

    >>> Blocks(span=9, arity=3, levels=2, signed=True).at(14).minus
    ((0, 14),)
    """

    span: UnitCount
    arity: int
    levels: int
    signed: bool

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return tuple(self.arity**level for level in range(self.levels))

    def at(self, unit: int) -> Combination:
        """The nodes whose noise the window that ends with this unit carries."""
        plus, minus = list[Node](), list[Node]()
        windows = [*self._rounded(unit), (0, 0)]
        for level, size in enumerate(self.sizes):
            fine, coarse = windows[level], windows[level + 1]
            plus += [
                (level, first) for part in _without(fine, coarse) for first in range(*part, size)
            ]
            minus += [
                (level, first) for part in _without(coarse, fine) for first in range(*part, size)
            ]
        starts = [start for start, _ in self._rounded(unit + 1)]
        since = tuple(map(min, starts, [*starts[1:], starts[-1]]))
        return Combination(self.sizes, tuple(plus), tuple(minus), since)

    def _rounded(self, unit: int) -> list[tuple[int, int]]:
        """The window that ends with this unit, rounded to whole nodes of each level."""
        start, end = max(unit - self.span, 0), unit
        if self.signed:
            return [
                ((start + size // 2) // size * size, (end + size // 2) // size * size)
                for size in self.sizes
            ]
        return [(-(-start // size) * size, end // size * size) for size in self.sizes]


def _without(here: tuple[int, int], there: tuple[int, int]) -> list[tuple[int, int]]:
    """The places of one stretch that are not in the other, as stretches."""
    if there[0] >= there[1]:
        return [here]
    return [(here[0], min(here[1], there[0])), (max(here[0], there[1]), here[1])]


def draws(span: int, arity: int, levels: int) -> Fraction:
    """The mean number of noises in the sum of a full window, for arity^(levels−1) ≤ span.

    The top level has span/k^(h−1). Every other level has (k² − 1)/4k at each end of the window.

    >>> draws(64, 11, 2)
    Fraction(124, 11)
    """
    return Fraction(span, arity ** (levels - 1)) + (levels - 1) * Fraction(arity**2 - 1, 2 * arity)


def cost(span: int, arity: int, levels: int) -> Fraction:
    """The mean squared error of a window's sum at ε = 1; each draw has variance 2·levels²."""
    return 2 * levels**2 * draws(span, arity, levels)


@lru_cache(maxsize=256)
def best(span: int, arity: int = 0) -> tuple[int, int]:
    """The arity (if 0, of all odd ones) and the number of levels with the least `cost`.

    With h > 1 levels the cost falls with the arity k while k^h·(1 + 1/k²) < 2·span, then it rises.

    >>> [best(span) for span in (24, 64, 256, 1024, 4096)]
    [(3, 1), (11, 2), (23, 2), (13, 3), (21, 3)]
    """
    choices = [(arity or 3, 1)]
    for levels in range(2, span.bit_length() + 1):
        arities = [arity] if arity else range(3, _root(2 * span, levels) + 3, 2)
        choices += [(each, levels) for each in arities if each ** (levels - 1) <= span]
    return min(choices, key=lambda choice: (cost(span, *choice), choice))


def _root(number: int, degree: int) -> int:
    """The largest r with r^degree ≤ number."""
    root: int = round(number ** (1 / degree))
    while root**degree > number:
        root -= 1
    while (root + 1) ** degree <= number:
        root += 1
    return root
