"""The gate: the only way from private counts to a release."""

from penstock.private.gate.convolutions import MAX_WEIGHTED_SUM
from penstock.private.gate.gate import Gate, Secrets
from penstock.private.gate.limits import affordable, count_limit
from penstock.private.gate.threshold_runs import Price
from penstock.private.gate.trees import Combination, Node

__all__ = [
    "MAX_WEIGHTED_SUM",
    "Combination",
    "Gate",
    "Node",
    "Price",
    "Secrets",
    "affordable",
    "count_limit",
]
