"""`RollUp`: totals of the nodes of a hierarchy."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.errors import ConfigurationError
from penstock.core.hierarchy import SEPARATOR, Hierarchy
from penstock.released.log import Log
from penstock.released.queries.aggregate import OverKeys
from penstock.released.queries.answer import Answer
from penstock.released.queries.query import Names, Units


@dataclass(frozen=True)
class RollUp(OverKeys):
    """The total of every node of a hierarchy.

    Totals are read if the log holds numbers of nodes, and added up from the keys otherwise.

    Parameters
    ----------
    hierarchy : Hierarchy, optional
        The hierarchy. Default: the log's own, or the one in keys such as "A/floor 1/room 2".
    depth : int, optional
        One level only; 0 is the roots. Default: all levels.
    of : NumberQuery
        The query whose numbers are added up. Default: `UnitCounts()`.

    Examples
    --------
    >>> RollUp().in_words()
    'counts of every node'
    """

    hierarchy: Hierarchy | None = field(default=None, kw_only=True)
    depth: int | None = field(default=None, kw_only=True)

    def in_words(self) -> str:
        return f"{self.of.in_words()} of every node" + (
            "" if self.depth is None else f" at depth {self.depth}"
        )

    def groups(self, log: Log) -> tuple[list[IntArray], tuple[str, ...]]:
        tree = self._tree(log)
        chosen = (
            range(len(tree.names))
            if self.depth is None
            else np.flatnonzero(tree.depths == self.depth).tolist()
        )
        if not chosen:
            raise ConfigurationError(
                f"roll-up: depth must be from 0 to {tree.height - 1}, not {self.depth}."
            )
        names = tuple(tree.names[node] for node in chosen)
        if log.parents is not None:
            return [np.array([node]) for node in chosen], names
        under = [
            np.flatnonzero(level.of == number)
            for level in tree.levels
            for number in range(level.number)
        ]
        return [under[node] for node in chosen], names

    def answer(self, log: Log, unit: Units = None, *, keys: Names = None) -> Answer:
        found = super().answer(log, unit, keys=keys)
        every = self.depth is None and keys is None
        return replace(found, domain=self._tree(log).nodes) if every else found

    def _tree(self, log: Log) -> Hierarchy:
        tree = self.hierarchy if log.hierarchy is None else log.hierarchy
        if tree is not None:
            if log.parents is None and tree.keys != log.keys:
                raise ConfigurationError("roll-up: the hierarchy is of other keys than the log.")
            return tree
        if not any(SEPARATOR in key for key in log.keys):
            raise ConfigurationError(
                "roll-up: the log's keys have no hierarchy; "
                "give hierarchy=Hierarchy.of({key: path})."
            )
        return _Named.of_names(log.keys)


@dataclass(frozen=True)
class _Named(Hierarchy):
    """A hierarchy that is written in the keys. The last parts of keys need not be unique."""

    @classmethod
    def of_names(cls, keys: tuple[str, ...]) -> Hierarchy:
        parts = [tuple(key.split(SEPARATOR)) for key in keys]
        return cls(tuple(key[-1] for key in parts), tuple(key[:-1] for key in parts))

    def __post_init__(self) -> None:
        if any(not name for path in self._whole for name in path):
            raise ConfigurationError(
                "roll-up: a key has an empty part; give hierarchy=Hierarchy.of({key: path})."
            )
        whole = {SEPARATOR.join(path) for path in self._whole}
        above = {
            SEPARATOR.join(path[:depth]) for path in self.paths for depth in range(1, len(path) + 1)
        }
        if whole & above:
            raise ConfigurationError(
                "roll-up: a key lies above another; give hierarchy=Hierarchy.of({key: path})."
            )
