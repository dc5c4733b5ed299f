"""`penstock query`."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest

from penstock import BudgetAbsorption, Laplace
from penstock.core.hierarchy import Hierarchy
from penstock.core.product import Product
from penstock.engine.release_log import open_log
from penstock.engine.sqlite import SQLiteReader
from penstock.engine.store import SeriesLog
from penstock.private.mechanisms.hierarchical import HierarchicalPegasus
from penstock.private.mechanisms.pegasus import Pegasus
from penstock.private.mechanisms.toeplitz import CorrelatedGaussian
from penstock.released.log import Log
from penstock.released.queries import (
    Jump,
    LowSignal,
    Rectangle,
    SlidingSum,
    TopK,
    UnitCounts,
    Where,
)
from penstock.testing import TestNoise

from tests.cli.outcome import Outcome
from tests.engine.published import pipeline, publish, several

STATIONS = ["Harbour", "Market", "Old Town", "Zoo"]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return write("city.log", Pegasus(epsilon="0.5"), STATIONS)


@pytest.fixture
def census(tmp_path: Path) -> Log:
    domain = Product.of({"sex": ["f", "m"], "age": 30, "region": ["north", "south", "west"]})
    run = Laplace(epsilon=1).run(domain)
    with open_log("census.log", run) as log:
        for unit in range(12):
            log.append(run.step(np.full(domain.size, 20 + unit)))
    return open_log("census.log")


def write(name, mechanism, domain, units=40, noise=None) -> Log:
    rng = np.random.default_rng(1)
    counts = rng.poisson(np.repeat(rng.integers(0, 200, (units // 10, 4)), 10, axis=0))
    run = mechanism.run(domain, noise=noise)
    with open_log(name, run, name="the city") as log:
        for unit in counts:
            log.append(run.step(unit))
    return open_log(name)


def asked(capsys, *tokens: str) -> dict:
    done = Outcome(capsys, "query", *tokens, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def drawn(page: str) -> dict:
    return json.loads(
        re.search(r'id="data">(.*?)</script>', Path(page).read_text(encoding="utf-8")).group(1)
    )


def test_a_log_describes_itself(log, capsys):
    done = Outcome(capsys, "query", "city.log")
    assert done.code == 0
    for text in (
        "the city",
        "pegasus",
        "Guarantee(epsilon=1/2, window=1)",
        "can hardly tell",
        "Harbour",
        "1 to 40",
        "jump",
    ):
        assert text in done.out
    about = json.loads(Outcome(capsys, "query", "city.log", "--json").out)
    assert (about["mechanism"], about["keys"], about["last_unit"], about["private"]) == (
        "pegasus",
        4,
        40,
        True,
    )
    assert about["configuration"]["smoother"] == "median"
    assert "sum" in about["answers"]
    assert "hierarchy" in about["cannot_answer"]["--roll-up"]


def test_a_log_made_with_test_noise_promises_nothing(capsys):
    write("test.log", Laplace(epsilon=1), 4, noise=TestNoise(1))
    done = Outcome(capsys, "query", "test.log")
    assert "NONE: made with a test's noise" in done.out
    assert "can hardly tell" not in done.out


def test_an_empty_log_is_described_too(capsys):
    open_log("new.log", Laplace(epsilon=1).run(2)).close()
    done = Outcome(capsys, "query", "new.log")
    assert done.code == 0
    assert "none yet" in done.out
    assert "no units yet" in Outcome(capsys, "query", "new.log", "counts").err


def test_answers_are_those_of_the_library(log, capsys):
    found = asked(capsys, "city.log", "counts")
    assert found["rows"] == list(UnitCounts().answer(log).rows())
    found = asked(capsys, "city.log", "sum", "--window", "24", "--last", "5", "--confidence", "0.9")
    assert found["rows"] == list(SlidingSum(24).answer(log, range(36, 41)).rows("0.9"))
    found = asked(capsys, "city.log", "jump", "--window", "3", "--delta", "20", "--all")
    assert found["rows"] == list(Jump(3, 20).series(log).rows())
    assert found["threshold"] == 20
    found = asked(capsys, "city.log", "low", "--window", "3", "--delta", "20", "--unit", "9")
    assert found["rows"] == list(LowSignal(3, 20).answer(log, 9).rows())
    found = asked(capsys, "city.log", "top", "--k", "2", "--window", "3")
    assert found["rows"] == list(TopK(2, of=SlidingSum(3)).answer(log).rows())
    assert len(asked(capsys, "city.log", "top")["rows"]) == 4
    assert len(asked(capsys, "city.log", "decay", "--gamma", "0.9", "--window", "10")["rows"]) == 4
    assert len(asked(capsys, "city.log", "decay", "--power", "1", "--window", "10")["rows"]) == 4
    assert (
        len(
            asked(capsys, "city.log", "drop", "--window", "2", "--delta", "5", "--hindsight")[
                "rows"
            ]
        )
        == 4
    )
    assert len(asked(capsys, "city.log", "change", "--window", "2", "--delta", "5")["rows"]) == 4


def test_keys_are_chosen_and_added_up(log, capsys):
    one = asked(capsys, "city.log", "counts", "--key", "Zoo", "--key", "Market")["rows"]
    assert [row["name"] for row in one] == ["Zoo", "Market"]
    both = asked(capsys, "city.log", "counts", "--key", "Zoo", "--key", "Market", "--together")[
        "rows"
    ]
    assert [row["estimate"] for row in both] == [sum(row["estimate"] for row in one)]
    part = asked(capsys, "city.log", "counts", "--range", "Market", "Zoo")["rows"]
    assert part[0]["name"] == "Market to Zoo"
    corner = asked(capsys, "city.log", "counts", "--rectangle", "0,0:1,0", "--grid", "2x2")["rows"]
    assert corner[0]["estimate"] == sum(
        row["estimate"]
        for row in asked(capsys, "city.log", "counts", "--key", "Harbour", "--key", "Old Town")[
            "rows"
        ]
    )
    assert len(asked(capsys, "city.log", "counts", "--together")["rows"]) == 1
    alarms = asked(
        capsys, "city.log", "jump", "--window", "3", "--delta", "20", "--key", "Zoo", "--last", "2"
    )["rows"]
    assert [row["name"] for row in alarms] == ["Zoo", "Zoo"]


@pytest.mark.parametrize(
    ("chosen", "query"),
    [
        (["age=10..19", "sex=f"], Where(age=("10", "19"), sex="f")),
        (["region=west,north"], Where(region=["west", "north"])),
        (["age=20..", "sex=m"], Where(age=("20", None), sex="m")),
        (["age=..9"], Where(age=(None, "9"))),
        (["age=.."], Where(age=(None, None))),
    ],
)
def test_ranges_of_attributes_are_those_of_the_library(census, chosen, query, capsys):
    tokens = [part for text in chosen for part in ("--where", text)]
    assert asked(capsys, "census.log", "counts", *tokens)["rows"] == list(
        query.answer(census).rows()
    )
    assert asked(capsys, "census.log", "counts", *tokens)["query"] == query.in_words()


def test_ranges_of_attributes_show_in_every_form(census, capsys):
    tokens = (
        "query",
        "census.log",
        "sum",
        "--window",
        "3",
        "--where",
        "age=10..19",
        "--where",
        "sex=f",
    )
    want = list(Where(age=("10", "19"), sex="f", of=SlidingSum(3)).series(census).rows("0.9"))
    table = Outcome(capsys, *tokens).out
    assert "sums of 3 units where age is 10 to 19 and sex is f" in table
    assert "age 10 to 19, sex f" in table
    text = Outcome(capsys, *tokens, "--all", "--confidence", "0.9", "--csv").out
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(int(row["unit"]), float(row["estimate"])) for row in rows] == [
        (row["unit"], row["estimate"]) for row in want
    ]
    found = asked(capsys, *tokens[1:], "--all", "--confidence", "0.9")
    assert found["rows"] == want
    assert Outcome(capsys, *tokens, "--plot", "out/part.html").code == 0
    page = drawn("out/part.html")
    assert page["names"] == ["age 10 to 19, sex f"]
    assert page["units"] == list(range(3, 13))
    assert (
        asked(capsys, "census.log", "decay", "--gamma", "0.5", "--window", "4", "--where", "sex=f")[
            "rows"
        ][0]["name"]
        == "sex f"
    )


def test_a_value_may_look_like_a_range_or_a_list(capsys):
    run = Laplace(epsilon=1).run(
        Product.of({"when": ["8..9", "8", "9", "-1"], "what": ["a=b", "c"]})
    )
    with open_log("odd.log", run) as log:
        log.append(run.step(np.full(8, 10**6)))
    for text, cells in (("when=8..9", 2), ("when=8..-1", 6), ("when=-1", 2), ("what=a=b", 4)):
        assert (
            round(
                asked(capsys, "odd.log", "counts", "--where", text)["rows"][0]["estimate"] / 10**6
            )
            == cells
        )
    run = Laplace(epsilon=1).run(Product.of(["1,2", "1", "2"]))
    with open_log("one.log", run) as log:
        log.append(run.step(np.full(3, 10**6)))
    for text, keys in (("key=1,2", 1), ("key=2,1", 2)):
        assert (
            round(
                asked(capsys, "one.log", "counts", "--where", text)["rows"][0]["estimate"] / 10**6
            )
            == keys
        )


def test_a_log_says_what_its_attributes_are(census, log, capsys):
    out = Outcome(capsys, "query", "census.log").out
    assert "sex: f, m; age: 0, 1, 2, …, 29; region: north, south, west" in out
    about = asked(capsys, "census.log")
    assert about["attributes"]["sex"] == ["f", "m"]
    assert "--where" in about["answers"]
    assert "attributes" not in Outcome(capsys, "query", "city.log").out
    assert asked(capsys, "city.log")["attributes"] == {}


def test_a_rectangle_on_a_grid_of_two_attributes_needs_no_shape(capsys):
    run = Laplace(epsilon=1).run(Product.of({"place": ["inn", "mill", "quay"], "hour": 24}))
    with open_log("grid.log", run) as log:
        log.append(run.step(np.arange(72)))
    rows = asked(capsys, "grid.log", "counts", "--rectangle", "0,8:1,17")["rows"]
    assert rows == list(Rectangle((0, 8), (1, 17)).answer(open_log("grid.log")).rows())
    assert (
        rows[0]["estimate"]
        == asked(
            capsys, "grid.log", "counts", "--where", "place=inn,mill", "--where", "hour=8..17"
        )["rows"][0]["estimate"]
    )


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (
            ["--where", "agee=3"],
            "no attribute 'agee': it has 'sex', 'age', 'region'; nearest is 'age'",
        ),
        (
            ["--where", "region=nort"],
            "'region' has no value 'nort': it has 'north', 'south', 'west'; nearest is 'north'",
        ),
        (["--where", "region=west,nort"], "'region' has no value 'nort'"),
        (["--where", "age=1..99"], "'age' has no value '99': it has '0', '1', '2', …, '29'"),
        (["--where", "age=9..3"], "'9' comes after '3' in the order of 'age'"),
        (
            ["--where", "age"],
            "--where must be like age=20..39, sex=f or region=north,west, not 'age'",
        ),
        (["--where", "age="], "--where must be like"),
        (
            ["--where", "sex=f", "--where", "sex=m"],
            "--where must not name 'sex' twice: write values with ','",
        ),
        (["--where", "sex=f,f"], "none twice"),
        (
            ["--where", "sex=f", "--together"],
            "--where, --rectangle and --roll-up exclude each other",
        ),
        (["--where", "sex=f", "--key", "f,1,north"], "--key cannot be used here"),
        (["--rectangle", "0,0:1,1"], 'the keys are not all like "x,y"'),
    ],
)
def test_a_mistake_with_attributes_is_one_clear_line(census, tokens, message, capsys):
    done = Outcome(capsys, "query", "census.log", "counts", *tokens)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert len(done.err.splitlines()) == 1


def test_a_hierarchy_is_rolled_up(capsys):
    tree = Hierarchy.of({"r1": "A/1", "r2": "A/1", "r3": "A/2", "kiosk": ""})
    write("campus.log", HierarchicalPegasus(epsilon=1), tree)
    rows = asked(capsys, "campus.log", "sum", "--window", "5", "--roll-up", "--depth", "0")["rows"]
    assert [(row["name"], row["low"]) for row in rows] == [("A", None), ("kiosk", None)]
    done = Outcome(capsys, "query", "campus.log", "sum", "--window", "5", "--roll-up")
    assert "not known" in done.out


def test_tables_and_csv_show_the_same(log, capsys):
    table = Outcome(capsys, "query", "city.log", "sum", "--window", "3", "--key", "Zoo").out
    text = Outcome(capsys, "query", "city.log", "sum", "--window", "3", "--key", "Zoo", "--csv").out
    (row,) = csv.DictReader(io.StringIO(text))
    assert (row["unit"], row["name"]) == ("40", "Zoo")
    assert "95 % interval" in table
    assert f"{float(row['estimate']):,.0f}"[:2] in table
    many = Outcome(capsys, "query", "city.log", "counts", "--all").out
    assert "… and 120 more: --csv and --json show all." in many
    assert (
        len(Outcome(capsys, "query", "city.log", "counts", "--all", "--csv").out.splitlines())
        == 161
    )


def test_a_confidence_is_never_rounded_up(log, capsys):
    assert (
        "99.9 % interval"
        in Outcome(capsys, "query", "city.log", "counts", "--confidence", "0.999").out
    )
    done = Outcome(capsys, "query", "city.log", "counts", "--confidence", "0.99999999")
    assert "100 %" not in done.out
    assert "0.99999999 interval" in done.out


def test_what_was_not_read_is_said(capsys):
    write("ba.log", BudgetAbsorption(epsilon="0.1", window=30), STATIONS)
    done = Outcome(capsys, "query", "ba.log", "sum", "--window", "20")
    assert "not read" in done.out
    assert "an earlier release stands for these units, and the error is not known" in done.out


def test_a_plot_is_one_page_that_loads_nothing(log, capsys):
    done = Outcome(
        capsys,
        "query",
        "city.log",
        "jump",
        "--window",
        "3",
        "--delta",
        "20",
        "--plot",
        "out/jump.html",
    )
    assert done.code == 0
    assert f"Open {Path.cwd() / 'out/jump.html'}" in done.out
    page = Path("out/jump.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in page
    assert not re.search(r"(src|href)\s*=\s*[\"']?https?:", page)
    data = drawn("out/jump.html")
    assert data["units"] == list(range(3, 41))
    assert data["names"] == STATIONS
    assert (
        np.array(data["raised"]).T.astype(bool).tolist() == Jump(3, 20).series(log).raised.tolist()
    )
    assert data["thresholds"] == [20]
    Outcome(
        capsys,
        "query",
        "city.log",
        "change",
        "--window",
        "3",
        "--delta",
        "20",
        "--plot",
        "out/change.html",
    )
    assert drawn("out/change.html")["thresholds"] == [20, -20]


def test_a_plot_promises_no_more_than_the_log(capsys):
    write("test.log", Laplace(epsilon=1), 4, noise=TestNoise(1))
    Outcome(capsys, "query", "test.log", "counts", "--plot", "test.html")
    page = Path("test.html").read_text(encoding="utf-8")
    assert "NONE: made with a test&#39;s noise" in page
    assert "can hardly tell" not in page


def test_a_plot_has_only_so_many_numbers(log, capsys, monkeypatch):
    monkeypatch.setattr("penstock.cli.query.output.MAX_PAGE_NUMBERS", 100)
    done = Outcome(capsys, "query", "city.log", "counts", "--plot", "all.html")
    assert done.code == 2
    assert "160 numbers are too many for one page (limit: " in done.err
    assert not Path("all.html").exists()
    assert (
        Outcome(capsys, "query", "city.log", "counts", "--key", "Zoo", "--plot", "all.html").code
        == 0
    )


def test_names_that_look_like_markup_are_shown_as_they_are(capsys):
    write("odd.log", Laplace(epsilon=1), ["[/red]", "a,b", "[bold]x", "-5"])
    done = Outcome(
        capsys, "query", "odd.log", "counts", "--key", "[/red]", "--key", "-5", "--together"
    )
    assert done.code == 0
    assert "counts of [/red], -5 together" in done.out
    assert (
        "[bold]x"
        in Outcome(capsys, "query", "odd.log", "counts", "--range", "[/red]", "[bold]x").out
    )


def test_counts_are_ranked_in_hindsight_too(log, capsys):
    found = asked(capsys, "city.log", "top", "--k", "2", "--unit", "33", "--hindsight")["rows"]
    want = TopK(2, of=SlidingSum(1, hindsight=True)).answer(log, 33)
    assert [(row["name"], row["estimate"]) for row in found] == list(
        zip(want.names[0], want.estimate[0], strict=True)
    )


@pytest.mark.parametrize(
    ("weights", "answers"),
    [
        ("window", {"sum", "low", "top", "--roll-up"}),
        ("prefix", {"sum", "low", "top", "--roll-up"}),
        ("decay", {"decay", "--roll-up"}),
    ],
)
def test_a_log_of_sums_says_what_it_can_answer(weights, answers, capsys):
    write(
        "sums.log",
        CorrelatedGaussian(epsilon=1, weights=weights, span=6),
        ["A/x", "A/y", "B/x", "B/y"],
    )
    about = asked(capsys, "sums.log")
    assert set(about["answers"]) == answers
    assert "delta = 1/1000000" in about["promise"]
    assert "delta=1/1000000" in about["guarantee"]


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (["none.log"], "/none.log. Name the file of a store"),
        (["text.log"], "text.log cannot be read: file is not a database. It is not a store"),
        (["city.log", "sum"], "sum needs --window"),
        (["city.log", "sum", "--window", "41"], "this needs 41 units, and the log has 40"),
        (["city.log", "sum", "--window", "0"], "--window must be at least 1 unit, not 0"),
        (["city.log", "sum", "--window", "2.5"], "--window must be a number and one of s, min"),
        (["city.log", "counts", "--key", "Harbor"], "no key 'Harbor'; there is 'Harbour'"),
        (["city.log", "counts", "--window", "3"], "--window cannot be used with counts"),
        (["city.log", "counts", "--unit", "99"], "unit 99 cannot be answered, only units 1..40"),
        (
            ["city.log", "counts", "--unit", "9", "--last", "3"],
            "--unit, --last, --all and --from/--to exclude each other",
        ),
        (["city.log", "counts", "--confidence", "2"], "confidence must lie between 0 and 1"),
        (["city.log", "counts", "--json", "--csv"], "--json and --csv exclude each other"),
        (["city.log", "counts", "--rectangle", "1,2"], "--rectangle must be like 0,0:3,4"),
        (
            ["city.log", "counts", "--rectangle", "0,0:1,1", "--grid", "2-2"],
            "--grid must be like 10x20",
        ),
        (["city.log", "counts", "--empty-range"], "--empty-range"),
        (["city.log", "counts", "--depth", "1"], "--depth can only be used with --roll-up"),
        (["city.log", "counts", "--together", "--roll-up"], "exclude each other"),
        (["city.log", "decay", "--window", "3"], "decay needs --gamma or --power"),
        (["city.log", "jump", "--window", "3"], "jump needs --delta"),
        (
            ["city.log", "jump", "--window", "3", "--delta", "3", "--together"],
            "asked of single keys",
        ),
        (
            ["city.log", "jump", "--window", "3", "--delta", "nan", "--json"],
            "delta must be a finite number",
        ),
        (["city.log", "low", "--window", "3", "--delta", "inf"], "delta must be a finite number"),
        (["city.log", "top", "--k", "9"], "k must be at most 4"),
        (["city.log", "top", "--plot", "a.html"], "--plot shows numbers over time"),
        (["city.log", "top", "--key", "Zoo"], "top ranks all keys"),
        (["city.log", "sum", "--window", "3", "--k", "2"], "--k cannot be used with sum"),
        (["city.log", "--window", "3"], "--window needs a question"),
        (["city.log", "counts", "--where", "sex=f"], "the keys of this log have no attributes"),
        (
            ["city.log", "jump", "--window", "3", "--delta", "3", "--where", "a=b"],
            "asked of single keys",
        ),
        (["city.log", "--where", "sex=f"], "--where needs a question"),
        (["city.log", "--key", "Zoo"], "--key needs a question"),
        (["city.log", "--roll-up"], "--roll-up needs a question"),
        (["city.log", "--all"], "--all needs a question"),
        (["city.log", "nonsense"], "nonsense"),
    ],
)
def test_a_mistake_is_one_clear_line(log, tokens, message, capsys):
    Path("text.log").write_text("not a log" * 999)
    done = Outcome(capsys, "query", *tokens)
    assert done.code == 2
    assert message in done.err
    assert len(done.err.splitlines()) == 1
    assert not done.out


def test_help_shows_examples(capsys):
    done = Outcome(capsys, "query", "--help")
    assert "penstock query city.db top --k 5 --window 1d" in done.out
    assert "penstock query census.db counts --where age=20..39 --where sex=f" in done.out


# -- stores ----------------------------------------------------------------------------------------


def test_a_window_may_be_a_duration_where_the_units_are_known(capsys):
    publish(Path("taps.db"), pipeline(), 30)
    day, units = (
        json.loads(Outcome(capsys, "query", "taps.db", "sum", "--window", text, "--json").out)
        for text in ("1d", "24")
    )
    assert day == units
    last = json.loads(Outcome(capsys, "query", "taps.db", "counts", "--last", "2h", "--json").out)
    assert {row["unit"] for row in last["rows"]} == {29, 30}


def test_a_duration_is_refused_where_nothing_says_how_long_a_unit_is(log, capsys):
    done = Outcome(capsys, "query", "city.log", "sum", "--window", "1d")
    assert done.code == 2
    assert "--window must be a number of units, not '1d'" in done.err


def test_a_store_is_asked_like_a_log(capsys):
    publish(Path("taps.db"), pipeline(), 30)
    about = json.loads(Outcome(capsys, "query", "taps.db", "--json").out)
    assert (about["name"], about["mechanism"], about["last_unit"], about["every"]) == (
        "taps",
        "ba",
        30,
        "1h",
    )
    assert (about["begins"], about["ends"]) == (
        "2026-01-01T00:00:00+00:00",
        "2026-01-02T06:00:00+00:00",
    )
    assert (
        "1 to 30, 2026-01-01T00:00+00:00 to 2026-01-02T06:00:00+00:00, every 1h"
        in Outcome(capsys, "query", "taps.db").out
    )
    with SQLiteReader("taps.db") as reader:
        expected = UnitCounts().answer(SeriesLog(reader, "taps"), range(29, 31))
    found = asked(capsys, "taps.db", "counts", "--last", "2")["rows"]
    assert [row["estimate"] for row in found] == expected.estimate.ravel().tolist()
    assert (found[0]["begins"], found[-1]["ends"]) == (
        "2026-01-02T04:00:00+00:00",
        "2026-01-02T06:00:00+00:00",
    )


def test_units_of_a_store_are_shown_with_their_times(capsys):
    publish(
        Path("taps.db"),
        pipeline(
            stream={"name": "taps", "every": "1h", "zone": "Asia/Tokyo", "origin": "2026-01-01"}
        ),
        3,
    )
    out = Outcome(capsys, "query", "taps.db", "counts").out
    assert "Times are in Asia/Tokyo." in out
    assert "2026-01-01 02:00" in out
    rows = list(
        csv.DictReader(io.StringIO(Outcome(capsys, "query", "taps.db", "counts", "--csv").out))
    )
    assert (rows[0]["unit"], rows[0]["begins"]) == ("3", "2026-01-01T02:00:00+09:00")


def test_one_of_several_streams_is_chosen(capsys):
    publish(Path("taps.db"), several(), 48)
    done = Outcome(capsys, "query", "taps.db", "counts")
    assert done.code == 2
    assert "which stream? it has taps/daily, taps/hourly: choose one with --stream" in done.err
    rows = asked(capsys, "taps.db", "counts", "--stream", "taps/daily", "--all")["rows"]
    assert {row["unit"] for row in rows} == {1, 2}
    assert (
        "Did you mean taps/daily?"
        in Outcome(capsys, "query", "taps.db", "--stream", "taps/dayly").err
    )


def test_units_are_asked_for_by_date(capsys):
    publish(Path("taps.db"), pipeline(), 60)
    day = asked(capsys, "taps.db", "counts", "--from", "2026-01-02", "--to", "2026-01-02")["rows"]
    assert [row["unit"] for row in day[::3]] == list(range(25, 49))
    sums = asked(capsys, "taps.db", "sum", "--window", "24", "--to", "2026-01-02T00:30")["rows"]
    assert {row["unit"] for row in sums} == {24, 25}  # before, there are no 24 units
    assert {row["unit"] for row in asked(capsys, "taps.db", "counts", "--from", "59")["rows"]} == {
        59,
        60,
    }
    done = Outcome(capsys, "query", "taps.db", "counts", "--from", "2027-01-01")
    assert done.code == 2
    assert "units 1 to 60 can be" in done.err


def test_a_log_has_numbers_of_units_and_one_series(log, capsys):
    assert {row["unit"] for row in asked(capsys, "city.log", "counts", "--from", "39")["rows"]} == {
        39,
        40,
    }
    assert (
        "these units have no times"
        in Outcome(capsys, "query", "city.log", "counts", "--from", "2026-01-01").err
    )
    done = Outcome(capsys, "query", "city.log", "--stream", "taps")
    assert "there is no stream 'taps' here: it has the city" in done.err
    assert "begins" not in asked(capsys, "city.log", "counts")["rows"][0]


@pytest.mark.parametrize("tokens", [["--unit", "1"], ["--last", "2"], ["--all"]])
def test_units_are_chosen_in_one_way(tokens, log, capsys):
    done = Outcome(capsys, "query", "city.log", "counts", "--from", "1", *tokens)
    assert done.code == 2
    assert "--from/--to exclude each other" in done.err
    assert "--to needs a question" in Outcome(capsys, "query", "city.log", "--to", "1").err


def test_a_file_that_is_neither_is_told_so(capsys):
    Path("other.db").write_bytes(b"no database" * 100)
    done = Outcome(capsys, "query", "other.db")
    assert done.code == 2
    assert "other.db cannot be read" in done.err
    assert "It is not a store." in done.err


def test_a_mistake_in_a_question_to_a_store_is_one_line(capsys):
    publish(Path("taps.db"), pipeline(), 3)
    done = Outcome(capsys, "query", "taps.db", "sum", "--window", "24", "--unit", "2")
    assert done.code == 2
    assert len(done.err.splitlines()) == 1


def test_filtered_counts_say_that_they_cost_nothing(tmp_path, capsys):
    publish(Path("city.db"), pipeline(), 60, seed=1)
    told = asked(capsys, "city.db", "counts", "--filtered", "--period", "1d", "--period", "7d")
    assert told["confidence"] == "0.9"
    assert told["filter"]["periods"] == [24, 168]
    assert told["filter"]["epsilon"] == "0"
    assert told["filter"]["point"] == "median"
    with SQLiteReader("city.db") as reader:
        answer = UnitCounts().answer(SeriesLog(reader, "taps").filtered(["1d", "7d"]))
    low, _ = answer.interval("0.9")
    assert [row["estimate"] for row in told["rows"]] == answer.estimate[0].tolist()
    assert [row["low"] for row in told["rows"]] == low[0].tolist()
    assert all(row["variance"] > 0 for row in told["rows"])

    done = Outcome(capsys, "query", "city.db", "counts", "--filtered")
    assert done.code == 0
    assert "counts, filtered" in done.out
    assert "90 % interval" in done.out
    assert "costs no privacy budget" in " ".join(done.out.split())

    done = Outcome(capsys, "query", "city.db", "counts", "--filtered", "--csv")
    assert [row["filtered"] for row in csv.DictReader(io.StringIO(done.out))] == ["True"] * 3


def test_non_negative_counts_are_cut_and_say_so(capsys):
    log = write("zeros.log", Laplace(epsilon="1/50"), STATIONS, noise=TestNoise(3))
    raw = asked(capsys, "zeros.log", "counts", "--all")
    told = asked(capsys, "zeros.log", "counts", "--all", "--nonnegative")
    assert min(row["estimate"] for row in raw["rows"]) < 0
    for before, row in zip(raw["rows"], told["rows"], strict=True):
        assert row["estimate"] == max(before["estimate"], 0)
        assert row["low"] == max(before["low"], 0)
        assert row["high"] == max(before["high"], 0)
    assert "costs no privacy budget" in told["nonnegative"]
    assert "nonnegative" not in raw
    done = Outcome(capsys, "query", "zeros.log", "counts", "--nonnegative", "--csv")
    assert [row["nonnegative"] for row in csv.DictReader(io.StringIO(done.out))] == ["True"] * 4
    done = Outcome(capsys, "query", "zeros.log", "counts", "--nonnegative", "--plot", "zeros.html")
    assert "counts, non-negative" in done.out
    assert "too high on average" in " ".join(done.out.split())
    assert "too high on average" in Path("zeros.html").read_text(encoding="utf-8")
    log.close()


def test_non_negative_nodes_add_up_also_where_one_is_shown(capsys):
    tree = Hierarchy.of(dict.fromkeys(STATIONS, "city"))
    log = write("nodes.log", HierarchicalPegasus(epsilon="1/50"), tree, noise=TestNoise(2))
    told = asked(capsys, "nodes.log", "counts", "--all", "--nonnegative")
    by_unit: dict[int, dict[str, float]] = {}
    for row in told["rows"]:
        by_unit.setdefault(row["unit"], {})[row["name"]] = row["estimate"]
    for each in by_unit.values():
        parts = [value for name, value in each.items() if name != "city"]
        assert min(parts) >= 0
        assert round(sum(parts), 6) == each["city"]
    one = asked(capsys, "nodes.log", "counts", "--all", "--nonnegative", "--key", "city/Zoo")
    assert [row["estimate"] for row in one["rows"]] == [
        each["city/Zoo"] for each in by_unit.values()
    ]
    log.close()


def test_a_roll_up_of_keys_keeps_the_totals_of_what_was_released(capsys):
    tree = Hierarchy.of(dict(zip(STATIONS, ["a", "a", "b", "b"], strict=True)))
    write("tree.log", Laplace(epsilon="1/50"), tree, noise=TestNoise(1)).close()
    raw = asked(capsys, "tree.log", "counts", "--all", "--roll-up")
    told = asked(capsys, "tree.log", "counts", "--all", "--roll-up", "--nonnegative")
    assert (
        min(row["estimate"] for row in raw["rows"])
        < 0
        <= min(row["estimate"] for row in told["rows"])
    )
    for before, row in zip(raw["rows"], told["rows"], strict=True):
        if "/" not in row["name"]:
            assert row["estimate"] == max(before["estimate"], 0)


@pytest.mark.parametrize("question", [["top"], ["jump", "--delta", "1"], ["low", "--delta", "3"]])
def test_what_compares_numbers_takes_them_as_they_were_released(log, capsys, question):
    done = Outcome(capsys, "query", "city.log", *question, "--window", "2", "--nonnegative")
    assert done.code == 2
    assert f"--nonnegative cannot be used with {question[0]}" in done.err
    assert "Use it with counts, sum or decay" in " ".join(done.err.split())


def test_the_page_of_filtered_counts_shows_their_band(tmp_path, capsys):
    publish(Path("city.db"), pipeline(), 60, seed=1)
    done = Outcome(
        capsys, "query", "city.db", "counts", "--filtered", "--period", "1d", "--plot", "out.html"
    )
    assert done.code == 0, done.err
    data, page = drawn("out.html"), Path("out.html").read_text(encoding="utf-8")
    assert data["confidence"] == "90 %"
    bands = zip(data["low"][0], data["estimate"][0], data["high"][0], strict=True)
    known = [(low, value, high) for low, value, high in bands if low is not None]
    assert len(known) > 30
    assert all(low <= value <= high and low < high for low, value, high in known)
    assert "<title>Counts, filtered of taps · Penstock</title>" in page
    assert data["measure"] == "Counts, filtered per hour"
    assert "post-processing, which costs no privacy budget" in page


def test_sums_of_filtered_numbers_are_sums_of_means(tmp_path, capsys):
    publish(Path("city.db"), pipeline(), 30, seed=1)
    for more in (["sum", "--window", "3"], ["counts", "--together"], ["top", "--window", "3"]):
        told = asked(capsys, "city.db", *more, "--filtered")
        assert told["filter"]["point"] == "mean"
    told = asked(capsys, "city.db", "top", "--filtered")
    assert told["filter"]["point"] == "median"


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (["counts", "--period", "1d"], "--period, --kind and --point need --filtered."),
        (["--filtered"], "--filtered needs a question, such as counts."),
        (["counts", "--filtered", "--period", "soon"], "periods must be a number and one of s,"),
    ],
)
def test_options_of_the_filter_are_checked(tmp_path, capsys, tokens, said):
    publish(Path("city.db"), pipeline(), 5, seed=1)
    done = Outcome(capsys, "query", "city.db", *tokens)
    assert done.code == 2
    assert said in " ".join(done.err.split())
