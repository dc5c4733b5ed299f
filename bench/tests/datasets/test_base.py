from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError, InputError
from penstock_bench.datasets import base
from penstock_bench.datasets.base import Dataset, DatasetStream
from penstock_bench.datasets.counts import CountTable, tally
from penstock_bench.datasets.drawn import GeneratedStream
from penstock_bench.datasets.thinned import Thinned

TABLE = np.array([[0, 1, 2], [3, 0, 5], [300, 7, 0], [1, 1, 1]])


def kept(table: np.ndarray) -> DatasetStream:
    return CountTable(Domain.of(table.shape[1]), table, period=2)


def drawn(table: np.ndarray) -> DatasetStream:
    return GeneratedStream(
        Domain.of(table.shape[1]), units=len(table), draw=lambda unit: table[unit - 1], period=2
    )


@dataclass(frozen=True)
class Made(Dataset):
    name: ClassVar[str] = "made"
    title: ClassVar[str] = "made here"
    licence: ClassVar[str] = "generated"
    unit: ClassVar[str] = "a step"
    person: ClassVar[str] = "an event"

    most: int = 3

    def make(self) -> DatasetStream:
        return kept(np.arange(self.most)[None])


class Lacking(Made):
    needs: ClassVar[tuple[str, ...]] = ("no_such_file.parquet",)


@pytest.mark.parametrize("make", [kept, drawn])
def test_a_stream_gives_its_table_row_by_row(make):
    stream = make(TABLE)
    assert (stream.units, stream.domain.size, stream.period) == (4, 3, 2)
    assert np.array_equal(list(stream.rows()), TABLE)
    assert np.array_equal(list(stream.rows(2, 3)), TABLE[1:3])
    assert np.array_equal(list(stream.rows(4)), TABLE[3:])
    assert np.array_equal(stream.matrix(), TABLE)
    assert {row.dtype for row in stream.rows()} == {np.dtype(np.int64)}


@pytest.mark.parametrize("make", [kept, drawn])
def test_totals_and_means_are_exact(make):
    large = np.array([[2**40, 1], [2**40 + 1, 1], [1, 2]])
    stream = make(large)
    assert stream.totals.tolist() == [2**41 + 2, 4]
    assert stream.total == 2**41 + 6
    assert stream.mean().tolist() == [(2**41 + 2) / 3, 4 / 3]


@pytest.mark.parametrize("make", [kept, drawn])
def test_a_row_is_the_readers_own(make):
    stream = make(TABLE.copy())
    for row in stream.rows():
        row += 1
    assert np.array_equal(stream.matrix(), TABLE)
    with pytest.raises(ValueError, match="read-only"):
        stream.totals[0] = 5


@pytest.mark.parametrize(("first", "last"), [(0, 2), (3, 2), (1, 5), (5, None)])
def test_units_that_are_not_there_are_refused_at_once(first, last):
    with pytest.raises((InputError, ConfigurationError)):
        kept(TABLE).rows(first, last)


def test_a_matrix_that_would_fill_the_memory_is_refused(monkeypatch):
    monkeypatch.setattr(base, "MOST_CELLS", 11)
    with pytest.raises(ConfigurationError, match=r"4 units × 3 keys .* read it with rows"):
        kept(TABLE).matrix()


def test_a_unit_is_drawn_once():
    asked = []

    def draw(unit):
        asked.append(unit)
        return np.array([unit, 0])

    stream = GeneratedStream(Domain.of(2), units=3, draw=draw)
    assert stream.total == 6
    assert stream.total == 6
    assert list(stream.rows(2))
    assert asked == [1, 2, 3]


@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros((2, 4), int),
        np.zeros(3, int),
        np.zeros((0, 3), int),
        np.full((1, 3), -1),
        np.zeros((1, 3)),
    ],
)
def test_what_is_not_a_table_of_counts_is_refused(wrong):
    with pytest.raises(InputError):
        CountTable(Domain.of(3), wrong)


def test_events_are_counted_by_unit_and_key():
    assert tally([0, 0, 2], [1, 1, 0], units=3, keys=2).tolist() == [[0, 2], [0, 0], [1, 0]]
    assert tally([0, 0, 2], [1, 1, 0], units=3, keys=2, weights=[5, 6, 7]).tolist() == [
        [0, 11],
        [0, 0],
        [7, 0],
    ]


@pytest.mark.parametrize(("unit", "key"), [([3], [0]), ([-1], [0]), ([0], [2]), ([1], [-1])])
def test_an_event_outside_is_refused_and_not_counted_elsewhere(unit, key):
    with pytest.raises(InputError):
        tally(unit, key, units=3, keys=2)


def test_a_share_of_the_events_is_kept_the_same_every_time():
    whole = kept(np.full((50, 20), 100))
    part = Thinned(whole, share="0.3", seed=4)
    counts = part.matrix()
    assert (counts <= 100).all()
    assert abs(counts.mean() - 30) < 1  # six standard deviations
    assert np.array_equal(np.array(list(part.rows(20, 30))), counts[19:30])
    assert not np.array_equal(Thinned(whole, share="0.3", seed=5).matrix(), counts)
    assert np.array_equal(Thinned(whole, share=1).matrix(), whole.matrix())


@pytest.mark.parametrize("share", ["0", "1.1", -1])
def test_a_share_is_above_nothing_and_at_most_all(share):
    with pytest.raises(ConfigurationError, match="share"):
        Thinned(kept(TABLE), share=share)


def test_a_dataset_is_made_once_for_its_parameters():
    assert Made().load() is Made().load()
    assert Made().load() is not Made(4).load()
    assert Made(4).load().domain.size == 4


def test_a_dataset_whose_files_are_not_there_says_what_to_do():
    why = Lacking().missing()
    assert why is not None
    assert "no_such_file.parquet" in why
    assert "PENSTOCK_DATA" in why
    with pytest.raises(ConfigurationError, match="no_such_file"):
        Lacking().load()


def test_another_folder_of_data_is_another_stream(monkeypatch, tmp_path):
    first = Made().load()
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path))
    assert Made().load() is not first
