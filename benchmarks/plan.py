"""How long a plan takes, and whether it picks the better of pure noise and delta.

    python benchmarks/plan.py [--json]

Three plans, the first for 265 keys and 900 units, with and without delta: how long each takes, and
how long it said that it would take. Then, of every stream that is here, the first tenth is the
public sample: the kind of noise that a plan picks from it must be the one with which `tide` is
better on the whole stream, of at most 10,000 keys and 2,000 units. Wall-clock time, if not said
otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from statistics import fmean

import numpy as np

from penstock.core.domain import Domain
from penstock.engine.plan.candidates import AskedPromise
from penstock.engine.plan.planner import PlanRow, Simulations
from penstock.engine.plan.public_counts import PublicCounts, StatedFacts, made_up
from penstock.engine.plan.simulation import simulate
from penstock.private.mechanisms.tide import Tide
from penstock_bench.datasets.registry import find

from report import Figure, main

LIMIT_SECONDS = 60.0
DELTA = Fraction(1, 10**6)
STREAMS = {
    "covid": ("1d", (7,)),
    "turnstiles": ("4h", (6, 42)),
    "births": ("1d", (7,)),
    "taxi_zones": ("4h", (6, 42)),
    "flights": ("1h", (24, 168)),
    "bikes": ("1h", (24, 168)),
    "traffic": ("10min", (144, 1_008)),
    "worldcup": ("96min", (15, 105)),
}
WINDOWS = (24, 120)
MAX_KEYS, RUNS = 10_000, 3


def public(name: str, *, units: int = 2_000) -> PublicCounts:
    """Counts of a stream, with the seasons that a user would declare."""
    every, periods = STREAMS[name]
    stream = find(name).load()
    kept = min(stream.domain.size, MAX_KEYS)
    chosen = np.arange(kept) * stream.domain.size // kept
    rows = [np.asarray(row)[chosen] for row in stream.rows(1, min(stream.units, units))]
    keys = tuple(stream.domain.keys[place] for place in chosen.tolist())
    facts = StatedFacts(periods=periods, kind="stock" if find(name).stock else "flow")
    return PublicCounts(counts=np.array(rows), domain=Domain(keys), every=every, facts=facts)


def gaussian(row: PlanRow) -> bool:
    return row.choice is not None and row.choice.gaussian


def error(counts: PublicCounts, window: int, delta: Fraction) -> float:
    """The mean absolute error of `tide` on these counts."""
    facts = counts.facts
    tide = Tide(epsilon=1, window=window, delta=delta, periods=facts.periods, kind=facts.kind)
    return fmean(simulate(tide, counts, seed=seed).mae for seed in range(1, RUNS + 1))


def sizes() -> Iterator[tuple[str, PublicCounts, int]]:
    """Public counts of three sizes, each with a window."""
    yield "265 keys x 900 units", public("taxi_zones", units=900), 24
    yield "300 keys x 480 units", public("covid").thinned(most=300), 120
    days = StatedFacts(periods=(24,))
    few = made_up(Domain.of(10), "1h", typical=Fraction(3), facts=days, window=24)
    yield "10 keys x 120 units", few, 24


def measure() -> Iterator[Figure]:
    for size, counts, window in sizes():
        for words, delta in (("", None), (", with delta", DELTA)):
            begun, used = time.perf_counter(), time.process_time()
            promise = AskedPromise(epsilon=Fraction(1), window=window, delta=delta)
            work = Simulations(counts, promise)
            work.figures()
            took, used = time.perf_counter() - begun, time.process_time() - used
            yield Figure(f"plan, {size}{words}", took, "s", LIMIT_SECONDS)
            yield Figure(f"  said / took, of the processor{words}", work.seconds / used, "x")
    for name in STREAMS:
        if find(name).missing() is not None:
            continue
        whole = public(name)
        tenth = replace(whole, counts=whole.counts[: len(whole.counts) // 10])
        yield Figure(f"{name}: mean count, whole / first tenth", whole.mean / tenth.mean, "x")
        for window in WINDOWS:
            promise = AskedPromise(epsilon=Fraction(1), window=window, delta=DELTA)
            sample = tenth.thinned(window=window).lengthened(window)
            picked = Simulations(sample, promise).ranked()[0]
            pure, with_delta = (error(whole, window, delta) for delta in (Fraction(0), DELTA))
            ratio = pure / with_delta
            words = f"{name}, w = {window}"
            yield Figure(f"{words}: error of tide, pure / delta", ratio, "x")
            ratio = 1 / ratio if gaussian(picked) else ratio
            words = f"{words}: from a tenth, the noise of {picked.short} / the other noise"
            yield Figure(words, ratio, "x", 1.0)


if __name__ == "__main__":
    main(__doc__ or "", measure)
