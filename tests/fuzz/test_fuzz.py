"""Whatever bytes come, a parser takes them or refuses them, and shows nothing of them.

`make fuzz SECONDS=600` tries mutants for that long; see docs/how-to/test.md.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import ConfigurationError
from penstock.engine.pipeline import Pipeline

from tests.fuzz.mutate import Mutator
from tests.fuzz.parsers import SECRET, TARGETS, LeakError, Target, check_text

SECONDS = float(os.environ.get("PENSTOCK_FUZZ_SECONDS", 0)) / len(TARGETS)
SEED = int(os.environ.get("PENSTOCK_FUZZ_SEED", 0))
MAX_MEMORY_BYTES = 2**31
BY_NAME = {target.name: target for target in TARGETS}


@pytest.fixture(autouse=True)
def _bounded_memory() -> Iterator[None]:
    """An input that needs more than 2 GiB is a failure, not the end of the machine."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    limit = pages * resource.getpagesize() + MAX_MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def inputs(target: Target) -> Iterator[tuple[str, bytes]]:
    """The corpus, then mutants until the time or the number of mutants is reached."""
    corpus = target.inputs()
    for name, data in corpus.items():
        yield f"corpus file {name}", target.pack(data)
    mutator = Mutator(tuple(corpus.values()), target.tokens, target.pack, SEED)
    number, end = 0, time.monotonic() + SECONDS
    while time.monotonic() < end if SECONDS else number < target.mutants:
        yield f"seed {SEED}, mutant {number}", mutator.mutant(number)
        number += 1


@pytest.mark.parametrize("name", BY_NAME)
def test_a_parser_takes_or_refuses_whatever_comes_and_shows_nothing(name: str) -> None:
    target = BY_NAME[name]
    # The file has the input while it is parsed, so that it is there after a crash as well.
    path = Path(tempfile.gettempdir()) / f"penstock-fuzz-{name}-{os.getpid()}"
    with target.opened() as parse:
        for what, data in inputs(target):
            path.write_bytes(data)
            try:
                target.check(parse, data)
            except Exception as error:
                folder = f"tests/fuzz/corpus/{target.corpus or name}"
                inside = "" if target.pack is bytes else " (what it contains when unpacked)"
                raise AssertionError(
                    f"{name}: {type(error).__name__} from {what}. The input is in {path}. "
                    f"After the repair keep it{inside}: cp {path} {folder}/a_name_that_says_why"
                ) from error
    path.unlink()


def test_a_piece_of_the_secret_is_noticed() -> None:
    check_text("the body cannot be read.", SECRET[:7])
    with pytest.raises(LeakError):
        check_text("the body cannot be read:", f"x{SECRET[3:11]}")


def test_a_refusal_that_quotes_the_input_is_noticed() -> None:
    def parse(data: bytes) -> None:
        try:
            raise KeyError(data.decode())
        except KeyError:
            raise BY_NAME["json_lines"].refusals[0](400, "the body cannot be read.")  # noqa: B904

    with pytest.raises(LeakError):
        BY_NAME["json_lines"].check(parse, SECRET.encode())


# -- documents that are whole, with a wrong value somewhere ----------------------------------------

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["", "north", "1h", "2026-01-01T00:00:00Z", "ba", "1/3", SECRET])
    | st.text(max_size=8)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
EVENTS = st.lists(
    st.fixed_dictionaries({}, optional=dict.fromkeys(("time", "key", "person", SECRET), VALUES))
    | VALUES,
    max_size=6,
)
QUICKLY = settings(max_examples=40, deadline=None, derandomize=True, database=None)


@QUICKLY
@given(EVENTS)
def test_events_with_wrong_values_are_taken_or_refused(events: list[Any]) -> None:
    array = json.dumps(events).encode()
    lines = [json.dumps(event).encode() for event in events]
    for name, data in (
        ("json_arrays", array),
        ("json_lines_gzip", BY_NAME["json_lines_gzip"].pack(b"\n".join(lines))),
        ("json_messages", b"\x1e".join(lines)),
        ("mqtt_payloads", array),
    ):
        target = BY_NAME[name]
        with target.opened() as parse:
            target.check(parse, data)


PIPELINE: dict[str, Any] = {
    "stream": {"name": "taps", "every": "1h", "origin": "2026-01-01", "lateness": "10min"},
    "source": {"kind": "http", "token_env": "TOKEN", "time": "t", "key": "k", "person": "p"},
    "domain": {"keys": ["north", "south"], "other": "south"},
    "privacy": {"mechanism": "ba", "epsilon": "1", "window": 24, "contribution": 2},
    "store": {"path": "taps.store"},
    "sink": [{"kind": "jsonl", "path": "taps.jsonl"}],
}
OPTIONS = [
    (section, name)
    for section, content in PIPELINE.items()
    for name in ([None, *content, "until"] if isinstance(content, dict) else [None])
]


@QUICKLY
@given(st.sampled_from(OPTIONS), VALUES)
def test_a_pipeline_with_a_wrong_value_is_taken_or_refused(
    place: tuple[str, str | None], value: object
) -> None:
    section, name = place
    content = {**PIPELINE, section: value if name is None else {**PIPELINE[section], name: value}}
    with contextlib.suppress(ConfigurationError):
        Pipeline.of(content).facts()
