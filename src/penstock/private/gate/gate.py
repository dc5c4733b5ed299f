"""`Gate`: noise now, and one object per way to keep a secret between units."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field, replace
from fractions import Fraction
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.budget.grid import Budget, Budgets
from penstock.budget.ledger import Ledger
from penstock.core.arrays import BoolArray
from penstock.core.cover import EACH
from penstock.core.exact import log_above, whole
from penstock.core.guarantee import Guarantee
from penstock.core.hierarchy import Hierarchy
from penstock.core.private import Private
from penstock.core.released import Released
from penstock.private.amplification import amplified
from penstock.private.gate.convolutions import Convolution, Convolutions
from penstock.private.gate.counters import Counters
from penstock.private.gate.limits import MAX_COUNT
from penstock.private.gate.pots import Pot, Pots
from penstock.private.gate.release_maker import ReleaseMaker
from penstock.private.gate.threshold_runs import Fold, ThresholdRuns, Thresholds
from penstock.private.gate.trees import TreeNodes, Trees
from penstock.private.noise import Noise
from penstock.private.noise.thinning import MAX_COUNT as MAX_THINNED

_MOVED = {
    **{name: f"pots.{name}" for name in ("hold", "pour", "drop")},
    **{name: f"runs.{name}" for name in ("keep", "ask", "close")},
    **{
        name: f"counters.{name}"
        for name in ("prime", "primed", "count", "read", "forget", "disturb", "disturbed")
    },
    "linear": "trees.window_sum",
    "convolve": "convolutions.weighted_sum",
}
"""Methods of `Gate` in version 0.1, and where they are now."""


@dataclass
class Secrets:
    """All that the gate keeps between units. `penstock.private.state` alone saves it."""

    pots: dict[str, Pot] = field(default_factory=dict)
    folds: dict[str, Fold] = field(default_factory=dict)
    runs: dict[str, Thresholds] = field(default_factory=dict)
    nodes: dict[str, TreeNodes] = field(default_factory=dict)
    convolutions: dict[str, Convolution] = field(default_factory=dict)


class Gate:
    """The only door between private counts and a release: charge, draw, release.

    Every method charges the ledger first. The ledger refuses before anything is drawn. Secrets that
    last longer than a call are kept here, one object per protocol: `pots`, `runs`, `counters`,
    `trees`, `convolutions`. A mechanism's own state holds released values only.

    Parameters
    ----------
    ledger : Ledger
        The ledger that is charged.
    noise : Noise
        The source of noise.
    keys : int
        The number of keys of the stream.

    >>> from penstock.private.noise import NoNoise
    >>> gate = Gate(ledger=Ledger(Guarantee("1", 1), keys=2), noise=NoNoise(), keys=2)
    >>> gate.begin(1)
    >>> half = gate.left // 2
    >>> gate.laplace(Private(np.array([3, 4]), sensitivity=1), epsilon=half, label="publish").value
    array([3, 4])
    >>> gate.spent("publish").epsilon
    Fraction(1, 2)
    """

    def __init__(self, *, ledger: Ledger, noise: Noise, keys: int) -> None:
        self.keys = keys
        """The number of keys of the stream. It is public."""
        self._ledger = ledger
        self._gaussian = ledger.grid.currency == "rho"
        self._maker = maker = ReleaseMaker(ledger=ledger, noise=noise, keys=keys)
        self.pots = Pots(maker)
        """Sums that are paid for when they are read and released later."""
        self.runs = ThresholdRuns(maker)
        """Questions whether numbers reach a threshold (sparse vector)."""
        self.counters = Counters(maker)
        """Counts that stand in memory on top of noise only (pan-private)."""
        self.trees = Trees(maker)
        """Window sums with the noise of tree nodes."""
        self.convolutions = Convolutions(maker)
        """Weighted sums over units with Gaussian noise."""

    def __repr__(self) -> str:
        return f"<Gate at unit {self.unit}>"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            new = _MOVED.get(name)
            if new is None:
                raise AttributeError(f"'Gate' object has no attribute {name!r}")
            text = f"gate.{name} is now gate.{new}. The old name works until the next version."
            warnings.warn(text, DeprecationWarning, stacklevel=2)
            return attrgetter(new)(self)

    # -- facts that anyone may know ----------------------------------------------------------------

    @property
    def unit(self) -> int:
        """The unit whose data are being read."""
        return self._ledger.unit

    @property
    def guarantee(self) -> Guarantee:
        """The promise that the ledger enforces."""
        return self._ledger.guarantee

    @property
    def private(self) -> bool:
        """Whether all noise so far was drawn from the system's randomness."""
        return self._maker.private

    @property
    def left(self) -> Budget:
        """The budget that is left in the window that ends with this unit."""
        return self._ledger.left

    def spent(self, label: str) -> Budget:
        """The charges under this label in the window that ends with this unit."""
        return self._ledger.spent(label)

    # -- noise now ---------------------------------------------------------------------------------

    def laplace(
        self, x: Private, *, epsilon: Budget | Budgets, label: str, where: BoolArray | None = None
    ) -> Released:
        """`x` with discrete Laplace noise of scale sensitivity/ε.

        Parameters
        ----------
        x : Private
            The numbers to release.
        epsilon : Budget or Budgets
            The charge. With `Budgets`, each number has its own scale, and a number with a budget of
            0 is left out.
        label : str
            The label of the charge.
        where : array of bool, optional
            The numbers that are read and charged; the others are released as 0. Default: all.
        """
        maker = self._maker
        raw = maker.check_fresh(x)
        charge = epsilon
        if isinstance(epsilon, Budgets):
            chosen = epsilon.quanta > 0
            where = chosen if where is None else chosen & where
            charge = replace(epsilon, quanta=x.cover.spread(epsilon.quanta))
        keys = None
        if where is not None:
            where = maker.mask_of(where, len(raw))
            keys = x.cover.keys(where)
        scale = maker.scale(x.sensitivity, epsilon)
        self._ledger.spend(charge, label, where=keys)
        return maker.noisy(raw, scale, label, where)

    def gaussian(
        self, x: Private, *, rho: Budget, label: str, where: BoolArray | None = None
    ) -> Released:
        """`x` with rounded Gaussian noise of variance sensitivity²/2ρ, under a promise with δ.

        Proof: docs/proofs/gaussian.md.

        Parameters
        ----------
        x : Private
            The numbers to release.
        rho : Budget
            The charge.
        label : str
            The label of the charge.
        where : array of bool, optional
            The numbers that are read and charged; the others are released as 0. Default: all.
        """
        maker = self._maker
        raw = maker.check_fresh(x)
        where = maker.mask(where, len(raw))
        noise = maker.gaussian(x.sensitivity, rho)
        self._ledger.spend(rho, label, where=None if where is None else x.cover.keys(where))
        return maker.noisy_gaussian(raw, noise, label, where)

    def noisy(
        self, x: Private, *, budget: Budget, label: str, where: BoolArray | None = None
    ) -> Released:
        """`x` with the noise of the promise: Gaussian if the promise has a δ, else Laplace.

        Parameters
        ----------
        x : Private
            The numbers to release.
        budget : Budget
            The charge, in the promise's currency.
        label : str
            The label of the charge.
        where : array of bool, optional
            The numbers that are read and charged; the others are released as 0. Default: all.
        """
        if self._gaussian:
            return self.gaussian(x, rho=budget, label=label, where=where)
        return self.laplace(x, epsilon=budget, label=label, where=where)

    def number(self, x: Private, *, budget: Budget, label: str) -> int:
        """The only number of `x` with the noise of the promise, for a decision.

        Parameters
        ----------
        x : Private
            A statistic of one number.
        budget : Budget
            The charge, in the promise's currency.
        label : str
            The label of the charge.
        """
        if self._gaussian:
            return self.gaussian(x, rho=budget, label=label).number
        maker = self._maker
        raw = maker.check_fresh(x)
        if len(raw) != 1:
            raise maker.error(f"a statistic of one number was expected, not of {len(raw)}.")
        scale = maker.scale(x.sensitivity, budget)
        self._ledger.spend(budget, label)
        return maker.noisy_number(raw, scale, label)

    def sampled(self, x: Private, *, keep: Fraction, epsilon: Budget, label: str) -> Released:
        """The number of events in `x` that are in a random sample, with noise.

        The noise has scale sensitivity/e′, with the e′ above ε that sampling affords (`amplified`).
        Divide by `keep` afterwards. Proof: docs/proofs/rg.md.

        Parameters
        ----------
        x : Private
            The counts to sample.
        keep : Fraction
            The probability with which each event is in the sample.
        epsilon : Budget
            The charge.
        label : str
            The label of the charge.
        """
        maker = self._maker
        raw = maker.check_fresh(x)
        afforded = amplified(epsilon, keep=keep, events=x.sensitivity)
        scale = maker.scale(x.sensitivity, afforded)
        self._ledger.spend(epsilon, label)
        counts, draw = np.minimum(raw, MAX_THINNED), maker.once(f"{label}.sample")
        sample = maker.noise.thin(counts, keep, unit=self.unit, label=draw)
        return maker.noisy(sample, scale, label, None)

    def split(
        self,
        x: Private,
        tree: Hierarchy,
        *,
        threshold: int,
        epsilon: Budget,
        label: str,
        kappa: int = 2,
    ) -> BoolArray:
        """Which nodes of the hierarchy are split, from the roots down; only these answers leave.

        A node at depth i with total c is split if its parent is and max(β − δ, c − i·δ) + DLap(λ) >
        β. Here β is the threshold, λ = (2κ − 1)/((κ − 1)·ε) times the sensitivity and δ = ⌈λ·ln κ⌉.
        A small total is split with probability 1/2κ at most. Numbers below 0 are taken for 0, so
        that no total is above its parent's. The whole tree costs ε once, whatever its height.
        Proof: docs/proofs/hierarchy.md.

        Parameters
        ----------
        x : Private
            The counts of the hierarchy's keys.
        tree : Hierarchy
            The hierarchy.
        threshold : int
            The total β above which a node is split.
        epsilon : Budget
            The charge.
        label : str
            The label of the charge.
        kappa : int
            The κ above, at least 2. Default: 2.
        """
        maker = self._maker
        raw = maker.check_fresh(x)
        if x.cover is not EACH or len(raw) != tree.size:
            raise maker.error("a hierarchy is split by the counts of its keys.")
        threshold = whole(threshold, name="threshold", least=-MAX_COUNT)
        kappa = whole(kappa, name="kappa", least=2)
        scale = maker.scale(x.sensitivity * Fraction(2 * kappa - 1, kappa - 1), epsilon)
        step = math.ceil(scale.base / epsilon.quanta * log_above(kappa))
        self._ledger.spend(epsilon, label)
        totals = tree.nodes.totals(np.maximum(raw, 0))
        scores = np.maximum(threshold - step, totals - tree.depths * step)
        scores[tree.inner] += maker.draw(scale, int(np.count_nonzero(tree.inner)), label)
        answer: BoolArray = tree.inner & (scores > threshold)
        for level in tree.slices[1:]:
            answer[level] &= answer[tree.parents[level]]
        return answer

    def repeat(self, last: Released) -> Released:
        """The last release, for this unit too. It reads nothing and costs nothing."""
        return last.again(self._ledger.unit, private=self._maker.private)

    # -- for the run and the lab -------------------------------------------------------------------

    def begin(self, unit: int) -> None:
        """Go on to the next unit."""
        self._maker.begin(unit)

    def end(self) -> None:
        """End the unit. Every counter must have been read or forgotten."""
        self.counters.end()

    def erase(self) -> None:
        """Forget all that past noise can be computed from (pan-private runs)."""
        self._maker.noise.erase()

    def save(self) -> Secrets:
        """The secrets themselves, not a copy."""
        folds, runs = self.runs.save()
        return Secrets(self.pots.save(), folds, runs, self.trees.save(), self.convolutions.save())

    def load(self, secrets: Secrets, *, private: bool) -> None:
        """Go on with saved secrets. A run with test noise is never private again."""
        self.pots.load(secrets.pots)
        self.runs.load(secrets.folds, secrets.runs)
        self.trees.load(secrets.nodes)
        self.convolutions.load(secrets.convolutions)
        self._maker.private = self.private and private

    def wipe(self) -> None:
        """Forget all secrets: nothing will ever be read or released again."""
        self.load(Secrets(), private=self.private)

    def memory(self) -> dict[str, Any]:
        """A copy of all that an intruder sees here: for the lab, where the data are synthetic."""
        holders = (
            self.counters,
            self.pots,
            self.runs,
            self.trees,
            self.convolutions,
            self._maker.noise,
        )
        return {name: held for holder in holders for name, held in holder.memory().items()}
