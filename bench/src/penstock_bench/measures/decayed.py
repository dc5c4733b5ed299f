"""Errors of sums with weights γ to the power of the age, as shown in every unit."""

from __future__ import annotations

from penstock.core.errors import ConfigurationError
from penstock.core.weights import Weights
from penstock_bench.competitors.competitor import Window
from penstock_bench.lines import ShownUnit
from penstock_bench.measures.base import Measure, squares


class DecayedMse(Measure):
    """Mean squared error of decayed sums over the last `span` units, e.g. `decayed:0.91,2000`.

    It covers all keys and all units; the window of a young stream is as long as the stream. Lines
    that show such sums are measured directly. Counts of other lines are summed by recurrence, as
    they were shown.
    """

    of_sums = True

    def begin(self) -> None:
        if len(self.arguments) != 2 or not self.arguments[1].isdigit():
            raise ConfigurationError(
                f"the measure {self.name!r} needs γ and a number of units, such as "
                "decayed:0.91,2000."
            )
        self.weights = Weights.decay(self.arguments[0], int(self.arguments[1]))
        seen = Weights.decay(self.weights.rate, min(self.weights.length, self.facts.units))
        self._window = Window(seen, self.facts.keys)
        self.total = 0.0

    def add(self, seen: ShownUnit) -> None:
        if seen.weighted:
            if seen.weights != self.weights:
                raise ConfigurationError(
                    f"{self.name}: this line shows {seen.weights.in_words()}, and no other sums."
                )
            error = seen.shown - self._window.add(seen.truth)
        else:
            error = self._window.add(seen.error)
        self.total += squares(error)

    def values(self) -> dict[str, float]:
        return {self.name: self.total / (self.facts.units * self.facts.keys)}
