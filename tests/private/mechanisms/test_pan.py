"""Pan-privacy: what stands in memory, what leaves, and what one look may cost."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import penstock as ps
from penstock.testing import NoNoise, TestNoise, intrude

from tests.private.mechanisms.patterns import FAR, charged, play

BOTH = [ps.PanDistribution, ps.PanAbsorption]
MODES = ["between", "within", "announced"]


def _exposed(run: ps.Run) -> list[Fraction]:
    """What each unit's memory held unpaid when the unit was over."""
    amounts = [Fraction(0)] * run.unit
    for line in run.ledger:
        if line.kind in ("expose", "settle"):
            amounts[line.unit - 1] += (
                line.amount * run.mechanism.grid.quantum * (1 if line.kind == "expose" else -1)
            )
    return amounts


@pytest.mark.slow
@pytest.mark.parametrize("window", [1, 2, 3, 4])
@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("mode", ["between", "within"])
def test_one_look_at_any_unit_still_fits_into_epsilon(
    cls: type[ps.Incremental], mode: str, window: int
) -> None:
    mechanism = cls(epsilon=1, window=window, intrusion=mode)
    worst = Fraction(0)
    for pattern in product([False, True], repeat=2 * window + 2):
        run = play(mechanism, pattern)
        spent = [
            sum(pair)
            for pair in zip(charged(run, "publish"), charged(run, "distance"), strict=True)
        ]
        exposed = _exposed(run)
        for end in range(1, run.unit + 1):
            units = slice(max(0, end - window), end)
            cost = sum(spent[units]) + max(exposed[units])
            assert cost == run.account().window(end)
            worst = max(worst, cost)
    assert worst <= 1
    # The reserve is used, not merely kept: spending a quarter more on every publication would break
    # the promise.
    assert worst > Fraction(3, 4) or window == 1


def test_bd_has_a_pool_of_a_third_and_ba_shares_of_a_quarter() -> None:
    assert charged(play(ps.PanDistribution(epsilon=1, window=2), [True, True]), "publish")[
        0
    ] <= Fraction(1, 6)
    assert charged(play(ps.PanDistribution(epsilon=1, window=2), [True, True]), "publish")[
        0
    ] > Fraction(1, 7)
    assert (
        charged(play(ps.PanAbsorption(epsilon=1, window=2), [True, True]), "publish")
        == [Fraction(1, 8)] * 2
    )


@pytest.mark.parametrize("cls", BOTH)
def test_announced_looks_leave_the_budgets_unchanged(cls: type[ps.Incremental]) -> None:
    plain = {ps.PanDistribution: ps.BudgetDistribution, ps.PanAbsorption: ps.BudgetAbsorption}[cls]
    pattern = [True, False, True, True, False, False, True, True]
    pan = play(cls(epsilon=1, window=3, intrusion="announced", buckets=2), pattern)
    single = play(plain(epsilon=1, window=3), pattern)
    assert charged(pan, "publish") == charged(single, "publish")


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("mode", ["within", "announced"])
def test_noise_stands_in_memory_before_the_data(cls: type[ps.Incremental], mode: str) -> None:
    run = cls(epsilon=1, window=2, intrusion=mode).run(500, noise=TestNoise(4))
    run.feed(np.zeros(500, np.int64))
    seen = intrude(run)["counter publish"]
    assert (
        np.count_nonzero(seen) > 350
    )  # scale 4 to 8: about 1 in 10 draws is 0; false alarm below 1e-20
    run.feed(np.full(500, 1000))
    assert (intrude(run)["counter publish"] - seen == 1000).all()


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("mode", ["within", "announced"])
def test_output_minus_memory_is_noise_again(cls: type[ps.Incremental], mode: str) -> None:
    run = cls(epsilon=1, window=2, intrusion=mode).run(2000, noise=TestNoise(4))
    run.feed(np.full(2000, FAR))
    memory = intrude(run)["counter publish"]
    released = run.step(np.zeros(2000, np.int64))
    assert released.repeated is False
    assert released.layers == 2
    difference = released.value - memory
    one = released.variance / 2
    # Mean square against the variance of one layer; its relative deviation is 0.05: false alarm
    # below 1e-6.
    assert 0.75 < np.mean(difference.astype(float) ** 2) / one[0] < 1.25


