"""A page that shows numbers over time with the interval of their noise."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.core.calendar import SECOND, Calendar
from penstock.released.pages.render import render


@dataclass(frozen=True, kw_only=True, repr=False)
class Chart:
    """Numbers over time: one row per unit, one column per name.

    Parameters
    ----------
    title : str
        The heading of the page.
    promise : str
        The promise in words.
    confidence : str
        The confidence of the intervals, such as ``"95 %"``.
    units : IntArray
        The number of each row's unit, ascending.
    names : tuple of str
        The name of each column.
    estimate, low, high : FloatArray
        The numbers and the ends of their intervals. NaN and infinity mean "unknown".
    calendar : Calendar, optional
        When units are; the axis then shows dates in its time zone. Default: unit numbers.
    raised : BoolArray, optional
        Where an alert was raised. Default: the page shows no alerts.
    thresholds : tuple of float
        Horizontal lines. Default: none.
    note : str
        What the intervals mean. Default: they cover the added noise only.
    measure : str
        What the numbers are, beside their axis. Default: ``"Count"``.

    Examples
    --------
    >>> import numpy as np
    >>> counts = np.array([[3.0], [4.0]])
    >>> chart = Chart(
    ...     title="Counts", promise="Nobody is told apart.", confidence="95 %",
    ...     units=np.array([1, 2]), names=("north",),
    ...     estimate=counts, low=counts - 1, high=counts + 1,
    ... )
    >>> "<title>Counts · Penstock</title>" in chart.page()
    True
    """

    title: str
    promise: str
    confidence: str
    units: IntArray
    names: tuple[str, ...]
    estimate: FloatArray
    low: FloatArray
    high: FloatArray
    calendar: Calendar | None = None
    raised: BoolArray | None = None
    thresholds: tuple[float, ...] = ()
    note: str = "Intervals cover the added noise only."
    measure: str = "Count"

    def __repr__(self) -> str:
        keys = "1 key" if len(self.names) == 1 else f"{len(self.names)} keys"
        return f"<Chart {self.title!r}: {len(self.units)} units, {keys}>"

    def _repr_html_(self) -> str:
        """The page in a frame of its own, for a notebook."""
        return (
            f'<iframe title="{html.escape(self.title)}" srcdoc="{html.escape(self.page())}" '
            'sandbox="allow-scripts" '
            'style="width: 100%; height: 1120px; border: 0"></iframe>'
        )

    def page(self) -> str:
        """The page as one HTML document."""
        units = [int(unit) for unit in self.units]
        data = {
            "units": units,
            "starts": starts(units, self.calendar),
            "zone": None if self.calendar is None else self.calendar.zone,
            "names": self.names,
            "estimate": [_column(column) for column in self.estimate.T.tolist()],
            "low": [_column(column) for column in self.low.T.tolist()],
            "high": [_column(column) for column in self.high.T.tolist()],
            "raised": None if self.raised is None else self.raised.T.astype(int).tolist(),
            "thresholds": self.thresholds,
            "confidence": self.confidence,
            "measure": self.measure,
        }
        return render(
            "series.html", title=self.title, promise=self.promise, note=self.note, data=data
        )


def starts(units: Sequence[int], calendar: Calendar | None) -> list[float]:
    """The start of each unit and the end of the last: seconds since 1970, or unit numbers.

    >>> starts([4, 5], None)
    [4, 5, 6]
    >>> starts([1], Calendar(every="1h", origin="1970-01-02"))
    [86400.0, 90000.0]
    """
    if not units:
        return []
    if calendar is None:
        return [*units, units[-1] + 1]
    begins = [calendar.begins(unit) for unit in units]
    return [moment / SECOND for moment in (*begins, calendar.ends(units[-1]))]


def _column(values: Sequence[float]) -> list[float | None]:
    return [float(f"{value:.7g}") if math.isfinite(value) else None for value in values]
