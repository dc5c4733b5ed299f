"""Rules of a publisher: applied to each unit, logged, posted once, and gone on with."""

from __future__ import annotations

import json

import pytest

from penstock.engine import alert_sender, alerts
from penstock.engine.pipeline import Pipeline
from penstock.engine.publisher import Publisher
from penstock.engine.sqlite import SQLiteReader
from penstock.engine.store import SeriesLog
from penstock.released.alerting import evaluate
from penstock.testing import NoNoise

from tests.engine import streams
from tests.engine.places import opened
from tests.webhook_receiver import receiving

TOKEN = "hunter2-token"
BUSY = {"name": "busy", "above": 32, "clear": 28}


@pytest.fixture
def receiver():
    with receiving() as server:
        yield server


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ALERTS_TOKEN", TOKEN)
    monkeypatch.setattr(alert_sender, "RETRY_SECONDS", (0.01, 0.05))
    monkeypatch.setattr(alerts, "RETRY_SECONDS", (0.01, 0.05))
    streams.parquet(tmp_path / "taps.parquet", streams.events(), row_group_size=100)
    return tmp_path


def publish(folder, *rules, hours=12, **tables):
    """Publish the first hours; return whether all was done, and the notices."""
    stream = {"until": f"2026-01-01T{hours:02}:00Z"}
    content = streams.pipeline(stream=stream, alert=list(rules), **tables)
    told = []
    made = Pipeline.of(content, folder=folder)
    with Publisher(made, noise=NoNoise, listener=told.append) as publisher:
        return publisher.run(), told


def found(folder, name="taps"):
    """All alerts in the store: rule, unit, key and state."""
    with SQLiteReader(folder / "taps.db") as reader:
        assert reader.verify(name).account.kept
        return [(each.rule, each.unit, each.key, each.state) for each in reader.alerts(name)]


def expected(folder, rule=BUSY, name="taps", first=1):
    content = streams.pipeline(alert=[rule])
    (alert,) = Pipeline.of(content, folder=folder).alerts
    with SQLiteReader(folder / "taps.db") as reader:
        log = SeriesLog(reader, name)
        events = evaluate(alert.rule, log, range(first, log.last + 1)).events
        return [(each.rule, each.unit, each.key, each.state) for each in events]


def progress(folder, rule="busy"):
    with SQLiteReader(folder / "taps.db") as reader:
        return {each.rule: each for each in reader.alert_rules("taps")}[rule]


def posted(receiver, url=True):
    rule = BUSY | {"url": receiver.url.partition("?")[0], "token_env": "ALERTS_TOKEN"}
    return rule if url else BUSY


def bodies(receiver):
    return [json.loads(body) for _, _, body in receiver.got]


def sent(receiver):
    return [
        (body["rule"], body["unit"], alert["key"], alert["state"])
        for body in bodies(receiver)
        for alert in body["alerts"]
    ]


def test_each_unit_is_watched_and_the_log_is_told(folder):
    whole, told = publish(folder, BUSY)
    assert whole
    assert len(found(folder)) > 5
    assert found(folder) == expected(folder)
    texts = [each for each in told if each.kind == "alert"]
    assert {each.level for each in texts} == {"warning", "info"}
    assert {(each.stream, each.unit) for each in texts} == {
        ("taps", unit) for _, unit, _, _ in found(folder)
    }
    unit, key = found(folder)[0][1:3]
    assert any(each.unit == unit and f"'busy' raised: {key} " in each.text for each in texts)
    now = progress(folder)
    assert (now.since, now.unit, now.number, now.sent) == (1, 12, len(found(folder)), 0)


