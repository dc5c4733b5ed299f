from fractions import Fraction
from math import comb

import flint
import numpy as np
import pytest

from penstock.core.errors import InputError
from penstock.private.noise import thinning as module
from penstock.private.noise.bits import KeyedBits
from penstock.private.noise.laws import LAST
from penstock.private.noise.thinning import MAX_COUNT, BinomialLaw, thin

KEEPS = [Fraction(1, 2), Fraction(1, 3), Fraction(2, 7), Fraction(99, 100), Fraction(1, 10**9)]
ONES = 2**64 - 1


def chances(n: int, keep: Fraction) -> list[int]:
    """P(x)·denominator^n, in plain integers."""
    kept, lost = keep.numerator, keep.denominator - keep.numerator
    return [comb(n, x) * kept**x * lost ** (n - x) for x in range(n + 1)]


def cumulative(law: BinomialLaw) -> list[Fraction]:
    by_value = chances(law.trials, Fraction(law.numerator, law.denominator))
    total, sums, unit = 0, [], law.denominator**law.trials
    for index in range(law.count):
        total += by_value[law.mode + law.outcome(index)]
        sums.append(total)
    assert total == unit
    return sums


@pytest.mark.parametrize("keep", KEEPS, ids=str)
@pytest.mark.parametrize("bit", [0, 1, 2, 4, 6, 8])
def test_every_outcome_is_there_once(bit, keep):
    law = BinomialLaw(1 << bit, keep.numerator, keep.denominator)
    order = [law.outcome(index) for index in range(law.count)]
    assert sorted(law.mode + outcome for outcome in order) == list(range(law.count))
    assert law.outcomes(law.count).tolist() == order


