"""What an error is worth, and how it is written."""

from __future__ import annotations

from typing import Literal, TypeAlias

USEFUL, ROUGH = 0.25, 0.6
"""Errors up to these shares of the mean count are called useful, and rough."""

SIMULATED = (
    "All figures are simulated on public counts with test noise. The private source was not opened."
)


Judgement: TypeAlias = Literal["useful", "rough", "noise"]


def about(value: float) -> str:
    """A number with two significant digits.

    >>> about(399.4), about(0.00082), about(12345), about(2)
    ('400', '0.00082', '12,000', '2')
    """
    return f"{float(f'{value:.2g}'):,.12g}"


def published(mean: float, deviation: float) -> str:
    """How a count is published, with one standard deviation.

    >>> published(2, 35.4), published(48.2, 5.01)
    ('2 ± 35', '48 ± 5')
    """
    return f"{about(mean)} ± {about(deviation)}"


def verdict(mae: float, mean: float, zeros: float) -> Judgement:
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
