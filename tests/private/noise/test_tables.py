from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from penstock.private.noise.laplace import DigitLaw, LaplaceLaw, laplace, parts
from penstock.private.noise.tables import DIRECT, Table, TableCache, draw

LAWS = [
    LaplaceLaw(1, 50),
    LaplaceLaw(1, 1),
    LaplaceLaw(10, 1),
    LaplaceLaw(128, 1),
    DigitLaw(1000, 1),
    DigitLaw(10**12, 1),
]


class ConstantLaw:
    """A source in which every byte is the same."""

    def __init__(self, byte):
        self.byte, self.read = byte, 0

    def bytes(self, count):
        self.read += count
        return np.full(count, self.byte, np.uint8)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_guide_agrees_with_the_thresholds_in_every_cell(law):
    table = Table(law)
    thresholds = np.array(law.thresholds(), np.uint64)
    cells = np.arange(1 << 16, dtype=np.uint64)
    first = thresholds.searchsorted(cells << np.uint64(48), side="right")
    last = thresholds.searchsorted(
        (cells << np.uint64(48)) + np.uint64((1 << 48) - 1), side="right"
    )
    at_start = np.isin(cells << np.uint64(48), thresholds)
    marked = (first != last) | at_start
    assert table.marked == marked.sum()
    np.testing.assert_array_equal(table.guide == -(1 << 14), marked)
    outcomes = law.outcomes(len(thresholds) + 1)
    assert np.abs(outcomes).max() < 1 << 13
    np.testing.assert_array_equal(table.guide[~marked], outcomes[first[~marked]])


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_less_than_three_cells_in_a_hundred_are_marked(law):
    assert Table(law).marked < 0.03 * (1 << 16)


@pytest.mark.parametrize("size", [1, 10, DIRECT, DIRECT + 1, 5000, 70_000])
@pytest.mark.parametrize("scale", [1, 10, 128, 1000, 100_000])
def test_the_bytes_read_do_not_depend_on_the_values(recorded, scale, size):
    reads, values = [], []
    for seed in range(5):
        bits = recorded(seed)
        values.append(int(np.abs(laplace(Fraction(scale), size, bits)).sum()))
        reads.append(bits.counts)
    assert all(one == two for one, two in pairwise(reads))
    assert len(set(values)) > 1


def test_no_bits_are_read_for_nothing(recorded):
    bits = recorded(0)
    assert laplace(Fraction(1000), 0, bits).tolist() == []
    assert sum(bits.counts) == 0


def test_more_marked_values_than_foreseen_are_refined_all_the_same(recorded, monkeypatch):
    """The padding is exceeded with probability below 2^−64, so it is made too small here."""
    foreseen = laplace(Fraction(100), 20_000, recorded(1))
    monkeypatch.setattr(Table, "most", lambda self, size: 3)
    np.testing.assert_array_equal(laplace(Fraction(100), 20_000, recorded(1)), foreseen)


@pytest.mark.parametrize("byte", [0x00, 0x55, 0x80, 0xFE])
@pytest.mark.parametrize("scale", [1, 128, 1000])
def test_guided_and_direct_draws_agree_where_their_bits_do(scale, byte):
    direct = laplace(Fraction(scale), 1, ConstantLaw(byte))
    guided = laplace(Fraction(scale), DIRECT + 1, ConstantLaw(byte))
    assert set(guided.tolist()) == set(direct.tolist())


def test_a_draw_reads_two_bytes_for_a_value_and_eight_for_each_that_it_may_refine(recorded):
    bits, table = recorded(0), Table(LaplaceLaw(100, 1))
    draw([(table, 0)], 10_000, bits)
    assert bits.counts == [20_000, 8 * table.most(10_000)]


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("size", [513, 10_000, 1_000_000])
def test_the_padding_leaves_room_of_nine_standard_deviations(law, size):
    table = Table(law)
    mean = size * table.marked / (1 << 16)
    assert table.most(size) >= min(size, mean + 9 * mean**0.5)


def test_a_cache_stays_within_its_bytes_and_keeps_what_was_used_last():
    cache = TableCache(most=600_000)
    kept = cache.get(LaplaceLaw(10, 1), guided=True)
    for scale in range(11, 31):
        cache.get(LaplaceLaw(scale, 1), guided=True)
        assert cache.get(LaplaceLaw(10, 1), guided=True) is kept
        assert cache.nbytes <= 600_000


def test_a_row_is_held_until_one_of_its_tables_may_be_dropped():
    cache = TableCache(most=600_000)
    row = cache.row(parts, 1000, 1, guided=True)
    assert cache.rows == {(1000, 1, True): row}
    assert [table.law for table, _ in row] == [law for law, _ in parts(1000, 1)]
    for scale in range(11, 31):
        cache.get(LaplaceLaw(scale, 1), guided=True)
    assert cache.rows == {}
    assert cache.nbytes <= 600_000


def test_a_table_for_small_draws_has_no_guide():
    cache = TableCache()
    small = cache.get(LaplaceLaw(10, 1), guided=False).nbytes
    assert small < 20_000
    assert cache.get(LaplaceLaw(10, 1), guided=True).nbytes == small + (1 << 17)
