"""`penstock mechanisms`."""

from __future__ import annotations

import inspect
import json
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.cli.completers import MechanismName
from penstock.cli.formatting import terminal_width
from penstock.cli.formula import as_text
from penstock.cli.options import Json
from penstock.private.mechanisms.registry import MECHANISMS, AnyMechanism, describe, find, table


def mechanisms(name: MechanismName = None, /, *, as_json: Json = False) -> None:
    """List the mechanisms, or describe one: what it does, its promise and its parameters.

    Mechanisms of installed plug-ins are listed too.

    For example:

    * penstock mechanisms

    * penstock mechanisms dsat

    * penstock mechanisms --json

    Parameters
    ----------
    name
        The name of a mechanism, also of a plug-in, or an import path such as module:Class.
        Default: list all.
    as_json
        Print JSON.
    """
    if name is None:
        known = table()
        if as_json:
            print(json.dumps(known, indent=2, ensure_ascii=False))
        else:
            _print_tables(known)
        return
    cls = find(name)
    if as_json:
        print(json.dumps([describe(cls)], indent=2, ensure_ascii=False))
    else:
        print(_description(cls, describe(cls)))


def _print_tables(known: list[dict[str, Any]]) -> None:
    screen = Console()
    ours = [one for one in known if one["package"] == "penstock"]
    others = [one for one in known if one["package"] != "penstock" and one["problem"] is None]
    caption = "penstock mechanisms NAME describes one of them."
    screen.print(
        _table(
            "Mechanisms",
            ours,
            ("name", "what it does", "guarantee", "paper"),
            "" if others else caption,
        )
    )
    if others:
        screen.print()
        screen.print(
            _table(
                "Mechanisms of plug-ins",
                others,
                ("name", "what it does", "guarantee", "package"),
                caption,
            )
        )
    for one in known:
        if one["problem"] is not None:
            screen.print(Text(one["problem"], "yellow"), soft_wrap=True)


def _table(
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
            *(Text(one["summary" if name == "what it does" else name]) for name in headings)
        )
    return shown


def _description(cls: AnyMechanism, described: dict[str, Any]) -> str:
    """The docstring without its examples, and the parameters if it lists none."""
    paragraphs = (inspect.getdoc(cls) or "").split("\n\n")
    text = "\n\n".join(each for each in paragraphs if not each.startswith(">>>"))
    plain = as_text(text, terminal_width())
    if "Parameters\n-----" not in plain:
        listed = "\n".join(f"    {_parameter(each)}" for each in described["parameters"])
        plain += f"\n\nParameters\n----------\n{listed}"
    path = "penstock" if cls in MECHANISMS.values() else cls.__module__
    package = described["package"]
    origin = "" if package in (None, "penstock") else f", of package {package}"
    title = f"{described['name']}: {path}.{described['class']}{origin}"
    return f"{title}\n\n{plain}"


def _parameter(parameter: dict[str, Any]) -> str:
    default = "" if parameter["required"] else f" = {parameter['default']}"
    return f"{parameter['name']}{default}"
