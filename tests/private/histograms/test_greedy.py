from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import Plain, Sample
from penstock.core.cover import Groups
from penstock.core.errors import ConfigurationError, InexactError
from penstock.private.histograms.greedy import ORDER, TOTAL, Greedy, shared_out
from penstock.private.run import Run
from penstock.released.log import Log
from penstock.released.queries.aggregate import Aggregate
from penstock.testing import NoNoise, RecordingNoise, TestNoise


def start(keys: int, *, epsilon: str = "1", share: str = "0.1", noise: object | None = None) -> Run:
    mechanism = Sample(epsilon=epsilon, window=1, histogram=Greedy(share=share))
    return mechanism.run(keys, noise=TestNoise(1) if noise is None else noise, record=True)  # type: ignore[arg-type]


def error_ratio(counts: np.ndarray, *, epsilon: str, releases: int = 30) -> float:
    """The mean absolute error of single keys over that of plain noise."""
    errors = []
    for histogram in (Greedy(), Plain()):
        run = Sample(epsilon=epsilon, window=1, histogram=histogram).run(
            len(counts), noise=TestNoise(3)
        )
        errors.append(
            np.mean([np.abs(run.step(counts).estimate - counts).mean() for _ in range(releases)])
        )
    return float(errors[0] / errors[1])


# -- what it reads and pays for --------------------------------------------------------------------


def test_keys_are_ordered_and_counted_with_their_shares() -> None:
    noise = RecordingNoise(TestNoise(1))
    run = start(6, noise=noise, share="1/4")
    run.step([0, 10**6, 5, 9_000, 77, 10**5])
    assert [(draw.label, draw.size) for draw in noise.draws] == [(ORDER, 6), ("publish", 6)]
    assert [round(float(1 / draw.scale), 6) for draw in noise.draws] == [0.125, 0.75]
    assert [line.label for line in run.ledger] == [ORDER, "publish"]
    assert run.account().worst < 1


def test_the_total_of_a_large_group_is_drawn_and_paid_for() -> None:
    noise = RecordingNoise(TestNoise(1))
    run = start(2_000, noise=noise)
    run.step(np.full(2_000, 40))
    assert [(draw.label, draw.size) for draw in noise.draws] == [
        (ORDER, 2_000),
        ("publish", 2_000),
        (TOTAL, 1),
    ]
    assert sum(1 / draw.scale for draw in noise.draws) == 1
    assert run.account().worst == 1


def test_totals_are_drawn_for_large_groups_only() -> None:
    noise = RecordingNoise(TestNoise(1))
    run = start(4_096, noise=noise)
    run.step(np.concatenate([np.zeros(2_048, np.int64), np.arange(1, 2_049) * 10**6]))
    assert (noise.draws[-1].label, noise.draws[-1].size) == (TOTAL, 1)


@pytest.mark.parametrize("epsilon", ["0.05", "1", "20"])
def test_a_total_is_drawn_only_where_it_is_better(epsilon: str) -> None:
    """By the variances themselves: for a large ε, whole-number noise has much less than the square
    of its scale.
    """
    noise = RecordingNoise(TestNoise(1))
    run = start(4_096, noise=noise, epsilon=epsilon)
    released = run.step(np.zeros(4_096, np.int64))
    if any(draw.label == TOTAL for draw in noise.draws):
        scale = float(next(draw.scale for draw in noise.draws if draw.label == TOTAL))
        assert 2 * scale**2 * 4 <= 4_097 * released.variance[0]
    else:
        assert epsilon == "20"


# -- what it gives ---------------------------------------------------------------------------------


def test_without_noise_groups_keep_their_totals() -> None:
    rng = np.random.default_rng(2)
    counts = np.concatenate([rng.integers(0, 3, 500), rng.integers(10**5, 10**7, 20)])
    released = start(520, noise=NoNoise()).step(counts)
    assert released.value.sum() == counts.sum()
    assert (released.value[500:] == counts[500:]).all()
    assert len(np.unique(released.value[:500])) < 4


def test_it_claims_one_count_of_noise_for_every_key() -> None:
    released = start(1_500, epsilon="0.5").step(np.zeros(1_500, np.int64))
    assert (released.divisor, released.layers, released.kind, released.repeated) == (
        1,
        1,
        "sum",
        False,
    )
    assert float(released.scale) == pytest.approx(1 / 0.45, rel=1e-6)


