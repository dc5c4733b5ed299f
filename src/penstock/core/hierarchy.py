"""Keys as the leaves of a forest: rooms on floors in buildings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from penstock.core.arrays import BoolArray, IntArray
from penstock.core.cover import Groups
from penstock.core.domain import AnyDomain, Domain
from penstock.core.errors import ConfigurationError

SEPARATOR = "/"

AnyPath: TypeAlias = str | Iterable[str]
"""What lies above a key, outermost first: several names, or one text with "/" between them."""


@dataclass(frozen=True)
class Hierarchy(Domain):
    """Keys with the names above each of them. Counts are given per key; nodes are totals of keys.

    A key is a node at its own depth only. If paths have different lengths, it is in no total below
    that depth.

    Parameters
    ----------
    keys : tuple of str
        The keys, without repetition.
    paths : tuple of tuple of str
        The names above each key, outermost first. `Hierarchy.of` takes a mapping.

    >>> campus = Hierarchy.of({"room 1": "A/floor 1", "room 2": "A/floor 1", "kiosk": ""})
    >>> campus.nodes.keys
    ('A', 'kiosk', 'A/floor 1', 'A/floor 1/room 1', 'A/floor 1/room 2')
    >>> campus.height, campus.nodes.totals(np.array([3, 4, 5])).tolist()
    (3, [7, 5, 7, 3, 4])
    """

    paths: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, what: AnyDomain | Mapping[str, AnyPath]) -> Hierarchy:
        """A hierarchy from the paths of keys. Any other domain becomes a balanced binary tree.

        Parameters
        ----------
        what : mapping of str to path, or any domain
            The path of each key: several names, or one text with "/" between them.
        """
        if isinstance(what, Hierarchy):
            return what
        if isinstance(what, Mapping):
            return cls(tuple(map(str, what)), tuple(map(_parts, what.values())))
        return cls.binary(what)

    @classmethod
    def binary(cls, keys: AnyDomain) -> Hierarchy:
        """A balanced binary tree over the keys in alphabetical order.

        Parameters
        ----------
        keys : Domain, int or sequence of str
            The keys.

        >>> Hierarchy.binary(["d", "a", "c", "b"]).nodes.keys
        ('all', 'all/0', 'all/1', 'all/0/a', 'all/0/b', 'all/1/c', 'all/1/d')
        """
        domain = Domain.of(keys)
        return cls(domain.keys, tuple(_halves(rank, domain.size) for rank in domain.ranks.tolist()))

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.paths) != self.size:
            raise ConfigurationError(
                f"hierarchy must have one path per key: {self.size} keys, {len(self.paths)} paths.",
                parameter="hierarchy",
            )
        for key, path in zip(self.keys, self.paths, strict=True):
            if any(not name or SEPARATOR in name for name in path):
                raise ConfigurationError(
                    f"hierarchy: the path {path} of key {key!r} "
                    f"must be of names without {SEPARATOR!r}.",
                    parameter="hierarchy",
                )
        above = {
            SEPARATOR.join(path[:depth]) for path in self.paths for depth in range(1, len(path) + 1)
        }
        seen: set[str] = set()
        for key, path in zip(self.keys, self.paths, strict=True):
            name = SEPARATOR.join((*path, key))
            if name in above or name in seen:
                raise ConfigurationError(
                    f"hierarchy: {name!r} names two nodes; "
                    "what is above a key cannot be a key itself.",
                    parameter="hierarchy",
                )
            seen.add(name)

    def __repr__(self) -> str:
        return f"Hierarchy({self.size} keys, {self.nodes.size} nodes, height {self.height})"

    @property
    def facts(self) -> tuple[str, ...]:
        return (*self.keys, *self.names)

    @cached_property
    def height(self) -> int:
        """The number of nodes on the longest path, the key included."""
        return 1 + max(map(len, self.paths))

    @cached_property
    def _whole(self) -> tuple[tuple[str, ...], ...]:
        """Each key's path down to itself."""
        return tuple((*path, key) for key, path in zip(self.keys, self.paths, strict=True))

    @cached_property
    def _rows(self) -> tuple[tuple[tuple[str, ...], ...], ...]:
        """The nodes of each level, outermost first, in alphabetical order of their paths."""
        depths = range(self.height)
        return tuple(
            tuple(sorted({path[: depth + 1] for path in self._whole if len(path) > depth}))
            for depth in depths
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The nodes' names, level by level."""
        return tuple(SEPARATOR.join(path) for row in self._rows for path in row)

    @cached_property
    def nodes(self) -> Nodes:
        """The domain of all nodes."""
        return Nodes(self.names, self)

    @cached_property
    def starts(self) -> IntArray:
        """The place of each level's first node, and at last the number of nodes."""
        return np.cumsum([0, *map(len, self._rows)])

    @cached_property
    def levels(self) -> tuple[Groups, ...]:
        """For each level, the node that each key is in or under; −1 if it ends above."""
        found = []
        for depth, row in enumerate(self._rows):
            place = {path: number for number, path in enumerate(row)}
            of = [place[path[: depth + 1]] if len(path) > depth else -1 for path in self._whole]
            found.append(Groups.from_labels(np.array(of, np.int64)))
        return tuple(found)

    @cached_property
    def leaf(self) -> IntArray:
        """Each key's own node."""
        depth = np.fromiter(map(len, self.paths), np.int64, self.size)
        of = np.array([level.of for level in self.levels])
        return np.asarray(self.starts[depth] + of[depth, np.arange(self.size)], np.int64)

    @cached_property
    def parents(self) -> IntArray:
        """Each node's parent, −1 at a root."""
        place = {
            path: number for number, path in enumerate(path for row in self._rows for path in row)
        }
        return np.array([place.get(path[:-1], -1) for row in self._rows for path in row], np.int64)

    @cached_property
    def depths(self) -> IntArray:
        """Each node's level, 0 at a root."""
        return np.repeat(np.arange(self.height), np.diff(self.starts))

    @cached_property
    def children(self) -> IntArray:
        """The number of children of each node; 0 for keys."""
        return np.bincount(self.parents[self.parents >= 0], minlength=len(self.names)).astype(
            np.int64
        )

    @cached_property
    def inner(self) -> BoolArray:
        """Whether each node has children."""
        return self.children > 0

    @cached_property
    def leaves(self) -> IntArray:
        """The number of keys under each node, itself included."""
        return np.concatenate([level.sizes for level in self.levels])

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """The places of each level's nodes, outermost first."""
        return tuple(slice(first, last) for first, last in pairwise(self.starts.tolist()))


@dataclass(frozen=True, repr=False)
class Nodes(Domain):
    """All nodes of a hierarchy, level by level."""

    tree: Hierarchy

    def totals(self, counts: IntArray) -> IntArray:
        """The total of each node."""
        return np.concatenate([level.sums(counts) for level in self.tree.levels])


def _parts(path: AnyPath) -> tuple[str, ...]:
    if isinstance(path, str):
        return tuple(path.split(SEPARATOR)) if path else ()
    if not isinstance(path, Iterable):
        raise ConfigurationError(
            f"hierarchy: a path must be names or a text with {SEPARATOR!r}, "
            f"not {type(path).__name__}.",
            parameter="hierarchy",
        )
    return tuple(map(str, path))


def _halves(rank: int, size: int) -> tuple[str, ...]:
    """The way from the root to the rank-th of `size` leaves: 0 is the first half, 1 the second."""
    way, first, last = ["all"], 0, size
    while last - first > 1:
        middle = (first + last + 1) // 2
        way.append("0" if rank < middle else "1")
        first, last = (first, middle) if rank < middle else (middle, last)
    return tuple(way[:-1])
