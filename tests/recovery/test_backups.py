"""A store that was restored from an old backup is refused wherever anything shows it; nothing is
released again.
"""

from __future__ import annotations

import shutil

import pytest

from penstock.engine.explain import warnings

from tests.engine.places import PostgresPlace
from tests.recovery.world import (
    POSTGRES,
    CsvWorld,
    HttpWorld,
    PostgresWorld,
    needs_postgres,
    wait_for,
)

HOURS = 6


def hours(world, first, last):
    for hour in range(first, last + 1):
        world.set_clock(hour)
        world.send(world.of_hour(hour), hour)
        wait_for(
            lambda hour=hour: hour < 3 or world.heads().get(world.series[0], 0) >= hour - 2,
            f"unit {hour - 2}",
        )


def copied(world, name):
    (world.folder / name).mkdir()
    with world.watcher.turn:
        for path in world.folder.glob("taps.db*"):
            shutil.copy2(path, world.folder / name)


def put_back(world, name):
    with world.watcher.turn:
        for path in world.folder.glob("taps.db*"):
            path.unlink()
        for path in (world.folder / name).iterdir():
            shutil.copy2(path, world.folder)


def restored_store(world):
    """Units 1 and 2 are in a backup; up to unit 4 everything is published; then the backup is put
    back, without a word.
    """
    world.set_clock(0)
    first = world.start()
    hours(world, 1, 4)
    first.stop()
    copied(world, "backup")
    second = world.start()
    hours(world, 5, HOURS)
    second.stop()
    copied(world, "newest")
    put_back(world, "backup")


SHOWN = {
    "the head file": ({"head": "elsewhere/taps.head"}, []),
    "a Parquet sink": ({}, [{"kind": "parquet", "path": "releases"}]),
    "a JSON lines sink": ({}, [{"kind": "jsonl", "path": "releases.jsonl"}]),
}


@pytest.mark.parametrize("shown", SHOWN)
@pytest.mark.parametrize("world_of", [CsvWorld, HttpWorld])
def test_a_restored_old_backup_is_refused(shown, world_of, nest, tmp_path):
    store, sinks = SHOWN[shown]
    more = {"store": {"path": "taps.db", **store}, "sink": sinks}
    with world_of(nest, tmp_path, noise="both", hours=HOURS, webhook=False, **more) as world:
        restored_store(world)
        world.set_clock(HOURS + 1)
        refused = world.start()
        told = refused.until("refused")
        assert told, refused.told
        assert "restored from an old backup" in told["text"]
        assert "restore the newest" in told["text"].lower()
        refused.ended()
        assert not refused.of("drawn")
        assert set(world.heads().values()) == {2}
        put_back(world, "newest")
        world.set_clock(HOURS + 2)
        world.start()
        world.finish()
        world.check()


def test_a_restored_old_backup_that_nothing_shows_goes_on_and_the_check_warns_of_it(nest, tmp_path):
    more = {"store": {"path": "taps.db"}, "sink": []}
    with CsvWorld(
        nest, tmp_path, noise="none", hours=HOURS, webhook=False, watched=False, **more
    ) as world:
        assert any("nothing would show it" in warning for warning in warnings(world.pipeline))
        restored_store(world)
        world.set_clock(HOURS + 2)
        started = world.start()
        world.finish()
        assert [each["unit"] for each in started.of("release")] == [3, 4, 5, 6]


def test_a_backup_that_is_as_new_as_what_it_is_restored_to_goes_on(nest, tmp_path):
    with CsvWorld(nest, tmp_path, noise="both", hours=HOURS) as world:
        restored_store(world)
        put_back(world, "newest")
        world.set_clock(HOURS + 2)
        world.start()
        world.finish()
        world.check()


def test_while_the_only_sink_that_could_show_an_old_backup_is_away_nothing_is_released(
    nest, tmp_path
):
    more = {"store": {"path": "taps.db"}, "sink": [{"kind": "jsonl", "path": "releases.jsonl"}]}
    with CsvWorld(
        nest, tmp_path, noise="fresh", hours=HOURS, webhook=False, watched=False, **more
    ) as world:
        restored_store(world)
        (tmp_path / "releases.jsonl.head").unlink()  # as with a sink that cannot be the fence
        (tmp_path / "releases.jsonl").rename(tmp_path / "away")
        (tmp_path / "releases.jsonl").mkdir()
        world.set_clock(HOURS + 1)
        started = world.start()
        waiting = started.until("waiting")
        assert waiting, started.told
        assert "nothing is released until one of these sinks has answered: jsonl" in waiting["text"]
        (tmp_path / "releases.jsonl").rmdir()
        (tmp_path / "away").rename(tmp_path / "releases.jsonl")
        before = (tmp_path / "releases.jsonl").read_bytes()
        told = started.until("refused")
        assert told, started.told
        assert "restored from an old backup" in told["text"]
        started.ended()
        assert not started.of("drawn")
        assert set(world.heads().values()) == {2}
        assert (tmp_path / "releases.jsonl").read_bytes() == before


@needs_postgres
def test_a_restored_old_backup_is_refused_where_a_table_shows_it(nest, tmp_path):
    place = PostgresPlace(POSTGRES)
    try:
        sink = {"kind": "postgres", "url": place.address, "table": "taps"}
        more = {"store": {"path": "taps.db"}, "sink": [sink]}
        with CsvWorld(nest, tmp_path, noise="both", hours=HOURS, webhook=False, **more) as world:
            restored_store(world)
            world.set_clock(HOURS + 1)
            told = world.start().until("refused")
            assert told, world.starts[-1].told
            assert "restored from an old backup" in told["text"]
            world.starts[-1].ended()
            put_back(world, "newest")
            world.set_clock(HOURS + 2)
            world.start()
            world.finish()
            world.check()
    finally:
        place.clean()


@needs_postgres
@pytest.mark.parametrize("shown", SHOWN)
def test_a_database_that_was_restored_is_refused_too(shown, nest, tmp_path):
    head, sinks = SHOWN[shown]
    more = {"head": None, **head, "sink": sinks}
    with PostgresWorld(
        nest, tmp_path, noise="both", hours=HOURS, webhook=False, watched=False, **more
    ) as world:
        world.set_clock(0)
        first = world.start()
        hours(world, 1, 4)
        first.stop()
        backup = world.place.backup()
        second = world.start()
        hours(world, 5, HOURS)
        second.stop()
        newest = world.place.backup()
        world.place.restore(backup)
        refused = world.start()
        told = refused.until("refused")
        assert told, refused.told
        assert "restored from an old backup" in told["text"]
        refused.ended()
        world.place.restore(newest)
        world.set_clock(HOURS + 2)
        world.start()
        world.finish()
        world.check()
