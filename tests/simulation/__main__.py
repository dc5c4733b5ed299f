"""Run many simulated worlds, or one of them again: `python -m tests.simulation --help`."""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.simulation.scheduler import StuckError
from tests.simulation.witnesses import ViolationError
from tests.simulation.world import World

SEEDS_PER_PORTION = 25
MAX_SHOWN = 5


def failure_of(seed: int) -> str:
    """Why the world of a seed fails, with all faults of it; empty if every rule holds."""
    world = World(seed)
    try:
        world.run()
    except (ViolationError, StuckError) as error:
        trace = "\n".join(f"  {line}" for line in world.trace)
        return f"seed {seed}: {error}\n  {world.plan}\n{trace}"
    return ""


def failures_of(seeds: range) -> list[str]:
    """The failures of some seeds."""
    gc.freeze()  # what was loaded before need not be looked at after each world
    return [failure for seed in seeds if (failure := failure_of(seed))]


def range_of(text: str) -> range:
    """`1000` is the seeds 0 to 999; `5000-5999` is what it says."""
    first, dash, last = text.replace(",", "").partition("-")
    return range(int(first), int(last) + 1) if dash else range(int(first))


def simulate_all(seeds: range, jobs: int) -> int:
    """Run all seeds on some cores; return the number of failures."""
    portions = [
        seeds[start : start + SEEDS_PER_PORTION]
        for start in range(0, len(seeds), SEEDS_PER_PORTION)
    ]
    began, done, failures, told = time.monotonic(), 0, 0, 0.0
    with ProcessPoolExecutor(jobs) as pool:
        waiting = {pool.submit(failures_of, portion): portion for portion in portions}
        for finished in as_completed(waiting):
            found = finished.result()
            for failure in found[: max(MAX_SHOWN - failures, 0)]:
                print(f"{failure}\n  Run it again: make simulate SEED={failure.split()[1][:-1]}")
            failures += len(found)
            done += len(waiting.pop(finished))
            passed = time.monotonic() - began
            if passed - told > 10 or done == len(seeds):
                told = passed
                print(
                    f"{done:,} of {len(seeds):,} seeds, {failures} failed, "
                    f"{done / passed:.1f} seeds per second",
                    flush=True,
                )
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=range_of, default=range(1_000), help="such as 1000 or 5-9")
    parser.add_argument("--seed", type=int, help="one seed, with all its faults")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    if asked.seed is None:
        return 1 if simulate_all(asked.seeds, asked.jobs) else 0
    world = World(asked.seed)
    try:
        world.run()
    finally:
        print(world.plan, *world.trace, sep="\n")
    print(f"Every rule holds: {world.calls} calls in {world.scheduler.now:.0f} simulated seconds.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
