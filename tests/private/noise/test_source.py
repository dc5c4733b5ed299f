import copy
import os
import pickle
import sys
import threading
import warnings
from fractions import Fraction

import numpy as np
import pytest

from penstock.core.errors import ConfigurationError, InexactError, InputError, NoiseError
from penstock.private.noise import Noise, NoNoise, SystemNoise, TestNoise
from penstock.private.noise import bits as bits_module
from penstock.private.noise.laplace import MAX_SCALE, laplace

SCALES = [Fraction(1), Fraction(10), Fraction(1000)]


@pytest.fixture(params=[SystemNoise, lambda: TestNoise(1), NoNoise], ids=["system", "test", "none"])
def noise(request) -> Noise:
    return request.param()


def test_only_the_noise_of_the_system_is_private():
    assert SystemNoise().private is True
    assert TestNoise(3).private is False
    assert NoNoise().private is False


@pytest.mark.parametrize("size", [0, 1, 5, 513, 3000])
def test_a_draw_is_a_row_of_int64(noise, size):
    for scale in (*SCALES, Fraction(1, 50), Fraction(10**12), Fraction(MAX_SCALE)):
        values = noise.laplace(scale, size, unit=0, label="a")
        assert values.dtype == np.int64
        assert values.shape == (size,)
        assert values.flags.writeable
    which = np.arange(size, dtype=np.uint64) % np.uint64(3)
    assert noise.laplace_each(SCALES, which, unit=0, label="a").shape == (size,)
    assert noise.thin(np.arange(size), Fraction(1, 3), unit=0, label="a").shape == (size,)
    for variance in (Fraction(1, 50), Fraction(100), Fraction(10**12)):
        values = noise.gaussian(variance, size, unit=0, label="a")
        assert (values.dtype, values.shape) == (np.int64, (size,))


@pytest.mark.parametrize("change", [{"unit": 8}, {"label": "b"}, {"seed": 2}])
def test_test_noise_follows_from_seed_unit_and_label(change):
    def values(*, seed=1, unit=7, label="a"):
        source = TestNoise(seed)
        return [
            source.laplace(Fraction(1000), 50, unit=unit, label=label).tolist(),
            source.thin(np.full(50, 1000), Fraction(1, 2), unit=unit, label=label).tolist(),
            source.gaussian(Fraction(10**6), 50, unit=unit, label=label).tolist(),
        ]

    assert values() == values()
    assert all(one != two for one, two in zip(values(), values(**change), strict=True))


def test_test_noise_does_not_depend_on_what_was_drawn_before():
    source = TestNoise(1)
    first = source.laplace(Fraction(1000), 50, unit=7, label="a")
    source.laplace(Fraction(10), 999, unit=8, label="b")
    source.erase()
    np.testing.assert_array_equal(source.laplace(Fraction(1000), 50, unit=7, label="a"), first)


def test_system_noise_never_repeats_itself():
    """Two rows of 50 values of scale 10^12 agree with probability below 1e-600."""
    one, two = SystemNoise(), SystemNoise()
    rows = []
    for source in (one, two, one):
        for size in (50, 5000):
            rows.append(source.laplace(Fraction(10**12), size, unit=0, label="a")[:50])
            source.refresh()
    assert len({row.tobytes() for row in rows}) == 6


def test_a_refresh_or_an_erasure_brings_new_randomness_of_the_system(monkeypatch):
    source = SystemNoise()
    asked = []
    plain = os.urandom
    monkeypatch.setattr(
        bits_module.os, "urandom", lambda count: (asked.append(count), plain(count))[1]
    )
    source.laplace(Fraction(10), 5, unit=0, label="a")
    source.laplace(Fraction(10), 5000, unit=0, label="b")
    assert asked == [32, 16]
    source.refresh()
    source.laplace(Fraction(10), 5, unit=1, label="a")
    assert asked == [32, 16, 16]
    assert list(source.memory()) == ["noise key"]
    source.erase()
    assert source.memory() == {}
    source.laplace(Fraction(10), 5, unit=1, label="a")
    assert asked == [32, 16, 16, 40]  # few bits come straight from the operating system
    assert source.memory() == {}
    source.laplace(Fraction(10), 5000, unit=1, label="a")
    assert asked == [32, 16, 16, 40, 32, 16]


