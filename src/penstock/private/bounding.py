"""At most L events of a person in a unit, chosen by that person's own events alone.

Everything here is raw data: counts leave for the gate, the open unit for `state.py`, and nothing is shown, logged or raised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import BoolArray, IntArray
from penstock.core.errors import ConfigurationError, InputError, MissingExtraError, StateError
from penstock.private.columns import Column
from penstock.private.dense import Kind, Loops, Numbers, Slots, Texts, ids_of, texts_of

NEVER = np.iinfo(np.int64).max
_ROUNDS = 4

Level: TypeAlias = tuple[IntArray, Slots]
"""Per person a time and a key: the earliest event, or the second, …; (`NEVER`, one past the last key) where there is none."""


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class OpenUnit:
    """One open unit as plain data for a snapshot: the persons, and what is kept of each. Secret."""

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


class Bounding:
    """The counts of one open unit over `keys` keys, from at most `contribution` events of each person.

    A person's earliest events are kept; of those at the same time, those with the smallest keys. Which they are depends on the
    set of that person's events in the unit and on nothing else: not on the order of arrival, not on batches, not on
    other persons. So to add or remove all of a person's events changes the counts by at most `contribution` in sum.

    Two events of the same person, time and key are two events. A batch that is added twice counts twice: that a batch comes
    once is the source's business.

    Kept: `contribution` events a person and the persons' ids, whatever the number of events. `fast` chooses the compiled
    loops of the extra of that name (the default: if they are installed); the counts are the same.

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
        self._numbers = Numbers(self._loops)
        self._texts = Texts(self._numbers, self._loops)
        self._levels: list[Level] = []
        self._each = np.zeros(keys, np.int64)
        self._kind: Kind | Literal["", "each"] = ""

    @property
    def fast(self) -> bool:
        """Whether compiled loops do the work."""
        return self._loops is not None

    def add(self, person: Column | None, key: IntArray, time: IntArray) -> None:
        """Events of this unit, one a row. An event with key -1 is dropped; without `person` each event is its own person.

        Ids are a NumPy, Arrow or Polars column of whole numbers, text or bytes, of one kind in a unit. A batch that is refused
        has changed nothing.
        """
        key, time = _whole("key", key), _whole("time", time)
        rows = len(key)
        if len(time) != rows or (person is not None and _rows(person) != rows):
            raise InputError("person, key and time must be columns of the same length. Nothing was added.")
        smallest = key.min(initial=0)
        if smallest < -1 or key.max(initial=0) >= self.keys:
            raise InputError(f"key must be from -1 to {self.keys - 1}. Nothing was added.")
        if time.max(initial=0) == NEVER:
            raise InputError("time must be below the largest int64. Nothing was added.")
        keep: BoolArray | None = None
        if smallest < 0:
            keep = key >= 0
            key, time = key[keep], time[keep]
        if not len(key):
            return
        kind: Kind | Literal["each"]
        kind, ids = ("each", None) if person is None else ids_of(person, keep)
        if self._kind not in ("", kind):
            raise InputError(f"person ids must be of one kind in a unit: {self._kind} before, {kind} now. Nothing was added.")
        self._kind = kind
        if ids is None:
            self._each += np.bincount(key, minlength=self.keys)
        else:
            self._offer(self._number(ids), time, key)

    def counts(self) -> IntArray:
        """How many of the kept events have each key."""
        counts = self._each.copy()
        for _, chosen in self._levels:
            counts += np.bincount(chosen[: len(self._numbers)], minlength=self.keys + 1)[: self.keys]
        return counts

    def clear(self) -> None:
        """Begin the next unit; memory stays for it."""
        for first, chosen in self._levels:
            first[: len(self._numbers)] = NEVER
            chosen[: len(self._numbers)] = self.keys
        self._numbers.clear()
        self._each.fill(0)
        self._kind = ""

    def save(self) -> OpenUnit:
        """The open unit as plain data."""
        text = self._kind == "text"
        for level in range(len(self._levels)):
            self._prepare(level)
        persons = len(self._numbers)
        return OpenUnit(
            keys=self.keys,
            contribution=self.contribution,
            kind=self._kind,
            ids=self._texts.lengths if text else self._numbers.known.copy(),
            text=self._texts.text.copy() if text else np.empty(0, np.uint8),
            times=[first[:persons].copy() for first, _ in self._levels],
            chosen=[chosen[:persons].copy() for _, chosen in self._levels],
            each=self._each.copy(),
        )

    def load(self, unit: OpenUnit) -> None:
        """Go on with a saved unit instead of this one."""
        if (unit.keys, unit.contribution) != (self.keys, self.contribution):
            theirs, ours = (f"{each.keys} keys with contribution {each.contribution}" for each in (unit, self))
            raise StateError(f"a unit over {theirs} cannot go on over {ours}.")
        if not _fits(unit):
            raise StateError("this open unit is damaged: its columns do not fit together.")
        self.clear()
        self._kind = unit.kind
        self._each[:] = unit.each
        number = self._number(texts_of(unit.ids, unit.text) if unit.kind == "text" else unit.ids)
        for level, (times, chosen) in enumerate(zip(unit.times, unit.chosen, strict=True)):
            self._prepare(level)
            self._levels[level][0][number] = times
            self._levels[level][1][number] = chosen

    def _number(self, ids: Any) -> IntArray:
        return self._texts.of(ids) if self._kind == "text" else self._numbers.of(ids)

    def _offer(self, person: IntArray, time: IntArray, key: IntArray) -> None:
        """Offer events to the first level; what one level does not keep, and what it gives back, goes on to the next."""
        for level in range(self.contribution):
            if not len(person):
                return
            self._prepare(level)
            first, chosen = self._levels[level]
            offer = _offer if self._loops is None else self._loops.offer
            person, time, key = offer(person, time, key, first, chosen, level + 1 < self.contribution)

    def _prepare(self, level: int) -> None:
        """Room for all persons on the level."""
        persons = len(self._numbers)
        old = self._levels[level] if level < len(self._levels) else None
        if old is not None and len(old[0]) >= persons:
            return
        size = 1 << max(10, (persons - 1).bit_length())
        fresh = np.full(size, NEVER, np.int64), np.full(size, self.keys, np.int32)
        if old is not None:
            fresh[0][: len(old[0])], fresh[1][: len(old[1])] = old
        self._levels[level : level + 1] = [fresh]


