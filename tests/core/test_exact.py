"""Exact numbers: what is taken, what is refused, and how it says so."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import ConfigurationError, InexactError
from penstock.core.exact import exact, log_above, positive, whole
from penstock.private.noise.fixed import exp_bounds


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (2, Fraction(2)),
        (-3, Fraction(-3)),
        (10**30, Fraction(10**30)),
        (Fraction(1, 3), Fraction(1, 3)),
        ("0.1", Fraction(1, 10)),
        ("1/3", Fraction(1, 3)),
        ("-1/3", Fraction(-1, 3)),
        ("1e-3", Fraction(1, 1000)),
        ("1E3", Fraction(1000)),
        (" 0.5 ", Fraction(1, 2)),
        (Decimal("0.1"), Fraction(1, 10)),
        (Decimal("1E-3"), Fraction(1, 1000)),
        (np.int8(5), Fraction(5)),
        (np.uint64(2**64 - 1), Fraction(2**64 - 1)),
    ],
)
def test_an_exact_number_is_taken_as_written(written, meant):
    found = exact(written)
    assert found == meant
    assert type(found) is Fraction
    assert type(found.numerator) is int


@pytest.mark.parametrize(
    "wrong",
    [
        0.1,
        1.0,
        float("nan"),
        float("inf"),
        np.float16(0.5),
        np.float32(0.1),
        np.float64(0.1),
        np.longdouble(1),
    ],
)
def test_a_float_is_refused_even_if_it_is_whole(wrong):
    with pytest.raises(
        InexactError, match=r"epsilon=.* is a float, and a float is not the number it shows"
    ):
        exact(wrong, name="epsilon")


def test_the_refusal_of_a_float_says_what_to_write():
    with pytest.raises(InexactError, match=r'Write epsilon="0\.25" or Fraction\(1, 4\)\.$'):
        exact(0.25, name="epsilon")


@pytest.mark.parametrize("wrong", [True, False, np.True_, None, 1j, b"1", [1], object()])
def test_what_is_no_number_is_refused(wrong):
    with pytest.raises(InexactError) as caught:
        exact(wrong, name="epsilon")
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "wrong",
    ["", " ", "nan", "inf", "-inf", "1/0", "0/0", "1/", "/3", "1/0.5", "one", "1,5", "0x10", "1 2"],
)
def test_a_string_that_is_no_number_is_refused(wrong):
    with pytest.raises(ConfigurationError, match="is not a number: write an int"):
        exact(wrong, name="epsilon")


@pytest.mark.parametrize(
    "wrong", [Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), Decimal("-Infinity")]
)
def test_a_decimal_that_is_no_number_is_refused(wrong):
    with pytest.raises(ConfigurationError):
        exact(wrong)


@given(st.fractions())
@settings(derandomize=True, deadline=None)
def test_a_ratio_comes_back_from_its_text(ratio):
    assert exact(str(ratio)) == ratio


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6))
@settings(derandomize=True, deadline=None)
def test_a_decimal_comes_back_from_its_text(decimal):
    assert exact(str(decimal)) == exact(decimal) == Fraction(decimal)


@pytest.mark.parametrize("wrong", [0, "0", "0/5", -1, "-0.1", Fraction(-1, 10**30)])
def test_positive_means_above_zero(wrong):
    with pytest.raises(ConfigurationError, match="scale must be above 0"):
        positive(wrong, name="scale")


def test_positive_takes_the_smallest_number():
    assert positive("1e-30", name="scale") == Fraction(1, 10**30)


@pytest.mark.parametrize(
    "wrong", [0, -1, True, False, np.True_, 1.0, np.float64(2), "3", None, Fraction(3), Decimal(3)]
)
def test_whole_refuses_everything_but_an_int_that_is_large_enough(wrong):
    with pytest.raises(ConfigurationError, match="window must be a whole number of at least 1"):
        whole(wrong, name="window", least=1)


@pytest.mark.parametrize("right", [1, 5, 2**70, np.int8(1), np.uint64(2**63)])
def test_whole_gives_a_plain_int(right):
    found = whole(right, name="window", least=1)
    assert found == right
    assert type(found) is int


@pytest.mark.parametrize("number", [2, 3, 16, 10**6, 2**80])
def test_a_logarithm_from_above_is_not_below_and_hardly_above(number):
    low, high = exp_bounds(log_above(number), 400)
    assert high * number <= 2**400  # e^-x is at most 1/number
    assert low * number >= 2**400 - 2**400 // 10**43
