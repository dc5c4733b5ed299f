"""The declared keys."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError


def test_a_domain_is_made_of_itself_a_number_or_names():
    domain = Domain.of(["b", "a"])
    assert Domain.of(domain) is domain
    assert domain.keys == ("b", "a")
    assert Domain.of(2).keys == Domain.of(np.int32(2)).keys == ("0", "1")
    assert Domain.of(np.array(["x", "y"])).keys == ("x", "y")
    assert Domain.of(name for name in "xy").keys == ("x", "y")


@pytest.mark.parametrize("wrong", [0, -1, True, [], (), "north", ["a", "b", "a"], [1, "1"]])
def test_a_domain_that_cannot_be_is_refused(wrong):
    with pytest.raises(ConfigurationError, match="domain"):
        Domain.of(wrong)


@pytest.mark.parametrize("wrong", [None, 2.0, 1j])
def test_what_is_no_list_of_names_is_refused_as_a_configuration(wrong):
    with pytest.raises(ConfigurationError, match="domain"):
        Domain.of(wrong)


def test_its_repr_is_short():
    assert repr(Domain.of(2)) == "Domain(2 keys: '0', '1')"
    assert len(repr(Domain.of(10_000))) < 60


def test_domains_are_values_and_their_order_counts():
    assert Domain.of(["a", "b"]) == Domain.of(("a", "b"))
    assert Domain.of(["a", "b"]) != Domain.of(["b", "a"])


@pytest.mark.slow
@given(
    st.lists(st.text(max_size=4), min_size=1, max_size=12, unique=True),
    st.randoms(use_true_random=False),
)
@settings(derandomize=True, deadline=None)
def test_ranks_do_not_depend_on_how_the_keys_are_listed(keys, random):
    shuffled = keys[:]
    random.shuffle(shuffled)
    one, two = Domain.of(keys), Domain.of(shuffled)
    assert dict(zip(one.keys, one.ranks.tolist(), strict=True)) == dict(
        zip(two.keys, two.ranks.tolist(), strict=True)
    )
    assert sorted(one.ranks.tolist()) == list(range(len(keys)))


def test_keys_that_differ_in_trailing_nulls_keep_their_ranks():
    one, two = Domain.of(["a", "a\0"]), Domain.of(["a\0", "a"])
    assert one.ranks.tolist() == two.ranks.tolist()[::-1]


def test_a_key_that_no_file_could_hold_is_refused():
    with pytest.raises(ConfigurationError, match="UTF-8"):
        Domain.of(["north", "\ud800"])


def test_attributes_in_place_of_keys_are_refused():
    with pytest.raises(ConfigurationError, match=r"use Product\.of"):
        Domain.of({"sex": 2, "age": 3})
