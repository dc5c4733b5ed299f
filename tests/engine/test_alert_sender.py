"""One address of alerts: retries while the publisher runs, and an end that waits for nobody."""

from __future__ import annotations

import json
import socket
import threading

import pytest

from penstock.engine import alert_sender
from penstock.engine.alert_sender import AlertSender
from penstock.engine.notices import Notifier
from penstock.engine.sqlite import SQLiteStore
from penstock.engine.waiting import Runtime
from penstock.released.alerting import AlertEvent, AlertRule, RuleProgress
from penstock.released.sinks.http_post import HttpPoster

from tests.engine.places import fresh, stream
from tests.webhook_receiver import receiving

RULE = AlertRule(name="busy", series="visits", above=5)
EVENTS = [
    AlertEvent(rule="busy", unit=unit, key=key, state="raised", estimate=7.0, threshold=5.0)
    for unit, key in ((1, "north"), (1, "south"), (2, "wést"), (3, "west"))
]


@pytest.fixture
def store(tmp_path):
    with SQLiteStore(tmp_path / "city.db") as opened:
        opened.begin(stream(fresh()))
        opened.record_alerts(
            "visits",
            [(RuleProgress(rule="busy", about=RULE.about, since=1, unit=3, number=4), EVENTS)],
        )
        yield opened


class Heard:
    """Remembers notices, and says when there is one with some words."""

    def __init__(self, words):
        self.words, self.texts, self.came = words, [], threading.Event()

    def __call__(self, notice):
        self.texts.append((notice.level, notice.text))
        if self.words in notice.text:
            self.came.set()


def sending(store, url, heard, **more):
    poster = HttpPoster(url, **more)
    series = store.series("visits")
    return AlertSender(
        RULE, series, poster, store, notify=Notifier("visits", heard), runtime=Runtime()
    )


def test_a_receiver_that_comes_back_gets_everything_in_order(store, monkeypatch):
    monkeypatch.setattr(alert_sender, "RETRY_SECONDS", (0.01, 0.02))
    heard = Heard("is back")
    with receiving() as receiver:
        receiver.answers = [(503, {}), (503, {}), (200, {}), (429, {"Retry-After": "0"})]
        sender = sending(store, receiver.url, heard)
        sender.start()
        assert heard.came.wait(60)
        sender.end()
        sender.wait(60)
        assert sender.ended
        bodies = [json.loads(body) for _, _, body in receiver.got]
    assert [body["unit"] for body in bodies] == [1, 1, 1, 2, 2, 3]
    assert [len(body["alerts"]) for body in bodies] == [2, 2, 2, 1, 1, 1]
    keys = [headers["Idempotency-Key"] for _, headers, _ in receiver.got]
    assert keys[0] == keys[1] == keys[2] == "visits/busy/1/1"
    assert keys[3:] == ["visits/busy/2/3", "visits/busy/2/3", "visits/busy/3/4"]
    assert store.alert_rules("visits")[0].sent == 4
    levels = [level for level, _ in heard.texts]
    assert levels == ["warning", "warning", "info"]  # one per problem, not one per try


def test_an_end_interrupts_a_receiver_that_never_answers(store):
    heard = Heard("no whole answer")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        sender = sending(store, f"http://127.0.0.1:{silent.getsockname()[1]}/", heard, timeout=600)
        sender.start()
        connection, _ = silent.accept()
        with connection:
            assert connection.recv(65536)
            sender.end()
            sender.interrupt()
            sender.wait(60)
    assert sender.ended
    assert heard.came.is_set()
    assert store.alert_rules("visits")[0].sent == 0
