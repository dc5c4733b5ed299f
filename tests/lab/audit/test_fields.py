"""Codes of what a run shows besides its values."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np
import pytest

import penstock as ps
from penstock.core.guarantee import Guarantee
from penstock.core.released import Released
from penstock.lab.audit.fields import CODES, FieldDigest
from penstock.private.mechanisms.registry import MECHANISMS
from penstock.testing import TestNoise


def naive_codes(promise: Guarantee, units: list[tuple[Released, list[Any]]]) -> dict[str, int]:
    """The text of all facts of each field, one unit after the other."""
    text: dict[str, str] = {}

    def add(name: str, *facts: object) -> None:
        text[name] = text.get(name, "") + repr(facts)

    def plain(value: Any) -> object:
        return (
            (value.dtype.str, crc32(np.ascontiguousarray(value).tobytes()))
            if isinstance(value, np.ndarray)
            else value
        )

    for shown, lines in units:
        value = shown.value
        add("scale", shown.scale.base, plain(shown.scale.parts))
        add("layers", plain(shown.layers))
        add("divisor", plain(shown.divisor))
        add(
            "form",
            shown.kind,
            shown.weights,
            shown.unit,
            None if shown.guarantee == promise else shown.guarantee,
            shown.private,
            value.dtype.str,
            value.shape,
            type(shown.repeated).__name__,
        )
        add("public", *((name, (a.dtype.str, a.shape)) for name, a in shown.public.items()))
        for name, array in shown.public.items():
            add(f"public {name}", plain(array))
        usual = {*Released.__dataclass_fields__, "domain", "calendar"}
        add("attributes", *(item for item in vars(shown).items() if item[0] not in usual))
        add("ledger", *((x.kind, x.label, x.amount, x.number, x.run) for x in lines))
    return {name: 1 + crc32(each.encode()) % CODES for name, each in text.items()}


@pytest.mark.parametrize("name", MECHANISMS)
def test_codes_are_those_of_a_naive_twin(name: str) -> None:
    mechanism = MECHANISMS[name](epsilon="1", window=3)
    run = mechanism.run(4, noise=TestNoise(1))
    promises = mechanism.guarantee, Guarantee("7", 2)
    digests, units = [FieldDigest(each) for each in promises], []
    for unit in range(1, 7):
        released = run.step([unit, 0, 2 * unit, 3])
        if unit == 5:
            object.__setattr__(released, "hidden", {"unit": 5.0})
        lines = [line for line in run.ledger if line.unit == unit]
        units.append((released, lines))
        for digest in digests:
            digest.add(released, iter(lines))
    for digest, promise in zip(digests, promises, strict=True):
        assert digest.codes == naive_codes(promise, units)


def test_a_number_and_a_truth_value_have_different_codes() -> None:
    """They are equal in Python, so nothing here may be looked up by its value."""
    mechanism = ps.Uniform(epsilon="1", window=2)
    codes = []
    for hidden in (1, True, 1.0):
        digest, run = FieldDigest(mechanism.guarantee), mechanism.run(1, noise=TestNoise(1))
        released = run.step([1])
        object.__setattr__(released, "hidden", hidden)
        digest.add(released, [])
        codes.append(digest.codes["attributes"])
    assert len(set(codes)) == 3
