"""More cases of a registered mechanism: parents of flawed variants, other sizes and parameters.

A fault may need three events of a person, many keys, a deep tree, a late unit, a sample or a
restart. The replay searches for these at random. Here each is sampled once, with fewer runs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError, NoiseError
from penstock.core.hierarchy import Hierarchy
from penstock.lab.audit import flawed
from penstock.lab.audit.bounds import can_convict
from penstock.lab.audit.model import Case, Pair
from penstock.lab.audit.pairs import FAR, LOOKS, looked_at, with_person
from penstock.private.histograms.registry import HISTOGRAMS
from penstock.private.mechanisms.base import Mechanism
from penstock.private.mechanisms.pan import PanPrivate

LEAST_RUNS = 64
"""The fewest runs of a case."""

LESS_EPSILON = (Fraction(1, 2), Fraction(1, 4))
"""What a case with few runs promises: so little that an event convicts which tells the streams
apart in every run. At a larger ε, few runs convict nothing.
"""

SURE = 1 - 1e-6
"""The confidence of one pair in a run over everybody, or more."""

ONE_BY_ONE, KEYS_PER_RUN = 1_000, 100
"""The most runs of a case whose runs cannot be keys of one run. Where the usual runs are keys, it
has one for so many of them.
"""

USUAL_SIZE = 8
"""Units × keys of the usual streams. A case with larger streams has fewer runs in proportion."""


@dataclass(frozen=True)
class CaseShape:
    """The size of a further case, and what is special about it.

    Parameters
    ----------
    name : str
        What it is called.
    beyond : int
        The number of units beyond the window.
    keys : int
        The number of keys.
    contribution : int
        The events of the person in each unit. Default: 1.
    deep : bool
        Whether keys lie in a deep and irregular hierarchy. Default: False.
    restart : bool
        Whether each run is saved and restored before the person comes, and again later. Default:
        False.
    """

    name: str
    beyond: int
    keys: int
    contribution: int = 1
    deep: bool = False
    restart: bool = False


SHAPES = (
    CaseShape("three events in each unit", 1, 2, contribution=3),
    CaseShape("70 keys", 0, 70),
    CaseShape("unit 64, after a restart", 62, 1, restart=True),
    CaseShape("a deep tree, three events", 1, 6, contribution=3, deep=True),
)
"""Sizes that every registered mechanism is sampled in."""

PARAMETERS: Mapping[str, tuple[dict[str, Any], ...]] = {
    "rg": ({"keep": "1/2"},),
    "bd_grouped": ({"groups": 2, "regroup": 2},),
    "ba_grouped": ({"groups": 2, "regroup": 2},),
    "phs_pegasus": ({"rule": "noisy"},),
    "tide": ({"kind": "stock"}, {"nodes": True}),
    "toeplitz": ({"span": 12},),
    "kary": ({"span": 9, "arity": 3},),
    "sw_tree": ({"span": 9},),
}
"""Other parameters that are sampled, by mechanism. Histogram methods are tried where there are any.
"""


def parent_cases(mechanism: Mechanism[Any], runs: int) -> Iterator[Case]:
    """The hand-made pairs and looks of the flawed variants that were made of this mechanism.

    The mechanism has the parameters of the variant, with a smaller ε for few runs. For a
    pan-private one with looks between units, a look is taken when its unit has been released,
    because the promise covers no other.

    Parameters
    ----------
    mechanism : Mechanism
        The registered mechanism, in the form that is audited.
    runs : int
        The number of runs of its usual cases.
    """
    for variant in flawed.VARIANTS.values():
        parent = variant.parent()
        for pair in variant.pairs:
            if isinstance(parent, PanPrivate) and isinstance(mechanism, PanPrivate):
                parent = replace(parent, intrusion=mechanism.intrusion)
                pair = _covered(pair, within=parent.in_parts)
            if not _same_form(parent, mechanism):
                continue
            many = _runs(parent, pair, runs, plain=variant.domain is None)
            made = _with_less(parent, many)
            promise = made.guarantee
            yield Case(
                made,
                replace(pair, name=f"{pair.name} (as for {variant.name})"),
                promise.epsilon,
                promise.window,
                promise.delta,
                variant.domain,
                runs=many,
            )


def _covered(pair: Pair, *, within: bool) -> Pair:
    """The pair with a look that the promise covers."""
    look = pair.look
    if look is None:
        return pair
    if within:
        return replace(pair, look=replace(look, after=False))
    unit = look.unit - 1
    return replace(
        pair, look=replace(look, left=pair.left[unit], right=pair.right[unit], after=True)
    )


def _same_form(parent: Mechanism[Any], mechanism: Mechanism[Any]) -> bool:
    one, other = parent.guarantee, mechanism.guarantee
    return type(parent) is type(mechanism) and (
        bool(one.delta),
        one.user_level,
        one.intrusion,
    ) == (bool(other.delta), other.user_level, other.intrusion)


def other_cases(mechanism: Mechanism[Any], runs: int) -> Iterator[Case]:
    """The mechanism with other sizes and parameters, at the same δ, and a smaller ε for few runs.

    Parameters
    ----------
    mechanism : Mechanism
        The registered mechanism, in the form that is audited.
    runs : int
        The number of runs of its usual cases.
    """
    for shape in SHAPES:
        yield from _case(mechanism, shape, {}, runs)
    more = list(PARAMETERS.get(mechanism.name, ()))
    if "histogram" in {each.name for each in dataclasses.fields(mechanism)}:
        more += [{"histogram": cls()} for name, cls in HISTOGRAMS.items() if name != "plain"]
    if isinstance(mechanism, PanPrivate) and mechanism.in_parts:
        yield from _announced(mechanism, runs)
    for parameters in more:
        shape = CaseShape(", ".join(f"{name}={value}" for name, value in parameters.items()), 2, 4)
        yield from _case(mechanism, shape, parameters, runs)


def _announced(mechanism: PanPrivate, runs: int) -> Iterator[Case]:
    """Looks that the run is told of, when a part of a unit has arrived."""
    told = replace(mechanism, intrusion="announced")
    base = np.zeros((told.window + 1, 2), np.int64)
    still = with_person("still", base, 1, told.window, told.contribution)
    for moment in LOOKS[:3]:
        pair = looked_at(still, moment=moment, last=True)
        assert pair.look is not None
        pair = replace(
            pair, name=f"{pair.name}, announced", look=replace(pair.look, announced=True)
        )
        many = _runs(told, pair, runs, plain=True)
        made = _with_less(told, many)
        promise = made.guarantee
        yield Case(made, pair, promise.epsilon, promise.window, promise.delta, runs=many)


def _case(
    mechanism: Mechanism[Any], shape: CaseShape, more: Mapping[str, Any], runs: int
) -> Iterator[Case]:
    """One case; none if the mechanism refuses the configuration, which depends on no data."""
    user_level = mechanism.guarantee.user_level
    units = mechanism.window + (1 if user_level else shape.beyond)
    domain = _deep(shape.keys) if shape.deep else None
    plain = domain is None and not shape.restart
    first = 1 if user_level else units - mechanism.window + 1
    stay = units if user_level else mechanism.window
    pair = with_person(shape.name, _stream(units, shape.keys), first, stay, shape.contribution)
    try:
        made = replace(mechanism, contribution=shape.contribution, **more)
        many = _runs(made, pair, runs, plain=plain)
        made = _with_less(made, many)
        made.run(Domain.of(shape.keys) if domain is None else domain)
    except (ConfigurationError, NoiseError):
        return
    promise = made.guarantee
    yield Case(
        made,
        pair,
        promise.epsilon,
        promise.window,
        promise.delta,
        domain,
        restart=units // 2 if shape.restart else 0,
        runs=many,
    )


def _with_less(mechanism: Mechanism[Any], runs: int) -> Mechanism[Any]:
    """The mechanism, with a smaller ε if so few runs could convict nothing at its own."""
    promise = mechanism.guarantee
    for epsilon in (promise.epsilon, *LESS_EPSILON):
        if epsilon <= promise.epsilon and can_convict(
            float(epsilon), runs // 2, confidence=SURE, delta=float(promise.delta)
        ):
            return replace(mechanism, epsilon=epsilon)
    return mechanism


def _runs(mechanism: Mechanism[Any], pair: Pair, runs: int, *, plain: bool) -> int:
    """Half of the usual number of runs, and fewer on larger streams."""
    as_keys = plain and mechanism.by_key and pair.look is None
    if mechanism.by_key and not as_keys:
        runs = max(LEAST_RUNS, runs // KEYS_PER_RUN)
    many = runs if as_keys else min(runs, ONE_BY_ONE)
    size = pair.units * (pair.keys if many > ONE_BY_ONE else 1 + pair.keys // USUAL_SIZE)
    usual = USUAL_SIZE if many > ONE_BY_ONE else USUAL_SIZE // 2
    return max(min(LEAST_RUNS, runs), many // 2 * usual // max(size, usual))


def _stream(units: int, keys: int) -> IntArray:
    """Counts that stand still, and leap when the person may be there."""
    base = np.full((units, keys), 3, np.int64)
    base[-1] += FAR
    return base


def _deep(keys: int) -> Hierarchy:
    """Keys at depths 1 to 6, all below one path."""
    return Hierarchy.of(
        {f"key {key + 1}": tuple(f"n{level}" for level in range(key % 6)) for key in range(keys)}
    )
