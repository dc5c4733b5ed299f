"""Bounding against a brute-force twin; arrival order, batches and retries of reading do not matter;
nothing is told.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import ConfigurationError, InputError, MissingExtraError, StateError
from penstock.private import bounding, person_ids, state
from penstock.private.bounding import Bounding, OpenUnit

try:
    import numba
except ImportError:
    numba = None

KEYS = 4
BIG = 918_273_645  # no other number in a message looks like it

each_way = pytest.mark.parametrize(
    "fast",
    [
        pytest.param(False, id="numpy"),
        pytest.param(
            True,
            id="numba",
            marks=pytest.mark.skipif(numba is None, reason="numba, the extra `fast`, is missing"),
        ),
    ],
)
quick = settings(derandomize=True, deadline=None, max_examples=60)

WHOLE = [0, 1, 2, 4096, 8192, 2**40, -1, -(2**63), 2**63 - 1]
TEXT = [
    "",
    "a",
    "a\0",
    "b",
    "åä",
    "12345678",
    "123456789",
    "12345678\0",
    "x" * 128,
    "x" * 129,
    "x" * 128 + "y",
    "y" * 1000,
]
times = st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 2, -(10**18), 10**18])


def events(ids):
    """Few persons, times and keys, so that many meet; some events are to be dropped."""
    return st.lists(st.tuples(st.sampled_from(ids), times, st.integers(-1, KEYS - 1)), max_size=40)


def whole(*numbers):
    return np.array(numbers, np.int64)


def brute(rows, contribution):
    """The counts by the rule itself."""
    counts = [0] * KEYS
    for person in {person for person, _, key in rows if key >= 0}:
        own = sorted((time, key) for other, time, key in rows if other == person and key >= 0)
        for _, key in own[:contribution]:
            counts[key] += 1
    return counts


def add(unit, rows, text):
    ids = [person for person, _, _ in rows]
    time, key = (np.array([row[place] for row in rows], np.int64) for place in (1, 2))
    unit.add(pa.array(ids, pa.string()) if text else np.array(ids, np.int64), key, time)


def counted(rows, *, contribution=1, text=False, fast=False, cuts=()):
    unit = Bounding(keys=KEYS, contribution=contribution, fast=fast)
    edges = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    for start, stop in pairwise(edges):
        add(unit, rows[start:stop], text)
    return unit.counts().tolist()


@pytest.mark.slow
@each_way
@pytest.mark.parametrize("text", [False, True], ids=["whole", "text"])
@pytest.mark.parametrize("contribution", [1, 2, 3])
@given(data=st.data())
@quick
def test_the_earliest_events_of_each_person_are_counted_in_any_order_and_any_batches(
    data, contribution, text, fast
):
    rows = data.draw(events(TEXT if text else WHOLE))
    mixed = data.draw(st.permutations(rows))
    cuts = data.draw(st.lists(st.integers(0, 40), max_size=4))
    expected = brute(rows, contribution)
    assert counted(rows, contribution=contribution, text=text, fast=fast) == expected
    assert counted(mixed, contribution=contribution, text=text, fast=fast, cuts=cuts) == expected


@each_way
@pytest.mark.parametrize("contribution", [1, 2, 3])
def test_a_batch_may_bring_far_times_and_far_ids_together(contribution, fast):
    rows = [(0, 0, 0), (0, -(2**63), 1), (4096, 0, 0)]
    expected = brute(rows, contribution)
    assert counted(rows, contribution=contribution, fast=fast, cuts=[1]) == expected


@each_way
@pytest.mark.parametrize("text", [False, True], ids=["whole", "text"])
@given(data=st.data())
@quick
def test_one_person_more_changes_the_counts_by_no_more_than_the_contribution(data, text, fast):
    ids = TEXT if text else WHOLE
    rows = data.draw(events(ids))
    contribution = data.draw(st.integers(1, 3))
    gone = data.draw(st.sampled_from(ids))
    with_all, without = (
        counted(part, contribution=contribution, text=text, fast=fast)
        for part in (rows, [row for row in rows if row[0] != gone])
    )
    assert sum(abs(a - b) for a, b in zip(with_all, without, strict=True)) <= contribution


@pytest.mark.slow
@each_way
@pytest.mark.parametrize("text", [False, True], ids=["whole", "text"])
@given(data=st.data())
@quick
def test_a_unit_saved_in_the_middle_goes_on_as_if_nothing_had_happened(data, text, fast):
    rows = data.draw(events(TEXT if text else WHOLE))
    cut = data.draw(st.integers(0, len(rows)))
    before = Bounding(keys=KEYS, contribution=2, fast=fast)
    add(before, rows[:cut], text)
    saved = state.decode(state.encode({"unit": before.save()}, [OpenUnit]), [OpenUnit])["unit"]
    after = Bounding(keys=KEYS, contribution=2, fast=False)
    after.add(np.array([5, 6, 7]), np.array([0, 1, 2]), np.array([1, 1, 1]))
    after.load(saved)
    assert after.counts().tolist() == before.counts().tolist()
    add(after, rows[cut:], text)
    assert after.counts().tolist() == brute(rows, 2)


@each_way
@pytest.mark.parametrize("text", [False, True], ids=["whole", "text"])
@pytest.mark.parametrize("contribution", [1, 2, 3, 4, 5])
@given(data=st.data())
@settings(quick, max_examples=30)
def test_parts_that_were_bounded_apart_and_merged_count_like_one_pass(
    data, contribution, text, fast
):
    rows = data.draw(events(TEXT if text else WHOLE))
    alone = data.draw(st.lists(st.integers(0, KEYS - 1), max_size=4))
    parts = data.draw(st.integers(1, 4))
    places = data.draw(st.lists(st.integers(0, parts - 1), min_size=40, max_size=40))
    merged = Bounding(keys=KEYS, contribution=contribution, fast=fast)
    for part in range(parts):
        own = Bounding(keys=KEYS, contribution=contribution, fast=fast)
        add(own, [row for row, place in zip(rows, places, strict=False) if place == part], text)
        mine = np.array(alone if part == 0 else [], np.int64)
        own.add(None, mine, np.zeros_like(mine))
        saved = state.decode(state.encode({"unit": own.save()}, [OpenUnit]), [OpenUnit])["unit"]
        merged.merge(saved)
    expected = np.array(brute(rows, contribution)) + np.bincount(alone, minlength=KEYS)
    assert merged.counts().tolist() == expected.tolist()


def test_a_merged_part_has_ids_of_the_same_kind_and_unsigned_ids_stay_unsigned():
    unit, other = (Bounding(keys=KEYS, contribution=2, fast=False) for _ in range(2))
    big = np.array([2**64 - 1, 5], np.uint64)
    unit.add(big, whole(0, 1), whole(1, 1))
    other.add(big, whole(2, 2), whole(0, 9))
    unit.merge(other.save())
    assert unit.counts().tolist() == [1, 1, 2, 0]
    texts = Bounding(keys=KEYS, contribution=2, fast=False)
    add(texts, [("a", 1, 1)], True)
    with pytest.raises(InputError, match="of one kind"):
        unit.merge(texts.save())
    assert unit.counts().tolist() == [1, 1, 2, 0]
    with pytest.raises(StateError, match="cannot go on"):
        unit.merge(Bounding(keys=KEYS, contribution=1).save())


@each_way
@pytest.mark.parametrize("contribution", [1, 3])
@pytest.mark.parametrize("text", [False, True], ids=["whole", "text"])
def test_many_persons_in_small_and_large_batches(contribution, text, fast):
    rng = np.random.default_rng(1)
    size = 30_000
    people = rng.integers(-(2**63), 2**63, 9_000)
    people[:3_000] = np.arange(3_000) << 20  # all of them want the same place
    person, time, key = (
        people[rng.integers(0, 9_000, size)],
        rng.integers(-50, 50, size),
        rng.integers(-1, 500, size),
    )
    order = np.lexsort((key, time, person))
    order = order[key[order] >= 0]
    start = np.concatenate([[True], np.diff(person[order]) != 0])
    rank = np.arange(len(order)) - np.maximum.accumulate(np.where(start, np.arange(len(order)), 0))
    expected = np.bincount(key[order][rank < contribution], minlength=500)
    ids = pa.array(person).cast(pa.string()) if text else person
    unit = Bounding(keys=500, contribution=contribution, fast=fast)
    for _ in range(2):
        unit.clear()
        for rows in np.split(np.arange(size), [1, 2, 700, 15_000]):
            unit.add(ids[rows[0] : rows[-1] + 1], key[rows], time[rows])
        np.testing.assert_array_equal(unit.counts(), expected)
        np.testing.assert_array_equal(unit.counts(), expected)


@each_way
@pytest.mark.parametrize("order", [1, -1], ids=["forwards", "backwards"])
@pytest.mark.parametrize("contribution", [1, 2])
def test_one_person_with_very_many_events_takes_no_more_work_than_many_persons(
    contribution, order, fast, monkeypatch
):
    sorts = []
    monkeypatch.setattr(np, "lexsort", lambda keys, sort=np.lexsort: sorts.append(1) or sort(keys))
    time = np.arange(200_000)[::order].copy()
    unit = Bounding(keys=2, contribution=contribution, fast=fast)
    unit.add(np.zeros(200_000, np.int64), (time > 0).astype(np.int64), time)
    assert unit.counts().tolist() == [1, contribution - 1]
    assert len(sorts) <= contribution


def test_texts_whose_hashes_are_all_the_same_are_still_told_apart(monkeypatch):
    monkeypatch.setattr(
        person_ids, "_hashes", lambda words, start, length: np.zeros(len(length), np.int64)
    )
    rows = [(person, time, time % KEYS) for time in range(3) for person in TEXT]
    for contribution in (1, 2):
        assert counted(rows, contribution=contribution, text=True, cuts=[5, 20]) == brute(
            rows, contribution
        )


@pytest.mark.skipif(numba is None, reason="numba, the extra `fast`, is missing")
@given(texts=st.lists(st.binary(max_size=40), min_size=1, max_size=20))
@quick
def test_compiled_hashes_are_the_very_same(texts):
    from penstock.private import bounding_fast

    ends, text = person_ids._parts(pa.array(texts, pa.large_binary()))
    words = person_ids._words(np.concatenate([text, np.zeros(8, np.uint8)]))
    places = ends[:-1], np.diff(ends)
    hashes = person_ids._hashes(words, *places)
    np.testing.assert_array_equal(bounding_fast.hashes(words, *places, person_ids._SALT), hashes)
    assert len(set(hashes.tolist())) == len(set(texts))


@each_way
def test_a_unit_that_has_grown_since_somebody_came_twice_is_saved_whole(fast):
    unit = Bounding(keys=2, contribution=2, fast=fast)
    unit.add(whole(7, 7), whole(1, 1), whole(0, 1))
    unit.add(np.arange(100, 5_000), np.zeros(4_900, np.int64), np.zeros(4_900, np.int64))
    other = Bounding(keys=2, contribution=2, fast=fast)
    other.load(unit.save())
    other.add(whole(4_999, 4_999), whole(1, 1), whole(5, 5))
    assert other.counts().tolist() == [4_900, 3]


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("persons", [300, 3_000])
def test_many_persons_with_texts_are_known_again_after_a_restart(persons, fast):
    """So many that some ids find their first place in the table taken."""
    people = pa.array([f"person {number}" for number in range(persons)])
    first = Bounding(keys=2, contribution=1, fast=fast)
    first.add(people, np.zeros(persons, np.int64), np.arange(persons))
    again = Bounding(keys=2, contribution=1, fast=fast)
    again.load(first.save())
    again.add(people, np.ones(persons, np.int64), np.arange(persons) + 10)
    assert again.counts().tolist() == [persons, 0]


def test_more_persons_than_can_be_numbered_are_refused(monkeypatch):
    monkeypatch.setattr(person_ids, "MAX_PERSONS", 5_000)
    unit = Bounding(keys=1, contribution=1, fast=False)
    with pytest.raises(InputError, match="one unit can hold at most 5000 persons"):
        unit.add(np.arange(6_000) << 20, np.zeros(6_000, np.int64), np.zeros(6_000, np.int64))


@pytest.mark.skipif(numba is None, reason="numba, the extra `fast`, is missing")
@pytest.mark.parametrize("contribution", [1, 3])
def test_compiled_loops_keep_the_very_same_events(contribution):
    kept = []
    for fast in (False, True):
        unit = Bounding(keys=50, contribution=contribution, fast=fast)
        assert unit.fast is fast
        for part in range(4):
            batch = np.random.default_rng(part)
            unit.add(
                batch.integers(0, 10**12, 5_000) % 3_001,
                batch.integers(0, 50, 5_000),
                batch.integers(0, 9, 5_000),
            )
        saved = unit.save()
        order = np.argsort(saved.ids)
        kept.append(
            [saved.ids[order], *(column[order] for column in (*saved.times, *saved.chosen))]
        )
    assert len(kept[0]) == 1 + 2 * contribution
    for ours, theirs in zip(*kept, strict=True):
        np.testing.assert_array_equal(ours, theirs)


class Naive:
    """The same rule by a dictionary of everything."""

    def __init__(self):
        self.events = {}

    def add(self, person, key, time):
        for who, what, when in zip(person.tolist(), key.tolist(), time.tolist(), strict=True):
            self.events.setdefault(who, []).append((when, what))

    def kept(self, contribution):
        return {who: sorted(events)[:contribution] for who, events in self.events.items()}


def kept_by(saved):
    """What a saved unit holds of each person."""
    events = {}
    for row, who in enumerate(saved.ids.tolist()):
        own = [
            (int(times[row]), int(chosen[row]))
            for times, chosen in zip(saved.times, saved.chosen, strict=True)
        ]
        events[who] = sorted(each for each in own if each[0] < 2**63 - 1)
    return events


IDS_OVER_TIME = {
    "close from the first": [range(1_000), range(1_000)],
    "close, and then a little wider on both sides": [
        range(500, 1_500),
        range(400, 1_700),
        range(2_500),
    ],
    "creeping up": [range(start, start + 300) for start in range(0, 3_000, 300)],
    "creeping down": [range(-start, 300 - start) for start in range(0, 3_000, 300)],
    "close until one is far off": [range(2_000), [2**62], range(1_000, 3_000)],
    "close until one is far below": [range(2_000), [-(2**63)], range(1_000, 3_000)],
    "at the very ends": [
        range(2**63 - 500, 2**63),
        range(2**63 - 900, 2**63),
        [-(2**63)],
        range(-(2**63), 500 - 2**63),
    ],
    "sparse at first and then close": [
        range(0, 16_000, 64),
        range(0, 16_000, 16),
        range(0, 16_000, 5),
        range(0, 16_000, 3),
    ],
}


@pytest.mark.slow
@each_way
@pytest.mark.parametrize("contribution", [1, 3])
@pytest.mark.parametrize("batches", IDS_OVER_TIME.values(), ids=IDS_OVER_TIME)
def test_ids_may_lie_close_together_or_not_and_change_that_in_the_middle(
    batches, contribution, fast, monkeypatch
):
    monkeypatch.setattr(bounding, "_LOOK", 1 << 10)
    unit = Bounding(keys=50, contribution=contribution, fast=fast)
    for seed in range(3):
        rng, naive = np.random.default_rng(seed), Naive()
        unit.clear()
        for ids in batches[seed and 1 :]:
            person = rng.permutation(np.repeat(np.array(ids, np.int64), 2))
            batch = person, rng.integers(0, 50, len(person)), rng.integers(0, 9, len(person))
            unit.add(*batch)
            naive.add(*batch)
            assert kept_by(unit.save()) == naive.kept(contribution)
        expected = [key for events in naive.kept(contribution).values() for _, key in events]
        np.testing.assert_array_equal(unit.counts(), np.bincount(expected, minlength=50))


def test_every_way_to_number_ids_was_there(monkeypatch):
    """That the test above does what it says."""
    monkeypatch.setattr(bounding, "_LOOK", 1 << 10)
    ways = {}
    for name, batches in IDS_OVER_TIME.items():
        unit = Bounding(keys=1, contribution=1, fast=False)
        ways[name] = []
        for ids in batches:
            unit.add(
                np.array(ids, np.int64), np.zeros(len(ids), np.int64), np.zeros(len(ids), np.int64)
            )
            ways[name].append(unit._close)
    assert ways["creeping up"] == ways["creeping down"] == [True] * 10
    assert (
        ways["close until one is far off"]
        == ways["close until one is far below"]
        == [True, False, False]
    )
    assert ways["sparse at first and then close"][0] is False
    assert ways["sparse at first and then close"][-1] is True


@each_way
@pytest.mark.parametrize("contribution", [1, 3])
@pytest.mark.parametrize("keys", [4, 2**20])
def test_times_may_be_so_far_apart_that_they_do_not_fit_beside_a_key(contribution, keys, fast):
    unit = Bounding(keys=keys, contribution=contribution, fast=fast)
    for seed in range(2):
        rng, naive = np.random.default_rng(seed), Naive()
        unit.clear()
        for far in (1, 10**6, 2**43, 2**61, 1, 2**63 - 1):
            person, key = rng.integers(0, 300, 500), rng.integers(keys - 4, keys, 500)
            time = rng.integers(-3, 3, 500) * (far // 3) - far % 2
            unit.add(person, key, time)
            naive.add(person, key, time)
            assert kept_by(unit.save()) == naive.kept(contribution)
            other = Bounding(keys=keys, contribution=contribution, fast=fast)
            other.load(unit.save())
            np.testing.assert_array_equal(other.counts(), unit.counts())


def test_ids_far_apart_take_no_memory_for_what_lies_between():
    unit = Bounding(keys=1, contribution=1, fast=False)
    for start in (0, 10**9, -(10**12)):
        unit.add(
            np.arange(start, start + 1_000), np.zeros(1_000, np.int64), np.zeros(1_000, np.int64)
        )
    assert unit.counts().tolist() == [3_000]
    assert unit._packed.nbytes < 10**5


def test_without_a_person_column_every_event_is_its_own_person():
    unit = Bounding(keys=3, contribution=1, fast=False)
    unit.add(None, np.array([0, 2, 2, -1]), np.array([1, 1, 1, 1]))
    unit.add(None, np.array([2], np.int32), np.array([9]))
    assert unit.counts().tolist() == [1, 0, 3]
    other = Bounding(keys=3, contribution=1, fast=False)
    other.load(unit.save())
    assert other.counts().tolist() == [1, 0, 3]
    unit.clear()
    assert unit.counts().tolist() == [0, 0, 0]


@pytest.mark.parametrize("ids", [np.array([7, 7]), pa.array(["a", "a"])], ids=["number", "text"])
def test_events_without_a_person_count_beside_those_of_persons(ids):
    unit = Bounding(keys=3, contribution=1, fast=False)
    unit.add(None, np.array([0, 2, 2]), np.array([1, 1, 1]))
    unit.add(ids, np.array([0, 1]), np.array([2, 1]))
    other = Bounding(keys=3, contribution=1, fast=False)
    other.load(unit.save())
    for each in (unit, other):
        each.add(None, np.array([1]), np.array([9]))
        each.add(ids, np.array([0, 0]), np.array([3, 4]))
        assert each.counts().tolist() == [1, 2, 2]


def test_the_same_event_twice_is_two_events_and_a_batch_given_twice_counts_twice():
    unit = Bounding(keys=1, contribution=3, fast=False)
    for expected in (2, 3):
        unit.add(np.array([7, 7]), np.array([0, 0]), np.array([5, 5]))
        assert unit.counts().tolist() == [expected]


IDS = {
    "int64": np.array([3, 1, 3]),
    "int8": np.array([3, 1, 3], np.int8),
    "uint32": np.array([3, 1, 3], np.uint32),
    "uint64": np.array([2**64 - 1, 1, 2**64 - 1], np.uint64),
    "other byte order": np.array([3, 1, 3], ">i8"),
    "strided": np.array([3, 0, 1, 0, 3, 0])[::2],
    "NumPy text": np.array(["c", "a", "c"]),
    "NumPy bytes": np.array([b"c", b"a", b"c"]),
    "objects of text": np.array(["c", "a", "c"], object),
    "objects of bytes": np.array([b"c", b"a", b"c"], object),
    "objects of ints": np.array([3, 1, 3], object),
    "Arrow ints": pa.array([3, 1, 3]),
    "Arrow chunks": pa.chunked_array([["c"], ["a", "c"]]),
    "Arrow slice": pa.array(["z", "c", "a", "c", "z"])[1:4],
    "Arrow large text": pa.array(["c", "a", "c"], pa.large_string()),
    "Arrow text view": pa.array(["c", "a", "c"], pa.string_view()),
    "Arrow dictionary": pa.array(["c", "a", "c"]).dictionary_encode(),
    "Arrow dictionary of ints": pa.array([3, 1, 3]).dictionary_encode(),
    "Arrow bytes of one width": pa.array([b"cc", b"aa", b"cc"], pa.binary(2)),
    "Arrow UUIDs": pa.array([b"c" * 16, b"a" * 16, b"c" * 16], pa.uuid()),
    "Polars": pl.Series([3, 1, 3]),
    "Polars text": pl.Series(["c", "a", "c"]),
    "Polars categories": pl.Series(["c", "a", "c"], dtype=pl.Categorical),
}


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS.keys())
def test_ids_are_taken_from_any_column(ids):
    unit = Bounding(keys=3, contribution=1, fast=False)
    unit.add(ids, np.array([0, 1, 2]), np.array([2, 1, 1]))
    assert unit.counts().tolist() == [0, 1, 1]
    unit.add(ids, np.array([0, -1, -1]), np.array([-5, 0, 0]))
    assert unit.counts().tolist() == [1, 1, 0]


def test_events_to_be_dropped_need_no_person_and_an_empty_batch_is_nothing():
    unit = Bounding(keys=3, contribution=1, fast=False)
    unit.add(pa.array(["a", None]), np.array([1, -1]), np.array([0, 0]))
    unit.add(pa.array([None, None], pa.string()), np.array([-1, -1]), np.array([0, 0]))
    unit.add(pa.array([None]), np.array([-1]), np.array([0]))
    unit.add(np.array([], np.int64), np.array([], np.int64), np.array([], np.int64))
    assert unit.counts().tolist() == [0, 1, 0]


def test_what_is_given_is_not_kept():
    person, key, time = np.array([1, 2]), np.array([0, 1]), np.array([1, 1])
    unit = Bounding(keys=2, contribution=2, fast=False)
    unit.add(person, key, time)
    person[:], key[:], time[:] = 9, 0, -9
    unit.counts()[:] = 7
    assert unit.counts().tolist() == [1, 1]
    saved = unit.save()
    unit.clear()
    assert saved.ids.tolist() == [1, 2]


BAD = {
    "person too short": (whole(BIG), whole(0, 1), whole(0, 0)),
    "person too long": (pa.array([str(BIG)] * 3), whole(0, 1), whole(0, 0)),
    "time too short": (whole(BIG, 1), whole(0, 1), whole(BIG)),
    "key too large": (whole(1, 2), whole(0, BIG), whole(0, 0)),
    "key too small": (whole(1, 2), whole(0, -BIG), whole(0, 0)),
    "float key": (whole(1, 2), np.array([0.0, BIG]), whole(0, 0)),
    "bool key": (whole(1, 2), np.array([True, False]), whole(0, 0)),
    "key as a list": (whole(1, 2), [0, BIG], whole(0, 0)),
    "masked key": (whole(1, 2), np.ma.array([0, BIG], mask=[0, 1]), whole(0, 0)),
    "an Arrow key": (whole(1, 2), pa.array([0, BIG]), whole(0, 0)),
    "dates": (whole(1, 2), whole(0, 1), np.array([BIG, BIG], "datetime64[s]")),
    "unsigned times": (whole(1, 2), whole(0, 1), np.array([BIG, BIG], np.uint64)),
    "two columns of times": (whole(1, 2), whole(0, 1), np.full((2, 2), BIG)),
    "the end of time": (whole(1, 2), whole(0, 1), whole(0, 2**63 - 1)),
    "persons as a list": ([BIG, 1], whole(0, 1), whole(0, 0)),
    "one person": (BIG, whole(0, 1), whole(0, 0)),
    "two columns of persons": (np.full((2, 2), BIG), whole(0, 1), whole(0, 0)),
    "a person without a column": (np.array(BIG), whole(0, 1), whole(0, 0)),
    "a frame": (pl.DataFrame({"person": [BIG, 1]}), whole(0, 1), whole(0, 0)),
    "float persons": (np.array([BIG, 0.5]), whole(0, 1), whole(0, 0)),
    "bool persons": (np.array([True, False]), whole(0, 1), whole(0, 0)),
    "masked persons": (np.ma.array([BIG, 1], mask=[0, 1]), whole(0, 1), whole(0, 0)),
    "Arrow floats": (pa.array([float(BIG), 1.0]), whole(0, 1), whole(0, 0)),
    "Arrow lists": (pa.array([[BIG], [1]]), whole(0, 1), whole(0, 0)),
    "mixed objects": (np.array([BIG, "a"], object), whole(0, 1), whole(0, 0)),
    "broken text": (np.array([f"{BIG}\ud800", "a"], object), whole(0, 1), whole(0, 0)),
    "a missing person": (pa.array([BIG, None]), whole(0, 1), whole(0, 0)),
    "a missing text": (pl.Series([str(BIG), None]), whole(0, 1), whole(0, 0)),
    "text among numbers": (pa.array([str(BIG), "a"]), whole(0, 1), whole(0, 0)),
    "unsigned among signed": (np.array([BIG, 1], np.uint64), whole(0, 1), whole(0, 0)),
}


@pytest.mark.parametrize(("person", "key", "time"), BAD.values(), ids=BAD.keys())
def test_a_batch_that_cannot_be_taken_is_refused_whole_and_nothing_is_told_about_it(
    person, key, time
):
    unit = Bounding(keys=3, contribution=1, fast=False)
    unit.add(whole(70, 80), whole(0, 1), whole(5, 5))
    with pytest.raises(InputError) as caught:
        unit.add(person, key, time)
    message = str(caught.value)
    assert message.endswith("Nothing was added.")
    assert str(BIG) not in message
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert unit.counts().tolist() == [1, 1, 0]
    unit.add(whole(90), whole(2), whole(5))
    assert unit.counts().tolist() == [1, 1, 1]


def test_the_length_of_a_text_is_not_told():
    unit = Bounding(keys=3, contribution=1, fast=False)
    for ids in (np.array(["\ud800" + "a" * 76]), np.array(["\ud800" + "a" * 76], object)):
        with pytest.raises(InputError) as caught:
            unit.add(ids, whole(0), whole(0))
        assert not any(character.isdigit() for character in str(caught.value))


@each_way
def test_columns_that_cannot_be_written_to_are_taken(fast):
    unit = Bounding(keys=3, contribution=2, fast=fast)
    columns = whole(4, 4, 4), whole(0, 1, 2), whole(3, 1, 2)
    for column in columns:
        column.flags.writeable = False
    unit.add(*columns)
    assert unit.counts().tolist() == [0, 1, 1]


def test_a_new_unit_may_have_ids_of_another_kind():
    unit = Bounding(keys=2, contribution=1, fast=False)
    for ids in (
        whole(1, 1),
        pa.array(["a", "a"]),
        np.array([1, 1], np.uint64),
        pa.array(["b", "b"]),
    ):
        unit.add(ids, whole(0, 1), whole(2, 1))
        assert unit.counts().tolist() == [0, 1]
        unit.clear()


@each_way
def test_memory_follows_the_persons_of_a_unit_not_the_events_and_not_the_units(fast):
    unit = Bounding(keys=3, contribution=2, fast=fast)
    held = []
    for start in range(0, 8_000_000, 1_000):
        ids = np.arange(start, start + 1_000)
        if start % 40_000 == 0:
            unit.clear()
        unit.add(ids % 2_000 + start // 40_000 * 2_000, ids % 3, -ids)
        if start % 1_000_000 == 0:
            arrays = (unit._numbers._slots, unit._numbers._known, *unit._packed._levels)
            held.append(sum(array.nbytes for array in arrays))
    assert held[-1] == held[1]
    assert held[-1] < 200_000


def test_nothing_is_shown():
    unit = Bounding(keys=3, contribution=1, fast=False)
    unit.add(pa.array([str(BIG)]), whole(1), whole(BIG))
    for shown in (unit, unit.save(), unit._texts, unit._numbers):
        assert str(BIG) not in repr(shown)


def test_a_unit_of_another_configuration_or_with_columns_that_do_not_fit_is_not_loaded():
    unit = Bounding(keys=3, contribution=2, fast=False)
    unit.add(pa.array(["a", "b"]), whole(0, 1), whole(0, 0))
    saved = unit.save()
    for keys, contribution in ((4, 2), (3, 1)):
        with pytest.raises(
            StateError, match=f"3 keys with contribution 2 cannot go on over {keys} keys"
        ):
            Bounding(keys=keys, contribution=contribution, fast=False).load(saved)
    changes = [
        {"each": saved.each[1:]},
        {"times": []},
        {"times": [saved.times[0][1:]]},
        {"times": [], "chosen": []},
        {"times": [np.full(2, 2**63 - 1)]},
        {"chosen": [saved.chosen[0] + 9]},
        {"text": saved.text[1:]},
        {"ids": -saved.ids},
    ]
    for change in changes:
        with pytest.raises(StateError, match="damaged"):
            unit.load(replace(saved, **change))
    assert unit.counts().tolist() == [1, 1, 0]


@pytest.mark.parametrize("keys", [0, -1, 2**31])
def test_keys_must_be_possible(keys):
    with pytest.raises(ConfigurationError, match="keys must be"):
        Bounding(keys=keys, contribution=1)


def test_a_person_has_one_event_at_least():
    with pytest.raises(ConfigurationError, match="contribution must be 1 or more, not 0"):
        Bounding(keys=1, contribution=0)


def test_without_numba_the_default_is_numpy_and_fast_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, "penstock.private.bounding_fast", raising=False)
    monkeypatch.delattr("penstock.private.bounding_fast", raising=False)
    assert Bounding(keys=1, contribution=1).fast is False
    with pytest.raises(MissingExtraError, match=r"numba.*pip install 'penstock\[fast\]'"):
        Bounding(keys=1, contribution=1, fast=True)
