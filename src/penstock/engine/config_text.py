"""Configurations and their reference as text, made from the declarations.

`python -m penstock.engine.config_text`, in a checkout, writes examples/pipeline.toml and
docs/reference/configuration.md anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.core.declaration import EndpointKind, Option
from penstock.engine.pipeline import options as tables
from penstock.private.sources.registry import SOURCES
from penstock.released.sinks.registry import SINKS

EXAMPLE = Path("examples/pipeline.toml")
REFERENCE = Path("docs/reference/configuration.md")

_MARGIN = 36
"""The column in which comments begin."""

_HEAD = """\
# The configuration of a pipeline.
# penstock check explains in plain sentences what it will publish, promise and cost.
# Paths start from the folder of this file.
# Never write a secret here: write the name of an environment variable or of a file.
"""

_VIEWS = """\
# Several views of one stream: each [[view]] has its own units and its own mechanism.
# Then [privacy] has epsilon, window and horizon only, in units of the stream.
# [[view]]
# name = "hourly"
# every = "1h"
# mechanism = "ba"
# share = "2/3"
#
# [[view]]
# name = "daily"
# every = "1d"
# mechanism = "uniform"
# contribution = 4
# share = "1/3"
"""

_STATIONS = ["Airport", "Central", "Harbour", "Old Town", "University"]

_CONTENT: dict[str, Any] = {
    "stream": {
        "name": "taps",
        "every": "1h",
        "zone": "Europe/Zurich",
        "origin": "2026-01-01",
        "lateness": "10min",
    },
    "source": {
        "kind": "parquet",
        "path": "taps/*.parquet",
        "time": "tapped_at",
        "key": "station",
        "person": "card",
        "person_type": "integer",
    },
    "domain": {"keys": _STATIONS, "other": "elsewhere"},
    "privacy": {"mechanism": "ba", "epsilon": "1", "window": 24, "contribution": 2},
    "store": {"path": "taps.db", "head": "elsewhere/taps.head"},
    "sink": [
        {"kind": "parquet", "path": "releases"},
        {
            "name": "partners",
            "kind": "webhook",
            "url": "https://example.org/taps",
            "token_env": "PARTNERS_TOKEN",
        },
    ],
    "alert": [
        {
            "name": "busy",
            "keys": ["Airport", "Central"],
            "above": 500,
            "clear": 400,
            "sure": "0.95",
            "url": "https://example.org/alerts",
            "token_env": "ALERTS_TOKEN",
        },
    ],
    "service": {"listen": "127.0.0.1:8090", "title": "Taps in our city"},
    "operator": {"token_env": "PENSTOCK_OPERATOR", "metrics": "127.0.0.1:9464"},
}


def example() -> str:
    """The text of examples/pipeline.toml."""
    return configuration(_CONTENT, alternatives=True)


def configuration(content: Mapping[str, Any], *, alternatives: bool = False) -> str:
    """A configuration with a comment on every line; unused keys are comments, too.

    With `alternatives`, the other kinds of sources and sinks, and views, follow as comments.
    """
    source = content["source"]
    kind = SOURCES.find(source["kind"])
    parts: list[Iterable[str]] = [
        _HEAD.splitlines(),
        _table("[stream]", tables.STREAM, content["stream"]),
        [
            *_table("[source]", (_kind(SOURCES.own, "source"), *kind.options), source),
            *_lines(tables.COLUMNS, source),
            *(_kinds(SOURCES.own, "sources") if alternatives else ()),
        ],
        _table("[domain]", tables.DOMAIN, content["domain"]),
        _table("[privacy]", tables.PRIVACY, content["privacy"]),
        *([_VIEWS.splitlines()] if alternatives else []),
        _table("[plan]", tables.PLAN, content.get("plan", {})),
        _table("[store]", tables.STORE, content["store"]),
    ]
    sinks = content.get("sink", [])
    for sink in sinks:
        own = (_kind(SINKS.own, "sink"), *SINKS.find(sink["kind"]).options, *tables.SINK)
        parts.append(_table("[[sink]]", own, sink))
    if not sinks:
        parquet = (_kind(SINKS.own, "sink", "parquet"), *SINKS.find("parquet").options)
        parts.append(_table("# [[sink]]", parquet, {}))
    if alternatives:
        parts.append(_kinds(SINKS.own, "sinks"))
    parts.extend(
        _table("[[alert]]", tables.ALERT_KEYS, alert) for alert in content.get("alert", [])
    )
    service = content.get("service", {})
    parts.append(_table("[service]" if service else "# [service]", tables.SERVICE, service))
    if alternatives:
        parts.append(_table("# [[service.event]]", tables.SERVICE_EVENT, {}))
    operator = content.get("operator", {})
    heading = "[operator]" if operator else "# [operator]"
    parts.append(_table(heading, tables.OPERATOR, operator))
    if alternatives:
        parts.append(_table("# [engine]", tables.ENGINE, {}))
    return "\n".join("\n".join(part) + "\n" for part in parts)


def _table(heading: str, options: Iterable[Option], table: Mapping[str, Any]) -> Iterator[str]:
    yield heading
    yield from _lines(options, table)


def _lines(options: Iterable[Option], table: Mapping[str, Any]) -> Iterator[str]:
    """One line per option: as the table has it, or commented out with an example."""
    for option in options:
        if option.applies({**table, option.name: None}):
            key = next((key for key in option.keys if key in table), option.keys[0])
            used = "" if key in table else "# "
            text = f"{used}{key} = {toml(table.get(key, option.shown))}"
            yield f"{text.ljust(_MARGIN - 1)} # {meaning(option)}"


def toml(value: Any) -> str:
    """A value as TOML.

    >>> print(toml({"line": ["red", "blue"], "zone 1": 8}), toml(True))
    {line = ["red", "blue"], "zone 1" = 8} true
    """
    if isinstance(value, Mapping):
        pairs = (f"{k if k.isidentifier() else toml(k)} = {toml(v)}" for k, v in value.items())
        return "{" + ", ".join(pairs) + "}"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def meaning(option: Option) -> str:
    """The help of an option, with its choices and its default."""
    text = option.help
    if option.choices and not all(choice in text for choice in option.choices):
        text += f": {', '.join(option.choices)}"
    if option.default is not None and "(default:" not in text:
        text += f" (default: {toml(option.default)})"
    return text


def _kind(own: Mapping[str, EndpointKind], noun: str, example: str = "") -> Option:
    return Option(name="kind", choices=tuple(own), example=example, help=f"the kind of {noun}")


def _kinds(own: Mapping[str, EndpointKind], noun: str) -> Iterator[str]:
    yield f"# Other kinds of {noun}, each with the keys that it needs:"
    for kind in own.values():
        needed = [option for option in kind.options if option.required and option.when is None]
        keys = ", ".join(f"{option.keys[0]} = {toml(option.shown)}" for option in needed)
        yield (f"# kind = {toml(kind.name)}".ljust(_MARGIN // 2 + 4) + keys).rstrip()


# -- the reference ---------------------------------------------------------------------------------

_INTRODUCTION = """\
# Configuration

