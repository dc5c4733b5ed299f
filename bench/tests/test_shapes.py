"""Claims about the shape of a figure."""

from __future__ import annotations

import pytest

from penstock_bench.claims import NOTHING, Value
from penstock_bench.shapes import Best, LeastAt, Power, RatioToBest, Widens


def places(half: float = 0.0, **lines: list[float]) -> dict[tuple[str, str], dict[str, Value]]:
    """One panel, with places 1, 2, 4, … on its axis."""
    size = len(next(iter(lines.values())))
    return {
        ("p", str(2**at)): {line: Value(values[at], half, 3) for line, values in lines.items()}
        for at in range(size)
    }


@pytest.mark.parametrize(
    ("a", "below", "verdict"),
    [
        ([6, 6], 0.43, "yes"),
        ([6, 9], None, "yes"),
        ([9, 9], 0.43, "partly"),
        ([6, 12], 0.43, "partly"),
        ([12, 40], None, "no"),
    ],
)
def test_the_best_is_below_every_rival_by_as_much_as_was_said(
    a: list[float], below: float | None, verdict: str
):
    claim = Best(paper="a is best", measure="mae", line="a", rivals=("b", "c"), below=below)
    assert claim.look(places(a=a, b=[10, 100], c=[30, 10]))[1] == verdict


def test_the_best_says_by_how_much_and_against_whom():
    claim = Best(paper="a is best", measure="mae", line="a", rivals=("b", "c"))
    words, _ = claim.look(places(a=[6, 40], b=[10, 100], c=[30, 10]))
    assert words == (
        "the best at 1 of 2 points; 40 % below the next best, b (p, 1), at one end, and 4 × the "
        "error of c (p, 2) at the other"
    )
    assert "10 % above the next best" in claim.look(places(a=[11], b=[10], c=[30]))[0]


@pytest.mark.parametrize(
    ("a", "mean", "most", "verdict"),
    [
        ([2.5, 10], 0.5, None, "yes"),
        ([2.6, 10], 0.5, None, "no"),
        ([2.5, 10], None, 1.0, "yes"),
        ([2.5, 10.1], None, 1.0, "partly"),
        ([11, 11], None, 1.0, "no"),
        ([6, 6], 0.5, 1.0, "partly"),
        ([6, 11], 0.5, 1.0, "no"),
    ],
)
def test_a_ratio_to_the_best_is_judged_by_its_mean_and_its_maximum(
    a: list[float], mean: float | None, most: float | None, verdict: str
):
    claim = RatioToBest(
        paper="half of it",
        measure="mae",
        line="a",
        rivals=("b", "c", "absent"),
        at=("1", "2"),
        mean=mean,
        most=most,
    )
    words, found = claim.look(places(a=[*a, 90], b=[10, 100, 1], c=[30, 10, 1]))
    assert found == verdict
    assert "over 2 points" in words
    assert claim.look(places(b=[1]))[0] == "not run"


@pytest.mark.parametrize(
    ("values", "least", "most", "verdict"),
    [
        ([1, 2, 4], 0.7, 1.3, "yes"),
        ([1, 4, 16], 0.7, 1.3, "no"),
        ([5, 5, 5], -0.1, 0.1, "yes"),
        ([5, 4, 3], -10, -0.02, "yes"),
        ([5, 5, 5], -10, -0.02, "no"),
    ],
)
def test_a_power_is_told_from_the_ends(
    values: list[float], least: float, most: float, verdict: str
):
    claim = Power(paper="it grows", measure="time", line="a", least=least, most=most)
    assert claim.look(places(a=values))[1] == verdict


def test_some_panels_of_several_are_a_part():
    grows = {("q", x): lines for (_, x), lines in places(a=[1, 2]).items()}
    words, verdict = Power(paper="it is flat", measure="time", line="a", least=-0.1, most=0.1).look(
        places(a=[5, 5]) | grows
    )
    assert verdict == "partly"
    assert "0.00 (p), 1.00 (q)" in words


@pytest.mark.parametrize(("b", "verdict"), [([2, 3], "yes"), ([3, 2], "no")])
def test_a_lead_widens_or_does_not(b: list[float], verdict: str):
    claim = Widens(paper="it widens", measure="mae", line="a", rivals=("b", "c"))
    words, found = claim.look(places(a=[1, 1], b=b, c=[9, 9]))
    assert found == verdict
    assert f"{b[0]} × its error at 1 and {b[1]} × at 2" in words


@pytest.mark.parametrize(
    ("half", "verdict"), [(0.0, "no"), (0.3, "no"), (0.5, "yes"), (float("nan"), "no")]
)
def test_the_lowest_place_may_be_higher_by_its_interval(half: float, verdict: str):
    claim = LeastAt(paper="lowest at 4", measure="mae", line="a", x="4")
    words, found = claim.look(places(half / 2, a=[4, 2, 2.4]))
    assert found == verdict
    assert ("at 2 it is 16.7 % lower (p)" in words) == (verdict == "no")
    assert claim.look(places(half, a=[4, 3, 2]))[1] == "yes"
    assert (
        claim.look(places(10.0, a=[4, 2, 3]))[1] == "no"
    )  # intervals of few runs explain anything


@pytest.mark.parametrize(
    "claim",
    [
        Best(paper="", measure="mae", line="a", rivals=("b",)),
        Power(paper="", measure="mae", line="a"),
        Widens(paper="", measure="mae", line="a", rivals=("b",)),
        LeastAt(paper="", measure="mae", line="a", x="4"),
    ],
    ids=lambda claim: type(claim).__name__,
)
def test_what_was_not_run_is_not_judged(claim):
    assert claim.look({}) == NOTHING
    assert claim.look(places(c=[1, 2])) == NOTHING
