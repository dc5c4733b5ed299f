"""Following a stream: every release once, through lost connections, never from an older copy."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing

import numpy as np
import pytest

import penstock as ps
from penstock.client import live_events, remote_reader
from penstock.core.errors import ConfigurationError, StateError
from penstock.engine.sqlite import SQLiteReader
from penstock.service import live
from penstock.service.options import ServiceOptions
from penstock.service.server import ServiceServer
from penstock.testing import NoNoise


class Growing:
    """A store that grows, and a service over it that can be stopped and started again."""

    def __init__(self, folder):
        self.folder, self.path = folder, folder / "taps.db"
        self._run = ps.Uniform(epsilon=1, window=3).run(["north", "south"], noise=NoNoise())
        self._log = ps.open_log(self.path, self._run, name="taps")
        self._port, self._service = 0, None

    def grow(self, units=1):
        for _ in range(units):
            unit = self._run.unit + 1
            self._log.append(self._run.step([unit, 10 * unit]))
        if self._service is not None:
            self._service.wake()

    def start(self, path=None):
        options = ServiceOptions(listen=f"127.0.0.1:{self._port}")
        store = path or self.path
        self._service = ServiceServer(
            options, [lambda: SQLiteReader(store)], self.folder / f"copies of {store.stem}"
        )
        self._service.start()
        self._port = int(self._service.url.rpartition(":")[2])
        return self._service.url

    def stop(self):
        if self._service is not None:
            self._service.close()
            self._service = None

    def close(self):
        self.stop()
        self._log.close()


@pytest.fixture
def growing(tmp_path, monkeypatch):
    monkeypatch.setattr(live, "RETRY_MILLISECONDS", 20)
    monkeypatch.setattr(live_events, "FIRST_WAIT", 0.02)
    found = Growing(tmp_path)
    found.grow(3)
    yield found
    found.close()


def test_new_releases_come_one_after_the_other(growing):
    with ps.connect(growing.start()) as stream:
        followed = stream.follow()
        for unit in range(4, 8):
            growing.grow()
            release = next(followed)
            assert (release.unit, release.value.tolist()) == (unit, [unit, 10 * unit])
            assert stream.units == range(1, unit + 1)
        growing.grow(5)
        assert [next(followed).unit for _ in range(5)] == [8, 9, 10, 11, 12]


def test_past_releases_come_first_if_they_are_asked_for(growing):
    with ps.connect(growing.start()) as stream:
        followed = stream.follow(after=1)
        assert [next(followed).unit for _ in range(2)] == [2, 3]
        growing.grow()
        assert next(followed).unit == 4
        with pytest.raises(ConfigurationError, match="the newest is 4"):
            stream.follow(after=5)


def test_one_key_and_filtered_numbers_can_be_followed(growing):
    with ps.connect(growing.start()) as stream:
        south, smooth = stream["south"].follow(), stream.filtered().follow()
        growing.grow()
        assert next(south).value.tolist() == [40]
        release = next(smooth)
        assert (release.unit, release.kind) == (4, "filtered")
        assert np.array_equal(release.estimate, stream.filtered()[4].estimate)


def test_events_may_come_after_newer_units_are_known(growing):
    with ps.connect(growing.start()) as stream:
        followed = stream.follow()
        growing.grow()
        assert next(followed).unit == 4
        growing.grow(6)
        with SQLiteReader(growing.path) as reader:
            while stream.refresh() != reader.head("taps"):
                pass
        assert [next(followed).unit for _ in range(6)] == list(range(5, 11))
        assert stream.units == range(1, 11)


def test_a_lost_connection_is_opened_again_and_nothing_is_left_out(growing):
    with ps.connect(growing.start()) as stream:
        followed = stream.follow()
        growing.grow()
        assert next(followed).unit == 4
        for last in (7, 10):
            growing.stop()
            growing.grow(3)
            growing.start()
            assert [next(followed).unit for _ in range(3)] == [last - 2, last - 1, last]
        growing.grow()
        assert next(followed).unit == 11


def test_an_older_copy_is_an_error_and_gives_nothing(growing, tmp_path):
    with ps.connect(growing.start()) as stream:
        older = tmp_path / "older.db"
        with closing(sqlite3.connect(growing.path)) as file, closing(sqlite3.connect(older)) as to:
            file.backup(to)
        followed = stream.follow()
        growing.grow(2)
        assert [next(followed).unit for _ in range(2)] == [4, 5]
        growing.stop()
        growing.start(older)
        with pytest.raises(StateError, match=r"older history of 'taps' .* up to unit 5"):
            next(followed)
        with pytest.raises(StateError, match="ends with unit 3, and unit 5 was seen"):
            stream.refresh()


def test_another_history_is_noticed(growing, tmp_path, monkeypatch):
    monkeypatch.setattr(remote_reader, "HEAD_SECONDS", 0.0)
    with ps.connect(growing.start()) as stream:
        followed = stream.follow(after=0)
        assert [next(followed).unit for _ in range(3)] == [1, 2, 3]
        growing.stop()
        (tmp_path / "again").mkdir()
        rewritten = Growing(tmp_path / "again")
        rewritten._log.append(rewritten._run.step([100, 100]))
        rewritten.grow(4)
        growing.start(rewritten.path)
        with pytest.raises(ps.LedgerError, match="is not what it was before"):
            next(followed)
        rewritten.close()


def test_closing_ends_the_iteration(growing):
    stream = ps.connect(growing.start())
    followed = stream.follow(after=2)
    assert next(followed).unit == 3
    ended = threading.Event()

    def read():
        list(followed)
        ended.set()

    reader = threading.Thread(target=read)
    reader.start()
    growing.grow()
    stream.close()
    reader.join(30)
    assert ended.is_set()


def test_a_token_that_is_wrong_meanwhile_is_an_error(growing):
    with ps.connect(growing.start()) as stream:
        followed = stream.follow()
        growing.stop()
        options = ServiceOptions(
            listen=f"127.0.0.1:{growing._port}", token="another-token-of-24-char"
        )
        with (
            ServiceServer(options, [lambda: SQLiteReader(growing.path)], growing.folder / "copies"),
            pytest.raises(ConfigurationError, match="wants the token"),
        ):
            next(followed)
