"""A run: one mechanism on one stream, counts in, `Released` out."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from penstock.budget.accountant import Account, account
from penstock.budget.grid import Budget
from penstock.budget.ledger import Ledger, LedgerState, Line
from penstock.budget.ledger_lines import LedgerLines
from penstock.core.arrays import IntArray
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError, InputError, MechanismError, StateError
from penstock.core.guarantee import Guarantee, Intrusion
from penstock.core.private import Private
from penstock.core.released import Released
from penstock.private import state as saved
from penstock.private.counts_input import Column, counts_of
from penstock.private.gate import Gate, Secrets, count_limit
from penstock.private.noise import Noise, SystemNoise

if TYPE_CHECKING:
    from penstock.private.mechanisms.base import Mechanism

_HEAP_BLOCK = 2**24
"""Bytes of a block that is freed once. glibc raises its mmap threshold to the largest block freed.
Arrays of a step then stay on the heap.
"""

_CONTENT = {
    "mechanism",
    "configuration",
    "complete",
    "domain",
    "private",
    "ledger",
    "lines",
    "secrets",
    "state",
    "last",
}


class Run:
    """The units of one stream, one after the other, under one promise. `Mechanism.run` starts one.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism.
    domain : Domain
        The keys.
    noise : Noise, optional
        The source of noise. Default: the system's randomness.
    record : bool
        Whether to keep all ledger lines, not only those of the last window. Default: False.
    keep : path, optional
        A file in which every release is saved before it is handed out. Default: none.

    >>> from penstock.private.mechanisms.uniform import Uniform
    >>> run = Uniform(epsilon="1", window=3).run(["north", "south"])
    >>> released = run.step([7, 0])
    >>> released.unit, released.guarantee, run.cost.epsilon
    (1, Guarantee(epsilon=1, window=3), Fraction(1, 3))
    >>> run.step([7, 0], unit=1)
    Traceback (most recent call last):
    penstock.core.errors.InputError: unit 1 was released before: run.last has it, and it is never
    drawn again.
    """

    def __init__(
        self,
        mechanism: Mechanism[Any],
        domain: Domain,
        *,
        noise: Noise | None = None,
        record: bool = False,
        keep: str | os.PathLike[str] | None = None,
    ) -> None:
        self._declared = mechanism
        self.mechanism = mechanism = mechanism.decided(domain)
        self.domain = domain
        self.released = mechanism.released(domain)
        self._numbers = self.released.size
        self.last: Released | None = None
        self._lines: deque[Line] = deque()
        self._record = record
        self._ledger = Ledger(mechanism.guarantee, keys=domain.size, sink=self._lines.append)
        self._gate = Gate(
            ledger=self._ledger, noise=SystemNoise() if noise is None else noise, keys=domain.size
        )
        self._size = domain.size
        self._most = count_limit(domain.size)
        self._window = mechanism.guarantee.window
        self._horizon = mechanism.guarantee.horizon
        self._incremental = mechanism.incremental()
        self._scratch: list[IntArray] | None = (
            None if mechanism.guarantee.intrusion is Intrusion.NONE else []
        )
        np.empty(_HEAP_BLOCK, np.uint8)  # never touched, so it costs no memory
        self._state = mechanism.start(domain)
        self._complete = record
        self._begun = False
        self._broken = ""
        self._file: saved.StateFile | None = None
        if keep is not None:
            self._file = saved.StateFile(keep)
            snapshot = self._file.read()
            if snapshot is not None:
                try:
                    self.load(snapshot)
                except BaseException:
                    self._file.close()
                    raise

    def __repr__(self) -> str:
        about = f"{self.mechanism.name} over {self.domain.size} keys, {self.guarantee}"
        return f"<Run of {about}, at unit {self.unit}>"

    # -- what anyone may know ----------------------------------------------------------------------

    @property
    def unit(self) -> int:
        """The last unit that was released; 0 before the first."""
        return 0 if self.last is None else self.last.unit

    @property
    def over(self) -> bool:
        """Whether the horizon has passed: further units repeat the last release."""
        return self._horizon is not None and self.unit >= self._horizon

    @property
    def guarantee(self) -> Guarantee:
        return self._ledger.guarantee

    @property
    def ledger(self) -> LedgerLines:
        """The lines of the last window, or all of them if the run records."""
        return LedgerLines(self._lines, self.guarantee)

    @property
    def cost(self) -> Budget:
        """The cost of the window that ends now."""
        return self._ledger.cost

    def account(self) -> Account:
        """The cost of every window, recomputed from the lines alone. It needs `record=True`."""
        if not self._record or not self._complete:
            raise ConfigurationError(
                "the accountant needs all lines: start the run with record=True."
            )
        return account(self._lines, self.guarantee, units=self.unit)

    # -- one unit ----------------------------------------------------------------------------------

    def step(self, counts: Column, *, unit: int | None = None) -> Released:
        """Take the next unit's counts and release it. Bad counts are refused and change nothing.

        Parameters
        ----------
        counts : array or sequence of int
            One count per key. After `feed`, the last part of the unit.
        unit : int, optional
            The number of the unit, which must be the next one. A second release of a unit would let
            anyone average the noise away. Default: the next one.
        """
        part = self._take(counts, unit)
        try:
            if not self._begun:
                self._begin()
            if self._horizon is not None and self.over and self.last is not None:
                released = self._gate.repeat(self.last)
            else:
                self._state, released = self.mechanism.step(self._state, part, self._gate)
            self._look_over(released)
            self._gate.end()
            self._begun = False
            if released.unit == self._horizon:
                self._gate.wipe()
            if not self._record:
                self._forget()
            if self._file is not None:
                self._file.write(saved.encode(self._content(released), self._classes))
        except BaseException:
            self._broken = f"unit {self._ledger.unit} failed midway and nothing of it was released"
            raise
        finally:
            self._overwrite()
        self.last = released
        released.__dict__["domain"] = self.released  # for tables; it is not stored
        return released

    def _look_over(self, released: object) -> None:
        """Refuse a step whose result is not a release of this unit and of every key."""
        fits = isinstance(released, Released) and released.unit == self._ledger.unit
        if not (fits and len(released.value) == self._numbers):  # type: ignore[attr-defined]
            raise MechanismError(
                f"unit {self._ledger.unit}: {self.mechanism.name}.step "
                "gave no release of this unit's keys."
            )

    def feed(self, part: Column) -> None:
        """Count one part of the next unit, for a mechanism that holds noise before data.

        Parameters
        ----------
        part : array or sequence of int
            One count per key.
        """
        mechanism = self._incremental
        if mechanism is None or not mechanism.in_parts:
            raise ConfigurationError(
                f"{self.mechanism.name} takes whole units: count first, then step."
            )
        raw = self._take(part, None)
        try:
            if not self._begun:
                self._begin()
            if not self.over:
                mechanism.feed(self._state, raw, self._gate)
        except BaseException:
            self._broken = f"unit {self._ledger.unit} failed midway and nothing of it was released"
            raise
        finally:
            self._overwrite()

    def intruded(self) -> None:
        """Tell the run that somebody has looked into its memory.

        Fresh noise is added at once, and the counters are published with this unit.
        """
        mechanism = self._incremental
        if mechanism is None or not mechanism.announced:
            raise ConfigurationError(
                f"{self.mechanism.name} as configured makes no promise for announced intrusions."
            )
        try:
            self._gate.counters.disturb()
        finally:
            self._overwrite()

    def _overwrite(self) -> None:
        """Leave nothing from which noise or counts can be computed, if the promise covers memory.

        Proof: docs/proofs/pan.md.
        """
        if self._scratch is not None:
            self._gate.erase()
            for array in self._scratch:
                array.fill(0)
            self._scratch.clear()

    def _take(self, counts: Column, unit: int | None) -> Private:
        if self._broken:
            raise StateError(f"{self._broken}: restore the last snapshot and give the unit again.")
        due = self.unit + 1
        if unit is not None and unit != due:
            if unit < due:
                raise InputError(
                    f"unit {unit} was released before: run.last has it, "
                    "and it is never drawn again."
                )
            raise InputError(
                f"unit {unit} is out of order: unit {due} is due. "
                "A unit without events is a unit of zeros."
            )
        array: IntArray = counts_of(
            counts, size=self._size, most=self._most, unit=due, scratch=self._scratch
        )
        sealed = array.view()
        sealed.flags.writeable = False  # the caller's own array, and nobody writes into it
        return Private(
            sealed, sensitivity=self.mechanism.contribution, unit=due, scratch=self._scratch
        )

    def _begin(self) -> None:
        self._gate.begin(self.unit + 1)
        self._begun = True
        if self._incremental is not None and not self.over:
            self._incremental.begin(self._state, self._gate)

    def _forget(self) -> None:
        lines, oldest = self._lines, self._ledger.unit - self._window
        while lines and lines[0].unit <= oldest:
            lines.popleft()

    # -- saving ------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Everything needed to go on, as bytes to keep secret.

        A release that is made later and lost is drawn again from here; `keep` prevents that.
        """
        self._check_between_units()
        return saved.encode(self._content(self.last), self._classes)

    def snapshot_in_pieces(self) -> saved.PiecewiseSnapshot:
        """Everything needed to go on, for a store that has most pieces of it already.

        Nothing is copied, so the run must not go on before the pieces are written.
        """
        self._check_between_units()
        return saved.encode_in_pieces(self._content(self.last), self._classes)

    def _check_between_units(self) -> None:
        if self._broken or self._begun:
            raise StateError("a snapshot is taken between units: finish the unit first.")

    def _content(self, last: Released | None) -> dict[str, Any]:
        """What a snapshot holds."""
        return {
            "mechanism": self.mechanism.name,
            "configuration": self.mechanism.configuration(),
            "complete": self._complete,
            "domain": self._fingerprint,
            "private": self._gate.private,
            "ledger": self._ledger.save(),
            "lines": list(self._lines),
            "secrets": self._gate.save(),
            "state": self._state,
            "last": last,
        }

    @cached_property
    def _fingerprint(self) -> bytes:
        """The digest of the domain, which takes longer than a unit if there are many keys."""
        return _digest(self.domain.facts)

    @property
    def _classes(self) -> tuple[type, ...]:
        """The classes whose instances a snapshot may hold, beside those that their fields name."""
        return LedgerState, Line, Secrets, Released, self.mechanism.State

    def load(self, snapshot: bytes, pieces: Mapping[str, bytes] | None = None) -> None:
        """Go on from a snapshot of the same mechanism, configuration and domain only.

        Parameters
        ----------
        snapshot : bytes
            The snapshot.
        pieces : mapping of str to bytes, optional
            The pieces of a snapshot that was taken in pieces. Default: none.
        """
        if self.last is not None or self._begun:
            raise StateError("a snapshot is loaded into a new run only.")
        content = saved.decode(snapshot, self._classes, pieces)
        if content.keys() != _CONTENT:
            raise StateError("this snapshot cannot be read here: its content is of another kind.")
        if content["mechanism"] != self.mechanism.name:
            raise StateError(
                f"this snapshot is of mechanism {content['mechanism']!r}, "
                f"not {self.mechanism.name!r}."
            )
        there = content["configuration"]
        mechanism = self._declared.decided(self.domain, kept=there)
        here = mechanism.configuration()
        if here != there:
            names = sorted(
                name for name in here.keys() | there.keys() if here.get(name) != there.get(name)
            )
            differences = ", ".join(
                f"{name}={there.get(name)} there, {here.get(name)} here" for name in names
            )
            raise StateError(f"this snapshot is of another configuration: {differences}.")
        if content["domain"] != self._fingerprint:
            raise StateError("this snapshot is of another domain: the keys or their order differ.")
        self.mechanism = mechanism
        self._incremental = mechanism.incremental()
        self._ledger.load(content["ledger"])
        self._gate.load(content["secrets"], private=content["private"])
        self._complete = self._complete and content["complete"]
        self._lines.clear()
        self._lines.extend(content["lines"])
        self._state = content["state"]
        self.last = content["last"]

    def close(self) -> None:
        """Let another run have the `keep` file."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _digest(facts: Iterable[str]) -> bytes:
    digest = hashlib.sha256()
    for fact in facts:
        name = fact.encode()
        digest.update(len(name).to_bytes(8, "big") + name)
    return digest.digest()
