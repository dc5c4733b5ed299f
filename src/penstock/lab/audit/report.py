"""A verdict for people: in a sentence, in words, and as one self-contained page."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

import numpy as np

from penstock.core.arrays import IntArray
from penstock.lab.audit.engine import Verdict
from penstock.lab.audit.model import Pair

_TOKEN = re.compile(r"coarse\d|fine\d|[-=<>↓↑+|≤≥LR?]")
_MOST_CELLS = 12
"""More cells than this of an event are not listed one by one."""


# -- a sentence ------------------------------------------------------------------------------------


def sentence(verdict: Verdict) -> str:
    """The verdict in one line."""
    claimed = claim(verdict)
    low = at_least(verdict.lower_bound, above=float(verdict.claimed) if verdict.convicted else None)
    if verdict.convicted:
        how = (
            "by exact computation"
            if verdict.method == "exact"
            else f"with confidence {percent(verdict.confidence)}"
        )
        return f"CONVICTED: ε ≥ {low} > {claimed} {how}"
    if verdict.method == "exact" and verdict.exact is not None:
        return f"not convicted: the exact loss lies in {interval(verdict.exact)}, promised were {claimed}"
    return f"not convicted: the attack found ε ≥ {low}, promised were {claimed}"


def claim(verdict: Verdict) -> str:
    """What was promised: ε, and δ where there is one."""
    return number(float(verdict.claimed)) + (
        f" (δ = {number(float(verdict.delta))})" if verdict.delta else ""
    )


def as_it_should_be(verdict: Verdict) -> bool:
    """A mechanism that is offered must be acquitted, a flawed variant convicted."""
    return verdict.convicted == verdict.flawed


def closing(verdicts: Sequence[Verdict], *, false_alarm: float) -> str:
    """Whether all is as it should be, and if not, who is to blame."""
    blamed = [verdict.name for verdict in verdicts if verdict.convicted and not verdict.flawed]
    missed = [verdict.name for verdict in verdicts if verdict.flawed and not verdict.convicted]
    flawed = sum(verdict.flawed for verdict in verdicts)
    said = []
    if blamed:
        said.append(f"CONVICTED, though offered for use: {', '.join(blamed)}.")
    if missed:
        said.append(
            f"Flawed, and yet NOT convicted: {', '.join(missed)}. The attack has lost its teeth."
        )
    if not said:
        said.append(f"Every registered mechanism was acquitted ({len(verdicts) - flawed} audits),")
        said.append(f"and every flawed variant convicted ({flawed}).")
    chance = f"{false_alarm:.0e}".replace("e-0", "e-")
    said.append(
        f"The probability that a run like this convicts any mechanism that keeps its promise is at most {chance}."
    )
    return " ".join(said)


def number(value: float) -> str:
    """A number as short as it can be read.

    >>> number(2.0), number(0.5), number(float("inf"))
    ('2', '0.5', '∞')
    """
    return "∞" if value == math.inf else "−∞" if value == -math.inf else f"{value:.6g}"


def at_least(value: float, *, above: float | None = None) -> str:
    """A lower bound, rounded down; with as many digits as it takes to see that it lies above
    something.

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


def percent(share: float) -> str:
    """
    >>> percent(0.999), percent(1 - 1e-3 / 17)
    ('99.9 %', '99.9941 %')
    """
    return f"{100 * share:.6g} %"


# -- the two streams -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """One or more neighbouring keys that have the same counts in every unit of both streams."""

    label: str
    key: int


def columns(pair: Pair) -> list[Column]:
    """The keys of a pair, neighbours that are alike in everything taken together."""
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
    """The counts of a unit of the left or the right stream by column, each with whether the streams
    differ there.
    """
    stream = pair.left if side == "left" else pair.right
    return [
        (
            f"{stream[unit, each.key]:,}",
            bool(pair.left[unit, each.key] != pair.right[unit, each.key]),
        )
        for each in shown
    ]


def look_in_words(pair: Pair) -> str | None:
    """What somebody who looked into the memory could see of which unit."""
    if pair.look is None:
        return None
    left, right = (
        ", ".join(f"{count:,}" for count in part.tolist())
        for part in (pair.look.left, pair.look.right)
    )
    return (
        f"Somebody looks into the memory once, in unit {pair.look.unit}, "
        f"when of its counts {left} had arrived on the left and {right} on the right."
    )


