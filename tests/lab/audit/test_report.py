from __future__ import annotations

import math
import re
from dataclasses import replace
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.lab.audit import report
from penstock.lab.audit.attack import OutputEvent
from penstock.lab.audit.bounding.verdict import BoundingVerdict, BoundingViolation
from penstock.lab.audit.engine import TaskFailure, Verdict
from penstock.lab.audit.model import Look, Pair

from tests.browser import check_page, needs_chromium, open_browser

LEFT, RIGHT = np.array([[1, 7, 7], [0, 7, 7]]), np.array([[0, 7, 7], [0, 7, 7]])
HOSTILE = "</style><script>alert('x')</script><!-- & \"quoted\""


def verdict(**changes: Any) -> Verdict:
    made = Verdict(
        name="uniform",
        flawed=False,
        claimed=Fraction(2),
        window=2,
        lower_bound=1.8399,
        confidence=0.999,
        runs=2_000,
        pair=Pair("by hand", LEFT, RIGHT),
        event=OutputEvent(frozenset([">|=|", ">|-|"]), False),
        left_hits=700,
        right_hits=100,
        half=1_000,
        seconds=1.25,
        seed=17,
        cells=[(">|=|", 600, 90), ("<|=|", 300, 900), (">|-|", 100, 10)],
    )
    return replace(made, **changes)


EXACT = verdict(
    method="exact",
    exact=(5.2499, 5.2501),
    lower_bound=5.2499,
    claimed=Fraction(6),
    half=0,
    cells=[],
    event=OutputEvent(frozenset(["1* 7* 7* | 0 7 7"]), False),
)


def test_delta_stands_beside_what_was_promised() -> None:
    with_delta = verdict(delta=Fraction(1, 10**6))
    assert (
        report.sentence(with_delta)
        == "acquitted: the attack found ε ≥ 1.839 (promised: 2, δ = 1e-06)"
    )
    assert "once δ = 1e-06 is taken from its probability" in report.meaning(with_delta)
    assert "δ = 1e-06" in report.render([with_delta], title="t", command="c")
    assert with_delta.row()["delta"] == 1e-6
    assert "δ" not in report.sentence(verdict()) + report.meaning(verdict())


def test_the_verdict_in_one_line() -> None:
    assert report.sentence(verdict()) == "acquitted: the attack found ε ≥ 1.839 (promised: 2)"
    assert (
        report.sentence(verdict(lower_bound=2.4142))
        == "CONVICTED: ε ≥ 2.414 > 2 with confidence 99.9 %"
    )
    assert (
        report.sentence(verdict(lower_bound=2.000004))
        == "CONVICTED: ε ≥ 2.000004 > 2 with confidence 99.9 %"
    )
    assert report.sentence(EXACT) == "acquitted: exact ε in [5.249900, 5.250100] (promised: 6)"
    assert (
        report.sentence(replace(EXACT, lower_bound=math.inf))
        == "CONVICTED: ε ≥ ∞ > 6 by exact computation"
    )


def test_an_exact_loss_in_few_columns_is_never_rounded_down() -> None:
    assert report.exact_at_most(verdict()) == ""
    assert report.exact_at_most(EXACT) == "≤ 5.251"
    other = replace(EXACT, exact=(5.0, math.inf), exact_claimed=Fraction(7))
    assert report.exact_at_most(other) == "≤ ∞ of 7"


def test_a_bound_is_never_rounded_up() -> None:
    rng = np.random.default_rng(0)
    for value in rng.random(200) * 5:
        assert float(report.at_least(float(value))) <= value
        low, high = report.interval((float(value), float(value)))[1:-1].split(", ")
        assert float(low) <= value <= float(high)


@pytest.mark.parametrize(
    ("convicted", "flawed", "well"), [(0, 0, True), (1, 1, True), (1, 0, False), (0, 1, False)]
)
def test_who_should_be_convicted(convicted: int, flawed: int, well: bool) -> None:
    made = verdict(lower_bound=2.5 if convicted else 1.5, flawed=bool(flawed))
    assert report.as_it_should_be(made) is well


