from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.engine.explain import expected_error, in_words
from penstock.engine.pipeline import Pipeline
from penstock.private import run
from penstock.testing import TestNoise

EXAMPLE = Path(__file__).parents[2] / "examples" / "pipeline.toml"


def said(**tables: Any) -> str:
    """What is said of a configuration, on one line."""
    content: dict[str, Any] = {
        "stream": {"name": "taps", "every": "1h", "origin": "2026-01-01"},
        "source": {
            "kind": "parquet",
            "path": "taps.parquet",
            "time": "ts",
            "key": "station",
            "person": "card",
        },
        "domain": {"keys": ["north", "south"]},
        "privacy": {"mechanism": "uniform", "epsilon": "1", "window": 24},
    }
    text = in_words(Pipeline.of({**content, **tables}))
    return " ".join(text.replace("\n- ", " ").split())


MECHANISMS: list[tuple[dict[str, Any], list[str]]] = [
    (
        {"mechanism": "uniform", "epsilon": "1", "window": 24},
        [
            "standard deviation of 33.9",
            "within 72 of the true count",
            "costs epsilon = 1/24",
            "The average per unit is 1/24.",
        ],
    ),
    (
        {"mechanism": "ba", "epsilon": "0.5", "window": 12, "contribution": 2},
        [
            "standard deviation of 136",
            "At most 2 events per person count in each unit",
            "in any 12 consecutive units",
            "Any 12 consecutive units cost at most epsilon = 1/2",
        ],
    ),
    (
        {"mechanism": "pegasus", "epsilon": "0.1"},
        [
            "standard deviation of 17.7",
            "in any one unit",
            "Any unit costs at most epsilon = 1/10",
            "perturb every count",
        ],
    ),
    (
        {"mechanism": "kary", "epsilon": "1", "span": 64},
        [
            "Each number is the sum of the last 64 units; this is for unit 64.",
            "standard deviation of",
        ],
    ),
    (
        {"mechanism": "toeplitz", "epsilon": "1", "delta": "1e-6"},
        [
            "at most epsilon = 1 with delta = 1/1000000",
            "the sum of the last 24 units",
            "plus 1e-06",
        ],
    ),
    (
        {"mechanism": "uniform", "epsilon": "1", "window": 24, "delta": "1e-6"},
        [
            "Any 24 consecutive units cost at most epsilon = 1 with delta = 1/1000000.",
            "All noise is Gaussian. The ledger counts rho: a window has about 0.028.",
            "a standard deviation of 20.7 per number. With 95 % probability a number is within 41",
            "The first fresh release costs rho = 0.00117",
            "If two streams are about the same people, their epsilons and deltas add up.",
        ],
    ),
    (
        {"mechanism": "dsat", "epsilon": "1", "window": 720, "horizon": 720},
        [
            "in the whole stream. Only units 1 to 720 are ever read",
            "The whole stream is covered: all 720 units cost at most epsilon = 1.",
            "After unit 720, which ends at 2026-01-31T00:00:00+00:00, no more events are read",
        ],
    ),
    (
        {"mechanism": "hs_pegasus", "epsilon": "1"},
        ["3 numbers (all, all/north, all/south)", " to "],
    ),
]


@pytest.mark.parametrize(
    ("privacy", "sentences"), MECHANISMS, ids=[privacy["mechanism"] for privacy, _ in MECHANISMS]
)
def test_a_mechanism_is_told_in_words(privacy, sentences):
    text = said(privacy=privacy)
    assert [sentence for sentence in sentences if sentence not in text] == []
    assert "None" not in text
    assert "Fraction" not in text


def test_the_promise_is_the_one_that_every_release_carries():
    assert ps.Guarantee("1", 24).in_words() in said()


def test_the_example_is_told_line_by_line_without_long_lines():
    text = in_words(Pipeline.read(EXAMPLE))
    assert max(map(len, text.splitlines())) <= 100
    assert "Events with other keys are counted as 'elsewhere'." in text
    assert "no head file" not in text
    assert not any(line.lstrip().startswith("%") for line in text.splitlines())