# -- the event -------------------------------------------------------------------------------------


def alphabet(verdict: Verdict) -> list[tuple[str, str]]:
    """What the letters of the event and of the most frequent cells mean."""
    if verdict.method == "exact":
        return [("*", "freshly published"), ("|", "ends a unit")]
    if any(cell.startswith("score") for cell in verdict.event.cells):
        more = f"the higher n, the more the output looks like the {_sides(verdict)[0]} stream"
        return [
            ("score n", f"a learned linear classifier puts the output into slice n of 64; {more}")
        ]
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
        ("+", "something else that is shown has changed, such as where a group began"),
        ("|", "ends a unit; a place without a letter is not looked at"),
        ("≤", "a look saw at most the lower of the two counts in memory"),
        ("≥", "a look saw more than the lower of the two counts in memory"),
        (
            "L",
            f"the release is what was seen in memory plus exactly what came later on the {_sides(verdict)[0]}",
        ),
        (
            "R",
            f"the release is what was seen in memory plus exactly what came later on the {_sides(verdict)[1]}",
        ),
        ("?", "the release is neither"),
    ]
    found = [(letter, meaning) for letter, meaning in meanings if letter in used]
    if any(len(token) > 1 for token in used):
        found.append(
            (
                "coarse n",
                "a float that is a multiple of 2⁻⁵², of size about 2⁻³ⁿ (n = 3: or smaller)",
            )
        )
        found.append(
            ("fine n", "a float with bits below 2⁻⁵², which a sum with a larger count cannot have")
        )
    return found


def in_words(verdict: Verdict) -> list[str]:
    """The event in sentences: what all its cells have in common, or what one cell says if it is the
    only one.
    """
    many = len(verdict.event.cells)
    if not many:
        return ["No event was found that is likelier on one stream than on the other."]
    if verdict.method == "exact":
        return ["Exactly this is published, unit by unit:"]
    if any(cell.startswith("score") for cell in verdict.event.cells):
        return [
            f"A linear classifier, learned on other runs, scores the whole output into one of these {many} slices."
        ]
    common = _in_common(sorted(verdict.event.cells), verdict)
    if many == 1:
        return ["In one run, all of this happens:", *common]
    if not common:
        return [
            f"The output falls into one of {many} cells; no single unit is the same in all of them."
        ]
    return [f"The output falls into one of {many} cells. All of them have in common:", *common]


def _in_common(cells: Sequence[str], verdict: Verdict) -> list[str]:
    spelt = [_letters(cell) for cell in cells]
    ways = [_places(verdict.pair, everywhere=everywhere) for everywhere in (True, False)]
    places = next((way for way in ways if all(len(each) == len(way) for each in spelt)), None)
    if places is None:
        return []
    lines: dict[str, list[str]] = {}
    for place, letters in zip(places, zip(*spelt, strict=True), strict=True):
        if len(set(letters)) == 1:
            unit, key, lesser = place
            lines.setdefault(unit, []).append(_say(letters[0], key, lesser, _sides(verdict)))
    return [f"{unit}: {'; '.join(said)}" for unit, said in lines.items()]


def _places(pair: Pair, *, everywhere: bool) -> list[tuple[str, int, int]]:
    """Where the letters of a cell stand: the unit, the key, and the lower of the two counts there.
    See `attack.cells`.
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
    if pair.look is not None:
        seen = np.minimum(pair.look.left, pair.look.right)
        for key in shown:
            places += [("the look", int(key) + 1, int(seen[key]))] * 2
    return places


def _letters(cell: str) -> list[str]:
    """The letters of a cell; a float's grain belongs to the letter before it."""
    letters: list[str] = []
    for letter in _TOKEN.findall(cell.replace("|", "").replace("+", "")):
        if len(letter) > 1 and letters:
            letters[-1] += " " + letter
        else:
            letters.append(letter)
    return letters


def _sides(verdict: Verdict) -> tuple[str, str]:
    """What L and R stand for: the letters are those of the pair as it was given, the streams are
    shown likelier first.
    """
    return ("right", "left") if verdict.event.swapped else ("left", "right")


