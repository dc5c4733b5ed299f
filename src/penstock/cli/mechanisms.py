"""`penstock mechanisms`."""

from __future__ import annotations

import inspect
import json
import re
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.cli.options import Json
from penstock.private.mechanisms.registry import MECHANISMS, AnyMechanism, describe, find, table


def mechanisms(name: str | None = None, /, *, as_json: Json = False) -> None:
    """List the mechanisms, those of installed plug-ins too, or say all about one: what it does,
    promises and takes.

    For example:

    * penstock mechanisms

    * penstock mechanisms dsat

    * penstock mechanisms --json

    Parameters
    ----------
    name
        One of them, one of a plug-in, or an import path such as module:Class.
    as_json
        The same as JSON, for programs.
    """
    if name is None:
        known = table()
        if as_json:
            print(json.dumps(known, indent=2, ensure_ascii=False))
        else:
            _list(known)
        return
    cls = find(name)
    if as_json:
        print(json.dumps([describe(cls)], indent=2, ensure_ascii=False))
    else:
        print(_told(cls, describe(cls)))


def _list(known: list[dict[str, Any]]) -> None:
    screen = Console()
    ours = [one for one in known if one["package"] == "penstock"]
    others = [one for one in known if one["package"] != "penstock" and one["problem"] is None]
    caption = "penstock mechanisms NAME says all about one."
    screen.print(
        _listed(
            "Mechanisms",
            ours,
            ("name", "what it does", "guarantee", "paper"),
            "" if others else caption,
        )
    )
    if others:
        screen.print()
        screen.print(
            _listed(
                "Of plug-ins", others, ("name", "what it does", "guarantee", "package"), caption
            )
        )
    for one in known:
        if one["problem"] is not None:
            screen.print(Text(one["problem"], "yellow"), soft_wrap=True)


def _listed(
    title: str, rows: list[dict[str, Any]], headings: tuple[str, ...], caption: str
) -> Table:
    shown = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        caption=caption or None,
        caption_justify="left",
        row_styles=["", "dim"],
        pad_edge=False,
    )
    for heading in headings:
        shown.add_column(heading, no_wrap=heading == "name", overflow="fold")
    for one in rows:
        shown.add_row(
            *(Text(one["summary" if what == "what it does" else what]) for what in headings)
        )
    return shown


def _told(cls: AnyMechanism, described: dict[str, Any]) -> str:
    """The docstring, up to its example, and the parameters."""
    told = inspect.getdoc(cls) or ""
    text = "\n\n".join(part for part in told.split("\n\n") if not part.startswith(">>>"))
    plain = re.sub(r":math:`([^`]*)`", r"\1", text)
    parameters = "\n".join(f"    {_parameter(each)}" for each in described["parameters"])
    path = "penstock" if cls in MECHANISMS.values() else cls.__module__
    of = (
        "" if described["package"] in (None, "penstock") else f", of package {described['package']}"
    )
    return f"{described['name']}: {path}.{described['class']}{of}\n\n{plain}\n\nParameters\n----------\n{parameters}"


def _parameter(parameter: dict[str, Any]) -> str:
    return (
        f"{parameter['name']}"
        if parameter["required"]
        else f"{parameter['name']} = {parameter['default']}"
    )
