"""The search of a replay audit: over transcripts, neighbours, configurations and restarts."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

import numpy as np

from penstock.lab.audit.replay.configurations import LARGE, other_trials, own_trials
from penstock.lab.audit.replay.gate_observers import NotJudgedError
from penstock.lab.audit.replay.noise_choice import MODES, NoiseChoice
from penstock.lab.audit.replay.replayed_pair import (
    Replayed,
    ReplayTrial,
    replay,
    same_after_a_restart,
)
from penstock.lab.audit.replay.verdict import Outcome, ReplayVerdict, WeakestSpot
from penstock.lab.audit.subjects import Subject

REPLAYS: Final = 400
"""The default number of transcripts of an audit."""

LEAST_TRIES: Final = 3
"""The fewest transcripts of one of the subject's own pairs."""

ONCE: Final = 4
"""One of so many transcripts is spent on a configuration of its own. A budget that is wrong for a
window or a parameter shows in every transcript, so one is enough.
"""

ENOUGH = 0.9999
"""A trial whose loss is this share of the promise is not searched further."""

NEAR = 0.98
"""From this share of the promise on, estimated sums are computed completely."""


@dataclass
class _Search:
    """What a search has found so far."""

    subject: Subject
    seed: int
    start: float = field(default_factory=time.monotonic)
    replays: int = 0
    restarted: int = 0
    longest: int = 0
    most_keys: int = 0
    configurations: set[str] = field(default_factory=set)
    loss: float = 0.0
    best: tuple[ReplayTrial, Replayed] | None = None
    failures: list[tuple[Outcome, str, ReplayTrial]] = field(default_factory=list)

    def try_once(self, trial: ReplayTrial, choice: NoiseChoice) -> Replayed:
        """One transcript; exactly, if its loss is near the promise."""
        found = replay(trial, choice, fine=False)
        near = found.loss.computed and found.loss.epsilon(trial.delta) > NEAR * float(trial.claimed)
        if near:
            found = replay(trial, choice)
        self.replays += 1
        self.restarted += bool(trial.restarts)
        self.longest = max(self.longest, trial.pair.units)
        self.most_keys = max(self.most_keys, trial.pair.keys)
        reached = found.loss.epsilon(trial.delta)
        if self.best is None or reached > self.loss:
            self.loss, self.best = reached, (trial, found)
        return found

    def verdict(
        self,
        outcome: Outcome,
        trial: ReplayTrial | None,
        found: Replayed | None,
        violations: tuple[str, ...] = (),
    ) -> ReplayVerdict:
        spot = None
        if trial is not None:
            configuration = trial.mechanism.configuration()
            spot = WeakestSpot(
                trial.pair,
                {name: str(value) for name, value in configuration.items()},
                tuple(sorted(trial.restarts)),
                None if found is None else found.loss.largest(),
            )
        subject = self.subject
        return ReplayVerdict(
            subject.name,
            outcome,
            subject.claimed,
            subject.delta,
            self.loss if found is None else found.loss.epsilon(subject.delta),
            violations,
            spot,
            self.replays,
            len(self.configurations),
            self.longest,
            self.most_keys,
            self.restarted,
            time.monotonic() - self.start,
            self.seed,
            subject.window,
        )


def replay_audit(
    subject: Subject,
    *,
    replays: int = REPLAYS,
    seed: int | None = None,
    progress: Callable[[int, int], object] | None = None,
    elsewhere: bool = True,
) -> ReplayVerdict:
    """Search for a transcript that loses more than was promised, or for any other difference.

    Parameters
    ----------
    subject : Subject
        What is audited.
    replays : int
        The number of transcripts. Default: 400.
    seed : int, optional
        The seed. The same seed gives the same verdict. Default: a new one.
    progress : callable, optional
        Called with the number of transcripts so far and of all. Default: none.
    elsewhere : bool
        Whether to try other configurations and streams than the subject's own. Default: True.

    >>> from penstock.lab.audit.subjects import subject
    >>> found = replay_audit(subject("uniform"), replays=20, seed=1)
    >>> found.outcome, found.loss
    ('acquitted', 2.0)
    """
    seed = secrets.randbits(62) if seed is None else seed
    search = _Search(subject, seed)
    rng = np.random.default_rng(seed)
    for trial, tries in _trials(subject, rng, replays, elsewhere=elsewhere and not subject.flawed):
        if search.replays >= replays:
            break
        search.configurations.add(repr(trial.mechanism))
        try:
            convicted = _judge(search, trial, min(tries, replays - search.replays), rng)
        except NotJudgedError as error:
            search.failures.append(("not judged", str(error), trial))
            search.replays += 1
            continue
        if convicted is not None:
            return convicted
        if progress is not None:
            progress(min(search.replays, replays), replays)
    if search.failures:
        outcome, why, trial = search.failures[0]
        return search.verdict(outcome, trial, None, (why,))
    if search.best is None:
        return search.verdict("not judged", None, None, ("there was nothing to replay",))
    return search.verdict("acquitted", *search.best)


