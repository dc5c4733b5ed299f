"""States that are stored in pieces: a piece that has not changed is not written again, and a state
is believed only with exactly its own pieces.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import count

import numpy as np
import pytest

from penstock.core.errors import StateError, StoreUnavailableError
from penstock.core.snapshot_piece import Piece
from penstock.engine.sql_store import SqlStore
from penstock.private import state
from penstock.private.mechanisms.pegasus import Pegasus
from penstock.private.mechanisms.tide import Tide
from penstock.private.noise import TestNoise
from penstock.released.series import Series

from tests.engine.places import KEY, KINDS, MARK, opened

KEYS = 6
PIECES = "secrets WHERE part LIKE 'piece %'"


@pytest.fixture(params=KINDS)
def place(request, tmp_path):
    with opened(request.param, tmp_path) as place:
        yield place


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Pieces of eight numbers, so that small streams have many."""
    monkeypatch.setattr(state, "PIECE_BYTES", 64)


def fresh(cls=Tide, **more):
    parameters = {"epsilon": "1", "window": 4} | ({"periods": (3, 6)} if cls is Tide else {})
    return cls(**parameters).run(KEYS, noise=TestNoise(3), **more)


def counts(unit):
    return [40 + 30 * (unit % 3), unit % 6 * 9, 0, 7, 0, 500 * (unit // 5 % 2)]


def stepped(run, units):
    for _ in range(units):
        run.step(counts(run.unit + 1))
    return run


def unit_of(run):
    """What a publisher commits of the newest unit."""
    saved = run.snapshot_in_pieces()
    return {
        "lines": [line for line in run.ledger if line.unit == run.unit],
        "release": run.last,
        "state": saved.head,
        "pieces": saved.pieces,
        "positions": {"events": run.unit},
    }


def commit(store, run, **more):
    stepped(run, 1)
    return store.commit("visits", run.unit, **unit_of(run) | more)


def begin(store, run, **more):
    store.begin(Series.of(run, name="visits"), **more)


def restored(store, cls=Tide):
    """A run that goes on from the store."""
    run, last = fresh(cls), store.last("visits")
    run.load(last.state, last.pieces)
    assert run.unit == last.unit
    return run


def filled(place, units, cls=Tide, **more):
    run = fresh(cls)
    with place.store(**more) as store:
        begin(store, run)
        for _ in range(units):
            commit(store, run)
    return run


def written(place):
    """Of each piece, the unit that wrote it."""
    return dict(place.rows(f"SELECT part, unit FROM {PIECES}"))


# -- what is written and comes back ----------------------------------------------------------------


@pytest.mark.parametrize("key", [None, KEY], ids=["clear", "sealed"])
@pytest.mark.parametrize("cls", [Tide, Pegasus])
def test_a_run_goes_on_from_pieces_as_if_nothing_had_happened(place, cls, key):
    straight = fresh(cls)
    for start in range(3):
        with place.store(key=key) as store:
            run = fresh(cls)
            begin(store, run)
            if start:
                run = restored(store, cls)
            for _ in range(2):
                commit(store, run)
                assert run.last.value.tolist() == stepped(straight, 1).last.value.tolist()
            assert restored(store, cls).snapshot() == straight.snapshot()


def test_pieces_that_have_not_changed_are_not_written_again(place):
    filled(place, 12, key=KEY)
    units = written(place)
    seasons = [unit for unit in units.values() if unit < 12]
    assert len(units) > 40
    assert len(seasons) > len(units) / 3
    assert 12 in units.values()


def test_secret_pieces_are_always_written(place):
    """Whether a secret piece has changed would tell those who see the table about the counts."""
    run = fresh(Pegasus)
    with place.store(key=KEY) as store:
        begin(store, run)
        for _ in range(4):
            run.step([0] * KEYS)
            store.commit("visits", run.unit, **unit_of(run))
    secret = {part: unit for part, unit in written(place).items() if part[6:13] == "secrets"}
    assert secret
    assert set(secret.values()) == {4}


def test_after_a_start_all_pieces_are_written(place):
    filled(place, 5)
    with place.store() as store:
        begin(store, fresh())
        commit(store, restored(store))
    assert set(written(place).values()) == {6}


def test_pieces_that_the_state_has_no_more_are_removed(place):
    run = filled(place, 3)
    with place.store() as store:
        begin(store, run)
        commit(store, run)
        left = dict(list(run.snapshot_in_pieces().pieces.items())[:5])
        commit(store, run, pieces=left)
        assert set(written(place)) == {"piece " + name for name in left}
        commit(store, run, state=b"whole", pieces=None)
        assert written(place) == {}
        commit(store, run)
        assert restored(store).snapshot() == run.snapshot()


def test_a_store_with_a_whole_snapshot_goes_on_in_pieces(place):
    run = fresh()
    with place.store(key=KEY) as store:
        begin(store, run)
        for _ in range(3):
            stepped(run, 1)
            whole = {"state": run.snapshot(), "pieces": None}
            store.commit("visits", run.unit, **unit_of(run) | whole)
        assert written(place) == {}
    with place.store(key=KEY) as store:
        begin(store, fresh())
        run = restored(store)
        for _ in range(3):
            commit(store, run)
        assert restored(store).snapshot() == run.snapshot()
    assert run.snapshot() == stepped(fresh(), 6).snapshot()


def test_pieces_are_sealed_when_a_key_is_given_later(place):
    run = filled(place, 4)
    with place.store(key=KEY) as store:
        begin(store, run)
        assert {key for (key,) in place.rows(f"SELECT key FROM {PIECES}")} == {KEY.id}
        again = restored(store)
        commit(store, again)
        commit(store, again)
        assert restored(store).snapshot() == stepped(run, 2).snapshot()
        assert store.verify("visits", key=KEY).head.unit == 6


def test_two_series_have_pieces_of_their_own(place):
    runs = {"visits": fresh(), "visits/daily": fresh(Pegasus)}
    with place.store() as store:
        for name, run in runs.items():
            store.begin(Series.of(run, name=name))
        for _ in range(4):
            with store.together():
                for name, run in runs.items():
                    stepped(run, 1)
                    store.commit(name, run.unit, **unit_of(run))
        for name, run in runs.items():
            last, again = store.last(name), fresh(type(run.mechanism))
            again.load(last.state, last.pieces)
            assert again.snapshot() == run.snapshot()


# -- pieces that do not belong to the state --------------------------------------------------------


@pytest.mark.parametrize("key", [None, KEY], ids=["clear", "sealed"])
def test_an_old_piece_is_refused(place, key):
    """The row of an earlier unit is put back, as it was."""
    run = fresh()
    with place.store(key=key) as store:
        begin(store, run)
        for _ in range(3):
            commit(store, run)
        old = dict(place.rows(f"SELECT part, content FROM {PIECES}"))
        for _ in range(3):
            commit(store, run)
    units = written(place)
    part = next(part for part, unit in units.items() if unit == 6 and "state" in part)
    place.tamper(
        f"UPDATE secrets SET content = x'{bytes(old[part]).hex()}', unit = 3 WHERE part = '{part}'"
    )
    with place.store(key=key) as store:
        begin(store, fresh())
        with pytest.raises(StateError, match="not the one that it was saved with"):
            restored(store)


@pytest.mark.parametrize("key", [None, KEY], ids=["clear", "sealed"])
def test_a_missing_piece_is_refused(place, key):
    filled(place, 6, key=key)
    place.tamper("DELETE FROM secrets WHERE part = 'piece state 0 1'")
    with place.store(key=key) as store:
        begin(store, fresh())
        with pytest.raises(StateError, match="a piece of this snapshot is missing"):
            restored(store)


@pytest.mark.parametrize(
    ("key", "message"),
    [(None, "not the one that it was saved with"), (KEY, "damaged, or of another stream or unit")],
    ids=["clear", "sealed"],
)
def test_a_piece_in_the_place_of_another_is_refused(place, key, message):
    filled(place, 6, key=key)
    units = written(place)
    assert units["piece state 0 0"] == units["piece state 0 1"]
    place.tamper(
        "DELETE FROM secrets WHERE part = 'piece state 0 1'",
        "UPDATE secrets SET part = 'piece state 0 1' WHERE part = 'piece state 0 0'",
    )
    with place.store(key=key) as store:
        begin(store, fresh())
        with pytest.raises(StateError, match=f"missing|{message}"):
            restored(store)


@pytest.mark.parametrize("what", ["unit = unit + 1", "content = x'00'"])
def test_a_sealed_piece_that_was_changed_is_refused(place, what):
    filled(place, 6, key=KEY)
    place.tamper(f"UPDATE secrets SET {what} WHERE part = 'piece state 0 1'")
    with place.store(key=KEY) as store:
        begin(store, fresh())
        with pytest.raises(StateError):
            restored(store)


# -- commits that fail -----------------------------------------------------------------------------


class Breaking:
    """Fails at one of the statements of a commit, each time at the next one."""

    def __init__(self, monkeypatch, store):
        self.place = self.done = 0
        for name in ("_execute", "_execute_many"):
            monkeypatch.setattr(store, name, self._counted(getattr(store, name)))

    def _counted(self, call):
        def counted(*values):
            self.done += 1
            if self.done == self.place:
                raise StoreUnavailableError("the disk is full.")
            return call(*values)

        return counted

    def at(self, place):
        self.place, self.done = place, 0


@pytest.mark.parametrize("key", [None, KEY], ids=["clear", "sealed"])
def test_a_commit_that_fails_at_any_statement_leaves_the_unit_before(place, monkeypatch, key):
    monkeypatch.setattr("penstock.engine.sql_store.sealed_state.PIECES_AT_ONCE", 12)
    run = fresh()
    with place.store(key=key) as store:
        begin(store, run)
        commit(store, run)
        breaking = Breaking(monkeypatch, store)
        for place_of_failure in count(1):
            before = run.snapshot()
            stepped(run, 1)
            breaking.at(place_of_failure)
            try:
                store.commit("visits", run.unit, **unit_of(run))
            except StoreUnavailableError:
                breaking.at(0)
                assert restored(store).snapshot() == before
                store.commit("visits", run.unit, **unit_of(run))
            else:
                break
        assert place_of_failure > 8
        assert restored(store).snapshot() == run.snapshot()
        assert store.verify("visits").head.unit == run.unit
    assert run.snapshot() == stepped(fresh(), run.unit).snapshot()


@pytest.mark.parametrize("fenced", [False, True])
def test_a_commit_of_which_nobody_knew_that_it_succeeded(place, monkeypatch, tmp_path, fenced):
    """The transaction is stored, and what follows it fails. A piece that is then as two units ago
    must be written all the same.
    """
    more = {"head": tmp_path / "heads.json"} if fenced else {}
    run = fresh()

    def pieces(number):
        named = {"state": np.full(12, number)}
        saved = state.encode_in_pieces(named, [])
        return {"state": saved.head, "pieces": saved.pieces}

    with place.store(key=KEY, **more) as store:
        begin(store, run)
        commit(store, run, **pieces(1))
        with monkeypatch.context() as patch:
            patch.setattr(SqlStore, "_note", lambda *_: (_ for _ in ()).throw(KeyError()))
            with pytest.raises(KeyError):
                commit(store, run, **pieces(2))
        store.settle(["visits"])
        commit(store, run, **pieces(1))
        last = store.last("visits")
        assert last.unit == 3
        assert set(state.decode(last.state, [], last.pieces)["state"]) == {1}


def test_a_transaction_of_several_that_fails_leaves_all_pieces(place):
    run = fresh()
    with place.store() as store:
        begin(store, run)
        for _ in range(3):
            commit(store, run)
        before = run.snapshot()
        stepped(run, 1)
        with suppress(KeyError), store.together():
            store.commit("visits", run.unit, **unit_of(run))
            raise KeyError
        assert restored(store).snapshot() == before
        with store.together():
            store.commit("visits", run.unit, **unit_of(run))
        store.settle(["visits"])
        assert restored(store).snapshot() == run.snapshot()
        commit(store, run)
        assert restored(store).snapshot() == run.snapshot()


def test_after_a_takeover_and_back_nothing_old_is_left_out(place):
    with place.store() as first, place.store() as second:
        run = fresh()
        begin(first, run)
        commit(first, run)
        commit(first, run)
        for store, other in ((second, first), (first, second)):
            begin(store, run, takeover=True)
            run = restored(store)
            for _ in range(3):
                commit(store, run)
            assert restored(store).snapshot() == run.snapshot()
            with pytest.raises(StateError, match="taken it over"):
                other.renew("visits")


# -- nothing stays behind --------------------------------------------------------------------------


def test_a_replaced_piece_leaves_no_trace_in_the_embedded_store(tmp_path):
    with opened("sqlite", tmp_path) as place, place.store() as store:
        run = fresh()
        begin(store, run)
        for unit in range(1, 6):
            marks = {
                f"secrets 0 {number}": Piece(
                    content=memoryview(b"%d of %s " % (unit, MARK) * 300 * number),
                    digest=bytes([unit]),
                    compared=number % 2 == 0,
                )
                for number in range(1, 9 - unit)
            }
            commit(store, run, pieces=marks)
            assert store.erase()
            files = b"".join(each.read_bytes() for each in tmp_path.iterdir() if each.is_file())
            found = [each for each in range(1, 6) if b"%d of %s" % (each, MARK) in files]
            assert found == [unit]
