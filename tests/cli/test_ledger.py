"""`penstock ledger`."""

from __future__ import annotations

import csv
import io
import json
from fractions import Fraction
from pathlib import Path

import pytest

from penstock.budget.zcdp import rho_of
from penstock.engine.ledger_report import spent, streams_of, together
from penstock.engine.sqlite import SQLiteReader

from tests.cli.outcome import Outcome
from tests.engine.published import pipeline, publish, several

TAPS = Path("taps.db")


@pytest.fixture
def taps() -> None:
    publish(TAPS, pipeline(), 50, seed=1)


@pytest.fixture
def views() -> None:
    publish(TAPS, several(), 50, seed=1)


def told(capsys, *tokens: str) -> dict:
    done = Outcome(capsys, "ledger", *tokens, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


# -- show ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("taps")
def test_every_unit_is_shown_with_what_its_window_cost(capsys):
    book = told(capsys, "show", "taps.db")
    with SQLiteReader("taps.db") as reader:
        account = spent(reader, "taps")
    assert (book["stream"], book["promised"], book["units_in_a_window"], book["currency"]) == (
        "taps",
        "1",
        24,
        "epsilon",
    )
    assert [row["unit"] for row in book["rows"]] == list(range(1, 51))
    assert [Fraction(row["window"]) for row in book["rows"]] == [
        account.window(unit) for unit in range(1, 51)
    ]
    fourth = book["rows"][3]
    assert fourth["begins"] == "2026-01-01T03:00:00+00:00"
    assert [(each["label"], each["amount"]) for each in fourth["charges"]] == [
        ("distance", "1/48"),
        ("publish", "1/12"),
    ]
    assert (fourth["charged"], fourth["charged_decimal"], fourth["window"]) == (
        "5/48",
        5 / 48,
        "1/6",
    )


@pytest.mark.usefixtures("taps")
def test_the_table_has_fractions_decimals_and_bars(capsys):
    out = Outcome(capsys, "ledger", "show", "taps.db", "--to", "4").out
    assert "taps: at most ε = 1 in any 24 units" in out
    assert "begins (UTC)" in out
    assert "distance 1/48; publish 1/12" in out
    assert "1/6 = 0.1667" in out
    assert "░" in out
    assert "The newest 40 of 50 units" in Outcome(capsys, "ledger", "show", "taps.db").out


@pytest.mark.usefixtures("taps")
def test_units_are_chosen_by_number_or_date(capsys):
    assert [row["unit"] for row in told(capsys, "show", "taps.db", "--from", "49")["rows"]] == [
        49,
        50,
    ]
    assert [
        row["unit"] for row in told(capsys, "show", "taps.db", "--to", "2026-01-01T01:59")["rows"]
    ] == [1, 2]
    assert (
        len(told(capsys, "show", "taps.db", "--from", "2026-01-02", "--to", "2026-01-02")["rows"])
        == 24
    )
    assert told(capsys, "show", "taps.db", "--from", "2027-01-01")["rows"] == []
    assert "No units." in Outcome(capsys, "ledger", "show", "taps.db", "--from", "2027-01-01").out


@pytest.mark.usefixtures("taps")
def test_as_csv_it_has_one_line_a_unit(capsys):
    done = Outcome(capsys, "ledger", "show", "taps.db", "--csv")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert len(rows) == 50
    assert (rows[3]["charges"], rows[3]["window"], rows[3]["promised"]) == (
        "spend distance 1/48; spend publish 1/12",
        "1/6",
        "1",
    )
    assert Outcome(capsys, "ledger", "show", "taps.db", "--csv", "--json").code == 2


@pytest.mark.usefixtures("views")
def test_several_views_have_one_ledger_in_small_units(capsys):
    book = told(capsys, "show", "taps.db")
    with SQLiteReader("taps.db") as reader:
        joint = together(reader, streams_of(reader)["taps"])
    assert (book["stream"], book["promised"], book["units_in_a_window"]) == ("taps", "1", 24)
    assert [Fraction(row["window"]) for row in book["rows"]] == [
        joint.window(unit) for unit in range(1, 51)
    ]
    row = book["rows"][24]
    assert row["views"]["daily"]["unit"] == 2
    assert sum(Fraction(view["window"]) for view in row["views"].values()) == Fraction(
        row["window"]
    )
    out = Outcome(capsys, "ledger", "show", "taps.db").out
    assert "unit 2: 1/3" in out
    assert "all views together" in out
    rows = list(
        csv.DictReader(io.StringIO(Outcome(capsys, "ledger", "show", "taps.db", "--csv").out))
    )
    assert (rows[24]["daily_unit"], rows[24]["daily_window"]) == ("2", "1/3")


@pytest.mark.parametrize("columns", ["60", "80", "120"])
def test_nothing_is_cut_off_on_a_narrow_screen(columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    zone = {
        "name": "zoned",
        "every": "1h",
        "origin": "2026-01-01",
        "zone": "America/Argentina/Buenos_Aires",
    }
    publish(Path("one.db"), pipeline(stream=zone), 30, seed=1)
    publish(Path("two.db"), several(), 30, seed=1)
    for store in ("one.db", "two.db"):
        out = Outcome(capsys, "ledger", "show", store).out
        rows = [line for line in out.splitlines() if line[:1] in ("┏", "┃", "│", "└")]
        assert max(map(len, rows)) <= int(columns)
        assert {line[-1] for line in rows} == {"┓", "┃", "│", "┘"}
        assert "…" not in out
        assert ("░" in out) is (columns == "120" or (columns, store) == ("80", "one.db"))
    assert "; times in America/Argentina/Buenos_Aires" in " ".join(
        Outcome(capsys, "ledger", "show", "one.db").out.split()
    )


@pytest.mark.usefixtures("views")
def test_a_view_alone_has_its_own_ledger(capsys):
    book = told(capsys, "show", "taps.db", "--stream", "taps/daily")
    assert (book["promised"], book["units_in_a_window"], len(book["rows"])) == ("1/6", 2, 2)


@pytest.mark.parametrize(
    "privacy",
    [
        {"mechanism": "toeplitz"},
        {"mechanism": "uniform", "window": 4},
        {"mechanism": "ba", "window": 4},
        {"mechanism": "bd_grouped", "window": 4, "groups": 2},
    ],
    ids=lambda privacy: privacy["mechanism"],
)
def test_a_promise_with_delta_is_kept_in_rho(privacy, capsys):
    publish(TAPS, pipeline(privacy={"epsilon": "1", "delta": "1e-6", **privacy}), 9, seed=1)
    book = told(capsys, "show", "taps.db")
    assert book["currency"] == "rho"
    assert Fraction(book["promised"]) == rho_of(Fraction(1), Fraction(1, 10**6))
    assert max(Fraction(row["window"]) for row in book["rows"]) <= Fraction(book["promised"])
    assert "at most ρ" in Outcome(capsys, "ledger", "show", "taps.db").out
    done = Outcome(capsys, "ledger", "verify", "taps.db")
    assert done.code == 0, done.out


@pytest.mark.parametrize("mechanism", ["dsat", "pegasus", "rg"])
def test_questions_and_thresholds_are_told_in_words(mechanism, capsys):
    publish(
        TAPS, pipeline(privacy={"mechanism": mechanism, "epsilon": "2", "window": 12}), 20, seed=2
    )
    done = Outcome(capsys, "ledger", "show", "taps.db")
    assert done.code == 0
    assert ("a question" in done.out) == any(
        each["kind"] == "open"
        for row in told(capsys, "show", "taps.db")["rows"]
        for each in row["charges"]
    )


# -- both ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("views")
@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (["show", "none.db"], "/none.db. Name the file of a store"),
        (["show", "taps.db", "--stream", "tabs"], "there is no stream 'tabs' here: it has"),
        (["show", "taps.db", "--from", "soon"], "--from must be a unit's number"),
        (["verify", "taps.db", "--head", "none.head"], "there is no head file 'none.head'"),
        (["verify", "taps.db", "--head", "3:" + "0" * 64], "does not say whose it is"),
        (
            ["verify", "postgresql://me:hunter2@localhost/x"],
            "a password does not belong on the command line",
        ),
        (
            ["verify", "postgresql://localhost/x?password=hunter2"],
            "a password does not belong on the command line",
        ),
        (["verify", "postgresql://[localhost/x"], "the address of a database must be like"),
    ],
)
def test_what_cannot_be_asked_is_one_line(tokens, message, capsys):
    done = Outcome(capsys, "ledger", *tokens)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert len(done.err.splitlines()) == 1
    assert "hunter2" not in done.err


def test_of_several_streams_one_must_be_chosen_to_show(capsys):
    for name in ("a", "b"):
        publish(TAPS, pipeline(stream={"name": name, "every": "1h", "origin": "2026-01-01"}), 2)
    assert (
        "which stream? it has a, b: choose one with --stream"
        in Outcome(capsys, "ledger", "show", "taps.db").err
    )
    assert len(told(capsys, "verify", "taps.db")["series"]) == 2


def test_nothing_private_is_shown(capsys):
    publish(TAPS, several(), 30)
    for tokens in (
        ["show", "taps.db"],
        ["verify", "taps.db"],
        ["show", "taps.db", "--json"],
        ["verify", "taps.db", "--json"],
    ):
        done = Outcome(capsys, "ledger", *tokens)
        assert done.code == 0
        assert "123456" not in done.out + done.err
        assert "positions" not in done.out


@pytest.mark.parametrize("tokens", [["ledger"], ["ledger", "show"], ["ledger", "verify"]])
def test_help_shows_an_example(tokens, capsys):
    done = Outcome(capsys, *tokens, "--help")
    assert done.code == 0
    assert "penstock ledger" in done.out
