"""Tables and prose fit the terminal, whatever its width."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.text import Text

from penstock.cli.formula import as_text, readable
from penstock.private.mechanisms.registry import MECHANISMS

from tests.cli.outcome import Outcome

PIPELINE = """
[stream]
name = "crossings"
every = "1d"
zone = "America/Argentina/ComodRivadavia"
origin = "2026-01-01"
until = "2026-01-06"
[source]
kind = "csv"
path = "crossings.csv"
time = "crossed_at"
key = "bridge"
[domain]
keys = ["Governor Malcolm Wilson Tappan Zee Bridge", "Verrazzano-Narrows Bridge, upper level"]
[privacy]
epsilon = "1"
window = 3
[[view]]
name = "daily"
mechanism = "uniform"
share = "1/2"
[[view]]
name = "slowly"
mechanism = "ba"
share = "1/2"
"""
TABLES = {
    "mechanisms": ["mechanisms"],
    "one mechanism": ["mechanisms", "tide"],
    "histograms": ["histograms"],
    "sources": ["sources"],
    "one source": ["sources", "http"],
    "sinks": ["sinks"],
    "one sink": ["sinks", "webhook"],
    "check": ["check", "crossings.toml"],
    "status": ["status", "crossings.toml"],
    "log": ["query", "crossings.toml", "--stream", "crossings/daily"],
    "counts": ["query", "crossings.toml", "counts", "--stream", "crossings/daily", "--all"],
    "top": ["query", "crossings.toml", "top", "--stream", "crossings/daily"],
    "alerts": ["query", "slowly.db", "jump", "--window", "2", "--delta", "1"],
    "ledger": ["ledger", "show", "crossings.toml", "--stream", "crossings/slowly"],
    "ledger of all views": ["ledger", "show", "crossings.toml"],
}
RIGHT = "│┃┓┩┘┤╯╮"


@pytest.fixture
def published(capsys: pytest.CaptureFixture[str]) -> None:
    Path("crossings.toml").write_text(PIPELINE)
    Path("crossings.csv").write_text(
        'crossed_at,bridge\n2026-01-01T12:00Z,"Verrazzano-Narrows Bridge, upper level"\n'
    )
    assert Outcome(capsys, "run", "crossings.toml", "--log", "none").code == 0
    slowly = ["crossings.toml", "slowly.db", "--stream", "crossings/slowly"]
    assert Outcome(capsys, "export", *slowly).code == 0


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize("width", [60, 80, 140])
def test_what_verbs_print_fits_the_terminal(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TTY_COMPATIBLE", "1")  # as on a terminal: prose is folded, too
    monkeypatch.setenv("NO_COLOR", "1")
    for name, tokens in TABLES.items():
        if name == "check" and width > 60:
            continue  # it simulates, and its width is that of prose
        done = Outcome(capsys, *tokens)
        assert done.code == 0, (name, done.err)
        for line in Text.from_ansi(done.out).plain.splitlines():
            assert cell_len(line) <= width, (name, line)
            if line[:1] in tuple("│┃┏┡└├╭╰"):
                assert line.rstrip()[-1] in RIGHT, (name, line)


@pytest.mark.usefixtures("published")
def test_a_narrow_table_shows_every_number_and_name_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    out = Outcome(capsys, *TABLES["counts"]).out
    assert "…" not in out
    assert "2026-01-05 00:00" in out
    assert "America/Argentina/ComodRivadavia" in out


def test_prose_is_one_line_where_a_program_reads_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert "Offsets are kept in the store, not in Kafka." in Outcome(capsys, "sources", "kafka").out


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (r"\varepsilon/2w", "ε/2w"),
        (r"(\tilde c - o)^2 \ge \tau", "(c̃ - o)² ≥ τ"),
        (r"\lambda=(2\kappa-1)/((\kappa-1)\varepsilon_{pr})", "λ=(2κ-1)/((κ-1)εₚᵣ)"),
        (r"\sum_{a<w}\gamma^a x_{t-a}", "Σ(a<w) γᵃ xₜ₋ₐ"),
        (r"\lfloor 256\,\mathrm{dev}\rfloor", "⌊256 dev⌋"),
        (r"\max(1,\lfloor r w\rfloor)", "max(1,⌊r w⌋)"),
    ],
)
def test_a_formula_becomes_unicode_text(formula: str, text: str) -> None:
    assert readable(formula) == text


@pytest.mark.parametrize("name", MECHANISMS)
def test_no_command_of_latex_is_left_in_a_description(name: str) -> None:
    text = as_text(MECHANISMS[name].__doc__ or "", 78)
    for sign in ("\\", "{t", "math:", "varepsilon", "text(", "frac(", "lfloor", "intext", "qquad"):
        assert sign not in text
    assert max(map(cell_len, text.splitlines())) <= 100
