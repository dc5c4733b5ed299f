"""More mechanisms of others that cheat: by what they remember, where they write, and when.

Each keeps to the gate where the plain eye looks, and leaks beside it.
"""

from __future__ import annotations

import contextlib
import decimal
import io
import os
import random
import subprocess
import sys
import tempfile
import threading
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps
from penstock.core.cover import ALL, EACH
from penstock.core.domain import Domain
from penstock.core.released import Scale

from tests.lab.audit.replay.cheats import Cheat, peek

_SEEN: dict[int, int] = {}
_CACHE: dict[str, Any] = {}


class OnTheMechanism(Cheat):
    """The counts of the last unit stand in an attribute of the mechanism."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        last = self.__dict__.get("seen", 0) if gate.unit > 1 else 0
        self.__dict__["seen"] = int(counts.sum())
        return replace(released, public={"last": np.array([last])})


class InAGlobal(Cheat):
    """The counts of a unit stand in a global variable, and come out in the next one."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        last = _SEEN.get(gate.unit - 1, 0) if gate.unit > 1 else 0
        _SEEN[gate.unit] = int(counts[0])
        return replace(released, public={"before": np.array([last % 2])})


class InTheEnvironment(Cheat):
    """The number of events stands in an environment variable, for a process beside it."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        os.environ["PENSTOCK_CHEAT"] = str(int(counts.sum()))
        return released


class FileName(Cheat):
    """An empty file whose name tells the count."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        path = Path(tempfile.gettempdir()) / f"penstock-cheat-{int(counts.sum()) % 50}.flag"
        path.touch()
        path.unlink()
        return released


class FileRemoved(Cheat):
    """A file that is removed again before the unit ends."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        path = Path(tempfile.gettempdir()) / "penstock-cheat-short.txt"
        path.write_text("x" * (1 + int(counts.sum()) % 50))
        path.unlink()
        return released


class FolderMade(Cheat):
    """A folder whose name tells the count."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        path = Path(tempfile.gettempdir()) / f"penstock-cheat-folder-{int(counts.sum()) % 50}"
        with contextlib.suppress(FileExistsError):
            path.mkdir()
        with contextlib.suppress(OSError):
            path.rmdir()
        return released


class Command(Cheat):
    """Another program is started, and told the count."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        if gate.unit == 1:
            subprocess.run([sys.executable, "-S", "-c", "", str(int(counts.sum()))], check=False)
        return released


class RawDescriptor(Cheat):
    """Text that is written to standard error past Python's own stream."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        os.write(2, b"." * (int(counts.sum()) % 3))
        return released


class CauseOfAnError(Cheat):
    """An error with a plain text, raised from one that tells the count."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        if gate.unit == 2:
            try:
                raise KeyError(int(counts.sum()))
            except KeyError as error:
                raise RuntimeError("something went wrong") from error
        return released


class NoteOnAnError(Cheat):
    """An error with a note that tells the count."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        if gate.unit == 2:
            error = RuntimeError("something went wrong")
            error.add_note(f"{counts.sum()} events")
            raise error
        return released


class FloatBits(Cheat):
    """A public float that is minus zero on one of the streams."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        zero = -0.0 if counts.sum() % 2 else 0.0
        return replace(released, public={"zero": np.array([zero])})  # type: ignore[dict-item]


class ByteOrder(Cheat):
    """Equal numbers, in another byte order."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        kind = ">i8" if counts.sum() % 2 else "<i8"
        return replace(released, public={"more": np.zeros(1, kind)})


class Strides(Cheat):
    """Equal numbers, every second one of a longer array."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        array = np.zeros(4, np.int64)[::2] if counts.sum() % 2 else np.zeros(2, np.int64)
        return replace(released, public={"more": array})


class NoiseOfYesterday(Cheat):
    """The noise of the first unit is used again in all others, on top of the raw counts."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        if gate.unit == 1:
            _CACHE["noise"] = released.value - counts
        noise = _CACHE.get("noise")
        if noise is None or len(noise) != len(counts):
            return released
        return replace(released, value=counts + noise)


class NoiseOfTheNextKey(Cheat):
    """Keys exchange their noise, so the sum of two neighbours has none of its own."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        if len(counts) < 2:
            return released
        noise = released.value - counts
        noise[1::2] = -noise[: len(noise) // 2 * 2 : 2]
        return replace(released, value=counts + noise)


class RoundsTheNoise(Cheat):
    """The number that is nearer to the truth is released: a draw of its own is not enough."""

    def step(self, state: Any, unit: ps.Private, gate: ps.Gate) -> tuple[Any, ps.Released]:
        counts, half = peek(unit), self.share // 2
        one = gate.laplace(unit, epsilon=half, label="one")
        two = gate.laplace(unit, epsilon=half, label="two")
        nearer = np.abs(one.value - counts) < np.abs(two.value - counts)
        return state, replace(one, value=np.where(nearer, one.value, two.value))


class PaysForOneKey(Cheat):
    """A sum over all keys that says that it reads one of them."""

    def step(self, state: Any, unit: ps.Private, gate: ps.Gate) -> tuple[Any, ps.Released]:
        half = self.share // 2
        wide = unit.map(lambda counts: np.full(len(counts), counts.sum()), stability=1, cover=EACH)
        released = gate.laplace(unit, epsilon=half, label="publish")
        sums = gate.laplace(wide, epsilon=half, label="sums")
        return state, replace(released, public={"sums": sums.value})


class WrongSensitivity(Cheat):
    """A statistic with a new sensitivity of its own making."""

    def step(self, state: Any, unit: ps.Private, gate: ps.Gate) -> tuple[Any, ps.Released]:
        ten = ps.Private(10 * peek(unit), sensitivity=1, unit=gate.unit)
        released = gate.laplace(ten, epsilon=self.share, label="publish")
        return state, replace(released, value=released.value // 10)


class YesterdaysCounts(Cheat):
    """The counts of the unit before are released with today's charge."""

    def step(self, state: Any, unit: ps.Private, gate: ps.Gate) -> tuple[Any, ps.Released]:
        counts = peek(unit)
        last = _CACHE.get("counts") if gate.unit > 1 else None
        _CACHE["counts"] = counts
        if last is None or len(last) != len(counts):
            last = np.zeros_like(counts)
        both = ps.Private(counts + last, sensitivity=self.contribution, unit=gate.unit)
        return state, gate.laplace(both, epsilon=self.share, label="publish")


