"""Whatever goes with the stream besides the numbers is seen by an audit by sampling.

Every cheat here releases honest numbers, or numbers whose sides tell little. Each is audited by
sampling alone, on one pair of streams. False alarm of an honest mechanism: at most 1e-3 per case.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.core.private import Private, unseal
from penstock.core.released import Released, Scale
from penstock.lab.audit import engine
from penstock.lab.audit.engine import Verdict
from penstock.lab.audit.model import Pair, Traces
from penstock.lab.audit.pairs import LOOKS, decided, looked_at
from penstock.lab.audit.sample import case_traces, clean_memory
from penstock.lab.audit.subjects import Subject, subject
from penstock.lab.audit.trace_codings import trace_codings
from penstock.private.gate import Gate
from penstock.private.mechanisms.pan import PanDistribution
from penstock.private.mechanisms.uniform import NoState

HERE = __name__


class Cheat(ps.Uniform):
    """`uniform`, whose release a subclass changes by the counts."""

    by_key = False

    def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
        _, released = super().step(state, unit, gate)
        return state, self.changed(released, unseal(unit), gate)

    def changed(self, released: Released, counts: Any, gate: Gate) -> Released:
        return released


class Honest(Cheat):
    """Changes nothing."""


class HonestByKey(ps.Uniform):
    """Changes nothing, and its runs are keys of one run."""


class ScaleTells(Cheat):
    def changed(self, released: Released, counts: Any, gate: Gate) -> Released:
        return replace(released, scale=Scale(released.scale.base + int(counts[0])))


class LayersTell(Cheat):
    def changed(self, released: Released, counts: Any, gate: Gate) -> Released:
        return replace(released, layers=1 + int(counts[0]))


class OrderTells(Cheat):
    def changed(self, released: Released, counts: Any, gate: Gate) -> Released:
        names = ["a", "b"] if counts[0] else ["b", "a"]
        return replace(released, public={name: np.zeros(2, np.int64) for name in names})


class ShapeTells(Cheat):
    def changed(self, released: Released, counts: Any, gate: Gate) -> Released:
        return replace(released, public={"a": np.zeros(2 + int(counts[0]), np.int64)})


class AttributeTells(Cheat):
    def changed(self, released: Released, counts: Any, gate: Gate) -> Released:
        released.__dict__["hint"] = int(counts[0])
        return released


class ErrorTells(Cheat):
    def changed(self, released: Released, counts: Any, gate: Gate) -> Released:
        if counts[0]:
            raise ValueError("somebody was there")
        return released


class TextOfErrorTells(Cheat):
    def changed(self, released: Released, counts: Any, gate: Gate) -> Released:
        if released.value[0] % 2:
            raise ValueError(f"{counts[0]} were there")
        return released


class LogTells(Cheat):
    def changed(self, released: Released, counts: Any, gate: Gate) -> Released:
        logging.getLogger("cheat").debug("%d", counts[0])
        return released


class NoiseOfKeysIsEqual(Cheat):
    def changed(self, released: Released, counts: Any, gate: Gate) -> Released:
        noise = released.value[0] - counts[0]
        return replace(released, value=counts + noise)


class LowBitsTell(Cheat):
    def changed(self, released: Released, counts: Any, gate: Gate) -> Released:
        return replace(released, value=(released.value - counts) * 8 + counts)


class WidthTells(Cheat):
    """The side of the count is as likely as ever, but the noise is wider where somebody is."""

    def changed(self, released: Released, counts: Any, gate: Gate) -> Released:
        noise = 2 * (released.value - counts) + 1
        return replace(released, value=np.where(counts > 0, 64 * noise, noise))


class ByKeyScaleTells(ps.Uniform):
    """Runs are keys of one run, and the scale of all of them tells the largest count."""

    def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
        _, released = super().step(state, unit, gate)
        return state, replace(released, scale=Scale(released.scale.base + int(unseal(unit).max())))


CHEATS = (
    ScaleTells,
    LayersTell,
    OrderTells,
    ShapeTells,
    AttributeTells,
    ErrorTells,
    TextOfErrorTells,
    LogTells,
    NoiseOfKeysIsEqual,
    LowBitsTell,
    WidthTells,
    ByKeyScaleTells,
)


def verdict_on(cls: type, *, runs: int = 400) -> Verdict:
    found = subject(f"{HERE}:{cls.__name__}", epsilon="1", window=1, runs=runs)
    pair = Pair("one event", np.array([[1, 0]]), np.array([[0, 0]]))
    found = replace(found, pairs=(pair,))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "resolve", lambda spec: found)
        engine._classifier.cache_clear()
        engine._clean.cache_clear()
        engine._form.cache_clear()
        return engine.audit(found, confidence=0.999, seed=3, workers=1)


@pytest.mark.parametrize("cls", CHEATS)
def test_whatever_tells_the_stream_convicts(cls: type) -> None:
    verdict = verdict_on(cls)
    assert verdict.convicted, verdict.row()


@pytest.mark.parametrize("cls", [Honest, HonestByKey])
def test_the_same_attack_acquits_who_changes_nothing(cls: type) -> None:
    verdict = verdict_on(cls)
    assert not verdict.convicted, verdict.row()


class Fails(Cheat):
    def changed(self, released: Released, counts: Any, gate: Gate) -> Released:
        raise ValueError("always")


def test_a_mechanism_that_always_fails_is_not_acquitted() -> None:
    verdict = verdict_on(Fails, runs=8)
    assert verdict.outcome == "crashed"
    assert verdict.failure is not None
    assert verdict.failure.reason == "ValueError: always"


def test_a_run_that_says_nothing_has_no_code_for_it_and_one_that_does_has() -> None:
    for cls, spoken in ((Honest, False), (LogTells, True)):
        found = subject(f"{HERE}:{cls.__name__}", epsilon="1", window=1, runs=4)
        seen = case_traces(found.cases[0], 0, 4, (1,))
        assert ("text" in seen.fields) is spoken


def test_equal_noise_is_told_by_the_stream_that_gives_it() -> None:
    pair = Pair("two keys", np.array([[5, 2]]), np.array([[4, 2]]))
    values = np.array([[[8, 5]], [[7, 5]], [[0, 9]]])  # 3 = 5 − 2, 2 = 4 − 2, neither
    found = trace_codings(Traces(values, np.ones((3, 1, 2), np.bool_)), pair, None)
    where = "unit 1 key 1 and unit 1 key 2"
    assert found[f"tie, {where}"] == {
        f"equal noise, {where}: none": 1,
        f"equal noise, {where}: left": 1,
        f"equal noise, {where}: right": 1,
    }


# -- looks -----------------------------------------------------------------------------------------


def test_a_look_sees_all_numbers_of_the_memory() -> None:
    found: Subject = subject("bd_pan", runs=4)
    (case,) = (
        case for case in found.cases if case.pair.name == "still, a person from unit 1, looked into"
    )
    seen = case_traces(case, 0, 4, (1,))
    assert {"counter distance", "counter publish", "state.last.value"} <= seen.memory.keys()
    left, right = clean_memory(case)
    assert (left["counter distance"] != right["counter distance"]).any()
    assert (left["counter publish"] - right["counter publish"]).sum() == 1


def test_looks_are_taken_at_every_moment_that_the_promise_covers() -> None:
    within, between = subject("ba_pan", runs=4), subject("ba_pan@between", runs=4)
    names = " ".join(pair.name for pair in within.pairs)
    for moment in (LOOKS[0], LOOKS[1], LOOKS[4]):
        assert f"({moment} of " in names
    assert all(pair.look is not None and pair.look.after for pair in between.pairs)
    assert any(pair.look is not None and pair.look.restored for pair in between.pairs)
    for case in (*within.cases, *between.cases):
        seen = case_traces(case, 0, 2, (1,))
        assert not any(seen.errors), (case.pair.name, seen.errors)


class RawInState(PanDistribution):
    """Leaves the counts of the last unit in its memory."""

    def step(self, state: Any, unit: Private, gate: Gate) -> Any:
        state, released = super().step(state, unit, gate)
        return replace(state, position=int(unseal(unit)[0]) + 1), released


def test_raw_counts_in_the_memory_convict() -> None:
    mechanism = RawInState(epsilon="1", window=1, intrusion="between")
    pair = looked_at(Pair("one event", np.array([[1, 0]]), np.array([[0, 0]])), after=True)
    found = subject(f"{HERE}:Honest", epsilon="1", window=1, runs=200)
    found = replace(found, mechanism=mechanism, pairs=(pair,))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "resolve", lambda spec: found)
        engine._classifier.cache_clear()
        engine._clean.cache_clear()
        engine._form.cache_clear()
        verdict = engine.audit(found, confidence=0.999, seed=3, workers=1)
    assert verdict.convicted


# -- close decisions -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bd", "ba", "bd_grouped", "ba_pan"])
def test_close_decisions_hang_on_the_person(name: str) -> None:
    mechanism = subject(name).mechanism
    found = list(decided(mechanism, keys=2))
    assert len(found) == 3
    for pair in found:
        assert pair.is_neighbouring(window=mechanism.window, contribution=1)
        wanted = pair.name.split()[2].rstrip(":")
        for stream, right in ((pair.left, True), (pair.right, False)):
            run = mechanism.run(2, noise=ps.testing.NoNoise())
            first = not np.all(run.step(stream[0]).repeated)
            assert (first == (wanted[0] == "+")) is right


def test_a_mechanism_that_always_releases_has_no_close_decisions() -> None:
    assert list(decided(subject("uniform").mechanism, keys=2)) == []
