"""`penstock histograms`."""

from __future__ import annotations

import json

from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.cli.options import Json
from penstock.private.histograms.registry import HISTOGRAMS, describe


def histograms(*, as_json: Json = False) -> None:
    """List the methods by which sample, fixed, dsft and dsat can release a unit's histogram.

    For example:

    * penstock histograms

    * penstock histograms --json

    Parameters
    ----------
    as_json
        The same as JSON, for programs.
    """
    described = [describe(cls) for cls in HISTOGRAMS.values()]
    if as_json:
        print(json.dumps(described, indent=2, ensure_ascii=False))
        return
    table = Table(title="Histogram methods", title_justify="left", title_style="bold", row_styles=["", "dim"], pad_edge=False)
    for heading in ("name", "what it does", "parameters"):
        table.add_column(heading, no_wrap=heading == "name", overflow="fold")
    for one in described:
        parameters = "\n".join(
            each["name"] if each["required"] else f"{each['name']}={each['default']}" for each in one["parameters"]
        )
        table.add_row(*(Text(text) for text in (one["name"], one["summary"], parameters)))
    Console().print(table)
