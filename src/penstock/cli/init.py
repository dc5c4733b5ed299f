"""`penstock init`."""

from __future__ import annotations

import copy
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from cyclopts import Parameter, Token
from rich.console import Console
from rich.text import Text

from penstock.cli.check import show as show_check
from penstock.cli.completers import COLUMNS, ColumnName, MechanismOrAuto, SourceName, ZoneName
from penstock.cli.options import Flag
from penstock.cli.store_argument import is_address, read_pipeline
from penstock.core.declaration import Option
from penstock.core.errors import ConfigurationError
from penstock.engine.config_sections import InvalidConfigurationError, nearest
from penstock.engine.config_text import configuration, meaning
from penstock.engine.pipeline import AUTO, Pipeline
from penstock.engine.pipeline import options as tables
from penstock.engine.pipeline.key_files import TABLE_SUFFIXES, only_column
from penstock.private.mechanisms import registry
from penstock.private.sources.base import SourceKind
from penstock.private.sources.registry import SOURCES, kind_of_file
from penstock.private.sources.schema import Guess, first_file, guess
from penstock.released.sinks.registry import SINKS

NONE = "-"
"""The answer that leaves something out."""

DELTA = "1/1000000"

Content: TypeAlias = dict[str, Any]

_OPTION = "option "
_SOURCE_FLAGS = ("source", "topic", "growing")
"""Options on the command line that only some kinds of sources have."""

_COLUMN_FLAGS = ("time", "key", "person")
"""Options on the command line that name columns."""

_YES = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}

_START: Content = {
    "stream": {"name": "stream", "every": "1h", "zone": "UTC", "origin": "2026-01-01"},
    "source": {"kind": "stdin", "time": "time", "key": "key"},
    "domain": {"keys": ["key"]},
    "privacy": {"mechanism": "ba", "epsilon": "1", "window": 24, "contribution": 1},
    "plan": {},
    "store": {},
}
"""A valid configuration: whatever is wrong after an answer is wrong with that answer."""


def _omittable(_: type, tokens: Sequence[Token]) -> str:
    if tokens[0].value.startswith("--"):
        raise ValueError(
            f"an answer is needed before {tokens[0].value}: write {NONE} to leave it out."
        )
    return tokens[0].value


Omittable: TypeAlias = Annotated[
    str | None, Parameter(allow_leading_hyphen=True, converter=_omittable)
]
"""An option that also takes `-`."""


