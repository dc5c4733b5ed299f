"""Reading the tables [source], [[sink]], [store], [service] and [operator], from declarations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeVar

from penstock.core.declaration import EndpointKind, KindRegistry, Options
from penstock.core.domain import Domain
from penstock.core.durations import fits
from penstock.core.errors import ConfigurationError
from penstock.core.exact import positive
from penstock.core.http_origin import ORIGIN
from penstock.core.product import Product
from penstock.core.server_tls import check_server_tls
from penstock.engine.config_sections import (
    Document,
    InvalidConfigurationError,
    Section,
    nearest,
    shown,
)
from penstock.engine.pipeline.model import (
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
from penstock.engine.pipeline.options import (
    CLOCKS,
    MISSING,
    OPERATOR,
    SERVICE,
    SERVICE_EVENT,
    SINK,
    STORE,
    TYPES,
    UNHEALTHY_ABOVE,
)
from penstock.engine.pipeline.stream import read_zone
from penstock.private.sources.base import Columns
from penstock.private.sources.registry import SOURCES
from penstock.released.release_filter import FilterChoice
from penstock.released.sinks.registry import SINKS

K = TypeVar("K", bound=EndpointKind)


def _kind(section: Section, registry: KindRegistry[K]) -> K | None:
    """The declared kind that a table names; None, and why, where there is none."""
    name = section.take("kind")
    if not isinstance(name, str) or (name not in registry.names and ":" not in name):
        section.text("kind", among=registry.names)
        return None
    try:
        return registry.find(name)
    except ConfigurationError as error:
        section.wrong("kind", str(error))
    return None


def _options(section: Section, kind: EndpointKind | None) -> Options:
    """The options of a kind, checked one by one and then together. It closes the table."""
    if kind is None:
        section.close(*section.content)
        return {}
    options = section.options(kind.options)
    section.close()
    if not section.faulty:
        try:
            kind.check(options)
        except ConfigurationError as error:
            section.refuse(error)
    return options


def checked_options(kind: EndpointKind, content: Mapping[str, Any]) -> Options:
    """The options of a kind, as a configuration has them; a mistake is an error."""
    section = Section.of(Document(content))
    options = _options(section, kind)
    if section.problems:
        raise InvalidConfigurationError("", section.problems)
    return options


# -- where events come from ------------------------------------------------------------------------


def read_source(
    section: Section, keys: Domain | None, stream: StreamConfig | None
) -> SourceConfig | None:
    """The table [source]; None, and its problems noted, where it cannot be used."""
    kind = _kind(section, SOURCES)
    key = _key(section, keys)
    found: dict[str, Any] = {
        "time": section.text("time", example="timestamp"),
        "key": key if len(key) != 1 else key[0],
        "person": section.text("person", example="card") if "person" in section else None,
        "clock": section.text("clock", "iso", among=CLOCKS),
        "zone": read_zone(section, stream.calendar.zone if stream else "UTC"),
        "key_type": _key_type(section, len(key)),
        "person_type": section.text("person_type", "text", among=TYPES),
        "missing_person": section.text("missing_person", "drop", among=MISSING),
    }
    section.take("person")
    if found["missing_person"] != "drop" and "person" not in section:
        section.wrong(
            "missing_person",
            'needs the column of persons: write person = "…" as well. Without it, each event is '
            "its own person.",
        )
    options = _options(section, kind)
    if section.faulty or kind is None:
        return None
    return SourceConfig(kind=section.content["kind"], columns=Columns(**found), options=options)


def _key_type(section: Section, columns: int) -> str | tuple[str, ...]:
    types = section.texts("key_type", example="text") or ("text",)
    for each in types:
        if each not in TYPES:
            section.wrong(
                "key_type",
                f"{shown(each)} is not known: use {', '.join(TYPES)}.{nearest(each, TYPES)}",
            )
    if len(types) not in (1, columns):
        section.wrong(
            "key_type", f"must be one type, or one for each of {columns} columns, not {len(types)}."
        )
    return types if len(types) > 1 else types[0]


def _key(section: Section, keys: Domain | None) -> tuple[str, ...]:
    """The columns of the key: one, or one per attribute (default: the attributes' names)."""
    key = section.texts("key", example="station")
    names = keys.names if isinstance(keys, Product) else ()
    if "key" not in section:
        if not names:
            section.missing("key", 'write the column of the keys, such as key = "station"')
        return names
    if keys is not None and len(key) not in (0, 1, len(names)):
        wanted = (
            f"one column, or one for each attribute: {', '.join(names)}" if names else "one column"
        )
        section.wrong("key", f"must be {wanted}, not {len(key)} columns.")
    return key


# -- where releases are kept and sent --------------------------------------------------------------


def read_store(section: Section, stream: StreamConfig | None) -> StoreConfig:
    """The table [store]. Without a place it is a SQLite file by the name of the stream."""
    found = section.options(STORE)
    section.at_most_one("path", "url", "url_env")
    if not any(name in section for name in ("path", "url", "url_env")):
        found["path"] = f"{stream.name if stream else 'stream'}.db"
    section.close()
    return StoreConfig(**found)


def read_sinks(
    sections: Sequence[Section], views: Sequence[View], plan: PlanConfig
) -> tuple[SinkConfig, ...]:
    """All tables [[sink]]. No two have one name or one place."""
    sinks: list[SinkConfig] = []
    for section in sections:
        sink = _sink(section, views, plan)
        if any(sink.name and sink.name == other.name for other in sinks):
            section.wrong(
                "name" if "name" in section else None,
                f"{shown(sink.name)} names two sinks: give each a name of its own.",
            )
        if not section.faulty:
            same = [other.name for other in sinks if sink.place and other.place == sink.place]
            if same:
                section.wrong(
                    None,
                    f"goes to the same place as {shown(same[0])}: one sink takes several views, "
                    "or each has its own.",
                )
            sinks.append(sink)
    return tuple(sinks)


def _sink(section: Section, declared: Sequence[View], plan: PlanConfig) -> SinkConfig:
    kind = _kind(section, SINKS)
    shared = section.options(SINK)
    views = shared["views"] or ()
    known = tuple(view.name for view in declared)
    for each in views:
        if known and each not in known:
            section.wrong(
                "views",
                f"there is no view {shown(each)}: use {', '.join(known)}.{nearest(each, known)}",
            )
    own = [view for view in declared if not views or view.name in views]
    filters = _filters(section, shared, own, plan)
    options = _options(section, kind)
    name = str(section.content.get("kind", ""))
    return SinkConfig(
        name=shared["name"] or name,
        kind=name,
        views=views,
        options=options,
        filters=filters,
        nonnegative=shared["nonnegative"],
    )


def _filters(
    section: Section, shared: Mapping[str, Any], views: Sequence[View], plan: PlanConfig
) -> dict[str, FilterChoice]:
    """The settings of the filter for each view; none where numbers go as they were released.

    What is not given here is taken from the table [plan].
    """
    if not shared["filtered"]:
        for name in ("filter_periods", "filter_kind", "filter_point"):
            if name in section:
                section.wrong(name, "can only be used with filtered = true.")
        return {}
    kind = shared["filter_kind"] or ("stock" if plan.stock else "flow")
    point = shared["filter_point"] or "median"
    found = {}
    for view in views:
        calendar, periods = view.calendar, shared["filter_periods"]
        if periods is None:
            periods = [each for each in plan.seasons if fits(each, calendar)]
        try:
            found[view.name] = FilterChoice.of(periods, kind, point, calendar=calendar)
        except ConfigurationError as error:
            message = str(error).removeprefix(f"{error.parameter} ")
            section.wrong(f"filter_{error.parameter}", message)
            break
    return found


def read_operator(section: Section) -> OperatorConfig:
    """The table [operator]."""
    found = section.options(option for option in OPERATOR if option != UNHEALTHY_ABOVE)
    limit = _share(section, UNHEALTHY_ABOVE.name)
    section.close()
    try:
        check_server_tls(found)
    except ConfigurationError as error:
        section.refuse(error)
    return OperatorConfig(**found, unhealthy_above=limit)


def read_service(section: Section, stream: StreamConfig | None) -> ServiceConfig:
    """The table [service]."""
    found = section.options(SERVICE)
    events = []
    for each in section.tables("event"):
        event = each.options(SERVICE_EVENT)
        if stream is not None and event["at"]:
            try:
                stream.calendar.moment(event["at"], name="at")
            except ConfigurationError as error:
                each.refuse(error)
        each.close()
        events.append(EventConfig(at=event["at"] or "", text=event["text"] or ""))
    section.close("event")
    if found["map_key"] is not None and found["map"] is None:
        section.wrong("map_key", 'can only be used with map = "…".')
    try:
        check_server_tls(found)
    except ConfigurationError as error:
        section.refuse(error)
    for name in ("origins", "frames"):
        found[name] = found[name] or ()
        for origin in found[name]:
            if not ORIGIN.fullmatch(origin):
                section.wrong(
                    name,
                    f"must be an origin such as https://www.example.org, not {shown(origin)}.",
                )
    return ServiceConfig(**found, events=tuple(events))


def _share(section: Section, name: str) -> Fraction | None:
    """A share between 0 and 1; None if it is missing or cannot be used."""
    value = section.take(name)
    if value is None or not section.exactly(name):
        return None
    try:
        share = positive(value, name=name)
    except ConfigurationError as error:
        section.refuse(error)
        return None
    if share >= 1:
        section.wrong(name, f'must be a share below 1, such as {name} = "0.2", not {shown(value)}.')
    return share
