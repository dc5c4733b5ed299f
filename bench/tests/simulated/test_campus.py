from __future__ import annotations

import numpy as np
import pytest

from penstock.core.errors import ConfigurationError
from penstock_bench.simulated.campus import UNITS_A_DAY, Campus


def test_the_total_is_exact_and_nothing_is_negative():
    counts = Campus(rooms=20, seed=2).counts(2_000, total=12_345)
    assert counts.sum() == 12_345
    assert counts.min() == 0


def test_the_same_seed_is_the_same_campus_and_another_is_not():
    one, two = (Campus(rooms=8, seed=5).counts(500, total=900) for _ in range(2))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, Campus(rooms=8, seed=6).counts(500, total=900))


def test_counts_are_occupancy_devices_stay_for_a_while():
    counts = (
        Campus(rooms=4, seed=1).counts(14 * UNITS_A_DAY, total=100_000).sum(axis=1).astype(float)
    )
    assert np.corrcoef(counts[1:], counts[:-1])[0, 1] > 0.9


def test_weekends_are_quieter():
    days = (
        Campus(rooms=30, seed=1)
        .counts(35 * UNITS_A_DAY, total=300_000)
        .sum(axis=1)
        .reshape(5, 7, -1)
        .sum(axis=2)
    )
    assert days[:, 5:].mean() < 0.6 * days[:, :5].mean()


def test_every_room_has_a_floor_and_a_building():
    campus = Campus(rooms=128)
    assert len(set(campus.keys)) == 128
    assert len({path.split("/")[0] for path in campus.paths.values()}) == 8
    assert len(set(campus.paths.values())) == 32


@pytest.mark.parametrize("wrong", [{"rooms": 0}, {"seed": -1}])
def test_an_impossible_campus_is_refused(wrong):
    with pytest.raises(ConfigurationError):
        Campus(**wrong)
