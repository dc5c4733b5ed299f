"""A configuration as text, with a comment on every line, and what was not used beside it as a
comment.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

_MARGIN = 36
"""Where comments begin."""

_PLACES = {
    "path": "a file or a pattern, from the folder of this file on",
    "listen": "the address to listen at",
    "servers": "the brokers, as an array if there are several",
    "server": "the broker",
    "topic": "the topic of the events",
    "token_env": "the environment variable with the token that senders need; or token_file",
    "format": '"jsonl" or "csv"',
}


def configuration(content: Mapping[str, Any]) -> str:
    """The whole file.

    >>> print(_line("every", "1h", "a unit"))
    every = "1h"                        # a unit
    >>> print(_line("until", "2027-01-01", "the end", used=False))
    # until = "2027-01-01"              # the end
    """
    parts = (_head, _stream, _source, _domain, _privacy, _store, _sinks, _operator)
    return "\n".join("\n".join(part(content)) + "\n" for part in parts)


def _line(name: str, value: Any, why: str, *, used: bool = True) -> str:
    text = f"{'' if used else '# '}{name} = {_toml(value)}"
    return f"{text.ljust(_MARGIN - 1)} # {why}"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _maybe(table: Mapping[str, Any], name: str, example: Any, why: str) -> str:
    """The line as it was answered, or commented out with an example."""
    return _line(name, table.get(name, example), why, used=name in table)


def _head(_: Mapping[str, Any]) -> Iterator[str]:
    yield "# The configuration of a pipeline, written by penstock init. penstock check says in words what it will publish."
    yield "# Paths start from the folder of this file. Secrets are never written here: only names of variables or of files."


def _stream(content: Mapping[str, Any]) -> Iterator[str]:
    stream = content["stream"]
    yield "[stream]"
    yield _line("name", stream["name"], "under this name the store keeps it")
    yield _line("every", stream["every"], "a unit: a number and s, min, h, d, w or mo")
    yield _line("zone", stream["zone"], "days, weeks and months begin here at midnight")
    yield _line("origin", stream["origin"], "when unit 1 begins: public, never taken from the data")
    without = (
        "without it the stream is live"
        if content["source"]["kind"] == "stdin"
        else "the time of the start without it"
    )
    yield _maybe(stream, "until", "2027-01-01", f"the end of a finite input; {without}")
    yield _maybe(
        stream,
        "lateness",
        "10min",
        "a live unit closes by the clock, so long after its end; none without it",
    )
    yield _line(
        "late",
        "drop",
        'what comes later still: "drop", or "current" for the unit that is open then',
        used=False,
    )
    yield _line("tolerance", "1min", "events from further in the future are refused", used=False)


def _source(content: Mapping[str, Any]) -> Iterator[str]:
    source = content["source"]
    yield "[source]"
    yield _line("kind", source["kind"], "parquet, csv, jsonl, stdin, http, kafka or mqtt")
    for name, why in _PLACES.items():
        if name in source:
            yield _line(name, source[name], why)
    if "path" in source:
        yield _line(
            "growing", source.get("growing", False), "true if more files or lines will come"
        )
    yield _line("time", source["time"], "the column of times")
    yield _line(
        "clock",
        source.get("clock", "iso"),
        "iso (also for timestamps), or seconds, milliseconds, microseconds since 1970",
    )
    yield _line(
        "key", source["key"], "the column of keys; for attributes an array, one column each"
    )
    yield _maybe(source, "key_type", "integer", '"text" without it')
    yield _maybe(
        source,
        "person",
        "card",
        "whom the promise is to; without it, every event is its own person",
    )
    yield _maybe(source, "person_type", "integer", '"text" without it')
    if source["kind"] == "csv":
        yield _line("delimiter", ";", '"," without it', used=False)
        yield _line(
            "names", ["time", "key"], "the columns, where no first line has them", used=False
        )
    if source["kind"] in ("kafka", "mqtt"):
        yield _line(
            "username_env",
            "BROKER_USER",
            "the environment variable with the name to log in with",
            used=False,
        )
        yield _line("password_env", "BROKER_PASSWORD", "and the one with its password", used=False)
    if source["kind"] == "kafka":
        yield _line("group", "penstock", "the consumer group", used=False)
        yield _line("format", "avro", '"json" without it; with avro, schema_file too', used=False)


def _domain(content: Mapping[str, Any]) -> Iterator[str]:
    domain = content["domain"]
    yield "[domain]                            # declared, never learned from the data; exactly one of:"
    yield _maybe(domain, "keys", ["north", "south"], "all keys")
    yield _maybe(domain, "file", "keys.txt", "one key a line")
    yield _line("range", [0, 99], "whole numbers, both ends included", used=False)
    yield "# attributes = {line = 3, zone = 8} # every value of one with every value of the other; arrays of names, too"
    yield '# hierarchy = {"gate 1" = "A"}      # what is above each key; or a file of lines such as A/gate 1'
    yield _maybe(
        domain, "other", "elsewhere", "where unknown keys are counted; without it they are dropped"
    )


def _privacy(content: Mapping[str, Any]) -> Iterator[str]:
    privacy = content["privacy"]
    yield "[privacy]"
    yield _line(
        "mechanism",
        privacy["mechanism"],
        "penstock mechanisms lists them; its parameters stand here by their own names",
    )
    yield _line(
        "epsilon",
        privacy["epsilon"],
        "what a window may cost: a whole number or a text, never 0.5 without quotes",
    )
    if "delta" in privacy:
        yield _line("delta", privacy["delta"], "the probability that the promise may fail with")
    yield _line(
        "window",
        privacy["window"],
        'how much of a person is protected: units, or a duration such as "1d"',
    )
    yield _line(
        "contribution",
        privacy["contribution"],
        "at most so many events of a person in a unit count",
    )
    yield _line(
        "horizon",
        720,
        "the last unit that is ever read; with horizon = window a person is covered for ever",
        used=False,
    )


def _store(content: Mapping[str, Any]) -> Iterator[str]:
    store = content["store"]
    yield "[store]"
    yield _maybe(store, "path", "taps.db", "one file, readable to its owner only")
    yield _maybe(
        store,
        "url",
        "postgresql://publisher@localhost/penstock",
        "or a database; url_env where the address is a secret",
    )
    yield _maybe(
        store,
        "password_env",
        "PENSTOCK_STORE_PASSWORD",
        "the environment variable with the database's password",
    )
    yield _line(
        "key_env",
        "PENSTOCK_STATE_KEY",
        "state is encrypted with the key in this variable; or key_file",
        used=False,
    )
    yield _maybe(
        store,
        "head",
        "elsewhere/taps.head",
        "on another disk: it shows that a restored backup is an old one",
    )


def _sinks(content: Mapping[str, Any]) -> Iterator[str]:
    sinks = content.get("sink", [])
    for sink in sinks:
        yield "[[sink]]                            # as many as you like, of kind parquet, jsonl, kafka, webhook, postgres"
        yield _line("kind", sink["kind"], "parquet is a folder partitioned by day, jsonl one file")
        yield _line("path", sink["path"], "from the folder of this file on")
    if not sinks:
        yield "# [[sink]]                          # as many as you like, of kind parquet, jsonl, kafka, webhook, postgres"
        yield _line("kind", "parquet", "a folder partitioned by day", used=False)
        yield _line("path", "releases", "from the folder of this file on", used=False)


def _operator(_: Mapping[str, Any]) -> Iterator[str]:
    yield "# [operator]"
    yield _line(
        "token_env",
        "PENSTOCK_OPERATOR",
        "who has the token in this variable sees private figures",
        used=False,
    )
    yield _line("metrics", "127.0.0.1:9464", "public ones, for Prometheus", used=False)
    yield _line(
        "figures",
        "private.json",
        "private ones, written when a run ends, for its owner only",
        used=False,
    )
