"""Filter the releases of any mechanism, one unit after the other.

The result is a function of releases and public settings, so it costs no budget. Memory and time per
unit do not grow with the number of units.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np

from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.core.calendar import Calendar
from penstock.core.consistency import make_consistent
from penstock.core.domain import Domain
from penstock.core.durations import periods_of
from penstock.core.error_bounds import variance
from penstock.core.errors import ConfigurationError, InputError, NotCoveredError
from penstock.core.hierarchy import Nodes
from penstock.core.released import DEVIATION, Released
from penstock.core.weights import UNIT
from penstock.filters.common_factor import PHASE_VARIANCE
from penstock.filters.observation import FilterSettings, Observation, StreamKind
from penstock.filters.report import Estimate, Point
from penstock.filters.tide import TideFilter

NOISY, START = "noisy", "start"

CONFIDENCE = "0.9"
"""The confidence of intervals around filtered numbers, unless another one is asked for."""

NOTE = (
    "Computed from the releases by a filter: post-processing, which costs no privacy budget. "
    "Intervals are for the counts themselves, as the filter believes."
)

EVENT_LEVEL_LONGEST, LEAST_LONGEST = 1024, 8
"""As in `tide`: the longest block at event level, and in the shortest window."""

LEAST_KEYS_OF_TOTAL = 4
"""Fewer keys have no total: most of its noise would be that of each single key."""

VISIBLE = 4.0
"""Totals are read as soon as their mean is this many standard deviations of one of them. The sum of
a key is visible above so many of its own."""


HELD_UNITS, HELD_BELOW = 24, 0.3
"""While totals are not visible, keys below HELD_BELOW standard deviations of a unit's noise are
added up over so many units, or until their sum is VISIBLE: the filter learns more from it than from
single units."""


@dataclass(frozen=True, kw_only=True)
class FilterChoice:
    """The public settings of a filter.

    Parameters
    ----------
    periods : tuple of int
        The lengths of the stream's seasons in units, the shortest first. Default: none.
    kind : "flow" or "stock"
        Whether counts are events of a unit, or what is present in it. Default: "flow".
    point : "median" or "mean"
        The number to report. Medians have the least absolute error. Means add up: use them for
        sums over keys or units. Default: "median".

    >>> FilterChoice(periods=(24, 168)).facts["periods"]
    [24, 168]
    """

    periods: tuple[int, ...] = ()
    kind: StreamKind = "flow"
    point: Point = "median"

    @classmethod
    def of(
        cls,
        periods: int | str | Iterable[int | str] = (),
        kind: str = "flow",
        point: str = "median",
        *,
        calendar: Calendar | None = None,
    ) -> FilterChoice:
        """The settings, checked. Durations need the calendar of the units.

        >>> FilterChoice.of("1d", calendar=Calendar(every="1h", origin="2026-01-01")).periods
        (24,)
        """
        several = (periods,) if isinstance(periods, (int, str)) else tuple(periods)
        for name, value, known in (
            ("kind", kind, get_args(StreamKind)),
            ("point", point, get_args(Point)),
        ):
            if value not in known:
                raise ConfigurationError(
                    f"{name} must be one of {', '.join(known)}, not {value!r}.", parameter=name
                )
        found: dict[str, Any] = {"kind": kind, "point": point}
        return cls(periods=periods_of(several, calendar, name="periods"), **found)

    @property
    def facts(self) -> Mapping[str, Any]:
        """The settings for metadata. They say that the filter costs nothing."""
        return {
            "periods": list(self.periods),
            "kind": self.kind,
            "point": self.point,
            "confidence": CONFIDENCE,
            "epsilon": "0",
            "note": NOTE,
        }


class ReleaseFilter:
    """Makes of each release an estimate of the counts of its unit, from all releases so far.

    A release that repeats an earlier one is no new observation. A mean or sum over several units is
    an observation of all of them. Releases of a filter, such as those of `tide`, are left alone.
    Means of the nodes of a hierarchy add up.

    Parameters
    ----------
    domain : Domain
        The keys of the releases.
    choice : FilterChoice
        The settings.

    >>> from penstock import Uniform
    >>> run = Uniform(epsilon="1", window=24).run(["north", "south"])
    >>> follow = ReleaseFilter(run.released, FilterChoice(point="mean"))
    >>> release = follow.step(run.step([90, 3]))
    >>> release.kind, release.guarantee, follow.unit
    ('filtered', Guarantee(epsilon=1, window=24), 1)
    """

    def __init__(self, domain: Domain, choice: FilterChoice) -> None:
        self.choice = choice
        self.unit = 0
        """The last unit; 0 before the first."""
        self._keys = domain.size
        self._tree = domain.tree if isinstance(domain, Nodes) else None
        self._roots = None if self._tree is None else np.flatnonzero(self._tree.parents < 0)
        self._filter: TideFilter | None = None
        self._waited = 0
        self._noise = np.ones(domain.size)
        self._last: Released | None = None
        self._phases = np.zeros(choice.periods[0] if choice.periods else 1, np.bool_)
        self._totals, self._totals_sum, self._visible = 0, 0.0, False
        self._held = np.zeros(domain.size, np.int64)
        self._held_sums, self._held_noise = np.zeros(domain.size), np.zeros(domain.size)

    def step(self, release: Released) -> Released:
        """Take the release of the next unit, and return what the filter makes of it.

        Parameters
        ----------
        release : Released
            The release, as the mechanism made it.
        """
        if self.unit and release.unit != self.unit + 1:
            raise InputError(
                f"unit {release.unit} does not follow unit {self.unit}: a filter takes units in "
                "order. Nothing was filtered."
            )
        if release.kind == "filtered":
            self.unit = release.unit
            return release
        fresh, sums, units, noise = self._observed(release)
        self.unit = release.unit
        np.copyto(self._noise, noise, where=fresh)
        if self._filter is None:
            if not np.isfinite(noise).any():
                self._waited += 1
                return _nothing(release)
            self._filter = self._begun(release, noise)
        total, total_noise = self._total(fresh, sums, units)
        fresh, sums, units, noise = self._added_up(fresh, sums, units)
        seen = Observation(
            unit=release.unit,
            fresh=fresh,
            sums=sums,
            units=units,
            noise=noise,
            next_noise=0.0,
            total=total,
            total_noise=total_noise,
        )
        estimate = self._with_unseen_season(self._filter.step(seen), seen)
        if self._tree is not None and self.choice.point == "mean":
            variances = estimate.variance.astype(np.float64)
            mean = make_consistent(self._tree, estimate.mean, variances)
            estimate = replace(estimate, mean=mean)
        counted = self.choice.kind == "flow"
        return estimate.released(release, self.choice.point, counted=counted)

    def _begun(self, release: Released, noise: FloatArray) -> TideFilter:
        """The filter before the first unit with numbers. It knows how many units came before."""
        window, keys = release.guarantee.window, self._keys
        longest = EVENT_LEVEL_LONGEST if window == 1 else max(window, LEAST_LONGEST)
        usual = np.where(np.isfinite(noise), noise, noise[np.isfinite(noise)].max())
        self._noise = usual.astype(np.float64)
        begun = TideFilter.nothing(
            FilterSettings(
                keys=keys,
                periods=self.choice.periods,
                kind=self.choice.kind,
                longest=longest,
                total_noise=float(self._of_total(usual)) if self._has_total else None,
                law="gaussian" if release.guarantee.delta else "laplace",
                chooses_lengths=False,
            )
        )
        begun.age += self._waited
        begun.plain += self._waited
        begun.seasonal += self._waited
        return begun

    def _with_unseen_season(self, estimate: Estimate, seen: Observation) -> Estimate:
        """The estimate, less certain in phases of the season that no release has shown yet."""
        phases = len(self._phases)
        here = (seen.unit - 1) % phases
        self._phases[here] |= bool((seen.fresh & (seen.units < phases)).any())
        if phases == 1 or self._phases[here]:
            return estimate
        unseen = PHASE_VARIANCE * np.square(estimate.mean)
        return replace(estimate, variance=estimate.variance + unseen)

    @property
    def _has_total(self) -> bool:
        """Whether the sum over all keys, or over the roots, is read as a total."""
        return self._keys >= LEAST_KEYS_OF_TOTAL and self.choice.kind == "flow"

    def _of_total(self, values: FloatArray) -> float:
        return float((values if self._roots is None else values[self._roots]).sum())

    def _total(
        self, fresh: BoolArray, sums: FloatArray, units: IntArray
    ) -> tuple[float | None, float]:
        """The total of this unit and its noise, if it is fresh and totals stand out of noise."""
        roots = slice(None) if self._roots is None else self._roots
        if not self._has_total or not (fresh[roots] & (units[roots] == 1)).all():
            return None, 0.0
        total, noise = self._of_total(sums), self._of_total(self._noise)
        self._totals += 1
        self._totals_sum += total
        self._visible |= self._totals_sum > VISIBLE * math.sqrt(noise) * self._totals
        return (total, noise) if self._visible else (None, 0.0)

    def _added_up(
        self, fresh: BoolArray, sums: FloatArray, units: IntArray
    ) -> tuple[BoolArray, FloatArray, IntArray, FloatArray]:
        """The observations, with numbers of single units that are mostly noise added up.

        Nothing is held where a unit was not read: a sum must cover all units since the last one.
        """
        assert self._filter is not None
        noise = self._noise.copy()
        if not (fresh & (units == 1)).all() or self.choice.kind == "stock":
            self._held[:] = 0
            self._held_sums[:] = 0
            self._held_noise[:] = 0
            return fresh, sums, units, noise
        self._held += 1
        self._held_sums += sums
        self._held_noise += noise
        models = self._filter.models
        out = (self._held >= HELD_UNITS) | (models.seen == 0) | self._visible
        out |= models.mean > HELD_BELOW * np.sqrt(noise)
        out |= self._held_sums > VISIBLE * np.sqrt(self._held_noise)
        found = out, self._held_sums.copy(), self._held.copy(), self._held_noise.copy()
        self._held[out] = 0
        self._held_sums[out] = 0
        self._held_noise[out] = 0
        return found

    def _observed(self, release: Released) -> tuple[BoolArray, FloatArray, IntArray, FloatArray]:
        """Fresh keys, their noisy sums, over how many units, and the variance of their noise."""
        shape = release.value.shape
        one = np.ones(shape, np.int64)
        if NOISY in release.public:
            scale = np.broadcast_to(release.scale.floats(), shape)
            drawn = np.broadcast_to(variance("sum", scale, 1, UNIT), shape)
            # Only a whole repeat counts: a mechanism may have read keys that it leaves out.
            fresh = np.isfinite(drawn) & (release.repeated is not True)
            return fresh, release.public[NOISY].astype(np.float64), one, drawn
        fresh = np.isfinite(release.variance) & ~np.broadcast_to(release.repeated, shape)
        if release.weights.kind == "prefix":
            return self._difference(release, fresh)
        if release.weights.kind == "window":
            length = release.weights.length
            fresh = fresh & (release.unit % length == 0)  # windows that do not overlap
            return fresh, release.estimate, one * length, release.variance
        if release.weights != UNIT:
            raise NotCoveredError(
                f"unit {release.unit}: this log holds {release.weights.in_words()}, and counts of "
                "single units cannot be computed from it. Nothing was filtered."
            )
        if START in release.public and release.kind in ("sum", "gaussian", "rounded"):
            units = np.broadcast_to(np.asarray(release.divisor, np.int64), shape)
            many = np.float64(release.divisor)
            return fresh, release.estimate * many, units, release.variance * np.square(many)
        return fresh, release.estimate, one, release.variance

    def _difference(
        self, release: Released, fresh: BoolArray
    ) -> tuple[BoolArray, FloatArray, IntArray, FloatArray]:
        """What has been added to the sum of all units since the last one that was read."""
        last, shape = self._last, release.value.shape
        if not fresh.all():
            return (
                np.zeros(shape, np.bool_),
                release.estimate,
                np.ones(shape, np.int64),
                (release.variance),
            )
        self._last = release
        if last is None:
            units = np.full(shape, release.unit)
            return fresh, release.estimate, units, release.variance
        added, units = release.estimate - last.estimate, np.full(shape, release.unit - last.unit)
        return fresh, added, units, release.variance + last.variance


def _nothing(release: Released) -> Released:
    """The state before the first number: zeros with an infinite variance."""
    zeros = np.zeros(release.value.shape, np.int64)
    return replace(
        release,
        value=zeros,
        repeated=False,
        divisor=1,
        layers=1,
        public={DEVIATION: zeros},
        kind="filtered",
        weights=UNIT,
    )