@pytest.mark.parametrize("size", [100, 5000])
def test_the_bits_of_a_draw_are_overwritten(size):
    class WatchedBits(bits_module.KeyedBits):
        def __init__(self):
            super().__init__(bytes(32))
            self.given = []

        def bytes(self, count):
            self.given.append(super().bytes(count))
            return self.given[-1]

    watched = WatchedBits()
    laplace(Fraction(1000), size, watched)
    assert len(watched.given) >= 2
    assert not any(given.any() for given in watched.given)


def test_one_scale_for_each_is_the_same_as_one_for_all():
    source = TestNoise(4)
    for size in (5, 2000):
        one = source.laplace(Fraction(10), size, unit=1, label="a")
        np.testing.assert_array_equal(
            source.laplace_each([Fraction(10)], np.zeros(size, int), unit=1, label="a"), one
        )


def test_noise_for_each_is_noise_of_its_own_scale(recorded, monkeypatch):
    which = np.array([2, 0, 1, 1, 0, 2, 2, 0] * 300)
    monkeypatch.setattr(TestNoise, "_stream", lambda self, kind, unit, label: recorded(3))
    values = TestNoise(0).laplace_each(SCALES, which, unit=0, label="a")
    bits = recorded(3)
    for place, scale in enumerate(SCALES):
        np.testing.assert_array_equal(
            values[which == place], laplace(scale, int((which == place).sum()), bits)
        )


def test_a_scale_that_no_element_has_is_not_drawn():
    values = TestNoise(0).laplace_each(
        [Fraction(1), Fraction(10**9)], np.zeros(100, int), unit=0, label="a"
    )
    assert np.abs(values).max() < 100
    assert TestNoise(0).laplace_each([], np.zeros(0, int), unit=0, label="a").tolist() == []


def test_no_noise_is_nothing_and_keeps_the_floor_of_the_share():
    source = NoNoise()
    assert source.laplace(Fraction(10), 4, unit=0, label="a").tolist() == [0] * 4
    assert source.laplace_each(SCALES, np.array([0, 2]), unit=0, label="a").tolist() == [0, 0]
    assert source.thin(np.array([0, 2, 3, 2**40]), Fraction(1, 3), unit=0, label="a").tolist() == [
        0,
        0,
        1,
        2**40 // 3,
    ]


@pytest.mark.parametrize(
    "action",
    [copy.copy, copy.deepcopy, pickle.dumps, lambda each: pickle.dumps([each], protocol=0)],
)
def test_a_source_is_neither_copied_nor_pickled(noise, action):
    with pytest.raises(NoiseError, match="cannot be copied or pickled"):
        action(noise)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_source_is_poisoned_in_a_forked_child(noise):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        refused = 0
        for draw in (
            lambda: noise.laplace(Fraction(1), 1, unit=0, label="a"),
            lambda: noise.laplace_each([Fraction(1)], np.zeros(1, int), unit=0, label="a"),
            lambda: noise.thin(np.ones(1, int), Fraction(1, 2), unit=0, label="a"),
            lambda: noise.gaussian(Fraction(1), 1, unit=0, label="a"),
        ):
            try:
                draw()
            except NoiseError:
                refused += 1
        SystemNoise().laplace(Fraction(1), 1, unit=0, label="a")  # one made here may draw
        os._exit(refused)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 4
    noise.laplace(Fraction(1), 1, unit=0, label="a")


