from __future__ import annotations

import itertools

import numpy as np
import pytest

from penstock.core.errors import ConfigurationError
from penstock_bench.simulated.census import ATTRIBUTES, Census

SMALL = {"people": 4_000, "pool": 20_000}


def test_everybody_is_counted_once_in_every_unit():
    counts = Census(**SMALL).counts(30)
    assert counts.shape == (30, 96 * 2 * 12 * 2 * 2 * 3)
    assert counts.min() == 0
    assert (counts.sum(axis=1) == 4_000).all()


@pytest.mark.parametrize("attributes", range(1, len(ATTRIBUTES)))
def test_fewer_attributes_are_the_same_people_seen_less_closely(attributes):
    closer = Census(**SMALL).counts(5)
    census = Census(**SMALL, attributes=attributes)
    assert census.domain.shape == tuple(ATTRIBUTES.values())[:attributes]
    assert np.array_equal(closer.reshape(5, census.domain.size, -1).sum(axis=2), census.counts(5))


def test_the_same_seed_is_the_same_census_and_another_is_not():
    one, two, other = (Census(**SMALL, attributes=2, seed=seed).counts(10) for seed in (1, 1, 2))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)


def test_without_updates_nothing_changes():
    counts = Census(**SMALL, attributes=3, rate=0.0).counts(8)
    assert (counts == counts[0]).all()


def test_no_more_people_change_than_are_replaced():
    """A unit's replacements are normal with a deviation of a tenth: 7 of them above the mean have a
    chance below 1e-9.
    """
    counts = Census(**SMALL, rate=0.02).counts(100)
    moved = np.abs(np.diff(counts, axis=0)).sum(axis=1) / 2
    assert 0 < moved.max() <= 0.02 * 3.0 * 4_000 * 1.7


def test_some_periods_are_busy_and_some_are_quiet():
    counts = Census(**SMALL, attributes=3, rate=0.02).counts(200)
    moved = (
        np.abs(np.diff(counts, axis=0, prepend=counts[:1]))
        .sum(axis=1)
        .reshape(10, 20)[:, 1:]
        .mean(axis=1)
    )
    assert moved.argmax() == 4
    assert moved.max() > 5 * moved.min()


def test_the_units_come_one_by_one():
    census = Census(**SMALL, attributes=1)
    first = list(itertools.islice(census.units(50), 3))
    assert np.array_equal(first, census.counts(50)[:3])


def test_the_attributes_hang_together():
    census = Census(**SMALL)
    people = census.counts(1)[0].reshape(census.domain.shape)
    by_age_and_income = people.sum(axis=(1, 2, 3, 4))
    assert by_age_and_income[:20, 1:].sum() == 0
    assert by_age_and_income[20:, 0].sum() == 0
    married = people.sum(axis=(1, 2, 3, 5))
    assert married[40:60, 1].sum() > married[40:60, 0].sum()
    assert married[:15, 1].sum() < 0.1 * married[:15, 0].sum()
    schooling = (
        people.sum(axis=(1, 3, 4, 5)) @ np.arange(12) / people.sum(axis=(1, 2, 3, 4, 5)).clip(1)
    )
    assert schooling[4:8].mean() < schooling[12:16].mean() < schooling[25:40].mean()


@pytest.mark.parametrize(
    "wrong",
    [
        {"people": 0},
        {"people": 10, "pool": 10},
        {"attributes": 0},
        {"attributes": 7},
        {"rate": 1.5},
        {"rate": -0.1},
        {"seed": -1},
    ],
)
def test_an_impossible_census_is_refused(wrong):
    with pytest.raises(ConfigurationError):
        Census(**wrong)


def test_a_stream_has_at_least_one_unit():
    with pytest.raises(ConfigurationError):
        Census(**SMALL).counts(0)
