"""`dsat`: sampling by distance, with a threshold that follows the releases."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from penstock.core.durations import UnitCount
from penstock.core.errors import ConfigurationError
from penstock.core.exact import Exact, exact, positive, whole
from penstock.private.mechanisms.sampling import PAPER, ByQuestion, SamplingState

MIN_THRESHOLD, MAX_THRESHOLD = 1e-6, 2.0
"""The range of a threshold, as a share of all people. Two histograms differ by at most 2 shares."""

PAUSE = 30
"""A release is counted when this part of the mean time between two has passed."""

MAX_GAIN = 1000
"""The largest gain of the controller."""

MAX_LOG_STEP = 50.0
"""The largest change of a threshold's logarithm in one unit."""


@dataclass(frozen=True, kw_only=True)
class AdaptiveThreshold(ByQuestion):
    r"""Publish when the stream has moved far enough; the threshold follows the remaining releases.

    As `dsft`, with a threshold that begins at `threshold` and is moved before every question, so
    that the releases last for the window. With :math:`e_t` the number of releases in the last
    :math:`w` units above its goal, which is :math:`g` times the share of the window that has
    passed,

    .. math::
        \ln T_t = \ln T_{t-1} + P\,(e_t - e_{t-1}) + I\,e_t\,g/w + D\,(e_t - 2e_{t-1} + e_{t-2}),

    a PID controller. At user level :math:`g=C`; otherwise one less, so that a release is left for
    surprises. A release is counted after a pause of :math:`w/30C` units, because a release of an
    unusual unit is easily followed by another. The *public* threshold is kept between one in a
    million and 2, the largest distance of two histograms. Its noise is drawn once per block and
    never cut.

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
    threshold : int, Fraction or str
        The first threshold, as a share of all people. Default: 0.05.
    proportional, integral, derivative : int, Fraction or str
        The gains P, I and D of the controller. Defaults: 1, 0.3 and 0.
    burn_in : int
        The number of units at the start about which nothing is asked. Default: 0.
    releases : int
        The most releases C per window. Default: 10.
    population : int, optional
        The public number of people n. Default: none, the last release's total stands for it.
    decide : int, Fraction or str, optional
        The share of ε for questions. Default: the share with the least error.
    histogram : Histogram
        The method that releases a unit. Default: `Plain()`, noise on every count.

    Guarantee: w-event, pure; user level with `horizon=window`. Proof: docs/proofs/dsft.md.
    Kept between units: as in `dsft`, and the controller's last errors.

    >>> AdaptiveThreshold(epsilon="1", window=24).guarantee
    Guarantee(epsilon=1, window=24)

    References
    ----------
    Li, Xiong, Jiang, Liu, CIKM 2015, algorithms 2 and 3.
    Departures: as in `dsft`. The published method cuts the *noisy* threshold, and its endless form
    draws that noise once for ever: both lose more the longer they run. The controller works on the
    threshold's logarithm and counts releases, not their rate.
    """

    name = "dsat"
    paper = f"{PAPER}, sections 4.2 and 6"
    proof = "dsft.md"

    threshold: Exact = "0.05"
    proportional: Exact = 1
    integral: Exact = "0.3"
    derivative: Exact = 0
    burn_in: UnitCount = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "threshold", positive(self.threshold, name="threshold"))
        for name in ("proportional", "integral", "derivative"):
            object.__setattr__(self, name, _gain(getattr(self, name), name=name))
        object.__setattr__(self, "burn_in", whole(self.burn_in, name="burn_in", least=0))

    @property
    def goal(self) -> float:
        """The number of releases that a window is meant to have."""
        return self.most if self.guarantee.user_level else max(self.most - 1, self.most / 2)

    def first_threshold(self) -> float:
        return float(min(exact(self.threshold), Fraction(MAX_THRESHOLD)))

    def resting(self, unit: int) -> bool:
        return unit <= self.burn_in

    def adjust(self, state: SamplingState, unit: int) -> SamplingState:
        counted = sum(made < unit - self.window // (PAUSE * self.most) for made in state.made)
        rate = self.goal / self.window
        error = counted - rate * min(unit, self.window)
        last, before = state.errors or (error, error)
        move = float(self.proportional) * (error - last)
        move += float(self.integral) * error * rate
        move += float(self.derivative) * (error - 2 * last + before)
        threshold = min(
            max(
                state.threshold * math.exp(max(min(move, MAX_LOG_STEP), -MAX_LOG_STEP)),
                MIN_THRESHOLD,
            ),
            MAX_THRESHOLD,
        )
        return replace(state, threshold=threshold, errors=(error, last))


def _gain(value: Exact, *, name: str) -> Fraction:
    gain = exact(value, name=name)
    if not 0 <= gain <= MAX_GAIN:
        raise ConfigurationError(
            f"{name} must lie between 0 and {MAX_GAIN}, not {gain}.", parameter=name
        )
    return gain
