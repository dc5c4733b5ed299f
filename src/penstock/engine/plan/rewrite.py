"""Write a mechanism into a configuration, with all comments kept."""

from __future__ import annotations

import stat
from dataclasses import fields
from pathlib import Path
from typing import Any

from penstock.core.errors import ConfigurationError
from penstock.core.files import write_file
from penstock.core.optional import require
from penstock.engine.config_sections import parse
from penstock.engine.pipeline import AUTO, Pipeline
from penstock.engine.plan.candidates import PROMISE
from penstock.engine.plan.plan import Plan, plain
from penstock.private.mechanisms import registry

_OF_VIEWS = ("name", "every", "share")
"""The keys of [[view]] that do not belong to its mechanism."""


def write_mechanism(path: Path, plan: Plan, view: str | None = None) -> None:
    """Put the recommended mechanism and its parameters into a configuration.

    Parameters of the mechanism before it are removed; the promise stays. A configuration that would
    no longer be valid is not written.

    Parameters
    ----------
    path : Path
        The configuration.
    plan : Plan
        The plan of one of its views.
    view : str, optional
        The name of that view. Default: the only one.
    """
    tomlkit = require("tomlkit", "plan", "writing a mechanism into a configuration")
    document = tomlkit.parse(path.read_text(encoding="utf-8-sig"))
    table, kept = document["privacy"], {"mechanism", *PROMISE}
    for each in document.get("view", []):
        if view is None or each.get("name") == view:
            table, kept = each, {*kept, *_OF_VIEWS}
            break
    before = str(table["mechanism"])
    own = {"delta"} if before == AUTO else {each.name for each in fields(registry.find(before))}
    for name in [*table]:
        if name == "parameters" or (name in own and name not in kept):
            del table[name]
    table["mechanism"] = plan.best.name
    beside: dict[str, Any] = {}
    for name, value in plan.best.parameters.items():
        (beside if name in kept else table)[name] = plain(value)
    if beside:
        table["parameters"] = beside
    text = tomlkit.dumps(document)
    try:
        Pipeline.of(parse(text, name=path.name).content, folder=path.parent)
    except ConfigurationError as error:
        raise ConfigurationError(
            f"{path.name} would not be valid with the recommended mechanism: {error} The file was "
            "not changed."
        ) from None
    write_file(path, text.encode(), mode=stat.S_IMODE(path.stat().st_mode))
