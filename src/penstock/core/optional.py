"""Optional packages: imported where they are needed, or an error that says how to install them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from penstock.core.errors import MissingExtraError

_DISTRIBUTIONS = {"paho": "paho-mqtt"}
"""Packages whose distribution is not named like the module, with "-" for "_"."""


def require(module: str, extra: str, purpose: str) -> Any:
    """Import a module of an optional package.

    Parameters
    ----------
    module : str
        The module's full name, such as "paho.mqtt.client".
    extra : str
        The extra of Penstock that installs the package.
    purpose : str
        The activity that needs the package. It begins the error message.

    Raises
    ------
    MissingExtraError
        If the package is not installed.

    >>> require("json", "kafka", "reading events").loads("[1]")
    [1]
    >>> require("no_such.part", "kafka", "reading events")
    Traceback (most recent call last):
    penstock.core.errors.MissingExtraError: reading events needs no-such, which is not installed...
    """
    package = module.partition(".")[0]
    try:
        import_module(package)
        return import_module(module)
    except ImportError:
        name = _DISTRIBUTIONS.get(package, package.replace("_", "-"))
        raise MissingExtraError(name, extra, purpose) from None
