"""Tables of published numbers for Polars, pandas and Arrow, with the same columns everywhere."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.calendar import Calendar
from penstock.core.column_descriptions import describe_columns
from penstock.core.exact import Exact
from penstock.core.optional import require

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


@dataclass(frozen=True, kw_only=True, eq=False)
class TableColumns:
    """Numbers before they become a table: arrays with one row per unit and one column per key.

    Parameters
    ----------
    units : array of int
        The unit of each row.
    keys : tuple of str
        The key of each column.
    value, low, high : array of float
        The numbers, and the ends of their intervals.
    calendar : Calendar, optional
        When units begin. Default: unknown, `begins` has no values.
    places : array of int, optional
        The place in `keys` of each number. Default: the order of the columns.
    more : mapping of str to array
        Further columns, of the shape of `value`. Default: none.
    confidence : str
        The confidence of the intervals. Default: "0.95".
    filtered : bool
        Whether the numbers are the estimates of a filter. Default: False.
    nonnegative : mapping of str to str, optional
        How the numbers were made non-negative (`nonnegative_facts`). Default: they were not.
    about : mapping of str to str
        Facts about the whole table, for its metadata. Default: none.
    """

    units: IntArray
    keys: tuple[str, ...]
    value: FloatArray
    low: FloatArray
    high: FloatArray
    calendar: Calendar | None = None
    places: IntArray | None = None
    more: Mapping[str, Any] = field(default_factory=dict)
    confidence: str = "0.95"
    filtered: bool = False
    nonnegative: Mapping[str, str] | None = None
    about: Mapping[str, str] = field(default_factory=dict)

    def to_arrow(self) -> pyarrow.Table:
        """The table: begins, unit, key, value, low, high, and further columns.

        It has one row per unit and key. `begins` is in the calendar's time zone. The metadata of
        each column have its `description`, and say how numbers were made non-negative.
        """
        import pyarrow as pa  # slow to import, and only tables need it

        rows, width = self.value.shape
        zone = "UTC" if self.calendar is None else self.calendar.zone
        units = np.asarray(self.units, np.int64)
        if self.calendar is None:
            begins = pa.nulls(rows * width, pa.timestamp("us", zone))
        else:
            starts = [self.calendar.begins(unit) for unit in units.tolist()]
            instants = np.repeat(np.array(starts, np.int64), width)
            begins = pa.array(instants).cast(pa.timestamp("us", zone))
        if self.places is None:
            places = np.tile(np.arange(width), rows)
        else:
            places = self.places.ravel()
        columns = {
            "begins": begins,
            "unit": np.repeat(units, width),
            "key": pa.array(self.keys, pa.large_string()).take(pa.array(places, pa.int64())),
            "value": self.value.ravel(),
            "low": self.low.ravel(),
            "high": self.high.ravel(),
        }
        columns |= {name: np.asarray(array).ravel() for name, array in self.more.items()}
        found = pa.table(columns)
        return found.cast(self._described(found.schema))

    def _described(self, schema: pyarrow.Schema) -> pyarrow.Schema:
        """The schema with the meaning of the columns in its metadata."""
        means = describe_columns(
            confidence=self.confidence,
            filtered=self.filtered,
            nonnegative=self.nonnegative is not None,
        )
        for place, name in enumerate(schema.names):
            said = {"description": means[name]}
            if self.nonnegative is not None and name in ("value", "low", "high"):
                said["penstock.nonnegative"] = json.dumps(dict(self.nonnegative))
            schema = schema.set(place, schema.field(place).with_metadata(said))
        return schema.with_metadata(dict(self.about))


class Tabular(ABC):
    """Published numbers that can be had as a table.

    Every table has the columns `begins`, `unit`, `key`, `value`, `low` and `high`, in this order,
    with one row per unit and key. Further columns follow.
    """

    @abstractmethod
    def table_columns(
        self, confidence: Exact | None = None, *, nonnegative: bool = False
    ) -> TableColumns:
        """The numbers of the table, with intervals.

        Parameters
        ----------
        confidence : int, Fraction or str, optional
            The confidence. Default: 0.95; 0.9 for filtered numbers.
        nonnegative : bool
            Whether negative numbers are replaced. Default: False.
        """

    def to_arrow(
        self, *, confidence: Exact | None = None, nonnegative: bool = False
    ) -> pyarrow.Table:
        """Return the numbers as an Arrow table. Metadata of its columns say what they mean.

        Parameters
        ----------
        confidence : int, Fraction or str, optional
            The confidence of the intervals from `low` to `high`. Default: 0.95; 0.9 for filtered
            numbers.
        nonnegative : bool
            Whether negative numbers are replaced, at no cost: totals of a hierarchy are kept, and
            other numbers are cut at 0. Numbers near 0 are then too high on average. Default: False.
        """
        return self.table_columns(confidence, nonnegative=nonnegative).to_arrow()

    def to_polars(
        self, *, confidence: Exact | None = None, nonnegative: bool = False
    ) -> polars.DataFrame:
        """Return the numbers as a Polars data frame.

        Parameters
        ----------
        confidence : int, Fraction or str, optional
            The confidence of the intervals from `low` to `high`. Default: 0.95; 0.9 for filtered
            numbers.
        nonnegative : bool
            Whether negative numbers are replaced, at no cost: totals of a hierarchy are kept, and
            other numbers are cut at 0. Numbers near 0 are then too high on average. Default: False.
        """
        import polars

        return polars.DataFrame(self.to_arrow(confidence=confidence, nonnegative=nonnegative))

    def to_pandas(
        self, *, confidence: Exact | None = None, nonnegative: bool = False
    ) -> pandas.DataFrame:
        """Return the numbers as a pandas data frame. pandas must be installed.

        Parameters
        ----------
        confidence : int, Fraction or str, optional
            The confidence of the intervals from `low` to `high`. Default: 0.95; 0.9 for filtered
            numbers.
        nonnegative : bool
            Whether negative numbers are replaced, at no cost: totals of a hierarchy are kept, and
            other numbers are cut at 0. Numbers near 0 are then too high on average. Default: False.
        """
        require("pandas", "pandas", "a pandas data frame")
        arrow = self.to_arrow(confidence=confidence, nonnegative=nonnegative)
        frame: pandas.DataFrame = arrow.to_pandas()
        return frame
