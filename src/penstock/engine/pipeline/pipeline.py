"""All that a publisher needs to know, read once and checked once."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.core.guarantee import Guarantee
from penstock.engine import config_sections
from penstock.engine.config_sections import (
    ELSEWHERE,
    Document,
    InvalidConfigurationError,
    Section,
)
from penstock.engine.pipeline.alerts import read_alerts
from penstock.engine.pipeline.cluster import read_engine
from penstock.engine.pipeline.domain import read_domain
from penstock.engine.pipeline.endpoints import (
    read_operator,
    read_service,
    read_sinks,
    read_source,
    read_store,
)
from penstock.engine.pipeline.model import (
    AlertConfig,
    AnyMechanism,
    EngineConfig,
    OperatorConfig,
    PlanConfig,
    ServiceConfig,
    SinkConfig,
    SourceConfig,
    StoreConfig,
    StreamConfig,
    View,
)
from penstock.engine.pipeline.promise import read_plan, read_promise
from penstock.engine.pipeline.stream import read_stream
from penstock.released.series import MISSING_PERSON


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """The configuration of a publisher. `read` makes it from a TOML file, `of` from a dict.

    Parameters
    ----------
    stream : StreamConfig
        The name of the stream, its units, and how late events are treated.
    source : SourceConfig
        The source and its columns.
    keys : Domain
        The declared keys, with the one that counts unknown keys.
    other : str, optional
        The key that counts unknown keys; None if they are dropped.
    guarantee : Guarantee
        The promise of the whole stream.
    views : tuple of View
        One or more views, each with its own units and mechanism.
    store : StoreConfig
        Where releases, ledger and state are kept.
    sinks : tuple of SinkConfig
        Where releases go (default: nowhere else).
    alerts : tuple of AlertConfig
        Which released numbers are watched (default: none).
    operator : OperatorConfig
        Who may see private figures (default: nobody).
    service : ServiceConfig
        Where and how releases are served to readers (default: nowhere).
    plan : PlanConfig
        What is publicly known about the stream (default: nothing).
    engine : EngineConfig, optional
        The cluster that counts events where Spark is asked for (default: None, this machine).
    folder : Path
        The folder from which relative paths start (default: the current one).

    Examples
    --------
    >>> pipeline = Pipeline.of({
    ...     "stream": {"name": "taps", "every": "1h", "origin": "2026-01-01"},
    ...     "source": {"kind": "csv", "path": "taps.csv", "time": "ts", "key": "station"},
    ...     "domain": {"keys": ["north", "south"], "other": "elsewhere"},
    ...     "privacy": {"mechanism": "ba", "epsilon": "1", "window": "1d"},
    ... })
    >>> pipeline.mechanism(), pipeline.domain().keys
    (BudgetAbsorption(epsilon=1, window=24, ...), ('north', 'south', 'elsewhere'))
    """

    stream: StreamConfig
    source: SourceConfig
    keys: Domain
    other: str | None
    guarantee: Guarantee
    views: tuple[View, ...]
    store: StoreConfig
    sinks: tuple[SinkConfig, ...] = ()
    alerts: tuple[AlertConfig, ...] = ()
    operator: OperatorConfig = field(default_factory=OperatorConfig)
    service: ServiceConfig = field(default_factory=ServiceConfig)
    plan: PlanConfig = field(default_factory=PlanConfig)
    engine: EngineConfig | None = None
    folder: Path = field(default=Path(), compare=False)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read a TOML file. Relative paths in it start from its folder."""
        return cls._made(config_sections.read(path), Path(path).parent)

    @classmethod
    def of(cls, content: Mapping[str, Any], *, folder: str | os.PathLike[str] = ".") -> Self:
        """Make a pipeline of the same tables as a dict. `domain` may also be a `Domain`, and
        `privacy` a mechanism.
        """
        return cls._made(Document(content), Path(folder))

    @classmethod
    def _made(cls, document: Document, folder: Path) -> Self:
        top = Section.of(document)
        for path in config_sections.secrets_in(
            {name: part for name, part in document.content.items() if name != "domain"}
        ):
            top.wrong(
                str(path[0]),
                f"looks like a secret, and no secret belongs in this file: {ELSEWHERE}.",
                *path[1:],
            )
        stream = read_stream(top.table("stream"))
        keys, other = read_domain(top, folder)
        source = read_source(top.table("source"), keys, stream)
        guarantee, views = read_promise(top, stream, keys)
        store = read_store(top.table("store"), stream)
        plan = read_plan(top.table("plan"))
        sinks = read_sinks(top.tables("sink"), views, plan)
        alerts = read_alerts(top.tables("alert"), stream, views, keys, plan)
        operator = read_operator(top.table("operator"))
        service = read_service(top.table("service"), stream)
        engine = read_engine(top.table("engine"), stream, source)
        if stream is not None and stream.late == "current" and len(views) > 1:
            top.table("stream").wrong(
                "late",
                'must be "drop" where there are several views: a late event would count in units '
                "of two views that do not belong together, and the promise would not cover it.",
            )
        top.close()
        if top.problems or stream is None or keys is None or source is None or guarantee is None:
            raise InvalidConfigurationError(document.name, dict.fromkeys(top.problems))
        return cls(
            stream=stream,
            source=source,
            keys=keys,
            other=other,
            guarantee=guarantee,
            views=tuple(views),
            store=store,
            sinks=sinks,
            alerts=alerts,
            operator=operator,
            service=service,
            plan=plan,
            engine=engine,
            folder=folder,
        )

    def domain(self) -> Domain:
        """The keys, with the one that counts unknown keys."""
        return self.keys

    def view(self, name: str | None = None) -> View:
        """The view of this name; without one, the only view."""
        found = [view for view in self.views if name in (None, view.name)]
        if len(found) != 1:
            raise ConfigurationError(
                f"view must be one of {', '.join(view.name for view in self.views)}, not {name!r}."
            )
        return found[0]

    def mechanism(self, view: str | None = None) -> AnyMechanism:
        """A view's mechanism; without a name, that of the only view."""
        return self.view(view).mechanism

    def series(self, view: str | None = None) -> str:
        """The name of a view's series in store and sinks: STREAM, or STREAM/VIEW."""
        found = self.view(view)
        return (
            self.stream.name
            if found.name == self.stream.name
            else f"{self.stream.name}/{found.name}"
        )

    def path(self, name: str) -> Path:
        """A path of this configuration, from its folder on."""
        return self.folder / name

    def going_on(self, configurations: Mapping[str, Mapping[str, str]]) -> Self:
        """This pipeline with what the series in a store began with, where it leaves it open.

        Parameters
        ----------
        configurations : mapping of str to mapping of str to str
            By series: the parameters of its mechanism, as text.
        """
        views = [
            replace(view, mechanism=view.declared.decided(self.keys, kept=kept))
            if (kept := configurations.get(self.series(view.name))) is not None
            else view
            for view in self.views
        ]
        return replace(self, views=tuple(views))

    def facts(self) -> dict[str, str]:
        """All that may not change between two starts, by key. Sources, sinks, alerts, lateness
        and the place of the store may.
        """
        calendar = self.stream.calendar
        facts = {
            "stream.name": self.stream.name,
            "stream.every": calendar.every,
            "stream.zone": calendar.zone,
            "stream.origin": str(calendar.origin),
            "source.key": json.dumps(self.source.columns.keys),
            "source.key_type": json.dumps(self.source.columns.key_types),
            "source.person": self.source.columns.person or "",
            "source.person_type": self.source.columns.person_type,
            "source.time": self.source.columns.time,
            "source.clock": self.source.columns.clock,
            "source.zone": self.source.columns.zone,
            "domain": f"{type(self.keys).__name__} {_digest(self.keys.facts)}",
            "domain.other": self.other or "",
            "privacy": repr(self.guarantee),
            "privacy.epsilon": str(self.guarantee.epsilon),
            "privacy.window": str(self.guarantee.window),
            "privacy.horizon": str(self.guarantee.horizon or ""),
        }
        if self.source.columns.missing_person == "each":  # the others make the same promise
            facts[MISSING_PERSON] = "each"
        for view in self.views:
            facts[f"view.{view.name}.every"] = view.calendar.every
            facts[f"view.{view.name}.share"] = str(view.share)
            facts[f"view.{view.name}.times"] = str(view.times)
            facts[f"view.{view.name}.mechanism"] = view.mechanism.name
            for name, value in view.mechanism.configuration().items():
                facts[f"view.{view.name}.{name}"] = str(value)
        return facts

    def fingerprint(self) -> str:
        """A digest of `facts`, the same on every machine."""
        facts = self.facts()
        return _digest(text for name in sorted(facts) for text in (name, facts[name]))

    def changed(self, facts: Mapping[str, str]) -> tuple[str, ...]:
        """The names of facts that differ from earlier ones. A stream that has begun cannot go on
        with them.
        """
        here = self.facts()
        return tuple(
            sorted(name for name in here.keys() | facts.keys() if here.get(name) != facts.get(name))
        )


def _digest(texts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        raw = text.encode()
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()
