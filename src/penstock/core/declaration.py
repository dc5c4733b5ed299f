"""How a kind of source or sink declares itself, and how all kinds are found.

A kind is declared once, beside its class, as `KIND`. The reading of a configuration, `penstock
init`, `penstock check`, the example and the reference are made from that declaration. A declaration
imports no optional dependency: `build` does, when a pipeline uses the kind.
"""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, Literal, TypeAlias, TypeVar
from urllib.parse import urlsplit

from penstock.core.errors import ConfigurationError
from penstock.core.files import check_secret_file
from penstock.core.optional import require
from penstock.core.plugins import imported, plugged, plugins

Options: TypeAlias = Mapping[str, Any]
"""Checked values of options, by name."""

OptionType: TypeAlias = Literal[
    "text",
    "flag",
    "whole",
    "path",
    "address",
    "url",
    "secret",
    "variable",
    "duration",
    "moment",
    "zone",
    "units",
    "exact",
    "number",
    "array",
    "table",
]


@dataclass(frozen=True, kw_only=True)
class Option:
    """One key of a table in the configuration.

    Parameters
    ----------
    name : str
        The key. A secret is never written into the file: for `type="secret"` the keys are NAME_env
        (an environment variable) and NAME_file, for `type="variable"` NAME_env alone. An address of
        `type="url"` is written as NAME or, where the address is a secret, named by NAME_env.
    help : str
        The meaning, as a phrase that begins with a small letter and has no full stop.
    type : str
        What is accepted (default: "text", a text that is not empty). "path" is a text that starts
        from the folder of the configuration, "address" a host and a port.
    default : Any
        The value where the key is missing (default: None).
    required : bool
        Whether the key must be there (default: False).
    example : Any
        A value that is accepted. Messages, `penstock init` and the reference show it.
    choices : tuple of str
        The only texts that are accepted (default: any).
    several : bool
        Whether an array is accepted too; then the value is always a tuple (default: False).
    when : tuple of (str, str)
        Another option and its value, without which this one is not accepted (default: always).
    instead_of : str
        Another option that need not be there beside this one, and must not (default: none).
    prefixes : tuple of str
        How an address must begin (default: anyhow).
    asked : bool
        Whether `penstock init` asks for it although it is not required (default: False).
    advice : str
        Sentences that help to choose, which `penstock init` shows (default: none).

    Examples
    --------
    >>> Option(name="token", type="secret", help="the token of senders").keys
    ('token_env', 'token_file')
    """

    name: str
    help: str
    type: OptionType = "text"
    default: Any = None
    required: bool = False
    example: Any = None
    choices: tuple[str, ...] = ()
    several: bool = False
    when: tuple[str, str] | None = None
    instead_of: str = ""
    prefixes: tuple[str, ...] = ()
    asked: bool = False
    advice: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys in the file; of several, at most one may be used."""
        suffixes = {"secret": ("_env", "_file"), "variable": ("_env",), "url": ("", "_env")}
        return tuple(f"{self.name}{suffix}" for suffix in suffixes.get(self.type, ("",)))

    @property
    def shown(self) -> Any:
        """A value to show: the example, or else the default or the first choice."""
        if self.example is not None:
            return self.example
        return self.default if self.default is not None else next(iter(self.choices), None)

    def applies(self, options: Options) -> bool:
        """Whether the option is accepted beside these values."""
        return self.when is None or options.get(self.when[0]) == self.when[1]


def _accept(options: Options) -> None:
    """Every combination of valid options is accepted."""


@dataclass(frozen=True, kw_only=True)
class EndpointKind:
    """The part of a declaration that sources and sinks share.

    Parameters
    ----------
    name : str
        What `kind` is in the configuration.
    summary : str
        One sentence for lists and the reference.
    options : tuple of Option
        Its own keys. The first one that is required or asked says where the data are.
    describe : callable
        From the checked options to a phrase for `penstock check`, such as "Kafka topic 'taps'".
    check : callable
        Refuses a combination of options by a `ConfigurationError` (default: accepts all).
    extra : str
        The extras of Penstock that it needs, as in `pip install 'penstock[kafka]'` (default: none).
    modules : tuple of str
        The modules of optional packages that it imports, so that a missing one is named before any
        work (default: none).
    """

    name: str
    summary: str
    options: tuple[Option, ...] = ()
    describe: Callable[[Options], str]
    check: Callable[[Options], None] = _accept
    extra: str = ""
    modules: tuple[str, ...] = ()

    def require_modules(self) -> None:
        """Refuse to go on without an optional package that the kind needs."""
        for module in self.modules:
            require(module, self.extra, f'kind = "{self.name}"')

    @property
    def asked(self) -> tuple[Option, ...]:
        """The options that `penstock init` asks for. The first one says where the data are."""
        return tuple(option for option in self.options if option.required or option.asked)


@dataclass(frozen=True, kw_only=True)
class EndpointSetup:
    """What a kind is built from: its checked options, and the folder from which paths start."""

    options: Options = field(repr=False)
    folder: Path = Path()

    def path(self, name: str) -> Path | None:
        """The path that an option holds; None where it holds none."""
        value = self.options.get(name)
        return None if value is None else self.folder / value

    def secret(self, name: str) -> str | None:
        """The secret that an option names; None where it names none."""
        return secret_value(self.options, name, self.folder)

    def url(self, name: str = "url") -> str:
        """The address that an option holds or names."""
        url = self.options.get(name) or self.secret(name)
        if not url or not urlsplit(url).scheme:
            raise ConfigurationError(f"the address that {name}_env names is not an address.")
        return str(url)

    def read(self, name: str) -> str:
        """The text of the file that an option names."""
        try:
            return Path(self.folder, self.options[name]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise ConfigurationError(
                f"the file {self.options[name]!r} cannot be read.", parameter=name
            ) from None


def secret_value(options: Options, name: str, folder: Path) -> str | None:
    """What an environment variable (NAME_env) or a file (NAME_file) holds; None where neither is
    named.
    """
    variable, file = options.get(f"{name}_env"), options.get(f"{name}_file")
    if variable:
        value = os.environ.get(variable)
        if not value:
            raise ConfigurationError(
                f"the environment variable {variable} is not set: it must hold the {name}."
            )
        return value
    if file:
        check_secret_file(Path(folder, file), name)
        try:
            value = Path(folder, file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise ConfigurationError(
                f"the file {file!r} for the {name} cannot be read: {reason}."
            ) from None
        if not value:
            raise ConfigurationError(f"the file {file!r} is empty: it must hold the {name}.")
        return value
    return None


K = TypeVar("K", bound=EndpointKind)


@dataclass(frozen=True)
class KindRegistry(Generic[K]):
    """All kinds of sources, or of sinks.

    Ours are the `KIND` of every module in one package. Another package adds one by an entry point,
    `name = "module:KIND"`. A plug-in cannot take one of our names, and nothing of it is imported
    before somebody asks for its name.
    """

    noun: str
    package: str
    group: str
    cls: type[K]

    @cached_property
    def own(self) -> dict[str, K]:
        """Our kinds, by name."""
        folder = import_module(self.package).__path__
        names = sorted(info.name for info in pkgutil.iter_modules(folder))
        modules = (import_module(f"{self.package}.{name}") for name in names)
        kinds = (vars(module).get("KIND") for module in modules)
        return {kind.name: kind for kind in kinds if isinstance(kind, self.cls)}

    @property
    def names(self) -> tuple[str, ...]:
        """All names, ours first, then those of plug-ins."""
        others = (plugin.name for plugin in plugins(self.group))
        return tuple(dict.fromkeys((*self.own, *others)))

    def find(self, name: str) -> K:
        """The kind of this name, of ours or of a plug-in, or of this path (`module:KIND`)."""
        if name in self.own:
            return self.own[name]
        if ":" in name:
            return self._checked(imported(name), repr(name))
        plugin = plugged(self.group, name)
        if plugin is None:
            raise ConfigurationError(
                f"there is no {self.noun} {name!r}: use {', '.join(self.names)}.", parameter="kind"
            )
        found = self._checked(plugin.load(), str(plugin))
        if found.name != name:
            raise ConfigurationError(
                f"{plugin} calls itself {found.name!r}: write name={name!r} in its declaration."
            )
        return found

    def _checked(self, found: object, what: str) -> K:
        if not isinstance(found, self.cls):
            raise ConfigurationError(f"{what} is not a {self.cls.__name__}.")
        return found

    def table(self) -> list[dict[str, Any]]:
        """What is known of every kind, as plain data. An unusable plug-in has a `problem`."""
        rows = [self._row(kind, "penstock", None) for kind in self.own.values()]
        for plugin in plugins(self.group):
            problem = kind = None
            try:
                if plugin.name in self.own:
                    raise ConfigurationError(
                        f"{plugin} is not used: {plugin.name!r} is a {self.noun} of Penstock's own."
                    )
                kind = self.find(plugin.name)
            except ConfigurationError as error:
                problem = str(error)
            rows.append({**self._row(kind, plugin.package, problem), "name": plugin.name})
        return rows

    def describe(self, kind: K) -> dict[str, Any]:
        """What is known of one kind, as plain data."""
        owner = "penstock" if self.own.get(kind.name) is kind else None
        offered = (plugin.package for plugin in plugins(self.group) if plugin.name == kind.name)
        return self._row(kind, owner or next(offered, None), None)

    def _row(self, kind: K | None, package: str | None, problem: str | None) -> dict[str, Any]:
        options = [
            {
                "keys": list(option.keys),
                "type": option.type,
                "default": option.default,
                "required": option.required,
                "example": option.shown,
                "choices": list(option.choices),
                "when": list(option.when) if option.when else None,
                "help": option.help,
            }
            for option in (kind.options if kind else ())
        ]
        return {
            "name": kind.name if kind else None,
            "summary": kind.summary if kind else None,
            "extra": kind.extra if kind else None,
            "options": options,
            "package": package,
            "problem": problem,
        }
