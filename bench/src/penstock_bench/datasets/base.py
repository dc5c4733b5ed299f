"""What a dataset is: a few facts about it, and a stream of counts that comes unit by unit."""

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
"""How many numbers `DatasetStream.matrix` gives at most: half a gigabyte."""


class DatasetStream(ABC):
    """Counts of every key, unit by unit. Units are numbered from 1.

    A stream may be read again and again, from any unit on, and gives the same counts every time. A
    row is the reader's own: to change it changes nothing here.
    """

    domain: Domain
    units: int
    period: int | None
    """Units per day."""

    @abstractmethod
    def row(self, unit: int) -> IntArray:
        """The counts of one unit, which `rows` has checked to be there."""

    def rows(self, first: int = 1, last: int | None = None) -> Iterator[IntArray]:
        """The counts of the units from `first` to `last`, both included; without `last` to the end.

        A range that is not there is refused at once, not at the first row.
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
        """All counts, one row a unit; refused where they would fill the memory."""
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
        """Each key's events in all units."""
        sums = np.zeros(self.domain.size, np.int64)
        for row in self.rows():
            sums += row
        sums.flags.writeable = False
        return sums

    @property
    def total(self) -> int:
        """All events."""
        return int(self.totals.sum())

    def mean(self) -> FloatArray:
        """Each key's mean over all units: the exact total, divided once."""
        return np.asarray(self.totals / self.units, np.float64)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.units:,} units × {self.domain.size:,} keys>"


@dataclass(frozen=True)
class Dataset(ABC):
    """Facts about a stream, and how to get it. Parameters, where there are any, are fields with
    defaults.

    A subclass says the facts and makes the stream in `make`; files that it reads are named in
    `needs`. Two datasets of the same class with the same parameters are the same dataset, and give
    the same counts in every process.
    """

    name: ClassVar[str]
    """What it is asked for by."""
    title: ClassVar[str]
    """What it is, in a few words."""
    licence: ClassVar[str]
    """Under what terms the data may be used; "generated" where we made it all up."""
    unit: ClassVar[str]
    """How long a unit is."""
    person: ClassVar[str]
    """What one person is: what a guarantee for this stream protects."""
    period: ClassVar[int | None] = None
    """Units per day, with the parameters' defaults; `DatasetStream.period` has that of the stream
    itself.
    """
    key: ClassVar[str] = "a key"
    """What a key is, and what lies above it, innermost first."""
    levels: ClassVar[int] = 1
    """The height of its hierarchy; 1 without one."""
    shape: ClassVar[tuple[int, int] | None] = None
    """Units and keys with the parameters' defaults, where that is known without loading."""
    needs: ClassVar[tuple[str, ...]] = ()
    """The files of the folder of data that it is made of."""

    def missing(self) -> str | None:
        """Why it cannot be had here, with what to do about it; None if it can."""
        return absent(self.needs)

    def load(self) -> DatasetStream:
        """The stream, made once a process; the last few are kept."""
        why = self.missing()
        if why is not None:
            raise ConfigurationError(
                f"dataset {self.name!r} cannot be had here: {why}. Nothing was read."
            )
        return _made(self, folder())

    @abstractmethod
    def make(self) -> DatasetStream:
        """The stream, made anew; `load` is what users call."""

    def small(self) -> Self:
        """The same with parameters that suit a test or a quick look; itself where there is nothing
        to shrink.
        """
        return self

    def notice(self) -> str:
        """What must be shown beside results of these data: the licence, or a longer text that
        belongs to the files.
        """
        return self.licence


@lru_cache(maxsize=2)
def _made(dataset: Dataset, _: Path | None) -> DatasetStream:
    """The stream of a dataset, for each folder of data."""
    return dataset.make()
