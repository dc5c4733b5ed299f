"""A log that keeps its newest releases gives the same releases as the log that it was made of."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock import Laplace
from penstock.released import recent_log
from penstock.released.recent_log import RecentLog

from tests.released.streams import quiet

LOG = quiet(Laplace(epsilon=1), [[unit, 1] for unit in range(30)])
ranges = st.tuples(st.integers(1, 30), st.integers(1, 30)).map(sorted)


@given(kept=st.integers(1, 12), reads=st.lists(ranges, max_size=8))
def test_any_order_of_reads_gives_the_same_releases(kept, reads):
    log = RecentLog(LOG, kept)
    for first, last in reads:
        found = list(log.between(first, last))
        assert all(one is LOG[one.unit] for one in found)
        assert [each.unit for each in found] == list(range(first, last + 1))
        assert len(log.kept) <= kept
        assert [log[unit].unit for unit in log.kept] == list(log.kept)


def test_units_in_memory_are_not_read_again(monkeypatch):
    log = RecentLog(LOG, 10)
    assert len(list(log.between(5, 14))) == 10
    monkeypatch.setattr(LOG, "between", lambda first, last: iter(()))
    assert [each.unit for each in log.between(7, 14)] == list(range(7, 15))


def test_a_log_of_many_keys_keeps_fewer_units(monkeypatch):
    monkeypatch.setattr(recent_log, "MAX_NUMBERS_KEPT", 6)
    log = RecentLog(LOG, 10)
    assert len(list(log.between(1, 30))) == 30
    assert log.kept == range(28, 31)
