"""A check that every draw of noise was paid for in the ledger."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from penstock.budget.ledger import Line
from penstock.core.arrays import IntArray
from penstock.core.private import Private
from penstock.core.released import Released
from penstock.lab.checks.base import AnyMechanism, failure
from penstock.lab.checks.streams import restless
from penstock.private.run import Run
from penstock.testing import RecordingNoise, TestNoise

Costs: TypeAlias = defaultdict[str, Fraction]
"""Amounts by label."""

MAX_WINDOW_WITH_ALL_SIGNS = 8
"""Up to this window all signs of a person's events are tried; above it a bound is used."""


def check_noise_is_what_was_paid_for(cls: AnyMechanism, *, quick: bool = False) -> None:
    """The noise is what the ledger says was paid for.

    A recorder at the noise source compares every draw with the ledger lines of its unit. Laplace
    noise of scale s on counts of which one person changes at most L costs at least L/s. Gaussian
    noise of variance v costs L²/2v. For the sums of a convolution, let D be the length of the
    largest vector by which a person's w units change all sums. The noise costs D²/2v, and each of
    the w units pays the same part of it.
    """
    for contribution in (1, 3):
        recorder = RecordingNoise(TestNoise(11))
        run = cls(epsilon="1", window=3, contribution=contribution).run(
            6, noise=recorder, record=True
        )
        read, lengths = _watch_reads(run), watch_convolutions(run)
        for unit, counts in enumerate(restless(6, 12 if quick else 40, seed=5), start=1):
            recorder.draws.clear()
            recorder.gaussians.clear()
            read.clear()
            lines = len(run.ledger)
            run.step(counts)
            drawn = _UnitDraws(cls, run, unit, run.ledger[lines:], recorder)
            drawn.compare_laplace(read)
            drawn.compare_gaussian(lengths)


# How much one draw costs, as seen at the noise source. One person changes the numbers under one
# draw by at most `contribution` in all. (A statistic of stability above 1 changes by more, but its
# scale is larger in the same ratio.) So a draw whose smallest scale is s costs at least
# contribution/s. The numbers of one draw read different keys, so a draw costs the largest of them,
# not their sum. The draws of one label in one unit add up, and so do the threshold and the question
# of a sparse-vector run. There are three exceptions:
# - The layers of a counter (state, output, again) lie on the same numbers. The first layer pays for
#   all, so together they cost as much as the largest of them.
# - A pot was paid for when it was filled, perhaps in earlier units, and is poured for different
#   keys. Each of its draws must be worth no more than one unit paid.
# - A priced run pays for its threshold and for each question by the prices in its opening line.
_LAYERS = ("state", "output", "again")
_QUESTIONS = ("threshold", "question")


