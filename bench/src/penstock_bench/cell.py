"""A cell: one line of one figure at one place, all that its numbers depend on. It can be sent to
another process.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from dataclasses import asdict, dataclass, replace
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
"""Lines that need no mechanism. The first knows nothing of anybody; the second is not private."""

Value: TypeAlias = str | int | None


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """A stream: a dataset by name, or a part of it.

    `options` stand in place of the dataset's own fields. Of the units only the first `units` are
    taken, after `merge` of them in a row were made one; of the keys `keys`, evenly spread. `copies`
    lays so many of the same stream side by side, which is as many runs at once if every key is
    treated by itself. `megabytes` is about what a process needs to hold it.
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
        """What it is called in tables: the dataset, and what was made of it."""
        parts = [f"{name}={value}" for name, value in self.options]
        parts += [f"merge={self.merge}"] if self.merge > 1 else []
        parts += [f"units={self.units}"] if self.units is not None else []
        parts += [f"keys={self.keys}"] if self.keys is not None else []
        parts += [f"copies={self.copies}"] if self.copies > 1 else []
        return f"{self.dataset} ({', '.join(parts)})" if parts else self.dataset

    @property
    def facts(self) -> dict[str, Any]:
        """All that its counts depend on."""
        return {name: value for name, value in asdict(self).items() if name != "megabytes"}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One run of one line on one stream, with the measures that are taken of it.

    `mechanism` is a registered name, one of a plug-in, `module:Class`, `lab:name` for a competitor
    that the lab keeps, `flawed:Class` for a published form that is not private, or a trivial line.
    `parameters` are all that it is made with, ε and window among them; a histogram method goes by
    its name.
    """

    suite: str
    stream: Stretch
    mechanism: str
    measures: tuple[str, ...]
    parameters: tuple[tuple[str, Value], ...] = ()
    run: int = 0

    @classmethod
    def of(
        cls,
        suite: str,
        stream: Stretch,
        mechanism: str,
        measures: tuple[str, ...],
        **parameters: Value,
    ) -> Cell:
        """A cell with these parameters; a trivial line has none, so that one serves all ε and
        windows.
        """
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
    def whole(self) -> bool:
        """Whether it promises as much as the others: ε without a δ, for adding or removing an
        event.
        """
        if self.trivial or not self.private:
            return False
        made = self.made()
        return made.promise == ADDING if isinstance(made, Competitor) else not made.guarantee.delta

    def runs(self, number: int) -> list[Cell]:
        """Its runs; one where all are the same."""
        return [replace(self, run=run) for run in range(1 if self.trivial else number)]

    def made(self) -> Mechanism[Any] | Competitor:
        """The mechanism or the competitor itself."""
        if self.trivial:
            raise ConfigurationError(f"{self.mechanism!r} needs no mechanism.")
        given: dict[str, Any] = dict(self.parameters)
        if self.mechanism.startswith(LAB):
            return competitor_class(self.mechanism)(**given)
        if isinstance(given.get("histogram"), str):
            given["histogram"] = histograms.find(given["histogram"])()
        return mechanism_class(self.mechanism)(**given)

    def configuration(self) -> dict[str, str]:
        """Every parameter of the mechanism, its defaults too, as text."""
        return (
            {}
            if self.trivial
            else {name: str(value) for name, value in self.made().configuration().items()}
        )

    def guarantee(self) -> str:
        """The promise as it is shown; a published form that is not private claims what it was asked
        for.
        """
        if self.trivial:
            return ""
        given = dict(self.parameters)
        if not self.private:
            return (
                f"none (claimed: epsilon={given.get('epsilon')}, window={given.get('window', 1)})"
            )
        made = self.made()
        return (
            f"epsilon={made.epsilon}, {made.promise}"
            if isinstance(made, Competitor)
            else repr(made.guarantee)
        )

    def key(self, seed: int) -> str:
        """What its result is kept under: all that it depends on, defaults of the mechanism too."""
        more = {"theirs": theirs} if (theirs := self._theirs()) else {}
        return self._digest(seed, measures=self.measures, version=FORM, **more)

    def _theirs(self) -> str:
        """A digest of the source of whatever is not ours: nobody else would tell that it has
        changed.
        """
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
        """The seed of its noise: the same whatever is measured, wherever and next to whatever it is
        run.
        """
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
    """A digest of the files that classes come from, as far as they can be read."""
    digest = hashlib.sha256()
    for cls in classes:
        try:
            digest.update(Path(inspect.getfile(cls)).read_bytes())
        except (OSError, TypeError):
            digest.update(f"{cls.__module__}:{cls.__qualname__}".encode())
    return digest.hexdigest()[:16]


FORM = 1
"""Raised whenever a measure changes its meaning, so that older results are not taken for new ones.
"""
