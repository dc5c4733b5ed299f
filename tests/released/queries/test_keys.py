"""Sums over keys: aggregates, ranges, rectangles, roll-ups, and the largest."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import ConfigurationError
from penstock.core.hierarchy import Hierarchy
from penstock.private.mechanisms.hierarchical import HierarchicalPegasus
from penstock.released.log import Log
from penstock.released.queries import (
    Aggregate,
    Everything,
    Range,
    Rectangle,
    RollUp,
    SlidingSum,
    TopK,
    UnitCounts,
)
from penstock.testing import NoNoise, TestNoise

from tests.released.streams import MECHANISMS, logged, noisy, quiet

LAPLACE = MECHANISMS["laplace"]
KEYS = ["a", "b", "c", "d", "e", "f"]
CAMPUS = {"r1": "A/1", "r2": "A/1", "r3": "A/2", "r4": "B/1", "r5": "B/1", "kiosk": ""}

streams = st.lists(st.lists(st.integers(0, 50), min_size=6, max_size=6), min_size=3, max_size=6)


@settings(max_examples=40, deadline=None)
@given(stream=streams, data=st.data())
def test_without_noise_sums_over_keys_are_the_truth(stream, data):
    log, truth = quiet(LAPLACE, stream, keys=KEYS), np.array(stream)
    chosen = data.draw(st.lists(st.sampled_from(range(6)), min_size=1, unique=True))
    found = Aggregate([KEYS[place] for place in chosen]).series(log)
    assert (found.estimate[:, 0] == truth[:, chosen].sum(axis=1)).all()
    first, last = sorted((data.draw(st.integers(0, 5)), data.draw(st.integers(0, 5))))
    found = Range(KEYS[first], KEYS[last], of=SlidingSum(2)).series(log)
    assert (found.estimate[:, 0] == (truth[1:] + truth[:-1])[:, first : last + 1].sum(axis=1)).all()
    assert (Everything().series(log).estimate[:, 0] == truth.sum(axis=1)).all()


@settings(max_examples=40, deadline=None)
@given(
    stream=streams,
    corners=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), min_size=2, max_size=2),
)
def test_without_noise_a_rectangle_is_the_truth_in_either_notation(stream, corners):
    (a, b), (c, d) = corners
    truth = np.array(stream).reshape(-1, 2, 3)
    want = truth[:, min(a, c) : max(a, c) + 1, min(b, d) : max(b, d) + 1].sum(axis=(1, 2))
    named = quiet(
        LAPLACE, stream, keys=[f"{row},{column}" for row in range(2) for column in range(3)]
    )
    assert (Rectangle((a, b), (c, d)).series(named).estimate[:, 0] == want).all()
    assert (
        Rectangle((a, b), (c, d), shape=(2, 3)).series(quiet(LAPLACE, stream)).estimate[:, 0]
        == want
    ).all()


@settings(max_examples=30, deadline=None)
@given(stream=streams)
def test_without_noise_a_roll_up_is_the_truth(stream):
    tree, truth = Hierarchy.of(CAMPUS), np.array(stream)
    totals = np.array([tree.nodes.totals(unit) for unit in truth])
    of_keys = quiet(LAPLACE, stream, keys=tree)
    plain = quiet(LAPLACE, stream, keys=list(CAMPUS))
    written = quiet(
        LAPLACE, stream, keys=[f"{path}/{key}" if path else key for key, path in CAMPUS.items()]
    )
    for log, query in ((of_keys, RollUp()), (plain, RollUp(hierarchy=tree)), (written, RollUp())):
        found = query.series(log)
        assert found.names == tree.names
        assert (found.estimate == totals).all()
    roots = RollUp(depth=0, of=SlidingSum(2)).answer(of_keys)
    assert roots.names == ("A", "B", "kiosk")
    assert roots.estimate.tolist() == [(totals[-1] + totals[-2])[:3].tolist()]


def test_nodes_are_read_where_the_log_has_them_and_ranges_use_the_fewest():
    tree = Hierarchy.binary(KEYS[:4])
    log = logged(
        HierarchicalPegasus(epsilon=1, fit=False), [[1, 2, 3, 4]] * 3, TestNoise(1), keys=tree
    )
    found = RollUp().answer(log)
    assert (found.estimate[0] == log[3].estimate).all()
    assert (found.variance == log[3].variance).all()
    groups, _ = Range("a", "c").groups(log)
    assert [log.keys[place] for place in groups[0]] == ["all/0", "all/1/c"]
    assert (Everything().answer(log).estimate[0] == log[3].estimate[0]).all()
    assert Rectangle((0, 0), (0, 1), shape=(2, 2)).groups(log)[0][0].tolist() == [
        log.keys.index("all/0")
    ]
    assert Range("a", "c").answer(log).variance is not None


def test_nodes_that_were_fitted_to_each_other_share_noise():
    tree = Hierarchy.binary(KEYS[:4])
    log = logged(HierarchicalPegasus(epsilon=1), [[1, 2, 3, 4]] * 3, TestNoise(1), keys=tree)
    assert UnitCounts().answer(log).variance is not None
    assert SlidingSum(2).answer(log).variance is None
    assert Range("a", "c").answer(log).variance is None
    quiet_log = logged(HierarchicalPegasus(epsilon=1), [[1, 2, 3, 4]] * 3, NoNoise(), keys=tree)
    assert SlidingSum(2).answer(quiet_log).estimate[0] == pytest.approx(
        2 * tree.nodes.totals(np.array([1, 2, 3, 4]))
    )


@pytest.mark.parametrize("name", ["laplace", "ba", "rg", "pegasus, median"])
def test_the_variance_of_a_sum_over_keys_adds_and_its_interval_holds(name):
    """2,000 groups of 5 keys without events; fixed seed, false alarms with a chance below 1e-4."""
    log = noisy(MECHANISMS[name], np.zeros((8, 10_000), np.int64), seed=4)
    each = SlidingSum(3).answer(log)
    groups = [np.arange(start, start + 5) for start in range(0, 10_000, 5)]
    found = each.among(groups, tuple(map(str, range(2000))))
    assert each.variance is not None
    assert found.variance == pytest.approx(each.variance.reshape(1, -1, 5).sum(axis=2))
    low, high = found.interval("0.9")
    assert ((low <= 0) & (high >= 0)).mean() >= 0.9 - 4 * np.sqrt(0.09 / 2000)


@settings(max_examples=40, deadline=None)
@given(stream=streams, k=st.integers(1, 6))
def test_the_largest_come_first_and_equals_by_name(stream, k):
    keys = ["m", "b", "z", "a", "k", "c"]
    found = TopK(k, of=SlidingSum(2)).answer(quiet(LAPLACE, stream, keys=keys))
    sums = dict(zip(keys, np.sum(stream[-2:], axis=0).tolist(), strict=True))
    want = sorted(keys, key=lambda key: (-sums[key], key))[:k]
    assert list(found.names[0]) == want
    assert found.estimate[0].tolist() == [sums[key] for key in want]


def test_an_order_is_sure_only_if_it_is():
    """2,000 times, 20 keys of which some are close: what is said to be sure is wrong in at most 10
    % of them.
    """
    truth = np.array([200, 150, 148, 147, 100] + [3] * 15)
    wrong = lost = said = 0
    run_of = LAPLACE.run(20, noise=TestNoise(2))
    log = Log.of(run_of)
    for _ in range(2000):
        log.append(run_of.step(truth))
    found = TopK(5).series(log)
    sure, belongs = found.sure("0.9"), found.belongs("0.9")
    for row in range(2000):
        ranks = found.places[row].tolist()
        rest = set(range(20))
        bad = False
        for rank, place in enumerate(ranks):
            rest.discard(place)
            if sure[row, rank]:
                said += 1
                bad |= truth[place] < max(truth[list(rest)])
        wrong += bad
        lost += any(belongs[row, rank] and truth[place] < 100 for rank, place in enumerate(ranks))
    assert wrong / 2000 <= 0.1
    assert lost / 2000 <= 0.1
    assert sure[:, 0].all()
    assert sure[:, 4].all()
    assert belongs.all()
    assert not sure[:, 1].all()
    assert "surely larger than the rest" in str(found)


def test_nothing_is_sure_of_numbers_whose_noise_is_not_known():
    tree = Hierarchy.binary(KEYS[:4])
    log = logged(HierarchicalPegasus(epsilon=1), [[90, 2, 3, 4]] * 3, TestNoise(1), keys=tree)
    found = TopK(2, of=SlidingSum(2)).answer(log)
    assert np.isnan(found.interval()[0]).all()
    assert not found.sure().any()
    assert not found.belongs().any()


def test_sure_and_among_them_are_what_the_intervals_say():
    log = noisy(LAPLACE, np.random.default_rng(1).poisson(9, (30, 7)))
    for k in (1, 3, 7):
        found = TopK(k).series(log)
        low, high = found.everything.interval(together=True)
        for row, places in enumerate(found.places.tolist()):
            for rank, place in enumerate(places):
                rest = [high[row, other] for other in range(7) if other not in places[: rank + 1]]
                assert found.sure()[row, rank] == all(low[row, place] > bound for bound in rest)
                rivals = sum(
                    high[row, other] >= low[row, place] for other in range(7) if other != place
                )
                assert found.belongs()[row, rank] == (rivals < k)


def test_what_makes_no_sense_is_refused():
    log = quiet(LAPLACE, [[1] * 6], keys=KEYS)
    for query, message in (
        (Aggregate(["a", "x"]), "no key 'x'"),
        (Aggregate([]), "at least one"),
        (Aggregate(["a", "a"]), "twice"),
        (Range("c", "a"), "comes after"),
        (Range("c", "x"), "no key 'x'"),
        (Rectangle((0, 0), (1, 1)), 'not all like "x,y"'),
        (Rectangle((0, 0), (1, 1), shape=(2, 2)), "are not 6 keys"),
        (Rectangle((7, 7), (8, 8), shape=(2, 3)), "no key"),
        (RollUp(), "have no hierarchy"),
        (RollUp(hierarchy=Hierarchy.binary(3)), "other keys"),
        (TopK(7), "at most 6"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            query.answer(log)
    assert "there is 'Harbour'" in Aggregate(["Harbor"]).why_not(
        quiet(LAPLACE, [[1]], keys=["Harbour"])
    )
    assert UnitCounts().why_not(log) == ""
