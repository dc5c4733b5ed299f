"""`penstock init`."""

from __future__ import annotations

import io
import os
import pty
import select
import subprocess
import sys
import time
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from penstock.engine.pipeline import Pipeline
from penstock.engine.pipeline.options import SERVICE
from penstock.private.mechanisms.registry import MECHANISMS
from penstock.private.sources.schema import csv_columns

from tests.cli.outcome import Outcome

SCRIPTED = [
    "init", "taps.toml", "--yes", "--name", "taps",
    "--source", "taps.csv", "--time", "tapped_at", "--key", "station", "--person", "card",
    "--every", "1h", "--origin", "2026-01-01", "--keys", "Airport, Central,Harbour",
    "--mechanism", "ba", "--epsilon", "1/3", "--window", "1d", "--contribution", "2",
]  # fmt: skip

TAPS = "tapped_at,station,card\n2026-01-01T00:00:01Z,Airport,4711\n"


def answered(
    capsys, monkeypatch, *answers: str, tokens: tuple[str, ...] = ("init", "taps.toml")
) -> Outcome:
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{answer}\n" for answer in answers)))
    return Outcome(capsys, *tokens)


def test_everything_can_be_given_as_options(capsys):
    done = Outcome(capsys, *SCRIPTED)
    assert (done.code, done.err) == (0, "")
    pipeline = Pipeline.read("taps.toml")
    assert pipeline.domain().keys == ("Airport", "Central", "Harbour")
    assert repr(pipeline.guarantee) == "Guarantee(epsilon=1/3, window=24, contribution=2)"
    assert (pipeline.source.kind, pipeline.source.columns.person, pipeline.store.path) == (
        "csv",
        "card",
        "taps.db",
    )


def test_it_ends_with_what_check_says_and_the_next_command(capsys):
    done = Outcome(capsys, *SCRIPTED)
    checked = Outcome(capsys, "check", "taps.toml")
    assert checked.code == 0
    assert checked.out.strip() in done.out
    assert done.out.rstrip().endswith("Next: penstock run taps.toml")


def test_every_line_has_a_comment_and_what_is_unused_is_one(capsys):
    Outcome(capsys, *SCRIPTED)
    lines = [line for line in Path("taps.toml").read_text(encoding="utf-8").splitlines() if line]
    assert [line for line in lines if "#" not in line and not line.startswith("[")] == []
    assert (
        '# until = "2027-01-01"              # the end of a finite input '
        "(default: the start of the publisher; stdin is live)" in lines
    )
    said = "# the length of a unit: a number and s, min, h, d, w or mo"
    assert 'every = "1h"'.ljust(36) + said in lines


def test_every_unused_line_can_be_used(capsys):
    """Each commented line alone, without its mark, is known where it stands."""
    Outcome(capsys, *SCRIPTED)
    text = Path("taps.toml").read_text(encoding="utf-8")
    Path("keys.txt").write_text("north\n")
    unused = [
        line for line in text.splitlines() if line.startswith("# ") and " = " in line.split("#")[1]
    ]
    assert len(unused) > 15
    instead = {
        "file": "keys",
        "range": "keys",
        "attributes": "keys",
        "hierarchy": "keys",
        "url": "path",
    }
    for line in unused:
        name = line[2:].split(" ")[0]
        operator = ("token_env", "metrics", "figures", "unhealthy_above")
        service = tuple(option.name for option in SERVICE)
        others = ("kind", "path", "compact", "format", *operator, *service)
        if name in others or name.startswith("tls_"):
            continue  # of tables that are not used either
        changed = text.replace(line, line[2:])
        if name in instead:
            changed = "\n".join(
                each for each in changed.splitlines() if not each.startswith(f"{instead[name]} =")
            )
        Path("other.toml").write_text(changed, encoding="utf-8")
        done = Outcome(capsys, "check", "other.toml")
        assert "is not known" not in done.err, line
        assert "TOML" not in done.err, line


