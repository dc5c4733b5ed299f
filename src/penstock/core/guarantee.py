"""The promise that every mechanism states, every release carries and every page shows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from penstock.core.errors import ConfigurationError
from penstock.core.exact import Exact, exact, positive, whole

LONGEST_WINDOW = 2**32
"""The most units a window may have: the ledger's integers stay far from the end of int64."""


@dataclass(frozen=True, repr=False)
class Guarantee:
    """What nobody can tell, however long they watch.

    Two streams are neighbours if they differ in at most `window` consecutive units, and there by
    the presence of one person, who has at most `contribution` events in a unit, in a different key
    in every unit if they like. The probability of anything that is ever published differs by at
    most a factor :math:`e^\\varepsilon` between them and, where `delta` is not 0, by an addition of
    :math:`\\delta` at most.

    `window` = 1 is event level, the stream's length is user level. `horizon` is the last unit that
    is ever read: what comes after it repeats the last release. A horizon of one window is user
    level for a stream of any length. `intrusion` names what else the promise survives: somebody who
    looks into the mechanism's memory.

    >>> Guarantee("0.5", 24)
    Guarantee(epsilon=1/2, window=24)
    >>> Guarantee("0.5", 24, delta="1e-6")
    Guarantee(epsilon=1/2, delta=1/1000000, window=24)
    >>> Guarantee("0.5", 24, horizon=24)
    Guarantee(epsilon=1/2, window=24, horizon=24)
    >>> print(Guarantee("1", 24).in_words())
    Whoever sees everything that is ever published, and knows everybody else, can hardly tell whether any one person \
was there at all in any 24 consecutive units: no observation is more than 2.72 times as likely with the person as \
without (epsilon = 1), so a suspicion of 50 % can rise to 73.2 % at most. A person counts with at most one event a unit.
    """

    epsilon: Fraction
    window: int
    contribution: int = 1
    intrusion: str = ""
    delta: Fraction = Fraction(0)
    horizon: int | None = None

    def __init__(
        self,
        epsilon: Exact,
        window: int,
        contribution: int = 1,
        intrusion: str = "",
        delta: Exact = 0,
        horizon: int | None = None,
    ) -> None:
        object.__setattr__(self, "epsilon", positive(epsilon, name="epsilon"))
        object.__setattr__(self, "window", whole(window, name="window", least=1))
        object.__setattr__(self, "contribution", whole(contribution, name="contribution", least=1))
        object.__setattr__(self, "intrusion", intrusion)
        object.__setattr__(self, "delta", exact(delta, name="delta"))
        if not 0 <= self.delta < 1:
            raise ConfigurationError(
                f"delta must be at least 0 and below 1, not {self.delta}.", parameter="delta"
            )
        if self.window > LONGEST_WINDOW:
            raise ConfigurationError(
                f"window must be at most {LONGEST_WINDOW} units, not {self.window}.",
                parameter="window",
            )
        object.__setattr__(
            self, "horizon", None if horizon is None else whole(horizon, name="horizon", least=1)
        )
        if self.horizon is not None and self.horizon < self.window:
            raise ConfigurationError(
                f"window must be at most the horizon of {self.horizon} units, not {self.window}: no person is in more.",
                parameter="window",
            )

    def __repr__(self) -> str:
        more = f", horizon={self.horizon}" if self.horizon is not None else ""
        more += f", contribution={self.contribution}" if self.contribution != 1 else ""
        more += f", intrusion={self.intrusion!r}" if self.intrusion else ""
        delta = f", delta={self.delta}" if self.delta else ""
        return f"Guarantee(epsilon={self.epsilon}{delta}, window={self.window}{more})"

    @property
    def user_level(self) -> bool:
        """Whether it covers a person in every unit that is ever read."""
        return self.horizon == self.window

    def in_words(self) -> str:
        """The promise for somebody who has never heard of epsilon."""
        epsilon = float(min(self.epsilon, Fraction(10**300)))
        factor = _up(math.exp(epsilon)) if epsilon < 700 else f"e^{math.ceil(self.epsilon)}"
        belief = 100 * (1 + float(self.delta) * math.exp(-epsilon)) / (1 + math.exp(-epsilon))
        span = "in any one unit" if self.window == 1 else f"in any {self.window} consecutive units"
        if self.horizon is not None:
            read = "unit 1 is" if self.horizon == 1 else f"units 1 to {self.horizon} are"
            span = (
                f"in the whole stream, of which {read} read"
                if self.user_level
                else f"{span}; {read} read"
            )
        bound = "one event" if self.contribution == 1 else f"{self.contribution} events"
        text = (
            "Whoever sees everything that is ever published, and knows everybody else, can hardly tell whether any one "
            f"person was there at all {span}: {self._bound(factor, belief)} "
            f"A person counts with at most {bound} a unit."
        )
        return f"{text} The same holds for {self.intrusion}." if self.intrusion else text

    def _bound(self, factor: str, belief: float) -> str:
        if not self.delta:
            return (
                f"no observation is more than {factor} times as likely with the person as without "
                f"(epsilon = {self.epsilon}), so a suspicion of 50 % can rise to {_up(belief)} % at most."
            )
        return (
            f"whatever they look for, the probability of seeing it is with the person at most {factor} times what it is "
            f"without (epsilon = {self.epsilon}), plus {_up(float(self.delta))} (delta = {self.delta}), and the other way "
            f"round; whoever guesses from it between two equally likely answers is right in at most {_up(belief)} % of cases."
        )


def _up(number: float) -> str:
    """At least three digits, rounded up: a promise is never shown as more than it is."""
    for digits in range(3, 18):
        shown = f"{number:.{digits}g}"
        step = 10.0 ** (math.floor(math.log10(number)) - digits + 1)
        up = f"{number + step / 2:.{digits}g}" if float(shown) < number else shown
        if float(up) <= number * 1.01:
            return up
    return repr(number)
