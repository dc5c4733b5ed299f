"""Every histogram method by name, and any other by import path."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from penstock.core.errors import ConfigurationError
from penstock.private.histograms.base import Histogram
from penstock.private.histograms.greedy import Greedy
from penstock.private.histograms.kd_tree import KdTree
from penstock.private.histograms.plain import Plain
from penstock.private.histograms.quad_tree import QuadTree
from penstock.private.imported import imported

HISTOGRAMS: dict[str, type[Histogram]] = {
    "plain": Plain,
    "greedy": Greedy,
    "quad_tree": QuadTree,
    "kd_tree": KdTree,
}


def find(name: str) -> type[Histogram]:
    """The histogram method of this name, or of this import path (`module:Class`).

    >>> find("greedy").__name__
    'Greedy'
    >>> find("penstock.private.histograms.plain:Plain") is find("plain")
    True
    >>> find("fancy")
    Traceback (most recent call last):
    penstock.core.errors.ConfigurationError: there is no histogram 'fancy': use plain, ...
    """
    if ":" not in name:
        if name not in HISTOGRAMS:
            raise ConfigurationError(
                f"there is no histogram {name!r}: use {', '.join(HISTOGRAMS)}, or a path such as 'module:Class'."
            )
        return HISTOGRAMS[name]
    found = imported(name)
    if not (isinstance(found, type) and dataclasses.is_dataclass(found) and issubclass(found, Histogram)):
        raise ConfigurationError(f"{name!r} is not a dataclass with a method release(counts, epsilon, gate).")
    return found


def describe(cls: type[Histogram]) -> dict[str, Any]:
    """What the registry knows of a histogram method, as plain data."""
    names = {method: name for name, method in HISTOGRAMS.items()}
    return {
        "name": names.get(cls, f"{cls.__module__}:{cls.__qualname__}"),
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
    }
