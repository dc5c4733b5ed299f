"""`penstock alerts`: what was raised, the rules, and rules on trial."""

from __future__ import annotations

import json

import pytest

from penstock.engine.pipeline import Pipeline
from penstock.engine.publisher import Publisher
from penstock.testing import NoNoise

from tests.cli.outcome import Outcome
from tests.engine import streams

BUSY = {"name": "busy", "above": 32, "clear": 28}


def published(folder, *rules):
    streams.parquet(folder / "taps.parquet", streams.events())
    content = streams.pipeline(stream={"until": "2026-01-01T12:00Z"}, alert=list(rules))
    with Publisher(Pipeline.of(content, folder=folder), noise=NoNoise) as publisher:
        assert publisher.run()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    published(tmp_path, BUSY)
    return tmp_path


def shown(capsys, *tokens):
    done = Outcome(capsys, "alerts", "taps.db", *tokens)
    assert done.code == 0, done.err
    return done.out


def test_alerts_are_listed_with_their_numbers(folder, capsys):
    found = json.loads(shown(capsys, "--json"))
    assert {each["state"] for each in found} == {"raised", "cleared"}
    later = json.loads(shown(capsys, "--json", "--last", "3h"))
    assert later == [each for each in found if each["unit"] >= 10]
    table = shown(capsys)
    assert found[-1]["key"] in table
    assert "busy" in table


def test_rules_show_what_is_raised_now(folder, capsys):
    (rule,) = json.loads(shown(capsys, "--rules", "--json"))
    assert rule["words"] == "counts: a key is raised at 32 or more and cleared below 28"
    assert (rule["since"], rule["unit"]) == (1, 12)
    assert rule["raised"]
    assert "busy" in shown(capsys, "--rules")


def test_a_trial_finds_what_the_publisher_found(folder, capsys):
    found = json.loads(shown(capsys, "--json"))
    (tried,) = json.loads(shown(capsys, "--try", "--json"))
    assert tried["fired"] == sum(each["state"] == "raised" for each in found)
    assert tried["cleared"] == sum(each["state"] == "cleared" for each in found)
    (late,) = json.loads(shown(capsys, "--try", "--last", "2", "--json"))
    assert late["units"] == 2


def test_a_store_without_rules_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    published(tmp_path)
    assert shown(capsys) == "There are no alerts.\n"
    assert shown(capsys, "--try") == shown(capsys, "--rules") == "There are no rules.\n"
    assert shown(capsys, "--json") == "[]\n"


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (("--rules", "--try"), "exclude each other"),
        (("--rules", "--last", "3"), "cannot be used with --rules"),
        (("--stream", "tap"), "Did you mean taps?"),
        (("--last", "soon"), "--last"),
    ],
)
def test_a_mistake_is_a_sentence(folder, capsys, tokens, said):
    done = Outcome(capsys, "alerts", "taps.db", *tokens)
    assert done.code == 2
    assert said in done.err
