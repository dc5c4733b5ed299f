"""Keys are chosen before they are computed, and their numbers are the same to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import Hierarchy, Log, Tide
from penstock.core.errors import ConfigurationError
from penstock.core.weights import Weights
from penstock.private.mechanisms.eshp import WeightedHistogram
from penstock.private.mechanisms.hierarchical import HierarchicalPegasus
from penstock.private.mechanisms.kary import SignedBlocks
from penstock.private.mechanisms.toeplitz import CorrelatedGaussian
from penstock.released.queries import (
    Aggregate,
    Alerts,
    Change,
    Drop,
    Everything,
    Jump,
    LowSignal,
    Range,
    Ranking,
    RollUp,
    SlidingSum,
    TopK,
    UnitCounts,
    WeightedSum,
)
from penstock.released.queries import current_releases as reading
from penstock.released.queries.answer import Answer
from penstock.released.queries.query import Query
from penstock.testing import TestNoise

from tests.released.streams import MECHANISMS, logged

DECAY = Weights.decay("0.9", 12)
QUERIES: tuple[Query, ...] = (
    UnitCounts(),
    SlidingSum(1),
    SlidingSum(4),
    SlidingSum(12, hindsight=True),
    WeightedSum(DECAY),
    WeightedSum(DECAY, hindsight=True),
    Jump(3, 5),
    Drop(3, 5, hindsight=True),
    Change(2, 5),
    LowSignal(3, 20),
)
ALL = {
    **MECHANISMS,
    "tide": Tide(epsilon=2, window=3, periods=(4,)),
    "eshp": WeightedHistogram(epsilon=1, gamma="0.9", span=10),
    "kary": SignedBlocks(epsilon=1, span=4),
    "toeplitz": CorrelatedGaussian(epsilon=1, delta="1e-6", span=4),
}
KEYS, UNITS = 7, 20


def equal(one: Answer, other: Answer) -> None:
    """Every number, its noise and its interval are the same, bit by bit."""
    assert one.names == other.names
    for name in ("units", "estimate", "unread"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name
    assert (one.noise is None) == (other.noise is None)
    if one.noise is not None:
        for name in ("variance", "mass", "peak", "grain", "draws", "single", "alike"):
            left, right = getattr(one.noise, name), getattr(other.noise, name)
            assert np.array_equal(left, right, equal_nan=left.dtype.kind == "f"), name
        for left, right in zip(one.interval(), other.interval(), strict=True):
            assert np.array_equal(left, right, equal_nan=True)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ALL)
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_chosen_keys_have_the_numbers_that_they_have_among_all(mechanism, data):
    seed = data.draw(st.integers(0, 2**31))
    rng = np.random.default_rng(seed)
    stream = rng.poisson(np.repeat(rng.integers(0, 60, (5, KEYS)), 4, axis=0))
    log = logged(ALL[mechanism], stream, TestNoise(seed))
    places = data.draw(st.lists(st.integers(0, KEYS - 1), min_size=1, max_size=KEYS, unique=True))
    keys = tuple(log.keys[place] for place in places)
    with pytest.MonkeyPatch.context() as patch:
        if data.draw(st.booleans()):  # parts of few units, whose edges do not depend on the keys
            patch.setattr("penstock.released.queries.query.MAX_NUMBERS_HELD", 10 * KEYS)
        for query in QUERIES:
            if query.why_not(log):
                continue
            whole, some = query.series(log), query.series(log, keys=keys)
            if isinstance(whole, Alerts) and isinstance(some, Alerts):
                whole, some = whole.statistic, some.statistic
            assert isinstance(whole, Answer)
            assert isinstance(some, Answer)
            equal(whole.among([np.array([place]) for place in places], keys), some)


@pytest.fixture(params=["keys", "nodes"])
def rooms(request) -> Log:
    tree = Hierarchy.of({f"room {n}": ("house", f"floor {n % 2}") for n in range(6)})
    stream = np.random.default_rng(3).poisson(9, (UNITS, 6))
    if request.param == "keys":
        return logged(MECHANISMS["rg"], stream, TestNoise(3), tree)
    return logged(HierarchicalPegasus(epsilon=1), stream, TestNoise(3), tree)


def test_sums_over_keys_are_chosen_by_their_names(rooms):
    for of in (UnitCounts(), SlidingSum(3)):
        every = RollUp(of=of).series(rooms)
        names = (every.names[3], every.names[0])
        groups = [np.array([every.names.index(name)]) for name in names]
        equal(every.among(groups, names), RollUp(of=of).series(rooms, keys=names))
    with pytest.raises(ConfigurationError, match="no key 'roof'"):
        RollUp().answer(rooms, keys="roof")


def test_a_sum_reads_only_the_keys_that_are_in_it(rooms, monkeypatch):
    seen, standing = set[int](), reading._standing

    def stood(table):
        seen.add(table.value.shape[1])
        return standing(table)

    monkeypatch.setattr(reading, "_standing", stood)
    first, last = rooms.keys[-3], rooms.keys[-2]
    assert Aggregate([first, last]).answer(rooms).estimate.shape == (1, 1)
    assert seen == {2}
    seen.clear()
    assert UnitCounts().answer(rooms, keys=first).names == (first,)
    assert seen == {1}


def test_a_ranking_is_among_the_chosen_keys(rooms):
    keys = rooms.keys[-4:]
    ranking = TopK(2).answer(rooms, keys=keys)
    assert isinstance(ranking, Ranking)
    numbers = UnitCounts().answer(rooms).estimate[0, -4:]
    best = [keys[place] for place in np.argsort(-numbers, kind="stable")[:2]]
    assert ranking.names == (tuple(best),)


def test_one_sum_has_one_name():
    log = logged(MECHANISMS["laplace"], [[1, 2, 3]], TestNoise(1), ["a", "b", "c"])
    for query in (Everything(), Range("a", "b"), Aggregate(["a", "c"])):
        (name,) = query.answer(log).names
        equal(query.answer(log), query.answer(log, keys=[name]))


def test_a_key_that_is_missing_is_refused_with_the_nearest():
    log = logged(MECHANISMS["laplace"], [[1, 2]], TestNoise(1), ["Jamaica", "Astoria"])
    with pytest.raises(ConfigurationError, match="no key 'Jamaika'; there is 'Jamaica'"):
        UnitCounts().answer(log, keys=["Jamaika"])