@pytest.mark.parametrize("keep", KEEPS, ids=str)
@pytest.mark.parametrize("bit", [0, 1, 2, 4, 6, 8, 11])
def test_thresholds_are_floors_of_exact_sums(bit, keep):
    law = BinomialLaw(1 << bit, keep.numerator, keep.denominator)
    unit = law.denominator**law.trials
    expected = [(below << 64) // unit for below in cumulative(law)[:-1]]
    thresholds = law.thresholds()
    assert thresholds == expected[: len(thresholds)]
    assert len(thresholds) == len(expected) or thresholds[-1] == LAST


@pytest.mark.parametrize(
    ("keep", "guard"), [(Fraction(1, 3), 9), (Fraction(2, 7), 9), (Fraction(1, 1000), 4)], ids=str
)
def test_thresholds_do_not_depend_on_the_working_precision(monkeypatch, keep, guard):
    """With so few bits to spare many floors stay open, and wrong error bounds would show."""
    law = BinomialLaw(1 << 12, keep.numerator, keep.denominator)
    expected = law.thresholds()
    opened = []
    plain = BinomialLaw.threshold
    monkeypatch.setattr(
        BinomialLaw, "threshold", lambda self, index: (opened.append(index), plain(self, index))[1]
    )
    monkeypatch.setattr(module, "_GUARD", guard)
    rough = law.thresholds()
    common = min(len(rough), len(expected))
    assert rough[:common] == expected[:common]
    assert common > 0.9 * len(expected)
    assert opened


@pytest.mark.parametrize("keep", [Fraction(1, 2), Fraction(1, 3), Fraction(1, 1000)], ids=str)
@pytest.mark.parametrize("bit", [14, 20])
def test_thresholds_of_large_binomials_are_those_that_flint_computes(bit, keep):
    law = BinomialLaw(1 << bit, keep.numerator, keep.denominator)
    thresholds = law.thresholds()
    flint.ctx.prec = 300
    p = flint.arb(flint.fmpq(keep.numerator, keep.denominator))
    n = law.trials

    def chance(x):
        log = flint.arb(n + 1).lgamma() - flint.arb(x + 1).lgamma() - flint.arb(n - x + 1).lgamma()
        return (log + x * p.log() + (n - x) * (1 - p).log()).exp()

    total = flint.arb(0)
    for index, threshold in enumerate(thresholds[:600]):
        total += chance(law.mode + law.outcome(index))
        assert threshold == int((total * flint.arb(2) ** 64).floor().unique_fmpz())
    assert thresholds[-1] == LAST
    assert np.abs(law.outcomes(len(thresholds) + 1)).max() < 1 << 13


@pytest.mark.slow
@pytest.mark.parametrize("keep", KEEPS[:3], ids=str)
@pytest.mark.parametrize("bit", [3, 12])
@pytest.mark.parametrize("bits", [64, 200])
def test_bounds_hold_the_cumulative_probability(bit, keep, bits):
    law = BinomialLaw(1 << bit, keep.numerator, keep.denominator)
    unit = law.denominator**law.trials
    sums = cumulative(law)
    for index in (0, 1, 2, law.count // 2, law.count - 1):
        low, high = law.bounds(index, bits)
        assert 0 <= high - low <= 2
        assert low * unit <= sums[index] << bits <= high * unit


def test_a_threshold_that_is_a_short_binary_fraction_is_decided_without_end(scripted):
    """Bin(1, 1/2): exactly half the bits keep, half lose; U = 1/2 itself is not below the
    threshold.
    """
    law = BinomialLaw(1, 1, 2)
    assert law.thresholds() == [1 << 63]
    at_mode, other = law.mode, 1 - law.mode
    for word, rest, value in (
        ((1 << 63) - 1, [], at_mode),
        (1 << 63, [0], other),
        (1 << 63, [ONES], other),
    ):
        bits = scripted(
            [word, *rest, 0, 0, 0]
        )  # of four tables that are drawn from, the first counts
        assert thin(np.array([1]), Fraction(1, 2), bits).tolist() == [value]


@pytest.mark.slow
@pytest.mark.parametrize("keep", [Fraction(1, 3), Fraction(1, 2)], ids=str)
def test_the_tail_beyond_a_table_is_exact(scripted, keep):
    law = BinomialLaw(1 << 12, keep.numerator, keep.denominator)
    unit = law.denominator**law.trials
    sums = cumulative(law)
    word = (ONES << 64) | 1 << 40
    expected = next(index for index, below in enumerate(sums) if word * unit < below << 128)
    bits = scripted(
        [0] * 12 + [ONES, 1 << 40, 0, 0, 0]
    )  # bits 0 to 11, and 12 to 15 with the scripted one first
    below = sum(BinomialLaw(1 << bit, keep.numerator, keep.denominator).mode for bit in range(12))
    values = thin(np.array([2 * (1 << 12) - 1]), keep, bits)
    assert values.tolist() == [below + law.mode + law.outcome(expected)]


@pytest.mark.parametrize("size", [0, 1, 3, 1000])
def test_all_or_nothing_is_certain(size):
    counts = np.arange(size) * 12_345
    np.testing.assert_array_equal(thin(counts, Fraction(1), None), counts)
    np.testing.assert_array_equal(thin(counts, Fraction(0), None), counts * 0)


@pytest.mark.parametrize("keep", KEEPS, ids=str)
def test_what_is_kept_lies_between_nothing_and_all(keep):
    counts = np.array([0, 1, 2, 3, 5, 100, 2**16 - 1, 2**20, 2**20 + 1, 2**23 + 12_345])
    kept = thin(counts, keep, KeyedBits(bytes(32)))
    assert kept.dtype == np.int64
    assert (kept >= 0).all()
    assert (kept <= counts).all()
    assert kept[0] == 0


@pytest.mark.parametrize("count", [2**31 + 7, 2**40])
def test_very_large_counts_are_thinned_to_their_mean(count):
    """Within 7 standard deviations: a false alarm has probability below 1e-11."""
    (kept,) = thin(np.array([count]), Fraction(1, 3), KeyedBits(bytes(32))).tolist()
    assert abs(kept - count / 3) < 7 * (count * 2 / 9) ** 0.5


def test_bytes_read_depend_on_the_length_of_the_largest_count_only(recorded):
    reads = set()
    for counts in ([0, 0, 9], [15, 15, 15], [8, 0, 0]):
        bits = recorded(sum(counts))
        thin(np.array(counts), Fraction(1, 3), bits)
        reads.add(tuple(bits.counts))
    assert len(reads) == 1


@pytest.mark.parametrize("counts", [[-1], [MAX_COUNT + 1]])
def test_counts_out_of_range_are_refused_without_showing_them(counts):
    with pytest.raises(InputError) as caught:
        thin(np.array(counts), Fraction(1, 2), None)
    assert str(counts[0]) not in str(caught.value)


def test_counts_that_are_not_a_row_of_int64_are_refused():
    for counts in (np.array([1.5]), np.array([[1]])):
        with pytest.raises(InputError, match="one row of int64"):
            thin(counts, Fraction(1, 2), None)
