"""Threshold runs: the sparse vector technique, with the statistics that its runs fold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.budget.grid import Budget
from penstock.core.arrays import BoolArray, IntArray
from penstock.core.private import Private, unseal, whole_numbers
from penstock.private.gate.release_maker import ReleaseMaker


@dataclass(frozen=True, slots=True)
class Price:
    """What a run pays for its threshold and for each question. Noise has scale sensitivity/price.

    Parameters
    ----------
    threshold : Budget
        The price of the noise on the threshold.
    question : Budget
        The price of the noise on one question.

    Examples
    --------
    >>> from penstock import Laplace, Price
    >>> total = Laplace(epsilon="1").total
    >>> Price(threshold=total // 4, question=total // 8).question.epsilon
    Fraction(1, 8)
    """

    threshold: Budget
    question: Budget


@dataclass
class Thresholds:
    """The secret of the runs of one name: their noisy thresholds, one per key or one in all."""

    noise: IntArray
    open: BoolArray
    terms: tuple[int, int, int]
    number: int = 0


@dataclass
class Fold:
    """The secret that the statistic of a run is folded into, and the terms of its payments."""

    secret: Any
    terms: tuple[int, int, int]
    asked: int = 0


def _terms(price: Price, sensitivity: int) -> tuple[int, int, int]:
    return price.threshold.quanta, price.question.quanta, sensitivity


class ThresholdRuns:
    """Ask whether numbers reach a threshold; only the answers leave.

    Used by `pegasus` (`keep`, `ask`) and by `dsft` and `dsat` (`ask`). Proofs:
    docs/proofs/pegasus.md, docs/proofs/dsft.md.
    """

    def __init__(self, maker: ReleaseMaker) -> None:
        self._maker = maker
        self._folds: dict[str, Fold] = {}
        self._runs: dict[str, Thresholds] = {}

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
        """Fold the counts into the secret of a run per key, and pay for that now.

        Only that run may ask about the statistic that is returned, and nobody may release it.

        Parameters
        ----------
        run : str
            The name of the run, and the label of the charge.
        fold : callable
            `fold(secret or None, counts)` gives the new secret, plain data, and a statistic of one
            whole number per key. It must start over when `ask` has answered yes.
        x : Private
            The counts of this unit.
        price : Price
            The price of the run.
        stability : int
            One person's change of 1 in one unit changes the statistic of their key by at most
            this, now and until the fold starts over. The mechanism's proof says why.
        where : array of bool, optional
            The keys that are read and charged; other counts are given as 0. Default: all.
        """
        maker = self._maker
        raw = maker.check_fresh(x)
        maker.check_currency("epsilon")
        where = maker.mask(where, len(raw))
        terms = _terms(price, x.sensitivity * stability)
        kept = self._folds.get(run)
        if kept is not None and kept.terms != terms:
            raise maker.error(f"fold {run!r} keeps its price and its sensitivity.")
        keys = None if where is None else x.cover.keys(where)
        maker.ledger.spend(price.threshold + price.question * 2, run, where=keys)
        raw = raw.copy()
        if where is not None:
            raw[~where] = 0
        secret, statistic = fold(None if kept is None else kept.secret, raw)
        self._folds[run] = Fold(secret, terms, 0 if kept is None else kept.asked)
        return Private(
            whole_numbers(statistic), sensitivity=x.sensitivity * stability, fold=run, unit=x.unit
        )

    def ask(
        self,
        run: str,
        statistic: Private,
        *,
        threshold: int | IntArray,
        price: Price,
        where: BoolArray | None = None,
    ) -> BoolArray:
        """Whether the statistic reaches the threshold, both with noise.

        A statistic per key has a run per key. Such a run ends with its first positive answer, and
        the next question begins another. Every unit that is read is charged threshold + 2 questions
        (by `keep`, if it was folded). One number over all keys has one priced run until `close`;
        each question reads this unit alone and is charged by the ledger's price.

        Parameters
        ----------
        run : str
            The name of the run, and the label of the charge.
        statistic : Private
            One number per key, or one number over all keys.
        threshold : int or array of int
            The threshold, or one per number.
        price : Price
            The price of the run.
        where : array of bool, optional
            The numbers to ask about. Default: all.
        """
        maker = self._maker
        maker.check_unit(statistic)
        numbers = unseal(statistic)
        size = len(numbers)
        rho_scale = maker.scale(statistic.sensitivity, price.threshold)
        nu_scale = maker.scale(statistic.sensitivity, price.question)
        where = maker.mask(where, size)
        runs = self._runs_on(run, statistic, size, threshold, _terms(price, statistic.sensitivity))
        self._charge(run, runs, statistic, price, where)
        self._runs[run] = runs
        asked = np.ones(size, np.bool_) if where is None else where
        starting = asked & ~runs.open
        runs.noise[starting] = maker.draw(
            rho_scale, int(np.count_nonzero(starting)), f"{run}.threshold"
        )
        runs.open |= starting
        question = np.zeros(size, np.int64)
        question[asked] = maker.draw(nu_scale, int(np.count_nonzero(asked)), f"{run}.question")
        answer: BoolArray = asked & (numbers + question >= threshold + runs.noise)
        if not statistic.cover.every:
            runs.open &= ~answer
            runs.noise[answer] = 0
        elif answer[0]:
            maker.ledger.yes(runs.number)
        return answer

    def _runs_on(
        self,
        run: str,
        statistic: Private,
        size: int,
        threshold: int | IntArray,
        terms: tuple[int, int, int],
    ) -> Thresholds:
        """The runs of this name, if the question fits them; new ones before the first question."""
        maker, runs = self._maker, self._runs.get(run)
        if (statistic.cover.every and size != 1) or (runs is not None and len(runs.open) != size):
            raise maker.error(
                f"run {run!r} is about one number over all keys, or always about as many."
            )
        bounds = np.asarray(threshold)
        if bounds.dtype.kind not in "iu" or bounds.shape not in ((), (size,)):
            raise maker.error(
                f"a threshold is a whole number, or one for each of the {size} numbers."
            )
        self._check_fold(run, statistic, terms)
        if runs is None:
            return Thresholds(np.zeros(size, np.int64), np.zeros(size, np.bool_), terms)
        if runs.terms != terms:
            if runs.open.any():
                raise maker.error(
                    f"run {run!r} keeps its price and its sensitivity until it is closed."
                )
            runs.terms = terms
        return runs

    def _check_fold(self, run: str, statistic: Private, terms: tuple[int, int, int]) -> None:
        """`keep` pays for a folded statistic: for its run, on its terms, one question per unit."""
        kept, unit = self._folds.get(run), self._maker.unit
        if statistic.fold != (run if kept else ""):
            raise self._maker.error(
                f"run {run!r} asks about what was folded for it, or about no fold."
            )
        if kept is None:
            return
        if statistic.cover.every or kept.terms != terms or kept.asked == unit:
            raise self._maker.error(
                f"fold {run!r} pays for one question a unit about each key, "
                "at its own price and sensitivity."
            )
        kept.asked = unit

    def _charge(
        self, run: str, runs: Thresholds, x: Private, price: Price, where: BoolArray | None
    ) -> None:
        """Pay for a question, unless `keep` has."""
        ledger = self._maker.ledger
        if x.cover.every:
            if where is not None:
                raise self._maker.error("one number over all keys cannot be asked in part.")
            if runs.open[0]:
                ledger.ask(runs.number)
            else:
                runs.number = ledger.open_and_ask(
                    run, threshold=price.threshold, question=price.question
                )
        elif not x.fold:
            keys = None if where is None else x.cover.keys(where)
            ledger.spend(price.threshold + price.question * 2, run, where=keys)

    def close(self, run: str, *, where: BoolArray | None = None) -> None:
        """End runs without a further question, and forget their threshold noise.

        Parameters
        ----------
        run : str
            The name of the runs.
        where : array of bool, optional
            The keys whose runs end; a fold must then start over for them. Default: all runs end,
            and the fold is forgotten.
        """
        if where is None:
            self._folds.pop(run, None)
        runs = self._runs.get(run)
        if runs is None or not runs.open.any():
            return
        if runs.number:
            self._maker.ledger.close(runs.number)
            runs.number = 0
        ended = slice(None) if where is None else self._maker.mask_of(where, len(runs.open))
        runs.open[ended] = False
        runs.noise[ended] = 0

    def save(self) -> tuple[dict[str, Fold], dict[str, Thresholds]]:
        return self._folds, self._runs

    def load(self, folds: dict[str, Fold], runs: dict[str, Thresholds]) -> None:
        self._folds, self._runs = folds, runs

    def memory(self) -> dict[str, Any]:
        seen: dict[str, Any] = {f"fold {name}": fold.secret for name, fold in self._folds.items()}
        return seen | {f"threshold {name}": runs.noise.copy() for name, runs in self._runs.items()}
