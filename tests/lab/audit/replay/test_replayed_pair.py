"""One transcript on two streams: its loss, and what must not differ."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.core.domain import Domain
from penstock.lab.audit.model import Look, Pair
from penstock.lab.audit.replay.noise_choice import NoiseChoice
from penstock.lab.audit.replay.replayed_pair import (
    Replayed,
    ReplayTrial,
    replay,
    same_after_a_restart,
)
from penstock.private import state
from penstock.private.run import Run


def pair_of(left: list[list[int]], right: list[list[int]], look: Look | None = None) -> Pair:
    return Pair("by hand", np.array(left), np.array(right), look)


def replayed(
    mechanism: ps.Mechanism[Any],
    left: list[list[int]],
    right: list[list[int]],
    choice: NoiseChoice | None = None,
    *,
    restarts: tuple[int, ...] = (),
    look: Look | None = None,
    fine: bool = True,
) -> Replayed:
    pair = pair_of(left, right, look)
    promise = mechanism.guarantee
    trial = ReplayTrial(
        mechanism,
        Domain.of(pair.keys),
        pair,
        promise.epsilon,
        promise.delta,
        frozenset(restarts),
    )
    return replay(trial, choice or NoiseChoice(seed=1, signs=trial.signs), fine=fine)


def test_the_loss_of_plain_noise_is_the_difference_over_the_scale() -> None:
    found = replayed(ps.Uniform(epsilon="1", window=3), [[5], [6], [7]], [[4], [5], [6]])
    assert (found.loss.exact, found.loss.computed, found.violations) == (Fraction(1), 0.0, [])


@pytest.mark.parametrize("noise", [-9, -1, 0, 1, 9])
def test_the_loss_is_that_of_the_law(noise: int) -> None:
    """With noise n on a count of 1, the value 1 + n has noise n + 1 on a count of 0."""

    class Fixed(NoiseChoice):
        def noise(self, call: Any) -> Any:
            return np.full(call.size, noise)

    found = replayed(ps.Uniform(epsilon="1/2", window=1), [[1]], [[0]], Fixed(seed=1))
    assert found.loss.exact == Fraction(abs(noise + 1) - abs(noise), 2)


def test_a_third_of_the_window_loses_a_third() -> None:
    found = replayed(ps.Uniform(epsilon="1", window=3), [[5], [6], [7]], [[5], [5], [7]])
    assert found.loss.exact == Fraction(1, 3)


def test_the_loss_of_gaussian_noise_is_counted_in_rho() -> None:
    mechanism = ps.Uniform(epsilon="1", window=2, delta="1/100")
    found = replayed(mechanism, [[5], [6]], [[4], [5]])
    assert found.loss.exact == 0
    assert found.loss.rho <= mechanism.total.amount
    assert float(found.loss.rho) == pytest.approx(float(mechanism.total.amount), rel=1e-6)
    assert not found.loss.exceeds(Fraction(1), Fraction(1, 100))
    assert found.loss.exceeds(Fraction(1, 2), Fraction(1, 100))


def test_a_restart_changes_nothing() -> None:
    mechanism = ps.Pegasus(epsilon="2")
    stream = [[5, 1], [5, 2], [6, 9], [9, 9]]
    other = [[5, 1], [5, 2], [5, 9], [9, 9]]
    without = replayed(mechanism, stream, other)
    with_restarts = replayed(mechanism, stream, other, restarts=(1, 3))
    assert without.loss.total == with_restarts.loss.total
    assert not without.violations
    assert not with_restarts.violations


class ReadsWhatWasSeen(ps.PanDistribution):
    """Its publications have the noise that stood in memory, and no other."""

    def _publish(self, gate: ps.Gate) -> ps.Released:
        return gate.counters.read("publish", again=False)


def test_a_counter_that_is_released_with_the_noise_of_a_look_is_found() -> None:
    said = "a counter that a look may have seen is released as it is"
    for how, wrong in (("within", True), ("between", False)):
        mechanism = ReadsWhatWasSeen(epsilon="1", window=2, intrusion=how)
        found = replayed(mechanism, [[9**6], [9]], [[9**6 - 1], [9]])
        assert any(said in each for each in found.violations) == wrong


def test_a_store_that_compares_secret_pieces_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which pieces are written again then tells which stretch of keys had no event."""
    mechanism = ps.Tide(epsilon="1", window=8, share_total=0, longest=8)
    left, right = np.zeros((2, 6, 40), np.int64)
    right[4, 3] = 1
    arguments = mechanism, left.tolist(), right.tolist()
    assert not replayed(*arguments, restarts=(5,)).violations
    monkeypatch.setattr(state, "COMPARED", state.COMPARED | {"secrets"})
    (found,) = replayed(*arguments, restarts=(5,)).violations
    assert "pieces that a store compares['secrets" in found


