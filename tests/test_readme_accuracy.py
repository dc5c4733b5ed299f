"""The accuracy table of the README has the numbers of the leaderboard, and the commands that give
them.
"""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest

from penstock_bench.labels import label
from penstock_bench.registry import SUITES
from penstock_bench.suite import Setting, choose

ROOT = Path(__file__).parents[1]
ROWS = re.findall(
    r"^\| [^|]+ \| (?P<stream>[^|]+) \| (?P<promise>[^|]+) \| (?P<plain>[^|]+) "
    r"\| (?P<best>[^|]+) \| (?P<zeros>[^|]+) \| "
    r"`(?P<command>penstock bench [^|`]+)` \|$",
    (ROOT / "README.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)


def board(command: str) -> list[dict[str, str]]:
    """The table of the leaderboard that a command's question makes, a row a place."""
    suite, question, *_ = asked(command)
    text = (ROOT / "docs/results/leaderboard.md").read_text(encoding="utf-8")
    (part,) = re.findall(
        rf"^`penstock bench {suite} .*--only {question}`\n\n((?:\|.*\n)+)", text, re.MULTILINE
    )
    head, _, *body = [
        [cell.strip() for cell in line.strip("|\n").split(" | ")] for line in part.splitlines()
    ]
    return [dict(zip(head, line, strict=True)) for line in body]


def asked(command: str) -> list[str]:
    """Suite, question, stream and line."""
    words = shlex.split(command)
    return [words[2], *(name for word, name in pairwise(words) if word == "--only")]


def test_there_is_a_table():
    assert 4 <= len(ROWS) <= 6
    assert {asked(command)[0] for *_, command in ROWS} <= set(SUITES)


@pytest.mark.parametrize(("stream", "promise", "plain", "best", "zeros", "command"), ROWS)
def test_every_number_is_that_of_the_leaderboard(
    stream: str, promise: str, plain: str, best: str, zeros: str, command: str
) -> None:
    name, guarantee, *at = [part.strip() for part in (stream + "; " + promise).split(";")]
    rows = [
        row for row in board(command) if row["stream"] == name and row["guarantee"] == guarantee
    ]
    if at:
        axis, _, x = at[0].rpartition(" = ")
        rows = [row for row in rows if row[axis] == x]
    (row,) = rows
    for cell in (plain, best):
        line, value = cell.rsplit(" ", 1)
        assert row[line].strip("*") == value.strip("*"), (cell, row)
    assert row["all zeros"].strip("*") == zeros


@pytest.mark.parametrize(("best", "command"), [(row[3], row[5]) for row in ROWS])
def test_every_command_makes_the_number_it_stands_beside(best: str, command: str) -> None:
    suite, *only = asked(command)
    chosen = choose(SUITES[suite], Setting(), tuple(only))
    assert label(only[-1]) == best.rsplit(" ", 1)[0].strip("`")
    assert [question.name for question in chosen.questions] == [only[0]]
