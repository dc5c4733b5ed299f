"""What an error is worth, and how it is written."""

from __future__ import annotations

USEFUL, ROUGH = 0.25, 0.6
"""Errors up to these shares of the mean count are called useful, and rough."""

SIMULATED = (
    "All figures are simulated on public counts with test noise. The private source was not opened."
)


def verdict(mae: float, mean: float, zeros: float) -> str:
    """What an error is worth: "useful", "rough" or "noise".

    >>> verdict(1, 10, 10), verdict(5, 10, 10), verdict(5, 10, 5)
    ('useful', 'rough', 'noise')
    """
    if mae > 0.95 * zeros or mae > ROUGH * mean:
        return "noise"
    return "useful" if mae <= USEFUL * mean else "rough"


def number(value: float, *, digits: int = 3) -> str:
    """A number with a few digits.

    >>> number(0.1234), number(12345.6), number(0), number(999.9), number(123.4, digits=2)
    ('0.123', '12,346', '0', '1,000', '123')
    """
    return f"{value:,.0f}" if abs(value) >= 10**digits - 0.5 else f"{value:.{digits}g}"


def within(half: float | None) -> str:
    """Half of an interval; empty if there is none.

    >>> within(0.1234), within(None)
    ('± 0.12', '')
    """
    return "" if half is None else f"± {number(half, digits=2)}"


def percent(share: float) -> str:
    """An error as a share of the mean count.

    >>> percent(0.0912), percent(0.999), percent(12.3)
    ('± 9.1 %', '± 100 %', '± 1,230 %')
    """
    return f"± {number(100 * share, digits=2)} %"
