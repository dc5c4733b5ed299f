"""Results in Parquet: one row per cell and measure, one file per job, so that no cell runs
twice."""

from __future__ import annotations

import json
import platform
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import penstock
from penstock.core.errors import ConfigurationError
from penstock.core.optional import require
from penstock_bench.claims import Value
from penstock_bench.suite import Setting

Row: TypeAlias = dict[str, Any]

COLUMNS: Mapping[str, str] = {
    "suite": "string",
    "stream": "string",
    "mechanism": "string",
    "parameters": "string",
    "guarantee": "string",
    "private": "bool",
    "seed": "int64",
    "run": "int64",
    "measure": "string",
    "value": "float64",
    "seconds": "float64",
    "megabytes": "float64",
    "command": "string",
    "units": "int64",
    "keys": "int64",
    "note": "string",
    "cell": "string",
    "code": "string",
}
"""`seconds`: CPU time of the steps. `megabytes`: state between units. `note`: why a value is
missing. `code`: the digest of the code that made the row.
"""

ROWS_PER_PACK = 20_000
"""The most rows of one file of `pack`."""

SUITE = "suite.json"
"""The file that says what was asked for."""

REFUSED = "refused"
"""The measure of a row that has a note and no value."""


@dataclass(frozen=True)
class Results:
    """The folder of one suite's results."""

    folder: Path

    def add(self, rows: Sequence[Row]) -> None:
        """Store rows. A file appears whole or not at all."""
        self._write(rows, f"part-{len(self.parts()):06d}-{secrets.token_hex(4)}.parquet")

    def pack(self, target: Results) -> list[Path]:
        """Write all rows into few files of another folder, in place of those that were there.

        Whoever has the folder can go on from it, as from this one.
        """
        rows = sorted(self.rows(), key=lambda row: (row["stream"], row["cell"], row["measure"]))
        before, written = target.parts(), list[Path]()
        for start in range(0, len(rows), ROWS_PER_PACK):
            name = f"part-{start // ROWS_PER_PACK:06d}-packed.parquet"
            written.append(target._write(rows[start : start + ROWS_PER_PACK], name))
        for path in before:
            if path not in written:
                path.unlink()
        asked = (self.folder / SUITE).read_bytes()
        (target.folder / SUITE).write_bytes(asked)
        return [*written, target.folder / SUITE]

    def _write(self, rows: Sequence[Row], name: str) -> Path:
        arrow, parquet = _arrow()
        self.folder.mkdir(parents=True, exist_ok=True)
        types = {
            "string": arrow.string(),
            "bool": arrow.bool_(),
            "int64": arrow.int64(),
            "float64": arrow.float64(),
        }
        about = {key: value.encode() for key, value in version().items()}
        schema = arrow.schema(
            [(name, types[kind]) for name, kind in COLUMNS.items()], metadata=about
        )
        fresh = self.folder / f".{name}.new"
        parquet.write_table(
            arrow.Table.from_pylist(list(rows), schema=schema), fresh, compression="zstd"
        )
        return fresh.replace(self.folder / name)

    def parts(self) -> list[Path]:
        return sorted(self.folder.glob("part-*.parquet"))

    def rows(self) -> list[Row]:
        """All rows. If a cell was run twice, the later rows."""
        if not self.parts():
            return []
        _, parquet = _arrow()
        found: dict[tuple[str, str], Row] = {}
        for path in self.parts():
            try:
                for row in parquet.ParquetFile(path).read(columns=list(COLUMNS)).to_pylist():
                    found[row["cell"], row["measure"]] = {"code": "unknown"} | row
            # pyarrow has several errors for a damaged file
            except Exception as error:
                raise ConfigurationError(
                    f"{path} cannot be read ({type(error).__name__}): delete it, and its cells "
                    "are run again."
                ) from error
        done = {cell for cell, measure in found if measure != REFUSED}
        return [
            row for (cell, measure), row in found.items() if measure != REFUSED or cell not in done
        ]

    def done(self) -> dict[str, str]:
        """The cells that have values, and the code that made them. A refused cell is tried
        again.
        """
        return {row["cell"]: row["code"] for row in self.rows() if row["measure"] != REFUSED}

    def versions(self) -> list[dict[str, str]]:
        """The versions of Penstock, Python and NumPy that made the files, in order."""
        _, parquet = _arrow()
        found: list[dict[str, str]] = []
        for path in self.parts():
            held = parquet.read_schema(path).metadata or {}
            about = {
                key.decode(): value.decode()
                for key, value in held.items()
                if not key.startswith(b"ARROW")
            }
            if about not in found:
                found.append(about)
        return found

    # -- what was asked for ------------------------------------------------------------------------

    def note(
        self,
        suite: str,
        setting: Setting,
        only: Sequence[str],
        skipped: Mapping[str, str],
        *,
        here: Collection[str] = (),
    ) -> None:
        """Store the request and the missing data for the report.

        Earlier requests with the same setting stay. Data that are `here` now no longer count as
        missing.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        selections = [list(only)]
        try:
            before = self.asked()
        except ConfigurationError:
            pass
        else:
            if (before.suite, before.setting) == (suite, setting):
                selections = [
                    *(list(each) for each in before.selections if each != tuple(only)),
                    *selections,
                ]
                skipped = {
                    name: why for name, why in before.skipped.items() if name not in here
                } | dict(skipped)
        facts = {
            "suite": suite,
            "setting": vars(setting),
            "selections": selections,
            "skipped": dict(skipped),
        }
        fresh = self.folder / ".suite.json.new"
        fresh.write_text(json.dumps(facts, indent=1, ensure_ascii=False), encoding="utf-8")
        fresh.replace(self.folder / SUITE)

    def other(self, setting: Setting) -> list[str]:
        """Warnings for whoever adds to this folder: results of another setting."""
        try:
            before = self.asked().setting
        except ConfigurationError:
            return []
        if before == setting:
            return []
        said = (
            f"{self.folder} also has results of another setting; the page shows those of this one."
        )
        return [said]

    def asked(self) -> BenchRequest:
        """The request that `note` stored."""
        path = self.folder / SUITE
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
            given = facts["setting"]
            given |= {name: tuple(given[name]) for name in ("also", "streams")}
            return BenchRequest(
                str(facts["suite"]),
                Setting(**given),
                tuple(tuple(each) for each in facts["selections"]),
                dict(facts["skipped"]),
            )
        except FileNotFoundError:
            raise ConfigurationError(
                f"{self.folder} has no suite.json: it is not a folder of results."
            ) from None
        except (ValueError, KeyError, TypeError):
            raise ConfigurationError(
                f"{path} cannot be read: start the suite again to write a new one."
            ) from None


@dataclass(frozen=True)
class BenchRequest:
    """A request: a setting, selections of its cells, and missing data."""

    suite: str
    setting: Setting
    selections: tuple[tuple[str, ...], ...]
    skipped: dict[str, str]


def values_of(rows: Iterable[Row]) -> dict[str, dict[str, list[float]]]:
    """The values by cell and measure."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        if row["measure"] != REFUSED:
            found.setdefault(row["cell"], {}).setdefault(row["measure"], []).append(row["value"])
    return found


