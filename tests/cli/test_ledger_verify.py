"""`penstock ledger verify`."""

from __future__ import annotations

import json
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.engine import factory
from penstock.engine.chain import Head, HeadFile
from penstock.engine.ledger_report import streams_of, together
from penstock.engine.pipeline import Pipeline
from penstock.engine.signing import PublicKey
from penstock.engine.sink_items import items_of
from penstock.engine.sqlite import SQLiteReader, SQLiteStore
from penstock.released.sinks.release_document import document

from tests.cli.outcome import Outcome
from tests.engine.published import pipeline, publish, several

TAPS = Path("taps.db")


@pytest.fixture
def taps() -> None:
    publish(TAPS, pipeline(), 50, seed=1)


@pytest.fixture
def views() -> None:
    publish(TAPS, several(), 50, seed=1)


def tamper(*statements: str) -> None:
    file = sqlite3.connect(TAPS, isolation_level=None)
    for statement in statements:
        assert file.execute(statement).rowcount
    file.close()


def told(capsys, *tokens: str) -> dict:
    done = Outcome(capsys, "ledger", *tokens, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


# -- the chain -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("views")
def test_what_stands_is_verified_and_its_head_printed(capsys):
    done = Outcome(capsys, "ledger", "verify", "taps.db")
    assert (done.code, done.err) == (0, "")
    assert "Valid" in done.out
    with SQLiteReader("taps.db") as reader:
        for name in reader.series_names:
            assert f"head {reader.head(name)}" in done.out
        worst = together(reader, streams_of(reader)["taps"]).worst
    report = told(capsys, "verify", "taps.db")
    assert report["valid"] is True
    assert report["together"] == [
        {
            "stream": "taps",
            "worst_window": str(worst),
            "worst_window_decimal": float(worst),
            "promised": "1",
        }
    ]


@pytest.mark.usefixtures("taps")
@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "UPDATE lines SET amount = amount - 1 WHERE unit = 8 AND place = 2",
            "line 2 of unit 8 is not what was committed",
        ),
        (
            "UPDATE lines SET label = 'nothing' WHERE unit = 9 AND place = 1",
            "line 1 of unit 9 is not what was committed",
        ),
        (
            "DELETE FROM lines WHERE unit = 4",
            "the release of unit 4 is not what was committed, or a line is missing",
        ),
        (
            "UPDATE releases SET flags = X'92C3C2' || X'00' WHERE unit = 3",
            "the release of unit 3 is not what was committed",
        ),
    ],
)
def test_the_first_wrong_line_is_said_and_the_exit_code_is_1(statement, message, capsys):
    tamper(statement)
    done = Outcome(capsys, "ledger", "verify", "taps.db")
    assert done.code == 1
    assert done.err.startswith("penstock: not valid: ")
    assert message in done.err
    assert "Valid" not in done.out
    as_json = Outcome(capsys, "ledger", "verify", "taps.db", "--json")
    assert as_json.code == 1
    assert json.loads(as_json.out)["valid"] is False


@pytest.mark.usefixtures("views")
def test_a_view_that_was_taken_away_is_found_out(capsys):
    for table in ("streams", "releases", "lines"):
        tamper(
            f"DELETE FROM {table} WHERE {'name' if table == 'streams' else 'stream'} = 'taps/daily'"
        )
    done = Outcome(capsys, "ledger", "verify", "taps.db")
    assert done.code == 1
    assert "view 'daily' is not in the store" in done.err


@pytest.mark.usefixtures("views")
def test_one_view_can_be_verified_by_itself(capsys):
    report = told(capsys, "verify", "taps.db", "--stream", "taps/daily")
    assert [row["series"] for row in report["series"]] == ["taps/daily"]
    assert report["together"] == []
    assert len(told(capsys, "verify", "taps.db", "--stream", "taps")["series"]) == 2


@pytest.mark.usefixtures("taps")
def test_a_noted_head_shows_an_old_backup_and_another_past(capsys, tmp_path):
    assert Outcome(capsys, "ledger", "verify", "taps.db", "--note", "noted.head").code == 0
    with SQLiteReader("taps.db") as reader:
        newest = reader.head("taps")
    assert HeadFile("noted.head").read() == {"taps": newest}
    assert Outcome(capsys, "ledger", "verify", "taps.db", "--head", "noted.head").code == 0
    assert Outcome(capsys, "ledger", "verify", "taps.db", "--head", str(newest)).code == 0
    for old in tmp_path.glob("taps.db*"):
        old.unlink()
    publish(TAPS, pipeline(), 49, seed=1)
    older = Outcome(capsys, "ledger", "verify", "taps.db", "--head", "noted.head")
    assert older.code == 1
    assert "restored from an old backup" in older.err
    for old in tmp_path.glob("taps.db*"):
        old.unlink()
    publish(TAPS, pipeline(), 51, seed=2)
    other = Outcome(capsys, "ledger", "verify", "taps.db", "--head", str(newest))
    assert other.code == 1
    assert "has another past" in other.err


