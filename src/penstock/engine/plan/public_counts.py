"""Counts that may be looked at: a public sample, past releases, or counts made up from sentences.

Everything here is public by the statement of whoever gives it. The private source is never opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

import numpy as np

from penstock.core import durations
from penstock.core.arrays import FloatArray, IntArray
from penstock.core.calendar import Calendar
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.core.hierarchy import Hierarchy
from penstock.core.product import Product
from penstock.filters.observation import StreamKind
from penstock.private.noise import TestNoise

MAX_KEYS, MAX_UNITS, MAX_CELLS = 300, 1_000, 300_000
"""The most keys, units and counts that are simulated. More are thinned out, always in one way. Of
fewer units, more keys are simulated: as many as the counts allow.
"""

LEAST_UNITS, LEAST_WINDOWS = 120, 5
"""Made-up and repeated counts have at least this many units, and windows."""

_ORIGIN = "2024-01-01"
"""Units of every length may begin then."""

_SEED = 16
_GRID = 2**20
"""Draws of noise divided by it have a unit scale."""

_LARGE = 50.0
"""From this mean on, a Gaussian stands for a Poisson number."""


@dataclass(frozen=True, kw_only=True)
class StatedFacts:
    """What the user states about a stream. A mechanism takes it as parameters of these names.

    Parameters
    ----------
    periods : tuple of int
        The seasons, in units. Default: none.
    kind : "flow" or "stock"
        Whether counts are events of a unit, or what is present in it. It is never chosen by
        accuracy. Default: "flow".
    """

    periods: tuple[int, ...] = ()
    kind: StreamKind = "flow"


FLOW = StatedFacts()
"""A flow without seasons: what holds where nothing is stated."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicCounts:
    """Counts of past or similar units that anybody may see.

    Parameters
    ----------
    counts : IntArray
        One row per unit, one column per key.
    domain : Domain
        The keys.
    every : str
        The length of a unit.
    facts : StatedFacts
        What is stated about the stream. Default: no seasons, and a flow.
    words : str
        Where the counts come from, as a sentence.
    notes : tuple of str
        What the reader must know besides, such as that some keys were left out.
    """

    counts: IntArray
    domain: Domain
    every: str
    facts: StatedFacts = FLOW
    words: str = ""
    notes: tuple[str, ...] = ()

    @property
    def mean(self) -> float:
        """The mean count of a key and unit."""
        return float(self.counts.mean())

    def lengthened(self, window: int) -> PublicCounts:
        """At least `LEAST_WINDOWS` windows, if need be by repeating the units; a note says so.

        In its first windows a mechanism learns. Few units would show little else. Where the seasons
        allow it, whole seasons are repeated, so that phases stay as they are.
        """
        units, needed = len(self.counts), min(LEAST_WINDOWS * window, MAX_UNITS)
        if units >= needed:
            return self
        period = max((each for each in self.facts.periods if each <= units), default=1)
        whole = units // period * period
        order = np.arange(needed) % whole + units - whole
        note = (
            f"The {units:,} units are fewer than {LEAST_WINDOWS} windows. They are repeated up to "
            f"{needed:,} units."
        )
        return replace(self, counts=self.counts[order], notes=(*self.notes, note))

    def thinned(self, *, window: int = 1, most: int | None = None) -> PublicCounts:
        """At most `most` keys, evenly spread, and the newest units; a note says so.

        By default there are as many keys as the number of counts allows, after the units are
        lengthened for a window. Few keys would hide what the totals over all keys tell.
        """
        units, keys = self.counts.shape
        if most is None:
            longest = min(max(units, LEAST_WINDOWS * window), MAX_UNITS)
            most = max(MAX_KEYS, MAX_CELLS // longest)
        kept = min(keys, most)
        newest = min(units, MAX_UNITS, max(MAX_CELLS // kept, 1))
        if (kept, newest) == (keys, units):
            return self
        chosen = np.arange(kept, dtype=np.int64) * keys // kept
        note = (
            f"The simulation uses {kept:,} of {keys:,} keys, evenly spread, and the newest "
            f"{newest:,} of {units:,} units."
        )
        return replace(
            self,
            counts=np.ascontiguousarray(self.counts[units - newest :, chosen]),
            domain=_part(self.domain, chosen),
            notes=(*self.notes, note),
        )

    def merged(self, units: int, every: str) -> PublicCounts:
        """The same counts in units that are `units` times longer. A stock is seen at their ends."""
        whole = len(self.counts) // units
        parts = self.counts[: whole * units].reshape(whole, units, -1)
        counts = parts[:, -1] if self.facts.kind == "stock" else parts.sum(axis=1)
        periods = (period // units for period in self.facts.periods if period % units == 0)
        facts = replace(self.facts, periods=tuple(period for period in periods if period > 1))
        return replace(self, counts=counts, every=every, facts=facts)

    def grouped(self, names: Sequence[str], of: IntArray) -> PublicCounts:
        """The totals of groups of keys; `of` has the group of each key."""
        counts = np.zeros((len(self.counts), len(names)), np.int64)
        np.add.at(counts.T, of, self.counts.T)
        return replace(self, counts=counts, domain=Domain(tuple(names)))


def _part(domain: Domain, chosen: IntArray) -> Domain:
    """Some keys of a domain. Combinations of attributes become plain keys: they are not whole."""
    if len(chosen) == domain.size:
        return domain
    places = chosen.tolist()
    keys = tuple(domain.keys[place] for place in places)
    if isinstance(domain, Hierarchy):
        return Hierarchy(keys, tuple(domain.paths[place] for place in places))
    return Domain(keys)


def levels(domain: Domain) -> dict[str, tuple[tuple[str, ...], IntArray]]:
    """The coarser ways to count, in words: the names of the groups, and the group of each key.

    >>> zones = Hierarchy.of({"1": "Bronx", "2": "Bronx", "3": "Queens"})
    >>> {words: names for words, (names, _) in levels(zones).items()}
    {'per group of level 1': ('Bronx', 'Queens'), 'all keys together': ('all',)}
    """
    heads: dict[str, list[str]] = {}
    if isinstance(domain, Hierarchy):
        full = [(*path, key) for path, key in zip(domain.paths, domain.keys, strict=True)]
        for depth in range(domain.height - 1, 0, -1):
            heads[f"per group of level {depth}"] = ["/".join(each[:depth]) for each in full]
    elif isinstance(domain, Product):
        sizes = [len(values) for _, values in domain.attributes]
        for place, (name, values) in enumerate(domain.attributes):
            codes = np.arange(domain.size) // prod(sizes[place + 1 :]) % sizes[place]
            heads[f"per {name}"] = [values[code] for code in codes.tolist()]
    heads["all keys together"] = ["all"] * domain.size
    found = {}
    for words, groups in heads.items():
        place_of = {name: at for at, name in enumerate(dict.fromkeys(groups))}
        if len(place_of) < domain.size:
            found[words] = tuple(place_of), np.array([place_of[each] for each in groups], np.int64)
    return found


def periods_of(seasons: Sequence[str], every: str) -> tuple[int, ...]:
    """The seasons in units. One that is no whole number of at least two units is left out.

    >>> periods_of(["1d", "7d", "90min"], "1h"), periods_of(["12mo"], "1mo")
    ((24, 168), (12,))
    """
    calendar = Calendar(every=every, origin=_ORIGIN)
    whole = [season for season in seasons if durations.fits(season, calendar)]
    return durations.periods_of(whole, calendar, name="seasons")


# -- counts from sentences -------------------------------------------------------------------------


def made_up(
    domain: Domain,
    every: str,
    *,
    typical: Fraction,
    facts: StatedFacts = FLOW,
    sparse: bool = False,
    window: int = 1,
) -> PublicCounts:
    """Make counts up from public sentences: always the same ones for the same sentences.

    Keys differ in size, sizes drift slowly, and every season has a smooth wave, the same for all
    keys. Counts scatter like independent events do; those of a stock do not scatter.

    Parameters
    ----------
    domain : Domain
        The keys.
    every : str
        The length of a unit.
    typical : Fraction
        The mean count of a key in a unit.
    facts : StatedFacts
        What is stated about the stream. Default: no seasons, and a flow.
    sparse : bool
        Whether few keys have almost all events. Default: False.
    window : int
        The window of the promise: several windows are made. Default: 1.

    Examples
    --------
    >>> days = StatedFacts(periods=(24,))
    >>> made_up(Domain.of(3), "1h", typical=Fraction(2), facts=days).counts.shape
    (120, 3)
    """
    if typical <= 0:
        raise ConfigurationError(f"typical must be above 0, not {typical}.", parameter="typical")
    keys = min(domain.size, MAX_KEYS)
    longest = max((LEAST_UNITS, LEAST_WINDOWS * window, *(4 * period for period in facts.periods)))
    units = min(longest, MAX_UNITS, MAX_CELLS // keys)
    noise = TestNoise(_SEED)
    spread = 2.0 if sparse else 0.8
    sizes = np.exp(spread * _normal(noise, keys, "sizes"))
    sizes /= sizes.mean()
    drift = np.cumsum(0.02 * _normal(noise, units * keys, "drift").reshape(units, keys), axis=0)
    wave = np.ones(units)
    for period in facts.periods:
        wave *= 1 + 0.7 * np.sin(2 * np.pi * np.arange(units) / period)
    means = np.exp(drift) * sizes * wave[:, None]
    means *= float(typical) / means.mean()
    chosen = np.arange(keys, dtype=np.int64) * domain.size // keys
    notes = (
        (f"The simulation uses {keys:,} of {domain.size:,} keys, evenly spread.",)
        if keys < domain.size
        else ()
    )
    told = f"about {float(typical):g} events per key and unit"
    seasons = " and ".join(f"{period:,}" for period in facts.periods)
    told += f", seasons of {seasons} units" if seasons else ", no season"
    told += ", most keys almost empty" if sparse else ""
    return PublicCounts(
        counts=scattered(means, facts.kind, noise),
        domain=_part(domain, chosen),
        every=every,
        facts=facts,
        words=f"The counts were made up from public sentences: {told}.",
        notes=notes,
    )


def scattered(means: FloatArray, kind: StreamKind, noise: TestNoise | None = None) -> IntArray:
    """Whole numbers around these means: Poisson numbers, and for a stock rounded means.

    A stock does not start anew in each unit. So each key is rounded up or down at a place of its
    own, the same in all units.
    """
    if kind == "flow":
        return poisson(means, noise)
    places = (np.arange(means.shape[1]) + 0.5) / means.shape[1]
    return np.asarray(np.floor(means + places), np.int64)


def poisson(means: FloatArray, noise: TestNoise | None = None) -> IntArray:
    """Independent Poisson numbers with these means, the same in every call with fresh noise.

    >>> poisson(np.array([[0.0, 3.0, 1e6]])).shape
    (1, 3)
    """
    noise = noise or TestNoise(_SEED)
    flat = np.asarray(means, np.float64).ravel()
    counts = np.rint(flat + np.sqrt(flat) * _normal(noise, flat.size, "large")).astype(np.int64)
    draws = noise.laplace(Fraction(_GRID), flat.size, unit=1, label="small") / _GRID
    chance = np.where(draws < 0, np.exp(draws) / 2, 1 - np.exp(-draws) / 2)
    small = flat < _LARGE
    chance, mean = chance[small], flat[small]
    number, term = np.zeros(len(mean), np.int64), np.exp(-mean)
    total = term.copy()
    while (more := (chance > total) & (term > 0)).any():
        number += more
        term = np.where(more, term * mean / np.maximum(number, 1), term)
        total += np.where(more, term, 0)
    counts[small] = number
    return np.maximum(counts, 0).reshape(np.shape(means))


def _normal(noise: TestNoise, size: int, label: str) -> FloatArray:
    return np.asarray(noise.gaussian(Fraction(_GRID**2), size, unit=1, label=label) / _GRID)
