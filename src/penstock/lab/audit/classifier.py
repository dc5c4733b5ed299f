"""A linear classifier of traces, learned on runs of its own, whose score is cut into cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.lab.audit.attack import Counts
from penstock.lab.audit.model import Traces

SLICES = 64
"""The number of cells."""

MAX_FEATURES = 96
"""The most features. More are ranked by how far apart they are on the training runs."""

STEPS, CLOSE = 12, 1e-3
"""The most steps of Newton's method, and the size of a step after which there is no other."""

MAX_RANKED = 4096
"""The most numbers of a trace that are looked at."""


@dataclass(frozen=True)
class TraceClassifier:
    """A linear score of traces. All its parameters come from the training runs.

    A cell must not depend on other traces: else it would tell which stream a whole chunk is of.
    """

    layout: tuple[tuple[str, int], ...]
    low: FloatArray
    high: FloatArray
    middle: FloatArray
    codes: tuple[tuple[str, int], ...]
    chosen: IntArray
    mean: FloatArray
    spread: FloatArray
    weights: FloatArray
    edges: FloatArray

    def scores(self, traces: Traces) -> FloatArray:
        """The score of each trace.

        Parameters
        ----------
        traces : Traces
            The traces.
        """
        numbers = _columns(traces, self.layout)
        features = _features(traces, numbers, self.low, self.high, self.middle, self.codes)
        features = features[:, self.chosen]
        features -= self.mean
        features /= self.spread
        return _with_one(features) @ self.weights

    def cells(self, traces: Traces) -> Counts:
        """The number of traces by the slice of their score.

        Parameters
        ----------
        traces : Traces
            The traces.
        """
        slices = np.searchsorted(self.edges, self.scores(traces))
        places, times = np.unique(slices, return_counts=True)
        return {
            f"score {place:02}": many
            for place, many in zip(places.tolist(), times.tolist(), strict=True)
        }


def learn(train: tuple[Traces, Traces]) -> TraceClassifier:
    """The classifier that tells the runs on the left from those on the right.

    Parameters
    ----------
    train : pair of Traces
        Runs on the left and on the right stream.
    """
    layout = _layout(train)
    numbers = [_columns(each, layout) for each in train]
    low, middle, high = np.quantile(np.vstack(numbers), [0.02, 0.5, 0.98], axis=0)
    codes = _frequent_codes(train)
    sides = [
        _features(each, number, low, high, middle, codes)
        for each, number in zip(train, numbers, strict=True)
    ]
    both = np.vstack(sides)
    is_left = np.arange(len(both)) < len(sides[0])
    chosen = _most_apart(both, is_left)
    both = both[:, chosen]
    mean, spread = both.mean(axis=0), both.std(axis=0) + 1e-9
    both = _with_one((both - mean) / spread)
    weights = _fitted(both, is_left)
    edges = np.unique(np.quantile(both @ weights, np.linspace(0, 1, SLICES + 1)[1:-1]))
    return TraceClassifier(layout, low, high, middle, codes, chosen, mean, spread, weights, edges)


def _fitted(both: FloatArray, is_left: BoolArray) -> FloatArray:
    """Newton's method on the ridge-regularised logistic loss."""
    weights = np.zeros(both.shape[1])
    for _ in range(STEPS):
        chance = 1 / (1 + np.exp(-np.clip(both @ weights, -30, 30)))
        slope = both.T @ (chance - is_left) + weights
        curvature = (both * (chance * (1 - chance))[:, None]).T @ both + np.eye(len(weights))
        step = np.linalg.solve(curvature, slope)
        weights -= step
        if np.abs(step).max() < CLOSE:
            break
    return weights


def _most_apart(both: FloatArray, is_left: BoolArray) -> IntArray:
    """The features whose means are furthest apart, in units of their spread, and that vary."""
    spread = both.std(axis=0)
    apart = np.abs(both[is_left].mean(axis=0) - both[~is_left].mean(axis=0)) / (spread + 1e-9)
    order = np.argsort(-apart, kind="stable")
    return np.sort(order[spread[order] > 0][:MAX_FEATURES])


def _features(
    traces: Traces,
    numbers: FloatArray,
    low: FloatArray,
    high: FloatArray,
    middle: FloatArray,
    codes: tuple[tuple[str, int], ...],
) -> FloatArray:
    """Numbers cut to a range, their distance from the median, freshness, codes, errors."""
    numbers = np.clip(numbers, low, high)
    none = np.zeros(len(traces), np.int64)
    failed = np.array([bool(text) for text in traces.errors or ("",) * len(traces)])
    shown = [traces.fields.get(name, none) == code for name, code in codes]
    return np.hstack(
        [
            numbers,
            np.abs(numbers - middle),
            traces.fresh.reshape(len(traces), -1).astype(np.float64)[:, :MAX_RANKED],
            np.stack([failed, *shown], axis=1).astype(np.float64),
        ]
    )


def _named(traces: Traces) -> dict[str, FloatArray]:
    """All numbers of a trace by name: releases, public arrays, and what a look saw."""
    shown: dict[str, IntArray | FloatArray] = {"value": traces.values}
    shown.update({f"public {name}": array for name, array in traces.public.items()})
    shown.update({f"memory {name}": array for name, array in traces.memory.items()})
    return {
        name: array.reshape(len(traces), -1).astype(np.float64) for name, array in shown.items()
    }


def _layout(train: tuple[Traces, Traces]) -> tuple[tuple[str, int], ...]:
    """The names and numbers of columns. Others that a later trace may have are not looked at."""
    found: dict[str, int] = {}
    for each in train:
        for name, array in _named(each).items():
            found[name] = min(array.shape[1], MAX_RANKED)
    return tuple(sorted(found.items()))


def _columns(traces: Traces, layout: tuple[tuple[str, int], ...]) -> FloatArray:
    shown, parts = _named(traces), []
    for name, width in layout:
        array = shown.get(name)
        fits = array is not None and array.shape[1] >= width
        parts.append(array[:, :width] if fits else np.zeros((len(traces), width)))  # type: ignore[index]
    columns: FloatArray = np.nan_to_num(np.hstack(parts))
    return columns


def _frequent_codes(train: tuple[Traces, Traces]) -> tuple[tuple[str, int], ...]:
    """The most frequent code of each field on either side, if there are several."""
    found: list[tuple[str, int]] = []
    for name in sorted(train[0].fields.keys() | train[1].fields.keys()):
        none = np.zeros(0, np.int64)
        usual = [np.bincount(each.fields.get(name, none), minlength=1) for each in train]
        if sum(np.count_nonzero(each) for each in usual) > 2 or usual[0].argmax() != (
            usual[1].argmax()
        ):
            found += [(name, code) for code in sorted({int(each.argmax()) for each in usual})]
    return tuple(found)


def _with_one(features: FloatArray) -> FloatArray:
    return np.hstack([features, np.ones((len(features), 1))])
