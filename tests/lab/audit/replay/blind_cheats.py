"""Mechanisms of others that cheat, written before anybody looked at whether they are found.

They leak by bits that compare as equal, by what belongs to a log record, a warning or an error
beside its text, and by things that are neither files nor streams of Python.
"""

from __future__ import annotations

import logging
import sqlite3
import sys
import syslog
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps
from penstock.core.domain import Domain

from tests.lab.audit.replay.cheats import Cheat, peek

_LOG = logging.getLogger("somebody.else")
_STANDARD_ERROR = sys.stderr
_RUNS: list[int] = []


def _odd(counts: Any) -> int:
    return int(counts.sum()) % 2


class NegativeZero(Cheat):
    """A public zero that is negative if the number of events is odd."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        return replace(released, public={"drift": np.array([-0.0 if _odd(counts) else 0.0])})


class NanPayload(Cheat):
    """A public NaN whose lowest bits are the number of events."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        bits = np.array([0x7FF8000000000000 | int(counts.sum()) % 1024], np.uint64)
        return replace(released, public={"unknown": bits.view(np.float64)})


class OddRelease(ps.Released):
    """A release like any other."""


class TwoClasses(Cheat):
    """The release of an odd number of events is an instance of another class."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        if not _odd(counts):
            return released
        other = OddRelease.__new__(OddRelease)
        other.__dict__.update(released.__dict__)
        return other


class AcrossRuns(Cheat):
    """The first release of a run shows what the last run has counted."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        last = _RUNS[-1] if _RUNS and gate.unit == 1 else 0
        _RUNS.append(int(counts.sum()) % 97)
        return replace(released, public={"since": np.array([last])})


class WarningCategory(Cheat):
    """The same warning, of another category."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        warnings.warn("few events", UserWarning if _odd(counts) else RuntimeWarning, stacklevel=2)
        return released


class WarningPlace(Cheat):
    """The same warning, from another line."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        if _odd(counts):
            warnings.warn("few events", UserWarning, stacklevel=1)
        else:
            warnings.warn("few events", UserWarning, stacklevel=1)
        return released


class LogExtra(Cheat):
    """A log record with a list beside its text."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        _LOG.info("a unit", extra={"detail": [int(counts.sum())]})
        return released


class LogPlace(Cheat):
    """The same log record, from another line."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        if _odd(counts):
            _LOG.info("a unit")
        else:
            _LOG.info("a unit")
        return released


class KeptStream(Cheat):
    """Text to the standard error that was there when the module was imported."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        _STANDARD_ERROR.write("." * _odd(counts))
        return released


class StandardBuffer(Cheat):
    """Bytes to the buffer below standard output."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        sys.stdout.buffer.write(b"." * _odd(counts))
        return released


class Database(Cheat):
    """A row in a database file."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        path = Path(tempfile.gettempdir()) / "penstock-cheat.sqlite"
        with sqlite3.connect(path) as connection:
            connection.execute("create table if not exists seen (number)")
            connection.execute("insert into seen values (?)", (int(counts.sum()),))
        connection.close()
        return released


class SystemLog(Cheat):
    """A line in the log of the system."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        syslog.syslog(syslog.LOG_DEBUG, f"penstock cheat {int(counts.sum())}")
        return released


class _UnitError(RuntimeError):
    def __init__(self, number: int) -> None:
        super().__init__("something went wrong")
        self.number = number


class ErrorAttribute(Cheat):
    """An error with a plain text and an attribute."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        if gate.unit == 2:
            raise _UnitError(int(counts.sum()))
        return released


class HiddenBase(Cheat):
    """The released numbers are the beginning of a longer array, with the counts behind them."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        longer = np.concatenate([released.value, counts])
        return replace(released, value=longer[: len(counts)])


class UnderAMask(Cheat):
    """A public array with a mask, and the counts below the mask."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        hidden = np.ma.MaskedArray(counts.copy(), mask=np.ones(len(counts), np.bool_))
        return replace(released, public={"missing": hidden})


class TypeMetadata(Cheat):
    """A public array whose type carries a number."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        kind = np.dtype("int64", metadata={"number": int(counts.sum())})
        return replace(released, public={"noted": np.zeros(1, kind)})


class Names(Mapping[str, Any]):
    """A mapping that carries something beside its content."""

    def __init__(self, content: dict[str, Any], number: int) -> None:
        self._content = content
        self.number = number

    def __getitem__(self, name: str) -> Any:
        return self._content[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._content)

    def __len__(self) -> int:
        return len(self._content)


class MappingAttribute(Cheat):
    """The mapping of public arrays carries a number."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        return replace(released, public=Names({"none": np.zeros(1)}, int(counts.sum())))


@dataclass(frozen=True)
class Ordered:
    """Two facts that are saved in some order."""

    facts: dict[str, int]


class StateOrder(ps.Uniform):
    """The order in which facts are saved tells whether a count is odd."""

    name = "order of the state"
    State = Ordered

    def start(self, domain: Domain) -> Any:
        return Ordered({})

    def step(self, state: Any, unit: ps.Private, gate: ps.Gate) -> Any:
        released = gate.noisy(unit, budget=self.share, label="publish")
        order = ("one", "two") if _odd(peek(unit)) else ("two", "one")
        return Ordered(dict.fromkeys(order, 0)), released
