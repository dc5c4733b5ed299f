"""The simulated disk loses what a disk may lose, and nothing else."""

from __future__ import annotations

from random import Random

import pytest

from tests.simulation.disk import SECTOR, Disk, Inode, content_of

OLD, NEW = b"o" * 3 * SECTOR, b"n" * 3 * SECTOR


@pytest.fixture
def disk(tmp_path):
    return lambda seed: Disk(tmp_path, Random(seed), f"disk{seed}")


def put(disk, name, content, *, offset=0):
    inode = disk.inode(name)
    path = disk.folder / name
    whole = bytearray(content_of(path) if path.exists() else b"")
    whole[offset : offset + len(content)] = content
    path.write_bytes(whole)
    inode.wrote(offset, len(content))
    return inode


def test_what_is_synced_survives_every_power_cut(disk):
    for seed in range(50):
        made = disk(seed)
        put(made, "file", OLD).sync(OLD)
        made.sync_folder()
        put(made, "other", NEW)
        made.cut_power()
        assert content_of(made.folder / "file") == OLD
        assert not made.lost_promised


def test_each_sector_that_is_not_synced_is_the_old_or_the_new_one(disk):
    found = set()
    for seed in range(60):
        made = disk(seed)
        put(made, "file", OLD).sync(OLD)
        made.sync_folder()
        put(made, "file", NEW)
        made.cut_power()
        left = content_of(made.folder / "file")
        sectors = [left[at : at + SECTOR] for at in range(0, len(left), SECTOR)]
        assert len(left) == len(OLD)
        assert all(sector in (OLD[:SECTOR], NEW[:SECTOR]) for sector in sectors)
        found.add(left)
    assert {OLD, NEW} < found, "torn contents come too"


def test_a_name_is_certain_after_the_folder_is_synced(disk):
    kept = 0
    for seed in range(40):
        made = disk(seed)
        put(made, "file", OLD).sync(OLD)
        made.cut_power()
        kept += (made.folder / "file").exists()
    assert 0 < kept < 40


def test_a_rename_leaves_the_old_or_the_new_content(disk):
    found = set()
    for seed in range(40):
        made = disk(seed)
        put(made, "file", OLD).sync(OLD)
        made.sync_folder()
        put(made, "fresh", NEW).sync(NEW)
        (made.folder / "fresh").replace(made.folder / "file")
        made.renamed("fresh", "file")
        made.cut_power()
        found.add(content_of(made.folder / "file"))
    assert found == {OLD, NEW}


def test_a_lying_sync_is_known_when_its_promise_is_lost(disk):
    lost = 0
    for seed in range(40):
        made = disk(seed)
        put(made, "file", OLD).sync(OLD)
        made.sync_folder()
        put(made, "file", NEW).sync(NEW, lie=True)
        made.cut_power()
        assert made.lost_promised == (content_of(made.folder / "file") != NEW)
        lost += made.lost_promised
    assert 0 < lost < 40


def test_after_a_failed_sync_the_next_one_does_not_bring_the_sectors_back():
    kept = set()
    for seed in range(40):
        inode = Inode(bytearray(OLD))
        inode.wrote(0, len(NEW))
        inode.sync_failed(NEW, Random(seed))
        inode.sync(NEW)
        kept.add(bytes(inode.durable))
    assert OLD in kept
    assert NEW in kept
