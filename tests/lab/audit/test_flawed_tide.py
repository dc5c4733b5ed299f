"""Variants of `tide` that decide by counts or pay too little are convicted."""

from __future__ import annotations

import pytest

from penstock.lab.audit.engine import audit
from penstock.lab.audit.flawed import VARIANTS
from penstock.lab.audit.subjects import subject


@pytest.mark.slow
def test_blocks_that_end_where_somebody_is_are_convicted() -> None:
    verdict = audit(subject("flawed:tide_closes_on_counts", runs=100), seed=1, workers=1)
    assert verdict.convicted
    assert verdict.lower_bound > 1.5


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["tide_closes_on_counts", "tide_front_for_nothing"])
def test_every_flawed_variant_of_tide_is_convicted(name: str) -> None:
    verdict = audit(subject(f"flawed:{name}", runs=VARIANTS[name].runs), seed=1, workers=1)
    assert verdict.convicted


@pytest.mark.nightly
def test_tide_is_acquitted() -> None:
    assert not audit(subject("tide", runs=400), seed=1, workers=1).convicted
