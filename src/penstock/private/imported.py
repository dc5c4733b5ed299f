"""Whatever an import path names, for the registries."""

from __future__ import annotations

import importlib
from typing import Any

from penstock.core.errors import ConfigurationError


def imported(name: str) -> Any:
    """What `module:Name` stands for; nothing of the lab, where things are broken on purpose."""
    module, _, path = name.partition(":")
    if module.split(".")[:2] == ["penstock", "lab"]:
        raise ConfigurationError(f"{name!r} lives in the lab, where things are broken on purpose; it cannot be used.")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"{name!r} cannot be imported: {error}.") from error
    return found
