"""The promise: what it takes, how it reads, and that its words never claim more than is true."""

from __future__ import annotations

import json
import math
import re
from dataclasses import FrozenInstanceError
from fractions import Fraction

import numpy as np
import pytest

from penstock.core.errors import ConfigurationError, InexactError
from penstock.core.guarantee import MAX_WINDOW, Guarantee, Intrusion


@pytest.mark.parametrize("epsilon", [0, "0", -1, "-0.5", "nan", "inf", ""])
def test_an_epsilon_that_promises_nothing_is_refused(epsilon):
    with pytest.raises(ConfigurationError, match="epsilon"):
        Guarantee(epsilon, 1)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, np.float64(0.5), True])
def test_an_inexact_epsilon_is_refused(epsilon):
    with pytest.raises(InexactError, match="epsilon"):
        Guarantee(epsilon, 1)


@pytest.mark.parametrize("window", [0, -1, 1.0, True, "3", None, MAX_WINDOW + 1, 2**64])
def test_a_window_that_cannot_be_is_refused(window):
    with pytest.raises(ConfigurationError, match="window"):
        Guarantee(1, window)


@pytest.mark.parametrize("contribution", [0, -1, 1.5, True])
def test_a_contribution_that_cannot_be_is_refused(contribution):
    with pytest.raises(ConfigurationError, match="contribution"):
        Guarantee(1, 1, contribution)


def test_the_longest_window_is_taken():
    assert Guarantee(1, MAX_WINDOW).window == MAX_WINDOW


def test_its_parts_are_plain_numbers_whatever_was_given():
    promise = Guarantee(np.int64(1), np.int32(24), np.uint8(2))
    assert type(promise.epsilon) is Fraction
    assert type(promise.window) is int
    assert type(promise.contribution) is int


def test_a_promise_is_a_value():
    assert Guarantee("0.5", 24) == Guarantee(Fraction(1, 2), 24)
    assert hash(Guarantee("0.5", 24)) == hash(Guarantee("1/2", 24))
    assert Guarantee("0.5", 24) != Guarantee("0.5", 25)
    assert Guarantee("0.5", 24) != Guarantee("0.5", 24, 2)
    with pytest.raises(FrozenInstanceError):
        Guarantee("0.5", 24).epsilon = Fraction(1)


def test_its_repr_shows_what_is_not_the_default():
    assert repr(Guarantee("0.5", 24)) == "Guarantee(epsilon=1/2, window=24)"
    assert (
        repr(Guarantee(1, 1, 3, Intrusion.BETWEEN))
        == "Guarantee(epsilon=1, window=1, contribution=3, "
        'intrusion="one unannounced look into the mechanism\'s memory between units")'
    )


def test_its_words_name_window_contribution_and_intrusion():
    words = Guarantee(1, 24, 3, Intrusion.ANNOUNCED).in_words()
    assert "in any 24 consecutive units" in words
    assert "At most 3 events per person count in each unit." in words
    assert words.endswith(
        "All of this also holds against any number of announced looks into the mechanism's memory."
    )
    assert "in any one unit" in Guarantee(1, 1).in_words()
    assert "At most one event per person counts in each unit." in Guarantee(1, 1).in_words()


@pytest.mark.parametrize(
    "epsilon", ["0.0001", "0.001", "0.1", "0.2", "0.5", "1", "2", "3", "5", "10", "50"]
)
def test_its_words_never_promise_more_than_is_true(epsilon):
    words = Guarantee(epsilon, 1).in_words()
    factor = float(re.search(r"more than (\S+) times", words)[1])
    belief = float(re.search(r"rise to (\S+) %", words)[1])
    true = float(Fraction(epsilon))
    assert factor >= math.exp(true) * (1 - 1e-12)
    assert belief >= 100 / (1 + math.exp(-true)) * (1 - 1e-12)
    assert factor <= math.exp(true) * 1.02


@pytest.mark.parametrize("epsilon", ["699", "701", "1e6", "1e400"])
def test_a_huge_epsilon_still_has_words(epsilon):
    assert "epsilon = " in Guarantee(epsilon, 1).in_words()


@pytest.mark.parametrize("delta", [-1, "-0.1", 1, "1.5"])
def test_a_delta_that_cannot_be_is_refused(delta):
    with pytest.raises(ConfigurationError, match="delta"):
        Guarantee(1, 1, delta=delta)
    with pytest.raises(InexactError, match="delta"):
        Guarantee(1, 1, delta=1e-6)


