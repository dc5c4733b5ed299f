"""What a promise does not protect follows from its numbers."""

from __future__ import annotations

import pytest

from penstock.core.guarantee import Guarantee, Intrusion
from penstock.core.promise_gaps import promise_gaps


def gaps(*promise, persons=True, counts_alone=False, **more):
    found = promise_gaps(Guarantee(*promise, **more), persons=persons, counts_alone=counts_alone)
    assert len({gap.kind for gap in found}) == len(found)
    return {gap.kind: gap for gap in found}


def test_a_longer_stay_is_open_unless_the_whole_stream_is_covered():
    assert gaps("1", 24)["longer_stay"].values == {"window": "24"}
    assert "any 24 units of that time" in gaps("1", 24)["longer_stay"].text
    assert "any one unit of that time" in gaps("1", 1)["longer_stay"].text
    assert "longer_stay" in gaps("1", 24, horizon=48)
    assert "longer_stay" not in gaps("1", 24, horizon=24)


def test_a_group_pays_once_per_person():
    assert gaps("1/3", 24)["group"].values == {"two": "2/3", "three": "1"}
    assert "delta" not in gaps("1", 24)["group"].text
    assert "delta grows" in gaps("1", 24, delta="1e-6")["group"].text


def test_events_without_a_person_are_named():
    without = gaps("1", 24, persons=False)
    assert "no_persons" in without
    assert "longer_stay" not in without
    assert "counts_alone" in gaps("1", 24, counts_alone=True)
    assert not {"no_persons", "counts_alone"} & gaps("1", 24).keys()


@pytest.mark.parametrize("look", [look for look in Intrusion if look])
def test_the_looks_that_a_promise_survives_are_named(look):
    assert look.value in gaps("1", 24, intrusion=look)["some_memory"].text
    assert "memory" not in gaps("1", 24, intrusion=look)
    assert "some_memory" not in gaps("1", 24)
