"""Files are written whole or not at all, and a lock has one holder."""

from __future__ import annotations

import os
import stat

import pytest

from penstock.core.files import (
    make_folder,
    open_locked,
    remove_leftovers,
    replacing,
    write_file,
)


def test_a_file_is_on_the_disk_before_it_replaces_the_old_one(tmp_path, monkeypatch):
    order = []
    real_fsync, real_replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (order.append("fsync"), real_fsync(handle))[1])
    monkeypatch.setattr(
        os, "replace", lambda *paths: (order.append("replace"), real_replace(*paths))[1]
    )
    write_file(tmp_path / "a", b"new")
    assert order == ["fsync", "replace", "fsync"]
    write_file(tmp_path / "a", b"newer", durable=False)
    assert order == ["fsync", "replace", "fsync", "replace"]
    assert (tmp_path / "a").read_bytes() == b"newer"


def test_a_block_that_fails_leaves_the_old_file_and_nothing_beside_it(tmp_path):
    path = tmp_path / "a"
    write_file(path, b"old")

    def fails():
        with replacing(path) as fresh:
            fresh.write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fails()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_a_secret_file_is_readable_by_its_owner_only(tmp_path, mask):
    before = os.umask(mask)
    try:
        write_file(tmp_path / "a", b"secret", mode=0o600)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


def test_leftovers_of_killed_writers_are_removed_and_nothing_else(tmp_path):
    for name in (".a.0123abcd.new", "a.0123abcd.new", "a.new", "a", "b.new", ".b.0123abcd.new"):
        (tmp_path / name).touch()
    remove_leftovers(tmp_path / "a")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".b.0123abcd.new", "a", "b.new"]


def test_a_lock_has_one_holder_and_ends_when_it_is_closed(tmp_path):
    lock = open_locked(tmp_path / "lock")
    with pytest.raises(BlockingIOError):
        open_locked(tmp_path / "lock")
    os.close(lock)
    os.close(open_locked(tmp_path / "lock"))
    os.close(open_locked(tmp_path, os.O_RDONLY, wait=True))


def test_folders_are_made_with_their_parents(tmp_path):
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
