from fractions import Fraction
from itertools import accumulate

import flint
import numpy as np
import pytest

from penstock.core.errors import NoiseError
from penstock.private.noise import gaussian as module
from penstock.private.noise.bits import KeyedBits
from penstock.private.noise.gaussian import MAX_VARIANCE, HalfGaussianLaw, gaussian
from penstock.private.noise.laws import LAST

VARIANCES = [
    Fraction(1, 100),
    Fraction(1, 3),
    Fraction(1),
    Fraction(10),
    Fraction(2001, 2),
    Fraction(128**2),
]


def law_of(variance: Fraction) -> HalfGaussianLaw:
    return HalfGaussianLaw(variance.numerator, variance.denominator)


def arb(number: Fraction) -> flint.arb:
    return flint.arb(number.numerator) / number.denominator


def cumulative(law: HalfGaussianLaw, count: int) -> list[flint.arb]:
    """F of the first outcomes, by direct sums of an independent library, at 400 bits."""
    rate = flint.arb(law.denominator) / (2 * law.numerator)
    reach = 40 * (int((law.numerator / law.denominator) ** 0.5) + 1)
    weights = [(-rate * k * k).exp() for k in range(reach + 1)]
    total = sum(weights, flint.arb(0))
    return [each / total for each in accumulate(weights[:count])]


@pytest.fixture(autouse=True)
def _precise():
    before, flint.ctx.prec = flint.ctx.prec, 400
    yield
    flint.ctx.prec = before


# -- the table -------------------------------------------------------------------------------------


@pytest.mark.parametrize("variance", VARIANCES, ids=str)
def test_thresholds_are_floors_of_direct_sums(variance):
    law = law_of(variance)
    thresholds = law.thresholds()
    expected = [
        int((each * 2**64).floor().unique_fmpz()) for each in cumulative(law, len(thresholds))
    ]
    assert thresholds == expected
    assert thresholds[-1] == LAST
    assert all(each < LAST for each in thresholds[:-1])


@pytest.mark.parametrize("variance", VARIANCES[1:-1], ids=str)
def test_thresholds_do_not_depend_on_the_working_precision(monkeypatch, variance):
    """With so few bits to spare many floors stay open, and wrong error bounds would show."""
    law = law_of(variance)
    expected = law.thresholds()
    opened = []
    plain = HalfGaussianLaw.threshold
    monkeypatch.setattr(module, "_GUARD", 3)
    monkeypatch.setattr(
        HalfGaussianLaw, "threshold", lambda self, index: opened.append(index) or plain(self, index)
    )
    again = law.thresholds()
    assert again[: len(expected)] == expected
    assert opened


@pytest.mark.parametrize("bits", [64, 128, 640])
@pytest.mark.parametrize("index", [0, 1, 2, 7, 60])
def test_bounds_hold_and_are_close(index, bits):
    law = law_of(Fraction(50, 7))
    low, high = law.bounds(index, bits)
    flint.ctx.prec = 2000
    truth = cumulative(law, index + 1)[index] * flint.arb(2) ** bits
    assert low <= truth
    assert truth <= high
    assert 0 <= high - low <= 3


def test_the_tail_beyond_the_table_is_settled(scripted):
    """64 ones, then bits that go on: the first outcome whose F is above U, whatever the table
    holds.
    """
    law = law_of(Fraction(1))
    words = [LAST, LAST, 2**63]
    (value,) = module.draw([(module.TABLES.get(law, guided=False), 0)], 1, scripted(words)).tolist()
    u = (
        flint.arb(sum(word << 64 * (2 - place) for place, word in enumerate(words)))
        / flint.arb(2) ** 192
    )
    assert value == next(index for index, each in enumerate(cumulative(law, 60)) if u < each)
    assert value >= len(law.thresholds()) - 1


# -- which pairs are kept --------------------------------------------------------------------------


