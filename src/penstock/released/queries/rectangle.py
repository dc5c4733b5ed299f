"""`Rectangle`: keys on a grid."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.errors import ConfigurationError
from penstock.core.exact import whole
from penstock.core.hierarchy import Nodes
from penstock.released.log import Log
from penstock.released.queries.aggregate import OverKeys
from penstock.released.queries.cover import fewest


@dataclass(frozen=True)
class Rectangle(OverKeys):
    """The sum over the cells of a grid from one corner to the opposite one, both included.

    Keys are two whole numbers, "x,y"; or the grid's `shape` (rows, columns) is given, the keys fill it row by row, and a corner
    is (row, column), counted from 0.

    >>> Rectangle((0, 0), (2, 3)).in_words()
    'counts from 0,0 to 2,3'
    """

    first: tuple[int, int]
    last: tuple[int, int]
    shape: tuple[int, int] | None = field(default=None, kw_only=True)

    def in_words(self) -> str:
        return f"{self.of.in_words()} from {self.first[0]},{self.first[1]} to {self.last[0]},{self.last[1]}"

    def groups(self, log: Log) -> tuple[list[IntArray], tuple[str, ...]]:
        nodes = log.domain if isinstance(log.domain, Nodes) else None
        cells = self._cells(log.keys if nodes is None else nodes.tree.keys)
        low, high = np.minimum(self.first, self.last), np.maximum(self.first, self.last)
        chosen = np.all((cells >= low) & (cells <= high), axis=1)
        if not chosen.any():
            raise ConfigurationError(f"rectangle: no key of this log lies in it ({self.in_words()}).")
        name = (f"{low[0]},{low[1]} to {high[0]},{high[1]}",)
        return [np.flatnonzero(chosen) if nodes is None else fewest(nodes.tree, chosen)], name

    def _cells(self, keys: tuple[str, ...]) -> IntArray:
        if self.shape is not None:
            rows, columns = (whole(side, name="shape", least=1) for side in self.shape)
            if rows * columns != len(keys):
                raise ConfigurationError(f"rectangle: {rows} rows of {columns} are not {len(keys)} keys.")
            place = np.arange(len(keys))
            return np.stack([place // columns, place % columns], axis=1)
        try:
            cells = np.array([[int(part) for part in key.split(",")] for key in keys])
        except ValueError:
            cells = np.zeros(0)
        if cells.shape != (len(keys), 2):
            raise ConfigurationError('rectangle: the keys are not all like "x,y": say shape=(rows, columns).')
        return cells
