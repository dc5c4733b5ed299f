"""Claims of papers about figures. Verdicts are computed from the rows, never written by hand."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from penstock_bench.labels import label

Verdict: TypeAlias = Literal["yes", "partly", "no", "not run"]


@dataclass(frozen=True)
class Value:
    """A mean over runs, half its 95 % interval (NaN for one run), and the formula's value if
    any."""

    mean: float
    half: float
    runs: int
    formula: float | None = None
    error: float | None = None
    """The standard error of the mean over releases side by side, if there are any."""


Place: TypeAlias = tuple[str, str]
"""A panel and a place on its axis."""

Places: TypeAlias = Mapping[Place, Mapping[str, Value]]
"""The lines at each place."""


@dataclass(frozen=True)
class Finding:
    """The claim of the paper, our finding, and whether they agree."""

    paper: str
    ours: str
    verdict: Verdict
    source: str = "The paper"

    def sentence(self) -> str:
        """One sentence for a claim that does not hold here."""
        return f"{self.source}: {self.paper}. Here: {self.ours}."


@dataclass(frozen=True, kw_only=True)
class Claim(ABC):
    """A statement of a paper about one measure, on some panels or on all. `source` is the paper."""

    paper: str
    measure: str
    source: str = "The paper"
    panels: tuple[str, ...] | None = None
    more: bool = False
    """Whether more is better; copied from the measure."""

    def found(self, places: Places) -> Finding:
        """Judge the claim by the values of its measure."""
        here = {
            place: lines
            for place, lines in places.items()
            if self.panels is None or place[0] in self.panels
        }
        words, verdict = self.look(here)
        return Finding(self.paper, words, verdict, self.source)

    @abstractmethod
    def look(self, places: Places) -> tuple[str, Verdict]:
        """Our finding in words, and the verdict."""


NOTHING: tuple[str, Verdict] = ("not run", "not run")


@dataclass(frozen=True, kw_only=True)
class Better(Claim):
    """One line is better than another everywhere, and somewhere by the factor `up_to` if given.

    `slack` is the part of that factor that is enough; below its square root the claim fails. The
    means are judged. The text also says at how many points the intervals lie apart.
    """

    line: str
    rival: str
    up_to: float | None = None
    slack: float = 0.8
    up_to_x: float | None = None
    """The claim ends at this place of the axis."""
    from_x: float | None = None
    """The claim begins at this place of the axis."""

    def look(self, places: Places) -> tuple[str, Verdict]:
        low, high = (
            (-math.inf if self.from_x is None else self.from_x),
            (math.inf if self.up_to_x is None else self.up_to_x),
        )
        places = {at: lines for at, lines in places.items() if low <= float(at[1]) <= high}
        above, below = (self.line, self.rival) if self.more else (self.rival, self.line)
        ratios = {
            place: lines[above].mean / lines[below].mean
            for place, lines in places.items()
            if {self.line, self.rival} <= lines.keys() and lines[below].mean > 0
        }
        if not ratios:
            return NOTHING
        better = sum(ratio > 1 for ratio in ratios.values())
        least, most = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
        sure = sum(_apart(places[place][above], places[place][below]) for place in ratios)
        words = f"better at {better} of {len(ratios)} points, surely at {sure}; "
        words += f"{'the value' if self.more else 'the error'} of {label(above)} is"
        words += f" {number(ratios[least])} × that of {label(below)} ({where(least)})"
        if len(ratios) > 1:
            words += f" to {number(ratios[most])} × ({where(most)})"
        reached = self.up_to is None or ratios[most] >= 1 + self.slack * (self.up_to - 1)
        if not reached:
            words += f", never {number(self.up_to or 1)} ×"
        far = self.up_to is not None and ratios[most] < math.sqrt(self.up_to)
        verdict = share(better, len(ratios))
        return words, "no" if far else "partly" if verdict == "yes" and not reached else verdict


@dataclass(frozen=True, kw_only=True)
class Inside(Claim):
    """The values of a line lie in a range."""

    line: str
    low: float
    high: float
    percent: bool = False

    def look(self, places: Places) -> tuple[str, Verdict]:
        values = {
            place: lines[self.line].mean for place, lines in places.items() if self.line in lines
        }
        if not values:
            return NOTHING
        inside = sum(self.low <= value <= self.high for value in values.values())
        least, most = min(values, key=values.__getitem__), max(values, key=values.__getitem__)
        words = (
            f"inside at {inside} of {len(values)} points, from {self._shown(values[least])} "
            f"({where(least)})"
        )
        words += f" to {self._shown(values[most])} ({where(most)})"
        return words, share(inside, len(values))

    def _shown(self, value: float) -> str:
        return f"{number(100 * value)} %" if self.percent else number(value)


@dataclass(frozen=True, kw_only=True)
class Agrees(Claim):
    """A measured value agrees with its formula, within a share `within` or `errors` standard
    errors.

    With many releases side by side, four standard errors are exceeded by chance once in 16,000
    points.
    """

    source: str = "Theory"
    line: str
    within: float = 0.02
    errors: float = 4.0

    def look(self, places: Places) -> tuple[str, Verdict]:
        ratios: dict[Place, float] = {}
        agreeing = 0
        for place, lines in places.items():
            value = lines.get(self.line)
            if value is not None and value.formula and value.mean > 0:
                ratios[place] = value.mean / value.formula
                near = abs(ratios[place] - 1) <= self.within
                # Squared errors are skewed, and a mean that is low by chance has a low standard
                # error too. Logarithms correct for both.
                agreeing += (
                    near
                    or abs(math.log(ratios[place]))
                    <= self.errors * (value.error or 0.0) / value.mean
                )
        if not ratios:
            return NOTHING
        least, most = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
        words = (
            f"agrees at {agreeing} of {len(ratios)} points; measured ÷ formula from "
            f"{number(ratios[least])}"
        )
        words += f" ({where(least)}) to {number(ratios[most])} ({where(most)})"
        return words, share(agreeing, len(ratios))


def _apart(high: Value, low: Value) -> bool:
    """Whether `high` exceeds `low` by more than both intervals. False for single runs."""
    return high.mean - low.mean > math.hypot(high.half, low.half)


def share(true: int, of: int) -> Verdict:
    """The verdict: yes if true at all points, partly at 25 % of them or more, else no."""
    return "yes" if true == of else "partly" if 4 * true >= of else "no"


def where(place: Place) -> str:
    return f"{place[0]}, {place[1]}"


def number(value: float) -> str:
    """A number with three digits.

    >>> number(0.12345), number(12345.6), number(5.0), number(12345678901), number(float("nan"))
    ('0.123', '12,346', '5', '1.23e10', '–')
    """
    if value != value:
        return "–"
    if abs(value) >= 1e7:
        digits, power = f"{value:.2e}".split("e")
        return f"{digits}e{int(power)}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
