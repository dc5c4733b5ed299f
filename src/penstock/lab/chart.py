"""One self-contained page with numbers over time and the band that their noise leaves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from string import Template
from typing import Any

from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.lab.page import asset, safe_json, script_hash

_MARK = '<li><span class="key dot" style="border-color:var(--note);background:var(--note)"></span>alert</li>'


@dataclass(frozen=True)
class Chart:
    """Numbers, one row a unit and one column a name; `raised` marks some of them, `thresholds` are
    lines across.
    """

    title: str
    promise: str
    confidence: str
    units: IntArray
    names: tuple[str, ...]
    estimate: FloatArray
    low: FloatArray
    high: FloatArray
    raised: BoolArray | None = None
    thresholds: tuple[float, ...] = ()


def render(chart: Chart) -> str:
    """The page as one HTML document. It loads nothing: its content security policy forbids every
    request.
    """
    library = f"/*\n{asset('uplot', 'LICENSE')}\n*/\n{asset('uplot', 'uPlot.iife.min.js')}"
    own = asset("chart.js")
    data: dict[str, Any] = {
        "units": chart.units.tolist(),
        "names": chart.names,
        "estimate": [_column(column) for column in chart.estimate.T.tolist()],
        "low": [_column(column) for column in chart.low.T.tolist()],
        "high": [_column(column) for column in chart.high.T.tolist()],
        "raised": None if chart.raised is None else chart.raised.T.astype(int).tolist(),
        "thresholds": chart.thresholds,
        "confidence": chart.confidence,
    }
    return Template(asset("chart.html")).substitute(
        script_hashes=f"{script_hash(library)} {script_hash(own)}",
        style=asset("uplot", "uPlot.min.css") + "\n" + asset("page.css"),
        chart_script=library,
        page_script=own,
        data=safe_json(data),
        title=escape(chart.title),
        promise=escape(chart.promise),
        confidence=escape(chart.confidence),
        marks="" if chart.raised is None else _MARK,
    )


def _column(values: Sequence[float]) -> list[float | None]:
    return [float(f"{value:.7g}") if math.isfinite(value) else None for value in values]
