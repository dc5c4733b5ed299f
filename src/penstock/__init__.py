"""Penstock: the gate through which a stream of events about people becomes numbers that anyone may
see.

>>> import penstock as ps
>>> run = ps.BudgetAbsorption(epsilon="1", window=24).run(["north", "south"])
>>> released = run.step([120, 80])
>>> released.guarantee
Guarantee(epsilon=1, window=24)
"""

from penstock.budget.accountant import Account, account
from penstock.budget.grid import Budget
from penstock.budget.ledger import Line
from penstock.core import deprecated
from penstock.core.domain import Domain
from penstock.core.errors import (
    BudgetError,
    ConfigurationError,
    InexactError,
    InputError,
    LedgerError,
    MechanismError,
    MissingExtraError,
    NoiseError,
    NotCoveredError,
    PenstockError,
    SealedError,
    StateError,
    StoreUnavailableError,
)
from penstock.core.guarantee import Guarantee
from penstock.core.hierarchy import Hierarchy
from penstock.core.private import Private
from penstock.core.product import Product
from penstock.core.released import Released
from penstock.core.weights import Weights
from penstock.engine.publish import Publication, publish
from penstock.private.gate import Gate, Price
from penstock.private.histograms.base import Histogram
from penstock.private.histograms.greedy import Greedy
from penstock.private.histograms.kd_tree import KdTree
from penstock.private.histograms.plain import Plain
from penstock.private.histograms.quad_tree import QuadTree
from penstock.private.mechanisms.ba import BudgetAbsorption
from penstock.private.mechanisms.base import Incremental, Mechanism
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
from penstock.private.run import Run
from penstock.released.log import Log

deprecated.install()

__version__ = "0.1.0.dev0"

__all__ = [
    "Account",
    "AdaptiveThreshold",
    "BackwardSmoothing",
    "Budget",
    "BudgetAbsorption",
    "BudgetDistribution",
    "BudgetError",
    "ConfigurationError",
    "CorrelatedGaussian",
    "Domain",
    "FilteredBlocks",
    "FilteredSampling",
    "FixedSampling",
    "FixedThreshold",
    "Gate",
    "Greedy",
    "GroupedAbsorption",
    "GroupedDistribution",
    "Guarantee",
    "HierarchicalPegasus",
    "Hierarchy",
    "Histogram",
    "Incremental",
    "InexactError",
    "InputError",
    "KdTree",
    "Laplace",
    "LedgerError",
    "Line",
    "Log",
    "Mechanism",
    "MechanismError",
    "MissingExtraError",
    "NoiseError",
    "NotCoveredError",
    "PanAbsorption",
    "PanDistribution",
    "Pegasus",
    "PenstockError",
    "Plain",
    "Price",
    "Private",
    "Product",
    "PrunedPegasus",
    "Publication",
    "QuadTree",
    "Released",
    "RetroactiveGrouping",
    "Run",
    "Sample",
    "SealedError",
    "SignedBlocks",
    "StateError",
    "StoreUnavailableError",
    "Uniform",
    "WeightedHistogram",
    "Weights",
    "WindowTree",
    "account",
    "publish",
]
