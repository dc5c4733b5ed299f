from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from penstock.core.hierarchy import Hierarchy
from penstock.lab.audit.replay.configurations import other_trials
from penstock.lab.audit.replay.neighbours import random_pair
from penstock.lab.audit.subjects import subject


@pytest.mark.parametrize("contribution", [1, 2, 3])
def test_random_pairs_are_neighbours(contribution: int) -> None:
    rng = np.random.default_rng(contribution)
    for _ in range(200):
        units, keys = int(rng.integers(1, 12)), int(rng.integers(1, 6))
        window = int(rng.integers(1, units + 1))
        pair = random_pair(rng, units=units, keys=keys, window=window, contribution=contribution)
        assert pair.is_neighbouring(window=window, contribution=contribution)
        assert pair.left.min() >= 0
        assert pair.right.min() >= 0


def test_a_person_who_is_everywhere_meets_every_unit_and_every_key() -> None:
    pair = random_pair(
        np.random.default_rng(2), units=70, keys=70, window=70, contribution=3, everywhere=True
    )
    apart = (pair.left != pair.right).any
    assert apart(axis=1).sum() == 70
    assert apart(axis=0).sum() == 70


def test_every_trial_keeps_the_promise_that_is_asked_for() -> None:
    found = list(islice(other_trials(subject("ba"), np.random.default_rng(1)), 24))
    for trial in found:
        promise = trial.mechanism.guarantee
        window = trial.pair.units if promise.user_level else promise.window
        assert promise.epsilon == trial.claimed == 2
        assert trial.pair.is_neighbouring(window=window, contribution=promise.contribution)
    assert max(trial.pair.keys for trial in found) > 65
    assert max(trial.pair.units for trial in found) > 65
    assert {trial.mechanism.contribution for trial in found} == {1, 2, 3}
    assert any(trial.restarts for trial in found)
    assert any(trial.mechanism.guarantee.user_level for trial in found)
    assert any(isinstance(trial.domain, Hierarchy) for trial in found)
