"""`penstock sources` and `penstock sinks`."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.cli.completers import SinkName, SourceName
from penstock.cli.formatting import say
from penstock.cli.options import Json, with_own_modules
from penstock.core.declaration import EndpointKind, KindRegistry
from penstock.engine.config_text import meaning, toml
from penstock.private.sources.registry import SOURCES
from penstock.released.sinks.registry import SINKS


def sources(name: SourceName = None, /, *, as_json: Json = False) -> None:
    """List the kinds of sources, with those of plug-ins, or all options of one kind.

    For example:

    * penstock sources

    * penstock sources kafka

    * penstock sources --json

    Parameters
    ----------
    name
        One kind, also of a plug-in, or an import path such as module:KIND.
    as_json
        The same as JSON, for programs.
    """
    _show(SOURCES, name, as_json)


def sinks(name: SinkName = None, /, *, as_json: Json = False) -> None:
    """List the kinds of sinks, with those of plug-ins, or all options of one kind.

    For example:

    * penstock sinks

    * penstock sinks webhook

    * penstock sinks --json

    Parameters
    ----------
    name
        One kind, also of a plug-in, or an import path such as module:KIND.
    as_json
        The same as JSON, for programs.
    """
    _show(SINKS, name, as_json)


def _show(registry: KindRegistry[Any], name: str | None, as_json: bool) -> None:
    if name is None:
        rows = registry.table()
    else:
        kind = with_own_modules(name, lambda: registry.find(name))
        rows = [registry.describe(kind)]
    if as_json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
    elif name is None:
        _list(registry, rows)
    else:
        _explain(registry.noun, kind)


def _list(registry: KindRegistry[Any], rows: list[dict[str, Any]]) -> None:
    usable = [row for row in rows if row["problem"] is None]
    table = _table(
        f"Kinds of {registry.noun}s",
        ("kind", "description", "extra", "package"),
        caption=f"penstock {registry.noun}s KIND lists the options of one kind.",
    )
    for row in usable:
        table.add_row(*(Text(row[name]) for name in ("name", "summary", "extra", "package")))
    screen = Console()
    screen.print(table)
    for row in rows:
        if row["problem"] is not None:
            screen.print(Text(row["problem"], "yellow"), soft_wrap=True)


def _explain(noun: str, kind: EndpointKind) -> None:
    screen = Console()
    screen.print(Text(f'kind = "{kind.name}"', "bold"))
    say(kind.summary)
    if kind.extra:
        say(f"It needs: pip install 'penstock[{kind.extra}]'")
    table = _table(f"Options of the {noun}", ("key", "example", "meaning"))
    for option in kind.options:
        needed = " (required)" if option.required else ""
        only = f'; only with {option.when[0]} = "{option.when[1]}"' if option.when else ""
        texts = (" or ".join(option.keys) + needed, toml(option.shown), meaning(option) + only)
        table.add_row(*map(Text, texts))
    screen.print()
    screen.print(table)


def _table(title: str, headings: tuple[str, ...], *, caption: str | None = None) -> Table:
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        caption=caption,
        caption_justify="left",
        row_styles=["", "dim"],
        pad_edge=False,
    )
    for heading in headings:
        table.add_column(heading, no_wrap=heading == "kind", overflow="fold")
    return table
