"""Every histogram method by name: ours, those of other packages, and any other by import path."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, Final

from penstock.core.errors import ConfigurationError
from penstock.core.plugins import Plugin, imported, not_of_the_lab, package_of, plugged, plugins
from penstock.private.histograms.base import Histogram
from penstock.private.histograms.greedy import Greedy
from penstock.private.histograms.kd_tree import KdTree
from penstock.private.histograms.plain import Plain
from penstock.private.histograms.quad_tree import QuadTree

GROUP: Final = "penstock.histograms"
"""The entry points by which another package adds histogram methods: name = "module:Class"."""

HISTOGRAMS: dict[str, type[Histogram]] = {
    "plain": Plain,
    "greedy": Greedy,
    "quad_tree": QuadTree,
    "kd_tree": KdTree,
}


def find(name: str) -> type[Histogram]:
    """The histogram method of this name or import path (`module:Class`).

    >>> find("greedy").__name__
    'Greedy'
    >>> find("penstock.private.histograms.plain:Plain") is find("plain")
    True
    >>> find("fancy")
    Traceback (most recent call last):
    penstock.core.errors.ConfigurationError: there is no histogram 'fancy': use plain, ...
    """
    if name in HISTOGRAMS:
        return HISTOGRAMS[name]
    if ":" in name:
        return _histogram(imported(name), repr(name))
    plugin = plugged(GROUP, name)
    if plugin is None:
        raise ConfigurationError(
            f"there is no histogram {name!r}: use {', '.join(names())}, "
            "or a path such as 'module:Class'.",
            parameter="histogram",
        )
    return _histogram(plugin.load(), str(plugin))


def names() -> tuple[str, ...]:
    """All names, ours first, then those of other packages."""
    return (
        *HISTOGRAMS,
        *dict.fromkeys(plugin.name for plugin in plugins(GROUP) if plugin.name not in HISTOGRAMS),
    )


def table() -> list[dict[str, Any]]:
    """All that is known of every method, as plain data.

    A method of another package that cannot be used has its reason under `problem`.
    """
    return [describe(cls) for cls in HISTOGRAMS.values()] + [
        _row(plugin) for plugin in plugins(GROUP)
    ]


def _row(plugin: Plugin) -> dict[str, Any]:
    known: dict[str, Any] = dict.fromkeys(("class", "summary", "parameters"))
    problem = None
    try:
        if plugin.name in HISTOGRAMS:
            raise ConfigurationError(
                f"{plugin} is not used: {plugin.name!r} is a method of Penstock's own."
            )
        known = describe(find(plugin.name))
    except ConfigurationError as error:
        problem = str(error)
    return {**known, "name": plugin.name, "package": plugin.package, "problem": problem}


def _histogram(found: Any, what: str) -> type[Histogram]:
    if not (
        isinstance(found, type) and dataclasses.is_dataclass(found) and issubclass(found, Histogram)
    ):
        raise ConfigurationError(
            f"{what} is not a dataclass with a method release(counts, epsilon, gate)."
        )
    not_of_the_lab(found, what)
    return found


def describe(cls: type[Histogram]) -> dict[str, Any]:
    """All that the registry knows of a histogram method, as plain data."""
    ours = {method: name for name, method in HISTOGRAMS.items()}
    return {
        "name": ours.get(cls, f"{cls.__module__}:{cls.__qualname__}"),
        "class": cls.__name__,
        "summary": (inspect.getdoc(cls) or "").partition("\n")[0],
        "parameters": [
            {
                "name": field.name,
                "type": str(field.type),
                "default": None if field.default is dataclasses.MISSING else str(field.default),
                "required": field.default is dataclasses.MISSING,
            }
            for field in dataclasses.fields(cls)  # type: ignore[arg-type]
        ],
        "package": "penstock" if cls in ours else package_of(GROUP, cls),
        "problem": None,
    }
