"""One unit's counts, from any kind of column, checked before anything else happens."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.errors import InputError

Column: TypeAlias = Any
"""A NumPy array, a Polars series, an Arrow array, or a sequence of ints."""


_INT64 = np.dtype(np.int64)
_UINT64 = np.dtype(np.uint64)


def counts_of(
    column: Column, *, size: int, most: int, unit: int, scratch: list[IntArray] | None = None
) -> IntArray:
    """The column as `size` whole numbers from 0 to `most`. Errors show none of the numbers.

    An array that holds one of the numbers is added to `scratch`, for the run to overwrite.

    >>> counts_of([3, 1, 4], size=3, most=100, unit=1)
    array([3, 1, 4])
    >>> counts_of([3, -1, 4], size=3, most=100, unit=7)
    Traceback (most recent call last):
    penstock.core.errors.InputError: unit 7: counts must not be negative. Nothing was drawn or
    recorded.
    """
    array = column if type(column) is np.ndarray else _array(column, unit)
    if array.shape != (size,):
        shape = "×".join(map(str, array.shape)) or "a single number"
        raise _refused(
            unit, f"counts must be one column of {size} numbers, one per key, not {shape}"
        )
    kind = array.dtype.kind
    if kind == "f":
        array = array.astype(np.float64)
        if not np.isfinite(array).all():
            raise _refused(unit, "counts must not be missing, NaN or infinite")
        if (array != np.floor(array)).any():
            raise _refused(unit, "counts must be whole numbers")
    elif kind not in "iu":
        raise _refused(unit, f"counts must be whole numbers, not {array.dtype.type.__name__}")
    whole = array.dtype == _INT64
    numbers = array.view(_UINT64) if whole else array  # a negative int64 is above `most` as well
    if scratch is None:
        outside = bool(numbers[numbers.argmax()] > most)  # faster than max() for few keys
    else:
        outside = _above(numbers, most, scratch)
    if (outside or not whole) and (array < 0).any():
        raise _refused(unit, "counts must not be negative")
    if outside:
        raise _refused(
            unit, f"counts must not be above {most} for {size} keys, or sums could overflow"
        )
    return array if whole else array.astype(np.int64)


def _above(array: np.ndarray[Any, np.dtype[Any]], most: int, scratch: list[IntArray]) -> bool:
    """Whether a number is above `most`, where the largest number is added to `scratch`."""
    largest = np.empty((), array.dtype)
    scratch.append(largest)
    np.maximum.reduce(array, out=largest)
    return bool(largest > most)


def _array(column: Column, unit: int) -> np.ndarray[Any, np.dtype[Any]]:
    if isinstance(column, np.ma.MaskedArray):
        raise _refused(unit, "counts must not be masked")
    try:
        if isinstance(column, (np.ndarray, list, tuple, range)):
            return np.asarray(column)
        if type(column).__module__.partition(".")[0] == "pyarrow":
            return np.asarray(column.to_numpy(zero_copy_only=False))
        if hasattr(column, "to_numpy"):
            return np.asarray(column.to_numpy())
    except Exception:  # whatever another library raises: its message may show the data
        raise _refused(
            unit, f"counts of type {type(column).__name__} are not one column of whole numbers"
        ) from None
    raise _refused(
        unit,
        "counts must be a NumPy, Polars or Arrow column or a list of ints, "
        f"not {type(column).__name__}",
    )


def _refused(unit: int, rule: str) -> InputError:
    return InputError(f"unit {unit}: {rule}. Nothing was drawn or recorded.")
