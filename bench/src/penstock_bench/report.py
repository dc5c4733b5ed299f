"""One page per suite: figures, the best mechanisms, and the paper's findings beside ours."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from penstock.core.errors import ConfigurationError
from penstock.core.files import write_file
from penstock.released.pages import render as render_page
from penstock_bench import pages
from penstock_bench.cell import MEAN, ZEROS
from penstock_bench.claims import Place, number
from penstock_bench.draw import draw, looks
from penstock_bench.figures import least_width
from penstock_bench.findings import Answered, SuiteFindings, Winner, find, shown
from penstock_bench.labels import label
from penstock_bench.registry import SUITES, find_suite
from penstock_bench.results import SUITE, Results
from penstock_bench.suite import PlottedMeasure, Suite

PAGE = "report.html"
PROMISE = (
    "No output of a mechanism may be more than e^ε times as likely with the events of one person "
    "in the protected window as without them. Each question states its ε and window. Lines marked "
    "† promise nothing."
)


def write(suite: Suite, results: Results) -> tuple[Path, SuiteFindings]:
    """Make the page from the results in the folder alone."""
    found = find(suite, results.asked(), results.rows(), versions=results.versions())
    path = results.folder / PAGE
    write_file(path, render(found).encode(), durable=False)
    return path, found


def rebuild(folder: Path, *, docs: Path | None = None, mixed: bool = False) -> list[Path]:
    """Make the pages of all suites in a folder of results, or of the one suite whose folder it is.

    With `docs`, make the Markdown pages in that folder too. The leaderboard is refused where cells
    were made by different versions of the code, unless `mixed`.
    """
    folders = suite_folders(folder)
    written = [write(find_suite(Results(each).asked().suite), Results(each)) for each in folders]
    more = (
        []
        if docs is None
        else pages.write(
            [found for _, found in written], docs, board=folders != [folder], mixed=mixed
        )
    )
    return [*(path for path, _ in written), *more]


def suite_folders(folder: Path) -> list[Path]:
    """The folders of all suites in a folder of results, or this folder if it is that of a suite."""
    if (folder / SUITE).exists():
        return [folder]
    folders = [folder / name for name in SUITES if (folder / name / SUITE).exists()]
    if not folders:
        raise ConfigurationError(f"{folder} has no results of a suite.")
    return folders


def render(found: SuiteFindings) -> str:
    """The page. It runs no script and loads nothing."""
    suite = found.suite
    everybody = list(dict.fromkeys(line for answered in found.answered for line in answered.lines))
    look = looks(everybody)
    with tempfile.TemporaryDirectory() as folder:
        questions = [_question(found, answered, look, Path(folder)) for answered in found.answered]
    return render_page(
        "penstock_bench:report.html",
        title=suite.title,
        promise=PROMISE,
        command=found.command,
        closing=_made_by(found),
        suite=suite,
        facts=[
            ("runs of cells", f"{found.cells:,}"),
            ("mechanisms", f"{sum(not line_is_trivial(line) for line in everybody)}"),
            ("streams", f"{len({dataset for dataset, _, _ in found.streams.values()})}"),
            ("runs of each", f"{suite.repeats(found.setting)}"),
        ],
        found=found,
        winning=[each for each in map(_winning, found.answered) if each],
        questions=questions,
    )


def line_is_trivial(line: str) -> bool:
    """Whether a line needs no mechanism."""
    return line in (ZEROS, MEAN)


# -- the parts -------------------------------------------------------------------------------------


def _winning(answered: Answered) -> dict[str, Any] | None:
    """The best mechanisms of a question: one row per panel, one column per place on the axis."""
    drawn = answered.question.measures[0]
    winners = {winner.place: winner for winner in answered.winners(drawn)}
    if not winners:
        return None
    axis = sorted({x for _, x in winners}, key=float)
    panels = dict.fromkeys(panel for panel, _ in winners)
    return {
        "question": answered.question,
        "title": drawn.title,
        "axis": axis,
        "rows": [
            (panel, [_winner(winners.get((panel, x)), drawn) for x in axis]) for panel in panels
        ],
    }


def _winner(winner: Winner | None, drawn: PlottedMeasure) -> dict[str, Any] | None:
    if winner is None:
        return None
    second, ratio = label(winner.second), number(winner.ratio)
    return {
        "line": label(winner.line),
        "sure": winner.sure,
        "ahead": f"{ratio} × {second}" if drawn.more else f"{second}: {ratio} × the error",
        "beaten_by": [label(name) for name in winner.beaten_by],
    }


def _question(
    found: SuiteFindings, answered: Answered, look: dict[str, tuple[str, str]], folder: Path
) -> dict[str, Any]:
    """A question with its figures, sentences and numbers."""
    question = answered.question
    measures = []
    for place, drawn in enumerate(question.measures):
        if answered.places(drawn):
            picture = draw(answered, drawn, look, folder / f"{question.name}-{place}.png")
            measures.append(
                {
                    "title": drawn.title,
                    "picture": base64.b64encode(picture.read_bytes()).decode(),
                    "least_width": least_width(picture),
                    "said": answered.said(drawn),
                    "rows": _numbers(answered, drawn),
                }
            )
    return {
        "question": question,
        "differ": [
            finding.sentence()
            for finding in answered.findings()
            if finding.verdict in ("partly", "no")
        ],
        "measures": measures,
        "lines": [label(line) for line in answered.lines],
        "command": found.command_for(question),
    }


def _numbers(answered: Answered, drawn: PlottedMeasure) -> list[tuple[Place, list[dict[str, Any]]]]:
    """The table of a measure: one row per panel and place on the axis, one cell per line."""
    best = {winner.place: winner.line for winner in answered.winners(drawn)}
    rows = []
    for place, values in answered.places(drawn).items():
        cells = []
        for line in answered.lines:
            value = values.get(line)
            cells.append(
                {
                    "text": "–" if value is None else shown(value),
                    "formula": number(value.formula) if value and value.formula else None,
                    "best": best.get(place) == line,
                }
            )
        rows.append((place, cells))
    return rows


def _made_by(found: SuiteFindings) -> str:
    return f"Made by {found.made_by()}. The steps took {found.seconds:,.0f} s of CPU time."


def sentences(found: SuiteFindings) -> Iterable[str]:
    """The outcome in a few lines, for a terminal."""
    rows = found.findings()
    held = {
        verdict: sum(finding.verdict == verdict for _, finding in rows)
        for verdict in ("yes", "partly", "no")
    }
    if any(held.values()):
        yield (
            f"Of {sum(held.values())} tested findings of papers and theory, {held['yes']} hold "
            f"here, {held['partly']} hold in part, {held['no']} do not."
        )
    for answered in found.answered:
        drawn = answered.question.measures[0]
        for words in answered.said(drawn):
            yield f"{answered.question.name}, {drawn.title}: {words}"
