"""A run: what it takes, what it refuses, and that a refusal changes nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from penstock.core.errors import BudgetError, ConfigurationError, InputError, StateError
from penstock.core.released import Released
from penstock.private.gate import Price, Secrets
from penstock.private.mechanisms.base import Mechanism
from penstock.private.mechanisms.pan import PanAbsorption, PanDistribution
from penstock.private.mechanisms.registry import MECHANISMS
from penstock.private.mechanisms.sample import Sample
from penstock.private.mechanisms.uniform import NoState, Uniform
from penstock.private.noise import NoNoise, TestNoise

EVERY = pytest.mark.parametrize("cls", MECHANISMS.values(), ids=MECHANISMS.keys())
SECRET = 918_273_645


def stream(units: int, keys: int, seed: int = 0) -> np.ndarray:
    """Counts that stand still, jump and drift."""
    rng = np.random.default_rng(seed)
    steps = rng.poisson(30, (units, keys)) + 400 * (np.arange(units) // 7 % 2)[:, None]
    steps[units // 2 : units // 2 + 3] = 0
    return steps


BAD = {
    "negative": [1, -SECRET, 3],
    "fractional": [1, SECRET + 0.5, 3],
    "missing": [1, float("nan"), 3],
    "too short": [1, 2],
    "too long": [1, 2, 3, SECRET],
    "overflow": [1, 2, 2**62],
    "huge": [1, 2, 2**80],
    "text": ["1", "2", "3"],
    "nothing": None,
}


@pytest.mark.slow
@EVERY
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_bad_counts_are_refused_and_change_nothing(cls, bad):
    counts = stream(12, 3)
    clean = cls(epsilon="1", window=5).run(3, noise=TestNoise(1), record=True)
    run = cls(epsilon="1", window=5).run(3, noise=TestNoise(1), record=True)
    for unit, row in enumerate(counts, start=1):
        before = run.snapshot()
        with pytest.raises(InputError) as caught:
            run.step(bad)
        assert str(caught.value).startswith(f"unit {unit}: ")
        assert str(SECRET) not in str(caught.value)
        assert run.snapshot() == before
        assert run.step(row).value.tolist() == clean.step(row).value.tolist()
    assert run.ledger == clean.ledger


def test_a_unit_is_released_once_and_in_its_turn():
    run = Uniform(epsilon="1", window=3).run(2)
    first = run.step([1, 2], unit=1)
    before = run.snapshot()
    with pytest.raises(InputError, match=r"unit 1 was released before: run\.last has it"):
        run.step([1, 2], unit=1)
    with pytest.raises(InputError, match="unit 0 was released before"):
        run.step([1, 2], unit=0)
    with pytest.raises(InputError, match="unit 3 is out of order: unit 2 is due"):
        run.step([1, 2], unit=3)
    assert run.snapshot() == before
    assert run.last is first
    assert run.step([1, 2], unit=2).unit == 2


@pytest.mark.slow
@EVERY
def test_every_window_of_every_mechanism_keeps_the_promise(cls):
    for seed, window in enumerate((1, 2, 5, 13)):
        run = cls(epsilon="1/2", window=window, contribution=2).run(
            6, noise=TestNoise(seed), record=True
        )
        for unit, row in enumerate(stream(60, 6, seed), start=1):
            assert run.step(row).unit == unit
            assert run.cost <= run.mechanism.total
        found = run.account()
        assert found.kept
        assert len(found.windows) == 60
        assert found.window(60) == run.cost.amount


@EVERY
def test_every_release_made_with_test_noise_says_so(cls):
    run = cls(epsilon="1", window=4).run(3, noise=NoNoise())
    assert not any(run.step(row).private for row in [[0, 0, 0], *stream(20, 3).tolist()])


@EVERY
def test_every_release_made_with_system_noise_is_private(cls):
    run = cls(epsilon="1", window=4).run(3)
    assert all(run.step(row).private for row in [[0, 0, 0], *stream(20, 3).tolist()])


@EVERY
def test_a_release_can_be_changed_by_nobody(cls):
    run = cls(epsilon="1", window=4).run(3, noise=TestNoise(2))
    for row in stream(20, 3):
        released = run.step(row)
        arrays = [released.value, released.repeated, released.scale.parts]
        assert not any(array.flags.writeable for array in arrays if isinstance(array, np.ndarray))


@EVERY
def test_numbers_of_numpy_are_numbers(cls):
    plain = cls(epsilon="1", window=4, contribution=2).run(3, noise=TestNoise(2))
    odd = cls(epsilon=np.int64(1), window=np.int64(4), contribution=np.int32(2)).run(
        np.int16(3), noise=TestNoise(2)
    )
    for row in stream(20, 3):
        assert plain.step(row).value.tolist() == odd.step(row).value.tolist()


@EVERY
def test_the_callers_array_is_neither_changed_nor_kept(cls):
    one = cls(epsilon="1", window=4).run(3, noise=TestNoise(2))
    two = cls(epsilon="1", window=4).run(3, noise=TestNoise(2))
    buffer = np.zeros(3, np.int64)
    for row in stream(20, 3):
        buffer[:] = row
        released = one.step(buffer).value.tolist()
        assert buffer.tolist() == row.tolist()
        buffer[:] = 10**9
        assert two.step(row.copy()).value.tolist() == released


@dataclass(frozen=True, kw_only=True)
class Keeper(Mechanism[NoState]):
    """Keeps the counts of the unit before in a fold, and publishes how they changed."""

    name = "keeper"
    State = NoState

    def start(self, domain):
        return NoState()

    def step(self, state, unit, gate):
        share = self.total // (4 * self.window)
        change = gate.runs.keep(
            "last",
            lambda last, c: (c, c if last is None else c - last),
            unit,
            price=Price(share, share),
            stability=2,
        )
        moved = gate.runs.ask("last", change, threshold=3, price=Price(share, share))
        released = gate.repeat(Released.nothing(len(moved), self.guarantee))
        return state, replace(released, value=moved.astype(np.int64))


def test_a_secret_does_not_follow_the_callers_array():
    run = Keeper(epsilon="1", window=2).run(2, noise=NoNoise())
    buffer = np.array([5, 5])
    run.step(buffer)
    buffer[:] = 9
    assert run.step(buffer).value.tolist() == [1, 1]


@dataclass(frozen=True, kw_only=True)
class Stumbler(Mechanism[NoState]):
    """Fails in its third unit, in one of several ways."""

    name = "stumbler"
    State = NoState
    way: str = "raise"

    def start(self, domain):
        return NoState()

    def step(self, state, unit, gate) -> Any:
        share = self.total // self.window
        released = gate.laplace(unit, epsilon=share, label="publish")
        if gate.unit == 3:
            if self.way == "raise":
                raise RuntimeError("a bug")
            if self.way == "interrupt":
                raise KeyboardInterrupt
            if self.way == "overspend":
                gate.laplace(unit, epsilon=self.total, label="publish")
            if self.way == "forget":
                gate.counters.prime("counter", epsilon=share, sensitivity=1, size=1, exposed=False)
            if self.way == "look" and unit:
                return state, released
            if self.way == "nothing":
                return None
        return state, released


@pytest.mark.parametrize(
    ("way", "error"),
    [
        ("raise", RuntimeError),
        ("interrupt", KeyboardInterrupt),
        ("overspend", BudgetError),
        ("forget", ConfigurationError),
        ("look", TypeError),
        ("nothing", TypeError),
    ],
)
def test_a_step_that_fails_midway_releases_nothing_and_ends_the_run(way, error):
    run = Stumbler(epsilon="1", window=10, way=way).run(2, noise=TestNoise(4))
    run.step([1, 2])
    last = run.step([3, 4])
    saved = run.snapshot()
    with pytest.raises(error):
        run.step([5, 6])
    assert run.last is last
    assert run.unit == 2
    for act in (lambda: run.step([5, 6]), lambda: run.step([5, 6], unit=3)):
        with pytest.raises(StateError, match="unit 3 failed midway and nothing of it was released"):
            act()
    with pytest.raises(StateError):
        run.snapshot()
    again = Stumbler(epsilon="1", window=10, way=way).restore(saved, 2, noise=TestNoise(4))
    assert again.unit == 2


class NoLongerReleased(Stumbler):
    """Hands out something that is no release."""

    name = "no_release"

    def step(self, state, unit, gate) -> Any:
        return state, unit


def test_a_step_that_gives_no_release_is_refused():
    run = NoLongerReleased(epsilon="1", window=10).run(2, noise=NoNoise())
    try:
        given = run.step([1, 2])
    except Exception:
        return
    assert isinstance(given, Released)


# -- parts and intrusions --------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [PanDistribution, PanAbsorption])
@pytest.mark.parametrize("intrusion", ["within", "announced"])
def test_a_unit_may_come_in_parts(cls, intrusion):
    whole = cls(epsilon="1", window=4, intrusion=intrusion).run(3, noise=TestNoise(2))
    parts = cls(epsilon="1", window=4, intrusion=intrusion).run(3, noise=TestNoise(2))
    for row in stream(20, 3):
        parts.feed(row // 2)
        with pytest.raises(InputError):
            parts.feed([1, 2])
        with pytest.raises(StateError, match="between units"):
            parts.snapshot()
        assert parts.step(row - row // 2).value.tolist() == whole.step(row).value.tolist()


@pytest.mark.parametrize(
    "mechanism",
    [Uniform(epsilon="1", window=2), PanAbsorption(epsilon="1", window=2, intrusion="between")],
)
def test_a_mechanism_of_whole_units_takes_no_parts(mechanism):
    run = mechanism.run(2, noise=NoNoise())
    with pytest.raises(ConfigurationError, match="takes whole units"):
        run.feed([1, 2])
    assert run.step([1, 2]).unit == 1


@pytest.mark.parametrize("mechanism", [Uniform(epsilon="1", window=2)] + [
    cls(epsilon="1", window=2, intrusion=intrusion)
    for cls in (PanAbsorption, PanDistribution)
    for intrusion in ("between", "within")
])  # fmt: skip
def test_an_intrusion_is_announced_only_where_that_is_promised(mechanism):
    run = mechanism.run(2, noise=NoNoise())
    with pytest.raises(ConfigurationError, match="no promise for announced intrusions"):
        run.intruded()


@pytest.mark.parametrize("cls", [PanDistribution, PanAbsorption])
def test_an_announced_intrusion_makes_the_unit_publish(cls):
    run = cls(epsilon="1", window=4, intrusion="announced").run(3, noise=TestNoise(2), record=True)
    run.feed([0, 0, 0])
    run.intruded()
    run.intruded()
    released = run.step([0, 0, 0])
    assert released.repeated is False
    assert released.layers == 4
    assert run.account().kept


# -- what anyone may know --------------------------------------------------------------------------


def test_the_lines_of_the_last_window_are_kept_and_no_more():
    run = Uniform(epsilon="1", window=3).run(2, noise=NoNoise())
    for _ in range(50):
        run.step([1, 2])
    assert [line.unit for line in run.ledger] == [48, 49, 50]
    with pytest.raises(ConfigurationError, match="record=True"):
        run.account()


def test_the_accountant_is_not_asked_about_lines_that_were_thrown_away():
    mechanism = Sample(epsilon="1", window=3)
    run = mechanism.run(2, noise=NoNoise())
    for _ in range(20):
        run.step([1, 2])
    later = mechanism.restore(run.snapshot(), 2, noise=NoNoise(), record=True)
    later.step([1, 2])
    with pytest.raises(ConfigurationError, match="lines"):
        later.account()


def test_nothing_of_the_data_is_in_its_repr():
    run = Uniform(epsilon="1", window=3).run(2, noise=NoNoise())
    run.step([SECRET, 2])
    assert repr(run) == "<Run of uniform over 2 keys, Guarantee(epsilon=1, window=3), at unit 1>"


@pytest.mark.slow
@pytest.mark.nightly
def test_memory_does_not_grow_with_the_stream():
    """Quick twin: the check of memory in tests/lab/test_checks.py."""
    for cls in MECHANISMS.values():
        run = cls(epsilon="1", window=4).run(3, noise=NoNoise())
        # the largest snapshots once windows of a week of hours are full, over a period of each tree
        early, late = 0, 0
        for unit, row in enumerate(np.tile(stream(28, 3), (20, 1)), start=1):
            run.step(row)
            if 170 <= unit < 330:
                early = max(early, len(run.snapshot()))
            elif unit >= 400:
                late = max(late, len(run.snapshot()))
        assert late <= 1.03 * early + 100, cls.name  # larger numbers take another byte


@EVERY
def test_after_the_horizon_the_last_release_stands_and_nothing_is_read(cls):
    run = cls(epsilon="1", window=4, horizon=6).run(3, noise=TestNoise(1), record=True)
    before = [run.step(row) for row in stream(6, 3)]
    lines, cost = run.ledger, run.cost
    assert run.over
    assert before[-1].guarantee.horizon == 6
    after = [run.step(row) for row in stream(10, 3, seed=5)]
    assert run.ledger == lines
    assert run.cost.amount <= cost.amount
    assert [released.unit for released in after] == list(range(7, 17))
    for released in after:
        assert released.value.tolist() == before[-1].value.tolist()
        assert released.repeated is True
    assert run.account().kept


@EVERY
def test_a_run_goes_on_after_its_horizon_from_a_snapshot(cls):
    mechanism = cls(epsilon="1", window=3, horizon=3)
    run = mechanism.run(3, noise=TestNoise(1))
    for row in stream(4, 3):
        run.step(row)
    again = mechanism.restore(run.snapshot(), 3, noise=TestNoise(1))
    assert again.over
    assert again.step([1, 2, 3]).value.tolist() == run.step([9, 9, 9]).value.tolist()
    with pytest.raises(StateError, match="horizon=3 there, None here"):
        cls(epsilon="1", window=3).restore(run.snapshot(), 3)


def test_parts_that_arrive_after_the_horizon_are_dropped():
    run = PanAbsorption(epsilon="1", window=2, horizon=2).run(2, noise=TestNoise(1), record=True)
    for _ in range(2):
        run.feed([5, 5])
        last = run.step([1, 1])
    lines = run.ledger
    run.feed([SECRET, SECRET])
    assert run.step([SECRET, 0]).value.tolist() == last.value.tolist()
    assert run.ledger == lines


@EVERY
def test_after_the_horizon_no_secret_is_kept(cls):
    run = cls(epsilon="1", window=2, horizon=5).run(3, noise=TestNoise(1))
    for row in stream(5, 3):
        run.step(row)
    assert run._gate.save() == Secrets()
