from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from penstock import BudgetAbsorption, Sample, Uniform
from penstock.lab.audit.attack import cells
from penstock.lab.audit.model import Look, Pair
from penstock.lab.audit.noise import LabNoise
from penstock.lab.audit.sample import traces
from penstock.private.mechanisms.base import Mechanism
from penstock.private.mechanisms.pan import PanDistribution
from penstock.private.mechanisms.pegasus import Pegasus


class RunByRun(Uniform):
    by_key = False


class SampleRunByRun(Sample):
    by_key = False


def draw(noise: LabNoise) -> list[int]:
    drawn = noise.laplace(Fraction(3), 50, unit=1, label="publish").tolist()
    drawn += noise.laplace_each(
        [Fraction(2), Fraction(9)], np.array([0, 1, 1, 0]), unit=1, label="publish"
    ).tolist()
    return [*drawn, *noise.thin(np.full(20, 10), Fraction(1, 2), unit=1, label="thin").tolist()]


def test_lab_noise_follows_from_its_seed() -> None:
    assert draw(LabNoise(1, "ba", "0/0/0")) == draw(LabNoise(1, "ba", "0/0/0"))
    assert draw(LabNoise(1, "ba", "0/0/0")) != draw(LabNoise(1, "ba", "0/0/1"))
    assert draw(LabNoise(1, "ba", "0/0/0")) != draw(LabNoise(2, "ba", "0/0/0"))


def test_lab_noise_goes_on_and_never_repeats_itself() -> None:
    noise = LabNoise(1)
    assert draw(noise) != draw(noise)


def test_two_runs_share_no_noise() -> None:
    seen = traces(BudgetAbsorption(epsilon=1, window=2), np.full((3, 2), 10**6), 50, LabNoise(7))
    assert len({values.tobytes() for values in seen.values}) == 50


@pytest.mark.parametrize(
    "mechanism", [Uniform(epsilon=1, window=2), BudgetAbsorption(epsilon=1, window=2)]
)
def test_the_same_seed_gives_the_same_traces(mechanism: Mechanism[object]) -> None:
    stream = np.array([[3, 0], [0, 9]])
    one, two = (traces(mechanism, stream, 40, LabNoise("seed")) for _ in range(2))
    assert (one.values == two.values).all()
    assert (one.fresh == two.fresh).all()
    assert one.values.shape == one.fresh.shape == (40, 2, 2)


@pytest.mark.parametrize(("as_keys", "one_by_one"), [(Uniform, RunByRun), (Sample, SampleRunByRun)])
def test_runs_as_keys_and_run_by_run_have_the_same_distribution(
    as_keys: type[Mechanism[object]], one_by_one: type[Mechanism[object]]
) -> None:
    """Chi-square of the releases of whole streams; false-alarm probability 1e-6 a case, at a fixed
    seed.
    """
    runs = 4_000
    pair = Pair("two keys", np.array([[3, 1], [1, 0]]), np.array([[2, 1], [0, 0]]))
    fast = traces(as_keys(epsilon=2, window=2), pair.left, runs, LabNoise("fast"))
    slow = traces(one_by_one(epsilon=2, window=2), pair.left, runs, LabNoise("slow"))
    assert (fast.fresh.mean(axis=0) == slow.fresh.mean(axis=0)).all()
    counted = [cells(each, pair) for each in (fast, slow)]
    assert (
        _p_value(
            *([each.get(name, 0) for name in sorted(counted[0] | counted[1])] for each in counted)
        )
        > 1e-6
    )
    for unit in range(2):
        for key in range(2):
            edges = np.arange(-3, 8)
            assert (
                _p_value(
                    *(
                        np.bincount(np.digitize(each.values[:, unit, key], edges), minlength=12)
                        for each in (fast, slow)
                    )
                )
                > 1e-6
            )


def _p_value(one: object, other: object) -> float:
    table = np.array([one, other])
    table = table[:, table.sum(axis=0) > 0]
    return float(chi2_contingency(table).pvalue)


def test_the_chi_square_would_notice_thirty_percent_more_noise() -> None:
    edges = np.arange(-3, 8)
    one, other = (
        traces(Uniform(epsilon=e, window=1), np.array([[2]]), 20_000, LabNoise(e)).values
        for e in ("1", "1.3")
    )
    assert (
        _p_value(
            *(np.bincount(np.digitize(each.ravel(), edges), minlength=12) for each in (one, other))
        )
        < 1e-6
    )


def test_keys_of_a_run_stay_together() -> None:
    seen = traces(
        Uniform(epsilon=50, window=1), np.array([[100, 200, 300], [400, 500, 600]]), 30, LabNoise(3)
    )
    assert (abs(seen.values - np.array([[100, 200, 300], [400, 500, 600]])) < 5).all()


def test_a_look_sees_the_memory_and_the_run_goes_on() -> None:
    stream = np.full((2, 1), 10**6)
    look = Look(1, stream[0], stream[0])
    seen = traces(
        PanDistribution(epsilon=1, window=2, intrusion="within"), stream, 20, LabNoise(2), look=look
    )
    assert seen.seen is not None
    assert seen.seen.shape == (20, 1)
    assert (abs(seen.seen - 10**6) < 1_000).all()
    assert (seen.seen != seen.values[:, 0]).any()  # fresh noise on top of what was seen


@pytest.mark.parametrize("by_key", [True, False])
def test_what_else_is_shown_is_kept(by_key: bool) -> None:
    cls = type("Pegasus", (Pegasus,), {"by_key": by_key})
    seen = traces(cls(epsilon=1000), np.array([[3, 0], [3, 0], [90, 0]]), 5, LabNoise(3))
    assert {name: array.shape for name, array in seen.public.items()} == dict.fromkeys(
        ["noisy", "start", "divisor"], (5, 3, 2)
    )
    assert seen.public["start"][:, :, 0].tolist() == [[1, 1, 3]] * 5
    assert seen.kind == "median"
