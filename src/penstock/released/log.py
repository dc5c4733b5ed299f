"""The release log: the releases of one series, unit after unit."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from operator import index
from typing import TYPE_CHECKING, Self

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.calendar import Calendar
from penstock.core.deprecated import moved, replaced
from penstock.core.domain import AnyDomain, Domain
from penstock.core.errors import InputError, StateError
from penstock.core.guarantee import Guarantee
from penstock.core.hierarchy import Hierarchy, Nodes
from penstock.core.released import Released
from penstock.released import encoding
from penstock.released.release_filter import CONFIDENCE, FilterChoice, ReleaseFilter
from penstock.released.release_table import ReleaseTable
from penstock.released.series import PublishingRun

MAX_NUMBERS_KEPT = 1_000_000
"""About the most filtered numbers that are kept in memory, those of the newest units."""


class Log:
    """The releases of one stream, in memory: appended one after the other, never changed.

    `log[unit]` is what was released of a unit; `len`, iteration and `log.units` are as one would
    think.

    Parameters
    ----------
    domain : Domain, int or sequence of str
        What each number is of.
    guarantee : Guarantee, optional
        The promise. Default: that of the first release.
    mechanism : str
        The name of the mechanism. Default: "", unknown.
    configuration : mapping of str to object, optional
        The mechanism's public parameters, kept as text. Default: none.
    name : str
        The name of the series. Default: "".

    Examples
    --------
    >>> from penstock import Laplace
    >>> run = Laplace(epsilon="1").run(["north", "south"])
    >>> log = Log.of(run)
    >>> for counts in ([7, 0], [8, 1]):
    ...     log.append(run.step(counts))
    >>> log
    <Log of laplace over 2 keys, Guarantee(epsilon=1, window=1), units 1..2>
    >>> log.append(run.last)  # a unit may come again, if nothing in it has changed
    >>> log.append(run.step([9, 1])), log.units
    (None, range(1, 4))
    """

    def __init__(
        self,
        domain: AnyDomain,
        *,
        guarantee: Guarantee | None = None,
        mechanism: str = "",
        configuration: Mapping[str, object] | None = None,
        name: str = "",
    ) -> None:
        self.domain = Domain.of(domain)
        self.guarantee = guarantee
        self.mechanism = mechanism
        self.configuration = {key: str(value) for key, value in (configuration or {}).items()}
        self.name = name
        self._releases: list[Released] = []

    # -- making one --------------------------------------------------------------------------------

    @classmethod
    def of(
        cls, run: PublishingRun, path: str | os.PathLike[str] | None = None, *, name: str = ""
    ) -> Log:
        """A log in memory for the releases of this run, with its last one if there is one.

        Parameters
        ----------
        run : Run
            The run.
        path : str or os.PathLike, optional
            Deprecated: `penstock.open_log(path, run)` opens a log in a file.
        name : str
            The name of the series. Default: "".
        """
        if path is not None:
            opened: Log = replaced("Log.of(run, path)", "penstock:open_log")(path, run, name=name)
            return opened
        log = Log(
            run.released,
            guarantee=run.guarantee,
            mechanism=run.mechanism.name,
            configuration=run.mechanism.configuration(),
            name=name,
        )
        log.catch_up(run)
        return log

    @staticmethod
    def open(path: str | os.PathLike[str]) -> Log:
        """Deprecated: `penstock.open_log(path)` opens a log in a file.

        Parameters
        ----------
        path : path
            The file.
        """
        opened: Log = replaced("Log.open(path)", "penstock:open_log")(path)
        return opened

    def catch_up(self, run: PublishingRun) -> None:
        """Append the run's last release if it is not there yet; refuse a run that is behind.

        Parameters
        ----------
        run : Run
            The run.
        """
        last = run.last
        if len(self) and (last is None or last.unit < self.last):
            raise StateError(
                f"the log has units up to {self.last}, the run stands at "
                f"{last.unit if last else 0}: going on would release units again with fresh "
                "noise. Restore the run's newest state."
            )
        if last is not None:
            self.append(last)

    # -- what it holds -----------------------------------------------------------------------------

    filter: FilterChoice | None = None
    """The settings of the filter that its numbers come from; None if they are as released."""

    confidence: str = "0.95"
    """The confidence of intervals around its numbers, unless another one is asked for."""

    @property
    def calendar(self) -> Calendar | None:
        """When its units begin and end, if that is known."""
        return None

    @property
    def keys(self) -> tuple[str, ...]:
        """What each number is of, in the order of the releases."""
        return self.domain.keys

    @cached_property
    def hierarchy(self) -> Hierarchy | None:
        """The hierarchy, if the keys are in one or are its nodes."""
        if isinstance(self.domain, Nodes):
            return self.domain.tree
        return self.domain if isinstance(self.domain, Hierarchy) else None

    @cached_property
    def parents(self) -> IntArray | None:
        """Each node's parent, −1 at a root, if the numbers are of the nodes of a hierarchy."""
        return self.domain.tree.parents if isinstance(self.domain, Nodes) else None

    @property
    def holds_nodes(self) -> bool:
        """Whether the numbers are of the nodes of a hierarchy."""
        return self.parents is not None

    @property
    def width(self) -> int:
        """The number of keys in a stored release: how many units fit into memory depends on it."""
        return self.domain.size

    def width_of(self, keys: int) -> int:
        """How many keys are read for each unit if some are chosen. Here a release is read whole.

        Parameters
        ----------
        keys : int
            The number of chosen keys.
        """
        return self.width

    @property
    def private(self) -> bool:
        """Whether everything in it was made with real noise."""
        return all(release.private for release in self)

    @property
    def first(self) -> int:
        """The first unit; 1 if there is none yet."""
        return self._bounds()[0]

    @property
    def last(self) -> int:
        """The newest unit; below `first` if there is none yet."""
        return self._bounds()[1]

    @property
    def units(self) -> range:
        """All units so far."""
        first, last = self._bounds()
        return range(first, last + 1)

    @property
    def promise(self) -> str:
        """What is promised, in words."""
        return "" if self.guarantee is None else self.guarantee.in_words()

    def __len__(self) -> int:
        return len(self.units)

    def __iter__(self) -> Iterator[Released]:
        return self.between(*self._bounds())

    def __getitem__(self, unit: int) -> Released:
        if unit not in self.units:
            raise InputError(f"unit {unit} is not in this log: {self._extent()}.")
        return next(self.between(unit, unit))

    def __repr__(self) -> str:
        what = f"{self.mechanism or 'releases'} over {self.domain.size} keys"
        return f"<{type(self).__name__} of {what}, {self.guarantee}, {self._extent()}>"

    def between(self, first: int, last: int) -> Iterator[Released]:
        """The releases of these units, one after the other; never more than one is held here.

        Parameters
        ----------
        first : int
            The first unit.
        last : int
            The last unit, which belongs to them.
        """
        first, last, here = index(first), index(last), self.units
        if first > last:
            return iter(())
        if first not in here or last not in here:
            raise InputError(f"units {first}..{last} are not all in this log: {self._extent()}.")
        return self._read(first, last)

    def estimates(self, first: int | None = None, last: int | None = None) -> FloatArray:
        """The estimates of these units, one row per unit.

        Parameters
        ----------
        first : int, optional
            The first unit. Default: that of the log.
        last : int, optional
            The last unit, which belongs to them. Default: that of the log.
        """
        start, end = self._bounds()
        start, end = start if first is None else first, end if last is None else last
        out = np.empty((max(end - start + 1, 0), self.domain.size))
        for row, release in zip(out, self.between(start, end), strict=True):
            row[:] = release.estimate
        return out

    def table(self, first: int, last: int, places: IntArray | None = None) -> ReleaseTable:
        """The releases of these units as arrays, of all keys or of those at some places.

        Parameters
        ----------
        first : int
            The first unit.
        last : int
            The last unit, which belongs to them.
        places : array of int, optional
            The places of the keys in a release. Default: all.
        """
        return ReleaseTable.of(list(self.between(first, last)), places)

    def way(self, unit: int) -> ReleaseTable:
        """How a unit was released: a table without keys.

        Parameters
        ----------
        unit : int
            The unit.
        """
        return self.table(unit, unit, np.zeros(0, np.int64))

    def filtered(
        self,
        periods: int | str | Iterable[int | str] = (),
        *,
        kind: str = "flow",
        point: str = "median",
    ) -> FilteredLog:
        """Return this log with filtered numbers in place of the released ones, for any query.

        A filter follows from the releases so far what all keys share and how each key moves. It
        works on the releases of every mechanism and costs no budget. Variances and intervals are
        those of the counts themselves, as the filter believes. This log stays as it is.

        Parameters
        ----------
        periods : int, str, or several of them
            The seasons of the stream: numbers of units, or durations such as "1d" if the log knows
            how long a unit is. Default: none.
        kind : "flow" or "stock"
            Whether counts are events of a unit, or what is present in it. Default: "flow".
        point : "median" or "mean"
            The number to report. Medians have the least absolute error. Means add up: use them for
            sums over keys or units. Default: "median".

        Examples
        --------
        >>> from penstock import Uniform
        >>> run = Uniform(epsilon="1", window=24).run(["north", "south"])
        >>> log = Log.of(run)
        >>> for counts in ([90, 0], [95, 1], [92, 0]):
        ...     log.append(run.step(counts))
        >>> log.filtered(periods=24)
        <FilteredLog of uniform over 2 keys, Guarantee(epsilon=1, window=24), units 1..3>
        >>> log.filtered(periods=24)[3].kind
        'filtered'
        """
        choice = FilterChoice.of(periods, kind, point, calendar=self.calendar)
        return FilteredLog(self, choice)

    def chosen(self, places: IntArray) -> ChosenLog:
        """The releases of some keys alone. It grows with this log.

        Parameters
        ----------
        places : array of int
            The places of the keys in a release.

        Examples
        --------
        >>> from penstock import Uniform
        >>> run = Uniform(epsilon="1", window=24).run(["north", "south"])
        >>> log = Log.of(run)
        >>> log.append(run.step([90, 0]))
        >>> log.chosen(np.array([1])).keys
        ('south',)
        """
        return ChosenLog(self, places)

    def append(self, release: Released) -> None:
        """Add the next unit. A unit that is there already is left alone if it is the same, and
        refused if not.

        Parameters
        ----------
        release : Released
            The release of the unit.
        """
        first, last = self._bounds()
        self._look_over(release)
        if last >= first:
            if first <= release.unit <= last:
                if not same(self[release.unit], release):
                    raise InputError(
                        f"unit {release.unit} is in the log with other numbers: a release is never "
                        "replaced."
                    )
                return
            if release.unit != last + 1:
                raise InputError(
                    f"unit {release.unit} is out of order: the log has {self._extent()}."
                )
        self._add(release)

    def close(self) -> None:
        """Nothing, in memory."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- inside ------------------------------------------------------------------------------------

    def _extent(self) -> str:
        first, last = self._bounds()
        return f"units {first}..{last}" if last >= first else "no units yet"

    def _look_over(self, release: Released) -> None:
        if not isinstance(release, Released):
            raise InputError(f"a log takes what was released, not {type(release).__name__}.")
        if release.value.shape != (self.domain.size,):
            raise InputError(
                f"unit {release.unit}: {release.value.size} numbers for {self.domain.size} keys."
            )
        if self.guarantee is None:
            self.guarantee = release.guarantee
        elif release.guarantee != self.guarantee:
            raise InputError(
                f"unit {release.unit}: released under {release.guarantee}, and this log is of "
                f"{self.guarantee}."
            )

    def _bounds(self) -> tuple[int, int]:
        if not self._releases:
            return 1, 0
        return self._releases[0].unit, self._releases[-1].unit

    def _read(self, first: int, last: int) -> Iterator[Released]:
        start = self._bounds()[0]
        return iter(self._releases[first - start : last - start + 1])

    def _add(self, release: Released) -> None:
        self._releases.append(release)


class DerivedLog(Log):
    """A log whose numbers are made from those of another. It grows with that one.

    Parameters
    ----------
    log : Log
        The log that it is made of.
    domain : Domain or tuple of str
        What each of its numbers is of.
    """

    def __init__(self, log: Log, domain: AnyDomain) -> None:
        super().__init__(
            domain,
            guarantee=log.guarantee,
            mechanism=log.mechanism,
            configuration=log.configuration,
            name=log.name,
        )
        self.filter, self.confidence = log.filter, log.confidence
        self._log = log

    @property
    def calendar(self) -> Calendar | None:
        """When its units begin and end, if that is known."""
        return self._log.calendar

    @property
    def promise(self) -> str:
        """What is promised, in words. It is the promise of the other log."""
        return self._log.promise

    @property
    def private(self) -> bool:
        """Whether everything in it was made with real noise."""
        return self._log.private

    def close(self) -> None:
        """Close the log that this one was made of."""
        self._log.close()

    def _bounds(self) -> tuple[int, int]:
        return self._log._bounds()

    def _add(self, release: Released) -> None:
        raise InputError(
            f"unit {release.unit}: the numbers of this log are made from another one. Append to "
            "that one."
        )


class ChosenLog(DerivedLog):
    """The releases of some keys of a log.

    Parameters
    ----------
    log : Log
        The releases of all keys.
    places : array of int
        The places of the chosen keys in a release.
    """

    def __init__(self, log: Log, places: IntArray) -> None:
        super().__init__(log, tuple(log.keys[place] for place in places.tolist()))
        self._chosen = places

    @property
    def holds_nodes(self) -> bool:
        """Whether the numbers are of nodes of a hierarchy."""
        return self._log.holds_nodes

    @property
    def width(self) -> int:
        """The number of keys in a stored release."""
        return self._log.width

    def width_of(self, keys: int) -> int:
        """How many keys are read for each unit if some of the chosen ones are chosen."""
        return self._log.width_of(keys)

    def table(self, first: int, last: int, places: IntArray | None = None) -> ReleaseTable:
        """The releases of these units as arrays. Other keys are left out before they are read."""
        return self._log.table(
            first, last, self._chosen if places is None else self._chosen[places]
        )

    def _read(self, first: int, last: int) -> Iterator[Released]:
        return (release.among(self._chosen) for release in self._log.between(first, last))


class FilteredLog(DerivedLog):
    """A release log with filtered numbers.

    Parameters
    ----------
    log : Log
        The releases.
    choice : FilterChoice
        The settings of the filter.
    """

    def __init__(self, log: Log, choice: FilterChoice) -> None:
        super().__init__(log, log.domain)
        self.filter, self.confidence = choice, CONFIDENCE
        self._restart()

    def filtered(
        self,
        periods: int | str | Iterable[int | str] = (),
        *,
        kind: str = "flow",
        point: str = "median",
    ) -> FilteredLog:
        """Return the log that this one was made of, filtered with other settings."""
        return self._log.filtered(periods, kind=kind, point=point)

    def _restart(self) -> None:
        assert self.filter is not None
        self._filter = ReleaseFilter(self.domain, self.filter)
        self._kept: deque[Released] = deque(maxlen=max(MAX_NUMBERS_KEPT // self.domain.size, 1))

    def _read(self, first: int, last: int) -> Iterator[Released]:
        """Kept numbers, or the filter goes on; it begins again for units that are long past."""
        unit = first
        while unit <= last:
            kept = self._filter.unit - len(self._kept)  # the last unit that is not kept any more
            if kept < unit <= self._filter.unit:
                yield self._kept[unit - kept - 1]
                unit += 1
                continue
            if unit <= self._filter.unit:
                self._restart()
            start = self._filter.unit + 1 if self._filter.unit else self.first
            for release in self._log.between(start, last):
                if release.unit != self._filter.unit + 1 and self._filter.unit:
                    break  # somebody else has read on in between
                found = self._filter.step(release)
                self._kept.append(found)
                if release.unit == unit:
                    yield found
                    unit += 1


def same(one: Released, other: Released) -> bool:
    """Whether two releases of a unit are the same, number by number."""
    return one is other or (
        encoding.body(one) == encoding.body(other) and encoding.flags(one) == encoding.flags(other)
    )


if not TYPE_CHECKING:
    __getattr__ = moved(__name__)
