from fractions import Fraction

import flint
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.private.noise.fixed import exp_bounds


def exponential(x: Fraction, bits: int):
    """e^(−x)·2^bits as a ball of python-flint."""
    flint.ctx.prec = bits + 64
    return flint.arb(flint.fmpq(-x.numerator, x.denominator)).exp() * flint.arb(2) ** bits


@pytest.mark.slow
@pytest.mark.parametrize("bits", [8, 64, 160, 1000])
@given(x=st.fractions(min_value=0, max_value=2000, max_denominator=10**15))
def test_the_exponential_lies_within_its_bounds(bits, x):
    low, high = exp_bounds(x, bits)
    assert 0 <= high - low <= 2
    true = exponential(x, bits)
    assert not (true < low)
    assert not (true > high)


def test_an_exponential_below_the_precision_is_between_nothing_and_one_unit():
    assert exp_bounds(Fraction(10**9), 64) == (0, 1)
