"""The configuration of a publisher: read once, checked once, all mistakes reported together.

`model` has the parts as plain data, `pipeline` the whole. `stream`, `domain`, `endpoints` and
`promise` each read some tables of the file; `options` declares the keys of these tables.
"""

from typing import TYPE_CHECKING

from penstock.core.deprecated import moved
from penstock.core.durations import units_in, units_of
from penstock.engine.pipeline.model import (
    AUTO,
    AlertConfig,
    AnyMechanism,
    AutoMechanism,
    EngineConfig,
    EventConfig,
    OperatorConfig,
    PlanConfig,
    ServiceConfig,
    SinkConfig,
    SourceConfig,
    StoreConfig,
    StreamConfig,
    View,
)
from penstock.engine.pipeline.pipeline import Pipeline
from penstock.engine.pipeline.promise import reach

__all__ = [
    "AUTO",
    "AlertConfig",
    "AnyMechanism",
    "AutoMechanism",
    "EngineConfig",
    "EventConfig",
    "OperatorConfig",
    "Pipeline",
    "PlanConfig",
    "ServiceConfig",
    "SinkConfig",
    "SourceConfig",
    "StoreConfig",
    "StreamConfig",
    "View",
    "reach",
    "units_in",
    "units_of",
]

if not TYPE_CHECKING:
    __getattr__ = moved(__name__)
