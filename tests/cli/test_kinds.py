"""`penstock sources` and `penstock sinks`."""

from __future__ import annotations

import json

import pytest

from penstock.private.sources.registry import SOURCES
from penstock.released.sinks.registry import SINKS

from tests.cli.outcome import Outcome

REGISTRIES = {"sources": SOURCES, "sinks": SINKS}


@pytest.mark.parametrize("verb", REGISTRIES)
def test_all_kinds_are_listed(verb, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    done = Outcome(capsys, verb)
    assert (done.code, done.err) == (0, "")
    for kind in REGISTRIES[verb].own.values():
        assert kind.name in done.out
        assert kind.summary in done.out


@pytest.mark.parametrize("verb", REGISTRIES)
def test_every_option_of_a_kind_is_listed(verb, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    for kind in REGISTRIES[verb].own.values():
        done = Outcome(capsys, verb, kind.name)
        assert (done.code, done.err) == (0, "")
        for option in kind.options:
            assert " or ".join(option.keys) in done.out
            assert option.help in done.out


@pytest.mark.parametrize("verb", REGISTRIES)
def test_programs_get_the_same(verb, capsys):
    rows = json.loads(Outcome(capsys, verb, "--json").out)
    assert [row["name"] for row in rows] == list(REGISTRIES[verb].own)
    assert all(row["package"] == "penstock" and row["problem"] is None for row in rows)
    (row,) = json.loads(Outcome(capsys, verb, "kafka", "--json").out)
    assert row["options"][0]["keys"] == ["servers"]
    assert row["options"][0]["required"] is True


def test_an_unknown_kind_is_one_line(capsys):
    done = Outcome(capsys, "sinks", "kafak")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "penstock: there is no sink 'kafak': use csv, jsonl, kafka, parquet, postgres, webhook.\n"
    )