def test_a_repr_shows_no_secret():
    assert repr(SystemNoise()) == "SystemNoise()"
    assert repr(TestNoise(12)) == "TestNoise(seed=12)"
    assert repr(NoNoise()) == "NoNoise()"


def test_a_float_is_refused_with_what_to_write(noise):
    with pytest.raises(InexactError, match=r"Write scale=\"0.1\" or Fraction\(1, 10\)"):
        noise.laplace(0.1, 1, unit=0, label="a")
    with pytest.raises(InexactError, match=r"Write scale=\"2.5\""):
        noise.laplace_each([2.5], np.zeros(1, int), unit=0, label="a")
    with pytest.raises(InexactError, match=r"Write keep=\"0.5\""):
        noise.thin(np.ones(1, int), 0.5, unit=0, label="a")
    with pytest.raises(InexactError, match=r"Write variance=\"2.5\""):
        noise.gaussian(2.5, 1, unit=0, label="a")


def test_a_variance_that_cannot_be_is_refused(noise):
    with pytest.raises(ConfigurationError, match="variance must be above 0"):
        noise.gaussian(0, 1, unit=0, label="a")
    with pytest.raises(NoiseError, match=r"above 2\*\*100"):
        noise.gaussian(Fraction(2**100 + 1), 1, unit=0, label="a")
    with pytest.raises(ConfigurationError, match="size"):
        noise.gaussian(Fraction(1), -1, unit=0, label="a")


@pytest.mark.parametrize("scale", [0, -1, Fraction(-1, 3)])
def test_a_scale_must_be_above_nothing(noise, scale):
    with pytest.raises(ConfigurationError, match="above 0"):
        noise.laplace(scale, 1, unit=0, label="a")


def test_an_int_is_a_scale():
    source = TestNoise(1)
    np.testing.assert_array_equal(
        source.laplace(10, 9, unit=0, label="a"), source.laplace(Fraction(10), 9, unit=0, label="a")
    )


def test_a_scale_that_could_pass_int64_is_refused(noise):
    with pytest.raises(NoiseError, match=r"above 2\*\*50"):
        noise.laplace(Fraction(MAX_SCALE + 1), 1, unit=0, label="a")


@pytest.mark.parametrize("size", [-1, 1.0, True])
def test_a_size_is_a_whole_number(noise, size):
    with pytest.raises(ConfigurationError, match="size"):
        noise.laplace(Fraction(1), size, unit=0, label="a")


@pytest.mark.parametrize("which", [[-1], [3], [0.0], [[0]]])
def test_which_points_at_the_scales(noise, which):
    with pytest.raises(ConfigurationError, match="which"):
        noise.laplace_each(SCALES, np.array(which), unit=0, label="a")


@pytest.mark.parametrize("keep", [Fraction(-1, 2), Fraction(3, 2)])
def test_a_share_lies_between_nothing_and_all(noise, keep):
    with pytest.raises(ConfigurationError, match="keep"):
        noise.thin(np.ones(1, int), keep, unit=0, label="a")
    with pytest.raises(InputError):
        noise.thin(np.array([-1]), Fraction(1, 2), unit=0, label="a")


@pytest.mark.parametrize("seed", [-1, 1.0, "1", True])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(ConfigurationError, match="seed"):
        TestNoise(seed)


def test_threads_may_share_a_source(monkeypatch):
    """Each value of each thread has its own place in the key stream: no byte is given twice."""
    source, seen, errors = SystemNoise(), [], []
    plain = source._bits.bytes

    class RecordedBits:
        refresh = source._bits.refresh

        def bytes(self, count):
            given = plain(count)
            seen.append(given.tobytes())
            return given

    source._bits = RecordedBits()

    def work():
        try:
            for _ in range(50):
                source.laplace(Fraction(10**6), 20, unit=0, label="a")
                source.refresh()
        except Exception as error:
            errors.append(error)

    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switch)
    assert not errors
    assert len(seen) == len(set(seen)) == 4 * 50 * 3
