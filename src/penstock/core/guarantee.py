"""The promise that every mechanism states, every release carries and every page shows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from penstock.core.errors import ConfigurationError
from penstock.core.exact import Exact, exact, positive, whole
from penstock.core.notebook_html import card, table

MAX_WINDOW = 2**32
"""The most units a window may have: the ledger's integers stay far from the end of int64."""


class Intrusion(StrEnum):
    """Looks into a mechanism's memory that a promise survives.

    The value is the text under which stores, snapshots and release documents keep it, so it never
    changes.

    >>> Intrusion.WITHIN.announced, bool(Intrusion.NONE)
    (False, False)
    """

    NONE = ""
    BETWEEN = "one unannounced look into the mechanism's memory between units"
    WITHIN = "one unannounced look into the mechanism's memory at any moment"
    ANNOUNCED = "any number of announced looks into the mechanism's memory"

    @property
    def announced(self) -> bool:
        """Whether the run must be told of each look (`Run.intruded`)."""
        return self is Intrusion.ANNOUNCED

    @property
    def unannounced(self) -> bool:
        """Whether a look is survived that nobody tells the run of."""
        return self in (Intrusion.BETWEEN, Intrusion.WITHIN)


@dataclass(frozen=True)
class PromiseClauses:
    """The sentences of a promise, each for somebody who has never heard of epsilon."""

    observer: str
    """What the observer sees and knows."""
    span: str
    """What the observer can hardly tell, and in which units."""
    bound: str
    """How much an observation can tell at most."""
    contribution: str
    """How many events of a person count."""
    intrusion: str
    """Which looks into the memory the promise survives; empty if none."""

    @property
    def protection(self) -> str:
        """The promise without the limits of one view: observer, span and bound."""
        return f"{self.observer} {self.span} {self.bound}"

    def in_words(self) -> str:
        """All clauses as one text."""
        return " ".join(filter(None, (self.protection, self.contribution, self.intrusion)))


