"""What all sinks go by: items that cannot be wrong, and what a sink lacks."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from penstock.core.errors import ConfigurationError, InputError, PenstockError
from penstock.released.series import Series
from penstock.released.sinks.base import SinkError, in_order, missing

from tests.released.sinks.items import item, items, link, series

TAPS = series()


def test_times_of_an_item_are_in_utc():
    summer = timezone(timedelta(hours=2))
    one = replace(
        item(TAPS, 1),
        begins=datetime(2026, 7, 1, tzinfo=summer),
        ends=datetime(2026, 7, 2, tzinfo=summer),
    )
    assert one.begins == datetime(2026, 6, 30, 22, tzinfo=UTC)
    assert one.begins.tzinfo is UTC


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"unit": 2}, "the release is of unit 1"),
        ({"link": "abc"}, "64 hexadecimal digits"),
        ({"link": "A" * 64}, "64 hexadecimal digits"),
        ({"begins": datetime(2026, 1, 1)}, "begins must have an offset"),  # noqa: DTZ001
        ({"ends": datetime(2025, 1, 1, tzinfo=UTC)}, "must end after it begins"),
        ({"series": series(keys=3)}, "4 numbers for 3 keys"),
        ({"release": [1, 2, 3, 4]}, "takes what was released, not list"),
    ],
)
def test_an_item_that_cannot_be_is_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        replace(item(TAPS, 1), **wrong)


@pytest.mark.parametrize("name", ["", "  ", "two\nlines"])
def test_a_series_needs_a_name_that_can_be_printed(name):
    with pytest.raises(ConfigurationError, match="printable text"):
        Series(name=name, domain=TAPS.domain, guarantee=TAPS.guarantee, mechanism="uniform")


def test_an_item_does_not_show_its_numbers_in_its_repr():
    assert "array" not in repr(item(TAPS, 1))


def test_units_of_each_series_come_in_order():
    other = series("other")
    mixed = [item(TAPS, 4), item(other, 1), item(TAPS, 5), item(other, 2)]
    assert [[each.unit for each in part] for part in in_order(mixed).values()] == [[4, 5], [1, 2]]
    for wrong in ([4, 6], [4, 4], [4, 3]):
        with pytest.raises(InputError, match=f"unit {wrong[1]} of 'taps' comes after unit 4"):
            in_order([item(TAPS, unit) for unit in wrong])


def test_what_a_sink_holds_is_not_sent_again():
    some = items(TAPS, 3, 6)
    assert missing(some, None) == some
    assert missing(some, (2, link(TAPS, 2))) == some
    assert missing(some, (4, link(TAPS, 4))) == some[2:]
    assert missing(some, (6, link(TAPS, 6))) == []
    assert missing(some, (99, link(TAPS, 99))) == []


def test_another_link_at_the_head_shows_another_past():
    with pytest.raises(SinkError, match="unit 4 of 'taps' is there with another link") as caught:
        missing(items(TAPS, 3, 6), (4, "0" * 64))
    assert caught.value.lasting


def test_a_gap_is_refused_and_may_be_filled():
    with pytest.raises(SinkError, match="unit 5 of 'taps' does not follow unit 3") as caught:
        missing(items(TAPS, 5, 6), (3, link(TAPS, 3)))
    assert not caught.value.lasting
    assert (caught.value.done, caught.value.after) == (0, None)
    assert isinstance(caught.value, PenstockError)
