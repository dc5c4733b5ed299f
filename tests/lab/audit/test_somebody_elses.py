"""Mechanisms that the audit has never seen: what it takes from their class, and what it finds of
their mistakes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

import penstock as ps
from penstock.core.cover import EACH
from penstock.core.errors import ConfigurationError
from penstock.lab.audit.engine import Verdict, audit
from penstock.lab.audit.pairs import standard
from penstock.lab.audit.subjects import KEYS, WINDOW, subject
from penstock.lab.checks import CheckError, check_noise_has_the_scale_it_claims

HERE = __name__


@dataclass(frozen=True, kw_only=True)
class PlainStranger(ps.Uniform):
    """Nothing is said about how to audit it."""

    name = "plain_uniform"


@dataclass(frozen=True, kw_only=True)
class ToldStranger(ps.Uniform):
    """Says with what to audit it."""

    name = "told"
    audited: ClassVar[dict[str, Any]] = {"window": 3, "grain": 7}
    grain: int = 1


class FailingStranger(ps.Uniform):
    """Says that it treats each key by itself, and fails when that is tested."""

    name = "failing"

    def step(self, state: Any, unit: ps.Private, gate: ps.Gate) -> tuple[Any, ps.Released]:
        if gate.keys > KEYS:
            raise RuntimeError("too many keys")
        return super().step(state, unit, gate)


class StrangerWithoutStreams(ps.Uniform):
    """Fails when it is asked for hard streams."""

    name = "without_streams"

    def hard_streams(self) -> Iterator[np.ndarray[Any, Any]]:
        raise RuntimeError("no streams")


class PeekingStranger(ps.Uniform):
    """Marks units with exactly 50 events: it looks, and nobody paid for that."""

    name = "peeking"
    by_key = False

    def step(self, state: Any, unit: ps.Private, gate: ps.Gate) -> tuple[Any, ps.Released]:
        seen: list[int] = []
        unit.map(lambda counts: seen.append(int(counts.sum())) or counts, stability=1, cover=EACH)  # type: ignore[func-returns-value]
        state, released = super().step(state, unit, gate)
        return state, replace(released, public={"odd": np.full(gate.keys, int(seen[0] == 50))})


class PeekingWhereItIsHard(PeekingStranger):
    """The same, by an author who knows where it matters."""

    def hard_streams(self) -> Iterator[np.ndarray[Any, Any]]:
        yield np.full((self.window, 1), 49)


class HalfTheNoise(ps.Uniform):
    """Doubles the counts, claims that a person changes them by one, and halves the result."""

    name = "half_the_noise"

    def step(self, state: Any, unit: ps.Private, gate: ps.Gate) -> tuple[Any, ps.Released]:
        doubled = unit.map(lambda counts: 2 * counts, stability=1, cover=EACH)
        released = gate.laplace(doubled, epsilon=self.share, label="publish")
        return state, replace(released, value=np.rint(released.value / 2).astype(np.int64))


class Neighbourly(ps.Uniform):
    """Says that every key is treated by itself, and shows the first of them everywhere."""

    name = "neighbourly"

    def step(self, state: Any, unit: ps.Private, gate: ps.Gate) -> tuple[Any, ps.Released]:
        state, released = super().step(state, unit, gate)
        return state, replace(released, value=np.full(gate.keys, released.value[0]))


class GreedyStranger(ps.Uniform):
    """Wants another promise for its audit."""

    audited: ClassVar[dict[str, Any]] = {"epsilon": "100"}


class Modest(ps.Uniform):
    """States less than it was asked for."""

    @property
    def guarantee(self) -> ps.Guarantee:  # type: ignore[override]
        return ps.Guarantee(100, self.window)


class VagueStranger(ps.Uniform):
    """Calls something a stream that is none."""

    def hard_streams(self) -> list[Any]:
        return [np.array([1.5])]


def verdict_on(cls: type, *, runs: int = 200) -> Verdict:
    return audit(
        subject(f"{HERE}:{cls.__name__}", epsilon="1", window=1, runs=runs), seed=1, workers=1
    )


def test_without_a_word_it_gets_the_streams_and_the_window_that_ours_get() -> None:
    found = subject(f"{HERE}:PlainStranger")
    ours = list(standard(window=WINDOW, keys=KEYS, epsilon=2.0))
    assert found.window == WINDOW
    assert [pair.name for pair in found.pairs] == [pair.name for pair in ours]


def test_its_class_says_with_what_to_audit_it_unless_told() -> None:
    found = subject(f"{HERE}:ToldStranger")
    assert (found.window, found.mechanism.grain) == (3, 7)  # type: ignore[attr-defined]
    assert subject(f"{HERE}:ToldStranger", window=2).window == 2
    assert subject(f"{HERE}:ToldStranger@user").mechanism.guarantee.user_level


def test_the_promise_is_not_the_authors_to_choose() -> None:
    with pytest.raises(
        ConfigurationError,
        match=r"`audited` of GreedyStranger must be a dict with some of window\.",
    ):
        subject(f"{HERE}:GreedyStranger")
    with pytest.raises(
        ConfigurationError,
        match=r"Modest was asked for epsilon=2, window=2, but states Guarantee\(epsilon=100",
    ):
        subject(f"{HERE}:Modest")


def test_hard_streams_become_neighbouring_pairs() -> None:
    found = subject(f"{HERE}:PeekingWhereItIsHard", window=2)
    own = [pair for pair in found.pairs if pair.name.startswith("hard stream")]
    assert [pair.name for pair in own] == ["hard stream 1, a person from unit 1"]
    assert all(pair.is_neighbouring(window=2, contribution=1) for pair in own)
    assert own[0].left.tolist() == [[50], [50]]
    with pytest.raises(
        ConfigurationError, match="hard_streams of VagueStranger must give arrays of whole numbers"
    ):
        subject(f"{HERE}:VagueStranger")


def test_a_peek_at_one_number_is_found_where_the_author_says_that_it_matters() -> None:
    """At a confidence of 0.999, a false conviction has chance 1e-3 at most; the seed is fixed."""
    assert not verdict_on(PeekingStranger).convicted
    found = verdict_on(PeekingWhereItIsHard)
    assert found.convicted
    assert found.pair.name.startswith("hard stream 1")


def test_half_of_the_noise_is_found_by_a_check_and_by_the_audit() -> None:
    with pytest.raises(CheckError, match="too small for the claimed scale"):
        check_noise_has_the_scale_it_claims(HalfTheNoise, quick=True)
    assert verdict_on(HalfTheNoise, runs=4_000).lower_bound > 1.5
    assert not verdict_on(PlainStranger, runs=4_000).convicted


def test_keys_that_are_not_treated_by_themselves_are_noticed() -> None:
    with pytest.raises(
        ConfigurationError,
        match="Neighbourly says by_key = True, but its release for one key depends",
    ):
        subject(f"{HERE}:Neighbourly")


@pytest.mark.parametrize(
    ("cls", "said"),
    [(FailingStranger, "too many keys"), (StrangerWithoutStreams, "no streams")],
)
def test_an_error_before_the_audit_is_a_verdict(cls: type[ps.Uniform], said: str) -> None:
    verdict = audit(subject(f"{HERE}:{cls.__name__}", runs=40), seed=1, workers=1)
    assert (verdict.outcome, verdict.exit_code) == ("crashed", 3)
    assert verdict.failure is not None
    assert verdict.failure.reason == f"RuntimeError: {said}"
