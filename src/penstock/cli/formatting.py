"""Amounts, bars and times as verbs show them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from penstock.core.calendar import Calendar

_MAX_DENOMINATOR = 10_000
"""Fractions above it are shown as decimals. --json and --csv always have both."""

_ANY_WIDTH = 10_000
"""A width in which every table fits."""


def decimal(amount: Fraction, digits: int = 4) -> str:
    """An amount with a few digits, rounded up: no cost looks lower than it was.

    >>> decimal(Fraction(1, 3)), decimal(Fraction(1, 4)), decimal(Fraction(1, 4800))
    ('0.3334', '0.25', '0.0002084')
    """
    places = digits
    while amount and amount * 10**places < 10 ** (digits - 1) and places < 30:
        places += 1
    up = -(-amount.numerator * 10**places // amount.denominator)
    whole, rest = divmod(up, 10**places)
    return f"{whole}.{rest:0{places}d}".rstrip("0").rstrip(".")


def fraction(value: Fraction) -> str:
    """The exact fraction, or a decimal if the fraction is long.

    >>> fraction(Fraction(1, 24)), fraction(Fraction(12345677, 2**30))
    ('1/24', '≤ 0.0115')
    """
    if value.denominator < _MAX_DENOMINATOR:
        return str(value)
    text = decimal(value)
    return text if Fraction(text) == value else f"≤ {text}"


def amount(value: Fraction) -> str:
    """An amount for people: exact fraction and decimal, or the decimal if the fraction is long.

    >>> amount(Fraction(1, 24)), amount(Fraction(1)), amount(Fraction(12345677, 2**30))
    ('1/24 = 0.04167', '1', '≤ 0.0115')
    """
    text = fraction(value)
    return f"{text} = {decimal(value)}" if "/" in text else text


def bar(value: Fraction, most: Fraction, width: int = 8) -> Text:
    """A bar of the spent part of a limit; red if more was spent.

    >>> bar(Fraction(1, 4), Fraction(1), 8).plain, bar(Fraction(2), Fraction(1), 4).plain
    ('██░░░░░░', '████!')
    """
    if value > most:
        return Text("█" * width + "!", "bold red")
    filled = int(value * width / most) if most else 0
    return Text("█" * filled + "░" * (width - filled), "green")


def span(calendar: Calendar | None, unit: int) -> str:
    """When a unit begins and ends, for people.

    >>> span(Calendar(every="1h", zone="Europe/Zurich", origin="2026-01-01"), 2)
    '2026-01-01T01:00+01:00 to 2026-01-01T02:00+01:00'
    """
    return "" if calendar is None else f"{calendar.label(unit)} to {_end(calendar, unit)}"


def begin(calendar: Calendar, unit: int) -> str:
    """When a unit begins, short, in the calendar's zone.

    >>> begin(Calendar(every="1h", zone="Europe/Zurich", origin="2026-01-01"), 2)
    '2026-01-01 01:00'
    """
    return calendar.label(unit)[:-6].replace("T", " ")


def _end(calendar: Calendar, unit: int) -> str:
    if unit < calendar.last:
        return calendar.label(unit + 1)
    return calendar.end(unit).isoformat(timespec="seconds")


def times(calendar: Calendar | None, unit: int) -> dict[str, str | None]:
    """When a unit begins and ends, for programs."""
    if calendar is None:
        return {"begins": None, "ends": None}
    return {"begins": calendar.start(unit).isoformat(), "ends": calendar.end(unit).isoformat()}


def exact_and_decimal(name: str, value: Fraction) -> dict[str, Any]:
    """An amount for programs.

    >>> exact_and_decimal("window", Fraction(1, 4))
    {'window': '1/4', 'window_decimal': 0.25}
    """
    return {name: str(value), f"{name}_decimal": float(value)}


def terminal_width(most: int = 100) -> int:
    """The number of columns for running text: those of the terminal, at most `most`."""
    return min(Console().width, most)


def fits(table: Table, console: Console) -> bool:
    """Whether a table fits the console without folding a cell."""
    wide = console.options.update_width(_ANY_WIDTH)
    return Measurement.get(console, wide, table).maximum <= console.width


def say(text: str, style: str = "") -> None:
    """Print one paragraph: folded between words on a terminal, else in one line."""
    console = Console()
    console.print(Text(text, style), soft_wrap=not console.is_terminal)
