"""The results as Markdown pages with figures: one page per suite, and the leaderboard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from penstock_bench import leaderboard
from penstock_bench.draw import draw, looks
from penstock_bench.findings import Answered, SuiteFindings
from penstock_bench.leaderboard import table

BOARD = "leaderboard.md"


def write(
    every: Sequence[SuiteFindings], folder: Path, *, board: bool = True, mixed: bool = False
) -> list[Path]:
    """Write one page per suite; with `board`, the leaderboard of all suites as well.

    Cells of different versions of the code are refused on a leaderboard, unless `mixed`.
    """
    leaders = leaderboard.page(every, mixed=mixed) if board else ""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for found in every:
        written.append(folder / f"{found.suite.name}.md")
        written[-1].write_text("\n".join(_page(found, folder)), encoding="utf-8")
    if board:
        written.append(folder / BOARD)
        written[-1].write_text(leaders, encoding="utf-8")
    return written


def _page(found: SuiteFindings, folder: Path) -> Iterator[str]:
    suite = found.suite
    look = looks(
        list(dict.fromkeys(line for answered in found.answered for line in answered.lines))
    )
    yield f"# {suite.title}\n"
    yield f"{suite.words}\n"
    made = " and ".join(f"`{line}`" for line in found.command.splitlines())
    yield (
        f"Paper: {suite.paper}. Made by {made}; {suite.repeats_in_words(found.setting)}. "
        "The same command writes a page with every number. †: not "
        f"private. [Leaderboard]({BOARD}). Versions: {found.made_by()}.\n"
    )
    if groupings := found.groupings():
        yield f"{groupings}\n"
    notes = found.notes()
    if notes:
        yield "\n".join(f"- **{note}**" for note in notes) + "\n"
    findings = found.findings()
    if findings:
        yield "## Claims of the papers, and our findings\n"
        yield (
            "Partly: true at 25 % of the points or more, or by less than claimed. 80 % of a "
            "claimed factor counts as yes.\n"
        )
        body = [[f"{each.source}: {each.paper}", each.ours, each.verdict] for _, each in findings]
        yield table(["claimed", "here", "holds"], body)
    for answered in found.answered:
        yield from _question(found, answered, look, folder)
    yield "## Streams\n"
    yield table(["stream", "what", "units", "keys", "a person", "licence"], found.described())


def _question(
    found: SuiteFindings, answered: Answered, look: dict[str, tuple[str, str]], folder: Path
) -> Iterator[str]:
    question = answered.question
    yield f"## {question.title}\n"
    yield f"`{found.command_for(question)}`\n"
    yield f"{question.words}\n"
    drawn = next((each for each in question.measures if answered.places(each)), None)
    if drawn is None:
        return
    picture = draw(answered, drawn, look, folder / f"{found.suite.name}-{question.name}.png")
    yield f"![{question.title}: {drawn.title}]({picture.name})\n"
    yield "\n".join(f"- {sentence}" for sentence in answered.said(drawn)) + "\n"
