"""The models of keys, against the same arithmetic one key at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest

from penstock.core.arrays import FloatArray
from penstock.filters import key_models
from penstock.filters.key_models import (
    CLASSES,
    DRIFT,
    FORGET,
    IRREGULAR,
    LARGEST,
    LOG_PULLS,
    MODELS,
    PULL,
    Block,
    level_classes,
    mixed_step,
    size_classes,
    sums_by_class,
)

RNG = np.random.default_rng


def one_step(
    models: FloatArray, seen: FloatArray, elapsed: float, pooled: FloatArray
) -> FloatArray:
    """A Kalman step of all models of one key, in place, and their mixture."""
    measured, base, drifted, apart = seen
    long_run = models[0, 0]
    scores = np.zeros(MODELS)
    before = models.copy()
    for model in range(MODELS):
        pull = PULL[model, 0] ** elapsed
        level = long_run + pull * (models[0, model] - long_run)
        variance = pull**2 * models[1, model] + DRIFT[model, 0] ** 2 * drifted
        total = variance + base + IRREGULAR[model, 0] ** 2 * apart
        error = measured - level
        student = -2.5 * math.log1p(error**2 / total / 4) - 0.5 * math.log(total)
        scores[model] = FORGET * models[2, model] + student
        before[:2, model] = level, variance
        models[0, model] = level + variance / total * error
        models[1, model] = variance - variance**2 / total
    models[2] = scores
    weights = np.exp(scores + pooled - (scores + pooled).max())
    weights /= weights.sum()
    mean = weights @ models[0]
    variance = weights @ (models[1] + np.square(models[0] - mean))
    relative = [weights @ np.square(each[:, 0]) for each in (DRIFT, IRREGULAR)]
    return np.array([weights @ before[0], weights @ before[1], mean, variance, *relative])


@pytest.mark.parametrize("at_once", [8192, 4])
def test_a_step_of_all_keys_is_the_same_as_one_key_at_a_time(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_models, "MODELS_AT_ONCE", at_once)
    keys, rng = 11, RNG(1)
    models = rng.uniform(1, 50, (3, MODELS, keys)).astype(np.float32)
    models[2] *= -0.1
    scores = models[2].copy()
    seen = rng.uniform(1, 80, (4, keys)).astype(np.float32)
    elapsed, classes = rng.integers(1, 30, keys).astype(np.float32), rng.integers(0, CLASSES, keys)
    shares = -rng.uniform(0, 3, (MODELS, CLASSES)).astype(np.float32)
    one_by_one = models.astype(np.float64)
    expected = [
        one_step(one_by_one[..., key], seen[:, key], elapsed[key], shares[:, classes[key]])
        for key in range(keys)
    ]
    pull = np.exp(LOG_PULLS * elapsed)
    sample = slice(1, None, 3)
    mixed, likelihood = mixed_step(models, seen, pull, shares, classes, sample, stock=False)
    found = models[2] - np.float32(FORGET) * scores
    assert np.allclose(likelihood, found[:, sample], atol=1e-4)
    assert np.allclose(mixed.T, expected, rtol=1e-3)
    assert np.allclose(models[:2], one_by_one[:2], rtol=1e-3)
    apart, one_apart = models[2] - models[2, 0], one_by_one[2] - one_by_one[2, 0]
    assert np.allclose(apart, one_apart, atol=1e-3)


def test_a_class_is_a_power_of_two() -> None:
    levels = np.array([0.0, 0.5, 0.75, 1.0, 1.99, 2.0, 2.0**40], np.float32)
    assert level_classes(levels).tolist() == [0, 9, 9, 10, 10, 11, CLASSES - 1]
    assert np.array_equal(size_classes(levels, 2.0), size_classes(levels, np.full(7, 2.0)))


def test_sums_by_class_are_the_same_in_any_order() -> None:
    values, classes = RNG(2).normal(0, 9, (3, 500)), RNG(3).integers(0, CLASSES, 500)
    order = RNG(4).permutation(500)
    sums = sums_by_class(classes, values)
    assert np.array_equal(sums, sums_by_class(classes[order], values[:, order]))
    assert np.allclose(sums[:, 7], values[:, classes == 7].sum(axis=1), atol=1e-2)


def test_levels_stay_in_the_range_of_four_bytes() -> None:
    one = np.ones(1, np.float32)
    for factor in (1e-9, np.array([1e-9])):
        block = Block(np.zeros(1, np.int64), np.array([2.0**50]), one, one, factor, 2.0, True)
        assert block.measured.tolist() == [LARGEST]
