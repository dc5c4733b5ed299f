"""`Released`: its variance and its intervals against the probabilities themselves."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from penstock.core.errors import ConfigurationError, InexactError
from penstock.core.guarantee import Guarantee
from penstock.core.released import Released, Scale

PROMISE = Guarantee(1, 1)
SCALES = ["1/20", "1/3", "1", "7/3", "10", "60"]
CONFIDENCES = ["0.01", "0.5", "0.9", "0.95", "0.999", "0.999999"]


def released(scale="1", *, value=(0,), layers=1, divisor=1, private=True, parts=1) -> Released:
    return Released(
        unit=1,
        value=np.array(value, np.int64),
        scale=Scale(Fraction(scale), parts),
        guarantee=PROMISE,
        private=private,
        layers=layers,
        divisor=divisor,
    )


def pmf(scale: Fraction, layers: int = 1) -> np.ndarray:
    """P(noise = k) for k = -reach..reach, summed without a closed form; the rest is below 1e-25."""
    reach = math.ceil(60 * float(scale)) + 2
    one = np.exp(-np.abs(np.arange(-reach, reach + 1)) / float(scale))
    one /= one.sum()
    whole = one
    for _ in range(layers - 1):
        whole = np.convolve(whole, one)
    return whole


def miss_beyond(law: np.ndarray) -> np.ndarray:
    """P(|noise| > k) for k = 0, 1, 2, ..., added up from the smallest."""
    middle = len(law) // 2
    tail = law[middle + 1 :] + law[:middle][::-1]
    return np.append(np.cumsum(tail[::-1])[::-1], 0.0)


def half_width(release: Released, confidence) -> float:
    low, high = release.interval(confidence)
    assert high[0] - release.estimate[0] == release.estimate[0] - low[0]
    return float(high[0] - release.estimate[0])


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("scale", SCALES)
def test_the_variance_is_that_of_the_noise(scale, layers):
    law = pmf(Fraction(scale), layers)
    places = np.arange(len(law)) - len(law) // 2
    exact = float((law * places.astype(float) ** 2).sum())
    assert released(scale, layers=layers).variance == pytest.approx([exact], rel=1e-9, abs=1e-12)
    assert released(scale, layers=layers, divisor=4).variance == pytest.approx(
        [exact / 16], rel=1e-9, abs=1e-12
    )


@pytest.mark.parametrize("confidence", CONFIDENCES)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("layers", [1, 2])
def test_an_interval_of_one_or_two_layers_is_the_shortest_that_keeps_its_word(
    scale, confidence, layers
):
    beyond = miss_beyond(pmf(Fraction(scale), layers))
    miss = float(1 - Fraction(confidence))
    half = int(half_width(released(scale, layers=layers), confidence))
    assert beyond[half] <= miss * (1 + 1e-9)
    if half:
        assert beyond[half - 1] > miss * (1 - 1e-9)


@pytest.mark.parametrize("confidence", ["0.5", "0.95", "0.999"])
@pytest.mark.parametrize("scale", ["1/3", "2", "10"])
@pytest.mark.parametrize("layers", [3, 4, 5])
def test_an_interval_of_more_layers_keeps_its_word(scale, confidence, layers):
    beyond = miss_beyond(pmf(Fraction(scale), layers))
    half = int(half_width(released(scale, layers=layers), confidence))
    assert beyond[half] <= float(1 - Fraction(confidence))
    shortest = int(np.argmax(beyond <= float(1 - Fraction(confidence))))
    assert half <= max(4 * shortest, 4)


@pytest.mark.parametrize("scale", [10**4, 10**6, 10**9, 2**40])
@pytest.mark.parametrize("confidence", ["0.5", "0.95", "0.9999"])
def test_an_interval_keeps_its_word_for_large_scales(scale, confidence):
    half = half_width(released(str(scale)), confidence)
    with localcontext() as context:
        context.prec = 60
        q = (Decimal(-1) / scale).exp()
        miss = 1 - Decimal(confidence)
        beyond = 2 * q ** (int(half) + 1) / (1 + q)
        assert beyond <= miss * (1 + Decimal("1e-9"))
        assert beyond >= miss * (1 - Decimal(2) / scale - Decimal("1e-9"))
        p = (1 - q) / (1 + q)
        two = int(half_width(released(str(scale), layers=2), confidence))
        first = two + 1
        weight = first + 1 + 2 * q**2 / (1 - q**2)
        both = 2 * p**2 * q**first * (weight / (1 - q) + q / (1 - q) ** 2)
        assert both <= miss * (1 + Decimal("1e-6"))
        assert both >= miss * (1 - Decimal(4) / scale - Decimal("1e-6"))


def test_the_interval_covers_estimates_and_divides_with_them():
    low, high = released("10", value=(100, -7)).interval("0.95")
    wide = (high - low) / 2
    assert ((low + high) / 2).tolist() == [100, -7]
    small = released("10", value=(100, -7), divisor=2)
    assert small.estimate.tolist() == [50, -3.5]
    assert (small.interval("0.95")[1] - small.estimate).tolist() == (wide / 2).tolist()


@pytest.mark.parametrize("confidence", [0, 1, "1", "-0.5", "1.5"])
def test_a_confidence_that_is_no_probability_is_refused(confidence):
    with pytest.raises(ConfigurationError, match="confidence"):
        released().interval(confidence)


def test_a_float_confidence_is_refused():
    with pytest.raises(InexactError, match="confidence"):
        released().interval(0.95)


def test_every_key_may_have_its_own_scale():
    parts = np.array([1, 2, 0])
    each = released("10", value=(1, 2, 0), parts=parts)
    assert each.variance[:2].tolist() == [released("10").variance[0], released("5").variance[0]]
    assert each.variance[2] == math.inf
    halves = each.interval("0.9")[1] - each.estimate
    assert halves.tolist() == [
        half_width(released("10"), "0.9"),
        half_width(released("5"), "0.9"),
        math.inf,
    ]
    with pytest.raises(TypeError, match="per key"):
        float(each.scale)
    assert float(Scale(Fraction(10), 4)) == 2.5
    assert float(Scale(Fraction(10), 0)) == math.inf


def test_nothing_says_nothing():
    nothing = Released.nothing(2, PROMISE)
    assert nothing.value.tolist() == [0, 0]
    assert nothing.unit == 0
    assert nothing.repeated is True
    assert nothing.variance.tolist() == [math.inf, math.inf]
    low, high = nothing.interval()
    assert low.tolist() == [-math.inf, -math.inf]
    assert high.tolist() == [math.inf, math.inf]


def test_a_release_stands_again_with_its_own_noise():
    first = released("10", value=(5,))
    again = first.again(9)
    assert (again.unit, again.repeated) == (9, True)
    assert again.value is first.value
    assert again.variance.tolist() == first.variance.tolist()


def test_one_release_over_another_keeps_each_keys_noise():
    where = np.array([True, False, False])
    old = released("12", value=(1, 2, 3), parts=np.array([1, 2, 0]))
    new = released("12", value=(10, 20, 30), parts=4)
    both = new.over(old, where)
    assert both.value.tolist() == [10, 2, 3]
    assert both.variance.tolist() == [new.variance[0], old.variance[1], math.inf]
    assert both.repeated.tolist() == [False, True, True]


@pytest.mark.parametrize("odd", [{"scale": "7"}, {"layers": 2}, {"divisor": 3}])
def test_one_release_over_another_is_refused_or_right_if_their_noise_is_of_another_kind(odd):
    where = np.array([True, False])
    old = released(**({"scale": "12"} | odd), value=(1, 2))
    new = released("12", value=(10, 20))
    try:
        both = new.over(old, where)
    except ConfigurationError:
        return
    assert both.variance.tolist() == [new.variance[0], old.variance[1]]
    assert both.estimate.tolist() == [new.estimate[0], old.estimate[1]]


def test_what_test_noise_has_touched_stays_marked():
    where = np.array([True, False])
    false, true = released(value=(1, 2), private=False), released(value=(1, 2), private=True)
    assert not false.over(true, where).private
    assert not true.over(false, where).private
    assert not false.again(2).private


def test_a_release_cannot_be_changed():
    where = np.array([True, False])
    both = released(value=(1, 2)).over(Released.nothing(2, PROMISE), where)
    for array in (
        Released.nothing(2, PROMISE).value,
        both.value,
        both.scale.parts,
        both.repeated,
        both.variance,
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7
