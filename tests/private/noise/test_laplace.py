from fractions import Fraction

import flint
import numpy as np
import pytest

from penstock.core.errors import NoiseError
from penstock.private.noise import laplace as module
from penstock.private.noise.laplace import MAX_SCALE, DigitLaw, LaplaceLaw, laplace, parts
from penstock.private.noise.laws import LAST, alternating
from penstock.private.noise.tables import Table

SCALES = [
    Fraction(text)
    for text in (
        "1/50",
        "1/7",
        "0.5",
        "1",
        "10/3",
        "10",
        "127.9",
        "128",
        "129",
        "1000",
        "100000",
        "987654321/1000",
        "1e12",
        "1e15",
    )
]
ONES = 2**64 - 1


def ball(x: Fraction):
    return flint.arb(flint.fmpq(x.numerator, x.denominator))


def cumulative(law, bits: int = 400) -> list:
    """F of the leading outcomes by the plain sum of the probabilities, in python-flint."""
    flint.ctx.prec = bits
    q = (-ball(Fraction(law.denominator, law.numerator))).exp()
    if isinstance(law, LaplaceLaw):
        count = int(100 * law.numerator / law.denominator) + 10
        chances = [(1 - q) / (1 + q) * q ** abs(alternating(index)) for index in range(count)]
    else:
        size = 256
        digit = [(1 - q) / (1 - q**size) * q**d for d in range(size)]
        by_size = [
            sum((digit[d] * digit[d + w] for d in range(size - w)), flint.arb(0))
            for w in range(size)
        ]
        chances = [by_size[abs(alternating(index))] for index in range(2 * size - 2)]
    sums, total = [], flint.arb(0)
    for chance in chances:
        total += chance
        sums.append(total)
    return sums


def floor(ball, bits: int) -> int:
    return int((ball * flint.arb(2) ** bits).floor().unique_fmpz())


