"""Mechanisms by name: our own, those of installed plug-ins, any by import path, and published forms of the lab."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from penstock.core.errors import ConfigurationError
from penstock.private.mechanisms.base import Mechanism
from penstock.private.mechanisms.registry import MECHANISMS, AnyMechanism, find

FLAWED = "flawed:"
"""Before the class of a published form that is not private, kept in the lab."""

GROUP = "penstock.mechanisms"
"""The entry points by which another package adds mechanisms: name = "module:Class"."""


def mechanism_class(name: str) -> AnyMechanism:
    """The mechanism of this name: registered, of a plug-in, `module:Class`, or `flawed:Class`.

    >>> mechanism_class("ba").__name__
    'BudgetAbsorption'
    >>> mechanism_class("flawed:IndependentAbsorption").__name__
    'IndependentAbsorption'
    >>> mechanism_class("bx")
    Traceback (most recent call last):
    penstock.core.errors.ConfigurationError: there is no mechanism 'bx': ...
    """
    if name.startswith(FLAWED):
        return _flawed(name.removeprefix(FLAWED))
    if name in MECHANISMS or ":" in name:
        return find(name)
    plugged = _plugged(name)
    if plugged is None:
        return find(name)  # refuses it, with the names that there are
    if not (isinstance(plugged, type) and issubclass(plugged, Mechanism)):
        raise ConfigurationError(f"the plug-in {name!r} is not a subclass of penstock.Mechanism.")
    return plugged


def _plugged(name: str) -> Any:
    """What an installed package offers under this name; None if nobody does."""
    for point in entry_points(group=GROUP, name=name):
        try:
            return point.load()
        except Exception as error:
            raise ConfigurationError(f"the plug-in {name!r} cannot be loaded: {type(error).__name__}: {error}.") from error
    return None


def _flawed(name: str) -> AnyMechanism:
    """A published form that is not private, for figures in which it is marked as such."""
    from penstock.lab.bench import published

    found = getattr(published, name, None)
    if not (isinstance(found, type) and issubclass(found, Mechanism)):
        raise ConfigurationError(f"there is no published form {name!r} in the lab.")
    return found
