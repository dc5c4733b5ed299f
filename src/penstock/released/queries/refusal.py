"""Refusing options that a question does not have, in the words of whoever asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from penstock.core.errors import ConfigurationError

Spelling: TypeAlias = Callable[[str], str]
"""How an option is written where the question comes from: a command line or a URL."""


def as_flag(name: str) -> str:
    """An option of a command line.

    >>> as_flag("roll_up"), as_flag("range_")
    ('--roll-up', '--range')
    """
    return f"--{name.strip('_').replace('_', '-')}"


def as_parameter(name: str) -> str:
    """A parameter of a URL.

    >>> as_parameter("roll_up"), as_parameter("range_")
    ('roll_up', 'range')
    """
    return name.strip("_")


def refuse(question: str | None, spelling: Spelling = as_flag, /, **options: object) -> None:
    """Refuse the first of these options that was given; None stands for no question at all."""
    for name, value in options.items():
        if value is not None and value is not False and value != ():
            use = "needs a question, such as counts." if question is None else ""
            raise ConfigurationError(
                f"{spelling(name)} {use or f'cannot be used with {question}.'}",
                parameter=name.strip("_"),
            )
