"""Single units, given to the bounding in every way: what is broken is found, in few units."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from penstock.lab.audit.bounding import single_unit
from penstock.lab.audit.bounding.single_unit import judged_unit, make_unit
from penstock.private.bounding import Bounding, OpenUnit
from penstock.private.person_places import place_of


class ForgetsTheNameless(Bounding):
    """Events without an id are lost when parts are merged."""

    def merge(self, part: OpenUnit) -> None:
        before = self._each.copy()
        super().merge(part)
        self._each[:] = before


class LosesSecondEvents(Bounding):
    """All events of a person but the first are lost when times no longer fit."""

    def _ready(self, earliest: int, latest: int) -> None:
        kept = self._kept
        super()._ready(earliest, latest)
        if self._kept is not kept:
            vars(self._kept)["_levels"][1:] = []


class ByBits(Bounding):
    """An unsigned id and the signed one of the same bits are one person."""

    def add(self, person: Any, key: Any, time: Any) -> None:
        if isinstance(person, np.ndarray) and person.dtype == np.uint64:
            person = person.view(np.int64)
        super().add(person, key, time)


def broken(seeds: range) -> set[str]:
    """The sentences that do not hold in these units."""
    found: set[str] = set()
    for seed in seeds:
        rng = np.random.default_rng([3, seed])
        found |= {sentence for sentence, _ in judged_unit(make_unit(rng), rng)}
    return found


def test_what_is_shipped_keeps_to_the_rule_in_every_unit() -> None:
    assert broken(range(12)) == set()


@pytest.mark.parametrize(
    ("cls", "sentence"),
    [
        (ForgetsTheNameless, "arrival"),
        (LosesSecondEvents, "arrival"),
        (ByBits, "own events"),
    ],
    ids=lambda each: each if isinstance(each, str) else each.__name__,
)
def test_a_broken_bounding_is_found(
    monkeypatch: pytest.MonkeyPatch, cls: type[Bounding], sentence: str
) -> None:
    monkeypatch.setattr(single_unit, "Bounding", cls)
    assert sentence in broken(range(60))


def test_a_unit_says_how_large_it_is() -> None:
    rng = np.random.default_rng(0)
    units = [make_unit(rng) for _ in range(40)]
    assert max(unit.keys for unit in units) == 2**20
    assert {unit.kind for unit in units} == {"signed", "unsigned", "text"}
    assert "events within" in units[0].words()


def test_a_place_that_depends_on_other_ids_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_the_batch(person: Any, places: int) -> Any:
        return (place_of(person, places) + len(person)) % places

    monkeypatch.setattr(single_unit, "place_of", of_the_batch)
    assert "own events" in broken(range(3))
