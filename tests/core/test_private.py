"""`Private`: every way to look at it is refused, and what may be done with it is right."""

from __future__ import annotations

import copy
import json
import math
import operator
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.cover import ALL, EACH, Groups
from penstock.core.errors import ConfigurationError, SealedError
from penstock.core.private import Private, unseal

SECRET = 424_242


def secret() -> Private:
    return Private(np.array([SECRET, 1]), sensitivity=3)


def _compare_in_list(private):
    return SECRET in [private]


LOOKS = {
    "bool": bool,
    "not": operator.not_,
    "int": int,
    "float": float,
    "complex": complex,
    "index": operator.index,
    "hex": hex,
    "bytes": bytes,
    "bytearray": bytearray,
    "len": len,
    "iter": iter,
    "next": next,
    "list": list,
    "tuple": tuple,
    "set": set,
    "dict": dict,
    "sum": sum,
    "min": min,
    "sorted": sorted,
    "any": any,
    "all": all,
    "reversed": lambda p: list(reversed(p)),
    "star": lambda p: [*p],
    "unpack": lambda p: operator.itemgetter(0)(p),
    "slice": lambda p: p[:1],
    "contains": lambda p: SECRET in p,
    "in a list": _compare_in_list,
    "set item": lambda p: operator.setitem(p, 0, 1),
    "del item": lambda p: operator.delitem(p, 0),
    "hash": hash,
    "round": round,
    "trunc": math.trunc,
    "floor": math.floor,
    "ceil": math.ceil,
    "sqrt": math.sqrt,
    "neg": operator.neg,
    "pos": operator.pos,
    "abs": abs,
    "invert": operator.invert,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": pickle.dumps,
    "json": json.dumps,
    "vars": vars,
    "memoryview": memoryview,
    "percent": lambda p: "%d" % p,  # noqa: UP031
    "range": range,
    "asarray": np.asarray,
    "array": np.array,
    "asanyarray": np.asanyarray,
    "asarray as floats": lambda p: np.asarray(p, np.float64),
    "np.sum": np.sum,
    "np.mean": np.mean,
    "np.copy": np.copy,
    "np.abs": np.abs,
    "np.add": lambda p: np.add(p, 1),
    "array +": lambda p: np.ones(2, np.int64) + p,
    "array ==": lambda p: np.ones(2, np.int64) == p,
    "array <": lambda p: np.ones(2, np.int64) < p,
    "array index": lambda p: np.arange(10)[p],
    "np.where": lambda p: np.where(p, 1, 0),
    "np.concatenate": lambda p: np.concatenate([p, p]),
    "np.array_equal": lambda p: np.array_equal(p, p),
    "np.frombuffer": np.frombuffer,
    "np.from_dlpack": np.from_dlpack,
    "interface": lambda p: p.__array_interface__,
    "struct": lambda p: p.__array_struct__,
    "attribute": lambda p: p.value,
    "hidden attribute": lambda p: p.__value,
    "dict attribute": lambda p: p.__dict__,
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS.keys())
def test_every_way_to_look_is_refused(look):
    with pytest.raises((TypeError, AttributeError)) as caught:
        look(secret())
    assert str(SECRET) not in str(caught.value)


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
@pytest.mark.parametrize("other", [SECRET, None, 1.5])
def test_no_comparison_has_an_answer(name, other):
    compare = getattr(operator, name)
    for left, right in [(secret(), other), (other, secret()), (secret(), secret())]:
        with pytest.raises(SealedError):
            compare(left, right)


@pytest.mark.parametrize(
    "name",
    [
        "add",
        "sub",
        "mul",
        "truediv",
        "floordiv",
        "mod",
        "pow",
        "matmul",
        "and_",
        "or_",
        "xor",
        "lshift",
        "rshift",
    ],
)
def test_no_arithmetic_has_a_result(name):
    operate = getattr(operator, name)
    for left, right in [(secret(), 2), (2, secret()), (secret(), secret())]:
        with pytest.raises(TypeError):
            operate(left, right)
    with pytest.raises(TypeError):
        divmod(secret(), 2)


def test_a_branch_on_it_is_an_error_that_says_what_to_do():
    with pytest.raises(SealedError, match="Ask the gate"):
        _ = 1 if secret() else 2


@pytest.mark.parametrize(
    "shown", [repr, str, ascii, format, "{:>40}".format, "{!r}".format, "%s".__mod__, "%r".__mod__]
)
def test_nothing_shows_the_numbers(shown):
    text = shown(secret())
    assert "<Private, sensitivity 3>" in text
    assert str(SECRET) not in text


def test_it_can_be_subscripted_neither_as_an_element_of_an_array():
    try:
        box = np.array([secret(), None], dtype=object)
    except TypeError:
        return
    assert box.dtype == object
    assert str(SECRET) not in repr(box)


def test_sensitivity_and_cover_travel_with_what_is_made_of_it():
    counts = Private(np.array([1, 2, 3]), sensitivity=3)
    groups = Groups.from_labels(np.array([0, 1, 0]))
    assert counts.cover is EACH
    assert (
        counts.distance(np.zeros(3, np.int64)).sensitivity,
        counts.distance(np.zeros(3, np.int64)).cover,
    ) == (3, ALL)
    assert counts.sums(groups).sensitivity == 3
    assert counts.sums(groups).cover.of is groups.of
    assert counts.distances(np.zeros(3, np.int64), groups).sensitivity == 3
    doubled = counts.map(lambda c: 2 * c, stability=2, cover=EACH)
    assert doubled.sensitivity == 6
    assert doubled.map(lambda c: c.sum(), stability=5, cover=ALL).sensitivity == 30


@given(st.data())
@settings(derandomize=True, deadline=None, max_examples=60)
def test_distances_and_sums_are_those_of_a_loop(data):
    size = data.draw(st.integers(1, 12))
    numbers = st.lists(st.integers(0, 2**50), min_size=size, max_size=size)
    counts, other = np.array(data.draw(numbers)), np.array(data.draw(numbers))
    groups = Groups.from_ranks(
        np.array(data.draw(st.permutations(range(size)))), data.draw(st.integers(1, size))
    )
    before = counts.copy(), other.copy()
    private = Private(counts, sensitivity=1)
    far = [abs(c - o) for c, o in zip(counts.tolist(), other.tolist(), strict=True)]
    members = [
        [key for key in range(size) if groups.of[key] == group] for group in range(groups.number)
    ]
    assert unseal(private.distance(other)).tolist() == [sum(far)]
    assert unseal(private.distances(other, groups)).tolist() == [
        sum(far[key] for key in keys) for keys in members
    ]
    assert unseal(private.sums(groups)).tolist() == [
        sum(counts.tolist()[key] for key in keys) for keys in members
    ]
    assert (counts == before[0]).all()
    assert (other == before[1]).all()


def test_a_function_that_gives_fractions_is_refused():
    # Ten numbers that each move by 1/10 when one count moves by 1 would all move by 1 if they were
    # cut to whole numbers.
    counts = Private(np.full(1, 9), sensitivity=1)
    with pytest.raises(ConfigurationError):
        counts.map(lambda c: np.full(10, c.sum() / 10), stability=1, cover=ALL)
