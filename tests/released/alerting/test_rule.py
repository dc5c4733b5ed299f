"""Rules of alerts: what they accept, and how they state themselves."""

from __future__ import annotations

import numpy as np
import pytest

from penstock import Hierarchy
from penstock.core.calendar import Calendar
from penstock.core.errors import ConfigurationError
from penstock.released.alerting import AlertRule
from penstock.released.log import Log
from penstock.released.release_filter import FilterChoice

HOURS = Calendar(every="1h", origin="2026-01-01")

RULES = {
    "counts": {"above": 500},
    "below": {"below": "2.5", "clear": 4},
    "sum": {"question": "sum", "window": "1d", "above": 9000, "keys": ["north"]},
    "decay": {"question": "decay", "window": 10, "gamma": "0.9", "above": 3},
    "power": {"question": "decay", "window": 10, "power": "1.5", "above": 3, "for": 2},
    "jump": {"question": "jump", "window": 2, "delta": 100, "clear": 50, "sure": "0.9"},
    "drop": {"question": "drop", "window": 2, "delta": 100},
    "change": {"question": "change", "window": 2, "delta": 100, "clear": 20},
    "low": {"question": "low", "window": 6, "delta": 5},
    "together": {"above": 9, "together": True, "keys": ["north", "south"]},
    "everything": {"above": 9, "together": True},
    "roll-up": {"above": 9, "roll_up": True, "depth": 0},
    "filtered": {"above": 9, "choice": FilterChoice(periods=(24,), point="mean")},
}


@pytest.mark.parametrize("name", RULES)
def test_a_rule_is_read_back_from_its_definition(name):
    rule = AlertRule.of(name, series="taps", calendar=HOURS, **RULES[name])
    again = AlertRule.read(name, "taps", rule.about)
    assert again == rule
    assert again.digest == rule.digest
    assert rule.definition().keys().isdisjoint({"name", "series"})


def test_every_change_of_a_definition_changes_its_digest():
    rules = [AlertRule.of("rule", calendar=HOURS, **given) for given in RULES.values()]
    assert len({rule.digest for rule in rules}) == len(rules)
    one, other = AlertRule(name="one", above=5), AlertRule(name="other", series="s", above=5)
    assert one.digest == other.digest


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("counts", "counts: a key is raised at 500 or more and cleared below 500"),
        ("below", "counts: a key is raised below 2.5 and cleared at or above 4"),
        (
            "sum",
            "sums of 24 units of north: a key is raised at 9000 or more and cleared below 9000",
        ),
        (
            "jump",
            (
                "rise within 2 units: a key is raised at 100 or more and cleared below 50, each "
                "time only if the whole 0.9 interval lies there"
            ),
        ),
        ("low", "sums of 6 units: a key is raised below 5 and cleared at or above 5"),
        (
            "together",
            "counts of north, south together: a sum is raised at 9 or more and cleared below 9",
        ),
        (
            "roll-up",
            "counts of every node at depth 0: a node is raised at 9 or more and cleared below 9",
        ),
        ("filtered", "filtered counts: a key is raised at 9 or more and cleared below 9"),
    ],
)
def test_a_rule_states_itself_in_words(name, words):
    assert AlertRule.of(name, calendar=HOURS, **RULES[name]).in_words() == words


@pytest.mark.parametrize(
    ("given", "parameter", "message"),
    [
        ({"question": "jumps", "above": 1}, "question", "must be one of .* Did you mean 'jump'"),
        ({}, None, "needs above or below, exactly one"),
        ({"above": 1, "below": 2}, "below", "exactly one"),
        ({"above": "many"}, "above", "must be a finite number"),
        ({"above": float("nan")}, "above", "must be a finite number"),
        ({"above": True}, "above", "must be a finite number"),
        ({"above": 1, "delta": 2}, "delta", 'cannot be used with question = "counts"'),
        ({"question": "low", "window": 3, "above": 2}, "above", "use delta"),
        ({"question": "low", "window": 3}, None, "needs delta"),
        ({"question": "jump", "window": 3, "delta": 0}, "delta", "must be above 0"),
        ({"question": "jump", "window": 1, "delta": 5}, "window", "at least 2"),
        ({"question": "sum", "above": 5}, None, "needs window"),
        ({"above": 5, "window": 5}, "window", 'use "sum"'),
        ({"question": "sum", "window": "1 fortnight", "above": 5}, "window", 'such as "1d"'),
        ({"question": "decay", "window": 5, "above": 5}, None, "needs gamma or power"),
        ({"above": 5, "gamma": "0.5"}, "gamma", 'only be used with question = "decay"'),
        ({"above": 5, "clear": 6}, "clear", "must be at most 5"),
        ({"below": 5, "clear": 4}, "clear", "must be at least 5"),
        (
            {"question": "change", "window": 2, "delta": 5, "clear": 0},
            "clear",
            "must be above 0",
        ),
        ({"above": 5, "sure": "1.5"}, "sure", "must lie between 0 and 1"),
        ({"above": 5, "sure": "very"}, "sure", "not a number"),
        ({"above": 5, "for": 0}, "for", "at least 1"),
        ({"above": 5, "keys": ["a", "a"]}, "keys", "twice"),
        ({"above": 5, "together": True, "roll_up": True}, "roll_up", "together"),
        ({"above": 5, "depth": 1}, "depth", "only be used with roll_up"),
        (
            {"question": "jump", "window": 2, "delta": 1, "together": True},
            "together",
            "single keys",
        ),
        (
            {"above": 5, "sure": "0.9", "together": True, "choice": FilterChoice()},
            "sure",
            "intervals are not known",
        ),
    ],
)
def test_a_mistake_names_its_parameter(given, parameter, message):
    with pytest.raises(ConfigurationError, match=message) as caught:
        AlertRule.of("rule", calendar=HOURS, **given)
    assert caught.value.parameter == parameter


def test_keys_are_looked_for_among_the_names_that_are_watched():
    tree = Hierarchy.of({f"room {n}": ("house", f"floor {n % 2}") for n in range(4)})
    log = Log(tree)
    rooms = AlertRule(name="rooms", above=1, keys=("room 1", "room 3"))
    floors = AlertRule(name="floors", above=1, roll_up=True, keys=("house/floor 1",))
    assert rooms.names(log) == ("room 1", "room 3")
    assert floors.names(log) == ("house/floor 1",)
    assert AlertRule(name="all", above=1, together=True).names(log) == ("all",)
    with pytest.raises(ConfigurationError, match="no key 'room 9'; there is 'room"):
        AlertRule(name="rooms", above=1, keys=("room 9",)).names(log)
    with pytest.raises(ConfigurationError, match="no hierarchy"):
        AlertRule(name="rooms", above=1, roll_up=True).names(Log(["north", "south"]))
    assert np.isfinite(rooms.threshold)