@pytest.mark.usefixtures("taps")
def test_a_noted_stream_that_is_gone_is_found_out(capsys):
    Outcome(capsys, "ledger", "verify", "taps.db", "--note", "noted.head")
    publish(
        Path("other.db"),
        pipeline(stream={"name": "other", "every": "1h", "origin": "2026-01-01"}),
        2,
    )
    done = Outcome(capsys, "ledger", "verify", "other.db", "--head", "noted.head")
    assert done.code == 1
    assert "series 'taps' is not in the store" in done.err


@pytest.mark.usefixtures("taps")
def test_an_exported_copy_must_be_in_the_past(capsys):
    shutil.copy("taps.db", "copy.db")
    assert Outcome(capsys, "ledger", "verify", "taps.db", "--export", "copy.db").code == 0
    Path("copy.db").unlink()
    publish(Path("copy.db"), pipeline(), 12, seed=9)
    done = Outcome(capsys, "ledger", "verify", "taps.db", "--export", "copy.db")
    assert done.code == 1
    assert "another past" in done.err


# -- witnesses -------------------------------------------------------------------------------------

CONFIGURED = """
[stream]
name = "taps"
every = "1h"
origin = "2026-01-01"

[source]
kind = "stdin"
time = "ts"
key = "station"
person = "card"

[domain]
keys = ["north", "south", "wést"]

[privacy]
mechanism = "ba"
epsilon = "1"
window = 24

[store]
path = "taps.db"
"""
HEAD = 'head = "elsewhere/taps.head"\n'
SINKS = """
[[sink]]
kind = "jsonl"
name = "archive"
path = "releases.jsonl"

[[sink]]
kind = "parquet"
path = "releases"
"""
WEBHOOK = """
[[sink]]
kind = "webhook"
name = "partners"
url = "https://example.org/taps"
"""


def configured(*more: str, units: int = 150) -> Pipeline:
    """A pipeline file with these witnesses, and its store; each sink holds two units less."""
    Path("taps.toml").write_text(CONFIGURED + "".join(more), encoding="utf-8")
    declared = Pipeline.read("taps.toml")
    head = declared.store.head
    if head is not None:
        Path(head).parent.mkdir(exist_ok=True)
    publish(SQLiteStore(TAPS, head=head), declared, units, seed=1)
    with SQLiteStore(TAPS) as store:
        for each in declared.sinks:
            if each.declaration.reports:
                sink = factory.sink(each, declared)
                sink.put(items_of(store, store.series("taps"), 1, units - 2))
                sink.close()
    return declared


def cut_off(units: int) -> None:
    """Delete the newest units, as if they had never been."""
    tamper(*(f"DELETE FROM {table} WHERE unit > {units}" for table in ("releases", "lines")))


def witnesses(done: Outcome) -> dict[str, Any]:
    return {each["witness"]: each for each in json.loads(done.out)["witnesses"]}


@pytest.mark.parametrize(
    ("more", "whose"),
    [
        ((HEAD,), "the head file elsewhere/taps.head is of unit 150"),
        ((SINKS,), "sink 'archive' is of unit 148"),
        ((SINKS.replace("archive", "a").replace('"releases"', '"r"'),), "sink 'parquet'"),
    ],
)
def test_units_that_were_deleted_at_the_end_are_found_by_the_pipelines_witnesses(
    more, whose, capsys
):
    configured(*more)
    assert Outcome(capsys, "ledger", "verify", "taps.toml").code == 0
    cut_off(50)
    done = Outcome(capsys, "ledger", "verify", "taps.toml")
    assert done.code == 1
    assert "series 'taps' ends with unit 50" in done.err
    assert whose in done.err
    assert "Valid" not in done.out
    assert Outcome(capsys, "ledger", "verify", "taps.db").code == 0


