"""Files are written whole or not at all, and a lock has one holder."""

from __future__ import annotations

import os
import stat

import pytest

from penstock.core.errors import ConfigurationError
from penstock.core.files import (
    check_secret_file,
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


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o602, 0o660, 0o666])
def test_a_secret_that_others_can_read_or_write_is_refused(tmp_path, monkeypatch, mode):
    path = tmp_path / "token"
    path.write_text("the content of the secret")
    path.chmod(mode)
    monkeypatch.setattr("penstock.core.files._ROOT", -1)  # tests may run as root
    with pytest.raises(
        ConfigurationError, match=rf"holds the token, .*\(mode {mode:04o}\)\. It was not read"
    ) as caught:
        check_secret_file(path, "token")
    assert "content" not in str(caught.value)


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_a_secret_of_its_owner_alone_is_accepted(tmp_path, mode):
    path = tmp_path / "token"
    path.write_text("secret")
    path.chmod(mode)
    check_secret_file(path, "token")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file of root")
def test_the_group_of_a_file_of_root_may_read_it_and_nobody_else(tmp_path):
    path = tmp_path / "token"
    path.write_text("secret")
    path.chmod(0o440)
    check_secret_file(path, "token")
    path.chmod(0o444)
    with pytest.raises(ConfigurationError, match="mode 0444"):
        check_secret_file(path, "token")


def test_a_missing_file_and_a_pipe_are_left_to_whoever_opens_them(tmp_path):
    check_secret_file(tmp_path / "nothing", "token")
    os.mkfifo(tmp_path / "pipe", 0o644)
    check_secret_file(tmp_path / "pipe", "token")