def _trials(
    subject: Subject, rng: np.random.Generator, replays: int, *, elsewhere: bool
) -> Iterator[tuple[ReplayTrial, int]]:
    """All trials, each with its number of transcripts: a third is for the subject's own pairs.

    Then come many other configurations with one transcript each, then some with several. Other
    configurations of a flawed variant are those of the mechanism that it was made of.
    """
    own = own_trials(subject)
    if not elsewhere:
        for trial in own:
            yield trial, max(1, replays // len(own))
        return
    some = rng.permutation(len(own))[: max(1, replays // (3 * LEAST_TRIES))]
    for place in some.tolist():
        yield own[place], max(LEAST_TRIES, replays // (3 * len(some)))
    others = other_trials(subject, rng)
    for trial in islice(others, replays // ONCE):
        yield trial, 1
    tries = max(4, min(16, replays // 20))
    for trial in others:
        yield trial, tries if trial.pair.units < LARGE else 4


def _judge(
    search: _Search, trial: ReplayTrial, tries: int, rng: np.random.Generator
) -> ReplayVerdict | None:
    """Search the transcripts of one trial. Give a verdict if one of them convicts."""
    best: tuple[float, NoiseChoice] | None = None
    calls: list[tuple[int, str]] = []
    for number in range(tries):
        choice = _choice(number, trial, None if best is None else best[1], calls, rng)
        found = search.try_once(trial, choice)
        if found.violations:
            return search.verdict("convicted", trial, found, tuple(found.violations))
        if found.failed:
            outcome: Outcome = "refused" if found.refused else "crashed"
            search.failures.append((outcome, found.failed, trial))
            return None
        if found.loss.exceeds(trial.claimed, trial.delta):
            return search.verdict("convicted", trial, found)
        reached = found.loss.epsilon(trial.delta)
        calls = calls or sorted(set(found.calls))
        if best is None or reached >= best[0]:
            best, calls = (reached, choice), sorted(set(found.calls))
        if reached >= ENOUGH * float(trial.claimed) and number >= 2:
            break
    if trial.restarts and best is not None:
        changed = same_after_a_restart(trial, best[1])
        if changed:
            return search.verdict("convicted", trial, None, tuple(changed))
    return None


FIRST_MODES: Final = ("with", "zero", "random", "far with", "against", "far against", "far")
"""The modes that are tried first, in this order."""


def _choice(
    number: int,
    trial: ReplayTrial,
    best: NoiseChoice | None,
    calls: list[tuple[int, str]],
    rng: np.random.Generator,
) -> NoiseChoice:
    """The next noise to try: a mode for all, a random mode for each label, or a step from the best.

    The best choice so far is changed at one or a few calls, or for all calls of a label.
    """
    seed, width = int(rng.integers(2**31)), float(rng.choice([0.1, 0.5, 2.0]))
    if number < len(FIRST_MODES) or not calls or best is None:
        return NoiseChoice(seed, FIRST_MODES[number % len(FIRST_MODES)], width, trial.signs)
    if number % 2:
        genes = {
            (0, label): str(rng.choice(MODES)) for label in sorted({each[1] for each in calls})
        }
        return NoiseChoice(seed, "with", width, trial.signs, genes)
    genes = dict(best.genes)
    for _ in range(int(rng.integers(1, 4))):
        unit, label = calls[int(rng.integers(len(calls)))]
        genes[0 if rng.random() < 0.3 else unit, label] = str(rng.choice(MODES))
    return replace(best, genes=genes, seed=seed if rng.random() < 0.3 else best.seed)
