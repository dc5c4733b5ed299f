"""Two publishers of one stream at once: one publishes, the other does not."""

from __future__ import annotations

import signal

import pytest

from tests.recovery.world import CsvWorld, HttpWorld, PostgresWorld, needs_postgres, wait_for

HOURS = 6


def send(world, first, last):
    for hour in range(first, last + 1):
        world.set_clock(hour)
        world.send(world.of_hour(hour), hour)


@pytest.mark.parametrize("world_of", [CsvWorld, HttpWorld])
def test_a_second_publisher_is_refused_at_once_and_takes_over_when_the_first_is_killed(
    world_of, nest, other_nest, tmp_path
):
    with world_of(nest, tmp_path, noise="both", hours=HOURS) as world:
        world.set_clock(0)
        first = world.start()
        assert first.until("begin")
        send(world, 1, 3)
        for _ in range(3):
            second = world.start(nest=other_nest)
            told = second.until("refused")
            assert told, second.told
            assert told["error"] == "LeaseError"
            assert "is being published by another process" in told["text"]
            second.ended()
        send(world, 4, 5)
        assert first.kill()
        world.start()
        send(world, 6, HOURS)
        world.set_clock(HOURS + 2)
        world.finish()
        world.check()


def test_a_second_publisher_is_refused_also_while_the_first_stands_still(
    nest, other_nest, tmp_path
):
    """A process that was stopped for longer than any lease still holds its lock, and goes on as if
    nothing had been.
    """
    with CsvWorld(nest, tmp_path, noise="both", hours=HOURS) as world:
        world.set_clock(0)
        first = world.start(lease=0.2)
        assert first.until("begin")
        send(world, 1, 4)
        first.signal(signal.SIGSTOP)
        second = world.start(nest=other_nest, lease=0.2)
        assert second.until("refused")["error"] == "LeaseError"
        second.ended()
        first.signal(signal.SIGCONT)
        send(world, 5, HOURS)
        world.set_clock(HOURS + 2)
        world.finish()
        world.check()


@needs_postgres
def test_of_two_machines_the_second_waits_and_is_refused_while_the_first_renews(
    nest, other_nest, tmp_path
):
    with PostgresWorld(nest, tmp_path, noise="both", hours=HOURS) as world:
        world.set_clock(0)
        first = world.start(lease=1.0, takeover=False)
        assert first.until("begin")
        second = world.start(nest=other_nest, lease=1.0, takeover=False)
        assert second.until("waiting"), second.told
        send(world, 1, 3)
        told = second.until("refused")
        assert told, second.told
        assert told["error"] == "LeaseError"
        second.ended()
        assert not second.of("drawn")
        send(world, 4, HOURS)
        world.set_clock(HOURS + 2)
        world.finish()
        world.check()


@needs_postgres
def test_of_two_machines_the_second_goes_on_when_the_first_is_gone(nest, other_nest, tmp_path):
    with PostgresWorld(nest, tmp_path, noise="both", hours=HOURS) as world:
        world.set_clock(0)
        first = world.start(lease=1.0, takeover=False)
        send(world, 1, 4)
        first.until("release")
        first.kill()
        second = world.start(lease=1.0, takeover=False)
        assert second.until("begin"), second.told
        send(world, 5, HOURS)
        world.set_clock(HOURS + 2)
        world.finish()
        world.check()


@needs_postgres
def test_a_publisher_that_stood_still_while_another_took_over_releases_nothing_more(
    nest, other_nest, tmp_path
):
    """It wakes when a unit has come due that the other one has released, with other noise: it
    stops, and nothing is changed.
    """
    with PostgresWorld(nest, tmp_path, noise="fresh", hours=HOURS, webhook=False, sink=[]) as world:
        world.set_clock(0)
        first = world.start(nest=other_nest, lease=1.0, takeover=False)
        send(world, 1, 4)
        wait_for(lambda: set(world.heads().values()) == {2}, "unit 2")
        first.signal(signal.SIGSTOP)
        world.move()
        second = world.start(lease=1.0, takeover=False)
        assert second.until("begin"), second.told
        send(world, 5, 5)
        wait_for(lambda: set(world.heads().values()) == {3}, "unit 3")
        first.signal(signal.SIGCONT)
        told = first.until("refused")
        assert told, first.told
        assert told["error"] == "LeaseError"
        first.ended()
        send(world, 6, HOURS)
        world.set_clock(HOURS + 2)
        world.finish()
        world.check()
