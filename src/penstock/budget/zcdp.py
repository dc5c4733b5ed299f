r"""From (ε, δ) to ρ: how much Gaussian noise such a promise takes.

A ledger in ρ pays for Gaussian noise and for nothing else: the gate refuses every other draw. All
that a person's window enters is then no more telling than one number of variance 1 that changes by
:math:`\mu=\sqrt{2\rho}`, for which (ε, δ) holds if and only if

.. math:: \Phi(\mu/2-\varepsilon/\mu)-e^\varepsilon\,\Phi(-\mu/2-\varepsilon/\mu)\le\delta.

It is ρ-zCDP too, but whatever else is ρ-zCDP would need a smaller ρ. No float takes part: every
bound is a decimal, rounded to the side that keeps the promise, whatever the context of the thread.
Proof: docs/proofs/gaussian.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import cached_property, lru_cache

_SHOWN = 12
"""The digits of μ."""

_SPARE = 40
"""The digits that are left to a difference as small as δ."""

_HALF = Decimal("0.5")


@lru_cache(maxsize=256)
def rho_of(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest ρ = μ²/2, for a μ of 12 digits, such that Gaussian noise that costs ρ in all
    keeps (ε, δ).

    >>> float(rho_of(Fraction(1), Fraction(1, 10**6)))
    0.028014481912527204
    """
    curve = Curve.of(epsilon, delta)
    place = 0
    while curve.keeps(_decimal(1, place + 1)):
        place += 1
    while not curve.keeps(_decimal(1, place)):
        place -= 1
    least, most = 10 ** (_SHOWN - 1), 10**_SHOWN  # what is known to keep it, and what is not
    while most - least > 1:
        middle = (least + most) // 2
        if curve.keeps(_decimal(middle, place - _SHOWN + 1)):
            least = middle
        else:
            most = middle
    return Fraction(_decimal(least, place - _SHOWN + 1)) ** 2 / 2


def _decimal(digits: int, place: int) -> Decimal:
    return Decimal(f"{digits}e{place}")


