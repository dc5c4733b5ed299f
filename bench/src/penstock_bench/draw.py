"""The figures of a report: one panel per stream, one line per mechanism, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from penstock_bench import figures
from penstock_bench.cell import MEAN, TRIVIAL, ZEROS
from penstock_bench.claims import Value
from penstock_bench.findings import Answered
from penstock_bench.labels import label
from penstock_bench.plugins import FLAWED
from penstock_bench.suite import PlottedMeasure

FAR = 20.0
"""All zeros is not drawn if it is this many times above every other line."""

_GREY = "#5b6770"
_STYLES = ("-", "--", "-.")


def looks(lines: Sequence[str]) -> dict[str, tuple[str, str]]:
    """A colour and a style for every line. Trivial lines are grey."""
    colours = [colour for colour in figures.COLOURS if colour != _GREY]
    found: dict[str, tuple[str, str]] = {ZEROS: (_GREY, "-."), MEAN: (_GREY, ":")}
    place = 0
    for line in lines:
        if line not in found:
            style = (
                ":" if line.startswith(FLAWED) else _STYLES[place // len(colours) % len(_STYLES)]
            )
            found[line] = (colours[place % len(colours)], style)
            place += 1
    return found


def draw(
    answered: Answered, drawn: PlottedMeasure, look: dict[str, tuple[str, str]], path: Path
) -> Path:
    """Draw one measure as a PNG file."""
    question, places = answered.question, answered.places(drawn)
    panels = list(dict.fromkeys(panel for panel, _ in places))
    columns = min(question.columns, len(panels))
    rows = -(-len(panels) // columns)
    figure, axes = figures.new(
        rows, columns, width=max(3.1 * columns, 5.6), height=2.6 * rows + 1.0, squeeze=False
    )
    for axis, panel in zip(axes.ravel(), panels, strict=False):
        _panel(
            axis,
            answered,
            drawn,
            {x: lines for (at, x), lines in places.items() if at == panel},
            look,
        )
        axis.set_title(panel, fontsize=figures.POINTS + 1)
        axis.set_xscale("linear" if question.linear else "log")
        if drawn.more:
            axis.set_ylim(-0.03, 1.03)
        else:
            axis.set_yscale("log")
            _plain(axis.yaxis, *axis.get_ylim())
        x = sorted({float(x) for at, x in places if at == panel})
        _marks(
            axis.xaxis,
            np.linspace(x[0], x[-1], 5).tolist() if drawn.curve and question.linear else x,
        )
    for axis in axes.ravel()[len(panels) :]:
        axis.set_visible(False)
    for axis in axes[-1]:
        axis.set_xlabel(question.axis)
    for axis in axes[:, 0]:
        axis.set_ylabel(drawn.title if len(drawn.title) < 40 else drawn.title.partition(",")[0])
    legend = {
        text: handle
        for axis in axes.ravel()
        for handle, text in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        legend.values(),
        legend.keys(),
        loc="outside lower center",
        ncols=max(
            2, min(len(legend), int(figure.get_figwidth() / (0.45 + 0.07 * max(map(len, legend)))))
        ),
        fontsize=figures.POINTS,
        frameon=False,
    )
    return figures.save(figure, path)


def _panel(
    axis: Any,
    answered: Answered,
    drawn: PlottedMeasure,
    at: Mapping[str, Mapping[str, Value]],
    look: dict[str, tuple[str, str]],
) -> None:
    highest = max(
        (
            value.mean
            for lines in at.values()
            for line, value in lines.items()
            if line not in TRIVIAL
        ),
        default=0.0,
    )
    for line in answered.lines:
        here = [(float(x), lines[line]) for x, lines in at.items() if line in lines]
        if not here or (line in TRIVIAL and _far(here, highest) and not drawn.more):
            continue
        colour, style = look[line]
        x = np.array([place for place, _ in here])
        mean = np.array(
            [value.mean if value.mean > 0 or drawn.more else np.nan for _, value in here]
        )
        half = np.nan_to_num(
            np.array([value.half if value.runs > 2 or drawn.beside else 0.0 for _, value in here])
        )
        marker = "" if line in TRIVIAL or drawn.curve else "o"
        axis.plot(
            x, mean, style, color=colour, label=label(line), linewidth=1.4, marker=marker, ms=3
        )
        low = mean - half if drawn.more else np.maximum(mean - half, mean / 100)
        axis.fill_between(x, low, mean + half, color=colour, alpha=0.15, linewidth=0)
        theory = [(place, value.formula) for place, value in here if value.formula]
        if theory:
            axis.plot(
                *zip(*theory, strict=True),
                linestyle=(0, (1, 2)),
                color=figures.TRUTH,
                linewidth=1.0,
                zorder=5,
            )


def _far(here: Sequence[tuple[float, Value]], highest: float) -> bool:
    return highest > 0 and min(value.mean for _, value in here) > FAR * highest


def _plain(axis: Any, low: float, high: float) -> None:
    """The ticks of a logarithmic axis, written as numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    decades = np.log10(high / low)
    subs = (
        (1.0,)
        if decades > 1.8
        else (1.0, 2.0, 5.0)
        if decades > 0.8
        else (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
    )
    axis.set_major_locator(LogLocator(subs=subs, numticks=8))
    axis.set_major_formatter(FuncFormatter(_short))
    axis.set_minor_locator(NullLocator())


def _marks(axis: Any, values: Sequence[float]) -> None:
    """The ticks at the points of a line, or at some of them."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis.set_major_locator(FixedLocator(list(values[:: -(-len(values) // 6)])))
    axis.set_major_formatter(FuncFormatter(_short))
    axis.set_minor_locator(NullLocator())


def _short(value: float, _: object) -> str:
    if value >= 1e6:
        return f"{value:.0e}".replace("e+0", "e").replace("e+", "e")
    return f"{value:,.0f}" if value >= 1 and float(value).is_integer() else f"{value:g}"
