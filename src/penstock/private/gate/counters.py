"""Counters: counts that stand in memory on top of noise only, for pan-private mechanisms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.budget.grid import Budget
from penstock.core.arrays import IntArray
from penstock.core.private import Private
from penstock.core.released import Released, Scale
from penstock.private.gate.release_maker import ReleaseMaker

MAX_COUNTER = 2**61
"""The largest value of a counter: one more part still fits into int64."""


@dataclass
class Counter:
    """The secret of one counter: noise first, then counts on top of it."""

    total: IntArray
    epsilon: Budget
    sensitivity: int
    scale: Scale
    exposed: bool
    paid: bool = False
    layers: int = 1
    disturbed: bool = False


class Counters:
    """Noise before data, within one unit: `prime`, `count`, then `read` or `forget`.

    Used by `bd_pan` and `ba_pan`. Proof: docs/proofs/pan.md.
    """

    def __init__(self, maker: ReleaseMaker) -> None:
        self._maker = maker
        self._held: dict[str, Counter] = {}

    def prime(
        self, counter: str, *, epsilon: Budget, sensitivity: int, size: int, exposed: bool | None
    ) -> None:
        """Start a counter with fresh noise, before any of the unit's data are read.

        Parameters
        ----------
        counter : str
            The name of the counter, and the label of its charge.
        epsilon : Budget
            The charge. The noise has scale sensitivity/ε.
        sensitivity : int
            The most that one person changes the sum of the counter's numbers.
        size : int
            The number of numbers.
        exposed : bool or None
            None: pay now, because the counter is read in any case. True: one unannounced look is
            survived, and the ledger keeps room for it. False: a look is announced, and the counter
            must then be read (and paid for).
        """
        maker = self._maker
        if counter in self._held:
            raise maker.error(f"counter {counter!r} is primed already.")
        scale = maker.scale(sensitivity, epsilon)
        if exposed is None:
            maker.ledger.spend(epsilon, counter)
        elif exposed:
            maker.ledger.expose(epsilon, counter)
        noise = maker.draw(scale, size, f"{counter}.state")
        self._held[counter] = Counter(
            noise, epsilon, sensitivity, scale, exposed is True, exposed is None
        )

    def primed(self, counter: str) -> Budget | None:
        """The budget of a counter that was primed in this unit, or None."""
        held = self._held.get(counter)
        return None if held is None else held.epsilon

    def count(self, counter: str, x: Private) -> None:
        """Add to a counter in place: no sum without noise ever stands in memory."""
        raw = self._maker.check_fresh(x)
        held = self._held[counter]
        if (x.sensitivity, len(raw)) != (held.sensitivity, len(held.total)):
            raise self._maker.error(
                f"counter {counter!r} was primed for another sensitivity or size."
            )
        held.total += raw
        np.minimum(held.total, MAX_COUNTER, out=held.total)

    def read(self, counter: str, *, again: bool) -> Released:
        """Release a counter, pay for it if `prime` did not, and forget it.

        Parameters
        ----------
        counter : str
            The name of the counter.
        again : bool
            Whether to add fresh noise, so that output minus memory is not exact.
        """
        maker, held = self._maker, self._held[counter]
        if not held.paid:
            maker.ledger.spend(held.epsilon, counter, settle=held.exposed)
        del self._held[counter]
        value = held.total
        if again:
            noise = maker.draw(held.scale, len(value), f"{counter}.output")
            value += noise
            noise.fill(0)
        return maker.release(value, held.scale, layers=held.layers + again)

    def forget(self, counter: str) -> None:
        """Wipe a counter that nobody has looked into."""
        held = self._held[counter]
        if held.disturbed:
            raise self._maker.error(
                f"counter {counter!r} was looked into and must be read, not forgotten."
            )
        held.total.fill(0)
        del self._held[counter]

    def disturb(self) -> None:
        """Add fresh noise to every counter after a look into the memory; each must then be read."""
        for name, held in self._held.items():
            noise = self._maker.draw(held.scale, len(held.total), f"{name}.again")
            held.total += noise
            noise.fill(0)
            held.layers += 1
            held.disturbed = True

    @property
    def disturbed(self) -> bool:
        """Whether somebody has looked into a counter of this unit."""
        return any(held.disturbed for held in self._held.values())

    def end(self) -> None:
        """Refuse to end a unit with a counter that was neither read nor forgotten."""
        for name, held in self._held.items():
            fate = (
                "was looked into and must be read"
                if held.disturbed
                else "must be read or forgotten"
            )
            raise self._maker.error(f"counter {name!r} {fate} before the unit ends.")

    def memory(self) -> dict[str, IntArray]:
        return {f"counter {name}": held.total.copy() for name, held in self._held.items()}