def _say(letter: str, key: int, lesser: int, sides: tuple[str, str]) -> str:
    letter, _, grain = letter.partition(" ")
    said = {
        "-": f"key {key} is repeated",
        "=": f"key {key} is fresh",
        "<": f"key {key} is fresh and at most {lesser:,}",
        ">": f"key {key} is fresh and above {lesser:,}",
        "↓": f"key {key} is fresh and at most the lower of the two sums that it may be about",
        "↑": f"key {key} is fresh and above the lower of the two sums that it may be about",
        "≤": f"of key {key} at most {lesser:,} was seen in memory",
        "≥": f"of key {key} more than {lesser:,} was seen in memory",
        "L": f"the release of key {key} is what was seen plus exactly what came later on the {sides[0]}",
        "R": f"the release of key {key} is what was seen plus exactly what came later on the {sides[1]}",
        "?": f"the release of key {key} is neither of the two that reused noise would give",
    }[letter]
    return f"{said}, as a float of grain {grain!r}" if grain else said


def event_cells(verdict: Verdict) -> tuple[list[tuple[str, int | None, int | None]], int]:
    """The event's cells, the most frequent first, with their counts where they were kept; and how
    many are left out.
    """
    counts = {cell: (left, right) for cell, left, right in verdict.cells}
    first = [cell for cell in counts if cell in verdict.event.cells]
    rest = sorted(verdict.event.cells - counts.keys())
    listed: list[tuple[str, int | None, int | None]] = [
        (cell, *counts.get(cell, (None, None))) for cell in [*first, *rest][:_MOST_CELLS]
    ]
    return listed, len(verdict.event.cells) - len(listed)


def configured(verdict: Verdict) -> str:
    """What it was audited with, and which of it is not what it does by default."""
    listed = ", ".join(f"{name}={value}" for name, value in verdict.configuration.items())
    other = ", ".join(f"{name}={value}" for name, value in verdict.chosen.items())
    return f"{listed}." + (
        f" Its class asks for that; by default it has {other}, which was not audited."
        if other
        else ""
    )


def hits(verdict: Verdict) -> str | None:
    """How often the event was seen. None if nothing was run, as in an exact audit."""
    if not verdict.half:
        return None
    return f"{verdict.left_hits:,} of {verdict.half:,} runs on the left, {verdict.right_hits:,} of {verdict.half:,} on the right"


def meaning(verdict: Verdict) -> str:
    """What follows, for somebody who has to decide."""
    claimed = number(float(verdict.claimed))
    factor = f"{math.exp(float(verdict.claimed)):.3g}"
    less = (
        f", once δ = {number(float(verdict.delta))} is taken from its probability"
        if verdict.delta
        else ""
    )
    promise = f"The promise is that no event is more than e^{claimed} ≈ {factor} times as likely on one stream as on the other{less}."
    if verdict.convicted:
        sure = (
            "This was computed from the probabilities of the noise, not estimated"
            if verdict.method == "exact"
            else f"That the true ratio is smaller has a chance of at most {1 - verdict.confidence:.2g}"
        )
        found = (
            "not bounded"
            if math.isinf(verdict.lower_bound)
            else f"at least {math.exp(verdict.lower_bound):.3g}"
        )
        return f"{promise} Here the ratio is {found}. {sure}: the promise is broken, whatever the proof says."
    if verdict.method == "exact":
        return f"{promise} On this pair it holds, for every output that was looked at. Other streams were not looked at."
    return (
        f"{promise} The attack found nothing that breaks it. That is no proof: it tried these streams, with these "
        "events and so many runs. The promise itself rests on the mechanism's proof."
    )


# -- the page --------------------------------------------------------------------------------------


def render(verdicts: Sequence[Verdict], *, title: str, command: str) -> str:
    """One HTML page about these audits. It loads nothing and runs nothing: its content security
    policy forbids both.
    """
    wrong = sum(not as_it_should_be(verdict) for verdict in verdicts)
    tally = [
        ("audits", len(verdicts)),
        ("acquitted", sum(not verdict.convicted for verdict in verdicts)),
        ("convicted", sum(verdict.convicted for verdict in verdicts)),
        ("not as they should be", wrong),
    ]
    facts = "".join(f"<div><dt>{name}</dt><dd>{count}</dd></div>" for name, count in tally)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<header>
