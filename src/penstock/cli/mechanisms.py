"""`penstock mechanisms`."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.cli.options import Json
from penstock.private.mechanisms.registry import MECHANISMS, describe


def mechanisms(*, as_json: Json = False) -> None:
    """List the mechanisms, what they promise and what they take.

    For example:

    * penstock mechanisms

    * penstock mechanisms --json

    Parameters
    ----------
    as_json
        The same as JSON, for programs.
    """
    described = [describe(cls) for cls in MECHANISMS.values()]
    if as_json:
        print(json.dumps(described, indent=2, ensure_ascii=False))
        return
    table = Table(title="Mechanisms", title_justify="left", title_style="bold", row_styles=["", "dim"], pad_edge=False)
    for heading in ("name", "what it does", "parameters", "guarantee", "paper"):
        table.add_column(heading, no_wrap=heading == "name", overflow="fold")
    for one in described:
        parameters = "\n".join(map(_parameter, one["parameters"]))
        table.add_row(*(Text(text) for text in (one["name"], one["summary"], parameters, one["guarantee"], one["paper"])))
    Console().print(table)


def _parameter(parameter: dict[str, Any]) -> str:
    return f"{parameter['name']}" if parameter["required"] else f"{parameter['name']}={parameter['default']}"
