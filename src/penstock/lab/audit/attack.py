"""The attack: find an output event that is much likelier on one stream than on the other.

A whole trace is put into a cell. The cell says per unit which keys are fresh and, where the two
streams differ, on which side of their counts the release lies. For Laplace noise the likelihood
ratio of a release depends on that side alone. So for mechanisms that publish with Laplace noise,
cells carry the exact likelihood ratio of a publication; decisions are learned. What else a run
shows has codings of its own (`trace_codings`), and a linear classifier is learned on all of it
(`classifier`).

On the first half of the runs the cells are ordered by how much likelier they are on the left. The
event is the best union of the first few. The second half of the runs estimates its probability.

A release is compared with its true value: the sum of its group or of its window. Where counts
before smoothing are shown, these are compared with the counts of the unit. Where a filter shows the
sums of blocks, these are compared. Other public values, such as the start of a group, add letters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.released import DEVIATION
from penstock.core.weights import UNIT
from penstock.lab.audit.bounds import epsilon_bound
from penstock.lab.audit.model import Pair, Traces

NOISY, DIVISOR, SUMS, UNITS = "noisy", "divisor", "sums", "units"

COMPARED = frozenset({NOISY, DIVISOR, SUMS, DEVIATION})
"""Public arrays that add no letters: they are compared with counts, or follow from other arrays."""

KEY_LETTERS = "×▷◁◇"
"""With a key of the noise that was seen: neither stream gives the output, the right one alone, the
left one alone, or both.
"""

Counts = dict[str, int]
"""The number of runs in each cell, by a name that a person can read."""


MAX_CHANGING_ARRAYS = 3
"""At most this many public arrays add letters."""

_Array = IntArray | FloatArray

Word = tuple[tuple[str, ...], IntArray]
"""Letters, and the index of the letter of each run."""


PLAIN_CODINGS = frozenset({"all", "differing", "noise key"})
"""The names of codings by the sides of counts."""


def codings(traces: Traces, pair: Pair) -> dict[str, Counts]:
    """The cells of each coding.

    A coding takes all of a trace, only the places where the streams differ, or only what a key of
    the noise in the memory tells.
    """
    found = {"all": cells(traces, pair)}
    if pair.keys > 1 or traces.public or traces.weights != UNIT:
        found["differing"] = cells(traces, pair, everywhere=False)
    if traces.explained is not None:
        found["noise key"] = _count([_key_word(traces.explained)])
    return found


def cells(traces: Traces, pair: Pair, *, everywhere: bool = True) -> Counts:
    """The number of runs in each cell.

    A cell has one letter per unit and key that a person is ever in. `-`: repeated. `=`: fresh where
    nothing differs. `<` and `>`: fresh, and at or below the lower count, or above it (`↓` and `↑`
    for a sum of several units). `+` follows where another public value of the key has changed. `|`
    ends a unit, and a look adds letters of its own, such as `KEY_LETTERS`. With `everywhere=False`,
    places where nothing differs have no letter, or `·` if they differ in other runs: there are
    fewer cells, each seen more often. The cell of a run does not depend on other runs.
    """
    differs = pair.left != pair.right
    shown = np.flatnonzero(differs.any(axis=0)) if differs.any() else np.arange(pair.keys)
    compared = about(traces, pair)
    numbers, by_run = compared.values, compared.by_run
    letters = ("-", "=", *("↓↑" if compared.sums else "<>"))
    lesser = np.minimum(compared.left, compared.right)
    apart = compared.left != compared.right
    words: list[Word] = []
    for unit in range(pair.units):
        for key in shown:
            fresh, value = traces.fresh[:, unit, key], numbers[:, unit, key]
            there = apart[:, unit, key]
            sides = np.where(there, 2 + (value > lesser[:, unit, key]), 1)
            if everywhere:
                words.append((letters, np.where(fresh, sides, 0)))
            elif by_run or there.any():
                sides = np.where(fresh, sides, 0)
                words.append(((*letters, "·"), np.where(there, sides, len(letters))))
            if (by_run or there.any()) and traces.values.dtype.kind == "f":
                words.append(_grain(value.astype(np.float64)))
            if everywhere and traces.public:
                words.append(_changes(traces, pair, unit, int(key)))
        words.append((("|",), np.zeros(len(traces), np.int64)))
    if traces.seen is not None:
        words.extend(_look_words(traces, pair))
    if traces.explained is not None:
        words.append(_key_word(traces.explained))
    return _count(words)


@dataclass(frozen=True)
class ComparedValues:
    """The values that were seen, and their true values on either stream, by run, unit and key.

    Parameters
    ----------
    values : array
        The values that were seen.
    left : array
        Their true values on the left stream. If not `by_run`, the first row is for all runs.
    right : array
        Their true values on the right stream.
    sums : bool
        Whether they are sums of several units. Default: False.
    by_run : bool
        Whether each run has its own true values, such as those of its groups. Default: False.
    """

    values: _Array
    left: _Array
    right: _Array
    sums: bool = False
    by_run: bool = False


def about(traces: Traces, pair: Pair) -> ComparedValues:
    """The values that were seen, and what they are compared with."""
    noisy, divisor = traces.public.get(NOISY), traces.public.get(DIVISOR)
    if noisy is not None and noisy.shape == traces.values.shape:
        return ComparedValues(noisy, pair.left[None], pair.right[None])
    if traces.weights != UNIT:
        weights = traces.weights.sequence(pair.units)
        ages = np.subtract.outer(np.arange(pair.units), np.arange(pair.units))
        sums = np.where(ages >= 0, weights[np.maximum(ages, 0)], 0.0)
        values = traces.values if divisor is None else traces.values / divisor
        left, right = (sums @ pair.left)[None], (sums @ pair.right)[None]
        return ComparedValues(values, left, right, sums=True)
    if divisor is None:
        return ComparedValues(traces.values, pair.left[None], pair.right[None])
    values, shown = traces.values, traces.public
    if traces.kind == "filtered" and shown[SUMS].shape == values.shape:
        values, divisor = shown[SUMS], shown[UNITS]
    elif traces.kind != "sum":  # the divisor is only a finer grid
        return ComparedValues(values / divisor, pair.left[None], pair.right[None])
    until = np.arange(1, pair.units + 1)[:, None]
    since = np.maximum(until - divisor, 0)
    totals = (
        np.vstack([np.zeros((1, pair.keys), np.int64), np.cumsum(each, axis=0)])
        for each in (pair.left, pair.right)
    )
    left, right = (each[None, 1:] - each[since, np.arange(pair.keys)] for each in totals)
    return ComparedValues(values, left, right, sums=True, by_run=True)


def _changes(traces: Traces, pair: Pair, unit: int, key: int) -> Word:
    """Letters for other public values of a key that have changed: `+`, `++` or `+++` for both."""
    names = sorted(traces.public.keys() - COMPARED)
    arrays = [traces.public[name] for name in names if traces.public[name].shape[2] == pair.keys][
        :MAX_CHANGING_ARRAYS
    ]
    which = np.zeros(len(traces), np.int64)
    for number, array in enumerate(arrays):
        before = array[:, unit - 1, key] if unit else 0
        which += (array[:, unit, key] != before) * 2**number
    return tuple("+" * number for number in range(2 ** len(arrays))), which


def _count(words: list[Word]) -> Counts:
    """Count runs by their words. Runs are coded as numbers first, as many as int64 needs."""
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
    spelt = [_spelt(block, rows[:, place]) for place, block in enumerate(blocks)]
    names = map("".join, zip(*spelt, strict=True))
    return dict(zip(names, times.tolist(), strict=True))


def _unique(codes: IntArray) -> tuple[IntArray, IntArray]:
    found, times = np.unique(codes[:, 0], return_counts=True)
    return found[:, None], times


def _coded(block: list[Word]) -> IntArray:
    code = np.zeros(len(block[0][1]), np.int64)
    for letters, which in block:
        code = code * len(letters) + which
    return code


def _spelt(block: list[Word], codes: IntArray) -> list[str]:
    """The letters of each code. Codes that are often the same are spelt once."""
    different, which = np.unique(codes, return_inverse=True)
    rest, letters = different, []
    for alphabet, _ in reversed(block):
        rest, places = np.divmod(rest, len(alphabet))
        letters.append([alphabet[place] for place in places.tolist()])
    words = list(map("".join, zip(*reversed(letters), strict=True)))
    return [words[place] for place in which.tolist()]


def _look_words(traces: Traces, pair: Pair) -> list[Word]:
    """Words for a look: the side of the memory, and whether the release continues from it."""
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


def _key_word(explained: IntArray) -> Word:
    """What a key of the noise in the memory tells: nothing, or which streams give what was seen."""
    left, right = explained.T
    return ("", *KEY_LETTERS), np.where(left < 0, 0, 1 + 2 * left + right)


def _grain(value: FloatArray) -> Word:
    """How small a float is, and whether it is a multiple of 2^−52, as a sum with a count is.

    A whole number has no letters, as if it were no float.
    """
    size = np.clip(-np.log2(np.abs(value) + 2.0**-40), 0, 11).astype(np.int64) // 3
    fine = value * 2.0**52 != np.floor(value * 2.0**52)
    letters = [f"{kind}{number}" for number in range(4) for kind in ("coarse", "fine")]
    return ("", *letters), np.where(value == np.floor(value), 0, 1 + 2 * size + fine)


def add(one: Counts, other: Counts) -> Counts:
    """The sum of two counts of cells."""
    return {cell: one.get(cell, 0) + other.get(cell, 0) for cell in one.keys() | other.keys()}


@dataclass(frozen=True)
class OutputEvent:
    """A set of cells. `swapped`: it is likelier on the right stream."""

    cells: frozenset[str]
    swapped: bool

    def hits(self, counts: Counts) -> int:
        """The number of runs in these cells."""
        return sum(times for cell, times in counts.items() if cell in self.cells)


def choose(
    left: Counts, right: Counts, *, confidence: float, delta: float = 0.0
) -> tuple[float, OutputEvent]:
    """The event with the highest bound on these runs, in either direction, and that bound.

    The bound must be computed again on other runs.
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
    """The log-ratio of a cell, less 1.5 standard errors: rare cells do not win by luck."""
    here, there = one.get(cell, 0) + 0.5, other.get(cell, 0) + 0.5
    return math.log(here / there) - 1.5 * math.sqrt(1 / here + 1 / there)
