"""Every mechanism by name, and any other by import path."""

from __future__ import annotations

import dataclasses
from typing import Any

from penstock.core.errors import ConfigurationError
from penstock.private.imported import imported
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
from penstock.private.mechanisms.toeplitz import CorrelatedGaussian
from penstock.private.mechanisms.uniform import Uniform

AnyMechanism = type[Mechanism[Any]]

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
    )
}


def find(name: str) -> AnyMechanism:
    """The mechanism of this name, or of this import path (`module:Class`).

    >>> find("ba").__name__
    'BudgetAbsorption'
    >>> find("penstock.private.mechanisms.ba:BudgetAbsorption") is find("ba")
    True
    >>> find("bx")
    Traceback (most recent call last):
    penstock.core.errors.ConfigurationError: there is no mechanism 'bx': use uniform, sample, ...
    """
    if ":" not in name:
        if name not in MECHANISMS:
            raise ConfigurationError(
                f"there is no mechanism {name!r}: use {', '.join(MECHANISMS)}, or a path such as 'module:Class'."
            )
        return MECHANISMS[name]
    found = imported(name)
    if not (isinstance(found, type) and issubclass(found, Mechanism)):
        raise ConfigurationError(f"{name!r} is not a subclass of penstock.Mechanism.")
    return found


def describe(cls: AnyMechanism) -> dict[str, Any]:
    """What the registry knows of a mechanism, as plain data."""
    parameters = [
        {
            "name": field.name,
            "type": str(field.type),
            "default": None if field.default is dataclasses.MISSING else str(field.default),
            "required": field.default is dataclasses.MISSING,
        }
        for field in dataclasses.fields(cls)
    ]
    return {
        "name": cls.name,
        "class": cls.__name__,
        "summary": cls.summary(),
        "guarantee": (
            "(epsilon, delta, window), zCDP" if "delta" in {p["name"] for p in parameters} else "(epsilon, window), pure"
        )
        + (", and pan-private" if "intrusion" in {p["name"] for p in parameters} else ""),
        "parameters": parameters,
        "paper": cls.paper,
        "proof": f"docs/proofs/{cls.proof}",
    }
