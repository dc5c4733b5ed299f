"""The tables of a TOML file with the line of every key, and checked access to them.

A value that cannot be used is noted as a `Problem`, and reading goes on. So all mistakes of a file
are reported together.
"""

from __future__ import annotations

import bisect
import difflib
import errno
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from penstock.core.declaration import Option
from penstock.core.errors import ConfigurationError, PenstockError
from penstock.core.files import cannot

KeyPath: TypeAlias = tuple[str | int, ...]
"""How a value is reached: names of tables and keys, and places in arrays."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_PLAIN_VALUE = re.compile(r"[^,\]}#\n]+")
_WHERE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_ISSUED = re.compile(
    r"gh[pousr]_|github_pat_|glpat-|sk-[\w-]{16}|xox[abeprs]-|AKIA[A-Z0-9]{12}|"
    r"eyJ[\w-]+\.|-----BEGIN "
)
_LOGIN = re.compile(r"[^\s:/@]+:[^\s/@]+@")
_RUN = re.compile(r"[A-Za-z0-9+=]{24,}")
_ADDRESS = re.compile(r"(?:[^\s:/@]+|\[[0-9a-fA-F:]+\]):([0-9]{1,5})")
_TELLING = re.compile(r"token|password|secret|key|signature|sig|auth", re.IGNORECASE)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET_NAME = re.compile(
    r"token|password|passphrase|passwd|secret|credential|api_?key", re.IGNORECASE
)

ELSEWHERE = "put it into an environment variable or a file of its own, and name that here"


@dataclass(frozen=True)
class Problem:
    """What is wrong with one key, without the value where that might be a secret."""

    path: KeyPath
    message: str
    line: int | None = None


class InvalidConfigurationError(ConfigurationError):
    """A configuration that cannot be used: everything that is wrong with it, at once."""

    def __init__(self, name: str, problems: Iterable[Problem]) -> None:
        self.name = name
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line or 0))
        shown = [_told(name, problem) for problem in self.problems]
        many = (
            f"{name or 'this configuration'} has {len(shown)} mistakes:\n" if len(shown) > 1 else ""
        )
        super().__init__(many + "\n".join(shown))


def _told(name: str, problem: Problem) -> str:
    where = f"{name}:{problem.line}" if problem.line else name
    return ": ".join(part for part in (where, dotted(problem.path), problem.message) if part)


def dotted(path: KeyPath) -> str:
    """A path as a person writes it; places in arrays count from 1.

    >>> dotted(("sink", 0, "path")), dotted(("domain", "hierarchy", "room 1"))
    ('sink[1].path', 'domain.hierarchy."room 1"')
    """
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part + 1}]"
        else:
            shown = (
                part
                if _BARE.fullmatch(part)
                else '"' + part.replace("\\", "\\\\").replace('"', '\\"') + '"'
            )
            text += f".{shown}" if text else shown
    return text


@dataclass(frozen=True)
class Document:
    """What a file says, and where. A configuration from Python has no name and no lines."""

    content: Mapping[str, Any] = field(repr=False)
    lines: Mapping[KeyPath, int] = field(default_factory=dict, repr=False)
    name: str = ""

    def line(self, path: KeyPath) -> int | None:
        """The line of a key, or of the innermost table around it that the file names; 1 for what is
        nowhere in it.
        """
        if not self.name:
            return None
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read(path: str | os.PathLike[str]) -> Document:
    """A file's content. What is no UTF-8 or no TOML is an error that names the line."""
    name = os.fspath(path)
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        hint = " penstock init writes a configuration." if error.errno == errno.ENOENT else ""
        raise ConfigurationError(cannot("read", path, error) + hint) from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        problem = Problem((), "this is not UTF-8: save the file as UTF-8.", line)
        raise InvalidConfigurationError(name, [problem]) from None
    return parse(text, name=name)


