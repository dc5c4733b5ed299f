"""Retroactive grouping."""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.budget.grid import Budget, Grid
from penstock.budget.ledger import Ledger
from penstock.core.arrays import FloatArray
from penstock.core.errors import BudgetError, ConfigurationError
from penstock.core.guarantee import Guarantee
from penstock.core.private import Private
from penstock.core.released import Released
from penstock.private.amplification import amplified, best_keep, sampling_error
from penstock.private.gate import Gate
from penstock.private.mechanisms.laplace import Laplace
from penstock.private.mechanisms.rg import RetroactiveGrouping
from penstock.private.noise import Noise
from penstock.testing import NoNoise, RecordingNoise, TestNoise

from tests.private.mechanisms.patterns import charged

FAR = 10**6


# -- the three strategies --------------------------------------------------------------------------

EXAMPLE = [5, 75, 74, 73, 74, 75, 74, 73]


def shown(mechanism: RetroactiveGrouping, counts: list[int]) -> list[tuple[float, bool, int, int]]:
    """Estimate, whether it is fresh, how many units it is the mean of, and the first of these;
    noise off, one key.
    """
    run = mechanism.run(1, noise=NoNoise())
    outs = [run.step([count]) for count in counts]
    return [
        (
            float(out.estimate[0]),
            not bool(out.repeated[0]),
            int(out.divisor[0]),
            int(out.public["start"][0]),
        )  # type: ignore[index]
        for out in outs
    ]


def test_the_papers_example() -> None:
    """With the paper's parameters: a share of 0.1 for the watch, and a threshold that knows
    publication noise only.
    """
    seen = shown(RetroactiveGrouping(epsilon="0.1", watch="0.1", caution=0), EXAMPLE)
    assert [value for value, *_ in seen] == [5, 75, 75, 73.5, 73.5, 73.5, 73.5, 74]
    assert [unit for unit, (_, fresh, *_) in enumerate(seen, start=1) if fresh] == [1, 2, 4, 8]
    assert [size for _, fresh, size, _ in seen if fresh] == [1, 1, 2, 4]
    assert [start for _, fresh, _, start in seen if fresh] == [1, 2, 3, 5]


def test_at_this_epsilon_the_default_takes_the_papers_jump_for_noise() -> None:
    """A jump of 70 is two scales of the watch's noise; at three times that ε it is a jump."""
    assert not shown(RetroactiveGrouping(epsilon="0.1"), EXAMPLE)[1][1]
    seen = shown(RetroactiveGrouping(epsilon="0.3"), EXAMPLE)
    assert [unit for unit, (_, fresh, *_) in enumerate(seen, start=1) if fresh] == [1, 2, 4, 8]
    assert [value for value, fresh, *_ in seen if fresh] == [5, 75, 73.5, 74]


def test_a_jump_leaves_the_open_group_out_and_starts_over() -> None:
    seen = shown(RetroactiveGrouping(epsilon=1), [0] * 5 + [FAR] + [FAR] * 3)
    assert [unit for unit, (_, fresh, *_) in enumerate(seen, start=1) if fresh] == [1, 3, 6, 8]
    assert seen[5] == (FAR, True, 1, 6)
    assert seen[7] == (FAR, True, 2, 7)


def test_a_still_stream_is_published_in_groups_of_twice_the_size_up_to_the_longest() -> None:
    seen = shown(RetroactiveGrouping(epsilon=1, longest=8), [7] * 40)
    assert [size for _, fresh, size, _ in seen if fresh] == [1, 2, 4, 8, 8, 8, 8]
    assert all(value == 7 for value, *_ in seen)


def test_a_number_that_is_repeated_says_which_units_it_speaks_of() -> None:
    seen = shown(RetroactiveGrouping(epsilon=1), [7] * 7)
    assert [(size, start) for _, _, size, start in seen] == [
        (1, 1),
        (1, 1),
        (2, 2),
        (2, 2),
        (2, 2),
        (2, 2),
        (4, 4),
    ]


@pytest.mark.parametrize("contribution", [1, 2, 5])
def test_the_threshold_is_what_the_formula_says(contribution: int) -> None:
    mechanism = RetroactiveGrouping(epsilon=1, watch="1/2", caution=3, contribution=contribution)
    assert mechanism.threshold == contribution**2 * (8 + 3 * 8)
    height = math.isqrt(contribution**2 * 32 - 1)
    for step, fresh in ((height, False), (height + 1, True)):
        assert shown(mechanism, [100, 100 + step])[1][1] is fresh
        assert shown(mechanism, [100, 100 - step])[1][1] is fresh


