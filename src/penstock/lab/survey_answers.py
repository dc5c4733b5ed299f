"""Answers of people in a survey that each of them falsifies with a known probability."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.errors import ConfigurationError
from penstock.core.exact import whole
from penstock.private.noise import Noise


def negative(keys: int) -> Fraction:
    """The probability of a true answer in a negative survey: 0.

    A negative survey is **not ε-private for any ε**: an answer rules one key out.
    """
    if whole(keys, name="keys", least=2) == 2:
        raise ConfigurationError(
            "keys=2: a negative survey needs at least 3 keys; with 2 the answer gives the key away."
        )
    return Fraction(0)


def answers(counts: IntArray, honest: Fraction, *, noise: Noise, unit: int = 1) -> IntArray:
    """Draw how many people name each key. `counts` says how many people have each key.

    A person names the own key with probability `honest`, else any other key with equal
    probability. The draw is exact, by thinning.
    """
    keys = len(counts)
    said = noise.thin(counts, honest, unit=unit, label="truth")
    left = counts - said
    for step in range(1, keys):
        here = noise.thin(left, Fraction(1, keys - step), unit=unit, label=f"lie {step}")
        said = said + np.roll(here, step)
        left = left - here
    return said
