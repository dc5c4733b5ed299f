"""The settings of the read service that pipelines declare: the rules of alerts among them."""

from __future__ import annotations

import pytest

from penstock.cli.service_options import RunServices, service_options
from penstock.core.errors import ConfigurationError
from penstock.engine.pipeline import Pipeline

from tests.engine import streams

BUSY = {"name": "busy", "above": 32}


def pipeline(folder, name, **tables):
    service = {"listen": "127.0.0.1:0", **tables.pop("service", {})}
    content = streams.pipeline(
        stream={"name": name, "until": "2026-01-01T12:00Z"}, service=service, **tables
    )
    return Pipeline.of(content, folder=folder)


def test_every_series_of_a_pipeline_has_the_rules_of_the_pipeline(tmp_path):
    found = service_options(pipeline(tmp_path, "taps", alert=[BUSY]))
    assert {name: [rule.name for rule in rules] for name, rules in found.rules.items()} == {
        "taps": ["busy"]
    }
    assert service_options(pipeline(tmp_path, "taps")).rules == {"taps": ()}


def test_pipelines_that_share_a_service_keep_their_rules(tmp_path):
    one = pipeline(tmp_path, "taps", alert=[BUSY], service={"title": "City"})
    other = pipeline(tmp_path, "rides", alert=[BUSY | {"above": 9}], service={"title": "City"})
    (options,) = RunServices([one, other])._options.values()
    assert {name: rules[0].above for name, rules in options.rules.items()} == {
        "taps": 32,
        "rides": 9,
    }
    differs = pipeline(tmp_path, "rides", service={"language": "de"})
    with pytest.raises(ConfigurationError, match="differ in its settings"):
        RunServices([one, differs])