def kept_below(high: int, e: flint.arb, small: Fraction) -> flint.arb:
    """1 − exp(−γ): from this V on a pair is kept."""
    return 1 - (-e * (2 * high + e) / (2 * arb(small))).exp()


@pytest.mark.parametrize(
    "small", [Fraction(64**2 + 1), Fraction(10**4, 3) * 2, Fraction(128**2)], ids=str
)
def test_a_pair_is_kept_with_exactly_its_probability(small, scripted):
    """At every edge and with any following bits, an independent library agrees at 400 bits."""
    rng = np.random.default_rng(1)
    shape, opened = module._shape(small.numerator, small.denominator), 0
    for high in (0, 1, 100, 900, 2047, 2048, 5000):
        for e in {0, 1, 2**47, 2**63 - 1, 2**63 - 2**47, *rng.integers(2**63, size=3).tolist()}:
            edges = [kept_below(high, flint.arb(each) / 2**63, small) for each in (e, e + 1)]
            near = [
                int((edge * 2**63).mid().floor().unique_fmpz()) + off
                for edge in edges
                for off in range(-2, 3)
            ]
            for v in {0, 2**63 - 1, *(min(max(each, 0), 2**63 - 1) for each in near)}:
                for more in ([0] * 6, [LAST] * 6, [LAST, 0] * 3, [0, LAST] * 3):
                    expected = naively(high, e, v, small, more)
                    if expected is not None:
                        bits = scripted(more)
                        (kept,) = module._kept(
                            np.array([high]), np.array([e]), np.array([v]), shape, bits
                        )
                        opened += bits.left < 6
                        assert bool(kept) == expected
    assert opened > 100


def naively(high: int, e: int, v: int, small: Fraction, more: list[int]) -> bool | None:
    """The same question to an independent library, with e and V at 255 bits at once; None if even
    that leaves it open.
    """
    for each, then in zip(more[::2], more[1::2], strict=True):
        e, v = e << 64 | each, v << 64 | then
    unit = flint.arb(2) ** -255
    if v * unit >= kept_below(high, (e + 1) * unit, small):
        return True
    return False if (v + 1) * unit <= kept_below(high, e * unit, small) else None


def test_most_pairs_are_decided_by_words_alone():
    """Of 100,000 pairs a few need more than their word: the bytes read tell."""
    reads = []

    class Counted(KeyedBits):
        def bytes(self, count):
            reads.append(count)
            return super().bytes(count)

    gaussian(Fraction(10**12), 100_000, Counted(bytes(32)))
    assert sum(1 for count in reads if count == 8) < 20


def test_the_bytes_read_depend_on_the_size_alone(recorded):
    counts = set()
    for seed in range(20):
        bits = recorded(seed)
        gaussian(Fraction(10**10), 300, bits)
        counts.add(tuple(count for count in bits.counts if count != 8))
    assert len(counts) == 1


# -- what is given ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variance", "shift"),
    [
        (Fraction(128**2), 0),
        (Fraction(128**2) + Fraction(1, 9), 1),
        (Fraction(64**2), -1),
        (Fraction(64**2) + Fraction(1, 9), 0),
        (Fraction(1), -7),
        (Fraction(1, 10**40), -73),
        (Fraction(MAX_VARIANCE), 43),
    ],
    ids=str,
)
def test_the_deviation_of_the_table_is_between_64_and_128(variance, shift):
    assert module._shift(variance.numerator, variance.denominator) == shift
    assert 64**2 < variance / Fraction(4) ** shift <= 128**2


@pytest.mark.parametrize("shift", [-70, -62, -5, -1, 0, 1, 7, 43])
def test_a_pair_becomes_the_whole_number_next_to_it(shift):
    rng = np.random.default_rng(2)
    high = rng.integers(0, 2000, 400)
    e = np.concatenate([rng.integers(0, 2**63, 396), [0, 2**62 - 1, 2**62, 2**63 - 1]])
    values = high << max(shift, 0)
    module._round(values, e, shift)
    for y, each, value in zip(high.tolist(), e.tolist(), values.tolist(), strict=True):
        # e has more bits than these: the whole number is the same for all that may follow
        for exactly in (Fraction(each, 2**63), Fraction(2 * each + 1, 2**64)):
            assert value == (Fraction(2) ** shift * (y + exactly) + Fraction(1, 2)).__floor__()


