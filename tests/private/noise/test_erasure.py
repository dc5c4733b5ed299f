"""Nothing that was drawn can be computed from what a run leaves in memory between units."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.private.noise import SystemNoise
from penstock.private.noise import bits as bits_module
from penstock.private.noise.laplace import laplace
from penstock.testing import RecordingNoise

from tests.private.memory import HAS_PROC, looked_into

COUNTS = {"few": 4, "many": 3000}

RECORD_SYSTEM = """
import os
import numpy as np
import penstock as ps
from penstock.private.noise import SystemNoise, bits

given, plain = [], os.urandom
def urandom(count):
    made = plain(count)
    given.append(made.hex())
    return made
bits.os.urandom = urandom
"""


class Tape(RecordingNoise):
    """The noise of the system, and all that it gave."""

    def __init__(self) -> None:
        super().__init__(SystemNoise())
        self.given: list[list[int]] = []

    def laplace(self, *about: Any, **how: Any) -> Any:
        values = super().laplace(*about, **how)
        self.given.append(values.tolist())
        return values


def ciphers_reached_from(start: object) -> list[Any]:
    """All cipher contexts that can be reached from an object."""
    found, seen, todo = [], set(), [start]
    while todo:
        each = todo.pop()
        if id(each) in seen or isinstance(each, type) or type(each).__name__ == "module":
            continue
        seen.add(id(each))
        if hasattr(each, "reset_nonce"):
            found.append(each)
        if not callable(each):
            todo.extend(gc.get_referents(each))
    return found


class RewoundBits:
    """The key stream of a cipher that was found in memory, from its beginning."""

    def __init__(self, cipher: Any, place: bytes) -> None:
        self.cipher = cipher
        cipher.reset_nonce(place)

    def bytes(self, count: int) -> Any:
        return np.frombuffer(bytearray(self.cipher.update(bytes(count))), np.uint8)


@pytest.mark.parametrize("keys", COUNTS.values(), ids=COUNTS)
@pytest.mark.parametrize("mechanism", [ps.PanDistribution, ps.PanAbsorption])
def test_a_look_between_units_finds_no_cipher_to_run_backwards(
    mechanism: Any, keys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bits_module, "_moved", lambda place, by: bytes(16), raising=False)
    noise = Tape()
    run = mechanism(epsilon=1, window=3, intrusion="between").run(keys, noise=noise)
    for unit in (1, 2):
        noise.draws.clear()
        noise.given.clear()
        run.step([unit] * keys)
        recovered = [
            laplace(draw.scale, draw.size, RewoundBits(cipher, bytes(16))).tolist()
            for cipher in ciphers_reached_from(run)
            for draw in noise.draws
        ]
        assert not any(values in recovered for values in noise.given)
        assert not ciphers_reached_from(run)


@pytest.mark.slow
@pytest.mark.skipif(not HAS_PROC, reason="the memory of a process is read from /proc")
def test_no_key_and_no_bits_stand_in_memory_between_units_or_parts() -> None:
    script = f"""{RECORD_SYSTEM}
for keys in (4, 3000):
    for intrusion in ("between", "within"):
        run = ps.PanDistribution(epsilon=1, window=3, intrusion=intrusion).run(keys)
        for unit in (1, 2, 3):
            run.step(np.full(keys, unit * 100))
    run = ps.PanDistribution(epsilon=1, window=3, intrusion="announced").run(keys)
    run.feed(np.full(keys, 7))
    run.intruded()
wait(given)
"""
    with looked_into(script) as look:
        secret = [bytes.fromhex(given) for given in look.facts if len(given) > 32]  # no places
        assert {len(given) for given in secret} > {32}
        assert len(secret) >= 20
        assert not any(look.holds(given) for given in secret)


@pytest.mark.slow
@pytest.mark.skipif(not HAS_PROC, reason="the memory of a process is read from /proc")
def test_a_key_that_is_in_use_is_found_so_the_search_works() -> None:
    script = f"""{RECORD_SYSTEM}
from fractions import Fraction
source = SystemNoise()
source.laplace(Fraction(10), 3000, unit=1, label="publish")
wait(given)
"""
    with looked_into(script) as look:
        key, _ = look.facts
        assert look.holds(bytes.fromhex(key))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a fork is the clone of this test")
def test_a_clone_of_a_running_process_draws_other_noise_in_the_next_unit() -> None:
    """Two rows of 4 values of scale 10^12 agree with probability below 1e-40."""
    script = """
import os
import numpy as np
import penstock as ps
from penstock.private.noise import SystemNoise

for keys in (4, 3000):
    noise, counts = SystemNoise(), np.zeros(keys, np.int64)
    run = ps.Uniform(epsilon="1e-12", window=1).run(keys, noise=noise)
    run.step(counts)
    assert noise.memory()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        type(noise)._check_home = lambda self: None  # a clone that does not know it is one
        os.write(write, run.step(counts).value[:4].tobytes())
        os._exit(0)
    mine = run.step(counts).value[:4].tobytes()
    os.waitpid(child, 0)
    theirs = os.read(read, 100)
    assert len(mine) == len(theirs) == 32
    assert mine != theirs, keys
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True)
