"""Exact numbers: an int, a `Fraction` or a decimal string; never a float."""

from __future__ import annotations

import numbers
import re
from decimal import Context, Decimal, InvalidOperation
from fractions import Fraction
from typing import TypeAlias

from penstock.core.errors import ConfigurationError, InexactError

Exact: TypeAlias = int | Fraction | str
"""What a user may write for ε, a sensitivity or a probability."""


def exact(value: Exact, *, name: str = "value") -> Fraction:
    """The exact rational that `value` stands for.

    >>> exact("0.1"), exact("1/3"), exact(2)
    (Fraction(1, 10), Fraction(1, 3), Fraction(2, 1))
    >>> exact(0.1, name="epsilon")
    Traceback (most recent call last):
    penstock.core.errors.InexactError: epsilon=0.1 is a float, and a float is not the number it
    shows. \
Write epsilon="0.1" or Fraction(1, 10).
    """
    if isinstance(value, bool):
        raise InexactError(f"{name}={value} is a bool, not a number.", parameter=name)
    if isinstance(value, (int, Fraction)):
        return Fraction(value)
    if isinstance(value, numbers.Integral):  # NumPy's integers
        return Fraction(int(value))
    if isinstance(value, Decimal):
        value = str(value)
    if isinstance(value, str):
        try:
            if "/" in value:
                return Fraction(value)
            decimal = Decimal(value)
            if abs(decimal.adjusted()) > 1000:
                raise OverflowError
            return Fraction(decimal)
        except (ValueError, InvalidOperation, OverflowError, ZeroDivisionError):
            raise ConfigurationError(
                f"{name}={value!r} is not a number: write an int, a Fraction, "
                "a decimal such as '0.1' or a ratio such as '1/3'.",
                parameter=name,
            ) from None
    if isinstance(value, numbers.Real):
        shown = repr(float(value))
        hint = ""
        try:
            ratio = Fraction(Decimal(shown))
            hint = f' Write {name}="{shown}" or Fraction({ratio.numerator}, {ratio.denominator}).'
        except (InvalidOperation, ValueError, OverflowError):
            pass
        raise InexactError(
            f"{name}={shown} is a float, and a float is not the number it shows.{hint}",
            parameter=name,
        )
    raise InexactError(
        f"{name} must be an int, a Fraction or a decimal string, not {type(value).__name__}.",
        parameter=name,
    )


def positive(value: Exact, *, name: str) -> Fraction:
    """`exact`, and above zero.

    >>> positive("0", name="epsilon")
    Traceback (most recent call last):
    penstock.core.errors.ConfigurationError: epsilon must be above 0, not 0.
    """
    number = exact(value, name=name)
    if number <= 0:
        raise ConfigurationError(f"{name} must be above 0, not {number}.", parameter=name)
    return number


def whole(value: object, *, name: str, least: int) -> int:
    """An int of at least `least`; a float or a bool is refused.

    >>> whole(0, name="window", least=1)
    Traceback (most recent call last):
    penstock.core.errors.ConfigurationError: window must be a whole number of at least 1, not 0.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or int(value) < least:
        hint = (
            " Nothing says how long a unit is here: write a number of units."
            if isinstance(value, str) and re.fullmatch("[0-9]+ ?(s|min|h|d|w|mo)", value)
            else ""
        )
        raise ConfigurationError(
            f"{name} must be a whole number of at least {least}, not {value!r}.{hint}",
            parameter=name,
        )
    return int(value)


def log_above(number: int) -> Fraction:
    """A ratio that is not below the natural logarithm of a number from 2 on, and above it by less
    than 1e-45.

    >>> float(log_above(2))
    0.6931471805599453
    """
    digits = Context(prec=50)
    return Fraction(
        digits.next_plus(digits.ln(Decimal(number)))
    )  # decimal's logarithm is correctly rounded
