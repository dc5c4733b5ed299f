"""The document and the table of a release: the same item gives the same bytes, nothing invented."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from math import isfinite

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.hierarchy import Hierarchy
from penstock.core.released import Released, Scale
from penstock.core.weights import Weights
from penstock.released.series import Series
from penstock.released.sinks import release_document as module
from penstock.released.sinks.release_document import (
    LONG_COLUMNS,
    beginning,
    document,
    numbers,
    plain,
    table,
)
from penstock.testing import TestNoise

from tests.released.sinks.items import AWKWARD, KEYS, ROOT_OF_TESTS, item, items, series
from tests.released.streams import MECHANISMS, counts_of

TAPS = series(AWKWARD)


def read(one):
    return json.loads(document(one))


def test_a_document_says_what_it_is_of():
    content = read(item(TAPS, 17))
    columns = {
        name: content.pop(name) for name in ("values", "deviations", "low", "high", "repeated")
    }
    assert content == {
        "format": ["penstock release", 1],
        "series": AWKWARD,
        "unit": 17,
        "link": item(TAPS, 17).link,
        "begins": "2026-01-01T16:00:00Z",
        "ends": "2026-01-01T17:00:00Z",
        "private": True,
        "guarantee": {
            "epsilon": "1/2",
            "delta": "0",
            "window": 24,
            "contribution": 1,
            "horizon": None,
            "intrusion": "",
        },
        "mechanism": "uniform",
        "configuration": {"epsilon": "1/2", "window": "24"},
        "weights": {"kind": "unit", "length": 1, "rate": "1"},
        "keys": list(KEYS),
        "public": {},
    }
    assert {len(column) for column in columns.values()} == {len(KEYS)}
    assert columns["values"] == item(TAPS, 17).release.value.tolist()
    assert columns["repeated"] == [False] * len(KEYS)


def test_a_document_is_one_line_and_begins_with_its_series():
    raw = document(item(TAPS, 1))
    assert b"\n" not in raw
    assert raw.startswith(beginning())
    assert raw.startswith(beginning(AWKWARD))
    assert not raw.startswith(beginning("Zürich"))
    assert not raw.startswith(beginning(AWKWARD + "x"))


def test_the_same_item_gives_the_same_bytes_in_another_process():
    script = (
        "import hashlib\nfrom tests.released.sinks.items import *\n"
        "from penstock.released.sinks.release_document import document\n"
        "print(hashlib.sha256(b''.join(map(document, items(series(AWKWARD), 1, 5)))).hexdigest())"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=ROOT_OF_TESTS,
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    here = hashlib.sha256(b"".join(map(document, items(TAPS, 1, 5)))).hexdigest()
    assert runs == [f"{here}\n"] * 2


def test_the_order_of_a_configuration_does_not_matter():
    other = Series(**{**vars(TAPS), "configuration": dict(reversed(TAPS.configuration.items()))})
    assert document(item(other, 1)) == document(item(TAPS, 1))


@given(value=st.floats(1e-6, 1e12), steps=st.integers(-3, 3))
def test_the_last_bits_of_a_library_do_not_show(value, steps):
    """A few steps of a float are far below nine digits, unless a number lies just on an edge of
    rounding: then one digit.
    """
    near = value
    for _ in range(abs(steps)):
        near = float(np.nextafter(near, np.inf if steps > 0 else 0))
    half, other = (module._rounded(np.array([each]), module._UP)[0] for each in (value, near))
    assert half == other or abs(half - other) <= 2e-8 * half
    assert half >= value * (1 - 1e-11)
    assert half <= value * (1 + 2e-8)


def test_whole_numbers_stay_as_they_are():
    assert module._rounded(np.array([3.0, 0.4, 1 / 3, np.inf, np.nan]), module._UP).tolist()[
        :3
    ] == [3.0, 0.4, 0.333333334]
    assert np.isnan(module._rounded(np.array([np.inf, np.nan]), module._UP)).all()


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
@settings(max_examples=8, deadline=None)
@given(counts=counts_of)
def test_every_release_of_every_mechanism_has_a_document_and_a_table(mechanism, counts):
    run = mechanism.run(3, noise=TestNoise(5))
    for unit in counts:
        release = run.step(unit)
        one = item(series("m", run.released.keys), release.unit, release=release)
        content = read(one)
        low, high = release.interval("0.95")
        for j in range(len(content["keys"])):
            assert content["values"][j] == pytest.approx(release.estimate[j], rel=1e-12)
            if isfinite(low[j]):
                assert content["low"][j] <= low[j] + 1e-9 * abs(low[j])
                assert content["high"][j] >= high[j] - 1e-9 * abs(high[j])
                assert content["deviations"][j] == pytest.approx(
                    release.variance[j] ** 0.5, rel=1e-8
                )
            else:
                assert content["low"][j] is content["high"][j] is content["deviations"][j] is None
        assert content["private"] is False
        assert content["public"] == {name: array.tolist() for name, array in release.public.items()}
        rows = table(one).to_pydict()
        for name, column in (
            ("value", "values"),
            ("deviation", "deviations"),
            ("low", "low"),
            ("high", "high"),
        ):
            assert rows[name] == content[column]
        assert rows["repeated"] == content["repeated"]
        assert rows["key"] == content["keys"]


def test_nothing_released_yet_is_null_and_not_infinite():
    nothing = Released.nothing(len(KEYS), TAPS.guarantee)
    one = item(TAPS, 1, release=nothing.again(1))
    content = read(one)
    for name in ("deviations", "low", "high"):
        assert content[name] == [None] * len(KEYS)
    assert content["repeated"] == [True] * len(KEYS)
    assert table(one).column("deviation").null_count == len(KEYS)


def test_shares_are_divided_and_whole_numbers_have_no_point():
    one = item(TAPS, 1, value=np.array([1, 2, 3, 4]), divisor=np.array([1, 2, 2, 3]))
    assert document(one).count(b'"values":[1,1,1.5,1.3333333333333333]') == 1
    assert read(item(TAPS, 1, value=np.array([2**60 + 1, 0, 0, 0])))["values"][0] == 2**60 + 1


def test_what_is_not_known_is_none():
    assert plain(np.array([1.0, 1.5, np.nan, np.inf, -np.inf])) == [1, 1.5, None, None, None]


def test_sums_of_many_units_say_so():
    one = item(TAPS, 1, weights=Weights.decay("0.9", 5), kind="weighted")
    assert read(one)["weights"] == {"kind": "decay", "length": 5, "rate": "9/10"}


def test_the_nodes_of_a_hierarchy_are_keys():
    nodes = Hierarchy.of({"room 1": "A/floor 1", "kiosk": ""}).nodes
    content = read(item(series("campus", nodes), 1))
    assert content["keys"] == ["A", "kiosk", "A/floor 1", "A/floor 1/room 1"]


def test_a_table_has_one_row_a_key():
    found = table(item(TAPS, 17))
    moment = pa.timestamp("us", "UTC")
    assert {field.name: field.type for field in found.schema} == {
        "series": pa.string(),
        "unit": pa.int64(),
        "begins": moment,
        "ends": moment,
        "key": pa.string(),
        "value": pa.float64(),
        "deviation": pa.float64(),
        "low": pa.float64(),
        "high": pa.float64(),
        "repeated": pa.bool_(),
    }
    assert found.num_rows == len(KEYS)
    assert set(found.column("series").to_pylist()) == {AWKWARD}
    assert found.column("begins")[0].as_py() == item(TAPS, 17).begins


def test_many_keys_fit():
    big = series("cells", 88_762)
    one = item(big, 1, scale=Scale(Fraction(1, 3)), divisor=np.arange(1, 88_763))
    content = read(one)
    assert len(content["keys"]) == len(content["low"]) == table(one).num_rows == 88_762


def test_numbers_agree_with_the_release():
    release = item(TAPS, 1).release
    low, high = release.interval("0.95")
    of = numbers(release)
    assert of.low.tolist() == low.tolist()
    assert of.high.tolist() == high.tolist()


def nonnegative(one):
    return replace(one, nonnegative=True)


def test_a_non_negative_document_says_how_it_was_made_and_that_it_costs_nothing():
    raw = read(item(TAPS, 3, value=np.array([-7, 0, 5, 900])))
    cut = read(nonnegative(item(TAPS, 3, value=np.array([-7, 0, 5, 900]))))
    assert cut["values"] == [0, 0, 5, 900]
    assert cut["low"] == [max(low, 0) for low in raw["low"]]
    assert cut["high"] == raw["high"]
    assert cut["deviations"] == raw["deviations"]
    assert cut["nonnegative"]["method"] == "cut at 0"
    assert cut["nonnegative"]["epsilon"] == "0"
    assert "nonnegative" not in raw
    assert cut["link"] == raw["link"]


def test_non_negative_numbers_of_a_hierarchy_add_up():
    tree = Hierarchy.of({"a": "x", "b": "x", "c": "y"})
    of = series("nodes", keys=tree.nodes)
    one = nonnegative(item(of, 1, value=np.array([10, -4, 14, -6, -4])))
    assert of.domain.keys == ("x", "y", "x/a", "x/b", "y/c")
    content = read(one)
    x, y, a, b, c = content["values"]
    assert (a + b, c) == (x, y)
    assert min(content["values"]) >= 0
    assert "keeps the totals" in content["nonnegative"]["method"]
    assert table(one).column("value").to_pylist() == content["values"]


def test_what_is_not_released_yet_stays_unknown_when_made_non_negative():
    nothing = Released.nothing(len(KEYS), TAPS.guarantee).again(1)
    content = read(nonnegative(item(TAPS, 1, release=nothing)))
    assert content["values"] == [0] * len(KEYS)
    assert content["low"] == content["high"] == [None] * len(KEYS)


def test_the_columns_of_a_table_say_what_they_mean():
    plain_schema = table(item(TAPS, 1)).schema
    assert all(field.metadata[b"description"] for field in plain_schema)
    assert b"penstock.nonnegative" not in plain_schema.field("value").metadata
    marked = table(nonnegative(item(TAPS, 1))).schema
    for name in ("value", "deviation", "low", "high"):
        told = json.loads(marked.field(name).metadata[b"penstock.nonnegative"])
        assert told["epsilon"] == "0"
    assert marked.field("value").metadata[b"description"].endswith(b"made non-negative")
    assert b"penstock.nonnegative" not in marked.field("key").metadata


def test_a_table_in_long_format_has_six_columns():
    found = table(item(TAPS, 1), LONG_COLUMNS)
    assert found.column_names == ["unit", "begins", "key", "value", "low", "high"]
    assert found.equals(table(item(TAPS, 1)).select(list(LONG_COLUMNS)))
