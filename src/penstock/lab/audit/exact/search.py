"""A search for an output with a large loss."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from penstock.core.errors import ConfigurationError
from penstock.lab.audit.exact.all_outputs import with_numbers
from penstock.lab.audit.exact.decision_case import DecisionCase
from penstock.lab.audit.exact.loss import (
    ROUNDING,
    LikelihoodCache,
    likelihood_caches,
    loss_between,
    loss_of,
)
from penstock.lab.audit.exact.output import Flags, Numbers, Output, SeenUnit
from penstock.lab.audit.exact.run_state import RunState
from penstock.lab.audit.exact.stream_follower import StreamFollower
from penstock.lab.audit.model import Pair
from penstock.private.mechanisms.base import Mechanism


@dataclass(frozen=True)
class WorstOutput:
    """An output with a large loss, and two bounds on it.

    `swapped` means that the right stream is the likelier one.
    """

    low: float
    high: float
    output: Output
    swapped: bool


def worst_output(
    mechanism: Mechanism[Any],
    pair: Pair,
    *,
    starts: int = 2,
    seed: int = 0,
    width: int = 3,
    patterns: int = 12,
    sweeps: int = 5,
) -> WorstOutput:
    """Search for an output with a large loss, where there are too many outputs to enumerate.

    Unit by unit, the outputs with the largest loss so far are kept. They are continued by skipping
    or by values below, at and above the counts. The best output is then improved by changes of
    single units. The bounds are those of `loss_at`: a lower bound above ε convicts, and finding
    nothing proves nothing.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism, with its parameters.
    pair : Pair
        Two neighbouring streams.
    starts : int
        The number of searches, each with other values and in both directions. Default: 2.
    seed : int
        The seed of the search. Default: 0.
    width : int
        The number of outputs to keep per pattern of publishing and skipping. Default: 3.
    patterns : int
        The number of patterns to keep. Default: 12.
    sweeps : int
        The largest number of rounds of improvement. Default: 5.
    """
    generator = np.random.default_rng(seed)
    caches = likelihood_caches(mechanism, pair)
    found: list[tuple[float, bool, Output, list[int]]] = []
    for _ in range(starts):
        offsets = [0, 1, *sorted({int(value) for value in generator.geometric(0.15, size=3) + 1})]
        for swapped in (False, True):
            one, two = caches[::-1] if swapped else caches
            shown = _beam(one, two, offsets, width, patterns, generator)
            found.append((loss_between(one, two, shown)[0], swapped, shown, offsets))
    if not found:
        raise ConfigurationError("worst_output needs at least one start.")
    _, swapped, shown, offsets = max(found, key=lambda each: each[0])
    one, two = caches[::-1] if swapped else caches
    shown = _climb(one, two, shown, offsets, sweeps)
    low, high = loss_between(one, two, shown)
    return WorstOutput(low, high, shown, swapped)


def _beam(
    one: LikelihoodCache,
    two: LikelihoodCache,
    offsets: list[int],
    width: int,
    patterns: int,
    generator: np.random.Generator,
) -> Output:
    """The output with the largest loss that a beam search finds."""
    beam: list[Output] = [()]
    for _ in range(len(one.follower.runner.stream)):
        by_pattern: dict[object, list[tuple[float, float, Output]]] = {}
        for shown in beam:
            pattern = tuple(each.fresh for each in shown)
            for target in _candidates(one, two, shown, offsets):
                low, _ = loss_of(
                    one.log_likelihood_with(shown, target), two.log_likelihood_with(shown, target)
                )
                # The random number breaks ties, so that the kept outputs differ.
                entry = (low, float(generator.random()), (*shown, target))
                by_pattern.setdefault((*pattern, target.fresh), []).append(entry)
        kept = sorted(
            (sorted(entries, reverse=True)[:width] for entries in by_pattern.values()), reverse=True
        )[:patterns]
        beam = [shown for entries in kept for _, _, shown in entries]
    return max(beam, key=lambda shown: loss_between(one, two, shown)[0])


def _candidates(
    one: LikelihoodCache, two: LikelihoodCache, shown: Output, offsets: list[int]
) -> list[SeenUnit]:
    """Candidates for the next unit: for each decision, values at and beyond the counts."""
    ways = [
        (cache.follower, branch.state, case)
        for cache in (one, two)
        for branch, cases in zip(cache.branches(shown), cache.cases(shown), strict=True)
        for case in cases
    ]
    if any(case.bare.public for _, _, case in ways):
        rows = _around([case.bare.numbers for _, _, case in ways], offsets)
        return list(
            dict.fromkeys(each for way in ways for each in _completed(*way, len(shown) + 1, rows))
        )
    bares: dict[Flags, list[SeenUnit]] = {}
    for _, _, case in ways:
        bares.setdefault(case.bare.fresh, []).append(case.bare)
    found: dict[SeenUnit, None] = {}
    for fresh, group in bares.items():
        values = (
            _around([bare.values for bare in group], offsets) if any(fresh) else [group[0].values]
        )
        last = group[0].values
        views: list[Numbers | None] = [group[0].seen]
        if group[0].seen:
            views = [*_around([bare.seen for bare in group if bare.seen], offsets)]
        for value, view in product(values, views):
            kept = tuple(
                now if new else then for now, then, new in zip(value, last, fresh, strict=True)
            )
            found[SeenUnit(kept, fresh, view)] = None
    return list(found)


def _completed(
    follower: StreamFollower, state: RunState, case: DecisionCase, unit: int, rows: list[Numbers]
) -> Iterator[SeenUnit]:
    """The outputs of a case with these counts where it adds noise to them."""
    moving = {key for _, keys in case.parts for key in keys}
    for row in rows if moving else [case.bare.numbers]:
        numbers = tuple(
            row[key] if key in moving else old for key, old in enumerate(case.bare.numbers)
        )
        yield follower.complete(state, unit, case, with_numbers(case.bare, numbers))


def _around(rows: Sequence[Numbers], offsets: list[int]) -> list[Numbers]:
    """Rows below the smallest and above the largest numbers of these rows."""
    columns = list(zip(*rows, strict=True))
    lowest, highest = tuple(map(min, columns)), tuple(map(max, columns))
    around = [tuple(value - offset for value in lowest) for offset in offsets]
    return around + [tuple(value + offset for value in highest) for offset in offsets]


def _climb(
    one: LikelihoodCache, two: LikelihoodCache, shown: Output, offsets: list[int], sweeps: int
) -> Output:
    """Change one unit at a time as long as the loss grows by a thousandth of itself."""
    left, right = one.follower.runner.stream, two.follower.runner.stream
    keys = np.flatnonzero((left != right).any(axis=0)).tolist()
    best = loss_between(one, two, shown)[0]
    for _ in range(sweeps):
        before = best
        for unit in range(len(shown)):
            for changed in _variants(shown, unit, keys, offsets):
                low = loss_between(one, two, changed)[0]
                if low > best + abs(best) / 1000 + ROUNDING:
                    shown, best = changed, low
        if best == before:
            break
    return shown


def _variants(shown: Output, unit: int, keys: list[int], offsets: list[int]) -> Iterator[Output]:
    """The output with one key of one unit moved, also where it repeats, or its look moved."""
    target = shown[unit]
    for offset, sign, key in product(offsets, (-1, 1), keys):
        if offset and target.fresh[key] and not target.smoothed:
            changed, standing = list(shown), True
            for later in range(unit, len(shown)):
                standing = standing and (later == unit or not shown[later].fresh[key])
                if standing:
                    values = list(shown[later].values)
                    values[key] += sign * offset
                    changed[later] = replace(shown[later], values=tuple(values))
            yield tuple(changed)
        if offset and target.seen:
            seen = list(target.seen)
            seen[key] += sign * offset
            yield (*shown[:unit], replace(target, seen=tuple(seen)), *shown[unit + 1 :])
