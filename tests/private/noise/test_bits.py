import os

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from penstock.private.noise import bits as module
from penstock.private.noise.bits import KeyedBits, SystemBits


def test_the_key_stream_is_that_of_aes_in_counter_mode_however_it_is_read():
    key = bytes(range(32))
    expected = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(300_000))
    stream = KeyedBits(key)
    read = b"".join(
        stream.bytes(count).tobytes() for count in (1, 15, 16, 0, 1000, 65536, 65537, 150_000)
    )
    assert read == expected[: len(read)]


def test_a_stream_starts_from_any_place():
    key, place = bytes(range(32)), bytes(range(16))
    expected = Cipher(algorithms.AES(key), modes.CTR(place)).encryptor().update(bytes(100))
    stream = KeyedBits(key)
    stream.bytes(30)
    stream.restart(place)
    assert stream.bytes(100).tobytes() == KeyedBits(key, place).bytes(100).tobytes() == expected


def test_each_read_is_memory_of_its_own():
    stream = KeyedBits(bytes(32))
    first = stream.bytes(64)
    kept = first.copy()
    second = stream.bytes(64)
    second.fill(0)
    np.testing.assert_array_equal(first, kept)


def system_of(asked):
    """A system that gives bytes of 1, then of 2, and so on, and remembers how many."""

    def system(count):
        asked.append(count)
        return bytes([len(asked)]) * count

    return system


def test_keys_come_from_the_operating_system_and_are_replaced(monkeypatch):
    asked = []
    monkeypatch.setattr(module.os, "urandom", system_of(asked))
    monkeypatch.setattr(module, "REKEY_AFTER", 1000)
    stream = SystemBits(clock=lambda: 0)
    reads = [stream.bytes(600).tobytes() for _ in range(4)]
    assert asked == [32, 16, 32, 16]
    assert reads[2] == KeyedBits(bytes([3]) * 32, bytes([4]) * 16).bytes(600).tobytes()
    assert len(set(reads)) == 4


def test_after_a_refresh_the_stream_goes_on_from_a_new_place():
    asked = []
    stream = SystemBits(system=system_of(asked), clock=lambda: 0)
    stream.bytes(50)
    stream.refresh()
    assert asked == [32, 16]
    read = stream.bytes(50).tobytes() + stream.bytes(1000).tobytes()
    assert read == KeyedBits(bytes([1]) * 32, bytes([3]) * 16).bytes(1050).tobytes()
    assert asked == [32, 16, 16]


@pytest.mark.parametrize("count", [8, 2000])
def test_a_machine_that_repeats_its_randomness_at_another_time_repeats_no_noise(count):
    def bits(time):
        asked = []
        stream = SystemBits(system=system_of(asked), clock=lambda: time)
        first = stream.bytes(count).tobytes()
        stream.refresh()
        return first, stream.bytes(count).tobytes()

    assert bits(-1) != bits(1)  # no clock stops the noise
    one, other = bits(1_800_000_000_000_000_000), bits(1_800_000_000_000_000_001)
    assert len({*one, *other}) == 4


def test_after_an_erasure_there_is_no_stream_and_the_next_has_another_key():
    asked = []
    stream = SystemBits(system=system_of(asked), clock=lambda: 0, few=0)
    first = stream.bytes(50).tobytes()
    stream.erase()
    stream.refresh()
    assert stream.stream is None
    assert stream.bytes(50).tobytes() != first
    assert asked == [32, 16, 32, 16]


def test_after_an_erasure_few_bytes_come_from_the_system_itself_and_more_from_a_key():
    asked = []
    stream = SystemBits(system=system_of(asked), clock=lambda: 0, few=100)
    for _ in range(2):
        stream.erase()
        asked.clear()
        assert stream.bytes(60).tobytes() == bytes([1]) * 60
        assert stream.bytes(40).tobytes() == bytes([2]) * 40
        assert stream.stream is None
        many = stream.bytes(1).tobytes() + stream.bytes(2000).tobytes()
        assert many == KeyedBits(bytes([3]) * 32, bytes([4]) * 16).bytes(2001).tobytes()
        assert asked == [60, 40, 32, 16]


def test_the_bytes_of_a_key_and_bytes_that_are_given_directly_are_overwritten():
    given = []
    stream = SystemBits(system=lambda count: given.append(os.urandom(count)) or given[-1])
    stream.erase()
    assert stream.bytes(100).any()
    stream.bytes(2000)
    assert [len(each) for each in given] == [100, 32, 16]
    assert given[:2] == [bytes(100), bytes(32)]


def test_bytes_that_the_interpreter_shares_are_not_overwritten():
    shared = bytes([7])
    stream = SystemBits(system=lambda count: shared)
    stream.erase()
    assert stream.bytes(1).tolist() == [7]
    assert shared == b"\x07"
