"""A dataset: some facts, and a stream of counts, read unit by unit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import ClassVar, Final, Self

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError, InputError
from penstock.core.exact import whole
from penstock_bench.datasets.files import absent
from penstock_bench.public_data import folder

MOST_CELLS: Final = 64_000_000
"""The most numbers that `DatasetStream.matrix` returns: half a gigabyte."""


class DatasetStream(ABC):
    """Counts of every key, unit by unit. Units are numbered from 1.

    A stream may be read several times, from any unit on, and gives the same counts each time. A row
    belongs to its reader and may be changed.
    """

    domain: Domain
    units: int
    period: int | None
    """Units per day."""

    @abstractmethod
    def row(self, unit: int) -> IntArray:
        """The counts of one unit. `rows` has checked that it exists."""

    def rows(self, first: int = 1, last: int | None = None) -> Iterator[IntArray]:
        """The counts of the units from `first` to `last`, both included. Default: to the end.

        A range outside the stream is refused at once, not at the first row.
        """
        last = self.units if last is None else last
        if (
            not 1
            <= whole(first, name="first", least=1)
            <= whole(last, name="last", least=1)
            <= self.units
        ):
            raise InputError(
                f"units {first}..{last} are not in this stream, which has units 1..{self.units}. "
                "Nothing was read."
            )
        return map(self.row, range(first, last + 1))

    def matrix(self) -> IntArray:
        """All counts, one row per unit. Refused if they are too large for memory."""
        if self.units * self.domain.size > MOST_CELLS:
            raise ConfigurationError(
                f"a matrix of {self.units:,} units × {self.domain.size:,} keys is too large to be "
                f"held at once (at most {MOST_CELLS:,} numbers): read it with rows()."
            )
        counts = np.empty((self.units, self.domain.size), np.int64)
        for place, row in enumerate(self.rows()):
            counts[place] = row
        return counts

    @cached_property
    def totals(self) -> IntArray:
        """The events of each key in all units."""
        sums = np.zeros(self.domain.size, np.int64)
        for row in self.rows():
            sums += row
        sums.flags.writeable = False
        return sums

    @property
    def total(self) -> int:
        """The number of all events."""
        return int(self.totals.sum())

    def mean(self) -> FloatArray:
        """The mean of each key over all units: the exact total, divided once."""
        return np.asarray(self.totals / self.units, np.float64)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.units:,} units × {self.domain.size:,} keys>"


@dataclass(frozen=True)
class Dataset(ABC):
    """Facts about a stream, and how to make it. Parameters are fields with defaults.

    A subclass states the facts and makes the stream in `make`; `needs` names the files that it
    reads. Equal parameters give equal counts in every process.
    """

    name: ClassVar[str]
    """The name on the command line."""
    title: ClassVar[str]
    """A short description."""
    licence: ClassVar[str]
    """The licence of the data; "generated" for simulated data."""
    unit: ClassVar[str]
    """The length of a unit."""
    person: ClassVar[str]
    """The meaning of one person, whom a guarantee protects."""
    period: ClassVar[int | None] = None
    """Units per day, with default parameters. `DatasetStream.period` has that of the stream."""
    stock: ClassVar[bool] = False
    """Whether it counts what is present in a unit, not events."""
    key: ClassVar[str] = "a key"
    """The meaning of a key and of the levels above it, innermost first."""
    levels: ClassVar[int] = 1
    """The height of its hierarchy; 1 without one."""
    shape: ClassVar[tuple[int, int] | None] = None
    """Units and keys with default parameters, if known without loading."""
    needs: ClassVar[tuple[str, ...]] = ()
    """The files that it reads from the folder of data."""

    def missing(self) -> str | None:
        """Why the data are not here and what to do; None if they are here."""
        return absent(self.needs)

    def load(self) -> DatasetStream:
        """The stream, made once per process; the last few are cached."""
        why = self.missing()
        if why is not None:
            raise ConfigurationError(
                f"the data of {self.name!r} are not here: {why}. Nothing was read."
            )
        return _made(self, folder())

    @abstractmethod
    def make(self) -> DatasetStream:
        """Make the stream. Users call `load`."""

    def small(self) -> Self:
        """The same dataset with smaller parameters for a test, or itself."""
        return self

    def notice(self) -> str:
        """The text that must stand beside results: the licence, or a longer notice of the files."""
        return self.licence


@lru_cache(maxsize=2)
def _made(dataset: Dataset, _: Path | None) -> DatasetStream:
    """The stream of a dataset, for each folder of data."""
    return dataset.make()