def test_every_witness_is_named_with_what_it_said(capsys):
    configured(HEAD, SINKS, WEBHOOK)
    done = Outcome(capsys, "ledger", "verify", "taps.toml")
    assert done.code == 0, done.err
    assert (
        "the head file elsewhere/taps.head: has unit 150 of taps, as the store has it." in done.out
    )
    assert "sink 'archive': has unit 148 of taps, as the store has it." in done.out
    assert "sink 'parquet': has unit 148 of taps, as the store has it." in done.out
    assert "sink 'partners': not asked: a webhook does not report what it holds." in done.out
    found = witnesses(Outcome(capsys, "ledger", "verify", "taps.toml", "--json"))
    assert found["sink 'archive'"]["asked"] is True
    assert found["sink 'archive'"]["heads"]["taps"].startswith("148:")
    assert found["sink 'partners'"] == {
        "witness": "sink 'partners'",
        "asked": False,
        "reason": "a webhook does not report what it holds.",
    }


def test_all_findings_are_said_and_each_witness_too(capsys):
    configured(HEAD, SINKS)
    cut_off(50)
    tamper("UPDATE lines SET amount = amount - 1 WHERE unit = 8 AND place = 2")
    done = Outcome(capsys, "ledger", "verify", "taps.toml", "--json")
    assert done.code == 1
    content = json.loads(done.out)
    assert content["valid"] is False
    assert "line 2 of unit 8" in content["problem"]
    assert len(content["problems"]) == 4
    assert {each["asked"] for each in content["witnesses"]} == {True}
    assert len(done.err.splitlines()) == 4
    assert all(line.startswith("penstock: not valid: ") for line in done.err.splitlines())


def test_a_witness_that_cannot_be_asked_is_named_and_is_no_finding(capsys):
    configured(HEAD, SINKS)
    Path("elsewhere/taps.head").unlink()
    Path("taps.toml").write_text(
        Path("taps.toml").read_text(encoding="utf-8")
        + """
[[sink]]
kind = "postgres"
name = "open"
url = "postgresql://writer@127.0.0.1:9/open"
""",
        encoding="utf-8",
    )
    done = Outcome(capsys, "ledger", "verify", "taps.toml")
    assert done.code == 0
    assert "the head file elsewhere/taps.head: not asked: there is no such file." in done.out
    assert "sink 'open': not asked: " in done.out
    assert "sink 'archive': has unit 148" in done.out


def test_without_an_answer_of_any_witness_the_end_is_said_to_be_unknown(capsys):
    configured(HEAD)
    Path("elsewhere/taps.head").unlink()
    for where in ("taps.toml", "taps.db"):
        done = Outcome(capsys, "ledger", "verify", where)
        assert done.code == 0
        assert (
            "No witness answered: units that were deleted at the end are not noticed." in done.out
        )


def test_a_damaged_head_file_is_a_finding(capsys):
    configured(HEAD)
    Path("elsewhere/taps.head").write_text("{}", encoding="utf-8")
    done = Outcome(capsys, "ledger", "verify", "taps.toml")
    assert done.code == 1
    assert "taps.head is not a head file, or damaged" in done.err


def test_a_head_file_of_several_stores_is_asked_about_this_one(capsys):
    configured(HEAD)
    with SQLiteReader(TAPS) as reader:
        HeadFile("elsewhere/taps.head").write("elsewhere", reader.head("taps"))
    assert Outcome(capsys, "ledger", "verify", "taps.toml").code == 0


def test_a_series_of_the_pipeline_that_is_gone_from_the_store_is_found(capsys):
    configured(HEAD)
    TAPS.unlink()
    publish(TAPS, pipeline(stream={"name": "b", "every": "1h", "origin": "2026-01-01"}), 2)
    done = Outcome(capsys, "ledger", "verify", "taps.toml")
    assert done.code == 1
    assert "series 'taps' is not in the store" in done.err


def test_a_sink_with_another_past_is_found(capsys):
    configured(SINKS)
    for path in Path().glob("taps.db*"):
        path.unlink()
    publish(TAPS, pipeline(), 150, seed=2)
    done = Outcome(capsys, "ledger", "verify", "taps.toml")
    assert done.code == 1
    assert "another past than sink 'archive'" in done.err
    assert "another past than sink 'parquet'" in done.err


# -- rows that belong to nothing -------------------------------------------------------------------

