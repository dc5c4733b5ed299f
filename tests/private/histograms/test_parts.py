"""Every histogram method in every mechanism that takes one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from penstock import (
    AdaptiveThreshold,
    Budget,
    BudgetError,
    ConfigurationError,
    FixedSampling,
    FixedThreshold,
    Gate,
    Greedy,
    Histogram,
    KdTree,
    Mechanism,
    Plain,
    Private,
    QuadTree,
    Released,
    Sample,
    StateError,
)
from penstock.private.histograms.base import apart
from penstock.private.histograms.registry import HISTOGRAMS
from penstock.private.run import Run
from penstock.testing import RecordingNoise, TestNoise

KEYS = 36

TAKERS: dict[str, Callable[[Any], Mechanism[Any]]] = {
    "sample": lambda histogram: Sample(epsilon="1", window=3, histogram=histogram),
    "fixed": lambda histogram: FixedSampling(
        epsilon="1", window=5, every=2, contribution=2, histogram=histogram
    ),
    "dsft": lambda histogram: FixedThreshold(
        epsilon="1", window=6, releases=3, histogram=histogram
    ),
    "dsft, user level": lambda histogram: FixedThreshold(
        epsilon="2", window=12, horizon=12, releases=3, histogram=histogram
    ),
    "dsat": lambda histogram: AdaptiveThreshold(
        epsilon="1", window=6, releases=3, histogram=histogram
    ),
}


def stream(units: int) -> list[np.ndarray]:
    """Counts that stay, creep and leap."""
    rng = np.random.default_rng(7)
    now, out = rng.integers(0, 50, KEYS), []
    for unit in range(units):
        if unit % 4 == 2:
            now = rng.integers(0, 10 ** int(rng.integers(1, 6)), KEYS)
        out.append(now + rng.integers(0, 3, KEYS))
    return out


def facts(run: Run, released: Released) -> tuple[Any, ...]:
    return (
        released.value.tolist(),
        released.variance.tolist(),
        np.asarray(released.repeated).tolist(),
        run.cost,
    )


both = pytest.mark.parametrize("taker", TAKERS.values(), ids=TAKERS)


@both
@pytest.mark.parametrize("name", HISTOGRAMS)
def test_every_method_keeps_the_promise_of_every_mechanism(
    name: str, taker: Callable[[Any], Mechanism[Any]]
) -> None:
    mechanism = taker(HISTOGRAMS[name]())
    run = mechanism.run(KEYS, noise=TestNoise(11), record=True)
    fresh = 0
    for counts in stream(18):
        released = run.step(counts)
        assert released.value.shape == (KEYS,)
        assert (released.variance > 0).all()
        fresh += not np.all(released.repeated)
    assert fresh > 2
    books = run.account()
    assert books.kept
    assert books.window(run.unit) == run.cost.epsilon
    assert {line.label.split()[0] for line in run.ledger} <= {"publish", "moved"}


@both
@pytest.mark.parametrize("name", HISTOGRAMS)
def test_every_method_goes_on_after_a_restart(
    name: str, taker: Callable[[Any], Mechanism[Any]]
) -> None:
    first = taker(HISTOGRAMS[name]()).run(KEYS, noise=TestNoise(13), record=True)
    units = stream(14)
    for counts in units[:7]:
        first.step(counts)
    second = taker(HISTOGRAMS[name]()).restore(
        first.snapshot(), KEYS, noise=TestNoise(13), record=True
    )
    for counts in units[7:]:
        assert facts(first, first.step(counts)) == facts(second, second.step(counts))
    assert first.ledger == second.ledger


@both
def test_a_run_does_not_go_on_with_another_method(taker: Callable[[Any], Mechanism[Any]]) -> None:
    run = taker(HISTOGRAMS["greedy"](share="0.1")).run(KEYS, noise=TestNoise(1))  # type: ignore[call-arg]
    run.step(stream(1)[0])
    for other in (Plain(), HISTOGRAMS["greedy"](share="0.2")):  # type: ignore[call-arg]
        with pytest.raises(StateError, match="histogram=Greedy"):
            taker(other).restore(run.snapshot(), KEYS)


@dataclass(frozen=True)
class Twice:
    """Two releases, each with all that it was given."""

    def release(self, counts: Private, epsilon: Budget, gate: Gate) -> Released:
        gate.laplace(counts, epsilon=epsilon, label="publish")
        return gate.laplace(counts, epsilon=epsilon, label="publish")


@dataclass(frozen=True)
class LittleMore:
    """One quantum more than it was given."""

    def release(self, counts: Private, epsilon: Budget, gate: Gate) -> Released:
        return gate.laplace(
            counts, epsilon=Budget(epsilon.quanta + 1, epsilon.grid), label="publish"
        )


@both
@pytest.mark.parametrize("greedy", [Twice(), LittleMore()], ids=["twice", "a quantum more"])
def test_a_method_that_spends_more_is_stopped_and_nothing_is_released(
    greedy: Histogram, taker: Callable[[Any], Mechanism[Any]]
) -> None:
    run = taker(greedy).run(KEYS, noise=TestNoise(1), record=True)
    with pytest.raises(
        (ConfigurationError, BudgetError), match=r"was given epsilon=|above the promised"
    ):
        run.step(stream(1)[0])
    assert run.last is None
    assert run.account().kept
    with pytest.raises(StateError, match="nothing of it was released"):
        run.step(stream(1)[0])
    with pytest.raises(StateError):
        run.snapshot()


def test_what_a_method_overspent_was_never_above_the_window() -> None:
    """The ledger stops the second draw before it is made, where the window has no room for it."""
    noise = RecordingNoise(TestNoise(1))
    run = Sample(epsilon="1", window=3, histogram=Twice()).run(KEYS, noise=noise)
    with pytest.raises(BudgetError, match="Nothing was drawn"):
        run.step(stream(1)[0])
    assert len(noise.draws) == 1


@dataclass(frozen=True)
class Short:
    """A release of fewer keys."""

    def release(self, counts: Private, epsilon: Budget, gate: Gate) -> Released:
        released = gate.laplace(counts, epsilon=epsilon, label="publish")
        return replace(released, value=released.value[:-1])


def test_a_release_of_other_keys_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no release of this unit's keys"):
        Sample(epsilon="1", window=3, histogram=Short()).run(KEYS, noise=TestNoise(1)).step(
            stream(1)[0]
        )


@both
@pytest.mark.parametrize(
    "nonsense", [None, "plain", 3, object(), lambda counts, epsilon, gate: None]
)
def test_what_is_no_method_is_refused_at_once(
    nonsense: object, taker: Callable[[Any], Mechanism[Any]]
) -> None:
    with pytest.raises(
        ConfigurationError, match=r"histogram must have a method release\(counts, epsilon, gate\)"
    ):
        taker(nonsense)


@both
@pytest.mark.parametrize("name", HISTOGRAMS)
def test_the_class_in_place_of_an_instance_is_refused(
    name: str, taker: Callable[[Any], Mechanism[Any]]
) -> None:
    with pytest.raises(
        ConfigurationError, match=rf"histogram must .* unlike .*{HISTOGRAMS[name].__name__}"
    ):
        taker(HISTOGRAMS[name])


@pytest.mark.parametrize(
    "histogram", [QuadTree(), KdTree(), Greedy(), Plain()], ids=lambda each: type(each).__name__
)
def test_what_noise_adds_to_a_distance_is_known(histogram: Histogram) -> None:
    counts = np.full(4096, 5)
    run = Sample(epsilon=1, window=1, histogram=histogram).run(4096, noise=TestNoise(3))
    released = [run.step(counts) for _ in range(40)]
    true = np.mean([np.abs(each.estimate - counts).sum() for each in released])
    assert 0.5 < np.mean([apart(each) for each in released]) / true < 2


@pytest.mark.parametrize(
    "histogram", [QuadTree(), KdTree(), Greedy()], ids=lambda each: type(each).__name__
)
def test_a_stream_that_stands_still_is_not_released_again_and_again(histogram: Histogram) -> None:
    mechanism = FixedThreshold(
        epsilon=4, window=40, horizon=40, threshold="0.2", histogram=histogram
    )
    run = mechanism.run(1024, noise=TestNoise(5))
    released = [run.step(np.full(1024, 40)) for _ in range(40)]
    assert [each.unit for each in released if not each.repeated] == [1, 40]
