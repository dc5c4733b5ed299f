"""What the committer does with a store that fails: the store is real, and its failures are made."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from penstock.core.errors import PenstockError, StateError, StoreUnavailableError
from penstock.engine import committer
from penstock.engine.pipeline import Pipeline
from penstock.engine.process import Process
from penstock.engine.publisher import Publisher
from penstock.engine.sqlite import SQLiteReader, SQLiteStore
from penstock.engine.store import LeaseError
from penstock.testing import NoNoise, TestNoise

from tests.engine import streams


class FailingStore(SQLiteStore):
    """Raises errors around some transactions: before them, or after they are committed."""

    def __init__(self, path):
        super().__init__(path)
        self.before, self.after = [], []
        self.contents = []

    @contextmanager
    def together(self):
        if self.before:
            raise self.before.pop(0)
        with super().together():
            yield
        if self.after:
            raise self.after.pop(0)

    def commit(self, series, unit, **content):
        self.contents.append((unit, content["release"].value.tolist(), content["state"]))
        super().commit(series, unit, **content)

    def renew(self, series):
        if self.before:
            raise self.before.pop(0)
        super().renew(series)


@pytest.fixture
def made(tmp_path, monkeypatch):
    monkeypatch.setattr(committer, "RETRY_SECONDS", (0.001, 0.001))
    streams.parquet(tmp_path / "taps.parquet", streams.events())
    content = streams.pipeline(stream={"until": "2026-01-01T12:00Z"})
    return Pipeline.of(content, folder=tmp_path)


@pytest.fixture
def store(tmp_path):
    with FailingStore(tmp_path / "taps.db") as store:
        yield store


def publisher_of(made, store, **more):
    noises = (TestNoise(seed) for seed in range(1, 100))
    return Publisher(made, store=store, noise=lambda: next(noises), **more)


def numbers(store):
    with SQLiteReader(store.path) as reader:
        assert reader.verify("taps").account.kept
        return np.array([release.value for release in reader.releases("taps")]).tolist()


def test_an_unavailable_store_gets_the_same_content_again(made, store):
    told = []
    store.before = [StoreUnavailableError("taps.db is locked.")] * 2
    store.before += [StoreUnavailableError("taps.db is full.")]
    with publisher_of(made, store, listener=told.append) as publisher:
        assert publisher.run()
        assert publisher.problem == ""
    assert [each.text for each in told if each.kind == "store"] == [
        "taps.db is locked. The same content is tried again.",
        "taps.db is full. The same content is tried again.",
        "the store is available again.",
    ]
    assert len(numbers(store)) == 12


@pytest.mark.parametrize(
    "error",
    [StateError("taps.db is damaged."), LeaseError("somebody else publishes.")],
    ids=["damaged", "lease"],
)
def test_every_other_error_stops_at_once(made, store, error):
    store.before = [error]
    with publisher_of(made, store) as publisher:
        with pytest.raises(type(error), match=str(error)):
            publisher.run()
        assert (publisher.state, publisher.problem) == ("failed", str(error))
    assert store.contents == []
    assert store.head("taps").unit == 0


def test_a_commit_whose_answer_was_lost_is_found_and_not_repeated(made, store):
    store.after = [StoreUnavailableError("the connection was lost.")]
    with publisher_of(made, store) as publisher:
        assert publisher.run()
    assert [unit for unit, *_ in store.contents] == list(range(1, 13))
    assert numbers(store) == [values for _, values, _ in store.contents]


def test_a_finite_input_loses_patience(made, store):
    store.before = [StoreUnavailableError("taps.db is locked.")] * 100
    with publisher_of(made, store, patience=0.02) as publisher:
        with pytest.raises(StoreUnavailableError, match="is locked"):
            publisher.run()
        assert publisher.problem == "taps.db is locked."
    assert store.contents == []


def test_a_unit_with_other_numbers_is_another_publishers(made, store):
    """The commit fails, and meanwhile somebody else has released the unit."""
    with publisher_of(made, store) as publisher:
        publisher.progress.count_replayed(next(publisher.source.batches()), publisher.clock.end)
        publisher.clock.finish()
        assert publisher.loop.draw(publisher.clock.now())
        view = publisher.views[0]
        mine = view.prepared
        other = replace(mine.release, value=mine.release.value + 1)
        store.commit(
            "taps",
            mine.unit,
            lines=mine.lines,
            release=other,
            state=mine.state.head,
            positions={"source": None},
            private={},
        )
        store.before = [StoreUnavailableError("the connection was lost.")]
        with pytest.raises(LeaseError, match="unit 1 of 'taps' was released by another publisher"):
            publisher.loop.commit()


def test_a_lease_that_cannot_be_renewed_is_renewed_later(made, store, monkeypatch):
    told = []
    with publisher_of(made, store, listener=told.append) as publisher:
        leases = publisher.committer.leases
        leases._tried = leases._confirmed = leases._confirmed - committer.LEASE_SECONDS
        assert not leases.held
        store.before = [StoreUnavailableError("taps.db is locked.")]
        leases.renew_if_due()
        assert not leases.held
        assert told[-1].text == "taps.db is locked. The lease is renewed later."
        leases._tried = 0.0
        leases.renew_if_due()
        assert leases.held
        leases._tried = 0.0
        store.before = [LeaseError("somebody else publishes.")]
        with pytest.raises(LeaseError):
            leases.renew_if_due()


# -- the start -------------------------------------------------------------------------------------


@pytest.fixture
def locked(tmp_path, monkeypatch):
    """A store that another program holds, alone, until it is closed."""
    SQLiteStore(tmp_path / "taps.db").close()
    monkeypatch.setitem(SQLiteStore.__init__.__kwdefaults__, "wait", 0.01)
    other = sqlite3.connect(tmp_path / "taps.db", isolation_level=None, check_same_thread=False)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    yield other
    other.close()


@pytest.mark.parametrize("kind", ["publisher", "process"])
def test_a_start_waits_for_a_store_that_somebody_holds(made, locked, kind):
    told = []

    def listen(notice):
        told.append((notice.kind, notice.level, notice.text))
        locked.close()

    if kind == "publisher":
        with Publisher(made, noise=NoNoise, listener=listen) as publisher:
            assert publisher.run()
    else:
        with Process([made], noise=NoNoise, listener=listen) as process:
            (publisher,) = process.publishers
            process.start()
            while not process.wait(1):
                pass
            assert not process.failures
    assert publisher.views[0].closed == 12
    stores = [(level, text) for kind, level, text in told if kind == "store"]
    assert stores == [
        ("warning", stores[0][1]),
        ("info", "the store is available again."),
    ]
    assert stores[0][1].endswith(" The publisher waits for it.")


def test_a_start_loses_patience_with_a_finite_input(made, locked):
    with pytest.raises(StoreUnavailableError, match="locked"):
        Publisher(made, noise=NoNoise, patience=0.01)


def test_a_mistake_is_not_waited_for(made, tmp_path):
    (tmp_path / "taps.db").write_text("this is no database" * 100)
    told = []
    with pytest.raises(PenstockError) as caught:
        Publisher(made, noise=NoNoise, listener=told.append)
    assert not isinstance(caught.value, StoreUnavailableError)
    assert told == []