@pytest.mark.parametrize("cls", BOTH)
def test_between_units_memory_and_output_may_be_the_same(cls: type[ps.Incremental]) -> None:
    released = (
        cls(epsilon=1, window=2, intrusion="between").run(4, noise=TestNoise(1)).step([FAR] * 4)
    )
    assert released.layers == 1
    with pytest.raises(ps.ConfigurationError, match="takes whole units"):
        cls(epsilon=1, window=2, intrusion="between").run(4).feed([1, 2, 3, 4])


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("mode", MODES)
def test_nothing_but_releases_stands_in_memory_between_units(
    cls: type[ps.Incremental], mode: str
) -> None:
    run = cls(epsilon=1, window=3, intrusion=mode).run(4, noise=TestNoise(2))
    for leap in (True, False, True, False, False, True):
        run.step([FAR * leap] * 4)
        assert not [name for name in intrude(run) if name.startswith(("counter", "pot"))]


@pytest.mark.parametrize("cls", BOTH)
def test_parts_make_the_same_unit_as_a_whole(cls: type[ps.Incremental]) -> None:
    whole = cls(epsilon=1, window=3).run(3, noise=NoNoise(), record=True)
    parts = cls(epsilon=1, window=3).run(3, noise=NoNoise(), record=True)
    for height in (FAR, FAR, 3, 0, FAR, 7):
        released = whole.step([height, 2 * height, 0])
        parts.feed([height, 0, 0])
        parts.feed([0, height, 0])
        assert parts.step([0, height, 0]).value.tolist() == released.value.tolist()
    assert whole.ledger == parts.ledger


@pytest.mark.parametrize("cls", BOTH)
def test_an_announced_look_forces_a_publication_with_fresh_noise(cls: type[ps.Incremental]) -> None:
    run = cls(epsilon=1, window=3, intrusion="announced").run(300, noise=TestNoise(9), record=True)
    run.feed(
        np.zeros(300, np.int64)
    )  # nothing has moved: without the look this unit would be skipped
    seen = intrude(run)["counter publish"]
    run.intruded()
    assert np.count_nonzero(intrude(run)["counter publish"] - seen) > 200
    run.intruded()
    released = run.step(np.zeros(300, np.int64))
    assert released.repeated is False
    assert released.layers == 4
    assert run.account().kept


def test_data_of_nullified_units_are_counted_nowhere() -> None:
    run = ps.PanAbsorption(epsilon=1, window=3, intrusion="announced").run(2, noise=NoNoise())
    run.step([0, 0])
    run.step([0, 0])
    assert run.step([FAR, FAR]).repeated is False  # absorbs three shares: two units are nullified
    for _ in range(2):
        run.feed([5, 5])
        assert not [name for name in intrude(run) if name.startswith("counter")]
        run.intruded()
        assert run.step([0, 0]).repeated is True
    run.feed([5, 5])
    assert "counter publish" in intrude(run)


@pytest.mark.parametrize("cls", BOTH)
def test_unannounced_promises_know_no_announcement(cls: type[ps.Incremental]) -> None:
    with pytest.raises(ps.ConfigurationError, match="no promise for announced intrusions"):
        cls(epsilon=1, window=3, intrusion="within").run(2).intruded()


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("bad", [{"intrusion": "never"}, {"buckets": 0}])
def test_bad_parameters_are_refused(cls: type[ps.Incremental], bad: dict[str, object]) -> None:
    with pytest.raises(ps.ConfigurationError):
        cls(epsilon=1, window=2, **bad)


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("mode", MODES)
def test_the_guarantee_says_what_else_it_survives(cls: type[ps.Incremental], mode: str) -> None:
    words = cls(epsilon=1, window=2, intrusion=mode).guarantee.in_words()
    assert "look" in words
    assert "memory" in words
