"""Whole publishers in simulated worlds: docs/how-to/simulate.md tells how to replay a seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.__main__ import failures_of

ROOT = Path(__file__).parents[2]
PORTIONS = [range(start, start + 25) for start in range(0, 200, 25)]


@pytest.mark.slow
@pytest.mark.parametrize("seeds", PORTIONS, ids=lambda seeds: f"{seeds.start}-{seeds.stop - 1}")
def test_every_rule_holds_in_every_world(seeds):
    failures = failures_of(seeds)
    assert not failures, "\n".join(failures)


@pytest.mark.slow
def test_a_seed_is_the_same_world_every_time():
    """Neither the order of sets nor earlier worlds of the process change anything."""
    program = (
        "import sys\nfrom tests.simulation.world import World\n"
        "for seed in map(int, sys.argv[1:]):\n"
        "    world = World(seed); world.run()\n"
        "    print(seed, world.calls, world.scheduler.turns, world.scheduler.now)\n"
    )
    told = []
    for order, number in ((["3", "16", "53"], "1"), (["53", "3", "16"], "2")):
        ran = subprocess.run(
            [sys.executable, "-c", program, *order],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": number},
            capture_output=True,
            text=True,
            check=True,
        )
        told.append(sorted(ran.stdout.splitlines()))
    assert told[0] == told[1]
