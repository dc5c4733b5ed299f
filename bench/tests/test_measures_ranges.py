"""Range counts as a measure, against the workload that they are made of."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.core.product import Product
from penstock_bench.lines import ShownUnit
from penstock_bench.measures.base import Facts
from penstock_bench.measures.ranges import SEED, RangeError, asked
from penstock_bench.measures.registry import measure_of
from penstock_bench.workload import Workload

DOMAIN = Product.of({"age": 6, "sex": 2, "place": 3})
RNG = np.random.default_rng(5)
TRUTH = RNG.integers(0, 50, (8, DOMAIN.size))
SHOWN = TRUTH + RNG.normal(0, 4, TRUTH.shape)
SHOWN[3:6] = SHOWN[2]


@pytest.fixture(autouse=True)
def _nothing_is_known_before():
    asked.cache_clear()


def facts(domain: Domain = DOMAIN) -> Facts:
    return Facts(len(TRUTH), domain, domain.size, None)


def measured(name: str, domain: Domain = DOMAIN, shown: np.ndarray = SHOWN) -> dict[str, float]:
    measure = measure_of(name, facts(domain))
    for truth, row in zip(TRUTH, shown, strict=True):
        measure.add(ShownUnit(truth, row, None))
    return measure.values()


@pytest.mark.parametrize(
    "domain", [DOMAIN, Domain.of(DOMAIN.size)], ids=["attributes", "one dimension"]
)
@pytest.mark.parametrize("size", [None, 1, 6])
def test_it_is_the_mean_error_of_a_workload(domain: Domain, size: int | None):
    shape = DOMAIN.shape if domain is DOMAIN else (DOMAIN.size,)
    expected = Workload.random(shape, number=70, seed=SEED, size=size).errors(TRUTH, SHOWN)
    name = "ranges:70" if size is None else f"ranges:70,{size}"
    found = measured(name, domain)
    assert found == {
        name: pytest.approx(expected.mean_absolute),
        f"{name} relative": pytest.approx(expected.mean_relative),
    }


def test_an_empty_range_is_taken_as_one_event():
    measure = measure_of("ranges:9,1", Facts(1, Domain.of(2), 2, None))
    measure.add(ShownUnit(np.zeros(2, np.int64), np.full(2, 3.0), None))
    assert measure.values() == {"ranges:9,1": 3.0, "ranges:9,1 relative": 3.0}


def test_whoever_writes_over_what_it_showed_is_asked_again():
    """A line may have one array for all units."""
    measure, held = measure_of("ranges:70", facts()), np.zeros(DOMAIN.size)
    for truth, row in zip(TRUTH, SHOWN, strict=True):
        held[:] = row
        measure.add(ShownUnit(truth, held, None))
    assert measure.values() == measured("ranges:70")


def test_true_answers_are_made_once_for_all_and_repeated_ones_not_again(
    monkeypatch: pytest.MonkeyPatch,
):
    made: list[int] = []
    answers = Workload.answers

    def counted(workload: Workload, values: np.ndarray) -> np.ndarray:
        made.append(len(values))
        return answers(workload, values)

    monkeypatch.setattr(Workload, "answers", counted)
    measures = [RangeError("ranges:70", ("70",), facts()) for _ in range(5)]
    for truth, row in zip(TRUTH, SHOWN, strict=True):
        for measure in measures:
            measure.add(ShownUnit(truth, row, None))
    fresh = len(TRUTH) - 3  # three of the rows are shown again
    assert len(made) == len(TRUTH) + len(measures) * fresh


def test_streams_of_other_shapes_do_not_disturb_each_other():
    one, other = (
        measure_of("ranges:70", facts()),
        measure_of("ranges:70", facts(Domain.of(DOMAIN.size))),
    )
    for truth, row in zip(TRUTH, SHOWN, strict=True):
        one.add(ShownUnit(truth, row, None))
        other.add(ShownUnit(truth, row, None))
    assert one.values() == measured("ranges:70")
    assert other.values() == measured("ranges:70", Domain.of(DOMAIN.size))


@pytest.mark.parametrize(
    "name", ["ranges", "ranges:0", "ranges:x", "ranges:5,0", "ranges:5,1,2", "ranges:-5"]
)
def test_what_cannot_be_asked_is_refused(name: str):
    with pytest.raises(ConfigurationError, match="needs a number and perhaps a size"):
        measure_of(name, facts())


def test_releases_with_totals_are_refused():
    with pytest.raises(ConfigurationError, match="for releases of the keys alone"):
        measure_of("ranges:5", Facts(3, Domain.of(4), 7, None))
