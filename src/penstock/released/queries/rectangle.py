"""`Rectangle`: the sum over a rectangle of a grid."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.core.exact import whole
from penstock.core.hierarchy import Nodes
from penstock.core.product import Product
from penstock.released.log import Log
from penstock.released.queries.aggregate import OverKeys
from penstock.released.queries.cover import fewest


@dataclass(frozen=True)
class Rectangle(OverKeys):
    """The sum over the cells of a grid from one corner to the opposite one, both included.

    Parameters
    ----------
    first, last : tuple of two int
        The corners: "x,y" as in the keys, values of a `Product` of two attributes, or row and
        column from 0.
    shape : tuple of two int, optional
        The rows and columns of the grid, which the keys fill row by row. Default: taken from keys
        such as "3,4" or from a `Product` of two attributes.
    of : NumberQuery
        The query whose numbers are added up. Default: `UnitCounts()`.

    Examples
    --------
    >>> Rectangle((0, 0), (2, 3)).in_words()
    'counts from 0,0 to 2,3'
    """

    first: tuple[int, int]
    last: tuple[int, int]
    shape: tuple[int, int] | None = field(default=None, kw_only=True)

    def in_words(self) -> str:
        first, last = (f"{x},{y}" for x, y in (self.first, self.last))
        return f"{self.of.in_words()} from {first} to {last}"

    def groups(self, log: Log) -> tuple[list[IntArray], tuple[str, ...]]:
        nodes = log.domain if isinstance(log.domain, Nodes) else None
        cells = self._cells(log.domain if nodes is None else nodes.tree)
        low, high = np.minimum(self.first, self.last), np.maximum(self.first, self.last)
        chosen = np.all((cells >= low) & (cells <= high), axis=1)
        if not chosen.any():
            raise ConfigurationError(
                f"rectangle: no key of this log lies in it ({self.in_words()})."
            )
        name = (f"{low[0]},{low[1]} to {high[0]},{high[1]}",)
        return [np.flatnonzero(chosen) if nodes is None else fewest(nodes.tree, chosen)], name

    def _cells(self, domain: Domain) -> IntArray:
        if self.shape is not None:
            rows, columns = (whole(side, name="shape", least=1) for side in self.shape)
            if rows * columns != domain.size:
                raise ConfigurationError(
                    f"rectangle: {rows} rows of {columns} are not {domain.size} keys."
                )
            return _crossed(np.arange(rows), np.arange(columns))
        if isinstance(domain, Product) and len(domain.attributes) == 2:
            try:
                return _crossed(
                    *(np.array([int(value) for value in values]) for _, values in domain.attributes)
                )
            except ValueError:
                return _crossed(*map(np.arange, domain.shape))
        try:
            cells = np.array([[int(part) for part in key.split(",")] for key in domain.keys])
        except ValueError:
            cells = np.zeros(0)
        if cells.shape != (domain.size, 2):
            raise ConfigurationError(
                'rectangle: the keys are not all like "x,y": say shape=(rows, columns).'
            )
        return cells


def _crossed(rows: IntArray, columns: IntArray) -> IntArray:
    """Every row with every column, row by row."""
    return np.stack([np.repeat(rows, len(columns)), np.tile(columns, len(rows))], axis=1)
