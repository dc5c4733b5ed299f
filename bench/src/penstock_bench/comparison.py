"""One simulated city published by several mechanisms: `penstock lab city --compare`."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from penstock.budget.grid import Grid
from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.core.calendar import Calendar
from penstock.core.errors import ConfigurationError
from penstock.core.exact import Exact, positive
from penstock.private.mechanisms.base import Mechanism
from penstock.private.mechanisms.registry import MECHANISMS
from penstock.private.noise import Noise
from penstock_bench.comparison_page import Demo, MechanismTrack
from penstock_bench.simulated.city import ORIGIN, City

FLOOR = 10
"""Relative errors divide by the true count, or by this if it is larger."""


def build(
    city: City,
    *,
    hours: int = 336,
    epsilon: Exact = "1",
    window: int = 24,
    command: str = "",
    noise: Callable[[], Noise | None] = lambda: None,
    progress: Callable[[str, int, int], object] | None = None,
) -> Demo:
    """Publish the counts of the city by every mechanism and collect the data of the page.

    Pan-private forms are left out: they release the same as their plain forms. `noise` makes the
    noise of each run. Default: the system's. `progress` gets the mechanism, the hours done and the
    number of hours.
    """
    share = positive(epsilon, name="epsilon")
    mechanisms = [
        cls(epsilon=share, window=window) for cls in MECHANISMS.values() if cls.family == "w-event"
    ]
    if hours < 1:
        raise ConfigurationError(f"hours={hours}: a comparison has at least 1 hour.")
    truth = city.counts(hours)
    tracks = [
        publish(mechanism, city.keys, truth, noise=noise(), progress=progress)
        for mechanism in mechanisms
        if not mechanism.guarantee.intrusion
    ]
    mean = np.broadcast_to(truth.mean(axis=0), truth.shape)
    return Demo(
        title=f"{_span(hours)} in a city of {city.people:,} people",
        promise=mechanisms[0].guarantee.in_words(),
        epsilon=str(share),
        window=window,
        keys=city.keys,
        units=hours,
        calendar=Calendar(every="1h", origin=ORIGIN),
        truth=truth,
        tracks=tuple(sorted(tracks, key=lambda track: track.mae)),
        notes=tuple(city.notes(hours)),
        baselines=(
            ("All zeros", *errors(np.zeros(truth.shape), truth)),
            ("Each station's mean (not private)", *errors(mean, truth)),
        ),
        command=command,
        floor=FLOOR,
    )


def publish(
    mechanism: Mechanism[Any],
    keys: tuple[str, ...],
    truth: IntArray,
    *,
    noise: Noise | None = None,
    progress: Callable[[str, int, int], object] | None = None,
) -> MechanismTrack:
    """Run one mechanism on one stream: releases, intervals, and costs recomputed from the
    ledger."""
    run = mechanism.run(keys, noise=noise, record=True)
    released, low, high = (np.empty(truth.shape) for _ in range(3))
    fresh: BoolArray = np.empty(truth.shape, np.bool_)
    for hour, counts in enumerate(truth):
        out = run.step(counts)
        released[hour] = out.estimate
        low[hour], high[hour] = out.interval("0.95")
        fresh[hour] = ~np.asarray(out.repeated)
        if progress is not None:
            progress(mechanism.name, hour + 1, len(truth))
    low[~np.isfinite(low)] = high[~np.isfinite(high)] = np.nan  # before the first release of a key
    books = run.account()
    mae, mre = errors(released, truth)
    return MechanismTrack(
        mechanism=mechanism.name,
        title=_title(type(mechanism)),
        released=released,
        low=low,
        high=high,
        fresh=fresh,
        spent=_floats(books.numbers, mechanism),
        window_spent=_floats(books.windows, mechanism),
        mae=mae,
        mre=mre,
    )


def errors(estimate: FloatArray, truth: IntArray) -> tuple[float, float]:
    """The mean absolute and the mean relative error over all units and keys.

    Relative errors divide by at least `FLOOR`.

    >>> errors(np.array([[14.0, 2.0]]), np.array([[20, 0]]))
    (4.0, 0.25)
    """
    off = np.abs(estimate - truth)
    return float(off.mean()), float((off / np.maximum(truth, FLOOR)).mean())


def _floats(quanta: IntArray, mechanism: Mechanism[Any]) -> FloatArray:
    quantum = Grid.of(mechanism.guarantee).quantum
    return np.array([float(Fraction(int(each)) * quantum) for each in quanta])


def _title(cls: type) -> str:
    """The name of a class in words.

    >>> _title(MECHANISMS["ba"])
    'Budget absorption'
    """
    return re.sub(r"(?<!^)(?=[A-Z])", " ", cls.__name__).capitalize()


def _span(hours: int) -> str:
    """A length of time in whole weeks, days or hours.

    >>> _span(336), _span(24), _span(25)
    ('Two weeks', 'One day', '25 hours')
    """
    for size, name in ((168, "week"), (24, "day"), (1, "hour")):
        if hours % size == 0:
            many = hours // size
            words = {1: "One", 2: "Two", 3: "Three", 4: "Four"}
            return f"{words.get(many, f'{many:,}')} {name}{'s' if many > 1 else ''}"
    raise AssertionError