ROW = (
    "INSERT INTO releases SELECT {stream}, {unit}, body_of, flags, digest, link, body, mac, "
    "signature FROM releases"
)
LINE = (
    "INSERT INTO lines SELECT {stream}, {unit}, place, kind, label, amount, number, run, link "
    "FROM lines"
)


@pytest.mark.usefixtures("taps")
@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (ROW.format(stream="stream", unit=0) + " WHERE unit = 1", "of units that were never"),
        (ROW.format(stream="stream", unit=-1) + " WHERE unit = 1", "of units that were never"),
        (ROW.format(stream="stream", unit=2.5) + " WHERE unit = 1", "of units that were never"),
        (ROW.format(stream="stream", unit="'x'") + " WHERE unit = 1", "number of the newest unit"),
        (ROW.format(stream="stream", unit=60) + " WHERE unit = 50", "units 51..59 are missing"),
        ("DELETE FROM releases WHERE unit = 7", "unit 7 is missing"),
        (ROW.format(stream="'tap'", unit="unit"), "50 rows of releases are of series 'tap'"),
        (
            LINE.format(stream="'tap'", unit="unit") + " WHERE unit = 1",
            "1 row of lines is of series 'tap', which is not in the store",
        ),
        (
            LINE.format(stream="stream", unit=51) + " WHERE unit = 1",
            "lines are of units that were never released: 51",
        ),
        ("INSERT INTO marks VALUES ('taps', 'partners', 51)", "sink 'partners' was sent unit 51"),
        ("INSERT INTO marks VALUES ('taps', 'partners', -1)", "sink 'partners' was sent unit -1"),
    ],
)
def test_stray_rows_are_findings(statement, message, capsys):
    tamper(statement)
    done = Outcome(capsys, "ledger", "verify", "taps.db")
    assert done.code == 1
    assert message in done.err


# -- signatures ------------------------------------------------------------------------------------

SIGNED = 'signing_key_file = "signing"\nkey_file = "state"\n'


@pytest.fixture
def signed(capsys) -> None:
    """A pipeline with both keys, and its store; the public key is in signing.pub."""
    assert Outcome(capsys, "ledger", "keygen", "signing").code == 0
    Path("state").write_text("07" * 32, encoding="utf-8")
    Path("state").chmod(0o600)
    Path("taps.toml").write_text(CONFIGURED + SIGNED, encoding="utf-8")
    declared = Pipeline.read("taps.toml")
    publish(factory.store(declared), declared, 30, seed=1)


def rewrite() -> None:
    """Replace the whole history by another one, with fresh links."""
    publish(Path("forged.db"), pipeline(), 30, seed=2)
    file = sqlite3.connect(TAPS, isolation_level=None)
    file.execute("ATTACH 'forged.db' AS forged")
    for table in ("releases", "lines"):
        file.execute(f"DELETE FROM {table}")
        file.execute(f"INSERT INTO {table} SELECT * FROM forged.{table}")
    file.close()


def test_a_key_pair_is_made_once(capsys):
    done = Outcome(capsys, "ledger", "keygen", "signing")
    assert done.code == 0
    assert Path("signing").stat().st_mode & 0o777 == 0o600
    fingerprint = PublicKey.from_file("signing.pub").fingerprint
    assert f"Public key {fingerprint}." in done.out
    assert 'signing_key_file = "signing"' in done.out
    assert "PRIVATE" not in done.out
    again = Outcome(capsys, "ledger", "keygen", "signing")
    assert (again.code, again.out) == (2, "")
    assert "never replaced" in again.err


@pytest.mark.usefixtures("signed")
def test_what_was_checked_is_said_and_counted(capsys):
    fingerprint = PublicKey.from_file("signing.pub").fingerprint
    done = Outcome(capsys, "ledger", "verify", "taps.toml")
    assert done.code == 0, done.err
    assert f"30 signatures checked, from unit 1 on: public key {fingerprint}." in done.out
    assert "30 keyed links checked, from unit 1 on." in done.out
    found = told(capsys, "verify", "taps.db", "--public-key", "signing.pub")["proofs"]["taps"]
    with SQLiteReader(TAPS) as reader:
        links = 30 + len(list(reader.lines("taps")))
    assert found == {
        "links": links,
        "signed_from": 1,
        "signatures": 30,
        "public_key": fingerprint,
        "public_key_given": True,
        "keyed_from": 1,
        "keyed_links": 30,
        "keyed_links_checked": False,
    }
    alone = Outcome(capsys, "ledger", "verify", "taps.db")
    assert alone.code == 0
    assert (
        f"with the public key that the store names, {fingerprint}. Give --public-key" in alone.out
    )
    assert "30 keyed links, from unit 1 on, not checked" in alone.out