def parse(text: str, *, name: str) -> Document:
    """A text's content. Numbers with a decimal point come as `Decimal`, so that they can be shown
    as they were written.

    >>> found = parse('[stream]\\nevery = "1h"\\n\\n[[sink]]\\nkind = "jsonl"', name="taps.toml")
    >>> [found.line(path) for path in (("stream", "every"), ("sink", 0, "kind"), ("sink", 0))]
    [2, 5, 4]
    """
    text = text.replace("\r\n", "\n")
    try:
        return Document(tomllib.loads(text, parse_float=Decimal), _Scan(text).lines(), name)
    except tomllib.TOMLDecodeError as error:
        found = _WHERE.search(str(error))
        line = int(found[1]) if found and found[1] else text.count("\n") + 1
        message = f"this is not TOML: {_WHERE.sub('', str(error))}. {_advice(text, line)}"
        raise InvalidConfigurationError(name, [Problem((), message, line)]) from None
    except RecursionError:
        raise InvalidConfigurationError(
            name, [Problem((), "this is nested too deeply.", 1)]
        ) from None


def _advice(text: str, line: int) -> str:
    """What to write in a line that is not TOML. Values are not shown: they may be secrets."""
    lines = text.split("\n")
    wrong = lines[line - 1].strip() if line <= len(lines) else ""
    if wrong.startswith("["):
        return "A table begins with its name in brackets, as in [stream] or [[sink]]."
    key, equals, _ = wrong.partition("=")
    if equals and _BARE.fullmatch(key.strip()):
        key = key.strip()
        return (
            f'Write {key} = "…" with quotes for a text, {key} = 24 for a number, or '
            f'{key} = ["…", "…"] for several texts.'
        )
    return 'A line is a table such as [stream], a key such as name = "taps", or a # comment.'


