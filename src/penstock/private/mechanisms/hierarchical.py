"""`hs_pegasus` and `phs_pegasus`: every node of a hierarchy, or only the large ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, TypeAlias, get_args

import numpy as np

from penstock.budget.grid import Budget, Budgets
from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.core.consistency import make_consistent
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.core.exact import Exact, exact, positive, whole
from penstock.core.hierarchy import Hierarchy
from penstock.core.private import Private
from penstock.core.released import Released, Scale
from penstock.private.gate import Gate
from penstock.private.mechanisms.base import Mechanism
from penstock.private.mechanisms.grouper import price_of
from penstock.private.mechanisms.pegasus import PegasusState, advance, threshold_of
from penstock.private.mechanisms.smoothers import SMOOTHERS, Smoother

FINENESS = 256
"""Fitted numbers are rounded to parts of 1/256."""

_MAX_FITTED = 2.0**61

Rule: TypeAlias = Literal["noisy", "privtree"]
Fill: TypeAlias = Literal["zero", "share"]


@dataclass(frozen=True)
class HierarchyState:
    """The hierarchy, and the groups on each of its levels: all public."""

    tree: Hierarchy
    levels: tuple[PegasusState, ...]


@lru_cache(maxsize=8)
def _tree(domain: Domain) -> Hierarchy:
    return Hierarchy.of(domain)


@dataclass(frozen=True, kw_only=True)
class OverHierarchy(Mechanism[HierarchyState]):
    """PeGaSus on every level of a hierarchy, and least squares over all nodes."""

    State = HierarchyState
    family = "event"

    window: int = 1
    perturb: Exact = "0.8"
    theta: Exact = 60
    smoother: Smoother = "median"
    fit: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "perturb", _share(self.perturb, name="perturb"))
        object.__setattr__(self, "theta", positive(self.theta, name="theta"))
        _one_of(self.smoother, tuple(SMOOTHERS), name="smoother")
        _one_of(self.fit, (True, False), name="fit")

    def released(self, domain: Domain) -> Domain:
        return _tree(domain).nodes

    def pruner(self, tree: Hierarchy) -> Budget:
        """The charge of every unit for pruning."""
        return Budget(0, self.grid)

    def level(self, tree: Hierarchy) -> Budget:
        """The budget of each level per unit, for perturber and grouper."""
        return (self.total // self.window - self.pruner(tree)) // tree.height

    def grouper(self, tree: Hierarchy) -> Budget:
        """The charge of a level's grouper per unit."""
        level = self.level(tree)
        return level - self.grid.floor(level.epsilon * exact(self.perturb))

    def start(self, domain: Domain) -> HierarchyState:
        tree = _tree(domain)
        perturb = self.level(tree) - self.grouper(tree)
        if not perturb or not price_of(self.grouper(tree)).question:
            raise ConfigurationError(
                f"{self.name}: epsilon={self.epsilon} is too little for {tree.height} levels.",
                parameter="epsilon",
            )
        how = {"smoother": self.smoother, "perturb": perturb, "sensitivity": self.contribution}
        states = (PegasusState.nothing(level.number, **how) for level in tree.levels)  # type: ignore[arg-type]
        return HierarchyState(tree, tuple(states))

    def splits(self, tree: Hierarchy, unit: Private, gate: Gate) -> BoolArray:
        """The nodes whose children are read in this unit."""
        return tree.inner

    def step(
        self, state: HierarchyState, unit: Private, gate: Gate
    ) -> tuple[HierarchyState, Released]:
        tree = state.tree
        splits = self.splits(tree, unit, gate)
        share, group = self.level(tree), self.grouper(tree)
        threshold = threshold_of(self.theta, group, sensitivity=self.contribution)
        read = np.ones(tree.nodes.size, np.bool_)
        after, found = [], []
        for depth, (level, groups) in enumerate(zip(tree.slices, tree.levels, strict=True)):
            if depth:
                read[level] = splits[tree.parents[level]]
            # Where nothing below is read, a node has the shares of the levels below it too.
            spend = (
                np.where(splits[level], share.quanta, share.quanta * (tree.height - depth))
                - group.quanta
            )
            last, released = advance(
                state.levels[depth],
                unit.sums(groups),
                gate,
                perturb=Budgets(np.where(read[level], spend, 0), self.grid),
                group=group,
                threshold=threshold,
                suffix=f" {depth + 1}",
                read=read[level],
            )
            after.append(last)
            found.append(released)
        return HierarchyState(tree, tuple(after)), self._together(tree, read, found)

    def _together(self, tree: Hierarchy, read: BoolArray, found: list[Released]) -> Released:
        """One release of all nodes: the fitted numbers, with the noise of each before the fit."""
        one = found[0]
        layers = _joined([each.layers for each in found], tree)
        parts = np.where(read, _joined([each.scale.parts for each in found], tree), 0)
        estimates = np.concatenate([each.estimate for each in found])
        if self.fit:
            variances = np.where(read, np.concatenate([each.variance for each in found]), np.inf)
            estimates = make_consistent(tree, estimates, variances)
        divisor = layers if one.kind == "sum" else FINENESS
        value = np.rint(
            np.clip(self.filled(estimates, read) * divisor, -_MAX_FITTED, _MAX_FITTED)
        ).astype(np.int64)
        return Released(
            unit=one.unit,
            value=value,
            scale=Scale(one.scale.base, parts),
            guarantee=one.guarantee,
            private=all(each.private for each in found),
            repeated=~read,
            divisor=divisor,
            layers=layers,
            kind=one.kind,
            public={
                name: np.concatenate([each.public[name] for each in found]) for name in one.public
            },
        )

    def filled(self, estimates: FloatArray, read: BoolArray) -> FloatArray:
        """The estimates, with a number in place of those that were not read."""
        return estimates


