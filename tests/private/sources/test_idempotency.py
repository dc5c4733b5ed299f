"""Idempotency keys: known after a restart, forgotten in order, in a bounded number of parts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import ConfigurationError, StateError
from penstock.private.sources import idempotency as module
from penstock.private.sources.idempotency import ENTRY_BYTES, Entry, IdempotencyKeys


def entry(number):
    return Entry.of(f"key {number}", b"body")


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    monkeypatch.setattr(module, "MAX_KEYS_PER_PART", 4)


@settings(max_examples=100, deadline=None)
@given(
    window=st.integers(1, 30),
    sizes=st.lists(st.integers(0, 11), max_size=30),
    restarts=st.sets(st.integers(0, 30)),
)
def test_the_last_keys_are_known_whenever_it_restarts(window, sizes, restarts):
    store, seen, count = {}, IdempotencyKeys(window=window), 0
    for number, size in enumerate(sizes):
        for name, part in seen.add([entry(each) for each in range(count, count + size)]).items():
            if part is None:
                del store[name]
            else:
                store[name] = part
        count += size
        if number in restarts:
            seen = IdempotencyKeys(window=window)
            seen.restore(store)
        known = [seen.body(entry(each).key) is not None for each in range(count)]
        assert all(known[max(count - window, 0) :])
        assert sum(known) < window + 4
        assert known == sorted(known)
        assert sum(map(len, store.values())) == ENTRY_BYTES * sum(known)
        assert len(store) <= window // 4 + 2


def test_a_batch_writes_one_part_again_not_all():
    seen = IdempotencyKeys(window=1000)
    for number in range(101):
        changed = seen.add([entry(number)])
    assert list(changed) == ["seen/26"]
    assert seen.add([]) == {}


def test_equal_bodies_under_two_keys_do_not_look_alike():
    assert Entry.of("a", b"body").body != Entry.of("b", b"body").body
    assert Entry.of("a", b"bo", b"dy") == Entry.of("a", b"body")
    assert Entry.of("a", b"body").key == Entry.of("a", b"another").key


def test_fewer_keys_are_wanted_after_a_restart():
    before, after = IdempotencyKeys(window=100), IdempotencyKeys(window=5)
    after.restore(before.add([entry(number) for number in range(20)]))
    changed = after.add([entry(20)])
    assert [name for name, part in changed.items() if part is None] == [
        "seen/1",
        "seen/2",
        "seen/3",
        "seen/4",
    ]
    assert after.body(entry(16).key)


@pytest.mark.parametrize(
    "parts",
    [{"seen/1": b"x" * 33}, {"seen/": b""}, {"seen/one": b""}, {"1": b""}, {"other/1": b""}],
)
def test_damaged_parts_are_refused(parts):
    with pytest.raises(StateError, match="damaged"):
        IdempotencyKeys(window=5).restore(parts)


def test_the_window_is_a_number():
    with pytest.raises(ConfigurationError, match="window"):
        IdempotencyKeys(window=0)
