"""Claims about the best place on the axis, about being close to it, and about widening gaps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from penstock_bench.claims import NOTHING, Claim, Place, Places, Verdict, number, share, where


@dataclass(frozen=True, kw_only=True)
class Least(Claim):
    """In every panel the error of a line is least between `low` and `high` on the axis."""

    line: str
    low: float
    high: float

    def look(self, places: Places) -> tuple[str, Verdict]:
        inner = {
            place: lines
            for place, lines in places.items()
            if self.low <= float(place[1]) <= self.high
        }
        best, best_inside = _best(places, self.line), _best(inner, self.line)
        if not best_inside:
            return NOTHING
        inside = {panel: best[panel] == x for panel, x in best_inside.items()}
        each = []
        for panel, there in best_inside.items():
            least, other = (
                places[panel, best[panel]][self.line].mean,
                places[panel, there][self.line].mean,
            )
            each.append(
                f"{panel}: at {best[panel]}"
                + ("" if inside[panel] else f", {number(least / other)} × that at {there}")
            )
        words = f"least there in {sum(inside.values())} of {len(inside)} panels ({'; '.join(each)})"
        return words, share(sum(inside.values()), len(inside))


@dataclass(frozen=True, kw_only=True)
class NearBest(Claim):
    """In every panel the error of a line is at most `within` above the least error of a rival."""

    line: str
    rival: str
    axis: str
    """The name of the place where the rival is best."""
    within: float = 0.2

    def look(self, places: Places) -> tuple[str, Verdict]:
        both = {place: lines for place, lines in places.items() if self.line in lines}
        best = _best(both, self.rival)
        ratios = {
            panel: both[panel, x][self.line].mean / both[panel, x][self.rival].mean
            for panel, x in best.items()
        }
        if not ratios:
            return NOTHING
        near = sum(ratio <= 1 + self.within for ratio in ratios.values())
        each = "; ".join(
            f"{panel}: {number(ratio)} × ({self.axis} = {best[panel]})"
            for panel, ratio in ratios.items()
        )
        words = (
            f"within {100 * self.within:.0f} % in {near} of {len(ratios)} panels. Its error in "
            f"multiples of the best: {each}"
        )
        return words, share(near, len(ratios))


@dataclass(frozen=True, kw_only=True)
class Near(Claim):
    """At every place the error of a line is at most `within` above a rival's."""

    line: str
    rival: str
    within: float = 0.2

    def look(self, places: Places) -> tuple[str, Verdict]:
        ratios = _ratios(places, self.rival, self.line)
        if not ratios:
            return NOTHING
        near = sum(ratio <= 1 + self.within for ratio in ratios.values())
        least, most = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
        words = (
            f"at most {100 * self.within:.0f} % above it at {near} of {len(ratios)} points; it "
            f"has {number(ratios[least])}"
        )
        words += (
            f" × ({where(least)}) to {number(ratios[most])} × ({where(most)}) the error of "
            f"{self.rival}"
        )
        return words, share(near, len(ratios))


@dataclass(frozen=True, kw_only=True)
class FallsBehind(Claim):
    """Along the axis a rival falls further behind a line; with `falls`, towards the left.

    The gap is the rival's error divided by the line's. Yes: it widens with every step. Partly: it
    widens from end to end, or only the difference of the errors does. Where the gap should be
    widest, the line must be better.
    """

    line: str
    rival: str
    falls: bool = False

    def look(self, places: Places) -> tuple[str, Verdict]:
        ratios = _ratios(places, self.line, self.rival)
        what = f"the error of {self.rival} in multiples of that of {self.line}"
        words, verdict = _trend(ratios, what, self.falls, above=1.0)
        if verdict != "no":
            return words, verdict
        apart = {
            place: places[place][self.rival].mean - places[place][self.line].mean
            for place in ratios
        }
        more, wider = _trend(apart, "their difference", self.falls)
        return f"{words}; {more}", "no" if wider == "no" else "partly"


@dataclass(frozen=True, kw_only=True)
class Rises(Claim):
    """Along the axis the error of a line grows; with `falls`, it shrinks. Judged like
    `FallsBehind`.
    """

    line: str
    falls: bool = False

    def look(self, places: Places) -> tuple[str, Verdict]:
        errors = {
            place: lines[self.line].mean for place, lines in places.items() if self.line in lines
        }
        return _trend(errors, f"the error of {self.line}", self.falls)


def _best(places: Places, line: str) -> dict[str, str]:
    """The place of the least error of the line, by panel."""
    found: dict[str, tuple[float, str]] = {}
    for (panel, x), lines in places.items():
        if (
            line in lines
            and lines[line].mean > 0
            and (panel not in found or lines[line].mean < found[panel][0])
        ):
            found[panel] = lines[line].mean, x
    return {panel: x for panel, (_, x) in found.items()}


def _ratios(places: Places, line: str, rival: str) -> dict[Place, float]:
    """The rival's error divided by the line's, where both have values."""
    return {
        place: lines[rival].mean / lines[line].mean
        for place, lines in places.items()
        if {line, rival} <= lines.keys() and lines[line].mean > 0
    }


def _trend(
    values: Mapping[Place, float], what: str, falls: bool, *, above: float = 0.0
) -> tuple[str, Verdict]:
    """Compare values from left to right, by panel. The larger end must be above `above`."""
    said, ends, steps, of = [], [], 0, 0
    for panel in dict.fromkeys(panel for panel, _ in values):
        along = sorted((float(x), value, x) for (at, x), value in values.items() if at == panel)
        if len(along) < 2:
            continue
        (_, left, first), (_, right, last) = along[0], along[-1]
        less, more = (right, left) if falls else (left, right)
        ends.append(more > less and more > above)
        here = [
            after < before if falls else after > before
            for (_, before, _), (_, after, _) in pairwise(along)
        ]
        steps, of = steps + sum(here), of + len(here)
        said.append(f"{number(left)} at {first} to {number(right)} at {last} ({panel})")
    if not ends:
        return NOTHING
    words = f"{what}: {', '.join(said)}; {steps} of {of} steps {'fall' if falls else 'rise'}"
    return words, "yes" if all(ends) and steps == of else "partly" if any(ends) else "no"
