"""A verdict for people: in one sentence, in words, and as a page."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np

from penstock.core.arrays import IntArray
from penstock.lab.audit.attack import KEY_LETTERS
from penstock.lab.audit.bounding.verdict import BoundingVerdict
from penstock.lab.audit.engine import REPLAYED, Verdict
from penstock.lab.audit.model import Pair
from penstock.released.pages import render as render_page

_TOKEN = re.compile(rf"coarse\d|fine\d|[-=<>↓↑+|≤≥LR?{KEY_LETTERS}]")
MAX_CELLS_LISTED = 12
"""The most cells of an event that are listed one by one."""

MAX_RATIO_DRAWN = 4.0
"""Bars of bound / promise end here; longer ones are cut, and an arrow says so."""

BEYOND_REPLAY = frozenset({"bd_pan_kept_key"})
"""Flawed variants that no replay can convict: the flaw is in the source of noise, which a replay
takes the place of.
"""

PROMISE = (
    "Whatever is published, no output may be more than e^ε times as likely with the events of "
    "one person as without them (where δ is given: once δ is taken from its probability)."
)

TIMING = "Timing is out of scope: how long anything takes was not compared."


# -- a sentence ------------------------------------------------------------------------------------


def sentence(verdict: Verdict) -> str:
    """The verdict in one line."""
    if verdict.failure is not None and not verdict.convicted:
        return f"{verdict.failure.outcome}: {verdict.failure.reason}"
    claimed = claim(verdict)
    low = at_least(verdict.lower_bound, above=float(verdict.claimed) if verdict.exceeded else None)
    if verdict.replay is not None and verdict.replay.convicted and not verdict.exceeded:
        return verdict.replay.sentence()
    if verdict.noise is not None and verdict.noise.convicted and not verdict.exceeded:
        return verdict.noise.sentence()
    if verdict.exceeded:
        how = (
            "by exact computation"
            if verdict.method == "exact"
            else f"with confidence {percent(verdict.confidence)}"
        )
        return f"CONVICTED: ε ≥ {low} > {claimed} {how}"
    if verdict.method == "exact" and verdict.exact is not None:
        return f"acquitted: exact ε in {interval(verdict.exact)} (promised: {claimed})"
    return f"acquitted: the attack found ε ≥ {low} (promised: {claimed})"


def claim(verdict: Verdict) -> str:
    """The promised ε, with δ if there is one."""
    return number(float(verdict.claimed)) + (
        f", δ = {number(float(verdict.delta))}" if verdict.delta else ""
    )


def as_it_should_be(verdict: Verdict) -> bool:
    """Whether a registered mechanism was acquitted, or a flawed variant convicted.

    A replay must agree, if there was one and its reach is not too short for the flaw.
    """
    if verdict.failure is not None:
        return False
    if verdict.method != REPLAYED and verdict.exceeded != verdict.flawed:
        return False
    if verdict.noise is not None and verdict.noise.convicted:
        return False
    replayed = verdict.replay
    if replayed is None or (verdict.flawed and verdict.name in BEYOND_REPLAY):
        return True
    return replayed.outcome == ("convicted" if verdict.flawed else "acquitted")


def could_be_judged(verdict: Verdict) -> bool:
    """Whether a mechanism was acquitted or convicted, by every audit that it had."""
    outcomes = {verdict.outcome, "acquitted" if verdict.replay is None else verdict.replay.outcome}
    return outcomes <= {"acquitted", "convicted"}


def exit_code(verdicts: Sequence[Verdict], bounding: BoundingVerdict | None = None) -> int:
    """The exit code of many audits: 0 all as it should be, 1 a wrong verdict, 3 one not judged.

    Parameters
    ----------
    verdicts : sequence of Verdict
        The verdicts.
    bounding : BoundingVerdict, optional
        The verdict on bounding. Default: none.
    """
    wrong = [verdict for verdict in verdicts if not as_it_should_be(verdict)]
    convicted = bounding is not None and bounding.convicted
    if convicted or any(map(could_be_judged, wrong)):
        return 1
    return 3 if wrong or (bounding is not None and bounding.exit_code) else 0


Tone: TypeAlias = Literal["good", "bad", "neutral", "unknown"]


def tone(verdict: Verdict | BoundingVerdict) -> Tone:
    """How a verdict looks. No conviction is good, and one that is expected is neutral."""
    if isinstance(verdict, BoundingVerdict):
        return {"acquitted": "good", "convicted": "bad"}.get(verdict.outcome, "unknown")  # type: ignore[return-value]
    if verdict.outcome not in ("acquitted", "convicted"):
        return "unknown"
    if verdict.flawed:
        return "neutral" if verdict.convicted else "bad"
    return "bad" if verdict.convicted else "good"


def verdict_mark(verdict: Verdict | BoundingVerdict) -> str:
    """The outcome in a table, and whether it is wrong. A dot: a flawed variant was convicted."""
    mark = {"acquitted": "✓", "convicted": "✗"}.get(verdict.outcome, "?")
    expected = ""
    if isinstance(verdict, Verdict):
        well = as_it_should_be(verdict)
        if well and verdict.flawed:
            mark = "•"
        elif not well and could_be_judged(verdict):
            expected = ", WRONG"
    return f"{mark} {verdict.outcome}{expected}"


def windows(verdict: Verdict) -> str:
    """The window that is claimed and, of a flawed variant, the one that its code uses."""
    claimed = f"window claimed: {verdict.window} unit{'s'[: verdict.window != 1]}"
    if not verdict.flawed:
        return claimed
    used = verdict.used_window
    return f"{claimed}, window that the code uses: {used} unit{'s'[: used != 1]}"


def tried(verdict: Verdict) -> list[str]:
    """What was tried on one mechanism, line by line."""
    lines = []
    if verdict.method == "exact":
        lines.append("Exact: all likely outputs of tiny pairs of streams")
    elif verdict.failure is None:
        lines.append(
            f"Sampling: {verdict.pairs} pair{'s'[: verdict.pairs != 1]} of streams, "
            f"{verdict.runs:,} runs on each stream, up to {verdict.pair.units} units and "
            f"{verdict.pair.keys} keys in the pair that is shown"
        )
    if verdict.replay is not None:
        lines.append(f"Replay: {verdict.replay.tried().removesuffix(' Timing was not compared.')}")
    if verdict.noise is not None:
        lines.append(f"Noise: {verdict.noise.draws:,} draws, {verdict.noise.tests} tests")
    return [*lines, TIMING]


def weakest(verdict: Verdict) -> str:
    """The pair or configuration that came nearest to the promise, and at what share of it."""
    how, loss, where = "sampling", verdict.lower_bound, f"the pair {verdict.pair.name!r}"
    found = verdict.replay
    if found is not None and found.loss >= loss:
        how, loss = "the replay", found.loss
        where = "no pair"
        if found.spot is not None:
            listed = found.spot.configuration.items()
            parameters = ", ".join(f"{name}={value}" for name, value in listed)
            where = f"the pair {found.spot.pair.name!r} with {parameters}"
    share = loss / float(verdict.claimed)
    said = f"{100 * share:.1f} %" if math.isfinite(share) else number(share)
    return f"Nearest to the promise: {said} of ε, by {how}, on {where}."


def tried_by_all(verdicts: Sequence[Verdict], bounding: BoundingVerdict | None = None) -> str:
    """What was tried in many audits, in one line.

    Parameters
    ----------
    verdicts : sequence of Verdict
        The verdicts.
    bounding : BoundingVerdict, optional
        The verdict on bounding. Default: none.
    """
    replays = [verdict.replay for verdict in verdicts if verdict.replay is not None]
    noises = [verdict.noise for verdict in verdicts if verdict.noise is not None]
    longest = max([verdict.pair.units for verdict in verdicts] + [each.longest for each in replays])
    keys = max([verdict.pair.keys for verdict in verdicts] + [each.most_keys for each in replays])
    said = [
        f"{sum(verdict.pairs for verdict in verdicts):,} pairs of streams",
        f"{sum(each.replays for each in replays):,} transcripts",
        f"{sum(each.configurations for each in replays):,} configurations",
        f"up to {longest} units and {keys} keys",
        f"{sum(each.draws for each in noises):,} noise draws",
    ]
    if bounding is not None:
        said.append(f"{bounding.rounds} bounding rounds in {len(bounding.sources)} formats")
    return f"Tried: {', '.join(said)}. {TIMING}"


def weakest_of_all(verdicts: Sequence[Verdict]) -> str:
    """The registered mechanism that was found nearest to its promise, and the least tested one."""
    shipped = [
        verdict
        for verdict in verdicts
        if not verdict.flawed and not verdict.convicted and could_be_judged(verdict)
    ]
    if not shipped:
        return "No registered mechanism was acquitted."
    most = max(shipped, key=lambda verdict: verdict.share)
    least = min(shipped, key=lambda verdict: verdict.share)
    return (
        f"The weakest spot: {most.name}. {weakest(most)} "
        f"The audit has least power for {least.name}: {100 * least.share:.1f} % of ε was found."
    )


def replay_cell(verdict: Verdict) -> str:
    """The replay in a table: the largest loss, or what it found instead of one."""
    found = verdict.replay
    if found is None:
        return ""
    if found.outcome == "acquitted" or found.loss > float(found.claimed):
        return f"{found.loss:.3f}"
    return "differs" if found.convicted else found.outcome


def closing(verdicts: Sequence[Verdict], *, false_alarm: float) -> str:
    """Say whether all verdicts are as expected, and name those that are not."""
    blamed = [verdict.name for verdict in verdicts if verdict.convicted and not verdict.flawed]
    wrong = [verdict for verdict in verdicts if not as_it_should_be(verdict)]
    unknown = [each.name for each in wrong if not could_be_judged(each)]
    missed = [each.name for each in wrong if each.flawed and not each.convicted]
    missed = [name for name in missed if name not in unknown]
    others = [each.name for each in wrong if each.name not in (*blamed, *missed, *unknown)]
    flawed = sum(verdict.flawed for verdict in verdicts)
    said = []
    if blamed:
        said.append(f"CONVICTED, though registered for use: {', '.join(blamed)}.")
    if missed:
        said.append(
            f"Flawed, but NOT convicted: {', '.join(missed)}. The attack is too weak to find these "
            "flaws, so the acquittals of this run prove nothing."
        )
    if others:
        said.append(f"The replay did not give what it should: {', '.join(others)}.")
    if unknown:
        said.append(f"Could NOT be judged: {', '.join(unknown)}.")
    if not said:
        said.append(f"All {len(verdicts) - flawed} registered mechanisms were acquitted,")
        said.append(f"and all {flawed} flawed variants were convicted.")
    chance = f"{false_alarm:.0e}".replace("e-0", "e-")
    said.append(
        "The probability that a run like this convicts any mechanism that keeps its promise "
        f"is at most {chance}."
    )
    return " ".join(said)


def number(value: float) -> str:
    """A number in at most six digits.

    >>> number(2.0), number(0.5), number(float("inf"))
    ('2', '0.5', '∞')
    """
    return "∞" if value == math.inf else "−∞" if value == -math.inf else f"{value:.6g}"


def at_least(value: float, *, above: float | None = None) -> str:
    """A lower bound, rounded down, with enough digits to show that it is above `above`.

    >>> at_least(1.8399), at_least(2.00001, above=2.0), at_least(2.4142, above=2.0)
    ('1.839', '2.00001', '2.414')
    """
    if not math.isfinite(value):
        return number(value)
    for digits in (3, 6, 9):
        rounded = math.floor(value * 10**digits) / 10**digits
        if above is None or rounded > above:
            return f"{rounded:.{digits}f}" if digits == 3 else f"{rounded:.{digits}f}".rstrip("0")
    return repr(value)


def interval(bounds: tuple[float, float]) -> str:
    """An interval, rounded outwards.

    >>> interval((1.99999999, 2.00000001))
    '[1.999999, 2.000001]'
    """
    low, high = bounds
    left = number(low) if not math.isfinite(low) else f"{math.floor(low * 1e6) / 1e6:.6f}"
    right = number(high) if not math.isfinite(high) else f"{math.ceil(high * 1e6) / 1e6:.6f}"
    return f"[{left}, {right}]"


def exact_cell(verdict: Verdict) -> str:
    """The exact loss in a table, and the ε that it was computed at, if that is another one.

    It says if an earlier run has computed it.
    """
    if verdict.exact is None:
        return ""
    kept = " (earlier run)" if verdict.exact_kept else ""
    return f"{interval(verdict.exact)}{_of_epsilon(verdict)}{kept}"


def exact_at_most(verdict: Verdict) -> str:
    """The same in few columns: the upper end, rounded up."""
    if verdict.exact is None:
        return ""
    high = verdict.exact[1]
    said = f"{math.ceil(high * 1e3) / 1e3:.3f}" if math.isfinite(high) else number(high)
    return f"≤ {said}{_of_epsilon(verdict)}"


def _of_epsilon(verdict: Verdict) -> str:
    other = verdict.exact_claimed
    return "" if other is None or other == verdict.claimed else f" of {number(float(other))}"


def percent(share: float) -> str:
    """A share in percent.

    >>> percent(0.999), percent(1 - 1e-3 / 17)
    ('99.9 %', '99.9941 %')
    """
    return f"{100 * share:.6g} %"


# -- the two streams -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """One or more adjacent keys with the same counts in every unit of both streams."""

    label: str
    key: int


def columns(pair: Pair) -> list[Column]:
    """The keys of a pair; adjacent keys with equal counts share one column."""
    both = np.vstack([pair.left, pair.right])
    starts = [
        0,
        *(key for key in range(1, pair.keys) if (both[:, key] != both[:, key - 1]).any()),
        pair.keys,
    ]
    return [
        Column(f"key {start + 1}" if end == start + 1 else f"keys {start + 1}–{end}", start)
        for start, end in pairwise(starts)
    ]


def counts(pair: Pair, side: str, unit: int, shown: Sequence[Column]) -> list[tuple[str, bool]]:
    """One unit's counts by column, each with whether the two streams differ there."""
    stream = pair.left if side == "left" else pair.right
    return [
        (
            f"{stream[unit, each.key]:,}",
            bool(pair.left[unit, each.key] != pair.right[unit, each.key]),
        )
        for each in shown
    ]


