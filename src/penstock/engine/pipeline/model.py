"""What a configuration says, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from penstock.core.calendar import Calendar
from penstock.core.declaration import Options
from penstock.core.exact import exact
from penstock.private.mechanisms.base import Mechanism
from penstock.private.sources.base import Columns, SourceKind
from penstock.private.sources.registry import SOURCES
from penstock.released.alerting import AlertRule
from penstock.released.release_filter import FilterChoice
from penstock.released.sinks.base import SinkKind
from penstock.released.sinks.registry import SINKS

AnyMechanism: TypeAlias = Mechanism[Any]

AUTO = "auto"
"""The name by which a configuration leaves the choice of the mechanism to `engine.plan`."""

AUTO_FALLBACK = "tide"
"""The mechanism that `auto` uses where nothing public is known about the stream."""

Late: TypeAlias = Literal["drop", "current"]


@dataclass(frozen=True, kw_only=True)
class StreamConfig:
    """The table [stream]: what the releases are called, and when units begin and end.

    `lateness`, `tolerance` and `pace` are durations, as `private.units` takes them.
    """

    name: str
    calendar: Calendar
    until: str | None = None
    lateness: str = "0s"
    late: Late = "drop"
    tolerance: str = "1min"
    pace: str = "1s"


@dataclass(frozen=True, kw_only=True)
class SourceConfig:
    """The table [source]: where events come from, and which columns hold time, key and person."""

    kind: str
    columns: Columns
    options: Options = field(default_factory=dict)

    @property
    def declaration(self) -> SourceKind:
        """The declaration of its kind."""
        return SOURCES.find(self.kind)


@dataclass(frozen=True, kw_only=True)
class PlanConfig:
    """The table [plan]: what is publicly known about the stream, for `auto` and `penstock plan`.

    None of it may come from the private events. A sample gives the form of the counts. `typical`
    gives their size, and then also that of a sample.
    """

    typical: Fraction | None = None
    seasons: tuple[str, ...] = ()
    sparse: bool = False
    stock: bool = False
    sample: str | None = None


@dataclass(frozen=True, kw_only=True)
class AutoMechanism:
    """A choice that is still open: `auto` was declared. A mechanism may use this δ, or none."""

    delta: Fraction | None = None


@dataclass(frozen=True, kw_only=True)
class View:
    """One series of releases: its own units, and its own mechanism, which counts in them.

    A unit of the view has at least `units` units of the stream. The view costs `share` of the
    stream's ε, in which the ε of its mechanism counts `times` times. `declared` is the mechanism as
    it was written; `mechanism` has a value for every parameter that was left open there. Where
    `auto` is not None, both are the fallback until `engine.plan.auto` has chosen.
    """

    name: str
    calendar: Calendar
    declared: AnyMechanism
    mechanism: AnyMechanism
    units: int = 1
    share: Fraction = Fraction(1)
    times: int = 1
    auto: AutoMechanism | None = None

    @property
    def cost(self) -> Fraction:
        """The most that a window of the stream pays for this view."""
        return self.times * exact(self.mechanism.epsilon)


@dataclass(frozen=True, kw_only=True)
class StoreConfig:
    """The table [store]: where releases, ledger and state are kept. It holds no secrets."""

    path: str | None = None
    url: str | None = None
    url_env: str | None = None
    password_env: str | None = None
    key_env: str | None = None
    key_file: str | None = None
    signing_key_env: str | None = None
    signing_key_file: str | None = None
    head: str | None = None


@dataclass(frozen=True, kw_only=True)
class SinkConfig:
    """One table [[sink]]: where releases go, of the named views or of all.

    `filters` has the settings of each view whose numbers are filtered, by name. `nonnegative`: it
    gets no negative numbers.
    """

    name: str
    kind: str
    views: tuple[str, ...] = ()
    options: Options = field(default_factory=dict)
    filters: Mapping[str, FilterChoice] = field(default_factory=dict)
    nonnegative: bool = False

    @property
    def declaration(self) -> SinkKind:
        """The declaration of its kind."""
        return SINKS.find(self.kind)

    @property
    def place(self) -> tuple[Any, ...] | None:
        """Where its releases are, which two sinks cannot share; None where they can."""
        names = self.declaration.place
        return (self.kind, *(self.options.get(name) for name in names)) if names else None


@dataclass(frozen=True, kw_only=True)
class AlertConfig:
    """One table [[alert]]: what is watched of a view, and the address that alerts are posted to.

    `options` has the address and the token, by their keys; none where alerts go to the log only.
    """

    rule: AlertRule
    view: str
    options: Options = field(default_factory=dict)

    @property
    def posts(self) -> bool:
        """Whether alerts are posted to an address."""
        return "url" in self.options or "url_env" in self.options


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    """The table [engine]: the cluster that counts events with `penstock run --engine spark`."""

    master: str = "local[*]"
    partitions: int | None = None
    partitioned: Literal["person"] | None = None
    partitioner: Literal["murmur2", "crc32"] = "murmur2"
    jars: str | None = None


@dataclass(frozen=True, kw_only=True)
class EventConfig:
    """One table [[service.event]]: something to show on the timeline."""

    at: str
    text: str


@dataclass(frozen=True, kw_only=True)
class ServiceConfig:
    """The table [service]: where and how releases are served to readers. It holds no secrets."""

    listen: str | None = None
    title: str | None = None
    language: str = "en"
    copy: str | None = None
    token_env: str | None = None
    token_file: str | None = None
    origins: tuple[str, ...] = ()
    frames: tuple[str, ...] = ()
    map: str | None = None
    map_key: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_client_ca: str | None = None
    events: tuple[EventConfig, ...] = ()


@dataclass(frozen=True, kw_only=True)
class OperatorConfig:
    """The table [operator]: who may see private figures, and where public ones are served."""

    token_env: str | None = None
    token_file: str | None = None
    metrics: str | None = None
    figures: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_client_ca: str | None = None
    unhealthy_above: Fraction | None = None
