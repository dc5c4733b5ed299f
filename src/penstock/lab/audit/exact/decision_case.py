"""The cases of a unit: decision noise with one consequence, and states with their probability."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.lab.audit.exact.noise_law import log_probability_of, log_sum
from penstock.lab.audit.exact.output import Numbers, SeenUnit
from penstock.lab.audit.exact.run_state import RunState
from penstock.lab.audit.exact.scripted_noise import NoiseRequest
from penstock.lab.audit.exact.thresholds import Belief


@dataclass(frozen=True, slots=True)
class DecisionCase:
    """All decision noise that leads to one consequence.

    `log_low` and `log_high` bound the logarithm of its probability; `script` is one such noise.
    `bare` is the unit's output with this noise and without publication noise. `layers` are the
    requests for publication noise, and `parts` are the keys that each of them is added to.
    `measured` are all requests for decision noise. `beliefs` hold after this case.
    """

    log_low: float
    log_high: float
    script: Mapping[str, Numbers]
    bare: SeenUnit
    layers: tuple[NoiseRequest, ...]
    parts: tuple[tuple[NoiseRequest, Numbers], ...]
    measured: set[NoiseRequest]
    beliefs: tuple[Belief, ...]
    tried: dict[object, tuple[SeenUnit, RunState]] = field(default_factory=dict)

    def noise_for(self, target: SeenUnit) -> tuple[dict[str, Numbers], float] | None:
        """The publication noise with which this case shows the target, and its log-probability.

        None if no noise does.
        """
        bare = self.bare
        if target.fresh != bare.fresh or (target.seen is None) != (bare.seen is None):
            return None
        now, then = target.numbers, bare.numbers
        moving = {key for _, keys in self.parts for key in keys}
        if len(now) != len(then) or any(
            now[key] != then[key] for key in range(len(now)) if key not in moving
        ):
            return None
        return self._noise_after_look(target) if bare.seen else self._noise_unseen(target)

    def _noise_unseen(self, target: SeenUnit) -> tuple[dict[str, Numbers], float] | None:
        """The noise if nobody looked, or a look saw no counter."""
        if target.seen != self.bare.seen:
            return None
        now, then = target.numbers, self.bare.numbers
        script: dict[str, Numbers] = {}
        log_chance = 0.0
        layers = len(self.layers) if len(self.parts) == 1 else 1
        for request, keys in self.parts:
            noise = script[request.label] = tuple(now[key] - then[key] for key in keys)
            log_chance += log_probability_of(request.rates, layers, noise)
        return script, log_chance

    def _noise_after_look(self, target: SeenUnit) -> tuple[dict[str, Numbers], float] | None:
        """The noise if a look saw the counts with the first layer: the release shows the rest."""
        if not target.seen or self.bare.seen is None:
            return None
        seen = zip(target.seen, self.bare.seen, strict=True)
        first = tuple(later - earlier for later, earlier in seen)
        script: dict[str, Numbers] = {self.layers[0].label: first}
        log_chance = log_probability_of(self.layers[0].rates, 1, first)
        if any(self.bare.fresh):
            numbers = zip(target.numbers, self.bare.numbers, first, strict=True)
            rest = tuple(later - earlier - part for later, earlier, part in numbers)
            if len(self.layers) == 1:
                return (script, log_chance) if not any(rest) else None
            script[self.layers[1].label] = rest
            log_chance += log_probability_of(self.layers[1].rates, 1, rest)
        return script, log_chance


@dataclass(frozen=True, slots=True)
class WeightedState:
    """A state and two bounds on the logarithm of the probability to reach it."""

    state: RunState
    log_low: float
    log_high: float

    def merged(self, other: WeightedState) -> WeightedState:
        """The same state, reached in either way."""
        return WeightedState(
            self.state,
            log_sum([self.log_low, other.log_low]),
            log_sum([self.log_high, other.log_high]),
        )