def test_the_closing_sentence_names_who_is_not_as_it_should_be() -> None:
    good = [verdict(), verdict(name="mutant", flawed=True, lower_bound=3.0)]
    said = report.closing(good, false_alarm=1e-3)
    assert (
        "All 1 registered mechanisms were acquitted, and all 1 flawed variants were convicted."
        in said
    )
    assert said.endswith("at most 1e-3.")
    said = report.closing(
        [*good, verdict(name="ba", lower_bound=2.1), verdict(name="missed", flawed=True)],
        false_alarm=1e-3,
    )
    assert "CONVICTED, though registered for use: ba." in said
    assert "NOT convicted: missed." in said
    assert "were acquitted" not in said


REFUSED = TaskFailure("refused", "unit 2: spending epsilon=1 would bring units 1..2 to 3.")


def test_a_refusal_and_a_crash_are_verdicts() -> None:
    refused, crashed = (
        verdict(lower_bound=0.0, half=0, failure=failure)
        for failure in (REFUSED, TaskFailure.of(RuntimeError("no")))
    )
    assert report.sentence(refused).startswith("refused: unit 2: spending epsilon=1 would bring")
    assert report.sentence(crashed) == "crashed: RuntimeError: no"
    for made in (refused, crashed):
        assert (made.exit_code, report.tone(made)) == (3, "unknown")
        assert not report.as_it_should_be(made)
        assert "could not be judged" in report.meaning(made)
        assert report.sentence(made) in report.render([made], title="t", command="c")
        assert made.row()["outcome"] == made.outcome
    said = report.closing([verdict(), replace(refused, name="ba")], false_alarm=1e-3)
    assert "Could NOT be judged: ba." in said


def test_the_exit_code_of_many_audits() -> None:
    good = [verdict(), verdict(name="mutant", flawed=True, lower_bound=3.0)]
    refused = verdict(name="ba", lower_bound=0.0, failure=REFUSED)
    blamed, missed = verdict(lower_bound=2.5), verdict(flawed=True, lower_bound=1.0)
    acquitted, crashed = BoundingVerdict("acquitted"), BoundingVerdict("crashed", reason="no")
    assert report.exit_code(good) == report.exit_code(good, acquitted) == 0
    assert report.exit_code([*good, refused]) == report.exit_code(good, crashed) == 3
    assert report.exit_code([*good, refused, blamed]) == report.exit_code([*good, missed]) == 1
    violation = BoundingViolation("bounded", "by 3", "CSV files", 1)
    assert report.exit_code(good, BoundingVerdict("convicted", (violation,))) == 1


def test_a_flawed_variant_says_which_window_was_claimed_and_which_was_used() -> None:
    made = verdict(name="mutant", flawed=True, lower_bound=3.0, configuration={"window": "1"})
    said = "window claimed: 2 units, window that the code uses: 1 unit"
    assert report.windows(made) == said
    assert said.capitalize() in report.render([made], title="t", command="c")
    assert (made.row()["window"], made.row()["used_window"]) == (2, 1)
    assert report.tone(made) == "neutral"


def test_a_pass_says_what_was_tried_and_the_weakest_spot() -> None:
    made = verdict(pairs=9)
    page = report.render([made], title="t", command="c")
    for text in (*report.tried(made), report.weakest(made)):
        assert text in page.replace("&#39;", "'")
    assert report.tried(made)[-1].startswith("Timing is out of scope")
    assert "9 pairs of streams" in report.tried(made)[0]
    assert report.weakest(made).startswith("Nearest to the promise: 92.0 % of ε, by sampling")
    bounding = BoundingVerdict("acquitted", rounds=30, sources={"CSV files": 30})
    said = report.tried_by_all([made, verdict()], bounding)
    assert "10 pairs of streams" in said
    assert "30 bounding rounds" in said
    assert "Timing is out of scope" in said
    assert "weakest spot: uniform" in report.weakest_of_all([made])
    broken = verdict(name="broken", lower_bound=9.0)
    assert broken.convicted
    assert "weakest spot: uniform" in report.weakest_of_all([broken, made])
    assert report.weakest_of_all([broken]) == "No registered mechanism was acquitted."
    assert "Bounding" in report.render([made], title="t", command="c", bounding=bounding)


def test_neighbouring_keys_that_are_alike_share_a_column() -> None:
    assert [column.label for column in report.columns(verdict().pair)] == ["key 1", "keys 2–3"]
    shown = report.columns(verdict().pair)
    assert report.counts(verdict().pair, "left", 0, shown) == [("1", True), ("7", False)]
    assert report.counts(verdict().pair, "right", 0, shown) == [("0", True), ("7", False)]
    assert report.counts(verdict().pair, "left", 1, shown) == [("0", False), ("7", False)]


