"""Every mechanism by name: ours, those of other packages, and any other by import path."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from penstock.core.errors import ConfigurationError
from penstock.core.plugins import Plugin, imported, not_of_the_lab, package_of, plugged, plugins
from penstock.private.mechanisms.ba import BudgetAbsorption
from penstock.private.mechanisms.base import Mechanism
from penstock.private.mechanisms.bd import BudgetDistribution
from penstock.private.mechanisms.bs import BackwardSmoothing
from penstock.private.mechanisms.dsat import AdaptiveThreshold
from penstock.private.mechanisms.dsft import FixedThreshold
from penstock.private.mechanisms.eshp import WeightedHistogram
from penstock.private.mechanisms.fast import FilteredBlocks, FilteredSampling
from penstock.private.mechanisms.fixed import FixedSampling
from penstock.private.mechanisms.grouped import GroupedAbsorption, GroupedDistribution
from penstock.private.mechanisms.hierarchical import HierarchicalPegasus, PrunedPegasus
from penstock.private.mechanisms.kary import SignedBlocks
from penstock.private.mechanisms.laplace import Laplace
from penstock.private.mechanisms.pan import PanAbsorption, PanDistribution
from penstock.private.mechanisms.pegasus import Pegasus
from penstock.private.mechanisms.rg import RetroactiveGrouping
from penstock.private.mechanisms.sample import Sample
from penstock.private.mechanisms.sw_tree import WindowTree
from penstock.private.mechanisms.tide import Tide
from penstock.private.mechanisms.toeplitz import CorrelatedGaussian
from penstock.private.mechanisms.uniform import Uniform

AnyMechanism = type[Mechanism[Any]]

GROUP: Final = "penstock.mechanisms"
"""The entry points by which another package adds mechanisms: name = "module:Class"."""

MECHANISMS: dict[str, AnyMechanism] = {
    cls.name: cls
    for cls in (
        Uniform,
        Sample,
        BudgetDistribution,
        BudgetAbsorption,
        GroupedDistribution,
        GroupedAbsorption,
        PanDistribution,
        PanAbsorption,
        Laplace,
        BackwardSmoothing,
        RetroactiveGrouping,
        Pegasus,
        HierarchicalPegasus,
        PrunedPegasus,
        WindowTree,
        SignedBlocks,
        CorrelatedGaussian,
        WeightedHistogram,
        FixedSampling,
        FixedThreshold,
        AdaptiveThreshold,
        FilteredSampling,
        FilteredBlocks,
        Tide,
    )
}


def find(name: str) -> AnyMechanism:
    """The mechanism of this name or import path (`module:Class`).

    Our names are looked at first, so a plug-in cannot take one of them.

    >>> find("ba").__name__
    'BudgetAbsorption'
    >>> find("penstock.private.mechanisms.ba:BudgetAbsorption") is find("ba")
    True
    >>> find("bx")
    Traceback (most recent call last):
    penstock.core.errors.ConfigurationError: there is no mechanism 'bx': use uniform, sample, ...
    """
    if name in MECHANISMS:
        return MECHANISMS[name]
    if ":" in name:
        return _mechanism(imported(name), repr(name))
    plugin = plugged(GROUP, name)
    if plugin is None:
        raise ConfigurationError(
            f"there is no mechanism {name!r}: use {', '.join(names())}, "
            "or a path such as 'module:Class'.",
            parameter="mechanism",
        )
    return _of_plugin(plugin)


def names() -> tuple[str, ...]:
    """All names, ours first, then those of other packages."""
    return (
        *MECHANISMS,
        *dict.fromkeys(plugin.name for plugin in plugins(GROUP) if plugin.name not in MECHANISMS),
    )


def table() -> list[dict[str, Any]]:
    """All that is known of every mechanism, as plain data: ours, then those of each package.

    A plug-in that cannot be used has its reason under `problem`, and nothing else.
    """
    return [describe(cls) for cls in MECHANISMS.values()] + [
        _row(plugin) for plugin in plugins(GROUP)
    ]


def _row(plugin: Plugin) -> dict[str, Any]:
    known: dict[str, Any] = dict.fromkeys(
        ("class", "summary", "guarantee", "parameters", "paper", "proof")
    )
    problem = None
    try:
        if plugin.name in MECHANISMS:
            raise ConfigurationError(
                f"{plugin} is not used: {plugin.name!r} is a mechanism of Penstock's own."
            )
        known = describe(find(plugin.name))
    except ConfigurationError as error:
        problem = str(error)
    return {**known, "name": plugin.name, "package": plugin.package, "problem": problem}


def _of_plugin(plugin: Plugin) -> AnyMechanism:
    cls = _mechanism(plugin.load(), str(plugin))
    own = getattr(cls, "name", None)
    if own != plugin.name:  # ledgers, logs and snapshots know a mechanism by its own name
        raise ConfigurationError(
            f"{plugin} calls itself {own!r}: write name = {plugin.name!r} in the class."
        )
    return cls


def _mechanism(found: Any, what: str) -> AnyMechanism:
    if not (isinstance(found, type) and issubclass(found, Mechanism)):
        raise ConfigurationError(f"{what} is not a subclass of penstock.Mechanism.")
    not_of_the_lab(found, what)
    return found


def describe(cls: AnyMechanism) -> dict[str, Any]:
    """All that the registry knows of a mechanism, as plain data."""
    parameters = [
        {
            "name": field.name,
            "type": str(field.type),
            "default": None if field.default is dataclasses.MISSING else str(field.default),
            "required": field.default is dataclasses.MISSING,
        }
        for field in dataclasses.fields(cls)
    ]
    ours = cls in MECHANISMS.values()
    delta = next((each["default"] for each in parameters if each["name"] == "delta"), None)
    proof = getattr(cls, "proof", "")
    return {
        "name": getattr(cls, "name", ""),
        "class": cls.__name__,
        "summary": cls.summary(),
        "guarantee": (
            "(epsilon, window), pure" if delta in (None, "0") else "(epsilon, delta, window), zCDP"
        )
        + (", or with delta" if delta == "0" else "")
        + (", and pan-private" if "intrusion" in {p["name"] for p in parameters} else ""),
        "parameters": parameters,
        "paper": getattr(cls, "paper", ""),
        "proof": f"docs/proofs/{proof}" if ours else proof,
        "package": "penstock" if ours else package_of(GROUP, cls),
        "problem": None,
    }
