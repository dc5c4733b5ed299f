from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.core.hierarchy import Hierarchy
from penstock.core.product import Product
from penstock.engine.plan.public_counts import (
    MAX_CELLS,
    MAX_KEYS,
    PublicCounts,
    StatedFacts,
    levels,
    made_up,
    poisson,
)

DAYS = StatedFacts(periods=(24,))


def public(counts, domain, **facts):
    return PublicCounts(
        counts=np.asarray(counts, np.int64), domain=domain, every="1h", facts=StatedFacts(**facts)
    )


def test_sentences_always_give_the_same_counts():
    one, two = (made_up(Domain.of(5), "1h", typical=Fraction(3), facts=DAYS) for _ in range(2))
    assert np.array_equal(one.counts, two.counts)
    assert one.mean == pytest.approx(3, rel=0.05)


def test_a_season_can_be_seen_in_the_counts():
    found = made_up(Domain.of(20), "1h", typical=Fraction(50), facts=DAYS)
    hours = found.counts[: len(found.counts) // 24 * 24].sum(axis=1).reshape(-1, 24).mean(axis=0)
    assert hours.max() > 3 * hours.min()


def test_few_keys_of_a_sparse_stream_have_most_events():
    def largest(sparse):
        sizes = np.sort(
            made_up(Domain.of(100), "1h", typical=Fraction(9), sparse=sparse).counts.sum(0)
        )
        return sizes[-10:].sum() / sizes.sum()

    assert largest(True) > 0.6 > largest(False)


def test_a_typical_count_of_nothing_is_refused():
    with pytest.raises(ConfigurationError, match="typical must be above 0"):
        made_up(Domain.of(2), "1h", typical=Fraction(0))


@pytest.mark.parametrize("mean", [0.0, 0.3, 4.0, 49.0, 51.0, 4000.0])
def test_poisson_numbers_have_their_mean_and_variance(mean):
    found = poisson(np.full(40_000, mean))
    # Both lie outside of these bounds with a probability below 1e-9.
    assert found.mean() == pytest.approx(mean, abs=6.5 * (mean / 40_000) ** 0.5 + 1e-12)
    assert found.var() == pytest.approx(mean, rel=0.06, abs=0.02)


def test_large_counts_are_thinned_out_and_that_is_said():
    keys, units = 2 * MAX_KEYS, 1_500
    found = public(np.ones((units, keys)), Domain.of(keys)).thinned()
    assert found.counts.shape[1] == MAX_KEYS == found.domain.size
    assert found.counts.size <= MAX_CELLS
    assert f"{MAX_KEYS:,} of {keys:,} keys" in found.notes[0]


@pytest.mark.parametrize(("units", "window"), [(150, 1), (60, 24), (20, 200)])
def test_few_units_leave_room_for_more_keys(units, window):
    keys = 5_000
    found = public(np.ones((units, keys)), Domain.of(keys)).thinned(window=window)
    long = found.lengthened(window)
    assert MAX_KEYS <= found.domain.size < keys
    assert 0.9 * MAX_CELLS < long.counts.size <= MAX_CELLS


def test_some_keys_of_a_hierarchy_are_a_hierarchy():
    domain = Hierarchy.of({str(key): f"group {key % 3}" for key in range(2 * MAX_KEYS)})
    found = public(np.ones((2, domain.size)), domain).thinned(most=MAX_KEYS)
    assert isinstance(found.domain, Hierarchy)
    assert found.domain.paths[1] == (f"group {2 % 3}",)


def test_longer_units_hold_the_sum_and_shorten_the_seasons():
    found = public(np.arange(12).reshape(6, 2), Domain.of(2), periods=(24, 5)).merged(2, "2h")
    assert found.counts.tolist() == [[2, 4], [10, 12], [18, 20]]
    assert (found.every, found.facts.periods) == ("2h", (12,))


def test_longer_units_of_a_stock_hold_what_is_there_at_their_ends():
    found = public(np.arange(12).reshape(6, 2), Domain.of(2), kind="stock").merged(2, "2h")
    assert found.counts.tolist() == [[2, 3], [6, 7], [10, 11]]


def test_a_made_up_stock_moves_slowly():
    def steps(kind):
        facts = StatedFacts(kind=kind)
        found = made_up(Domain.of(50), "1h", typical=Fraction(4), facts=facts)
        assert found.mean == pytest.approx(4, rel=0.05)
        return np.abs(np.diff(found.counts, axis=0)).mean()

    assert steps("stock") < 0.2 * steps("flow")


def test_groups_hold_the_sum_of_their_keys():
    domain = Product.of({"line": ["red", "blue"], "way": ["in", "out"]})
    ways = levels(domain)
    assert list(ways) == ["per line", "per way", "all keys together"]
    counts = public([[1, 2, 4, 8]], domain)
    assert counts.grouped(*ways["per line"]).counts.tolist() == [[3, 12]]
    assert counts.grouped(*ways["per way"]).counts.tolist() == [[5, 10]]
    assert counts.grouped(*ways["all keys together"]).counts.tolist() == [[15]]


def test_short_counts_are_repeated_in_whole_seasons_and_that_is_said():
    given = public(np.arange(14).reshape(14, 1), Domain.of(1), periods=(4, 24))
    found = given.lengthened(6)
    assert found.counts.ravel().tolist() == [*range(2, 14), *range(2, 14), *range(2, 8)]
    assert "repeated up to 30 units" in found.notes[0]
    assert given.lengthened(2) is given
