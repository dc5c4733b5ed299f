"""`Released`: the numbers of one unit that everybody may see, with their noise known exactly."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.core.calendar import Calendar
from penstock.core.domain import Domain
from penstock.core.error_bounds import Kind, count_range, half_width, miss_of, variance
from penstock.core.errors import ConfigurationError
from penstock.core.exact import Exact
from penstock.core.guarantee import Guarantee
from penstock.core.nonnegative import cut_interval, make_nonnegative, nonnegative_facts
from penstock.core.notebook_html import MAX_HTML_ROWS, card, shown, shown_interval, table
from penstock.core.tables import TableColumns, Tabular
from penstock.core.weights import UNIT, Weights

DEVIATION = "deviation"
"""The public array of a filter's estimates: the root mean square error of each, times the divisor;
0 where nothing is known yet.
"""


@dataclass(frozen=True)
class Scale:
    """The scale of one draw of noise, `base / parts`; per key if `parts` is an array.

    It is the exact scale of discrete Laplace noise. For Gaussian noise it is a standard deviation,
    rounded up. 0 parts: nothing was released there yet, and the number stands for nothing.
    """

    base: Fraction
    parts: int | IntArray = 1

    def __float__(self) -> float:
        if isinstance(self.parts, np.ndarray):
            raise TypeError("this release has a scale per key: use scale.floats()")
        return float(self.base / self.parts) if self.parts else math.inf

    def floats(self) -> FloatArray:
        """The scales as floats, for display. Privacy never depends on them."""
        with np.errstate(divide="ignore"):
            return np.float64(self.base) / np.asarray(self.parts, np.float64)

    @cached_property
    def ratio(self) -> Fraction:
        """The scale of every number, exactly, if it is one and the same and above 0."""
        if isinstance(self.parts, np.ndarray):
            raise TypeError("this release has a scale per key: use scale.floats()")
        return self.base / self.parts


@dataclass(frozen=True, init=False, repr=False)
class Released(Tabular):
    """The release of one unit: numbers that anyone may see, with their noise known exactly.

    Parameters
    ----------
    unit : int
        The unit.
    value : array of int64
        Whole numbers in the domain's order.
    scale : Scale
        The scale of one draw of noise.
    guarantee : Guarantee
        The promise.
    private : bool
        Whether all noise came from the system's randomness. False for ever after test noise.
    repeated : bool or array of bool
        Whether the last release stands again. Its noise is that of the unit it was made for; how
        far the stream has moved since is unknown. Default: False.
    divisor : int or array of int
        The number to divide `value` by. Default: 1.
    layers : int or array of int
        The number of independent draws in each number. Default: 1.
    public : mapping of str to array
        Other public arrays, such as the counts before smoothing. Default: none.
    kind : str
        How the draws were combined (`core.error_bounds`). Default: "sum".
    weights : Weights
        The units that each number is a sum of. Default: this unit.

    Examples
    --------
    >>> from penstock import Laplace
    >>> released = Laplace(epsilon="1").run(["north", "south"]).step([7, 0])
    >>> released
    <Released unit 1: 2 numbers, Guarantee(epsilon=1, window=1)>
    >>> released.to_polars().columns
    ['begins', 'unit', 'key', 'value', 'low', 'high', 'repeated']
    """

    unit: int
    value: IntArray
    scale: Scale
    guarantee: Guarantee
    private: bool
    repeated: bool | BoolArray = False
    divisor: int | IntArray = 1
    layers: int | IntArray = 1
    public: Mapping[str, IntArray] = field(default_factory=dict)
    kind: Kind = "sum"
    weights: Weights = UNIT

    domain: ClassVar[Domain | None] = None
    """What each number is of; None where the release does not know it. It is not stored."""

    calendar: ClassVar[Calendar | None] = None
    """When its unit begins and ends; None where the release does not know it. It is not stored."""

    def __init__(
        self,
        unit: int,
        value: IntArray,
        scale: Scale,
        guarantee: Guarantee,
        private: bool,
        repeated: bool | BoolArray = False,
        divisor: int | IntArray = 1,
        layers: int | IntArray = 1,
        public: Mapping[str, IntArray] | None = None,
        kind: Kind = "sum",
        weights: Weights = UNIT,
    ) -> None:
        own = self.__dict__  # a dataclass would make one call per field, in every unit
        own["unit"] = unit
        own["value"] = value
        own["scale"] = scale
        own["guarantee"] = guarantee
        own["private"] = private
        own["repeated"] = repeated
        own["divisor"] = divisor
        own["layers"] = layers
        own["public"] = {} if public is None else public
        own["kind"] = kind
        own["weights"] = weights
        value.flags.writeable = False
        if not isinstance(repeated, int):
            repeated.flags.writeable = False
        if not isinstance(divisor, int):
            divisor.flags.writeable = False
        if not isinstance(layers, int):
            layers.flags.writeable = False
        if not isinstance(scale.parts, int):
            scale.parts.flags.writeable = False
        if public:
            for array in public.values():
                array.flags.writeable = False

    @classmethod
    def nothing(cls, size: int, guarantee: Guarantee) -> Released:
        """The state before the first release: zeros with an infinite variance.

        Parameters
        ----------
        size : int
            The number of zeros.
        guarantee : Guarantee
            The promise.

        >>> nothing = Released.nothing(2, Guarantee("1", 1))
        >>> nothing.value, nothing.variance
        (array([0, 0]), array([inf, inf]))
        """
        zeros = np.zeros(size, np.int64)
        return cls(
            unit=0,
            value=zeros,
            scale=Scale(Fraction(1), 0),
            guarantee=guarantee,
            private=True,
            repeated=True,
            kind="rounded" if guarantee.delta else "sum",
        )

    def again(self, unit: int, *, private: bool = True) -> Released:
        """The same release for a later unit.

        Parameters
        ----------
        unit : int
            The later unit.
        private : bool
            Whether the run is still private. Default: True.
        """
        again = object.__new__(Released)
        again.__dict__.update(
            self.__dict__, unit=unit, private=self.private and private, repeated=True
        )
        return again

    def over(self, last: Released, where: BoolArray) -> Released:
        """This release where it is fresh, the last one elsewhere, each key with its own noise.

        Parameters
        ----------
        last : Released
            The last release.
        where : array of bool
            Where this release is fresh.
        """
        base = self.scale.base
        same = (base is last.scale.base or base == last.scale.base) and self.kind == last.kind
        if not same and np.any(last.scale.parts):
            raise ConfigurationError(
                "a release stands over another only if both carry noise of one kind."
            )
        return Released(
            self.unit,
            np.where(where, self.value, last.value),
            Scale(base, np.where(where, self.scale.parts, last.scale.parts)),
            self.guarantee,
            self.private and last.private,
            ~where,
            _either(where, self.divisor, last.divisor),
            _either(where, self.layers, last.layers),
            self.public,
            self.kind,
            self.weights,
        )

    def named(self, domain: Domain | None, calendar: Calendar | None = None) -> Released:
        """This release, knowing its keys and its calendar.

        Parameters
        ----------
        domain : Domain or None
            What each number is of.
        calendar : Calendar, optional
            When units begin. Default: unknown.
        """
        named = object.__new__(Released)
        named.__dict__.update(self.__dict__, domain=domain, calendar=calendar)
        return named

    def among(self, places: IntArray) -> Released:
        """The release of some of its numbers only.

        Parameters
        ----------
        places : array of int
            The places of these numbers in `value`.
        """
        size, own = self.value.shape, self.domain
        public = {name: array[places] for name, array in self.public.items() if array.shape == size}
        named = own and Domain(tuple(own.keys[place] for place in places.tolist()))
        return Released(
            self.unit,
            self.value[places],
            Scale(self.scale.base, _at(self.scale.parts, places)),
            self.guarantee,
            self.private,
            self.repeated if isinstance(self.repeated, bool) else self.repeated[places],
            _at(self.divisor, places),
            _at(self.layers, places),
            public,
            self.kind,
            self.weights,
        ).named(named, self.calendar)

    def __repr__(self) -> str:
        numbers = "1 number" if self.value.size == 1 else f"{self.value.size} numbers"
        return f"<Released unit {self.unit}: {numbers}, {self.guarantee}>"

    def _repr_html_(self) -> str:
        """The release for a notebook: its numbers with intervals, and the promise."""
        columns = self.table_columns()
        numbers = zip(columns.keys, columns.value[0], columns.low[0], columns.high[0], strict=True)
        rows = [
            (key, shown(value), shown_interval(low, high))
            for _, (key, value, low, high) in zip(range(MAX_HTML_ROWS), numbers, strict=False)
        ]
        more = self.value.size - len(rows)
        begins = "" if self.calendar is None else f", {self.calendar.short_label(self.unit)}"
        return card(
            f"Unit {self.unit}{begins}",
            promise=self.guarantee.in_words(),
            parts=[table(("key", "value", "interval"), rows)],
            note=f"{more} more numbers are not shown." if more else "",
        )

    def table_columns(
        self, confidence: Exact | None = None, *, nonnegative: bool = False
    ) -> TableColumns:
        """The numbers of the table, with intervals, and whether each repeats an earlier release.

        Parameters
        ----------
        confidence : int, Fraction or str, optional
            The confidence. Default: 0.95; 0.9 for filtered numbers.
        nonnegative : bool
            Whether negative numbers are replaced. Default: False.
        """
        filtered = self.kind == "filtered"
        chosen = ("0.9" if filtered else "0.95") if confidence is None else confidence
        low, high = self.interval(chosen)
        value = self.estimate[np.newaxis]
        if nonnegative:
            value = make_nonnegative(self.domain, value, self.variance[np.newaxis])
            low, high = cut_interval(value[0], low, high)
        repeated = np.broadcast_to(self.repeated, self.value.shape)
        return TableColumns(
            units=np.array([self.unit]),
            keys=(self.domain or Domain.of(self.value.size)).keys,
            value=value,
            low=low[np.newaxis],
            high=high[np.newaxis],
            calendar=self.calendar,
            more={"repeated": repeated[np.newaxis]},
            confidence=str(chosen),
            filtered=filtered,
            nonnegative=nonnegative_facts(self.domain) if nonnegative else None,
            about={"penstock.promise": self.guarantee.in_words()},
        )

    @property
    def number(self) -> int:
        """The value of a release of one number."""
        return int(self.value[0])

    @property
    def estimate(self) -> FloatArray:
        """`value / divisor`, as floats."""
        return self.value / np.float64(self.divisor)

    @property
    def variance(self) -> FloatArray:
        """The variance of the noise in each estimate, or an upper bound.

        For the estimates of a filter, the expected squared error.
        """
        one = variance(self.kind, self.error_scale, self.layers, self.weights)
        return np.broadcast_to(one / np.float64(self._noise_divisor) ** 2, self.value.shape)

    def interval(self, confidence: Exact = "0.95") -> tuple[FloatArray, FloatArray]:
        """Per key, a range that covers the added noise.

        It contains the true number *of the units that were read* with at least this probability.
        For the estimates of a filter, it is a range for this unit's count, as the filter believes,
        in whole numbers from 0.

        Parameters
        ----------
        confidence : int, Fraction or str
            The probability. Default: 0.95.
        """
        if self.kind == "filtered":
            return count_range(self.estimate, self.error_scale, miss_of(confidence))
        one = half_width(
            self.kind, self.error_scale, self.layers, self.weights, miss_of(confidence)
        )
        half = one / np.float64(self._noise_divisor)
        return self.estimate - half, self.estimate + half

    @property
    def error_scale(self) -> FloatArray:
        """The scale of one draw, or of the error of a filter's estimate."""
        if self.kind != "filtered":
            return self.scale.floats()
        deviation = self.public[DEVIATION]
        return np.where(deviation > 0, deviation / np.float64(self.divisor), np.inf)

    @property
    def _noise_divisor(self) -> int | IntArray:
        """The divisor of the noise. Otherwise the divisor is only a finer grid."""
        return self.divisor if self.kind in ("sum", "gaussian", "rounded") else 1


def _at(values: int | IntArray, places: IntArray) -> int | IntArray:
    return values if isinstance(values, int) else values[places]


def _either(where: BoolArray, here: int | IntArray, there: int | IntArray) -> int | IntArray:
    if isinstance(here, int) and isinstance(there, int) and here == there:
        return here
    return np.where(where, here, there)
