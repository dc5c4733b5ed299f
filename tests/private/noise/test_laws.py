from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.private.noise.laws import WORD, Law, settle


class WideLaw(Law):
    """Outcomes 0..size−1, equally likely, with bounds as wide as `slack` units: what settles must
    still be right.
    """

    def __init__(self, size: int, slack: int) -> None:
        self.size, self.slack = size, slack

    @property
    def count(self) -> int:
        return self.size

    def outcome(self, index: int) -> int:
        return index

    def bounds(self, index: int, bits: int) -> tuple[int, int]:
        exact = Fraction(index + 1, self.size) * 2**bits
        return int(exact) - self.slack, -int(-exact) + 1 + self.slack

    def thresholds(self) -> list[int]:
        return [(index + 1 << WORD) // self.size for index in range(self.size - 1)]


@given(
    size=st.integers(1, 300),
    slack=st.integers(0, 1000),
    words=st.lists(st.integers(0, 2**64 - 1), min_size=2, max_size=2),
)
def test_what_settles_is_what_exact_inversion_picks(size, slack, words):
    law, later = WideLaw(size, slack), iter([*words[1:], *[12345] * 8])
    number = (
        Fraction(words[0], 2**64)
        + Fraction(words[1], 2**128)
        + sum(Fraction(12345, 2 ** (64 * n)) for n in range(3, 11))
    )
    assert settle(law, words[0], 0, lambda: next(later)) == int(number * size)


@pytest.mark.parametrize("place", [0, 1, 5, 98])
def test_a_near_tie_takes_as_many_words_as_it_needs(place):
    law, asked = WideLaw(99, 3), []
    threshold = Fraction(place + 1, 99)
    words = [int(threshold * 2 ** (64 * n)) % 2**64 for n in range(1, 6)]
    last = place == 98  # nothing lies beyond the last outcome

    def more():
        asked.append(1)
        return words[len(asked)] if len(asked) < 4 else 0

    start = words[0] if not last else 2**64 - 1
    assert settle(law, start, 0, more) == place
    assert last or len(asked) == 4


def test_one_threshold_by_as_much_precision_as_it_takes():
    law = WideLaw(7, 2**100)
    assert law.threshold(2) == (3 << 64) // 7
