"""A publisher that dies around its alerts: none is lost, and one that comes twice is the same."""

from __future__ import annotations

import json
import threading

import pytest

from penstock.engine import factory
from penstock.engine.store import SeriesLog
from penstock.released.alerting import evaluate

from tests.recovery.publish import Fault
from tests.recovery.world import HttpWorld, ParquetWorld, ReleaseReceiver, wait_for

RULE = {"name": "busy", "above": 17, "clear": 15}


class AlertReceiver(ReleaseReceiver):
    """Remembers each request by its idempotency key, in the order in which they came."""

    def __init__(self):
        super().__init__()
        self.came = []

    def _take(self, key, body):
        self.came.append(key)
        if self.bodies.setdefault(key, body) != body:
            self.changed.append(key)
        return 200

    def alerts(self):
        """Every alert once, in order."""
        return [
            (body["rule"], body["unit"], each["key"], each["state"], each["estimate"])
            for body in map(json.loads, self.bodies.values())
            for each in body["alerts"]
        ]


@pytest.fixture
def receiver():
    found = AlertReceiver()
    yield found
    found.close()


def check(world, receiver):
    (alert,) = world.pipeline.alerts
    with factory.reader(world.pipeline) as reader:
        log = SeriesLog(reader, "taps")
        expected = [
            (each.rule, each.unit, each.key, each.state, each.estimate)
            for each in evaluate(alert.rule, log, log.units).events
        ]
        stored = [
            (each.rule, each.unit, each.key, each.state, each.estimate)
            for each in reader.alerts("taps")
        ]
        (progress,) = reader.alert_rules("taps")
    assert len(expected) > 8
    assert stored == expected
    assert receiver.alerts() == expected
    assert not receiver.changed
    assert progress.sent == progress.number == len(expected)


@pytest.mark.parametrize("point", Fault.alert_points)
def test_dying_around_alerts_loses_none_and_repeats_none_with_another_key(
    point, nest, tmp_path, receiver
):
    alert = [RULE | {"url": receiver.url}]
    with ParquetWorld(nest, tmp_path, hours=12, seed=6, webhook=False, alert=alert) as world:
        for times in (1, 2, 4):
            world.start(fault=[point, times]).ended()
        assert world.starts[0].of("died")[0]["killed"]
        world.start()
        world.finish()
        world.check()
        check(world, receiver)
        repeated = len(receiver.came) - len(set(receiver.came))
        assert repeated or point != "alerts sent, not marked"


def test_a_live_publisher_that_is_killed_again_and_again_sends_every_alert(
    nest, tmp_path, receiver
):
    alert = [RULE | {"url": receiver.url}]
    with HttpWorld(nest, tmp_path, hours=8, seed=5, webhook=False, alert=alert) as world:
        world.set_clock(0)
        feeding = threading.Thread(target=world.live, daemon=True)
        feeding.start()
        for point in Fault.alert_points:
            assert world.start(fault=[point, 1]).ended()["killed"]
        world.start()
        wait_for(lambda: not feeding.is_alive(), "sending all")
        wait_for(lambda: all_sent(world), "sending all alerts")
        world.finish()
        world.check()
        check(world, receiver)


def all_sent(world):
    """Whether the rule has seen all units, and all of its alerts were sent."""
    with factory.reader(world.pipeline) as reader:
        rules = reader.alert_rules("taps")
    return bool(rules) and rules[0].unit == world.hours and rules[0].sent == rules[0].number
