"""A copy by key gives the tables that the log gives, and is made again where it is damaged."""

from __future__ import annotations

import logging
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import Mechanism, Tide, Uniform, open_log
from penstock.core.errors import LedgerError
from penstock.engine.sqlite import SQLiteReader
from penstock.engine.store import SeriesLog
from penstock.private.mechanisms.eshp import WeightedHistogram
from penstock.private.mechanisms.fast import FilteredSampling
from penstock.released.queries import Alerts, Jump, SlidingSum, UnitCounts
from penstock.released.queries.query import chunks
from penstock.released.release_table import ReleaseTable
from penstock.service import key_copy
from penstock.service.key_copy import CopiedLog, KeyCopy
from penstock.testing import TestNoise

from tests.released.queries.test_chosen_keys import QUERIES, equal
from tests.released.streams import MECHANISMS

ALL: dict[str, Mechanism] = {
    **MECHANISMS,
    "tide": Tide(epsilon=2, window=3, periods=(4,)),
    "eshp": WeightedHistogram(epsilon=1, gamma="0.9", span=10),
    "fast": FilteredSampling(epsilon=4, window=10, sampled="1/2"),
}
KEYS, UNITS, BLOCK = 5, 21, 8


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch):
    monkeypatch.setattr(key_copy, "UNITS_PER_BLOCK", BLOCK)


class Growing:
    """A release log in a file, to which units are added."""

    def __init__(self, path: Path, mechanism: Mechanism, seed: int = 1) -> None:
        self._rng = np.random.default_rng(seed)
        self._run = mechanism.run(KEYS, noise=TestNoise(seed))
        self._log = open_log(path, self._run, name="taps")

    def grow(self, units: int) -> None:
        for _ in range(units):
            self._log.append(self._run.step(self._rng.poisson(self._rng.integers(0, 60, KEYS))))

    def close(self) -> None:
        self._log.close()


@pytest.fixture
def store(tmp_path):
    """A store of 21 units: two full blocks and an open one."""
    log = Growing(tmp_path / "taps.db", Uniform(epsilon=1, window=3))
    log.grow(UNITS)
    log.close()
    return tmp_path / "taps.db"


def same(one: ReleaseTable, other: ReleaseTable) -> None:
    for name, left in vars(one).items():
        right = getattr(other, name)
        if isinstance(left, np.ndarray):
            assert (left.shape, left.dtype) == (right.shape, right.dtype), name
            assert np.array_equal(left, right), name
        else:
            assert left == right, name


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ALL)
def test_the_copy_has_the_tables_of_the_log(mechanism, tmp_path):
    log = Growing(tmp_path / "taps.db", ALL[mechanism])
    log.grow(UNITS)
    with SQLiteReader(tmp_path / "taps.db") as reader:
        copy, plain = KeyCopy(reader, "taps", tmp_path / "copy"), SeriesLog(reader, "taps")
        assert copy.follow()

        @settings(max_examples=25, deadline=None)
        @given(st.data())
        def check(data):
            first = data.draw(st.integers(1, UNITS))
            last = data.draw(st.integers(first, UNITS))
            keys = st.lists(st.integers(0, KEYS - 1), unique=True)
            places = data.draw(st.none() | keys.map(lambda chosen: np.array(chosen, np.int64)))
            same(copy.table(first, last, places), plain.table(first, last, places))

        check()
    log.close()


def test_queries_are_answered_from_the_copy(store, tmp_path):
    with SQLiteReader(store) as reader:
        copy, plain = KeyCopy(reader, "taps", tmp_path / "copy"), SeriesLog(reader, "taps")
        copy.follow(BLOCK + 3)
        log = CopiedLog(reader, "taps", copy)
        for query in (UnitCounts(), SlidingSum(4)):  # partly copied: the rest is read in the store
            equal(query.series(log), query.series(plain))
        copy.follow()
        for query in (UnitCounts(), SlidingSum(4)):
            equal(query.series(log, keys=["3", "0"]), query.series(plain, keys=["3", "0"]))
        jumps = Jump(3, 5)
        equal(jumps.series(log).statistic, jumps.series(plain).statistic)


