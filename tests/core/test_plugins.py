"""Mechanisms and histogram methods of other packages: found by name, loaded late, and refused in
clear words.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.core import plugins
from penstock.core.errors import ConfigurationError
from penstock.engine.config_sections import InvalidConfigurationError
from penstock.engine.pipeline import Pipeline
from penstock.private.histograms import registry as histograms
from penstock.private.mechanisms import registry as mechanisms
from penstock.private.mechanisms.ba import BudgetAbsorption

from tests.installing import Points, install

MODULE = "plugged_in_parts"
SOURCE = '''
from dataclasses import dataclass
import numpy as np
from penstock import Plain, Uniform
from penstock.lab.audit.flawed.w_event import ShortWindow

@dataclass(frozen=True, kw_only=True)
class Mine(Uniform):
    """Mine."""
    name = "mine"
    grain: int = 1

@dataclass(frozen=True, kw_only=True)
class Shadow(Uniform):
    """Not what it seems."""
    name = "ba"

class Hidden(ShortWindow):
    name = "hidden"

@dataclass(frozen=True)
class Thick(Plain):
    """Thick."""
    depth: int = 2

number = 5
'''


@pytest.fixture
def plug_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PlugIn]:
    monkeypatch.syspath_prepend(str(tmp_path))
    yield PlugIn(tmp_path)
    for name in [MODULE, *(path.stem for path in tmp_path.glob("*.py"))]:
        sys.modules.pop(name, None)


class PlugIn:
    """Installs packages whose entry points lead to one module."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / f"{MODULE}.py").write_text(SOURCE, encoding="utf-8")

    def __call__(self, package: str = "their-parts", **names: str) -> None:
        self.install(package, {mechanisms.GROUP: names})

    def install(self, package: str, points: Points) -> None:
        install(self.folder, package, points)
        plugins._plugins.cache_clear()


def test_a_name_leads_to_what_a_package_offers_and_nothing_is_loaded_before(
    plug_in: PlugIn,
) -> None:
    plug_in(mine=f"{MODULE}:Mine")
    assert mechanisms.names()[-1] == "mine"
    with pytest.raises(
        ConfigurationError, match=r"no mechanism 'mein': use uniform, .*, mine, or a path"
    ):
        mechanisms.find("mein")
    assert MODULE not in sys.modules
    assert mechanisms.find("mine") is mechanisms.find(f"{MODULE}:Mine")
    described = mechanisms.describe(mechanisms.find("mine"))
    assert (described["package"], described["problem"], described["summary"]) == (
        "their-parts",
        None,
        "Mine.",
    )


def test_extras_and_spaces_in_an_entry_point_are_no_part_of_the_path(plug_in: PlugIn) -> None:
    plug_in(mine=f"{MODULE} : Mine [all]")
    assert mechanisms.find("mine").__name__ == "Mine"


def test_a_configuration_takes_the_name_with_its_parameters(plug_in: PlugIn) -> None:
    plug_in.install(
        "their-parts",
        {
            mechanisms.GROUP: {"mine": f"{MODULE}:Mine"},
            histograms.GROUP: {"thick": f"{MODULE}:Thick"},
        },
    )
    content = {
        "stream": {"name": "taps", "every": "1h", "origin": "2026-01-01"},
        "source": {"kind": "csv", "path": "taps.csv", "time": "ts", "key": "station"},
        "domain": {"keys": ["north", "south"]},
    }
    made = Pipeline.of(
        {**content, "privacy": {"mechanism": "mine", "epsilon": "1", "window": 24, "grain": 3}}
    ).mechanism()
    assert (made.name, made.configuration()["grain"]) == ("mine", 3)
    sampled = {
        "mechanism": "sample",
        "epsilon": "1",
        "window": 24,
        "histogram": {"method": "thick", "depth": 4},
    }
    made = Pipeline.of({**content, "privacy": sampled}).mechanism()
    assert made.configuration()["histogram"] == "Thick(depth=4)"
    with pytest.raises(InvalidConfigurationError, match="there is no mechanism 'mein'"):
        Pipeline.of({**content, "privacy": {"mechanism": "mein", "epsilon": "1", "window": 24}})


def test_our_names_cannot_be_taken(plug_in: PlugIn) -> None:
    plug_in(ba=f"{MODULE}:Shadow")
    assert mechanisms.find("ba") is BudgetAbsorption
    assert mechanisms.names().count("ba") == 1
    row = mechanisms.table()[-1]
    assert (row["name"], row["package"]) == ("ba", "their-parts")
    assert "is not used: 'ba' is a mechanism of Penstock's own" in row["problem"]
    assert MODULE not in sys.modules