def look_in_words(pair: Pair) -> str | None:
    """The intruder's look into memory: its unit and what the counts were; None without one."""
    if pair.look is None:
        return None
    left, right = (
        ", ".join(f"{count:,}" for count in part.tolist())
        for part in (pair.look.left, pair.look.right)
    )
    if pair.look.after:
        return (
            f"An intruder reads the memory once, after unit {pair.look.unit}, whose counts are "
            f"{left} on the left and {right} on the right."
        )
    return (
        f"An intruder reads the memory once, in unit {pair.look.unit}, when the unit's counts "
        f"so far are {left} on the left and {right} on the right."
    )


# -- the event -------------------------------------------------------------------------------------


def alphabet(verdict: Verdict) -> list[tuple[str, str]]:
    """The letters in the event and in the most frequent cells, each with its meaning."""
    if verdict.method == "exact":
        return [("*", "freshly published"), ("|", "ends a unit")]
    if any(cell.startswith("score") for cell in verdict.event.cells):
        more = f"the higher n, the more the output looks like the {_sides(verdict)[0]} stream"
        return [("score n", f"a linear classifier puts the output into slice n of 64; {more}")]
    if _is_aside(verdict):
        return [("code n", "a code of all that the runs showed there")]
    shown = verdict.event.cells | {cell for cell, _, _ in verdict.cells}
    used = {token for cell in shown for token in _TOKEN.findall(cell)}
    meanings = [
        ("-", "the last release is repeated"),
        ("=", "freshly published, where the streams do not differ"),
        ("<", "freshly published, at or below the lower of the two counts"),
        (">", "freshly published, above the lower of the two counts"),
        (
            "↓",
            "a freshly published sum of several units, at or below the lower of the two true sums",
        ),
        ("↑", "a freshly published sum of several units, above the lower of the two true sums"),
        ("+", "another public value has changed, such as the start of a group"),
        ("|", "ends a unit; a place without a letter is not used"),
        ("≤", "the look saw at most the lower of the two counts in memory"),
        ("≥", "the look saw more than the lower of the two counts in memory"),
        *(
            (letter, f"the release is the value seen in memory plus the later events on the {side}")
            for letter, side in zip("LR", _sides(verdict), strict=True)
        ),
        ("?", "the release is neither"),
        *zip(KEY_LETTERS, _about_key(verdict), strict=True),
    ]
    found = [(letter, meaning) for letter, meaning in meanings if letter in used]
    if any(len(token) > 1 for token in used):
        found.append(
            ("coarse n", "a multiple of 2⁻⁵² of size about 2⁻³ⁿ (n = 3: or smaller), as a float")
        )
        found.append(
            ("fine n", "a float with bits below 2⁻⁵², which a sum with a larger count cannot have")
        )
    return found


