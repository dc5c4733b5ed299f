"""Amplification by sampling: the noise that a budget affords on a sample. Public arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from penstock.budget.grid import Budget
from penstock.core.errors import ConfigurationError
from penstock.core.exact import Exact, exact, positive
from penstock.private.noise.fixed import exp_bounds


def amplified(epsilon: Budget, *, keep: Fraction, events: int) -> Budget:
    r"""The budget e′ for noise of scale events/e′ on a sample that is read for `epsilon`.

    Every event is kept with probability π. With :math:`g = \varepsilon/L` and :math:`f = e'/L`, L
    the events of a person, this is the largest f on the grid with :math:`\pi(e^f - 1) \le e^g - 1`.
    It is decided by integer bounds on the exponentials, so rounded down. Proof: docs/proofs/rg.md.

    >>> from penstock.budget.grid import Grid
    >>> from penstock.core.guarantee import Guarantee
    >>> tenth = Grid.of(Guarantee("0.1", 1)).floor(Fraction(1, 10))
    >>> round(float(amplified(tenth, keep=Fraction(1, 2), events=1).epsilon), 6)
    0.190903
    """
    if not 0 < keep <= 1:
        raise ConfigurationError(
            f"keep must lie above 0 and not above 1, not {keep}.", parameter="keep"
        )
    if keep == 1:
        return epsilon
    return Budget(_amplified(epsilon.quanta, epsilon.grid.quantum / events, keep), epsilon.grid)


@lru_cache(maxsize=256)
def _amplified(quanta: int, step: Fraction, keep: Fraction) -> int:
    """The largest f, in steps, with keep·(e^f − 1) ≤ e^g − 1 for g = `quanta` steps."""
    bits = 256 + 4 * math.ceil(quanta * step)
    one = 1 << bits
    _, before = exp_bounds(quanta * step, bits)

    def allowed(worth: int) -> bool:
        # With E = e^−g and F = e^−f: keep·(1 − F)·E ≤ (1 − E)·F, here with E from above and F from
        # below.
        after, _ = exp_bounds(worth * step, bits)
        return keep.numerator * (one - after) * before <= keep.denominator * (one - before) * after

    low, high = (
        quanta,
        math.ceil(quanta / keep) + 1,
    )  # ln(1 + (e^g − 1)/keep) lies between g and g/keep
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if allowed(middle) else (low, middle)
    return low


def sampling_error(count: int, keep: Exact, epsilon: Exact) -> float:
    r"""The mean squared error of a count from a noisy sample: :math:`N(1-\pi)/\pi + 2/(\pi e')^2`.

    One person has one event.

    >>> round(sampling_error(100, 1, "0.5"), 6)
    8.0
    """
    share = float(exact(keep, name="keep"))
    worth = math.log1p(math.expm1(float(positive(epsilon, name="epsilon"))) / share)
    return count * (1 - share) / share + 2 / (share * worth) ** 2


def best_keep(count: int, epsilon: Exact, *, steps: int = 100) -> Fraction:
    r"""The share of events, in multiples of 1/`steps`, whose noisy sample estimates a count best.

    It is always 1. :math:`\pi\ln(1 + a/\pi)` grows with π, because its derivative is
    :math:`\ln(1+x) - x/(1+x) > 0` with :math:`x = a/\pi`. So less sampling means less noise, and
    less sampling error too.

    >>> best_keep(3, "0.01"), best_keep(10**6, 2)
    (Fraction(1, 1), Fraction(1, 1))
    """
    shares = [Fraction(step, steps) for step in range(steps, 0, -1)]
    return min(shares, key=lambda share: sampling_error(count, share, epsilon))
