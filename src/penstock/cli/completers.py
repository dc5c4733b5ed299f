"""What a shell proposes for an option: streams, keys, mechanisms and other public names.

Names come from the store, pipeline or file that the command line names already. Only public parts
of a store are read, and of a file of events the names of columns. A database is never asked: a
shell should not wait for a server. Modules of the current directory are not imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from cyclopts import Parameter

if TYPE_CHECKING:
    from cyclopts.completion import CompletionContext

    from penstock.core.domain import Domain

_STORE_ARGUMENTS = ("store", "log")
"""The names of the argument STORE in verbs."""


def _mechanisms(context: CompletionContext) -> dict[str, str]:
    from penstock.private.mechanisms import registry

    ours = {name: registry.describe(cls)["summary"] for name, cls in registry.MECHANISMS.items()}
    return {name: ours.get(name, "") for name in registry.names()}


def _mechanisms_or_auto(context: CompletionContext) -> dict[str, str]:
    return {"auto": "what penstock plan recommends"} | _mechanisms(context)


def _audited(context: CompletionContext) -> dict[str, str]:
    from penstock.lab.audit.flawed import VARIANTS

    return _mechanisms(context) | {f"flawed:{name}": "broken on purpose" for name in VARIANTS}


def _sources(context: CompletionContext) -> dict[str, str]:
    from penstock.private.sources.registry import SOURCES

    return {name: SOURCES.own[name].summary for name in SOURCES.names if name in SOURCES.own}


def _sinks(context: CompletionContext) -> dict[str, str]:
    from penstock.released.sinks.registry import SINKS

    return {name: SINKS.own[name].summary for name in SINKS.names if name in SINKS.own}


def _zones(context: CompletionContext) -> Iterable[str]:
    from zoneinfo import available_timezones

    return sorted(available_timezones())


def _columns(context: CompletionContext) -> Iterable[str]:
    from penstock.private.sources.registry import SOURCES, kind_of_file
    from penstock.private.sources.schema import guess

    data = _given(context, "--from") or _given(context, "--source")
    kind = None if data is None else SOURCES.find(kind_of_file(data) or "csv")
    if data is None or kind is None or kind.column_types is None:
        return ()
    return guess(kind.column_types, Path(), data).names


def _streams(context: CompletionContext) -> Iterable[str]:
    found = _domains(context)
    streams = dict.fromkeys(name.partition("/")[0] for name in found)
    return (*found, *(name for name in streams if name not in found))


def _keys(context: CompletionContext) -> Iterable[str]:
    found = _domains(context)
    stream = _given(context, "--stream")
    chosen = found.values() if stream is None else [found[stream]] if stream in found else []
    typed = context.incomplete.lstrip("\"'").replace("\\", "")
    every = (key for domain in chosen for key in domain.keys if key.startswith(typed))
    return tuple(dict.fromkeys(every))


def _attributes(context: CompletionContext) -> Iterator[str]:
    from penstock.core.product import Product

    for domain in _domains(context).values():
        if isinstance(domain, Product):
            for name, values in domain.attributes:
                yield from (f"{name}={value}" for value in values)


def _given(context: CompletionContext, name: str) -> str | None:
    found = context.get(name)
    return None if found is None else found.raw


def _domains(context: CompletionContext) -> Mapping[str, Domain]:
    """The keys of every series in the store or pipeline that the command line names."""
    from penstock.cli.store_argument import configures, is_address
    from penstock.engine.pipeline import Pipeline
    from penstock.engine.sqlite import SQLiteReader

    store = next(filter(None, (_given(context, name) for name in _STORE_ARGUMENTS)), None)
    if store is None or is_address(store):
        return {}
    path = Path(store).expanduser()
    if not configures(store):
        with closing(SQLiteReader(path)) as reader:
            return {name: reader.series(name).domain for name in reader.series_names}
    pipeline = Pipeline.read(path)
    return {
        pipeline.series(view.name): pipeline.keys
        if view.auto is not None
        else view.mechanism.released(pipeline.keys)
        for view in pipeline.views
    }


StreamName: TypeAlias = Annotated[str | None, Parameter(completer=_streams)]
StreamNames: TypeAlias = Annotated[tuple[str, ...], Parameter(negative="", completer=_streams)]
KeyNames: TypeAlias = Annotated[tuple[str, ...], Parameter(negative="", completer=_keys)]
KeyRange: TypeAlias = Annotated[
    tuple[str, str] | None, Parameter(name="--range", negative="", completer=_keys)
]
Conditions: TypeAlias = Annotated[tuple[str, ...], Parameter(negative="", completer=_attributes)]
MechanismName: TypeAlias = Annotated[str | None, Parameter(completer=_mechanisms)]
MechanismOrAuto: TypeAlias = Annotated[str | None, Parameter(completer=_mechanisms_or_auto)]
AuditedName: TypeAlias = Annotated[str | None, Parameter(completer=_audited)]
SourceName: TypeAlias = Annotated[str | None, Parameter(completer=_sources)]
SinkName: TypeAlias = Annotated[str | None, Parameter(completer=_sinks)]
COLUMNS: Final = Parameter(completer=_columns)
ColumnName: TypeAlias = Annotated[str | None, COLUMNS]
ZoneName: TypeAlias = Annotated[str | None, Parameter(completer=_zones)]