def test_neither_data_nor_randomness_is_touched(monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("nothing may be drawn")

    monkeypatch.setattr(run, "SystemNoise", refuse)
    assert "taps.parquet" in said()
    assert not Path("taps.parquet").exists()


LIVE = {"kind": "stdin", "time": "ts", "key": "station", "person": "card"}
JSONL = {"kind": "jsonl", "path": "out"}
KAFKA = {"kind": "kafka", "servers": "localhost:9092", "topic": "taps"}
WEBHOOK = {"kind": "webhook", "url": "https://example.org/taps"}


def test_what_is_left_open_is_said():
    text = said(source=LIVE)
    assert "If two streams are about the same people, their epsilons add up" in text
    assert "The state of the mechanism is not encrypted" in text
    assert "Events that come after the end of their unit are missing" in text
    assert "not encrypted" not in said(store={"key_env": "KEY"})


@pytest.mark.parametrize(
    ("tables", "warned"),
    [
        ({}, True),
        ({"sink": [WEBHOOK]}, True),
        ({"sink": [WEBHOOK, JSONL]}, False),
        ({"store": {"head": "elsewhere/head"}}, False),
        ({"store": {"head": "elsewhere/head"}, "sink": [WEBHOOK]}, False),
    ],
)
def test_a_restore_that_nothing_would_show_is_a_warning(tables, warned):
    text = said(**tables)
    assert ("If the store is restored from an old backup, nothing would show it" in text) is warned
    assert ("Warnings" in text) is warned
    assert ("only a sink that holds more than the store shows it" in text) is (
        "sink" in tables and not warned and "store" not in tables
    )


@pytest.mark.parametrize(
    ("tables", "fence"),
    [
        ({}, None),
        ({"sink": [WEBHOOK]}, None),
        ({"sink": [WEBHOOK, KAFKA]}, None),
        ({"sink": [WEBHOOK, KAFKA, JSONL]}, "jsonl"),
        ({"store": {"head": "elsewhere/head"}, "sink": [JSONL]}, ""),
    ],
)
def test_what_keeps_two_copies_of_a_store_apart_is_said(tables, fence):
    text = said(**tables)
    assert bool(re.search("would (any|no)thing stop|nothing would stop", text)) is (fence is None)
    assert (f"Sink {fence!r} is the fence" in text) is bool(fence)


def test_a_view_that_no_telling_sink_has_is_named_in_the_warning():
    views = [
        {"name": "hourly", "mechanism": "ba"},
        {"name": "daily", "every": "1d", "mechanism": "uniform"},
    ]
    privacy = {"epsilon": 1, "window": "1d"}
    assert "units of 'hourly' would be released twice" in said(
        privacy=privacy, view=views, sink=[{**JSONL, "views": "daily"}]
    )
    assert "Warnings" not in said(privacy=privacy, view=views, sink=[JSONL])


def test_standard_input_without_an_end_is_a_warning():
    warned = "Standard input (jsonl) is read as a live stream, because no end is declared."
    text = said(source=LIVE, sink=[JSONL])
    assert "Warnings" in text
    assert (
        f"{warned} Units close by the clock, and events of closed units are dropped. "
        'If the input is finished, write until = "…" in [stream].' in text
    )
    stream = {"name": "taps", "every": "1h", "origin": "2026-01-01"}
    assert "events of closed units count in the current unit." in said(
        source=LIVE, stream={**stream, "late": "current"}
    )
    assert "Warnings" not in said(
        source=LIVE, sink=[JSONL], stream={**stream, "until": "2026-02-01"}
    )
    assert "Warnings" not in said(
        source=LIVE | {"kind": "http", "token_env": "TOKEN"}, sink=[JSONL]
    )


@pytest.mark.parametrize(("epsilon", "warned"), [("10", False), ("10.5", True), ("100000", True)])
def test_a_promise_of_little_is_a_warning(epsilon, warned):
    text = said(privacy={"mechanism": "uniform", "epsilon": epsilon, "window": 24}, sink=[JSONL])
    assert ("promises little" in text) is warned
    assert ("Warnings" in text) is warned


def test_where_a_finished_input_ends_is_said():
    text = said()
    assert (
        "Every unit that ended before the publisher starts is released, also without events."
        in text
    )
    assert 'Write until = "…" in [stream], or growing = true in [source]' in text
    assert "The clock decides" not in text
    assert "are missing from the numbers" not in text
    stream = {"name": "taps", "every": "1h", "origin": "2026-01-01", "until": "2026-02-01"}
    ends = said(stream=stream)
    until = "2026-02-01T00:00:00+00:00, the declared end of the input,"
    assert f"Every unit that ended by {until} is released" in ends
    assert "No end of the input is declared" not in ends
    growing = said(source={**LIVE, "kind": "csv", "path": "taps.csv", "growing": True})
    assert "taps.csv (csv, growing)" in growing
    assert "The clock decides when a unit is released" in growing


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ({**LIVE, "format": "csv"}, "Events come from standard input (csv):"),
        (
            {**LIVE, "kind": "http", "token_env": "TOKEN"},
            "Events come from HTTP requests at 127.0.0.1:8080:",
        ),
        (
            {**LIVE, "kind": "kafka", "servers": "localhost:9092", "topic": "taps"},
            "Events come from Kafka topic 'taps':",
        ),
        (
            {**LIVE, "kind": "mqtt", "server": "localhost:1883", "topic": "a/+"},
            "Events come from MQTT topic 'a/+':",
        ),
    ],
)
def test_where_events_come_from_is_said(source, sentence):
    assert sentence in said(source=source)


