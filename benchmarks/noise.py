"""The noise, compared with NumPy's float Laplace, which is not private, and OpenDP's exact one.

CPU time, all in one run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from statistics import median

import numpy as np

from penstock.private.noise import SystemNoise
from penstock.private.noise.laplace import parts
from penstock.private.noise.tables import Table

from report import Figure, cpu, main, ratios

SCALES = {1: 0.5, 10: 0.5, 1000: 1.0, 100_000: 1.0}
"""The scales, each with its limit as a multiple of NumPy's time."""


def opendp_laplace(scale: int) -> Callable[[list[int]], object] | None:
    """OpenDP's discrete Laplace on a list; None, with a message, if it is not installed."""
    try:
        import opendp.prelude as dp
    except ImportError:
        print(
            "OpenDP is not installed and left out: pip install 'penstock[test]'",
            file=sys.stderr,
        )
        return None
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    measurement: Callable[[list[int]], object] = space >> dp.m.then_laplace(scale=float(scale))
    return measurement


def measure() -> Iterator[Figure]:
    """All figures of the noise."""
    noise, numpy_noise = SystemNoise(), np.random.default_rng()
    for size in (100_000, 1_000_000):
        for scale, limit in SCALES.items():
            yield from large_draws(noise, numpy_noise, scale, size, limit)
    for scale in (*SCALES, 128, 129, 1 << 50):
        yield from set_up(scale)
    for size in (1, 10, 100):
        for scale in (10, 1000):
            yield small_draws(noise, scale, size)
    counts = np.arange(100_000) % 4096
    noise.thin(counts, Fraction(1, 3), unit=0, label="benchmark")
    thinning, _ = ratios(
        lambda: noise.thin(counts, Fraction(1, 3), unit=0, label="benchmark"),
        lambda: numpy_noise.binomial(counts, 1 / 3),
        rounds=5,
    )
    yield Figure("thinning of counts below 4096 by a third, n 100000", thinning, "x numpy")


def large_draws(
    noise: SystemNoise, numpy_noise: np.random.Generator, scale: int, size: int, limit: float
) -> Iterator[Figure]:
    """Large draws beside NumPy's; the smaller size has a bar, and OpenDP beside it."""
    judged = size == 100_000

    def ours() -> object:
        return noise.laplace(Fraction(scale), size, unit=0, label="benchmark")

    ours()
    rounds = 61 if judged else 11
    ratio, _ = ratios(ours, lambda: numpy_noise.laplace(0, scale, size), rounds=rounds)
    yield Figure(f"laplace, scale {scale}, n {size}", ratio, "x numpy", limit if judged else None)
    peer = opendp_laplace(scale) if judged else None
    if peer is not None:
        zeros = [0] * size
        theirs = median(cpu(lambda: peer(zeros)) for _ in range(3))
        yield Figure(
            f"OpenDP ÷ ours, scale {scale}, n {size}",
            theirs / median(cpu(ours) for _ in range(21)),
            "x",
            300,
            at_least=True,
        )


def set_up(scale: int) -> Iterator[Figure]:
    """The tables of a scale that was not used before."""
    cold = median(cpu(lambda: [Table(law).guide for law, _ in parts(scale, 1)]) for _ in range(9))
    yield Figure(f"cold set-up of scale {scale}", 1000 * cold, "ms", 30)
    small = median(cpu(lambda: [Table(law) for law, _ in parts(scale, 1)]) for _ in range(9))
    yield Figure(f"cold set-up of scale {scale}, small draws only", 1000 * small, "ms")


def small_draws(noise: SystemNoise, scale: int, size: int) -> Figure:
    """The mean time of one small draw."""

    def thousand() -> None:
        for _ in range(1000):
            noise.laplace(Fraction(scale), size, unit=0, label="benchmark")

    thousand()
    name = f"one draw of {size}, scale {scale}"
    return Figure(name, 1000 * median(cpu(thousand) for _ in range(5)), "µs")


if __name__ == "__main__":
    main(__doc__ or "", measure)
