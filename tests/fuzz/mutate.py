"""Mutants of made-up inputs: the same seed and number always give the same mutant."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

MAX_BYTES = 2**17
MAX_STEPS = 6
NUMBERS = (
    *(b"0", b"-0", b"-1", b"1", b"255", b"65536", b"1e400", b"1.5", b"NaN", b"1e-400"),
    *(str(each).encode() for each in (2**31, 2**32, 2**63 - 1, 2**63, -(2**63) - 1, 10**30)),
)
WORDS = tuple(
    (number % 2 ** (8 * size)).to_bytes(size, order)
    for size in (1, 2, 4, 8)
    for number in (0, 1, 127, 128, 255, 2**15, 2**31 - 1, 2**31, 2**63 - 1, 2**63, -1, -2)
    for order in ("little", "big")
)
TOKENS = (
    *(b"\0", b"\n", b"\r\n", b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"=", b".", b" "),
    *(
        b"null",
        b"true",
        b'""',
        b"[]",
        b"{}",
        b"\xff",
        b"\xc3\x28",
        b"\xed\xa0\x80",
        b"\xef\xbb\xbf",
    ),
    *(b"\\ud800", b"\\u0000", "Ω".encode(), "\u2028".encode(), "\U0001f600".encode()),
)


@dataclass(frozen=True)
class Mutator:
    """Changes inputs of a corpus.

    Parameters
    ----------
    corpus : sequence of bytes
        The inputs to begin with.
    tokens : sequence of bytes
        Words of the format. Default: none but those of every format.
    pack : callable
        Makes an input of changed content, such as `gzip.compress`. Default: it is the content.
    seed : int
        The seed of all mutants. Default: 0.

    >>> mutator = Mutator([b'{"time": 1}'], seed=7)
    >>> mutator.mutant(3) == mutator.mutant(3) != mutator.mutant(4)
    True
    """

    corpus: Sequence[bytes] = field(repr=False)
    tokens: Sequence[bytes] = ()
    pack: Callable[[bytes], bytes] = bytes
    seed: int = 0

    def mutant(self, number: int) -> bytes:
        """The mutant of this number. What is packed is changed inside, and sometimes outside."""
        rng = random.Random(f"{self.seed} {number}")
        data = self.pack(self._changed(rng.choice(self.corpus), rng))
        if self.pack is not bytes and rng.random() < 0.3:
            data = self._changed(data, rng)
        return data

    def _changed(self, data: bytes, rng: random.Random) -> bytes:
        for _ in range(rng.randint(1, MAX_STEPS)):
            data = rng.choice(STEPS)(data, rng, self)[:MAX_BYTES]
        return data


Step = Callable[[bytes, random.Random, Mutator], bytes]


def _piece(data: bytes, rng: random.Random) -> slice:
    """A part of the data, mostly short."""
    start = rng.randint(0, len(data))
    longest = rng.choice((1, 4, 16, 64, len(data)))
    return slice(start, min(len(data), start + rng.randint(0, longest)))


def _replaced(data: bytes, part: slice, new: bytes) -> bytes:
    return data[: part.start] + new + data[part.stop :]


def _flip(data: bytes, rng: random.Random, _: Mutator) -> bytes:
    if not data:
        return data
    place = rng.randrange(len(data))
    return _replaced(data, slice(place, place + 1), bytes([data[place] ^ (1 << rng.randrange(8))]))


def _insert(data: bytes, rng: random.Random, _: Mutator) -> bytes:
    place = rng.randint(0, len(data))
    return _replaced(data, slice(place, place), rng.randbytes(rng.randint(1, 8)))


def _token(data: bytes, rng: random.Random, mutator: Mutator) -> bytes:
    """Insert a word of the format, or put it in the place of something."""
    new = rng.choice((*TOKENS, *mutator.tokens, *mutator.tokens))
    part = _piece(data, rng)
    return _replaced(data, part if rng.random() < 0.5 else slice(part.start, part.start), new)


def _word(data: bytes, rng: random.Random, _: Mutator) -> bytes:
    """Overwrite bytes with an integer at the edge of its type."""
    new = rng.choice(WORDS)
    place = rng.randint(0, max(0, len(data) - len(new)))
    return _replaced(data, slice(place, place + len(new)), new)


def _number(data: bytes, rng: random.Random, _: Mutator) -> bytes:
    """Overwrite a number that is written in digits."""
    places = [place for place, byte in enumerate(data) if 48 <= byte <= 57]
    if not places:
        return data
    start = end = rng.choice(places)
    while end < len(data) and 48 <= data[end] <= 57:
        end += 1
    return _replaced(data, slice(start, end), rng.choice(NUMBERS))


def _delete(data: bytes, rng: random.Random, _: Mutator) -> bytes:
    return _replaced(data, _piece(data, rng), b"")


def _duplicate(data: bytes, rng: random.Random, _: Mutator) -> bytes:
    """Repeat a part, sometimes very often: depth and number have limits too."""
    part = _piece(data, rng)
    times = rng.choice((2, 2, 2, 3, 10, 100, 2000))
    return _replaced(data, part, data[part] * min(times, 2 + MAX_BYTES // (len(data[part]) + 1)))


def _move(data: bytes, rng: random.Random, _: Mutator) -> bytes:
    """Put a part in the place of another."""
    return _replaced(data, _piece(data, rng), data[_piece(data, rng)])


def _splice(data: bytes, rng: random.Random, mutator: Mutator) -> bytes:
    """The beginning of one input and the end of another."""
    other = rng.choice(mutator.corpus)
    return data[: rng.randint(0, len(data))] + other[rng.randint(0, len(other)) :]


def _truncate(data: bytes, rng: random.Random, _: Mutator) -> bytes:
    return data[: rng.randint(0, len(data))]


STEPS: tuple[Step, ...] = (
    *(_flip, _insert, _token, _token, _word, _number, _delete, _duplicate, _move, _splice),
    _truncate,
)