def laws_of(scale: Fraction):
    return [law for law, _ in parts(scale.numerator, scale.denominator)]


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_every_threshold_is_the_floor_that_flint_computes(scale):
    for law in laws_of(scale):
        thresholds = law.thresholds()
        if isinstance(law, DigitLaw):
            assert len(thresholds) == law.count - 1
        else:
            assert thresholds[-1] == LAST
            assert LAST not in thresholds[:-1]
        step = max(1, len(thresholds) // 1500)
        sums = cumulative(law)
        places = [*range(0, len(thresholds), step), len(thresholds) - 1]
        assert [thresholds[place] for place in places] == [
            floor(sums[place], 64) for place in places
        ]


@pytest.mark.parametrize("scale", SCALES, ids=str)
@pytest.mark.parametrize("bits", [64, 128, 300])
def test_bounds_hold_the_cumulative_probability(scale, bits):
    for law in laws_of(scale):
        sums = cumulative(law, 600)
        for index in (0, 1, 2, 3, len(sums) // 2, len(sums) - 1):
            low, high = law.bounds(index, bits)
            scaled = sums[index] * flint.arb(2) ** bits
            assert 0 <= high - low <= 3
            assert not (scaled < low)
            assert not (scaled > high)


@pytest.mark.parametrize(
    ("law", "guard"),
    [(LaplaceLaw(10, 1), 12), (LaplaceLaw(128, 1), 17), (DigitLaw(1000, 1), 10)],
    ids=str,
)
def test_thresholds_do_not_depend_on_the_working_precision(monkeypatch, law, guard):
    """With so few bits to spare many floors stay open, and wrong error bounds would show."""
    expected = law.thresholds()
    opened = []
    plain = type(law).threshold
    monkeypatch.setattr(
        type(law), "threshold", lambda self, index: (opened.append(index), plain(self, index))[1]
    )
    monkeypatch.setattr(module, "_GUARD", guard)
    rough = law.thresholds()
    assert rough[: len(expected)] == expected
    assert set(rough[len(expected) :]) <= {LAST}  # where the table ends is seen later
    assert opened


def test_scales_that_differ_by_powers_of_256_share_their_parts():
    small, large = laws_of(Fraction(1000)), laws_of(Fraction(1000 * 256))
    assert set(small) < set(large)


@pytest.mark.parametrize(
    ("scale", "count"),
    [("1/50", 1), ("128", 1), ("129", 2), ("32768", 2), ("32769", 3), (str(MAX_SCALE), 7)],
)
def test_a_scale_has_as_few_parts_as_fit_under_128(scale, count):
    laws = laws_of(Fraction(scale))
    assert len(laws) == count
    assert laws[0].numerator <= 128 * laws[0].denominator


def exactly(law, index: int, words: int) -> list[int]:
    """The first 64-bit words of F, from flint."""
    digits = floor(cumulative(law, 800)[index], 64 * words)
    return [digits >> 64 * (words - 1 - word) & ONES for word in range(words)]


@pytest.mark.parametrize("index", [0, 1, 2, 7, 40])
def test_64_bits_that_do_not_tie_decide_alone(scripted, index):
    (law,) = laws_of(Fraction(10))
    (first,) = exactly(law, index, 1)
    for word, place in ((first - 1, index), (first + 1, index + 1)):
        bits = scripted([word])
        assert laplace(Fraction(10), 1, bits).tolist() == [alternating(place)]
        assert bits.left == 0


@pytest.mark.parametrize("index", [0, 1, 2, 7, 40])
def test_a_tie_is_decided_by_64_more_bits(scripted, index):
    (law,) = laws_of(Fraction(10))
    first, second = exactly(law, index, 2)
    for word, place in (
        (0, index),
        (second - 8, index),
        (second + 8, index + 1),
        (ONES, index + 1),
    ):
        bits = scripted([first, word])
        assert laplace(Fraction(10), 1, bits).tolist() == [alternating(place)]
        assert bits.left == 0


@pytest.mark.parametrize("index", [0, 1, 2, 7, 40])
def test_a_tie_at_128_bits_is_decided_by_64_more(scripted, index):
    (law,) = laws_of(Fraction(10))
    first, second, third = exactly(law, index, 3)
    for word, place in ((0, index), (third - 8, index), (third + 8, index + 1), (ONES, index + 1)):
        bits = scripted([first, second, word])
        assert laplace(Fraction(10), 1, bits).tolist() == [alternating(place)]
        assert bits.left == 0


@pytest.mark.parametrize("index", [0, 3, 100, 509])
def test_a_tie_of_a_digit_is_decided_by_more_bits(scripted, index):
    _, digit = laws_of(Fraction(1000))
    first, second = exactly(digit, index, 2)
    for words, place in (
        ([second - 8], index),
        ([second + 8], index + 1),
        ([second, 0], index),
        ([second, ONES], index + 1),
    ):
        bits = scripted([0, first, *words])  # the leading part gets 0
        assert laplace(Fraction(1000), 1, bits).tolist() == [alternating(place)]
        assert bits.left == 0


@pytest.mark.parametrize("scale", ["1/50", "1", "10", "128"])
@pytest.mark.parametrize("ones", [1, 2, 3])
def test_the_tail_beyond_the_table_is_exact(scripted, scale, ones):
    flint.ctx.prec = 800
    rate = ball(1 / Fraction(scale))
    middle = 1 << 63
    bits = scripted([ONES] * ones + [middle] * 2)
    (value,) = laplace(Fraction(scale), 1, bits).tolist()
    # 1 − U lies in (low, high], and the outcome is the one of those that lie beyond with more, but
    # whose own rest has less
    used = ones + 2 - bits.left
    prefix = int.from_bytes(
        b"".join(word.to_bytes(8, "big") for word in ([ONES] * ones + [middle] * 2)[:used]), "big"
    )
    high = flint.arb((1 << 64 * used) - prefix) / flint.arb(2) ** (64 * used)
    low = flint.arb((1 << 64 * used) - prefix - 1) / flint.arb(2) ** (64 * used)
    size = abs(value)
    q = (-rate).exp()
    after_plus, after_minus, after_previous = (
        q**size,
        2 * q ** (size + 1) / (1 + q),
        2 * q**size / (1 + q),
    )
    before, after = (after_previous, after_plus) if value > 0 else (after_plus, after_minus)
    assert after <= low
    assert high <= before


@pytest.mark.slow
def test_a_value_that_could_pass_int64_is_cut_not_wrapped(scripted):
    (value,) = laplace(Fraction(MAX_SCALE), 1, scripted([ONES] * 120 + [0] * 20)).tolist()
    assert (1 << 62) - (1 << 49) < abs(value) < (1 << 62) + (1 << 49)


def test_a_scale_that_could_pass_int64_is_refused():
    with pytest.raises(NoiseError, match=r"above 2\*\*50"):
        laplace(Fraction(MAX_SCALE) + Fraction(1, 3), 1, None)


@pytest.mark.parametrize("scale", ["1", "10", "128", "1000", "100000", str(MAX_SCALE)])
def test_no_table_reaches_the_range_of_int64(scale):
    largest = 0
    for law, shift in parts(*Fraction(scale).as_integer_ratio()):
        largest += abs(law.outcome(len(law.thresholds()))) << shift
    assert largest < 1 << 58


@pytest.mark.parametrize("scale", ["1/7", "1", "127.9", "1000", "100000"])
def test_a_small_draw_equals_plain_inversion_of_the_same_bits(recorded, scale):
    bits = recorded(5)
    values = laplace(Fraction(scale), 200, bits)
    expected = [0] * 200
    for (law, shift), read in zip(
        parts(*Fraction(scale).as_integer_ratio()), bits.reads, strict=True
    ):
        sums = [floor(each, 64) for each in cumulative(law)]
        for position, word in enumerate(np.frombuffer(read, np.uint64).tolist()):
            place = next((index for index, below in enumerate(sums) if word < below), len(sums))
            expected[position] += alternating(place) << shift
    assert values.tolist() == expected


@pytest.mark.parametrize("scale", ["1", "100", "1000"])
def test_a_large_draw_equals_plain_inversion_of_the_same_bits(recorded, scale):
    size, bits = 3000, recorded(6)
    values = laplace(Fraction(scale), size, bits)
    laws = parts(*Fraction(scale).as_integer_ratio())
    cells, rests = bits.reads[: len(laws)], bits.reads[len(laws) :]
    expected = [0] * size
    refined = 0
    for (law, shift), cell_read, rest_read in zip(laws, cells, rests, strict=True):
        sums = np.array([floor(each, 64) for each in cumulative(law)], np.uint64)
        rest = iter(np.frombuffer(rest_read, np.uint64).tolist())
        for position, cell in enumerate(np.frombuffer(cell_read, np.uint16).tolist()):
            ends = [
                int(sums.searchsorted(np.uint64(end), side="right"))
                for end in (cell << 48, (cell + 1 << 48) - 1)
            ]
            place = ends[0]
            if np.any(sums >> np.uint64(48) == cell):
                refined += 1
                place = int(
                    sums.searchsorted(np.uint64(cell << 48 | next(rest) >> 16), side="right")
                )
            expected[position] += alternating(place) << shift
    assert refined > 0
    assert values.tolist() == expected


@pytest.mark.parametrize("index", [0, 5, 40])
@pytest.mark.parametrize(
    ("more", "step"), [([0], 0), ([ONES], 1), ([None, 0], 0), ([None, ONES], 1)]
)
def test_ties_in_a_large_draw_are_decided_by_more_bits(scripted, index, more, step):
    """One of 516 values gets the first bits of a threshold (and, for None, the next of it), all
    others U = 0.
    """
    size = 516
    (law,) = laws_of(Fraction(10))
    first, second = exactly(law, index, 2)
    cells = [0] * size
    cells[7] = first >> 48
    words = np.array(cells, np.uint16).view(np.uint64).tolist()
    refined = Table(law).most(size)
    words += (
        [(first & (1 << 48) - 1) << 16]
        + [0] * (refined - 1)
        + [second if word is None else word for word in more]
    )
    bits = scripted(words)
    values = laplace(Fraction(10), size, bits).tolist()
    assert values.pop(7) == alternating(index + step)
    assert values == [0] * (size - 1)
    assert bits.left == 0
