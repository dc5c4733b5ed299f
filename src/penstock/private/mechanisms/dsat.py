"""`dsat`: sampling by distance, with a threshold that follows the releases."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from penstock.core.durations import UnitCount
from penstock.core.errors import ConfigurationError
from penstock.core.exact import Exact, exact, positive, whole
from penstock.private.mechanisms.sampling import PAPER, ByQuestion, SamplingState

LEAST, MOST = 1e-6, 2.0
"""Where a threshold is kept: no two histograms of one size are farther apart than twice that."""

PAUSE = 30
"""A release is counted when this part of the mean time between two has passed."""

HIGHEST = 1000
"""No gain is larger."""

STEEPEST = 50.0
"""No threshold is moved by more than this power of e at once."""


@dataclass(frozen=True, kw_only=True)
class AdaptiveThreshold(ByQuestion):
    r"""Release when the stream has moved far enough, where "far enough" follows how many releases
    are left.

    As `dsft`, with a threshold that begins at `threshold` and is moved before every question, so
    that the releases last for the window: with :math:`e_t` the number of releases in the last
    :math:`w` units above its goal, which is :math:`g` times the share of the window that has
    passed,

    .. math:: \ln T_t = \ln T_{t-1} + P\,(e_t - e_{t-1}) + I\,e_t\,g/w + D\,(e_t - 2e_{t-1} + e_{t-2}),

    a PID controller with the gains `proportional`, `integral` and `derivative`. At user level
    :math:`g=C`; else one less, so that a release is left for what nobody foresaw. A release is
    counted after a pause of :math:`w/30C` units: one that was made in an unusual unit is easily
    followed by another. The *public* threshold is kept between one in a million and 2, the most
    that two histograms can be apart; its noise is drawn once a block and never cut. Nothing is
    asked in the first `burn_in` units.

    Guarantee: w-event, pure; user level with `horizon=window`. Proof: docs/proofs/dsft.md.
    Kept between units: as in `dsft`, and the controller's last errors.

    >>> AdaptiveThreshold(epsilon="1", window=24).guarantee
    Guarantee(epsilon=1, window=24)

    References
    ----------
    Li, Xiong, Jiang, Liu, CIKM 2015, algorithms 2 and 3.
    Departures: as in `dsft`; the published one cuts the *noisy* threshold, and in its endless form
    has one noise for ever: both lose more the longer they run. The controller works on the
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
        """How many releases a window is meant to have."""
        return self.most if self.guarantee.user_level else max(self.most - 1, self.most / 2)

    def first_threshold(self) -> float:
        return float(min(exact(self.threshold), Fraction(MOST)))

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
            max(state.threshold * math.exp(max(min(move, STEEPEST), -STEEPEST)), LEAST), MOST
        )
        return replace(state, threshold=threshold, errors=(error, last))


def _gain(value: Exact, *, name: str) -> Fraction:
    gain = exact(value, name=name)
    if not 0 <= gain <= HIGHEST:
        raise ConfigurationError(
            f"{name} must lie between 0 and {HIGHEST}, not {gain}.", parameter=name
        )
    return gain
