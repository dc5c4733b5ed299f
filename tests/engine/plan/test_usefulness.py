"""How useful the numbers of a view will be, and what would help."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.core.errors import ConfigurationError
from penstock.engine.pipeline import Pipeline
from penstock.engine.plan.knowledge import knowledge
from penstock.engine.plan.usefulness import UNKNOWN, Suggestion, Usefulness, usefulness

STREAM = {"name": "taps", "every": "1h", "origin": "2026-01-01"}


def judged(typical: str | None = None, *, sample: Path | None = None, **tables: Any) -> Usefulness:
    content: dict[str, Any] = {
        "stream": STREAM,
        "source": {"kind": "csv", "path": "taps.csv", "time": "ts", "key": "station"},
        "domain": {"range": [1, 40]},
        "privacy": {"mechanism": "uniform", "epsilon": "1", "window": 25},
    }
    pipeline = Pipeline.of(content | tables)
    known = knowledge(pipeline.plan, typical=typical, sample=sample)
    (found,) = usefulness(pipeline, known)
    return found


def suggested(found: Usefulness) -> dict[str, Suggestion]:
    return {each.what: each for each in found.suggestions}


@pytest.fixture(scope="module")
def two() -> Usefulness:
    """The judgement of a typical count of 2."""
    return judged("2")


def test_a_small_count_under_much_noise_is_called_noise(two: Usefulness) -> None:
    found = two
    assert found.accuracy is not None
    assert found.accuracy.verdict == "noise"
    assert found.accuracy.deviation == pytest.approx(25 * 2**0.5, rel=0.05)
    assert found.words.startswith("a count of about 2 is published as 2 ± 3")
    assert ": noise. On average, a number is off by 2" in found.words


def test_what_would_help_is_said_with_its_figure(two: Usefulness) -> None:
    found = two
    assert found.accuracy is not None
    helping = suggested(found)
    assert {"another mechanism", "longer units", "coarser keys"} <= set(helping)
    for each in found.suggestions:
        assert each.accuracy.relative < found.accuracy.relative
        assert each.words.endswith(f"gives {each.accuracy.shown}.")
        assert f"± {each.accuracy.deviation:.2g}"[:3] in each.words
    assert helping["another mechanism"].change != 'mechanism = "uniform"'
    assert helping["longer units"].change.startswith('every = "')
    assert helping["longer units"].accuracy.mean > 2 * found.accuracy.mean
    assert helping["coarser keys"].accuracy.mean == pytest.approx(20, rel=0.1)


def test_where_numbers_are_useful_nothing_is_suggested() -> None:
    found = judged("5000")
    assert found.accuracy is not None
    assert (found.accuracy.verdict, found.suggestions) == ("useful", ())


@pytest.mark.slow
def test_the_levels_of_a_hierarchy_are_the_coarser_keys() -> None:
    hierarchy = {str(key): f"borough {key % 4}" for key in range(40)}
    found = suggested(judged("2", domain={"hierarchy": hierarchy}))["coarser keys"]
    assert found.change.startswith(("per group of level 1 (4 numbers)", "all keys together"))


@pytest.mark.slow
def test_if_no_single_change_is_enough_two_are_tried_together() -> None:
    privacy = {"mechanism": "uniform", "epsilon": "1/10", "window": 25}
    found = suggested(judged("1/100", privacy=privacy))
    assert "longer units and coarser keys" in found
    assert found["longer units and coarser keys"].change.startswith('every = "')


@pytest.mark.slow
def test_delta_is_suggested_only_where_it_beats_every_mechanism_without(two: Usefulness) -> None:
    assert "delta" not in suggested(two)
    privacy = {"mechanism": "uniform", "epsilon": "1", "window": 200}
    found = suggested(judged("400", domain={"range": [1, 2]}, privacy=privacy))
    assert found["delta"].change == 'delta = "1e-6"'
    assert found["delta"].accuracy.relative < found["another mechanism"].accuracy.relative


def test_without_public_knowledge_it_is_said_how_to_give_it() -> None:
    found = judged()
    assert (found.accuracy, found.words, found.suggestions) == (None, UNKNOWN, ())
    assert "--typical 2" in UNKNOWN
    assert "--typical counts.csv" in UNKNOWN


def test_a_file_of_past_public_counts_will_do(tmp_path: Path) -> None:
    header = ",".join(map(str, range(1, 41)))
    row = ",".join(["3"] * 40)
    (tmp_path / "counts.csv").write_text("\n".join([header, *[row] * 200]))
    found = judged(str(tmp_path / "counts.csv"))
    assert found.accuracy is not None
    assert found.accuracy.mean == 3
    assert suggested(found)["longer units"].accuracy.mean in {3.0 * units for units in range(2, 17)}


def test_a_typical_count_beside_a_sample_is_its_size(tmp_path: Path) -> None:
    path = tmp_path / "counts.csv"
    rows = [",".join(["3"] * 40)] * 200
    path.write_text("\n".join([",".join(map(str, range(1, 41))), *rows]))
    found = judged("600", sample=path)
    assert found.accuracy is not None
    assert found.accuracy.mean == pytest.approx(600, rel=0.01)
    assert found.accuracy.verdict == "useful"
    tiny = judged("1/100000", sample=path)
    assert tiny.accuracy is None
    assert "a count of about 1e-05 is almost always 0" in tiny.words


def test_a_sample_that_cannot_be_read_is_an_error_beside_a_typical_count(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no file"):
        judged("1/100000", sample=tmp_path / "none.csv")


def test_counts_that_are_almost_always_zero_are_noise() -> None:
    found = judged("1/100000")
    assert (found.accuracy, found.suggestions) == (None, ())
    assert (
        "a count of about 1e-05 is almost always 0, and what is published is noise" in found.words
    )
    assert found.empty == pytest.approx(0.9996, abs=0.0001)


def test_units_without_any_event_are_foreseen() -> None:
    some = judged("1/10", privacy={"mechanism": "uniform", "epsilon": "900", "window": 1}).empty
    assert some is not None
    assert 0 < some < 0.2
