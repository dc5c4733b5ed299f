"""Code that the type checker must accept, and code that it must reject, in one run of mypy."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

ACCEPTED = """
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

import penstock as ps
from penstock.core.arrays import FloatArray, IntArray


def front() -> FloatArray:
    run = ps.BudgetAbsorption(epsilon="1", window=24).run(["north", "south"])
    released: ps.Released = run.step([120, 80])
    released = run.step(np.array([1, 2]), unit=2)
    low, high = released.interval("0.95")
    cost: Fraction = run.cost.epsilon
    assert cost <= 1
    lines: tuple[ps.Line, ...] = run.ledger
    assert lines
    return released.estimate + low + high


def remote(url: str) -> ps.Released:
    with ps.connect(url, "taps/hourly", token="for-reading", timeout=5) as stream:
        sums = stream.window("1d").answer().estimate
        raised = stream.jump("3h", 100).series().raised
        ranking: str = stream.top(3, window=24).answer().query
        assert sums.size and raised.any() and ranking and stream.verify().account.kept
        one: ps.RemoteStream = stream["Harbour"]["2026-01-01":].filtered("1d")
        return next(one.follow(after=3))


def numbers() -> list[ps.Guarantee]:
    return [ps.Guarantee("0.5", 24), ps.Guarantee(Fraction(1, 2), 24), ps.Guarantee(1, 1, 2)]


def domains() -> list[ps.Domain]:
    return [ps.Domain.of(3), ps.Domain.of(["a"]), ps.Domain.of(ps.Domain.of(2))]


def kept(path: str) -> ps.Run:
    with ps.Uniform(epsilon="1", window=2).run(3, keep=path, record=True) as run:
        account: ps.Account = run.account()
        assert account.kept
    return ps.Uniform(epsilon="1", window=2).restore(run.snapshot(), 3)


@dataclass(frozen=True)
class Memory:
    last: ps.Released


@dataclass(frozen=True, kw_only=True)
class Mine(ps.Mechanism[Memory]):
    name = "mine"
    State = Memory

    def start(self, domain: ps.Domain) -> Memory:
        return Memory(ps.Released.nothing(domain.size, self.guarantee))

    def step(self, state: Memory, unit: ps.Private, gate: ps.Gate) -> tuple[Memory, ps.Released]:
        distance = unit.distance(state.last.value)
        far = gate.laplace(distance, epsilon=self.total // 4, label="far").number
        if far < 10:
            return state, gate.repeat(state.last)
        fresh = gate.laplace(unit, epsilon=self.total // 4, label="publish")
        return Memory(fresh), fresh


def plain(values: IntArray) -> IntArray:
    return values
"""

REJECTED = {
    "a float epsilon": "ps.Uniform(epsilon=0.5, window=3)",
    "a float delta": 'ps.Uniform(epsilon="1", window=3, delta=1e-6)',
    "a float epsilon of a promise": "ps.Guarantee(0.5, 3)",
    "no window": 'ps.Uniform(epsilon="1")',
    "a text for the window": 'ps.Uniform(epsilon="1", window="3")',
    "positional parameters": 'ps.Uniform("1", 3)',
    "an unknown parameter": 'ps.Uniform(epsilon="1", window=3, every=2)',
    "a change of a mechanism": "mechanism.window = 4",
    "a change of a release": "released.unit = 3",
    "a change of a promise": "released.guarantee.window = 3",
    "a float confidence": "released.interval(0.95)",
    "a private value as an array": "plain(private)",
    "a private value as a release": "publish(private)",
    "a private value as a float": "take_float(private)",
    "a private value that is not sealed with its sensitivity": "ps.Private(values)",
    "a mapping without its stability": "private.map(plain, cover=EACH)",
    "noise without a budget": 'gate.laplace(private, label="x")',
    "noise of a float budget": 'gate.laplace(private, epsilon=0.1, label="x")',
    "noise on what is not private": 'gate.laplace(values, epsilon=budget, label="x")',
    "a release without a label": "gate.laplace(private, epsilon=budget)",
    "a sum of budgets and numbers": "budget + 1",
    "a comparison of budgets and numbers": "budget < 1",
    "a budget times a float": "budget * 0.5",
    "a pour without a place": 'gate.pots.pour("pot")',
    "a question without a price": 'gate.runs.ask("run", private, threshold=3)',
    "a service without its address": "ps.connect()",
    "a positional token": 'ps.connect("https://data.example", "taps", "for-reading")',
    "a stream of a service as a release": "publish(ps.connect('https://data.example'))",
    "a seed for the system's noise": "SystemNoise(7)",
    "a unit as a text": 'run.step([1], unit="1")',
    "a mechanism without a step": 'Stepless(epsilon="1", window=1)',
    "a branch on private data": "private and plain(values)",
}

PROLOGUE = """
from dataclasses import dataclass

import penstock as ps
from penstock.core.arrays import IntArray
from penstock.core.cover import EACH
from penstock.private.noise import SystemNoise


def plain(values: IntArray) -> IntArray:
    return values


def publish(released: ps.Released) -> None: ...


def take_float(number: float) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Stepless(ps.Mechanism[None]):
    name = "stepless"

    def start(self, domain: ps.Domain) -> None: ...


def check(
    gate: ps.Gate, private: ps.Private, values: IntArray, budget: ps.Budget, run: ps.Run,
    released: ps.Released, mechanism: ps.Uniform,
) -> None:
"""


@pytest.fixture(scope="module")
def verdict(tmp_path_factory) -> dict[str, set[int]]:
    """The lines of each file with an error of mypy --strict; one process for all snippets."""
    folder = tmp_path_factory.mktemp("typing")
    (folder / "accepted.py").write_text(ACCEPTED)
    (folder / "rejected.py").write_text(
        PROLOGUE + "".join(f"    {snippet}\n" for snippet in REJECTED.values())
    )
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--enable-error-code=truthy-bool",
            "--no-error-summary",
            "--hide-error-context",
            f"--config-file={ROOT / 'pyproject.toml'}",
            f"--cache-dir={ROOT / '.mypy_cache'}",
            str(folder / "accepted.py"),
            str(folder / "rejected.py"),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, set[int]] = {"accepted.py": set(), "rejected.py": set()}
    for line in done.stdout.splitlines():
        if match := re.match(r"(\S+?)([^/\\:]+\.py):(\d+): error: ", line):
            found.setdefault(match[2], set()).add(int(match[3]))
    return found


def test_the_fronts_normal_use_is_accepted(verdict):
    assert verdict["accepted.py"] == set()


@pytest.mark.parametrize("name", REJECTED)
def test_a_mistake_is_rejected(verdict, name):
    first = PROLOGUE.count("\n") + 1
    assert first + list(REJECTED).index(name) in verdict["rejected.py"]


def test_nothing_but_the_mistakes_is_rejected(verdict):
    first = PROLOGUE.count("\n") + 1
    assert verdict["rejected.py"] <= set(range(first, first + len(REJECTED)))