@pytest.mark.parametrize("variance", ["1/12", "3", "4000", "17000", "100003/2"])
def test_every_value_has_its_probability_as_an_integral_over_pairs(variance):
    """The chance that a pair is drawn, kept and rounded to k, by quadrature, against Φ; at 64 bits,
    up to 9 deviations.
    """
    variance = Fraction(variance)
    flint.ctx.prec = 64
    shift = module._shift(variance.numerator, variance.denominator)
    small = variance / Fraction(4) ** shift
    rate = flint.acb(arb(1 / (2 * small)))

    def drawn(y: int, low: Fraction, high: Fraction) -> flint.arb:
        """∝ P(Y = y)·∫ P(kept | y, e) de, over a part of [0, 1)."""
        inside = flint.acb.integral(
            lambda e, _: (-e * (2 * y + e) * rate).exp(), flint.acb(arb(low)), flint.acb(arb(high))
        )
        return (-y * y * rate).exp().real * inside.real

    ever = sum((drawn(y, Fraction(0), Fraction(1)) for y in range(9 * 128)), flint.arb(0))
    for k in (0, 1, 2, 3, 5, 129, 400):
        first, last = (
            max(Fraction(2 * k + off, 2) / Fraction(2) ** shift, Fraction(0)) for off in (-1, 1)
        )
        parts = flint.arb(0)
        for y in range(int(first), min(int(last) + 1, 9 * 128)):
            low, high = max(first - y, Fraction(0)), min(last - y, Fraction(1))
            if low < high:
                parts += drawn(y, low, high)
        assert abs(parts / ever / (1 if k == 0 else 2) - probability(variance, k)) < 1e-14


def probability(variance: Fraction, k: int) -> flint.arb:
    """Φ((k + ½)/σ) − Φ((k − ½)/σ)."""
    root = (2 * arb(variance)).sqrt()
    low, high = ((flint.arb(2 * k + off) / 2 / root).erf() for off in (-1, 1))
    return (high - low) / 2


@pytest.mark.parametrize("variance", ["1/12", "1", "4000", "9000000"])
def test_frequencies_are_those_of_the_rounded_gaussian(variance):
    """Of the seven values around 0 and near σ, by z-tests at 6 deviations: false alarm below 1e-7
    for each variance.
    """
    variance, size = Fraction(variance), 400_000
    values = gaussian(variance, size, KeyedBits(b"\1" * 32))
    near = round(float(variance) ** 0.5)
    for k in {-3, -2, -1, 0, 1, 2, 3, near, -near, near + 1}:
        expected = size * float(probability(variance, k))
        assert abs(np.count_nonzero(values == k) - expected) < 6 * expected**0.5 + 1


# -- what is refused -------------------------------------------------------------------------------


def test_a_variance_that_could_pass_int64_is_refused():
    bits = KeyedBits(bytes(32))
    assert gaussian(Fraction(MAX_VARIANCE), 1000, bits).shape == (1000,)
    with pytest.raises(NoiseError, match="Nothing was drawn"):
        gaussian(Fraction(MAX_VARIANCE + 1), 1, bits)


@pytest.mark.parametrize("size", [0, 1, 511, 513, 70_000])
@pytest.mark.parametrize("variance", [Fraction(1, 10**50), Fraction(9), Fraction(10**9)], ids=str)
def test_any_size_is_given(variance, size):
    values = gaussian(variance, size, KeyedBits(bytes(32)))
    assert values.shape == (size,)
    assert values.dtype == np.int64
