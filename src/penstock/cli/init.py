"""`penstock init`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from cyclopts import Parameter, Token
from rich.console import Console
from rich.text import Text

from penstock.cli.check import show as show_check
from penstock.cli.init_template import configuration
from penstock.cli.options import Flag
from penstock.cli.store_argument import read_pipeline
from penstock.core.errors import ConfigurationError
from penstock.engine.config_sections import InvalidConfigurationError
from penstock.engine.pipeline import Pipeline
from penstock.private.mechanisms import registry
from penstock.private.sources.registry import SOURCES
from penstock.private.sources.schema import Guess, guess

FILES = ("parquet", "csv", "jsonl")
NONE = "-"
"""The answer that leaves something out."""


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

DELTA = "1/1000000"

Content = dict[str, dict[str, Any]]

_SOURCES: dict[str, dict[str, Any]] = {
    "parquet": {"path": "events.parquet"},
    "csv": {"path": "events.csv"},
    "jsonl": {"path": "events.jsonl"},
    "stdin": {"format": "jsonl"},
    "http": {"listen": "127.0.0.1:8080", "token_env": "PENSTOCK_TOKEN"},
    "kafka": {"servers": "localhost:9092", "topic": "events"},
    "mqtt": {"server": "localhost:1883", "topic": "events/#"},
}
"""What each kind of source needs, until it is told."""

_START: Content = {
    "stream": {"name": "stream", "every": "1h", "zone": "UTC", "origin": "2026-01-01"},
    "source": {"kind": "parquet", "time": "time", "key": "key", **_SOURCES["parquet"]},
    "domain": {"keys": ["key"]},
    "privacy": {"mechanism": "ba", "epsilon": "1", "window": 24, "contribution": 1},
    "store": {},
}
"""A configuration that is valid: whatever is wrong after an answer is wrong with that answer."""


def init(
    file: Path = Path("pipeline.toml"),
    /,
    *,
    yes: Flag = False,
    name: str | None = None,
    kind: str | None = None,
    source: str | None = None,
    topic: str | None = None,
    growing: Flag = False,
    time: str | None = None,
    clock: str | None = None,
    key: str | None = None,
    person: Omittable = None,
    every: str | None = None,
    zone: str | None = None,
    origin: str | None = None,
    until: Omittable = None,
    lateness: Omittable = None,
    keys: Annotated[str | None, Parameter(name="--keys")] = None,
    domain_file: str | None = None,
    other: Omittable = None,
    mechanism: str | None = None,
    epsilon: str | None = None,
    delta: str | None = None,
    window: str | None = None,
    contribution: str | None = None,
    store: str | None = None,
    head: Omittable = None,
    sink: Omittable = None,
) -> None:
    """Write the configuration of a pipeline, question by question; each answer is checked at once.

    What is given as an option is not asked; with --yes nothing is. Of a file of events only the
    names of its columns are looked at. A file that is there is never overwritten.

    For example:

    * penstock init

    * penstock init taps.toml --source "taps/*.parquet" --every 1h

    * penstock init taps.toml --yes --name taps --source taps.csv --time tapped_at --key station
      --person card --every 1h --origin 2026-01-01 --keys "Airport,Central,Harbour" --mechanism ba
      --epsilon 1 --window 1d --contribution 2

    Parameters
    ----------
    file
        The file to write.
    yes
        Ask nothing: the default for all that is not given.
    name
        What the stream is called.
    kind
        Where events come from: parquet, csv, jsonl, stdin, http, kafka or mqtt.
    source
        The file or pattern, the address to listen at, or the servers.
    topic
        Of Kafka or MQTT.
    growing
        More files, or more lines in them, will come.
    time
        The column of times.
    clock
        How times are written: iso, seconds, milliseconds or microseconds.
    key
        The column of keys.
    person
        The column that says whose event it is; - for none.
    every
        The length of a unit: a number and s, min, h, d, w or mo.
    zone
        The time zone in which days begin.
    origin
        When the first unit begins.
    until
        Where a finite input ends; standard input without it is live.
    lateness
        How long a live unit waits for late events after its end, such as 10min; - for not at all.
    keys
        The keys, with commas between them.
    domain_file
        A file with one key a line.
    other
        The key under which all others are counted; - drops them.
    mechanism
        One of those that penstock mechanisms lists.
    epsilon
        What a window may cost, exact: 1, 0.5 or 1/3.
    delta
        For mechanisms with Gaussian noise.
    window
        How much of a person is protected: units, or a duration such as 1d.
    contribution
        At most so many events of a person count in a unit.
    store
        The file of the store, or postgresql://… without a password.
    head
        The head file, on another disk; - for none.
    sink
        A folder for releases as Parquet, or a file ending in .jsonl; - for none.
    """
    if file.exists():
        raise ConfigurationError(
            f"{file} exists already, and is not overwritten: choose another name."
        )
    given = {
        "name": name,
        "kind": kind or _kind_of(source),
        "source": source,
        "topic": topic,
        "growing": "yes" if growing else None,
        "time": time,
        "clock": clock,
        "key": key,
        "person": person,
        "every": every,
        "zone": zone,
        "origin": origin,
        "until": until,
        "lateness": lateness,
        "keys": keys if domain_file is None else f"@{domain_file}",
        "other": other,
        "mechanism": mechanism,
        "epsilon": epsilon,
        "delta": delta,
        "window": window,
        "contribution": contribution,
        "store": store,
        "head": head,
        "sink": sink,
    }
    if keys is not None and domain_file is not None:
        raise ConfigurationError("either --keys or --domain-file, not both.")
    talk = InitDialogue(Console(), file, given, asks=not yes)
    content = talk.content_of_all()
    _write(file, configuration(content))
    talk.console.print(Text(f"Wrote {file}.\n", "bold green"), soft_wrap=True)
    show_check(read_pipeline(file))
    talk.console.print(Text(f"\nNext: penstock run {file}", "bold"), soft_wrap=True)


def _kind_of(source: str | None) -> str | None:
    """The kind that a file's ending tells."""
    ends = {".parquet": "parquet", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
    return None if source is None else ends.get(Path(source).suffix)


def _write(file: Path, text: str) -> None:
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        raise ConfigurationError(
            f"{file} exists already, and is not overwritten: choose another name."
        ) from None


# -- questions -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class InitQuestion:
    """One thing to know: how it is asked, what it is for, and where the answer goes."""

    name: str
    ask: str
    why: str
    default: Callable[[InitDialogue], str | None]
    put: Callable[[Content, str], None]
    when: Callable[[Content], bool] = lambda _: True


class InitDialogue:
    """Answers so far, and how to get the next one."""

    def __init__(
        self, console: Console, file: Path, given: Mapping[str, str | None], *, asks: bool
    ) -> None:
        self.console = console
        self.file = file
        self.given = given
        self.asks = asks
        self.content: Content = copy.deepcopy(_START)
        self.guess = Guess()

    def content_of_all(self) -> Content:
        """The configuration, when everything is answered."""
        for question in QUESTIONS:
            if question.when(self.content):
                self._answer(question)
            elif self.given.get(question.name) is not None:
                raise ConfigurationError(
                    f"--{question.name} means nothing here: {_where(self.content)}."
                )
            if question.name == "source":
                self._look()
        self.content["source"] |= self.guess.types(self.content["source"])
        Pipeline.of(self.content, folder=self.file.parent)
        return self.content

    def _answer(self, question: InitQuestion) -> None:
        answer = self.given.get(question.name)
        if answer is not None:
            wrong = self._take(question, answer)
            if wrong:
                raise ConfigurationError(f"--{question.name}: {wrong}")
            return
        default = question.default(self)
        if not self.asks:
            if default is None:
                raise ConfigurationError(f"--{question.name} is needed: {question.why}")
            wrong = self._take(question, default)
            if wrong:
                raise ConfigurationError(f"--{question.name} is needed: {wrong}")
            return
        self.console.print(Text(question.why, "dim"), soft_wrap=True)
        while True:
            answer = self._heard(question, default)
            wrong = self._take(question, answer) if answer else "an answer is needed."
            if not wrong:
                self.console.print()
                return
            self.console.print(Text(wrong, "red"), soft_wrap=True)

    def _heard(self, question: InitQuestion, default: str | None) -> str:
        shown = "" if default is None else f" [{default}]"
        try:
            answer = self.console.input(Text(f"{question.ask}{shown}: ", "bold"))
        except (EOFError, KeyboardInterrupt):
            self.console.print()
            raise ConfigurationError(
                "the questions were not all answered. Nothing was written."
            ) from None
        return answer.strip() or (default or "")

    def _take(self, question: InitQuestion, answer: str) -> str:
        """Put the answer into the configuration if that is still valid; otherwise say what is
        wrong.
        """
        content = copy.deepcopy(self.content)
        try:
            question.put(content, answer)
            Pipeline.of(content, folder=self.file.parent)
        except InvalidConfigurationError as error:
            return " ".join(dict.fromkeys(problem.message for problem in error.problems))
        except ConfigurationError as error:
            return str(error)
        self.content = content
        return ""

    def _look(self) -> None:
        """The names of the columns, if there is a file to look at."""
        source = self.content["source"]
        if source["kind"] not in FILES:
            return
        columns = SOURCES.find(source["kind"]).column_types
        assert columns is not None
        self.guess = guess(columns, self.file.parent, source["path"])
        if self.asks:
            names = ", ".join(self.guess.names)
            told = (
                f"Its columns: {names}."
                if names
                else "The names of its columns cannot be seen: no such file yet, or no names."
            )
            self.console.print(Text(f"{told}\n"), soft_wrap=True)


def _where(content: Content) -> str:
    return f"the source is {content['source']['kind']}, and the mechanism {content['privacy']['mechanism']}"


# -- where answers go ------------------------------------------------------------------------------


def _at(table: str, key: str, read: Callable[[str], Any] = str) -> Callable[[Content, str], None]:
    """Into this key; `-` leaves it out."""

    def put(content: Content, answer: str) -> None:
        content[table].pop(key, None)
        if answer != NONE:
            content[table][key] = read(answer)

    return put


def _put_kind(content: Content, answer: str) -> None:
    columns = {name: content["source"][name] for name in ("time", "key")}
    content["source"] = {"kind": answer, **_SOURCES.get(answer, {}), **columns}


def _put_source(content: Content, answer: str) -> None:
    name = next(
        name for name in ("path", "listen", "servers", "server") if name in content["source"]
    )
    content["source"][name] = answer


def _put_growing(content: Content, answer: str) -> None:
    if answer.lower() not in ("y", "yes", "n", "no"):
        raise ConfigurationError("answer yes or no.")
    content["source"]["growing"] = answer.lower() in ("y", "yes")


def _listed(answer: str) -> list[str]:
    return [part.strip() for part in answer.split(",") if part.strip()]


def _put_keys(content: Content, answer: str) -> None:
    """Keys, or a file that has them."""
    name = answer.removeprefix("@")
    content["domain"] = {"file": name} if answer.startswith("@") else {"keys": _listed(answer)}


def _units(answer: str) -> int | str:
    return int(answer) if answer.isdecimal() else answer


def _put_mechanism(content: Content, answer: str) -> None:
    privacy = {
        name: value
        for name, value in content["privacy"].items()
        if name in ("epsilon", "contribution")
    }
    privacy |= {"mechanism": answer, "window": 24}
    if answer in registry.MECHANISMS:
        privacy |= (
            {"delta": DELTA} if "delta" in registry.MECHANISMS[answer].__dataclass_fields__ else {}
        )
    content["privacy"] = privacy


def _put_store(content: Content, answer: str) -> None:
    address = answer.startswith(("postgresql://", "postgres://"))
    content["store"] = {"url" if address else "path": answer}
    if address:
        content["store"]["password_env"] = "PENSTOCK_STORE_PASSWORD"  # noqa: S105 - the name of a variable


def _put_sink(content: Content, answer: str) -> None:
    content.pop("sink", None)
    if answer != NONE:
        kind = "jsonl" if answer.endswith(".jsonl") else "parquet"
        content["sink"] = [{"kind": kind, "path": answer}]  # type: ignore[assignment]


# -- what is asked ---------------------------------------------------------------------------------


def _live(content: Content) -> bool:
    source = content["source"]
    if source["kind"] == "stdin":
        return "until" not in content["stream"]
    return source["kind"] not in FILES or bool(source.get("growing"))


def _origin(talk: InitDialogue) -> str:
    today = datetime.now(UTC).date()
    first = today.replace(day=1) if talk.content["stream"]["every"].endswith("mo") else today
    return str(first if _live(talk.content) else first.replace(month=1, day=1))


def _window(talk: InitDialogue) -> str:
    """About a day of units, a week of days, a year of months."""
    every = talk.content["stream"]["every"]
    number = int("".join(filter(str.isdecimal, every)))
    length = {"s": 86_400, "min": 1_440, "h": 24, "d": 7, "w": 4, "mo": 12}[
        every.lstrip("0123456789").strip()
    ]
    return str(max(length // number, 1))


def _always(text: str) -> Callable[[InitDialogue], str | None]:
    return lambda _: text


QUESTIONS = (
    InitQuestion(
        name="name",
        ask="Name of the stream",
        why="The store and the sinks keep its releases under this name.",
        default=lambda talk: talk.file.stem if talk.file.stem != "pipeline" else "stream",
        put=_at("stream", "name"),
    ),
    InitQuestion(
        name="kind",
        ask="Where do events come from (parquet, csv, jsonl, stdin, http, kafka, mqtt)",
        why="Files, standard input, requests to this program, or a broker.",
        default=_always("parquet"),
        put=_put_kind,
    ),
    InitQuestion(
        name="source",
        ask="Which file or pattern, or which address",
        why="A path from the folder of the configuration, such as taps/*.parquet; for http, kafka and mqtt a host and a port.",
        default=lambda talk: next(iter(_SOURCES[talk.content["source"]["kind"]].values())),
        put=_put_source,
        when=lambda content: content["source"]["kind"] != "stdin",
    ),
    InitQuestion(
        name="topic",
        ask="Which topic",
        why="The broker's name for these events.",
        default=_always("events"),
        put=_at("source", "topic"),
        when=lambda content: content["source"]["kind"] in ("kafka", "mqtt"),
    ),
    InitQuestion(
        name="growing",
        ask="Will more files or lines come (yes, no)",
        why="A finished input is read once, to its end. One that grows is followed, and units close by the clock.",
        default=_always("no"),
        put=_put_growing,
        when=lambda content: content["source"]["kind"] in FILES,
    ),
    InitQuestion(
        name="time",
        ask="Column of times",
        why="When an event happened: it decides in which unit it counts.",
        default=lambda talk: talk.guess.time or "time",
        put=_at("source", "time"),
    ),
    InitQuestion(
        name="clock",
        ask="How times are written (iso, seconds, milliseconds, microseconds)",
        why="iso is also for columns that are timestamps already; the others count from the beginning of 1970.",
        default=lambda talk: talk.guess.clock(talk.content["source"]),
        put=_at("source", "clock"),
    ),
    InitQuestion(
        name="key",
        ask="Column of keys",
        why="What is counted by: a station, a room, a product.",
        default=lambda talk: talk.guess.key or "key",
        put=_at("source", "key"),
    ),
    InitQuestion(
        name="person",
        ask=f"Column of persons ({NONE} for none)",
        why="Whom the promise is to. Without it every event is its own person, and who has several is not covered.",
        default=lambda talk: talk.guess.person or NONE,
        put=_at("source", "person"),
    ),
    InitQuestion(
        name="every",
        ask="Length of a unit",
        why="One release a unit: a number and s, min, h, d, w or mo. Longer units have less noise for what they hold.",
        default=_always("1h"),
        put=_at("stream", "every"),
    ),
    InitQuestion(
        name="zone",
        ask="Time zone",
        why="Days, weeks and months begin at midnight here, such as Europe/Zurich.",
        default=_always("UTC"),
        put=_at("stream", "zone"),
    ),
    InitQuestion(
        name="origin",
        ask="When does unit 1 begin",
        why="A date or a time. What happened before is not counted. It is public: do not take it from the first event.",
        default=_origin,
        put=_at("stream", "origin"),
    ),
    InitQuestion(
        name="until",
        ask=f"When does the input end ({NONE} if nothing says so)",
        why="Every unit up to there is released, empty ones too. Without it files end at the start, and stdin is live.",
        default=_always(NONE),
        put=_at("stream", "until"),
        when=lambda content: content["source"]["kind"] == "stdin" or not _live(content),
    ),
    InitQuestion(
        name="lateness",
        ask=f"How long does a unit wait for late events ({NONE} for not at all)",
        why="A live unit closes by the clock, so long after its end. What comes later is dropped, and releases wait as long.",
        default=_always("10min"),
        put=_at("stream", "lateness"),
        when=_live,
    ),
    InitQuestion(
        name="keys",
        ask="The keys, with commas between them, or @ and a file with one key a line",
        why="Declared, never learned from the data: a key that shows up only because somebody was there would tell on them.",
        default=lambda _: None,
        put=_put_keys,
    ),
    InitQuestion(
        name="other",
        ask=f"Key for all others ({NONE} to drop them)",
        why="Where events with a key that is not declared are counted.",
        default=_always(NONE),
        put=_at("domain", "other"),
    ),
    InitQuestion(
        name="mechanism",
        ask="Mechanism",
        why="penstock mechanisms lists them: uniform is the simplest, ba saves its budget for when the stream moves.",
        default=_always("ba"),
        put=_put_mechanism,
    ),
    InitQuestion(
        name="epsilon",
        ask="Epsilon",
        why="What a window may cost: 1 lets a suspicion of 50 % rise to 73 %, 0.1 to 53 %. Smaller is safer and noisier.",
        default=_always("1"),
        put=_at("privacy", "epsilon"),
    ),
    InitQuestion(
        name="delta",
        ask="Delta",
        why="The probability that the promise may fail with: far below one in the number of people.",
        default=_always(DELTA),
        put=_at("privacy", "delta"),
        when=lambda content: "delta" in content["privacy"],
    ),
    InitQuestion(
        name="window",
        ask="Window",
        why="How much of a person is protected together: a number of units, or a duration such as 1d.",
        default=_window,
        put=_at("privacy", "window", _units),
    ),
    InitQuestion(
        name="contribution",
        ask="Events of a person that count in a unit, at most",
        why="More lose less of what people do, and need more noise for everybody.",
        default=_always("1"),
        put=_at("privacy", "contribution", _units),
    ),
    InitQuestion(
        name="store",
        ask="Store",
        why="Releases, ledger and state: a file of its own, or postgresql://… without a password.",
        default=lambda talk: f"{talk.content['stream']['name']}.db",
        put=_put_store,
    ),
    InitQuestion(
        name="head",
        ask=f"Head file ({NONE} for none)",
        why="A small file on another disk: it shows if the store is ever restored from an old backup.",
        default=_always(NONE),
        put=_at("store", "head"),
    ),
    InitQuestion(
        name="sink",
        ask=f"Where releases go: a folder for Parquet, or a file ending in .jsonl ({NONE} for none)",
        why="They stay in the store anyway. Other sinks (kafka, webhook, postgres) can be written into the file afterwards.",
        default=_always(NONE),
        put=_put_sink,
    ),
)
