"""The earliest events of each person of an open unit. An event is a time and a key.

Persons are numbers here. Everything is raw data: nothing is shown, logged or raised.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np

from penstock.core.arrays import BoolArray, IntArray
from penstock.private.person_ids import Loops, Slots

NEVER = np.iinfo(np.int64).max
"""The time of no event; its key is one past the last key."""

Events: TypeAlias = tuple[IntArray, Slots]
"""A time and a key per person."""

_ROUNDS_BEFORE_SORTING = 4
_PERSONS_PER_COUNT = 1 << 16
"""Persons that are counted at a time, so that their keys stay in the cache."""


class EarliestEvents(Protocol):
    """At most `contribution` events per person, in levels: the earliest event of each, the second,
    ….
    """

    def __len__(self) -> int:
        """The number of levels. The second exists only if a person has two events, and so on."""

    @property
    def nbytes(self) -> int:
        """The memory in use, in bytes."""

    def fits(self, earliest: int, latest: int) -> bool:
        """Whether events of these times can be offered."""

    def offer(
        self, person: IntArray, time: IntArray, key: IntArray, *, low: int, persons: int
    ) -> None:
        """Keep the smallest events by time and key. The person with number 0 has the id `low`."""

    def events(self, level: int, persons: int) -> Events:
        """The events of a level, by person."""

    def put(self, level: int, person: IntArray, events: Events, *, persons: int) -> None:
        """Set events of persons that have none yet."""

    def move(self, by: int, persons: int) -> None:
        """Raise the numbers of all persons by `by`."""

    def present(self, persons: int) -> BoolArray:
        """Which persons have an event."""

    def counts(self, persons: int) -> IntArray:
        """The number of kept events of each key."""

    def clear(self, persons: int) -> None:
        """Remove all events. The memory is used again."""


class Packed:
    """Events as one number each: the time since some instant, with the key in the lowest bits.

    So the earliest event is the smallest number. Times must fit into the bits that the key leaves
    of 63: two years for a hundred thousand keys.
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
        """The first times decide: half of the range lies before them."""
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
        some = max(_PERSONS_PER_COUNT, 4 * self._keys)
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
    """Events of any times: a column of times and a column of keys per level."""

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
        """Sort the events with those that these persons already have, and take the first of each
        person.
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
    """The column with room for `size`. If it has to move, its room at least doubles."""
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
    """Leave the smallest value of each person in `first`. Returns the others if `rest` is set.

    Of a person's values below the kept one, the first in the row replaces it, and the others try
    again. If events come in order of time, one round suffices. After a few rounds the values are
    sorted.
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
        if rounds == _ROUNDS_BEFORE_SORTING:
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
