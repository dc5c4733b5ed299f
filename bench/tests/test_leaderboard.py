"""Pages in Markdown: one a suite, and the leaderboard of all."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from penstock.cli import main
from penstock.core.errors import ConfigurationError
from penstock_bench import leaderboard, pages, runner
from penstock_bench.cell import Cell, Stretch
from penstock_bench.claims import Value
from penstock_bench.findings import SuiteFindings, find
from penstock_bench.leaderboard import promise
from penstock_bench.registry import SUITES
from penstock_bench.results import Results
from penstock_bench.runner import perform, plan
from penstock_bench.suite import Setting

from bench.tests.tiny import TinySuite

SUITE = TinySuite()


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> SuiteFindings:
    kept = Results(tmp_path_factory.mktemp("bench"))
    setting = Setting()
    todo = plan(SUITE, setting, kept)
    kept.note(SUITE.name, setting, (), todo.skipped)
    perform(todo, kept)
    return find(SUITE, kept.asked(), kept.rows(), versions=kept.versions())


def test_a_row_is_a_stream_under_a_guarantee(found: SuiteFindings):
    (row,) = leaderboard.rows(found)
    assert (row.place, row.guarantee, set(row.values)) == (
        ("Tiny", "5"),
        "ε = 1, w = 5",
        {"uniform", "sample", "ba", "zeros", "mean"},
    )
    text = leaderboard.page([found])
    (line,) = re.findall(r"^\| Tiny \| ε = 1, w = 5 \| .*$", text, re.MULTILINE)
    assert line.count("**") in (2, 4)
    assert leaderboard.number(row.values["uniform"].mean) in line


def test_every_cell_has_the_command_that_gives_it_again(
    found: SuiteFindings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setitem(SUITES, "tiny", SUITE)
    text = leaderboard.page([found])
    commands = dict(
        re.findall(r"^\| Tiny \| `(\w+)` \| .* \| `(penstock bench .*)` \|$", text, re.MULTILINE)
    )
    assert commands.keys() == {"uniform", "sample", "ba"}
    words = shlex.split(commands["sample"])[1:]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--out", str(tmp_path), "--jobs", "1"])
    assert not ended.value.code
    capsys.readouterr()
    again = Results(tmp_path / "tiny")
    (row,) = leaderboard.rows(find(SUITE, again.asked(), again.rows()))
    (first,) = leaderboard.rows(found)
    assert row.values["sample"] == first.values["sample"]
    assert row.values.keys() == {"sample", "zeros", "mean"}


def test_what_a_trivial_line_wins_is_said(found: SuiteFindings):
    (row,) = leaderboard.rows(found)
    winners = row.answered.winners(row.drawn)
    (winner,) = [each for each in winners if each.place == row.place]
    text = leaderboard.page([found])
    for line in winner.beaten_by:
        assert f"*{leaderboard.number(row.values[line].mean)}*" in text


def test_a_suite_has_a_page_with_its_claims_its_figures_and_its_streams(
    found: SuiteFindings, tmp_path: Path
):
    paths = pages.write([found], tmp_path)
    assert [path.name for path in paths] == ["tiny.md", "leaderboard.md"]
    text = paths[0].read_text(encoding="utf-8")
    for _, finding in found.findings():
        assert f"{finding.paper} | {finding.ours} | {finding.verdict} |" in text
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", text)
    assert pictures == ["tiny-window.png"]
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in pictures)
    assert "| a made-up cycle | 30 of an hour | 4 | nobody | generated |" in text
    assert "Absent was not run" in text.replace("bench.tests.tiny:", "")


def changed(found: SuiteFindings, **facts: object) -> SuiteFindings:
    return SuiteFindings(**{**vars(found), **facts})


def test_cells_of_other_code_are_refused_unless_they_are_asked_for(
    found: SuiteFindings, tmp_path: Path
):
    assert not found.stale
    assert "The code of this version made every cell." in leaderboard.page([found])
    other = changed(found, stale=3)
    with pytest.raises(ConfigurationError, match=r"other code than the present .*3 of tiny"):
        pages.write([other], tmp_path / "docs")
    assert not (tmp_path / "docs").exists()
    text = leaderboard.page([other], mixed=True)
    assert "Other code than the present one made some runs of cells (3 of tiny)" in text
    assert "3 runs of cells were made by other code" in " ".join(other.notes())


def test_cells_of_other_code_are_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Only the cells that are shown count, and only those whose own code has changed."""
    kept, setting, only = Results(tmp_path), Setting(runs=1), ("window", "uniform", "sample")
    before = runner.code_of

    def changed_sample(cell: Cell) -> str:
        return "old" if cell.mechanism == "sample" else before(cell)

    with monkeypatch.context() as patched:
        patched.setattr(runner, "code_of", changed_sample)
        perform(plan(SUITE, setting, kept, only=only), kept)
    kept.note(SUITE.name, setting, only, {})
    assert find(SUITE, kept.asked(), kept.rows()).stale == 2
    again = plan(SUITE, setting, kept, only=only)
    assert [cell.mechanism for job in again.jobs for cell in job.cells] == 2 * ["sample"]
    perform(again, kept)
    assert find(SUITE, kept.asked(), kept.rows()).stale == 0


