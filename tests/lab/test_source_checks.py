"""Every kind of source of ours passes the checks, and a broken one fails the right one."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.core.errors import InputError
from penstock.lab.checks import CheckError
from penstock.lab.source_checks import (
    SOURCE_CHECKS,
    check_a_foreign_position_is_refused,
    check_bad_events_are_rejected_alone,
    check_every_event_is_given_once,
    check_it_resumes_from_every_position,
    check_messages_show_no_data,
    check_positions_are_plain_data,
    check_the_declaration_is_complete,
    run_source_checks,
)
from penstock.private.sources import csv, jsonl, kafka, stdin
from penstock.private.sources.base import Rejections, Source
from penstock.private.sources.registry import SOURCES

KAFKA = os.environ.get("PENSTOCK_TEST_KAFKA")
ELSEWHERE = {
    "http": "tests/private/sources/test_http.py sends to it",
    "mqtt": "tests/private/sources/test_mqtt.py sends to it",
}
"""Kinds whose events cannot be put anywhere before the source listens."""


def piped():
    """Standard input, of a file that holds the events."""

    def trial(folder: Path, part: int, events):
        with (folder / "events.jsonl").open("a") as file:
            file.writelines(json.dumps(event._asdict()) + "\n" for event in events)
        return {"format": "jsonl"}

    def build(setup):
        opened = (setup.folder / "events.jsonl").open("rb")
        return stdin.StdinSource(format=jsonl.JsonLinesFormat(), intake=setup.intake, stream=opened)

    return replace(stdin.KIND, trial=trial, build=build)


def brokered():
    """A topic of its own for every folder."""
    from confluent_kafka import Producer

    topics: dict[Path, str] = {}

    def trial(folder: Path, part: int, events):
        topic = topics.setdefault(folder, f"checks_{secrets.token_hex(6)}")
        producer = Producer({"bootstrap.servers": KAFKA})
        for event in events:
            producer.produce(topic, json.dumps(event._asdict()), partition=0)
        producer.flush()
        return {"servers": KAFKA, "topic": topic}

    return replace(kafka.KIND, trial=trial)


def kinds():
    for name, kind in SOURCES.own.items():
        if name in ELSEWHERE:
            yield pytest.param(None, id=name, marks=pytest.mark.skip(reason=ELSEWHERE[name]))
        elif name == "kafka":
            reason = "PENSTOCK_TEST_KAFKA is not set: `.ci/services` starts it"
            mark = pytest.mark.skipif(KAFKA is None, reason=reason)
            yield pytest.param(brokered, id=name, marks=mark)
        else:
            yield pytest.param(piped if name == "stdin" else lambda kind=kind: kind, id=name)


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.parametrize("made", [*kinds()])
def test_every_kind_of_ours_passes(made):
    results = run_source_checks(made(), quick=True)
    assert [result.message for result in results if not result.ok] == []
    assert len(results) == len(SOURCE_CHECKS)


@pytest.mark.parametrize("kind", SOURCES.own.values(), ids=lambda kind: kind.name)
def test_every_declaration_is_complete(kind):
    check_the_declaration_is_complete(kind)


class Wrapped(Source):
    """A source of CSV files that is broken in one way."""

    resumable = True

    def __init__(self, inner):
        self.inner, self.rejections = inner, Rejections()

    def batches(self, after=None):
        return self.inner.batches(after)


def broken(cls):
    return replace(csv.KIND, build=lambda setup: cls(csv.KIND.build(setup)))


class Forgetful(Wrapped):
    def batches(self, after=None):
        for number, batch in enumerate(self.inner.batches(after)):
            if number != 1:
                yield batch


class StartsOver(Wrapped):
    def batches(self, after=None):
        return self.inner.batches()


class Fractional(Wrapped):
    def batches(self, after=None):
        return (replace(batch, position={"share": 0.5}) for batch in self.inner.batches(after))


class Fussy(Wrapped):
    def batches(self, after=None):
        yield from self.inner.batches(after)
        if self.inner.rejections.for_operator():
            raise InputError("something is bad.")


class Talkative(Wrapped):
    def __repr__(self):
        return "<Talkative, last of person p4711>"


@pytest.mark.parametrize(
    ("cls", "check", "said"),
    [
        (Forgetful, check_every_event_is_given_once, "5 events are lost and 0 too many, of 15"),
        (StartsOver, check_it_resumes_from_every_position, "0 events are lost and 5 too many"),
        (StartsOver, check_a_foreign_position_is_refused, "of another source gave"),
        (Fractional, check_positions_are_plain_data, "texts and whole numbers only"),
        (Fussy, check_bad_events_are_rejected_alone, None),
        (Talkative, check_messages_show_no_data, "the id of a person appears"),
    ],
)
def test_a_broken_source_is_found(cls, check, said):
    with pytest.raises((CheckError, InputError), match=said):
        check(broken(cls), quick=True)


def test_a_kind_without_a_trial_says_so():
    (result, *_) = [
        each for each in run_source_checks(kafka.KIND, quick=True) if "once" in each.name
    ]
    assert not result.ok
    assert "has no trial" in result.message
