"""The results as Markdown pages with figures: one page per suite, and the leaderboard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from penstock_bench import leaderboard
from penstock_bench.draw import draw, looks
from penstock_bench.findings import Answered, SuiteFindings
from penstock_bench.leaderboard import table

BOARD = "leaderboard.md"


def write(every: Sequence[SuiteFindings], folder: Path, *, board: bool = True) -> list[Path]:
    """Write one page per suite; with `board`, the leaderboard of all suites as well."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for found in every:
        written.append(folder / f"{found.suite.name}.md")
        written[-1].write_text("\n".join(_page(found, folder)), encoding="utf-8")
    if board:
        written.append(folder / BOARD)
        written[-1].write_text(leaderboard.page(every), encoding="utf-8")
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
        f"After {suite.paper}. Made by {made}, the mean over {suite.repeats(found.setting)} runs "
        "of each cell; the same command writes a page with every number. † is not private. "
        f"[Leaderboard]({BOARD}).\n"
    )
    notes = found.notes()
    if notes:
        yield "\n".join(f"- **{note}**" for note in notes) + "\n"
    findings = found.findings()
    if findings:
        yield "## What was found before, and what we find\n"
        yield (
            "Partly: at a quarter of the points or more, or by less than claimed; four fifths of "
            "a factor are a yes.\n"
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
