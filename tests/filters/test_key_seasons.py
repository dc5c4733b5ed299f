"""Own seasons are learned where keys differ, and not used where they do not."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.filters.key_models import size_classes
from penstock.filters.key_seasons import MAX_CELLS, KeySeasons
from penstock.filters.observation import FilterSettings, Observation
from penstock.filters.tide import TideFilter


@pytest.mark.parametrize(("swing", "helps"), [(0.6, True), (0.0, False)])
def test_own_seasons_are_used_where_keys_differ(swing: float, helps: bool) -> None:
    rng, keys = np.random.default_rng(1), 40
    day = np.sin(2 * np.pi * (np.arange(12)[:, None] / 12 + np.arange(keys) / keys))
    tide = TideFilter.nothing(FilterSettings(keys=keys, periods=(12,)))
    every, one = np.ones(keys, np.bool_), np.ones(keys, np.int64)
    for unit in range(1, 181):
        counts = 1000 * (1 + swing * day[(unit - 1) % 12]) + rng.laplace(0, 60, keys)
        tide.step(Observation(unit, every, counts, one, 7200.0, 7200.0))
    assert tide.seasons.used(size_classes(tide.models.mean, 7200.0)).any() == helps


def test_a_season_that_would_not_fit_into_memory_is_left_out() -> None:
    with_room = FilterSettings(keys=10, periods=(1, 4, 11))
    too_many = FilterSettings(keys=MAX_CELLS // 3, periods=(4, 11))
    assert [len(each) for each in KeySeasons.nothing(with_room).factors] == [4, 11]
    assert KeySeasons.nothing(too_many).factors == []
