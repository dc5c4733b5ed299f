"""Tables of published numbers: what their metadata say, and numbers that are not negative."""

from __future__ import annotations

import json

import numpy as np
import pytest

from penstock import Laplace
from penstock.core.errors import ConfigurationError
from penstock.core.hierarchy import Hierarchy
from penstock.engine.publication import Publication
from penstock.private.mechanisms.hierarchical import HierarchicalPegasus
from penstock.released.log import Log
from penstock.released.queries import LowSignal, SlidingSum, TopK, UnitCounts
from penstock.testing import TestNoise

from tests.engine.published import pipeline, publish

KEYS = ["a", "b", "c", "d"]


@pytest.fixture
def log() -> Log:
    run = Laplace(epsilon="1/20").run(KEYS, noise=TestNoise(1))
    log = Log.of(run)
    for _ in range(12):
        log.append(run.step([0, 1, 2, 30]))
    return log


def test_every_column_of_every_table_has_a_description(log):
    answer = UnitCounts().series(log)
    tables = [
        answer.to_arrow(),
        SlidingSum(3).series(log).to_arrow(),
        LowSignal(2, 3.0).series(log).to_arrow(),
        TopK(2).series(log).to_arrow(),
        log[3].to_arrow(),
        log.filtered(4)[3].to_arrow(confidence="0.5"),
    ]
    for table in tables:
        assert [field.name for field in table.schema if not field.metadata[b"description"]] == []
    assert b"at least 95 %" in tables[0].schema.field("low").metadata[b"description"]
    assert b"50 % interval of the count" in tables[-1].schema.field("low").metadata[b"description"]
    assert b"penstock.promise" in tables[4].schema.metadata


def test_a_table_has_no_negative_numbers_by_choice_and_says_so(log):
    answer = UnitCounts().series(log)
    raw, cut = answer.to_arrow(), answer.to_arrow(nonnegative=True)
    assert min(raw.column("value").to_pylist()) < 0
    for name in ("value", "low", "high"):
        wanted = np.maximum(raw.column(name).to_numpy(), 0)
        assert cut.column(name).to_pylist() == wanted.tolist()
        told = json.loads(cut.schema.field(name).metadata[b"penstock.nonnegative"])
        assert told["method"] == "cut at 0"
    assert b"penstock.nonnegative" not in raw.schema.field("value").metadata
    assert answer.nonnegative().to_arrow().equals(cut, check_metadata=True)
    assert answer.to_polars(nonnegative=True)["value"].min() >= 0
    assert answer.to_pandas(nonnegative=True)["value"].min() >= 0
    assert log[1].to_polars(nonnegative=True)["value"].min() >= 0


@pytest.mark.parametrize("query", [LowSignal(2, 3.0), TopK(2)])
def test_alerts_and_rankings_are_of_the_numbers_as_released(log, query):
    with pytest.raises(ConfigurationError, match="Use it with counts and sums"):
        query.answer(log).to_arrow(nonnegative=True)


def test_totals_are_kept_in_the_tables_of_answers_and_of_releases():
    tree = Hierarchy.of({"north": "A", "south": "A", "west": "B"})
    run = HierarchicalPegasus(epsilon="1/20").run(tree, noise=TestNoise(3))
    log = Log.of(run)
    for _ in range(6):
        log.append(run.step([0, 3, 1]))
    answer = UnitCounts().series(log)
    frame = answer.to_polars(nonnegative=True)
    by_unit = frame.pivot(on="key", index="unit", values="value")
    assert frame["value"].min() >= 0
    sums = (by_unit["A/north"] + by_unit["A/south"]).round(6)
    assert sums.to_list() == by_unit["A"].to_list()
    release = log[6].named(tree.nodes).to_polars(nonnegative=True)
    assert release["value"].to_list() == frame.filter(unit=6)["value"].to_list()


def test_a_publication_has_no_negative_numbers_by_choice(tmp_path):
    publish(tmp_path / "taps.db", pipeline(), 20, seed=1)
    with Publication.read(tmp_path / "taps.db") as stream:
        raw, cut = stream.to_polars(), stream.to_polars(nonnegative=True)
        assert cut["value"].to_list() == [max(value, 0) for value in raw["value"]]
        assert cut.drop("value", "low", "high").equals(raw.drop("value", "low", "high"))
        key = stream.keys[1]
        assert stream[key].to_polars(nonnegative=True).equals(cut.filter(key=key))
        table = stream.to_arrow(nonnegative=True)
        assert table.schema.metadata[b"penstock.promise"].decode() == stream.promise
        told = json.loads(table.schema.field("value").metadata[b"penstock.nonnegative"])
        assert told["epsilon"] == "0"
        assert stream[5:5].to_polars(nonnegative=True).height == 0


def test_the_chosen_keys_of_a_publication_keep_the_totals_of_all(tmp_path):
    tree = {"north": "A", "south": "A", "wést": "B"}
    declared = pipeline(
        domain={"hierarchy": tree},
        privacy={"mechanism": "hs_pegasus", "epsilon": "1/20"},
    )
    publish(tmp_path / "taps.db", declared, 12, seed=1)
    with Publication.read(tmp_path / "taps.db") as stream:
        whole = stream.to_polars(nonnegative=True)
        assert stream.to_polars()["value"].min() < 0 <= whole["value"].min()
        some = stream["A/north", "B"].to_polars(nonnegative=True)
        assert set(some.rows()) == {row for row in whole.rows() if row[2] in ("A/north", "B")}
