"""Penstock: the gate through which a stream of events about people becomes numbers that anyone may see.

>>> import penstock as ps
>>> run = ps.BudgetAbsorption(epsilon="1", window=24).run(["north", "south"])
>>> released = run.step([120, 80])
>>> released.guarantee
Guarantee(epsilon=1, window=24)
"""

from penstock.budget.accountant import Account, account
from penstock.budget.grid import Budget
from penstock.budget.ledger import Line
from penstock.core.domain import Domain
from penstock.core.errors import (
    BudgetError,
    ConfigurationError,
    InexactError,
    InputError,
    LedgerError,
    MissingExtraError,
    NoiseError,
    PenstockError,
    SealedError,
    StateError,
)
from penstock.core.guarantee import Guarantee
from penstock.core.private import Private
from penstock.core.released import Released
from penstock.core.weights import Weights
from penstock.private.gate import Gate, Price
from penstock.private.mechanisms.ba import BudgetAbsorption
from penstock.private.mechanisms.base import Incremental, Mechanism
from penstock.private.mechanisms.bd import BudgetDistribution
from penstock.private.mechanisms.grouped import GroupedAbsorption, GroupedDistribution
from penstock.private.mechanisms.laplace import Laplace
from penstock.private.mechanisms.pan import PanAbsorption, PanDistribution
from penstock.private.mechanisms.sample import Sample
from penstock.private.mechanisms.uniform import Uniform
from penstock.private.run import Run

__version__ = "0.1.0.dev0"

__all__ = [
    "Account",
    "Budget",
    "BudgetAbsorption",
    "BudgetDistribution",
    "BudgetError",
    "ConfigurationError",
    "Domain",
    "Gate",
    "GroupedAbsorption",
    "GroupedDistribution",
    "Guarantee",
    "Incremental",
    "InexactError",
    "InputError",
    "Laplace",
    "LedgerError",
    "Line",
    "Mechanism",
    "MissingExtraError",
    "NoiseError",
    "PanAbsorption",
    "PanDistribution",
    "PenstockError",
    "Price",
    "Private",
    "Released",
    "Run",
    "Sample",
    "SealedError",
    "StateError",
    "Uniform",
    "Weights",
    "account",
]
