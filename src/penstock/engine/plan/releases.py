"""Public counts from past releases: their noise is taken out as far as that is possible."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np

from penstock.core.arrays import BoolArray, FloatArray
from penstock.core.domain import Domain
from penstock.core.error_bounds import Kind
from penstock.core.error_bounds import variance as error_variance
from penstock.core.errors import ConfigurationError
from penstock.core.released import Released
from penstock.core.weights import UNIT
from penstock.engine.plan.judgement import number
from penstock.engine.plan.public_counts import PublicCounts, StatedFacts, scattered
from penstock.engine.store import Reader
from penstock.private.mechanisms.tide import SUMS, UNITS
from penstock.private.sources.base import arrow
from penstock.released.release_filter import FilterChoice, ReleaseFilter

_LEAST_LEVEL = 0.75
"""A filter's numbers are used if their mean is at least this share of the releases' mean, or the
other way round."""

_HALVES = (1, 3, 7, 15, 31, 63)
"""Half lengths of the moving averages that are tried for each key."""


def counts_of_releases(
    reader: Reader,
    name: str,
    *,
    domain: Domain,
    every: str,
    facts: StatedFacts,
    typical: Fraction | None = None,
) -> PublicCounts:
    """Public counts like those behind the releases of a series, with the mean `typical`, if any."""
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
    return _like(
        without_noise(releases, series.domain, facts),
        keys=series.domain.keys,
        domain=domain,
        every=every,
        facts=facts,
        typical=typical,
        words=f"The counts are like the releases of {name!r}",
    )


def counts_of_table(
    path: Path,
    *,
    domain: Domain,
    every: str,
    facts: StatedFacts,
    series: str | None = None,
    typical: Fraction | None = None,
) -> PublicCounts:
    """Public counts like those behind a table of `penstock export`.

    They have the mean `typical`, if one is given.
    """
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
        smoothed(value, np.square(deviation), fresh, facts.periods),
        keys=keys,
        domain=domain,
        every=every,
        facts=facts,
        typical=typical,
        words=f"The counts are like the releases of {chosen!r} in {path.name}",
    )


def _flags(values: Iterable[object]) -> BoolArray:
    return np.array([str(value).lower() in ("true", "1") for value in values], np.bool_)


def _like(
    means: FloatArray,
    *,
    keys: tuple[str, ...],
    domain: Domain,
    every: str,
    facts: StatedFacts,
    typical: Fraction | None,
    words: str,
) -> PublicCounts:
    notes: tuple[str, ...] = ()
    place = {key: at for at, key in enumerate(keys)}
    if all(key in place for key in domain.keys):
        means = means[:, [place[key] for key in domain.keys]]
    else:
        domain = Domain(keys)
        notes = ("The releases have other keys than the pipeline. Their keys stand in.",)
    means = np.maximum(means, 0)
    size = ""
    if typical is not None and means.any():
        mean = float(means.mean())
        means = means * (float(typical) / mean)
        size = (
            f" The result has a mean of {number(mean)} per key and unit. It was scaled to the "
            f"typical count, {number(float(typical))} by your statement."
        )
    return PublicCounts(
        counts=scattered(means, facts.kind),
        domain=domain,
        every=every,
        facts=facts,
        words=f"{words}: their noise was taken out as far as that is possible, and counts were "
        f"drawn at random around the result.{size}",
        notes=notes,
    )


def without_noise(releases: Sequence[Released], domain: Domain, facts: StatedFacts) -> FloatArray:
    """The counts behind releases, as a filter believes, or moving averages.

    A filter is better where a mechanism chooses by the data when to publish: averages over fresh
    numbers would then show busy times only. On sparse streams with much noise it may lose events,
    so its mean must be near that of the releases.

    Parameters
    ----------
    releases : sequence of Released
        The releases of all units.
    domain : Domain
        The domain of their numbers.
    facts : StatedFacts
        What is stated about the stream.
    """
    choice = FilterChoice(periods=facts.periods, kind=facts.kind, point="mean")
    follow = ReleaseFilter(domain, choice)
    found = np.array([follow.step(each).estimate for each in releases])
    if releases[0].kind == "filtered":
        return _with_all_events(found, releases) if facts.kind == "flow" else found
    value = np.array([each.estimate for each in releases])
    variance = np.array([each.variance for each in releases])
    known = np.isfinite(variance)
    published = float(value[known].mean()) if known.any() else 0.0
    if _LEAST_LEVEL * published <= found.mean() <= published / _LEAST_LEVEL:
        return found
    repeated = [np.broadcast_to(each.repeated, each.value.shape) for each in releases]
    return smoothed(value, variance, known & ~np.array(repeated), facts.periods)


def _with_all_events(found: FloatArray, releases: Sequence[Released]) -> FloatArray:
    """The medians of `tide`, with the events that they leave out and its block sums have.

    The blocks of a key follow each other without gaps. What its sums have more, as far as it is no
    noise, is spread over all units like the total of all keys.
    """
    units = np.array([each.public.get(UNITS, ()) for each in releases], np.int64)
    if units.shape != found.shape:
        return found  # the nodes of a hierarchy are means, and add up
    covered = units.sum(axis=0)
    until = np.concatenate([np.zeros((1, found.shape[1])), np.cumsum(found, axis=0)])
    inside = until[covered, np.arange(found.shape[1])]
    more = (sum(each.public[SUMS] for each in releases) - inside) / np.maximum(covered, 1)
    kind: Kind = "rounded" if releases[0].guarantee.delta else "sum"
    drawn = np.array(
        [
            np.broadcast_to(error_variance(kind, each.scale.floats(), 1, UNIT), each.value.shape)
            for each in releases
        ]
    )
    noise = np.where(units > 0, drawn, 0).sum(axis=0) / np.maximum(covered, 1) ** 2
    common = more.mean()
    between = max(float((np.square(more - common) - noise).mean()), 0.0)
    more = common + between / np.maximum(between + noise, 1e-9) * (more - common)
    total = found.sum(axis=1)
    shape = total / total.mean() if total.any() else np.ones(len(found))
    return np.asarray(found + np.outer(shape, more))


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
    average, predicted = best_average(value, weight, periods)
    missed = (weight * np.square(value - predicted)).sum(axis=0) / seen
    level = (value * weight).sum(axis=0) / seen
    return np.where(missed - noise < noise, average, np.where(fresh, value, level))


def best_average(
    value: FloatArray, weight: FloatArray, periods: Sequence[int] = ()
) -> tuple[FloatArray, FloatArray]:
    """For each key the average that predicts its numbers best, with and without the unit itself.

    Averages over the units near each one are tried, and over the units of the same phase.

    Parameters
    ----------
    value : FloatArray
        One row per unit, one column per key.
    weight : FloatArray
        1 where a number is to be used, and 0 elsewhere.
    periods : sequence of int
        The seasons, in units. Default: none.

    Returns
    -------
    average : FloatArray
        The average at each unit and key.
    predicted : FloatArray
        The same average without the number of the unit itself.
    """
    seen = np.maximum(weight.sum(axis=0), 1)
    level = (value * weight).sum(axis=0) / seen
    best = found = np.broadcast_to(level, value.shape)
    least = np.full(value.shape[1], np.inf)
    for total, used in _sums(value * weight, weight, periods):
        others = np.maximum(used - weight, 1e-9)
        predicted = np.where(used > weight, (total - value * weight) / others, level)
        missed = (weight * np.square(value - predicted)).sum(axis=0) / seen
        average = np.where(used > 0, total / np.maximum(used, 1e-9), level)
        better = missed < least
        best, found = np.where(better, average, best), np.where(better, predicted, found)
        least = np.minimum(missed, least)
    return best, found


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
