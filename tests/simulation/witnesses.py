"""What everybody has seen, drawn, sent and been told; and the rules that must hold of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

import numpy as np


class ViolationError(BaseException):
    """A rule was broken. No part of the publisher may catch it."""


@dataclass(eq=False)
class Attempt:
    """The draws of one unit in one process, until its mechanism is asked for another unit."""

    process: str
    unit: int
    labels: Counter = field(default_factory=Counter)
    noise: list = field(default_factory=list)


@dataclass(eq=False)
class Parcel:
    """One request of a sender: its events, and what became of it."""

    number: int
    time: int
    key: int
    unit: int
    handed: dict = field(default_factory=dict)  # by process: whether the unit was still open
    answered_by: list = field(default_factory=list)  # (process, time)

    def must_count(self, lineage) -> bool:
        """Whether the request was answered, and was in time when it was stored."""
        for process, moment in self.answered_by:
            if not lineage(process, moment):
                continue
            if process in self.handed:
                return self.handed[process]
            return all(self.handed.values())  # another process had stored it before
        return False


class Witnesses:
    """Hears everything, and complains at once."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, int], tuple] = {}
        self.seen_by: dict[tuple[str, int], set[str]] = defaultdict(set)
        self.attempts: dict[tuple[str, str, int], Attempt] = {}
        self.parcels: dict[int, Parcel] = {}

    # -- releases ----------------------------------------------------------------------------------

    def sees(self, who: str, series: str, unit: int, link: str, values) -> None:
        """Somebody saw a unit. Everybody sees the same for ever."""
        content = link, tuple(float(value) for value in values)
        first = self.seen.setdefault((series, unit), content)
        if first != content:
            raise ViolationError(
                f"unit {unit} of {series!r} has two contents: {who} saw another one than "
                f"{', '.join(sorted(self.seen_by[series, unit]))}."
            )
        self.seen_by[series, unit].add(who)

    # -- draws -------------------------------------------------------------------------------------

    def draws(self, process: str, view: str, unit: int, label: str, values) -> None:
        attempt = self.attempts.setdefault(
            (process, view, unit), Attempt(process=process, unit=unit)
        )
        attempt.labels[label] += 1
        attempt.noise.append((label, np.array(values)))

    def check_ledger(self, series: str, unit: int, labels: Counter, values, *, direct: bool):
        """The lines of a unit are the draws of one attempt, each of which was made once."""
        fitting = [
            attempt
            for (_, view, number), attempt in self.attempts.items()
            if (view, number) == (series, unit) and attempt.labels == labels
        ]
        if not fitting and labels:
            drawn = [
                dict(each.labels)
                for (_, view, number), each in self.attempts.items()
                if (view, number) == (series, unit)
            ]
            raise ViolationError(
                f"the ledger of unit {unit} of {series!r} has {dict(labels)}, and drawn was "
                f"{drawn}."
            )
        if not direct:
            return None
        for attempt in fitting:
            counts = np.asarray(values) - attempt.noise[-1][1]
            if (counts >= 0).all() and (counts <= len(self.parcels)).all():
                return counts
        raise ViolationError(f"unit {unit} of {series!r} is no draw of anybody.")

    # -- events ------------------------------------------------------------------------------------

    def check_counts(self, unit: int, counts, lineage) -> None:
        """Everything that was answered in time is counted, and nothing is counted twice."""
        for key, count in enumerate(counts):
            here = [each for each in self.parcels.values() if (each.unit, each.key) == (unit, key)]
            least = sum(each.must_count(lineage) for each in here)
            most = sum(any(each.handed.values()) for each in here)
            if not least <= count <= most:
                raise ViolationError(
                    f"unit {unit}, key {key}: {count} events were counted; {least} were answered "
                    f"in time and {most} were taken at most."
                )
