"""A publisher that dies between two steps: at each point on purpose, where a kill at random hardly
ever falls.
"""

from __future__ import annotations

import threading

import pytest

from tests.recovery.publish import Fault
from tests.recovery.world import CsvWorld, HttpWorld, ParquetWorld, wait_for

AFTER_A_START = ("restored", "begun")


@pytest.mark.parametrize("point", Fault.points)
def test_dying_between_two_steps_changes_nothing(point, nest, tmp_path):
    """Twice at the same point, the second time later: of a live stream, whose senders wait to be
    answered.
    """
    with HttpWorld(nest, tmp_path, noise="both", hours=6, seed=5) as world:
        world.set_clock(0)
        feeding = threading.Thread(target=world.live, daemon=True)
        feeding.start()
        if point in AFTER_A_START:
            started = world.start()
            wait_for(lambda: started.until("release", seconds=1) or started.dead, "a release")
            assert started.kill()
        for times in (1, 2):
            assert world.start(fault=[point, 1 if point in AFTER_A_START else times]).ended()[
                "killed"
            ]
        world.start()
        wait_for(lambda: not feeding.is_alive(), "sending all")
        world.finish()
        world.check()
        assert world.answers[200] >= 24


FENCE = [point for point in Fault.points if "head" in point or "shown" in point]


@pytest.mark.parametrize("point", FENCE)
def test_dying_around_a_sink_that_is_the_fence_changes_nothing(point, nest, tmp_path):
    more = {"store": {"path": "taps.db"}}
    with ParquetWorld(nest, tmp_path, noise="both", hours=8, seed=6, **more) as world:
        for times in (1, 2):
            assert world.start(fault=[point, times]).ended()["killed"]
        world.start()
        world.finish()
        world.check()
        assert (tmp_path / "releases.head").exists()


FINITE = [point for point in Fault.points if point not in ("to be answered", "answered", "kept")]


@pytest.mark.parametrize("point", FINITE)
def test_dying_between_two_steps_of_a_finished_file_changes_nothing(point, nest, tmp_path):
    with ParquetWorld(nest, tmp_path, noise="both", hours=12, seed=6) as world:
        if point in AFTER_A_START:
            started = world.start()
            started.until("release")
            started.kill()
        for times in (1, 2):
            died = world.start(fault=[point, 1 if point in AFTER_A_START else times]).ended()[
                "killed"
            ]
            assert died or point in AFTER_A_START or times == 2
        world.start()
        world.finish()
        world.check()


def test_a_stop_that_is_asked_for_leaves_everything_whole_every_time(nest, tmp_path):
    with CsvWorld(nest, tmp_path, noise="test", hours=6) as world:
        world.set_clock(0)
        for hour in range(1, 7):
            started = world.start()
            world.set_clock(hour)
            world.send(world.of_hour(hour), hour)
            assert started.until("begin")
            assert started.stop().of("over")[0]["whole"] is False
        world.set_clock(8)
        world.start()
        world.finish()
        world.check()
