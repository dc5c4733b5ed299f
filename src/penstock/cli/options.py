"""Types of options that several verbs use, and a way to load classes of the user."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, TypeAlias, TypeVar

from cyclopts import Parameter, Token

from penstock.core.calendar import Calendar
from penstock.core.durations import DURATION, units_of
from penstock.core.errors import ConfigurationError, PenstockError

T = TypeVar("T")


def _whole(_: type, tokens: Sequence[Token]) -> int:
    """Read a whole number. 2.5 is refused, not rounded."""
    try:
        return int(tokens[0].value.replace("_", "").replace(",", ""))
    except ValueError:
        raise ValueError(f"{tokens[0].value!r} is not a whole number.") from None


def _hours(_: type, tokens: Sequence[Token]) -> int:
    """Read a number of hours, or a duration such as 1d."""
    text = tokens[0].value.replace("_", "").replace(",", "")
    hours = Calendar(every="1h", origin="2026-01-01")
    value = int(text) if text.removeprefix("-").isdecimal() else text
    return units_of(value, hours, name=tokens[0].keyword or "hours")


def _lone_units(_: type, tokens: Sequence[Token]) -> int:
    """Read a number of units where units have no length."""
    text = tokens[0].value
    if DURATION.fullmatch(text):
        raise ValueError(f"units have no length here: write a number of units, not {text!r}.")
    return _whole(int, tokens)


Hours: TypeAlias = Annotated[int, Parameter(converter=_hours)]
MaybeUnits: TypeAlias = Annotated[int | None, Parameter(converter=_lone_units)]
Int: TypeAlias = Annotated[int, Parameter(converter=_whole)]
MaybeInt: TypeAlias = Annotated[int | None, Parameter(converter=_whole)]
Flag: TypeAlias = Annotated[bool, Parameter(negative="")]
Season: TypeAlias = Annotated[tuple[str, ...], Parameter(name="--season", negative="")]
Json: TypeAlias = Annotated[bool, Parameter(name="--json", negative="")]


def with_own_modules(name: str, make: Callable[[], T]) -> T:
    """Call `make`, with modules of the current directory importable if the name has a colon.

    An error in a module of the user becomes a `ConfigurationError` of one line.
    """
    here = str(Path.cwd())
    if ":" in name and here not in sys.path:
        sys.path.insert(0, here)
    try:
        return make()
    except PenstockError:
        raise
    except Exception as error:
        raise ConfigurationError(
            f"{name!r} cannot be used: {type(error).__name__}: {error}."
        ) from error
