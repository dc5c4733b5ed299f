"""PeGaSus over a hierarchy, with and without pruning."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from statistics import median

import numpy as np
import pytest

from penstock.budget.grid import promised
from penstock.budget.ledger import Ledger
from penstock.core.cover import EACH
from penstock.core.errors import ConfigurationError, StateError
from penstock.core.guarantee import Guarantee
from penstock.core.hierarchy import Hierarchy
from penstock.core.private import Private
from penstock.core.released import Released
from penstock.private.gate import Gate
from penstock.private.mechanisms.hierarchical import (
    HierarchicalPegasus,
    OverHierarchy,
    PrunedPegasus,
)
from penstock.private.mechanisms.pegasus import Pegasus
from penstock.testing import NoNoise, RecordingNoise, TestNoise

from tests.private.mechanisms.patterns import charged

FOREST = Hierarchy.of(
    {"a": "x/1", "b": "x/1", "c": "x/2", "d": "x", "e": "y/1", "f": "y/1", "g": ""}
)


class Tape(RecordingNoise):
    """Noise that remembers what it gave, by unit and label."""

    def __init__(self, seed: int) -> None:
        super().__init__(TestNoise(seed))
        self.given: dict[tuple[int, str], list[int]] = defaultdict(list)
        self.scales: dict[str, set[Fraction]] = defaultdict(set)

    def laplace(self, scale, size, *, unit, label):
        values = super().laplace(scale, size, unit=unit, label=label)
        self.given[unit, label] += values.tolist()
        self.scales[label].add(Fraction(scale))
        return values

    def laplace_each(self, scales: Sequence[Fraction], which, *, unit, label):
        values = super().laplace_each(scales, which, unit=unit, label=label)
        self.given[unit, label] += values.tolist()
        return values


class Node:
    """One node's own PeGaSus, with lists."""

    def __init__(self) -> None:
        self.counts: list[int] = []
        self.noisy: list[int] = []
        self.quanta: list[int] = []
        self.start = 0
        self.rho: int | None = None
        self.over = True


def floor(x: Fraction) -> int:
    return x.numerator // x.denominator


