from __future__ import annotations

import numpy as np
import pytest

from penstock.core.errors import ConfigurationError, InputError
from penstock_bench.datasets.requests import Requests, allotted

KEYS, UNITS = 500, 90


def site(seed: int = 3, **other) -> Requests:
    rng = np.random.default_rng(8)
    given = {
        "load": rng.integers(0, 20_000, UNITS),
        "known": np.minimum(50 + 10 * np.arange(UNITS), KEYS),
        "keys": KEYS,
        "per_day": 15,
        "seed": seed,
    }
    return Requests(**{**given, **other})


def test_every_request_of_a_unit_asks_for_a_page_that_is_there():
    requests = site()
    for unit in range(1, UNITS + 1):
        counts = requests.draw(unit)
        assert counts.shape == (KEYS,)
        assert counts.min() >= 0
        assert counts.sum() == requests.load[unit - 1]
        assert not counts[requests.known[unit - 1] :].any()


def test_a_unit_is_the_same_in_whatever_order_units_are_read_and_another_seed_is_another():
    one, two = site(), site()
    late = one.draw(80)
    one.draw(3)
    assert np.array_equal(one.draw(80), late)
    assert np.array_equal(two.draw(80), late)
    assert not np.array_equal(site(seed=4).draw(80), late)


def test_an_empty_unit_has_no_requests():
    assert not site(load=np.zeros(UNITS, np.int64)).draw(5).any()


def test_few_pages_draw_most_requests_and_the_next_unit_is_like_this_one():
    load = np.full(UNITS, 200_000)
    requests = site(load=load, known=np.full(UNITS, KEYS))
    rows = np.array(
        [requests.draw(unit) for unit in range(66, UNITS + 1)]
    )  # after the first 64, which crowds are in here
    assert np.sort(rows.sum(axis=0))[-KEYS // 10 :].sum() > 0.5 * rows.sum()
    near = np.abs(rows[1] - rows[0]).sum()
    far = np.abs(rows[-1] - rows[0]).sum()
    assert near < 0.7 * far


def test_a_draw_has_the_chances_it_claims():
    """Chi-squared of 200,000 events over 40 keys; by chance above 90 with a probability below
    1e-5."""
    rng = np.random.default_rng(5)
    weights = rng.random(40) ** 3 + 1e-3
    number = 200_000
    expected = number * weights / weights.sum()
    assert ((allotted(number, weights, rng) - expected) ** 2 / expected).sum() < 90


@pytest.mark.parametrize("number", [1, 2, 40, 5_000])
def test_the_total_of_a_draw_is_exact_and_keys_without_weight_get_nothing(number):
    rng = np.random.default_rng(5)
    weights = np.array([0.0, 1.0, 0.0, 2.0, 0.0])
    for _ in range(50):
        counts = allotted(number, weights, rng)
        assert counts.sum() == number
        assert not counts[[0, 2, 4]].any()


def test_a_draw_varies_as_much_as_a_multinomial():
    """The variance of 4,000 draws of a count; the bounds are more than five standard deviations
    away.
    """
    rng = np.random.default_rng(6)
    drawn = np.array([allotted(1_000, np.array([0.3, 0.7]), rng)[0] for _ in range(4_000)])
    assert drawn.var() == pytest.approx(210, rel=0.13)


@pytest.mark.parametrize(
    "wrong",
    [
        {"load": np.zeros(3, np.int64)},
        {"load": np.full(UNITS, -1)},
        {"known": np.full(UNITS, KEYS + 1)},
        {"known": np.zeros(UNITS, np.int64)},
        {"known": np.arange(UNITS)[::-1] + 1},
    ],
)
def test_an_impossible_load_is_refused(wrong):
    with pytest.raises(InputError):
        site(**wrong)


@pytest.mark.parametrize("wrong", [{"keys": 0}, {"per_day": 0}, {"seed": -1}])
def test_an_impossible_site_is_refused(wrong):
    with pytest.raises(ConfigurationError):
        site(**wrong)