def in_words(verdict: Verdict) -> list[str]:
    """The event in sentences: the parts that all its cells share."""
    many = len(verdict.event.cells)
    if not many:
        return ["No event was found that is likelier on one stream than on the other."]
    if verdict.method == "exact":
        return ["Exactly this is published, unit by unit:"]
    if any(cell.startswith("score") for cell in verdict.event.cells):
        return [f"A linear classifier, learned on other runs, gives one of these {many} slices."]
    if _is_aside(verdict):
        return ["Besides the released numbers, a run shows this:", *sorted(verdict.event.cells)[:3]]
    common = _in_common(sorted(verdict.event.cells), verdict)
    if many == 1:
        return ["In one run, all of this happens:", *common]
    if not common:
        return [
            f"The output falls into one of {many} cells; no single unit is the same in all of them."
        ]
    return [f"The output falls into one of {many} cells. All of them have in common:", *common]


def _is_aside(verdict: Verdict) -> bool:
    """Whether the event is about a field, an error, equal noise, low bits or the memory."""
    return any(": " in cell for cell in verdict.event.cells)


def _in_common(cells: Sequence[str], verdict: Verdict) -> list[str]:
    spelt = [_letters(cell) for cell in cells]
    keys = [each.pop() for each in spelt if each and each[-1] in KEY_LETTERS]
    ways = [_places(verdict.pair, everywhere=everywhere) for everywhere in (True, False)]
    places = next((way for way in ways if all(len(each) == len(way) for each in spelt)), [])
    lines: dict[str, list[str]] = {}
    for place, letters in zip(places, zip(*spelt, strict=True), strict=False):
        if len(set(letters)) == 1:
            unit, key, lesser = place
            lines.setdefault(unit, []).append(_say(letters[0], key, lesser, _sides(verdict)))
    if len(keys) == len(cells) and len(set(keys)) == 1:
        about = dict(zip(KEY_LETTERS, _about_key(verdict), strict=True))
        lines.setdefault("the look", []).append(about[keys[0]])
    return [f"{unit}: {'; '.join(said)}" for unit, said in lines.items()]


