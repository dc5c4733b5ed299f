"""The configurations in which a mechanism is replayed: promises, keys, lengths and parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError, NoiseError
from penstock.core.hierarchy import Hierarchy
from penstock.lab.audit.replay.neighbours import random_pair
from penstock.lab.audit.replay.replayed_pair import ReplayTrial
from penstock.lab.audit.subjects import Subject
from penstock.private.histograms.registry import HISTOGRAMS
from penstock.private.mechanisms.base import Mechanism


@dataclass(frozen=True)
class TrialShape:
    """How large a trial is: from and to how many units, keys and units of the window.

    Parameters
    ----------
    name : str
        What it is called.
    window, beyond, keys : (int, int)
        The least and the most units of the window, units beyond the window, and keys.
    user_level : bool
        Whether the horizon is the window. Default: False.
    everywhere : bool
        Whether there are as many keys as units, and the person is in all of them. Default: False.
    """

    name: str
    window: tuple[int, int]
    beyond: tuple[int, int]
    keys: tuple[int, int]
    user_level: bool = False
    everywhere: bool = False


SHAPES = (
    TrialShape("small", (1, 4), (0, 4), (1, 4)),
    TrialShape("a day", (24, 24), (0, 30), (1, 4)),
    TrialShape("every unit and every key", (66, 100), (0, 0), (66, 100), everywhere=True),
    TrialShape("wide", (1, 5), (1, 3), (65, 300)),
    TrialShape("long", (64, 130), (0, 120), (1, 3)),
    TrialShape("user level", (2, 12), (0, 3), (1, 6), user_level=True),
)
"""Sizes that are tried in turn. The third lets the person be in every unit and in every key."""

LARGE = 40
"""Units from which a trial counts as large. A slow mechanism gets fewer of these."""

_HISTOGRAMS: tuple[dict[str, Any], ...] = tuple({"histogram": cls()} for cls in HISTOGRAMS.values())

VARIED: Mapping[str, tuple[dict[str, Any], ...]] = {
    "sample": _HISTOGRAMS,
    "fixed": (*({"every": 2, **each} for each in _HISTOGRAMS), {"every": 3}),
    "dsft": tuple({"population": 20, **each} for each in _HISTOGRAMS),
    "dsat": tuple({"population": 20, **each} for each in _HISTOGRAMS),
    "rg": ({}, {"keep": "1/2"}, {"keep": "1/10", "watch": "1/2"}, {"longest": 4}, {"caution": 0}),
    "bd_grouped": ({"groups": 2}, {"groups": 3, "regroup": 2}, {}),
    "ba_grouped": ({"groups": 2}, {"groups": 3, "regroup": 2}, {}),
    "bd_pan": ({}, {"intrusion": "between"}, {"buckets": 2}),
    "ba_pan": ({}, {"intrusion": "between"}, {"buckets": 2}),
    "bs": ({"over": 2}, {}),
    "pegasus": ({}, {"smoother": "mean"}, {"smoother": "james_stein", "theta": 5}),
    "hs_pegasus": ({}, {"fit": False, "theta": 5}),
    "phs_pegasus": ({}, {"rule": "noisy"}, {"kappa": 2, "beta": 0}, {"fill": "share"}),
    "sw_tree": ({"span": 2}, {"span": 9}, {"span": 32}),
    "kary": ({"span": 2}, {"span": 9, "arity": 3}, {"span": 32}),
    "toeplitz": ({"span": 2}, {"span": 12}, {"weights": "prefix", "epoch": 8}),
    "eshp": ({"span": 2}, {"grouping": False}, {"replacement": True}),
    "fast": ({"sampled": "1/2"}, {}),
    "fast_w": ({"sampled": "1/2"}, {}),
    "tide": ({}, {"periods": (4,)}, {"share_total": 0}, {"kind": "stock"}, {"nodes": True}),
}
"""Parameters that are tried in turn, by mechanism. Others are tried with their defaults."""


def own_trials(subject: Subject) -> list[ReplayTrial]:
    """The subject as it is configured, on its own pairs in both orders.

    Parameters
    ----------
    subject : Subject
        The subject.
    """
    return [
        ReplayTrial(subject.mechanism, Domain.of(each.keys), each, subject.claimed, subject.delta)
        for pair in subject.pairs
        for each in (pair, pair.swapped())
    ]


def other_trials(subject: Subject, rng: np.random.Generator) -> Iterator[ReplayTrial]:
    """Endless trials of the mechanism in other configurations, on random pairs, with restarts.

    Parameters
    ----------
    subject : Subject
        The subject.
    rng : Generator
        The source of the choices.
    """
    known = type(subject.mechanism).name if hasattr(type(subject.mechanism), "name") else ""
    sets = VARIED.get(known, ({},))
    refused = number = 0
    while refused < 200:
        shape, turn = SHAPES[number % len(SHAPES)], number + number // len(SHAPES)
        more = sets[turn % len(sets)]
        number += 1
        window = int(rng.integers(shape.window[0], shape.window[1] + 1))
        units = window + int(rng.integers(shape.beyond[0], shape.beyond[1] + 1))
        keys = int(rng.integers(shape.keys[0], shape.keys[1] + 1))
        keys = units if shape.everywhere else keys
        contribution = int(rng.integers(1, 4))
        mechanism = _configured(subject.mechanism, window, contribution, shape, more)
        domain = _domain(rng, keys)
        if mechanism is None or not _starts(mechanism, domain):
            refused += 1
            continue
        refused = 0
        stay = units if shape.user_level else window
        pair = random_pair(
            rng,
            units=units,
            keys=keys,
            window=stay,
            contribution=contribution,
            everywhere=shape.everywhere,
            replaced=bool(getattr(mechanism, "replacement", False)) and rng.random() < 0.7,
        )
        restarts = rng.integers(1, units + 1, int(rng.integers(0, 4))).tolist()
        promise = mechanism.guarantee
        yield ReplayTrial(
            mechanism, domain, pair, promise.epsilon, promise.delta, frozenset(restarts)
        )


def _configured(
    mechanism: Mechanism[Any],
    window: int,
    contribution: int,
    shape: TrialShape,
    more: Mapping[str, Any],
) -> Mechanism[Any] | None:
    """The mechanism in another configuration; None if it cannot be used so."""
    fields = {each.name for each in dataclasses.fields(mechanism)}
    wanted: dict[str, Any] = {"window": window, "contribution": contribution, **more}
    wanted["horizon"] = window if shape.user_level else None
    if "releases" in fields:
        wanted["releases"] = max(2 if shape.user_level else 1, window // 2)
    try:
        made = replace(mechanism, **{key: wanted[key] for key in wanted if key in fields})
        promise = made.guarantee
    except (ConfigurationError, NoiseError):
        return None
    same = (promise.window, promise.contribution) == (window, contribution)
    return made if same and promise.epsilon == mechanism.guarantee.epsilon else None


def _starts(mechanism: Mechanism[Any], domain: Domain) -> bool:
    """Whether the mechanism takes this domain. Refusals are its right and depend on no data."""
    try:
        mechanism.run(domain)
    except (ConfigurationError, NoiseError):
        return False
    return True


def _domain(rng: np.random.Generator, keys: int) -> Domain:
    """Plain keys, or keys of a deep and irregular hierarchy."""
    if rng.random() < 0.5:
        return Domain.of(keys)
    paths: dict[str, list[str]] = {}
    for key in range(keys):
        depth = int(rng.integers(0, 6))
        paths[f"key {key + 1}"] = [
            f"n{level}.{int(rng.integers(0, 2 + level))}" for level in range(depth)
        ]
    return Hierarchy.of(paths)
