"""Objects that an import path or an installed plug-in names, for the registries.

A plug-in is an entry point of another package, `name = "module:Class"`, in a group that a registry
looks at. Nothing of it is imported before somebody asks for its name, so a broken plug-in disturbs
nobody else.
"""

from __future__ import annotations

import importlib
import re
import sys
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Any

from penstock.core.errors import ConfigurationError

_LAB = "{what} lives in the lab, where things are broken on purpose; it cannot be used."
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def imported(name: str) -> Any:
    """The object that `module:Name` names. The lab is refused: things in it are broken."""
    module, _, path = name.partition(":")
    if _in_lab(module):
        raise ConfigurationError(_LAB.format(what=repr(name)))
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"{name!r} cannot be imported: {_said(error)}.") from error
    return found


def not_of_the_lab(cls: type, what: str) -> None:
    """Refuse a class that comes from the lab by a detour: by another name, or as a subclass."""
    if any(_in_lab(each.__module__) for each in cls.__mro__):
        raise ConfigurationError(_LAB.format(what=what))


def _in_lab(module: str) -> bool:
    """Whether a module belongs to the lab or the bench: both keep methods that are not private."""
    top, *rest = module.split(".")
    return top == "penstock_bench" or (top == "penstock" and rest[:1] == ["lab"])


@dataclass(frozen=True, order=True)
class Plugin:
    """An object that another package offers under a name. Nothing is imported before `load`."""

    name: str
    package: str
    path: str

    def __str__(self) -> str:
        return f"the plug-in {self.name!r} of package {self.package} ({self.path})"

    def load(self) -> Any:
        """The object. Any error in the other package is reported in one line, with its cause."""
        if not _NAME.fullmatch(self.name):
            raise ConfigurationError(
                f"{self} has no usable name: take letters, digits, dots, dashes and underscores."
            )
        try:
            return imported(self.path)
        except (Exception, SystemExit) as error:
            raise ConfigurationError(f"{self} cannot be loaded: {_said(error)}.") from error


def plugins(group: str) -> tuple[Plugin, ...]:
    """All plug-ins of a group, by name. Metadata of packages are read; their code is not."""
    return _plugins(group, tuple(sys.path))


def plugged(group: str, name: str) -> Plugin | None:
    """The plug-in of this name, if there is one. Two packages that offer one name are refused."""
    found = [plugin for plugin in plugins(group) if plugin.name == name]
    if len(found) > 1:
        offered = " and ".join(f"{plugin.package} ({plugin.path})" for plugin in found)
        raise ConfigurationError(
            f"{name!r} is offered by two packages, {offered}: uninstall one, or write "
            "'module:Class'."
        )
    return found[0] if found else None


def package_of(group: str, cls: type) -> str | None:
    """The package that offers this class under any name; None if there is none."""
    path = f"{cls.__module__}:{cls.__qualname__}"
    return next((plugin.package for plugin in plugins(group) if plugin.path == path), None)


@lru_cache(maxsize=16)
def _plugins(group: str, _: tuple[str, ...]) -> tuple[Plugin, ...]:
    found = set()
    for point in entry_points(group=group):
        package = "of unknown name" if point.dist is None else point.dist.name
        found.add(Plugin(point.name, package, re.sub(r"\[.*|\s", "", point.value)))
    return tuple(sorted(found))


def _said(error: BaseException) -> str:
    """An error on one line, with its kind unless it is one of ours."""
    words = " ".join(str(error).split()).rstrip(".")
    return words if isinstance(error, ConfigurationError) else f"{type(error).__name__}: {words}"