def test_alerts_change_nothing_of_what_is_published_and_promised(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    streams.parquet(other / "taps.parquet", streams.events(), row_group_size=100)
    publish(folder, BUSY)
    publish(other)
    with SQLiteReader(folder / "taps.db") as one, SQLiteReader(other / "taps.db") as two:
        assert one.about("taps") == two.about("taps")
        assert one.head("taps") == two.head("taps")
    assert publish(other, BUSY)[0]


def test_every_alert_is_posted_once_and_marked(folder, receiver):
    assert publish(folder, posted(receiver))[0]
    assert sent(receiver) == found(folder)
    keys = [headers["Idempotency-Key"] for _, headers, _ in receiver.got]
    assert len(set(keys)) == len(keys)
    assert all(headers["Authorization"] == f"Bearer {TOKEN}" for _, headers, _ in receiver.got)
    ids = [alert["id"] for body in bodies(receiver) for alert in body["alerts"]]
    assert ids == [f"taps/busy/{number}" for number in range(1, len(ids) + 1)]
    assert progress(folder).sent == len(ids)
    first = bodies(receiver)[0]
    assert first["begins"] == f"2026-01-01T{first['unit'] - 1:02}:00:00Z"
    again = len(receiver.got)
    assert publish(folder, posted(receiver))[0]
    assert len(receiver.got) == again


def test_a_receiver_that_fails_gets_everything_in_order_later(folder, receiver):
    receiver.answers = [(503, {}), (500, {}), (200, {}), (404, {})]
    starts = 0
    while not publish(folder, posted(receiver))[0]:  # a failure at the end is left to a next start
        starts += 1
    assert starts < 4
    receiver.got[:] = [each for place, each in enumerate(receiver.got) if place not in (0, 1, 3)]
    assert sent(receiver) == found(folder)


def test_a_receiver_that_is_away_gets_everything_at_the_next_start(folder, receiver, monkeypatch):
    monkeypatch.setattr("penstock.engine.publisher.FINITE_PATIENCE", 0.05)
    away = posted(receiver) | {"url": "http://127.0.0.1:9/alerts"}
    whole, told = publish(folder, away)
    assert not whole
    assert "Some alerts are not sent" in told[-1].text
    assert not any("127.0.0.1:9" in each.text for each in told)
    assert progress(folder).sent == 0
    assert publish(folder, posted(receiver))[0]
    assert sent(receiver) == found(folder) == expected(folder)


def test_a_request_has_the_alerts_of_one_unit_and_not_too_many(folder, receiver, monkeypatch):
    monkeypatch.setattr(alert_sender, "MAX_ALERTS_PER_REQUEST", 2)
    low = posted(receiver) | {"above": 1, "clear": 1}
    assert publish(folder, low)[0]
    assert [len(body["alerts"]) for body in bodies(receiver)] == [2, 2]
    assert {body["unit"] for body in bodies(receiver)} == {1}
    assert [headers["Idempotency-Key"] for _, headers, _ in receiver.got] == [
        "taps/busy/1/1",
        "taps/busy/1/3",
    ]


def test_stops_and_starts_give_the_alerts_of_one_run(folder, receiver):
    lasting = posted(receiver) | {
        "for": 2,
        "above": 30,
        "clear": 28,
        "question": "sum",
        "window": 1,
    }
    for hours in (2, 3, 7, 12):
        publish(folder, lasting, hours=hours)
    rule = {name: value for name, value in lasting.items() if name not in ("url", "token_env")}
    assert found(folder) == expected(folder, rule)
    assert sent(receiver) == found(folder)
    assert found(folder)


def test_filtered_numbers_are_watched_across_a_restart(folder):
    rule = BUSY | {"filtered": True, "filter_periods": "6h", "above": 30, "clear": 28}
    for hours in (5, 12):
        publish(folder, rule, hours=hours)
    assert found(folder) == expected(folder, rule)
    assert found(folder)
    assert found(folder) != expected(folder, BUSY | {"above": 30, "clear": 28})


def test_a_new_rule_begins_with_the_next_unit(folder):
    publish(folder, hours=6)
    assert found(folder) == []
    publish(folder, BUSY, hours=6)
    assert found(folder) == []
    publish(folder, BUSY)
    assert progress(folder).since == 7
    assert found(folder) == expected(folder, first=7)


def raised_after(folder, hours):
    """The keys that are raised after some hours."""
    publish(folder, BUSY, hours=hours)
    assert progress(folder).raised
    return progress(folder).raised


def test_a_changed_rule_clears_its_keys_and_goes_on_with_the_next_unit(folder, receiver):
    keys = raised_after(folder, 6)
    before = found(folder)
    changed = posted(receiver) | {"above": 31, "clear": 25}
    publish(folder, changed, hours=6)
    assert found(folder)[len(before) :] == [("busy", 6, key, "cleared") for key in keys]
    publish(folder, changed)
    rule = {"name": "busy", "above": 31, "clear": 25}
    assert found(folder)[len(before) + len(keys) :] == expected(folder, rule, first=7)
    with SQLiteReader(folder / "taps.db") as reader:
        of_rule = [each for each in reader.alerts("taps") if each.of_rule]
        assert [each.estimate for each in of_rule] == [None] * len(keys)
    assert sent(receiver) == found(folder)  # what an earlier definition found was not sent yet
    assert progress(folder).since == 7


def test_an_address_may_change_without_changing_the_rule(folder, receiver):
    raised_after(folder, 6)
    before = found(folder)
    publish(folder, posted(receiver), hours=6)
    assert found(folder) == before
    assert progress(folder).since == 1


def test_a_removed_rule_clears_its_keys_and_can_come_again(folder, receiver):
    keys = raised_after(folder, 6)
    before = found(folder)
    _, told = publish(folder, hours=7)
    ended = [("busy", 6, key, "cleared") for key in keys]
    assert found(folder) == before + ended
    assert any("the rule was changed or removed" in each.text for each in told)
    now = progress(folder)
    assert (now.about, now.raised, now.sent) == ("", (), now.number)
    publish(folder, hours=7)
    assert found(folder) == before + ended
    publish(folder, posted(receiver), hours=8)
    assert progress(folder).since == 8
    publish(folder, posted(receiver))
    later = expected(folder, first=8)
    assert found(folder) == before + ended + later
    assert sent(receiver) == later  # nothing of the time before it was removed


def test_a_renamed_rule_is_a_removed_one_and_a_new_one(folder):
    keys = raised_after(folder, 6)
    before = found(folder)
    publish(folder, BUSY | {"name": "crowded"})
    new = expected(folder, BUSY | {"name": "crowded"}, first=7)
    assert [each for each in found(folder) if each[0] == "busy"] == before + [
        ("busy", 6, key, "cleared") for key in keys
    ]
    assert [each for each in found(folder) if each[0] == "crowded"] == new
    assert progress(folder, "crowded").since == 7


def test_rules_of_several_views_are_kept_apart(folder):
    views = [
        {"name": "hourly", "every": "1h", "mechanism": "laplace"},
        {"name": "half", "every": "6h", "mechanism": "laplace"},
    ]
    rules = [
        {"name": "busy", "view": "hourly", "above": 33},
        {"name": "busy", "view": "half", "above": 2, "together": True},
    ]
    content = streams.pipeline(
        stream={"until": "2026-01-01T12:00Z"}, view=views, alert=rules, privacy={"window": 6}
    )
    del content["privacy"]["mechanism"]
    with Publisher(Pipeline.of(content, folder=folder), noise=NoNoise) as publisher:
        assert publisher.run()
    assert found(folder, "taps/half") == [("busy", 1, "all", "raised")]
    assert found(folder, "taps/hourly")


def test_a_rule_that_cannot_be_answered_says_so_and_others_go_on(folder, monkeypatch):
    monkeypatch.setattr("penstock.engine.publisher.FINITE_PATIENCE", 0.05)
    wrong = {"name": "sums", "question": "sum", "window": 3, "above": 5}
    right = {"name": "fours", "question": "sum", "window": 4, "above": 5}
    privacy = {"mechanism": "kary", "span": 4}
    whole, told = publish(folder, wrong, right, privacy=privacy)
    assert not whole
    texts = [each.text for each in told if each.kind == "alert" and "'sums'" in each.text]
    assert len(texts) == 1
    assert "cannot be computed" in texts[0]
    assert {rule for rule, *_ in found(folder)} == {"fours"}
    assert len([each for each in told if each.kind == "release"]) == 12


def test_a_missing_token_is_refused_before_anything_is_published(folder, receiver, monkeypatch):
    monkeypatch.delenv("ALERTS_TOKEN")
    with pytest.raises(Exception, match="ALERTS_TOKEN is not set"):
        publish(folder, posted(receiver))
    with SQLiteReader(folder / "taps.db") as reader:
        assert reader.series_names == ()


def test_nothing_of_single_events_is_logged_or_sent(folder, receiver):
    times, keys, cards = streams.events()
    planted = 987_654_321
    streams.csv(folder / "taps.csv", (times, keys, cards + planted))
    with (folder / "taps.csv").open("a") as file:
        file.write(f"{streams.moment(int(times[-1]))},planted gate,{planted}\n")
    source = {"kind": "csv", "path": "taps.csv"}
    whole, told = publish(folder, posted(receiver), source=source)
    assert whole
    assert sent(receiver)
    texts = json.dumps([bodies(receiver), [each.text for each in told]])
    assert str(planted)[:5] not in texts
    assert "planted" not in texts
    assert TOKEN not in texts


def test_a_publisher_on_postgresql_watches_and_sends_as_well(folder, receiver):
    with opened("postgres", folder) as place:
        rule = posted(receiver)
        for hours in (5, 12):
            stream = {"until": f"2026-01-01T{hours:02}:00Z"}
            content = streams.pipeline(stream=stream, alert=[rule])
            content["store"] = {"url": place.address}
            with Publisher(Pipeline.of(content, folder=folder), noise=NoNoise) as publisher:
                assert publisher.run()
        with place.reader() as reader:
            log = SeriesLog(reader, "taps")
            (alert,) = Pipeline.of(content, folder=folder).alerts
            events = reader.alerts("taps")
            (state,) = reader.alert_rules("taps")
            assert tuple(events) == evaluate(alert.rule, log, log.units).events
        assert (state.unit, state.sent) == (12, len(events))
        assert sent(receiver) == [(each.rule, each.unit, each.key, each.state) for each in events]