def test_a_file_that_is_there_is_never_overwritten(capsys):
    Path("taps.toml").write_text("mine")
    done = Outcome(capsys, *SCRIPTED)
    assert done.code == 2
    assert "is not overwritten" in done.err
    assert Path("taps.toml").read_text() == "mine"


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (["--epsilon", "0"], "--epsilon: must be above 0"),
        (["--every", "1x"], "--every: must be a number and one of"),
        (["--zone", "Europe/Zurick"], "Did you mean Europe/Zurich?"),
        (["--origin", "soon"], "--origin: "),
        (["--mechanism", "bx"], "--mechanism: there is no mechanism 'bx'"),
        (["--window", "90min"], "--window: "),
        (["--contribution", "0"], "--contribution: "),
        (["--kind", "parket"], '--kind: "parket" is not known'),
        (["--keys", "a,a"], "--keys: "),
        (["--topic", "taps"], "--topic means nothing here: the source is csv"),
        (["--lateness", "10min"], "--lateness means nothing here: the source is csv"),
        (["--delta", "1"], "--delta: must be at least 0 and below 1"),
        (["--domain-file", "none.txt"], "either --keys or --domain-file, not both"),
        (["--store", "postgresql://me:hunter2@localhost/x"], "--store: "),
    ],
)
def test_an_answer_that_cannot_be_used_is_refused_and_nothing_written(
    tokens, message, capsys, tmp_path
):
    given = dict(zip(SCRIPTED[3::2], SCRIPTED[4::2], strict=True)) | dict([tokens])
    done = Outcome(capsys, *SCRIPTED[:3], *(each for pair in given.items() for each in pair))
    assert done.code == 2
    assert message in done.err
    assert len(done.err.splitlines()) == 1
    assert "hunter2" not in done.err
    assert list(tmp_path.iterdir()) == []


def test_keys_must_be_declared(capsys):
    done = Outcome(capsys, "init", "taps.toml", "--yes")
    assert done.code == 2
    assert "--keys is needed: The keys. Declare them, never learn them from the data" in done.err


@pytest.mark.parametrize("kind", ["stdin", "http", "kafka", "mqtt", "parquet", "jsonl", "csv"])
def test_every_kind_of_source_can_be_written(kind, capsys):
    done = Outcome(capsys, "init", "taps.toml", "--yes", "--kind", kind, "--keys", "north,south")
    assert (done.code, done.err) == (0, "")
    pipeline = Pipeline.read("taps.toml")
    assert pipeline.source.kind == kind
    assert pipeline.stream.lateness == ("0s" if kind in ("parquet", "jsonl", "csv") else "10min")


@pytest.mark.parametrize(
    "kind", [["--kind", "stdin"], ["--kind", "http"], ["--kind", "csv", "--growing"]]
)
def test_what_is_live_may_wait_for_late_events_or_not(kind, capsys):
    start = ["--yes", *kind, "--keys", "north,south", "--lateness"]
    assert Outcome(capsys, "init", "waits.toml", *start, "90s").code == 0
    assert Pipeline.read("waits.toml").stream.lateness == "90s"
    assert Outcome(capsys, "init", "at-once.toml", *start, "-").code == 0
    assert Pipeline.read("at-once.toml").stream.lateness == "0s"
    text = Path("at-once.toml").read_text(encoding="utf-8")
    said = '# how long after its end a live unit closes (default: "0s")'
    assert '# lateness = "10min"'.ljust(36) + said in text
    wrong = Outcome(capsys, "init", "wrong.toml", *start, "soon")
    assert (wrong.code, wrong.err.startswith("penstock: --lateness: ")) == (2, True)


def test_a_dash_leaves_something_out_and_the_next_option_is_no_answer(capsys):
    start = ["init", "taps.toml", "--keys", "north,south"]
    unanswered = Outcome(capsys, *start, "--sink", "--yes")
    assert unanswered.code == 2
    assert "an answer is needed before --yes: write - to leave it out." in unanswered.err
    assert not Path("taps.toml").exists()
    left_out = [
        token
        for name in ("person", "until", "other", "head", "sink")
        for token in (f"--{name}", "-")
    ]
    assert Outcome(capsys, *start, *left_out, "--yes").code == 0
    pipeline = Pipeline.read("taps.toml")
    assert (pipeline.source.columns.person, pipeline.stream.until, pipeline.other) == (
        None,
        None,
        None,
    )
    assert (pipeline.store.head, pipeline.sinks) == (None, ())


def test_standard_input_with_an_end_waits_for_nothing(capsys):
    start = [
        "init",
        "taps.toml",
        "--yes",
        "--kind",
        "stdin",
        "--keys",
        "north,south",
        "--origin",
        "2026-01-01",
    ]
    ends = [*start, "--until", "2026-02-01"]
    assert "--lateness means nothing here" in Outcome(capsys, *ends, "--lateness", "10min").err
    done = Outcome(capsys, *ends)
    assert done.code == 0
    assert "No event is late." in " ".join(done.out.split())
    assert Pipeline.read("taps.toml").stream.until == "2026-02-01T00:00:00+00:00"


