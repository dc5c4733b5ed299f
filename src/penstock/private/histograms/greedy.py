"""`Greedy`: counts that look alike share their mean."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from penstock.budget.grid import Budget
from penstock.core.arrays import IntArray
from penstock.core.cover import Groups
from penstock.core.errors import ConfigurationError
from penstock.core.exact import Exact, exact
from penstock.core.grouping import stretches
from penstock.core.private import Private
from penstock.core.released import Released
from penstock.private.gate import Gate
from penstock.private.histograms.base import APART, PUBLISH

ORDER, TOTAL = f"{PUBLISH} order", f"{PUBLISH} total"
"""The labels of the draw that orders the keys, and of the groups' totals."""

_CLEARLY = 4
"""A total is drawn if its noise has this many times less variance than the sum of its counts."""


@dataclass(frozen=True, kw_only=True)
class Greedy:
    """Add noise to every count; keys that look alike share their mean.

    Half of `share`·ε orders the keys by noisy counts. Other noisy counts, for (1 − `share`)·ε, are
    put in that order. The largest stretches of it, by halving, whose counts spread little more than
    their noise become groups (`core.grouping.stretches`). A large group's total is drawn once more,
    with the other half of `share`·ε: for a tenth, groups of about 1,300 keys and more. A key's
    number is its part of its group's total, in whole numbers that add up to it; a key by itself
    keeps its count. All but the draws is post-processing.

    The release claims the noise of one count for every key. That is an upper bound for a group's
    keys, and for any sum of keys although they share their noise. No interval covers how far the
    counts of a group differ. Compared with `Plain`, a key in no group has 1/(1 − `share`) times the
    error; keys that differ by less than the noise have a fraction of it.

    Parameters
    ----------
    share : int, Fraction or str
        The share of ε for the order of the keys and the totals of groups, between 0 and 1. Default:
        0.1.

    Spends at most ε on any key. Proof: docs/proofs/greedy.md.

    >>> Greedy()
    Greedy(share=Fraction(1, 10))
    >>> from penstock.private.mechanisms.sample import Sample
    >>> run = Sample(epsilon="1", window=3, histogram=Greedy()).run(4, record=True)
    >>> released = run.step([9, 8, 700, 9])
    >>> [line.label for line in run.ledger], round(float(run.account().worst), 3)
    (['publish order', 'publish'], 0.95)

    References
    ----------
    Zhang et al., SDM 2014, for clusters of counts in the order of noisy ones.
    Departures: there, and in `penstock_bench.competitors.apb`, one draw gives both the order of the
    keys and the spread of a group. Counts that are neighbours because of their noise look alike and
    are not. Where counts spread evenly, that costs three times the error of plain noise and more.
    Here the spread comes from a draw of its own, which also serves keys that are in no group.
    """

    by_place: ClassVar[bool] = True
    """Equal counts, and what is left over when a total is shared out, go by the order of the keys.
    """

    share: Exact = "0.1"

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", exact(self.share, name="share"))
        if not 0 < exact(self.share) < 1:
            raise ConfigurationError(
                f"share must lie between 0 and 1, not {self.share}.", parameter="share"
            )

    def release(self, counts: Private, epsilon: Budget, gate: Gate) -> Released:
        half = epsilon.grid.floor(epsilon.epsilon * exact(self.share) / 2)
        first = gate.laplace(counts, epsilon=half, label=ORDER)
        noisy = gate.laplace(counts, epsilon=epsilon - half * 2, label=PUBLISH)
        order = np.argsort(first.value, kind="stable")
        groups = _groups(order, stretches(noisy.value[order], float(noisy.variance[0])))
        totals = groups.sums(noisy.value)
        large = (
            groups.sizes * noisy.variance[0] >= _CLEARLY * first.variance[0]
        )  # a total's own noise is as the first draw's
        if large.any():
            drawn = gate.laplace(counts.sums(groups), epsilon=half, label=TOTAL, where=large)
            totals = np.where(large, drawn.value, totals)
        off = np.where(large, first.variance[0], groups.sizes * noisy.variance[0])  # of totals
        apart = np.array([round(float(np.sqrt(off / 2).sum()))])
        return replace(noisy, value=shared_out(totals, groups), public={APART: apart})


def _groups(order: IntArray, starts: IntArray) -> Groups:
    """The keys in this order, cut at these places."""
    labels = np.empty(len(order), np.int64)
    labels[order] = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(order)))
    return Groups.from_labels(labels)


def shared_out(totals: IntArray, groups: Groups) -> IntArray:
    """Each key's part of its group's total: whole, adding up to it, and even along the keys.

    >>> shared_out(np.array([7, -1]), Groups.from_labels(np.array([0, 1, 0, 0, 0])))
    array([ 1, -1,  2,  2,  2])
    """
    sizes = np.repeat(groups.sizes, groups.sizes)
    places = np.arange(len(sizes)) - np.repeat(groups.starts, groups.sizes)
    whole, rest = np.divmod(np.repeat(totals, groups.sizes), sizes)
    parts = np.empty_like(whole)
    parts[groups.order] = whole + (places + 1) * rest // sizes - places * rest // sizes
    return parts
