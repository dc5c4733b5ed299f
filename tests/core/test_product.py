"""Domains of several attributes."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError, StateError
from penstock.core.hierarchy import Hierarchy
from penstock.core.product import MAX_KEYS, Product
from penstock.private.mechanisms.uniform import Uniform
from penstock.testing import TestNoise

CENSUS = {"sex": ["f", "m"], "age": 3, "region": ["north", "south", "west"]}

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4)
values = st.lists(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters=","), max_size=4),
    min_size=1,
    max_size=4,
)
tables = st.dictionaries(
    names, values.filter(lambda each: len(set(each)) == len(each)), min_size=1, max_size=4
)


@settings(max_examples=60, deadline=None)
@given(tables)
def test_keys_are_all_combinations_and_differ(table):
    domain = Product.of(table)
    assert domain.keys == tuple(",".join(each) for each in itertools.product(*table.values()))
    assert domain.names == tuple(table)
    assert domain.shape == tuple(map(len, table.values()))
    assert Domain(domain.keys).size == domain.size == np.prod(domain.shape)
    assert Product.of(dict(domain.attributes)) == domain
    assert pickle.loads(pickle.dumps(domain)).keys == domain.keys


@settings(max_examples=60, deadline=None)
@given(tables, tables)
def test_facts_tell_products_apart(one, other):
    assert (Product.of(one).facts == Product.of(other).facts) == (
        Product.of(one) == Product.of(other)
    )


def test_products_with_the_same_keys_may_differ():
    same_keys = [
        Product.of({"a": 2, "b": 2}),
        Product.of({"b": 2, "a": 2}),
        Product.of({"a": 2, "c": 2}),
    ]
    same_keys += [Product.of(["0,0", "0,1", "1,0", "1,1"]), Domain.of(["0,0", "0,1", "1,0", "1,1"])]
    assert len({each.facts for each in same_keys}) == len(set(same_keys)) == 5
    assert len({each.keys for each in same_keys}) == 1


def test_no_other_domain_has_the_facts_of_a_product():
    product = Product.of({"a": 2})
    with pytest.raises(ConfigurationError, match="twice"):
        Domain(product.facts)
    assert Hierarchy.of({"product": "product/1"}).facts != Product.of({"a": 1}).facts


def test_a_grid_goes_row_by_row():
    grid = Product.grid(2, 3)
    assert grid.keys == ("0,0", "0,1", "0,2", "1,0", "1,1", "1,2")
    assert (grid.names, grid.shape) == (("row", "column"), (2, 3))
    assert repr(grid) == "Product(6 keys: row 2, column 3)"


def test_any_domain_is_a_product_of_one_attribute_and_a_product_is_a_domain():
    product = Product.of(["a,b", "c"])
    assert (product.names, product.shape, product.keys) == (("key",), (2,), ("a,b", "c"))
    assert Product.of(Hierarchy.binary(2)).attributes == (("key", ("0", "1")),)
    assert Product.of(product) is product
    assert Domain.of(product) is product


def test_a_million_keys():
    product = Product.of(dict.fromkeys("abcdef", 10))
    assert (product.size, product.keys[-1], len(product.facts)) == (1_000_000, "9,9,9,9,9,9", 75)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "at least one attribute"),
        ({"": 2}, "name of its own"),
        ({1: 2, "1": 3}, "name of its own"),
        ({"sex": []}, "attribute 'sex' must have at least one"),
        ({"sex": ["f", "f"]}, "attribute 'sex' must not name a key twice"),
        ({"sex": "fm"}, "attribute 'sex' must be a number of keys or several names"),
        ({"sex": 2.5}, "attribute 'sex' must be a number of keys or several names"),
        ({"sex": 0}, "attribute 'sex' must be a whole number of at least 1"),
        (
            {"sex": ["f", "m"], "place": ["a", "b,c"]},
            "attribute 'place' must have no value with ','",
        ),
        ({"\ud800": 2}, "UTF-8"),
        ({"sex": ["\ud800"]}, "attribute 'sex' must have keys of text that UTF-8"),
        ({"x": 20_000, "y": 20_000}, f"at most {MAX_KEYS:,} keys: attributes of 20000 × 20000"),
    ],
)
def test_what_makes_no_product_is_refused(table, message):
    with pytest.raises(ConfigurationError, match=message):
        Product.of(table)


def test_a_run_over_a_product_goes_on_over_the_same_only():
    mechanism, domain = Uniform(epsilon=1, window=4), Product.of(CENSUS)
    run = mechanism.run(domain, noise=TestNoise(1))
    first = run.step(np.arange(domain.size))
    assert run.domain is domain
    assert first.value.shape == (18,)
    saved = run.snapshot()
    again = mechanism.restore(saved, Product.of(CENSUS), noise=TestNoise(2))
    assert again.unit == 1
    other = {"sex": ["f", "m"], "age": 3, "place": ["north", "south", "west"]}
    for another in (Product.of(other), Domain.of(domain.keys)):
        with pytest.raises(StateError, match="another domain"):
            mechanism.restore(saved, another, noise=TestNoise(2))