<p class="brand">Penstock</p>
<h1>{escape(title)}</h1>
<p>An audit runs a mechanism many times on two made-up streams that differ by one person, and looks for an output that
tells them apart better than was promised. What it finds is a lower bound on the true ε: above the promise it convicts,
below it proves nothing.</p>
<dl class="facts">{facts}</dl>
</header>
<main>
<section class="card"><h2>Found and promised</h2>
<p class="sub">The lower bound on ε as a share of what was promised; the line is the promise. Past it: convicted.</p>
{_chart(verdicts)}
</section>
<section class="card"><h2>All verdicts</h2>
<div class="wide"><table class="all">
<thead><tr><th>subject</th><th>verdict</th><th>ε at least</th><th>promised</th><th>window</th>
<th>exact</th><th>seconds</th></tr></thead>
<tbody>{"".join(_summary(at, verdict) for at, verdict in enumerate(verdicts, start=1))}</tbody></table></div>
</section>
{"".join(_section(at, verdict) for at, verdict in enumerate(verdicts, start=1))}
</main>
<footer><p>Make this page yourself:</p><pre><code>{escape(command)}</code></pre>
<p class="sub">Synthetic streams only; nobody in them exists. One file, no network.</p></footer>
</body>
</html>
"""


def _mark(verdict: Verdict) -> str:
    word = "convicted" if verdict.convicted else "not convicted"
    kind = "good" if as_it_should_be(verdict) else "bad"
    wrong = "" if as_it_should_be(verdict) else " ⚠"
    return f'<span class="mark {kind}">{word}{wrong}</span>'


def _kind(verdict: Verdict) -> str:
    return ' <span class="tag">flawed on purpose</span>' if verdict.flawed else ""


def _summary(at: int, verdict: Verdict) -> str:
    exact = "–" if verdict.exact is None else interval(verdict.exact)
    above = float(verdict.claimed) if verdict.convicted else None
    return (
        f'<tr><th scope="row"><a href="#audit-{at}">{escape(verdict.name)}</a>{_kind(verdict)}</th>'
        f"<td>{_mark(verdict)}</td><td>{at_least(verdict.lower_bound, above=above)}</td>"
        f"<td>{claim(verdict)}</td><td>{verdict.window}</td><td>{exact}</td>"
        f"<td>{verdict.seconds:.1f}</td></tr>"
    )


def _chart(verdicts: Sequence[Verdict]) -> str:
    """Bars of bound/promise. One column of HTML and SVG a subject, so that text stays legible at
    any width.
    """
    ratios = [max(0.0, verdict.lower_bound / float(verdict.claimed)) for verdict in verdicts]
    finite = [ratio for ratio in ratios if math.isfinite(ratio)]
    top = min(4.0, max([1.25, *(1.08 * ratio for ratio in finite)]))
    line = 100 / top
    rows = []
    for at, (verdict, ratio) in enumerate(zip(verdicts, ratios, strict=True), start=1):
        cut = ratio > top
        width = 100 * min(ratio, top) / top
        kind = "over" if verdict.convicted else "under"
        says = (
            f"{number(ratio) if not math.isfinite(ratio) else f'{ratio:.2f}'}{' →' if cut else ''}"
        )
        bar = (
            f'<svg viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label="{says} of the promise">'
            f'<rect class="back" width="100" height="10"/><rect class="{kind}" y="1.5" width="{width:.2f}" height="7"/>'
            f'<line x1="{line:.2f}" x2="{line:.2f}" y1="0" y2="10"/></svg>'
        )
        rows.append(
            f'<a class="name" href="#audit-{at}">{escape(verdict.name)}</a>{bar}<span class="says">{says}</span>'
        )
    return f'<div class="chart">{"".join(rows)}</div>'


def _section(at: int, verdict: Verdict) -> str:
    pair, seen = verdict.pair, hits(verdict)
    look = look_in_words(pair)
    words = in_words(verdict)
    letters = "".join(
        f"<dt><code>{escape(letter)}</code></dt><dd>{escape(said)}</dd>"
        for letter, said in alphabet(verdict)
    )
    points = (
        f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in words[1:])}</ul>" if words[1:] else ""
    )
    rates = ""
    if seen is not None:
        shares = verdict.left_hits / verdict.half, verdict.right_hits / verdict.half
        rates = f"<p>Seen in {escape(seen)} ({shares[0]:.3%} and {shares[1]:.3%}). Seed {verdict.seed}.</p>"
    return f"""<section class="card" id="audit-{at}"><h2>{escape(verdict.name)}{_kind(verdict)} {_mark(verdict)}</h2>
