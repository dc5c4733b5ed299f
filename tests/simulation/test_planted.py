"""The simulation finds bugs: each that is planted on purpose, within 1,000 seeds."""

from __future__ import annotations

from itertools import chain

import pytest

from tests.simulation.planted import PLANTED
from tests.simulation.scheduler import StuckError
from tests.simulation.witnesses import ViolationError
from tests.simulation.world import World

MAX_SEEDS = 1_000


def first_failure(seeds):
    """The first seed that fails, and why."""
    for seed in seeds:
        try:
            World(seed).run()
        except (ViolationError, StuckError) as error:
            return seed, str(error)
    return None


@pytest.mark.slow
@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_found(bug):
    with bug():
        assert first_failure(chain([PLANTED[bug]], range(MAX_SEEDS))) is not None


@pytest.mark.slow
def test_the_same_worlds_hold_without_the_bugs():
    assert first_failure(PLANTED.values()) is None
