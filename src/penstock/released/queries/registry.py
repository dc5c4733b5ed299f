"""Queries of other packages, by entry point or import path."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from penstock.core.errors import ConfigurationError
from penstock.core.plugins import imported, plugged, plugins
from penstock.released.queries.query import Query

GROUP: Final = "penstock.queries"
"""The entry points by which another package adds queries: name = "module:Class"."""


def find(name: str, ours: tuple[str, ...] = ()) -> type[Query]:
    """The query of a plug-in or of an import path.

    Parameters
    ----------
    name : str
        The name of an entry point in the group `penstock.queries`, or `module:Class`.
    ours : tuple of str
        The names of Penstock's own questions, for the message. A plug-in cannot take one of them.

    Examples
    --------
    >>> find("penstock.released.queries.sliding_sum:SlidingSum").__name__
    'SlidingSum'
    >>> find("fancy", ours=("counts", "sum"))
    Traceback (most recent call last):
    penstock.core.errors.ConfigurationError: there is no question 'fancy': use counts, sum, ...
    """
    if ":" in name:
        return _query(imported(name), repr(name))
    plugin = plugged(GROUP, name)
    if plugin is None:
        others = (each.name for each in plugins(GROUP) if each.name not in ours)
        known = ", ".join(dict.fromkeys((*ours, *others)))
        raise ConfigurationError(
            f"there is no question {name!r}: use {known}, or a path such as 'module:Class'."
        )
    return _query(plugin.load(), str(plugin))


def _query(found: Any, what: str) -> type[Query]:
    if not (
        isinstance(found, type) and dataclasses.is_dataclass(found) and issubclass(found, Query)
    ):
        raise ConfigurationError(f"{what} is not a dataclass that subclasses Query.")
    return found