def test_mechanisms_with_a_delta_stand_in_a_table_of_their_own(tmp_path: Path):
    kept = Results(tmp_path)
    setting, only = (
        Setting(quick=True, runs=1),
        ("windows", "wifi_high", "laplace", "sw_tree", "toeplitz"),
    )
    suite = SUITES["windows"]
    todo = plan(suite, setting, kept, only=only)
    kept.note(suite.name, setting, only, todo.skipped)
    perform(todo, kept)
    here = find(suite, kept.asked(), kept.rows(), versions=kept.versions())
    for delta, block in leaderboard.blocks(leaderboard.rows(here)):
        lines = {line for row in block for line in row.values} - {"zeros", "mean"}
        assert lines == ({"toeplitz"} if delta else {"laplace", "sw_tree"})
        assert {row.guarantee for row in block} == {
            "ε = 1, δ = 1e-06, w = 1" if delta else "ε = 1, w = 1"
        }
        assert all(set(row.best()) <= lines and row.best() for row in block)
    for answered in here.answered:
        for drawn in answered.question.measures:
            assert "toeplitz" not in {winner.line for winner in answered.winners(drawn)}
    text = leaderboard.page([here])
    pure, heading, apart = text.partition("#### With δ = 1e-06")
    assert heading
    assert "`laplace`" in pure
    assert "toeplitz" not in pure.partition("<details>")[0]
    assert "toeplitz (with δ)" in apart


def test_it_is_said_which_domain_groups_of_keys_are_made_of(tmp_path: Path):
    kept, setting = Results(tmp_path), Setting(runs=1, also=("ba_grouped",))
    only = ("window", "ba_grouped")
    perform(plan(SUITE, setting, kept, only=only), kept)
    kept.note(SUITE.name, setting, only, {})
    shown = find(SUITE, kept.asked(), kept.rows(), versions=kept.versions())
    told = "`ba_grouped` group the keys of the stream's own domain"
    assert told in leaderboard.page([shown])
    assert "4 keys, each" in shown.groupings()
    (path,) = pages.write([shown], tmp_path / "docs", board=False)
    assert told in path.read_text(encoding="utf-8")


def test_promises_are_told_in_symbols():
    stream = Stretch(dataset="fleet")
    toeplitz = Cell.of(
        "windows", stream, "toeplitz", ("mae",), epsilon="1", window=1, delta="0.000001"
    )
    assert promise(toeplitz) == "ε = 1, δ = 1e-06, w = 1"
    assert promise(Cell.of("eshp", stream, "lab:apb", ("mae",), epsilon="0.5")) == "ε = 0.5, w = 1"
    rescuedp = Cell.of("w-event", stream, "lab:rescuedp", ("mae",), epsilon="1", window=24)
    assert promise(rescuedp) == "ε = 1, w = 24"
    assert promise(Cell.of("w-event", stream, "mean", ("mae",), epsilon="1")) is None


def value(mean: float, half: float) -> Value:
    return Value(mean, half, 3)


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        ((1, 0.02), (1.1, 0.02), True),
        ((1, 0.1), (1.1, 0.1), False),
        ((1, 9), (2, 9), True),
        ((1, float("nan")), (1.1, 0.2), True),
        ((1, 0), (1, 0), False),
    ],
)
def test_only_what_intervals_tell_apart_is_ahead(
    one: tuple[float, float], other: tuple[float, float], told: bool
):
    assert leaderboard.apart(value(*one), value(*other)) is told


def test_places_under_one_guarantee_are_told_apart(tmp_path: Path):
    """Sums of different widths have the same promise: the width must be there."""
    kept = Results(tmp_path)
    setting, only = (
        Setting(quick=True, runs=1),
        ("windows", "wifi_high", "laplace", "sw_tree", "toeplitz"),
    )
    suite = SUITES["windows"]
    todo = plan(suite, setting, kept, only=only)
    kept.note(suite.name, setting, only, todo.skipped)
    perform(todo, kept)
    text = leaderboard.page([find(suite, kept.asked(), kept.rows())])
    assert "| stream | width W of the window | guarantee |" in text
    rows = re.findall(r"^\| wifi_high, ε = 1 \| (\d+) \| ε = 1, w = 1 \|(.*)$", text, re.MULTILINE)
    assert [width for width, _ in rows] == ["2", "16", "64", "256"]
    for _, cells in rows:
        laplace, tree, *_ = (cell.strip() for cell in cells.split("|"))
        assert laplace.startswith("**") or tree.startswith("**")
    assert "Quick setting" in text
