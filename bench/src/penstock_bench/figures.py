"""One look for all figures of reports and examples. Needs matplotlib (extra `plots`)."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any, Final

from penstock.core.optional import require

COLOURS: Final = (
    "#1f5a99",
    "#d1662b",
    "#2f8f5b",
    "#8a4fa3",
    "#b8902a",
    "#5b6770",
    "#c23b6b",
    "#2a9aa8",
)
"""One colour per mechanism, for colour-blind readers too if lines are labelled."""

TRUTH: Final = "#22262b"
FAINT: Final = "#d9dde2"
DPI: Final = 130
POINTS: Final = 9.0
"""The size of the smallest text of a figure."""


def new(
    rows: int = 1, columns: int = 1, *, width: float = 9.0, height: float = 4.0, **how: Any
) -> tuple[Any, Any]:
    """Make a figure and its axes in the common look."""
    figures = require("matplotlib.figure", "plots", "drawing a figure")
    figure = figures.Figure(figsize=(width, height), layout="constrained", dpi=DPI)
    axes = figure.subplots(rows, columns, **how)
    for axis in figure.axes:
        axis.grid(visible=True, color=FAINT, linewidth=0.6)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=POINTS, colors="#444b53")
        axis.xaxis.label.set_fontsize(POINTS)
        axis.yaxis.label.set_fontsize(POINTS)
        axis.title.set_fontsize(POINTS + 1)
    return figure, axes


def save(figure: Any, path: Path) -> Path:
    """Write the figure as a PNG with 256 colours. Makes the folder if needed."""
    from PIL import Image  # a dependency of matplotlib

    path.parent.mkdir(parents=True, exist_ok=True)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    with Image.open(drawn) as image:
        image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    return path


def least_width(path: Path) -> int:
    """The smallest width in pixels at which no text of a saved figure is below 12 pixels."""
    from PIL import Image  # a dependency of matplotlib

    with Image.open(path) as image:
        return math.ceil(image.width * 12 / (POINTS * DPI / 72))