@pytest.mark.parametrize("mechanism", ALL)
def test_answers_are_the_same_in_larger_parts(mechanism, tmp_path, monkeypatch):
    """The log is read in three parts here, counts of the copy at once."""
    monkeypatch.setattr("penstock.released.queries.query.MAX_NUMBERS_HELD", 17 * KEYS)
    log = Growing(tmp_path / "taps.db", ALL[mechanism])
    log.grow(40)
    with SQLiteReader(tmp_path / "taps.db") as reader:
        copy, plain = KeyCopy(reader, "taps", tmp_path / "copy"), SeriesLog(reader, "taps")
        copy.follow()
        copied = CopiedLog(reader, "taps", copy)
        assert len(chunks(plain, 1, 40, 1)) == 3
        assert len(chunks(copied, 1, 40, 1, width=copied.width_of(1))) == 1
        for query in QUERIES:
            if query.why_not(plain):
                continue
            one, other = (query.series(each, keys=["3"]) for each in (copied, plain))
            if isinstance(one, Alerts):
                one, other = one.statistic, other.statistic
            equal(one, other)
    log.close()


def test_the_copy_follows_the_log_and_goes_on_after_a_restart(tmp_path):
    log = Growing(tmp_path / "taps.db", Uniform(epsilon=1, window=3))
    with SQLiteReader(tmp_path / "taps.db") as reader:
        copy = KeyCopy(reader, "taps", tmp_path / "copy")
        assert copy.follow()
        for units in (3, 4, 1, 9, 4):
            log.grow(units)
            assert not copy.follow(1) or units == 1
            assert copy.follow()
            assert copy.head == reader.head("taps")
            again = KeyCopy(reader, "taps", tmp_path / "copy")
            assert again.head == reader.at("taps", copy.head.unit // BLOCK * BLOCK)
            again.follow()
            everything = (1, copy.head.unit)
            same(again.table(*everything), SeriesLog(reader, "taps").table(*everything))
    log.close()


def damaged(folder: Path, name: str) -> None:
    path = folder / "00000001" / name
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


DAMAGES = {
    "a number": lambda folder: damaged(folder, "value.npy"),
    "a link": lambda folder: damaged(folder, "about.json"),
    "a file": lambda folder: (folder / "00000001" / "layers.npy").unlink(),
    "its order": lambda folder: (folder / "00000000").rename(folder / "00000001"),
    "leftovers": lambda folder: shutil.copytree(folder / "00000000", folder / "00000002.new"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_copy_is_made_again(damage, store, tmp_path, caplog):
    folder = tmp_path / "copy"
    with SQLiteReader(store) as reader:
        copy = KeyCopy(reader, "taps", folder)
        copy.follow()
        want = copy.table(1, UNITS)
        if damage == "its order":
            shutil.rmtree(folder / "00000001")
        DAMAGES[damage](folder)
        with caplog.at_level(logging.WARNING):
            again = KeyCopy(reader, "taps", folder)
        again.follow()
        same(again.table(1, UNITS), want)
        assert {path.name for path in folder.iterdir()} == {"00000000", "00000001"}
        assert ("is made again from unit 9 on" in caplog.text) == (
            damage in ("a number", "a link", "a file")
        )


def test_the_copy_of_another_store_is_made_again(store, tmp_path):
    other = Growing(tmp_path / "other.db", Uniform(epsilon=1, window=3), seed=2)
    other.grow(UNITS)
    other.close()
    with SQLiteReader(store) as reader:
        KeyCopy(reader, "taps", tmp_path / "copy").follow()
    with SQLiteReader(tmp_path / "other.db") as reader:
        copy = KeyCopy(reader, "taps", tmp_path / "copy")
        assert copy.head.unit == 0
        copy.follow()
        same(copy.table(1, UNITS), SeriesLog(reader, "taps").table(1, UNITS))


def test_a_unit_that_was_changed_is_not_copied(store, tmp_path):
    database = sqlite3.connect(store)
    database.execute("UPDATE releases SET body = substr(body, 1, 20) || x'00' WHERE unit = 12")
    database.commit()
    database.close()
    with SQLiteReader(store) as reader:
        copy = KeyCopy(reader, "taps", tmp_path / "copy")
        with pytest.raises(LedgerError, match="unit 12 is not what was committed"):
            copy.follow()
        assert copy.head.unit == 11