def test_delta_is_shown_wherever_epsilon_is_unless_it_is_nothing():
    promise = Guarantee(1, 24, delta="1e-6")
    assert repr(promise) == "Guarantee(epsilon=1, delta=1/1000000, window=24)"
    assert "plus 1e-06, and vice versa (epsilon = 1, delta = 1/1000000)" in promise.in_words()
    assert promise != Guarantee(1, 24)
    assert Guarantee(1, 24, delta=0) == Guarantee(1, 24)
    assert "delta" not in repr(Guarantee(1, 24)) + Guarantee(1, 24).in_words()


@pytest.mark.parametrize("delta", ["1e-9", "0.000001", "1/3", "0.05"])
@pytest.mark.parametrize("epsilon", ["0.001", "0.5", "1", "3"])
def test_its_words_with_delta_never_promise_more_than_is_true(epsilon, delta):
    """The best guess between two equally likely answers, for P ≤ e^ε·Q + δ and back, is right with
    (e^ε + δ)/(1 + e^ε).
    """
    words = Guarantee(epsilon, 1, delta=delta).in_words()
    assert float(re.search(r"at most (\S+) times", words)[1]) >= math.exp(
        float(Fraction(epsilon))
    ) * (1 - 1e-12)
    assert float(re.search(r"plus (\S+), and", words)[1]) >= float(Fraction(delta)) * (1 - 1e-12)
    best = (math.exp(float(Fraction(epsilon))) + float(Fraction(delta))) / (
        1 + math.exp(float(Fraction(epsilon)))
    )
    shown = float(re.search(r"at most (\S+) % of cases", words)[1])
    assert 100 * best * (1 - 1e-12) <= shown <= 101 * best


@pytest.mark.parametrize("horizon", [0, -1, 1.5, True, "3", 23])
def test_a_horizon_that_cannot_be_is_refused(horizon):
    with pytest.raises(ConfigurationError, match="horizon"):
        Guarantee(1, 24, horizon=horizon)


def test_a_horizon_of_one_window_is_user_level_and_is_said_so():
    user, long, endless = (
        Guarantee(1, 24, horizon=24),
        Guarantee(1, 24, horizon=100),
        Guarantee(1, 24),
    )
    assert (user.user_level, long.user_level, endless.user_level) == (True, False, False)
    assert len({user, long, endless}) == 3
    assert "in the whole stream. Only units 1 to 24 are ever read." in user.in_words()
    assert "in any 24 consecutive units. Only units 1 to 100 are ever read." in long.in_words()
    assert "in the whole stream. Only unit 1 is ever read." in Guarantee(1, 1, horizon=1).in_words()
    assert "ever read" not in endless.in_words()


def test_bounds_on_contribution_are_said_beside_the_horizon():
    assert (
        Guarantee(1, 24, 3, horizon=24)
        .in_words()
        .endswith("At most 3 events per person count in each unit.")
    )


def test_a_huge_epsilon_is_written_out_and_never_below_itself():
    assert "e^100000 times" in Guarantee("100000", 24).in_words()
    assert "e^1235 times" in Guarantee("1234.5", 24).in_words()


def test_the_words_of_a_promise_are_its_clauses():
    promise = Guarantee("0.5", 24, 2, Intrusion.WITHIN, horizon=48)
    clauses = promise.clauses
    assert promise.in_words() == " ".join(
        (clauses.observer, clauses.span, clauses.bound, clauses.contribution, clauses.intrusion)
    )
    assert clauses.protection == f"{clauses.observer} {clauses.span} {clauses.bound}"
    assert Guarantee(1, 1).clauses.intrusion == ""


@pytest.mark.parametrize("intrusion", Intrusion)
@pytest.mark.parametrize("delta", [0, "1e-6"])
@pytest.mark.parametrize("horizon", [None, 24, 100])
def test_every_sentence_of_a_promise_is_short(intrusion, delta, horizon):
    words = Guarantee("1/3", 24, 3, intrusion, delta, horizon).in_words()
    for sentence in re.split(r"(?<=\.) ", words):
        assert len(sentence.split()) <= 27, sentence


@pytest.mark.parametrize("intrusion", Intrusion)
def test_an_intrusion_is_stored_as_its_text_and_read_back(intrusion):
    stored = json.loads(json.dumps(Guarantee(1, 1, 1, intrusion).intrusion))
    assert type(stored) is str
    assert Guarantee(1, 1, 1, stored).intrusion is intrusion


def test_an_unknown_intrusion_is_refused():
    with pytest.raises(ConfigurationError, match=r"^intrusion must be one of NONE, BETWEEN"):
        Guarantee(1, 1, 1, "a look through the window")
