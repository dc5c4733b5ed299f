"""Keys that are whole numbers: looked up in any domain, close together or not, in order or not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.private.sources.base import FIRST, LAST, Columns, Intake, Rejections

DOMAINS = {
    "0, 1, 2, …": [str(number) for number in range(50)],
    "from another number on": [str(number) for number in range(-7, 43)],
    "in another order": [str(number) for number in [*range(49, 24, -1), *range(25)]],
    "with gaps": [str(number) for number in range(0, 150, 3)],
    "far apart": ["0", "5", str(10**12), str(-(2**63)), str(2**63 - 1)],
    "some are words": ["north", "7", "south", "007", "8", str(2**63)],
    "all are words": ["north", "south"],
}
NUMBERS = [*range(-10, 160), 10**12, -(2**63), 2**63 - 1, -(2**63) + 1, 2**63 - 2]


def batch(table, *, other=None, domain=("0", "1"), **columns):
    rejections = Rejections()
    intake = Intake(columns=Columns("ts", "key", **columns), domain=domain, other=other)
    return intake.batch(table, position=None, rejections=rejections), rejections.for_operator()


def table(keys, times=None):
    return pa.table(
        {"ts": pa.array([0] * len(keys) if times is None else times, pa.int64()), "key": keys}
    )


@pytest.mark.parametrize(
    "kind", [pa.int64(), pa.int32(), pa.uint8(), pa.uint64(), pa.string()], ids=str
)
@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
def test_whole_numbers_get_the_code_of_their_key(domain, kind):
    low, high = (
        (0, 2**8)
        if kind == pa.uint8()
        else (0, 2**63)
        if kind == pa.uint64()
        else (-(2**31), 2**31)
    )
    if kind in (pa.int64(), pa.string()):
        low, high = -(2**63), 2**63
    numbers = [number for number in NUMBERS if low <= number < high]
    keys = (
        pa.array(list(map(str, numbers)), kind) if kind == pa.string() else pa.array(numbers, kind)
    )
    for rows in (
        [],
        range(len(numbers)),
        [row for row, number in enumerate(numbers) if str(number) in domain],
    ):
        expected = [domain.index(str(numbers[row])) for row in rows if str(numbers[row]) in domain]
        found, rejected = batch(
            table(keys.take(pa.array(rows, pa.int64()))),
            domain=domain,
            clock="seconds",
            key_type="integer",
        )
        assert found.key.tolist() == expected
        assert found.key.dtype == np.int64
        assert rejected.get("unknown key", 0) == len(rows) - len(expected)


def test_unknown_numbers_become_other_and_missing_ones_are_dropped():
    keys = pa.array([5, None, 1, -1, 2**62])
    found, rejected = batch(
        table(keys), other="rest", domain=["0", "1", "rest"], clock="seconds", key_type="integer"
    )
    assert found.key.tolist() == [2, 1, 2, 2]
    assert rejected == {"missing value": 1}


@pytest.mark.parametrize("clock", ["seconds", "milliseconds", "microseconds"])
def test_times_out_of_the_calendar_are_dropped_and_the_others_stay_as_they_are(clock):
    factor = {"seconds": 1_000_000, "milliseconds": 1_000, "microseconds": 1}[clock]
    good = [FIRST // factor, 0, LAST // factor]
    bad = [FIRST // factor - 1, LAST // factor + 1, -(2**63), 2**63 - 1]
    found, rejected = batch(
        table(pa.array([1] * 7), [*good, *bad]), clock=clock, key_type="integer"
    )
    assert found.time.tolist() == [each * factor for each in good]
    assert rejected == {"time out of range": 4}


def test_what_a_batch_holds_cannot_be_written_to():
    found, _ = batch(table(pa.array([0, 1, 1])), clock="microseconds", key_type="integer")
    for column in (found.time, found.key):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1
