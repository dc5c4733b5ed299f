"""Witnesses that are asked while a publisher is at work."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.engine.chain import Head, HeadFile
from penstock.engine.sqlite import SQLiteReader, SQLiteStore
from penstock.engine.witnesses import WitnessAnswer, contradictions

from tests.engine.places import KEY, commit, fresh, stream


class LateReader(SQLiteReader):
    """A reader that looks just before the publisher shows its newest unit."""

    meanwhile = staticmethod(lambda: None)

    def lease(self, series):
        self.meanwhile()
        return super().lease(series)


def test_a_head_that_is_a_moment_ahead_of_the_store_is_no_finding(tmp_path):
    noted, run = HeadFile(tmp_path / "heads"), fresh()
    with SQLiteStore(tmp_path / "city.db", head=noted.path) as store:
        store.begin(stream(run))
        commit(store, run)
        with store.together():
            head = commit(store, run)
        before = noted.read()
        noted.swap(before, {"visits": head})
        answer = WitnessAnswer(witness="the head file", heads=noted.read())
        with LateReader(store.path) as reader:
            reader.meanwhile = lambda: store.settle(["visits"])
            assert contradictions(reader, answer) == {}


@pytest.mark.parametrize("key", [None, KEY])
def test_a_unit_that_a_crashed_publisher_has_stored_is_no_finding_unless_it_differs(tmp_path, key):
    noted, run = HeadFile(tmp_path / "heads"), fresh()
    with SQLiteStore(tmp_path / "city.db", head=noted.path, key=key) as store:
        store.begin(stream(run))
        commit(store, run)
        with store.together():
            head = commit(store, run)
    answer = WitnessAnswer(witness="the head file", heads={"visits": head})
    with SQLiteReader(tmp_path / "city.db") as reader:
        assert contradictions(reader, answer, key=key) == {}
        assert reader.verify("visits", key=key).head.unit == 1
        assert bool(contradictions(reader, answer)) is (key is not None)
        other = replace(answer, heads={"visits": Head(2, bytes(32))})
        assert contradictions(reader, other, key=key)


def test_a_head_that_is_ahead_of_a_store_without_a_publisher_is_a_finding(tmp_path):
    run = fresh()
    with SQLiteStore(tmp_path / "city.db") as store:
        store.begin(stream(run))
        commit(store, run)
    answer = WitnessAnswer(witness="the head file", heads={"visits": Head(2, bytes(32))})
    with SQLiteReader(tmp_path / "city.db") as reader:
        found = contradictions(reader, answer)
    assert "ends with unit 1, and the head file is of unit 2" in found["visits"]