@dataclass(frozen=True)
class _UnitDraws:
    """The draws of one unit, and the ledger lines that must pay for them."""

    cls: AnyMechanism
    run: Run
    unit: int
    lines: Iterable[Line]
    recorder: RecordingNoise

    def compare_laplace(self, read: Mapping[str, Fraction]) -> None:
        """Compare each Laplace draw, and each counter that was read, with its lines."""
        paid, exposed = self._paid_and_exposed()
        unannounced = self.run.guarantee.intrusion.unannounced
        for label, costs in self._costs().items():
            unread = all(key.startswith("layers") for key in costs) and label not in read
            if unread and not unannounced:
                continue  # the counter was forgotten, and the promise does not cover the memory
            have = paid[label] + (max(exposed[label], Fraction(0)) if unread else Fraction(0))
            self._expect_at_most(label, sum(costs.values(), Fraction(0)), have)
        for label, cost in read.items():
            self._expect_at_most(label, cost, paid[label])

    def compare_gaussian(self, lengths: Mapping[str, int]) -> None:
        """Compare each Gaussian draw with its lines.

        One event changes the numbers of a plain draw by at most 1. The sums of a convolution change
        by the squared length that was watched, a w-th part of it in each unit.
        """
        promise, quantum = self.run.guarantee, self.run.mechanism.grid.quantum
        recorder, where = self.recorder, f"unit {self.unit} of {self.run.mechanism}"
        if (recorder.draws and promise.delta) or (recorder.gaussians and not promise.delta):
            raise failure(
                self.cls, f"{where}: this noise is not paid for in the currency of {promise}."
            )
        paid, drawn = Costs(Fraction), Costs(Fraction)
        for line in self.lines:
            paid[line.label] += line.amount * quantum
        for draw in recorder.gaussians:
            label = draw.label.partition("#")[0]
            change = Fraction(lengths[label], promise.window) if label in lengths else Fraction(1)
            drawn[label] += promise.contribution**2 * change / (2 * draw.variance)
        for label, cost in drawn.items():
            self._expect_at_most(label, cost, paid[label])

    def _paid_and_exposed(self) -> tuple[Costs, Costs]:
        quantum = self.run.mechanism.grid.quantum
        paid, exposed = Costs(Fraction), Costs(Fraction)
        for line in self.lines:
            if line.kind in ("spend", "settle"):
                paid[line.label] += line.amount * quantum
            if line.kind in ("expose", "settle"):
                exposed[line.label] += line.amount * quantum * (1 if line.kind == "expose" else -1)
        return paid, exposed

    def _costs(self) -> dict[str, dict[str, Fraction]]:
        """The cost of the unit's draws, by label and draw, but for priced runs and pots."""
        quantum = self.run.mechanism.grid.quantum
        priced = {line.label: line for line in self.run.ledger if line.kind == "open"}
        kept = self.run._gate.save().pots
        pots = {
            line.label: line.amount * quantum
            for line in self.run.ledger
            if line.kind == "spend" and line.label in kept
        }
        drawn: dict[str, dict[str, Fraction]] = defaultdict(dict)
        for draw in self.recorder.draws:
            label, _, times = draw.label.partition("#")
            stem, _, part = label.rpartition(".")
            cost = self.run.mechanism.contribution / draw.scale
            if stem in priced and part in _QUESTIONS:
                opening = priced[stem]
                price = opening.amount if part == "threshold" else opening.number
                self._expect_at_most(label, cost, price * quantum)
            elif label in pots:
                self._expect_at_most(label, cost, pots[label])
            elif stem and part in _LAYERS:
                old = drawn[stem].get(f"layers#{times}", Fraction(0))
                drawn[stem][f"layers#{times}"] = max(old, cost)
            elif stem and part in _QUESTIONS:
                drawn[stem][f"{part}#{times}"] = cost
            else:
                drawn[label][f"#{times}"] = cost
        return drawn

    def _expect_at_most(self, label: str, cost: Fraction, paid: Fraction) -> None:
        if cost > paid:
            mechanism = self.run.mechanism
            raise failure(
                self.cls,
                f"unit {self.unit} of {mechanism}: the noise drawn for {label!r} is worth "
                f"{mechanism.grid.currency}={cost}, but its ledger lines pay for {paid}.",
            )


def watch_convolutions(run: Run) -> dict[str, int]:
    """For each convolution, the largest squared change of its sums by one person in a window.

    One event in each of w units adds w copies of the coefficients, each one unit later than the one
    before, with either sign. The number of events per unit is bounded by `contribution`.
    """
    convolutions, seen, window = run._gate.convolutions, dict[str, int](), run.guarantee.window
    weighted_sum = convolutions.weighted_sum

    def watched(label: str, x: Private, *, coefficients: IntArray, **options: Any) -> Released:
        if label not in seen:
            short = window <= MAX_WINDOW_WITH_ALL_SIGNS
            row = coefficients if short else np.abs(coefficients)
            signs = itertools.product((1, -1), repeat=window) if short else [(1,) * window]
            seen[label] = max(int(np.square(np.convolve(each, row)).sum()) for each in signs)
        return weighted_sum(label, x, coefficients=coefficients, **options)

    convolutions.weighted_sum = watched  # type: ignore[method-assign]
    return seen


def _watch_reads(run: Run) -> dict[str, Fraction]:
    """The budget with which each counter that is read in a unit was primed."""
    counters, seen = run._gate.counters, dict[str, Fraction]()
    read = counters.read

    def watched(counter: str, **options: bool) -> Released:
        released = read(counter, **options)
        parts = released.scale.parts
        largest = parts if isinstance(parts, int) else int(parts.max())
        seen[counter] = run.mechanism.contribution * largest / released.scale.base
        return released

    counters.read = watched  # type: ignore[method-assign]
    return seen
