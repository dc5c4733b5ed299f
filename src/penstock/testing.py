"""Helpers for your own tests: noise that repeats or is off, clocks, a look into the memory.

Nothing here is private: releases made with these sources are marked `private=False` for ever.

>>> from penstock import Uniform
>>> run = Uniform(epsilon="1", window=3).run(["north", "south"], noise=NoNoise())
>>> released = run.step([7, 0])
>>> released.value, released.private
(array([7, 0]), False)
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.calendar import duration, instant
from penstock.core.deprecated import moved
from penstock.engine.sqlite import SQLiteReader
from penstock.private.noise import Noise, NoNoise, TestNoise
from penstock.private.run import Run
from penstock.private.units import ReplayClock
from penstock.service.options import ServiceOptions
from penstock.service.server import ServiceServer

__all__ = [
    "Draw",
    "GaussianDraw",
    "ManualClock",
    "NoNoise",
    "RecordingNoise",
    "ReplayClock",
    "TestNoise",
    "intrude",
    "serving",
]


@dataclass(frozen=True)
class Draw:
    """One call for Laplace noise; `scale` is the smallest in it."""

    unit: int
    label: str
    scale: Fraction
    size: int


@dataclass(frozen=True)
class GaussianDraw:
    """One call for Gaussian noise."""

    unit: int
    label: str
    variance: Fraction
    size: int


class RecordingNoise:
    """Another source of noise, and a list of its draws.

    Parameters
    ----------
    source : Noise
        The source that draws.

    >>> noise = RecordingNoise(TestNoise(1))
    >>> _ = noise.laplace(Fraction(3), 2, unit=1, label="publish")
    >>> noise.draws
    [Draw(unit=1, label='publish', scale=Fraction(3, 1), size=2)]
    """

    private = False

    def __init__(self, source: Noise) -> None:
        self.source = source
        self.draws: list[Draw] = []
        self.gaussians: list[GaussianDraw] = []

    def laplace(self, scale: Fraction, size: int, *, unit: int, label: str) -> IntArray:
        if size:
            self.draws.append(Draw(unit, label, Fraction(scale), size))
        return self.source.laplace(scale, size, unit=unit, label=label)

    def laplace_each(
        self, scales: Sequence[Fraction], which: IntArray, *, unit: int, label: str
    ) -> IntArray:
        if len(which):
            smallest = min(Fraction(scales[index]) for index in np.unique(which).tolist())
            self.draws.append(Draw(unit, label, smallest, len(which)))
        return self.source.laplace_each(scales, which, unit=unit, label=label)

    def thin(self, counts: IntArray, keep: Fraction, *, unit: int, label: str) -> IntArray:
        return self.source.thin(counts, keep, unit=unit, label=label)

    def gaussian(self, variance: Fraction, size: int, *, unit: int, label: str) -> IntArray:
        if size:
            self.gaussians.append(GaussianDraw(unit, label, Fraction(variance), size))
        return self.source.gaussian(variance, size, unit=unit, label=label)

    def refresh(self) -> None:
        self.source.refresh()

    def erase(self) -> None:
        self.source.erase()

    def memory(self) -> dict[str, Any]:
        return self.source.memory()


class ManualClock:
    """A clock that you set and advance. `ReplayClock` is the clock of a finished file.

    Parameters
    ----------
    now : datetime or str
        The first time, with an offset from UTC.

    >>> clock = ManualClock("2026-03-01T00:00Z")
    >>> clock.advance("90min")
    >>> clock.now() == instant("2026-03-01T01:30Z")
    True
    """

    def __init__(self, now: datetime | str) -> None:
        self.set(now)

    def now(self) -> int:
        return self._now

    def set(self, now: datetime | str) -> None:
        self._now = instant(now, name="now")

    def advance(self, by: str) -> None:
        self._now += duration(by, name="by")


def intrude(run: Run) -> dict[str, Any]:
    """A copy of the run's memory, as an intruder would see it now: for tests of pan-privacy.

    The mechanism's state is under "state". The gate's secrets are under "counter …", "pot …", "fold
    …", "threshold …", "nodes …" and "convolution …". "noise key" is there if the source of noise
    holds a key from which past draws can be computed; a pan-private run erases it.

    Parameters
    ----------
    run : Run
        The run.

    >>> from penstock import PanAbsorption
    >>> run = PanAbsorption(epsilon="1", window=3).run(["north", "south"], noise=TestNoise(1))
    >>> run.feed([2, 0])
    >>> sorted(intrude(run))
    ['counter distance', 'counter publish', 'state']
    """
    return {**run._gate.memory(), "state": run._state}


@contextmanager
def serving(store: str | os.PathLike[str], *, token: str | None = None) -> Iterator[str]:
    """Serve a store by a read service of this process, at a free port of this machine.

    Needs the extra `serve`. The service ends with the `with` statement.

    Parameters
    ----------
    store : path
        The SQLite file of a store or of a release log.
    token : str, optional
        The token that readers must show. Default: none.

    Yields
    ------
    str
        The address of the service, for `penstock.connect`.

    Examples
    --------
    >>> import tempfile, penstock as ps
    >>> path = f"{tempfile.mkdtemp()}/taps.db"
    >>> run = ps.Laplace(epsilon="1").run(["north", "south"], noise=NoNoise())
    >>> with ps.open_log(path, run) as log:
    ...     log.append(run.step([7, 0]))
    >>> with serving(path) as url, ps.connect(url) as stream:
    ...     stream[-1].estimate
    array([7., 0.])
    """
    options = ServiceOptions(listen="127.0.0.1:0", token=token)
    with (
        tempfile.TemporaryDirectory() as copies,
        ServiceServer(options, [lambda: SQLiteReader(store)], Path(copies)) as service,
    ):
        yield service.url


if not TYPE_CHECKING:
    __getattr__ = moved(__name__)