def _places(pair: Pair, *, everywhere: bool) -> list[tuple[str, int, int]]:
    """The place of each letter of a cell: unit, key, and the lower of the two counts there.

    `attack.cells` writes the letters in this order.
    """
    differs = pair.left != pair.right
    shown = np.flatnonzero(differs.any(axis=0)) if differs.any() else np.arange(pair.keys)
    lesser: IntArray = np.minimum(pair.left, pair.right)
    places = [
        (f"unit {unit + 1}", int(key) + 1, int(lesser[unit, key]))
        for unit in range(pair.units)
        for key in shown
        if everywhere or differs[unit, key]
    ]
    if pair.look is not None and not pair.look.after:
        seen = np.minimum(pair.look.left, pair.look.right)
        for key in shown:
            places += [("the look", int(key) + 1, int(seen[key]))] * 2
    return places


def _letters(cell: str) -> list[str]:
    """The letters of a cell; the grain of a float belongs to the letter before it."""
    letters: list[str] = []
    for letter in _TOKEN.findall(cell.replace("|", "").replace("+", "")):
        if len(letter) > 1 and letters:
            letters[-1] += " " + letter
        else:
            letters.append(letter)
    return letters


def _sides(verdict: Verdict) -> tuple[str, str]:
    """The sides that L and R stand for.

    The letters follow the pair as it was given, but the page shows the likelier stream first.
    """
    return ("right", "left") if verdict.event.swapped else ("left", "right")