def test_every_unit_is_charged_once_to_the_watch_and_once_to_a_publication() -> None:
    run = RetroactiveGrouping(epsilon=1, window=4, watch="1/4").run(
        3, noise=TestNoise(3), record=True
    )
    for counts in np.random.default_rng(1).integers(0, 400, (60, 3)):
        run.step(counts)
    assert (
        charged(run, "watch") == [Fraction(0)] + [Fraction(1, 16)] * 59
    )  # the first unit is not watched
    assert charged(run, "publish") == [Fraction(3, 16)] * 60
    assert run.account().kept


@pytest.mark.parametrize(
    "how",
    [
        {"watch": 0},
        {"watch": 1},
        {"watch": "3/2"},
        {"caution": "-1"},
        {"keep": 0},
        {"keep": "1.01"},
        {"longest": 0},
    ],
    ids=str,
)
def test_parameters_without_a_meaning_are_refused(how: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        RetroactiveGrouping(epsilon=1, **how)  # type: ignore[arg-type]


# -- a naive twin ----------------------------------------------------------------------------------


class GroupingTwin:
    """The same, key by key, in plain Python and fractions, on the same draws."""

    def __init__(self, mechanism: RetroactiveGrouping, keys: int, noise: Noise) -> None:
        self.mechanism, self.keys, self.noise, self.unit = mechanism, keys, noise, 0
        self.groups: list[list[int]] = [[] for _ in range(keys)]
        self.last = [Fraction(0)] * keys
        self.sizes = [1] * keys
        self.starts = [0] * keys

    def step(self, counts: list[int]) -> list[tuple[Fraction, bool, int, int]]:
        self.unit += 1
        of = self.mechanism
        out = [True] * self.keys
        if self.unit > 1:
            noise = self.noise.laplace(
                of.contribution / of.watching.epsilon, self.keys, unit=self.unit, label="watch"
            ).tolist()
            for key in range(self.keys):
                jump = (counts[key] + noise[key] - self.last[key]) ** 2 >= of.threshold
                if jump:
                    self.groups[key] = []
                out[key] = jump or len(self.groups[key]) + 1 >= min(2 * self.sizes[key], of.longest)
        for key in range(self.keys):
            self.groups[key].append(counts[key])
        scale = of.contribution / of.publishing.epsilon
        noise = self.noise.laplace(scale, sum(out), unit=self.unit, label="publish").tolist()
        for key in range(self.keys):
            if out[key]:
                self.sizes[key] = len(self.groups[key])
                self.last[key] = Fraction(sum(self.groups[key]) + noise.pop(0), self.sizes[key])
                self.starts[key] = self.unit - self.sizes[key] + 1
                self.groups[key] = []
        return list(zip(self.last, out, self.sizes, self.starts, strict=True))


def rows(out: Released) -> list[tuple[Fraction, bool, int, int]]:
    fresh = np.logical_not(np.broadcast_to(out.repeated, len(out.value))).tolist()
    sizes = np.broadcast_to(out.divisor, len(out.value)).tolist()
    estimates = [
        Fraction(value, size) for value, size in zip(out.value.tolist(), sizes, strict=True)
    ]
    return list(zip(estimates, fresh, sizes, out.public["start"].tolist(), strict=True))


STREAMS = st.integers(1, 4).flatmap(
    lambda keys: st.lists(
        st.lists(st.sampled_from([0, 1, 2, 5, 9, 40, 41, 300]), min_size=keys, max_size=keys),
        min_size=1,
        max_size=24,
    )
)


@given(
    stream=STREAMS,
    watch=st.sampled_from(["0.1", "0.3", "1/2"]),
    caution=st.sampled_from([0, 1, "6"]),
    epsilon=st.sampled_from([1, "0.1", 3]),
    contribution=st.integers(1, 3),
    longest=st.sampled_from([1, 3, 4, 1024]),
    seed=st.none() | st.integers(0, 20),
)
@example([[7]] * 24, "0.3", "6", 1, 1, 1024, None)
def test_it_does_what_its_naive_twin_does(
    stream: list[list[int]],
    watch: str,
    caution: int | str,
    epsilon: int | str,
    contribution: int,
    longest: int,
    seed: int | None,
) -> None:
    mechanism = RetroactiveGrouping(
        epsilon=epsilon, watch=watch, caution=caution, contribution=contribution, longest=longest
    )
    noise = NoNoise() if seed is None else TestNoise(seed)
    run, twin = (
        mechanism.run(len(stream[0]), noise=noise),
        GroupingTwin(mechanism, len(stream[0]), noise),
    )
    for counts in stream:
        assert rows(run.step(counts)) == twin.step(counts)


# -- windows ---------------------------------------------------------------------------------------


def estimates(run_noise: Noise, stream: list[np.ndarray], **how: object) -> FloatArray:
    run = RetroactiveGrouping(epsilon=1, **how).run(len(stream[0]), noise=run_noise)  # type: ignore[arg-type]
    return np.array([run.step(counts).estimate for counts in stream])


def test_without_noise_windows_of_any_width_add_up_on_a_still_stream() -> None:
    seen = estimates(NoNoise(), [np.array([3, 70, 1])] * 40)
    for width in (1, 2, 7, 40):
        sums = np.lib.stride_tricks.sliding_window_view(seen, width, axis=0).sum(axis=-1)
        assert (sums == width * np.array([3, 70, 1])).all()


def test_windows_of_any_width_are_right_on_average() -> None:
    """2,000 keys of a still stream. By z-tests at 5 standard errors: each of the four has a false
    alarm below 1e-6.
    """
    seen = estimates(TestNoise(4), [np.full(2_000, 50)] * 60, caution=2)
    for width in (1, 3, 16, 60):
        errors = seen[-width:].sum(axis=0) - 50 * width
        assert abs(errors.mean()) < 5 * errors.std() / math.sqrt(len(errors))
        biased = errors + 0.3 * errors.std()
        assert abs(biased.mean()) > 5 * errors.std() / math.sqrt(len(errors))


def test_where_every_unit_jumps_every_window_is_the_sum_of_its_units() -> None:
    stream = [np.array([FAR * (unit % 3)]) for unit in range(30)]
    seen = estimates(NoNoise(), stream)
    assert seen.tolist() == [counts.tolist() for counts in stream]


# -- what it is good for ---------------------------------------------------------------------------


def error(mechanism: RetroactiveGrouping | Laplace, keys: int, units: int) -> float:
    run, counts = mechanism.run(keys, noise=TestNoise(6)), np.full(keys, 50)
    return float(np.mean([np.square(run.step(counts).estimate - 50).mean() for _ in range(units)]))


@pytest.mark.parametrize("epsilon", ["1", "0.1", "0.01"])
def test_a_still_stream_is_published_with_less_than_a_third_of_the_error_of_laplace(
    epsilon: str,
) -> None:
    """Over 20 seeds, the ratio was 0.220 with a standard deviation of 0.006: 0.3 is 13 of them
    away.
    """
    assert error(RetroactiveGrouping(epsilon=epsilon), 200, 400) <= 0.3 * error(
        Laplace(epsilon=epsilon), 200, 400
    )


def test_the_papers_parameters_lose_to_laplace_even_there() -> None:
    """The ratio is 1.20 with a standard deviation near 0.01."""
    papers = RetroactiveGrouping(epsilon="0.1", watch="0.1", caution=0)
    assert error(papers, 200, 400) > 1.1 * error(Laplace(epsilon="0.1"), 200, 400)


# -- the sampled watch -----------------------------------------------------------------------------

SHARES = [Fraction(1, 50), Fraction(1, 10), Fraction(1, 3), Fraction(9, 10)]


def budget(epsilon: str) -> Budget:
    return Grid.of(Guarantee(epsilon, 1)).floor(Fraction(epsilon))


@pytest.mark.parametrize("keep", SHARES, ids=str)
@pytest.mark.parametrize("epsilon", ["0.001", "0.1", "1", "6", "200"])
@pytest.mark.parametrize("events", [1, 3])
def test_amplification_is_rounded_down_and_by_less_than_a_quantum(
    keep: Fraction, epsilon: str, events: int
) -> None:
    spent = budget(epsilon)
    worth = amplified(spent, keep=keep, events=events)
    with decimal.localcontext(prec=160):

        def loss(quanta: int) -> Decimal:
            each = Fraction(quanta, events) * spent.grid.quantum
            power = (Decimal(each.numerator) / Decimal(each.denominator)).exp()
            return (
                events
                * (1 + Decimal(keep.numerator) / Decimal(keep.denominator) * (power - 1)).ln()
            )

        promised = Decimal(spent.epsilon.numerator) / Decimal(spent.epsilon.denominator)
        assert loss(worth.quanta) <= promised < loss(worth.quanta + 1)


@pytest.mark.parametrize("keep", SHARES, ids=str)
@pytest.mark.parametrize("events", [1, 2, 3])
def test_the_loss_of_a_noisy_sample_is_never_above_what_was_charged(
    keep: Fraction, events: int
) -> None:
    """Computed, not estimated: binomials convolved with discrete Laplace noise, a person's events
    there or not.
    """
    spent = budget("1.5")
    scale = events / float(amplified(spent, keep=keep, events=events).epsilon)
    reach = 60
    outputs = np.arange(-reach, reach + 1)

    def law(count: int) -> FloatArray:
        share = float(keep)
        chance = [
            math.comb(count, k) * share**k * (1 - share) ** (count - k) for k in range(count + 1)
        ]
        return np.array(sum(p * np.exp(-np.abs(outputs - k) / scale) for k, p in enumerate(chance)))

    worst = 0.0
    for others in range(5):
        ratios = np.log(law(others + events) / law(others))
        worst = max(worst, float(np.abs(ratios).max()))
    assert worst <= 1.5 + 1e-9
    assert worst > 1.5 - 1e-6  # and all of it is used


def gate_of(noise: Noise, keys: int, epsilon: str = "1") -> Gate:
    gate = Gate(ledger=Ledger(Guarantee(epsilon, 1), keys=keys), noise=noise, keys=keys)
    gate.begin(1)
    return gate


@pytest.mark.parametrize(("factor", "fits"), [(1.0, True), (0.7, False), (1.3, False)])
def test_a_sampled_count_is_unbiased_and_has_the_error_that_is_said(
    factor: float, fits: bool
) -> None:
    """20,000 keys. Z-tests at 5 standard errors: a false alarm below 1e-6 each. At 0.7 and 1.3 of
    the error, they refuse.
    """
    keep, count, keys = Fraction(1, 4), 40, 20_000
    gate = gate_of(TestNoise(9), keys, "0.5")
    sampled = gate.sampled(
        Private(np.full(keys, count), sensitivity=1),
        keep=keep,
        epsilon=budget("0.5"),
        label="watch",
    )
    off = sampled.value / float(keep) - count
    assert abs(off.mean()) < 5 * off.std() / math.sqrt(keys)
    # The formula has 2/e′² for the variance of the noise; that of discrete noise is 1/2sinh²(e′/2).
    worth = float(amplified(budget("0.5"), keep=keep, events=1).epsilon)
    exact = 3 * count + 0.5 / (float(keep) * math.sinh(worth / 2)) ** 2
    assert exact == pytest.approx(sampling_error(count, keep, "0.5"), rel=0.02)
    squares = np.square(off)
    z = (squares.mean() - factor * exact) / (squares.std() / math.sqrt(keys))
    assert bool(abs(z) < 5) is fits


def test_a_sample_is_charged_before_it_is_drawn() -> None:
    noise = RecordingNoise(TestNoise(1))
    gate = gate_of(noise, 2)
    secret = Private(np.array([5, 6]), sensitivity=1)
    gate.sampled(secret, keep=Fraction(1, 2), epsilon=budget("1"), label="watch")
    assert gate.spent("watch") == budget("1")
    drawn = list(noise.draws)
    with pytest.raises(BudgetError):
        gate.sampled(secret, keep=Fraction(1, 2), epsilon=budget("1"), label="watch")
    assert noise.draws == drawn


def test_a_sampled_watch_sees_jumps_and_repeats_itself_after_a_restart() -> None:
    mechanism = RetroactiveGrouping(epsilon=1, keep="1/2", contribution=2)
    stream = [[FAR * (unit // 6 % 2), 10] for unit in range(24)]
    run = mechanism.run(2, noise=TestNoise(2))
    outs = [run.step(counts) for counts in stream]
    fresh = [unit for unit, out in enumerate(outs) if not np.broadcast_to(out.repeated, 2)[0]]
    assert {0, 6, 12, 18} <= set(fresh)
    again = mechanism.run(2, noise=TestNoise(2))
    for counts in stream[:10]:
        again.step(counts)
    restored = mechanism.restore(again.snapshot(), 2, noise=TestNoise(2))
    assert [rows(restored.step(counts)) for counts in stream[10:]] == [
        rows(out) for out in outs[10:]
    ]


def test_a_sampled_watch_allows_for_its_sampling_error() -> None:
    """Of 40,000 events half are kept, 200 more or less: that is no jump, though far more than the
    noise.
    """
    run = RetroactiveGrouping(epsilon=4, watch="1/2", keep="1/2").run(500, noise=TestNoise(8))
    fresh = [
        np.broadcast_to(~np.asarray(run.step(np.full(500, 40_000)).repeated), 500).mean()
        for _ in range(8)
    ]
    assert math.sqrt(run.mechanism.threshold) < 10
    assert max(fresh[1], fresh[3]) < 0.1


@given(
    count=st.integers(0, 10**6),
    epsilon=st.fractions(Fraction(1, 1000), 10, max_denominator=1000),
)
def test_no_sample_is_better_than_all_of_it(count: int, epsilon: Fraction) -> None:
    assert best_keep(count, epsilon) == 1
    errors = [sampling_error(count, Fraction(percent, 100), epsilon) for percent in range(1, 101)]
    assert all(less > more for less, more in pairwise(errors))


@given(st.floats(1e-4, 50), st.floats(1e-3, 1), st.floats(1e-3, 1))
def test_the_worth_of_a_sample_grows_more_slowly_than_it_shrinks(
    a: float, one: float, other: float
) -> None:
    """π·ln(1 + a/π) increases with π: what makes sampling never pay."""
    low, high = sorted((one, other))
    assert low * math.log1p(a / low) <= high * math.log1p(a / high) * (1 + 1e-12)
