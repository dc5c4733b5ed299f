"""The rows of a stretch: the counts of a dataset, cut, merged and copied as the stretch says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import cached_property, lru_cache
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.private.mechanisms.registry import MECHANISMS
from penstock_bench.cell import Parameter, Stretch
from penstock_bench.datasets.base import Dataset
from penstock_bench.datasets.registry import find

HELD = 2**26
"""Rows of at most this many bytes stay in memory for the next pass, as 32-bit numbers if possible.
"""

_SHORT = 2**31


class Feed:
    """One row of counts per unit; it can be read several times."""

    def __init__(self, stretch: Stretch) -> None:
        self.stretch = stretch
        found = dataset_of(stretch)
        self._stream = found.load()
        whole: Domain = self._stream.domain
        self._chosen = _spread(whole.size, stretch.keys)
        self.domain = self._domain(whole)
        merged = self._stream.units // stretch.merge
        self.units = merged if stretch.units is None else min(merged, stretch.units)
        if not self.units:
            raise ConfigurationError(f"{stretch.name} has no whole unit.")
        self._kept: list[NDArray[np.int32] | IntArray] | None = None

    def _domain(self, whole: Domain) -> Domain:
        if self._chosen is None and self.stretch.copies == 1:
            return whole
        # Some of the keys form a plain domain: the nodes above them are not complete any more.
        keys = (
            whole.keys
            if self._chosen is None
            else tuple(whole.keys[place] for place in self._chosen.tolist())
        )
        if self.stretch.copies == 1:
            return Domain(keys)
        return Domain(
            tuple(f"{key} #{copy}" for copy in range(1, self.stretch.copies + 1) for key in keys)
        )

    def rows(self) -> Iterator[IntArray]:
        """The counts of every unit, from the first on."""
        if self._kept is not None:
            yield from (row.astype(np.int64) for row in self._kept)
            return
        kept: list[NDArray[np.int32] | IntArray] | None = (
            [] if 4 * self.units * self.domain.size <= HELD else None
        )
        size = 0
        for row in self._read():
            if kept is not None:
                kept.append(row if row.max() >= _SHORT else row.astype(np.int32))
                size += kept[-1].nbytes
                kept = kept if size <= HELD else None
            yield row
        self._kept = kept

    def _read(self) -> Iterator[IntArray]:
        merge, copies = self.stretch.merge, self.stretch.copies
        source = self._stream.rows(1, self.units * merge)
        for _ in range(self.units):
            row = np.array(next(source), np.int64)
            for more in islice(source, merge - 1):
                row = row + more
            if self._chosen is not None:
                row = row[self._chosen]
            yield np.tile(row, copies) if copies > 1 else row

    @cached_property
    def mean(self) -> FloatArray:
        """The mean of each key over exactly these units."""
        total = np.zeros(self.domain.size, np.int64)
        for row in self.rows():
            total += row
        return np.asarray(total / self.units)


@lru_cache(maxsize=1)
def feed(stretch: Stretch) -> Feed:
    """The rows of a stretch. Only the last stretch is cached: a process reads streams in turn."""
    return Feed(stretch)


def missing(stretch: Stretch) -> str | None:
    """Why the data of a stretch are not here, or None."""
    return dataset_of(stretch).missing()


def dataset_of(stretch: Stretch) -> Dataset:
    """The dataset of a stretch, with its options."""
    return find(stretch.dataset, **dict(stretch.options))


def seasons(stretch: Stretch) -> tuple[int, ...]:
    """Days and weeks in units, as a publisher would declare them; none if a day is not known.

    >>> seasons(Stretch(dataset="covid")), seasons(Stretch(dataset="turnstiles"))
    ((7,), (6, 42))
    >>> seasons(Stretch(dataset="worldcup", options=(("per_day", 6),), merge=2))
    (3, 21)
    """
    per_day = dict(stretch.options).get("per_day", dataset_of(stretch).period)
    if not isinstance(per_day, int) or per_day % stretch.merge:
        return ()
    day = per_day // stretch.merge
    return (day, 7 * day) if day > 1 else (7,)


def declared(mechanism: str, stretch: Stretch) -> dict[str, Parameter]:
    """The public knowledge of a stream, for a mechanism that takes it: its seasons and its kind.

    >>> declared("tide", Stretch(dataset="covid")), declared("ba", Stretch(dataset="covid"))
    ({'periods': (7,), 'kind': 'flow'}, {})
    """
    if mechanism not in MECHANISMS or not any(
        each.name == "periods" for each in fields(MECHANISMS[mechanism])
    ):
        return {}
    return {
        "periods": seasons(stretch),
        "kind": "stock" if dataset_of(stretch).stock else "flow",
    }


def sized(name: str, *, units: int | None = None) -> Stretch:
    """Make a stretch of a dataset, with an estimate of its memory."""
    there, keys = find(name).shape or (0, 0)
    wanted = there if units is None else min(there, units)
    return Stretch(dataset=name, units=units, megabytes=50 + 4 * wanted * keys // 10**6)


def _spread(size: int, wanted: int | None) -> IntArray | None:
    """The places of `keys` keys, evenly spread; None for all."""
    if wanted is None or wanted >= size:
        return None
    return np.arange(wanted, dtype=np.int64) * size // wanted
