"""How many units each key's next block has."""

from __future__ import annotations

import numpy as np

from penstock.core.arrays import FloatArray, IntArray, SmallFloats

LENGTHS = np.unique(np.rint(np.geomspace(1, 1024, 21)).astype(np.int64))
"""The lengths that are tried."""

STALENESS = 0.8
"""How much of the drift over a block's length counts as error in the units after it."""

_AT_ONCE = 4096
"""The number of keys that are looked at together: their arrays stay in the processor's cache."""


def block_lengths(
    drift: FloatArray | SmallFloats,
    irregular: FloatArray | SmallFloats,
    level: FloatArray | SmallFloats,
    noise: float,
    longest: int,
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
    own = irregular + level
    chosen = np.ones(len(drift), np.int64)
    # One unit has an error below the noise, and more units have one above their own variance.
    open_keys = (noise > own + 2 * STALENESS * drift).nonzero()[0]
    if not len(open_keys):
        return chosen
    lengths = LENGTHS[longest >= LENGTHS]
    for start in range(0, len(open_keys), _AT_ONCE):
        some = open_keys[start : start + _AT_ONCE]
        moved, apart = np.array([drift[some], own[some]], np.float64)
        errors = _errors(moved, apart, noise, lengths[:, None])
        chosen[some] = lengths[(errors == errors.min(axis=0)).argmax(axis=0)]
    return chosen


def _errors(drift: FloatArray, own: FloatArray, noise: float, lengths: IntArray) -> FloatArray:
    """The predicted errors, lengths × keys; the first length is 1."""
    measured = own / lengths
    measured += noise / np.square(lengths)
    moved = drift * lengths
    before = np.square(moved) / 4
    before += moved * measured
    np.sqrt(before, out=before)
    before += moved / 2
    alone = before[0] + own
    error = before * measured
    before += measured
    error /= before
    moved *= STALENESS
    error += moved
    error += own
    error[0] = alone * noise / (alone + noise)
    error[np.isnan(error)] = np.inf
    return error
