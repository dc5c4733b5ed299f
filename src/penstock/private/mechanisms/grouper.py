r"""The deviation of a growing group: the statistic of the threshold runs of `pegasus`.

A group of counts :math:`c_1 … c_n` with mean :math:`m` has deviation :math:`\sum_i|c_i-m|`. With
:math:`p=\lfloor m\rfloor`, :math:`nm=np+r`, :math:`B` counts that are at most :math:`p`, and
:math:`D` the sum of :math:`p-c_i` over those,

.. math:: \lfloor 256\,\mathrm{dev}\rfloor = 512\,D + \lfloor 512\,B\,r/n\rfloor,

so that a new count costs a few additions, however long the group is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.budget.grid import Budget
from penstock.core.arrays import BoolArray, IntArray
from penstock.private.gate import Price
from penstock.private.mechanisms.multisets import Multisets

FINENESS = 256
"""A deviation is compared in parts of 1/256."""

STABILITY = 512
"""The most that one event changes a deviation, in these parts: docs/proofs/pegasus.md."""

MAX_DEVIATION = 2**40
"""The largest deviation, in counts: a larger one is taken for it."""

MAX_GROUP_UNITS = 2**22
"""The most units in a group: the sums then stay inside int64."""

YOUNG = 16
"""Up to this length a group is kept as a list, then as a table."""

WIDTH = 512
"""The number of neighbouring counts in a table."""

_STEPS = 8
"""The largest move of a mean that is followed count by count."""

_AT_ONCE = 1024
"""The number of tables that are summed at once."""


def price_of(epsilon: Budget) -> Price:
    """The price of a grouper with this budget: half for the threshold, a quarter per question."""
    question = epsilon // 4
    return Price(question * 2, question)


def deviations(
    secret: Any, counts: IntArray, *, fresh: BoolArray, where: BoolArray | None = None
) -> tuple[Any, IntArray]:
    """A fold for `gate.runs.keep`: each count joins its group, or opens one where `fresh`.

    The statistic is ⌊256·deviation⌋ of each group. `fresh` lies in `where`. Outside of it, groups
    go on as if this unit had not been. The secret is used up: its tables are changed in place.
    """
    size = len(counts)
    if secret is None:
        secret = _start(size)
    origin = np.where(fresh, counts, secret["origin"])
    x = counts - origin
    if where is not None:
        x[~where] = 0
    beyond = (secret["beyond"] & ~fresh) | (np.abs(x) > MAX_DEVIATION)
    x[beyond] = 0
    length: IntArray = np.where(fresh, 0, secret["length"])
    length += 1 if where is None else where
    total = np.where(fresh, 0, secret["total"]) + x
    tables = Multisets(**secret["tables"])
    young = secret["young"]
    floor, below, under = secret["floor"].copy(), secret["below"].copy(), secret["under"].copy()

    ended = np.flatnonzero(fresh & (secret["length"] > YOUNG))
    if len(ended):
        tables.clear(ended)
        tables.compact()  # not even how many counts an ended group had is kept
    few = np.flatnonzero(length <= YOUNG if where is None else (length <= YOUNG) & where)
    statistic = np.empty(size, np.int64)
    if len(few):
        young = young.copy()
        young[:, fresh] = 0
        young[length[few] - 1, few] = x[few]
        rows = young[: length[few].max()]
        if 4 * len(few) > size:  # then all of them are faster
            statistic = _listed(rows, np.maximum(length, 1), total)
        else:
            statistic[few] = _listed(rows[:, few], length[few], total[few])
    old = np.flatnonzero(length > YOUNG if where is None else (length > YOUNG) & where)
    if len(old):
        mean, rest = np.divmod(total[old], length[old])
        grown = length[old] == YOUNG + 1
        if grown.any():
            keys = old[grown]
            below[keys], under[keys] = _tabled(tables, keys, young[:, keys], mean[grown])
            floor[keys] = mean[grown]
        tables.add(old, x[old])
        now_below, now_under = _cut(tables, old, x[old], mean, floor[old], below[old], under[old])
        floor[old], below[old], under[old] = mean, now_below, now_under
        statistic[old] = (
            2 * FINENESS * np.minimum(now_under, MAX_DEVIATION)
            + 2 * FINENESS * now_below * rest // length[old]
        )
    statistic[beyond] = FINENESS * MAX_DEVIATION
    np.minimum(statistic, FINENESS * MAX_DEVIATION, out=statistic)
    after = {
        "origin": origin,
        "beyond": beyond,
        "length": length,
        "total": total,
        "young": young,
        "floor": floor,
        "below": below,
        "under": under,
        "tables": vars(tables),
    }
    return after, statistic


def _start(size: int) -> dict[str, Any]:
    names = ("origin", "length", "total", "floor", "below", "under")
    return {
        **{name: np.zeros(size, np.int64) for name in names},
        "beyond": np.zeros(size, np.bool_),
        "young": np.zeros((YOUNG, size), np.int64),
        "tables": vars(Multisets.empty(size, WIDTH)),
    }


def _listed(young: IntArray, length: IntArray, total: IntArray) -> IntArray:
    """⌊256·deviation⌋ of short groups, from their counts with zeros behind them."""
    spread = np.abs(total) * (length - len(young))  # what the zeros add below
    for members in young:
        distance = members * length
        distance -= total
        spread += np.abs(distance, out=distance)
    whole, rest = np.divmod(spread, length)
    return FINENESS * whole + FINENESS * rest // length


def _tabled(
    tables: Multisets, keys: IntArray, members: IntArray, mean: IntArray
) -> tuple[IntArray, IntArray]:
    """Move groups from lists to tables; their counts at most the mean, and the sum below it."""
    tables.place(keys, mean)
    tables.add(np.tile(keys, YOUNG), members.ravel())
    distance = mean - members
    return (distance >= 0).sum(axis=0), np.maximum(distance, 0).sum(axis=0)


def _cut(
    tables: Multisets,
    keys: IntArray,
    x: IntArray,
    mean: IntArray,
    floor: IntArray,
    below: IntArray,
    under: IntArray,
) -> tuple[IntArray, IntArray]:
    """The counts at most the mean, and their sum below it, from those of the last mean."""
    joins = x <= floor
    below += joins
    under += np.where(joins, floor - x, 0)
    move = mean - floor
    far = np.abs(move) > _STEPS
    moving = move != 0
    if moving.any():
        far |= moving & ~(tables.covers(keys, floor) & tables.covers(keys, mean))
        for step in (1, -1):
            here = np.flatnonzero(~far & (move * step > 0))
            while len(here):
                if step > 0:
                    under[here] += below[here]
                    floor[here] += 1
                    below[here] += tables.at(keys[here], floor[here])
                else:
                    below[here] -= tables.at(keys[here], floor[here])
                    floor[here] -= 1
                    under[here] -= below[here]
                here = here[floor[here] != mean[here]]
    if far.any():
        here = np.flatnonzero(far)
        for start in range(0, len(here), _AT_ONCE):
            part = here[start : start + _AT_ONCE]
            below[part], under[part] = _count_up(tables, keys[part], mean[part])
    return below, under


def _count_up(tables: Multisets, keys: IntArray, mean: IntArray) -> tuple[IntArray, IntArray]:
    """The same from all counts, wherever the mean is."""
    counts = tables.counts[keys].astype(np.int64)
    distance = mean[:, None] - tables.base[keys][:, None] - np.arange(tables.width)
    counts[distance < 0] = 0
    below = counts.sum(axis=1)
    under = (counts * distance).sum(axis=1)
    which, values = tables.listed(keys)
    if len(which):
        distance = mean[which] - values
        counted = distance >= 0
        np.add.at(below, which[counted], 1)
        np.add.at(under, which[counted], distance[counted])
    return below, under
