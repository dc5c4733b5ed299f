"""Samples of another size: the form stays, and no count is a multiple of a thin one."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.core.domain import Domain
from penstock.engine.plan.public_counts import PublicCounts, StatedFacts, poisson
from penstock.engine.plan.scaling import rates, scaled

UNITS, KEYS = 480, 40


def public(counts, **facts):
    return PublicCounts(
        counts=np.asarray(counts, np.int64),
        domain=Domain.of(np.shape(counts)[1]),
        every="1h",
        facts=StatedFacts(**facts),
        words="The counts are public.",
    )


def thinned_and_scaled_back(thick, share, **facts):
    """Counts after a share of their events was scaled to their mean again."""
    thin = public(np.random.default_rng(8).binomial(thick, share), **facts)
    return scaled(thin, mean=thin.mean, typical=float(thick.mean())).counts


def busy_days():
    wave = 1 + 0.9 * np.sin(2 * np.pi * np.arange(UNITS) / 24)
    return poisson(np.outer(wave, np.geomspace(5, 200, KEYS)))


def steps(counts):
    return np.abs(np.diff(counts, axis=0)).mean()


def test_a_thin_sample_becomes_like_the_thick_stream():
    thick = busy_days()
    found = thinned_and_scaled_back(thick, 1 / 19, periods=(24,))
    assert found.mean() == pytest.approx(thick.mean(), rel=0.01)
    assert found.std(axis=0).mean() == pytest.approx(thick.std(axis=0).mean(), rel=0.1)
    assert steps(found) == pytest.approx(steps(thick), rel=0.3)
    assert len(np.unique(found % 19)) == 19


def test_multiplied_counts_would_move_too_much():
    thick = busy_days()
    thin = np.random.default_rng(8).binomial(thick, 1 / 19)
    assert steps(19 * thin) > 1.5 * steps(thick)


def test_jumps_and_bursts_stay():
    still = np.full((UNITS, KEYS), 60)
    bursts = np.where(np.arange(UNITS)[:, None] % 37 < 2, 2000, still)
    found = thinned_and_scaled_back(poisson(bursts), 1 / 19)
    of = np.arange(UNITS) % 37 < 2
    assert found[of].mean() > 20 * found[~of].mean()


def test_a_sample_may_be_too_thick():
    thick = public(busy_days(), periods=(24,))
    found = scaled(thick, mean=thick.mean, typical=0.5)
    assert found.mean == pytest.approx(0.5, rel=0.03)
    # A few events are almost Poisson numbers: their variance is little more than their mean.
    assert found.counts.var(axis=0).mean() == pytest.approx(0.5, rel=0.5)


def test_the_factor_is_that_of_the_whole_sample():
    part = public(np.full((UNITS, 2), 10))
    assert scaled(part, mean=5.0, typical=50.0).mean == pytest.approx(100, rel=0.02)


def test_always_the_same_counts_are_drawn():
    one, two = (scaled(public(busy_days()), mean=3.0, typical=5.0) for _ in range(2))
    assert np.array_equal(one.counts, two.counts)
    assert one.counts.dtype == np.int64


def test_a_sample_of_the_typical_size_stays_as_it_is():
    given = public(busy_days())
    assert scaled(given, mean=given.mean, typical=given.mean) is given


def test_a_stock_is_multiplied_and_moves_with_the_sample():
    given = public(np.repeat([[1, 4], [2, 4], [3, 0]], 5, axis=0), kind="stock")
    found = scaled(given, mean=given.mean, typical=2.5 * given.mean)
    assert np.abs(found.counts - 2.5 * given.counts).max() < 1
    assert "They were multiplied by 2.5" in found.words


def test_the_words_say_what_was_done():
    found = scaled(public(np.full((9, 2), 2)), mean=2.0, typical=38.0)
    assert found.words == (
        "The counts are public. Their mean is 2 per key and unit. New ones were drawn at random "
        "around their rates times 19, because the typical count is 38 by your statement."
    )


def test_a_key_without_events_stays_empty():
    counts = np.column_stack([np.zeros(50, np.int64), np.full(50, 3)])
    assert not rates(counts)[:, 0].any()
    assert not scaled(public(counts), mean=1.5, typical=15.0).counts[:, 0].any()


@pytest.mark.parametrize("units", [2, 3, 5])
def test_few_units_are_enough(units):
    counts = np.arange(3 * units).reshape(units, 3)
    found = rates(counts, (2,))
    assert np.isfinite(found).all()
    assert (found >= 0).all()
