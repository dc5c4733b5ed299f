"""Alerts in stores: written, read, exported, and stores from before there were any."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.core.errors import StateError
from penstock.engine import export as exporting
from penstock.engine.export import export
from penstock.engine.sqlite import SQLiteReader
from penstock.engine.store import LeaseError
from penstock.released.alerting import AlertEvent, AlertRule, RuleProgress

from tests.engine.places import KINDS, commit, filled, fresh, opened, stream

RULE = AlertRule(name="busy", series="visits", above=5)
START = RuleProgress(rule="busy", about=RULE.about, since=1, unit=0)


@pytest.fixture(params=KINDS)
def place(request, tmp_path):
    with opened(request.param, tmp_path) as found:
        yield found


def alert(unit, key="north", state="raised", **more):
    numbers = {"estimate": 7.25, "low": 6.0, "high": 8.5, "threshold": 5.0}
    return AlertEvent(rule="busy", unit=unit, key=key, state=state, **(numbers | more))


def after(progress, *events, unit, raised=()):
    number = progress.number + len(events)
    return replace(progress, unit=unit, number=number, raised=raised)


def watched(place, units=4):
    """A store with some units, and alerts of units 1 and 3."""
    run = filled(place, units)
    first = [alert(1), alert(1, "wést")]
    second = [alert(3, state="cleared"), alert(3, "south", low=None, high=None)]
    one = after(START, *first, unit=2, raised=("north", "wést"))
    two = after(one, *second, unit=3, raised=("south", "wést"))
    with place.store() as store:
        store.begin(stream(run))
        store.record_alerts("visits", [(one, first)])
        store.record_alerts("visits", [(two, second)])
    return run, [*first, *second], two


def test_alerts_are_read_as_they_were_written(place):
    _, events, progress = watched(place)
    with place.reader() as reader:
        assert reader.alerts("visits") == events
        assert reader.alerts("visits", 2) == events[2:]
        assert reader.alerts("visits", 1, 2) == events[:2]
        assert reader.alerts("visits", limit=3) == events[:3]
        assert reader.alerts("visits", key="wést", rule="busy", limit=9) == events[1:2]
        assert reader.alerts("visits", rule="quiet") == []
        assert reader.alert_rules("visits") == (progress,)
        assert reader.alerts("rides") == []
        assert reader.verify("visits").head.unit == 4
        assert reader.strays() == ()


def test_alerts_are_sent_by_unit_and_marked(place):
    run, events, progress = watched(place)
    ended = replace(progress, about="", number=5, raised=())
    with place.store() as store:
        store.begin(stream(run))
        store.record_alerts(
            "visits", [(ended, [AlertEvent(rule="busy", unit=3, key="wést", state="cleared")])]
        )
        assert store.unsent_alerts("visits", "busy", 1) == (0, events[:1])
        assert store.unsent_alerts("visits", "busy", 100) == (0, events[:2])
        store.mark_alerts_sent("visits", "busy", 2)
        sent, some = store.unsent_alerts("visits", "busy", 100)
        assert (sent, some) == (2, events[2:])  # the change of the rule is told by itself
        store.mark_alerts_sent("visits", "busy", 4)
        store.record_alerts("visits", [(replace(ended, unit=4), [])])
        sent, some = store.unsent_alerts("visits", "busy", 100)
        assert (sent, [each.of_rule for each in some]) == (4, [True])
        assert store.alert_rules("visits")[0].sent == 4
        assert store.unsent_alerts("visits", "quiet", 100) == (0, [])


def test_a_publisher_that_lost_its_lease_writes_no_alerts(place):
    run = filled(place, 2)
    with place.store() as store, place.store() as rival:
        store.begin(stream(run))
        rival.begin(stream(run), takeover=True)
        with pytest.raises(LeaseError):
            store.record_alerts("visits", [(START, [])])
        assert rival.alert_rules("visits") == ()


def test_all_of_a_record_is_written_or_nothing(place):
    run = filled(place, 2)
    with place.store() as store:
        store.begin(stream(run))
        twice = after(START, alert(1), unit=1)
        store.record_alerts("visits", [(twice, [alert(1)])])
        again = replace(START, rule="quiet")
        with pytest.raises(StateError):
            store.record_alerts("visits", [(again, []), (twice, [alert(1)])])
        assert [each.rule for each in store.alert_rules("visits")] == ["busy"]
        assert store.alerts("visits") == [alert(1)]


def test_a_store_from_before_alerts_is_read_and_brought_up_to_date(place):
    run = filled(place, 3)
    place.tamper("UPDATE penstock_store SET version = 2")
    for table in ("alerts", "alert_rules"):
        drop(place, table)
    with place.reader() as reader:
        assert reader.alerts("visits") == []
        assert reader.alert_rules("visits") == ()
        assert reader.strays() == ()
        assert reader.verify("visits").head.unit == 3
    with place.store() as store:
        store.begin(stream(run))
        store.record_alerts("visits", [(after(START, alert(1), unit=1), [alert(1)])])
        commit(store, run)
    with place.reader() as reader:
        assert reader.alerts("visits") == [alert(1)]
        assert reader.verify("visits").head.unit == 4


def drop(place, table):
    if place.kind == "postgres":
        place._do(f"DROP TABLE {table}", rows=False)
        return
    import sqlite3

    file = sqlite3.connect(place.path)
    file.execute(f"DROP TABLE {table}")
    file.close()


def test_an_export_carries_alerts_and_the_state_of_rules(place, tmp_path, monkeypatch):
    monkeypatch.setattr(exporting, "_ALERTS_PER_TRANSACTION", 3)
    run, events, progress = watched(place)
    out = tmp_path / "open.db"
    with place.reader() as reader:
        export(reader, out)
    with SQLiteReader(out) as copy:
        assert copy.alerts("visits") == events
        assert copy.alert_rules("visits") == (progress,)
        assert copy.verify("visits").head.unit == 4
    with place.store() as store:
        store.begin(stream(run))
        commit(store, run)
        now = after(progress, alert(5), unit=5, raised=("north", "south", "wést"))
        store.record_alerts("visits", [(now, [alert(5)])])
        export(store, out)
        export(store, out)
    with SQLiteReader(out) as copy:
        assert copy.alerts("visits") == [*events, alert(5)]
        assert copy.alert_rules("visits") == (now,)


def test_an_export_from_before_alerts_gets_them(place, tmp_path):
    import sqlite3

    _, events, _ = watched(place)
    out = tmp_path / "open.db"
    with place.reader() as reader:
        export(reader, out)
        file = sqlite3.connect(out)
        file.executescript(
            "DROP TABLE alerts; DROP TABLE alert_rules; UPDATE penstock_store SET version = 2"
        )
        file.close()
        with SQLiteReader(out) as copy:
            assert copy.alerts("visits") == []
        export(reader, out)
    with SQLiteReader(out) as copy:
        assert copy.alerts("visits") == events


def test_alerts_of_unknown_series_are_strays(place):
    run = fresh(record=True)
    filled(place, 2, run=run)
    place.tamper(
        "INSERT INTO alerts (stream, rule, number, unit, key, state) "
        "VALUES ('rides', 'busy', 1, 1, 'north', 'raised')"
    )
    with place.reader() as reader:
        (found,) = reader.strays()
    assert found == "1 row of alerts is of series 'rides', which is not in the store."


def test_damaged_state_of_a_rule_is_told(place):
    watched(place)
    place.tamper("UPDATE alert_rules SET raised = 'not JSON'")
    with place.reader() as reader, pytest.raises(StateError, match="'busy' of 'visits' is damaged"):
        reader.alert_rules("visits")