class _Scan:
    """Where the keys of a text are that is known to be valid TOML."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found: dict[KeyPath, int] = {}
        self.entries: dict[KeyPath, int] = {}  # of arrays of tables, how many there were so far
        self.ends = [place for place, letter in enumerate(text) if letter == "\n"]

    def lines(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        while self.skip():
            start = self.at
            if self.text.startswith("[[", start):
                self.at += 2
                *above, last = self.key()
                array = (*self.inside((), above), last)
                self.entries[array] = self.entries.get(array, 0) + 1
                table = (*array, self.entries[array] - 1)
                self.note(table, start)
                self.skip()
                self.at += 2
            elif self.text[start] == "[":
                self.at += 1
                table = self.inside((), self.key())
                self.note(table, start)
                self.skip()
                self.at += 1
            else:
                self.pair(table)
        return self.found

    def inside(self, table: KeyPath, names: Sequence[str]) -> KeyPath:
        """The path of these names, through the latest entry of every array of tables on the way."""
        for name in names:
            table = (*table, name)
            if table in self.entries:
                table = (*table, self.entries[table] - 1)
        return table

    def note(self, path: KeyPath, at: int) -> None:
        """The first mention counts, also of the tables around it."""
        line = bisect.bisect_left(self.ends, at) + 1
        while path and path not in self.found:
            self.found[path] = line
            path = path[:-1]

    def skip(self) -> bool:
        """On to what is no space, line end or comment; whether there is anything."""
        while self.at < len(self.text):
            if self.text[self.at] == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif self.text[self.at] not in " \t\n":
                return True
            else:
                self.at += 1
        return False

    def key(self) -> list[str]:
        names = []
        while True:
            self.skip()
            if self.text[self.at] in "\"'":
                start = self.at
                self.string()
                names.append(str(tomllib.loads(f"key = {self.text[start : self.at]}")["key"]))
            else:
                bare = _BARE.match(self.text, self.at)
                assert bare is not None
                names.append(bare[0])
                self.at = bare.end()
            self.skip()
            if self.text[self.at] != ".":
                return names
            self.at += 1

    def pair(self, table: KeyPath) -> None:
        start = self.at
        path = (*table, *self.key())
        self.note(path, start)
        self.at += 1  # the equals sign
        self.value(path)

    def value(self, path: KeyPath) -> None:
        self.skip()
        first = self.text[self.at]
        if first in "\"'":
            self.string()
        elif first == "[":
            self.several(path, "]")
        elif first == "{":
            self.several(path, "}")
        else:
            plain = _PLAIN_VALUE.match(self.text, self.at)
            assert plain is not None
            self.at = plain.end()

    def several(self, path: KeyPath, end: str) -> None:
        """The values of an array, or the pairs of an inline table."""
        self.at += 1
        place = 0
        while self.skip() and self.text[self.at] != end:
            if self.text[self.at] == ",":
                self.at += 1
                place += 1
            elif end == "}":
                self.pair(path)
            else:
                self.note((*path, place), self.at)
                self.value((*path, place))
        self.at += 1

    def string(self) -> None:
        mark = self.text[self.at]
        if self.text.startswith(mark * 3, self.at):
            self.at += 3
            while not self.text.startswith(mark * 3, self.at):
                self.at += 2 if mark == '"' and self.text[self.at] == "\\" else 1
            self.at += 3
            while self.text.startswith(mark, self.at):  # up to two more belong to the string
                self.at += 1
        else:
            self.at += 1
            while self.text[self.at] != mark:
                self.at += 2 if mark == '"' and self.text[self.at] == "\\" else 1
            self.at += 1


# -- checked access --------------------------------------------------------------------------------


def nearest(word: str, accepted: Iterable[str]) -> str:
    """`did you mean …?`, or nothing.

    >>> nearest("epsilom", ["epsilon", "window"])
    ' Did you mean epsilon?'
    """
    close = difflib.get_close_matches(word, list(accepted), n=1, cutoff=0.6)
    return f" Did you mean {close[0]}?" if close else ""


def secret(text: str) -> bool:
    """Whether this looks like a token, a key or a password: as issuers begin theirs,
    user:password@, or letters among digits.

    >>> secret("ghp_abc"), secret("gateway-of-the-2nd-floor"), secret("9f86d081884c7d659a2feaa0c55")
    (True, False, True)
    """
    if _ISSUED.match(text) or _LOGIN.search(text):
        return True
    return any(len(re.findall(r"(?<=\d)\D|(?<=\D)\d", run)) >= 5 for run in _RUN.findall(text))


def shown(value: object) -> str:
    """A value in a message: short, and never one that may be a secret."""
    if isinstance(value, str) and secret(value):
        return "what looks like a secret"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int, Decimal, float, Fraction)):
        text = f'"{value}"' if isinstance(value, str) else str(value)
        return text if len(text) <= 60 else f"{text[:57]}…"
    if isinstance(value, Mapping):
        return "a table"
    return "an array" if isinstance(value, (list, tuple)) else type(value).__name__


@dataclass(repr=False)
class Section:
    """One table of a document. Each reader takes one key; what it cannot take is noted, and
    something harmless comes back.
    """

    document: Document
    path: KeyPath
    content: Mapping[str, Any]
    problems: list[Problem]
    taken: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.content = {
            name: value for name, value in self.content.items() if value is not None
        }  # Python's None: not there

    @classmethod
    def of(cls, document: Document) -> Section:
        """The whole document."""
        return cls(document, (), document.content, [])

    def __contains__(self, name: str | None) -> bool:
        return name in self.content

    def wrong(self, name: str | None, message: str, *more: str | int) -> None:
        """Note what is wrong with a key, or with the table itself."""
        path = self.path if name is None else (*self.path, name, *more)
        self.problems.append(Problem(path, message, self.document.line(path)))

    @property
    def faulty(self) -> bool:
        """Whether anything in this table was noted."""
        return any(problem.path[: len(self.path)] == self.path for problem in self.problems)

    def take(self, name: str, default: Any = None) -> Any:
        """A value of any type."""
        self.taken.add(name)
        return self.content.get(name, default)

    def missing(self, name: str, accepted: str) -> None:
        self.wrong(None, f"{name} is missing: {accepted}.")

    def text(
        self, name: str, default: str | None = None, *, example: str = "", among: Sequence[str] = ()
    ) -> str:
        """A text that is not empty; without a default it must be there."""
        hint = f"use {', '.join(among)}" if among else f'write a text such as {name} = "{example}"'
        value = self.take(name)
        if value is None:
            if default is None:
                self.missing(name, hint)
            return default or ""
        if not isinstance(value, str) or not value:
            self.wrong(name, f"must be a text, not {shown(value)}: {hint}.")
        elif among and value not in among:
            self.wrong(name, f"{shown(value)} is not known: {hint}.{nearest(value, among)}")
        else:
            return value
        return default or ""

    def texts(self, name: str, *, example: str) -> tuple[str, ...]:
        """One text or several; empty if the key is not there."""
        value = self.take(name, ())
        values = (value,) if isinstance(value, str) else value
        if not isinstance(values, (list, tuple)) or not all(
            isinstance(each, str) and each for each in values
        ):
            self.wrong(
                name,
                f'must be a text or an array of texts, such as {name} = "{example}", '
                f"not {shown(value)}.",
            )
            return ()
        if name in self.content and not values:
            self.wrong(name, f'must not be empty: write {name} = "{example}".')
        return tuple(values)

    def whole(self, name: str, default: int, *, least: int, most: int | None = None) -> int:
        value = self.take(name, default)
        if (
            isinstance(value, bool)
            or not isinstance(value, int)
            or value < least
            or (most is not None and value > most)
        ):
            upto = "" if most is None else f" and at most {most}"
            self.wrong(
                name, f"must be a whole number of at least {least}{upto}, not {shown(value)}."
            )
            return default
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self.take(name, default)
        if not isinstance(value, bool):
            self.wrong(name, f"must be true or false, not {shown(value)}.")
            return default
        return value

    def exactly(self, name: str) -> bool:
        """Whether a value is an exact number; one with a decimal point is refused with what to
        write instead.
        """
        value = self.take(name)
        if isinstance(value, (float, Decimal)):
            text = str(value)
            hint = (
                f' Write {name} = "{text}".'
                if text.strip("-+").lower()[:3] not in ("inf", "nan")
                else ""
            )
            self.wrong(
                name,
                f"{text} is a floating-point number, and such a number is not exactly what it "
                f"shows.{hint}",
            )
            return False
        return True

    def variable(self, name: str) -> str | None:
        """The name of an environment variable. The value is never shown: it may be the secret."""
        value = self.take(name)
        if value is None:
            return None
        if not isinstance(value, str) or not _VARIABLE.fullmatch(value) or secret(value):
            self.wrong(
                name,
                f"must be the name of an environment variable, such as "
                f'{name} = "PENSTOCK_SECRET", never its value.',
            )
            return None
        return value

    def option(self, option: Option) -> dict[str, Any]:
        """The value of a declared option by key: None for a missing one, and nothing for a missing
        secret.
        """
        if len(option.keys) == 1 and option.type != "variable":
            return {option.name: self._value(option)}
        found = {}
        for key in option.keys:
            if key.endswith("_env"):
                value = self.variable(key)
            elif key.endswith("_file"):
                value = self.text(key, example=f"secrets/{option.name}") if key in self else None
            else:
                value = self._url(option)
            self.take(key)
            if value is not None:
                found[key] = value
        self.at_most_one(*option.keys)
        if option.required and not any(key in self for key in option.keys):
            self.missing(" or ".join(option.keys), f"use one of {', '.join(option.keys)}")
        return found

    def options(self, declared: Iterable[Option]) -> dict[str, Any]:
        """The values of all declared options that apply."""
        every = tuple(declared)
        other = {each.instead_of: each.name for each in every if each.instead_of}
        found: dict[str, Any] = {}
        for option in every:
            if option.applies(found):
                replaced = other.get(option.name) in self
                found |= self.option(replace(option, required=False) if replaced else option)
        for name, instead in other.items():
            self.at_most_one(name, instead)
        return found

    def _value(self, option: Option) -> Any:
        name = option.name
        if name not in self and not option.required:
            return self.take(name, option.default)
        if option.type == "flag":
            return self.flag(name, option.default)
        if option.type == "whole":
            return self.whole(name, option.default, least=1)
        if option.several:
            values = self.texts(name, example=str(option.shown))
            if name not in self:
                self.missing(name, f'write one text or several, such as {name} = "{option.shown}"')
        else:
            values = (self.text(name, example=str(option.shown), among=option.choices),)
        if option.type == "address":
            for value in filter(None, values):
                self._address(name, value, str(option.shown))
        return values if option.several else values[0] or option.default

    def _address(self, name: str, value: str, example: str) -> None:
        found = _ADDRESS.fullmatch(value)
        if found is None or int(found[1]) >= 2**16:
            self.wrong(name, f'must be a host and a port, such as "{example}", not {shown(value)}.')

    def _url(self, option: Option) -> str | None:
        """An address without anything secret in it: such an address is named by NAME_env."""
        name = option.name
        if name not in self:
            return None
        value = self.text(name, example=option.shown)
        try:
            parts = urlsplit(value)
            telling = parts.password is not None or any(
                _TELLING.search(each) for each, _ in parse_qsl(parts.query, True)
            )
        except ValueError:
            self.wrong(name, f"must be an address, such as {option.shown}.")
            return None
        if telling or secret(value):
            self.wrong(
                name,
                f"has a secret in it, and no secret belongs in this file: {ELSEWHERE} "
                f"({name}_env).",
            )
        elif value and not (parts.scheme and (parts.netloc or parts.path)):
            self.wrong(name, f"must be an address, such as {option.shown}.")
        elif value and option.prefixes and not value.startswith(option.prefixes):
            self.wrong(name, f"must begin with {' or '.join(option.prefixes)}.")
        return value

    def at_most_one(self, *names: str) -> None:
        """Note the second of these keys if two are there."""
        given = [name for name in names if name in self]
        if len(given) > 1:
            self.wrong(given[1], f"cannot stand beside {given[0]}: use one of {', '.join(names)}.")

    def refuse(self, error: PenstockError, *, at: str | None = None) -> None:
        """Note an error of another part, at the key that is its parameter or at `at`."""
        name = error.parameter if isinstance(error, ConfigurationError) else None
        message = str(error) if name is None else str(error).removeprefix(f"{name} ")
        name = at or name
        tables = ((key, part) for key, part in self.content.items() if isinstance(part, Mapping))
        inner = next((key for key, part in tables if name is not None and name in part), None)
        if name is None or (name not in self and inner is None):
            self.wrong(None, str(error))
        elif name in self:
            self.wrong(name, message)
        else:
            self.wrong(inner, message, name)

    def table(self, name: str) -> Section:
        """A table inside this one; empty if it is not there."""
        value = self.take(name, {})
        if not isinstance(value, Mapping):
            self.wrong(name, f"must be a table [{dotted((*self.path, name))}], not {shown(value)}.")
            value = {}
        return Section(self.document, (*self.path, name), value, self.problems)

    def tables(self, name: str) -> list[Section]:
        """The tables of an array of them."""
        value = self.take(name, [])
        if not isinstance(value, (list, tuple)) or not all(
            isinstance(each, Mapping) for each in value
        ):
            self.wrong(name, f"must be tables, each headed [[{name}]], not {shown(value)}.")
            return []
        return [
            Section(self.document, (*self.path, name, place), each, self.problems)
            for place, each in enumerate(value)
        ]

    def close(self, *more: str) -> None:
        """Note every key that nobody took. `more` are accepted, too, and were not asked for."""
        accepted = sorted({*self.taken, *more})
        for name in self.content:
            if name in self.taken or name in more:
                continue
            if not isinstance(name, str):
                self.wrong(None, f"the names of keys must be texts, not {shown(name)}.")
            elif _SECRET_NAME.search(name):
                instead = [each for each in accepted if each.endswith(("_env", "_file"))]
                use = f" ({', '.join(instead)})" if instead else ""
                self.wrong(
                    name, f"is not known, and no secret belongs in this file: {ELSEWHERE}{use}."
                )
            else:
                self.wrong(
                    name, f"is not known here: use {', '.join(accepted)}.{nearest(name, accepted)}"
                )


def secrets_in(value: object, path: KeyPath = ()) -> Iterable[KeyPath]:
    """Where a text looks like a secret."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from secrets_in(each, (*path, str(name)))
    elif isinstance(value, (list, tuple)):
        for place, each in enumerate(value):
            yield from secrets_in(each, (*path, place))
    elif isinstance(value, str) and secret(value):
        yield path
