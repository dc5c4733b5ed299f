"""Backward smoothing."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import ConfigurationError
from penstock.private.mechanisms.bs import BackwardSmoothing
from penstock.private.mechanisms.laplace import Laplace
from penstock.testing import NoNoise, TestNoise


@given(
    over=st.integers(1, 6),
    contribution=st.integers(1, 3),
    seed=st.integers(0, 9),
    stream=st.lists(st.lists(st.integers(0, 50), min_size=3, max_size=3), min_size=1, max_size=15),
)
def test_it_is_the_mean_of_what_laplace_releases(
    over: int, contribution: int, seed: int, stream: list[list[int]]
) -> None:
    smooth = BackwardSmoothing(epsilon=1, over=over, contribution=contribution).run(
        3, noise=TestNoise(seed)
    )
    plain = Laplace(epsilon=1, contribution=contribution).run(3, noise=TestNoise(seed))
    seen: list[list[int]] = []
    for counts in stream:
        out = smooth.step(counts)
        seen.append(plain.step(counts).value.tolist())
        recent = seen[-over:]
        assert out.public["noisy"].tolist() == seen[-1]
        assert out.value.tolist() == [sum(column) for column in zip(*recent, strict=True)]
        assert out.divisor == out.layers == len(recent)
        assert out.estimate.tolist() == pytest.approx(np.mean(recent, axis=0).tolist())


def test_a_change_is_seen_in_full_after_k_units() -> None:
    run = BackwardSmoothing(epsilon=1, over=4).run(1, noise=NoNoise())
    shown = [run.step([count]).estimate[0] for count in (0, 0, 0, 0, 8, 8, 8, 8, 8)]
    assert shown == [0, 0, 0, 0, 2, 4, 6, 8, 8]


def test_the_variance_falls_with_k() -> None:
    one, many = (
        BackwardSmoothing(epsilon="0.1", over=over).run(1, noise=NoNoise()) for over in (1, 16)
    )
    for _ in range(20):
        plain, smooth = one.step([5]), many.step([5])
    assert smooth.variance[0] == pytest.approx(plain.variance[0] / 16)


def test_a_unit_costs_a_share_of_the_window() -> None:
    run = BackwardSmoothing(epsilon=1, window=4).run(2, noise=NoNoise(), record=True)
    for _ in range(9):
        run.step([1, 2])
    assert {line.amount * run.mechanism.grid.quantum for line in run.ledger} == {Fraction(1, 4)}
    assert run.account().kept


def test_it_keeps_k_units_and_no_more() -> None:
    run = BackwardSmoothing(epsilon=1, over=3).run(2, noise=TestNoise(1))
    for _ in range(50):
        run.step([1, 2])
    assert len(run._state.noisy) == 3


@pytest.mark.parametrize("over", [0, -1, 1.5, True, 5000])
def test_a_mean_over_nothing_or_too_much_is_refused(over: object) -> None:
    with pytest.raises(ConfigurationError, match="over must be"):
        BackwardSmoothing(epsilon=1, over=over)  # type: ignore[arg-type]