def test_keys_far_apart_keep_their_counts() -> None:
    """Their noise is that of the second draw alone: |noise| is 1/1.8 in the mean or so, and 40 of
    300,000 cannot come up.
    """
    counts = np.arange(300) * 1_000
    released = start(300, epsilon="2").step(counts)
    assert np.abs(released.value - counts).max() < 40


@pytest.mark.parametrize("level", [0, 100])
def test_keys_alike_gain(level: int) -> None:
    assert error_ratio(np.full(1_000, level), epsilon="0.1") < 0.15


def test_a_long_tail_gains() -> None:
    weights = 1 / np.arange(1, 5_001)
    counts = np.random.default_rng(4).multinomial(50_000, weights / weights.sum())
    assert error_ratio(counts, epsilon="0.05", releases=10) < 0.5


def test_keys_that_all_differ_lose_their_share_and_no_more() -> None:
    """1/0.9 = 1.11 of continuous noise; 30 releases of 1,000 keys know the ratio to 1 %."""
    counts = np.random.default_rng(5).integers(0, 1_000, 1_000)
    assert 1.08 < error_ratio(counts, epsilon="0.1") < 1.15


def test_noise_has_no_drift() -> None:
    """The mean error of 60 releases is within 6 standard errors of 0 (chance 2e-9), for groups and
    for keys alone.
    """
    for counts in (np.full(400, 50), np.arange(400) * 500, np.full(1_600, 50)):
        run = start(len(counts), epsilon="0.2")
        means = [float((run.step(counts).estimate - counts).mean()) for _ in range(60)]
        assert abs(np.mean(means)) < 6 * np.std(means) / np.sqrt(60)


@pytest.mark.parametrize("keys", [64, 300, 1_600])
def test_intervals_of_sums_cover_though_keys_share_their_noise(keys: int) -> None:
    """Sums of 1 key, a half and all of one group: 100 releases, intervals of 0.9; 23 misses or more
    have chance 1e-4 each.
    """
    run = start(keys, epsilon="0.3")
    log = Log.of(run)
    counts = np.full(keys, 70)
    for _ in range(100):
        log.append(run.step(counts))
    for number in (1, keys // 2, keys):
        answer = Aggregate(list(run.domain.keys[:number])).answer(log, range(1, 101))
        low, high = answer.interval("0.9")
        assert np.count_nonzero((low > 70 * number) | (high < 70 * number)) <= 22


# -- its parts -------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.integers(0, 2**32))
def test_totals_are_shared_out_whole_and_evenly(labels: list[int], seed: int) -> None:
    groups = Groups.from_labels(np.unique(np.array(labels), return_inverse=True)[1].ravel())
    totals = np.random.default_rng(seed).integers(-(2**55), 2**55, groups.number)
    parts = shared_out(totals, groups)
    assert (groups.sums(parts) == totals).all()
    for number in range(groups.number):
        mine = parts[groups.of == number]
        assert int(mine.max()) - int(mine.min()) <= 1
        off = np.cumsum(mine - totals[number] // len(mine)) - (
            totals[number] % len(mine)
        ) * np.arange(1, len(mine) + 1) / len(mine)
        assert (np.abs(off) < 1).all()


# -- its parameter ---------------------------------------------------------------------------------


@pytest.mark.parametrize("share", ["0", "1", "-0.1", 2])
def test_a_share_is_a_part(share: str) -> None:
    with pytest.raises(ConfigurationError, match="share"):
        Greedy(share=share)


def test_a_float_is_refused() -> None:
    with pytest.raises(InexactError, match="share"):
        Greedy(share=0.1)  # type: ignore[arg-type]


def test_equal_shares_are_equal() -> None:
    assert Greedy(share="0.1") == Greedy(share=Fraction(1, 10)) == Greedy()


def test_a_budget_too_small_to_split_is_refused_before_anything_is_drawn() -> None:
    noise = RecordingNoise(TestNoise(1))
    run = start(3, share=f"1/{10**12}", noise=noise)
    with pytest.raises(ConfigurationError, match="budget of 0"):
        run.step([1, 2, 3])
    assert noise.draws == []
