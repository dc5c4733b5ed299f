"""Old names that work for one more version, with a `DeprecationWarning` that names the new one.

`MOVED` lists the names that users may have imported. A module that still exists serves its old
names by `__getattr__ = moved(__name__)`. A module that is gone is served by the finder below.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

MOVED: dict[str, dict[str, str]] = {
    "penstock.testing": {
        "Clock": "penstock.testing:ManualClock",
        "Replay": "penstock.testing:ReplayClock",
    },
    "penstock.engine.front": {
        "publish": "penstock.engine.publish:publish",
        "Publication": "penstock.engine.publish:Publication",
    },
    "penstock.engine.pipeline": {
        "Operator": "penstock.engine.pipeline:OperatorConfig",
        "Sink": "penstock.engine.pipeline:SinkConfig",
        "Source": "penstock.engine.pipeline:SourceConfig",
        "Store": "penstock.engine.pipeline:StoreConfig",
        "Stream": "penstock.engine.pipeline:StreamConfig",
    },
    "penstock.engine.publisher": {
        "Level": "penstock.engine.notices:Level",
        "Told": "penstock.engine.notices:Notice",
    },
    "penstock.engine.store": {
        "Stream": "penstock.released.series:Series",
        "StreamLog": "penstock.engine.store:SeriesLog",
        "Verified": "penstock.engine.store:VerifiedLedger",
    },
    "penstock.private.sources.csv": {"Csv": "penstock.private.sources.csv:CsvFormat"},
    "penstock.private.sources.files": {
        "Files": "penstock.private.sources.files:FileSource",
        "Stdin": "penstock.private.sources.stdin:StdinSource",
        "StdinSource": "penstock.private.sources.stdin:StdinSource",
    },
    "penstock.private.sources.http": {"Http": "penstock.private.sources.http:HttpSource"},
    "penstock.private.sources.jsonl": {
        "JsonLines": "penstock.private.sources.jsonl:JsonLinesFormat",
    },
    "penstock.private.sources.kafka": {"Kafka": "penstock.private.sources.kafka:KafkaSource"},
    "penstock.private.sources.mqtt": {"Mqtt": "penstock.private.sources.mqtt:MqttSource"},
    "penstock.private.sources.parquet": {
        "Parquet": "penstock.private.sources.parquet:ParquetFormat",
    },
    "penstock.private.sources.values": {
        "Json": "penstock.private.sources.message_formats:JsonMessages",
        "Values": "penstock.private.sources.message_formats:MessageFormat",
    },
    "penstock.released.log": {"LogFile": "penstock.engine.release_log:open_log"},
    "penstock.released.queries.query": {
        "Numbers": "penstock.released.queries.query:NumberQuery",
    },
    "penstock.released.sinks": {
        "Item": "penstock.released.sinks:ReleaseItem",
        "JsonLines": "penstock.released.sinks:JsonLinesSink",
        "Parquet": "penstock.released.sinks:ParquetSink",
        "Webhook": "penstock.released.sinks:WebhookSink",
    },
    "penstock.released.sinks.base": {
        "Head": "penstock.released.sinks.base:SinkHead",
        "Item": "penstock.released.sinks.base:ReleaseItem",
    },
    "penstock.released.sinks.jsonl": {
        "JsonLines": "penstock.released.sinks.jsonl:JsonLinesSink",
    },
    "penstock.released.sinks.kafka": {"Kafka": "penstock.released.sinks.kafka:KafkaSink"},
    "penstock.released.sinks.parquet": {
        "Parquet": "penstock.released.sinks.parquet:ParquetSink",
    },
    "penstock.released.sinks.postgres": {
        "Postgres": "penstock.released.sinks.postgres:PostgresSink",
    },
    "penstock.released.sinks.webhook": {
        "Webhook": "penstock.released.sinks.webhook:WebhookSink",
    },
}
"""By old module: each old name, and the module and name that replace it."""

P = ParamSpec("P")
T = TypeVar("T")


def moved(module: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module whose old names stand in `MOVED`.

    >>> import penstock.testing, pytest
    >>> with pytest.warns(DeprecationWarning, match="testing.Clock is now .*testing.ManualClock"):
    ...     penstock.testing.Clock
    <class 'penstock.testing.ManualClock'>
    """

    def get(name: str) -> Any:
        new = MOVED[module].get(name)
        if new is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        _warn(f"{module}.{name}", new.replace(":", "."))
        where, _, attribute = new.partition(":")
        return getattr(import_module(where), attribute)

    return get


def replaced(old: str, new: str) -> Any:
    """Return the function `new`, given as module:name, for a call that is deprecated."""
    _warn(old, new.replace(":", "."))
    where, _, attribute = new.partition(":")
    return getattr(import_module(where), attribute)


def renamed(**parameters: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a function that takes parameters under old names too: `@renamed(old="new")`."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            for old in kwargs.keys() & parameters.keys():
                new = parameters[old]
                if new in kwargs:
                    raise TypeError(f"{function.__name__}: {old} is the old name of {new}.")
                _warn(f"{function.__name__}({old}=…)", f"{new}=…")
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate


def _warn(old: str, new: str) -> None:
    text = f"{old} is now {new}. The old name works until the next version."
    warnings.warn(text, DeprecationWarning, stacklevel=3)


class _GoneModules:
    """Finds the modules of `MOVED` that are gone. It stands last, so no other import asks it."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, _GoneModules) if name in MOVED else None  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: ModuleSpec) -> None:
        """Let Python make an empty module."""

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        module.__getattr__ = moved(module.__name__)  # type: ignore[method-assign]


def install() -> None:
    """Serve the modules that are gone. `penstock` calls this when it is imported."""
    if _GoneModules not in sys.meta_path:
        sys.meta_path.append(_GoneModules)
