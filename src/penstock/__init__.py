"""Publish live statistics of a stream of events about people, with differential privacy.

>>> import penstock as ps
>>> run = ps.BudgetAbsorption(epsilon="1", window=24).run(["north", "south"])
>>> released = run.step([120, 80])
>>> released.guarantee
Guarantee(epsilon=1, window=24)

A public name is imported when it is first used, so that `import penstock` is fast.
`__init__.pyi` lists the same names for type checkers.
"""

from importlib import import_module
from typing import Any

from penstock.core import deprecated

__version__ = "0.1.0.dev0"

_NAMES_OF_MODULE = {
    "budget.accountant": ("Account", "account"),
    "budget.grid": ("Budget",),
    "budget.ledger": ("Line",),
    "client.remote_stream": ("RemoteStream", "connect"),
    "core.domain": ("Domain",),
    "core.errors": (
        "BudgetError",
        "ConfigurationError",
        "InexactError",
        "InputError",
        "LedgerError",
        "MechanismError",
        "MissingExtraError",
        "NoiseError",
        "NotCoveredError",
        "PenstockError",
        "SealedError",
        "StateError",
        "StoreUnavailableError",
    ),
    "core.guarantee": ("Guarantee",),
    "core.hierarchy": ("Hierarchy",),
    "core.private": ("Private",),
    "core.product": ("Product",),
    "core.released": ("Released",),
    "core.weights": ("Weights",),
    "engine.plan.notebook": ("plan",),
    "engine.plan.plan": ("Plan",),
    "engine.publication": ("Publication",),
    "engine.publish": ("publish",),
    "engine.release_log": ("open_log",),
    "private.gate": ("Gate", "Price"),
    "private.histograms.base": ("Histogram",),
    "private.histograms.greedy": ("Greedy",),
    "private.histograms.kd_tree": ("KdTree",),
    "private.histograms.plain": ("Plain",),
    "private.histograms.quad_tree": ("QuadTree",),
    "private.mechanisms.ba": ("BudgetAbsorption",),
    "private.mechanisms.base": ("Incremental", "Mechanism", "WithDelta"),
    "private.mechanisms.bd": ("BudgetDistribution",),
    "private.mechanisms.bs": ("BackwardSmoothing",),
    "private.mechanisms.dsat": ("AdaptiveThreshold",),
    "private.mechanisms.dsft": ("FixedThreshold",),
    "private.mechanisms.eshp": ("WeightedHistogram",),
    "private.mechanisms.fast": ("FilteredBlocks", "FilteredSampling"),
    "private.mechanisms.fixed": ("FixedSampling",),
    "private.mechanisms.grouped": ("GroupedAbsorption", "GroupedDistribution"),
    "private.mechanisms.hierarchical": ("HierarchicalPegasus", "PrunedPegasus"),
    "private.mechanisms.kary": ("SignedBlocks",),
    "private.mechanisms.laplace": ("Laplace",),
    "private.mechanisms.pan": ("PanAbsorption", "PanDistribution"),
    "private.mechanisms.pegasus": ("Pegasus",),
    "private.mechanisms.rg": ("RetroactiveGrouping",),
    "private.mechanisms.sample": ("Sample",),
    "private.mechanisms.sw_tree": ("WindowTree",),
    "private.mechanisms.tide": ("Tide",),
    "private.mechanisms.toeplitz": ("CorrelatedGaussian",),
    "private.mechanisms.uniform": ("Uniform",),
    "private.run": ("Run",),
    "released.log": ("Log",),
}
_MODULE_OF = {name: module for module, names in _NAMES_OF_MODULE.items() for name in names}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    value = getattr(import_module(f"penstock.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, and no modules."""
    return sorted([*__all__, "__version__"])


deprecated.install()