def test_our_own_names_need_no_look_at_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(**_: object) -> None:
        pytest.fail("looked")

    monkeypatch.setattr(plugins, "_plugins", never)
    monkeypatch.setattr(plugins, "entry_points", never)
    assert mechanisms.find("ba") is BudgetAbsorption
    assert mechanisms.describe(BudgetAbsorption)["package"] == "penstock"
    assert histograms.describe(histograms.find("plain"))["package"] == "penstock"


def test_one_name_of_two_packages_is_refused_and_its_path_is_not(plug_in: PlugIn) -> None:
    plug_in(mine=f"{MODULE}:Mine")
    plug_in("others", mine=f"{MODULE}:Shadow")
    said = (
        rf"'mine' is offered by two packages, others \({MODULE}:Shadow\) "
        rf"and their-parts \({MODULE}:Mine\): uninstall one"
    )
    with pytest.raises(ConfigurationError, match=said):
        mechanisms.find("mine")
    assert mechanisms.find(f"{MODULE}:Mine").__name__ == "Mine"
    assert mechanisms.names().count("mine") == 1
    assert [row["problem"] is None for row in mechanisms.table() if row["name"] == "mine"] == [
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "import no_such_thing_at_all",
            "ModuleNotFoundError: No module named 'no_such_thing_at_all'",
        ),
        (
            "raise RuntimeError('not today.\\nnor tomorrow.')",
            "RuntimeError: not today. nor tomorrow.",
        ),
        ("raise SystemExit('goodbye')", "SystemExit: goodbye"),
        ("this is, not Python(", "SyntaxError: "),
        ("", "has no attribute 'Mine'"),
    ],
)
def test_what_is_broken_says_so_with_its_package_and_cause_and_disturbs_nothing_else(
    plug_in: PlugIn, source: str, said: str
) -> None:
    (plug_in.folder / "plugged_in_broken.py").write_text(source, encoding="utf-8")
    plug_in("good", mine=f"{MODULE}:Mine")
    plug_in("not-so-good", broken="plugged_in_broken:Mine")
    with pytest.raises(ConfigurationError) as caught:
        mechanisms.find("broken")
    message = str(caught.value)
    assert message.startswith(
        "the plug-in 'broken' of package not-so-good (plugged_in_broken:Mine) cannot be loaded: "
    )
    assert said in message
    assert "\n" not in message
    assert not message.endswith("..")
    assert caught.value.__cause__ is not None
    rows = {row["name"]: row for row in mechanisms.table()}
    assert rows["broken"]["problem"] == message
    assert rows["mine"]["problem"] is None
    assert len({tuple(sorted(row)) for row in rows.values()}) == 1


@pytest.mark.parametrize(
    ("name", "path", "said"),
    [
        ("number", f"{MODULE}:number", "is not a subclass of penstock.Mechanism"),
        ("thick", f"{MODULE}:Thick", "is not a subclass of penstock.Mechanism"),
        ("mein", f"{MODULE}:Mine", "calls itself 'mine': write name = 'mein' in the class"),
        ("mi@ne", f"{MODULE}:Mine", "has no usable name"),
        ("flawed", "penstock.lab.audit.flawed:ShortWindow", "lives in the lab"),
        (
            "published",
            "penstock_bench.published:PublishedIndependentAbsorption",
            "lives in the lab",
        ),
        ("short_window", f"{MODULE}:ShortWindow", "lives in the lab"),
        ("hidden", f"{MODULE}:Hidden", "lives in the lab"),
    ],
)
def test_what_is_no_mechanism_or_comes_from_the_lab_is_refused(
    plug_in: PlugIn, name: str, path: str, said: str
) -> None:
    plug_in(**{name: path})
    with pytest.raises(
        ConfigurationError, match=rf"the plug-in '{name}' of package their-parts .*{said}"
    ):
        mechanisms.find(name)


def test_no_detour_leads_to_the_lab_by_path_either(plug_in: PlugIn) -> None:
    for name in ("ShortWindow", "Hidden"):
        with pytest.raises(ConfigurationError, match="lives in the lab"):
            mechanisms.find(f"{MODULE}:{name}")


def test_histogram_methods_are_found_and_listed_the_same_way(plug_in: PlugIn) -> None:
    names = {"thick": f"{MODULE}:Thick", "plain": f"{MODULE}:Thick", "number": f"{MODULE}:number"}
    plug_in.install("their-parts", {histograms.GROUP: names})
    assert histograms.find("thick")() == histograms.find(f"{MODULE}:Thick")()
    assert histograms.find("plain").__module__.startswith("penstock.")
    rows = {(row["name"], row["package"]): row["problem"] for row in histograms.table()}
    assert rows["thick", "their-parts"] is None
    assert "is not used: 'plain' is a method of Penstock's own" in rows["plain", "their-parts"]
    assert "is not a dataclass with a method release" in rows["number", "their-parts"]
    with pytest.raises(
        ConfigurationError, match=r"no histogram 'thin': use plain, .*, thick, or a path"
    ):
        histograms.find("thin")
