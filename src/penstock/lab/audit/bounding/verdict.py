"""The verdict of a bounding audit: what was tried, what was found, and the weakest spot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from penstock.lab.audit.replay.verdict import EXIT_CODES

Outcome: TypeAlias = Literal["acquitted", "convicted", "refused", "crashed"]
"""What a bounding audit ends with. `refused`: events were refused with and without the person.
`crashed`: the code failed in the same way with and without the person."""

Sentence: TypeAlias = Literal[
    "bounded", "one direction", "elsewhere", "own events", "arrival", "failure", "rule"
]

SENTENCES: dict[Sentence, str] = {
    "bounded": "In each unit a person changes the counts by at most the contribution.",
    "one direction": "All differences in a unit have the same sign.",
    "elsewhere": "Counts of units in which the person has no event do not change.",
    "own events": "Which events count depends on the person's own events alone.",
    "arrival": "Order of arrival, batches, retries and restarts change nothing.",
    "failure": "No failure depends on a person.",
    "rule": "The counts are those of the documented rule: the earliest events, then smallest keys.",
}
"""What must hold, by name."""


@dataclass(frozen=True)
class BoundingViolation:
    """One sentence that does not hold. All data are synthetic.

    Parameters
    ----------
    sentence : str
        The name of the sentence in `SENTENCES`.
    text : str
        What was found.
    source : str
        The format of the source.
    number : int
        The number of the round. With the verdict's seed it gives the same streams again.
    view : int
        The view, from 1 on.
    contribution : int
        The most events of a person in a unit.
    units : tuple of int
        The units in which it was found.
    """

    sentence: Sentence
    text: str
    source: str
    number: int
    view: int = 1
    contribution: int = 1
    units: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{SENTENCES[self.sentence]} Broken in round {self.number} ({self.source}): " + (
            self.text
        )

    def row(self) -> dict[str, Any]:
        """The violation as plain data."""
        return {
            "sentence": self.sentence,
            "meaning": SENTENCES[self.sentence],
            "text": self.text,
            "source": self.source,
            "round": self.number,
            "view": self.view,
            "contribution": self.contribution,
            "units": list(self.units),
        }


@dataclass(frozen=True)
class NearestCase:
    """The unit in which a person changed most of what is allowed.

    Parameters
    ----------
    changed, contribution : int
        By how much the counts differ, and by how much they may.
    unit, view, number : int
        Where: the unit, the view and the round.
    source : str
        The format of the source.
    setting : mapping of str to str
        The parameters of the round.
    """

    changed: int
    contribution: int
    unit: int
    view: int
    number: int
    source: str
    setting: Mapping[str, str] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """The difference as a share of the contribution."""
        return self.changed / self.contribution


@dataclass(frozen=True)
class BoundingVerdict:
    """The outcome of a bounding audit.

    Parameters
    ----------
    outcome : str
        `acquitted`, `convicted`, `refused` or `crashed`.
    violations : tuple of BoundingViolation
        What does not hold. Empty unless convicted.
    reason : str
        Why nothing could be judged. Empty if it could.
    rounds, streams, events, restarts : int
        What was tried: pairs of streams, runs of streams, events in them, and restarts.
    longest, most_keys, most_persons : int
        The most units, keys, and persons in one stream.
    contributions : tuple of int
        The contributions that were tried.
    sources : mapping of str to int
        The formats of sources, with the number of rounds of each.
    nearest : NearestCase or None
        The unit in which a person changed most of what is allowed.
    reached : int
        The number of rounds in which a person changed all that is allowed.
    seconds : float
        How long it took.
    seed : int
        The seed.
    units : int
        Single units that were counted without a source.
    """

    outcome: Outcome
    violations: tuple[BoundingViolation, ...] = ()
    reason: str = ""
    rounds: int = 0
    streams: int = 0
    events: int = 0
    restarts: int = 0
    longest: int = 0
    most_keys: int = 0
    most_persons: int = 0
    contributions: tuple[int, ...] = ()
    sources: Mapping[str, int] = field(default_factory=dict)
    nearest: NearestCase | None = None
    reached: int = 0
    seconds: float = 0.0
    seed: int = 0
    units: int = 0

    name = "bounding"

    @property
    def convicted(self) -> bool:
        """Whether a sentence about bounding does not hold."""
        return self.outcome == "convicted"

    @property
    def exit_code(self) -> int:
        """0 acquitted, 1 convicted, 3 could not be judged."""
        return EXIT_CODES[self.outcome]

    def sentence(self) -> str:
        """The verdict in one line."""
        if self.convicted:
            more = len(self.violations) - 1
            return f"CONVICTED: {self.violations[0]}" + (f" (and {more} more)" if more else "")
        if self.outcome == "acquitted":
            return (
                f"bounding acquitted: in {self.rounds} pairs of event streams, no person changed "
                "a unit by more than the contribution"
            )
        return f"bounding {self.outcome}: {self.reason}"

    def meaning(self) -> str:
        """The consequence of the verdict, for somebody who has to decide."""
        if self.convicted:
            return (
                "Every promise rests on bounding: noise hides as many events of a person as the "
                "contribution says. A person who changes more, or elsewhere, is not protected."
            )
        if self.outcome == "acquitted":
            return (
                "This is not a proof: other streams, formats and sizes were not tried. The streams "
                "are compared after bounding and before any noise, so nothing here is statistics."
            )
        return "Nothing is said about bounding: the streams could not be counted."

    def tried(self) -> str:
        """What was tried, in one line."""
        limits = ", ".join(map(str, self.contributions))
        return (
            f"{self.rounds} pairs of event streams in {len(self.sources)} formats, "
            f"{self.streams} runs with {self.events:,} events and {self.restarts} restarts; up to "
            f"{self.longest} units, {self.most_keys} keys and {self.most_persons:,} persons; "
            f"contributions {limits}. {self.units} single units were counted in one pass, in "
            "batches and in merged parts. Timing was not compared."
        )

    def weakest(self) -> list[str]:
        """The unit in which a person changed most, line by line."""
        spot = self.nearest
        if spot is None:
            return []
        settings = ", ".join(f"{key}={value}" for key, value in spot.setting.items())
        most = (
            f"A person changed {spot.changed} of {spot.contribution} allowed events in unit "
            f"{spot.unit} of view {spot.view} (share {spot.share:.2f}); all that is allowed was "
            f"reached in {self.reached} of {self.rounds} pairs"
        )
        return [most, f"Round {spot.number}, {spot.source}: {settings}"]

    def row(self, *, seconds: bool = True) -> dict[str, Any]:
        """The verdict as plain data.

        Parameters
        ----------
        seconds : bool
            Whether to say how long it took. Default: True.
        """
        spot = self.nearest
        took = {"seconds": round(self.seconds, 1)} if seconds else {}
        return {
            "name": self.name,
            "outcome": self.outcome,
            "convicted": self.convicted,
            "violations": [each.row() for each in self.violations],
            "reason": self.reason,
            "rounds": self.rounds,
            "streams": self.streams,
            "units": self.units,
            "events": self.events,
            "restarts": self.restarts,
            "longest": self.longest,
            "most_keys": self.most_keys,
            "most_persons": self.most_persons,
            "contributions": list(self.contributions),
            "sources": dict(self.sources),
            "nearest": None
            if spot is None
            else {
                "changed": spot.changed,
                "contribution": spot.contribution,
                "share": round(spot.share, 4),
                "unit": spot.unit,
                "view": spot.view,
                "round": spot.number,
                "source": spot.source,
                "setting": dict(spot.setting),
            },
            "reached": self.reached,
            **took,
            "seed": self.seed,
        }
