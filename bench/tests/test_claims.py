from __future__ import annotations

import pytest

from penstock_bench.claims import Agrees, Better, Inside, Value, share


def places(**lines: list[float]) -> dict[tuple[str, str], dict[str, Value]]:
    """One panel, with places 1, 2, … on its axis."""
    size = len(next(iter(lines.values())))
    return {
        ("p", str(x + 1)): {line: Value(values[x], 0.1, 3) for line, values in lines.items()}
        for x in range(size)
    }


def better(**more: float) -> Better:
    return Better(paper="a beats b", measure="mae", line="a", rival="b", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("a", "b", "up_to", "verdict"),
    [
        ([1, 1], [2, 3], None, "yes"),
        ([1, 1], [2, 0.5], None, "partly"),
        ([1, 1], [1, 0.5], None, "no"),
        ([1, 1], [2, 100], 100, "yes"),
        ([1, 1], [2, 81], 100, "yes"),
        ([1, 1], [2, 79], 100, "partly"),
        ([1, 1], [0.5, 100], 100, "partly"),
    ],
)
def test_better_is_counted_and_how_much_matters(
    a: list[float], b: list[float], up_to: float | None, verdict: str
):
    finding = better(**({} if up_to is None else {"up_to": up_to})).found(places(a=a, b=b))
    assert finding.verdict == verdict


def test_a_difference_is_said_with_its_numbers():
    finding = better().found(places(a=[1, 2], b=[3, 1]))
    assert finding.sentence() == (
        "The paper: a beats b. Here: better at 1 of 2 points, surely at 1; "
        "the error of b is 0.5 × that of a (p, 2) to 3 × (p, 1)."
    )


def test_only_the_places_that_are_meant_count():
    found = places(a=[1, 1, 1], b=[0.5, 2, 0.5])
    assert better(from_x=2, up_to_x=2).found(found).verdict == "yes"
    assert better(from_x=2).found(found).verdict == "partly"
    assert better(up_to_x=1).found(found).verdict == "no"
    other = Better(paper="x", measure="mae", line="a", rival="b", panels=("q",))
    assert other.found(found).verdict == "not run"


def test_what_was_not_run_is_no_verdict():
    assert better().found(places(a=[1])).verdict == "not run"
    assert (
        Inside(paper="x", measure="m", line="c", low=0, high=1).found(places(a=[1])).verdict
        == "not run"
    )
    assert Agrees(paper="x", measure="m", line="a").found(places(a=[1])).verdict == "not run"


@pytest.mark.parametrize(
    ("values", "verdict"), [([1, 2], "yes"), ([1, 5], "partly"), ([5, 6], "no")]
)
def test_inside_a_range(values: list[float], verdict: str):
    claim = Inside(paper="x", measure="m", line="a", low=1, high=2, percent=True)
    assert claim.found(places(a=values)).verdict == verdict
    assert f"from {100 * values[0]} % (p, 1)" in claim.found(places(a=values)).ours


@pytest.mark.parametrize(
    ("mean", "error", "verdict"),
    [
        (1.01, None, "yes"),
        (1.3, None, "no"),
        (1.3, 0.1, "yes"),
        (1.3, 0.05, "no"),
        (0.7, 0.05, "no"),
    ],
)
def test_a_formula_is_missed_by_30_percent_but_not_by_chance(
    mean: float, error: float | None, verdict: str
):
    found = {("p", "1"): {"a": Value(mean, 0.1, 3, 1.0, error)}}
    finding = Agrees(paper="it is what the formula says", measure="m", line="a").found(found)
    assert finding.verdict == verdict
    assert finding.sentence().startswith("Theory: ")


@pytest.mark.parametrize(
    ("true", "verdict"), [(8, "yes"), (7, "partly"), (2, "partly"), (1, "no"), (0, "no")]
)
def test_what_is_true_at_few_points_is_not_true(true: int, verdict: str):
    assert share(true, 8) == verdict
    found = better().found(places(a=[1.0] * 8, b=[2.0] * true + [0.5] * (8 - true)))
    assert found.verdict == verdict
