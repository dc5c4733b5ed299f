"""Noise that is not fresh, not independent or not of its law is convicted."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from penstock.core.arrays import IntArray
from penstock.core.errors import NoiseError
from penstock.lab.audit import noise_audit as audited
from penstock.lab.audit.noise_audit import NoiseVerdict, noise_audit
from penstock.lab.audit.subjects import subject
from penstock.lab.audit.suite import SHIPPED
from penstock.private import run as run_module
from penstock.private.noise import tables
from penstock.private.noise.bits import KeyedBits
from penstock.private.noise.gaussian import gaussian
from penstock.private.noise.laplace import laplace
from penstock.private.noise.thinning import thin


class Repeatable:
    """Right noise from a key, so that a test repeats. Each mutant changes one thing."""

    private = True
    made = 0

    def __init__(self) -> None:
        type(self).made += 1
        self.bits = KeyedBits(self.key())
        self.home = os.getpid()

    def check_home(self) -> None:
        if os.getpid() != self.home:
            raise NoiseError("a forked child would repeat its parent's noise.")

    def key(self) -> bytes:
        return hashlib.sha256(f"noise audit {type(self).made}".encode()).digest()

    def laplace(self, scale: Fraction, size: int, *, unit: int, label: str) -> IntArray:
        self.check_home()
        return self.changed(laplace(scale, size, self.bits), float(scale))

    def laplace_each(
        self, scales: Sequence[Fraction], which: IntArray, *, unit: int, label: str
    ) -> IntArray:
        values = np.empty(len(which), np.int64)
        for place, scale in enumerate(scales):
            chosen = which == place
            size = int(np.count_nonzero(chosen))
            values[chosen] = self.laplace(scale, size, unit=unit, label=label)
        return values

    def gaussian(self, variance: Fraction, size: int, *, unit: int, label: str) -> IntArray:
        self.check_home()
        return self.changed(gaussian(variance, size, self.bits), float(variance) ** 0.5)

    def thin(self, counts: IntArray, keep: Fraction, *, unit: int, label: str) -> IntArray:
        return thin(counts, keep, self.bits)

    def changed(self, values: IntArray, scale: float) -> IntArray:
        return values

    def refresh(self) -> None: ...

    def erase(self) -> None: ...

    def memory(self) -> dict[str, Any]:
        return {}


class OneKey(Repeatable):
    """Every source begins with the same key: a restart repeats the noise."""

    def key(self) -> bytes:
        return b"k" * 32


class Forkable(Repeatable):
    """A forked child goes on with its parent's key."""

    def check_home(self) -> None: ...


class SharedByTwoKeys(Repeatable):
    def changed(self, values: IntArray, scale: float) -> IntArray:
        values[1::2] = values[: len(values) - 1 : 2]
        return values


class OppositeInTwoKeys(Repeatable):
    """Sums of two keys have no noise."""

    def changed(self, values: IntArray, scale: float) -> IntArray:
        values[1::2] = -values[: len(values) - 1 : 2]
        return values


class SameEveryUnit(Repeatable):
    kept: IntArray | None = None

    def changed(self, values: IntArray, scale: float) -> IntArray:
        if self.kept is None or len(self.kept) != len(values):
            self.kept = values.copy()
        return self.kept.copy()


class Less(Repeatable):
    def changed(self, values: IntArray, scale: float) -> IntArray:
        less: IntArray = np.rint(values * 0.7).astype(np.int64)
        return less


class More(Repeatable):
    def changed(self, values: IntArray, scale: float) -> IntArray:
        more: IntArray = np.rint(values * 1.3).astype(np.int64)
        return more


class CutTails(Repeatable):
    def changed(self, values: IntArray, scale: float) -> IntArray:
        limit = int(2 * scale)
        cut: IntArray = np.clip(values, -limit, limit)
        return cut


class NeverNegative(Repeatable):
    def changed(self, values: IntArray, scale: float) -> IntArray:
        sizes: IntArray = np.abs(values)
        return sizes


