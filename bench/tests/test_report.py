from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from matplotlib.text import Text

from penstock.core.errors import ConfigurationError
from penstock_bench import figures, report
from penstock_bench.cell import MEAN, ZEROS
from penstock_bench.claims import Value
from penstock_bench.draw import draw, looks
from penstock_bench.findings import Answered, SuiteFindings, find
from penstock_bench.labels import label
from penstock_bench.registry import SUITES
from penstock_bench.results import BenchRequest, Results
from penstock_bench.runner import perform, plan
from penstock_bench.suite import PlottedMeasure, Setting

from bench.tests.tiny import TINY, TinySuite
from tests.browser import check_page, needs_chromium, open_browser

SUITE = TinySuite()


def results(folder: Path, setting: Setting, *only: str) -> Results:
    kept = Results(folder)
    todo = plan(SUITE, setting, kept, only=only)
    kept.note(SUITE.name, setting, only, todo.skipped)
    perform(todo, kept)
    return kept


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, SuiteFindings]:
    kept = results(tmp_path_factory.mktemp("bench"), Setting(also=("bench.tests.tiny:Failing",)))
    path, found = report.write(SUITE, kept)
    return path.read_text(encoding="utf-8"), found


def test_the_page_is_one_file_that_loads_nothing(page: tuple[str, SuiteFindings]):
    text, _ = page
    sources: list[str] = []

    class ReportReader(HTMLParser):
        def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
            assert tag not in ("script", "iframe")
            sources.extend(value or "" for name, value in attributes if name in ("src", "href"))

    ReportReader().feed(text)
    assert sources
    assert all(source.startswith(("data:image/", "#")) for source in sources)
    assert "default-src 'none'" in text
    assert text.count("data:image/png;base64,") == 2


def test_it_says_what_is_missing_and_what_failed(page: tuple[str, SuiteFindings]):
    text, found = page
    assert "Absent was not run: it was never collected." in text.replace("bench.tests.tiny:", "")
    assert "RuntimeError: it broke" in text
    assert found.cells == 2 * 3 * 3 + 2
    assert found.wanted == found.cells  # what failed is told as such, and does not go on from here
    assert "runs of cells are there" not in text


def test_claims_are_judged_by_the_rows(page: tuple[str, SuiteFindings]):
    text, found = page
    verdicts = [finding.verdict for _, finding in found.findings()]
    assert verdicts == ["yes", "no", "yes", "not run"]
    (sentence,) = found.differences()
    assert sentence.startswith(
        "The paper: all zeros is a thousand times better. Here: better at 0 of 2 points, surely "
        "at 0; the error of uniform"
    )
    assert sentence in text


def test_names_are_escaped(page: tuple[str, SuiteFindings]):
    text, _ = page
    assert "A tiny &lt;suite&gt;" in text
    assert "<code>ba</code> is code." in text
    assert "(ε, w) &amp; nothing else" in text


def test_what_is_not_private_is_marked_and_never_wins(page: tuple[str, SuiteFindings]):
    text, found = page
    assert "long-run mean †" in text
    (answered,) = found.answered
    for drawn in answered.question.measures:
        assert {winner.line for winner in answered.winners(drawn)} <= {"uniform", "sample", "ba"}


def test_every_command_on_the_page_is_one_of_ours(page: tuple[str, SuiteFindings]):
    text, _ = page
    commands = re.findall(r"<code>(penstock bench tiny .*?)</code></pre>", text)
    assert commands == [
        "penstock bench tiny --runs 3 --seed 1 --also bench.tests.tiny:Failing --only window",
        "penstock bench tiny --runs 3 --seed 1 --also bench.tests.tiny:Failing",
    ]


def answered(lines: dict[str, tuple[float, float]]) -> Answered:
    (question,) = SUITE.questions(Setting())
    at = {("Tiny", "2"): {line: Value(mean, half, 3) for line, (mean, half) in lines.items()}}
    return Answered(question, {"mae": at, "mre": {}}, {("Tiny", "2"): {"uniform", "sample", "ba"}})


def test_a_winner_is_sure_only_if_intervals_lie_apart():
    drawn = PlottedMeasure("mae", "")
    (sure,) = answered({"uniform": (1, 0.1), "sample": (2, 0.1), "ba": (3, 0.1)}).winners(drawn)
    assert (sure.line, sure.second, sure.ratio, sure.sure, sure.beaten_by) == (
        "uniform",
        "sample",
        2,
        True,
        (),
    )
    (close,) = answered({"uniform": (1, 0.6), "sample": (2, 0.6), "ba": (3, 0.1)}).winners(drawn)
    assert not close.sure
    (one,) = answered(
        {"uniform": (1, float("nan")), "sample": (2, float("nan")), "ba": (3, 1)}
    ).winners(drawn)
    assert not one.sure


