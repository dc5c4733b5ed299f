"""Public counts from past releases: the noise is averaged away as far as the releases allow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from penstock.core.arrays import BoolArray, FloatArray
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.core.released import Released
from penstock.core.weights import UNIT
from penstock.engine.plan.public_counts import PublicCounts, StatedFacts, scattered
from penstock.engine.store import Reader
from penstock.private.sources.base import arrow

_HALVES = (1, 3, 7, 15, 31, 63)
"""Half lengths of the moving averages that are tried for each key."""


def counts_of_releases(
    reader: Reader, name: str, *, domain: Domain, every: str, facts: StatedFacts
) -> PublicCounts:
    """Public counts like those behind the releases of a series."""
    series = reader.series(name)
    if series.calendar is not None and series.calendar.every != every:
        raise ConfigurationError(
            f"releases: series {name!r} has units of {series.calendar.every}, and the plan is for "
            f"units of {every}."
        )
    releases = list(reader.releases(name))
    if len(releases) < 2 or any(each.weights != UNIT for each in releases):
        raise ConfigurationError(
            f"releases: series {name!r} must have at least two units, released unit by unit."
        )
    fresh = np.array([_fresh(each) for each in releases])
    return _like(
        [each.estimate for each in releases],
        [each.variance for each in releases],
        fresh,
        keys=series.domain.keys,
        domain=domain,
        every=every,
        facts=facts,
        words=f"The counts are like the releases of {name!r}",
    )


def counts_of_table(
    path: Path, *, domain: Domain, every: str, facts: StatedFacts, series: str | None = None
) -> PublicCounts:
    """Public counts like those behind a table of `penstock export`."""
    if path.suffix == ".parquet":
        table = arrow("pyarrow.parquet").read_table(path)
    else:
        table = arrow("pyarrow.csv").read_csv(path)
    needed = ("series", "unit", "key", "value", "deviation", "repeated")
    if missing := [name for name in needed if name not in table.column_names]:
        raise ConfigurationError(
            f"releases: {path.name} has no column {missing[0]}. Give a store, or a table of "
            "penstock export (.csv, .parquet)."
        )
    columns = {name: np.array(table.column(name).to_pylist(), object) for name in needed}
    names = tuple(dict.fromkeys(columns["series"].tolist()))
    chosen = series if series in names else names[0] if len(names) == 1 else None
    if chosen is None:
        raise ConfigurationError(
            f"releases: {path.name} has the series {', '.join(map(str, names)) or 'none'}, and "
            f"not {series!r}: export only the one that this view is like."
        )
    of = columns["series"] == chosen
    units, rows = np.unique(columns["unit"][of].astype(np.int64), return_inverse=True)
    keys = tuple(dict.fromkeys(map(str, columns["key"][of].tolist())))
    place = {key: at for at, key in enumerate(keys)}
    at = rows, np.array([place[str(key)] for key in columns["key"][of]])
    shape = len(units), len(keys)
    value, deviation, fresh = np.zeros(shape), np.full(shape, np.inf), np.zeros(shape, np.bool_)
    value[at] = columns["value"][of].astype(np.float64)
    known = np.array([each is not None for each in columns["deviation"][of]])
    deviation[at] = np.where(known, columns["deviation"][of], np.inf).astype(np.float64)
    fresh[at] = known & ~_flags(columns["repeated"][of])
    return _like(
        value,
        np.square(deviation),
        fresh,
        keys=keys,
        domain=domain,
        every=every,
        facts=facts,
        words=f"The counts are like the releases of {chosen!r} in {path.name}",
    )


def _flags(values: Iterable[object]) -> BoolArray:
    return np.array([str(value).lower() in ("true", "1") for value in values], np.bool_)


def _fresh(release: Released) -> BoolArray:
    return np.asarray(
        np.isfinite(release.variance) & ~np.broadcast_to(release.repeated, release.value.shape)
    )


def _like(
    values: Sequence[FloatArray] | FloatArray,
    variances: Sequence[FloatArray] | FloatArray,
    fresh: BoolArray,
    *,
    keys: tuple[str, ...],
    domain: Domain,
    every: str,
    facts: StatedFacts,
    words: str,
) -> PublicCounts:
    value, variance = np.asarray(values, np.float64), np.asarray(variances, np.float64)
    notes: tuple[str, ...] = ()
    shared = [key for key in domain.keys if key in set(keys)]
    if len(shared) == domain.size:
        place = {key: at for at, key in enumerate(keys)}
        chosen = [place[key] for key in domain.keys]
        value, variance, fresh = value[:, chosen], variance[:, chosen], fresh[:, chosen]
        over = domain
    else:
        over = Domain(keys)
        notes = ("The releases have other keys than the pipeline. Their keys stand in.",)
    means = np.maximum(smoothed(value, variance, fresh, facts.periods), 0)
    return PublicCounts(
        counts=scattered(means, facts.kind),
        domain=over,
        every=every,
        facts=facts,
        words=f"{words}: their noise was averaged away where that helps, and counts were drawn at "
        "random around the result.",
        notes=notes,
    )


def smoothed(
    value: FloatArray, variance: FloatArray, fresh: BoolArray, periods: Sequence[int] = ()
) -> FloatArray:
    """For each key the average with the least estimated squared error.

    An average without the unit itself predicts the release with the squared error of the average
    plus the variance of the noise. So the error of an average can be estimated from releases.

    >>> noisy = np.array([[9.0], [11.0], [10.0], [8.0], [12.0], [10.0]])
    >>> ones = np.ones((6, 1))
    >>> smoothed(noisy, 4 * ones, ones > 0).round(1).ravel().tolist()
    [9.5, 10.0, 10.0, 10.0, 10.2, 10.0]
    """
    weight = fresh.astype(np.float64)
    seen = np.maximum(weight.sum(axis=0), 1)
    noise = np.where(fresh, variance, 0).sum(axis=0) / seen
    level = (value * weight).sum(axis=0) / seen
    best, least = np.where(fresh, value, level), noise.copy()
    for total, number in _sums(value * weight, weight, periods):
        others = np.maximum(number - weight, 1e-9)
        predicted = np.where(number > weight, (total - value * weight) / others, level)
        miss = (weight * np.square(value - predicted)).sum(axis=0) / seen - noise
        average = np.where(number > 0, total / np.maximum(number, 1e-9), level)
        best = np.where(miss < least, average, best)
        least = np.minimum(miss, least)
    return best


def _sums(
    value: FloatArray, weight: FloatArray, periods: Sequence[int]
) -> Iterable[tuple[FloatArray, FloatArray]]:
    """Sums of values and of weights: over the units near each, and over those of its phase."""
    units = len(value)
    for half in (*_HALVES, units):
        first = np.maximum(np.arange(units) - half, 0)
        last = np.minimum(np.arange(units) + half + 1, units)
        yield tuple(_between(each, first, last) for each in (value, weight))  # type: ignore[misc]
    for period in periods:
        if units >= 2 * period:
            phase = np.arange(units) % period
            found = []
            for each in (value, weight):
                sums = np.zeros((period, each.shape[1]))
                np.add.at(sums, phase, each)
                found.append(sums[phase])
            yield found[0], found[1]


def _between(each: FloatArray, first: FloatArray, last: FloatArray) -> FloatArray:
    before = np.concatenate([np.zeros((1, each.shape[1])), np.cumsum(each, axis=0)])
    return np.asarray(before[last] - before[first])