def init(
    file: Path = Path("pipeline.toml"),
    /,
    *,
    yes: Flag = False,
    data: Annotated[str | None, Parameter(name="--from")] = None,
    name: str | None = None,
    kind: SourceName = None,
    source: str | None = None,
    topic: str | None = None,
    growing: Flag = False,
    option: Annotated[tuple[str, ...], Parameter(name="--option")] = (),
    time: ColumnName = None,
    clock: str | None = None,
    key: ColumnName = None,
    person: Annotated[Omittable, COLUMNS] = None,
    every: str | None = None,
    zone: ZoneName = None,
    origin: str | None = None,
    until: Omittable = None,
    lateness: Omittable = None,
    keys: Annotated[str | None, Parameter(name="--keys")] = None,
    domain_file: str | None = None,
    other: Omittable = None,
    mechanism: MechanismOrAuto = None,
    typical: Omittable = None,
    seasons: Omittable = None,
    stock: Flag = False,
    epsilon: str | None = None,
    delta: str | None = None,
    window: str | None = None,
    contribution: str | None = None,
    store: str | None = None,
    head: Omittable = None,
    sink: Omittable = None,
) -> None:
    """Write the configuration of a pipeline, question by question. Each answer is checked at once.

    An option that is given is not asked for; with --yes nothing is asked. Of a file of events only
    the names and types of its columns are read, never a value. An existing file is never
    overwritten.

    For example:

    * penstock init

    * penstock init taps.toml --from taps.parquet --keys stations.txt

    * penstock init taps.toml --source "taps/*.parquet" --every 1h

    * penstock init taps.toml --yes --name taps --source taps.csv --time tapped_at --key station
      --person card --every 1h --origin 2026-01-01 --keys "Airport,Central,Harbour" --mechanism ba
      --epsilon 1 --window 1d --contribution 2

    Parameters
    ----------
    file
        The file to write.
    yes
        Ask nothing: take the default for everything that is not given.
    data
        A file of events that is there now (CSV with a header, Parquet or Arrow), or a pattern.
        Columns are proposed for time, key and person by their names and types.
    name
        The name of the stream.
    kind
        The kind of source: one of those that penstock sources lists.
    source
        The file or pattern, the address to listen at, or the servers. A file may come later.
    topic
        The topic of Kafka or MQTT.
    growing
        More files, or more lines in them, will come.
    option
        Another option of the source, as NAME=VALUE. May be repeated.
    time
        The column of times.
    clock
        How times are written: iso, seconds, milliseconds or microseconds.
    key
        The column of keys.
    person
        The column of persons; - for none.
    every
        The length of a unit: a number and s, min, h, d, w or mo.
    zone
        The time zone in which days begin.
    origin
        The beginning of the first unit.
    until
        The end of a finite input. Standard input without it is live.
    lateness
        How long after its end a live unit closes, such as 10min; - for at once.
    keys
        The keys, with commas between them, or a public file of keys: one per line, or a column,
        as in zones.csv:zone or zones.parquet:zone.
    domain_file
        A public file of keys, as in --keys.
    other
        The key that counts all others; - drops them.
    mechanism
        One of those that penstock mechanisms lists, or auto: what penstock plan recommends.
    typical
        For auto: the mean count of a key in a unit, as far as it is publicly known; - if unknown.
    seasons
        For auto: durations after which the stream looks similar again, such as 1d,7d; - for none.
    stock
        For auto: counts are what is present in a unit, such as docked bikes, and not events.
    epsilon
        The budget of a window, exact: 1, 0.5 or 1/3.
    delta
        The delta of the promise, such as 1e-6: noise is then Gaussian. Default: none, but
        1/1000000 for mechanisms that always have one.
    window
        The time in which a person is protected: units, or a duration such as 1d.
    contribution
        The most events of one person that count in one unit.
    store
        The file of the store, or postgresql://… without a password.
    head
        The head file, on another disk; - for none.
    sink
        A folder for releases as Parquet, or a file ending in .jsonl; - for none.
    """
    given = {each: value for each, value in locals().items() if isinstance(value, str)}
    given |= {flag: "yes" for flag, set_ in (("growing", growing), ("stock", stock)) if set_}
    if file.exists():
        raise _exists(file)
    if not file.parent.is_dir():
        raise ConfigurationError(
            f"there is no folder {file.parent.absolute()}. Make it, or name another place."
        )
    answers = _answers(given, option, file)
    dialogue = InitDialogue(Console(), file, answers, asks=not yes, reads_schema=data is not None)
    text = configuration(dialogue.all_answered())
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        raise _exists(file) from None
    dialogue.say(f"Wrote {file}.\n", "bold green")
    show_check(read_pipeline(file))
    name = shlex.quote(str(file))
    if SOURCES.find(dialogue.content["source"]["kind"]).suffixes:
        dialogue.say(f"\nTry whether the source can be read: penstock run --dry {name}", "bold")
    dialogue.say(f"Next: penstock run {name}", "bold")


def _answers(given: Mapping[str, str], more: Sequence[str], file: Path) -> dict[str, str]:
    """The answers that options on the command line hold, by flag."""
    answers = dict(given)
    for one, other in (("keys", "domain_file"), ("data", "source")):
        if one in given and other in given:
            names = {"data": "from", "domain_file": "domain-file"}
            both = (f"--{names.get(each, each)}" for each in (one, other))
            raise ConfigurationError(f"either {' or '.join(both)}, not both.")
    if "domain_file" in answers:
        answers["keys"] = f"@{answers.pop('domain_file')}"
    if "data" in answers:
        answers["source"] = _events_file(answers.pop("data"), file)
    if "kind" not in answers and (found := kind_of_file(answers.get("source", ""))) is not None:
        answers["kind"] = found
    if "data" in given and "kind" not in answers:
        raise ConfigurationError(
            f"--from: {Path(given['data']).absolute()} ends in none of {', '.join(_suffixes())}. "
            "Choose how it is read with --kind, or convert it to Parquet."
        )
    for each in more:
        name, equals, value = each.partition("=")
        if not equals:
            raise ConfigurationError(f"--option must be NAME=VALUE, not {each!r}.")
        answers[_OPTION + name] = value
    return answers