def _about_key(verdict: Verdict) -> list[str]:
    """The meaning of each of `KEY_LETTERS`."""
    left, right = _sides(verdict)
    with_it = "a key of the noise is in memory, and with that noise"
    return [
        f"{with_it} neither stream gives the output",
        f"{with_it} only the stream on the {right} gives the output",
        f"{with_it} only the stream on the {left} gives the output",
        f"{with_it} both streams give the output",
    ]


def _say(letter: str, key: int, lesser: int, sides: tuple[str, str]) -> str:
    letter, _, grain = letter.partition(" ")
    said = {
        "-": f"key {key} is repeated",
        "=": f"key {key} is fresh",
        "<": f"key {key} is fresh and at most {lesser:,}",
        ">": f"key {key} is fresh and above {lesser:,}",
        "↓": f"key {key} is fresh and at most the lower of the two possible true sums",
        "↑": f"key {key} is fresh and above the lower of the two possible true sums",
        "≤": f"the look saw at most {lesser:,} of key {key} in memory",
        "≥": f"the look saw more than {lesser:,} of key {key} in memory",
        "L": f"key {key} is the value seen in memory plus the later events on the {sides[0]}",
        "R": f"key {key} is the value seen in memory plus the later events on the {sides[1]}",
        "?": f"key {key} is neither of the two values that reused noise would give",
    }[letter]
    return f"{said}, as a float of grain {grain!r}" if grain else said


