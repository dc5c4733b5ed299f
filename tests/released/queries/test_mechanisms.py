"""What the other mechanisms release, asked: trees, correlated noise, sketches, hierarchies."""

from __future__ import annotations

import numpy as np
import pytest

from penstock import QuadTree, Sample
from penstock.core.error_bounds import laplace_variance
from penstock.core.errors import ConfigurationError
from penstock.core.weights import Weights
from penstock.private.mechanisms.bs import BackwardSmoothing
from penstock.private.mechanisms.eshp import WeightedHistogram
from penstock.private.mechanisms.hierarchical import HierarchicalPegasus, PrunedPegasus
from penstock.private.mechanisms.kary import SignedBlocks
from penstock.private.mechanisms.rg import RetroactiveGrouping
from penstock.private.mechanisms.sw_tree import WindowTree
from penstock.released.queries import (
    Everything,
    LowSignal,
    RollUp,
    SlidingSum,
    TopK,
    UnitCounts,
    WeightedSum,
)
from penstock.released.queries.current_releases import Sums, counts, differences, weighted, windows

from tests.released.streams import noisy, quiet

RNG = np.random.default_rng(7)
STREAM = RNG.poisson(np.repeat(RNG.integers(0, 60, (6, 4)), 8, axis=0))


@pytest.mark.parametrize(
    "mechanism", [WindowTree(epsilon=1, span=8), SignedBlocks(epsilon=1, span=8)]
)
def test_a_tree_answers_the_width_it_was_made_for(mechanism):
    log = quiet(mechanism, STREAM)
    want = np.array([STREAM[t - 7 : t + 1].sum(axis=0) for t in range(7, 48)])
    answer = SlidingSum(8).series(log)
    assert (answer.estimate == want).all()
    assert np.array_equal(answer.variance, [log[unit].variance for unit in range(8, 49)])
    assert (LowSignal(8, 100).series(log).raised == (want < 100)).all()
    for query in (SlidingSum(7), UnitCounts(), TopK(1)):
        with pytest.raises(ConfigurationError, match="the sum of the last 8 units"):
            query.answer(log)


def test_a_sketch_has_its_own_sums_and_the_noisy_counts_for_all_others():
    mechanism = WeightedHistogram(epsilon=1, gamma="0.9", span=10)
    log = quiet(mechanism, STREAM)
    assert (SlidingSum(5).answer(log).estimate[0] == STREAM[-5:].sum(axis=0)).all()
    assert (UnitCounts().series(log).estimate == STREAM).all()
    assert Everything(of=SlidingSum(5)).answer(log).variance is not None
    own = WeightedSum(log[48].weights).answer(log)
    assert (own.estimate[0] == log[48].estimate).all()
    assert Everything(of=WeightedSum(log[48].weights)).answer(log).variance is None
    other = WeightedSum(Weights.decay("0.5", 3)).answer(log)
    assert other.estimate[0] == pytest.approx(STREAM[-1] + STREAM[-2] / 2 + STREAM[-3] / 4)


def test_a_sum_that_stands_again_was_not_read():
    log = noisy(
        WeightedHistogram(epsilon=1, gamma="0.9", span=10, tolerance=2, grouping=False), STREAM
    )
    repeated = np.array([np.broadcast_to(release.repeated, 4) for release in log])
    own = WeightedSum(log[48].weights)
    assert repeated.any()
    assert (own.series(log).unread == repeated).all()
    assert (own.answer(log, 48).unread == repeated[-1]).all()


@pytest.mark.parametrize(
    "mechanism",
    [HierarchicalPegasus(epsilon=1), PrunedPegasus(epsilon=1), PrunedPegasus(epsilon=1, fit=False)],
)
def test_a_hierarchy_is_read_node_by_node(mechanism):
    log = noisy(mechanism, STREAM)
    assert RollUp().answer(log).names == log.keys
    assert (RollUp().series(log).estimate == log.estimates()).all()
    standing = counts(log, 1, 48)
    fast = windows(standing, 6)
    slow = Sums.stacked([weighted(standing, np.ones(6), place) for place in range(5, 48)])
    assert fast.estimate == pytest.approx(slow.estimate, rel=1e-12)
    assert SlidingSum(6).answer(log).variance is None
    # A node that was pruned for a unit changes nothing about the units before.
    pruned = np.isinf(
        np.array([np.broadcast_to(release.scale.floats(), release.value.shape) for release in log])
    )
    for place, node in np.argwhere(pruned):
        assert standing.start[place, node] == place


def test_a_retroactive_group_is_used_for_its_units_as_soon_as_it_is_published():
    """The paper's stream: fresh releases at units 1, 2, 4, 8 of groups of 1, 1, 2, 4 units."""
    counts_then = [5, 75, 74, 73, 74, 75, 74, 73]
    log = quiet(
        RetroactiveGrouping(epsilon="0.1", watch="0.1", caution=0),
        [[count] for count in counts_then],
    )
    assert SlidingSum(8).answer(log).estimate.tolist() == [[sum(counts_then)]]
    assert SlidingSum(4).answer(log).estimate.tolist() == [[74 + 75 + 74 + 73]]
    assert SlidingSum(4).answer(log, 7).estimate.tolist() == [
        [4 * 73.5]
    ]  # units 5 to 7 are not out yet
    assert SlidingSum(4, hindsight=True).answer(log, 7).estimate.tolist() == [[73.5 + 3 * 74]]
    assert SlidingSum(4).answer(log, 7).unread.tolist() == [[3]]
    assert SlidingSum(3).answer(log, 4).estimate.tolist() == [[75 + 74 + 73]]
    one = float(laplace_variance(log[8].scale.floats()))
    assert SlidingSum(8).answer(log).variance == pytest.approx(np.array([[4 * one]]))
    assert SlidingSum(2).answer(log).variance == pytest.approx(np.array([[one / 4]]))


@pytest.mark.parametrize(
    "mechanism", [BackwardSmoothing(epsilon=1, horizon=3), WeightedHistogram(epsilon=1, horizon=3)]
)
def test_what_is_repeated_after_a_horizon_is_not_taken_for_read(mechanism):
    log = noisy(mechanism, [[100, 200]] * 3 + [[9000, 9000]] * 5)
    assert UnitCounts().answer(log, 8).unread.tolist() == [[1, 1]]
    sums = SlidingSum(4).answer(log, 8)
    assert sums.unread.tolist() == [[4, 4]]
    assert np.allclose(sums.variance, 16 * laplace_variance(np.array(1.0)))


def test_a_jump_within_one_release_of_a_tree_is_not_known():
    mechanism = Sample(epsilon=1, window=10, histogram=QuadTree(split=None))
    log = noisy(mechanism, [[1000 * unit] * 4 for unit in range(20)])
    found = differences(counts(log, 1, 20), 3)
    same = np.array(
        [log[unit].public["start"][0] == log[unit - 2].public["start"][0] for unit in range(3, 21)]
    )
    assert same.any()
    assert np.isnan(found.noise.variance[same]).all()


def test_sums_over_keys_of_sums_over_keys_are_refused():
    log = quiet(RetroactiveGrouping(epsilon=1), STREAM)
    with pytest.raises(ConfigurationError, match="of must give a number for each key"):
        Everything(of=Everything()).answer(log)