def _fits(unit: OpenUnit) -> bool:
    columns: list[NDArray[Any]] = [*unit.times, *unit.chosen]
    return (
        len(unit.each) == unit.keys
        and len(unit.times) == len(unit.chosen) <= unit.contribution
        and all(len(column) == len(unit.ids) for column in columns)
        and all(column.min() >= 0 and column.max() <= unit.keys for column in unit.chosen if len(column))
        and (unit.kind != "text" or (len(unit.text) == unit.ids.sum() and bool((unit.ids >= 0).all())))
    )


def _loops(fast: bool | None) -> Loops | None:
    if fast is False:
        return None
    try:
        from penstock.private import bounding_fast
    except ImportError:
        if fast:
            raise MissingExtraError("numba", "fast", "bounding with fast=True") from None
        return None
    return bounding_fast


def _rows(person: Column) -> int | None:
    """The length of a column, or None for anything else."""
    if isinstance(person, np.ndarray) and person.ndim != 1:
        return None
    return len(person) if hasattr(person, "__len__") else None


def _whole(name: str, column: object) -> IntArray:
    if not isinstance(column, np.ndarray) or isinstance(column, np.ma.MaskedArray) or column.ndim != 1:
        raise InputError(f"{name} must be an array of one dimension, not {type(column).__name__}. Nothing was added.")
    if column.dtype.kind not in "iu" or not np.can_cast(column.dtype, np.int64):
        raise InputError(f"{name} must be an array of int64, not {column.dtype.type.__name__}. Nothing was added.")
    return np.ascontiguousarray(column, np.int64)


def _offer(
    person: IntArray, time: IntArray, key: IntArray, first: IntArray, chosen: Slots, rest: bool
) -> tuple[IntArray, IntArray, IntArray]:
    """Leave the smallest (time, key) of each person in `first` and `chosen`; give back all others if the `rest` is wanted.

    Of a person's events that come before the one kept, the first in the row replaces it and the others try again. That ends
    at once where events come in order of time; after a few rounds they are brought in order.
    """
    back = [(person[:0], time[:0], key[:0])]
    rounds = 0
    while len(person):
        kept = first.take(person)
        better = time < kept
        tied = np.flatnonzero(time == kept)
        better[tied] = key[tied] < chosen.take(person[tied])
        if not better.all():
            if rest:
                back.append((person[~better], time[~better], key[~better]))
            person, time, key, kept = person[better], time[better], key[better], kept[better]
        rounds += 1
        if rounds == _ROUNDS:
            order = np.lexsort((key, time, person))
            person, time, key, kept = person[order], time[order], key[order], kept[order]
        replaced = chosen.take(person)
        row = np.arange(len(person), dtype=np.int32)
        chosen[person[::-1]] = row[::-1]
        won = chosen.take(person) == row
        into = person[won]
        first[into] = time[won]
        chosen[into] = key[won]
        if rest:
            gone = won & (kept < NEVER)
            back.append((person[gone], kept[gone], replaced[gone].astype(np.int64)))
        if won.all():
            break
        person, time, key = person[~won], time[~won], key[~won]
    person, time, key = (np.concatenate(columns) for columns in zip(*back, strict=True))
    return person, time, key
