from __future__ import annotations

import numpy as np
import pytest

from penstock.core.errors import ConfigurationError
from penstock_bench import feed as feeds
from penstock_bench.cell import Stretch
from penstock_bench.feed import Feed, missing, sized

from bench.tests.tiny import ABSENT, TINY, Steps

WHOLE = np.array(list(Steps(30, 4).rows()))


def rows(**how: object) -> np.ndarray:
    feed = Feed(Stretch(dataset=TINY, **how))  # type: ignore[arg-type]
    found = np.array(list(feed.rows()))
    assert found.shape == (feed.units, feed.domain.size)
    assert found.dtype == np.int64
    assert np.array_equal(np.array(list(feed.rows())), found), "a second pass gives the same"
    assert np.allclose(feed.mean, found.mean(axis=0))
    return found


def test_a_stretch_is_the_whole_stream_unless_told():
    assert np.array_equal(rows(), WHOLE)


def test_units_are_merged_before_they_are_cut():
    merged = WHOLE[:28].reshape(7, 4, 4).sum(axis=1)
    assert np.array_equal(rows(merge=4), merged)
    assert np.array_equal(rows(merge=4, units=3), merged[:3])


def test_keys_are_taken_evenly():
    assert np.array_equal(rows(keys=2), WHOLE[:, [0, 2]])
    assert np.array_equal(rows(keys=9), WHOLE)


def test_copies_lie_side_by_side():
    assert np.array_equal(rows(copies=3, keys=2), np.tile(WHOLE[:, [0, 2]], (1, 3)))
    assert len(set(Feed(Stretch(dataset=TINY, copies=3)).domain.keys)) == 12


def test_options_are_the_datasets_own_fields():
    assert rows(options=(("units", 3), ("keys", 2))).shape == (3, 2)
    with pytest.raises(ConfigurationError, match="colour"):
        rows(options=(("colour", "red"),))


def test_a_pass_that_is_given_up_keeps_nothing():
    feed = Feed(Stretch(dataset=TINY))
    next(feed.rows())
    assert feed._kept is None
    assert np.array_equal(np.array(list(feed.rows())), WHOLE)
    assert feed._kept is not None


def test_what_is_too_large_to_keep_is_read_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(feeds, "HELD", 100)
    assert np.array_equal(rows(), WHOLE)
    feed = Feed(Stretch(dataset=TINY))
    list(feed.rows())
    assert feed._kept is None


def test_large_counts_are_kept_exactly(monkeypatch: pytest.MonkeyPatch):
    large = np.array([2**31, 1, 2**40, 0])
    monkeypatch.setattr(Steps, "row", lambda self, unit: large + unit)
    assert rows().tolist() == [(large + unit).tolist() for unit in range(1, 31)]


def test_no_whole_unit_is_refused():
    with pytest.raises(ConfigurationError, match="no whole unit"):
        Feed(Stretch(dataset=TINY, merge=31))


def test_the_memory_of_a_users_dataset_is_told_from_its_size():
    assert sized(TINY).megabytes == 50
    assert sized("worldcup").megabytes == 50 + 4 * 1_320 * 89_997 // 10**6
    assert sized("worldcup", units=2).megabytes == 50


def test_missing_data_give_their_reason():
    assert missing(Stretch(dataset=TINY)) is None
    assert missing(Stretch(dataset=ABSENT)) == "it was never collected."
