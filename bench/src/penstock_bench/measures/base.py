"""A measure is added up over a run, unit by unit, without a loop over keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.private.run import Run
from penstock.released.log import Log
from penstock_bench.feed import Feed
from penstock_bench.lines import ShownUnit

TIME, MEMORY = "time", "memory"
"""Measures that the runner takes: milliseconds of CPU per unit, and megabytes kept between units.
"""


@dataclass(frozen=True)
class Facts:
    """The facts that a measure gets before the first unit."""

    units: int
    domain: Domain
    """The domain that is counted."""
    keys: int
    """Numbers shown per unit: the keys, or all nodes."""
    run: Run | None
    stream: Feed | None = None
    """The counts, for measures that need the whole stream before its first unit."""

    def totals(self) -> FloatArray:
        """The events of each key in all units together."""
        if self.stream is None:
            raise ConfigurationError("a measure of the keys' totals needs the stream.")
        return self.stream.mean * self.units


class Measure(ABC):
    """A quantity that is added up over a run."""

    of_keys: ClassVar[bool] = True
    """Whether it needs numbers of the keys alone, without the nodes above them."""
    of_sums: ClassVar[bool] = False
    """Whether it can handle lines that show sums over several units."""

    def __init__(self, name: str, arguments: tuple[str, ...], facts: Facts) -> None:
        self.name = name
        self.arguments = arguments
        self.facts = facts
        if self.of_keys and facts.keys != facts.domain.size:
            raise ConfigurationError(
                f"the measure {name!r} is for releases of the keys alone, without totals of them."
            )
        self.begin()

    def see(self, seen: ShownUnit) -> None:
        """Take one unit, if the measure covers it."""
        if seen.weighted and not self.of_sums:
            raise ConfigurationError(
                f"the measure {self.name!r} is of counts, and sums over many units are shown here."
            )
        self.add(seen)

    @abstractmethod
    def begin(self) -> None:
        """Begin, before the first unit."""

    @abstractmethod
    def add(self, seen: ShownUnit) -> None:
        """Take one unit."""

    @abstractmethod
    def values(self) -> dict[str, float]:
        """The values by name."""


class KeptReleases(Measure):
    """Keeps all releases in a log, for queries at the end."""

    of_sums = True

    def begin(self) -> None:
        self.truth = list[IntArray]()
        self.shown = list[FloatArray]()
        self.log = None if self.facts.run is None else Log.of(self.facts.run)

    def add(self, seen: ShownUnit) -> None:
        self.truth.append(seen.truth)
        if self.log is not None and seen.released is not None:
            self.log.append(seen.released)
        elif seen.weighted:
            raise ConfigurationError(
                f"the measure {self.name!r} needs a release log where sums are shown, and there "
                "is none."
            )
        else:
            self.shown.append(seen.shown)

    def true(self) -> IntArray:
        return np.array(self.truth)


def squares(errors: FloatArray) -> float:
    """The sum of squares, equal to the last bit on any machine: no library with threads is used."""
    return float(np.einsum("i,i->", errors, errors))


def sums(rows: IntArray | FloatArray) -> Any:
    """The running sums before each unit, and after the last."""
    return np.concatenate([np.zeros((1, rows.shape[1]), rows.dtype), np.cumsum(rows, axis=0)])


def one_width(arguments: tuple[str, ...], name: str) -> int:
    if len(arguments) != 1 or not arguments[0].isdigit() or not int(arguments[0]):
        raise ConfigurationError(
            f"the measure {name!r} needs one width, such as {name.partition(':')[0]}:64."
        )
    return int(arguments[0])
