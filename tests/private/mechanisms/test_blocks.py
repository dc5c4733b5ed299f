"""The arithmetic of blocks, against counting by hand."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.error_bounds import laplace_variance
from penstock.private.gate import Combination, Node
from penstock.private.mechanisms.blocks import Blocks, best, cost, draws


@st.composite
def blocks(draw: st.DrawFn) -> Blocks:
    signed = draw(st.booleans())
    arity = draw(st.sampled_from([3, 5, 7, 9, 15] if signed else [2, 3, 4, 7]))
    return Blocks(
        draw(st.integers(1, 90)), arity=arity, levels=draw(st.integers(1, 4)), signed=signed
    )


def named(nodes: Combination) -> list[Node]:
    return [*nodes.plus, *nodes.minus]


def places(nodes: Combination, node: Node) -> range:
    level, first = node
    return range(first, first + nodes.sizes[level])


@settings(max_examples=300, deadline=None)
@given(blocks(), st.integers(1, 400))
def test_the_signed_nodes_cover_the_window_once_and_nothing_else(layout: Blocks, unit: int) -> None:
    nodes = layout.at(unit)
    covered: Counter[int] = Counter()
    for node in nodes.plus:
        covered.update(places(nodes, node))
    for node in nodes.minus:
        covered.subtract(places(nodes, node))
    assert {place for place, times in covered.items() if times} == set(
        range(max(unit - layout.span, 0), unit)
    )
    assert set(covered.values()) <= {0, 1}


@settings(max_examples=60, deadline=None)
@given(blocks())
def test_no_node_is_named_twice_in_a_unit_or_again_after_it_was_given_up(layout: Blocks) -> None:
    since = (0,) * layout.levels
    for unit in range(1, 4 * layout.span + 20):
        nodes = layout.at(unit)
        assert len(set(named(nodes))) == len(named(nodes))
        for level, first in named(nodes):
            assert first % layout.sizes[level] == 0
            assert first >= since[level]
        assert all(before <= after for before, after in zip(since, nodes.since, strict=True))
        since = nodes.since


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(blocks())
def test_noise_is_kept_for_about_as_many_nodes_as_the_window_has_units(layout: Blocks) -> None:
    kept: set[Node] = set()
    most = 0
    for unit in range(1, 4 * layout.span + 3 * layout.sizes[-1]):
        nodes = layout.at(unit)
        kept |= set(named(nodes))
        most = max(most, len(kept))
        kept = {(level, first) for level, first in kept if first >= nodes.since[level]}
    # at each level the window in nodes, and one node of the next level at either end
    assert most <= sum(layout.span // size + 2 * layout.arity + 2 for size in layout.sizes)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 90), st.integers(1, 400))
def test_without_signs_only_nodes_whose_units_are_over_are_named(span: int, unit: int) -> None:
    layout = Blocks(span, arity=2, levels=span.bit_length(), signed=False)
    nodes = layout.at(unit)
    assert nodes.minus == ()
    assert all(max(places(nodes, node)) < unit for node in nodes.plus)
    assert max(Counter(level for level, _ in nodes.plus).values()) <= 2


@pytest.mark.parametrize("span", [1, 2, 8, 64])
def test_for_powers_of_two_the_binary_nodes_are_a_suffix_of_one_tree_and_a_prefix_of_the_next(
    span: int,
) -> None:
    layout = Blocks(span, arity=2, levels=span.bit_length(), signed=False)
    for unit in range(span, 4 * span):
        prefix = unit % span
        assert len(layout.at(unit).plus) == prefix.bit_count() + (span - prefix).bit_count()


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 300), st.sampled_from([3, 5, 7, 9, 13]), st.integers(1, 4))
def test_the_number_of_draws_is_the_mean_over_all_positions(
    span: int, arity: int, levels: int
) -> None:
    while arity ** (levels - 1) > span:
        levels -= 1
    layout = Blocks(span, arity=arity, levels=levels, signed=True)
    period = layout.sizes[-1]
    counted = sum(len(named(layout.at(span + position))) for position in range(period))
    assert Fraction(counted, period) == draws(span, arity, levels)


@pytest.mark.parametrize("span", [*range(1, 60), 100, 365, 1024])
def test_the_best_arity_is_the_best_of_all(span: int) -> None:
    every = [(3, 1)] + [
        (arity, levels)
        for levels in range(2, 8)
        for arity in range(3, span + 1, 2)
        if arity ** (levels - 1) <= span
    ]
    assert cost(span, *best(span)) == min(cost(span, *choice) for choice in every)
    for arity in (3, 9, 31):
        mine = [levels for levels in range(1, 8) if arity ** (levels - 1) <= span]
        assert best(span, arity) == (arity, min(mine, key=lambda levels: cost(span, arity, levels)))


def test_up_to_a_span_of_32_one_level_is_best() -> None:
    assert [span for span in range(1, 60) if best(span)[1] == 1] == list(range(1, 33))


@pytest.mark.parametrize(
    ("span", "tree", "signed"),
    [(64, 590, 91), (256, 1297, 185), (1024, 2420, 351), (4096, 4056, 552)],
)
def test_the_mean_squared_error_is_that_of_the_table(span: int, tree: float, signed: float) -> None:
    arity, levels = best(span)
    kary = Blocks(span, arity=arity, levels=levels, signed=True)
    binary = Blocks(span, arity=2, levels=span.bit_length(), signed=False)
    for layout, expected in ((binary, tree), (kary, signed)):
        period = layout.sizes[-1]
        terms = np.mean([len(named(layout.at(span + position))) for position in range(period)])
        error = float(laplace_variance(np.asarray(float(layout.levels)))) * terms
        assert 0.9 * expected <= error <= 1.02 * expected