All keys of a pipeline's TOML file. [examples/pipeline.toml](../../examples/pipeline.toml) shows
most of them in one file. [publish.md](../how-to/publish.md) explains how to choose.

This page is generated from the declarations in the code by
`python -m penstock.engine.config_text`. A key that is not on this page is refused, with its line.
Relative paths start from the folder of the file. A key that ends in `_env` holds the name of an
environment variable, one that ends in `_file` the name of a file; secrets are never written here.
"""

_ACCEPTED = {
    "text": "text",
    "flag": "`true` or `false`",
    "whole": "whole number",
    "path": "path",
    "address": "host and port",
    "url": "address",
    "secret": "name",
    "variable": "name",
    "duration": "duration",
    "moment": "date or time",
    "zone": "time zone",
    "units": "units or duration",
    "exact": "whole number or text",
    "number": "number",
    "array": "array",
    "table": "table",
}


def reference() -> str:
    """The text of docs/reference/configuration.md."""
    parts = [
        _INTRODUCTION,
        _section("[stream]", "The stream and its units.", tables.STREAM),
        _section(
            "[source]",
            "The source of events: `kind`, the keys of that kind, and these for all kinds.",
            tables.COLUMNS,
        ),
        *_kind_sections(SOURCES.own),
        _section("[domain]", "The keys, in exactly one of five ways.", tables.DOMAIN),
        _section(
            "[privacy]", "The promise and the mechanism.", (*tables.PRIVACY, tables.PARAMETERS)
        ),
        _section(
            "[[view]]",
            "One of several views. Then [privacy] has `epsilon`, `window` and `horizon` only.",
            (*tables.VIEW, tables.PARAMETERS),
        ),
        _section(
            "[plan]",
            "What is publicly known about the stream, for `auto`, `penstock plan` and `penstock "
            "check`.\nNone of it may come from the private events.",
            tables.PLAN,
        ),
        _section("[store]", "Where releases, ledger and state are kept.", tables.STORE),
        _section(
            "[[sink]]",
            "One of several sinks: `kind`, the keys of that kind, and these for all kinds.",
            tables.SINK,
        ),
        *_kind_sections(SINKS.own),
        _section(
            "[[alert]]",
            "One of several rules that watch what is released, which costs no budget. Rules may "
            "change at any\ntime. [alert.md](../how-to/alert.md) explains them.",
            tables.ALERT_KEYS,
        ),
        _section(
            "[service]",
            "The read API and the dashboard. [serve.md](../how-to/serve.md) explains them. Needs "
            "`pip install\n'penstock[serve]'`.",
            tables.SERVICE,
        ),
        _section(
            "[[service.event]]", "One of several events on the timeline.", tables.SERVICE_EVENT
        ),
        _section("[operator]", "Who may see private figures.", tables.OPERATOR),
        _section(
            "[engine]",
            "The cluster that counts events with `penstock run --engine spark`. "
            "[spark.md](../how-to/spark.md)\nexplains it. Needs `pip install 'penstock[spark]'`.",
            tables.ENGINE,
        ),
    ]
    return "\n".join(parts)


def _section(title: str, summary: str, options: Sequence[Option]) -> str:
    return f"## {title}\n\n{summary}\n\n{_markdown(options)}"


def _kind_sections(own: Mapping[str, EndpointKind]) -> Iterator[str]:
    for kind in own.values():
        needs = f"\nNeeds `pip install 'penstock[{kind.extra}]'`." if kind.extra else ""
        text = f'### kind = "{kind.name}"\n\n{kind.summary}{needs}\n\n'
        yield text + _markdown(kind.options)


def _markdown(options: Sequence[Option]) -> str:
    lines = ["| key | value | example | meaning |", "| --- | --- | --- | --- |"]
    for option in options:
        keys = " or ".join(f"`{key}`" for key in option.keys)
        needed = " **(required)**" if option.required else ""
        value = _ACCEPTED[option.type] + (", or an array" if option.several else "")
        only = f'; only with {option.when[0]} = "{option.when[1]}"' if option.when else ""
        cells = (f"{keys}{needed}", value, f"`{toml(option.shown)}`", f"{meaning(option)}{only}")
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    EXAMPLE.write_text(example(), encoding="utf-8")
    REFERENCE.write_text(reference(), encoding="utf-8")
