"""Events without a person, from the configuration to the released numbers and the promise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.core.errors import ChangedPromiseError, UnreadableRowsError
from penstock.core.promise_gaps import EACH_ALONE
from penstock.engine.config_sections import InvalidConfigurationError
from penstock.engine.explain import parts
from penstock.engine.pipeline import Pipeline
from penstock.engine.source_check import source_digest
from penstock.testing import NoNoise

PEOPLE = ["7", 7, None, "", None, "x", 8, 9]


def published(folder: Path, **more: Any) -> ps.Publication:
    lines = [
        json.dumps({"ts": f"2026-01-01T00:0{minute}Z", "key": "a", "card": card})
        for minute, card in enumerate(PEOPLE)
    ]
    (folder / "taps.jsonl").write_text("\n".join(lines))
    given: dict[str, Any] = {
        "time": "ts",
        "key": "key",
        "person": "card",
        "every": "1h",
        "origin": "2026-01-01",
        "until": "2026-01-01T02:00Z",
        "mechanism": ps.Laplace(epsilon="1"),
        "domain": ["a", "b"],
        "store": folder / "taps.db",
        "noise": NoNoise(),
    }
    return ps.publish(folder / "taps.jsonl", **(given | more))


@pytest.mark.parametrize("person_type", ["text", "integer"])
@pytest.mark.parametrize(("missing", "count"), [("drop", 4), ("each", 7)])
def test_events_without_a_person_count_one_by_one_or_not_at_all(
    tmp_path: Path, missing: str, count: int, person_type: str
) -> None:
    count -= person_type == "integer"  # the person "x" is no number
    with published(tmp_path, missing_person=missing, person_type=person_type) as stream:
        assert [release.value.tolist() for release in stream.log] == [[count, 0], [0, 0]]
        assert (EACH_ALONE in stream.promise) == (missing == "each")


def test_an_event_without_a_person_refuses_the_input(tmp_path: Path) -> None:
    with pytest.raises(UnreadableRowsError, match="an event has no person in 'card'"):
        published(tmp_path, missing_person="refuse")
    with published(tmp_path, missing_person="drop") as stream:  # the promise is the same
        assert len(stream) == 2
    with published(tmp_path, missing_person="refuse") as stream:  # nothing is read again
        assert len(stream) == 2


def test_a_stream_that_has_begun_does_not_begin_to_count_events_without_a_person(
    tmp_path: Path,
) -> None:
    published(tmp_path).close()
    with pytest.raises(ChangedPromiseError, match="missing_person"):
        published(tmp_path, missing_person="each")


def pipeline(**source: Any) -> Pipeline:
    where = {"kind": "csv", "path": "taps.csv", "time": "ts", "key": "station"}
    return Pipeline.of(
        {
            "stream": {"name": "taps", "every": "1h", "origin": "2026-01-01"},
            "source": where | {"person": "card"} | source,
            "domain": {"keys": ["north", "south"]},
            "privacy": {"mechanism": "uniform", "epsilon": "1", "window": 24},
        }
    )


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("drop", "Events without a person in 'card' are dropped."),
        ("each", EACH_ALONE),
        ("refuse", "No event may lack the person in 'card': otherwise nothing more is read"),
    ],
)
def test_the_promise_in_words_says_what_happens_to_events_without_a_person(
    missing: str, words: str
) -> None:
    assert words in " ".join(parts(pipeline(missing_person=missing))["What is promised"])


def test_only_what_changes_the_promise_changes_its_fingerprint() -> None:
    before = pipeline()
    assert "source.missing_person" not in before.facts()
    assert before.fingerprint() == pipeline(missing_person="refuse").fingerprint()
    assert before.fingerprint() != pipeline(missing_person="each").fingerprint()
    digests = {source_digest(pipeline(missing_person=each)) for each in ("drop", "each", "refuse")}
    assert len(digests) == 3
    assert source_digest(before) == source_digest(pipeline(missing_person="drop"))


def test_missing_ids_need_a_column_of_persons() -> None:
    content = {"kind": "csv", "path": "taps.csv", "time": "ts", "key": "station"}
    tables: dict[str, Any] = {
        "stream": {"name": "taps", "every": "1h", "origin": "2026-01-01"},
        "source": content | {"missing_person": "each"},
        "domain": {"keys": ["north", "south"]},
        "privacy": {"mechanism": "uniform", "epsilon": "1", "window": 24},
    }
    with pytest.raises(InvalidConfigurationError, match=r"missing_person.*needs the column"):
        Pipeline.of(tables)
    tables["source"] = content | {"person": "card", "missing_person": "keep"}
    with pytest.raises(InvalidConfigurationError, match=r"missing_person.*drop, each, refuse"):
        Pipeline.of(tables)


@pytest.mark.parametrize("name", ["persn", "missing_persons", "Time"])
def test_a_wrong_name_in_the_table_of_the_source_is_refused(name: str) -> None:
    with pytest.raises(InvalidConfigurationError, match=name):
        pipeline(**{name: "card"})