class HierarchyTwin:
    """The whole mechanism in plain loops over node names, with the noise that a tape remembers."""

    def __init__(self, mechanism: OverHierarchy, tree: Hierarchy, tape: Tape) -> None:
        self.mechanism, self.tree, self.tape = mechanism, tree, tape
        self.names = tree.nodes.keys
        self.nodes = {name: Node() for name in self.names}
        self.unit = 0
        quantum = mechanism.grid.quantum
        units = floor(Fraction(mechanism.epsilon) / mechanism.window / quantum)
        pruned = isinstance(mechanism, PrunedPegasus)
        self.prune = floor(units * Fraction(mechanism.prune)) if pruned and tree.height > 1 else 0
        self.level = (units - self.prune) // tree.height
        self.group = self.level - floor(self.level * Fraction(mechanism.perturb))
        paid = 4 * (self.group // 4) * quantum
        self.theta = floor(256 * Fraction(mechanism.theta) * mechanism.contribution / paid)
        if pruned:
            self.beta = floor(Fraction(mechanism.beta) * mechanism.contribution / (units * quantum))

    def totals(self, counts: Sequence[int]) -> dict[str, int]:
        totals = dict.fromkeys(self.names, 0)
        for key, path, count in zip(self.tree.keys, self.tree.paths, counts, strict=True):
            for depth in range(1, len(path) + 2):
                totals["/".join((*path, key)[:depth])] += count
        return totals

    def draws(self, label: str) -> Iterator[int]:
        return iter(self.tape.given[self.unit, label])

    def children(self, name: str) -> list[str]:
        return [each for each in self.names if each.rpartition("/")[0] == name]

    def split(self, totals: dict[str, int]) -> set[str]:
        inner = [name for name in self.names if self.children(name)]
        if not isinstance(self.mechanism, PrunedPegasus):
            return set(inner)
        split: set[str] = set()
        everything = self.draws("prune")
        by_level = {depth: self.draws(f"prune {depth + 1}") for depth in range(self.tree.height)}
        kappa, quantum = self.mechanism.kappa, self.mechanism.grid.quantum
        scale = (
            Fraction(2 * kappa - 1, kappa - 1)
            * self.mechanism.contribution
            / (self.prune * quantum)
        )
        delta = math.ceil(float(scale) * math.log(kappa))
        for name in inner:
            depth, above = name.count("/"), name.rpartition("/")[0]
            tested = not above or above in split
            if self.mechanism.rule == "privtree":
                noise = next(everything)
                if (
                    tested
                    and max(self.beta - delta, totals[name] - depth * delta) + noise > self.beta
                ):
                    split.add(name)
            elif tested and totals[name] + next(by_level[depth]) >= self.beta:
                split.add(name)
        if self.mechanism.rule == "privtree":
            assert self.tape.scales["prune"] == {scale}
        return split

    def step(
        self, counts: Sequence[int]
    ) -> tuple[dict[str, float], dict[str, int], dict[str, int], dict[str, int]]:
        """The numbers, and each node's start, budget of its noise and number of draws."""
        self.unit += 1
        totals = self.totals(counts)
        split = self.split(totals)
        read = {name for name in self.names if "/" not in name or name.rpartition("/")[0] in split}
        quantum = self.mechanism.grid.quantum
        own, parts = {}, {}
        for depth in range(self.tree.height):
            names = [name for name in self.names if name.count("/") == depth and name in read]
            publish = self.draws(f"publish {depth + 1}")
            noisy = {name: totals[name] + next(publish) for name in names}
            asked = [name for name in names if not self.nodes[name].over]
            thresholds = self.draws(f"group {depth + 1}.threshold")
            for name in asked:
                if self.nodes[name].rho is None:
                    self.nodes[name].rho = next(thresholds)
            questions = self.draws(f"group {depth + 1}.question")
            for name in names:
                node = self.nodes[name]
                if name in asked:
                    group = [*node.counts, totals[name]]
                    deviation = sum(abs(each - Fraction(sum(group), len(group))) for each in group)
                    broken = floor(256 * deviation) + next(questions) >= self.theta + node.rho
                    opens, node.over = broken, broken
                else:
                    opens, node.over = True, False
                if opens:
                    node.counts, node.noisy, node.quanta, node.rho, node.start = (
                        [],
                        [],
                        [],
                        None,
                        self.unit,
                    )
                node.counts.append(totals[name])
                node.noisy.append(noisy[name])
                node.quanta.append(
                    self.level * (1 if name in split else self.tree.height - depth) - self.group
                )
                own[name] = float(median(node.noisy))
                parts[name] = min(node.quanta)
        ends = [name for name in self.names if name in read and name not in split]
        rows, right = [], []
        for name in own:
            scale = float(self.mechanism.contribution / (parts[name] * quantum))
            deviation = math.sqrt(0.5 / math.sinh(0.5 / scale) ** 2 / len(self.nodes[name].noisy))
            rows.append(
                [float(end == name or end.startswith(name + "/")) / deviation for end in ends]
            )
            right.append(own[name] / deviation)
        fitted = np.linalg.lstsq(np.array(rows), np.array(right), rcond=None)[0]
        values = dict.fromkeys(self.names, 0.0)
        for name in own:
            values[name] = sum(
                x
                for end, x in zip(ends, fitted.tolist(), strict=True)
                if end == name or end.startswith(name + "/")
            )
        starts = {name: node.start for name, node in self.nodes.items()}
        return (
            values,
            starts,
            {**dict.fromkeys(self.names, 0), **parts},
            {n: len(self.nodes[n].noisy) for n in own},
        )


CONFIGURATIONS = [
    HierarchicalPegasus(epsilon="2", theta=5),
    HierarchicalPegasus(epsilon="1", window=3, contribution=2),
    PrunedPegasus(epsilon="3", theta=20, beta=5, rule="noisy", prune="0.3"),
    PrunedPegasus(epsilon="3", theta=20, beta=2, rule="privtree", prune="0.3", kappa=2),
    PrunedPegasus(epsilon="5", window=2, contribution=3, beta=1, rule="privtree", kappa=7),
    PrunedPegasus(epsilon="5", window=2, contribution=3, beta=3, rule="noisy"),
]


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", CONFIGURATIONS, ids=str)
def test_it_is_the_same_as_plain_loops_over_the_nodes(mechanism: OverHierarchy) -> None:
    rng = np.random.default_rng(7)
    tape = Tape(3)
    run = mechanism.run(FOREST, noise=tape)
    twin = HierarchyTwin(mechanism, FOREST, tape)
    level = np.array([30, 2, 0, 5, 0, 1, 12])
    pruned = 0
    for _ in range(60):
        if rng.random() < 0.1:
            level = rng.integers(0, 40, 7)
        counts = rng.poisson(level)
        out = run.step(counts)
        values, starts, parts, draws = twin.step(counts.tolist())
        names = run.released.keys
        assert out.estimate == pytest.approx([values[name] for name in names], abs=0.51 / 256)
        assert dict(zip(names, out.public["start"].tolist(), strict=True)) == starts
        assert (
            dict(zip(names, np.broadcast_to(out.scale.parts, len(names)).tolist(), strict=True))
            == parts
        )
        layers = dict(zip(names, np.broadcast_to(out.layers, len(names)).tolist(), strict=True))
        assert {name: layers[name] for name in draws} == draws
        assert np.array_equal(out.repeated, [parts[name] == 0 for name in names])
        pruned += int(np.count_nonzero(out.repeated))
    assert bool(pruned) == isinstance(mechanism, PrunedPegasus)


# -- noise off -------------------------------------------------------------------------------------


def by_name(run, out: Released) -> dict[str, float]:
    return dict(zip(run.released.keys, out.estimate.tolist(), strict=True))


def test_without_noise_every_node_is_the_total_of_its_keys() -> None:
    run = HierarchicalPegasus(epsilon="1").run(FOREST, noise=NoNoise())
    for counts in ([30, 2, 1, 5, 7, 1, 12], [0, 0, 0, 0, 0, 0, 0], [2, 4, 8, 16, 32, 64, 1]):
        counts = [count * 10**6 for count in counts]  # too far apart for one group
        assert run.step(counts).estimate.tolist() == FOREST.nodes.totals(np.array(counts)).tolist()


@pytest.mark.parametrize("rule", ["noisy", "privtree"])
def test_without_noise_small_totals_are_not_looked_into(rule) -> None:
    mechanism = PrunedPegasus(epsilon="1", beta=20, rule=rule, prune="0.5", kappa=2)  # δ = 5
    run = mechanism.run(FOREST, noise=NoNoise())
    out = run.step([30, 2, 0, 5, 9, 10, 12])
    assert by_name(run, out) == {
        "g": 12,
        "x": 37,
        "y": 19,
        "x/1": 32,
        "x/2": 0,
        "x/d": 5,
        "y/1": 0,
        "x/1/a": 30,
        "x/1/b": 2,
        "x/2/c": 0,
        "y/1/e": 0,
        "y/1/f": 0,
    }
    read = ~np.asarray(out.repeated)
    names = [name for name, is_read in zip(run.released.keys, read, strict=True) if is_read]
    assert names == ["g", "x", "y", "x/1", "x/2", "x/d", "x/1/a", "x/1/b"]
    assert np.isinf(out.variance).tolist() == (~read).tolist()
    assert (out.public["noisy"][~read] == 0).all()


def test_what_is_not_read_may_have_its_share_of_what_is_above_it() -> None:
    run = PrunedPegasus(epsilon="1", beta=100, rule="noisy", fill="share").run(
        FOREST, noise=NoNoise()
    )
    shown = by_name(run, run.step([8, 8, 0, 0, 1, 2, 12]))
    assert shown["x"] == 16
    assert (shown["x/1"], shown["x/2"], shown["x/d"], shown["x/1/a"], shown["x/2/c"]) == (
        8,
        4,
        4,
        4,
        4,
    )
    assert (shown["y"], shown["y/1"], shown["y/1/e"], shown["y/1/f"]) == (3, 3, 1.5, 1.5)


def test_a_node_that_was_not_read_for_a_while_goes_on_with_its_group() -> None:
    tree = Hierarchy.of({"a": "x", "b": "x"})
    run = PrunedPegasus(epsilon="1", beta=20, rule="noisy").run(tree, noise=NoNoise())
    starts = [run.step([a, 5]).public["start"].tolist() for a in (30, 31, 0, 32)]
    assert starts == [[1, 1, 1]] * 4
    assert np.asarray(run.last.layers).tolist() == [4, 3, 3]
    assert run.last.estimate.tolist() == pytest.approx(
        [35.6, 30.7, 4.9], abs=2
    )  # 0 was not read of a: 30, 31 and 32 were


def test_one_level_is_pegasus() -> None:
    rng = np.random.default_rng(2)
    flat = Hierarchy.of(dict.fromkeys("abc", ""))
    for cls in (HierarchicalPegasus, PrunedPegasus):
        one, other = (
            each.run(flat, noise=NoNoise()) for each in (cls(epsilon="1"), Pegasus(epsilon="1"))
        )
        for _ in range(40):
            counts = rng.poisson(5, 3)
            assert one.step(counts).estimate.tolist() == other.step(counts).estimate.tolist()


@pytest.mark.parametrize("smoother", ["mean", "median", "james_stein"])
def test_parents_are_the_sums_of_their_children_with_every_smoother(smoother) -> None:
    rng = np.random.default_rng(5)
    run = HierarchicalPegasus(epsilon="1", smoother=smoother).run(FOREST, noise=TestNoise(5))
    for _ in range(20):
        out = run.step(rng.poisson(9, 7))
    shown = by_name(run, out)
    assert shown["x"] == pytest.approx(
        shown["x/1"] + shown["x/2"] + shown["x/d"], abs=2
    )  # rounded, means to 1/layers
    assert np.isfinite(out.variance).all()
    low, high = out.interval()
    assert (low < out.estimate).all()
    assert (out.estimate < high).all()


def test_the_fit_can_be_left_out() -> None:
    rng = np.random.default_rng(5)
    fitted, plain = (
        HierarchicalPegasus(epsilon="1", fit=fit).run(FOREST, noise=TestNoise(5))
        for fit in (True, False)
    )
    for _ in range(5):
        counts = rng.poisson(9, 7)
        one, other = fitted.step(counts), plain.step(counts)
        assert np.array_equal(one.public["noisy"], other.public["noisy"])
        assert not np.array_equal(one.value, other.value)
    shown = by_name(plain, other)
    assert shown["x"] != pytest.approx(shown["x/1"] + shown["x/2"] + shown["x/d"], abs=0.1)


# -- budgets ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", CONFIGURATIONS, ids=str)
def test_every_unit_spends_all_it_has_but_for_rounding(mechanism: OverHierarchy) -> None:
    run = mechanism.run(FOREST, noise=NoNoise(), record=True)
    for counts in ([90, 2, 0, 5, 0, 1, 12], [0] * 7, [1, 2, 3, 4, 500, 6, 7]):
        run.step(counts)
        spent = run._ledger.number.epsilon
        share = Fraction(mechanism.epsilon) / mechanism.window
        assert spent <= share
        untested = (
            mechanism.pruner(FOREST).epsilon
            if isinstance(mechanism, PrunedPegasus) and mechanism.rule == "noisy"
            else 0
        )
        assert spent >= (share - untested) * Fraction(999_999, 1_000_000)


def test_a_level_pays_for_the_groups_it_reads_and_for_no_others() -> None:
    mechanism = PrunedPegasus(epsilon="1", beta=20, rule="noisy")
    run = mechanism.run(FOREST, noise=NoNoise(), record=True)
    run.step([1, 1, 1, 1, 1, 1, 1])  # only the roots
    run.step([100, 1, 1, 1, 1, 1, 1])  # all of x
    assert [bool(charged(run, f"group {level}")[0]) for level in (1, 2, 3)] == [True, False, False]
    assert [bool(charged(run, f"group {level}")[1]) for level in (1, 2, 3)] == [True, True, True]
    tree = run.domain
    share = mechanism.level(tree)
    roots = (share * tree.height - mechanism.grouper(tree)).epsilon
    assert charged(run, "publish 1") == [
        roots,
        roots,
    ]  # in unit 2 the roots that are not split still have it
    assert charged(run, "publish 3") == [0, (share - mechanism.grouper(tree)).epsilon]


def test_a_wrong_parameter_is_refused() -> None:
    for wrong in (
        {"rule": "fresh"},
        {"prune": 0},
        {"prune": 1},
        {"beta": -1},
        {"kappa": 1},
        {"fill": "none"},
        {"smoother": "mode"},
        {"perturb": 1},
        {"theta": 0},
        {"fit": "yes"},
    ):
        with pytest.raises(ConfigurationError, match=next(iter(wrong))):
            PrunedPegasus(epsilon="1", **wrong)


def test_a_share_that_leaves_nothing_for_a_level_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="too little for 3 levels"):
        HierarchicalPegasus(epsilon="1", perturb="0.99999999").run(FOREST)
    with pytest.raises(ConfigurationError, match="too little to prune 3 levels"):
        PrunedPegasus(epsilon="1", prune="0.00000001").run(FOREST)


