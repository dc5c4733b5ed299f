"""Many runs of one mechanism on one stream, through the shipped `step`."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.domain import Domain
from penstock.core.released import Released
from penstock.lab.audit.intruder import Intruder
from penstock.lab.audit.model import Look, Traces
from penstock.lab.audit.noise import LabNoise
from penstock.private.mechanisms.base import Mechanism


def traces(
    mechanism: Mechanism[Any],
    stream: IntArray,
    runs: int,
    noise: LabNoise,
    *,
    look: Look | None = None,
) -> Traces:
    """The traces of independent runs over one stream, units × keys. `look.left` is the part of it.

    For a mechanism that treats every key by itself, the runs are keys of one run.
    """
    units, keys = stream.shape
    if mechanism.by_key and look is None:
        return _as_keys(mechanism, stream, runs, noise)
    domain = Domain.of(keys)
    size = mechanism.released(domain).size
    values: Any = np.zeros((runs, units, size), np.int64)
    fresh = np.zeros((runs, units, size), np.bool_)
    seen = np.zeros((runs, keys), np.int64) if look and not look.after else None
    explained = np.full((runs, 2), -1) if look else None
    public: dict[str, IntArray] = {}
    for number in range(runs):
        run = mechanism.run(domain, noise=noise)
        for unit, counts in enumerate(stream, start=1):
            intruder = None
            if look is not None and unit == look.unit:
                intruder = Intruder(run, look, noise)
                if seen is not None:
                    run.feed(look.left)
                    seen[number] = intruder.look()
                    counts = counts - look.left
            released = run.step(counts)
            if intruder is not None and explained is not None:
                if seen is None:
                    intruder.look()
                explained[number] = intruder.explained(released)
            if number == 0 and unit == 1 and released.value.dtype != values.dtype:
                values = values.astype(released.value.dtype)
            values[number, unit - 1] = released.value
            fresh[number, unit - 1] = np.logical_not(released.repeated)
            for name, array in _public(released).items():
                rows = public.setdefault(name, np.zeros((runs, units, len(array)), np.int64))
                rows[number, unit - 1] = array
    return Traces(values, fresh, seen, public, released.kind, released.weights, explained)


def _as_keys(mechanism: Mechanism[Any], stream: IntArray, runs: int, noise: LabNoise) -> Traces:
    keys = stream.shape[1]
    run = mechanism.run(Domain.of(runs * keys), noise=noise)
    released = [run.step(np.tile(counts, runs)) for counts in stream]
    values = np.stack([each.value.reshape(runs, keys) for each in released], axis=1)
    fresh = [
        np.broadcast_to(np.logical_not(each.repeated), runs * keys).reshape(runs, keys)
        for each in released
    ]
    public: dict[str, IntArray] = {}
    for unit, each in enumerate(released):
        for name, array in _public(each).items():
            if len(array) == runs * keys:
                rows = public.setdefault(name, np.zeros((runs, len(stream), keys), np.int64))
                rows[:, unit] = array.reshape(runs, keys)
    return Traces(
        values, np.stack(fresh, axis=1), None, public, released[-1].kind, released[-1].weights
    )


def _public(released: Released) -> dict[str, IntArray]:
    """Everything that a release shows beside its values."""
    shown = dict(released.public)
    if not isinstance(released.divisor, int) or released.divisor != 1:
        shown["divisor"] = np.broadcast_to(
            np.asarray(released.divisor, np.int64), released.value.shape
        )
    return shown
