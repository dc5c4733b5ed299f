"""`sw_tree`: sums of the last units from a binary tree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from penstock.budget.grid import Budget
from penstock.core.domain import Domain
from penstock.core.durations import UnitCount
from penstock.core.exact import whole
from penstock.core.private import Private
from penstock.core.released import Released
from penstock.private.gate import Gate
from penstock.private.mechanisms.base import Mechanism
from penstock.private.mechanisms.blocks import Blocks
from penstock.private.mechanisms.uniform import NoState

LABEL = "window"


@dataclass(frozen=True, kw_only=True)
class WindowTree(Mechanism[NoState]):
    r"""Publish the sum of the last units, from the nodes of a binary tree.

    Nodes have :math:`1, 2, 4, \dots, 2^{h-1}` units, the largest not above `span`. Each has noise
    of scale :math:`h/\varepsilon`, drawn once. A sum of the last :math:`W` units carries the noise
    of the fewest nodes that make it up, at most two of a size. Before :math:`W` units have passed,
    the sum is over all units so far.

    Parameters
    ----------
    epsilon : int, Fraction or str
        The ε that is spent in any window: exact, above 0.
    window : int
        The number of consecutive units in which a person is protected. Default: 1.
    contribution : int
        The most events of one person that count in one unit. Default: 1.
    horizon : int, optional
        The last unit that is ever read; `horizon=window` is user level. Default: none.
    span : int
        The number of units W in a sum. Default: 168.

    Guarantee: event level, pure; :math:`(\varepsilon, w)` for any window. Proof:
    docs/proofs/sw_tree.md.
    Kept between units: nothing. The gate keeps the counts of `span` units and the noise of at most
    about as many nodes. Neither counts nor sums of fewer units follow from these releases.

    >>> WindowTree(epsilon="1", span=64).blocks.levels
    7

    References
    ----------
    Cao et al., EDBT 2013; as the competitor SW_w of Chen et al., CCS 2017, section 6.2.
    Departures: nodes lie along the whole stream in place of one tree per `span` units. If `span` is
    a power of two, that is the same; and it serves every other `span` too.
    """

    name = "sw_tree"
    paper = "Cao et al., EDBT 2013"
    proof = "sw_tree.md"
    State = NoState
    family = "event"
    by_key = True

    window: int = 1
    span: UnitCount = 168

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "span", whole(self.span, name="span", least=1))

    @cached_property
    def share(self) -> Budget:
        """The charge of every unit."""
        return self.total // self.window

    @cached_property
    def blocks(self) -> Blocks:
        """The nodes of the tree."""
        return Blocks(self.span, arity=2, levels=self.span.bit_length(), signed=False)

    def start(self, domain: Domain) -> NoState:
        return NoState()

    def step(self, state: NoState, unit: Private, gate: Gate) -> tuple[NoState, Released]:
        nodes = self.blocks.at(gate.unit)
        return state, gate.trees.window_sum(
            LABEL, unit, epsilon=self.share, span=self.span, nodes=nodes
        )
