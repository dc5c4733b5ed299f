"""A sampled watch with the noise in the wrong place is convicted, and the right one is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.lab.audit.attack import codings
from penstock.lab.audit.engine import Verdict, judge, tasks
from penstock.lab.audit.flawed.rg import RG_FLAWS, NoiseAfterDividing
from penstock.lab.audit.flawed.variant import Variant
from penstock.lab.audit.model import Pair
from penstock.lab.audit.noise import LabNoise
from penstock.lab.audit.pairs import standard
from penstock.lab.audit.sample import traces
from penstock.lab.audit.subjects import Subject
from penstock.private.mechanisms.base import Mechanism
from penstock.private.mechanisms.bs import BackwardSmoothing
from penstock.private.mechanisms.rg import RetroactiveGrouping

(FLAW,) = RG_FLAWS


def audited(
    mechanism: Mechanism, pairs: tuple[Pair, ...], *, runs: int, confidence: float
) -> Verdict:
    """As `engine.audit`, for a mechanism that no text names."""
    epsilon = (
        FLAW.claimed if isinstance(mechanism, NoiseAfterDividing) else mechanism.guarantee.epsilon
    )
    subject = Subject("", mechanism.name, mechanism, epsilon, mechanism.window, pairs, runs)
    todo = list(tasks(subject, 5))
    done = {}
    for task in todo:
        pair = pairs[task.pair]
        side = pair.right if task.side else pair.left
        done[task.key] = codings(
            traces(mechanism, side, task.runs, LabNoise(5, mechanism.name, task.key)), pair
        )
    return judge(subject, todo, done, confidence=confidence, seed=5)


@pytest.mark.parametrize("variant", RG_FLAWS, ids=lambda variant: variant.name)
def test_its_streams_are_neighbouring(variant: Variant) -> None:
    for pair in variant.pairs:
        assert pair.is_neighbouring(window=variant.window, contribution=1)


def test_noise_after_dividing_is_convicted() -> None:
    # If the variant kept its promise, the chance to convict it would be at most 1e-6.
    verdict = audited(FLAW.make(), FLAW.pairs, runs=FLAW.runs, confidence=1 - 1e-6)
    assert verdict.convicted
    assert verdict.lower_bound > 2.5


def test_the_same_watch_with_the_noise_before_dividing_is_acquitted() -> None:
    # False alarm: at most 1e-6, whatever the seed.
    verdict = audited(
        RetroactiveGrouping(epsilon=2, watch="1/2", caution=2, keep="1/10"),
        FLAW.pairs,
        runs=100_000,
        confidence=1 - 1e-6,
    )
    assert not verdict.convicted


@pytest.mark.parametrize(
    "mechanism",
    [
        RetroactiveGrouping(epsilon=2, window=2),
        RetroactiveGrouping(epsilon=2, window=2, watch="1/2", caution=0),
        RetroactiveGrouping(epsilon=2, window=2, watch="1/2", caution=0, keep="1/3"),
        BackwardSmoothing(epsilon=2, window=2, over=2),
    ],
    ids=["rg", "rg, half to the watch", "rg, sampled", "bs"],
)
def test_rg_and_bs_are_acquitted_on_the_standard_pairs(mechanism: Mechanism) -> None:
    # False alarm: at most 1e-6 for each of the four, whatever the seed.
    pairs = tuple(standard(window=2, keys=2, epsilon=2.0))
    assert not audited(mechanism, pairs, runs=20_000, confidence=1 - 1e-6).convicted


def test_half_of_the_noise_would_be_convicted() -> None:
    """The audit has the power to see a watch and a publication of twice what they claim."""
    honest = RetroactiveGrouping(epsilon=2, watch="1/2", caution=0)
    claims_half = audited(honest, (FLAW.pairs[0],), runs=100_000, confidence=1 - 1e-6)
    assert replace(claims_half, claimed=claims_half.claimed / 2).convicted
