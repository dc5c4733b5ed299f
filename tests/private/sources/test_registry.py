"""Every kind of source is declared beside its class, and found without being listed anywhere."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from penstock.core.declaration import Option
from penstock.core.errors import ConfigurationError
from penstock.engine.pipeline import Pipeline
from penstock.private.sources.base import SourceKind
from penstock.private.sources.registry import SOURCES, kind_of_file
from penstock.released.sinks.registry import SINKS

from tests.installing import install

MODULE = "declared_elsewhere"
PLUGIN = """
from penstock.core.declaration import Option
from penstock.private.sources.base import SourceKind

def build(setup):
    raise AssertionError("nothing is built here")

KIND = SourceKind(
    name="gauge",
    summary="Gauges.",
    options=(Option(name="port", required=True, example="ttyS0", help="the serial port"),),
    describe=lambda options: f"a gauge at {options['port']}",
    build=build,
)
"""


def test_every_kind_of_ours_is_found():
    assert tuple(SOURCES.own) == (
        "arrow",
        "csv",
        "http",
        "jsonl",
        "kafka",
        "mqtt",
        "parquet",
        "stdin",
    )
    assert tuple(SINKS.own) == ("csv", "jsonl", "kafka", "parquet", "postgres", "webhook")


def test_which_sinks_report_what_they_hold():
    assert {name: kind.reports for name, kind in SINKS.own.items()} == {
        "csv": True,
        "jsonl": True,
        "kafka": True,
        "parquet": True,
        "postgres": True,
        "webhook": False,
    }


@pytest.mark.parametrize("kind", [*SOURCES.own.values(), *SINKS.own.values()], ids=lambda k: k.name)
def test_a_declaration_says_all_that_is_needed_of_it(kind):
    assert kind.summary.endswith(".")
    keys = [key for option in kind.options for key in option.keys]
    assert len(set(keys)) == len(keys)
    for option in kind.options:
        assert option.help
        assert not option.help.endswith(".")
        assert not option.help[0].isupper()
        assert option.shown is not None, option.name


def test_the_kind_of_a_file_is_known_by_its_ending():
    assert [kind_of_file(name) for name in ("a.ndjson", "b/*.parquet", "c")] == [
        "jsonl",
        "parquet",
        None,
    ]


def test_keys_of_secrets_name_variables_and_files():
    assert Option(name="a", help="").keys == ("a",)
    assert Option(name="a", type="secret", help="").keys == ("a_env", "a_file")
    assert Option(name="a", type="variable", help="").keys == ("a_env",)
    assert Option(name="a", type="url", help="").keys == ("a", "a_env")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / f"{MODULE}.py").write_text(PLUGIN, encoding="utf-8")
    names = {
        "gauge": f"{MODULE}:KIND",
        "alias": f"{MODULE}:KIND",
        "nothing": f"{MODULE}:build",
        "broken": "declared_nowhere:KIND",
        "csv": f"{MODULE}:KIND",
    }
    install(tmp_path, "their-sources", {"penstock.sources": names})
    yield
    sys.modules.pop(MODULE, None)


def test_a_plug_in_is_a_kind_like_ours(installed):
    found = SOURCES.find("gauge")
    assert isinstance(found, SourceKind)
    assert SOURCES.find(f"{MODULE}:KIND") is found
    pipeline = Pipeline.of(
        {
            "stream": {"name": "levels", "every": "1h", "origin": "2026-01-01"},
            "source": {"kind": "gauge", "port": "ttyS1", "time": "ts", "key": "river"},
            "domain": {"keys": ["Rhine"]},
            "privacy": {"mechanism": "laplace", "epsilon": "1"},
        }
    )
    assert pipeline.source.options == {"port": "ttyS1"}
    with pytest.raises(ConfigurationError, match=r"source: port is missing: write a text such as"):
        Pipeline.of(
            {
                "stream": {"name": "levels", "every": "1h", "origin": "2026-01-01"},
                "source": {"kind": "gauge", "time": "ts", "key": "river"},
                "domain": {"keys": ["Rhine"]},
                "privacy": {"mechanism": "laplace", "epsilon": "1"},
            }
        )


def test_a_broken_plug_in_disturbs_nobody(installed):
    assert SOURCES.find("csv") is SOURCES.own["csv"]
    with pytest.raises(ConfigurationError, match="cannot be loaded"):
        SOURCES.find("broken")
    with pytest.raises(ConfigurationError, match="calls itself 'gauge'"):
        SOURCES.find("alias")
    with pytest.raises(ConfigurationError, match="is not a SourceKind"):
        SOURCES.find("nothing")
    with pytest.raises(ConfigurationError, match="there is no source 'gage'"):
        SOURCES.find("gage")
    rows = {row["name"]: row["problem"] for row in SOURCES.table() if row["package"] != "penstock"}
    assert rows["gauge"] is None
    assert "is a source of Penstock's own" in rows["csv"]
    assert all(rows[name] for name in ("alias", "nothing", "broken"))
