"""`fast` and `fast_w`: sample when a filter's predictions go wrong, show them in between."""

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
"""Feedback errors are cut at 65536 and rounded to 1/65536: no order of keys matters."""

_MIN_PARAMETER = Fraction(1, 10**30)
"""Variances, θ and the set point lie between this and its inverse."""

_MAX_EXPONENT = 700.0
"""The largest exponent: the interval is 1 long before."""


@dataclass(frozen=True)
class FilterSamplingState:
    """The last release, the belief of the filter, and the unit of the next sample: all public."""

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
    """A filter over samples. A PID controller chooses their units, the same for every key."""

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
                "measurement is for the Kalman filter: the particle filter knows the noise.",
                parameter="measurement",
            )
        object.__setattr__(self, "particles", whole(self.particles, name="particles", least=2))
        object.__setattr__(self, "over", whole(self.over, name="over", least=1))

    @cached_property
    def most(self) -> int:
        """M: the most samples of a window, or of a block."""
        return max(1, int(exact(self.sampled) * self.window))

    @property
    @abstractmethod
    def each(self) -> Budget:
        """The charge of every sample."""

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
        """The belief of the filter after this sample."""
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
        """The unit of the next sample, by how far this one has moved the estimates."""
        made = state.made + 1 if self.block(state.since) == self.block(now) else 1
        if not state.since:
            return replace(state, track=track, due=now + 1, since=now, made=made)
        error = feedback(state.track.level, track.level)
        errors = (*state.errors, error)[-self.over :]
        signal = float(self.proportional) * error + float(self.integral) * sum(errors) / len(errors)
        if state.errors:
            signal += float(self.derivative) * (error - state.errors[-1]) / (now - state.since)
        target = float(self.set_point)
        change = float(self.theta) * -math.expm1(min((signal - target) / target, _MAX_EXPONENT))
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
        """The block of w units that a unit is in."""
        return (unit - 1) // self.window


def _moderate(value: Exact, *, name: str) -> Fraction:
    """A positive number that floats can square and divide by."""
    number = positive(value, name=name)
    if not _MIN_PARAMETER <= number <= 1 / _MIN_PARAMETER:
        raise ConfigurationError(f"{name} must lie between 1e-30 and 1e30.", parameter=name)
    return number


