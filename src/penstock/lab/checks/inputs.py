"""Checks of input: bad input is refused, arrays are not shared, key order does not matter."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.errors import InputError, PenstockError
from penstock.core.released import Released
from penstock.lab.checks.base import AnyMechanism, explore, failure, hypothesis_module
from penstock.lab.checks.secrecy import arrays_in
from penstock.lab.checks.streams import Script, facts, restless, scripts
from penstock.private.gate import count_limit
from penstock.private.run import Run
from penstock.testing import TestNoise, intrude

_SIZE = 4
_BAD_COUNTS: tuple[Any, ...] = (
    [1, 2, -1, 3],
    [1, 2, 0.5, 3],
    [1, 2, math.nan, 3],
    [1, 2, math.inf, 3],
    [1, 2, 3, 4, 5],
    [1, 2, 3],
    [],
    [[1, 2, 3, 4]],
    [1, 2, 3, count_limit(_SIZE) + 1],
    [1, 2, 3, 2**63],
    [1, 2, 3, 2**80],
    [1e300, 2, 3, 4],
    [1, 2, None, 4],
    ["1", "2", "3", "4"],
    np.ma.masked_array([1, 2, 3, 4], mask=[False, False, True, False]),
    "1234",
    7,
    None,
)


def check_bad_input_changes_nothing(cls: AnyMechanism, *, quick: bool = False) -> None:
    """Bad input is refused and changes nothing.

    Counts that are negative, fractional, missing, too many, too few or too large raise an
    `InputError`, and so do units out of order. The snapshot stays the same, byte for byte. The
    next unit is released as if nothing had happened.
    """
    mechanism = cls(epsilon="1", window=3)
    run, undisturbed = (mechanism.run(_SIZE, noise=TestNoise(17), record=True) for _ in range(2))
    for counts in restless(_SIZE, 4 if quick else 8, seed=12):
        attempts: list[tuple[Any, dict[str, int]]] = [(bad, {}) for bad in _BAD_COUNTS]
        attempts += [(counts, {"unit": unit}) for unit in (-1, 0, run.unit, run.unit + 2)]
        for given, options in attempts:
            _expect_refusal(cls, run, given, options)
        if facts(run.step(counts, unit=run.unit + 1)) != facts(undisturbed.step(counts)):
            raise failure(
                cls, f"{mechanism}: after refused input, unit {run.unit} is another release."
            )


def _expect_refusal(cls: AnyMechanism, run: Run, given: Any, options: dict[str, int]) -> None:
    """A step with this input must raise `InputError` and leave the snapshot as it was."""
    before = run.snapshot()
    call = f"step({given!r}{', ' + repr(options) if options else ''})"
    where = f"{run.mechanism} after unit {run.unit}, {call}"
    try:
        run.step(given, **options)
    except InputError:
        pass
    except Exception as error:
        raise failure(cls, f"{where} raises {type(error).__name__}, not InputError.") from error
    else:
        raise failure(cls, f"{where} was accepted.")
    try:
        after = run.snapshot()
    except PenstockError as error:
        raise failure(cls, f"{where} was refused, but the run cannot go on: {error}") from error
    if after != before:
        raise failure(cls, f"{where} was refused, but the snapshot changed.")


def check_input_is_not_aliased(cls: AnyMechanism, *, quick: bool = False) -> None:
    """Input is neither changed nor kept, and releases are the caller's own.

    The caller's array is the same after the step. Writing over it changes no release, past or
    future. Released arrays are read-only and share no memory with it.
    """
    mechanism = cls(epsilon="1", window=3)
    careful, careless = (mechanism.run(5, noise=TestNoise(31)) for _ in range(2))
    buffer = np.empty(5, np.int64)
    released: list[tuple[Released, list[IntArray]]] = []
    for unit, counts in enumerate(restless(5, 12 if quick else 40, seed=6), start=1):
        where = f"{mechanism}, unit {unit}"
        expected = careful.step(counts.copy())
        buffer[:] = counts
        out = careless.step(buffer)
        if not np.array_equal(buffer, counts):
            raise failure(cls, f"{where}: the step wrote into its input.")
        arrays = list(arrays_in(out))
        if any(np.shares_memory(array, buffer) for array in arrays):
            raise failure(cls, f"{where}: a released array shares memory with the input.")
        if out.value.flags.writeable:
            raise failure(cls, f"{where}: the released array can be written to.")
        if any(np.shares_memory(array, buffer) for array in arrays_in(intrude(careless))):
            raise failure(cls, f"{where}: the input array is kept, not copied.")
        released.append((out, [array.copy() for array in arrays]))
        buffer[:] = -(10**9)
        if facts(out) != facts(expected):
            raise failure(
                cls, f"{where}: writing over the input of earlier units changed this release."
            )
    for out, arrays in released:
        pairs = zip(arrays_in(out), arrays, strict=True)
        if not all(np.array_equal(now, then) for now, then in pairs):
            raise failure(
                cls, f"{mechanism}: the release of unit {out.unit} changed after it was handed out."
            )


def check_relabelling_keys_relabels_the_output(cls: AnyMechanism, *, quick: bool = False) -> None:
    """Listing the keys in another order lists the output in that order, and changes nothing else.

    There is no noise. Key names and counts are permuted together.
    """

    def act_out(script: Script, random: Any) -> None:
        order = list(range(script.size))
        random.shuffle(order)
        keys = [f"key {number}" for number in range(script.size)]
        run = script.start(cls, keys)
        other = script.start(cls, [keys[index] for index in order])
        place = {name: number for number, name in enumerate(run.released.keys)}
        where = f"{script}: with the keys in the order {order}"
        if place.keys() != set(other.released.keys):
            raise failure(cls, f"{where}, it releases numbers for other names.")
        moved, size = [place[name] for name in other.released.keys], run.released.size
        for counts in script.stream(run):
            here, there = run.step(counts), other.step(counts[order])
            same = all(
                np.array_equal(np.broadcast_to(a, size)[moved], np.broadcast_to(b, size))
                for a, b in (
                    (here.value, there.value),
                    (here.scale.parts, there.scale.parts),
                    (here.repeated, there.repeated),
                    (here.divisor, there.divisor),
                )
            )
            if not same or run.cost != other.cost:
                raise failure(cls, f"{where}, unit {run.unit} is another release.")

    shuffles = hypothesis_module().strategies.randoms(use_true_random=False)
    explore(act_out, scripts(noisy=False), shuffles, examples=30 if quick else 120)
