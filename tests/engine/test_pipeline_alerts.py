"""The tables [[alert]] of a configuration: read, checked with key and line, and explained."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.config_sections import InvalidConfigurationError
from penstock.engine.explain import in_words
from penstock.engine.pipeline import Pipeline
from penstock.engine.pipeline.options import ALERT_KEYS
from penstock.released.alerting import AlertRule
from penstock.released.release_filter import FilterChoice

TABLES = {
    "stream": {"name": "taps", "every": "1h", "origin": "2026-01-01"},
    "source": {"kind": "stdin", "time": "ts", "key": "station"},
    "domain": {"keys": ["north", "south"]},
    "privacy": {"mechanism": "ba", "epsilon": "1", "window": 24},
}
TEXT = """\
[stream]
name = "taps"
every = "1h"
origin = "2026-01-01"
[source]
kind = "stdin"
time = "ts"
key = "station"
[domain]
keys = ["north", "south"]
[privacy]
mechanism = "ba"
epsilon = "1"
window = 24
[[alert]]
name = "busy"
"""
FIRST = TEXT.count("\n") + 1


def read(*alerts, **tables):
    return Pipeline.of({**TABLES, **tables, "alert": list(alerts)})


def rule(alert, **tables):
    (found,) = read(alert, **tables).alerts
    return found.rule


def test_a_rule_is_read_as_it_says():
    assert rule({"name": "busy", "above": 500}) == AlertRule(name="busy", series="taps", above=500)
    assert rule(
        {
            "name": "quiet",
            "question": "low",
            "window": "1d",
            "delta": "2.5",
            "clear": 4,
            "sure": "0.9",
            "for": 3,
            "keys": "south",
        }
    ) == AlertRule(
        name="quiet",
        series="taps",
        question="low",
        window=24,
        delta=2.5,
        clear=4,
        sure="0.9",
        units_in_a_row=3,
        keys=("south",),
    )


def test_an_address_and_a_token_are_named_and_never_written():
    (plain,) = read({"name": "busy", "above": 5}).alerts
    (found,) = read(
        {"name": "busy", "above": 5, "url_env": "HOOK", "token_file": "secrets/token"}
    ).alerts
    assert (plain.posts, found.posts) == (False, True)
    assert found.options == {"url_env": "HOOK", "token_file": "secrets/token"}
    assert plain.rule == found.rule


def test_filter_settings_come_from_the_rule_or_from_the_plan():
    plan = {"seasons": ["1d", "90min"], "stock": True}
    assert rule({"name": "a", "above": 5, "filtered": True}, plan=plan).filter == FilterChoice(
        periods=(24,), kind="stock"
    )
    given = {"filtered": True, "filter_periods": ["7d"], "filter_kind": "flow"}
    assert rule({"name": "a", "above": 5, "together": True, **given}).filter == FilterChoice(
        periods=(168,), point="mean"
    )


def test_rules_name_their_view_where_there_are_several():
    views = [
        {"name": "hourly", "mechanism": "uniform"},
        {"name": "daily", "every": "1d", "mechanism": "uniform"},
    ]
    tables = {"view": views, "privacy": {"epsilon": "1", "window": 24}}
    daily = {"name": "a", "view": "daily", "question": "sum", "window": "7d", "above": 5}
    hourly = {"name": "a", "view": "hourly", "question": "sum", "window": "7d", "above": 5}
    one, other = (each.rule for each in read(daily, hourly, **tables).alerts)
    assert (one.series, one.window) == ("taps/daily", 7)
    assert (other.series, other.window) == ("taps/hourly", 168)
    with pytest.raises(InvalidConfigurationError, match="view is missing: use hourly, daily"):
        read({"name": "a", "above": 5}, **tables)


def test_nodes_of_a_hierarchy_are_chosen_by_their_names():
    domain = {"hierarchy": {"gate 1": "Airport/arrivals", "gate 2": "Airport/departures"}}
    found = rule(
        {"name": "a", "above": 5, "roll_up": True, "keys": ["Airport/arrivals"]}, domain=domain
    )
    assert found.keys == ("Airport/arrivals",)
    assert rule({"name": "a", "above": 5, "roll_up": True, "depth": 0}, domain=domain).depth == 0
    with pytest.raises(InvalidConfigurationError, match=r"alert\[1\]\.keys: there is no key"):
        read({"name": "a", "above": 5, "roll_up": True, "keys": ["Airprt"]}, domain=domain)
    with pytest.raises(InvalidConfigurationError, match=r"alert\[1\]\.depth: .*depth must be"):
        read({"name": "a", "above": 5, "roll_up": True, "depth": 7}, domain=domain)
    with pytest.raises(InvalidConfigurationError, match=r"alert\[1\]\.roll_up: .*no hierarchy"):
        read({"name": "a", "above": 5, "roll_up": True})


def test_a_rule_changes_neither_the_promise_nor_the_series():
    plain = Pipeline.of(TABLES)
    watched = read({"name": "busy", "above": 5})
    assert plain.fingerprint() == watched.fingerprint()
    assert watched.changed(plain.facts()) == ()


@pytest.mark.parametrize(
    ("lines", "line", "said"),
    [
        ("", -1, 'alert[1]: question = "counts" needs above or below'),
        ("abov = 5", 0, "alert[1].abov: is not known here: use above, below"),
        ("abov = 5", 0, "Did you mean above?"),
        ("above = 5\nquestion = 3", 1, "alert[1].question: must be a text"),
        ('above = 5\nquestion = "cuonts"', 1, "Did you mean counts?"),
        ("above = true", 0, "alert[1].above: must be a number"),
        ('above = "many"', 0, "alert[1].above: must be a finite number"),
        ("above = 5\nclear = 6", 1, "alert[1].clear: must be at most 5"),
        ("above = 5.5\nclear = 6.5", 1, "alert[1].clear: must be at most 5.5"),
        ('above = 5\nsure = "1"', 1, "alert[1].sure: must lie between 0 and 1"),
        ("above = 5\nfor = 0", 1, "alert[1].for: must be a whole number of at least 1"),
        ('above = 5\nkeys = ["nroth"]', 1, "Did you mean north?"),
        ('above = 5\nview = "tap"', 1, 'there is no view "tap": use taps. Did you mean taps?'),
        ('question = "jump"\nwindow = "90min"\ndelta = 5', 1, "not a whole number of units"),
        ('question = "jump"\nwindow = 2\nabove = 5', 2, "alert[1].above: cannot be used with"),
        ('above = 5\nfilter_kind = "flow"', 1, "can only be used with filtered = true"),
        ('above = 5\nfiltered = true\nfilter_periods = "90min"', 2, "alert[1].filter_periods: "),
        ('above = 5\nurl = "ftp://x/y"', 1, "alert[1].url: must begin with https://"),
        ('above = 5\nurl = "https://x/y?token=hunter2"', 1, "no secret belongs in this file"),
        ('above = 5\ntoken = "hunter2"', 1, "no secret belongs in this file"),
        ('above = 5\ntoken_env = "HOOK"', -1, "alert[1]: a token needs an address"),
        ("above = 5\ndepth = 1", 1, "alert[1].depth: can only be used with roll_up"),
        ("above = 5\ndepth = -1", 1, "alert[1].depth: must be a whole number of at least 0"),
        ('above = 5\n[[alert]]\nname = "busy"\nabove = 6', 2, "names two alerts"),
    ],
)
def test_a_mistake_names_its_key_and_its_line(tmp_path, lines, line, said):
    path = tmp_path / "taps.toml"
    path.write_text(f"{TEXT}{lines}\n")
    with pytest.raises(InvalidConfigurationError) as caught:
        Pipeline.read(path)
    at = FIRST + line + (-1 if line < 0 else 0)
    assert said in str(caught.value)
    assert {problem.line for problem in caught.value.problems} == {at}


def test_a_table_that_is_no_array_is_refused(tmp_path):
    path = tmp_path / "taps.toml"
    path.write_text(TEXT.replace("[[alert]]", "[alert]") + "above = 5\n")
    with pytest.raises(InvalidConfigurationError, match=r"each headed \[\[alert\]\]"):
        Pipeline.read(path)


def test_check_tells_what_will_be_watched():
    text = " ".join(
        in_words(
            read({"name": "busy", "above": 500, "sure": "0.95", "url": "https://example.org/a"})
        ).split()
    )
    assert (
        "What is watched --------------- - Alert 'busy': counts: a key is raised at 500 or more "
        "and cleared below 500, each time only if the whole 0.95 interval lies there. It goes to "
        "the log and a webhook."
    ) in text
    assert "example.org" not in text
    assert "What is watched" not in in_words(Pipeline.of(TABLES))


@pytest.mark.parametrize(
    ("privacy", "late"),
    [
        ({"mechanism": "tide"}, "The mechanism tide reads a steady key once in up to 24 units."),
        ({"mechanism": "tide", "longest": 4}, "may come up to 3 units late. A smaller longest"),
        ({"mechanism": "tide", "kind": "stock"}, "may come up to 23 units late. Alerts are"),
        ({"mechanism": "auto"}, "The mechanism tide, if auto chooses it, reads a steady key"),
        ({"mechanism": "tide", "longest": 1}, ""),
        ({"mechanism": "tide", "delta": "1/1000000"}, ""),
        ({"mechanism": "uniform"}, ""),
    ],
)
def test_check_tells_how_late_an_alert_may_come(privacy: dict[str, object], late: str):
    promise = {"epsilon": "1", "window": 24} | privacy
    tables = TABLES | {"privacy": promise, "alert": [{"name": "busy", "above": 500}]}
    text = " ".join(in_words(Pipeline.of(tables)).replace("- ", "").split())
    assert late in text if late else "units late" not in text


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(max_size=8),
    st.decimals(),
    st.lists(st.text(max_size=5), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
    st.sampled_from(["north", "1d", "jump", "sum", "decay", "0.9", "mean", 3, 24]),
)
NAMES = sorted(key for option in ALERT_KEYS for key in option.keys)


@settings(max_examples=150, deadline=None)
@given(alert=st.dictionaries(st.sampled_from(NAMES), ANYTHING, max_size=8))
def test_whatever_stands_in_a_rule_is_taken_or_refused_in_words(alert):
    with contextlib.suppress(InvalidConfigurationError):
        (found,) = read(alert).alerts
        assert AlertRule.read(found.rule.name, "taps", found.rule.about) == found.rule
