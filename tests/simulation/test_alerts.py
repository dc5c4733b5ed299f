"""Alerts in simulated worlds: whatever is killed, cut or lost, they are those of the releases."""

from __future__ import annotations

import gc

import pytest

from penstock.engine.pipeline import Pipeline
from penstock.engine.sqlite import SQLiteReader
from penstock.engine.store import SeriesLog
from penstock.released.alerting import evaluate

from tests.simulation import driver
from tests.simulation.scheduler import StuckError
from tests.simulation.witnesses import ViolationError
from tests.simulation.world import World

PORTIONS = [range(start, start + 10) for start in range(300, 340, 10)]


class AlertReader(SQLiteReader):
    """Reads the store of a world at its end."""

    _driver = staticmethod(driver.plain_reader)


class AlertWorld(World):
    """A world whose publisher watches what it releases."""

    found = 0

    def pipeline(self, machine):
        made = super().pipeline(machine)
        rule = {"name": "busy", "above": 1, "clear": 0, "for": 2}
        content = {
            "stream": {"name": self.series, "every": f"{self.plan.every}s", "origin": "2026-01-01"},
            "source": {"kind": "jsonl", "path": "none", "time": "t", "key": "k"},
            "domain": {"keys": list(made.keys.keys)},
            "privacy": {"mechanism": self.plan.mechanism, "epsilon": "1", "window": 3},
            "alert": [rule],
        }
        object.__setattr__(made, "alerts", Pipeline.of(content).alerts)
        self.rule = made.alerts[0].rule
        return made

    def _is_done(self, machine):
        if not super()._is_done(machine):
            return False
        (rule,) = machine.process.publisher.alerts.rules
        return rule.progress.unit >= self.plan.units

    def _check_end(self):
        super()._check_end()
        if any(disk.lost_promised for disk in self._disks.values()):
            return  # a disk that lied has lost what it had confirmed
        for machine in self.machines:
            if machine.given_up or machine.lost or not self._is_done(machine):
                continue
            with AlertReader((self.server_disk or machine.disk).folder / "taps.db") as reader:
                log = SeriesLog(reader, self.series)
                (progress,) = reader.alert_rules(self.series)
                units = range(progress.since, progress.unit + 1)
                expected = evaluate(self.rule, log, units)
                if tuple(reader.alerts(self.series)) != expected.events:
                    raise ViolationError("the alerts are not those of the releases.")
                if progress.raised != expected.raised or progress.since != 1:
                    raise ViolationError("the state of the rule is not that of the releases.")
                AlertWorld.found += len(expected.events)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", PORTIONS, ids=lambda seeds: f"{seeds.start}-{seeds.stop - 1}")
def test_alerts_are_those_of_the_releases_in_every_world(seeds):
    gc.freeze()
    AlertWorld.found = 0
    for seed in seeds:
        world = AlertWorld(seed)
        try:
            world.run()
        except (ViolationError, StuckError) as error:
            trace = "\n".join(world.trace)
            pytest.fail(f"seed {seed}: {error}\n{world.plan}\n{trace}")
    assert AlertWorld.found
