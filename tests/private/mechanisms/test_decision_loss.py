"""The exact privacy loss of the answers of `dsft` and `dsat`, summed over the threshold's noise."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import FixedThreshold
from penstock.lab.audit.exact.thresholds import Belief, ThresholdAnswer

EPSILON = 12
DECIDE = Fraction(1, 2)
"""Large, so that scales are small and the sums short; losses are shares of this, whatever it is."""
DECISIONS = float(EPSILON * DECIDE)

RELEASES = (2, 3, 10)


def prices(releases: int, *, endless: bool) -> tuple[float, float]:
    """What `dsft` pays for a threshold and for a question: 1/scale of their noises, as one person
    moves a distance by 1.
    """
    window = 100 * releases
    horizon = None if endless else window
    plan = FixedThreshold(
        epsilon=EPSILON, window=window, horizon=horizon, releases=releases, decide=DECIDE
    ).plan(10)
    assert plan.price is not None
    return float(plan.price.threshold.epsilon), float(plan.price.question.epsilon)


def loss(threshold: float, question: float, *, yes: int, moved_yes: bool = True) -> float:
    """How much likelier the answers of one run are without the person, who raises every distance
    that is answered no.

    The noes are so many, and so far above the threshold, that they say the threshold's noise is
    large; the person makes them yet less likely, and the yeses more so or, outside of the protected
    window, neither.
    """
    noes = round(3 * (threshold + 2 * yes * question) / question)
    chances = []
    for there in (0, 1):
        answers = [ThresholdAnswer(question, -400 - there, yes=False)] * noes + [
            ThresholdAnswer(question, 400 + there * moved_yes, yes=True)
        ] * yes
        low, high = Belief("moved", 0, threshold, tuple(answers)).log_chance()
        assert high - low < 1e-9
        chances.append(low)
    return chances[0] - chances[1]


@pytest.mark.parametrize("releases", RELEASES)
def test_at_user_level_the_decisions_lose_their_share_and_no_more(releases: int) -> None:
    threshold, question = prices(releases, endless=False)
    worst = loss(threshold, question, yes=releases - 1)
    assert 0.97 * DECISIONS <= worst <= DECISIONS * (1 + 1e-9)


@pytest.mark.parametrize("releases", RELEASES)
def test_on_an_endless_stream_the_two_blocks_of_a_window_lose_their_share_and_no_more(
    releases: int,
) -> None:
    """The first block has its releases before the window, the second one inside it."""
    threshold, question = prices(releases, endless=True)
    first = loss(threshold, question, yes=releases, moved_yes=False)
    second = loss(threshold, question, yes=releases)
    assert 0.97 * DECISIONS <= first + second <= DECISIONS * (1 + 1e-9)


@pytest.mark.parametrize("releases", RELEASES)
def test_the_published_scales_lose_more_than_they_promise(releases: int) -> None:
    published = loss(DECISIONS / 2, DECISIONS / (2 * releases), yes=releases - 1)
    assert published == pytest.approx((1.5 - 1 / releases) * DECISIONS, rel=0.01)
    assert releases == 2 or published > 1.1 * DECISIONS


@pytest.mark.parametrize("releases", RELEASES)
def test_one_noise_for_an_endless_stream_loses_more_with_every_release(releases: int) -> None:
    """Why every block has its own: with one, the releases outside of the window count for ever."""
    threshold, question = prices(releases, endless=True)
    losses = [
        loss(threshold, question, yes=blocks * releases, moved_yes=False) for blocks in (1, 2, 4)
    ]
    steps = np.diff(losses)
    assert steps == pytest.approx([releases * question, 2 * releases * question], rel=0.01)


@settings(max_examples=200, deadline=None)
@given(
    units=st.lists(
        st.tuples(st.integers(-25, 25), st.sampled_from([-1, 0, 1]), st.booleans()),
        min_size=1,
        max_size=12,
    ),
    releases=st.sampled_from(RELEASES),
    endless=st.booleans(),
)
def test_no_answers_lose_more_than_the_ledger_charges(
    units: list[tuple[int, int, bool]], releases: int, endless: bool
) -> None:
    threshold, question = prices(releases, endless=endless)
    here = Belief(
        "moved", 0, threshold, tuple(ThresholdAnswer(question, turn, yes) for turn, _, yes in units)
    )
    there = Belief(
        "moved",
        0,
        threshold,
        tuple(ThresholdAnswer(question, turn + moved, yes) for turn, moved, yes in units),
    )
    inside = [yes for _, moved, yes in units if moved]
    positive = sum(yes for _, _, yes in units)
    price = min(len(inside) * question, threshold + (positive + sum(inside)) * question)
    difference = abs(here.log_chance()[0] - there.log_chance()[0])
    assert difference <= price + 1e-9
