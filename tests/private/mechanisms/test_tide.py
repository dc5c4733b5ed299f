"""`tide`: the budget of each unit, blocks and totals, and what the filter may depend on."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.arrays import BoolArray, IntArray
from penstock.core.errors import ConfigurationError
from penstock.core.hierarchy import Hierarchy
from penstock.core.private import Private
from penstock.core.released import Released
from penstock.private.gate import Gate
from penstock.private.mechanisms.tide import SUMS, TOTAL, TOTAL_UNITS, UNITS, Tide, TideState
from penstock.testing import NoNoise, TestNoise


@dataclass(frozen=True, kw_only=True)
class ScriptedClosing(Tide):
    """`tide` with blocks that end where a public script says so."""

    script: tuple[tuple[bool, ...], ...] = ()

    def closes(self, state: TideState, held: IntArray, unit: Private, gate: Gate) -> BoolArray:
        row = np.array(self.script[gate.unit - 1])
        return row | self.is_last(gate.unit)


def poisson(level: Any, units: int, *, seed: int) -> IntArray:
    return np.random.default_rng(seed).poisson(level, (units, len(level))).astype(np.int64)


# -- the budget ------------------------------------------------------------------------------------

promises = st.fixed_dictionaries(
    {
        "epsilon": st.sampled_from(["1", "0.1", "1/3", "2.7"]),
        "window": st.integers(1, 40),
        "periods": st.lists(st.integers(1, 12), max_size=2).map(tuple),
        "kind": st.sampled_from(["flow", "stock"]),
        "front": st.sampled_from(["0", "1/3", "1/2", "2/3", "0.99"]),
        "share_total": st.sampled_from([None, "0", "1/10", "1/3"]),
    }
)


@given(promises)
@settings(max_examples=60)
def test_any_window_has_a_budget_of_at_most_epsilon(promise: dict[str, Any]) -> None:
    mechanism = Tide(**promise)
    w = mechanism.window
    budgets = [mechanism.budget(unit).epsilon for unit in range(1, 4 * w + 2)]
    sums = [sum(budgets[first : first + w]) for first in range(3 * w + 1)]
    assert max(sums) <= Fraction(promise["epsilon"])
    if mechanism.kind == "flow":
        assert max(sums) > Fraction(999_999, 1_000_000) * Fraction(promise["epsilon"])


@given(
    window=st.sampled_from([1, 2, 6, 9]),
    keys=st.integers(1, 3),
    data=st.data(),
    share=st.sampled_from(["0", "1/10"]),
)
@settings(max_examples=30, deadline=None)
def test_whichever_blocks_end_every_unit_costs_its_budget(
    window: int, keys: int, data: st.DataObject, share: str
) -> None:
    units = 2 * window + 3
    row = st.lists(st.booleans(), min_size=keys, max_size=keys).map(tuple)
    script = data.draw(st.lists(row, min_size=units, max_size=units).map(tuple))
    mechanism = ScriptedClosing(
        epsilon=1, window=window, periods=(3,), share_total=share, script=script
    )
    run = mechanism.run(keys, noise=TestNoise(1), record=True)
    for counts in poisson([9.0] * keys, units, seed=2):
        run.step(counts)
    numbers = run.account().numbers
    assert numbers.tolist() == [mechanism.budget(unit).quanta for unit in range(1, units + 1)]
    assert run.account().worst <= 1


@pytest.mark.slow
@given(data=st.data(), window=st.sampled_from([1, 4, 6]), first=st.integers(1, 8))
@settings(max_examples=15, deadline=None)
def test_a_trajectory_through_blocks_of_different_lengths_loses_what_its_units_cost(
    data: st.DataObject, window: int, first: int
) -> None:
    """The worst log likelihood ratio of Laplace noise is the change of each number over its scale.

    The blocks are the same on both streams, so the changes show without noise.
    """
    keys, units = 4, 16
    row = st.lists(st.booleans(), min_size=keys, max_size=keys).map(tuple)
    later = data.draw(st.lists(row, min_size=units - 1, max_size=units - 1).map(tuple))
    script = ((True,) * keys, *later)  # so that levels are known, and totals released by unit
    path = data.draw(st.lists(st.integers(0, keys - 1), min_size=window, max_size=window))
    mechanism = ScriptedClosing(epsilon=1, window=window, script=script, horizon=units)
    base = poisson([900.0] * keys, units, seed=28)
    moved = base.copy()
    moved[np.arange(first - 1, first - 1 + window), path] += 1
    left, right = (mechanism.run(keys, noise=NoNoise()) for _ in range(2))
    loss = Fraction(0)
    for unit in range(1, units + 1):
        a, b = left.step(base[unit - 1]).public, right.step(moved[unit - 1]).public
        price = mechanism.price(unit, keys)
        assert np.array_equal(a[UNITS], b[UNITS])
        loss += int(np.abs(a[SUMS] - b[SUMS]).sum()) * price.counts.epsilon
        loss += int(abs(a[TOTAL] - b[TOTAL])[0]) * price.total.epsilon
    cost = sum(mechanism.budget(unit).epsilon for unit in range(first, first + window))
    assert loss == cost <= 1


def test_totals_by_phase_cost_the_same_and_are_dropped_where_the_price_changes() -> None:
    mechanism = Tide(epsilon="0.1", window=30, periods=(10,))
    run = mechanism.run(3, noise=TestNoise(3), record=True)
    stream = poisson([0.5, 0.2, 0.1], 75, seed=4)
    shown = [run.step(counts) for counts in stream]
    numbers = run.account().numbers
    assert numbers.tolist() == [mechanism.budget(unit).quanta for unit in range(1, 76)]
    assert run._state.filter.days > 2  # totals of one unit drown in the noise
    labels = {line.label for line in run.ledger}
    assert {f"total {phase}" for phase in range(10)} <= labels
    at_change = shown[29].public
    assert at_change[TOTAL_UNITS] == [2]
    assert not set(run._gate.save().pots) - {"blocks", *(f"total {phase}" for phase in range(10))}


def test_without_noise_totals_by_phase_are_those_of_their_units() -> None:
    mechanism = Tide(epsilon="0.001", window=30, periods=(5,))
    run = mechanism.run(2, noise=NoNoise())
    stream = poisson([2.0, 1.0], 200, seed=5)
    seen = 0
    for unit, counts in enumerate(stream, start=1):
        public = run.step(counts).public
        if TOTAL in public:
            units = np.arange(unit - 1, -1, -5)[: public[TOTAL_UNITS][0]]
            assert public[TOTAL][0] == stream[units].sum()
            seen += public[TOTAL_UNITS][0] > 1
    assert seen


def test_without_noise_every_sum_is_that_of_its_block_and_blocks_do_not_overlap() -> None:
    run = Tide(epsilon=1, window=12, periods=(3,)).run(4, noise=NoNoise())
    stream = poisson([0.1, 3.0, 40.0, 900.0], 80, seed=6)
    done = np.zeros(4, np.int64)
    for unit, counts in enumerate(stream, start=1):
        public = run.step(counts).public
        for key in np.flatnonzero(public[UNITS]):
            first = unit - public[UNITS][key]
            assert first == done[key]
            assert public[SUMS][key] == stream[first:unit, key].sum()
            done[key] = unit
    assert (done > 60).all()


def test_all_blocks_end_with_the_horizon() -> None:
    run = Tide(epsilon=1, window=10, horizon=20).run(3, noise=TestNoise(7))
    shown = [run.step(counts) for counts in poisson([1.0, 5.0, 0.0], 25, seed=8)]
    assert (shown[19].public[UNITS] > 0).all()
    assert (shown[24].value == shown[19].value).all()
    assert run.over


def test_one_key_has_no_total_and_event_level_has_long_blocks() -> None:
    mechanism = Tide(epsilon="0.1", window=1)
    assert mechanism.longest_block == 1024
    run = mechanism.run(1, noise=TestNoise(9), record=True)
    for counts in poisson([0.3], 200, seed=10):
        released = run.step(counts)
    assert {line.label for line in run.ledger} == {"blocks"}
    assert TOTAL not in released.public
    assert run._state.filter.lengths[0] > 8


def test_a_stock_is_read_in_pulses_and_not_in_between() -> None:
    mechanism = Tide(epsilon=1, window=6, kind="stock")
    run = mechanism.run(2, noise=TestNoise(11), record=True)
    shown = [run.step(counts) for counts in poisson([30.0, 60.0], 20, seed=12)]
    assert [line.unit for line in run.ledger] == [1, 7, 13, 19]
    assert [bool(each.public[UNITS].all()) for each in shown[:8]] == [
        True,
        *5 * [False],
        True,
        False,
    ]
    assert mechanism.budget(1).epsilon == 1
    assert (np.diff([each.variance[0] for each in shown[6:12]]) > 0).all()  # less and less is known


@pytest.mark.parametrize(
    ("window", "period"),
    [(24, 24), (7, 7), (48, 24), (14, 7), (24, 2), (120, 24), (12, 24), (5, 1)],
)
def test_readings_of_a_stock_have_many_phases_and_enough_time_in_between(
    window: int, period: int
) -> None:
    mechanism = Tide(epsilon=1, window=window, kind="stock", periods=(period,) * (period > 1))
    units = np.flatnonzero([mechanism.is_read(unit) for unit in range(1, 110 * window)])
    gaps = np.diff(units)
    assert gaps.min() == mechanism.pulse
    assert gaps.max() == mechanism.longest_pulse
    assert len(set((units % period).tolist())) >= min(period, 4)
    cost = np.convolve(
        [mechanism.budget(u).quanta for u in range(1, 110 * window)], np.ones(window)
    )
    assert cost.max() <= mechanism.total.quanta
    if mechanism.probes:  # the first 8 readings show all phases, and most have that of the first
        assert len(set((units[:8] % period).tolist())) == min(period, 4)
        assert np.mean(units % period == 0) > 0.9


def test_a_stock_that_was_read_at_one_phase_goes_on_like_that() -> None:
    earlier = Tide(epsilon=1, window=7, kind="stock", periods=(7,), phases=False)
    assert "phases" not in earlier.configuration()  # as in snapshots from before there were phases
    run = earlier.run(2, noise=TestNoise(23), record=True)
    for _ in range(20):
        run.step([5, 9])
    now = Tide(epsilon=1, window=7, kind="stock", periods=(7,))
    again = now.run(2, noise=TestNoise(23), record=True)
    again.load(run.snapshot())
    for _ in range(30):
        again.step([5, 9])
    assert [line.unit for line in again.ledger] == list(range(1, 51, 7))
    assert now.is_read(30)
    assert not now.is_read(29)


def test_intervals_of_a_stock_know_of_a_season_that_readings_hide() -> None:
    rng = np.random.default_rng(21)
    level = rng.uniform(10, 60, 60)
    phase = (np.arange(480)[:, None] + rng.normal(0, 2, 60)) / 24
    counts = np.rint(level * (1 + 0.6 * np.sin(2 * np.pi * phase))).astype(np.int64)

    def inside(phases: bool) -> list[float]:
        tide = Tide(epsilon=1, window=24, kind="stock", periods=(24,), phases=phases)
        run, shares = tide.run(60, noise=TestNoise(22)), []
        for row in counts:
            low, high = run.step(row).interval("0.9")
            shares.append(((low <= row) & (row <= high)).mean())
        return shares

    assert np.mean(inside(phases=False)[48:]) < 0.5  # readings at one phase show nothing of it
    shown = inside(phases=True)
    assert np.mean(shown[48:102]) < 0.5  # before the first late reading
    assert 0.82 <= np.mean(shown[174:]) <= 0.95  # the season has been around once


# -- the release -----------------------------------------------------------------------------------


def test_the_filter_is_a_function_of_releases() -> None:
    mechanism = Tide(epsilon=1, window=14, periods=(7,))
    run = mechanism.run(5, noise=TestNoise(13))
    again = mechanism.start(run.domain).filter
    for counts in poisson([0.2, 1.0, 9.0, 300.0, 4000.0], 60, seed=14):
        released = run.step(counts)
        estimate = again.step(mechanism.observation(released))
        assert np.array_equal(again.lengths, run._state.filter.lengths)
        point = np.rint(estimate.point("median") * released.divisor)
        assert np.array_equal(point, released.value)
    assert len(set(again.lengths.tolist())) > 1


def test_intervals_cover_the_counts() -> None:
    level = np.geomspace(0.2, 2000, 80)
    run = Tide(epsilon=1, window=24).run(80, noise=TestNoise(15))
    covered = []
    for unit, counts in enumerate(poisson(level, 120, seed=16)):
        low, high = run.step(counts).interval("0.9")
        if unit >= 24:
            covered.append(((low <= counts) & (counts <= high)).mean())
    assert 0.85 <= np.mean(covered) <= 0.99


def test_before_the_first_blocks_end_nothing_is_known_of_a_key() -> None:
    run = Tide(epsilon=1, window=30, periods=(10,)).run(4, noise=TestNoise(17))
    first = run.step([5, 5, 5, 5])
    assert np.isinf(first.variance).all()
    for _ in range(9):
        tenth = run.step([5, 5, 5, 5])
    assert np.isfinite(tenth.variance).all()


def test_the_median_of_a_sparse_key_is_a_whole_number_and_its_mean_is_not() -> None:
    stream = poisson([0.5] * 20, 80, seed=18)
    found = {}
    for point in ("median", "mean"):
        run = Tide(epsilon=1, window=8, point=point).run(20, noise=TestNoise(19))  # type: ignore[arg-type]
        for counts in stream:
            released = run.step(counts)
        found[point] = released.estimate
    assert (found["median"] == np.rint(found["median"])).all()
    assert found["mean"].sum() > found["median"].sum()


def test_it_beats_an_equal_share_for_every_unit_and_all_zeros() -> None:
    level = np.geomspace(0.1, 400, 60) * np.ones((150, 1))
    day = 1 + 0.8 * np.sin(2 * np.pi * np.arange(150) / 24)[:, None]
    stream = np.random.default_rng(20).poisson(level * day).astype(np.int64)
    run = Tide(epsilon=1, window=48, periods=(24,)).run(60, noise=TestNoise(21))
    error = np.mean([np.abs(run.step(counts).estimate - counts).mean() for counts in stream])
    assert error < 0.4 * 48
    assert error < 0.6 * stream.mean()


# -- with a delta ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("keys", "mean"), [(2, 28), (2, 100), (8, 28), (20, 100)])
def test_totals_that_are_only_noise_do_little_harm(keys: int, mean: int) -> None:
    """Still streams of few keys. Before, totals made the error up to four times as large."""
    counts = np.random.default_rng(7).poisson(mean, (480, keys))

    def error(share: str) -> float:
        run = Tide(epsilon=1, window=120, share_total=share).run(keys, noise=TestNoise(3))
        return float(np.mean([np.abs(run.step(row).estimate - row).mean() for row in counts]))

    assert error("1/10") < 1.4 * error("0")


@pytest.mark.parametrize("kind", ["flow", "stock"])
def test_with_a_delta_every_unit_is_released_with_an_equal_share_of_rho(kind: Any) -> None:
    mechanism = Tide(epsilon=1, delta="1e-6", window=8, periods=(2,), kind=kind)
    run = mechanism.run(3, noise=TestNoise(22), record=True)
    shown = [run.step(counts) for counts in poisson([1.0, 30.0, 500.0], 30, seed=23)]
    assert run.account().numbers.tolist() == 30 * [(mechanism.total // 8).quanta]
    assert all((each.public[UNITS] == 1).all() for each in shown)
    assert run._gate.save().pots == {}
    assert {line.label for line in run.ledger} == {"blocks", "total"} - (
        {"total"} if kind == "stock" else set()
    )


@pytest.mark.parametrize(
    ("delta", "asked", "share"),
    [("0", None, 10), ("1/1000000", None, 25), ("1/1000000", "1/10", 10), ("0", "1/4", 4)],
)
def test_totals_have_a_smaller_share_with_a_delta(delta: str, asked: Any, share: int) -> None:
    mechanism = Tide(epsilon=1, window=8, delta=delta, share_total=asked)
    price, budget = mechanism.price(9, keys=5), mechanism.budget(9)
    assert price.total == budget // share
    assert price.counts + price.total == budget


def test_with_a_delta_small_totals_are_followed_by_phase_and_still_released_by_unit() -> None:
    mechanism = Tide(epsilon="0.1", delta="1e-6", window=30, periods=(5,))
    run = mechanism.run(2, noise=TestNoise(24))
    shown = [run.step(counts) for counts in poisson([1.0, 2.0], 60, seed=25)]
    assert run._state.filter.days > 2
    assert all(each.public[TOTAL_UNITS] == [1] for each in shown)


def test_with_a_delta_dense_keys_have_less_error() -> None:
    stream = poisson(np.full(40, 300.0), 100, seed=26)
    errors = {}
    for delta in ("0", "1e-6"):
        run = Tide(epsilon=1, delta=delta, window=60).run(40, noise=TestNoise(27))
        moving = (stream * (1 + np.arange(100)[:, None] % 20 / 10)).astype(np.int64)
        errors[delta] = np.mean([np.abs(run.step(each).estimate - each).mean() for each in moving])
    assert errors["1e-6"] < errors["0"]


# -- parameters ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("periods", (0,)),
        ("kind", "level"),
        ("point", "mode"),
        ("share_total", "1"),
        ("share_total", "-1/10"),
        ("front", "1"),
        ("front", "1/100"),
        ("longest", 0),
    ],
)
def test_a_wrong_parameter_is_named(parameter: str, value: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Tide(epsilon=1, window=24, **{parameter: value})
    assert caught.value.parameter == parameter


def test_periods_are_sorted_and_one_unit_is_none() -> None:
    assert Tide(epsilon=1, window=24, periods=(168, 24, 1)).periods == (24, 168)
    assert isinstance(Tide(epsilon=1, window=24).run(3).step([1, 2, 3]), Released)


# -- hierarchies -----------------------------------------------------------------------------------

CITY = Hierarchy.of({"a": "north", "b": "north", "c": "south", "d": "south/harbour"})


def test_the_nodes_of_a_hierarchy_add_up_and_cost_nothing_more() -> None:
    mechanism = Tide(epsilon=1, window=12, periods=(3,), nodes=True)
    run = mechanism.run(CITY, noise=TestNoise(29), record=True)
    stream = poisson([200.0, 80.0, 3.0, 900.0], 60, seed=30)
    for counts in stream:
        released = run.step(counts)
        leaves = released.value[[run.released.keys.index(name) for name in LEAVES]]
        assert np.array_equal(run.released.totals(leaves), released.value)
    assert run.account().worst <= 1
    assert (released.variance > 0).all()
    low, high = released.interval("0.999999")
    truth = run.released.totals(counts)
    assert ((low <= truth) & (truth <= high)).all()


LEAVES = ("north/a", "north/b", "south/c", "south/harbour/d")


def test_the_filter_of_a_hierarchy_sees_the_same_as_that_of_its_keys() -> None:
    runs = [
        Tide(epsilon=1, window=8, nodes=nodes).run(CITY, noise=TestNoise(31))
        for nodes in (True, False)
    ]
    for counts in poisson([9.0, 80.0, 0.1, 700.0], 40, seed=32):
        with_nodes, keys_only = (run.step(counts) for run in runs)
        assert np.array_equal(with_nodes.public[SUMS], keys_only.public[SUMS])
    assert len(with_nodes.value) > len(keys_only.value)
    again = runs[0].mechanism.restore(runs[0].snapshot(), CITY, noise=TestNoise(31))
    assert np.array_equal(again.step([1, 2, 3, 4]).value, runs[0].step([1, 2, 3, 4]).value)


def test_the_largest_counts_do_not_overflow() -> None:
    run = Tide(epsilon=1, window=6, periods=(2,)).run(3, noise=NoNoise())
    with np.errstate(over="raise", invalid="raise"):
        for unit in range(40):
            released = run.step([2**50 * (unit % 3 == 0), 2**40 * (unit % 2), unit])
    assert (released.value >= 0).all()
    assert np.isfinite(released.variance).all()
