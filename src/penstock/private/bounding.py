"""At most L events of each person in a unit, chosen by that person's own events alone.

Everything here is raw data: counts go to the gate, the open unit goes to `state.py`. Nothing is
shown, logged or raised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import BoolArray, IntArray
from penstock.core.errors import ConfigurationError, InputError, StateError
from penstock.core.optional import require
from penstock.private.counts_input import Column
from penstock.private.earliest_events import NEVER, EarliestEvents, Packed, Wide
from penstock.private.person_ids import IntegerIds, Kind, Loops, Slots, TextIds, ids_of, texts_of

_SPREAD = 8
"""Ids that lie close together are not looked up. At most this many places per person stay empty."""

_LOOK = 1 << 16
"""Ids are first tested for being close together at this many persons, then at each doubling."""


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class OpenUnit:
    """One open unit as plain data for a snapshot: the persons and their kept events. Secret."""

    keys: int
    contribution: int
    kind: Literal["", "each", "signed", "unsigned", "text"]
    ids: IntArray
    """The ids; of text the length of each in bytes."""
    text: NDArray[np.uint8]
    """The ids of text, one after the other."""
    times: list[IntArray]
    chosen: list[Slots]
    each: IntArray
    """The counts of events that are their own person."""

    def events(self) -> tuple[Any, IntArray, IntArray]:
        """The kept events of persons as columns: ids, keys and times. Secret.

        Events that are their own person are not among them: they are in `each`.
        """
        there = [np.flatnonzero(times < NEVER) for times in self.times]
        none = np.empty(0, np.int64)
        row = np.concatenate([none, *there])
        keys = [chosen[rows] for rows, chosen in zip(there, self.chosen, strict=True)]
        times = [level[rows] for rows, level in zip(there, self.times, strict=True)]
        ids: Any = self.ids.view(np.uint64) if self.kind == "unsigned" else self.ids
        if self.kind == "text":
            ids = texts_of(self.ids, self.text).take(row)
        else:
            ids = ids[row]
        return ids, np.concatenate([none, *keys]), np.concatenate([none, *times])


class Bounding:
    """The counts of one open unit over `keys` keys, from at most `contribution` events of each
    person.

    A person's earliest events are kept; at the same time, those with the smallest keys. The choice
    depends on the set of that person's events in the unit and on nothing else: not on the order of
    arrival, on batches, or on other persons. So adding or removing all events of a person changes
    the sum of the counts by at most `contribution`.

    Two events of the same person, time and key are two events. A batch that is added twice counts
    twice: the source makes sure that a batch comes once. The memory holds `contribution` events per
    person and the ids, whatever the number of events.

    Parameters
    ----------
    keys : int
        The number of keys.
    contribution : int
        The most events of a person that count.
    fast : bool or None
        Whether to use the compiled loops of the extra `fast`; the counts are the same. Default:
        None, use them if they are installed.

    >>> unit = Bounding(keys=3, contribution=1, fast=False)
    >>> unit.add(np.array([7, 8, 7]), key=np.array([2, 0, 1]), time=np.array([30, 10, 20]))
    >>> unit.add(np.array([9, 8]), key=np.array([-1, 1]), time=np.array([5, 11]))
    >>> unit.counts()
    array([1, 1, 0])
    """

    def __init__(self, *, keys: int, contribution: int, fast: bool | None = None) -> None:
        if not 1 <= keys < 2**31:
            raise ConfigurationError(f"keys must be from 1 to {2**31 - 1}, not {keys}.")
        if contribution < 1:
            raise ConfigurationError(f"contribution must be 1 or more, not {contribution}.")
        self.keys = keys
        self.contribution = contribution
        self._loops = _loops(fast)
        self._numbers = IntegerIds(self._loops)
        self._texts = TextIds(self._numbers, self._loops)
        self._packed = Packed(keys=keys, contribution=contribution, loops=self._loops)
        self._kept: EarliestEvents = self._packed
        self._low = self._span = 0
        self._close: bool | None = None
        self._look = _LOOK
        self._each = np.zeros(keys, np.int64)
        self._kind: Kind | Literal["", "each"] = ""

    @property
    def fast(self) -> bool:
        """Whether compiled loops do the work."""
        return self._loops is not None

    def add(self, person: Column | None, key: IntArray, time: IntArray) -> None:
        """Add events of this unit, one per row. An event with key -1 is dropped.

        Without `person` each event counts as its own person; a unit may have such events beside
        others. Ids are a NumPy, Arrow or Polars column of whole numbers, text or bytes, of one kind
        in a unit. A batch that is refused has changed nothing.
        """
        key, time = _whole("key", key), _whole("time", time)
        rows = len(key)
        if len(time) != rows or (person is not None and _rows(person) != rows):
            raise InputError(
                "person, key and time must be columns of the same length. Nothing was added."
            )
        smallest = key.min(initial=0)
        if smallest < -1 or key.max(initial=0) >= self.keys:
            raise InputError(f"key must be from -1 to {self.keys - 1}. Nothing was added.")
        latest = int(time.max(initial=-(2**63)))
        if latest == NEVER:
            raise InputError("time must be below the largest int64. Nothing was added.")
        keep: BoolArray | None = None
        if smallest < 0:
            keep = key >= 0
            key, time = key[keep], time[keep]
        if not len(key):
            return
        if person is None:
            self._kind = self._kind or "each"
            self._each += np.bincount(key, minlength=self.keys)
            return
        kind, ids = ids_of(person, keep)
        if self._kind not in ("", "each", kind):
            raise InputError(
                f"person ids must be of one kind in a unit: {self._kind} before, {kind} now. "
                "Nothing was added."
            )
        self._kind = kind
        number, low = self._number(ids)  # first, as it may begin anew with `Packed` events
        self._ready(int(time.min()), latest if keep is None else int(time.max()))
        self._kept.offer(number, time, key, low=low, persons=self._persons)

    def counts(self) -> IntArray:
        """The number of kept events of each key."""
        return self._each + self._kept.counts(self._persons)

    def clear(self) -> None:
        """Start the next unit. The memory is used again."""
        self._kept.clear(self._persons)
        self._packed.clear(self._persons)
        self._kept = self._packed
        self._numbers.clear()
        self._each.fill(0)
        self._kind = ""
        self._close = None
        self._look = _LOOK

    def save(self) -> OpenUnit:
        """The open unit as plain data."""
        text = self._kind == "text"
        persons = self._persons
        there: Any = slice(None)
        if self._close:
            there = np.flatnonzero(self._kept.present(persons))
        levels = [self._kept.events(level, persons) for level in range(len(self._kept))]
        ids = there + self._low if self._close else self._numbers.known.copy()
        return OpenUnit(
            keys=self.keys,
            contribution=self.contribution,
            kind=self._kind,
            ids=self._texts.lengths if text else ids,
            text=self._texts.text.copy() if text else np.empty(0, np.uint8),
            times=[first[there] for first, _ in levels],
            chosen=[chosen[there] for _, chosen in levels],
            each=self._each.copy(),
        )

    def merge(self, part: OpenUnit) -> None:
        """Add another part of the same unit, which was bounded elsewhere.

        The smallest events of a person, by time and key, are among the smallest of each part. So
        any number of parts, merged in any order, gives the counts of one pass over all events.

        >>> both = [Bounding(keys=3, contribution=1, fast=False) for _ in range(2)]
        >>> both[0].add(np.array([7, 8]), key=np.array([2, 0]), time=np.array([30, 10]))
        >>> both[1].add(np.array([7, 9]), key=np.array([1, 1]), time=np.array([20, 40]))
        >>> both[0].merge(both[1].save())
        >>> both[0].counts()
        array([1, 2, 0])
        """
        self._check(part)
        ids, key, time = part.events()
        self.add(ids, key, time)
        self._each += part.each
        self._kind = self._kind or part.kind

    def load(self, unit: OpenUnit) -> None:
        """Continue with a saved unit instead of this one."""
        self._check(unit)
        self.clear()
        self._go_on(unit)

    def _check(self, unit: OpenUnit) -> None:
        """Refuse a unit over other keys, or a damaged one."""
        if (unit.keys, unit.contribution) != (self.keys, self.contribution):
            theirs, ours = (
                f"{each.keys} keys with contribution {each.contribution}" for each in (unit, self)
            )
            raise StateError(f"a unit over {theirs} cannot go on over {ours}.")
        if not _fits(unit):
            raise StateError("this open unit is damaged: its columns do not fit together.")

    def _go_on(self, unit: OpenUnit) -> None:
        self._kind = unit.kind
        self._each[:] = unit.each
        if not len(unit.ids):
            return
        for times in unit.times:
            there = times[times < NEVER]
            if len(there):
                self._ready(int(there.min()), int(there.max()))
        if unit.kind == "text":
            number, low = self._texts.load(unit.ids, unit.text), 0
        else:
            number, low = self._number(unit.ids)
        for level, events in enumerate(zip(unit.times, unit.chosen, strict=True)):
            self._kept.put(level, number - low, events, persons=self._persons)

    @property
    def _persons(self) -> int:
        """How many numbers persons have. If ids are close together, some numbers are unused."""
        return self._span if self._close else len(self._numbers)

    def _ready(self, earliest: int, latest: int) -> None:
        """Make sure that events of these times can be kept."""
        if self._kept.fits(earliest, latest):
            return
        wide, persons = Wide(keys=self.keys, contribution=self.contribution), self._persons
        for level in range(len(self._kept)):
            wide.put(level, np.arange(persons), self._kept.events(level, persons), persons=persons)
        self._kept = wide

    def _number(self, ids: Any) -> tuple[IntArray, int]:
        """A number for each id, and the offset to subtract from all of them."""
        if self._kind == "text":
            return self._texts.of(ids), 0
        if self._near(ids):
            return ids, self._low
        return self._numbers.of(ids), 0

    def _near(self, ids: IntArray) -> bool:
        """Whether all ids of this unit, and these, lie close together, so that their distance
        numbers them.
        """
        if self._close is False and not self._gather():
            return False
        low, high = int(ids.min()), int(ids.max())
        if self._low <= low and high < self._low + self._span:
            self._close = True
        elif self._close is None:
            self._close = high - low < self._spread * len(ids)
            if self._close:
                self._low, self._span = low, high - low + 1
        else:
            self._stretch(low, high, len(ids))
        return bool(self._close)

    def _stretch(self, low: int, high: int, rows: int) -> None:
        """Make room for ids out of the range; if that is too much, look up all ids from here on."""
        there = np.flatnonzero(self._kept.present(self._span))
        lowest, highest = min(low, self._low + int(there[0])), max(high, self._low + int(there[-1]))
        if highest - lowest >= self._spread * (len(there) + rows):
            unit = self.save()
            self.clear()
            self._close = False
            self._go_on(unit)
            self._look = max(2 * len(there), _LOOK)
            return
        more = (highest - lowest) // 4
        first = max(low - more, -(2**63)) if low < self._low else self._low
        last = (
            min(high + more, 2**63 - 1)
            if high >= self._low + self._span
            else self._low + self._span - 1
        )
        if first < self._low:
            self._kept.move(self._low - first, self._span)
        self._low, self._span = first, last - first + 1

    def _gather(self) -> bool:
        """Whether ids that were looked up so far lie close together by now. Tested rarely."""
        if len(self._numbers) < self._look:
            return False
        self._look = 2 * len(self._numbers)
        known = self._numbers.known
        low, high = int(known.min()), int(known.max())
        if high - low >= self._spread * len(known):
            return False
        unit = self.save()
        self.clear()
        self._go_on(unit)
        return bool(self._close)

    @property
    def _spread(self) -> int:
        return max(2, _SPREAD // self.contribution)


def _fits(unit: OpenUnit) -> bool:
    columns: list[NDArray[Any]] = [*unit.times, *unit.chosen]
    return (
        len(unit.each) == unit.keys
        and len(unit.times) == len(unit.chosen) <= unit.contribution
        and all(len(column) == len(unit.ids) for column in columns)
        and (not len(unit.ids) or (len(unit.times) > 0 and bool((unit.times[0] < NEVER).all())))
        and all(
            column.min() >= 0 and column.max() <= unit.keys for column in unit.chosen if len(column)
        )
        and (
            unit.kind != "text"
            or (len(unit.text) == unit.ids.sum() and bool((unit.ids >= 0).all()))
        )
    )


def _loops(fast: bool | None) -> Loops | None:
    if fast is False:
        return None
    if fast:
        require("numba", "fast", "bounding with fast=True")
    try:
        from penstock.private import bounding_fast
    except ImportError:
        return None
    return bounding_fast


def _rows(person: Column) -> int | None:
    """The length of a column, or None for anything else."""
    if isinstance(person, np.ndarray) and person.ndim != 1:
        return None
    return len(person) if hasattr(person, "__len__") else None


def _whole(name: str, column: object) -> IntArray:
    if (
        not isinstance(column, np.ndarray)
        or isinstance(column, np.ma.MaskedArray)
        or column.ndim != 1
    ):
        raise InputError(
            f"{name} must be an array of one dimension, not {type(column).__name__}. "
            "Nothing was added."
        )
    if column.dtype.kind not in "iu" or not np.can_cast(column.dtype, np.int64):
        raise InputError(
            f"{name} must be an array of int64, not {column.dtype.type.__name__}. "
            "Nothing was added."
        )
    return np.ascontiguousarray(column, np.int64)
