"""Places of persons: as producers choose them, and the same for every form of a column."""

from __future__ import annotations

import zlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.private.person_places import partition_of, place_of


def murmur2(data: bytes) -> int:
    """Kafka's `Utils.murmur2`, byte by byte, with the sign removed."""
    mask, factor = 0xFFFFFFFF, 0x5BD1E995
    found = 0x9747B28C ^ len(data)
    for at in range(0, len(data) // 4 * 4, 4):
        word = int.from_bytes(data[at : at + 4], "little") * factor & mask
        word = (word ^ (word >> 24)) * factor & mask
        found = (found * factor & mask) ^ word
    rest = data[len(data) // 4 * 4 :]
    if rest:
        found = (found ^ int.from_bytes(rest, "little")) * factor & mask
    found = (found ^ (found >> 13)) * factor & mask
    return (found ^ (found >> 15)) & 0x7FFFFFFF


@pytest.mark.parametrize(
    ("text", "signed"),
    [
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    ],
)
def test_murmur2_is_that_of_kafka(text, signed):
    """The values are those of the tests of Kafka's Java client."""
    expected = signed & 0x7FFFFFFF
    assert murmur2(text.encode()) == expected
    assert partition_of(pa.array([text]), 2**40, "murmur2").tolist() == [expected]


@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(1, 50))
def test_partitions_of_texts_are_those_of_producers(texts, partitions):
    column = pa.array(texts, pa.binary())
    expected = [murmur2(text) % partitions for text in texts]
    assert partition_of(column, partitions, "murmur2").tolist() == expected
    assert (
        partition_of(pa.array([b"x", *texts], pa.binary())[1:], partitions, "murmur2").tolist()
        == expected
    )
    expected = [zlib.crc32(text) % partitions for text in texts]
    assert partition_of(column, partitions, "crc32").tolist() == expected


@pytest.mark.parametrize("partitioner", ["murmur2", "crc32"])
def test_whole_numbers_are_hashed_as_their_digits_and_dictionaries_as_their_words(partitioner):
    numbers = np.array([7, -12, 2**40, 7], np.int64)
    texts = pa.array([str(number) for number in numbers])
    expected = partition_of(texts, 9, partitioner).tolist()
    assert partition_of(numbers, 9, partitioner).tolist() == expected
    assert partition_of(texts.dictionary_encode(), 9, partitioner).tolist() == expected
    with_none = pa.array(["7", None])
    assert partition_of(with_none, 9, partitioner).tolist()[0] == expected[0]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=30), st.integers(1, 9))
def test_a_person_is_always_in_the_same_place(ids, places):
    together = place_of(np.array(ids, np.int64), places).tolist()
    assert together == [int(place_of(np.array([each], np.int64), places)[0]) for each in ids]
    assert all(0 <= place < places for place in together)
    texts = [str(each) for each in ids]
    together = place_of(pa.array(texts), places).tolist()
    assert together == [int(place_of(pa.array([each]), places)[0]) for each in texts]


def test_persons_are_spread_over_all_places():
    for ids in (np.arange(8_000), pa.array([str(number) for number in range(8_000)])):
        shares = np.bincount(place_of(ids, 8), minlength=8)
        assert shares.min() > 800
