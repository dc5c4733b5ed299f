"""The measures by name.

A cell names a measure as text, with arguments after a colon: `mae`, `l1:64`, `window_mse:2,64`,
`roc:jump,12,60`. A measure gives one or more named numbers per run.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.core.errors import ConfigurationError
from penstock_bench.measures.alerts import Roc
from penstock_bench.measures.base import MEMORY, TIME, Facts, Measure
from penstock_bench.measures.beside import UnitL1
from penstock_bench.measures.counts import (
    AbsoluteError,
    Coverage,
    RelativeError,
    ScaledError,
    SquaredError,
)
from penstock_bench.measures.decayed import DecayedMse
from penstock_bench.measures.grouping import CorrectedSquares, GroupingFloor
from penstock_bench.measures.nodes import NodeErrors
from penstock_bench.measures.ranges import RangeError
from penstock_bench.measures.sums import DecayMse, LogL1, PrefixMse, WindowMse
from penstock_bench.measures.windows import WindowL1, WindowSquares

MEASURES: dict[str, Callable[[str, tuple[str, ...], Facts], Measure]] = {
    "mae": AbsoluteError,
    "mre": RelativeError,
    "mse": SquaredError,
    "scaled_l1": ScaledError,
    "coverage": Coverage,
    "l1": WindowL1,
    "sse": WindowSquares,
    "log_sse": CorrectedSquares,
    "rg_floor": GroupingFloor,
    "unit_l1": UnitL1,
    "window_l1": LogL1,
    "window_mse": WindowMse,
    "prefix_mse": PrefixMse,
    "decay_mse": DecayMse,
    "decayed": DecayedMse,
    "roc": Roc,
    "ranges": RangeError,
    "nodes_l1": NodeErrors,
}


def measure_of(name: str, facts: Facts) -> Measure:
    """Make the measure of this name, before the first unit."""
    kind, _, arguments = name.partition(":")
    if kind not in MEASURES:
        raise ConfigurationError(
            f"there is no measure {kind!r}: use {', '.join([*MEASURES, TIME, MEMORY])}."
        )
    return MEASURES[kind](name, tuple(arguments.split(",")) if arguments else (), facts)
