"""The noise source of a replay. It records what it gives, or gives what makes a run answer again
what another run answered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.errors import PenstockError
from penstock.lab.audit.replay.noise_choice import NoiseCall, NoiseChoice

Purpose: TypeAlias = Callable[[NoiseCall, IntArray], IntArray]
"""What the noise of a call is for: it gets the recorded noise and gives the noise to be used."""


class TranscriptBrokenError(PenstockError):
    """The second run asked for other noise than the first, so no transcript is common to both."""


class TranscriptNoise:
    """Noise that is chosen, recorded, and forced.

    The observers of the gate set `purpose` before the gate draws. A call without a purpose was made
    past the gate; `stray` is its purpose.

    Parameters
    ----------
    choice : NoiseChoice
        How the noise of the first run is chosen.
    recorded : sequence of (NoiseCall, array), optional
        The calls and the noise of the first run, for the second one. Default: this is the first.

    >>> first = TranscriptNoise(NoiseChoice(seed=1))
    >>> given = first.laplace(Fraction(2), 2, unit=1, label="publish")
    >>> second = TranscriptNoise(NoiseChoice(seed=2), recorded=first.given)
    >>> bool((second.laplace(Fraction(2), 2, unit=1, label="publish") == given).all())
    True
    >>> second.laplace(Fraction(2), 2, unit=1, label="publish")
    Traceback (most recent call last):
    penstock.lab.audit.replay.transcript_noise.TranscriptBrokenError: unit 1: one run draws ...
    """

    private = False

    def __init__(
        self, choice: NoiseChoice, recorded: Sequence[tuple[NoiseCall, IntArray]] | None = None
    ) -> None:
        self.choice = choice
        self.given: list[tuple[NoiseCall, IntArray]] = []
        self.purpose: Purpose | None = None
        self.stray: Purpose | None = None
        self.past_the_gate: list[NoiseCall] = []
        self.broken: str | None = None
        self._recorded = recorded

    @property
    def forcing(self) -> bool:
        """Whether this source forces a recorded transcript."""
        return self._recorded is not None

    def laplace(self, scale: Fraction, size: int, *, unit: int, label: str) -> IntArray:
        return self._give(NoiseCall("laplace", unit, label, (Fraction(scale),), (), size))

    def laplace_each(
        self, scales: Sequence[Fraction], which: IntArray, *, unit: int, label: str
    ) -> IntArray:
        places = tuple(which.tolist())
        return self._give(
            NoiseCall("laplace", unit, label, tuple(map(Fraction, scales)), places, len(places))
        )

    def gaussian(self, variance: Fraction, size: int, *, unit: int, label: str) -> IntArray:
        return self._give(NoiseCall("gaussian", unit, label, (Fraction(variance),), (), size))

    def thin(self, counts: IntArray, keep: Fraction, *, unit: int, label: str) -> IntArray:
        call = NoiseCall("thin", unit, label, (Fraction(keep),), (), len(counts))
        return np.minimum(self._give(call, counts), counts)

    def refresh(self) -> None:
        """Nothing is drawn."""

    def erase(self) -> None:
        """Nothing is drawn."""

    def memory(self) -> dict[str, Any]:
        return {}

    def _give(self, call: NoiseCall, counts: IntArray | None = None) -> IntArray:
        if self._recorded is None:
            choice = self.choice
            values = choice.noise(call) if counts is None else choice.sample(call, counts)
        else:
            values = self._expected(call, self._recorded).copy()
        if self.purpose is None:
            self.past_the_gate.append(call)
            values = values if self.stray is None else self.stray(call, values)
        else:
            values = self.purpose(call, values)
        self.given.append((call, np.array(values)))  # plain, and a copy
        return values

    def _expected(
        self, call: NoiseCall, recorded: Sequence[tuple[NoiseCall, IntArray]]
    ) -> IntArray:
        place = len(self.given)
        if self.broken is None and place < len(recorded) and recorded[place][0] == call:
            return recorded[place][1]
        if self.broken is None:
            there = described(recorded[place][0]) if place < len(recorded) else "nothing more"
            self.broken = f"unit {call.unit}: one run draws {there}, the other {described(call)}"
        raise TranscriptBrokenError(self.broken)


def described(call: NoiseCall) -> str:
    """A call in words. Laws are parameters of noise and no data of people: streams are synthetic.

    >>> described(NoiseCall("laplace", 1, "publish", (Fraction(2),), (), 3))
    "3 numbers of laplace noise for 'publish' (2)"
    """
    laws = ", ".join(f"{float(law):.6g}" for law in call.laws[:3])
    more = ", …" if len(call.laws) > 3 else ""
    numbers = "1 number" if call.size == 1 else f"{call.size} numbers"
    return f"{numbers} of {call.kind} noise for {call.label!r} ({laws}{more})"
