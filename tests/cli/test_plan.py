"""`penstock plan`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import penstock as ps
from penstock.engine.pipeline import Pipeline

from tests.browser import check_page, needs_chromium, open_browser
from tests.cli.outcome import Outcome

TEXT = """# A pipeline, with comments.
[stream]
name = "taps"
every = "1h"
origin = "2026-01-01"   # public
until = "2026-02-01"

[source]
kind = "csv"
path = "private/taps.csv"
time = "ts"
key = "station"

[domain]
keys = ["north", "south"]

[privacy]
mechanism = "fixed"     # the mechanism
every = 3               # its parameter
epsilon = "1"           # the budget
window = 4
# after all keys

[store]
path = "taps.db"
"""
SAMPLE = "north,south\n" + "\n".join(f"{9 + unit % 5},{unit % 3}" for unit in range(44))


@pytest.fixture
def written() -> Path:
    Path("private").mkdir()
    Path("private/taps.csv").write_text("ts,station\n2026-01-01T00:10Z,north\n", encoding="utf-8")
    path = Path("taps.toml")
    path.write_text(TEXT, encoding="utf-8")
    return path


OPENED: list[str] = []
TRACED = False


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if TRACED and event == "open":
        OPENED.append(str(arguments[0]))


@pytest.fixture
def opened(monkeypatch):
    """The names of all files that are opened from now on."""
    if not OPENED:
        sys.addaudithook(_note)  # there is no way to remove one
        OPENED.append("the hook stands")
    monkeypatch.setattr(sys.modules[__name__], "TRACED", True)
    del OPENED[1:]
    del OPENED[1:]
    return OPENED


@pytest.mark.slow
def test_the_plan_ranks_recommends_and_writes(capsys, written):
    Path("public.csv").write_text(SAMPLE, encoding="utf-8")
    known = ("--sample", "public.csv")
    done = Outcome(
        capsys, "plan", "taps.toml", *known, "--write", "--json", "--page", "out/plan.html"
    )
    assert done.code == 0, done.err
    assert "This takes about" in done.err
    told = json.loads(done.out)
    rows = told["rows"]
    errors = [row["mae"] for row in rows if row["private"]]
    assert errors == sorted(errors)
    assert [row["mechanism"] for row in rows if not row["private"]] == [
        "all zeros",
        "long-run mean",
    ]
    assert rows[0]["low"] <= rows[0]["mae"] <= rows[0]["high"]
    best = told["recommendation"]
    assert best["mechanism"] == rows[0]["mechanism"]
    assert {"mechanism": "fixed", "parameters": {"every": 3}} in [
        {"mechanism": row["mechanism"], "parameters": row["parameters"]} for row in rows
    ]
    assert {curve["over"] for curve in told["curves"]} >= {"epsilon", "window"}
    assert "sw_tree" in told["left_out"]
    page = Path("out/plan.html").read_text(encoding="utf-8")
    assert "public by your statement" in page
    assert "The private source was not opened." in page
    # The configuration keeps its comments and has the mechanism.
    text = written.read_text(encoding="utf-8")
    for comment in ("# A pipeline", "# public", "# the mechanism", "# the budget", "# after all"):
        assert comment in text
    assert "its parameter" not in text
    mechanism = Pipeline.read("taps.toml").mechanism()
    assert mechanism.name == best["mechanism"]
    assert (mechanism.epsilon, mechanism.window) == (1, 4)


@pytest.mark.slow
def test_neither_plan_nor_check_opens_the_source_or_the_store(capsys, written, opened):
    Path("public.csv").write_text(SAMPLE, encoding="utf-8")
    Path("taps.db").write_bytes(b"nobody reads this")
    del opened[1:]
    verbs = (
        ("plan", "taps.toml", "--sample", "public.csv"),
        ("check", "taps.toml", "--sample", "public.csv"),
        ("check", "taps.toml"),
    )
    said = [Outcome(capsys, *tokens).out for tokens in verbs]
    assert any("taps.toml" in name for name in opened)
    assert not any(name.endswith(("taps.csv", "taps.db")) for name in opened)
    # PyArrow opens files where no hook sees it. Without the files everything is the same.
    Path("private/taps.csv").unlink()
    Path("taps.db").unlink()
    assert [Outcome(capsys, *tokens).out for tokens in verbs] == said


def test_the_source_is_refused_as_a_sample_unopened(capsys, written, opened):
    done = Outcome(capsys, "plan", "taps.toml", "--sample", "private/taps.csv")
    assert done.code == 2
    assert "is a file of the private source" in done.err
    assert not any(name.endswith("taps.csv") for name in opened)


def test_without_knowledge_nothing_is_simulated(capsys, written):
    done = Outcome(capsys, "plan", "taps.toml")
    assert done.code == 2
    assert "nothing public is known about the counts. Say what is publicly known" in done.err


def test_check_judges_the_numbers_where_something_is_known(capsys, written):
    assert "it cannot be judged" in Outcome(capsys, "check", "taps.toml").out
    useful = Outcome(capsys, "check", "taps.toml", "--typical", "10000")
    assert ": useful." in " ".join(useful.out.split())
    noise = Outcome(capsys, "check", "taps.toml", "--typical", "1/10")
    assert ": noise." in " ".join(noise.out.split())


def test_a_sample_is_scaled_to_the_typical_count(capsys, written):
    Path("public.csv").write_text(SAMPLE, encoding="utf-8")
    known = ("--sample", "public.csv", "--typical", "10000")
    useful = Outcome(capsys, "check", "taps.toml", *known)
    assert "a count of about 10,000 is published as" in " ".join(useful.out.split())
    told = json.loads(Outcome(capsys, "plan", "taps.toml", *known, "--json").out)
    assert told["mean_count"] == pytest.approx(10_000, rel=0.01)
    assert "the typical count is 10,000 by your statement." in told["knowledge"][0]
    text = TEXT + '\n[plan]\nsample = "public.csv"\ntypical = "10000"\n'
    written.write_text(text, encoding="utf-8")
    assert Outcome(capsys, "check", "taps.toml").out == useful.out


def test_check_says_what_auto_chooses(capsys, written):
    text = TEXT.replace('mechanism = "fixed"', 'mechanism = "auto" ').replace("every = 3 ", "# ")
    written.write_text(text + '\n[plan]\ntypical = "5"\n', encoding="utf-8")
    done = Outcome(capsys, "check", "taps.toml")
    assert done.code == 0, done.err
    assert "For 'taps', auto chooses" in done.out
    told = json.loads(Outcome(capsys, "check", "taps.toml", "--json").out)
    assert told["views"][0]["auto"] is True
    assert told["views"][0]["simulated_error"] > 0


@needs_chromium
@pytest.mark.slow
def test_the_page_reads_well_on_every_screen(tmp_path):
    (tmp_path / "public.csv").write_text(SAMPLE, encoding="utf-8")
    found = ps.plan(
        domain=["north", "south"], epsilon="1", window=4, sample=tmp_path / "public.csv"
    )
    page = tmp_path / "plan.html"
    page.write_text(found.page(command="penstock plan taps.toml"), encoding="utf-8")
    with open_browser(tmp_path / "profile") as browser:
        check_page(browser, page)
        assert browser.run("document.querySelectorAll('.plot canvas').length") >= 2
        browser.tap("#chart-0 .u-over")
        assert "·" in browser.run("document.getElementById('readout-0').innerText")