def _events_file(data: str, file: Path) -> str:
    """The file or pattern of `--from`, as it is written into a configuration."""
    if data.endswith((".jsonl", ".ndjson")):
        raise ConfigurationError(
            f"--from: {Path(data).absolute()} has no schema: JSON lines name fields beside values. "
            "Use --source, and name the columns with --time, --key and --person."
        )
    if first_file(Path(), data) is None:
        raise ConfigurationError(
            f"--from: there is no file {Path(data).absolute()}. Name a file that is there, or use "
            "--source for one that comes later."
        )
    return _from_folder(data, file)


def _from_folder(path: str, file: Path) -> str:
    """A path that starts from the current folder, as one that starts from that of the file."""
    return path if Path(path).is_absolute() else os.path.relpath(path, file.parent)


def _suffixes() -> list[str]:
    """The endings of files that sources read."""
    return [suffix for kind in SOURCES.own.values() for suffix in kind.suffixes]


def _exists(file: Path) -> ConfigurationError:
    return ConfigurationError(
        f"{file.absolute()} exists already, and is not overwritten: choose another name."
    )


@dataclass(frozen=True, kw_only=True)
class InitQuestion:
    """One key of the configuration: how it is asked for, and where the answer goes."""

    table: str
    key: str
    explanation: str
    default: Callable[[InitDialogue], str | None]
    put: Callable[[Content, str], None]
    flag: str
    """The option on the command line that holds the answer."""
    when: Callable[[Content], bool] = lambda _: True


class InitDialogue:
    """The answers so far, and how to get the next one."""

    def __init__(
        self,
        console: Console,
        file: Path,
        given: Mapping[str, str],
        *,
        asks: bool,
        reads_schema: bool,
    ) -> None:
        self.console = console
        self.file = file
        self.given = given
        self.asks = asks
        self.content: Content = copy.deepcopy(_START)
        self.guess = Guess()
        self.reads_schema = reads_schema

    def say(self, text: str, style: str = "") -> None:
        """Print a paragraph."""
        self.console.print(Text(text, style), soft_wrap=True)

    def all_answered(self) -> Content:
        """The configuration, when everything is answered."""
        for question in _questions(self):
            if question.when(self.content):
                self._answer(question)
            else:
                self.refuse(question.flag)
        self.content["source"] |= self.guess.types(self.content["source"])
        Pipeline.of(self.content, folder=self.file.parent)
        return self.content

    def refuse(self, *flags: str) -> None:
        """Refuse options on the command line that do not apply to the answers so far."""
        for flag in flags:
            if flag in self.given:
                source, privacy = self.content["source"], self.content["privacy"]
                raise ConfigurationError(
                    f"--{flag} means nothing here: the source is {source['kind']}, and the "
                    f"mechanism {privacy['mechanism']}."
                )

    def _answer(self, question: InitQuestion) -> None:
        given, default = self.given.get(question.flag), question.default(self)
        if given is not None or not self.asks:
            answer = default if given is None else given
            wrong = (
                f"{question.explanation}{self._columns_in_words(question)}"
                if answer is None
                else self._take(question, answer)
            )
            if wrong:
                needed = " is needed" if given is None else ""
                raise ConfigurationError(f"--{question.flag}{needed}: {wrong}")
            return
        self.say(question.explanation, "dim")
        while True:
            answer = self._heard(question, default)
            wrong = self._take(question, answer) if answer else "an answer is needed."
            if not wrong:
                self.console.print()
                return
            self.say(wrong, "red")

    def _heard(self, question: InitQuestion, default: str | None) -> str:
        shown = "" if default is None else f" [{default}]"
        try:
            prompt = Text(f"[{question.table}] {question.key}{shown}: ", "bold")
            return self.console.input(prompt).strip() or (default or "")
        except (EOFError, KeyboardInterrupt):
            self.console.print()
            raise ConfigurationError(
                "the questions were not all answered. Nothing was written."
            ) from None

    def _take(self, question: InitQuestion, answer: str) -> str:
        """Put the answer into the configuration if that is still valid; else say why not."""
        content = copy.deepcopy(self.content)
        if wrong := self._missing_column(question, answer):
            return wrong
        try:
            question.put(content, answer)
            Pipeline.of(content, folder=self.file.parent)
        except InvalidConfigurationError as error:
            return " ".join(dict.fromkeys(problem.message for problem in error.problems))
        except ConfigurationError as error:
            return str(error)
        self.content = content
        return ""

    def look(self) -> None:
        """Read the names of the columns, if there is a file."""
        source = self.content["source"]
        columns = SOURCES.find(source["kind"]).column_types
        if columns is None:
            return
        self.guess = guess(columns, self.file.parent, source["path"])
        where = (self.file.parent / source["path"]).absolute()
        if self.reads_schema and not self.guess.names:
            raise ConfigurationError(
                f"--from: the columns of {where} cannot be read: it is not a {source['kind']} "
                "file, or its first line does not name them. Use --source, and name the columns "
                "with --time, --key and --person."
            )
        if self.asks and self.guess.names:
            listed = ", ".join(
                name if self.guess.kinds[name] == "other" else f"{name} ({self.guess.kinds[name]})"
                for name in self.guess.names
            )
            unread = " No value was read." if self.reads_schema else ""
            self.say(f"Its columns: {listed}.{unread}\n")
        elif self.asks:
            self.say("The names of its columns cannot be seen: no such file yet, or no names.\n")

    def _missing_column(self, question: InitQuestion, answer: str) -> str:
        """Say that the file has no such column, if its columns are known."""
        names = self.guess.names
        if not names or question.flag not in _COLUMN_FLAGS or answer == NONE:
            return ""
        missing = [each for each in _listed(answer) if each not in names and answer not in names]
        if not missing:
            return ""
        return (
            f"the source has no column {missing[0]!r}.{nearest(missing[0], names)}"
            f"{self._columns_in_words(question)}"
        )

    def _columns_in_words(self, question: InitQuestion) -> str:
        if not self.guess.names or question.flag not in _COLUMN_FLAGS:
            return ""
        return f" Its columns: {', '.join(self.guess.names)}."