class StatedScale(Cheat):
    """Half of the noise is taken off again, and the scale that is stated stays."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        return replace(released, value=counts + (released.value - counts) // 2)


class LongBefore(Cheat):
    """Honest for 50 units; then the scale of every release tells the sum of the first unit."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        if gate.unit == 1:
            _CACHE["first"] = int(counts.sum())
        if gate.unit <= 50:
            return released
        scale = released.scale
        return replace(
            released, scale=Scale(scale.base * (1 + _CACHE.get("first", 0) % 2), scale.parts)
        )


class AtManyKeys(Cheat):
    """Cheats where there are more than 200 keys."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        if len(counts) <= 200:
            return released
        return replace(released, public={"most": np.array([int(counts.argmax())])})


class AtLargeCounts(Cheat):
    """Counts above a thousand are rounded before they are released, and the rest is shown."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        rest = int(counts.sum()) % 7 if counts.min() > 1000 else 0
        return replace(released, public={"rest": np.array([rest])})


class ByKeyLie(Cheat):
    """Says that every key is treated by itself, and shows the sum of all."""

    by_key = True

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        return replace(
            released, value=released.value + 0 * counts, divisor=1 + int(counts.sum()) % 2
        )


class InAThread(Cheat):
    """A thread prints the count while the unit is made."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        thread = threading.Thread(target=lambda: print(int(counts.sum())))
        thread.start()
        thread.join()
        return released


class OwnStream(Cheat):
    """Text on the interpreter's first standard output, not on the present one."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        stream = sys.__stdout__
        if isinstance(stream, io.TextIOBase):
            stream.write(" " * (int(counts.sum()) % 2))
        return released


@dataclass
class Noted:
    """A state whose size tells the counts, and nothing else does."""

    notes: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class StateSize(ps.Uniform):
    """The length of the state depends on raw counts."""

    name = "state_size"
    by_key = False
    State = Noted  # type: ignore[assignment]

    def start(self, domain: Domain) -> Any:
        return Noted()

    def step(self, state: Any, unit: ps.Private, gate: ps.Gate) -> tuple[Any, ps.Released]:
        released = gate.laplace(unit, epsilon=self.share, label="publish")
        return Noted((0,) * (int(peek(unit).sum()) % 5)), released


class UnpaidQuestion(Cheat):
    """A question whose statistic reads everything and whose noise is for one event of ten."""

    def step(self, state: Any, unit: ps.Private, gate: ps.Gate) -> tuple[Any, ps.Released]:
        price = ps.Price(threshold=self.share // 8, question=self.share // 8)
        total = unit.map(lambda counts: 10 * counts.sum(keepdims=True), stability=1, cover=ALL)
        busy = gate.runs.ask("busy", total, threshold=50, price=price)
        gate.runs.close("busy")
        released = gate.laplace(unit, epsilon=self.share // 2, label="publish")
        return state, replace(released, public={"busy": busy.astype(np.int64)})


class InTheGlobalGenerator(Cheat):
    """The number of events seeds Python's generator, so any other code can tell it."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        random.seed(int(counts.sum()))
        return released


class InNumPysGenerator(Cheat):
    """The number of events seeds NumPy's old generator."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        np.random.seed(int(counts.sum()) % 2**32)  # noqa: NPY002
        return released


class InTheDecimals(Cheat):
    """An odd number of events gives all decimals of the process another precision."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        decimal.getcontext().prec = 28 + int(counts.sum()) % 2
        return released


class SmallTypeOverflows(Cheat):
    """A count of 128 or more does not fit into a byte, and leaves a filter of warnings."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        try:
            np.array(counts.tolist(), np.int8)
        except OverflowError:
            warnings.filterwarnings("ignore", "overflow", RuntimeWarning)
        return released


class CleanCause(Cheat):
    """An error has a clean text and a clean cause, but not a clean context."""

    def spoiled(self, released: ps.Released, counts: Any, gate: ps.Gate) -> ps.Released:
        if gate.unit < 3:
            return released
        try:
            raise ValueError(int(counts.sum()))
        except ValueError:
            raise RuntimeError("the stream ends here") from KeyError("no more units")
