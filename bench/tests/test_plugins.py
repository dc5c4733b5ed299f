from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from penstock.core.errors import ConfigurationError
from penstock.testing import TestNoise
from penstock_bench.cell import TRIVIAL
from penstock_bench.plugins import NO_MECHANISM, mechanism_class

from tests.installing import install

SOURCE = """
from dataclasses import dataclass
from penstock import Uniform

@dataclass(frozen=True, kw_only=True)
class Mine(Uniform):
    name = "mine"
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that offers four mechanisms, as an installer would leave it."""
    (tmp_path / "bench_plug_in.py").write_text(SOURCE)
    names = {"mine": "Mine", "wrong": "dataclass", "broken": "nothing", "mean": "Mine"}
    points = {name: f"bench_plug_in:{path}" for name, path in names.items()}
    install(tmp_path, "bench-plug-in", {"penstock.mechanisms": points})
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "bench_plug_in", raising=False)


@pytest.mark.usefixtures("installed")
def test_a_mechanism_of_another_package_is_found_by_name():
    assert mechanism_class("mine").__name__ == "Mine"
    assert mechanism_class("mine") is mechanism_class("bench_plug_in:Mine")
    with pytest.raises(
        ConfigurationError,
        match=r"'wrong' of package bench-plug-in \(bench_plug_in:dataclass\) is not a subclass",
    ):
        mechanism_class("wrong")
    with pytest.raises(
        ConfigurationError,
        match=r"'broken' of package bench-plug-in .* cannot be loaded: .* AttributeError",
    ):
        mechanism_class("broken")


@pytest.mark.usefixtures("installed")
def test_no_plug_in_stands_for_a_line_that_needs_no_mechanism():
    assert set(NO_MECHANISM) == set(TRIVIAL)
    with pytest.raises(ConfigurationError, match="'mean' is a trivial line of the bench"):
        mechanism_class("mean")


def test_unknown_names_are_refused():
    for name in (
        "mine",
        "flawed:Mine",
        "flawed:np",
        "penstock.lab.audit.flawed.w_event:ShortWindow",
    ):
        with pytest.raises(ConfigurationError):
            mechanism_class(name)


def test_a_published_form_may_lose_what_it_loses():
    """Groups that leap in turn, each with a budget of its own, spend far more than the ε that was
    claimed.
    """
    groups, each, window = 64, 1_000, 64
    mechanism = mechanism_class("flawed:IndependentAbsorption")(
        epsilon="1", window=window, each=each
    )  # type: ignore[call-arg]
    run = mechanism.run(groups * each, noise=TestNoise(1))
    counts = np.zeros(groups * each, np.int64)
    dearest = 0.0
    for unit in range(2 * window):
        if unit >= window:  # until now everybody has saved
            counts[each * (unit - window)] = 10**6
        run.step(counts)
        dearest = max(dearest, float(run.cost.epsilon))
    assert dearest > 16