def test_who_is_protected_is_said():
    text = said(source={"kind": "stdin", "time": "ts", "key": "station"})
    assert "each event is its own person. A person with several events is not covered" in text
    assert (
        "A person who is there for longer than 24 units is protected in any 24 units of that"
        in said()
    )
    whole = said(privacy={"mechanism": "uniform", "epsilon": 1, "window": 24, "horizon": 24})
    assert "is protected in any" not in whole


def test_late_events_are_told_of():
    stream = {
        "name": "taps",
        "every": "1h",
        "origin": "2026-01-01",
        "until": "2026-02-01",
        "lateness": "90s",
        "late": "current",
    }
    text = said(stream=stream, source=LIVE | {"kind": "http", "token_env": "TOKEN"})
    assert "after its end and another 90 seconds for late events" in text
    assert "Events that come later count in the current unit" in text
    assert "protected as an event of the unit in which it is counted" in text
    assert "the last unit ends by 2026-02-01T00:00:00+00:00" in text


def test_the_split_between_views_is_told_in_words():
    views = [
        {"name": "hourly", "mechanism": "ba", "contribution": 2, "share": "2/3"},
        {"name": "daily", "every": "1d", "mechanism": "uniform", "contribution": 5},
    ]
    sinks = [{"kind": "jsonl", "path": "out", "views": "daily"}]
    text = said(privacy={"epsilon": 1, "window": "1d"}, view=views, sink=sinks)
    for sentence in (
        (
            "View 'hourly' has a share of 2/3, epsilon = 2/3. "
            "Its mechanism spends at most 2/3 in any 24 of its units (the same as"
        ),
        (
            "View 'daily' has a share of 1/3, epsilon = 1/3. "
            "Its mechanism spends at most 1/6 in any 2 of its units (each at least"
        ),
        "at least 24 of the stream's). It counts twice.",
        "A unit of the stream is one hour. The window is any 24 hours.",
        "Together: 2/3 + 1/3 = 1.",
        "a window may end inside such a unit",
        "In view 'hourly', at most 2 events per person count in a unit of one hour.",
        "In view 'daily', at most 5 events per person count in a unit of one day.",
        "View 'daily' of stream 'taps': the noise of a fresh release has",
        "The first fresh release costs epsilon = 1/36.",
        "The first fresh release costs epsilon = 1/6.",
        "Releases go to JSON lines in out for daily only.",
    ):
        assert sentence in text
    assert "per person count in each unit" not in text


@pytest.mark.parametrize(
    "mechanism", [ps.Laplace(epsilon="0.5"), ps.Uniform(epsilon="1", window=10, contribution=3)]
)
def test_the_expected_error_is_that_of_real_noise(mechanism):
    """5,000 draws: their standard deviation is within 6 % of the true one, and 94 to 97 % of them
    are within the interval.

    The deviation of a Laplace sample's deviation is 1.6 %, that of the share 0.3 %: false alarms
    are below one in a thousand, and the seed is fixed. The interval of discrete noise covers a
    little more than 95 %.
    """
    domain = ps.Domain.of(5_000)
    error = expected_error(mechanism, domain)
    noise = mechanism.run(domain, noise=TestNoise(7)).step(np.zeros(5_000, np.int64)).estimate
    assert error is not None
    assert math.isclose(float(noise.std()), error.deviation[0], rel_tol=0.06)
    assert (
        0.94 <= float((np.abs(noise) <= error.half[0]).mean()) <= 0.97 + (error.half[0] < 10) * 0.02
    )


def test_an_error_that_cannot_be_known_is_not_made_up(monkeypatch):
    monkeypatch.setattr("penstock.engine.explain.MADE_UP", 0)
    assert expected_error(ps.BudgetAbsorption(epsilon="1", window=24), ps.Domain.of(2)) is None
    assert "the noise depends on the stream and cannot be stated before" in said(
        privacy={"mechanism": "ba", "epsilon": 1, "window": 24}
    )


def test_what_a_sink_is_sent_is_said():
    sinks = [
        {"kind": "csv", "path": "tables", "nonnegative": True},
        {"kind": "jsonl", "path": "a", "nonnegative": True, "filtered": True},
    ]
    text = said(sink=sinks)
    assert "CSV files in tables, non-negative, which costs no budget" in text
    assert "JSON lines in a, filtered and non-negative, which costs no budget" in text
