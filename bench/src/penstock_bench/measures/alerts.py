"""Alarms: how often they are right, as their threshold varies."""

from __future__ import annotations

import numpy as np

from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.core.errors import ConfigurationError
from penstock.released.queries import Change, Drop, Jump, LowSignal
from penstock_bench.measures.base import KeptReleases, sums

ROC_AT = tuple((place / 20) ** 2 for place in range(21))
"""The false positive rates at which a curve is kept."""

KINDS = ("jump", "drop", "change", "low")
"""A rise or a fall by at least δ over a width, either of them, and fewer than δ in a window of that
width.
"""


class Roc(KeptReleases):
    """True against false positive rates of an alarm as its threshold varies, and the area below
    that curve.

    `roc:KIND,width,δ`, or several δ in a row: what δ is decides where it happened, not how the
    alarm is scored. A line that always shows the same raises its alarm everywhere or nowhere, and
    has an area of ½. Where it happened nowhere or everywhere there is nothing to tell apart, and no
    value. The area's error is that of the mean over keys, which is true where keys are independent
    releases of one stream.
    """

    def values(self) -> dict[str, float]:
        kind, width, deltas = self._asked()
        truth = self.true()
        if width > len(truth):
            return {}
        happened = _statistic(kind, width, truth)
        score = self._score(kind, width)
        ranks = _ranks(score)
        found: dict[str, float] = {}
        for delta in deltas:
            event = happened < delta if kind == "low" else happened >= delta
            if not event.any() or event.all():
                continue
            name = f"roc:{kind},{width},{delta}"
            false, true = roc(event, score)
            found[f"{name} area"] = float(np.sum(np.diff(false) * (true[1:] + true[:-1]) / 2))
            found[f"{name} share"] = float(event.mean())
            found |= _error(_areas(event, ranks), f"{name} error")
            found |= {
                f"{name} at {x:g}": float(y)
                for x, y in zip(ROC_AT, np.interp(ROC_AT, false, true), strict=True)
            }
        return found

    def _asked(self) -> tuple[str, int, tuple[int, ...]]:
        kind, *numbers = self.arguments or ("",)
        if kind not in KINDS:
            raise ConfigurationError(f"roc: there are change, jump, drop and low, not {kind!r}.")
        if len(numbers) < 2 or not all(each.isdigit() for each in numbers) or int(numbers[0]) < 2:
            raise ConfigurationError(
                f"the measure {self.name!r} needs a width of 2 or more and a δ, such as "
                "roc:jump,12,60."
            )
        return kind, int(numbers[0]), tuple(map(int, numbers[1:]))

    def _score(self, kind: str, width: int) -> FloatArray:
        """How much it looks as if it had happened."""
        if self.log is None:
            shown = _statistic(kind, width, np.array(self.shown)).round(
                6
            )  # sums of the same numbers are the same
            return np.asarray(-shown if kind == "low" else shown, np.float64)
        if kind == "low":
            return LowSignal(width, 1).series(self.log).score
        move: type[Jump] = {"jump": Jump, "drop": Drop, "change": Change}[kind]
        return move(width, 1).series(self.log).score


def _statistic(kind: str, width: int, rows: IntArray | FloatArray) -> IntArray | FloatArray:
    """What is compared with δ, from the first unit on that has `width` units."""
    if kind == "low":
        before = sums(rows)
        return np.asarray(before[width:] - before[:-width])
    rise = rows[width - 1 :] - rows[: len(rows) - width + 1]
    return np.asarray({"jump": rise, "drop": -rise, "change": np.abs(rise)}[kind])


def roc(event: BoolArray, score: FloatArray) -> tuple[FloatArray, FloatArray]:
    """False and true positive rates, from no alarm at all to one everywhere; equal scores cannot be
    told apart.

    >>> roc(np.array([True, False, True]), np.array([3.0, 1.0, 2.0]))
    (array([0., 0., 0., 1.]), array([0. , 0.5, 1. , 1. ]))
    """
    truth, order = event.ravel(), np.argsort(-score.ravel(), kind="stable")
    hits, last = truth[order], score.ravel()[order]
    ends = np.append(np.flatnonzero(np.diff(last)), len(last) - 1)
    true = np.concatenate([[0.0], np.cumsum(hits)[ends] / max(int(truth.sum()), 1)])
    false = np.concatenate([[0.0], np.cumsum(~hits)[ends] / max(int((~truth).sum()), 1)])
    return false, true


def _ranks(score: FloatArray) -> FloatArray:
    """Of every column its ranks from 1 on; equal scores share the middle one.

    >>> _ranks(np.array([[3.0], [1.0], [3.0]])).ravel()
    array([2.5, 1. , 2.5])
    """
    order = np.argsort(score, axis=0, kind="stable")
    ordered = np.take_along_axis(score, order, axis=0)
    places = np.broadcast_to(np.arange(len(score))[:, None], score.shape)
    fresh = np.ones(score.shape, np.bool_)
    fresh[1:] = ordered[1:] != ordered[:-1]
    ends = np.ones(score.shape, np.bool_)
    ends[:-1] = fresh[1:]
    first = np.maximum.accumulate(np.where(fresh, places, 0), axis=0)
    last = np.minimum.accumulate(np.where(ends, places, len(score))[::-1], axis=0)[::-1]
    ranks = np.empty(score.shape)
    np.put_along_axis(ranks, order, 1 + (first + last) / 2, axis=0)
    return ranks


def _areas(event: BoolArray, ranks: FloatArray) -> FloatArray:
    """The area of each key that has both, by Mann and Whitney: how often what happened scores above
    what did not.
    """
    there = event.sum(axis=0)
    both = (there > 0) & (there < len(event))
    above = np.where(event, ranks, 0.0).sum(axis=0)[both] - there[both] * (there[both] + 1) / 2
    return np.asarray(above / (there[both] * (len(event) - there[both])))


def _error(areas: FloatArray, name: str) -> dict[str, float]:
    return {name: float(areas.std(ddof=1) / np.sqrt(len(areas)))} if len(areas) > 1 else {}