def test_lateness_is_asked_of_what_is_live(capsys, monkeypatch):
    tokens = (
        "init",
        "taps.toml",
        "--kind",
        "http",
        "--source",
        "127.0.0.1:8080",
        "--keys",
        "north,south",
        "--every",
        "1h",
    )
    done = answered(capsys, monkeypatch, *[""] * 20, tokens=tokens)
    assert done.code == 0, done.err
    assert "How long after its end a live unit closes" in done.out
    assert "[stream] lateness [10min]:" in done.out
    assert "[stream] until" not in done.out


@pytest.mark.parametrize("mechanism", sorted(MECHANISMS))
def test_every_mechanism_can_be_written_but_what_a_publisher_cannot_keep(mechanism, capsys):
    done = Outcome(
        capsys, "init", "taps.toml", "--yes", "--keys", "north,south", "--mechanism", mechanism
    )
    if mechanism.endswith("_pan"):
        assert done.code == 2
        assert f"--mechanism: {mechanism} promises something" in done.err
        assert not Path("taps.toml").exists()
    else:
        assert (done.code, done.err) == (0, "")
        assert Pipeline.read("taps.toml").mechanism().name == mechanism


def test_any_option_of_a_source_can_be_given(capsys):
    tokens = ["init", "taps.toml", "--yes", "--kind", "kafka", "--keys", "north,south"]
    more = ["format=avro", "schema_file=tap.avsc", "group=metro", "accept_loss=yes"]
    given = [token for each in more for token in ("--option", each)]
    assert Outcome(capsys, *tokens, *given).code == 0
    options = Pipeline.read("taps.toml").source.options
    assert (options["schema_file"], options["group"]) == ("tap.avsc", "metro")
    assert options["accept_loss"] is True
    Path("taps.toml").unlink()
    wrong = Outcome(capsys, *tokens, "--option", "grup=metro")
    assert "grup" not in wrong.out
    assert "is not known here" in wrong.err
    assert "--option must be NAME=VALUE" in Outcome(capsys, *tokens, "--option", "group").err
    assert not Path("taps.toml").exists()


def test_odd_names_are_written_as_they_are(capsys):
    odd = 'a "b" \\ c # d\tö'
    assert (
        Outcome(
            capsys,
            "init",
            "taps.toml",
            "--yes",
            "--keys",
            f"{odd},x",
            "--key",
            odd,
            "--sink",
            "out.jsonl",
        ).code
        == 0
    )
    pipeline = Pipeline.read("taps.toml")
    assert pipeline.domain().keys == (odd, "x")
    assert pipeline.source.columns.keys == (odd,)
    assert pipeline.sinks[0].options["path"] == "out.jsonl"


def test_keys_may_stand_in_a_file(capsys):
    Path("keys.txt").write_text("north\nsouth\n")
    assert (
        Outcome(
            capsys,
            "init",
            "taps.toml",
            "--yes",
            "--domain-file",
            "keys.txt",
            "--other",
            "elsewhere",
        ).code
        == 0
    )
    assert Pipeline.read("taps.toml").domain().keys == ("north", "south", "elsewhere")


# -- questions -------------------------------------------------------------------------------------


def test_questions_are_asked_and_a_wrong_answer_is_asked_again(capsys, monkeypatch):
    Path("taps.csv").write_text(TAPS)
    answers = [
        "",
        "csv",
        "taps.csv",
        "",
        "",
        "",
        "",
        "",
        "1x",
        "1h",
        "Europe/Zurich",
        "2026-01-01",
        "",
        "",
        "Airport,Central",
    ]
    answers += ["elsewhere", "bx", "ba", "0.5", "1d", "25", "2", "", "elsewhere.head", "out"]
    done = answered(capsys, monkeypatch, *answers)
    assert done.code == 0, done.err
    assert 'must be a number and one of s, min, h, d, w, mo, such as "1h", not "1x".' in done.out
    assert "an answer is needed." in done.out
    assert "there is no mechanism 'bx'" in done.out
    assert "write window = 25 for the longest" in done.out
    pipeline = Pipeline.read("taps.toml")
    assert (pipeline.stream.name, pipeline.guarantee.window, pipeline.store.head) == (
        "taps",
        25,
        "elsewhere.head",
    )
    columns = pipeline.source.columns
    assert (columns.time, columns.keys, columns.person) == ("tapped_at", ("station",), "card")
    assert pipeline.sinks[0].kind == "parquet"


