"""Numbers in a row that are better averaged: how keys of similar size are put together once their
noise is known.
"""

from __future__ import annotations

import numpy as np

from penstock.core.arrays import IntArray

FEWEST = 3
"""So few numbers are never averaged: their sample variance says nothing."""


def stretches(row: IntArray, variance: float) -> IntArray:
    """Where the largest stretches begin, by halving, that are better averaged; all other numbers
    are stretches of one.

    `variance` is that of the noise in each number. The sample variance of m numbers whose true
    values spread as far as the noise, where averaging gains nothing, is twice that; less one
    standard deviation of such a sample variance. The order of the numbers must not come from that
    noise: what it puts together looks alike and is not.

    >>> stretches(np.array([9, 12, 8, 11, 70, 90, 10, 30]), 10.0)
    array([0, 4, 5, 6, 7])
    """
    begins = np.ones(len(row), np.bool_)
    starts, ends = np.array([0]), np.array([len(row)])
    while len(starts) and len(row) > FEWEST:
        lengths = ends - starts
        bounds = np.cumsum(lengths) - lengths
        inside = np.repeat(np.arange(len(starts)), lengths)
        places = np.arange(len(inside)) + (starts - bounds)[inside]
        numbers = row[places]
        middle = np.rint(np.add.reduceat(numbers, bounds) / lengths).astype(np.int64)
        off = np.add.reduceat(np.square((numbers - middle[inside]).astype(np.float64)), bounds)
        alike = off <= 2 * variance * (lengths - 1 - np.sqrt(2 * (lengths - 1)))
        begins[places[alike[inside]]] = False
        begins[starts[alike]] = True
        starts, ends = starts[~alike], ends[~alike]
        halves = (starts + ends) // 2
        starts, ends = np.concatenate([starts, halves]), np.concatenate([halves, ends])
        long = ends - starts > FEWEST
        starts, ends = np.sort(starts[long]), np.sort(ends[long])
    return np.flatnonzero(begins)


def similar(row: IntArray, variance: float) -> tuple[IntArray, IntArray]:
    """Each number's mean over its stretch, and the stretch's size.

    >>> similar(np.array([9, 12, 8, 11, 70, 90, 10, 30]), 10.0)
    (array([10, 10, 10, 10, 70, 90, 10, 30]), array([4, 4, 4, 4, 1, 1, 1, 1]))
    """
    starts = stretches(row, variance)
    sizes = np.diff(starts, append=len(row))
    middle = np.rint(np.add.reduceat(row, starts) / sizes).astype(np.int64)
    return np.repeat(np.where(sizes > 1, middle, row[starts]), sizes), np.repeat(sizes, sizes)
