"""A publisher without its store or source waits, releases the units it had drawn, catches up."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import threading
from contextlib import contextmanager
from random import Random

import pytest

from penstock.engine.chain import HeadFile

from tests.recovery.servers import OwnServer
from tests.recovery.world import (
    CsvWorld,
    HttpWorld,
    KafkaWorld,
    ParquetWorld,
    PostgresWorld,
    needs_kafka,
    needs_postgres,
    wait_for,
)

HOURS = 6


@contextmanager
def sending(world):
    """Events come all the time, whatever happens to the publisher."""
    feeding = threading.Thread(target=world.live, daemon=True)
    feeding.start()
    yield
    wait_for(lambda: not feeding.is_alive(), "sending all")


def head_of(world):
    return world.heads().get(world.series[0], 0)


def hour_by_hour(world, first, last):
    for hour in range(first, last + 1):
        world.set_clock(hour)
        world.send(world.of_hour(hour), hour)
        wait_for(lambda hour=hour: hour < 3 or head_of(world) >= hour - 2, f"unit {hour - 2}")


def send_at_once(world, first, last):
    for hour in range(first, last + 1):
        world.set_clock(hour)
        world.send(world.of_hour(hour), hour)


def said_by_source(started):
    told = started.until("source")
    assert told, started.told[-3:]
    return told["text"]


def stays(world, unit, kind="store", tries="The same content is tried again."):
    """The publisher is in trouble with its store or its fence, and nothing more is released."""
    told = world.starts[-1].until(kind)
    assert told, world.starts[-1].told[-3:]
    assert tries in told["text"]
    assert set(world.heads().values()) == {unit}, world.heads()
    return told["text"]


# -- the disk is full ------------------------------------------------------------------------------


def limit(process, size):
    resource.prlimit(process, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@pytest.mark.parametrize("world_of", [CsvWorld, HttpWorld])
def test_a_full_disk_is_waited_for_and_nothing_is_drawn_again(world_of, nest, tmp_path):
    """No file of the publisher can grow: neither the store, nor its log, nor the head file, nor
    those of sinks.
    """
    with world_of(nest, tmp_path, noise="both", hours=HOURS) as world:
        world.set_clock(0)
        started = world.start()
        hour_by_hour(world, 1, 4)
        limit(started.process, 0)
        feeding = threading.Thread(target=lambda: hour_by_hour(world, 5, HOURS), daemon=True)
        feeding.start()
        text = stays(world, 2)
        assert "disk" in text
        limit(started.process, resource.RLIM_INFINITY)
        wait_for(lambda: not feeding.is_alive(), "sending all")
        world.set_clock(HOURS + 2)
        world.finish()
        assert len(world.starts) == 1
        world.check()


def test_a_disk_that_is_full_while_a_sink_catches_up_stops_nothing(nest, tmp_path):
    """What a receiver has taken cannot be noted: it is sent again later, the same."""
    with CsvWorld(nest, tmp_path, noise="both", hours=HOURS) as world:
        world.receiver.down = True
        world.set_clock(0)
        started = world.start()
        hour_by_hour(world, 1, 4)
        limit(started.process, 0)
        world.receiver.down = False
        written = re.compile(r"sink 'webhook': /.*/taps\.db cannot be written")
        while not written.match((told := started.until("sink", "stopped"))["text"]):
            assert told["what"] == "sink"
        assert world.receiver.arrived
        limit(started.process, resource.RLIM_INFINITY)
        hour_by_hour(world, 5, HOURS)
        world.set_clock(HOURS + 2)
        world.finish()
        world.check()


def test_a_disk_that_is_full_of_other_things_is_waited_for(nest, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    if (
        os.geteuid()
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", small], capture_output=True
        ).returncode
    ):
        pytest.skip(
            "needs the right to mount a small disk: "
            "run as root, outside of a container that forbids it"
        )
    try:
        with HttpWorld(nest, small / "world", noise="both", hours=HOURS) as world:
            world.clock = tmp_path / "now"
            world.set_clock(0)
            world.start()
            hour_by_hour(world, 1, 3)
            ballast = small / "ballast"
            with ballast.open("wb", buffering=0) as file:
                for size in (2**16, 2**12):
                    while True:
                        try:
                            file.write(bytes(size))
                        except OSError:
                            break
            feeding = threading.Thread(target=lambda: hour_by_hour(world, 4, HOURS), daemon=True)
            feeding.start()
            stays(world, 1)
            ballast.unlink()
            wait_for(lambda: not feeding.is_alive(), "sending all")
            world.set_clock(HOURS + 2)
            world.finish()
            assert len(world.starts) == 1
            world.check()
    finally:
        subprocess.run(["umount", small], check=True)


@pytest.mark.parametrize("killed", [True, False])
def test_a_unit_whose_head_cannot_be_written_waits_and_nobody_sees_it(killed, nest, tmp_path):
    with CsvWorld(nest, tmp_path, noise="both", hours=HOURS) as world:
        world.set_clock(0)
        started = world.start()
        hour_by_hour(world, 1, 3)
        assert started.until("release")
        (tmp_path / "elsewhere").rename(tmp_path / "gone")
        world.set_clock(4)
        world.send(world.of_hour(4), 4)
        told = stays(world, 1, "waiting", "Nobody sees a unit until its head is there.")
        assert "the head file taps.head cannot be written" in told
        world.set_clock(5)
        world.send(world.of_hour(5), 5)
        if killed:
            started.kill()
            assert "cannot be written" in world.start().until("refused")["text"]
            world.starts[-1].ended()
            assert set(world.heads().values()) == {1}
        (tmp_path / "gone").rename(tmp_path / "elsewhere")
        if killed:
            world.start()
        hour_by_hour(world, 6, HOURS)
        world.set_clock(HOURS + 2)
        world.finish()
        world.check()
        assert {
            head.unit for head in HeadFile(tmp_path / "elsewhere" / "taps.head").read().values()
        } == {HOURS}


# -- the store is read-only, or away ---------------------------------------------------------------


@pytest.mark.parametrize("world_of", [CsvWorld, HttpWorld])
def test_a_store_that_becomes_read_only_is_waited_for(world_of, nest, tmp_path):
    with world_of(nest, tmp_path, noise="both", hours=HOURS) as world:
        world.set_clock(0)
        started = world.start()
        hour_by_hour(world, 1, 4)
        started.signal(signal.SIGUSR1)
        feeding = threading.Thread(target=lambda: hour_by_hour(world, 5, HOURS), daemon=True)
        feeding.start()
        assert "readonly" in stays(world, 2)
        started.signal(signal.SIGUSR2)
        wait_for(lambda: not feeding.is_alive(), "sending all")
        world.set_clock(HOURS + 2)
        world.finish()
        assert len(world.starts) == 1
        world.check()


@pytest.mark.parametrize("finite", [True, False])
def test_a_start_on_a_read_only_store_is_refused_and_changes_nothing(finite, nest, tmp_path):
    world_of = ParquetWorld if finite else CsvWorld
    with world_of(nest, tmp_path / "world", noise="both", hours=HOURS) as world:
        world.set_clock(0)
        started = world.start()
        if not finite:
            hour_by_hour(world, 1, 4)
        started.until("release")
        started.kill()
        modes = [
            (path, path.stat().st_mode) for path in (world.folder, *world.folder.glob("taps.db*"))
        ]
        for path, mode in modes:
            path.chmod(mode & 0o500)
        refused = world.start(humble=True)
        assert refused.until("refused"), refused.told
        assert refused.ended()
        assert not refused.of("drawn")
        for path, mode in modes:
            path.chmod(mode)
        world.start(humble=True)
        if not finite:
            hour_by_hour(world, 5, HOURS)
            world.set_clock(HOURS + 2)
        world.finish()
        world.check()


@needs_postgres
def test_a_database_that_drops_the_connection_loses_and_repeats_nothing(nest, tmp_path):
    import psycopg

    with (
        PostgresWorld(nest, tmp_path, noise="both", hours=12) as world,
        psycopg.connect(world.place.server, autocommit=True) as server,
    ):
        world.set_clock(0)
        assert world.start().until("begin")  # a start is not tried again
        stopping, chooser = threading.Event(), Random(3)

        def disturb():
            while not stopping.wait(chooser.uniform(0.05, 0.8)):
                server.execute(
                    "SELECT pg_terminate_backend(a.pid) FROM pg_locks l "
                    "JOIN pg_stat_activity a USING (pid) "
                    "JOIN pg_class c ON c.oid = l.relation "
                    "JOIN pg_namespace n ON n.oid = c.relnamespace "
                    "WHERE n.nspname = %s AND a.pid <> pg_backend_pid()",
                    (world.place.schema,),
                )

        disturbing = threading.Thread(target=disturb, daemon=True)
        disturbing.start()
        with sending(world):
            pass
        stopping.set()
        disturbing.join()
        world.finish()
        world.check()


# -- a sink is down --------------------------------------------------------------------------------


def blocked(path):
    path.write_text("in the way")
    return path.unlink


def blocked_line(path):
    path.mkdir()
    return path.rmdir


@pytest.mark.parametrize("sink", ["webhook", "parquet", "csv", "jsonl", "all"])
def test_a_sink_that_was_down_gets_every_unit_in_order(sink, nest, tmp_path):
    with CsvWorld(nest, tmp_path, noise="both", hours=12) as world:
        backs = []
        if sink in ("webhook", "all"):
            world.receiver.down = True
            backs.append(lambda: setattr(world.receiver, "down", False))
        if sink in ("parquet", "all"):
            backs.append(blocked(tmp_path / "releases"))
        if sink in ("csv", "all"):
            backs.append(blocked(tmp_path / "tables"))
        if sink in ("jsonl", "all"):
            backs.append(blocked_line(tmp_path / "releases.jsonl"))
        world.set_clock(0)
        first = world.start()
        with sending(world):
            pass
        wait_for(world.released, "the release of all")
        troubled = {each["text"].split("'")[1] for each in first.stop().of("sink")}
        assert troubled == ({"webhook", "parquet", "csv", "jsonl"} if sink == "all" else {sink})
        assert first.of("over")[0]["whole"] is False
        last = world.start()
        while {each["text"].split("'")[1] for each in last.of("sink")} != troubled:
            assert last.until("sink"), last.told
        for back in backs:
            back()
        while not {f"sink {name!r} is back." for name in troubled} <= {
            each["text"] for each in last.of("sink")
        }:
            assert last.until("sink"), last.told
        assert (
            world.finish().of("over")[0]["whole"] is False
        )  # it was stopped: a live stream has no end
        world.check()


def test_a_finished_file_says_that_a_sink_lacks_releases_and_the_next_start_sends_them(
    nest, tmp_path
):
    with ParquetWorld(nest, tmp_path, noise="both", hours=12) as world:
        world.receiver.down = True
        world.start()
        assert world.finish().of("over")[0]["whole"] is False
        assert not world.receiver.arrived
        world.receiver.down = False
        again = world.start()
        assert world.finish().of("over")[0]["whole"] is True
        assert not again.of("drawn")
        world.check()


# -- the clock -------------------------------------------------------------------------------------


@pytest.mark.parametrize("world_of", [CsvWorld, HttpWorld])
@pytest.mark.parametrize("killed", [True, False])
def test_a_clock_that_is_set_back_releases_nothing_twice(world_of, killed, nest, tmp_path):
    with world_of(nest, tmp_path, noise="both", hours=HOURS) as world:
        world.set_clock(0)
        started = world.start()
        hour_by_hour(world, 1, 4)
        if killed:
            started.kill()
        world.set_clock(1)
        if killed:
            started = world.start()
            assert started.until("begin")
        world.set_clock(5)
        hour_by_hour(world, 5, HOURS)
        world.set_clock(2)
        world.set_clock(HOURS + 2)
        world.finish()
        world.check()


# -- the broker ------------------------------------------------------------------------------------


@pytest.fixture
def broker():
    """A Kafka of this test's own, that nobody else is disturbed by."""
    with OwnServer("kafka") as server:
        server.servers = f"127.0.0.1:{server.port()}"
        yield server


@needs_kafka
def test_a_broker_that_is_restarted_loses_and_repeats_nothing(broker, nest, tmp_path):
    """It is where events come from and where releases go. Once it is stopped, and once it dies with
    the publisher. Units wait for it: by the clock, they would close without unread events.
    """
    with KafkaWorld(
        nest,
        tmp_path,
        servers=broker.servers,
        outage="wait",
        noise="both",
        hours=HOURS,
        webhook=False,
    ) as world:
        world.settings = {"source": {"patience": 2.0}}  # an outage is soon noticed
        sink = {"kind": "kafka", "servers": broker.servers, "topic": f"{world.topic}-released"}
        world.tables["sink"].append(sink)
        world.set_clock(0)
        started = world.start()
        hour_by_hour(world, 1, 3)
        broker("stop")
        assert "units stay open until it is back" in said_by_source(started)
        broker("start")
        while said_by_source(started) != "the source is back.":
            pass
        send_at_once(world, 4, 5)
        broker("kill")
        assert started.kill()
        broker("start")
        world.start()
        send_at_once(world, 6, HOURS)
        world.set_clock(HOURS + 5)  # units wait for the lateness after an outage
        world.finish()
        world.check()
        assert world.consumed(sink["topic"]) == world.documents()
