from __future__ import annotations

import numpy as np
import pytest

from penstock.core.errors import ConfigurationError
from penstock_bench.datasets.ages import Ages

WEEK = 7 * 24


def test_there_are_five_ages_and_about_so_many_people_an_hour():
    stream = Ages(units=52 * WEEK).make()
    assert stream.domain.size == 5
    assert stream.mean().sum() == pytest.approx(25, rel=0.05)
    assert stream.mean().argmax() == 1


def test_children_are_hurt_after_school_and_young_adults_on_weekend_nights():
    weeks = Ages(units=52 * WEEK, hourly=200).make().matrix().reshape(52, 7, 24, 5).sum(axis=0)
    assert weeks[:5, 15:17, 0].mean() > 5 * weeks[:5, 2:4, 0].mean()
    assert weeks[5:, 0:3, 1].mean() > 1.5 * weeks[:5, 0:3, 1].mean()


def test_the_same_seed_is_the_same_stream_and_another_is_not():
    one, two, other = (Ages(units=100, seed=seed).make().matrix() for seed in (2, 2, 3))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("wrong", [{"units": 0}, {"hourly": 0}, {"seed": -1}])
def test_an_impossible_record_is_refused(wrong):
    with pytest.raises(ConfigurationError):
        Ages(**wrong).make()