@pytest.mark.parametrize(
    ("mechanism", "least"),
    [
        (ps.BudgetAbsorption(epsilon="2", window=3), 1.99),
        (ps.RetroactiveGrouping(epsilon="2"), 1.99),
        (ps.RetroactiveGrouping(epsilon="2", keep="1/2"), 1.0),
        (ps.Pegasus(epsilon="2"), 1.5),
        (ps.PrunedPegasus(epsilon="2"), 0.5),
        (ps.SignedBlocks(epsilon="2", span=4), 1.99),
        (ps.PanAbsorption(epsilon="2", window=3), 0.5),
        (ps.AdaptiveThreshold(epsilon="2", window=4, releases=2, population=20), 0.5),
    ],
    ids=lambda each: each.name if isinstance(each, ps.Mechanism) else "",
)
def test_every_protocol_of_the_gate_is_followed(mechanism: Any, least: float) -> None:
    """The largest loss of a few transcripts is above a share of ε, and never above ε."""
    base = np.array([[0, 9], [7, 9], [0, 9], [8, 9]]) * 3
    person = np.zeros_like(base)
    person[1 : 1 + mechanism.window, 0] = 1
    losses = []
    for mode in ("with", "against", "zero", "far with", "far against", "random"):
        for left, right in ((base + person, base), (base, base + person)):
            choice = NoiseChoice(seed=3, mode=mode)
            found = replayed(mechanism, left.tolist(), right.tolist(), choice, fine=False)
            assert not found.violations
            assert not found.failed
            losses.append(abs(found.loss.total))
    assert least <= max(losses) <= 2 + 1e-3  # sums are estimated


def test_a_look_into_a_counter_is_a_part_of_the_transcript() -> None:
    mechanism = ps.PanDistribution(epsilon="1", window=2)
    some = np.array([3])
    look = Look(1, some + 1, some)
    found = replayed(mechanism, [[9], [9]], [[8], [9]], look=look)
    assert not found.violations
    assert found.loss.exact > 0  # what the look saw
    assert abs(found.loss.total) <= 1 + 1e-9


def test_noise_that_is_drawn_past_the_gate_is_a_violation() -> None:
    class Stray(ps.Uniform):
        def step(self, state: Any, unit: ps.Private, gate: ps.Gate) -> tuple[Any, ps.Released]:
            gate._maker.noise.laplace(Fraction(2), 1, unit=gate.unit, label="stray")
            return super().step(state, unit, gate)

    found = replayed(Stray(epsilon="1", window=1), [[1]], [[0]])
    assert [text for text in found.violations if "past the gate" in text]


@pytest.mark.parametrize("shared", [False, True])
def test_noise_that_two_keys_share_is_a_violation(
    shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mutant of the gate: one draw stands in every key."""
    from penstock.private.gate.release_maker import ReleaseMaker

    genuine = ReleaseMaker.draw

    def draw(self: Any, scale: Any, size: int, label: str) -> Any:
        one = genuine(self, scale, 1, label)
        return np.repeat(one, size)

    if shared:
        monkeypatch.setattr(ReleaseMaker, "draw", draw)
    found = replayed(ps.Uniform(epsilon="1", window=1), [[1, 0]], [[0, 0]])
    assert bool(found.violations) is shared


def test_half_of_the_noise_is_too_much_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant of the gate: noise for half of a person's events."""
    from penstock.private.gate.release_maker import ReleaseMaker

    genuine = ReleaseMaker.scale

    def scale(self: Any, sensitivity: Any, epsilon: Any) -> Any:
        return genuine(self, Fraction(sensitivity) / 2, epsilon)

    monkeypatch.setattr(ReleaseMaker, "scale", scale)
    found = replayed(ps.Uniform(epsilon="1", window=1), [[1]], [[0]])
    assert found.loss.exact == 2
    assert found.loss.exceeds(Fraction(1))


def test_an_answer_against_the_law_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant of the gate: the threshold of a run has no noise."""
    from penstock.private.gate import threshold_runs

    genuine = threshold_runs.ThresholdRuns.ask

    def ask(self: Any, run: str, statistic: Any, **how: Any) -> Any:
        answer = genuine(self, run, statistic, **how)
        self._runs[run].noise[:] = 0
        return answer

    monkeypatch.setattr(threshold_runs.ThresholdRuns, "ask", ask)

    class Between(NoiseChoice):
        """Noise that is enough for a yes only if the threshold has lost its own."""

        def noise(self, call: Any) -> Any:
            if call.label.endswith(".threshold"):
                return np.full(call.size, 10**9)
            large = call.label.endswith(".question") and call.unit >= 3
            return np.full(call.size, 10**8 if large else 0)

    stream = [[5], [6], [5], [6]]
    violations = replayed(ps.Pegasus(epsilon="2"), stream, stream, Between(seed=1)).violations
    assert [text for text in violations if "an answer is not" in text]


def test_a_run_that_changes_after_a_restart_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: loading a snapshot forgets the sums that wait for their release."""
    mechanism = ps.RetroactiveGrouping(epsilon="2", caution=60)
    stream = [[50], [50], [50], [50], [50], [50]]
    trial = ReplayTrial(
        mechanism, Domain.of(1), pair_of(stream, stream), Fraction(2), restarts=frozenset({2, 4})
    )
    choice = NoiseChoice(seed=1, mode="zero")
    assert same_after_a_restart(trial, choice) == []
    genuine = Run.load

    def load(self: Any, snapshot: bytes, pieces: Any = None) -> None:
        genuine(self, snapshot, pieces)
        for pot in self._gate.pots._held.values():
            pot.total[:] = 0

    monkeypatch.setattr(Run, "load", load)
    assert same_after_a_restart(trial, choice)
