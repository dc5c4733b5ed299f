"""The example and the reference say what the declarations say."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.engine import config_text
from penstock.engine.pipeline import Pipeline
from penstock.private.sources.registry import SOURCES
from penstock.released.sinks.registry import SINKS

ROOT = Path(__file__).parents[2]
AGAIN = "run `python -m penstock.engine.config_text` in the checkout"


def test_the_example_is_generated():
    assert (ROOT / config_text.EXAMPLE).read_text(encoding="utf-8") == config_text.example(), AGAIN


def test_the_reference_is_generated():
    found = (ROOT / config_text.REFERENCE).read_text(encoding="utf-8")
    assert found == config_text.reference(), AGAIN


@pytest.mark.parametrize("kind", [*SOURCES.own.values(), *SINKS.own.values()], ids=lambda k: k.name)
def test_every_key_of_a_kind_is_in_the_reference(kind):
    page = config_text.reference()
    assert f'### kind = "{kind.name}"' in page
    assert all(f"`{key}`" in page for option in kind.options for key in option.keys)


@pytest.mark.parametrize("kind", SOURCES.own.values(), ids=lambda kind: kind.name)
def test_examples_of_options_are_accepted(kind, tmp_path):
    """Every option at once, each at its example; of a secret, the variable. An option that stands
    in place of another one is accepted in its place.
    """
    source = {"kind": kind.name, "time": "ts", "key": "k"}
    for option in kind.options:
        value = option.when[1] if option.when else option.shown
        source |= {option.when[0]: value} if option.when else {}
        source[option.keys[0]] = option.shown
    for option in kind.options:
        if option.instead_of:
            Pipeline.of(_with_source({**source, option.instead_of: None}))
            source[option.name] = None
    found = Pipeline.of(_with_source(source))
    assert found.source.options.keys() >= {option.keys[0] for option in kind.options}


def _with_source(source):
    return {
        "stream": {"name": "taps", "every": "1h", "origin": "2026-01-01"},
        "source": source,
        "domain": {"keys": ["north"]},
        "privacy": {"mechanism": "laplace", "epsilon": "1"},
    }


@pytest.mark.parametrize("kind", SINKS.own.values(), ids=lambda kind: kind.name)
def test_examples_of_options_of_sinks_are_accepted(kind):
    sink = {option.keys[0]: option.shown for option in kind.options}
    found = Pipeline.of(
        {
            "stream": {"name": "taps", "every": "1h", "origin": "2026-01-01"},
            "source": {"kind": "stdin", "time": "ts", "key": "k"},
            "domain": {"keys": ["north"]},
            "privacy": {"mechanism": "laplace", "epsilon": "1"},
            "sink": [{"kind": kind.name, **sink}],
        }
    ).sinks[0]
    assert found.options.keys() >= sink.keys()