@dataclass(frozen=True)
class Curve:
    """The δ of a Gaussian number that changes by μ, against a promise. `down` and `up` round to
    their side.
    """

    epsilon: Decimal
    delta: Decimal
    digits: int

    @classmethod
    def of(cls, epsilon: Fraction, delta: Fraction) -> Curve:
        """Of a promise that is rounded down, which asks for more."""
        digits = _SPARE + len(str(int(1 / delta)))
        down = Context(prec=digits, rounding=ROUND_FLOOR)
        return cls(
            down.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator)),
            down.divide(Decimal(delta.numerator), Decimal(delta.denominator)),
            digits,
        )

    @cached_property
    def down(self) -> Context:
        return Context(prec=2 * self.digits, rounding=ROUND_FLOOR)

    @cached_property
    def up(self) -> Context:
        return Context(prec=2 * self.digits, rounding=ROUND_CEILING)

    def keeps(self, mu: Decimal) -> bool:
        """Whether the promise is certain to be kept for this μ.

        With a = ε/μ − μ/2, b = ε/μ + μ/2 and M = (1 − Φ)/φ, which falls, δ is φ(a)·(M(a) − M(b)),
        or 1 − φ(a)·(M(−a) + M(b)).
        """
        down, up = self.down, self.up
        least = down.subtract(down.divide(self.epsilon, mu), up.multiply(mu, _HALF))
        most = up.subtract(up.divide(self.epsilon, mu), down.multiply(mu, _HALF))
        beyond, _ = self.mills(up.add(up.divide(self.epsilon, mu), up.multiply(mu, _HALF)))
        if least >= 0:
            _, before = self.mills(least)
            return up.multiply(self.density(least)[1], up.subtract(before, beyond)) <= self.delta
        far = max(least.copy_abs(), most.copy_abs())
        covered = down.multiply(self.density(far)[0], down.add(self.mills(far)[0], beyond))
        return covered >= up.subtract(Decimal(1), self.delta)

    def density(self, x: Decimal) -> tuple[Decimal, Decimal]:
        """φ(x), from below and from above."""
        low, high = self._exp(x)
        least, most = self._root
        return self.down.divide(low, self.down.add(most, most)), self.up.divide(
            high, self.up.add(least, least)
        )

    def mills(self, x: Decimal) -> tuple[Decimal, Decimal]:
        """M(x) for x ≥ 0, from below and from above: by its continued fraction if x is large, and
        else by its series.
        """
        return self._fraction(x) if self.down.multiply(x, x) > self.digits else self._series(x)

    def _fraction(self, x: Decimal) -> tuple[Decimal, Decimal]:
        """M = 1/t(1) where t(k) = x + k/t(k + 1) is above x for every k."""
        down, up = self.down, self.up
        number = 20 + int(down.divide(Decimal(2 * self.digits**2), down.multiply(x, x)))
        low, high = x, up.add(x, up.divide(Decimal(number), x))
        for k in range(number - 1, 0, -1):
            low, high = (
                down.add(x, down.divide(Decimal(k), high)),
                up.add(x, up.divide(Decimal(k), low)),
            )
        return down.divide(Decimal(1), high), up.divide(Decimal(1), low)

    def _series(self, x: Decimal) -> tuple[Decimal, Decimal]:
        """M = √(π/2)·e^(x²/2) − Σ x^(2n+1)/(1·3·…·(2n+1)), whose terms at least halve from some n
        on.
        """
        down, up = self.down, self.up
        tiny = _decimal(1, -2 * self.digits)
        low_square, high_square = down.multiply(x, x), up.multiply(x, x)
        low_term = high_term = low_sum = high_sum = x
        odd = 1
        while high_term > tiny or odd < up.add(high_square, high_square):
            odd += 2
            low_term = down.divide(down.multiply(low_term, low_square), Decimal(odd))
            high_term = up.divide(up.multiply(high_term, high_square), Decimal(odd))
            low_sum, high_sum = down.add(low_sum, low_term), up.add(high_sum, high_term)
        low_exp, high_exp = self._exp(x)
        least, most = self._root
        low = down.subtract(down.divide(least, high_exp), up.add(high_sum, high_term))
        return low, up.subtract(up.divide(most, low_exp), low_sum)

    def _exp(self, x: Decimal) -> tuple[Decimal, Decimal]:
        """e^(−x²/2): decimal's own is correctly rounded, so its neighbours lie on either side."""
        low = self.down.exp(self.down.multiply(self.down.multiply(x, x.copy_negate()), _HALF))
        high = self.up.exp(self.up.multiply(self.up.multiply(x, x.copy_negate()), _HALF))
        return max(self.down.next_minus(low), Decimal(0)), self.up.next_plus(high)

    @cached_property
    def _root(self) -> tuple[Decimal, Decimal]:
        """√(π/2), by Machin's formula in whole numbers of 10^−k."""
        one = 10 ** (2 * self.digits + 10)
        (fifth, off), (small, little) = _arctan(5, one), _arctan(239, one)
        half, error = 2 * (4 * fifth - small), 2 * (4 * off + little)
        low = self.down.sqrt(self.down.divide(Decimal(half - error), Decimal(one)))
        high = self.up.sqrt(self.up.divide(Decimal(half + error), Decimal(one)))
        return self.down.next_minus(low), self.up.next_plus(high)


def _arctan(inverse: int, one: int) -> tuple[int, int]:
    """one·arctan(1/inverse), and by how much it is off at most: 2 for every term, and one term
    more.
    """
    power, odd, total, terms = one // inverse, 1, 0, 0
    while power:
        total += power // odd if terms % 2 == 0 else -(power // odd)
        power //= inverse**2
        odd, terms = odd + 2, terms + 1
    return total, 2 * terms + 2
