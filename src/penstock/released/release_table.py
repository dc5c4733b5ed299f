"""`ReleaseTable`: the releases of consecutive units as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.core.error_bounds import Kind
from penstock.core.errors import ConfigurationError
from penstock.core.released import Released
from penstock.core.weights import UNIT, Weights

NOISY, START, GROUP = "noisy", "start", "group"
"""Public arrays of a release: the noisy counts that it was made of, the first unit that it stands
for, and which keys share a draw."""


@dataclass(frozen=True)
class ReleaseTable:
    """The releases of consecutive units: one row per unit, one column per key.

    Queries read a log through it. `scale` is the scale of one draw of noise, or of the error of a
    filter's estimate. `whole` says per unit whether the whole last release stands again. `running`
    says that a group's release is made anew in each of its units, from one more noisy count.
    `grouped` says that keys share draws.
    """

    first: int
    value: IntArray
    scale: FloatArray
    repeated: BoolArray
    whole: BoolArray
    divisor: FloatArray
    layers: IntArray
    noisy: IntArray | None
    start: IntArray | None
    kind: Kind
    weights: Weights
    running: bool
    grouped: bool

    @classmethod
    def of(cls, releases: Sequence[Released], places: IntArray | None = None) -> ReleaseTable:
        """The table of some releases, of all keys or of those at some places.

        >>> from penstock.core.guarantee import Guarantee
        >>> ReleaseTable.of([Released.nothing(3, Guarantee("1", 1))], np.array([2])).value
        array([[0]])
        """
        sample = releases[0]
        for release in releases:
            if release.kind != sample.kind or release.weights != sample.weights:
                raise ConfigurationError(
                    f"unit {release.unit} was released in another way than unit {sample.unit}."
                )
        shape = (len(releases), sample.value.size if places is None else len(places))

        def rows(values: Sequence[object], kind: type) -> NDArray[Any]:
            if all(np.ndim(value) == 0 for value in values):  # type: ignore[arg-type]
                return np.broadcast_to(np.array(values, kind)[:, None], shape)
            out: NDArray[Any] = np.empty(shape, kind)
            for row, value in zip(out, map(np.asarray, values), strict=True):
                row[:] = value if places is None or not value.ndim else value[places]
            return out

        def public(name: str) -> IntArray | None:
            if not all(name in release.public for release in releases):
                return None
            return rows([release.public[name] for release in releases], np.int64)

        return cls(
            first=sample.unit,
            value=rows([release.value for release in releases], np.int64),
            scale=rows([release.error_scale for release in releases], np.float64),
            repeated=rows([release.repeated for release in releases], np.bool_),
            whole=np.array([release.repeated is True for release in releases], np.bool_),
            divisor=rows([release.divisor for release in releases], np.float64),
            layers=rows([release.layers for release in releases], np.int64),
            noisy=public(NOISY),
            start=public(START),
            kind=sample.kind,
            weights=sample.weights,
            running={NOISY, START} <= sample.public.keys(),
            grouped=GROUP in sample.public,
        )

    @property
    def has_counts(self) -> bool:
        """Whether counts of single units can be computed."""
        return self.weights == UNIT or self.noisy is not None

    @property
    def estimate(self) -> FloatArray:
        """`value / divisor`, as floats."""
        return self.value / self.divisor

    @property
    def noise_divisor(self) -> FloatArray:
        """The divisor of the noise. Otherwise the divisor is only a finer grid."""
        if self.kind in ("sum", "gaussian", "rounded"):
            return self.divisor
        return np.broadcast_to(np.float64(1), self.divisor.shape)
