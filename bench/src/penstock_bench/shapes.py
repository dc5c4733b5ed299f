"""Claims about the shape of a figure: the best line, the slope of a line, its lowest place."""

from __future__ import annotations

import math
from dataclasses import dataclass

from penstock_bench.claims import (
    NOTHING,
    Claim,
    Place,
    Places,
    Value,
    Verdict,
    number,
    share,
    where,
)


@dataclass(frozen=True, kw_only=True)
class Best(Claim):
    """One line beats all its rivals everywhere, and somewhere by the share `below` if given.

    `slack` is the part of that share that is enough.
    """

    line: str
    rivals: tuple[str, ...]
    below: float | None = None
    slack: float = 0.8

    def look(self, places: Places) -> tuple[str, Verdict]:
        gains: dict[Place, float] = {}
        seconds: dict[Place, str] = {}
        for place, lines in places.items():
            others = {rival: lines[rival].mean for rival in self.rivals if rival in lines}
            if self.line in lines and len(others) == len(self.rivals):
                seconds[place] = min(others, key=others.__getitem__)
                best = others[seconds[place]]
                gains[place] = 1 - lines[self.line].mean / best if best > 0 else -math.inf
        if not gains:
            return NOTHING
        better = sum(gain > 0 for gain in gains.values())
        least, most = min(gains, key=gains.__getitem__), max(gains, key=gains.__getitem__)
        words = (
            f"the best at {better} of {len(gains)} points; {_beside(gains[most])} the next best, "
            f"{seconds[most]} "
        )
        words += f"({where(most)})"
        if len(gains) > 1:
            words += (
                f", at one end, and {_beside(gains[least])} {seconds[least]} ({where(least)}) at "
                "the other"
            )
        reached = self.below is None or gains[most] >= self.slack * self.below
        verdict = share(better, len(gains))
        return words, "partly" if verdict == "yes" and not reached else verdict


@dataclass(frozen=True, kw_only=True)
class RatioToBest(Claim):
    """The error of a line divided by that of its best rival: its geometric mean, and its maximum.

    `at` are the places of the axis; without it, all of them. A limit that is None is not judged.
    """

    line: str
    rivals: tuple[str, ...]
    at: tuple[str, ...] | None = None
    mean: float | None = None
    most: float | None = None

    def look(self, places: Places) -> tuple[str, Verdict]:
        ratios: dict[Place, float] = {}
        for place, lines in places.items():
            others = [lines[rival].mean for rival in self.rivals if rival in lines]
            asked = self.at is None or place[1] in self.at
            if asked and self.line in lines and others and min(others) > 0:
                ratios[place] = lines[self.line].mean / min(others)
        if not ratios:
            return NOTHING
        least, most = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
        centre = math.exp(math.fsum(map(math.log, ratios.values())) / len(ratios))
        words = (
            f"geometric mean {number(centre)} over {len(ratios)} points, from "
            f"{number(ratios[least])} ({where(least)}) to {number(ratios[most])} ({where(most)})"
        )
        low = self.mean is None or centre <= self.mean
        if self.most is None:
            return words, "yes" if low else "no"
        held = share(sum(ratio <= self.most for ratio in ratios.values()), len(ratios))
        return words, held if low else "partly" if held == "yes" and self.mean else "no"


def _beside(gain: float) -> str:
    """The difference in per cent, or as a factor if that is easier to read."""
    if gain < -1:
        return f"{number(1 - gain)} × the error of"
    return f"{number(100 * gain)} % below" if gain >= 0 else f"{number(-100 * gain)} % above"


@dataclass(frozen=True, kw_only=True)
class Power(Claim):
    """In every panel a line follows a power of the axis between `least` and `most`: 1 is linear, 0
    flat.
    """

    line: str
    least: float = -math.inf
    most: float = math.inf

    def look(self, places: Places) -> tuple[str, Verdict]:
        found: dict[str, float] = {}
        for panel, line in _along(places, self.line).items():
            (first, low), (last, high) = line[0], line[-1]
            if float(first) > 0 and low.mean > 0 and high.mean > 0:
                found[panel] = math.log(high.mean / low.mean) / math.log(float(last) / float(first))
        if not found:
            return NOTHING
        held = sum(self.least <= power <= self.most for power in found.values())
        powers = ", ".join(f"{power:.2f} ({panel})" for panel, power in found.items())
        return f"from end to end it goes like the axis to the power of {powers}", share(
            held, len(found)
        )


@dataclass(frozen=True, kw_only=True)
class Widens(Claim):
    """In every panel the lead of a line over its best rival is larger at the end of the axis."""

    line: str
    rivals: tuple[str, ...]

    def look(self, places: Places) -> tuple[str, Verdict]:
        ratios: dict[str, list[tuple[str, float]]] = {}
        for (panel, x), lines in places.items():
            if {self.line, *self.rivals} <= lines.keys() and lines[self.line].mean > 0:
                ratio = min(lines[rival].mean for rival in self.rivals) / lines[self.line].mean
                ratios.setdefault(panel, []).append((x, ratio))
        ends = {panel: (line[0], line[-1]) for panel, line in ratios.items() if len(line) > 1}
        if not ends:
            return NOTHING
        held = sum(last[1] > first[1] for first, last in ends.values())
        words = "; ".join(
            f"the next best has {number(first[1])} × its error at {first[0]} and "
            f"{number(last[1])} × at {last[0]} ({panel})"
            for panel, (first, last) in ends.items()
        )
        return words, share(held, len(ends))


@dataclass(frozen=True, kw_only=True)
class LeastAt(Claim):
    """In every panel a line is lowest at one place, or within its interval and 25 % of that."""

    line: str
    x: str

    def look(self, places: Places) -> tuple[str, Verdict]:
        said: list[str] = []
        held = panels = 0
        for panel, line in _along(places, self.line).items():
            at = dict(line)
            if self.x not in at:
                continue
            panels += 1
            best = min(at, key=lambda x: at[x].mean)
            here, there = at[self.x], at[best]
            lowest = (
                here.mean - _half(here) <= there.mean + _half(there)
                and here.mean <= 1.25 * there.mean
            )
            held += lowest
            if not lowest:
                said.append(
                    f"at {best} it is {number(100 * (1 - there.mean / here.mean))} % lower "
                    f"({panel})"
                )
        if not panels:
            return NOTHING
        return "; ".join([f"lowest at {self.x} in {held} of {panels} panels", *said]), share(
            held, panels
        )


def _half(value: Value) -> float:
    return 0.0 if math.isnan(value.half) else value.half


def _along(places: Places, line: str) -> dict[str, list[tuple[str, Value]]]:
    """The values of a line by panel, along the axis. Panels with one value are left out."""
    found: dict[str, list[tuple[str, Value]]] = {}
    for (panel, x), lines in places.items():
        if line in lines:
            found.setdefault(panel, []).append((x, lines[line]))
    return {
        panel: sorted(values, key=lambda at: float(at[0]))
        for panel, values in found.items()
        if len(values) > 1
    }