def _joined(parts: list[int | IntArray], tree: Hierarchy) -> IntArray:
    """One number per node, from one number per level or one per node of each level."""
    return np.concatenate(
        [
            np.broadcast_to(part, level.number)
            for part, level in zip(parts, tree.levels, strict=True)
        ]
    )


def _share(value: Exact, *, name: str) -> Exact:
    share = positive(value, name=name)
    if share >= 1:
        raise ConfigurationError(
            f"{name} must lie between 0 and 1, not be {share}.", parameter=name
        )
    return share


def _one_of(value: object, allowed: tuple[object, ...], *, name: str) -> None:
    if value not in allowed:
        raise ConfigurationError(
            f"{name} must be one of {', '.join(map(str, allowed))}, not {value!r}.", parameter=name
        )


_PAPER = "Chen et al., CCS 2017, section 5"


@dataclass(frozen=True, kw_only=True)
class HierarchicalPegasus(OverHierarchy):
    r"""Run PeGaSus on every node of a hierarchy, and make parents and children agree.

    With :math:`h` nodes on the longest path, every level runs `pegasus` on the totals of its nodes
    with :math:`\varepsilon/h`. A key that ends at level :math:`i<h` also spends the :math:`h-i`
    shares below it on its noisy count. Then the numbers are fitted by least squares, each weighted
    by the inverse of its variance, so that every parent is the sum of its children. A domain that
    is no `Hierarchy` becomes a balanced binary tree.

    There is one number per node (`Hierarchy.nodes`). `scale` and `layers` are those of the node's
    own smoothed count *before* the fit, which raises no variance if the smoother is linear.
    `public["noisy"]` has the noisy counts, `public["start"]` the first unit of each node's group.

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
    perturb : int, Fraction or str
        The share of ε for the noisy counts, between 0 and 1. Default: 0.8.
    theta : int, Fraction or str
        The threshold of a group's deviation, in units of 1/ε_g. Default: 60.
    smoother : "median", "mean" or "james_stein"
        The estimate made of a group's noisy counts. Default: "median".
    fit : bool
        Whether to fit the numbers so that every parent is the sum of its children. Default: True.

    Guarantee: event level, pure; :math:`(\varepsilon, w)` for any window. Proof:
    docs/proofs/hierarchy.md.
    Kept between units: the groups' noisy counts; in the gate, the totals of the open groups and
    their noisy thresholds.

    >>> from penstock.core.hierarchy import Hierarchy
    >>> campus = Hierarchy.of({"room 1": "A", "room 2": "A", "room 3": "B"})
    >>> mechanism = HierarchicalPegasus(epsilon="0.1")
    >>> mechanism.run(campus).released.keys
    ('A', 'B', 'A/room 1', 'A/room 2', 'B/room 3')
    >>> mechanism.level(campus).epsilon
    Fraction(1, 20)

    References
    ----------
    Chen, Machanavajjhala, Hay, Miklau, CCS 2017, section 5.1.
    Departures: as in `pegasus`; keys with shorter paths spend the shares below them; the fit.
    """

    name = "hs_pegasus"
    paper = _PAPER
    proof = "hierarchy.md"