# -- the questions ---------------------------------------------------------------------------------


def _questions(dialogue: InitDialogue) -> Iterator[InitQuestion]:
    """All questions in order. Those about the source depend on its kind."""
    stem = dialogue.file.stem
    yield _ask("stream", tables.STREAM, "name", "stream" if stem == "pipeline" else stem)
    kinds = Option(name="kind", choices=SOURCES.names, help="the kind of source")
    yield _ask("source", (kinds,), "kind", "parquet", put=_put_kind(dialogue.given))
    source = dialogue.content["source"]
    declared = SOURCES.find(source["kind"])
    asked = [option for option in declared.asked if option.applies(_values(declared, source))]
    flags = ["source" if place == 0 else option.name for place, option in enumerate(asked)]
    replaced = _replaced(declared, source)
    flags = [flag for flag, option in zip(flags, asked, strict=True) if option.name not in replaced]
    asked = [option for option in asked if option.name not in replaced]
    dialogue.refuse(*(flag for flag in _SOURCE_FLAGS if flag not in flags))
    for option, flag in zip(asked, flags, strict=True):
        yield _ask("source", asked, option.name, _shown(option, source), flag=flag)
        if flag == "source":
            dialogue.look()
    found = dialogue.guess
    known = bool(found.names)
    yield _ask("source", tables.COLUMNS, "time", found.time or (None if known else "time"))
    clock = found.clock(dialogue.content["source"])
    yield _ask("source", tables.COLUMNS, "clock", clock)
    yield _ask("source", tables.COLUMNS, "key", found.key or (None if known else "key"))
    yield _ask("source", tables.COLUMNS, "person", found.person or NONE)
    yield _ask("stream", tables.STREAM, "every", "1h")
    yield _ask("stream", tables.STREAM, "zone", "UTC")
    yield _ask("stream", tables.STREAM, "origin", _origin)
    yield _ask("stream", tables.STREAM, "until", NONE, when=lambda content: _finite(content, True))
    yield _ask("stream", tables.STREAM, "lateness", "10min", when=lambda each: not _finite(each))
    yield InitQuestion(
        table="domain",
        key="keys, with commas between them, or a public file (zones.txt, zones.csv:zone)",
        explanation=_explained(tables.WAYS[0])
        + ("" if dialogue.asks else ' Write --keys "Airport,Central" or --keys zones.txt.'),
        default=lambda _: None,
        put=_put_keys(dialogue.file),
        flag="keys",
    )
    yield _ask("domain", tables.DOMAIN, "other", NONE)
    yield _ask("privacy", tables.PRIVACY, "mechanism", AUTO, put=_put_mechanism)
    yield _ask("plan", tables.PLAN, "typical", NONE, when=_chooses)
    yield _ask("plan", tables.PLAN, "seasons", NONE, when=_chooses)
    yield _ask("plan", tables.PLAN, "stock", "no", when=_chooses)
    yield _ask("privacy", tables.PRIVACY, "epsilon", "1")
    yield _ask(
        "privacy",
        tables.PRIVACY,
        "delta",
        DELTA,
        when=lambda each: (
            "delta" in each["privacy"]
            or ("delta" in dialogue.given and _delta_of(each["privacy"]["mechanism"]) is not None)
        ),
    )
    yield _ask("privacy", tables.PRIVACY, "window", _window)
    yield _ask("privacy", tables.PRIVACY, "contribution", "1")
    yield InitQuestion(
        table="store",
        key="path or url",
        explanation="The store has releases, ledger and state: a SQLite file, or "
        "postgresql://… without a password.",
        default=lambda dialogue: f"{dialogue.content['stream']['name']}.db",
        put=_put_store,
        flag="store",
    )
    yield _ask("store", tables.STORE, "head", NONE)
    yield InitQuestion(
        table="sink",
        key="path",
        explanation="Where releases go: a folder for Parquet files, or a file ending in .jsonl; "
        f"{NONE} for none. They stay in the store anyway. Other kinds of sinks "
        f"({', '.join(SINKS.names)}) can be written into the file afterwards.",
        default=lambda _: NONE,
        put=_put_sink,
        flag="sink",
    )


