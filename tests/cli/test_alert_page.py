"""docs/how-to/alert.md, followed to the letter: its files are made, its commands typed."""

from __future__ import annotations

import json

from tests.following import blocks, shell, typed


def test_the_commands_of_the_page_run_and_find_what_it_says(capsys):
    (files,) = blocks("how-to/alert.md", "sh")
    shell(files)
    said = typed("how-to/alert.md", capsys)
    assert "What is watched" in said["penstock check taps.toml"].out
    assert "Harbour" in said["penstock alerts taps.toml"].out
    tried = {
        each["rule"]: each
        for each in json.loads(said["penstock alerts taps.toml --try --last 1d --json"].out)
    }
    assert (tried["busy"]["fired"], tried["busy"]["cleared"], tried["busy"]["units"]) == (1, 1, 24)
    assert tried["fewer in the city"]["fired"] == 1


def test_the_request_on_the_page_has_the_fields_of_a_real_one():
    from penstock.core.calendar import Calendar
    from penstock.released.alerting import AlertEvent
    from penstock.released.alerting.alert_document import alerts_document

    (shown,) = map(json.loads, blocks("how-to/alert.md", "json"))
    (alert,) = shown["alerts"]
    numbers = {name: float(alert[name]) for name in ("estimate", "low", "high", "threshold")}
    event = AlertEvent(rule="busy", unit=42, key="Airport", state="raised", **numbers)
    hours = Calendar(every="1h", origin="2026-01-01")
    assert json.loads(alerts_document("taps", [event], 7, hours)) == shown
