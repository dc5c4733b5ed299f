"""Outputs: everything that an observer sees of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from penstock.core.released import Released

NOISY: Final = "noisy"
"""The public array with a unit's noisy counts before they are smoothed."""

Numbers: TypeAlias = tuple[int, ...]
Flags: TypeAlias = tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class SeenUnit:
    """One unit of an output: the values, which keys are fresh, and what a look into the memory saw.

    `seen` is None if nobody looks in this unit, and empty if a look finds no counter. `public` has
    everything else that the release shows, by name: divisors and layers other than 1, and public
    arrays.
    """

    values: Numbers
    fresh: Flags
    seen: Numbers | None = None
    public: tuple[tuple[str, Numbers], ...] = ()

    @classmethod
    def of(cls, released: Released, seen: Numbers | None = None) -> SeenUnit:
        """A release as an observer sees it."""
        values, repeated = tuple(released.value.tolist()), released.repeated
        fresh = (
            (not repeated,) * len(values)
            if isinstance(repeated, bool)
            else tuple((~repeated).tolist())
        )
        more = {name: tuple(array.tolist()) for name, array in released.public.items()}
        if not isinstance(released.divisor, int) or released.divisor != 1:
            more["divisor"] = tuple(np.broadcast_to(released.divisor, len(values)).tolist())
        if not isinstance(released.layers, int):
            more["layers"] = tuple(released.layers.tolist())
        return cls(values, fresh, seen, tuple(sorted(more.items())))

    @property
    def smoothed(self) -> bool:
        """Whether the release also shows its counts before smoothing."""
        return any(name == NOISY for name, _ in self.public)

    @property
    def numbers(self) -> Numbers:
        """The numbers that publication noise is added to."""
        return dict(self.public)[NOISY] if self.smoothed else self.values


Output: TypeAlias = tuple[SeenUnit, ...]
"""Everything that is seen of a whole stream, unit by unit."""


def output(
    values: Sequence[Sequence[int]],
    fresh: Sequence[bool],
    *,
    seen: tuple[int, Sequence[int]] | None = None,
) -> Output:
    """An output from one row of values per unit, and whether each unit was published.

    `seen` is the unit of a look and what it saw there. Default: nobody looks.

    >>> output([[7], [7]], [True, False])[1]
    SeenUnit(values=(7,), fresh=(False,), seen=None, public=())
    """
    return tuple(
        SeenUnit(
            tuple(int(value) for value in row),
            (bool(new),) * len(row),
            tuple(int(value) for value in seen[1])
            if seen is not None and seen[0] == unit
            else None,
        )
        for unit, (row, new) in enumerate(zip(values, fresh, strict=True), start=1)
    )
