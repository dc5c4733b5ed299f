"""Domains that are too wide for a store are refused before anything is published."""

from __future__ import annotations

import json
import sqlite3

import numpy as np
import pytest

from penstock.core.errors import StateError
from penstock.engine import value_limits
from penstock.engine.config_sections import InvalidConfigurationError
from penstock.engine.pipeline import Pipeline
from penstock.engine.sqlite import SQLiteStore
from penstock.engine.value_limits import refuse_too_wide
from penstock.private import state
from penstock.private.mechanisms.registry import MECHANISMS
from penstock.private.noise import NoNoise
from penstock.released import encoding
from penstock.released.series import Series

from tests.cli.outcome import Outcome

LIMIT, ROW = 200_000, 16_384


@pytest.fixture(autouse=True)
def small_limit(monkeypatch):
    monkeypatch.setattr(value_limits, "WIDE", 1)
    monkeypatch.setattr(value_limits, "MAX_VALUE_BYTES", LIMIT - ROW)


def pipeline(keys, mechanism="uniform", **more):
    return Pipeline.of(
        {
            "stream": {"name": "taps", "every": "1h", "origin": "2026-01-01"},
            "source": {"kind": "stdin", "time": "ts", "key": "station"},
            "domain": {"keys": keys},
            "privacy": {"mechanism": mechanism, "epsilon": "1", "window": 24, **more},
        }
    )


def short_keys(number):
    return [np.base_repr(each, 36) for each in range(number)]


def committed(path, declared):
    """The first unit, with as large numbers as there can be, in a store with the small limit."""
    run = declared.mechanism().run(declared.domain(), noise=NoNoise())
    release = run.step(np.full(declared.domain().size, 2**44))
    saved = run.snapshot_in_pieces()
    with SQLiteStore(path) as store:
        store._file.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LIMIT)
        store.begin(Series.of(run, name="taps", facts=declared.facts()))
        store.commit(
            "taps",
            1,
            lines=run.ledger,
            release=release,
            state=saved.head,
            pieces=saved.pieces,
            positions={},
        )


def fitting(declared):
    """The number of keys that the refusal names."""
    with pytest.raises(InvalidConfigurationError) as refused:
        refuse_too_wide(declared, "taps.toml")
    told = [problem.message for problem in refused.value.problems]
    return min(int(text.partition("at most ")[2].split()[-3].replace(",", "")) for text in told)


def test_what_check_lets_through_fits_the_store_and_twice_of_it_does_not(tmp_path):
    most = fitting(pipeline(short_keys(40_000)))
    assert 15_000 < most < 25_000
    refuse_too_wide(pipeline(short_keys(most)), "taps.toml")
    committed(tmp_path / "fits.db", pipeline(short_keys(most)))
    with pytest.raises(StateError, match="penstock check says how many keys fit"):
        committed(tmp_path / "large.db", pipeline(short_keys(2 * most)))


def test_the_refusal_names_the_value_and_the_width():
    with pytest.raises(InvalidConfigurationError) as refused:
        refuse_too_wide(pipeline(short_keys(40_000)), "taps.toml")
    first, second = refused.value.problems
    assert (first.path, second.path) == (("domain",), ("domain",))
    assert "40,000 keys are too many: the list of keys of 'taps' would take 0.000" in first.message
    assert "a release of 'taps' would take 0.00032 GB" in second.message
    assert (
        "a store takes values of 1 GB at most. Declare at most 22,000 such keys." in second.message
    )


def test_long_names_are_refused_in_a_narrow_domain(monkeypatch):
    monkeypatch.setattr(value_limits, "WIDE", 10**6)
    refuse_too_wide(pipeline(["short", "names"]), "taps.toml")
    with pytest.raises(InvalidConfigurationError, match="the list of keys of 'taps'"):
        refuse_too_wide(pipeline(["a" * 150_000, "b" * 150_000]), "taps.toml")


def test_arrays_of_a_state_have_no_limit(monkeypatch):
    """A state of many megabytes, in pieces."""
    monkeypatch.setattr(state, "PIECE_BYTES", 4_096)
    refuse_too_wide(pipeline(short_keys(5_000), "tide", periods=[24, 168]), "taps.toml")


@pytest.mark.parametrize("name", ["uniform", "sample", "ba", "rg", "tide", "pegasus", "toeplitz"])
def test_a_release_takes_no_more_bytes_than_was_said(name):
    more = {"delta": "1/1000000"} if name == "toeplitz" else {}
    run = MECHANISMS[name](epsilon="1", window=4, **more).run(50, noise=NoNoise())
    for unit in range(6):
        release = run.step(np.full(50, unit % 2 * 2**44))
        stored = len(encoding.body(release)) + len(encoding.flags(release))
        assert stored <= encoding.most_bytes(release) <= 60 * 50 + 1_000


def test_check_refuses_in_words_and_as_data(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stations.txt").write_text("\n".join(short_keys(40_000)))
    (tmp_path / "taps.toml").write_text(
        """
        [stream]
        name = "taps"
        every = "1h"
        origin = "2026-01-01"
        [source]
        kind = "stdin"
        time = "ts"
        key = "station"
        [domain]
        file = "stations.txt"
        [privacy]
        mechanism = "uniform"
        epsilon = "1"
        window = 24
        """
    )
    done = Outcome(capsys, "check", "taps.toml")
    assert done.code == 2
    assert "taps.toml: domain: 40,000 keys are too many" in " ".join(done.err.split())
    done = Outcome(capsys, "check", "taps.toml", "--json")
    told = json.loads(done.out)
    assert (done.code, told["valid"], told["problems"][0]["key"]) == (2, False, "domain")
