from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.cli.histograms import histograms
from penstock.core.errors import ConfigurationError
from penstock.private.histograms.base import Histogram
from penstock.private.histograms.greedy import Greedy
from penstock.private.histograms.plain import Plain
from penstock.private.histograms.registry import HISTOGRAMS, describe, find


def test_names_lead_to_classes_that_need_no_parameters() -> None:
    assert find("plain") is Plain
    assert find("greedy") is Greedy
    for name, cls in HISTOGRAMS.items():
        assert find(name) is cls
        assert isinstance(cls(), Histogram)


def test_a_path_leads_to_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_histogram_by_path.py").write_text(
        "from dataclasses import dataclass\n"
        "from penstock import Plain\n"
        "class Box:\n"
        "    @dataclass(frozen=True)\n"
        "    class Mine(Plain):\n"
        "        depth: int = 3\n"
        "class Loose:\n"
        "    def release(self, counts, epsilon, gate): ...\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    found = find("own_histogram_by_path:Box.Mine")
    assert found().depth == 3  # type: ignore[attr-defined]
    assert describe(found)["name"] == "own_histogram_by_path:Box.Mine"
    with pytest.raises(ConfigurationError, match="not a dataclass"):
        find("own_histogram_by_path:Loose")
    del sys.modules["own_histogram_by_path"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("fancy", "there is no histogram 'fancy': use plain, greedy"),
        ("no_such_module_at_all:Class", "cannot be imported"),
        ("penstock.private.histograms.plain:Plane", "cannot be imported"),
        ("json:dumps", "not a dataclass with a method release"),
        (
            "penstock.private.mechanisms.ba:BudgetAbsorption",
            "not a dataclass with a method release",
        ),
        ("penstock.lab.histogram_checks:_OtherMethod", "lives in the lab"),
    ],
)
def test_anything_else_is_refused(name: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        find(name)


def test_a_description_is_plain_data() -> None:
    described = describe(Greedy)
    assert described["name"] == "greedy"
    assert described["class"] == "Greedy"
    assert described["parameters"] == [
        {"name": "share", "type": "Exact", "default": "0.1", "required": False}
    ]
    assert described["summary"].endswith(".")
    assert json.loads(json.dumps(described)) == described


def test_a_parameter_without_a_default_is_required() -> None:
    @dataclass(frozen=True)
    class Deep(Plain):
        """Deep."""

        depth: int

    assert describe(Deep)["parameters"] == [
        {"name": "depth", "type": "int", "default": None, "required": True}
    ]


def test_the_command_lists_them_all(capsys: pytest.CaptureFixture[str]) -> None:
    histograms()
    shown = capsys.readouterr().out
    assert all(name in shown for name in HISTOGRAMS)
    assert "share=0.1" in shown
    histograms(as_json=True)
    assert json.loads(capsys.readouterr().out) == [describe(cls) for cls in HISTOGRAMS.values()]
