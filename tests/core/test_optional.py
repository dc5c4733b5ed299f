"""An optional package is imported, or the error says how to install it."""

from __future__ import annotations

import sys

import pytest

from penstock.core.errors import MissingExtraError
from penstock.core.optional import require


def test_a_module_that_is_there_is_imported():
    assert require("json.decoder", "kafka", "reading events").__name__ == "json.decoder"


@pytest.mark.parametrize(
    ("module", "package"),
    [
        ("psycopg.rows", "psycopg"),
        ("confluent_kafka.admin", "confluent-kafka"),
        ("paho.mqtt.client", "paho-mqtt"),
    ],
)
def test_a_missing_package_is_named_as_pip_names_it(module, package, monkeypatch):
    monkeypatch.setitem(sys.modules, module.partition(".")[0], None)
    with pytest.raises(MissingExtraError) as caught:
        require(module, "kafka", "reading events")
    assert str(caught.value) == (
        f"reading events needs {package}, which is not installed: pip install 'penstock[kafka]'"
    )
    assert (caught.value.package, caught.value.extra) == (package, "kafka")
    assert caught.value.__suppress_context__
