"""Mechanisms and competitors by name: registered, of plug-ins, by import path, or of the bench."""

from __future__ import annotations

from penstock.core.errors import ConfigurationError
from penstock.private.mechanisms.registry import AnyMechanism, find
from penstock_bench.competitors.competitor import Competitor
from penstock_bench.competitors.registry import COMPETITORS
from penstock_bench.published import FORMS

FLAWED = "flawed:"
"""The prefix of published forms that are not private."""

LAB = "lab:"
"""The prefix of competitors, which only the bench has."""

NO_MECHANISM = ("zeros", "mean")
"""The names of the two trivial lines. A plug-in cannot take them."""


def mechanism_class(name: str) -> AnyMechanism:
    """Find a mechanism: a registered name, the name of a plug-in, `module:Class`, or `flawed:name`.

    >>> mechanism_class("ba").__name__
    'BudgetAbsorption'
    >>> mechanism_class("flawed:IndependentAbsorption").__name__
    'PublishedIndependentAbsorption'
    >>> mechanism_class("bx")
    Traceback (most recent call last):
    penstock.core.errors.ConfigurationError: there is no mechanism 'bx': ...
    """
    if name in NO_MECHANISM:
        raise ConfigurationError(
            f"{name!r} is a trivial line of the bench, not a mechanism: write a plug-in's "
            "'module:Class'."
        )
    if name.startswith(LAB):
        raise ConfigurationError(
            f"{name!r} is a competitor of the bench's suites, not a mechanism."
        )
    return _flawed(name.removeprefix(FLAWED)) if name.startswith(FLAWED) else find(name)


def competitor_class(name: str) -> type[Competitor]:
    """Find a competitor by name, with or without `lab:` before it.

    >>> competitor_class("lab:apb").__name__
    'AdaptiveBudget'
    >>> competitor_class("lab:apx")
    Traceback (most recent call last):
    penstock.core.errors.ConfigurationError: there is no competitor 'apx' in the bench: ...
    """
    bare = name.removeprefix(LAB)
    if bare not in COMPETITORS:
        raise ConfigurationError(
            f"there is no competitor {bare!r} in the bench: use {', '.join(COMPETITORS)}."
        )
    return COMPETITORS[bare]


def _flawed(name: str) -> AnyMechanism:
    """A published form that is not private, for figures that mark it as such."""
    if name not in FORMS:
        raise ConfigurationError(
            f"there is no published form {name!r} in the bench: use {', '.join(FORMS)}."
        )
    return FORMS[name]