def test_the_event_in_words_says_what_its_cells_share() -> None:
    assert report.in_words(verdict()) == [
        "The output falls into one of 2 cells. All of them have in common:",
        "unit 1: key 1 is fresh and above 0",
    ]
    one = report.in_words(verdict(event=OutputEvent(frozenset(["<|-|"]), False)))
    assert one[1:] == ["unit 1: key 1 is fresh and at most 0", "unit 2: key 1 is repeated"]
    differing = report.in_words(verdict(event=OutputEvent(frozenset([">||"]), False)))
    assert differing[1:] == ["unit 1: key 1 is fresh and above 0"]
    assert "No event" in report.in_words(verdict(event=OutputEvent(frozenset(), False)))[0]
    assert (
        "no single unit"
        in report.in_words(verdict(event=OutputEvent(frozenset([">|-|", "<|=|"]), False)))[0]
    )


@pytest.mark.parametrize("swapped", [False, True])
def test_a_key_of_the_noise_in_words(swapped: bool) -> None:
    look = Look(1, np.array([11]), np.array([10]), after=True)
    pair = Pair("looked into", np.array([[11]]), np.array([[10]]), look)
    made = verdict(pair=pair, event=OutputEvent(frozenset([">|◁", "<|◁"]), swapped), cells=[])
    assert "after unit 1" in str(report.look_in_words(pair))
    side = "right" if swapped else "left"
    said = f"with that noise only the stream on the {side} gives the output"
    assert report.in_words(made)[1:] == [f"the look: a key of the noise is in memory, and {said}"]
    assert {"◁", "<", ">", "|"} == {letter for letter, _ in report.alphabet(made)}
    mixed = verdict(pair=pair, event=OutputEvent(frozenset([">|◁", ">|"]), swapped), cells=[])
    assert report.in_words(mixed)[1:] == ["unit 1: key 1 is fresh and above 10"]


def test_a_look_in_words() -> None:
    look = Look(1, np.array([10]), np.array([10]))
    pair = Pair("looked into", np.array([[11]]), np.array([[10]]), look)
    made = verdict(pair=pair, event=OutputEvent(frozenset([">|≥L", "<|≤L"]), False), cells=[])
    assert "in unit 1" in str(report.look_in_words(pair))
    assert report.in_words(made)[1:] == [
        "the look: key 1 is the value seen in memory plus the later events on the left"
    ]
    # the letters are those of the pair as it was given; the streams are shown with the likelier
    # first
    swapped = replace(made, pair=pair.swapped(), event=replace(made.event, swapped=True))
    assert report.in_words(swapped)[1].endswith("on the right")
    assert {"≤", "≥", "L", "<", ">", "|"} == {letter for letter, _ in report.alphabet(made)}


def test_floats_and_scores_in_words() -> None:
    pair = Pair("floats", np.array([[1]]), np.array([[0]]))
    made = verdict(pair=pair, event=OutputEvent(frozenset(["<fine2|"]), False), cells=[])
    assert (
        report.in_words(made)[1]
        == "unit 1: key 1 is fresh and at most 0, as a float of grain 'fine2'"
    )
    assert [letter for letter, _ in report.alphabet(made)] == ["<", "|", "coarse n", "fine n"]
    learned = verdict(
        event=OutputEvent(frozenset(["score 01", "score 60"]), False), method="learned classifier"
    )
    assert "2 slices" in report.in_words(learned)[0]
    assert [letter for letter, _ in report.alphabet(learned)] == ["score n"]


def test_sums_and_other_things_that_are_shown_in_words() -> None:
    pair = Pair("sums", np.array([[1], [0]]), np.array([[0], [0]]))
    made = verdict(pair=pair, event=OutputEvent(frozenset(["-+|↓|"]), False), cells=[])
    assert report.in_words(made)[1:] == [
        "unit 1: key 1 is repeated",
        "unit 2: key 1 is fresh and at most the lower of the two possible true sums",
    ]
    assert [letter for letter, _ in report.alphabet(made)] == ["-", "↓", "+", "|"]