def value_of(
    values: Sequence[float], formula: float | None = None, errors: Sequence[float] = ()
) -> Value:
    """The mean of some runs and half its 95 % interval, by Student's t.

    >>> value_of([1.0, 2.0, 3.0]).mean, round(value_of([1.0, 2.0, 3.0]).half, 2)
    (2.0, 2.48)
    """
    array = np.array(values, np.float64)
    half = float("nan")
    if len(array) > 1:
        half = _student(len(array) - 1) * float(array.std(ddof=1)) / float(np.sqrt(len(array)))
    error = float(np.sqrt(np.square(errors).sum()) / len(errors)) if len(errors) else None
    return Value(float(array.mean()), half, len(array), formula, error)


@lru_cache(maxsize=64)
def _student(freedom: int) -> float:
    special = require("scipy.special", "lab", "an interval over runs")
    return float(special.stdtrit(freedom, 0.975))


def version() -> dict[str, str]:
    """The versions behind the numbers: Penstock, Python and NumPy."""
    return {
        "penstock": penstock.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def table(rows: Iterable[Row]) -> list[tuple[Any, ...]]:
    """The columns that depend on the seed alone, sorted: no times, sizes, commands or code."""
    unstable = ("seconds", "megabytes", "command", "code")
    kept = [name for name in COLUMNS if name not in unstable]
    return sorted(
        (
            tuple(row[name] for name in kept)
            for row in rows
            if row["measure"] not in ("time", "memory")
        ),
        key=lambda row: tuple(map(str, row)),
    )


def _arrow() -> tuple[Any, Any]:
    return import_module("pyarrow"), import_module("pyarrow.parquet")
