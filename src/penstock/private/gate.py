"""The gate: the only door between raw data and what anyone may see.

Every method charges the ledger first, which refuses before anything is drawn, then draws the noise, then hands out a
`Released`. What must stay secret between units (group sums, threshold noise, folded statistics) is kept here and saved
by `penstock.private.state` alone; a mechanism's own state holds released values only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from penstock.budget.grid import Budget, Budgets
from penstock.budget.ledger import Ledger
from penstock.core.arrays import BoolArray, IntArray
from penstock.core.errors import ConfigurationError, NoiseError
from penstock.core.guarantee import Guarantee
from penstock.core.private import Private, unseal, whole_numbers
from penstock.core.released import Released, Scale
from penstock.private.noise import Noise

MOST_COUNT = 2**50
"""No count may be larger, whatever the number of keys."""

MOST_HELD = 2**61
"""A counter that is fed more than this in one unit stays there: one more part still fits into int64."""

ROOM = 64
"""A noise scale must fit this often between a count's limit and the end of the range: passing it has chance e^-64 a draw."""


def limit(keys: int) -> int:
    """The largest count and released value for this many keys: their sums then stay far inside int64."""
    return min(MOST_COUNT, 2**60 // keys)


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
    """What a sparse-vector run pays for its threshold and for a question: its noise has scale sensitivity / price."""

    threshold: Budget
    question: Budget


@dataclass
class Fold:
    """A secret that a run's statistic is folded into, and the terms on which every unit in it was paid for."""

    secret: Any
    terms: tuple[int, int, int]
    asked: int = 0


def _terms(price: Price, sensitivity: int) -> tuple[int, int, int]:
    return price.threshold.quanta, price.question.quanta, sensitivity


@dataclass
class Secrets:
    """All that the gate keeps between units."""

    pots: dict[str, Pot] = field(default_factory=dict)
    folds: dict[str, Fold] = field(default_factory=dict)
    runs: dict[str, Thresholds] = field(default_factory=dict)


class Gate:
    """Charge, draw, hand out; over all keys at once."""

    def __init__(self, *, ledger: Ledger, noise: Noise, keys: int) -> None:
        self._ledger = ledger
        self._noise = noise
        self.private = noise.private
        self._limit = limit(keys)
        self._bases: dict[int, Fraction] = {}
        self._drawn: dict[str, int] = {}
        self._counters: dict[str, Counter] = {}
        self._secrets = Secrets()

    def __repr__(self) -> str:
        return f"<Gate at unit {self.unit}>"

    # -- units ---------------------------------------------------------------------------------------------------

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
        """The unit is over: no counter may be left standing, nor one that was looked into and not published."""
        for name, counter in self._counters.items():
            fate = "was looked into and must be read" if counter.disturbed else "must be read or forgotten"
            raise ConfigurationError(f"unit {self.unit}: counter {name!r} {fate} before the unit ends.")

    def spent(self, label: str) -> Budget:
        """What was charged under this label in the window that ends with this unit."""
        return self._ledger.spent(label)

    # -- noise now -----------------------------------------------------------------------------------------------

    def laplace(self, x: Private, *, epsilon: Budget | Budgets, label: str, where: BoolArray | None = None) -> Released:
        """`x` with discrete Laplace noise of scale sensitivity/ε; with `where` only there, zeros elsewhere.

        With `Budgets`, each number has its own scale, and those with a budget of 0 are left out.
        """
        self._fresh(x)
        if isinstance(epsilon, Budgets):
            chosen = epsilon.quanta > 0
            where = chosen if where is None else chosen & where
        where = self._mask(where, x)
        keys = None if where is None else x.cover.keys(where)
        scale = self._scale(x.sensitivity, epsilon)
        charge = epsilon if isinstance(epsilon, Budget) else replace(epsilon, quanta=x.cover.spread(epsilon.quanta))
        self._ledger.spend(charge, label, where=keys)
        return self._noisy(unseal(x), scale, label, where)

    def repeat(self, last: Released) -> Released:
        """The last release, standing for this unit too. Reads nothing, costs nothing."""
        return last.again(self.unit, private=self.private)

    def _mask(self, where: Any, x: Private) -> BoolArray | None:
        return None if where is None else self._mask_of(where, len(unseal(x)))

    def _mask_of(self, where: Any, size: int) -> BoolArray:
        """A mask of so many numbers, and nothing that NumPy would take for their places."""
        if isinstance(where, np.ndarray) and where.dtype == np.bool_ and where.shape == (size,):
            return where
        raise ConfigurationError(f"unit {self.unit}: `where` must be an array of {size} bools, one per number.")

    def _scale(self, sensitivity: int, epsilon: Budget | Budgets) -> Scale:
        base = self._base(sensitivity)
        quanta = epsilon.quanta
        least = quanta if isinstance(quanta, int) else int(np.min(quanta[quanta > 0], initial=np.iinfo(np.int64).max))
        if least <= 0:
            raise ConfigurationError(f"unit {self.unit}: a budget of 0 draws no noise and may read nothing.")
        if base.numerator * ROOM > self._limit * least * base.denominator:
            shown = f"{float(base / least):.3g}"
            raise NoiseError(f"unit {self.unit}: a noise scale of {shown} could overflow; give it more budget.")
        return Scale(base, quanta)

    def _base(self, sensitivity: int) -> Fraction:
        """The noise scale of one quantum."""
        base = self._bases.get(sensitivity)
        if base is None:
            base = self._bases[sensitivity] = sensitivity / self._ledger.grid.quantum
        return base

    def _noisy(self, raw: IntArray, scale: Scale, label: str, where: BoolArray | None) -> Released:
        if where is None:
            value = self._draw(scale, len(raw), label)
            value += raw
        else:
            value = np.zeros(len(raw), np.int64)
            parts = scale.parts
            chosen = scale if isinstance(parts, int) else Scale(scale.base, parts[where])
            value[where] = raw[where] + self._draw(chosen, int(np.count_nonzero(where)), label)
        return self._made(value, scale, repeated=False if where is None else ~where)

    def _made(self, value: IntArray, scale: Scale, *, repeated: bool | BoolArray = False, layers: int = 1) -> Released:
        """A release of this value, cut to the range that no sum of it can overflow (this almost never does anything)."""
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
        """Noise under a label that is used once in a unit, so that test noise repeats itself after a restart."""
        times = self._drawn[label] = self._drawn.get(label, 0) + 1
        if times > 1:
            label = f"{label}#{times}"
        if isinstance(scale.parts, int):
            exactly = _ratio(scale.base.numerator, scale.base.denominator * scale.parts)
            return self._noise.laplace(exactly, size, unit=self.unit, label=label, fresh=fresh)
        quanta, which = np.unique(scale.parts, return_inverse=True)
        scales = [scale.base / int(each) for each in quanta]
        return self._noise.laplace_each(scales, which.astype(np.int64), unit=self.unit, label=label, fresh=fresh)

    # -- read and pay now, release later -------------------------------------------------------------------------

    def hold(self, pot: str, x: Private, *, epsilon: Budget, where: BoolArray | None = None) -> None:
        """Add `x` to a pot and pay for it now; `pour` draws noise of scale sensitivity/ε once, over all that it holds."""
        self._fresh(x)
        self._scale(x.sensitivity, epsilon)
        where = self._mask(where, x)
        raw = unseal(x)
        held = self._secrets.pots.get(pot)
        if held is None:
            held = Pot(np.zeros(len(raw), np.int64), epsilon.quanta, x.sensitivity)
        elif (held.quanta, held.sensitivity) != (epsilon.quanta, x.sensitivity):
            raise ConfigurationError(
                f"unit {self.unit}: pot {pot!r} is held with one budget and one sensitivity; use another pot."
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
        held.total[where] = 0
        return released

    def drop(self, pot: str, *, where: BoolArray) -> None:
        """Empty the pot there without a release."""
        if pot in self._secrets.pots:
            total = self._pot(pot).total
            total[self._mask_of(where, len(total))] = 0

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
        """Fold the counts into the secret of a sparse-vector run per key, pay for that now, and give what to `ask` about.

        `fold(secret or None, counts)` gives the new secret, plain data, and a statistic of one whole number a key. Counts
        outside of `where` are given as 0 and not charged. One person's change of 1 in one unit may change the statistic of
        their key, now and until the fold starts over, by at most `stability`; it must start over when `ask` has answered
        yes. The mechanism's proof says why both hold. Nothing but that run may ask about the statistic, or release it.
        """
        self._fresh(x)
        where = self._mask(where, x)
        terms = _terms(price, x.sensitivity * stability)
        kept = self._secrets.folds.get(run)
        if kept is not None and kept.terms != terms:
            raise ConfigurationError(f"unit {self.unit}: fold {run!r} keeps its price and its sensitivity.")
        self._ledger.spend(price.threshold + price.question * 2, run, where=where)
        raw = unseal(x).copy()
        if where is not None:
            raw[~where] = 0
        secret, statistic = fold(None if kept is None else kept.secret, raw)
        self._secrets.folds[run] = Fold(secret, terms, 0 if kept is None else kept.asked)
        return Private(whole_numbers(statistic), sensitivity=x.sensitivity * stability, fold=run)

    def _fresh(self, x: Private) -> None:
        if x.fold:
            raise ConfigurationError(
                f"unit {self.unit}: this statistic was folded from earlier units too; only its run {x.fold!r} may ask about it."
            )

    # -- sparse vector -------------------------------------------------------------------------------------------

    def ask(
        self, run: str, statistic: Private, *, threshold: int | IntArray, price: Price, where: BoolArray | None = None
    ) -> BoolArray:
        """Whether the statistic reaches the threshold, both with noise; only the answer leaves.

        A statistic per key has a run per key: it ends with its first positive answer, the next question begins another,
        and every unit that is read is charged threshold + 2 questions (by `keep`, if it was folded). One number over all
        keys has one priced run until `close`, charged as the ledger's price says: each question reads this unit alone.
        """
        numbers = unseal(statistic)
        size = len(numbers)
        rho_scale = self._scale(statistic.sensitivity, price.threshold)
        nu_scale = self._scale(statistic.sensitivity, price.question)
        runs = self._secrets.runs.get(run)
        terms = _terms(price, statistic.sensitivity)
        where = self._mask(where, statistic)
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
                runs.number = self._ledger.open_and_ask(run, threshold=price.threshold, question=price.question)
            else:
                self._ledger.ask(runs.number)
        elif not statistic.fold:
            keys = None if where is None else statistic.cover.keys(where)
            self._ledger.spend(price.threshold + price.question * 2, run, where=keys)
        self._secrets.runs[run] = runs
        asked = np.ones(size, np.bool_) if where is None else where
        starting = asked & ~runs.open
        runs.noise[starting] = self._draw(rho_scale, int(np.count_nonzero(starting)), f"{run}.threshold")
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
        """A folded statistic was paid for by `keep`: for its own run, on those terms, for one question a unit."""
        kept = self._secrets.folds.get(run)
        if statistic.fold != (run if kept else ""):
            raise ConfigurationError(f"unit {self.unit}: run {run!r} asks about what was folded for it, or about no fold.")
        if kept is None:
            return
        if statistic.cover.every or kept.terms != terms or kept.asked == self.unit:
            raise ConfigurationError(
                f"unit {self.unit}: fold {run!r} pays for one question a unit about each key, at its own price and sensitivity."
            )
        kept.asked = self.unit

    def close(self, run: str, *, where: BoolArray | None = None) -> None:
        """End runs without a further question; their threshold noise is forgotten, and the fold if all of them end.

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

    # -- noise before data ---------------------------------------------------------------------------------------

    def prime(self, counter: str, *, epsilon: Budget, sensitivity: int, size: int, exposed: bool | None) -> None:
        """Start a counter with fresh noise of scale sensitivity/ε, before any of the unit's data are read.

        `exposed` None: pay now, because it will be read in any case. True: it may be looked into once, unannounced, and
        the ledger keeps room for that. False: a look into it is announced, and then it must be read (and paid for).
        """
        if counter in self._counters:
            raise ConfigurationError(f"unit {self.unit}: counter {counter!r} is primed already.")
        scale = self._scale(sensitivity, epsilon)
        if exposed is None:
            self._ledger.spend(epsilon, counter)
        elif exposed:
            self._ledger.expose(epsilon, counter)
        noise = self._draw(scale, size, f"{counter}.state", fresh=True)
        self._counters[counter] = Counter(noise, epsilon, sensitivity, scale, exposed is True, exposed is None)

    def primed(self, counter: str) -> Budget | None:
        """The budget that a counter of this unit was primed with, if it was."""
        held = self._counters.get(counter)
        return None if held is None else held.epsilon

    def count(self, counter: str, x: Private) -> None:
        """Add to a counter, in place: no sum without noise ever stands in memory."""
        self._fresh(x)
        held = self._counters[counter]
        if x.sensitivity != held.sensitivity:
            raise ConfigurationError(f"unit {self.unit}: counter {counter!r} was primed for another sensitivity.")
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
            raise ConfigurationError(f"unit {self.unit}: counter {counter!r} was looked into and must be read, not forgotten.")
        held.total.fill(0)
        del self._counters[counter]

    def disturb(self) -> None:
        """Somebody looked into the memory: add fresh noise to every counter, and see that each is read."""
        for name, held in self._counters.items():
            held.total += self._draw(held.scale, len(held.total), f"{name}.again", fresh=True)
            held.layers += 1
            held.disturbed = True

    @property
    def disturbed(self) -> bool:
        """Whether a counter of this unit was looked into."""
        return any(counter.disturbed for counter in self._counters.values())

    # -- saving --------------------------------------------------------------------------------------------------

    def save(self) -> Secrets:
        return self._secrets

    def load(self, secrets: Secrets, *, private: bool) -> None:
        """Go on with saved secrets; what test noise once touched is not private for ever."""
        self._secrets = secrets
        self.private = self.private and private

    def memory(self) -> dict[str, IntArray]:
        """What somebody who looks into this memory sees, copied: for the lab, where the data are synthetic."""
        seen = {f"counter {name}": counter.total.copy() for name, counter in self._counters.items()}
        seen |= {f"pot {name}": pot.total.copy() for name, pot in self._secrets.pots.items()}
        return seen