def test_a_run_goes_on_with_the_same_paths_only() -> None:
    mechanism = HierarchicalPegasus(epsilon="1")
    snapshot = mechanism.run(Hierarchy.of({"a": "x", "b": "x"})).snapshot()
    with pytest.raises(StateError, match="another domain"):
        mechanism.restore(snapshot, Hierarchy.of({"a": "x", "b": "y"}))


# -- PrivTree's answers ----------------------------------------------------------------------------


def more_than(m: int, scale: float) -> tuple[float, float]:
    """ln P(X > m) and ln P(X ≤ m) for discrete Laplace X."""
    q = math.exp(-1 / scale)
    tail = q ** (m + 1 if m >= 0 else -m) / (1 + q)
    return (math.log(tail), math.log1p(-tail)) if m >= 0 else (math.log1p(-tail), math.log(tail))


def loss_of_a_path(totals: Sequence[int], scale: float, delta: int, beta: int) -> float:
    """The largest |log ratio| of any answers about the nodes of a path, if one event is added below
    all of them.
    """
    worst = splits = 0.0
    for depth, total in enumerate(totals):
        before, after = (max(beta - delta, count - depth * delta) for count in (total, total + 1))
        yes = more_than(beta - after, scale)[0] - more_than(beta - before, scale)[0]
        no = more_than(beta - after, scale)[1] - more_than(beta - before, scale)[1]
        worst = max(worst, abs(splits + no))
        splits += yes
        worst = max(worst, abs(splits))
    return worst


