"""`Range`: the sum over consecutive keys."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.errors import ConfigurationError
from penstock.released.log import Log
from penstock.released.queries.aggregate import OverKeys
from penstock.released.queries.cover import fewest
from penstock.released.queries.query import key_places


@dataclass(frozen=True)
class Range(OverKeys):
    """The sum over all keys from `first` to `last`, in the domain's order.

    If the log holds the nodes of a hierarchy, the query adds the fewest nodes that make up the
    range. `first` and `last` are then keys or the names of their nodes.

    Parameters
    ----------
    first, last : str
        The first and the last key, both included.
    of : NumberQuery
        The query whose numbers are added up. Default: `UnitCounts()`.

    Examples
    --------
    >>> Range("08:00", "12:00").in_words()
    'counts from 08:00 to 12:00'
    """

    first: str
    last: str

    def in_words(self) -> str:
        return f"{self.of.in_words()} from {self.first} to {self.last}"

    def groups(self, log: Log) -> tuple[list[IntArray], tuple[str, ...]]:
        name = (f"{self.first} to {self.last}",)
        tree = log.hierarchy
        if tree is not None and log.parents is not None:
            place = {key: number for number, key in enumerate(tree.keys)}
            place |= {tree.names[node]: number for number, node in enumerate(tree.leaf.tolist())}
            for end in (self.first, self.last):
                if end not in place:
                    raise ConfigurationError(f"range: this log has no key {end!r}.")
            first, last = place[self.first], place[self.last]
            self._in_order(first, last)
            chosen = np.zeros(tree.size, np.bool_)
            chosen[first : last + 1] = True
            return [fewest(tree, chosen)], name
        first, last = (
            key_places(log, [self.first], name="range")[0],
            key_places(log, [self.last], name="range")[0],
        )
        self._in_order(first, last)
        return [np.arange(first, last + 1)], name

    def _in_order(self, first: int, last: int) -> None:
        if first > last:
            raise ConfigurationError(
                f"range: {self.first!r} comes after {self.last!r} in this log's order of keys."
            )
