"""`Aggregate` and `Everything`: sums over keys."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.errors import ConfigurationError
from penstock.released.log import Log
from penstock.released.queries.answer import Answer
from penstock.released.queries.query import (
    Names,
    NumberQuery,
    Units,
    chunks,
    key_places,
    places_among,
)
from penstock.released.queries.unit_counts import UnitCounts

COUNTS = UnitCounts()


@dataclass(frozen=True)
class OverKeys(NumberQuery):
    """Sums over groups of keys of another query's numbers.

    The noises of keys are independent, so their variances add up.
    """

    of: NumberQuery = field(default=COUNTS, kw_only=True)

    @abstractmethod
    def groups(self, log: Log) -> tuple[list[IntArray], tuple[str, ...]]:
        """The columns of each group, and the names of the groups."""

    def reach(self, log: Log) -> int:
        return self.of.reach(log)

    def units(self, log: Log) -> range:
        return self.of.units(log)

    def answer(self, log: Log, unit: Units = None, *, keys: Names = None) -> Answer:
        if isinstance(self.of, OverKeys):
            raise ConfigurationError("of must give a number for each key, not sums over keys.")
        first, last = self._span(log, unit)
        groups, names = self.groups(log)
        if keys is not None:
            places = places_among(names, keys)
            groups, names = [groups[place] for place in places], tuple(names[p] for p in places)
        needed = np.unique(np.concatenate(groups))
        if len(needed) < log.domain.size:
            log = log.chosen(needed)
            groups = [np.searchsorted(needed, group) for group in groups]
        return Answer.stacked(
            [
                self.of.answer(log, range(start, end + 1)).among(groups, names, self.in_words())
                for start, end in chunks(log, first, last, self.reach(log))
            ]
        )


@dataclass(frozen=True)
class Aggregate(OverKeys):
    """The sum over some keys.

    Parameters
    ----------
    keys : iterable of str
        The keys.
    of : NumberQuery
        The query whose numbers are added up. Default: `UnitCounts()`.
    name : str
        The name of the sum. Default: made from the keys.

    Examples
    --------
    >>> Aggregate(["north", "south"]).in_words()
    'counts of north, south together'
    """

    keys: tuple[str, ...]
    name: str = field(default="", kw_only=True)

    def __init__(self, keys: Iterable[str], *, of: NumberQuery = COUNTS, name: str = "") -> None:
        object.__setattr__(
            self, "keys", (keys,) if isinstance(keys, str) else tuple(map(str, keys))
        )
        object.__setattr__(self, "of", of)
        object.__setattr__(self, "name", name)

    def in_words(self) -> str:
        return f"{self.of.in_words()} of {self._called()} together"

    def _called(self) -> str:
        return self.name or (
            ", ".join(self.keys) if len(self.keys) <= 4 else f"{len(self.keys)} keys"
        )

    def groups(self, log: Log) -> tuple[list[IntArray], tuple[str, ...]]:
        return [key_places(log, self.keys)], (self._called(),)


@dataclass(frozen=True)
class Everything(OverKeys):
    """The sum over all keys, or over the roots if the log holds the nodes of a hierarchy.

    Parameters
    ----------
    of : NumberQuery
        The query whose numbers are added up. Default: `UnitCounts()`.

    Examples
    --------
    >>> Everything().in_words()
    'counts of all keys together'
    """

    def in_words(self) -> str:
        return f"{self.of.in_words()} of all keys together"

    def groups(self, log: Log) -> tuple[list[IntArray], tuple[str, ...]]:
        every = (
            np.arange(log.domain.size) if log.parents is None else np.flatnonzero(log.parents < 0)
        )
        return [every], ("all",)
