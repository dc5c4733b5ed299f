"""How many units each key's next block has."""

from __future__ import annotations

import numpy as np

from penstock.core.arrays import FloatArray, IntArray

LENGTHS = np.unique(np.rint(np.geomspace(1, 1024, 21)).astype(np.int64))
"""The lengths that are tried."""

STALENESS = 0.8
"""How much of the drift over a block's length counts as error in the units after it."""


def block_lengths(
    drift: FloatArray, irregular: FloatArray, level: FloatArray, noise: float, longest: int
) -> IntArray:
    r"""Per key, the length with the least predicted squared error of a unit's count.

    With drift variance q per unit, irregular variance :math:`s^2`, level θ and noise variance
    :math:`R` of a sum, a block of m units measures the level with variance
    :math:`R_m=R/m^2+(s^2+\theta)/m`. The steady state before it has variance
    :math:`P^-=qm/2+\sqrt{(qm)^2/4+qmR_m}`. The predicted error is

    .. math::
        m>1:\ \frac{P^-R_m}{P^-+R_m}+0.8\,qm+s^2+\theta,\qquad
        m=1:\ \frac{VR}{V+R},\ V=P^-+s^2+\theta,

    because a block of one unit shows that unit's own irregular part.

    >>> block_lengths(np.array([1e-4, 9e3]), np.zeros(2), np.array([0.1, 3e3]), 1152.0, 24)
    array([23,  1])
    """
    best = np.full(len(drift), np.inf)
    chosen = np.ones(len(drift), np.int64)
    own = irregular + level
    for length in LENGTHS[longest >= LENGTHS].tolist():
        measured = noise / length**2 + own / length
        moved = drift * length
        before = moved / 2 + np.sqrt(np.square(moved) / 4 + moved * measured)
        if length == 1:
            error = (before + own) * noise / (before + own + noise)
        else:
            error = before * measured / (before + measured) + STALENESS * moved + own
        better = error < best
        np.copyto(best, error, where=better)
        np.copyto(chosen, length, where=better)
    return chosen