def test_columns_are_guessed_by_their_names_and_no_value_is_shown(capsys, monkeypatch):
    Path("taps.csv").write_text(TAPS)
    done = answered(
        capsys, monkeypatch, tokens=("init", "taps.toml", "--source", "taps.csv", "--name", "taps")
    )
    assert done.code == 2
    assert "Its columns: tapped_at, station, card." in done.out
    assert "The questions" not in done.err
    assert "not all answered. Nothing was written." in done.err
    for value in ("Airport", "4711", "2026-01-01T00:00:01Z"):
        assert value not in done.out + done.err
    assert not Path("taps.toml").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("taps.csv", "2026-01-01T00:00:01Z,Airport,Smith\n"),
        ("taps.csv", '"Smith",1767225601,Airport\n'),
        ("taps.jsonl", '["Smith"]\n'),
        ("taps.jsonl", '{"Smith": \n'),
        ("taps.jsonl", "Smith\n"),
        ("taps.parquet", "Smith"),
        ("taps.csv", ""),
    ],
)
def test_a_file_without_names_shows_nothing(name, content, capsys, monkeypatch):
    Path(name).write_text(content)
    done = answered(
        capsys, monkeypatch, tokens=("init", "taps.toml", "--source", name, "--name", "taps")
    )
    assert "The names of its columns cannot be seen" in done.out
    assert "Smith" not in done.out + done.err


def test_types_of_parquet_columns_are_taken_over(capsys):
    Path("taps").mkdir()
    pq.write_table(
        pa.table({"when": [1767225601], "card": [4711], "room": [12], "note": ["x"]}),
        "taps/a.parquet",
    )
    done = Outcome(
        capsys, "init", "taps.toml", "--yes", "--source", "taps/*.parquet", "--keys", "11,12"
    )
    assert done.code == 0, done.err
    columns = Pipeline.read("taps.toml").source.columns
    assert (columns.time, columns.keys, columns.person) == ("when", ("room",), "card")
    assert (columns.clock, columns.key_type, columns.person_type) == (
        "seconds",
        "integer",
        "integer",
    )
    assert "4711" not in done.out


def test_names_of_json_lines_are_found(capsys):
    Path("taps.jsonl").write_text(
        '{"ts": "2026-01-01T00:00:01Z", "station": "Airport", "user": "Smith"}\n'
    )
    assert (
        Outcome(
            capsys, "init", "taps.toml", "--yes", "--source", "taps.jsonl", "--keys", "Airport"
        ).code
        == 0
    )
    columns = Pipeline.read("taps.toml").source.columns
    assert (columns.time, columns.keys, columns.person) == ("ts", ("station",), "user")


def test_it_talks_on_a_terminal(tmp_path):
    """The real program on a pseudo-terminal, with the default for everything but the keys."""
    terminal, other = pty.openpty()
    command = [sys.executable, "-m", "penstock", "init", "taps.toml"]
    talking = subprocess.Popen(
        command, stdin=other, stdout=other, stderr=other, cwd=tmp_path, start_new_session=True
    )
    os.close(other)
    said, until = b"", time.monotonic() + 60
    while time.monotonic() < until:
        ready, _, _ = select.select([terminal], [], [], 0.1)
        if not ready:
            continue
        try:
            more = os.read(terminal, 4096)
        except OSError:  # it is over
            break
        if not more:
            break
        said += more
        prompt = said.splitlines()[-1]
        if prompt.rstrip(b"\x1b[0m ").endswith(b":") and (
            b"]:" in prompt or b"public file" in prompt
        ):
            os.write(terminal, b"north,south\n" if b"public file" in prompt else b"\n")
            said += b"\n"
    os.close(terminal)
    assert talking.wait(30) == 0, said.decode()
    assert Pipeline.read(tmp_path / "taps.toml").domain().keys == ("north", "south")
    assert b"Next: penstock run taps.toml" in said


@pytest.mark.parametrize(
    ("mechanism", "given", "written"),
    [
        ("ba", ["--delta", "1e-6"], "1e-6"),
        ("ba", [], None),
        ("toeplitz", [], "1/1000000"),
        ("toeplitz", ["--delta", "1e-9"], "1e-9"),
    ],
)
def test_a_delta_is_written_where_it_is_given_or_needed(mechanism, given, written, capsys):
    tokens = ["--yes", "--kind", "stdin", "--keys", "north,south", "--origin", "2026-01-01"]
    done = Outcome(capsys, "init", "taps.toml", *tokens, "--mechanism", mechanism, *given)
    assert done.code == 0, done.err
    privacy = tomllib.loads(Path("taps.toml").read_text(encoding="utf-8"))["privacy"]
    assert privacy.get("delta") == written


