"""The codec gives back what it was given, and refuses the rest."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from penstock.core.codec import FRACTION, MAP, SORTED_MAP, TUPLE, Codec, class_name
from penstock.core.errors import StateError


@dataclass(frozen=True)
class CodecPoint:
    x: Fraction
    many: list[tuple[int, ...]]


CODEC = Codec((FRACTION, TUPLE, MAP), {class_name(CodecPoint): CodecPoint})


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (None, None),
        (True, True),
        (np.int64(7), 7),
        (np.bool_(True), True),
        (np.float64(0.5), 0.5),
        (2**63, 2**63),
        (-(2**63) - 1, {"int": str(-(2**63) - 1)}),
        (Fraction(1, 3), {"ratio": "1/3"}),
        ((1, "a"), {"tuple": [1, "a"]}),
        ({"b": 1, "a": (2,)}, {"map": [["b", 1], ["a", {"tuple": [2]}]]}),
    ],
)
def test_values_have_one_plain_form(value, plain):
    assert CODEC.plain(value) == plain
    assert CODEC.rich(plain) == value


def test_a_sorted_map_does_not_depend_on_its_order():
    codec = Codec((SORTED_MAP,))
    assert codec.plain({"b": 1, "a": 2}) == codec.plain({"a": 2, "b": 1})


def test_dataclasses_come_back_and_others_are_refused():
    point = CodecPoint(Fraction(1, 3), [(1, 2)])
    plain = CODEC.plain(point)
    assert plain["class"] == class_name(CodecPoint)
    assert CODEC.rich(plain) == point
    with pytest.raises(StateError, match="Point cannot be saved"):
        Codec((FRACTION,)).plain(point)
    with pytest.raises(KeyError):
        Codec((FRACTION, TUPLE)).rich(plain)


def test_a_class_that_has_another_name_now_is_found():
    codec = Codec((FRACTION, TUPLE), renamed={"old:Spot": CodecPoint}.get)
    assert codec.rich({"class": "old:Spot", "fields": {"x": 1, "many": []}}) == CodecPoint(1, [])