@pytest.mark.usefixtures("signed")
def test_the_public_key_is_shown_with_the_ledger(capsys):
    fingerprint = PublicKey.from_file("signing.pub").fingerprint
    assert told(capsys, "show", "taps.db")["public_key"] == fingerprint
    assert fingerprint in Outcome(capsys, "ledger", "show", "taps.db").out


@pytest.mark.usefixtures("signed")
def test_a_rewritten_history_is_valid_only_without_the_public_key(capsys):
    rewrite()
    assert Outcome(capsys, "ledger", "verify", "taps.db").code == 0
    done = Outcome(capsys, "ledger", "verify", "taps.db", "--public-key", "signing.pub")
    assert done.code == 1
    assert "unit 30, the newest one, is not signed" in done.err
    assert Outcome(capsys, "ledger", "verify", "taps.toml").code == 1


@pytest.mark.usefixtures("signed")
def test_a_rewritten_history_is_found_with_the_key_of_the_state_alone(capsys):
    Path("taps.toml").write_text(CONFIGURED + 'key_file = "state"\n', encoding="utf-8")
    assert Outcome(capsys, "ledger", "verify", "taps.toml").code == 0
    rewrite()
    done = Outcome(capsys, "ledger", "verify", "taps.toml")
    assert done.code == 1
    assert "The history was rewritten" in done.err


@pytest.mark.usefixtures("signed")
def test_an_export_and_a_noted_head_are_checked_with_the_public_key(capsys):
    assert Outcome(capsys, "export", "taps.db", "public.db").code == 0
    key = ["--public-key", "signing.pub"]
    noted = Outcome(capsys, "ledger", "verify", "public.db", *key, "--note", "noted.head")
    assert noted.code == 0
    assert Outcome(capsys, "ledger", "verify", "public.db", *key, "--head", "noted.head").code == 0
    content = json.loads(Path("noted.head").read_text(encoding="utf-8"))
    sign = content["signatures"]["taps"]
    content["signatures"]["taps"] = sign[:-1] + ("0" if sign[-1] != "0" else "1")
    Path("noted.head").write_text(json.dumps(content), encoding="utf-8")
    done = Outcome(capsys, "ledger", "verify", "public.db", *key, "--head", "noted.head")
    assert done.code == 1
    assert "the head file noted.head: series 'taps': the signature of unit 30 is wrong" in done.err


@pytest.mark.usefixtures("taps")
def test_an_unsigned_store_is_valid_and_fails_where_a_public_key_is_given(capsys):
    Outcome(capsys, "ledger", "keygen", "signing")
    done = Outcome(capsys, "ledger", "verify", "taps.db")
    assert done.code == 0
    assert "Not signed." in done.out
    assert told(capsys, "verify", "taps.db")["proofs"]["taps"]["signatures"] == 0
    assert Outcome(capsys, "ledger", "verify", "taps.db", "--public-key", "signing.pub").code == 1


@pytest.mark.usefixtures("taps")
def test_a_public_key_that_cannot_be_used_is_a_mistake_of_one_line(capsys):
    Path("text.pub").write_text("no key", encoding="utf-8")
    for name in ("none.pub", "text.pub"):
        done = Outcome(capsys, "ledger", "verify", "taps.db", "--public-key", name)
        assert (done.code, done.out) == (2, "")
        assert len(done.err.splitlines()) == 1


@pytest.mark.usefixtures("signed")
def test_whoever_cannot_read_the_secrets_still_verifies_by_the_pipeline(capsys):
    Path("signing").unlink()
    Path("state").unlink()
    done = Outcome(capsys, "ledger", "verify", "taps.toml")
    assert done.code == 0
    assert "with the public key that the store names" in done.out
    assert "not checked: that needs the key of the state" in done.out


@pytest.mark.usefixtures("signed")
def test_sinks_get_the_signature_of_each_unit():
    with SQLiteReader(TAPS) as reader:
        items = items_of(reader, reader.series("taps"), 1, 3)
        for item, content in zip(items, map(json.loads, map(document, items)), strict=True):
            head = Head(item.unit, bytes.fromhex(content["link"]))
            sign = bytes.fromhex(content["signature"])
            PublicKey.from_file("signing.pub").check("taps", replace(head, signature=sign))
