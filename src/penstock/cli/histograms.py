"""`penstock histograms`."""

from __future__ import annotations

import json

from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.cli.options import Json
from penstock.private.histograms.registry import table


def histograms(*, as_json: Json = False) -> None:
    """List the methods by which sample, fixed, dsft and dsat can release the counts of a unit.

    Methods of installed plug-ins are listed too.

    For example:

    * penstock histograms

    * penstock histograms --json

    Parameters
    ----------
    as_json
        Print JSON.
    """
    known = table()
    if as_json:
        print(json.dumps(known, indent=2, ensure_ascii=False))
        return
    screen = Console()
    usable = [one for one in known if one["problem"] is None]
    others = any(one["package"] != "penstock" for one in usable)
    shown = Table(
        title="Histogram methods",
        title_justify="left",
        title_style="bold",
        row_styles=["", "dim"],
        pad_edge=False,
    )
    for heading in ("name", "what it does", "parameters", *(["package"] if others else [])):
        shown.add_column(heading, no_wrap=heading == "name", overflow="fold")
    for one in usable:
        parameters = "\n".join(
            each["name"] if each["required"] else f"{each['name']}={each['default']}"
            for each in one["parameters"]
        )
        texts = (one["name"], one["summary"], parameters, *([one["package"]] if others else []))
        shown.add_row(*map(Text, texts))
    screen.print(shown)
    for one in known:
        if one["problem"] is not None:
            screen.print(Text(one["problem"], "yellow"), soft_wrap=True)
