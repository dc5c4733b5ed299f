"""`Private`: whole numbers about people, which nobody but the gate may look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.cover import ALL, EACH, Cover, Groups
from penstock.core.errors import MechanismError, SealedError


def _sealed(*_: object, **__: object) -> NoReturn:
    raise SealedError(
        "a Private value cannot be looked at: not compared, converted, iterated, indexed, "
        "measured, copied or pickled. Ask the gate for a noisy release of it, or change it with map()."
    )


class Private:
    """Whole numbers about people that only the gate can open.

    It carries its sensitivity: the most that adding or removing one person's events of one unit
    changes the sum of its absolute values. This guards against mistakes, not malice: a function
    given to `map` sees the raw numbers, must be pure, and its stability is argued in the
    mechanism's proof.

    >>> secret = Private(np.array([3, 1, 4]), sensitivity=1)
    >>> secret
    <Private, sensitivity 1>
    >>> if secret: pass
    Traceback (most recent call last):
    penstock.core.errors.SealedError: a Private value cannot be looked at: ...
    """

    __slots__ = ("__value", "cover", "fold", "sensitivity", "unit")

    def __init__(
        self,
        value: IntArray,
        *,
        sensitivity: int,
        cover: Cover = EACH,
        fold: str = "",
        unit: int = 0,
    ) -> None:
        self.__value = value
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
        """`function` of the numbers. One person's change of 1 may change its result by at most
        `stability` in all.
        """
        result = whole_numbers(function(self.__value))
        return Private(
            result,
            sensitivity=self.sensitivity * stability,
            cover=cover,
            fold=self.fold,
            unit=self.unit,
        )

    def distance(self, other: IntArray) -> Private:
        """The sum of absolute differences to something public: one number, as sensitive as the
        counts.
        """

        def total(value: IntArray) -> IntArray:
            difference = value - other
            return np.abs(difference, out=difference).sum(keepdims=True)  # type: ignore[no-any-return]

        return self.map(total, stability=1, cover=ALL)

    def distances(self, other: IntArray, groups: Groups) -> Private:
        """The same for each group of keys: one person moves them by no more than one distance in
        all.
        """

        def totals(value: IntArray) -> IntArray:
            difference = value - other
            return groups.sums(np.abs(difference, out=difference))

        return self.map(totals, stability=1, cover=groups.cover)

    def sums(self, groups: Groups) -> Private:
        """The total of each group of keys."""
        return self.map(groups.sums, stability=1, cover=groups.cover)

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
    """What a function made of private numbers, if it is whole: cut fractions would move by more
    than their stability.
    """
    result = np.atleast_1d(np.asarray(statistic))
    if result.dtype.kind not in "iub":
        raise MechanismError(f"a statistic must be whole numbers, not {result.dtype.name}.")
    return result.astype(np.int64)


def unseal(private: Private) -> IntArray:
    """The numbers themselves, for the gate alone: `penstock lab check` and a test look for anybody
    else who asks.
    """
    value: IntArray = private._Private__value  # type: ignore[attr-defined]
    return value
