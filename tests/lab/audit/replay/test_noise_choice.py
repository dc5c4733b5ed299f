"""The noise of a transcript, by its mode."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from penstock.core.arrays import IntArray
from penstock.lab.audit.replay.noise_choice import FAR_SCALES, MODES, NoiseCall, NoiseChoice

CALL = NoiseCall("laplace", 2, "publish", (Fraction(3), Fraction(7, 2)), (0, 1, 1, 0, 1), 5)


def naive_noise(choice: NoiseChoice, call: NoiseCall) -> IntArray:
    """The noise of all modes, of which one is taken."""
    rng, scales = choice._random(call), call.scales
    near = np.ceil(np.abs(rng.laplace(0.0, choice.width, call.size)) * scales)
    far = np.ceil(scales * FAR_SCALES)
    sides = rng.choice((-1, 1), call.size)
    sign = choice.signs[call.unit - 1]
    found = {
        "zero": 0 * near,
        "with": sign * near,
        "against": -sign * near,
        "far with": sign * far,
        "far against": -sign * far,
        "far": sides * far,
        "key": sides * near,
        "random": sides * np.floor(near / choice.width),
    }
    return found[choice.mode].astype(np.int64)


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("mode", MODES)
def test_noise_is_that_of_its_mode(mode: str, sign: int) -> None:
    for seed in range(5):
        choice = NoiseChoice(seed, mode, 2.0, (-sign, sign))
        found = choice.noise(CALL)
        assert found.dtype == np.int64
        assert found.tolist() == naive_noise(choice, CALL).tolist()