<p class="verdict">{escape(sentence(verdict))}</p>
{f"<p>Audited with {escape(configured(verdict))}</p>" if verdict.configuration else ""}
<h3>The two streams: {escape(pair.name)}</h3>
{_streams(pair)}
{f"<p>{escape(look)}</p>" if look else ""}
<h3>The event</h3>
<p>{escape(words[0])}</p>{points}
{_cells(verdict)}
<dl class="letters">{letters}</dl>
{rates}
<h3>What it means</h3>
<p>{escape(meaning(verdict))}</p>
</section>
"""


def _streams(pair: Pair) -> str:
    shown, gap = columns(pair), '<td class="gap"></td>'
    heads = "".join(f"<th>{escape(each.label)}</th>" for each in shown)
    sides = [f'<th colspan="{len(shown)}">{side}</th>' for side in ("left", "right")]

    def row(side: str, unit: int) -> str:
        return "".join(
            f"<td><mark>{count}</mark></td>" if differs else f"<td>{count}</td>"
            for count, differs in counts(pair, side, unit, shown)
        )

    rows = "".join(
        f'<tr><th scope="row">unit {unit + 1}</th>{row("left", unit)}{gap}{row("right", unit)}</tr>'
        for unit in range(pair.units)
    )
    return (
        f'<div class="wide"><table class="streams"><thead><tr><td></td>{gap.join(sides)}</tr>'
        f"<tr><td></td>{heads}{gap}{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _cells(verdict: Verdict) -> str:
    if not verdict.cells:
        listed = "".join(
            f"<li><code>{escape(cell)}</code></li>" for cell in sorted(verdict.event.cells)
        )
        return f'<ul class="cells wide">{listed}</ul>' if listed else ""
    most = max(max(left, right) for _, left, right in verdict.cells) or 1
    rows = []
    for cell, left, right in verdict.cells:
        inside = cell in verdict.event.cells
        bars = "".join(
            f'<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
            f'<rect class="{side}" width="{100 * times / most:.2f}" height="10"/></svg>'
            for side, times in (("left", left), ("right", right))
        )
        mark = '<span title="in the event">●</span>' if inside else ""
        rows.append(
            f'<tr class="{"inside" if inside else "outside"}"><td>{mark}</td><td><code>{escape(cell)}</code></td>'
            f'<td>{left:,}</td><td>{right:,}</td><td class="bars">{bars}</td></tr>'
        )
    more = len(verdict.event.cells - {cell for cell, _, _ in verdict.cells})
    besides = f"; it has {more} rarer ones besides" if more else ""
    rest = f'<p class="sub">● cells of the event{besides}.</p>'
    return (
        '<div class="wide"><table class="cells"><thead><tr><th></th><th>frequent cells</th><th>left</th><th>right</th>'
        '<th><span class="key left"></span>left <span class="key right"></span>right</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>{rest}"
    )


_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"

_STYLE = """
:root { --bg: #f3f6f8; --card: #fff; --ink: #13202b; --muted: #526170; --line: #d8e0e6; --soft: #e9eff3;
  --blue: #0a6ebd; --orange: #b85c00; --good: #0c7a4d; --bad: #b3261e; --hi: #ffe3a8; --hi-ink: #3a2500; }
@media (prefers-color-scheme: dark) { :root { --bg: #0c131a; --card: #131d27; --ink: #e8eff5; --muted: #9db0c0;
  --line: #2a3947; --soft: #1c2834; --blue: #56b4f5; --orange: #f5a65b; --good: #5fd3a0; --bad: #ff8a80; --hi: #6b4a05;
  --hi-ink: #fff3d6; } }
* { box-sizing: border-box; }
html { color-scheme: light dark; }
body { margin: 0 auto; max-width: 1080px; padding: 0 20px 48px; background: var(--bg); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif;
  overflow-wrap: break-word; }
h1 { margin: 0 0 10px; font-size: clamp(1.6rem, 4.4vw, 2.4rem); line-height: 1.15; }
h2 { margin: 0; font-size: 1.25rem; } h3 { margin: 20px 0 6px; font-size: 0.86rem; color: var(--muted); }
p { margin: 0 0 8px; max-width: 80ch; } ul { margin: 0 0 8px; padding-left: 22px; }
a { color: var(--blue); text-decoration: none; } a:hover { text-decoration: underline; }
header { padding: 32px 0 20px; } .brand { font-weight: 650; color: var(--blue); }
.facts { display: grid; grid-template-columns: repeat(4, 1fr); gap: 1px; margin: 18px 0 0; overflow: hidden;
  border: 1px solid var(--line); border-radius: 12px; background: var(--line); }
.facts div { display: flex; flex-direction: column-reverse; justify-content: flex-end; padding: 10px 14px;
  background: var(--card); }
.facts dt { font-size: 0.8rem; color: var(--muted); } .facts dd { margin: 0; font-size: 1.3rem; font-weight: 650; }
.card { margin-bottom: 18px; padding: 22px 24px; background: var(--card); border: 1px solid var(--line); border-radius: 14px; }
.sub { color: var(--muted); font-size: 0.92rem; }
.wide { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; font-size: 0.92rem; font-variant-numeric: tabular-nums; }
th, td { padding: 5px 12px 5px 0; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
.all th:first-child { min-width: 11em; white-space: normal; overflow-wrap: anywhere; }
.all td:nth-child(2), .all th:nth-child(2) { text-align: left; } thead th { color: var(--muted); font-weight: 600; }
code, pre { font: 0.9em ui-monospace, "SF Mono", "Liberation Mono", Menlo, Consolas, monospace; }
pre { overflow-x: auto; padding: 10px 14px; background: var(--soft); border-radius: 8px; }
.mark { font-size: 0.82rem; font-weight: 650; white-space: nowrap; } .good { color: var(--good); } .bad { color: var(--bad); }
.tag { padding: 1px 8px; border: 1px solid var(--line); border-radius: 999px; font-size: 0.74rem; font-weight: 500;
  color: var(--muted); white-space: nowrap; }
.verdict { margin-top: 6px; font-size: 1.08rem; font-weight: 600; }
.chart { display: grid; grid-template-columns: fit-content(16em) minmax(60px, 1fr) max-content; gap: 6px 12px;
  align-items: center; overflow-wrap: anywhere; margin-top: 12px; font-size: 0.9rem; }
.chart svg { display: block; width: 100%; height: 18px; } .says { font-variant-numeric: tabular-nums; text-align: right; }
.back { fill: var(--soft); } .under { fill: var(--blue); } .over { fill: var(--orange); }
line { stroke: var(--ink); stroke-width: 2; vector-effect: non-scaling-stroke; }
.streams .gap { border: 0; padding: 0 12px; } .streams thead th[colspan] { text-align: center; }
mark { padding: 1px 5px; border-radius: 4px; background: var(--hi); color: var(--hi-ink); font-weight: 650; }
.cells .bars { width: 200px; min-width: 120px; } .bars svg { display: block; width: 100%; height: 7px; }
.left { fill: var(--blue); background: var(--blue); } .right { fill: var(--orange); background: var(--orange); }
.key { display: inline-block; width: 12px; height: 8px; margin-right: 4px; }
.cells th:nth-child(2), .cells td:nth-child(2) { text-align: left; } .outside { color: var(--muted); }
.letters { display: grid; grid-template-columns: max-content 1fr; gap: 2px 12px; margin: 10px 0; font-size: 0.86rem;
  color: var(--muted); }
.letters dd { margin: 0; }
@media (max-width: 600px) { body { padding: 0 12px 32px; } .card { padding: 16px 14px; }
  .facts { grid-template-columns: repeat(2, 1fr); }
  .chart { grid-template-columns: minmax(0, 1fr) max-content; gap: 2px 10px; }
  .chart .name { grid-column: 1 / -1; margin-top: 6px; } }
@media print { .card { break-inside: avoid; } }
"""
