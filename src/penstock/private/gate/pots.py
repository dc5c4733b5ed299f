"""Pots: sums over units that are paid for when they are read and released later, or never."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.budget.grid import Budget
from penstock.core.arrays import BoolArray, IntArray
from penstock.core.private import Private
from penstock.core.released import Released, Scale
from penstock.private.gate.release_maker import ReleaseMaker


@dataclass
class Pot:
    """The secret of one pot: the sums, and the terms on which every unit in them was paid for."""

    total: IntArray
    quanta: int
    sensitivity: int


class Pots:
    """Read and pay now, release later: `hold` each unit, then `pour` or `drop`.

    A pot has one price. It ends when all of it is poured or dropped at once, and may begin again
    with another price. Used by `rg` for the sums of its groups and by `tide` for its blocks. Proof:
    docs/proofs/rg.md.
    """

    def __init__(self, maker: ReleaseMaker) -> None:
        self._maker = maker
        self._held: dict[str, Pot] = {}

    def hold(
        self, pot: str, x: Private, *, epsilon: Budget, where: BoolArray | None = None
    ) -> None:
        """Add `x` to a pot and pay for it now.

        Parameters
        ----------
        pot : str
            The name of the pot, and the label of the charge.
        x : Private
            The numbers to add.
        epsilon : Budget
            The charge. `pour` draws noise of scale sensitivity/ε once, over all that the pot holds.
        where : array of bool, optional
            The numbers that are added and charged. Default: all.
        """
        maker = self._maker
        raw = maker.check_fresh(x)
        maker.scale(x.sensitivity, epsilon)
        where = maker.mask(where, len(raw))
        held = self._held.get(pot)
        if held is None:
            held = Pot(np.zeros(len(raw), np.int64), epsilon.quanta, x.sensitivity)
        elif (held.quanta, held.sensitivity, len(held.total)) != (
            epsilon.quanta,
            x.sensitivity,
            len(raw),
        ):
            raise maker.error(
                f"pot {pot!r} is held with one budget, one sensitivity and one size; "
                "use another pot."
            )
        maker.ledger.spend(epsilon, pot, where=None if where is None else x.cover.keys(where))
        self._held[pot] = held
        if where is None:
            held.total += raw
        else:
            held.total[where] += raw[where]
        np.minimum(held.total, maker.limit, out=held.total)

    def pour(self, pot: str, *, where: BoolArray) -> Released:
        """Release the pot's sums where the mask is True, and empty it there. `hold` has paid."""
        maker, held = self._maker, self._held.get(pot)
        if held is None:
            raise maker.error(f"there is no pot {pot!r}.")
        where = maker.mask_of(where, len(held.total))
        scale = Scale(maker.base(held.sensitivity), held.quanta)
        released = maker.noisy(held.total, scale, pot, where)
        self._empty(pot, held, where)
        return released

    def drop(self, pot: str, *, where: BoolArray) -> None:
        """Empty the pot where the mask is True, without a release."""
        held = self._held.get(pot)
        if held is not None:
            self._empty(pot, held, self._maker.mask_of(where, len(held.total)))

    def _empty(self, name: str, held: Pot, where: BoolArray) -> None:
        if where.all():
            del self._held[name]
        else:
            held.total *= ~where

    def save(self) -> dict[str, Pot]:
        return self._held

    def load(self, held: dict[str, Pot]) -> None:
        self._held = held

    def memory(self) -> dict[str, IntArray]:
        return {f"pot {name}": pot.total.copy() for name, pot in self._held.items()}
