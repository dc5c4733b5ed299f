"""The attack: find an output event that is much likelier on one stream than on the other.

A whole trace is put into a cell: per unit which keys are fresh and, where the two streams differ,
on which side of their counts the release lies. For Laplace noise the likelihood ratio of a release
depends on that side alone, so for mechanisms that publish with it the cells carry the likelihood
ratio of a publication exactly; decisions are learned. For anything else a linear classifier is
learned on the traces themselves, and its score is cut into cells too.

On the first half of the runs the cells are ordered by how much likelier they are on the left, and
the best union of the first few is the event. The second half says how likely it really is.

A release is compared with what it is about: the sum of its group, of its window, or, where the
counts before smoothing are shown, those with the unit's own. Whatever else is shown, such as where
a group began, adds letters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.weights import UNIT
from penstock.lab.audit.bounds import epsilon_bound
from penstock.lab.audit.model import Pair, Traces

NOISY, DIVISOR = "noisy", "divisor"

Counts = dict[str, int]
"""How many runs fell into each cell; a cell is named so that a person can read it."""


_MOST_CHANGES = 3
"""Only so many of the public arrays add letters."""

_Array = IntArray | FloatArray

Word = tuple[tuple[str, ...], IntArray]
"""Letters, and which of them each run has."""


def codings(traces: Traces, pair: Pair) -> dict[str, Counts]:
    """The cells of every way to see a trace: all of it, or only the places where the streams
    differ.
    """
    found = {"all": cells(traces, pair)}
    if pair.keys > 1 or traces.public or traces.weights != UNIT:
        found["differing"] = cells(traces, pair, everywhere=False)
    return found


def cells(traces: Traces, pair: Pair, *, everywhere: bool = True) -> Counts:
    """How many runs fell into each cell.

    A cell has a letter for every unit and key that a person is ever in: `-` repeated, `=` fresh
    where nothing differs, `<` and `>` fresh and at or below the lower count, or above (`↓` and `↑`
    if it is a sum of several units), `+` after it where something else that is shown of the key has
    changed; `|` ends a unit, and a look adds words of its own. Unless `everywhere`, places where
    nothing differs have no letter: fewer cells, each seen more often.
    """
    differs = pair.left != pair.right
    shown = np.flatnonzero(differs.any(axis=0)) if differs.any() else np.arange(pair.keys)
    numbers, left, right, sums = _about(traces, pair)
    letters = ("-", "=", *("↓↑" if sums else "<>"))
    lesser, apart = np.minimum(left, right), left != right
    words: list[Word] = []
    for unit in range(pair.units):
        for key in shown:
            fresh, value = traces.fresh[:, unit, key], numbers[:, unit, key]
            there = apart[:, unit, key]
            if everywhere or there.any():
                sides = np.where(there, 2 + (value > lesser[:, unit, key]), 1)
                words.append((letters, np.where(fresh, sides, 0)))
            if there.any() and traces.values.dtype.kind == "f":
                words.append(_grain(value.astype(np.float64)))
            if everywhere and traces.public:
                words.append(_changes(traces, pair, unit, int(key)))
        words.append((("|",), np.zeros(len(traces), np.int64)))
    if traces.seen is not None:
        words.extend(_look_words(traces, pair))
    return _count(words)


def _about(traces: Traces, pair: Pair) -> tuple[_Array, _Array, _Array, bool]:
    """What was seen, what it would be without noise on either stream, and whether that is a sum of
    several units.

    By run (or for all runs), unit and key.
    """
    noisy, divisor = traces.public.get(NOISY), traces.public.get(DIVISOR)
    if noisy is not None and noisy.shape == traces.values.shape:
        return noisy, pair.left[None], pair.right[None], False
    if traces.weights != UNIT:
        weights = traces.weights.sequence(pair.units)
        ages = np.subtract.outer(np.arange(pair.units), np.arange(pair.units))
        sums = np.where(ages >= 0, weights[np.maximum(ages, 0)], 0.0)
        values = traces.values if divisor is None else traces.values / divisor
        return values, (sums @ pair.left)[None], (sums @ pair.right)[None], True
    if divisor is None:
        return traces.values, pair.left[None], pair.right[None], False
    if traces.kind != "sum":  # the divisor is only a finer grid
        return traces.values / divisor, pair.left[None], pair.right[None], False
    until = np.arange(1, pair.units + 1)[:, None]
    since = np.maximum(until - divisor, 0)
    totals = (
        np.vstack([np.zeros((1, pair.keys), np.int64), np.cumsum(each, axis=0)])
        for each in (pair.left, pair.right)
    )
    left, right = (each[None, 1:] - each[since, np.arange(pair.keys)] for each in totals)
    return traces.values, left, right, True


def _changes(traces: Traces, pair: Pair, unit: int, key: int) -> Word:
    """What else is shown of a key and has changed since the unit before: `+` the first thing, `++`
    the second, `+++` both.
    """
    names = sorted(traces.public.keys() - {NOISY, DIVISOR})
    arrays = [traces.public[name] for name in names if traces.public[name].shape[2] == pair.keys][
        :_MOST_CHANGES
    ]
    which = np.zeros(len(traces), np.int64)
    for number, array in enumerate(arrays):
        before = array[:, unit - 1, key] if unit else 0
        which += (array[:, unit, key] != before) * 2**number
    return tuple("+" * number for number in range(2 ** len(arrays))), which


def _count(words: list[Word]) -> Counts:
    """Spell every run's words; as numbers first, several of them where one would pass the range of
    int64.
    """
    blocks: list[list[Word]] = [[]]
    room = 2**62
    for word in words:
        if len(word[0]) > room:
            blocks.append([])
            room = 2**62
        room //= len(word[0])
        blocks[-1].append(word)
    codes = np.stack([_coded(block) for block in blocks], axis=1)
    rows, times = (
        np.unique(codes, axis=0, return_counts=True) if len(blocks) > 1 else _unique(codes)
    )
    names = (
        "".join(_spell(block, code) for block, code in zip(blocks, row, strict=True))
        for row in rows.tolist()
    )
    return dict(zip(names, times.tolist(), strict=True))


def _unique(codes: IntArray) -> tuple[IntArray, IntArray]:
    found, times = np.unique(codes[:, 0], return_counts=True)
    return found[:, None], times


def _coded(block: list[Word]) -> IntArray:
    code = np.zeros(len(block[0][1]), np.int64)
    for letters, which in block:
        code = code * len(letters) + which
    return code


def _spell(block: list[Word], code: int) -> str:
    spelt = []
    for letters, _ in reversed(block):
        code, letter = divmod(code, len(letters))
        spelt.append(letters[letter])
    return "".join(reversed(spelt))


def _look_words(traces: Traces, pair: Pair) -> list[Word]:
    """On which side the memory lay, and whether the release is the memory and exactly what came
    after the look.
    """
    look = pair.look
    assert look is not None
    assert traces.seen is not None
    unit = look.unit - 1
    words: list[Word] = []
    for key in np.flatnonzero((pair.left != pair.right).any(axis=0)):
        words.append(
            (
                ("≤", "≥"),
                (traces.seen[:, key] > min(look.left[key], look.right[key])).astype(np.int64),
            )
        )
        rest = traces.values[:, unit, key] - traces.seen[:, key]
        left, right = pair.left[unit, key] - look.left[key], pair.right[unit, key] - look.right[key]
        which = np.where(rest == left, 1, np.where(rest == right, 2, 3))
        words.append((("-", "L", "R", "?"), np.where(traces.fresh[:, unit, key], which, 0)))
    return words


def _grain(value: FloatArray) -> Word:
    """How small a float is, and whether it is still a multiple of 2^−52, as the sum with a whole
    number is.
    """
    size = np.clip(-np.log2(np.abs(value) + 2.0**-40), 0, 11).astype(np.int64) // 3
    fine = value * 2.0**52 != np.floor(value * 2.0**52)
    return tuple(
        f"{kind}{number}" for number in range(4) for kind in ("coarse", "fine")
    ), 2 * size + fine


def add(one: Counts, other: Counts) -> Counts:
    """Both together."""
    return {cell: one.get(cell, 0) + other.get(cell, 0) for cell in one.keys() | other.keys()}


@dataclass(frozen=True)
class OutputEvent:
    """A set of cells, and on which of the two streams it is the likelier."""

    cells: frozenset[str]
    swapped: bool

    def hits(self, counts: Counts) -> int:
        return sum(times for cell, times in counts.items() if cell in self.cells)


def choose(
    left: Counts, right: Counts, *, confidence: float, delta: float = 0.0
) -> tuple[float, OutputEvent]:
    """The event with the highest bound on these runs, in either direction, and that bound. To be
    tried on other runs.
    """
    best = (-1.0, OutputEvent(frozenset(), False))
    for swapped, (one, other) in enumerate(((left, right), (right, left))):
        runs, others = sum(one.values()), sum(other.values())
        names = sorted(
            one.keys() | other.keys(), key=lambda cell: _ratio(one, other, cell), reverse=True
        )
        hits = misses = 0
        chosen: list[str] = []
        for name in names:
            hits, misses = hits + one.get(name, 0), misses + other.get(name, 0)
            chosen.append(name)
            if _ratio(one, other, name) <= 0 and best[0] >= 0:
                break
            bound = epsilon_bound(hits, runs, misses, others, confidence=confidence, delta=delta)
            if bound > best[0]:
                best = (bound, OutputEvent(frozenset(chosen), bool(swapped)))
    return best


def _ratio(one: Counts, other: Counts, cell: str) -> float:
    """The log of how much likelier the cell is on the one stream, less 1.5 standard errors: no rare
    cell leads by luck.
    """
    here, there = one.get(cell, 0) + 0.5, other.get(cell, 0) + 0.5
    return math.log(here / there) - 1.5 * math.sqrt(1 / here + 1 / there)


def score_cells(train: tuple[Traces, Traces], traces: Traces, *, steps: int = 12) -> Counts:
    """Cells by the score of a linear classifier that tells the two streams apart, learned on the
    training runs.
    """
    # Everything here follows from the training runs alone: a cell must depend on its own trace and
    # on no other of its chunk.
    values = np.vstack([_columns(each) for each in train])
    low, high = np.quantile(values, [0.02, 0.98], axis=0)
    rows = [_features(each, low, high) for each in train]
    both = np.vstack(rows)
    middle, spread = both.mean(axis=0), both.std(axis=0) + 1e-9
    both = (both - middle) / spread
    both = np.hstack([both, np.ones((len(both), 1))])
    is_left = np.concatenate([np.ones(len(rows[0])), np.zeros(len(rows[1]))])
    weights = np.zeros(both.shape[1])
    for _ in range(steps):  # Newton's method on the ridge-regularised logistic loss
        chance = 1 / (1 + np.exp(-np.clip(both @ weights, -30, 30)))
        slope = both.T @ (chance - is_left) + weights
        curvature = (both * (chance * (1 - chance))[:, None]).T @ both + np.eye(len(weights))
        weights -= np.linalg.solve(curvature, slope)
    edges = np.unique(np.quantile(both @ weights, np.linspace(0, 1, 65)[1:-1]))
    mine = (
        np.hstack([(_features(traces, low, high) - middle) / spread, np.ones((len(traces), 1))])
        @ weights
    )
    places, times = np.unique(np.searchsorted(edges, mine), return_counts=True)
    return {
        f"score {place:02}": many
        for place, many in zip(places.tolist(), times.tolist(), strict=True)
    }


def _features(traces: Traces, low: FloatArray, high: FloatArray) -> FloatArray:
    """Every release and what else is shown of it, cut to a range, whether it is fresh, and what was
    seen.
    """
    parts = [
        np.clip(_columns(traces), low, high),
        traces.fresh.reshape(len(traces), -1).astype(np.float64),
    ]
    if traces.seen is not None:
        parts.append(traces.seen.astype(np.float64))
    return np.hstack(parts)


def _columns(traces: Traces) -> FloatArray:
    shown = [traces.values, *(traces.public[name] for name in sorted(traces.public))]
    return np.hstack([each.reshape(len(traces), -1).astype(np.float64) for each in shown])


def as_lines(stream: IntArray) -> list[str]:
    """A stream for people: one line a unit."""
    return ["  ".join(map(str, row)) for row in stream.tolist()]
