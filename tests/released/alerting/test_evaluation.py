"""Rules applied to releases: hysteresis, certainty, streaks, and units one by one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import Laplace
from penstock.released.alerting import AlertRule, evaluate
from penstock.released.alerting import evaluation as evaluating
from penstock.released.log import FilteredLog
from penstock.released.queries import Alerts
from penstock.released.recent_log import RecentLog
from penstock.released.release_filter import FilterChoice
from penstock.testing import TestNoise

from tests.released.streams import MECHANISMS, logged, noisy, quiet

KEYS, UNITS = 3, 45


def naive(rule, log):
    """What a simple mind would find: one key and one unit after the other."""
    log, query = rule.watched(log), rule.query()
    raised, streak, events = set(), {}, []
    for unit in query.units(log):
        found = query.answer(log, unit, keys=rule.shown_keys)
        answer = found.statistic if isinstance(found, Alerts) else found
        low, high = answer.interval(rule.sure) if rule.sure else (answer.estimate,) * 2
        for place, name in enumerate(answer.names):
            least, most = low[0, place], high[0, place]
            if rule.side == "below":
                beyond, back = most < rule.threshold, least >= rule.clears_at
            elif rule.side == "above":
                beyond, back = least >= rule.threshold, most < rule.clears_at
            else:
                beyond = least >= rule.threshold or most <= -rule.threshold
                back = -rule.clears_at < least and most < rule.clears_at
            streak[name] = streak.get(name, 0) + 1 if beyond else 0
            if name not in raised and streak[name] >= rule.units_in_a_row:
                raised.add(name)
                events.append((unit, name, "raised"))
            elif name in raised and back:
                raised.remove(name)
                events.append((unit, name, "cleared"))
    return events, raised


def short(events):
    return [(event.unit, event.key, event.state) for event in events]


@st.composite
def rules(draw):
    question = draw(st.sampled_from(["counts", "sum", "decay", "jump", "drop", "change", "low"]))
    given = {"question": question, "units_in_a_row": draw(st.integers(1, 4))}
    if question != "counts":
        given["window"] = draw(st.integers(2, 20))
    if question == "decay":
        given["gamma"] = "0.7"
    number = draw(st.integers(1, 60)) + draw(st.sampled_from([0.0, 0.25]))
    side = "delta"
    if question in ("counts", "sum", "decay"):
        side = draw(st.sampled_from(["above", "below"]))
        given |= draw(st.sampled_from([{}, {"together": True}, {"keys": ("2",)}]))
    given[side] = number
    below = side == "below" or question == "low"
    if draw(st.booleans()):
        given["clear"] = number + 9 if below else number / 2
    if draw(st.booleans()):
        given["sure"] = draw(st.sampled_from(["0.5", "0.95"]))
    return AlertRule(name="rule", **given)


def streams(data, seed):
    rng = np.random.default_rng(seed)
    levels = np.repeat(rng.integers(0, 60, (UNITS // 5, KEYS)), 5, axis=0)
    return rng.poisson(levels)[: data.draw(st.integers(1, UNITS))]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=12, deadline=None)
@given(data=st.data(), rule=rules(), seed=st.integers(0, 2**31))
def test_units_one_by_one_or_all_at_once_raise_the_same(mechanism, data, rule, seed):
    log = logged(MECHANISMS[mechanism], streams(data, seed), TestNoise(seed))
    if rule.query().units(log) and rule.query().why_not(log):
        return
    whole = evaluate(rule, log, log.units)
    cuts = sorted(data.draw(st.sets(st.integers(log.first, log.last))))
    parts, raised = [], ()
    kept = RecentLog(log, data.draw(st.integers(1, 30)))
    for start, stop in zip([log.first, *cuts], [*cuts, log.last + 1], strict=True):
        found = evaluate(rule, kept, range(start, stop), raised)
        parts += found.events
        raised = found.raised
    assert tuple(parts) == whole.events  # every number to the last bit
    assert set(raised) == set(whole.raised)
    assert whole.fired - whole.cleared == len(whole.raised)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=8, deadline=None)
@given(data=st.data(), rule=rules(), seed=st.integers(0, 2**31))
def test_a_simple_mind_finds_the_same(mechanism, data, rule, seed):
    log = logged(MECHANISMS[mechanism], streams(data, seed), TestNoise(seed))
    if rule.query().units(log) and rule.query().why_not(log):
        return
    events, raised = naive(rule, log)
    found = evaluate(rule, log, log.units)
    assert short(found.events) == events
    assert set(found.raised) == raised


def test_filtered_numbers_are_watched_unit_by_unit_as_well():
    rng = np.random.default_rng(5)
    log = noisy(Laplace(epsilon=1), rng.poisson(30, (40, KEYS)).tolist(), seed=5)
    rule = AlertRule(name="r", above=33, clear=30, filter=FilterChoice(periods=(8,)))
    whole = evaluate(rule, log, log.units)
    assert whole.events
    live, raised, parts = RecentLog(FilteredLog(log, rule.filter), 4), (), []
    for unit in log.units:
        found = evaluate(rule, live, range(unit, unit + 1), raised)
        parts += found.events
        raised = found.raised
    assert tuple(parts) == whole.events
    assert short(whole.events) != short(
        evaluate(AlertRule(name="r", above=33, clear=30), log, log.units).events
    )


def test_hysteresis_keeps_a_key_raised_until_it_is_well_back():
    log = quiet(Laplace(epsilon=1), [[9], [10], [8], [6], [5], [4], [11]])
    plain = evaluate(AlertRule(name="r", above=10), log, log.units)
    calm = evaluate(AlertRule(name="r", above=10, clear=5), log, log.units)
    assert short(plain.events) == [(2, "0", "raised"), (3, "0", "cleared"), (7, "0", "raised")]
    assert short(calm.events) == [(2, "0", "raised"), (6, "0", "cleared"), (7, "0", "raised")]
    assert [event.threshold for event in calm.events] == [10, 5, 10]


def test_a_number_must_pass_the_threshold_in_units_in_a_row():
    log = quiet(Laplace(epsilon=1), [[9], [9], [1], [9], [9], [9], [9], [1]])
    rule = AlertRule(name="r", above=5, units_in_a_row=3)
    assert short(evaluate(rule, log, log.units).events) == [(6, "0", "raised"), (8, "0", "cleared")]
    assert short(evaluate(rule, log, range(6, 8)).events) == [(6, "0", "raised")]


def test_a_sure_rule_waits_for_the_whole_interval():
    log = noisy(Laplace(epsilon="1/10"), [[500]] * 3 + [[540]] * 3 + [[700]] * 3 + [[0]] * 3)
    rule = AlertRule(name="r", above=520, sure="0.999")
    events = evaluate(rule, log, log.units).events
    assert short(events) == [(7, "0", "raised"), (10, "0", "cleared")]
    for event in events:
        assert event.low < event.estimate < event.high
    assert events[0].low >= 520 > events[1].high


def test_what_is_not_known_neither_raises_nor_clears():
    rule = AlertRule(name="r", above=5)
    unknown = np.array([[math.nan, -math.inf]])
    beyond, back = evaluating._conditions(rule, unknown, -unknown)
    assert not beyond.any()
    assert not back.any()


def test_units_before_a_window_is_full_change_nothing():
    log = quiet(Laplace(epsilon=1), [[9], [9], [9]])
    rule = AlertRule(name="r", question="sum", window=3, above=20)
    assert evaluate(rule, log, range(1, 3), ("0",)).raised == ("0",)
    assert short(evaluate(rule, log, log.units).events) == [(3, "0", "raised")]
    long = AlertRule(name="r", question="sum", window=9, above=20)
    assert evaluate(long, log, log.units).events == ()


def test_keys_that_are_not_watched_any_more_are_forgotten():
    log = quiet(Laplace(epsilon=1), [[9, 9]])
    found = evaluate(AlertRule(name="r", above=5, keys=("1",)), log, log.units, ("0", "1"))
    assert found.raised == ("1",)
    assert found.events == ()
