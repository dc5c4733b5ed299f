from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from penstock.core.domain import Domain
from penstock.core.hierarchy import Hierarchy
from penstock.engine.plan.candidates import AskedPromise, MechanismChoice, candidates, places
from penstock.engine.plan.public_counts import FLOW, StatedFacts
from penstock.private.mechanisms.registry import MECHANISMS, find

PROMISE = AskedPromise(epsilon=Fraction(1), window=24)


def test_every_mechanism_is_a_candidate_or_has_a_reason():
    found, left_out = candidates(Domain.of(4), PROMISE)
    names = {choice.name for choice in found}
    assert names | set(left_out) >= set(MECHANISMS)
    assert not names & set(left_out)
    assert all(reason.endswith(".") for reason in left_out.values())


def test_every_candidate_keeps_exactly_the_asked_promise():
    asked = AskedPromise(epsilon=Fraction(1, 3), window=7, contribution=2, horizon=700)
    for choice in candidates(Domain.of(4), asked)[0]:
        kept = choice.made(asked, FLOW).guarantee
        assert (kept.epsilon, kept.window, kept.contribution) == (Fraction(1, 3), 7, 2)
        assert (kept.horizon, kept.delta, bool(kept.intrusion)) == (700, 0, False)


def test_a_delta_is_used_only_where_it_is_allowed():
    assert not any(choice.gaussian for choice in candidates(Domain.of(4), PROMISE)[0])
    allowed = AskedPromise(epsilon=Fraction(1), window=24, delta=Fraction(1, 10**6))
    for choice in candidates(Domain.of(4), allowed)[0]:
        assert choice.made(allowed, FLOW).guarantee.delta == (
            allowed.delta if choice.gaussian else 0
        )


@pytest.mark.parametrize("kind", ["flow", "stock"])
def test_what_the_user_states_holds_for_every_candidate(kind):
    facts = StatedFacts(periods=(6,), kind=kind)
    allowed = AskedPromise(epsilon=Fraction(1), window=24, delta=Fraction(1, 10**6))
    found = [
        choice for choice in candidates(Domain.of(4), allowed, facts)[0] if choice.name == "tide"
    ]
    assert [choice.gaussian for choice in found] == [False, True]
    for choice in found:
        made = choice.made(allowed, facts)
        assert (made.periods, made.kind) == ((6,), kind)


def test_mechanisms_for_hierarchies_need_one():
    plain, tree = Domain.of(3), Hierarchy.of({"1": "A", "2": "A", "3": "B"})
    assert "hs_pegasus" in candidates(plain, PROMISE)[1]
    assert "hs_pegasus" in {choice.name for choice in candidates(tree, PROMISE)[0]}


def test_the_keys_are_found_among_many_released_numbers():
    keys = {f"room {key}": f"A/floor {key % 9}" for key in range(150)}
    domain = Hierarchy.of(keys)
    where = places(domain.nodes, domain)
    counts = np.arange(150)
    assert where is not None
    assert np.array_equal(domain.nodes.totals(counts)[where], counts)


@pytest.mark.parametrize("parameters", [{}, {"every": 4}])
def test_the_choice_of_a_mechanism_makes_it_again(parameters):
    made = find("fixed")(epsilon="1", window=24, **parameters)
    choice = MechanismChoice.of(made)
    assert dict(choice.chosen) == parameters
    assert choice.made(PROMISE, FLOW) == made
