"""The bounding audit acquits what is shipped and convicts what is broken.

Streams are compared without noise. A test has no false alarms: no statistics are involved.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.errors import InputError
from penstock.lab.audit import bounding_audit as audited
from penstock.lab.audit.bounding import streams
from penstock.lab.audit.bounding.feeds import FEEDS
from penstock.lab.audit.bounding.streams import colliding_texts
from penstock.lab.audit.bounding.verdict import SENTENCES, BoundingVerdict
from penstock.lab.audit.bounding_audit import bounding_audit
from penstock.private import counting, person_ids
from penstock.private.bounding import Bounding
from penstock.private.counting import Counting, Events
from penstock.private.sources.base import Intake
from penstock.private.sources.idempotency import IdempotencyKeys
from penstock.private.units import Units


def texts(person):
    return [str(each) for each in person.tolist()]


class OneMore(Bounding):
    """Keeps L + 1 events."""

    def __init__(self, *, keys, contribution, fast=None):
        super().__init__(keys=keys, contribution=contribution + 1, fast=fast)


class ByArrival(Bounding):
    """Keeps the events that come first, not the earliest."""

    came = 0

    def add(self, person, key, time):
        first, self.came = self.came, self.came + len(key)
        super().add(person, key, np.arange(first, self.came))


class ByOthers(Bounding):
    """Keeps the latest events instead of the earliest where many people have come."""

    rows = 0

    def add(self, person, key, time):
        self.rows += len(key)
        super().add(person, key, -time if self.rows > 4 else time)

    def clear(self):
        self.rows = 0
        super().clear()


class SixteenBits(Bounding):
    """Knows a person by 16 bits."""

    def add(self, person, key, time):
        if isinstance(person, np.ndarray):
            person = person & 0xFFFF
        super().add(person, key, time)


class ByPrefix(Bounding):
    """Knows a person by the first eight letters."""

    def add(self, person, key, time):
        if person is not None and not isinstance(person, np.ndarray):
            person = pa.array([each[:8] for each in texts(person)])
        super().add(person, key, time)


class PerBatch(Bounding):
    """Bounds each batch by itself."""

    def add(self, person, key, time):
        alone = Bounding(keys=self.keys, contribution=self.contribution, fast=self.fast)
        alone.add(person, key, time)
        self._each += alone.counts()


class PerKey(Bounding):
    """Bounds each key of a person by itself."""

    def add(self, person, key, time):
        if person is not None:
            pairs = zip(texts(person), key.tolist(), strict=True)
            person = pa.array([f"{who}/{where}" for who, where in pairs], pa.string())
        super().add(person, key, time)


class Forgetful(Bounding):
    """Forgets who has come when it is restored."""

    def load(self, unit):
        super().load(unit)
        kept = self.counts()
        self.clear()
        self._each[:] = kept


class Picky(Bounding):
    """Fails where somebody has many events at once."""

    def add(self, person, key, time):
        if person is not None and len(key) > len(set(texts(person))) + 1:
            raise ValueError("too many events of one person")
        super().add(person, key, time)


BOUNDINGS = {
    OneMore: "bounded",
    ByArrival: "arrival",
    ByOthers: "own events",
    SixteenBits: "own events",
    ByPrefix: "own events",
    PerBatch: "bounded",
    PerKey: "bounded",
    Forgetful: "arrival",
    Picky: "failure",
}


QUICK_FEEDS = ("Arrow files", "Kafka, Avro", "MQTT")
"""Formats that take little time. What is broken below is broken in all of them."""


def judged(
    monkeypatch, *, rounds, feeds=QUICK_FEEDS, families=(), seed=2, most=12
) -> BoundingVerdict:
    """The verdict of few rounds, which end soon after the first violations."""
    monkeypatch.setattr(audited, "MAX_VIOLATIONS", most)
    monkeypatch.setattr(audited, "LARGE_EVERY", 10**6)
    monkeypatch.setattr(audited, "FEEDS", {name: FEEDS[name] for name in feeds})
    if families:
        make = streams.families
        monkeypatch.setattr(
            streams, "families", lambda rng: {each: make(rng)[each] for each in families}
        )
    return bounding_audit(seed=seed, rounds=rounds)


def broken(verdict):
    return {each.sentence for each in verdict.violations}


@pytest.mark.parametrize("cls", BOUNDINGS, ids=lambda cls: cls.__name__)
def test_a_broken_bounding_is_convicted(monkeypatch, cls):
    families = {SixteenBits: ["far apart"], ByPrefix: ["same beginning", "same hash"]}
    monkeypatch.setattr(counting, "Bounding", cls)
    verdict = judged(monkeypatch, rounds=40, families=families.get(cls, ()), most=20)
    assert (verdict.outcome, verdict.exit_code) == ("convicted", 1)
    assert BOUNDINGS[cls] in broken(verdict), [str(each) for each in verdict.violations]


def test_a_unit_that_ends_one_microsecond_early_is_convicted(monkeypatch):
    sort = Units.sort
    monkeypatch.setattr(Units, "sort", lambda self, times, now: sort(self, times + 1, now))
    verdict = judged(monkeypatch, rounds=60)
    assert verdict.convicted
    assert "elsewhere" in broken(verdict)


def test_a_late_event_that_counts_in_two_units_is_convicted(monkeypatch):
    count = Counting._count

    def twice(self, events):
        count(self, events)
        late = np.asarray(events.unit) > self.units.calendar.unit_of(events.time)
        if late.any():
            some = events.where(late)
            count(
                self,
                Events(unit=some.unit + 1, time=some.time, key=some.key, person=some.person),
            )

    monkeypatch.setattr(Counting, "_count", twice)
    verdict = judged(monkeypatch, rounds=60)
    assert verdict.convicted
    assert "elsewhere" in broken(verdict)


def test_a_source_that_drops_a_batch_for_one_bad_row_is_convicted(monkeypatch):
    batch = Intake.batch

    def strict(self, table, *, position, rejections):
        before = rejections.rows
        found = batch(self, table, position=position, rejections=rejections)
        if rejections.rows == before:
            return found
        return batch(self, table.slice(0, 0), position=position, rejections=rejections)

    monkeypatch.setattr(Intake, "batch", strict)
    verdict = judged(monkeypatch, rounds=20)
    assert verdict.convicted
    assert "one direction" in broken(verdict) or "elsewhere" in broken(verdict)


def test_a_request_that_counts_again_when_it_is_repeated_is_convicted(monkeypatch):
    monkeypatch.setattr(IdempotencyKeys, "body", lambda self, key: None)
    verdict = judged(monkeypatch, rounds=6, feeds=["HTTP bodies"])
    assert verdict.convicted
    assert {each.source for each in verdict.violations} == {"HTTP bodies"}


@pytest.mark.parametrize(
    ("error", "outcome"), [(RuntimeError("no counts"), "crashed"), (InputError("no"), "refused")]
)
def test_code_that_fails_for_everybody_is_not_judged(monkeypatch, error, outcome):
    class Failing(Bounding):
        def counts(self):
            raise error

    monkeypatch.setattr(counting, "Bounding", Failing)
    verdict = judged(monkeypatch, rounds=1)
    assert (verdict.outcome, verdict.exit_code, verdict.violations) == (outcome, 3, ())
    assert str(error) in verdict.sentence()


def test_what_is_shipped_is_acquitted_in_every_format(monkeypatch):
    verdict = judged(monkeypatch, rounds=len(FEEDS), feeds=FEEDS, seed=11)
    assert verdict.outcome == "acquitted", [str(each) for each in verdict.violations]
    assert verdict.exit_code == 0
    assert set(verdict.sources) == set(FEEDS)
    assert verdict.restarts > 0
    assert verdict.nearest is not None
    assert verdict.nearest.share == 1
    assert "Timing was not compared" in verdict.tried()
    assert json.loads(json.dumps(verdict.row()))["nearest"]["share"] == 1


@pytest.mark.nightly
def test_what_is_shipped_is_acquitted_with_fresh_seeds():
    for seed in range(3):
        verdict = bounding_audit(seed=seed)
        assert verdict.outcome == "acquitted", [str(each) for each in verdict.violations]
        assert verdict.most_persons > 65_536


def test_the_same_seed_gives_the_same_verdict(monkeypatch):
    monkeypatch.setattr(counting, "Bounding", OneMore)
    one, other = (judged(monkeypatch, rounds=2).row(seconds=False) for _ in range(2))
    assert one == other
    assert one["violations"][0]["meaning"] == SENTENCES["bounded"]


def test_texts_collide_as_they_should():
    one, other = colliding_texts(np.random.default_rng(0))
    assert one != other
    numbers = person_ids.IntegerIds()
    hashes = [
        person_ids.TextIds(numbers)._hashes_of(
            person_ids._words(np.frombuffer(text.encode() + bytes(8), np.uint8)),
            np.array([0]),
            np.array([16]),
        )
        for text in (one, other)
    ]
    assert hashes[0] == hashes[1]
