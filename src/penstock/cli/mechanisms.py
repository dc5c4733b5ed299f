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
from penstock.private.mechanisms.registry import MECHANISMS, AnyMechanism, describe, find


def mechanisms(name: str | None = None, /, *, as_json: Json = False) -> None:
    """List the mechanisms, or say all about one: what it does, what it promises and what it takes.

    For example:

    * penstock mechanisms

    * penstock mechanisms dsat

    * penstock mechanisms --json

    Parameters
    ----------
    name
        One of them, or an import path such as module:Class.
    as_json
        The same as JSON, for programs.
    """
    chosen = list(MECHANISMS.values()) if name is None else [find(name)]
    described = [describe(cls) for cls in chosen]
    if as_json:
        print(json.dumps(described, indent=2, ensure_ascii=False))
    elif name is None:
        Console().print(_listed(described))
    else:
        print(_told(chosen[0], described[0]))


def _listed(described: list[dict[str, Any]]) -> Table:
    table = Table(
        title="Mechanisms",
        title_justify="left",
        title_style="bold",
        caption="penstock mechanisms NAME says all about one.",
        caption_justify="left",
        row_styles=["", "dim"],
        pad_edge=False,
    )
    for heading in ("name", "what it does", "guarantee", "paper"):
        table.add_column(heading, no_wrap=heading == "name", overflow="fold")
    for one in described:
        table.add_row(*(Text(one[what]) for what in ("name", "summary", "guarantee", "paper")))
    return table


def _told(cls: AnyMechanism, described: dict[str, Any]) -> str:
    """The docstring, up to its example, and the parameters."""
    told = inspect.getdoc(cls) or ""
    text = "\n\n".join(part for part in told.split("\n\n") if not part.startswith(">>>"))
    plain = re.sub(r":math:`([^`]*)`", r"\1", text)
    parameters = "\n".join(f"    {_parameter(each)}" for each in described["parameters"])
    path = "penstock" if cls.name in MECHANISMS else cls.__module__
    return f"{described['name']}: {path}.{described['class']}\n\n{plain}\n\nParameters\n----------\n{parameters}"


def _parameter(parameter: dict[str, Any]) -> str:
    return f"{parameter['name']}" if parameter["required"] else f"{parameter['name']} = {parameter['default']}"