@dataclass(frozen=True, repr=False)
class Guarantee:
    """The promise: what nobody can tell, however long they watch.

    Two streams are neighbours if they differ in at most `window` consecutive units, and there by
    the presence of one person. The person has at most `contribution` events per unit, each unit in
    any key. The probability of anything that is ever published differs between neighbours by at
    most a factor :math:`e^\\varepsilon` and, if `delta` is above 0, by at most
    :math:`\\delta` more.

    Parameters
    ----------
    epsilon : int, Fraction or str
        The bound ε of the loss: above 0, exact. A float is refused.
    window : int
        The number of consecutive units in which a person is protected. 1 is event level.
    contribution : int
        The most events of one person that count in one unit. Default: 1.
    intrusion : Intrusion
        The looks into the mechanism's memory that the promise survives. Default: none.
    delta : int, Fraction or str
        The δ of an approximate promise. Default: 0, a pure promise.
    horizon : int, optional
        The last unit that is ever read. Later units repeat the last release. A horizon of one
        window is user level for a stream of any length. Default: none.

    Examples
    --------
    >>> Guarantee("0.5", 24)
    Guarantee(epsilon=1/2, window=24)
    >>> Guarantee("0.5", 24, delta="1e-6")
    Guarantee(epsilon=1/2, delta=1/1000000, window=24)
    >>> Guarantee("0.5", 24, horizon=24).user_level
    True
    >>> clauses = Guarantee("1", 24).clauses
    >>> print(clauses.span)
    Even then, the observer can hardly tell whether any one person was there at all in any 24 \
consecutive units.
    >>> print(clauses.bound)
    No observation is more than 2.72 times as likely with the person as without (epsilon = 1). A \
suspicion of 50 % can rise to 73.2 % at most.
    """

    epsilon: Fraction
    window: int
    contribution: int = 1
    intrusion: Intrusion = Intrusion.NONE
    delta: Fraction = Fraction(0)
    horizon: int | None = None

    def __init__(
        self,
        epsilon: Exact,
        window: int,
        contribution: int = 1,
        intrusion: Intrusion | str = Intrusion.NONE,
        delta: Exact = 0,
        horizon: int | None = None,
    ) -> None:
        object.__setattr__(self, "epsilon", positive(epsilon, name="epsilon"))
        object.__setattr__(self, "window", whole(window, name="window", least=1))
        object.__setattr__(self, "contribution", whole(contribution, name="contribution", least=1))
        object.__setattr__(self, "intrusion", _intrusion(intrusion))
        object.__setattr__(self, "delta", exact(delta, name="delta"))
        if not 0 <= self.delta < 1:
            raise ConfigurationError(
                f"delta must be at least 0 and below 1, not {self.delta}.", parameter="delta"
            )
        if self.window > MAX_WINDOW:
            raise ConfigurationError(
                f"window must be at most {MAX_WINDOW} units, not {self.window}.",
                parameter="window",
            )
        object.__setattr__(
            self, "horizon", None if horizon is None else whole(horizon, name="horizon", least=1)
        )
        if self.horizon is not None and self.horizon < self.window:
            raise ConfigurationError(
                f"window must be at most the horizon of {self.horizon} units, not {self.window}: "
                "no person is in more.",
                parameter="window",
            )

    def __repr__(self) -> str:
        more = f", horizon={self.horizon}" if self.horizon is not None else ""
        more += f", contribution={self.contribution}" if self.contribution != 1 else ""
        more += f", intrusion={self.intrusion.value!r}" if self.intrusion else ""
        delta = f", delta={self.delta}" if self.delta else ""
        return f"Guarantee(epsilon={self.epsilon}{delta}, window={self.window}{more})"

    @property
    def user_level(self) -> bool:
        """Whether it covers a person in every unit that is ever read."""
        return self.horizon == self.window

    @property
    def clauses(self) -> PromiseClauses:
        """The promise in plain sentences, one field per clause."""
        events = "one event" if self.contribution == 1 else f"{self.contribution} events"
        verb = "counts" if self.contribution == 1 else "count"
        also = f"All of this also holds against {self.intrusion}." if self.intrusion else ""
        return PromiseClauses(
            observer="An observer may see everything that is ever published, and may know "
            "everything about everybody else.",
            span="Even then, the observer can hardly tell whether any one person was there at all "
            f"{self._span()}",
            bound=self._bound(),
            contribution=f"At most {events} per person {verb} in each unit.",
            intrusion=also,
        )

    def in_words(self) -> str:
        """The promise for somebody who has never heard of epsilon."""
        return self.clauses.in_words()

    def _repr_html_(self) -> str:
        """The promise for a notebook: in words, and its numbers."""
        rows = [
            ("ε", str(self.epsilon)),
            ("δ", str(self.delta)),
            ("window", "1 unit" if self.window == 1 else f"{self.window} units"),
        ]
        rows.append(("most events of a person in a unit", str(self.contribution)))
        if self.horizon is not None:
            rows.append(("last unit that is read", str(self.horizon)))
        return card("The promise", promise=self.in_words(), parts=[table(("part", "value"), rows)])

    def _span(self) -> str:
        units = "in any one unit" if self.window == 1 else f"in any {self.window} consecutive units"
        if self.horizon is None:
            return f"{units}."
        read = "unit 1 is" if self.horizon == 1 else f"units 1 to {self.horizon} are"
        return f"{'in the whole stream' if self.user_level else units}. Only {read} ever read."

    def _bound(self) -> str:
        epsilon = float(min(self.epsilon, Fraction(10**300)))
        factor = _up(math.exp(epsilon)) if epsilon < 700 else f"e^{math.ceil(self.epsilon)}"
        belief = 100 * (1 + float(self.delta) * math.exp(-epsilon)) / (1 + math.exp(-epsilon))
        if not self.delta:
            return (
                f"No observation is more than {factor} times as likely with the person as without "
                f"(epsilon = {self.epsilon}). "
                f"A suspicion of 50 % can rise to {_up(belief)} % at most."
            )
        return (
            f"With the person, any observation is at most {factor} times as likely as without, "
            f"plus {_up(float(self.delta))}, and vice versa "
            f"(epsilon = {self.epsilon}, delta = {self.delta}). "
            "Whoever guesses between two equally likely answers is right in at most "
            f"{_up(belief)} % of cases."
        )


def _intrusion(text: str) -> Intrusion:
    try:
        return Intrusion(text)
    except ValueError:
        raise ConfigurationError(
            f"intrusion must be one of {', '.join(map(str, Intrusion.__members__))}, "
            f"or its text, not {text!r}.",
            parameter="intrusion",
        ) from None


def _up(number: float) -> str:
    """At least three digits, rounded up: a promise is never shown as more than it is."""
    for digits in range(3, 18):
        shown = f"{number:.{digits}g}"
        step = 10.0 ** (math.floor(math.log10(number)) - digits + 1)
        up = f"{number + step / 2:.{digits}g}" if float(shown) < number else shown
        if float(up) <= number * 1.01:
            return up
    return repr(number)