def event_cells(verdict: Verdict) -> tuple[list[tuple[str, int | None, int | None]], int]:
    """The event's cells, most frequent first, with counts if kept; and the number left out."""
    counts = {cell: (left, right) for cell, left, right in verdict.cells}
    first = [cell for cell in counts if cell in verdict.event.cells]
    rest = sorted(verdict.event.cells - counts.keys())
    listed: list[tuple[str, int | None, int | None]] = [
        (cell, *counts.get(cell, (None, None))) for cell in [*first, *rest][:MAX_CELLS_LISTED]
    ]
    return listed, len(verdict.event.cells) - len(listed)


def configured(verdict: Verdict) -> str:
    """The audited parameters, and which of them differ from the defaults."""
    listed = ", ".join(f"{name}={value}" for name, value in verdict.configuration.items())
    other = ", ".join(f"{name}={value}" for name, value in verdict.chosen.items())
    return f"{listed}." + (
        f" The class sets these for audits; its defaults ({other}) were not audited."
        if other
        else ""
    )


def hits(verdict: Verdict) -> str | None:
    """How often the event was seen; None for an exact audit, which runs nothing."""
    if not verdict.half:
        return None
    return (
        f"{verdict.left_hits:,} of {verdict.half:,} runs on the left, "
        f"{verdict.right_hits:,} of {verdict.half:,} on the right"
    )


def meaning(verdict: Verdict) -> str:
    """The consequence of a verdict, for somebody who has to decide."""
    claimed = number(float(verdict.claimed))
    factor = f"{math.exp(float(verdict.claimed)):.3g}"
    less = (
        f", once δ = {number(float(verdict.delta))} is taken from its probability"
        if verdict.delta
        else ""
    )
    if verdict.failure is not None and not verdict.convicted:
        why = (
            "The ledger refused to spend more than the promise, so nothing was given away."
            if verdict.outcome == "refused"
            else "The mechanism failed."
        )
        return f"{why} Nothing is said about the promise: the mechanism could not be judged."
    promise = (
        f"The promise is that no event is more than e^{claimed} ≈ {factor} times as likely on one "
        f"stream as on the other{less}."
    )
    if verdict.replay is not None and verdict.replay.convicted and not verdict.exceeded:
        return f"{promise} {verdict.replay.meaning()}"
    if verdict.exceeded:
        sure = (
            "This was computed from the probabilities of the noise, not estimated"
            if verdict.method == "exact"
            else f"The probability of a smaller true ratio is at most {1 - verdict.confidence:.2g}"
        )
        found = (
            "not bounded"
            if math.isinf(verdict.lower_bound)
            else f"at least {math.exp(verdict.lower_bound):.3g}"
        )
        return (
            f"{promise} Here the ratio is {found}. {sure}. "
            "The promise is broken, whatever the proof says."
        )
    if verdict.method == "exact":
        return (
            f"{promise} On this pair of streams the promise holds for every output that was "
            "computed. No other pair was computed."
        )
    return (
        f"{promise} The attack found nothing that breaks it. This is not a proof: the attack "
        f"tried only this pair of streams and {verdict.runs:,} runs. The promise itself rests on "
        "the mechanism's proof."
    )


# -- the page --------------------------------------------------------------------------------------


def render(
    verdicts: Sequence[Verdict],
    *,
    title: str,
    command: str,
    bounding: BoundingVerdict | None = None,
) -> str:
    """The page about these audits. It runs no script and loads nothing."""
    return render_page(
        "penstock.lab.audit:audit.html",
        title=title,
        promise=PROMISE,
        command=command,
        verdicts=verdicts,
        bounding=bounding,
        unexpected=sum(not as_it_should_be(verdict) for verdict in verdicts),
        bars=list(zip(verdicts, _bars(verdicts), strict=True)),
        words=sys.modules[__name__],
    )


def _bars(verdicts: Sequence[Verdict]) -> list[dict[str, str]]:
    """One bar per verdict: bound / promise as a share of the widest, and where the promise is."""
    ratios = [max(0.0, verdict.lower_bound / float(verdict.claimed)) for verdict in verdicts]
    finite = [1.08 * ratio for ratio in ratios if math.isfinite(ratio)]
    top = min(MAX_RATIO_DRAWN, max([1.25, *finite]))
    return [
        {
            "width": f"{100 * min(ratio, top) / top:.2f}",
            "promise": f"{100 / top:.2f}",
            "says": (f"{ratio:.2f}" if math.isfinite(ratio) else number(ratio))
            + (" →" if ratio > top else ""),
        }
        for ratio in ratios
    ]