def feedback(before: FloatArray, after: FloatArray) -> float:
    """The mean over all keys of how far a sample has moved the estimate, relative to it.

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
    r"""Publish noisy samples, more of them while predictions go wrong, and predictions in between.

    Unit 1 is sampled, and its noisy counts z begin the estimate. In a later unit that is sampled,
    with :math:`n` units since the last sample, the Kalman filter makes of the prediction
    :math:`x^-=x,\ P^-=P+nQ`

    .. math:: K=P^-/(P^-+R),\qquad x=x^-+K(z-x^-),\qquad P=(1-K)P^-,

    with R the variance of the noise. The feedback error :math:`E=|x-x^-|/\max(x,1)`, averaged over
    all keys, goes to a PID controller over the last `over` errors,

    .. math::
        \Delta=C_pE+C_i\bar E+C_d(E-E')/n,\qquad
        I\leftarrow\max(1,\ I+\theta(1-e^{(\Delta-\xi)/\xi})).

    The next sample is due I units later (rounded, and at most w). There is **one schedule for all
    keys**. The other units show the last estimate again.

    At most :math:`M=\max(1,\lfloor r w\rfloor)` samples are taken in any w consecutive units, each
    with :math:`\varepsilon/M`. A sample that is due while the window has M waits. With
    `horizon=window`, for a stream of known length w, this is the published form: M samples in all.

    Estimates are whole numbers of 1/256. `public["noisy"]` has the noisy counts of a sampled unit,
    `public["start"]` the last unit that was sampled. `variance` and `interval` are those of one
    sample's noise. The noise in an estimate, which is a mean of samples, has a smaller variance
    (see the proof page). Neither covers how far the counts have moved.

    Parameters
    ----------
    epsilon : int, Fraction or str
        The ε that is spent in any window: exact, above 0.
    window : int
        The number of consecutive units in which a person is protected.
    contribution : int
        The most events of one person that count in one unit. Default: 1.
    horizon : int, optional
        The last unit that is ever read; `horizon=window` is user level. Default: none.
    sampled : int, Fraction or str
        The share r of units that may be sampled, at most 1. Default: 0.15.
    filter : "kalman" or "particle"
        The filter. The particle filter knows the law of the noise and trusts a far sample less. It
        is better where counts stand still and worse where they leap. Default: "kalman".
    particles : int
        The number of guesses per key of the particle filter. Default: 100.
    process : int, Fraction or str
        The variance Q by which a count is believed to move in a unit. Default: 1.
    measurement : int, Fraction or str, optional
        A variance in place of that of the noise, for the Kalman filter. Default: none.
    proportional, integral, derivative : int, Fraction or str
        The gains of the controller. Defaults: 0.9, 0.1 and 0.
    over : int
        The number of errors in the integral. Default: 5.
    theta, set_point : int, Fraction or str
        The θ and ξ of the controller. Defaults: 5 and 0.1.

    Guarantee: w-event, pure; user level with `horizon=window`. Proof: docs/proofs/fast.md.
    Kept between units: the estimates and the unit of the next sample. No raw data.

    >>> FilteredSampling(epsilon="1", window=100, horizon=100).guarantee
    Guarantee(epsilon=1, window=100, horizon=100)
    >>> mechanism = FilteredSampling(epsilon="1", window=30)
    >>> mechanism.most, mechanism.each.epsilon
    (4, Fraction(1, 4))

    References
    ----------
    Fan, Xiong, CIKM 2012, and IEEE Transactions on Knowledge and Data Engineering 26(9), 2014, for
    the particle filter.
    Departures: one schedule for all keys, because a schedule per key is not w-event private for
    people who move. The window slides. An interval is at most w. The particle filter uses no random
    numbers, and moves its guesses towards the sample first.
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
    r"""Publish as `fast` does, in blocks of w units with half of the budget each.

    A block is units 1 to w, w + 1 to 2w, and so on. It has at most
    :math:`M=\max(1,\lfloor r w\rfloor)` samples, each with :math:`(\varepsilon/2)/M`. Two blocks
    meet a window, so a window costs :math:`\varepsilon` at most. Estimates and controller go on
    from block to block. This is the published form for endless streams. The window of `fast`
    slides: it has twice the budget per sample and, in the long run, as many of them. With
    `horizon=window` half of :math:`\varepsilon` is never spent: take `fast`.

    Parameters
    ----------
    epsilon : int, Fraction or str
        The ε that is spent in any window: exact, above 0.
    window : int
        The number of consecutive units in which a person is protected.
    contribution : int
        The most events of one person that count in one unit. Default: 1.
    horizon : int, optional
        The last unit that is ever read; `horizon=window` is user level. Default: none.
    sampled : int, Fraction or str
        The share r of units that may be sampled, at most 1. Default: 0.15.
    filter : "kalman" or "particle"
        The filter. The particle filter knows the law of the noise and trusts a far sample less. It
        is better where counts stand still and worse where they leap. Default: "kalman".
    particles : int
        The number of guesses per key of the particle filter. Default: 100.
    process : int, Fraction or str
        The variance Q by which a count is believed to move in a unit. Default: 1.
    measurement : int, Fraction or str, optional
        A variance in place of that of the noise, for the Kalman filter. Default: none.
    proportional, integral, derivative : int, Fraction or str
        The gains of the controller. Defaults: 0.9, 0.1 and 0.
    over : int
        The number of errors in the integral. Default: 5.
    theta, set_point : int, Fraction or str
        The θ and ξ of the controller. Defaults: 5 and 0.1.

    Guarantee: w-event, pure. Proof: docs/proofs/fast.md.
    Kept between units: the estimates, the unit of the next sample, and the number of samples in
    this block. No raw data.

    >>> mechanism = FilteredBlocks(epsilon="1", window=30)
    >>> mechanism.most, mechanism.each.epsilon
    (4, Fraction(1, 8))

    References
    ----------
    Kellaris et al., PVLDB 7(12), 2014, section 3, after Fan, Xiong, CIKM 2012.
    Departures: as in `fast`. A block begins with the estimates of the last one, which costs
    nothing.
    """

    name = "fast_w"
    paper = _PAPER
    proof = "fast.md"

    @cached_property
    def each(self) -> Budget:
        return self.total // 2 // self.most

    def room(self, state: FilterSamplingState, gate: Gate) -> bool:
        return state.made < self.most or self.block(state.since) != self.block(gate.unit)