def test_a_mechanism_without_a_delta_takes_none(capsys):
    tokens = ["--yes", "--kind", "stdin", "--keys", "north", "--mechanism", "bs"]
    done = Outcome(capsys, "init", "taps.toml", *tokens, "--delta", "1e-6")
    assert (done.code, "--delta means nothing here: " in done.err) == (2, True)


# -- a file that is there ----------------------------------------------------------------------


def trips(name: str = "trips.parquet", **columns):
    """A Parquet file of taxi trips with statistics in its footer."""
    moment = datetime(2020, 3, 1, 8, tzinfo=UTC)
    table = {
        "pickup": pa.array([moment] * 50, pa.timestamp("ms")),
        "dropoff": pa.array([moment] * 50, pa.timestamp("ms")),
        "pu_zone": pa.array([133_713_371] * 50, pa.int64()),
        "passengers": pa.array([3] * 50, pa.int8()),
        "tip": pa.array([9.25] * 50),
    }
    pq.write_table(pa.table({**table, **columns}), name, write_statistics=True)


def test_a_schema_proposes_time_key_and_person(capsys, monkeypatch):
    trips(card=pa.array(["Smith"] * 50))
    tokens = ("init", "taxis.toml", "--from", "trips.parquet", "--keys", "1,2")
    done = answered(capsys, monkeypatch, *[""] * 40, tokens=tokens)
    assert done.code == 0, done.err
    assert (
        "Its columns: pickup (time), dropoff (time), pu_zone (integer), passengers (integer), "
        "tip (number), card (text). No value was read." in done.out
    )
    for question in ("time [pickup]:", "key [pu_zone]:", "person [card]:"):
        assert question in done.out
    source = Pipeline.read("taxis.toml").source
    assert (source.kind, source.options["path"]) == ("parquet", "trips.parquet")
    assert source.columns.key_type == "integer"


def test_a_number_of_passengers_is_no_person(capsys):
    trips()
    tokens = ["--yes", "--from", "trips.parquet", "--keys", "1,2"]
    assert Outcome(capsys, "init", "taxis.toml", *tokens).code == 0
    assert Pipeline.read("taxis.toml").source.columns.person is None


def test_no_value_of_parquet_is_read_or_shown(capsys):
    """All bytes of the rows are destroyed, and what is written stays the same."""
    trips()
    tokens = ["--yes", "--from", "trips.parquet", "--keys", "1,2"]
    whole = Outcome(capsys, "init", "whole.toml", "--name", "t", *tokens)
    content = bytearray(Path("trips.parquet").read_bytes())
    footer = int.from_bytes(content[-8:-4], "little") + 8
    content[4:-footer] = b"\xff" * (len(content) - footer - 4)
    Path("trips.parquet").write_bytes(content)
    poisoned = Outcome(capsys, "init", "poisoned.toml", "--name", "t", *tokens)
    assert (whole.code, poisoned.code) == (0, 0)
    assert Path("whole.toml").read_bytes() == Path("poisoned.toml").read_bytes()
    for value in ("133713371", "9.25", "2020-03-01"):
        assert value not in whole.out + Path("whole.toml").read_text()


def test_no_value_of_arrow_is_read(capsys):
    """All bytes before the footer are destroyed, and the columns are still found."""
    trips()
    feather.write_feather(pq.read_table("trips.parquet"), "trips.arrow")
    content = bytearray(Path("trips.arrow").read_bytes())
    footer = int.from_bytes(content[-10:-6], "little") + 10
    content[8:-footer] = b"\xff" * (len(content) - footer - 8)
    Path("trips.arrow").write_bytes(content)
    tokens = ["--yes", "--from", "trips.arrow", "--keys", "1,2"]
    done = Outcome(capsys, "init", "taxis.toml", *tokens)
    assert done.code == 0, done.err
    columns = Pipeline.read("taxis.toml").source.columns
    assert (columns.time, columns.keys) == ("pickup", ("pu_zone",))


