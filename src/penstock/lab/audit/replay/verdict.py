"""The verdict of a replay audit: what was tried, what was found, and the weakest spot."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from penstock.lab.audit.model import Pair

Outcome: TypeAlias = Literal["acquitted", "convicted", "refused", "crashed", "not judged"]
"""What a replay audit ends with. `refused`: the ledger stopped the mechanism on both streams.
`crashed`: both runs failed in the same way. `not judged`: the replay cannot follow it."""

EXIT_CODES: dict[Outcome, int] = {
    "acquitted": 0,
    "convicted": 1,
    "refused": 3,
    "crashed": 3,
    "not judged": 3,
}
"""The exit code of each outcome."""


@dataclass(frozen=True)
class WeakestSpot:
    """The trial with the largest loss, or the one that ended the audit.

    Parameters
    ----------
    pair : Pair
        The two streams.
    configuration : dict of str to str
        All parameters of the mechanism.
    restarts : tuple of int
        The units after which the runs were saved and restored.
    largest : (int, str, float) or None
        The unit and label of the answer that loses most, and its loss.
    """

    pair: Pair
    configuration: dict[str, str]
    restarts: tuple[int, ...]
    largest: tuple[int, str, float] | None


@dataclass(frozen=True)
class ReplayVerdict:
    """The outcome of a replay audit.

    Parameters
    ----------
    name : str
        What was audited.
    outcome : str
        `acquitted`, `convicted`, `refused`, `crashed` or `not judged`.
    claimed, delta : Fraction
        The promise.
    loss : float
        The largest loss of any transcript, as ε.
    violations : tuple of str
        What convicts it besides the loss, in words; or why it was not judged.
    spot : WeakestSpot or None
        Where that was.
    replays, configurations, longest, most_keys, restarted : int
        What was tried: transcripts, configurations, the longest stream, the most keys, and the
        transcripts with restarts.
    seconds : float
        How long it took.
    seed : int
        The seed.
    """

    name: str
    outcome: Outcome
    claimed: Fraction
    delta: Fraction
    loss: float
    violations: tuple[str, ...] = ()
    spot: WeakestSpot | None = None
    replays: int = 0
    configurations: int = 0
    longest: int = 0
    most_keys: int = 0
    restarted: int = 0
    seconds: float = 0.0
    seed: int = 0
    window: int = field(default=1)

    @property
    def convicted(self) -> bool:
        """Whether the mechanism breaks its promise."""
        return self.outcome == "convicted"

    @property
    def exit_code(self) -> int:
        """0 acquitted, 1 convicted, 3 could not be judged."""
        return EXIT_CODES[self.outcome]

    def sentence(self) -> str:
        """The verdict in one line."""
        claim = f"{float(self.claimed):g}" + (f", δ = {float(self.delta):g}" if self.delta else "")
        if self.outcome == "acquitted":
            return (
                f"acquitted by replay: the largest loss of {self.replays} transcripts is "
                f"ε = {self.loss:.4f} (promised: {claim})"
            )
        if self.outcome == "convicted" and self.loss > float(self.claimed):
            return (
                f"CONVICTED by replay: a transcript loses ε = {self.loss:.6g} (promised: {claim})"
            )
        if self.outcome == "convicted":
            return f"CONVICTED by replay: {self.violations[0]}"
        why = self.violations[0] if self.violations else ""
        return f"{self.outcome} in the replay: {why}"

    def meaning(self) -> str:
        """The consequence of the verdict, for somebody who has to decide."""
        if self.outcome == "convicted" and self.loss > float(self.claimed):
            return (
                "The loss is that of one transcript, computed from the laws of the noise and not "
                "estimated. The promise is broken, whatever the proof says."
            )
        if self.outcome == "convicted":
            return (
                "The same transcript was forced on both streams, so everything else must be the "
                "same. What differs tells the two streams apart, and no noise protects it."
            )
        if self.outcome == "acquitted":
            return (
                "No transcript that was tried loses more than the promise, and nothing else "
                "differed. This is not a proof: other streams, transcripts and parameters were not "
                "tried."
            )
        if self.outcome == "refused":
            return (
                "The ledger refused on both streams, so nothing was given away. The mechanism asks "
                "for more than it promises, and cannot be judged until that is mended."
            )
        return "Nothing is said about the promise: the mechanism could not be followed."

    def tried(self) -> str:
        """What was tried, in one line."""
        return (
            f"{self.replays} transcripts in {self.configurations} configurations, up to "
            f"{self.longest} units and {self.most_keys} keys, {self.restarted} of them with "
            "restarts. Timing was not compared."
        )

    def weakest(self) -> list[str]:
        """The trial with the largest loss, or the one that ended the audit, line by line."""
        spot = self.spot
        if spot is None:
            return []
        lines = [
            f"Streams: {spot.pair.name} ({spot.pair.units} units, {spot.pair.keys} keys)",
            "Parameters: "
            + ", ".join(f"{key}={value}" for key, value in spot.configuration.items()),
        ]
        if spot.restarts:
            lines.append(f"Saved and restored after units {', '.join(map(str, spot.restarts))}")
        if spot.largest is not None:
            unit, label, amount = spot.largest
            lines.append(f"Most is lost in unit {unit}, label {label!r}: {amount:.4f}")
        return lines

    def row(self, *, seconds: bool = True) -> dict[str, Any]:
        """The verdict as plain data.

        Parameters
        ----------
        seconds : bool
            Whether to say how long it took. Default: True.
        """
        spot = self.spot
        took = {"seconds": round(self.seconds, 1)} if seconds else {}
        return {
            "name": self.name,
            "outcome": self.outcome,
            "convicted": self.convicted,
            "claimed": float(self.claimed),
            "delta": float(self.delta),
            "window": self.window,
            "loss": round(self.loss, 6),
            "violations": list(self.violations),
            "replays": self.replays,
            "configurations": self.configurations,
            "longest": self.longest,
            "most_keys": self.most_keys,
            "restarted": self.restarted,
            **took,
            "seed": self.seed,
            "spot": None
            if spot is None
            else {
                "pair": spot.pair.name,
                "left": spot.pair.left.tolist(),
                "right": spot.pair.right.tolist(),
                "configuration": spot.configuration,
                "restarts": list(spot.restarts),
                "largest": None if spot.largest is None else list(spot.largest),
            },
        }
