"""A statistical check that the noise has the scale that a release claims."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.released import Released
from penstock.core.weights import UNIT
from penstock.lab.checks.base import AnyMechanism, failure
from penstock.private.run import Run
from penstock.testing import TestNoise

_ALARM = 6.0
"""A z-score above this is a failure: false alarm below 2e-9 per test for a new seed."""

_SEED, _UNITS, _MIN_DRAWS = 41, 8, 5_000


def check_noise_has_the_scale_it_claims(cls: AnyMechanism, *, quick: bool = False) -> None:
    """The noise has the scale that the release claims.

    The noise of all fresh keys is measured: of the sum of the last m units where the divisor is m,
    of the counts before smoothing or the sums of blocks where they are shown, of the weighted sum
    where a release has weights. The mean of |noise| must fit the claimed kind, scale and layers of
    noise, and must not fit 0.7 and 1.3 times that scale. The noise must have mean 0, and
    neighbouring keys must not be correlated. All tests are z-tests at 6 standard deviations, each
    over 5,000 draws or more: for another seed, the probability of a false alarm is below 1e-6.
    """
    keys = 5_000 if quick else 20_000
    mechanism = cls(epsilon="1", window=2)
    seen = _observe(mechanism.run(keys, noise=TestNoise(_SEED)), keys)
    where = f"{mechanism} over {keys} keys with TestNoise({_SEED})"
    if sum(map(len, seen.noise)) < _MIN_DRAWS:
        raise failure(
            cls,
            f"{where}: it published too little to measure the noise, "
            "although most counts changed by much in 6 of 8 units.",
        )
    z = seen.z_of_mean()
    if not abs(z) < _ALARM:
        raise failure(cls, f"{where}: the noise does not have mean 0 (z = {z:.1f}).")
    for factor in (1.0, 0.7, 1.3):
        z = seen.z_of_size(factor)
        if factor == 1 and not abs(z) < _ALARM:
            size = "large" if z > 0 else "small"
            raise failure(
                cls, f"{where}: the noise is too {size} for the claimed scale (z = {z:.1f})."
            )
        if factor != 1 and not abs(z) > _ALARM:
            raise failure(
                cls,
                f"{where}: {factor} times the claimed scale fits as well (z = {z:.1f}): "
                "there are too few draws to tell.",
            )
    z = seen.z_of_correlation()
    if not abs(z) < _ALARM:
        raise failure(cls, f"{where}: the noise of neighbouring keys is correlated (z = {z:.1f}).")


@dataclass
class _ObservedNoise:
    """The noise of fresh keys, one array per unit, with the scales and layers it claims."""

    noise: list[FloatArray] = field(default_factory=list)
    scales: list[FloatArray] = field(default_factory=list)
    layers: list[IntArray] = field(default_factory=list)
    gaussian: bool = False

    def add(self, noise: FloatArray, scale: FloatArray, layers: IntArray) -> None:
        fresh = scale > 0
        if fresh.any():
            self.noise.append(noise[fresh])
            self.scales.append(scale[fresh])
            self.layers.append(layers[fresh])

    def z_of_mean(self) -> float:
        """How many standard deviations the mean is off."""
        variance = sum(float(each.sum()) for each in self._variances())
        return sum(float(each.sum()) for each in self.noise) / math.sqrt(variance)

    def z_of_size(self, factor: float) -> float:
        """How many standard deviations the mean of |noise| is off, for a multiple of the scale."""
        x, scale = np.concatenate(self.noise), factor * np.concatenate(self.scales)
        if self.gaussian:
            return _z_of_gaussian(x, scale)
        return _z_of_laplace(x, scale, np.concatenate(self.layers))

    def z_of_correlation(self) -> float:
        """How many standard deviations the correlation of neighbouring keys is off."""
        scaled = [x / np.sqrt(v) for x, v in zip(self.noise, self._variances(), strict=True)]
        products = sum(float(each[1:] @ each[:-1]) for each in scaled)
        return products / math.sqrt(sum(len(each) - 1 for each in scaled))

    def _variances(self) -> list[FloatArray]:
        if self.gaussian:
            return [np.square(scale) for scale in self.scales]
        return [
            layers * 0.5 / np.sinh(0.5 / scale) ** 2
            for scale, layers in zip(self.scales, self.layers, strict=True)
        ]


def _observe(run: Run, keys: int) -> _ObservedNoise:
    """Step through a few units of great change and collect the noise of their releases."""
    rng = np.random.default_rng(8)
    seen = _ObservedNoise()
    truths: list[IntArray] = []
    last = np.zeros(keys, np.int64)
    for unit in range(1, _UNITS + 1):
        counts = rng.integers(0, 10**7, keys)
        if unit % 4 == 1:  # no change here saves budget, which forces repetitions later
            counts = last
        truths.append(run.released.totals(counts))
        out = run.step(counts)
        if run.released.size == keys:
            last = np.maximum(out.value // out.divisor, 0)
        noise = _noise_in(out, truths)
        if out.weights != UNIT and unit < _UNITS:
            continue  # the same draws are in several units: measure them once
        seen.add(*noise)
        seen.gaussian = out.guarantee.delta > 0
    return seen


def _noise_in(out: Released, truths: list[IntArray]) -> tuple[FloatArray, FloatArray, IntArray]:
    """The noise in each number, the scale it claims, and the number of draws in it.

    The scale is 0 where a release claims nothing. Where a release shows counts before smoothing,
    these are used; elsewhere its numbers, as sums of the units that they cover.
    """
    size = len(out.value)
    parts = np.broadcast_to(out.scale.parts, size)
    scale = np.where(parts > 0, np.broadcast_to(out.scale.floats(), size), 0.0)
    scale = np.where(np.broadcast_to(out.repeated, size), 0.0, scale)
    if "noisy" in out.public:
        return (out.public["noisy"] - truths[-1]).astype(np.float64), scale, np.ones(size, np.int64)
    if out.kind == "filtered":
        span = out.public["units"]
        noise = out.public["sums"] - _last_sums(truths, span)
        return noise.astype(np.float64), np.where(span > 0, scale, 0.0), np.ones(size, np.int64)
    layers = np.broadcast_to(out.layers, size)
    history = np.array(truths[::-1])
    if out.weights != UNIT:
        truth = out.weights.sequence(len(history)) @ history
        return out.estimate - truth, scale / np.float64(out.divisor), layers
    span = np.broadcast_to(out.divisor, size)
    scale = np.where(span <= len(history), scale, 0.0)
    return (out.value - _last_sums(truths, span)).astype(np.float64), scale, layers


def _last_sums(truths: list[IntArray], span: IntArray) -> IntArray:
    """Per key, the sum of its last `span` counts, or of all if there are fewer."""
    history = np.array(truths[::-1])
    sums = np.concatenate([np.zeros((1, len(span)), np.int64), np.cumsum(history, axis=0)])
    return np.asarray(sums[np.minimum(span, len(history)), np.arange(len(span))])


def _z_of_gaussian(x: FloatArray, scale: FloatArray) -> float:
    """How many standard deviations the sum of |x| is off, for Gaussian x_i of deviation scale_i."""
    excess = float(np.abs(x).sum()) - math.sqrt(2 / math.pi) * float(scale.sum())
    return excess / math.sqrt((1 - 2 / math.pi) * float(np.square(scale).sum()))


def _z_of_laplace(x: FloatArray, scale: FloatArray, layers: IntArray) -> float:
    """How many standard deviations the sum of |x| is off, for sums of discrete Laplace draws."""
    excess = spread = 0.0
    kinds, which = np.unique(np.stack([scale, layers]), axis=1, return_inverse=True)
    for kind, (each, number) in enumerate(kinds.T):
        chosen = np.abs(x[which.ravel() == kind])
        mean, variance = moments_of_size(float(each), int(number))
        excess += float(chosen.sum()) - mean * len(chosen)
        spread += variance * len(chosen)
    return excess / math.sqrt(spread)


def moments_of_size(scale: float, layers: int) -> tuple[float, float]:
    """Mean and variance of |X_1 + … + X_layers|, by adding up the probabilities."""
    reach = math.ceil(40 * scale) + 1
    one = np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)
    one /= one.sum()
    size = 2 * reach * layers + 1
    law = np.fft.irfft(np.fft.rfft(one, size) ** layers, size) if layers > 1 else one
    k = np.abs(np.arange(size) - reach * layers)
    mean = float(k @ law)
    return mean, float(k**2 @ law) - mean**2
