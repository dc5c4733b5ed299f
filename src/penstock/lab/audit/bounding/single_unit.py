"""One unit of events, given to the shipped bounding in every way in which it can come.

Streams from sources have a few hundred keys and units of a day at most. Here a unit may have a
million keys, and its times may lie any distance apart. It is counted in one pass, in batches with
saves in between, and in parts that are merged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.errors import InputError
from penstock.lab.audit.bounding.streams import CONTRIBUTIONS, Random, families
from penstock.lab.audit.bounding.verdict import Sentence
from penstock.private.bounding import Bounding, OpenUnit
from penstock.private.counting import _decoded, _encoded
from penstock.private.person_ids import arrow
from penstock.private.person_places import partition_of, place_of

KEYS = (1, 2, 4, 7, 256, 300, 65_536, 2**20)
"""Numbers of keys. The larger they are, the fewer bits are left for times."""

SPANS = (1, 2, 10**6, 86_400 * 10**6, 10**14, 2**48, 2**58, 2**62)
"""How far apart the times of a unit may lie, in microseconds."""

STARTS = (0, 1_774_569_600_000_000, -(2**61), -(2**63))
"""First instants of a unit."""

MANY_KEYS = 1_000
"""From so many keys on, parts are fewer and are not written to a store, which takes long."""

OTHERS_IN_UNIT = 30

IdKind: TypeAlias = Literal["signed", "unsigned", "text"]


class UnitEvent(NamedTuple):
    """An event of the unit. Without an id, it is a person of its own."""

    person: int | str | None
    time: int
    key: int
    mine: bool = False


@dataclass(frozen=True)
class UnitCase:
    """The events of a unit, and how they are counted."""

    keys: int
    contribution: int
    kind: IdKind
    events: tuple[UnitEvent, ...]

    def words(self) -> str:
        """The setting in words."""
        times = [event.time for event in self.events]
        return (
            f"{self.keys:,} keys, contribution {self.contribution}, {self.kind} ids, "
            f"{len(self.events)} events within {max(times) - min(times):,} µs"
        )

    def only(self, wanted: Sequence[bool]) -> UnitCase:
        """The same unit with some of its events."""
        kept = tuple(each for each, keep in zip(self.events, wanted, strict=True) if keep)
        return UnitCase(self.keys, self.contribution, self.kind, kept)

    def by_the_rule(self) -> IntArray:
        """The counts, slowly: the earliest events of each person, then the smallest keys."""
        counts = np.zeros(self.keys, np.int64)
        people: dict[int | str, list[tuple[int, int]]] = defaultdict(list)
        for event in self.events:
            if event.person is None:
                counts[event.key] += 1
            else:
                people[event.person].append((event.time, event.key))
        for theirs in people.values():
            for _, key in sorted(theirs)[: self.contribution]:
                counts[key] += 1
        return counts


def make_unit(rng: Random) -> UnitCase:
    """A unit with one person of many events among others.

    Parameters
    ----------
    rng : Generator
        Makes all choices.
    """
    known = families(rng)
    kind: IdKind = ("signed", "unsigned", "text")[int(rng.integers(0, 3))]
    names = list(known) if kind == "text" else list(known)[1:4]
    ids = known[names[int(rng.integers(0, len(names)))]]
    me, others = ids.mine[0], list(dict.fromkeys(ids.others))
    if kind == "text":
        me, others = str(me), list(dict.fromkeys(str(each) for each in ids.others))
    elif kind == "unsigned":
        me, others = int(me) % 2**64, [int(each) % 2**64 for each in others]
    others = [each for each in others if each != me]
    keys, span = int(rng.choice(KEYS)), int(rng.choice(SPANS))
    start = min(int(rng.choice(STARTS)), 2**62 - span)
    contribution = int(rng.choice(CONTRIBUTIONS))
    near = min(span, 10**6)
    moments = [start + int(each) for each in (*rng.integers(0, near, 4), *rng.integers(0, span, 3))]
    moments += [start, start + span - 1]
    places = [*(int(each) for each in rng.integers(0, keys, 4)), 0, keys - 1]

    def event(person: int | str | None, mine: bool = False) -> UnitEvent:
        when = moments[int(rng.integers(0, len(moments)))]
        return UnitEvent(person, when, places[int(rng.integers(0, len(places)))], mine)

    events = [event(me, mine=True) for _ in range(int(rng.integers(1, contribution + 6)))]
    for _ in range(OTHERS_IN_UNIT):
        nobody = rng.random() < 0.1
        events.append(event(None if nobody else others[int(rng.integers(0, len(others)))]))
    order = rng.permutation(len(events))
    return UnitCase(keys, contribution, kind, tuple(events[place] for place in order))


def judged_unit(case: UnitCase, rng: Random) -> Iterator[tuple[Sentence, str]]:
    """Count a unit in several ways; yield each sentence that does not hold, and what was found.

    Parameters
    ----------
    case : UnitCase
        The unit.
    rng : Generator
        Chooses batches, saves and merges.
    """
    fast = None if rng.random() < 0.5 else False
    again = Bounding(keys=case.keys, contribution=case.contribution, fast=fast)
    mine = [event.mine for event in case.events]
    without = case.only([not each for each in mine])
    fewer = case.only([each or rng.random() < 0.5 for each in mine])
    alone = fewer.only([not event.mine for event in fewer.events])
    here, there = _one_pass(case, again), _one_pass(without, again)
    change = here - there
    size, said = int(np.abs(change).sum()), case.words()
    if size > case.contribution:
        yield "bounded", f"the counts differ by {size} ({said})"
    if change.min() < 0:
        yield "one direction", f"the person's events make some counts smaller ({said})"
    if not np.array_equal(change, _one_pass(fewer, again) - _one_pass(alone, again)):
        yield "own events", f"the person changes other counts among fewer people ({said})"
    if not np.array_equal(here, case.by_the_rule()):
        yield "rule", f"a slow count by the rule differs ({said})"
    if not np.array_equal(here, _in_batches(case, rng)):
        yield "arrival", f"other order, batches and restarts give other counts ({said})"
    if not np.array_equal(here, _in_parts(case, rng)):
        yield "arrival", f"parts that are merged give other counts ({said})"
    if not _kinds_apart(again, int(rng.integers(1, 2**62))):
        yield "own events", "an id of another type with the same 64 bits is the same person"
    if not _same_places(case, rng):
        yield "own events", f"where a person is counted depends on the ids beside theirs ({said})"


def _one_pass(case: UnitCase, bounding: Bounding) -> IntArray:
    """The counts of a unit in one batch, by an object that has counted other units before."""
    bounding.clear()
    _add(bounding, case, case.events)
    return bounding.counts()


def _in_batches(case: UnitCase, rng: Random) -> IntArray:
    """The counts of the same events in another order, or by time, with saves between batches."""
    events = [case.events[place] for place in rng.permutation(len(case.events))]
    if rng.random() < 0.5:
        events.sort(key=lambda event: event.time)
    bounding = _bounding(case, rng)
    for batch in _cut(case, events, rng):
        _add(bounding, case, batch)
        if rng.random() < 0.3:
            saved = bounding.save()
            bounding = _bounding(case, rng)
            bounding.load(_stored(saved))
    return bounding.counts()


def _in_parts(case: UnitCase, rng: Random) -> IntArray:
    """The counts of the same events that were bounded in parts, and merged."""
    events = [case.events[place] for place in rng.permutation(len(case.events))]
    whole = _bounding(case, rng)
    for batch in _cut(case, events, rng):
        part = _bounding(case, rng)
        _add(part, case, batch)
        whole.merge(_stored(part.save()))
    return whole.counts()


def _kinds_apart(bounding: Bounding, number: int) -> bool:
    """Whether a negative id and the huge one of the same bits are two people, or refused."""
    none, first = np.zeros(1, np.int64), np.zeros(1, np.int64)
    bounding.clear()
    for _ in range(bounding.contribution):
        bounding.add(np.array([2**64 - number], np.uint64), none, first)
    try:
        bounding.add(np.array([-number], np.int64), none, first)
    except InputError:
        return True
    return int(bounding.counts().sum()) == bounding.contribution + 1


def _same_places(case: UnitCase, rng: Random) -> bool:
    """Whether each id has one place on several machines, and one partition, in any company."""
    named = [event for event in case.events if event.person is not None]
    places = int(rng.integers(2, 10_000))
    ways: tuple[Callable[[Any], IntArray], ...] = (
        lambda ids: place_of(ids, places),
        lambda ids: partition_of(ids, places, "murmur2"),
        lambda ids: partition_of(ids, places, "crc32"),
    )
    return all(
        np.array_equal(
            way(_ids(case, named)),
            [int(way(_ids(case, [event]))[0]) for event in named],
        )
        for way in ways
        if named
    )


def _bounding(case: UnitCase, rng: Random) -> Bounding:
    fast = None if rng.random() < 0.5 else False
    return Bounding(keys=case.keys, contribution=case.contribution, fast=fast)


def _stored(unit: OpenUnit) -> OpenUnit:
    """What a store gives back."""
    return _decoded(_encoded(unit)) if unit.keys < MANY_KEYS else unit


def _cut(case: UnitCase, events: Sequence[UnitEvent], rng: Random) -> Iterator[Sequence[UnitEvent]]:
    start, sizes = 0, (1, 2, 5, 17) if case.keys < MANY_KEYS else (9, 17)
    while start < len(events):
        size = int(rng.choice(sizes))
        yield events[start : start + size]
        start += size


def _add(bounding: Bounding, case: UnitCase, events: Sequence[UnitEvent]) -> None:
    """Give a batch to the bounding: events without an id apart, as the counting does."""
    for named in (False, True):
        some = [event for event in events if (event.person is not None) == named]
        if some:
            key = np.array([event.key for event in some], np.int64)
            time = np.array([event.time for event in some], np.int64)
            bounding.add(_ids(case, some) if named else None, key, time)


def _ids(case: UnitCase, events: Sequence[UnitEvent]) -> Any:
    ids = [event.person for event in events]
    if case.kind == "text":
        return arrow().array(ids, arrow().string())
    return np.array(ids, np.uint64 if case.kind == "unsigned" else np.int64)