def test_nothing_after_the_header_of_csv_is_read():
    """The rows are still in the pipe afterwards."""
    os.mkfifo("taps.csv")
    rows = b"2026-01-01T00:00:01Z,Airport,4711\n" * 9
    pipe = os.open("taps.csv", os.O_RDWR)
    os.write(pipe, b"tapped_at,station,card\n" + rows)
    assert list(csv_columns(Path("taps.csv"))) == ["tapped_at", "station", "card"]
    assert os.read(pipe, 10_000) == rows
    os.close(pipe)


def test_a_configuration_elsewhere_finds_file_and_keys(capsys):
    trips()
    Path("zones.txt").write_text("1\n2\n")
    Path("conf").mkdir()
    tokens = ["--yes", "--from", "trips.parquet", "--keys", "zones.txt"]
    assert Outcome(capsys, "init", "conf/taxis.toml", *tokens).code == 0
    pipeline = Pipeline.read("conf/taxis.toml")
    assert pipeline.source.options["path"] == "../trips.parquet"
    assert pipeline.domain().keys == ("1", "2")


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (["--from", "none.parquet"], "--from: there is no file {here}/none.parquet. Name a file"),
        (["--from", "taps.jsonl"], "{here}/taps.jsonl has no schema"),
        (["--from", "taps.xlsx"], "taps.xlsx ends in none of .arrow"),
        (["--from", "rows.csv"], "--from: the columns of {here}/rows.csv cannot be read"),
        (["--from", "taps.csv", "--source", "x"], "either --from or --source, not both."),
        (["--from", "taps.csv", "--key", "statoin"], "no column 'statoin'. Did you mean station?"),
        (["--from", "n.csv"], "--key is needed: The column of keys; "),
        (["--from", "taps.csv"], '--keys "Airport,Central" or --keys zones.txt.'),
        (["--from", "taps.csv", "--keys", "none.txt"], "there is no file {here}/none.txt with"),
        (["--from", "taps.csv", "--keys", "taps.csv:station"], "{here}/taps.csv has the events:"),
        (["--from", "taps.csv", "--keys", "z.csv"], "{here}/z.csv has several columns: write"),
        (["--from", "taps.csv", "--keys", "z.csv:zon"], "no column 'zon': it has 'id', 'zone'."),
    ],
)
def test_a_wrong_file_is_refused_with_what_to_write(tokens, said, capsys):
    Path("taps.csv").write_text(TAPS)
    Path("taps.jsonl").write_text("{}\n")
    Path("taps.xlsx").write_text("")
    Path("rows.csv").write_text("2026-01-01T00:00:01Z,Airport,Smith\n")
    Path("n.csv").write_text("tapped_at\n1\n")
    Path("z.csv").write_text("id,zone\n1,Airport\n")
    done = Outcome(capsys, "init", "taps.toml", "--yes", "--name", "t", *tokens)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert said.format(here=Path.cwd()) in done.err
    assert "Smith" not in done.err
    assert not Path("taps.toml").exists()


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("zones.txt", {"file": "zones.txt"}),
        ("@zones.txt", {"file": "zones.txt"}),
        ("zones.csv:zone", {"file": "zones.csv", "column": "zone"}),
        ("one.csv", {"file": "one.csv", "column": "zone"}),
        ("zones.parquet:zone", {"file": "zones.parquet", "column": "zone"}),
        ("one.parquet", {"file": "one.parquet", "column": "zone"}),
        ("zones.arrow:zone", {"file": "zones.arrow", "column": "zone"}),
        ("Airport, Central", {"keys": ["Airport", "Central"]}),
        ("line:Airport,line:Central", {"keys": ["line:Airport", "line:Central"]}),
    ],
)
def test_keys_are_a_list_or_a_file(given, written, capsys):
    table = pa.table({"id": [1, 2, 3], "zone": ["Airport", "Central", "Airport"]})
    pq.write_table(table, "zones.parquet")
    pq.write_table(table.select(["zone"]), "one.parquet")
    feather.write_feather(table, "zones.arrow")
    Path("zones.txt").write_text("Airport\nCentral\n")
    Path("zones.csv").write_text("id,zone\n1,Airport\n2,Central\n3,Airport\n")
    Path("one.csv").write_text("zone\nAirport\nCentral\n")
    tokens = ["--yes", "--kind", "stdin", "--keys", given]
    done = Outcome(capsys, "init", "taps.toml", *tokens)
    assert done.code == 0, done.err
    domain = tomllib.loads(Path("taps.toml").read_text(encoding="utf-8"))["domain"]
    assert domain == written
    keys = Pipeline.read("taps.toml").domain().keys
    assert [key.removeprefix("line:") for key in keys] == ["Airport", "Central"]