def _ask(
    table: str,
    declared: Sequence[Option],
    name: str,
    default: str | Callable[[InitDialogue], str] | None,
    *,
    flag: str = "",
    put: Callable[[Content, str], None] | None = None,
    when: Callable[[Content], bool] = lambda _: True,
) -> InitQuestion:
    """A question for one declared option. `-` leaves out what is not required."""
    option = next(each for each in declared if each.name == name)
    key = option.keys[0]

    def write(content: Content, answer: str) -> None:
        content[table].pop(key, None)
        if answer != NONE:
            content[table][key] = _value(option, answer)

    omit = f" {NONE} leaves it out." if default == NONE or name == "lateness" else ""
    return InitQuestion(
        table=table,
        key=key,
        explanation=_explained(option) + omit,
        default=default if callable(default) else lambda _: default,
        put=put or write,
        flag=flag or name,
        when=when,
    )


def _explained(option: Option) -> str:
    text = meaning(option)
    return f"{text[:1].upper()}{text[1:]}.{' ' if option.advice else ''}{option.advice}"


def _shown(option: Option, source: Content) -> str:
    value = source.get(option.keys[0], option.shown)
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _value(option: Option, answer: str) -> Any:
    if option.type == "flag":
        if answer.lower() not in _YES:
            raise ConfigurationError("answer yes or no.")
        return _YES[answer.lower()]
    if option.type in ("units", "whole") and answer.isdecimal():
        return int(answer)
    if option.several and option.type != "text" and "," in answer:
        return _listed(answer)
    return answer


def _listed(answer: str) -> list[str]:
    return [part.strip() for part in answer.split(",") if part.strip()]


def _finite(content: Content, until: bool | None = None) -> bool:
    """Whether the input has an end, perhaps if one were declared."""
    declared = SOURCES.find(content["source"]["kind"])
    ends = "until" in content["stream"] if until is None else until
    return declared.finite(_values(declared, content["source"]), ends)


def _values(declared: SourceKind, source: Content) -> Content:
    return {option.name: source.get(option.name, option.default) for option in declared.options}


def _origin(dialogue: InitDialogue) -> str:
    today = datetime.now(UTC).date()
    monthly = dialogue.content["stream"]["every"].endswith("mo")
    first = today.replace(day=1) if monthly else today
    return str(first.replace(month=1, day=1) if _finite(dialogue.content) else first)