def shipped(epsilon: Fraction, kappa: int, contribution: int = 1) -> tuple[float, int, int]:
    """The noise scale and the step that the gate really uses: from its draws, and from where it
    begins to split.
    """
    tape = Tape(1)
    tree = Hierarchy.of({"a": "x/y/z"})
    mechanism = PrunedPegasus(
        epsilon=2 * epsilon, prune="1/2", kappa=kappa, beta=0, contribution=contribution
    )
    mechanism.run(tree, noise=tape).step([0])
    (scale,) = tape.scales["prune"]

    def splits(count: int) -> int:
        out = mechanism.run(tree, noise=NoNoise()).step([count])
        return int(np.count_nonzero(~np.asarray(out.repeated))) - 1

    def first(depth: int) -> int:
        low, high = 0, 10**6
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if splits(middle) > depth else (middle, high)
        return high

    steps = [first(depth) for depth in (0, 1, 2)]
    assert steps[0] == 1
    assert steps[2] - steps[1] == steps[1] - steps[0]
    return float(scale), steps[1] - steps[0], 0


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [Fraction(1, 20), Fraction(1), Fraction(4), Fraction(9)])
@pytest.mark.parametrize("kappa", [2, 3, 16])
def test_the_answers_about_a_path_never_lose_more_than_they_cost(
    epsilon: Fraction, kappa: int
) -> None:
    scale, delta, beta = shipped(epsilon, kappa)
    rng = np.random.default_rng(3)
    worst = 0.0
    for height in (1, 2, 3, 5, 8, 20):
        for total in range(
            beta - 2, beta + height * delta + 3, max(1, delta // 16)
        ):  # the same count all the way down
            worst = max(worst, loss_of_a_path([total] * height, scale, delta, beta))
        for _ in range(300):
            totals = np.sort(rng.integers(0, beta + height * delta + 3, height))[::-1]
            worst = max(worst, loss_of_a_path(totals.tolist(), scale, delta, beta))
    assert worst <= float(epsilon) * (1 + 1e-9)
    assert worst > 0.75 * float(epsilon) or epsilon > 1  # the bound is near the truth


def test_with_a_real_step_the_answers_would_lose_more() -> None:
    """What the whole number δ is for: with δ = λ·ln 2 = 0.26, ε = 8 and twelve levels, 2 or 3
    events lose 1.37 ε.
    """
    epsilon, beta = 8.0, 0.0
    scale = 3 / epsilon
    delta = scale * math.log(2)
    splits = 0.0
    for depth in range(12):
        scores = [max(beta - delta, count - depth * delta) for count in (2, 3)]
        chances = [more_than(math.floor(beta - score), scale)[0] for score in scores]
        splits += chances[1] - chances[0]
    assert splits > 1.3 * epsilon


def test_no_total_is_above_its_parents_where_the_numbers_of_keys_are_below_zero() -> None:
    """The proof needs it: with 0 above 1000, the answers about both would lose as much as each of
    them alone.
    """
    tree = Hierarchy.of({"a": "x/y", "b": "x/z"})
    gate = Gate(ledger=Ledger(Guarantee(1, 1), keys=2), noise=NoNoise(), keys=2)
    gate.begin(1)
    less = Private(np.array([1000, 0]), sensitivity=1).map(
        lambda counts: counts - [0, 1000], stability=1, cover=EACH
    )
    split = gate.split(less, tree, threshold=500, epsilon=promised(gate.guarantee), label="prune")
    assert [name for name, each in zip(tree.names, split.tolist(), strict=True) if each] == [
        "x",
        "x/y",
    ]


@pytest.mark.parametrize("threshold", [0.5, np.array([9, 1, 0])])
def test_all_nodes_have_one_threshold_and_that_is_whole(threshold: object) -> None:
    """The proof needs both: lower thresholds further down, or one between two numbers, would lose
    more than they cost.
    """
    gate = Gate(ledger=Ledger(Guarantee(1, 1), keys=1), noise=NoNoise(), keys=1)
    gate.begin(1)
    counts = Private(np.array([5]), sensitivity=1)
    with pytest.raises(ConfigurationError, match="threshold must be a whole number"):
        gate.split(
            counts,
            Hierarchy.of({"a": "x/y"}),
            threshold=threshold,  # type: ignore[arg-type]
            epsilon=promised(gate.guarantee),
            label="prune",
        )


@pytest.mark.parametrize("contribution", [1, 4])
def test_the_steps_scale_with_what_a_person_may_contribute(contribution: int) -> None:
    scale, delta, _ = shipped(Fraction(1), 16, contribution)
    assert scale == pytest.approx(contribution * 31 / 15)
    assert delta == math.ceil(contribution * 31 / 15 * math.log(16))


def test_only_the_counts_of_the_keys_can_be_split() -> None:
    tree = Hierarchy.of({"a": "x", "b": "x"})
    run = PrunedPegasus(epsilon="1").run(tree, noise=NoNoise())
    gate, budget = run._gate, run.mechanism.pruner(tree)
    gate.begin(1)
    for wrong in (
        Private(np.array([1, 2, 3]), sensitivity=1),
        Private(np.array([1, 2]), sensitivity=1).sums(tree.levels[1]),
        Private(np.array([1, 2]), sensitivity=1, fold="some run"),
    ):
        with pytest.raises(ConfigurationError):
            gate.split(wrong, tree, threshold=1, epsilon=budget, label="prune")
    assert not run.ledger
