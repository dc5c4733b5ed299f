"""The gate: the only door between raw data and what anyone may see.

Every method charges the ledger first, which refuses before anything is drawn, then draws the noise,
then hands out a `Released`. What must stay secret between units (group sums, threshold noise,
folded statistics) is kept here and saved by `penstock.private.state` alone; a mechanism's own state
holds released values only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from penstock.budget.grid import Budget, Budgets, Currency
from penstock.budget.ledger import Ledger
from penstock.core.arrays import BoolArray, IntArray
from penstock.core.cover import EACH
from penstock.core.errors import ConfigurationError, NoiseError
from penstock.core.exact import log_above, whole
from penstock.core.guarantee import Guarantee
from penstock.core.hierarchy import Hierarchy
from penstock.core.power_series import longest
from penstock.core.private import Private, unseal, whole_numbers
from penstock.core.released import Released, Scale
from penstock.core.weights import Weights
from penstock.private.amplification import amplified
from penstock.private.noise import Noise
from penstock.private.noise.gaussian import MAX_VARIANCE
from penstock.private.noise.thinning import MAX_COUNT

MOST_COUNT = 2**50
"""No count may be larger, whatever the number of keys."""

MOST_HELD = 2**61
"""A counter that is fed more than this in one unit stays there: one more part still fits into
int64.
"""

MOST_SUM = 2**60
"""What a convolution can come to: larger counts are taken for the largest that cannot pass it."""

ROOM = 64
"""A noise scale must fit this often between a count's limit and the end of the range: passing it
has chance e^-64 a draw.
"""


def limit(keys: int) -> int:
    """The largest count and released value for this many keys: their sums then stay far inside
    int64.
    """
    return min(MOST_COUNT, 2**60 // keys)


def affordable(epsilon: Budget, *, sensitivity: int, keys: int) -> bool:
    """Whether noise for this budget stays in the range of counts: what the gate would refuse in the
    middle of a stream.
    """
    return limit(keys) * epsilon.epsilon >= ROOM * sensitivity


@lru_cache(maxsize=4096)
def _ratio(numerator: int, denominator: int) -> Fraction:
    """The same few scales come again and again."""
    return Fraction(numerator, denominator)


@dataclass
class Pot:
    """Sums that were paid for when they were read and will be released, with noise, later or never."""

    total: IntArray
    quanta: int
    sensitivity: int


@dataclass
class Counter:
    """Counts that never stand in memory without noise: the noise was there first."""

    total: IntArray
    epsilon: Budget
    sensitivity: int
    scale: Scale
    exposed: bool
    paid: bool = False
    layers: int = 1
    disturbed: bool = False


@dataclass
class Thresholds:
    """The noisy thresholds of sparse-vector runs: one a key, or one in all."""

    noise: IntArray
    open: BoolArray
    terms: tuple[int, int, int]
    number: int = 0


@dataclass(frozen=True, slots=True)
class Price:
    """What a sparse-vector run pays for its threshold and for a question: its noise has scale
    sensitivity / price.
    """

    threshold: Budget
    question: Budget


@dataclass
class Fold:
    """A secret that a run's statistic is folded into, and the terms on which every unit in it was
    paid for.
    """

    secret: Any
    terms: tuple[int, int, int]
    asked: int = 0


Node: TypeAlias = tuple[int, int]
"""A level and a first place: the `size` units that follow, of the size that the level's nodes have.
Unit 1 is at place 0.
"""


@dataclass(frozen=True, slots=True)
class Combination:
    """Which nodes' noise a sum of units carries, with which sign: public, known from the unit's
    number alone.

    The nodes of a level lie side by side, from place 0 on. Each place must be in one more of `plus`
    than of `minus` if it is in the window, in as many of both if not. No node before `since` of its
    level will be named again.
    """

    sizes: tuple[int, ...]
    plus: tuple[Node, ...]
    minus: tuple[Node, ...]
    since: tuple[int, ...]


@dataclass
class TreeNodes:
    """The counts that a window still needs, and the noise of its nodes, drawn once each."""

    past: IntArray
    total: IntArray
    terms: tuple[int, int, tuple[int, ...]]
    since: tuple[int, ...]
    unit: int
    noise: dict[Node, IntArray] = field(default_factory=dict)


@dataclass
class Convolution:
    """The counts that sums over several units still need, oldest first, each paid for when it was
    read.
    """

    past: IntArray
    coefficients: IntArray
    terms: tuple[int, int]
    unit: int


def _terms(price: Price, sensitivity: int) -> tuple[int, int, int]:
    return price.threshold.quanta, price.question.quanta, sensitivity


@dataclass
class Secrets:
    """All that the gate keeps between units."""

    pots: dict[str, Pot] = field(default_factory=dict)
    folds: dict[str, Fold] = field(default_factory=dict)
    runs: dict[str, Thresholds] = field(default_factory=dict)
    nodes: dict[str, TreeNodes] = field(default_factory=dict)
    convolutions: dict[str, Convolution] = field(default_factory=dict)


class Gate:
    """Charge, draw, hand out; over all keys at once."""

    def __init__(self, *, ledger: Ledger, noise: Noise, keys: int) -> None:
        self._ledger = ledger
        self._noise = noise
        self.private = noise.private
        self.keys = keys
        """How many keys the stream has: public, as the domain is."""
        self._limit = limit(keys)
        self._bases: dict[int | Fraction, Fraction] = {}
        self._drawn: dict[str, int] = {}
        self._counters: dict[str, Counter] = {}
        self._variances: dict[tuple[int, int, bytes], int] = {}
        self._secrets = Secrets()

    def __repr__(self) -> str:
        return f"<Gate at unit {self.unit}>"

    # -- units -------------------------------------------------------------------------------------

    @property
    def unit(self) -> int:
        """The unit whose data are being read."""
        return self._ledger.unit

    @property
    def guarantee(self) -> Guarantee:
        return self._ledger.guarantee

    def begin(self, unit: int) -> None:
        """Go on to the next unit."""
        self._ledger.begin(unit)
        self._drawn.clear()

    def end(self) -> None:
        """The unit is over: no counter may be left standing, nor one that was looked into and not
        published.
        """
        for name, counter in self._counters.items():
            fate = (
                "was looked into and must be read"
                if counter.disturbed
                else "must be read or forgotten"
            )
            raise ConfigurationError(
                f"unit {self.unit}: counter {name!r} {fate} before the unit ends."
            )

    def spent(self, label: str) -> Budget:
        """What was charged under this label in the window that ends with this unit."""
        return self._ledger.spent(label)

    @property
    def left(self) -> Budget:
        """What the window that ends with this unit has left: public, as all charges are."""
        return self._ledger.left

    # -- noise now ---------------------------------------------------------------------------------

    def laplace(
        self, x: Private, *, epsilon: Budget | Budgets, label: str, where: BoolArray | None = None
    ) -> Released:
        """`x` with discrete Laplace noise of scale sensitivity/ε; with `where` only there, zeros
        elsewhere.

        With `Budgets`, each number has its own scale, and those with a budget of 0 are left out.
        """
        self._fresh(x)
        if isinstance(epsilon, Budgets):
            chosen = epsilon.quanta > 0
            where = chosen if where is None else chosen & where
        where = self._mask(where, x)
        keys = None if where is None else x.cover.keys(where)
        scale = self._scale(x.sensitivity, epsilon)
        charge = (
            epsilon
            if isinstance(epsilon, Budget)
            else replace(epsilon, quanta=x.cover.spread(epsilon.quanta))
        )
        self._ledger.spend(charge, label, where=keys)
        return self._noisy(unseal(x), scale, label, where)

    def sampled(self, x: Private, *, keep: Fraction, epsilon: Budget, label: str) -> Released:
        """How many of the events in `x` are in a sample that keeps each with chance `keep`, with
        noise, for ε.

        The noise has scale sensitivity/e′, with the e′ above ε that sampling affords (`amplified`);
        dividing by `keep` comes after it. Proof: docs/proofs/rg.md.
        """
        self._fresh(x)
        scale = self._scale(x.sensitivity, amplified(epsilon, keep=keep, events=x.sensitivity))
        self._ledger.spend(epsilon, label)
        counts = np.minimum(unseal(x), MAX_COUNT)
        sample = self._noise.thin(counts, keep, unit=self.unit, label=self._once(f"{label}.sample"))
        return self._noisy(sample, scale, label, None)

    def repeat(self, last: Released) -> Released:
        """The last release, standing for this unit too. Reads nothing, costs nothing."""
        return last.again(self.unit, private=self.private)

    def _mask(self, where: Any, x: Private) -> BoolArray | None:
        return None if where is None else self._mask_of(where, len(unseal(x)))

    def _mask_of(self, where: Any, size: int) -> BoolArray:
        """A mask of so many numbers, and nothing that NumPy would take for their places."""
        if isinstance(where, np.ndarray) and where.dtype == np.bool_ and where.shape == (size,):
            return where
        raise ConfigurationError(
            f"unit {self.unit}: `where` must be an array of {size} bools, one per number."
        )

    def _scale(self, sensitivity: int | Fraction, epsilon: Budget | Budgets) -> Scale:
        base = self._base(sensitivity)
        quanta = epsilon.quanta
        least = (
            quanta
            if isinstance(quanta, int)
            else int(np.min(quanta[quanta > 0], initial=np.iinfo(np.int64).max))
        )
        if least <= 0:
            raise ConfigurationError(
                f"unit {self.unit}: a budget of 0 draws no noise and may read nothing."
            )
        if base.numerator * ROOM > self._limit * least * base.denominator:
            shown = f"{float(base / least):.3g}"
            raise NoiseError(
                f"unit {self.unit}: a noise scale of {shown} could overflow; give it more budget."
            )
        return Scale(base, quanta)

    def _base(self, sensitivity: int | Fraction) -> Fraction:
        """The noise scale of one quantum."""
        base = self._bases.get(sensitivity)
        if base is None:
            self._counts_in("epsilon")
            base = self._bases[sensitivity] = sensitivity / self._ledger.grid.quantum
        return base

    def _noisy(self, raw: IntArray, scale: Scale, label: str, where: BoolArray | None) -> Released:
        if where is None:
            value = self._draw(scale, len(raw), label)
            value += raw
        else:
            value = np.zeros(len(raw), np.int64)
            (places,) = where.nonzero()  # much faster than a mask without a pattern
            parts = scale.parts
            chosen = scale if isinstance(parts, int) else Scale(scale.base, parts[places])
            noisy = self._draw(chosen, len(places), label)
            noisy += raw.take(places)
            value[places] = noisy
        return self._made(value, scale, repeated=False if where is None else ~where)

    def _made(
        self, value: IntArray, scale: Scale, *, repeated: bool | BoolArray = False, layers: int = 1
    ) -> Released:
        """A release of this value, cut to the range that no sum of it can overflow (this almost
        never does anything).
        """
        np.minimum(value, self._limit, out=value)
        np.maximum(value, -self._limit, out=value)
        return Released(
            unit=self.unit,
            value=value,
            scale=scale,
            guarantee=self.guarantee,
            private=self.private,
            repeated=repeated,
            layers=layers,
        )

    def _draw(self, scale: Scale, size: int, label: str, *, fresh: bool = False) -> IntArray:
        """Noise under a label that is used once in a unit, so that test noise repeats itself after
        a restart.
        """
        label = self._once(label)
        if isinstance(scale.parts, int):
            exactly = _ratio(scale.base.numerator, scale.base.denominator * scale.parts)
            return self._noise.laplace(exactly, size, unit=self.unit, label=label, fresh=fresh)
        quanta, which = np.unique(scale.parts, return_inverse=True)
        scales = [scale.base / int(each) for each in quanta]
        return self._noise.laplace_each(
            scales, which.astype(np.int64), unit=self.unit, label=label, fresh=fresh
        )

    def _once(self, label: str) -> str:
        """The label, with a number if it was used in this unit before."""
        times = self._drawn[label] = self._drawn.get(label, 0) + 1
        return label if times == 1 else f"{label}#{times}"

    # -- read and pay now, release later -----------------------------------------------------------

    def hold(
        self, pot: str, x: Private, *, epsilon: Budget, where: BoolArray | None = None
    ) -> None:
        """Add `x` to a pot and pay for it now; `pour` draws noise of scale sensitivity/ε once, over
        all that it holds.
        """
        self._fresh(x)
        self._scale(x.sensitivity, epsilon)
        where = self._mask(where, x)
        raw = unseal(x)
        held = self._secrets.pots.get(pot)
        if held is None:
            held = Pot(np.zeros(len(raw), np.int64), epsilon.quanta, x.sensitivity)
        elif (held.quanta, held.sensitivity, len(held.total)) != (
            epsilon.quanta,
            x.sensitivity,
            len(raw),
        ):
            raise ConfigurationError(
                f"unit {self.unit}: pot {pot!r} is held with one budget, one sensitivity and one size; use another pot."
            )
        self._ledger.spend(epsilon, pot, where=None if where is None else x.cover.keys(where))
        self._secrets.pots[pot] = held
        if where is None:
            held.total += raw
        else:
            held.total[where] += raw[where]
        np.minimum(held.total, self._limit, out=held.total)

    def pour(self, pot: str, *, where: BoolArray) -> Released:
        """Release what the pot holds there, and empty it there. It was paid for when it was held."""
        held = self._pot(pot)
        where = self._mask_of(where, len(held.total))
        scale = Scale(self._base(held.sensitivity), held.quanta)
        released = self._noisy(held.total, scale, pot, where)
        held.total *= ~where
        return released

    def drop(self, pot: str, *, where: BoolArray) -> None:
        """Empty the pot there without a release."""
        if pot in self._secrets.pots:
            total = self._pot(pot).total
            total *= ~self._mask_of(where, len(total))

    def _pot(self, pot: str) -> Pot:
        held = self._secrets.pots.get(pot)
        if held is None:
            raise ConfigurationError(f"unit {self.unit}: there is no pot {pot!r}.")
        return held

    def keep(
        self,
        run: str,
        fold: Callable[[Any, IntArray], tuple[Any, IntArray]],
        x: Private,
        *,
        price: Price,
        stability: int,
        where: BoolArray | None = None,
    ) -> Private:
        """Fold the counts into the secret of a sparse-vector run per key, pay for that now, and
        give what to `ask` about.

        `fold(secret or None, counts)` gives the new secret, plain data, and a statistic of one
        whole number a key. Counts outside of `where` are given as 0 and not charged. One person's
        change of 1 in one unit may change the statistic of their key, now and until the fold starts
        over, by at most `stability`; it must start over when `ask` has answered yes. The
        mechanism's proof says why both hold. Nothing but that run may ask about the statistic, or
        release it.
        """
        self._fresh(x)
        self._counts_in("epsilon")
        where = self._mask(where, x)
        terms = _terms(price, x.sensitivity * stability)
        kept = self._secrets.folds.get(run)
        if kept is not None and kept.terms != terms:
            raise ConfigurationError(
                f"unit {self.unit}: fold {run!r} keeps its price and its sensitivity."
            )
        keys = None if where is None else x.cover.keys(where)
        self._ledger.spend(price.threshold + price.question * 2, run, where=keys)
        raw = unseal(x).copy()
        if where is not None:
            raw[~where] = 0
        secret, statistic = fold(None if kept is None else kept.secret, raw)
        self._secrets.folds[run] = Fold(secret, terms, 0 if kept is None else kept.asked)
        return Private(
            whole_numbers(statistic), sensitivity=x.sensitivity * stability, fold=run, unit=x.unit
        )

    def _fresh(self, x: Private) -> None:
        self._of_now(x)
        if x.fold:
            raise ConfigurationError(
                f"unit {self.unit}: this statistic was folded from earlier units too; only its run {x.fold!r} may ask about it."
            )

    def _of_now(self, x: Private) -> None:
        """Refuse what was kept from an earlier unit: this one would pay for it."""
        if x.unit not in (0, self.unit):
            raise ConfigurationError(
                f"unit {self.unit}: these numbers are of unit {x.unit}, to be read in that unit or never."
            )

    # -- sparse vector -----------------------------------------------------------------------------

    def ask(
        self,
        run: str,
        statistic: Private,
        *,
        threshold: int | IntArray,
        price: Price,
        where: BoolArray | None = None,
    ) -> BoolArray:
        """Whether the statistic reaches the threshold, both with noise; only the answer leaves.

        A statistic per key has a run per key: it ends with its first positive answer, the next
        question begins another, and every unit that is read is charged threshold + 2 questions (by
        `keep`, if it was folded). One number over all keys has one priced run until `close`,
        charged as the ledger's price says: each question reads this unit alone.
        """
        self._of_now(statistic)
        numbers = unseal(statistic)
        size = len(numbers)
        rho_scale = self._scale(statistic.sensitivity, price.threshold)
        nu_scale = self._scale(statistic.sensitivity, price.question)
        runs = self._secrets.runs.get(run)
        terms = _terms(price, statistic.sensitivity)
        where = self._mask(where, statistic)
        if (statistic.cover.every and size != 1) or (runs is not None and len(runs.open) != size):
            raise ConfigurationError(
                f"unit {self.unit}: run {run!r} is about one number over all keys, or always about as many."
            )
        bounds = np.asarray(threshold)
        if bounds.dtype.kind not in "iu" or bounds.shape not in ((), (size,)):
            raise ConfigurationError(
                f"unit {self.unit}: a threshold is a whole number, or one for each of the {size} numbers."
            )
        self._check_fold(run, statistic, terms)
        if runs is None:
            runs = Thresholds(np.zeros(size, np.int64), np.zeros(size, np.bool_), terms)
        elif runs.terms != terms:
            if runs.open.any():
                raise ConfigurationError(
                    f"unit {self.unit}: run {run!r} keeps its price and its sensitivity until it is closed."
                )
            runs.terms = terms
        if statistic.cover.every:
            if where is not None:
                raise ConfigurationError("one number over all keys cannot be asked in part.")
            if not runs.open[0]:
                runs.number = self._ledger.open_and_ask(
                    run, threshold=price.threshold, question=price.question
                )
            else:
                self._ledger.ask(runs.number)
        elif not statistic.fold:
            keys = None if where is None else statistic.cover.keys(where)
            self._ledger.spend(price.threshold + price.question * 2, run, where=keys)
        self._secrets.runs[run] = runs
        asked = np.ones(size, np.bool_) if where is None else where
        starting = asked & ~runs.open
        runs.noise[starting] = self._draw(
            rho_scale, int(np.count_nonzero(starting)), f"{run}.threshold"
        )
        runs.open |= starting
        question = np.zeros(size, np.int64)
        question[asked] = self._draw(nu_scale, int(np.count_nonzero(asked)), f"{run}.question")
        answer: BoolArray = asked & (numbers + question >= threshold + runs.noise)
        if not statistic.cover.every:
            runs.open &= ~answer
            runs.noise[answer] = 0
        elif answer[0]:
            self._ledger.yes(runs.number)
        return answer

    def _check_fold(self, run: str, statistic: Private, terms: tuple[int, int, int]) -> None:
        """A folded statistic was paid for by `keep`: for its own run, on those terms, for one
        question a unit.
        """
        kept = self._secrets.folds.get(run)
        if statistic.fold != (run if kept else ""):
            raise ConfigurationError(
                f"unit {self.unit}: run {run!r} asks about what was folded for it, or about no fold."
            )
        if kept is None:
            return
        if statistic.cover.every or kept.terms != terms or kept.asked == self.unit:
            raise ConfigurationError(
                f"unit {self.unit}: fold {run!r} pays for one question a unit about each key, at its own price and sensitivity."
            )
        kept.asked = self.unit

    def close(self, run: str, *, where: BoolArray | None = None) -> None:
        """End runs without a further question; their threshold noise is forgotten, and the fold if
        all of them end.

        A fold that goes on for other keys must start over for those in `where`.
        """
        if where is None:
            self._secrets.folds.pop(run, None)
        runs = self._secrets.runs.get(run)
        if runs is None or not runs.open.any():
            return
        if runs.number:
            self._ledger.close(runs.number)
            runs.number = 0
        ended = slice(None) if where is None else self._mask_of(where, len(runs.open))
        runs.open[ended] = False
        runs.noise[ended] = 0

    # -- a tree from its roots down ----------------------------------------------------------------

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
        β, where β is the threshold, λ = (2κ − 1)/((κ − 1)·ε) times the sensitivity and δ = ⌈λ·ln
        κ⌉, with κ ≥ 2: a small total is split with chance 1/2κ at most. Numbers below 0 are taken
        for 0, so that no total is above its parent's. All of it costs ε once, whatever the height.
        Proof: docs/proofs/hierarchy.md.
        """
        self._fresh(x)
        if x.cover is not EACH or len(unseal(x)) != tree.size:
            raise ConfigurationError(
                f"unit {self.unit}: a hierarchy is split by the counts of its keys."
            )
        threshold, kappa = (
            whole(threshold, name="threshold", least=-MOST_COUNT),
            whole(kappa, name="kappa", least=2),
        )
        scale = self._scale(x.sensitivity * Fraction(2 * kappa - 1, kappa - 1), epsilon)
        step = math.ceil(scale.base / epsilon.quanta * log_above(kappa))
        self._ledger.spend(epsilon, label)
        totals = tree.nodes.totals(np.maximum(unseal(x), 0))
        scores = np.maximum(threshold - step, totals - tree.depths * step)
        scores[tree.inner] += self._draw(scale, int(np.count_nonzero(tree.inner)), label)
        answer: BoolArray = tree.inner & (scores > threshold)
        for level in tree.slices[1:]:
            answer[level] &= answer[tree.parents[level]]
        return answer

    # -- noise before data -------------------------------------------------------------------------

    def prime(
        self, counter: str, *, epsilon: Budget, sensitivity: int, size: int, exposed: bool | None
    ) -> None:
        """Start a counter with fresh noise of scale sensitivity/ε, before any of the unit's data
        are read.

        `exposed` None: pay now, because it will be read in any case. True: it may be looked into
        once, unannounced, and the ledger keeps room for that. False: a look into it is announced,
        and then it must be read (and paid for).
        """
        if counter in self._counters:
            raise ConfigurationError(f"unit {self.unit}: counter {counter!r} is primed already.")
        scale = self._scale(sensitivity, epsilon)
        if exposed is None:
            self._ledger.spend(epsilon, counter)
        elif exposed:
            self._ledger.expose(epsilon, counter)
        noise = self._draw(scale, size, f"{counter}.state", fresh=True)
        self._counters[counter] = Counter(
            noise, epsilon, sensitivity, scale, exposed is True, exposed is None
        )

    def primed(self, counter: str) -> Budget | None:
        """The budget that a counter of this unit was primed with, if it was."""
        held = self._counters.get(counter)
        return None if held is None else held.epsilon

    def count(self, counter: str, x: Private) -> None:
        """Add to a counter, in place: no sum without noise ever stands in memory."""
        self._fresh(x)
        held = self._counters[counter]
        if (x.sensitivity, len(unseal(x))) != (held.sensitivity, len(held.total)):
            raise ConfigurationError(
                f"unit {self.unit}: counter {counter!r} was primed for another sensitivity or size."
            )
        held.total += unseal(x)
        np.minimum(held.total, MOST_HELD, out=held.total)

    def read(self, counter: str, *, again: bool) -> Released:
        """Release a counter, pay for it if `prime` did not, and forget it.

        `again` adds fresh noise, so that output minus memory is not exact.
        """
        held = self._counters[counter]
        if not held.paid:
            self._ledger.spend(held.epsilon, counter, settle=held.exposed)
        del self._counters[counter]
        value = held.total
        if again:
            value += self._draw(held.scale, len(value), f"{counter}.output", fresh=True)
        return self._made(value, held.scale, layers=held.layers + again)

    def forget(self, counter: str) -> None:
        """Wipe a counter that was not looked into."""
        held = self._counters[counter]
        if held.disturbed:
            raise ConfigurationError(
                f"unit {self.unit}: counter {counter!r} was looked into and must be read, not forgotten."
            )
        held.total.fill(0)
        del self._counters[counter]

    def disturb(self) -> None:
        """Somebody looked into the memory: add fresh noise to every counter, and see that each is
        read.
        """
        for name, held in self._counters.items():
            held.total += self._draw(held.scale, len(held.total), f"{name}.again", fresh=True)
            held.layers += 1
            held.disturbed = True

    def linear(
        self, label: str, x: Private, *, epsilon: Budget, span: int, nodes: Combination
    ) -> Released:
        """The sum of the last `span` units, with the noise of some nodes added and of others taken
        away.

        A node's noise has scale levels * sensitivity/ε, is drawn when it is first named and kept
        until its level's `since` has passed it. It stands for the node's sum over the whole stream,
        so a node may be named before its units are over. Must be called in every unit, for one
        label always with the same budget, span and sizes. Proof: docs/proofs/kary.md.
        """
        self._fresh(x)
        raw = unseal(x)
        scale = self._scale(x.sensitivity * len(nodes.sizes), epsilon)
        terms = (epsilon.quanta, x.sensitivity, nodes.sizes)
        held = self._secrets.nodes.get(label)
        if held is None:
            empty = np.zeros((span, len(raw)), np.int64)
            held = TreeNodes(
                empty, np.zeros(len(raw), np.int64), terms, (0,) * len(nodes.sizes), self.unit - 1
            )
        if (held.terms, held.past.shape, held.unit) != (terms, (span, len(raw)), self.unit - 1):
            raise ConfigurationError(
                f"unit {self.unit}: {label!r} reads every unit once, with one budget, sensitivity, span and set of sizes."
            )
        self._check_nodes(label, span, nodes, held)
        self._ledger.spend(epsilon, label)
        self._secrets.nodes[label] = held
        row = held.past[self.unit % span]
        held.total -= row
        np.minimum(raw, MOST_HELD // span, out=row)
        held.total += row
        named = (*nodes.plus, *nodes.minus)
        fresh = [node for node in named if node not in held.noise]
        if fresh:
            drawn = self._draw(scale, len(fresh) * len(raw), label).reshape(len(fresh), len(raw))
            held.noise.update((node, each.copy()) for node, each in zip(fresh, drawn, strict=True))
        value = held.total.copy()
        for node in nodes.plus:
            value += held.noise[node]
        for node in nodes.minus:
            value -= held.noise[node]
        for level, size in enumerate(nodes.sizes):
            for first in range(held.since[level], nodes.since[level], size):
                held.noise.pop((level, first), None)
        held.since, held.unit = nodes.since, self.unit
        return replace(self._made(value, scale, layers=len(named)), weights=Weights.window(span))

    def _check_nodes(self, label: str, span: int, nodes: Combination, held: TreeNodes) -> None:
        """The signed nodes add up to the window, each is named once, and none was forgotten before."""
        edges: dict[int, int] = {max(self.unit - span, 0): -1, self.unit: 1}
        named = [(node, 1) for node in nodes.plus] + [(node, -1) for node in nodes.minus]
        right = len({node for node, _ in named}) == len(named)
        for (level, first), sign in named:
            size = nodes.sizes[level]
            right = right and level >= 0 and first % size == 0 and first >= held.since[level]
            edges[first] = edges.get(first, 0) + sign
            edges[first + size] = edges.get(first + size, 0) - sign
        for before, after, size in zip(held.since, nodes.since, nodes.sizes, strict=True):
            right = right and after >= before and after % size == 0
        if not right or any(edges.values()):
            raise ConfigurationError(
                f"unit {self.unit}: the nodes of {label!r} do not add up to the last {span} units."
            )

    # -- Gaussian noise, in a ledger of rho --------------------------------------------------------

    def convolve(
        self, label: str, x: Private, *, coefficients: IntArray, rho: Budget, anew: bool = False
    ) -> Released:
        """Σ_j coefficients[j]·(x of j units ago), with rounded Gaussian noise; before the first
        unit, x was 0.

        Must be called in every unit from its first on, for one label always with the same budget
        and coefficients; `anew` forgets the units before this one. A person in all w units of a
        window changes all these sums together by at most the length that `longest` gives for w
        shifts, and pays w·ρ for that. Proof: docs/proofs/toeplitz.md.
        """
        self._fresh(x)
        self._counts_in("rho")
        variance = self._variance(x.sensitivity, coefficients, rho)
        most = MOST_SUM // int(np.abs(coefficients).sum())
        raw = np.minimum(unseal(x), most)
        terms = (rho.quanta, x.sensitivity)
        held = self._secrets.convolutions.get(label)
        if held is None:
            held = Convolution(
                np.zeros((0, len(raw)), np.int64), coefficients.copy(), terms, self.unit - 1
            )
        if (held.terms, held.unit) != (terms, self.unit - 1) or not np.array_equal(
            held.coefficients, coefficients
        ):
            raise ConfigurationError(
                f"unit {self.unit}: {label!r} reads every unit once, with one budget, one sensitivity, the same coefficients."
            )
        self._ledger.spend(rho, label)
        past = held.past[len(held.past) if anew else 0 :]
        value = coefficients[0] * raw
        if len(past):
            value += np.einsum("i,ij->j", coefficients[len(past) : 0 : -1], past)
        kept = max(len(coefficients) - 2, 0)
        held.past = np.concatenate([past[max(len(past) - kept, 0) :], raw[np.newaxis]])[
            : len(coefficients) - 1
        ]
        held.unit = self.unit
        self._secrets.convolutions[label] = held
        value += self._noise.gaussian(
            Fraction(variance), len(raw), unit=self.unit, label=self._once(label)
        )
        np.clip(value, -2 * MOST_SUM, 2 * MOST_SUM, out=value)
        return Released(
            unit=self.unit,
            value=value,
            scale=Scale(
                Fraction(math.isqrt(variance) + 1)
            ),  # its square is above variance + 1/12, which rounding adds
            guarantee=self.guarantee,
            private=self.private,
            kind="gaussian",
        )

    def _variance(self, sensitivity: int, coefficients: IntArray, rho: Budget) -> int:
        """The least whole σ² with sensitivity²·length²/2σ² ≤ w·ρ."""
        key = (sensitivity, rho.quanta, coefficients.tobytes())
        found = self._variances.get(key)
        if found is None:
            total = (
                int(np.abs(coefficients).sum())
                if coefficients.dtype == np.int64 and coefficients.ndim == 1
                else 0
            )
            if not 0 < total <= 2**30:
                raise ConfigurationError(
                    f"unit {self.unit}: coefficients must be a row of int64, of 1 to 2**30 in all."
                )
            if not rho:
                raise ConfigurationError(
                    f"unit {self.unit}: a budget of 0 draws no noise and may read nothing."
                )
            window = self.guarantee.window
            found = math.ceil(
                sensitivity**2 * longest(coefficients, window) / (2 * window * rho.amount)
            )
            if found > MAX_VARIANCE:
                shown = f"{math.isqrt(found):.3g}"
                raise NoiseError(
                    f"unit {self.unit}: a standard deviation of {shown} could overflow; give it more budget."
                )
            self._variances = {key: found}
        return found

    def _counts_in(self, currency: Currency) -> None:
        """Refuse noise of the other kind: a ledger of ρ promises ε and δ for Gaussian noise alone
        (`budget.zcdp`).
        """
        if self._ledger.grid.currency != currency:
            raise ConfigurationError(
                f"unit {self.unit}: the ledger counts {self._ledger.grid.currency}, and this noise is paid for in {currency}."
            )

    @property
    def disturbed(self) -> bool:
        """Whether a counter of this unit was looked into."""
        return any(counter.disturbed for counter in self._counters.values())

    # -- saving ------------------------------------------------------------------------------------

    def save(self) -> Secrets:
        return self._secrets

    def wipe(self) -> None:
        """Forget all secrets: nothing will ever be read or released again."""
        self._secrets = Secrets()

    def load(self, secrets: Secrets, *, private: bool) -> None:
        """Go on with saved secrets; what test noise once touched is not private for ever."""
        self._secrets = secrets
        self.private = self.private and private

    def memory(self) -> dict[str, IntArray]:
        """What somebody who looks into this memory sees, copied: for the lab, where the data are
        synthetic.
        """
        seen = {f"counter {name}": counter.total.copy() for name, counter in self._counters.items()}
        seen |= {f"pot {name}": pot.total.copy() for name, pot in self._secrets.pots.items()}
        seen |= {f"nodes {name}": nodes.past.copy() for name, nodes in self._secrets.nodes.items()}
        seen |= {
            f"convolution {name}": each.past.copy()
            for name, each in self._secrets.convolutions.items()
        }
        return seen