def test_cells_of_the_event_come_with_their_counts_and_not_all_of_them() -> None:
    listed, more = report.event_cells(verdict())
    assert (listed, more) == ([(">|=|", 600, 90), (">|-|", 100, 10)], 0)
    listed, more = report.event_cells(
        verdict(event=OutputEvent(frozenset(map(str, range(30))), False))
    )
    assert (len(listed), more) == (12, 18)
    assert report.hits(EXACT) is None


class Checker(HTMLParser):
    """Every tag that is opened is closed, and what is there."""

    VOID = frozenset({"meta", "link", "rect", "line", "path"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_page_is_whole_and_loads_nothing() -> None:
    flawed = verdict(name="mutant", flawed=True, lower_bound=math.inf)
    page = report.render([verdict(), EXACT, flawed], title="Audits", command="penstock audit --all")
    found = Checker(page)
    assert found.open == []
    tags = {tag for tag, _ in found.seen}
    assert not tags & {"script", "img", "iframe", "object", "form"}
    assert not re.search(r"(src|href)=\"(?!#|data:)", page)
    assert "http:" not in page
    assert "https:" not in page
    assert "@import" not in page
    assert "url(" not in page
    assert "default-src 'none'" in page
    assert "prefers-color-scheme: dark" in page
    assert sum(attributes.get("id", "") == "audit-3" for _, attributes in found.seen) == 1
    for text in (
        "penstock audit --all",
        "mutant",
        "flawed on purpose",
        "700 of 1,000 runs",
        "[5.249900, 5.250100]",
        "∞",
    ):
        assert text in page


def test_a_hostile_name_stays_text() -> None:
    made = verdict(
        name=HOSTILE,
        pair=Pair(HOSTILE, LEFT, RIGHT),
        event=OutputEvent(frozenset([HOSTILE]), False),
        cells=[(HOSTILE, 1, 2)],
    )
    page = report.render([made], title=HOSTILE, command=HOSTILE)
    assert "<script" not in page
    assert page.count("</style>") == 1
    assert Checker(page).open == []


def test_a_page_about_nobody() -> None:
    assert Checker(report.render([], title="Nobody", command="")).open == []


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """Acquitted, convicted as expected, convicted against expectation, and a table of many keys."""
    left = np.arange(24).reshape(2, 12)
    shown = [
        verdict(),
        verdict(name="mutant", flawed=True, lower_bound=math.inf),
        verdict(name="ba", lower_bound=2.4),
        verdict(name="wide", pair=Pair("many keys", left, left + np.eye(2, 12, dtype=np.int64))),
    ]
    path = tmp_path / "audit.html"
    path.write_text(report.render(shown, title="Audits", command=""), encoding="utf-8")
    return path


@needs_chromium
def test_the_page_keeps_the_rules_of_all_pages(page: Path, tmp_path: Path) -> None:
    with open_browser(tmp_path / "profile") as browser:
        check_page(browser, page)


@needs_chromium
def test_no_conviction_is_green_and_an_expected_one_is_neutral(page: Path, tmp_path: Path) -> None:
    with open_browser(tmp_path / "profile") as browser:
        for dark in (False, True):
            browser.open(page, dark=dark)
            found = browser.run(
                "[...document.querySelectorAll('.verdicts .verdict-mark')]"
                ".map((node) => [node.innerText, getComputedStyle(node).color])"
            )
            assert [text for text, _ in found] == [
                "✓ acquitted",
                "• convicted",
                "✗ convicted, WRONG",
                "✓ acquitted",
            ]
            for text, colour in found:
                red, green, _ = map(int, re.findall(r"\d+", colour))
                if text.startswith("•"):
                    assert max(red, green) < 1.5 * min(red, green), colour
                else:
                    assert (red > 1.5 * green) if "convicted" in text else (green > 1.5 * red)


@needs_chromium
def test_a_table_that_is_too_wide_for_a_phone_says_that_it_scrolls(
    page: Path, tmp_path: Path
) -> None:
    hint = (
        "[...document.querySelectorAll('.wide')].map((box) => "
        "[box.scrollWidth > box.clientWidth, getComputedStyle(box, '::after').visibility])"
    )
    with open_browser(tmp_path / "profile") as browser:
        browser.open(page, width=360)
        on_a_phone = browser.run(hint)
    assert [True, "visible"] in on_a_phone
    assert all(shown == ("visible" if wider else "hidden") for wider, shown in on_a_phone)
