"""Cells for what the sides of counts do not tell: fields, errors, equal noise, low bits, memory.

Every coding here is a function of what a run shows, and it has few cells. So a mechanism that keeps
its promise keeps it in each of them, and a field that goes with the stream stands out in one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice, product

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.lab.audit.attack import ComparedValues, Counts, about
from penstock.lab.audit.model import Pair, Traces

MAX_PLACES, MAX_OTHERS, MAX_TIES = 4, 6, 16
"""The most places where the streams differ, of other places, and of pairs of places that are tried
for equal noise.
"""

LOW_BITS = 8
"""Values are compared modulo this number, floats by as many values of their last bits."""

MAX_WIDTH = 12
"""Distances from a count are told apart by their number of bits, up to this."""

MAX_MEMORY_SIDES = 6
"""The most numbers of a memory whose sides make up one cell."""

NO_ERROR = "no error"
ERRORS = "errors"

MemoryOfBoth = tuple[Mapping[str, FloatArray], Mapping[str, FloatArray]]
"""What a look would see on the left and on the right stream without noise."""


def trace_codings(traces: Traces, pair: Pair, clean: MemoryOfBoth | None) -> dict[str, Counts]:
    """The cells of each coding, by its name.

    Parameters
    ----------
    traces : Traces
        The traces of many runs.
    pair : Pair
        The two streams, in the domain of the releases.
    clean : pair of mappings, optional
        The memory without noise on either stream, if there was a look. Default: none.
    """
    found = {ERRORS: _texts(traces)}
    for name, codes in traces.fields.items():
        found[name] = _numbered(f"{name}: code ", codes[codes > 0])
    if not traces.values.size:
        return found
    compared = about(traces, pair)
    numbers, left, right = compared.values, compared.left, compared.right
    places = _differing(compared, pair)
    for unit, key in places[:MAX_PLACES]:
        where = f"unit {unit + 1}, key {key + 1}"
        value = numbers[:, unit, key]
        rest = np.abs(value - np.minimum(left[:, unit, key], right[:, unit, key]))
        bits = np.ceil(np.log2(np.nan_to_num(rest) + 1.0))
        width = np.minimum(bits, MAX_WIDTH).astype(np.int64)
        found[f"width, {where}"] = _numbered(f"distance in bits, {where}: ", width)
        found[f"bits, {where}"] = _numbered(
            f"low bits, {where}: ", _low_bits(traces.values[:, unit, key])
        )
    found.update(_ties(numbers, left, right, places))
    if clean is not None:
        found.update(_memory(traces, clean))
    return found


def _differing(compared: ComparedValues, pair: Pair) -> list[tuple[int, int]]:
    """The places, units and keys, where the true values of the two streams may differ.

    If each run has its own true values, these are all keys that differ, from the first unit on in
    which they do. Places where some run differs would depend on the other runs.
    """
    if compared.by_run:
        apart = np.logical_or.accumulate(pair.left != pair.right, axis=0)
    else:
        apart = (compared.left != compared.right)[0]
    return [(int(unit), int(key)) for unit, key in np.argwhere(apart)]


def _texts(traces: Traces) -> Counts:
    """The number of runs by the error that ended them. An error is shown as it was raised."""
    if not any(traces.errors):
        return {f"{ERRORS}: {NO_ERROR}": len(traces)}
    found: Counts = {}
    for text in traces.errors:
        name = f"{ERRORS}: {text or NO_ERROR}"
        found[name] = found.get(name, 0) + 1
    return found


def _numbered(prefix: str, codes: IntArray) -> Counts:
    places, times = np.unique(codes, return_counts=True)
    return {
        f"{prefix}{place}": many
        for place, many in zip(places.tolist(), times.tolist(), strict=True)
    }


def _low_bits(values: IntArray | FloatArray) -> IntArray:
    """The last bits: of whole numbers, or of the mantissa of other floats."""
    if values.dtype.kind != "f":
        return np.mod(values, LOW_BITS).astype(np.int64)
    numbers = values.astype(np.float64)
    with np.errstate(invalid="ignore"):
        rest = np.mod(numbers, LOW_BITS)
    mantissa = np.mod(numbers.view(np.int64), LOW_BITS)
    return np.where(rest == np.floor(rest), rest, mantissa).astype(np.int64)


def _ties(
    numbers: IntArray | FloatArray,
    left: IntArray | FloatArray,
    right: IntArray | FloatArray,
    places: list[tuple[int, int]],
) -> Iterator[tuple[str, Counts]]:
    """Whether two numbers have the same noise, if the stream is the left one, or the right one.

    The difference of two releases is then exactly the difference of their true values.
    """
    units, keys = numbers.shape[1:]
    others = [place for place in product(range(units), range(keys)) if place not in places]
    tried = (
        (one, other)
        for number, one in enumerate(places[:MAX_PLACES])
        for other in (*places[number + 1 : MAX_PLACES], *others[:MAX_OTHERS])
    )
    for one, other in islice(tried, MAX_TIES):
        here, there = (slice(None), *one), (slice(None), *other)
        apart = numbers[here] - numbers[there]
        on_left, on_right = left[here] - left[there], right[here] - right[there]
        which = np.where(apart == on_left, 1, 0) + np.where(apart == on_right, 2, 0)
        where = " and ".join(f"unit {unit + 1} key {key + 1}" for unit, key in (one, other))
        yield (
            f"tie, {where}",
            {
                f"equal noise, {where}: {('none', 'left', 'right', 'both')[place]}": many
                for place, many in enumerate(np.bincount(which, minlength=4).tolist())
                if many
            },
        )


def _memory(traces: Traces, clean: MemoryOfBoth) -> Iterator[tuple[str, Counts]]:
    """The sides of the numbers that a look saw, of all that differ and of each by itself."""
    sides: list[IntArray] = []
    names: list[str] = []
    for name in sorted(traces.memory):
        one, other = (each.get(name) for each in clean)
        seen = traces.memory[name]
        if one is None or other is None or len(one) != len(other) or seen.shape[1] != len(one):
            continue
        for place in np.flatnonzero(one != other).tolist():
            sides.append((seen[:, place] > min(one[place], other[place])).astype(np.int64))
            names.append(f"{name} {place + 1}")
    for name, side in zip(names, sides, strict=True):
        yield f"memory, {name}", _numbered(f"memory, {name} above: ", side)
    if sides:
        chosen = sides[:MAX_MEMORY_SIDES]
        code = sum((side << place for place, side in enumerate(chosen)), np.zeros_like(chosen[0]))
        yield "memory", _numbered("memory, sides: ", code)
