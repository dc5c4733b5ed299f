"""How long a plan takes, and whether it picks the better of pure noise and delta.

    python benchmarks/plan.py [--json]

Three plans, the first for 265 keys and 900 units, with and without delta: how long each takes, and
how long it said that it would take. Then, of every stream that is here, the first tenth is the
public sample: the kind of noise that a plan picks from it must be the one that is better on the
whole stream. At most 300 keys and 2,000 units of a stream. Wall-clock time, if not said otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np

from penstock.core.domain import Domain
from penstock.engine.plan.candidates import AskedPromise
from penstock.engine.plan.planner import PlanRow, Simulations
from penstock.engine.plan.public_counts import MAX_KEYS, PublicCounts, StatedFacts, made_up
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


def sizes() -> Iterator[tuple[str, PublicCounts, int]]:
    """Public counts of three sizes, each with a window."""
    yield "265 keys x 900 units", public("taxi_zones", units=900), 24
    yield "300 keys x 480 units", public("covid"), 120
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
        later = whole.thinned()
        growth = later.mean / tenth.mean
        yield Figure(f"{name}: mean count, newest units / first tenth", growth, "x")
        for window in WINDOWS:
            promise = AskedPromise(epsilon=Fraction(1), window=window, delta=DELTA)
            picked = Simulations(tenth.lengthened(window).thinned(), promise).ranked()[0]
            truth = Simulations(later, promise).ranked()
            best = min(row.error.mae for row in truth)
            alike = min(row.error.mae for row in truth if gaussian(row) == gaussian(picked))
            same = min(row.error.mae for row in truth if row.choice == picked.choice)
            words = f"{name}, w = {window}: from a tenth of it"
            yield Figure(f"{words}, best of the picked noise / best", alike / best, "x", 1.0)
            yield Figure(f"{words}, {picked.short} / best", same / best, "x")


if __name__ == "__main__":
    main(__doc__ or "", measure)
