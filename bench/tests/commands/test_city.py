from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from rich.console import Console

from penstock.engine.sqlite import SQLiteReader
from penstock_bench.commands.city import Picture, city
from penstock_bench.live_city.page import commands
from penstock_bench.live_city.run import CityEvent, CityPlan, Sent

from tests.cli.outcome import Outcome


def test_the_demo_ends_with_a_page_and_commands_that_work(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One run, as each starts two processes: what it prints, what it leaves, and what a terminal
    would show of it.
    """
    city(out=Path("out/city"), hours=26, people=400, seconds=0)
    out = capsys.readouterr().out
    for words in (
        "is killed (SIGKILL)",
        "started again",
        "✓ ledger verified",
        "none changed",
        "Open out/city.html",
    ):
        assert words in out
    assert "✗" not in out
    assert "\x1b" not in out
    page = Path("out/city.html").read_text(encoding="utf-8")
    assert (
        "penstock lab city --out out/city --hours 26 --people 400 --epsilon 1 --window 24 --seed "
        "1 --seconds 0"
    ) in page

    plan = CityPlan.of(
        Path("out/city"), people=400, hours=26, epsilon="1", window=24, seed=1, seconds=0
    )
    tried = [shlex.split(line)[1:] for _, line in commands(plan)]
    assert len(tried) >= 6
    for tokens in tried:
        done = Outcome(capsys, *tokens)
        assert (done.code, done.err) == (0, ""), tokens
        assert done.out

    picture = Picture(plan)
    screen = Console(width=120, record=True, file=Path("screen.txt").open("w", encoding="utf-8"))  # noqa: SIM115
    screen.print(picture.drawn())
    with SQLiteReader(Path("out/city/city.db")) as reader:
        picture.take(CityEvent(hour=25, half=1, sent=Sent(batches=7)), reader)
        screen.print(picture.drawn())
    screen.file.close()
    shown = screen.export_text()
    for words in (
        "is being built",
        "Grand Central",
        "hour 26, day 1",
        "Parquet files",
        "7 batches",
        " of 1",
    ):
        assert words in shown


def test_another_folder_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine").mkdir()
    Path("mine/file").write_text("mine")
    with pytest.raises(Exception, match="choose another --out"):
        city(out=Path("mine"), hours=4, people=20)
    assert Path("mine/file").read_text() == "mine"
    assert not Path("mine.html").exists()


def test_a_comparison_is_written_and_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    done = Outcome(
        capsys,
        "lab",
        "city",
        "--compare",
        "--out",
        "deep/er/page",
        "--hours",
        "30",
        "--people",
        "500",
        "--window",
        "5",
    )
    assert done.code == 0, done.err
    page = Path("deep/er/page-compare.html").read_text()
    said = (
        "penstock lab city --compare --out deep/er/page --hours 30 --people 500 --epsilon 1 "
        "--window 5 --seed 1"
    )
    assert said in page
    for word in (
        "Budget absorption (ba)",
        "All zeros",
        "worst window",
        "Open deep/er/page-compare.html",
    ):
        assert word in done.out


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (["lab", "city", "--compare", "--epsilon", "lots"], "epsilon='lots' is not a number"),
        (["lab", "city", "--compare", "--epsilon", "nan"], "epsilon='nan' is not a number"),
        (["lab", "city", "--compare", "--epsilon", "0"], "epsilon must be above 0"),
        (["lab", "city", "--compare", "--epsilon=-1"], "epsilon must be above 0"),
        (
            ["lab", "city", "--compare", "--window", "0"],
            "--window must be at least 1 unit, not 0",
        ),
        (
            ["lab", "city", "--compare", "--hours", "0"],
            "--hours must be at least 1 unit, not 0",
        ),
        (
            ["lab", "city", "--compare", "--hours", "2.5"],
            "--hours must be a number and one of s, min, h",
        ),
        (["lab", "city", "--compare", "--people", "0"], "people=0"),
        (["lab", "city", "--compare", "--seed=-1"], "seed=-1"),
        (["lab", "city", "--compare", "--sed", "1"], "--sed"),
        (
            [
                "lab",
                "city",
                "--compare",
                "--out",
                "file.txt/page",
                "--hours",
                "2",
                "--people",
                "10",
            ],
            "file.txt",
        ),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    tokens: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("file.txt").write_text("a file, not a folder")
    done = Outcome(capsys, *tokens)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.startswith("penstock: ")
    assert done.err.count("\n") == 1


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    done = Outcome(capsys, "lab", "city", "--help")
    assert done.code == 0
    assert "--compare --epsilon 0.5 --window 7d" in done.out