@dataclass(frozen=True, kw_only=True)
class PrunedPegasus(OverHierarchy):
    r"""Run PeGaSus on the large nodes of a hierarchy; small totals are not split further.

    In every unit, :math:`\varepsilon_{pr}` = `prune` :math:`\cdot\varepsilon` decides, from the
    roots down, which totals :math:`c` are split into their children, with :math:`\beta` = `beta`
    :math:`/\varepsilon`:

    - `noisy`: if :math:`c` with noise of scale :math:`(h-1)/\varepsilon_{pr}` is at least
      :math:`\beta`;
    - `privtree`: if :math:`\max(\beta-\delta,\,c-i\delta)`, at depth :math:`i`, with noise of scale
      :math:`\lambda=(2\kappa-1)/((\kappa-1)\varepsilon_{pr})` is above :math:`\beta`, where
      :math:`\delta=\lceil\lambda\ln\kappa\rceil`. A small total is split with probability
      :math:`1/2\kappa` at most.

    Nodes that are read run `pegasus` as in `hs_pegasus`, with an :math:`h`-th of the rest. A node
    whose children are not read also spends the shares of the levels below it on its noisy count. A
    node that is not read has no number of its own, and its variance is infinite. Its group goes on
    with the next unit in which it is read.

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
    perturb : int, Fraction or str
        The share of ε for the noisy counts, between 0 and 1. Default: 0.8.
    theta : int, Fraction or str
        The threshold of a group's deviation, in units of 1/ε_g. Default: 60.
    smoother : "median", "mean" or "james_stein"
        The estimate made of a group's noisy counts. Default: "median".
    fit : bool
        Whether to fit the numbers so that every parent is the sum of its children. Default: True.
    prune : int, Fraction or str
        The share of ε for pruning, between 0 and 1. Default: 0.2.
    beta : int, Fraction or str
        The total below which a node is small, in units of 1/ε. Default: 5.
    rule : "privtree" or "noisy"
        The rule of pruning. Default: "privtree".
    kappa : int
        The κ of `privtree`, at least 2. Default: 16.
    fill : "zero" or "share"
        The number of a node that is not read: 0, or its keys' share of the fit. Default: "zero".

    Guarantee: event level, pure; :math:`(\varepsilon, w)` for any window. Proof:
    docs/proofs/hierarchy.md.
    Kept between units: as in `hs_pegasus`.

    >>> PrunedPegasus(epsilon="0.1").guarantee
    Guarantee(epsilon=1/10, window=1)

    References
    ----------
    Chen, Machanavajjhala, Hay, Miklau, CCS 2017, section 5.2; Zhang, Xiao, Xie, SIGMOD 2016, for
    `privtree`.
    Departures: the paper's pruning is not private from height 4 on and is replaced by either rule;
    as in `hs_pegasus`.
    """

    name = "phs_pegasus"
    paper = _PAPER
    proof = "hierarchy.md"

    prune: Exact = "0.2"
    beta: Exact = 5
    rule: Rule = "privtree"
    kappa: int = 16
    fill: Fill = "zero"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "prune", _share(self.prune, name="prune"))
        object.__setattr__(self, "beta", exact(self.beta, name="beta"))
        if exact(self.beta) < 0:
            raise ConfigurationError(
                f"beta must not be negative, not {self.beta}.", parameter="beta"
            )
        object.__setattr__(self, "kappa", whole(self.kappa, name="kappa", least=2))
        _one_of(self.rule, get_args(Rule), name="rule")
        _one_of(self.fill, get_args(Fill), name="fill")

    def pruner(self, tree: Hierarchy) -> Budget:
        if tree.height == 1:
            return Budget(0, self.grid)
        return self.grid.floor((self.total // self.window).epsilon * exact(self.prune))

    @cached_property
    def least(self) -> int:
        """β: the total that a node must reach, or be above, to be split."""
        unit, times = self.total // self.window, exact(self.beta)
        return Budget(unit.quanta * times.denominator, self.grid).into(
            times.numerator * self.contribution
        )

    def start(self, domain: Domain) -> HierarchyState:
        tree = _tree(domain)
        if tree.height > 1 and not self.pruner(tree) // (tree.height - 1):
            raise ConfigurationError(
                f"{self.name}: epsilon={self.epsilon} is too little to prune {tree.height} levels.",
                parameter="epsilon",
            )
        return super().start(domain)

    def splits(self, tree: Hierarchy, unit: Private, gate: Gate) -> BoolArray:
        spend = self.pruner(tree)
        if tree.height == 1:
            return tree.inner
        if self.rule == "privtree":
            return gate.split(
                unit, tree, threshold=self.least, epsilon=spend, label="prune", kappa=self.kappa
            )
        each = spend // (tree.height - 1)
        splits = tree.inner.copy()
        for depth, (level, groups) in enumerate(
            zip(tree.slices[:-1], tree.levels[:-1], strict=True)
        ):
            if depth:
                splits[level] &= splits[tree.parents[level]]
            noisy = gate.laplace(
                unit.sums(groups), epsilon=each, label=f"prune {depth + 1}", where=splits[level]
            )
            splits[level] &= noisy.value >= self.least
        return splits

    def filled(self, estimates: FloatArray, read: BoolArray) -> FloatArray:
        return estimates if self.fit and self.fill == "share" else np.where(read, estimates, 0.0)