class OtherLaw(Repeatable):
    """Uniform noise of the right variance."""

    def changed(self, values: IntArray, scale: float) -> IntArray:
        half = int(scale * 6**0.5)
        rng = np.random.default_rng(np.abs(values))
        return rng.integers(-half, half + 1, len(values))


class CutTowardsZero(Repeatable):
    """Large noise is cut to a whole number where it should be rounded."""

    def changed(self, values: IntArray, scale: float) -> IntArray:
        cut: IntArray = values - (np.sign(values) * (scale > 64) * (values % 2 == 0))
        return cut


def found_with(
    source: type[Repeatable], monkeypatch: pytest.MonkeyPatch, name: str = "uniform"
) -> NoiseVerdict:
    monkeypatch.setattr(source, "made", 0)
    monkeypatch.setattr(run_module, "SystemNoise", source)
    return noise_audit(subject(name, epsilon="1/5"))


@pytest.mark.parametrize("name", ["uniform", "uniform@delta"])
@pytest.mark.parametrize(
    "source",
    [
        OneKey,
        Forkable,
        SharedByTwoKeys,
        OppositeInTwoKeys,
        SameEveryUnit,
        Less,
        More,
        CutTails,
        NeverNegative,
        OtherLaw,
        CutTowardsZero,
    ],
)
def test_wrong_noise_is_convicted(
    source: type[Repeatable], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = found_with(source, monkeypatch, name)
    assert found.convicted, found.row()


@pytest.mark.parametrize("name", ["uniform", "uniform@delta", "bd", "pegasus", "kary"])
def test_right_noise_is_acquitted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise repeats, so this test cannot fail by chance."""
    found = found_with(Repeatable, monkeypatch, name)
    assert found.outcome == "acquitted", found.violations
    assert found.tests > 20


def test_values_that_are_chosen_by_too_few_bits_are_convicted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A mutant of the tables: an edge between two values lies where 16 bits put it."""
    genuine = tables.Table.guide

    def guide(self: tables.Table) -> Any:
        marked = genuine.fget(self).copy()
        held = np.bincount((self._thresholds >> np.uint64(48)).astype(np.intp), minlength=1 << 16)
        once = held == 1
        marked[once] = self._outcomes.astype(np.int16)[(np.cumsum(held) - held)[once]]
        return marked

    monkeypatch.setattr(tables.Table, "guide", property(guide))
    found = found_with(Repeatable, monkeypatch)
    assert found.convicted
    assert "values are" in found.violations[0]


def test_less_noise_than_the_ledger_line_says_is_convicted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A mutant of the gate: the source is asked for half of the scale."""
    from penstock.private.gate.release_maker import ReleaseMaker

    genuine = ReleaseMaker.scale

    def scale(self: Any, sensitivity: Any, epsilon: Any) -> Any:
        return genuine(self, Fraction(sensitivity) / 2, epsilon)

    monkeypatch.setattr(ReleaseMaker, "scale", scale)
    found = found_with(Repeatable, monkeypatch)
    assert found.convicted
    assert "its ledger line needs 10" in found.violations[0]


def test_a_mechanism_that_fails_is_not_judged() -> None:
    found = noise_audit(subject("tests.lab.audit.replay.cheats:Crashes"))
    assert (found.outcome, found.convicted) == ("not judged", False)
    assert found.sentence() == "noise not judged: the mechanism failed with RuntimeError"


@pytest.mark.parametrize("name", SHIPPED)
def test_the_system_source_is_acquitted(name: str) -> None:
    """False alarm: at most 1e-6 per mechanism. The source takes no seed."""
    found = noise_audit(subject(name))
    assert found.outcome == "acquitted", found.violations


def test_the_collision_of_a_law_is_an_upper_bound() -> None:
    for scale in (1, 7, 900):
        q = np.exp(-1 / scale)
        places = np.arange(-40 * scale, 40 * scale + 1)
        chances = (1 - q) / (1 + q) * q ** np.abs(places)
        exact = float((chances**2).sum())
        assert exact <= audited._collision(("laplace", Fraction(scale))) <= 1.01 * exact
