"""`Private`: whole numbers about people that only the gate may open."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.cover import ALL, EACH, Cover, Groups
from penstock.core.errors import MechanismError, SealedError

_INT64 = np.dtype(np.int64)
_FROM_FIRST = np.array([0])
"""Where the only group of `np.add.reduceat` starts, so that it sums all numbers."""


def _sealed(*_: object, **__: object) -> NoReturn:
    raise SealedError(
        "a Private value cannot be looked at: not compared, converted, iterated, indexed, "
        "measured, copied or pickled. "
        "Ask the gate for a noisy release of it, or change it with map()."
    )


class Private:
    """Whole numbers about people that only the gate can open.

    This guards against mistakes, not malice. A function given to `map` sees the raw numbers. It
    must be pure, and the mechanism's proof argues its stability.

    Parameters
    ----------
    value : array of int64
        The numbers.
    sensitivity : int
        The most that one person's events of one unit change the sum of absolute values.
    cover : Cover
        The base keys that each number reads. Default: number i reads key i.
    fold : str
        The run that the numbers were folded for. They read earlier units too, and only that run may
        ask about them. Default: none.
    unit : int
        The unit that the numbers are of, and that pays for them. Default: 0, unknown.
    scratch : list of arrays, optional
        A list to which all arrays made from the numbers are added, for the run to overwrite.
        Default: none, the arrays are just freed.

    >>> secret = Private(np.array([3, 1, 4]), sensitivity=1)
    >>> secret
    <Private, sensitivity 1>
    >>> if secret: pass
    Traceback (most recent call last):
    penstock.core.errors.SealedError: a Private value cannot be looked at: ...
    """

    __slots__ = ("__scratch", "__value", "cover", "fold", "sensitivity", "unit")

    def __init__(
        self,
        value: IntArray,
        *,
        sensitivity: int,
        cover: Cover = EACH,
        fold: str = "",
        unit: int = 0,
        scratch: list[IntArray] | None = None,
    ) -> None:
        self.__value = value
        self.__scratch = scratch
        self.sensitivity = sensitivity
        self.cover = cover
        self.fold = fold
        """The run that this was folded for: it reads earlier units too, and only that run may ask
        about it.
        """
        self.unit = unit
        """The unit that this is of, and that pays for it; 0 if that was not said."""

    def map(
        self, function: Callable[[IntArray], IntArray], *, stability: int, cover: Cover
    ) -> Private:
        """A function of the numbers, sealed again.

        Parameters
        ----------
        function : callable
            A pure function from an array of int64 to whole numbers.
        stability : int
            The most that one person's change of 1 changes the result in all.
        cover : Cover
            The base keys that each number of the result reads.
        """
        result = whole_numbers(function(self.__value))
        if self.__scratch is not None:
            self.__scratch.append(result)
        return Private(
            result,
            sensitivity=self.sensitivity * stability,
            cover=cover,
            fold=self.fold,
            unit=self.unit,
            scratch=self.__scratch,
        )

    def distance(self, other: IntArray) -> Private:
        """The sum of absolute differences to public numbers, as sensitive as the counts.

        Parameters
        ----------
        other : array of int64
            The public numbers, one per key.
        """
        total = np.add.reduceat(self.__differences(other), _FROM_FIRST)
        return self.__as_sensitive(total, ALL)

    def distances(self, other: IntArray, groups: Groups) -> Private:
        """The distance per group of keys. One person moves them by one distance in all.

        Parameters
        ----------
        other : array of int64
            The public numbers, one per key.
        groups : Groups
            The groups.
        """
        return self.__sums(self.__differences(other), groups)

    def sums(self, groups: Groups) -> Private:
        """The total of each group of keys.

        Parameters
        ----------
        groups : Groups
            The groups.
        """
        return self.__sums(self.__value, groups)

    def __differences(self, other: IntArray) -> IntArray:
        """The absolute differences to public numbers."""
        difference: IntArray = self.__value - other
        if self.__scratch is not None:
            self.__scratch.append(difference)
        if difference.dtype != _INT64:
            raise MechanismError(f"public numbers must be whole, not {other.dtype.name}.")
        return np.abs(difference, out=difference)

    def __sums(self, value: IntArray, groups: Groups) -> Private:
        ordered = value[groups.order]
        if self.__scratch is not None:
            self.__scratch.append(ordered)
        return self.__as_sensitive(np.add.reduceat(ordered, groups.starts), groups.cover)

    def __as_sensitive(self, numbers: IntArray, cover: Cover) -> Private:
        """Numbers that one person changes by no more, in all, than what they were made from."""
        if self.__scratch is not None:
            self.__scratch.append(numbers)
        return Private(
            numbers,
            sensitivity=self.sensitivity,
            cover=cover,
            fold=self.fold,
            unit=self.unit,
            scratch=self.__scratch,
        )

    def __repr__(self) -> str:
        return f"<Private, sensitivity {self.sensitivity}>"

    def __format__(self, _: str) -> str:
        return repr(self)

    __bool__ = __int__ = __float__ = __complex__ = __index__ = _sealed
    __len__ = __iter__ = __next__ = __contains__ = __getitem__ = __setitem__ = __reversed__ = (
        _sealed
    )
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _sealed
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __matmul__ = __rmatmul__ = (
        _sealed
    )
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = (
        __rpow__
    ) = _sealed
    __neg__ = __pos__ = __abs__ = __invert__ = __and__ = __or__ = __xor__ = _sealed
    __round__ = __trunc__ = __floor__ = __ceil__ = __divmod__ = __rdivmod__ = _sealed
    __array__ = __array_ufunc__ = __array_function__ = __dlpack__ = __buffer__ = _sealed
    __reduce__ = __reduce_ex__ = __copy__ = __deepcopy__ = __getstate__ = _sealed
    __hash__ = None  # type: ignore[assignment]

    @property
    def __array_interface__(self) -> NoReturn:
        _sealed()

    @property
    def __array_struct__(self) -> NoReturn:
        _sealed()


def whole_numbers(statistic: object) -> IntArray:
    """Refuse a statistic that is not whole: cut fractions would break its stability."""
    result = np.asarray(statistic)
    if result.dtype.kind not in "iub":
        raise MechanismError(f"a statistic must be whole numbers, not {result.dtype.name}.")
    return (result if result.ndim else result[None]).astype(np.int64)


def unseal(private: Private) -> IntArray:
    """The numbers themselves, for the gate alone. A test looks for any other caller."""
    value: IntArray = private._Private__value  # type: ignore[attr-defined]
    return value
