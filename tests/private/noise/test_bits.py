import numpy as np
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


def test_each_read_is_memory_of_its_own():
    stream = KeyedBits(bytes(32))
    first = stream.bytes(64)
    kept = first.copy()
    second = stream.bytes(64)
    second.fill(0)
    np.testing.assert_array_equal(first, kept)


def test_keys_come_from_the_operating_system_and_are_replaced(monkeypatch):
    asked = []

    def urandom(count):
        asked.append(count)
        return bytes([len(asked)]) * count

    monkeypatch.setattr(module.os, "urandom", urandom)
    monkeypatch.setattr(module, "REKEY_AFTER", 1000)
    stream = SystemBits()
    reads = [stream.bytes(600).tobytes() for _ in range(4)]
    assert asked == [32, 32]
    assert reads[2] == KeyedBits(bytes([2]) * 32).bytes(600).tobytes()
    assert len(set(reads)) == 4


def test_our_copy_of_a_key_is_overwritten(monkeypatch):
    seen = []
    plain = module.KeyedBits
    monkeypatch.setattr(module, "KeyedBits", lambda key: (seen.append(key), plain(key))[1])
    module.system_key_stream()
    assert seen == [bytearray(32)]
