"""A publisher that is killed again and again, at any moment: nothing is lost, released twice or
changed.

`PENSTOCK_KILLS=500` (`make torture`) kills so often in all, and says how far it is.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from itertools import count
from random import Random

import pytest

from tests.recovery.servers import OwnServer
from tests.recovery.world import (
    KAFKA,
    MQTT,
    POSTGRES,
    WORLDS,
    KilledServerWorld,
    needs_kafka,
    needs_mqtt,
    needs_postgres,
    wait_for,
)

SOURCES = tuple(WORLDS)
NEEDS = {
    "kafka": needs_kafka,
    "mqtt": needs_mqtt,
    "postgres": needs_postgres,
    "killed server": needs_postgres,
}
NOISES = ("none", "test", "fresh")
KILLS = int(os.environ.get("PENSTOCK_KILLS", "60"))
AT_ONCE = 12
"""Kills of one stream, at most: then another one begins."""

MOMENTS = ("started", "begin", "kept", "drawn", "release")


@pytest.fixture(scope="module")
def server():
    """A PostgreSQL of these tests' own, started when the first one asks."""
    with OwnServer("postgres") as own:
        KilledServerWorld.server = own
        yield own


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(
    "source", [pytest.param(name, marks=NEEDS.get(name, ())) for name in SOURCES]
)
def test_a_killed_publisher_repeats_loses_and_changes_nothing(
    source, noise, nest, tmp_path, capfd, request
):
    if source == "killed server":
        request.getfixturevalue("server")
    there = 4 + (KAFKA is not None) + (MQTT is not None) + 2 * (POSTGRES is not None)
    wanted = -(-KILLS // (there * len(NOISES)))
    done, moments = 0, Counter()
    for number in count(1):
        seed = 100 * SOURCES.index(source) + 1000 * NOISES.index(noise) + number
        with WORLDS[source](
            nest, tmp_path / str(number), noise=noise, hours=12, seed=seed
        ) as world:
            done += killed(world, min(AT_ONCE, wanted - done), Random(seed), moments)
            world.check()
        if "PENSTOCK_KILLS" in os.environ:
            with capfd.disabled():
                print(
                    f"{source}, noise {noise!r}: {done} of {wanted} kills, "
                    f"last told {dict(moments)}",
                    flush=True,
                )
        if done >= wanted:
            break


def killed(world, kills, random, moments):
    """Kill publishers `kills` times, let the last one finish; return the number of kills."""
    done, problems = 0, []

    def feed():
        try:
            world.live(lambda hour: done >= min((hour - 1) * kills / world.hours, kills))
        except BaseException as error:
            problems.append(error)

    feeding = threading.Thread(target=feed, daemon=True)
    if not world.finite:
        world.set_clock(0)
        feeding.start()
    while done < kills and not problems:
        started = world.start()
        wait_for_a_moment(started, random, world)
        if not world.disturb(random):
            assert world.finite, started.told[-5:]
            assert started.of("over"), started.told[-5:]
            break  # it was faster
        moments[[each["what"] for each in started.told if each["what"] != "died"][-1]] += 1
        done += 1
    world.start()
    if feeding.ident:
        wait_for(lambda: not feeding.is_alive(), "sending all")
    assert not problems, problems
    world.finish()
    return done


def wait_for_a_moment(started, random, world):
    """Until something is told and a little longer, or for some time: shorter where all is over
    soon.
    """
    if random.random() < 0.7:
        what = random.choice(MOMENTS[3:] if world.finite and random.random() < 0.6 else MOMENTS)
        for _ in range(random.randint(1, 2)):
            if what != "started":
                started.until(what, seconds=2 * world.while_)
        time.sleep(random.uniform(0, 0.006))
    else:
        time.sleep(random.uniform(0, world.while_))
