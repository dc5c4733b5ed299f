"""`fast` and `fast_w`: sample when a filter's predictions go wrong, show its prediction in between."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import get_args

import numpy as np

from penstock.budget.grid import Budget
from penstock.core.arrays import FloatArray
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.core.exact import Exact, exact, positive, whole
from penstock.core.private import Private
from penstock.core.released import Released
from penstock.private.gate import Gate
from penstock.private.histograms.base import PUBLISH
from penstock.private.mechanisms.base import Mechanism
from penstock.private.mechanisms.filters import (
    Filter,
    FilterName,
    FilterSample,
    FilterState,
    filter_of,
)

FINENESS = 256
"""Estimates are rounded to parts of 1/256."""

_PARTS = 2**16
"""Feedback errors are rounded to parts of 1/65536, and cut at 65536, so that their sum depends on
no order of the keys.
"""

_LEAST = Fraction(1, 10**30)
"""Variances, θ and the set point lie between this and its inverse."""

_STEEP = 700.0
"""Exponents stop here: the interval is 1 long before."""


@dataclass(frozen=True)
class FilterSamplingState:
    """What was last released, what the filter believes, and when the next sample is due: all
    public.
    """

    last: Released
    track: FilterState
    due: int = 1
    interval: float = 1.0
    errors: tuple[float, ...] = ()
    """The last feedback errors, the oldest first."""
    since: int = 0
    """The unit of the last sample."""
    made: int = 0
    """How many samples its block has had."""


@dataclass(frozen=True, kw_only=True)
class ByFilter(Mechanism[FilterSamplingState]):
    """A filter over samples whose moments a PID controller chooses, the same for every key."""

    State = FilterSamplingState
    family = "user"

    sampled: Exact = "0.15"
    filter: FilterName = "kalman"
    particles: int = 100
    process: Exact = 1
    measurement: Exact | None = None
    proportional: Exact = "0.9"
    integral: Exact = "0.1"
    derivative: Exact = 0
    over: int = 5
    theta: Exact = 5
    set_point: Exact = "0.1"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "sampled", positive(self.sampled, name="sampled"))
        if exact(self.sampled) > 1:
            raise ConfigurationError(
                f"sampled must be at most 1, not {self.sampled}.", parameter="sampled"
            )
        for name in ("process", "theta", "set_point"):
            object.__setattr__(self, name, _moderate(getattr(self, name), name=name))
        if self.measurement is not None:
            object.__setattr__(self, "measurement", _moderate(self.measurement, name="measurement"))
        for name in ("proportional", "integral", "derivative"):
            gain = exact(getattr(self, name), name=name)
            object.__setattr__(self, name, gain and _moderate(gain, name=name))
        if self.filter not in get_args(FilterName):
            raise ConfigurationError(
                f"filter must be one of {', '.join(get_args(FilterName))}, not {self.filter!r}.",
                parameter="filter",
            )
        if self.filter == "particle" and self.measurement is not None:
            raise ConfigurationError(
                "measurement is for the Kalman filter: the particle filter takes the noise as it is.",
                parameter="measurement",
            )
        object.__setattr__(self, "particles", whole(self.particles, name="particles", least=2))
        object.__setattr__(self, "over", whole(self.over, name="over", least=1))

    @cached_property
    def most(self) -> int:
        """M: how many samples a window, or a block, may have."""
        return max(1, int(exact(self.sampled) * self.window))

    @property
    @abstractmethod
    def each(self) -> Budget:
        """What every sample spends."""

    @abstractmethod
    def room(self, state: FilterSamplingState, gate: Gate) -> bool:
        """Whether this unit may be sampled."""

    @cached_property
    def _filter(self) -> Filter:
        return filter_of(self.filter, self.particles)

    def start(self, domain: Domain) -> FilterSamplingState:
        return FilterSamplingState(
            Released.nothing(domain.size, self.guarantee), FilterState(np.zeros(domain.size))
        )

    def step(
        self, state: FilterSamplingState, unit: Private, gate: Gate
    ) -> tuple[FilterSamplingState, Released]:
        if gate.unit < state.due or not self.room(state, gate):
            return state, gate.repeat(state.last)
        noisy = gate.laplace(unit, epsilon=self.each, label=PUBLISH)
        track = self.follow(state, noisy)
        state = self.controlled(state, track, gate.unit)
        most = 2**60 // len(track.level)
        value = np.rint(np.clip(track.level * FINENESS, -most, most)).astype(np.int64)
        start = {"start": np.full(len(value), gate.unit)}
        last = replace(noisy, value=value, divisor=FINENESS, kind="weighted", public=start)
        return replace(state, last=last), replace(last, public={"noisy": noisy.value, **start})

    def follow(self, state: FilterSamplingState, noisy: Released) -> FilterState:
        """What the filter believes after this sample."""
        variance = float(noisy.variance[0] if self.measurement is None else exact(self.measurement))
        sample = FilterSample(noisy.value.astype(np.float64), float(noisy.scale), variance)
        if not state.since:
            return self._filter.begin(sample)
        return self._filter.correct(
            state.track, sample, float(exact(self.process)) * (noisy.unit - state.since)
        )

    def controlled(
        self, state: FilterSamplingState, track: FilterState, now: int
    ) -> FilterSamplingState:
        """When the next sample is due, by how far this one has moved the estimates."""
        made = state.made + 1 if self.block(state.since) == self.block(now) else 1
        if not state.since:
            return replace(state, track=track, due=now + 1, since=now, made=made)
        error = feedback(state.track.level, track.level)
        errors = (*state.errors, error)[-self.over :]
        signal = float(self.proportional) * error + float(self.integral) * sum(errors) / len(errors)
        if state.errors:
            signal += float(self.derivative) * (error - state.errors[-1]) / (now - state.since)
        target = float(self.set_point)
        change = float(self.theta) * -math.expm1(min((signal - target) / target, _STEEP))
        interval = min(max(1.0, state.interval + change), float(self.window))
        return replace(
            state,
            track=track,
            due=now + round(interval),
            interval=interval,
            errors=errors,
            since=now,
            made=made,
        )

    def block(self, unit: int) -> int:
        """Which block of w units a unit is in."""
        return (unit - 1) // self.window


def _moderate(value: Exact, *, name: str) -> Fraction:
    """A positive number that floats can square and divide by."""
    number = positive(value, name=name)
    if not _LEAST <= number <= 1 / _LEAST:
        raise ConfigurationError(f"{name} must lie between 1e-30 and 1e30.", parameter=name)
    return number


def feedback(before: FloatArray, after: FloatArray) -> float:
    """How far a sample has moved the estimates from what was predicted, relative to them, on
    average over all keys.

    >>> feedback(np.array([10.0, 0.0]), np.array([20.0, 0.5]))
    0.5
    """
    error = after - before
    np.abs(error, out=error)
    error /= np.maximum(after, 1.0)
    np.minimum(error, _PARTS, out=error)
    error *= _PARTS
    return int(np.rint(error, out=error).astype(np.int64).sum()) / (_PARTS * len(error))


_PAPER = "Fan and Xiong, CIKM 2012; Kellaris et al., PVLDB 7(12), 2014, section 3"


@dataclass(frozen=True, kw_only=True)
class FilteredSampling(ByFilter):
    r"""Sample more often while a filter's predictions go wrong, and show its prediction in between.

    Unit 1 is sampled, and its noisy counts z begin the estimate. In a later unit that is sampled,
    with :math:`n` units since the last sample, the Kalman filter makes of the prediction
    :math:`x^-=x,\ P^-=P+nQ`

    .. math:: K=P^-/(P^-+R),\qquad x=x^-+K(z-x^-),\qquad P=(1-K)P^-,

    with Q = `process` the variance by which a count is believed to move in a unit, and R the
    variance of the noise, which is known (`measurement`, if given, stands in its place). The
    feedback error :math:`E=|x-x^-|/\max(x,1)`, averaged over all keys, goes to a PID controller
    over the last `over` errors,

    .. math:: \Delta=C_pE+C_i\bar E+C_d(E-E')/n,\qquad I\leftarrow\max(1,\ I+\theta(1-e^{(\Delta-\xi)/\xi})),

    with the gains `proportional`, `integral` and `derivative`, θ = `theta` and ξ = `set_point`; I
    units later (rounded, and at most w) the next sample is due. There is **one schedule for all
    keys**. The other units show the last estimate again.

    At most :math:`M=\max(1,\lfloor r w\rfloor)` samples, r = `sampled`, are taken in any w
    consecutive units, each with
    :math:`\varepsilon/M`; a sample that is due while there are M in the window waits. With `horizon=window`, for a stream of
    known length w, this is the published form: M samples in all, and none after the M-th.

    `filter="particle"` knows that the noise is discrete Laplace's: with `particles` guesses per
    key, it trusts a sample that is far from its prediction less, which is better where counts stand
    still and worse where they leap.

    Estimates are whole numbers of 1/256. `public["noisy"]` has the noisy counts of a sampled unit,
    `public["start"]` the last unit that was sampled. `variance` and `interval` are those of one
    sample's noise: what is left of it in an estimate, which is a mean of samples, has a smaller
    variance (see the proof page); how far the counts have moved is in neither.

    Guarantee: w-event, pure; user level with `horizon=window`. Proof: docs/proofs/fast.md.
    Kept between units: the estimates and when the next sample is due. No raw data.

    >>> FilteredSampling(epsilon="1", window=100, horizon=100).guarantee
    Guarantee(epsilon=1, window=100, horizon=100)
    >>> mechanism = FilteredSampling(epsilon="1", window=30)
    >>> mechanism.most, mechanism.each.epsilon
    (4, Fraction(1, 4))

    References
    ----------
    Fan, Xiong, CIKM 2012, and IEEE Transactions on Knowledge and Data Engineering 26(9), 2014, for
    the particle filter. Departures: one schedule for all keys (a schedule per key is not w-event
    private for people who move); the window slides; an interval is at most w; the particle filter
    uses no random numbers, and moves its guesses towards the sample first.
    """

    name = "fast"
    paper = _PAPER
    proof = "fast.md"

    @cached_property
    def each(self) -> Budget:
        return self.total // self.most

    def room(self, state: FilterSamplingState, gate: Gate) -> bool:
        return not gate.left < self.each


@dataclass(frozen=True, kw_only=True)
class FilteredBlocks(ByFilter):
    r"""Sample as `fast` does, in blocks of w units with half of the budget each.

    A block is units 1 to w, w + 1 to 2w, and so on. It has at most :math:`M=\max(1,\lfloor r
    w\rfloor)` samples, each with
    :math:`(\varepsilon/2)/M`, and none after the M-th. Two blocks meet a window, so that it costs :math:`\varepsilon` at most.
    Estimates and controller go on from block to block. This is the published form for endless
    streams; `fast`, whose window slides, has twice the budget for each sample and, in the long run,
    as many of them. With `horizon=window` half of
    :math:`\varepsilon` is never spent: take `fast`.

    Everything else is as in `fast`.

    Guarantee: w-event, pure. Proof: docs/proofs/fast.md.
    Kept between units: the estimates, when the next sample is due, and how many this block has had.
    No raw data.

    >>> mechanism = FilteredBlocks(epsilon="1", window=30)
    >>> mechanism.most, mechanism.each.epsilon
    (4, Fraction(1, 8))

    References
    ----------
    Kellaris et al., PVLDB 7(12), 2014, section 3, after Fan, Xiong, CIKM 2012.
    Departures: as in `fast`; a block begins with what the last one has found, which costs nothing.
    """

    name = "fast_w"
    paper = _PAPER
    proof = "fast.md"

    @cached_property
    def each(self) -> Budget:
        return self.total // 2 // self.most

    def room(self, state: FilterSamplingState, gate: Gate) -> bool:
        return state.made < self.most or self.block(state.since) != self.block(gate.unit)
