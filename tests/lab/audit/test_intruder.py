"""A look into the memory sees the source of noise, and a key there decides between two streams."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from penstock.core.errors import ConfigurationError
from penstock.lab.audit import engine
from penstock.lab.audit.engine import Verdict
from penstock.lab.audit.model import Look, Pair
from penstock.lab.audit.noise import ErasingLabNoise, LabNoise
from penstock.lab.audit.sample import traces
from penstock.lab.audit.subjects import Subject, subject
from penstock.private.gate import Gate
from penstock.private.mechanisms.pan import PanAbsorption, PanDistribution
from penstock.testing import intrude

FAR = 10**6


def leaping(found: Subject) -> tuple[Pair, ...]:
    """A pair of streams that are published and looked into in every run."""
    (pair,) = (
        each
        for each in found.pairs
        if each.name == "leaping in every unit, a person from unit 3, looked into"
    )
    return (pair,)


def judged(found: Subject) -> Verdict:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "resolve", lambda spec: found)
        return engine.audit(found, confidence=0.999, seed=3, workers=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bd_pan@between", "ba_pan@between"])
def test_a_source_that_keeps_its_key_is_convicted_and_the_shipped_one_is_not(name: str) -> None:
    shipped = subject(name, runs=120)
    assert shipped.mechanism.guarantee.intrusion.name == "BETWEEN"
    assert all(pair.look is not None and pair.look.after for pair in shipped.pairs)
    shipped = replace(shipped, pairs=leaping(shipped), more=())
    assert not judged(shipped).convicted
    verdict = judged(replace(shipped, noise=LabNoise))
    assert verdict.convicted
    assert all(cell[-1] in "◁▷" for cell in verdict.event.cells)


@pytest.mark.slow
def test_a_gate_that_does_not_erase_is_convicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gate, "erase", lambda self: None)
    for name in ("bd_pan@between", "bd_pan"):
        found = subject(name, runs=120)
        assert judged(replace(found, pairs=leaping(found), more=())).convicted


@pytest.mark.parametrize("unit", [1, 2])
@pytest.mark.parametrize("cls", [PanDistribution, PanAbsorption])
@pytest.mark.parametrize("after", [True, False])
def test_a_kept_key_excludes_the_other_stream(cls: Any, unit: int, after: bool) -> None:
    stream = np.array([[FAR, 0], [0, FAR], [FAR, FAR]])
    counts = stream[unit - 1]
    look = Look(unit, counts, counts + np.array([1, 0]), after)
    mechanism = cls(epsilon=1, window=2, intrusion="between" if after else "within")
    kept = traces(mechanism, stream, 10, LabNoise(1), look=look)
    assert kept.explained is not None
    assert (kept.explained[:, 0] == 1).all()
    assert (kept.explained[:, 1] == 0).any()
    erased = traces(mechanism, stream, 10, ErasingLabNoise(1), look=look)
    assert erased.explained is not None
    assert (erased.explained == -1).all()


def test_the_view_of_an_intruder_has_the_key_until_it_is_erased() -> None:
    noise = ErasingLabNoise(1)
    run = PanDistribution(epsilon=1, window=2, intrusion="between").run(3, noise=noise)
    run._gate.begin(1)
    run._gate._maker.draw(run._gate._maker.scale(1, run._gate.left), 3, "publish")
    assert "noise key" in intrude(run)
    run._gate.erase()
    assert "noise key" not in intrude(run)


@pytest.mark.parametrize("name", ["bd@between", "uniform@between"])
def test_only_a_pan_private_mechanism_is_audited_between_units(name: str) -> None:
    with pytest.raises(ConfigurationError, match="no promise for looks between units"):
        subject(name)