def test_nobody_boasts_where_a_trivial_line_wins():
    here = answered(
        {"uniform": (3, 0), "sample": (2, 0), "ba": (4, 0), ZEROS: (1, 0), MEAN: (2.5, 0)}
    )
    (winner,) = here.winners(PlottedMeasure("mae", ""))
    assert (winner.line, winner.beaten_by) == ("sample", (ZEROS,))
    assert here.said(PlottedMeasure("mae", "")) == [
        (
            "Tiny: the best mechanism is sample everywhere. All zeros is at least as good as all "
            "of them everywhere."
        )
    ]


def test_nobody_wins_where_somebody_is_missing():
    assert answered({"uniform": (3, 0), "sample": (2, 0)}).winners(PlottedMeasure("mae", "")) == []


def test_a_part_of_a_suite_is_judged_by_that_part(tmp_path: Path):
    kept = results(tmp_path, Setting(runs=1), "ba", TINY)
    found = find(SUITE, kept.asked(), kept.rows())
    (one,) = found.answered
    assert one.winners(one.question.measures[0]) == []  # nobody wins alone
    assert found.command.endswith(f"--only ba --only {TINY}")
    results(tmp_path, Setting(runs=1), "uniform", TINY)
    found = find(SUITE, kept.asked(), kept.rows())
    assert {winner.second for winner in found.answered[0].winners(one.question.measures[0])} <= {
        "uniform",
        "ba",
    }
    assert len(found.command.splitlines()) == 2
    assert [line for line in found.answered[0].lines if line not in (ZEROS, MEAN)] == [
        "uniform",
        "ba",
    ]
    assert found.cells == found.wanted


def test_versions_and_results_of_other_code_are_named(page: tuple[str, SuiteFindings]):
    _, found = page
    versions = ({"penstock": "1"}, {"penstock": "2"})
    text = report.render(SuiteFindings(**{**vars(found), "versions": versions, "stale": 2}))
    assert "2 runs of cells were made by other code than the present one" in text
    assert "penstock 1" in text
    assert "penstock 2" in text


def test_a_suite_without_rows_still_has_a_page(tmp_path: Path):
    found = find(SUITE, BenchRequest("tiny", Setting(), ((),), {}), [])
    assert found.answered == ()
    assert "<html" in report.render(found)


def test_pages_are_rebuilt_from_the_folder_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(SUITES, "tiny", SUITE)
    kept = results(tmp_path / "tiny", Setting(runs=1))
    first = report.write(SUITE, kept)[0].read_text(encoding="utf-8")
    (kept.folder / report.PAGE).unlink()
    assert report.rebuild(tmp_path) == [kept.folder / report.PAGE]
    assert (kept.folder / report.PAGE).read_text(encoding="utf-8") == first
    assert report.rebuild(kept.folder) == [kept.folder / report.PAGE]
    docs = tmp_path / "docs"
    assert report.rebuild(tmp_path, docs=docs) == [
        kept.folder / report.PAGE,
        docs / "tiny.md",
        docs / "leaderboard.md",
    ]
    with pytest.raises(ConfigurationError, match=r"has no results of a suite\.$"):
        report.rebuild(tmp_path / "nowhere")


def test_labels_are_short():
    assert label(ZEROS) == "all zeros"


@needs_chromium
def test_the_page_keeps_the_rules_of_all_pages(
    page: tuple[str, SuiteFindings], tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    path.write_text(page[0], encoding="utf-8")
    with open_browser(tmp_path / "profile") as browser:
        check_page(browser, path)
        browser.open(path, width=360)
        shown = browser.run("[...document.images].map((it) => [it.width, it.naturalWidth])")
    for width, natural in shown:  # on a small phone, where a figure is at its smallest
        assert figures.POINTS * figures.DPI / 72 * width / natural >= 12


def test_no_text_of_a_figure_is_smaller_than_it_says(
    page: tuple[str, SuiteFindings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`least_width` relies on this."""
    drawn: list[Any] = []
    monkeypatch.setattr(figures, "save", lambda figure, path: drawn.append(figure) or path)
    (answered,) = page[1].answered
    for measure in answered.question.measures:
        draw(answered, measure, looks(answered.lines), tmp_path / "figure.png")
    for figure in drawn:
        sizes = [text.get_fontsize() for text in figure.findobj(Text) if text.get_text()]
        assert min(sizes) >= figures.POINTS
