"""The base classes of queries, and the parts that they share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.deprecated import moved
from penstock.core.errors import ConfigurationError, InputError, NotCoveredError
from penstock.core.exact import whole
from penstock.released.log import Log
from penstock.released.queries.answer import Alerts, Answer, Ranking
from penstock.released.queries.current_releases import MAX_NUMBERS_HELD, Sums

Units: TypeAlias = int | range | None
"""None for the newest unit, one unit, or a range of consecutive units."""

Names: TypeAlias = str | Iterable[str] | None
"""None for all keys, or the keys to answer for."""


@dataclass(frozen=True)
class Query(ABC):
    """A question to a release log: a frozen dataclass whose fields are its parameters.

    Subclasses define `in_words` and `answer`, and `reach` if they look back on earlier units. See
    docs/how-to/add-a-query.md.
    """

    @abstractmethod
    def in_words(self) -> str:
        """The question in words."""

    @abstractmethod
    def answer(
        self, log: Log, unit: Units = None, *, keys: Names = None
    ) -> Answer | Alerts | Ranking:
        """Answer the question.

        Parameters
        ----------
        log : Log
            The releases.
        unit : int, range or None
            The unit, or consecutive units. Default: the newest.
        keys : str, iterable of str, or None
            The keys, or the names of sums over keys. Only their numbers are computed. Default: all.
        """

    def series(self, log: Log, *, keys: Names = None) -> Answer | Alerts | Ranking:
        """Answer for every unit that can be answered."""
        return self.answer(log, self.units(log), keys=keys)

    def reach(self, log: Log) -> int:
        """The number of units that an answer looks at, its own included."""
        return 1

    def units(self, log: Log) -> range:
        """The units that can be answered."""
        here = log.units
        return range(here.start + self.reach(log) - 1, here.stop)

    def why_not(self, log: Log) -> str:
        """The reason why this log cannot answer the question; empty if it can."""
        try:
            self.answer(log)
        except (ConfigurationError, InputError) as error:
            return str(error)
        return ""

    def _span(self, log: Log, unit: Units) -> tuple[int, int]:
        """The first and the last unit of `unit`; refuses units that cannot be answered."""
        if not len(log):
            raise NotCoveredError("the log has no units yet.")
        can = self.units(log)
        if not can:
            raise NotCoveredError(
                f"{self.in_words()}: this needs {self.reach(log)} units, "
                f"and the log has {len(log)}."
            )
        if unit is None:
            return can[-1], can[-1]
        if isinstance(unit, range):
            if unit.step != 1 or not unit:
                raise ConfigurationError(f"unit must be a range of consecutive units, not {unit}.")
            first, last = unit[0], unit[-1]
        else:
            first = last = whole(unit, name="unit", least=0)
        if first not in can or last not in can:
            asked = f"unit {first}" if first == last else f"units {first}..{last}"
            raise NotCoveredError(
                f"{self.in_words()}: {asked} cannot be answered, only units {can[0]}..{can[-1]}."
            )
        return first, last


class NumberQuery(Query):
    """A query that gives one number with its noise per key or group of keys."""

    @abstractmethod
    def answer(self, log: Log, unit: Units = None, *, keys: Names = None) -> Answer: ...

    def series(self, log: Log, *, keys: Names = None) -> Answer:
        return self.answer(log, self.units(log), keys=keys)


def answer_of(query: str, log: Log, first: int, sums: Sums, *, alone: bool = False) -> Answer:
    """The answer that these sums make, one column per key.

    Nodes that were made consistent or pruned share noise across nodes and units. Grouped keys and
    filtered numbers share noise, too. The noise of sums of such numbers is not known. `alone` says
    that each number is one release.
    """
    way = log.way(first)
    filtered = way.kind == "filtered"
    fitted = (
        not filtered
        and log.holds_nodes
        and (log.configuration.get("fit", "True") != "False" or "prune" in log.configuration)
    )
    shared = fitted or filtered or (alone and way.grouped)
    noise = None if fitted and not alone else sums.noise
    units = np.arange(first, first + len(sums.estimate))
    return Answer(
        query,
        units,
        log.keys,
        sums.estimate,
        noise,
        sums.unread,
        shared,
        log.domain,
        calendar=log.calendar,
    )


def chunks(
    log: Log, first: int, last: int, reach: int, *, width: int | None = None
) -> list[tuple[int, int]]:
    """Ranges of units whose numbers fit into memory together with the units they look back on.

    `width` is how many numbers are held per unit. By default it does not depend on the chosen keys:
    sums over units have the same last bits only if they are computed in the same ranges.
    """
    rows = max(MAX_NUMBERS_HELD // (width or log.width) - reach, reach // 2, 16)
    return [(start, min(start + rows - 1, last)) for start in range(first, last + 1, rows)]


def key_places(log: Log, keys: str | Iterable[str], *, name: str = "keys") -> IntArray:
    """The columns of these keys. A key that is missing or named twice is refused."""
    return places_among(log.keys, keys, name=name, places=log.domain.places)


def places_among(
    names: tuple[str, ...],
    chosen: str | Iterable[str],
    *,
    name: str = "keys",
    places: Mapping[str, int] | None = None,
) -> IntArray:
    """The places of the chosen names. One that is missing or named twice is refused."""
    named = [chosen] if isinstance(chosen, str) else [str(each) for each in chosen]
    if not named:
        raise ConfigurationError(f"{name} must name at least one key.")
    place = places or {each: number for number, each in enumerate(names)}
    for each in named:
        if each not in place:
            near = get_close_matches(each, names[:20_000], n=1)
            there = f"; there is {near[0]!r}" if near else ""
            raise ConfigurationError(f"{name}: this log has no key {each!r}{there}.")
    if len(set(named)) != len(named):
        raise ConfigurationError(f"{name} must not name a key twice.")
    return np.array([place[each] for each in named], np.int64)


def chosen(log: Log, keys: Names) -> Log:
    """The log of the chosen keys. The numbers of a key are the same in it, to the last bit."""
    return log if keys is None else log.chosen(key_places(log, keys))


def threshold(delta: float) -> float:
    """The threshold of an alert as a float."""
    try:
        number = float(delta)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ConfigurationError(f"delta must be a finite number, not {delta!r}.")
    return number


if not TYPE_CHECKING:
    __getattr__ = moved(__name__)
