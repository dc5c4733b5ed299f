"""Trees: window sums whose noise is the signed sum of the noise of tree nodes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from penstock.budget.grid import Budget
from penstock.core.arrays import IntArray
from penstock.core.private import Private
from penstock.core.released import Released
from penstock.core.weights import Weights
from penstock.private.gate.counters import MAX_COUNTER
from penstock.private.gate.release_maker import ReleaseMaker

Node: TypeAlias = tuple[int, int]
"""A level and a first place. The node covers as many places as the level's size. Unit 1 is place 0.
"""


@dataclass(frozen=True, slots=True)
class Combination:
    """The nodes whose noise a window sum carries. It is public: it follows from the unit's number.

    Parameters
    ----------
    sizes : tuple of int
        The size of the nodes of each level. The nodes of a level lie side by side, from place 0 on.
    plus, minus : tuple of Node
        The nodes whose noise is added, and taken away. A place of the window must be in one more of
        `plus` than of `minus`; any other place in as many of both.
    since : tuple of int
        Per level, the first place that may be named again. Noise of nodes before it is forgotten.
    """

    sizes: tuple[int, ...]
    plus: tuple[Node, ...]
    minus: tuple[Node, ...]
    since: tuple[int, ...]


@dataclass
class TreeNodes:
    """The secret of one label: the counts of the window, and the noise of its nodes."""

    past: IntArray
    total: IntArray
    terms: tuple[int, int, tuple[int, ...]]
    since: tuple[int, ...]
    unit: int
    noise: dict[Node, IntArray] = field(default_factory=dict)


class Trees:
    """Noise before data, over many units.

    Used by `kary` and `sw_tree`. Proof: docs/proofs/kary.md.
    """

    def __init__(self, maker: ReleaseMaker) -> None:
        self._maker = maker
        self._held: dict[str, TreeNodes] = {}

    def window_sum(
        self, label: str, x: Private, *, epsilon: Budget, span: int, nodes: Combination
    ) -> Released:
        """The sum of the last `span` units, with the noise of signed nodes.

        Call it in every unit, for one label always with the same budget, span and sizes. The noise
        of a node has scale levels · sensitivity/ε. It is drawn when the node is first named. It
        stands for the node's sum over the whole stream, so a node may be named before its units are
        over.

        Parameters
        ----------
        label : str
            The label of the charge.
        x : Private
            The counts of this unit.
        epsilon : Budget
            The charge of this unit.
        span : int
            The number of units in the sum.
        nodes : Combination
            The nodes whose noise is added and taken away.
        """
        maker = self._maker
        raw, unit = maker.check_fresh(x), maker.unit
        scale = maker.scale(x.sensitivity * len(nodes.sizes), epsilon)
        terms = (epsilon.quanta, x.sensitivity, nodes.sizes)
        held = self._held.get(label)
        if held is None:
            past, total = np.zeros((span, len(raw)), np.int64), np.zeros(len(raw), np.int64)
            held = TreeNodes(past, total, terms, (0,) * len(nodes.sizes), unit - 1)
        if (held.terms, held.past.shape, held.unit) != (terms, (span, len(raw)), unit - 1):
            raise maker.error(
                f"{label!r} reads every unit once, "
                "with one budget, sensitivity, span and set of sizes."
            )
        self._check_nodes(label, span, nodes, held)
        maker.ledger.spend(epsilon, label)
        self._held[label] = held
        row = held.past[unit % span]
        held.total -= row
        np.minimum(raw, MAX_COUNTER // span, out=row)
        held.total += row
        named = (*nodes.plus, *nodes.minus)
        fresh = [node for node in named if node not in held.noise]
        if fresh:
            drawn = maker.draw(scale, len(fresh) * len(raw), label).reshape(len(fresh), len(raw))
            held.noise.update((node, each.copy()) for node, each in zip(fresh, drawn, strict=True))
        value = held.total.copy()
        for node in nodes.plus:
            value += held.noise[node]
        for node in nodes.minus:
            value -= held.noise[node]
        for level, size in enumerate(nodes.sizes):
            for first in range(held.since[level], nodes.since[level], size):
                held.noise.pop((level, first), None)
        held.since, held.unit = nodes.since, unit
        return replace(maker.release(value, scale, layers=len(named)), weights=Weights.window(span))

    def _check_nodes(self, label: str, span: int, nodes: Combination, held: TreeNodes) -> None:
        """The signed nodes add up to the window, each is named once, and none was forgotten."""
        unit = self._maker.unit
        edges: dict[int, int] = {max(unit - span, 0): -1, unit: 1}
        named = [(node, 1) for node in nodes.plus] + [(node, -1) for node in nodes.minus]
        right = len({node for node, _ in named}) == len(named)
        for (level, first), sign in named:
            size = nodes.sizes[level]
            right = right and level >= 0 and first % size == 0 and first >= held.since[level]
            edges[first] = edges.get(first, 0) + sign
            edges[first + size] = edges.get(first + size, 0) - sign
        for before, after, size in zip(held.since, nodes.since, nodes.sizes, strict=True):
            right = right and after >= before and after % size == 0
        if not right or any(edges.values()):
            raise self._maker.error(
                f"the nodes of {label!r} do not add up to the last {span} units."
            )

    def save(self) -> dict[str, TreeNodes]:
        return self._held

    def load(self, held: dict[str, TreeNodes]) -> None:
        self._held = held

    def memory(self) -> dict[str, IntArray]:
        return {f"nodes {name}": held.past.copy() for name, held in self._held.items()}