def _window(dialogue: InitDialogue) -> str:
    """About a day of units, a week of days, a year of months."""
    every = dialogue.content["stream"]["every"]
    number = int("".join(filter(str.isdecimal, every)))
    letters = every.lstrip("0123456789").strip()
    length = {"s": 86_400, "min": 1_440, "h": 24, "d": 7, "w": 4, "mo": 12}[letters]
    return str(max(length // number, 1))


def _put_kind(given: Mapping[str, str]) -> Callable[[Content, str], None]:
    """Write the kind, the options of `--option`, and an example of each option that it needs."""

    def put(content: Content, answer: str) -> None:
        source = {name: content["source"][name] for name in ("time", "key")} | {"kind": answer}
        content["source"] = source
        if answer not in SOURCES.names and ":" not in answer:
            return  # the check of the configuration says so
        declared = SOURCES.find(answer)
        known = {key: option for option in declared.options for key in option.keys}
        for flag, text in given.items():
            name = flag.removeprefix(_OPTION)
            if name != flag:
                source[name] = _value(known[name], text) if name in known else text
        replaced = _replaced(declared, source)
        for option in declared.asked:
            if option.name in replaced:
                continue
            if option.applies(_values(declared, source)) and not source.keys() & {*option.keys}:
                source[option.keys[0]] = option.shown

    return put


def _replaced(declared: SourceKind, source: Mapping[str, Any]) -> set[str]:
    """The options that need not be asked for, because another one stands in their place."""
    return {each.instead_of for each in declared.options if each.name in source}


def _put_keys(file: Path) -> Callable[[Content, str], None]:
    """Write keys, or a file that has them."""

    def put(content: Content, answer: str) -> None:
        name, column = _keys_file(answer, file)
        if name is None:
            content["domain"] = {"keys": _listed(answer)}
            return
        path = file.parent / name
        source = content["source"].get("path")
        if source is not None and first_file(file.parent, source) == first_file(file.parent, name):
            raise ConfigurationError(
                f"{path.absolute()} has the events: a key that is there only because somebody was "
                "there gives that person away. Name a public file of keys."
            )
        column = column or only_column(path)
        content["domain"] = {"file": name} | ({"column": column} if column else {})

    return put


def _keys_file(answer: str, file: Path) -> tuple[str | None, str | None]:
    """The file of keys that is meant, from the folder of the configuration, and its column."""
    text = answer.removeprefix("@")
    stem, _, column = text.rpartition(":")
    tries = [(text, None), *([(stem, column)] if stem else [])]
    for name, of in tries:
        if Path(name).is_file():
            return _from_folder(name, file), of
        if (file.parent / name).is_file():
            return name, of
    for name, _ in tries:
        if answer.startswith("@") or name.endswith((".txt", *TABLE_SUFFIXES)):
            raise ConfigurationError(
                f"there is no file {Path(name).absolute()} with keys. Keys themselves are written "
                'with commas between them, as in "Airport,Central".'
            )
    return None, None


def _put_mechanism(content: Content, answer: str) -> None:
    kept = {name: content["privacy"][name] for name in ("epsilon", "contribution")}
    content["privacy"] = {**kept, "mechanism": answer, "window": 24}
    if _delta_of(answer):
        content["privacy"]["delta"] = DELTA


def _delta_of(mechanism: str) -> Any:
    """The default of the mechanism's delta, or None if it has none; auto may use one."""
    if mechanism == AUTO:
        return 0
    known = registry.MECHANISMS.get(mechanism)
    found = None if known is None else known.__dataclass_fields__.get("delta")
    return None if found is None else found.default


def _chooses(content: Content) -> bool:
    """Whether the mechanism is chosen from public knowledge."""
    return bool(content["privacy"]["mechanism"] == AUTO)


def _put_store(content: Content, answer: str) -> None:
    content["store"] = {"url" if is_address(answer) else "path": answer}
    if is_address(answer):
        content["store"]["password_env"] = "PENSTOCK_STORE_PASSWORD"  # noqa: S105 - a variable


def _put_sink(content: Content, answer: str) -> None:
    content.pop("sink", None)
    if answer != NONE:
        kind = "jsonl" if answer.endswith(".jsonl") else "parquet"
        content["sink"] = [{"kind": kind, "path": answer}]
