"""Hierarchies against plain loops over paths."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.core.hierarchy import Hierarchy

CAMPUS = {"r1": "A/1", "r2": "A/1", "r3": ("A", "2"), "hall": ["A"], "kiosk": "", "r4": "B/1/x"}


@st.composite
def forests(draw):
    """Keys with paths of different lengths, in which no key is above another."""
    size = draw(st.integers(1, 12))
    paths = draw(
        st.lists(st.lists(st.sampled_from("xyz"), max_size=4), min_size=size, max_size=size)
    )
    return {f"key {number}": tuple(path) for number, path in enumerate(paths)}


def test_names_levels_and_totals_of_a_small_forest():
    campus = Hierarchy.of(CAMPUS)
    assert campus.keys == tuple(CAMPUS)
    assert campus.height == 4
    assert campus.nodes.keys == (
        *("A", "B", "kiosk"),
        *("A/1", "A/2", "A/hall", "B/1"),
        *("A/1/r1", "A/1/r2", "A/2/r3", "B/1/x"),
        "B/1/x/r4",
    )
    assert campus.nodes.totals(np.array([1, 2, 4, 8, 16, 32])).tolist() == [
        15,
        32,
        16,
        3,
        4,
        8,
        32,
        1,
        2,
        4,
        32,
        32,
    ]
    assert [level.of.tolist() for level in campus.levels] == [
        [0, 0, 0, 0, 2, 1],
        [0, 0, 1, 2, -1, 3],
        [0, 1, 2, -1, -1, 3],
        [-1, -1, -1, -1, -1, 0],
    ]
    assert campus.parents.tolist() == [-1, -1, -1, 0, 0, 0, 1, 3, 3, 4, 6, 10]
    assert campus.leaf.tolist() == [7, 8, 9, 5, 2, 11]


@given(forests(), st.data())
@settings(derandomize=True, deadline=None)
def test_every_number_is_that_of_a_loop_over_the_paths(paths, data):
    tree = Hierarchy.of(paths)
    counts = data.draw(st.lists(st.integers(0, 2**40), min_size=tree.size, max_size=tree.size))
    totals: dict[str, int] = {}
    keys: dict[str, int] = {}
    for (key, path), count in zip(paths.items(), counts, strict=True):
        for depth in range(1, len(path) + 2):
            name = "/".join((*path, key)[:depth])
            totals[name] = totals.get(name, 0) + count
            keys[name] = keys.get(name, 0) + 1
    names = tree.nodes.keys
    assert dict(zip(names, tree.nodes.totals(np.array(counts)).tolist(), strict=True)) == totals
    assert dict(zip(names, tree.leaves.tolist(), strict=True)) == keys
    for node, (name, parent, depth) in enumerate(
        zip(names, tree.parents.tolist(), tree.depths.tolist(), strict=True)
    ):
        assert depth == name.count("/")
        assert (names[parent] if parent >= 0 else "") == name.rpartition("/")[0]
        assert tree.children[node] == np.count_nonzero(tree.parents == node)
    assert [names[node].rpartition("/")[2] for node in tree.leaf] == list(paths)


@given(forests(), st.randoms(use_true_random=False))
@settings(derandomize=True, deadline=None)
def test_the_nodes_do_not_depend_on_how_the_keys_are_listed(paths, random):
    items = list(paths.items())
    random.shuffle(items)
    one, other = Hierarchy.of(paths), Hierarchy.of(dict(items))
    assert one.nodes.keys == other.nodes.keys
    assert one.parents.tolist() == other.parents.tolist()
    assert Hierarchy.binary(one.keys).nodes.keys == Hierarchy.binary(other.keys).nodes.keys


@pytest.mark.parametrize(
    ("size", "height"), [(1, 1), (2, 2), (3, 3), (4, 3), (5, 4), (128, 8), (129, 9)]
)
def test_a_binary_tree_is_balanced(size, height):
    tree = Hierarchy.binary(size)
    assert tree.height == height
    assert tree.nodes.size == 2 * size - 1
    assert min(map(len, tree.paths)) >= height - 2
    assert set(tree.children.tolist()) <= {0, 2}


def test_a_hierarchy_is_a_domain_and_a_plain_domain_becomes_a_binary_tree():
    campus = Hierarchy.of(CAMPUS)
    assert Domain.of(campus) is campus
    assert Hierarchy.of(campus) is campus
    assert Hierarchy.of(["b", "a"]) == Hierarchy.binary(["b", "a"])
    assert campus.totals(np.arange(6)).tolist() == [
        0,
        1,
        2,
        3,
        4,
        5,
    ]  # of its keys; those of all nodes are nodes.totals


def test_domains_with_the_same_keys_and_other_paths_differ():
    one, other = Hierarchy.of({"a": "x", "b": "x"}), Hierarchy.of({"a": "x", "b": "y"})
    assert one != other
    assert one.facts != other.facts
    assert Domain.of(["a", "b"]).facts != one.facts


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({}, "at least one key"),
        ({"a": "x//y"}, "names without"),
        ({"a": ["x/y"]}, "names without"),
        ({"a": ["x", ""]}, "names without"),
        ({"a": 3}, "not int"),
        ({"x": "", "a": "x"}, "'x' names two nodes"),
        ({"b/c": "a", "c": "a/b"}, "'a/b/c' names two nodes"),
    ],
)
def test_a_hierarchy_that_cannot_be_is_refused(wrong, message):
    with pytest.raises(ConfigurationError, match=message):
        Hierarchy.of(wrong)


def test_every_key_needs_a_path():
    with pytest.raises(ConfigurationError, match="2 keys, 1 paths"):
        Hierarchy(("a", "b"), ((),))


def test_its_repr_is_short():
    assert repr(Hierarchy.binary(128)) == "Hierarchy(128 keys, 255 nodes, height 8)"


def test_a_charge_on_a_level_reaches_only_the_keys_below_it():
    cover = Hierarchy.of(CAMPUS).levels[1].cover  # A/1, A/2, A/hall, B/1; the kiosk is above that
    assert cover.keys(np.array([True, False, False, True])).tolist() == [
        True,
        True,
        False,
        False,
        False,
        True,
    ]
    assert cover.keys(np.ones(4, np.bool_)).tolist() == [True, True, True, True, False, True]
    assert cover.spread(np.array([5, 6, 7, 8])).tolist() == [5, 5, 6, 7, 0, 8]
