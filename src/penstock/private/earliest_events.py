"""The earliest events of each person of an open unit: of a person a few, of which each is a time
and a key.

Persons are numbers here. Everything is raw data: nothing of it is shown, logged or raised.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np

from penstock.core.arrays import BoolArray, IntArray
from penstock.private.person_ids import Loops, Slots

NEVER = np.iinfo(np.int64).max
"""The time of no event; its key is one past the last."""

Events: TypeAlias = tuple[IntArray, Slots]
"""Per person a time and a key."""

_ROUNDS = 4
_SOME = 1 << 16
"""Persons that are counted at a time, so that their keys stay in the cache."""


class EarliestEvents(Protocol):
    """At most so many events a person, in levels: the earliest event of each, then the second, … No
    level has a later one.
    """

    def __len__(self) -> int:
        """How many levels there are: one at least once somebody came, and more only if somebody
        came more than once.
        """

    @property
    def nbytes(self) -> int:
        """The memory that is taken."""

    def fits(self, earliest: int, latest: int) -> bool:
        """Whether events of these times can be offered."""

    def offer(
        self, person: IntArray, time: IntArray, key: IntArray, *, low: int, persons: int
    ) -> None:
        """Keep of these and of those kept before the smallest by time and key. The person with
        number 0 is the id `low`.
        """

    def events(self, level: int, persons: int) -> Events:
        """The events of a level by person."""

    def put(self, level: int, person: IntArray, events: Events, *, persons: int) -> None:
        """Events of other persons than were there so far."""

    def move(self, by: int, persons: int) -> None:
        """So many persons get a number that is higher by so much."""

    def present(self, persons: int) -> BoolArray:
        """Which persons have an event."""

    def counts(self, persons: int) -> IntArray:
        """How many of the kept events have each key."""

    def clear(self, persons: int) -> None:
        """No events; memory stays."""


class Packed:
    """Events as one number each: the time since some instant, and in its lowest bits the key.

    So the earliest event is the smallest number. Times must lie within what the key leaves of 63
    bits, which is two years for a hundred thousand keys.
    """

    def __init__(self, *, keys: int, contribution: int, loops: Loops | None) -> None:
        self._keys = keys
        self._contribution = contribution
        self._loops = loops
        self._bits = keys.bit_length()  # so NEVER ends in a number that is no key
        self._base: int | None = None
        self._levels: list[IntArray] = []

    def __len__(self) -> int:
        return len(self._levels)

    @property
    def nbytes(self) -> int:
        return sum(level.nbytes for level in self._levels)

    def fits(self, earliest: int, latest: int) -> bool:
        """The first that are asked for decide about the others: half of the room is before them."""
        room = 1 << (63 - self._bits)
        base = max(earliest - room // 2, -(2**63)) if self._base is None else self._base
        if not base <= earliest <= latest < base + room - 1:
            return False
        self._base = base
        return True

    def offer(
        self, person: IntArray, time: IntArray, key: IntArray, *, low: int, persons: int
    ) -> None:
        assert self._base is not None
        first = self._level(0, persons)
        if self._loops is not None:
            rest = self._contribution > 1
            person, value = self._loops.offer(
                person, low, time, self._base, key, self._bits, first, rest
            )
        else:
            person = person - low if low else person
            value = time - self._base
            value <<= self._bits
            value |= key
            if self._contribution == 1:
                np.minimum.at(first, person, value)
                return
            person, value = _smallest(person, value, first, True)
        for level in range(1, self._contribution):
            if not len(person):
                return
            rest = level + 1 < self._contribution
            smallest = _smallest if self._loops is None else self._loops.smallest
            person, value = smallest(person, value, self._level(level, persons), rest)

    def events(self, level: int, persons: int) -> Events:
        value = self._level(level, persons)[:persons]
        time, key = value >> self._bits, value & ((1 << self._bits) - 1)
        none = value == NEVER
        time += self._base or 0
        time[none], key[none] = NEVER, self._keys
        return time, key.astype(np.int32)

    def put(self, level: int, person: IntArray, events: Events, *, persons: int) -> None:
        time, key = events
        there = np.flatnonzero(time < NEVER)
        value = (time[there] - (self._base or 0)) << self._bits | key[there]
        self._level(level, persons)[person[there]] = value

    def move(self, by: int, persons: int) -> None:
        self._levels = [_moved(level, by, persons, NEVER) for level in self._levels]

    def present(self, persons: int) -> BoolArray:
        present: BoolArray = self._level(0, persons)[:persons] < NEVER
        return present

    def counts(self, persons: int) -> IntArray:
        counts = np.zeros(self._keys, np.int64)
        last = (1 << self._bits) - 1
        some = max(_SOME, 4 * self._keys)
        for level in self._levels:
            for start in range(0, min(persons, len(level)), some):
                chosen = level[start : min(start + some, persons)] & last
                counts += np.bincount(chosen, minlength=self._keys)[: self._keys]
        return counts

    def clear(self, persons: int) -> None:
        self._base = None
        for level in self._levels:
            level[:persons] = NEVER

    def _level(self, level: int, persons: int) -> IntArray:
        if level == len(self._levels):
            self._levels.append(np.empty(0, np.int64))
        self._levels[level] = _longer(self._levels[level], persons, NEVER)
        return self._levels[level]


class Wide:
    """Events of any times: a column of times and one of keys for each level."""

    def __init__(self, *, keys: int, contribution: int) -> None:
        self._keys = keys
        self._contribution = contribution
        self._levels: list[Events] = []

    def __len__(self) -> int:
        return len(self._levels)

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for level in self._levels for column in level)

    def fits(self, earliest: int, latest: int) -> bool:
        return True

    def offer(
        self, person: IntArray, time: IntArray, key: IntArray, *, low: int, persons: int
    ) -> None:
        """Brings the events and those that these persons have already in order, and takes the first
        of each person.
        """
        person = person - low
        who = np.unique(person)
        kept = [self._level(level, persons) for level in range(len(self))]
        person = np.concatenate([person, *(who for _ in kept)])
        time = np.concatenate([time, *(first[who] for first, _ in kept)])
        key = np.concatenate([key, *(chosen[who] for _, chosen in kept)])
        there = time < NEVER
        person, time, key = person[there], time[there], key[there]
        order = np.lexsort((key, time, person))
        person, time, key = person[order], time[order], key[order]
        row = np.arange(len(person))
        rank = row - np.maximum.accumulate(np.where(np.diff(person, prepend=-1) != 0, row, 0))
        for level in range(min(self._contribution, int(rank.max()) + 1)):
            first, chosen = self._level(level, persons)
            these = rank == level
            first[person[these]], chosen[person[these]] = time[these], key[these]

    def events(self, level: int, persons: int) -> Events:
        first, chosen = self._level(level, persons)
        return first[:persons].copy(), chosen[:persons].copy()

    def put(self, level: int, person: IntArray, events: Events, *, persons: int) -> None:
        first, chosen = self._level(level, persons)
        first[person], chosen[person] = events

    def move(self, by: int, persons: int) -> None:
        self._levels = [
            (_moved(first, by, persons, NEVER), _moved(chosen, by, persons, self._keys))
            for first, chosen in self._levels
        ]

    def present(self, persons: int) -> BoolArray:
        present: BoolArray = self._level(0, persons)[0][:persons] < NEVER
        return present

    def counts(self, persons: int) -> IntArray:
        counts = np.zeros(self._keys, np.int64)
        for _, chosen in self._levels:
            counts += np.bincount(chosen[:persons], minlength=self._keys + 1)[: self._keys]
        return counts

    def clear(self, persons: int) -> None:
        for first, chosen in self._levels:
            first[:persons] = NEVER
            chosen[:persons] = self._keys

    def _level(self, level: int, persons: int) -> Events:
        if level == len(self._levels):
            self._levels.append((np.empty(0, np.int64), np.empty(0, np.int32)))
        first, chosen = self._levels[level]
        self._levels[level] = _longer(first, persons, NEVER), _longer(chosen, persons, self._keys)
        return self._levels[level]


def _longer(column: Any, size: int, fill: int) -> Any:
    """The column with room for so many, and for as many again if it has to move."""
    if len(column) >= size:
        return column
    longer = np.full(1 << max(10, (size - 1).bit_length()), fill, column.dtype)
    longer[: len(column)] = column
    return longer


def _moved(column: Any, by: int, size: int, fill: int) -> Any:
    moved = _longer(column[:0], by + size, fill)
    there = column[:size]
    moved[by : by + len(there)] = there
    return moved


def _smallest(
    person: IntArray, value: IntArray, first: IntArray, rest: bool
) -> tuple[IntArray, IntArray]:
    """Leave the smallest value of each person in `first`; give back all others if the `rest` is
    wanted.

    Of a person's values that are below the one kept, the first in the row replaces it and the
    others try again. That ends at once where events come in order of time; after a few rounds they
    are brought in order.
    """
    back = [(person[:0], value[:0])]
    rounds = 0
    while len(person):
        kept = first.take(person)
        better = value < kept
        if not better.all():
            if rest:
                back.append((person[~better], value[~better]))
            person, value, kept = person[better], value[better], kept[better]
        rounds += 1
        if rounds == _ROUNDS:
            order = np.lexsort((value, person))
            person, value, kept = person[order], value[order], kept[order]
        row = np.arange(len(person))
        first[person[::-1]] = row[::-1]
        won = first.take(person) == row
        first[person[won]] = value[won]
        if rest:
            gone = won & (kept < NEVER)
            back.append((person[gone], kept[gone]))
        if won.all():
            break
        person, value = person[~won], value[~won]
    person, value = (np.concatenate(columns) for columns in zip(*back, strict=True))
    return person, value
