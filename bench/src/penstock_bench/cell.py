"""A cell: one line of one figure at one place, with everything that its numbers depend on.

A cell is plain data, so it can be sent to another process.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from penstock.core.errors import ConfigurationError
from penstock.private.histograms import registry as histograms
from penstock.private.mechanisms.base import Mechanism
from penstock.private.mechanisms.registry import MECHANISMS
from penstock_bench.competitors.competitor import ADDING, Competitor
from penstock_bench.datasets.registry import DATASETS
from penstock_bench.datasets.registry import find as find_dataset
from penstock_bench.plugins import FLAWED, LAB, competitor_class, mechanism_class

ZEROS, MEAN = "zeros", "mean"
TRIVIAL = {ZEROS: "all zeros", MEAN: "long-run mean"}
"""Lines that need no mechanism. `zeros` uses no data; `mean` is not private."""

Value: TypeAlias = str | int | None
Parameter: TypeAlias = Value | tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """A part of a dataset, with the dataset's options.

    `options` replace fields of the dataset. `merge` consecutive units become one; then the first
    `units` units are taken, and `keys` keys, evenly spread. `copies` copies of the stream stand
    side by side as more keys: that many runs at once, for mechanisms that treat keys one by one.
    `megabytes` is the approximate memory that a process needs for it.
    """

    dataset: str
    options: tuple[tuple[str, Value], ...] = ()
    units: int | None = None
    merge: int = 1
    keys: int | None = None
    copies: int = 1
    megabytes: int = 50

    @property
    def name(self) -> str:
        """The name in tables: the dataset and the changes to it."""
        parts = [f"{name}={value}" for name, value in self.options]
        parts += [f"merge={self.merge}"] if self.merge > 1 else []
        parts += [f"units={self.units}"] if self.units is not None else []
        parts += [f"keys={self.keys}"] if self.keys is not None else []
        parts += [f"copies={self.copies}"] if self.copies > 1 else []
        return f"{self.dataset} ({', '.join(parts)})" if parts else self.dataset

    @property
    def facts(self) -> dict[str, Any]:
        """Everything that its counts depend on, as text."""
        return {name: value for name, value in asdict(self).items() if name != "megabytes"}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One run of one line on one stream, with the measures to take.

    `mechanism` is a registered name, the name of a plug-in, `module:Class`, `lab:name` for a
    competitor, `flawed:name` for a published form that is not private, or a trivial line.
    `parameters` has all parameters, ε and window included; a histogram method stands there by name.
    """

    suite: str
    stream: Stretch
    mechanism: str
    measures: tuple[str, ...]
    parameters: tuple[tuple[str, Parameter], ...] = ()
    run: int = 0

    @classmethod
    def of(
        cls,
        suite: str,
        stream: Stretch,
        mechanism: str,
        measures: tuple[str, ...],
        **parameters: Parameter,
    ) -> Cell:
        """Make a cell. A trivial line takes no parameters, so one cell serves all ε and windows."""
        kept = () if mechanism in TRIVIAL else tuple(sorted(parameters.items()))
        return cls(
            suite=suite, stream=stream, mechanism=mechanism, measures=measures, parameters=kept
        )

    @property
    def trivial(self) -> bool:
        return self.mechanism in TRIVIAL

    @property
    def private(self) -> bool:
        """Whether the line keeps the promise that it is shown with."""
        if self.mechanism.startswith(LAB):
            return competitor_class(self.mechanism).private
        return self.mechanism != MEAN and not self.mechanism.startswith(FLAWED)

    @property
    def comparable(self) -> bool:
        """Whether it may be the best of the lines with its ε, δ and window.

        It must be private, for adding or removing an event.
        """
        if self.trivial or not self.private:
            return False
        made = self.made()
        return made.promise == ADDING if isinstance(made, Competitor) else True

    @property
    def delta(self) -> Fraction:
        """The δ of its promise; 0 where it is pure, or promises nothing."""
        if self.trivial or not self.private:
            return Fraction(0)
        made = self.made()
        return Fraction(0) if isinstance(made, Competitor) else made.guarantee.delta

    def runs(self, number: int) -> list[Cell]:
        """Its runs: `number` of them, or one if all runs would be equal."""
        return [replace(self, run=run) for run in range(1 if self.trivial else number)]

    def made(self) -> Mechanism[Any] | Competitor:
        """Make the mechanism or the competitor."""
        if self.trivial:
            raise ConfigurationError(f"{self.mechanism!r} needs no mechanism.")
        given: dict[str, Any] = dict(self.parameters)
        if self.mechanism.startswith(LAB):
            return competitor_class(self.mechanism)(**given)
        if isinstance(given.get("histogram"), str):
            given["histogram"] = histograms.find(given["histogram"])()
        return mechanism_class(self.mechanism)(**given)

    def configuration(self) -> dict[str, str]:
        """Every parameter of the mechanism as text, defaults included."""
        return (
            {}
            if self.trivial
            else {name: str(value) for name, value in self.made().configuration().items()}
        )

    def guarantee(self) -> str:
        """The promise to show. A published form that is not private shows its claim."""
        if self.trivial:
            return ""
        given = dict(self.parameters)
        if not self.private:
            return (
                f"none (claimed: epsilon={given.get('epsilon')}, window={given.get('window', 1)})"
            )
        made = self.made()
        if not isinstance(made, Competitor):
            return repr(made.guarantee)
        window = f"window={made.protected}, " if made.protected > 1 else ""
        return f"epsilon={made.epsilon}, {window}{made.promise}"

    def key(self, seed: int) -> str:
        """The key of its result: everything that it depends on, defaults included."""
        more = {"theirs": theirs} if (theirs := self._theirs()) else {}
        return self._digest(seed, measures=self.measures, version=FORM, **more)

    def _theirs(self) -> str:
        """A digest of the source of other packages' classes: their version does not show a
        change."""
        found: list[type] = []
        if (
            not self.trivial
            and not self.mechanism.startswith((LAB, FLAWED))
            and self.mechanism not in MECHANISMS
        ):
            found.append(mechanism_class(self.mechanism))
        if self.stream.dataset not in DATASETS:
            found.append(type(find_dataset(self.stream.dataset)))
        return source_of(*found) if found else ""

    def noise(self, seed: int) -> int:
        """The seed of its noise. It does not depend on measures, processes or other cells."""
        return int(self._digest(seed)[:15], 16)

    def _digest(self, seed: int, **more: object) -> str:
        about = {
            "suite": self.suite,
            "mechanism": self.mechanism,
            "run": self.run,
            "seed": seed,
            **more,
        }
        facts = [about, self.stream.facts, self.configuration()]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


@lru_cache(maxsize=64)
def source_of(*classes: type) -> str:
    """A digest of the source files of classes that can be read."""
    digest = hashlib.sha256()
    for cls in classes:
        try:
            digest.update(Path(inspect.getfile(cls)).read_bytes())
        except (OSError, TypeError):
            digest.update(f"{cls.__module__}:{cls.__qualname__}".encode())
    return digest.hexdigest()[:16]


FORM = 1
"""Raise this when a measure changes its meaning, so that older results are not reused."""
