"""Counts from every kind of column, and every kind of column that is refused without a word about
the data.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import InputError
from penstock.private.counts_input import counts_of

MOST = 2**50
BIG = 918_273_645  # no other number in a message looks like it


class Framed:
    """A column of some other library."""

    def __init__(self, values):
        self.values = values

    def to_numpy(self):
        if isinstance(self.values, Exception):
            raise self.values
        return np.asarray(self.values)


def take(column, size=3):
    return counts_of(column, size=size, most=MOST, unit=7)


GOOD = {
    "list": [1, 2, 3],
    "tuple": (1, 2, 3),
    "range": range(1, 4),
    "list of NumPy ints": [np.int8(1), np.uint64(2), 3],
    "whole floats": [1.0, 2.0, 3.0],
    "float32": np.array([1, 2, 3], np.float32),
    "float16": np.array([1, 2, 3], np.float16),
    "other byte order": np.array([1, 2, 3], ">i4"),
    "strided": np.array([1, 9, 2, 9, 3, 9])[::2],
    "Polars": pl.Series([1, 2, 3]),
    "Polars Int32": pl.Series([1, 2, 3], dtype=pl.Int32),
    "Polars UInt64": pl.Series([1, 2, 3], dtype=pl.UInt64),
    "Polars floats": pl.Series([1.0, 2.0, 3.0]),
    "Arrow": pa.array([1, 2, 3]),
    "Arrow uint8": pa.array([1, 2, 3], pa.uint8()),
    "Arrow chunks": pa.chunked_array([[1], [2, 3]]),
    "another library": Framed([1, 2, 3]),
} | {np.dtype(kind).name: np.array([1, 2, 3], kind) for kind in "bBhHiIlLqQ"}


@pytest.mark.parametrize("column", GOOD.values(), ids=GOOD.keys())
def test_whole_numbers_are_taken_from_any_column(column):
    counts = take(column)
    assert counts.tolist() == [1, 2, 3]
    assert counts.dtype == np.int64


BAD = {
    "negative": ([1, -BIG, 3], "negative"),
    "negative float": ([1.0, -float(BIG), 3.0], "negative"),
    "fractional": ([1, BIG + 0.5, 3], "whole"),
    "nan": ([1, float("nan"), BIG], "NaN"),
    "inf": ([1, float("inf"), BIG], "infinite"),
    "minus inf": ([1, -float("inf"), BIG], "infinite"),
    "too short": ([BIG, 1], "one column of 3"),
    "too long": ([BIG, 1, 2, 3], "one column of 3"),
    "empty": ([], "one column of 3"),
    "a number": (np.array(BIG), "one column of 3"),
    "two columns": ([[BIG, 1, 2], [1, 2, 3]], "one column of 3"),
    "a row of columns": (np.full((3, 1), BIG), "one column of 3"),
    "above the limit": ([1, 2, MOST + 1], "above"),
    "uint64 above 2^63": (np.array([1, 2, 2**63 + BIG], np.uint64), "above"),
    "float above the limit": ([1.0, 2.0, 1e300], "above"),
    "huge ints": ([1, 2, 10**30 + BIG], "whole"),
    "huge and negative": ([2**63 + BIG, -1, 3], ""),
    "bools": ([True, False, True], "whole"),
    "bool array": (np.array([True, False, True]), "whole"),
    "objects": (np.array([1, None, BIG], object), "whole"),
    "nothing in it": ([1, None, BIG], "whole"),
    "strings": ([str(BIG), "1", "2"], "whole"),
    "bytes": ([b"1", b"2", b"3"], "whole"),
    "complex": ([1j, 2, BIG], "whole"),
    "dates": (np.array(["2020-01-01"] * 3, "datetime64[D]"), "whole"),
    "durations": (np.array([1, 2, BIG], "timedelta64[s]"), "whole"),
    "records": (np.zeros(3, [("count", "i8")]), "whole"),
    "ragged": ([[BIG], [1, 2], 3], ""),
    "Polars nulls": (pl.Series([1, None, BIG]), "missing"),
    "Polars bools": (pl.Series([True, False, True]), "whole"),
    "Polars strings": (pl.Series([str(BIG), "1", "2"]), "whole"),
    "Polars frame": (pl.DataFrame({"a": [1, 2, BIG]}), "one column of 3"),
    "Polars lists": (pl.Series([[1], [2], [BIG]]), ""),
    "Arrow nulls": (pa.array([1, None, BIG]), "missing"),
    "Arrow chunks with nulls": (pa.chunked_array([[1], [None, BIG]]), "missing"),
    "Arrow strings": (pa.array([str(BIG), "1", "2"]), "whole"),
    "Arrow negative": (pa.array([1, -BIG, 2]), "negative"),
    "Arrow lists": (pa.array([[1], [2], [BIG]]), ""),
    "Arrow table": (pa.table({"a": [1, 2, BIG]}), ""),
    "Arrow number": (pa.scalar(BIG), ""),
    "another library's objects": (Framed(["x", "y", BIG]), "whole"),
    "another library's error": (Framed(ValueError(f"cannot convert {BIG}")), ""),
    "another library's odd error": (Framed(RuntimeError(f"cannot convert {BIG}")), ""),
    "None": (None, "not NoneType"),
    "an int": (BIG, "not int"),
    "a string": (str(BIG), "not str"),
    "a dict": ({"a": BIG}, "not dict"),
    "a set": ({1, 2, BIG}, "not set"),
    "a generator": ((n for n in (1, 2, BIG)), "not generator"),
    "a memoryview": (memoryview(b"123"), "not memoryview"),
}


@pytest.mark.parametrize(("column", "why"), BAD.values(), ids=BAD.keys())
def test_any_other_column_is_refused_and_nothing_is_told_about_it(column, why):
    with pytest.raises(InputError) as caught:
        take(column)
    message = str(caught.value)
    assert message.startswith("unit 7: ")
    assert message.endswith("Nothing was drawn or recorded.")
    assert why in message
    assert str(BIG) not in message
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_masked_array_is_refused_and_the_message_says_why():
    with pytest.raises(InputError, match="masked"):
        take(np.ma.array([1, 2, 3], mask=[False, True, False]))


@pytest.mark.parametrize("text", [["1234567", "1", "2"], [b"1234567", b"1", b"2"]])
def test_the_length_of_a_text_is_not_told(text):
    with pytest.raises(InputError) as caught:
        take(text)
    assert "7" not in str(caught.value).removeprefix("unit 7")


def test_the_largest_count_is_taken_and_the_next_is_not():
    assert take([0, 0, MOST]).tolist() == [0, 0, MOST]
    for column in (
        [0, 0, MOST + 1],
        np.array([0, 0, MOST + 1], np.uint64),
        np.array([0, 0, MOST + 1], np.float64),
    ):
        with pytest.raises(InputError, match="above"):
            take(column)


@given(st.lists(st.integers(-5, MOST + 5), min_size=1, max_size=6))
@settings(derandomize=True, deadline=None)
def test_a_list_is_taken_exactly_if_every_number_is_in_range(numbers):
    if all(0 <= number <= MOST for number in numbers):
        assert take(numbers, len(numbers)).tolist() == numbers
    else:
        with pytest.raises(InputError):
            take(numbers, len(numbers))
