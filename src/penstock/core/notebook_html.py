"""HTML for notebooks: a heading, a promise, facts, and tables with small charts, in one card.

The HTML needs no script and loads nothing. Text takes the colours of the notebook.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from penstock.core.arrays import BoolArray, FloatArray

MAX_POINTS = 200
"""The most points of a small chart. Of more points, each stands for the mean of its neighbours."""

MAX_HTML_ROWS = 10
"""The most rows of a table."""

_BLUE, _RED = "#1f87d6", "#d6453d"
"""Colours that stand out from a light and from a dark page."""

_STYLE = """<style>
.penstock-card { max-width: 60rem; line-height: 1.45; overflow-x: auto; }
.penstock-card h4 { margin: 0 0 .3em; font-size: 1.1em; }
.penstock-card p { margin: .4em 0; max-width: 80ch; text-align: left; }
.penstock-card blockquote { margin: .5em 0; padding: .1em 1em; border-left: 4px solid #1f87d6; }
.penstock-card table { border-collapse: collapse; margin: .5em 0; font-size: inherit; }
.penstock-card th, .penstock-card td { padding: .2em .8em; text-align: right;
  vertical-align: middle; font-variant-numeric: tabular-nums; white-space: nowrap; }
.penstock-card th:first-child, .penstock-card td:first-child { padding-left: 0; text-align: left; }
.penstock-card svg { max-width: 100%; }
.penstock-card .penstock-note { opacity: .75; font-size: .92em; }
</style>"""


class Html(str):
    """Text that is HTML already, so that it is not escaped."""

    __slots__ = ()


def card(
    title: str,
    *,
    lead: str = "",
    promise: str = "",
    parts: Iterable[Html] = (),
    note: str = "",
) -> str:
    """One object as HTML.

    >>> "<h4>Sums &lt;of&gt; a day</h4>" in card("Sums <of> a day", promise="Nobody is told apart.")
    True
    """
    name = html.escape(title)
    region = f'<div class="penstock-card" role="region" tabindex="0" aria-label="{name}">'
    content = [_STYLE, region, f"<h4>{name}</h4>"]
    if lead:
        content.append(f"<p>{html.escape(lead)}</p>")
    if promise:
        content.append(f"<blockquote><p>{html.escape(promise)}</p></blockquote>")
    content += parts
    if note:
        content.append(f'<p class="penstock-note">{html.escape(note)}</p>')
    return "\n".join([*content, "</div>"])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Html:
    """A table. Cells are text, or HTML such as a small chart.

    >>> table(["key"], [["north & south"]]).count("north &amp; south")
    1
    """
    titles = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in head)
    body = "".join(
        "<tr>"
        + "".join(
            f"<td>{cell if isinstance(cell, Html) else html.escape(cell)}</td>" for cell in row
        )
        + "</tr>"
        for row in rows
    )
    return Html(f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>")


def sparkline(
    values: FloatArray,
    *,
    low: FloatArray | None = None,
    high: FloatArray | None = None,
    limit: float | None = None,
    width: int = 160,
    height: int = 28,
) -> Html:
    """A small chart of numbers over time, with the band between `low` and `high` and a limit.

    >>> sparkline(np.array([1.0, 3.0, np.nan, 2.0])).count("<path")
    1
    """
    line = _thinned(values)
    lower, upper = (
        _thinned(values if low is None else low),
        _thinned(values if high is None else high),
    )
    known = [each[np.isfinite(each)] for each in (line, lower, upper)]
    numbers = np.concatenate([*known, [0.0] if limit is None else [0.0, limit]])
    least, most = float(numbers.min()), float(numbers.max())
    step = width / max(len(line), 1)

    def y(value: float) -> str:
        share = (value - least) / ((most - least) or 1.0)
        return f"{height - 2 - share * (height - 4):.1f}"

    drawn = []
    if low is not None and high is not None:
        for start, end in _stretches(np.isfinite(lower) & np.isfinite(upper)):
            there = [
                f"{i * step:.1f},{y(upper[i])} {(i + 1) * step:.1f},{y(upper[i])}"
                for i in range(start, end)
            ]
            back = [
                f"{(i + 1) * step:.1f},{y(lower[i])} {i * step:.1f},{y(lower[i])}"
                for i in reversed(range(start, end))
            ]
            points = " ".join(there + back)
            drawn.append(f'<polygon points="{points}" fill="{_BLUE}" fill-opacity=".22"/>')
    if limit is not None:
        drawn.append(
            f'<line x1="0" x2="{width}" y1="{y(limit)}" y2="{y(limit)}" stroke="{_RED}" '
            'stroke-dasharray="4 3"/>'
        )
    path = "".join(
        f"M{start * step:.1f} {y(line[start])}"
        + "".join(f"V{y(line[i])}H{(i + 1) * step:.1f}" for i in range(start, end))
        for start, end in _stretches(np.isfinite(line))
    )
    drawn.append(f'<path d="{path}" fill="none" stroke="{_BLUE}" stroke-width="1.5"/>')
    said = f"{len(values)} numbers over time, from {_short(values, min)} to {_short(values, max)}"
    return Html(
        f'<svg role="img" aria-label="{said}" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">{"".join(drawn)}</svg>'
    )


def shown(value: float) -> str:
    """A number with few digits.

    >>> shown(12345.6), shown(12.34), shown(float("nan"))
    ('12,346', '12.3', '?')
    """
    if not math.isfinite(value):
        return "?" if math.isnan(value) else "∞" if value > 0 else "−∞"
    return (
        f"{value:,.0f}"
        if float(value).is_integer() or abs(value) >= 1000
        else f"{value:,.1f}"
        if abs(value) >= 10
        else f"{value:.2f}"
    )


def shown_interval(low: float, high: float) -> str:
    """An interval with few digits."""
    return "(error not known)" if math.isnan(low) else f"[{shown(low)}, {shown(high)}]"


def _thinned(values: FloatArray) -> FloatArray:
    """At most `MAX_POINTS` numbers, each the mean of some neighbours."""
    if len(values) <= MAX_POINTS:
        return values
    size = math.ceil(len(values) / MAX_POINTS)
    return np.array([values[i : i + size].mean() for i in range(0, len(values), size)])


def _stretches(good: BoolArray) -> list[tuple[int, int]]:
    """Where each run of true values begins and ends."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], good.astype(np.int8), [0]])))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _short(values: FloatArray, choose: Callable[[Iterable[float]], float]) -> str:
    finite = values[np.isfinite(values)]
    return f"{choose(finite.tolist()):,.4g}" if len(finite) else "unknown"
