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


def number(value: float) -> str:
    """A number with three digits.

    >>> number(0.1234), number(12345.6), number(0)
    ('0.123', '12,346', '0')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def percent(share: float) -> str:
    """An error as a share of the mean count.

    >>> percent(0.0912), percent(12.3)
    ('± 9.1 %', '± 1,230 %')
    """
    return f"± {number(100 * share) if share >= 1 else f'{100 * share:.2g}'} %"
