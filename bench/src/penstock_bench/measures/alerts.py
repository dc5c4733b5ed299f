"""Alerts: their true and false positive rates as the threshold varies."""

from __future__ import annotations

import numpy as np

from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.core.errors import ConfigurationError
from penstock.released.queries import Change, Drop, Jump, LowSignal
from penstock_bench.measures.base import KeptReleases, sums

ROC_AT = tuple((place / 20) ** 2 for place in range(21))
"""The false positive rates at which a curve is stored."""

KINDS = ("jump", "drop", "change", "low")
"""The kinds of alerts: a rise by δ over a width, a fall, either of them, and fewer than δ in a
window.
"""


class Roc(KeptReleases):
    """The ROC curve of an alert as its threshold varies, and the area below it.

    `roc:KIND,width,δ`, with one δ or several: δ defines the true alerts, not the score. A constant
    line has an area of ½. Without true alerts, or with nothing else, there is no value. The error
    of the area is that of the mean over keys, correct if keys are independent releases of one
    stream.
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
        """The score: how much it looks like an alert."""
        if self.log is None:
            shown = _statistic(kind, width, np.array(self.shown)).round(
                6
            )  # sums of equal numbers are equal
            return np.asarray(-shown if kind == "low" else shown, np.float64)
        if kind == "low":
            return LowSignal(width, 1).series(self.log).score
        move: type[Jump] = {"jump": Jump, "drop": Drop, "change": Change}[kind]
        return move(width, 1).series(self.log).score


def _statistic(kind: str, width: int, rows: IntArray | FloatArray) -> IntArray | FloatArray:
    """The quantity that is compared with δ, from the first complete window on."""
    if kind == "low":
        before = sums(rows)
        return np.asarray(before[width:] - before[:-width])
    rise = rows[width - 1 :] - rows[: len(rows) - width + 1]
    return np.asarray({"jump": rise, "drop": -rise, "change": np.abs(rise)}[kind])


def roc(event: BoolArray, score: FloatArray) -> tuple[FloatArray, FloatArray]:
    """False and true positive rates, from no alert to alerts everywhere. Equal scores stay
    together.

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
    """The ranks of every column, from 1. Equal scores share the mean rank.

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
    """The area of each key by Mann and Whitney: how often a true alert scores above others."""
    there = event.sum(axis=0)
    both = (there > 0) & (there < len(event))
    above = np.where(event, ranks, 0.0).sum(axis=0)[both] - there[both] * (there[both] + 1) / 2
    return np.asarray(above / (there[both] * (len(event) - there[both])))


def _error(areas: FloatArray, name: str) -> dict[str, float]:
    return {name: float(areas.std(ddof=1) / np.sqrt(len(areas)))} if len(areas) > 1 else {}
