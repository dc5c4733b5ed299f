"""Audits: many runs in chunks on all cores. Finished chunks are kept, so a killed audit goes on."""

from __future__ import annotations

import hashlib
import json
import math
import multiprocessing
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from penstock.core.errors import BudgetError, ConfigurationError
from penstock.core.notebook_html import card, table
from penstock.lab.audit import attack
from penstock.lab.audit.attack import Counts, OutputEvent
from penstock.lab.audit.bounds import can_convict, epsilon_bound
from penstock.lab.audit.classifier import TraceClassifier, learn
from penstock.lab.audit.model import Pair, TraceForm
from penstock.lab.audit.noise_audit import NoiseVerdict
from penstock.lab.audit.replay.verdict import EXIT_CODES, ReplayVerdict
from penstock.lab.audit.sample import case_traces, clean_memory
from penstock.lab.audit.subjects import Subject, resolve
from penstock.lab.audit.trace_codings import ERRORS, NO_ERROR, MemoryOfBoth, trace_codings
from penstock.private.mechanisms.registry import MECHANISMS

CHUNK_BY_KEY = 25_000
CHUNK = 1_000
TRAINING, LEAST_TRAINING, TRAINING_SHARE = 2_000, 16, 8
"""The most and the fewest runs of each stream that a classifier is learned on, and how many times
as many runs an audit has. On fewer runs nothing is learned.
"""

FORMING = 2
"""Runs of each stream that tell which arrays the traces of a case have."""

FEW, FEW_OF_OTHERS = 150, 300
"""Runs one by one that are added to the first runs that choose the event, and to the first that
test it, where runs are keys: for what belongs to no key. They suffice to convict at ε = 2. More are
added for mechanisms that are not registered, because nothing is known about them.
"""

TASKS_PER_JOB = 4
"""Tasks of one case that a process does one after the other: it learns one classifier for them."""

FINALISTS, OTHER_FINALISTS = 3, 2
"""The most pairs whose events are tried on new runs, of the subject's own claim and of others. They
are chosen on the first runs, so only they share the confidence.
"""

LEARNED = "learned"
"""The name of the coding by a classifier's score."""

SAMPLED, REPLAYED = "monte carlo", "replay"
"""The method of a verdict by sampling, and of one by the replay alone."""

PACKAGE = Path(__file__).parents[2]
"""The folder of the package. A change of any file in it makes kept chunks invalid."""

Outcome: TypeAlias = Literal["acquitted", "convicted", "refused", "crashed"]
"""What an audit ends with. `refused`: the ledger stopped the mechanism. `crashed`: it failed."""


@dataclass(frozen=True)
class TaskFailure:
    """Why a task could not be done: the ledger refused, or the mechanism failed."""

    outcome: Literal["refused", "crashed"]
    reason: str

    @classmethod
    def of(cls, error: BaseException) -> TaskFailure:
        """The failure that an error of a mechanism is."""
        if isinstance(error, BudgetError):
            return cls("refused", str(error))
        return cls("crashed", f"{type(error).__name__}: {error}")


class _TaskFailedError(Exception):
    """Ends an audit at its first failure."""

    def __init__(self, pair: Pair, failure: TaskFailure) -> None:
        super().__init__(failure.reason)
        self.pair = pair
        self.failure = failure


@dataclass(frozen=True)
class Task:
    """Some runs of one subject on one stream. Even chunks choose the event, odd chunks test it."""

    subject: str
    pair: int
    side: int
    chunk: int
    runs: int
    seed: int

    @property
    def key(self) -> str:
        return f"{self.pair}/{self.side}/{self.chunk}"


@dataclass(frozen=True, repr=False)
class Verdict:
    """The outcome of an audit, with everything that a person needs to follow it."""

    name: str
    flawed: bool
    claimed: Fraction
    window: int
    lower_bound: float
    confidence: float
    runs: int
    pair: Pair
    event: OutputEvent
    left_hits: int
    right_hits: int
    half: int
    seconds: float
    seed: int
    cells: list[tuple[str, int, int]] = field(default_factory=list)
    exact: tuple[float, float] | None = None
    """The largest loss of all outputs on tiny streams: an interval that contains it."""
    exact_claimed: Fraction | None = None
    """The claim that the exact loss is compared with, if that is not `claimed`."""
    exact_kept: bool = False
    """Whether an earlier run of the same code has computed the exact loss."""
    method: str = SAMPLED
    delta: Fraction = Fraction(0)
    configuration: dict[str, str] = field(default_factory=dict)
    """All parameters of the audited mechanism."""
    chosen: dict[str, str] = field(default_factory=dict)
    """Parameters that the class changes for audits, with their defaults."""
    replay: ReplayVerdict | None = None
    """What the replay found, if there was one."""
    noise: NoiseVerdict | None = None
    """What the noise audit found, if there was one."""
    pairs: int = 1
    """The number of pairs of streams that were attacked."""
    failure: TaskFailure | None = None
    """Why the mechanism could not be run, if it could not."""

    @property
    def outcome(self) -> Outcome:
        """`acquitted`, `convicted`, `refused` or `crashed`."""
        if self.convicted:
            return "convicted"
        if self.failure is not None:
            return self.failure.outcome
        if self.replay is not None and self.replay.outcome in ("refused", "crashed"):
            return self.replay.outcome
        return "acquitted"

    @property
    def used_window(self) -> int:
        """The window that the code keeps its books for. That of a flawed variant may be shorter."""
        told = self.configuration.get("window", "")
        return int(told) if told.isdecimal() else self.window

    @property
    def exit_code(self) -> int:
        """0 acquitted, 1 convicted, 3 could not be judged."""
        return EXIT_CODES[self.outcome]

    @property
    def share(self) -> float:
        """How near the largest loss or bound comes to the promise: 1 is the promise itself."""
        shares = [0.0, self.lower_bound / float(self.claimed)]
        if self.exact is not None:
            shares.append(self.exact[0] / float(self.exact_claimed or self.claimed))
        if self.replay is not None:
            shares.append(self.replay.loss / float(self.claimed))
        return max(shares)

    @property
    def exceeded(self) -> bool:
        """Whether the bound on ε, without the replay, is above the claim."""
        return self.lower_bound > float(self.claimed)

    @property
    def convicted(self) -> bool:
        """Whether the bound, the replay or the noise audit convicts the mechanism."""
        others = (self.replay, self.noise)
        return self.exceeded or any(each is not None and each.convicted for each in others)

    @property
    def certified(self) -> bool | None:
        """Whether the exact loss is at most the claim. None if it was not computed."""
        claimed = self.exact_claimed or self.claimed
        return None if self.exact is None else self.exact[1] <= float(claimed) + 1e-8

    def __repr__(self) -> str:
        return f"<Verdict {self.name}: {self._said}>"

    @property
    def _said(self) -> str:
        verdict = "CONVICTED" if self.convicted else self.outcome
        if self.failure is not None:
            return f"{verdict}: {self.failure.reason}"
        return f"{verdict}, ε ≥ {self.lower_bound:.3f} (promised: {self.claimed})"

    def _repr_html_(self) -> str:
        """The verdict for a notebook: the two streams, and how often the event was seen."""
        head = ("unit", "one stream", "the other")
        streams = zip(self.pair.left.tolist(), self.pair.right.tolist(), strict=True)
        rows = [(str(unit), str(left), str(right)) for unit, (left, right) in enumerate(streams, 1)]
        rows.append(("event seen in", f"{self.left_hits} runs", f"{self.right_hits} runs"))
        return card(
            f"{self.name}: {self._said}",
            lead=f"The two streams: {self.pair.name}.",
            parts=[table(head, rows)],
            note=f"{self.half} runs of each stream were counted, with confidence "
            f"{100 * self.confidence:g} %. An acquittal is no proof.",
        )

    def row(self) -> dict[str, Any]:
        """The verdict as plain data."""
        return {
            "name": self.name,
            "flawed": self.flawed,
            "claimed": float(self.claimed),
            "delta": float(self.delta),
            "window": self.window,
            "used_window": self.used_window,
            "outcome": self.outcome,
            "reason": "" if self.failure is None else self.failure.reason,
            "share": round(self.share, 4),
            "pairs": self.pairs,
            "lower_bound": round(self.lower_bound, 4),
            "convicted": self.convicted,
            "seconds": round(self.seconds, 1),
            "method": self.method,
            "exact": None if self.exact is None else [round(bound, 6) for bound in self.exact],
            "exact_claimed": None
            if self.exact is None
            else float(self.exact_claimed or self.claimed),
            "exact_kept": self.exact_kept,
            "certified": self.certified,
            "confidence": self.confidence,
            "runs": self.runs,
            "pair": self.pair.name,
            "left": self.pair.left.tolist(),
            "right": self.pair.right.tolist(),
            "event": sorted(self.event.cells),
            "hits": [self.left_hits, self.right_hits],
            "of": self.half,
            "seed": self.seed,
            "configuration": self.configuration,
            "not_default": self.chosen,
            "noise": None if self.noise is None else self.noise.row(),
            "replay": None if self.replay is None else self.replay.row(seconds=False),
        }


def tasks(subject: Subject, seed: int, numbers: Iterable[int] | None = None) -> Iterator[Task]:
    """All tasks of an audit, or those of some cases."""
    for number in range(len(subject.cases)) if numbers is None else numbers:
        case = subject.cases[number]
        runs = case.runs or subject.runs
        size = min(CHUNK_BY_KEY if case.as_keys else CHUNK, max(1, runs // 2))
        for chunk in range(2 * math.ceil(runs / (2 * size))):
            for side in (0, 1):
                yield Task(subject.spec, number, side, chunk, size, seed)


def work(task: Task) -> dict[str, Counts]:
    """Do one task: run the mechanism, and count the cells of every coding."""
    case = resolve(task.subject).cases[task.pair]
    pair, seed = case.shown, (task.seed, task.subject, task.key)
    form = _form(task.subject, task.pair, task.seed)
    seen = case_traces(case, task.side, task.runs, seed, form=form)
    found = attack.codings(seen, pair)
    found.update(trace_codings(seen, pair, _clean(task.subject, task.pair)))
    classifier = _classifier(task.subject, task.pair, task.seed)
    if classifier is not None:
        found[LEARNED] = classifier.cells(seen)
    if case.as_keys:
        del found[ERRORS]  # runs that are keys fail together
    if case.as_keys and task.chunk < 2:
        most = FEW if type(case.mechanism) in MECHANISMS.values() else FEW_OF_OTHERS
        many = min(most, max(1, task.runs // 4))
        few = case_traces(case, task.side, many, (*seed, "one by one"), one_by_one=True)
        alone = trace_codings(few, pair, None)
        found.update({name: alone[name] for name in (ERRORS, *few.fields)})
    return found


@dataclass(frozen=True)
class TaskResult:
    """What a task found, and the seconds of work that it took."""

    found: dict[str, Counts] | TaskFailure
    seconds: float


def attempt(task: Task) -> TaskResult:
    """Do one task. Whatever a mechanism raises is a result: errors of plug-ins may not travel."""
    start = time.process_time()
    found: dict[str, Counts] | TaskFailure
    try:
        found = work(task)
    except Exception as error:
        found = TaskFailure.of(error)
    return TaskResult(found, time.process_time() - start)


def attempt_all(job: list[Task]) -> list[TaskResult]:
    """Do some tasks in this process."""
    return [attempt(task) for task in job]


def jobs(todo: Iterable[Task]) -> list[list[Task]]:
    """Tasks in groups for one process each: those of one case, if they are few.

    Parameters
    ----------
    todo : iterable of Task
        The tasks, case by case.
    """
    found: list[list[Task]] = []
    for task in todo:
        last = found[-1] if found else None
        if last is None or last[0].pair != task.pair or len(last) == TASKS_PER_JOB:
            found.append([task])
        else:
            last.append(task)
    return found


LUCKY_FACTOR, LUCKY_BOUND = 1.15, 0.05
"""Other codings than those by sides of counts must be better by so much on the first runs."""


@lru_cache(maxsize=64)
def _clean(spec: str, number: int) -> MemoryOfBoth | None:
    case = resolve(spec).cases[number]
    return None if case.pair.look is None else clean_memory(case)


@lru_cache(maxsize=64)
def _classifier(spec: str, number: int, seed: int) -> TraceClassifier | None:
    """The classifier of a case; None if there are too few runs to learn from."""
    subject = resolve(spec)
    case = subject.cases[number]
    many = min(TRAINING, (case.runs or subject.runs) // TRAINING_SHARE)
    if many < LEAST_TRAINING:
        return None
    form = _form(spec, number, seed)
    one, other = (
        case_traces(case, side, many, (seed, spec, number, "training", side), form=form)
        for side in (0, 1)
    )
    return learn((one, other))


@lru_cache(maxsize=64)
def _form(spec: str, number: int, seed: int) -> TraceForm | None:
    """The form of all traces of a case, by a few runs of their own. None if runs are keys."""
    case = resolve(spec).cases[number]
    if case.as_keys:
        return None
    one, other = (
        case_traces(case, side, FORMING, (seed, spec, number, "form", side)).form for side in (0, 1)
    )
    return replace(
        one, public={**other.public, **one.public}, memory={**other.memory, **one.memory}
    )


def audit(
    subject: Subject,
    *,
    confidence: float = 0.999,
    seed: int | None = None,
    workers: int | None = None,
    folder: Path | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Verdict:
    """Attack every pair of a subject and report the highest lower bound on ε.

    A refusal of the ledger and a crash of the mechanism are verdicts, too.

    Parameters
    ----------
    subject : Subject
        The mechanism and its pairs of streams.
    confidence : float
        The confidence of the whole audit, shared among the pairs. Default: 0.999.
    seed : int
        The seed. Default: that of an interrupted audit in the folder, else a new one.
    workers : int
        The number of processes. Default: one per core.
    folder : Path
        Where finished chunks are kept; the same audit, started again, goes on from there.
        Default: chunks are not kept.
    progress : callable
        Called with the number of finished chunks and of all chunks. Default: none.
    """
    start = time.monotonic()
    sampled = SampledAudit(subject, confidence=confidence, seed=seed, folder=folder)
    if progress is not None:
        progress(sampled.done, len(sampled.tasks))
    for task, result in _perform(sampled.left, workers):
        sampled.add(task, result)
        if progress is not None:
            progress(sampled.done, len(sampled.tasks))
        if sampled.failed is not None:
            break
    verdict = sampled.verdict()
    sampled.forget()
    return replace(verdict, seconds=sampled.seconds_before + time.monotonic() - start)


class SampledAudit:
    """An audit by sampling: its tasks, what they found, and the verdict.

    Parameters
    ----------
    subject : Subject
        The mechanism and its pairs of streams.
    confidence : float
        The confidence of the whole audit, shared among the pairs.
    seed : int, optional
        The seed. Default: that of an interrupted audit in the folder, else a new one.
    folder : Path, optional
        Where finished chunks are kept. Default: nowhere.
    most_cases : int, optional
        The most cases that are attacked. The seed chooses them. Default: all.
    """

    def __init__(
        self,
        subject: Subject,
        *,
        confidence: float,
        seed: int | None = None,
        folder: Path | None = None,
        most_cases: int | None = None,
    ) -> None:
        if not 0 < confidence < 1:
            raise ConfigurationError(
                f"confidence must lie between 0 and 1, not {confidence}.", parameter="confidence"
            )
        self.subject, self.confidence = subject, confidence
        self._kept = _KeptChunks(folder, subject)
        self.seed = self._kept.seed(seed)
        self.seconds_before = self._kept.seconds
        """The seconds of work on tasks that were kept."""
        self.failed: _TaskFailedError | None = None
        numbers: tuple[int, ...] = ()
        if subject.failed is not None:
            failure = TaskFailure.of(subject.failed)
            self.failed = _TaskFailedError(subject.pairs[0], failure)
        else:
            numbers = _attacked(subject, confidence, self.seed, most_cases)
        self.tasks = list(tasks(subject, self.seed, numbers))
        self.left = [task for task in self.tasks if task.key not in self._kept.done]
        """The tasks that were not done before."""
        self.done = len(self.tasks) - len(self.left)

    def add(self, task: Task, result: TaskResult) -> None:
        """Add what a task found. The first failure ends the audit.

        Parameters
        ----------
        task : Task
            One of the tasks that were left.
        result : TaskResult
            What it found.
        """
        self.done += 1
        if not isinstance(result.found, TaskFailure):
            self._kept.add(task.key, result.found, result.seconds)
        elif self.failed is None:
            self.failed = _TaskFailedError(self.subject.cases[task.pair].shown, result.found)

    def verdict(self) -> Verdict:
        """The verdict, when all tasks are done. Its seconds are those of work, in all processes."""
        try:
            if self.failed is not None:
                raise self.failed
            done = self._kept.done
            found = judge(
                self.subject, self.tasks, done, confidence=self.confidence, seed=self.seed
            )
        except _TaskFailedError as error:
            found = unjudged(self.subject, error.failure, pair=error.pair, seed=self.seed)
        return replace(found, seconds=self._kept.seconds)

    def forget(self) -> None:
        """Delete the kept chunks."""
        self._kept.finish()


def _attacked(subject: Subject, confidence: float, seed: int, most: int | None) -> tuple[int, ...]:
    """The numbers of the cases that are attacked.

    Those with too few runs to convict anything are left out, if others have enough.
    """
    share = 1 - (1 - confidence) / (FINALISTS + OTHER_FINALISTS)
    able = [
        number
        for number, case in enumerate(subject.cases)
        if can_convict(
            float(case.claimed),
            (case.runs or subject.runs) // 2,
            confidence=share,
            delta=float(case.delta),
        )
    ] or list(range(len(subject.cases)))
    if most is None or most >= len(able):
        return tuple(able)
    chooser = np.random.default_rng([seed % 2**63, *subject.name.encode()])
    return tuple(sorted(chooser.choice(able, most, replace=False).tolist()))


def _perform(left: list[Task], workers: int | None) -> Iterator[tuple[Task, TaskResult]]:
    many = workers or os.cpu_count() or 1
    if many == 1 or len(left) < 8:
        yield from ((task, attempt(task)) for task in left)
        return
    pool = new_pool(many)
    waiting = {pool.submit(attempt_all, job): job for job in jobs(left)}
    try:
        for future in as_completed(waiting):
            job = waiting[future]
            try:
                results = future.result()
            except BrokenProcessPool:
                gone = TaskFailure("crashed", "the process of the mechanism has ended")
                results = [TaskResult(gone, 0.0)] * len(job)
            yield from zip(job, results, strict=True)
    finally:
        pool.shutdown(cancel_futures=True)


def unjudged(
    subject: Subject, failure: TaskFailure, *, pair: Pair | None = None, seed: int = 0
) -> Verdict:
    """The verdict on a mechanism that could not be run to the end.

    Parameters
    ----------
    subject : Subject
        What was audited.
    failure : TaskFailure
        Why it could not be run.
    pair : Pair, optional
        The streams on which it failed. Default: the first pair.
    seed : int
        The seed. Default: 0.
    """
    verdict = not_sampled(subject)
    return replace(
        verdict,
        method=SAMPLED,
        pair=verdict.pair if pair is None else pair,
        seed=seed,
        pairs=len(subject.cases),
        failure=failure,
    )


def not_sampled(subject: Subject) -> Verdict:
    """The verdict on a mechanism that is judged by the replay alone.

    Parameters
    ----------
    subject : Subject
        What was audited.
    """
    return Verdict(
        name=subject.name,
        flawed=subject.flawed,
        claimed=subject.claimed,
        window=subject.window,
        lower_bound=0.0,
        confidence=1.0,
        runs=0,
        pair=subject.pairs[0],
        event=OutputEvent(frozenset(), False),
        left_hits=0,
        right_hits=0,
        half=0,
        seconds=0.0,
        seed=0,
        method=REPLAYED,
        delta=subject.delta,
        configuration=subject.configuration,
        chosen=subject.chosen,
        pairs=0,
    )


def new_pool(workers: int | None = None) -> ProcessPoolExecutor:
    """A pool of processes for several audits. Each computes with one thread."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # this process has read them already
    return ProcessPoolExecutor(
        workers or os.cpu_count() or 1, mp_context=multiprocessing.get_context("spawn")
    )


def judge(
    subject: Subject,
    todo: Sequence[Task],
    done: dict[str, dict[str, Counts]],
    *,
    confidence: float,
    seed: int,
) -> Verdict:
    """The verdict from counted cells: even chunks choose the event, odd chunks bound its ratio."""
    tables: dict[tuple[int, int, int], dict[str, Counts]] = {}
    for task in todo:
        table = tables.setdefault((task.pair, task.side, task.chunk % 2), {})
        for coding, counts in done[task.key].items():
            table[coding] = attack.add(table.get(coding, {}), counts)
    for number in {place[0] for place in tables}:
        _complete([each for place, each in tables.items() if place[0] == number])
    _refuse_failures(subject, tables)
    chosen = _finalists(subject, tables, confidence)
    share = 1 - (1 - confidence) / len(chosen)
    found = []
    for number, way, event in chosen:
        case = subject.cases[number]
        trial = tables[number, 0, 1].get(way, {}), tables[number, 1, 1].get(way, {})
        one, other = reversed(trial) if event.swapped else trial
        half, others = sum(one.values()), sum(other.values())
        hits, misses = event.hits(one), event.hits(other)
        bound = epsilon_bound(
            hits, half, misses, others, confidence=share, delta=_rounded_up(case.delta)
        )
        found.append(
            Verdict(
                name=subject.name,
                flawed=subject.flawed,
                claimed=case.claimed,
                window=case.window,
                lower_bound=bound,
                confidence=confidence,
                runs=2 * half,
                pair=case.pair.swapped() if event.swapped else case.pair,
                event=event,
                left_hits=hits,
                right_hits=misses,
                half=half,
                seconds=0.0,
                seed=seed,
                cells=_top_cells(one, other),
                method="learned classifier" if way == LEARNED else SAMPLED,
                delta=case.delta,
                configuration=case.configuration,
                chosen=subject.chosen,
                pairs=len({task.pair for task in todo}),
            )
        )
    worst = max(found, key=lambda each: each.lower_bound / float(each.claimed))
    own = [each for each in found if (each.claimed, each.delta) == (subject.claimed, subject.delta)]
    if worst.exceeded or not own:
        return worst
    return max(own, key=lambda each: each.lower_bound)


def _finalists(
    subject: Subject,
    tables: dict[tuple[int, int, int], dict[str, Counts]],
    confidence: float,
) -> list[tuple[int, str, OutputEvent]]:
    """The best coding and event of the most promising cases, by the first runs alone."""
    share = 1 - (1 - confidence) / (FINALISTS + OTHER_FINALISTS)
    ranked: dict[bool, list[tuple[float, int, str, OutputEvent]]] = {True: [], False: []}
    for number in sorted({place[0] for place in tables}):
        case = subject.cases[number]
        left, right = tables[number, 0, 0], tables[number, 1, 0]
        tried = {
            way: attack.choose(
                left.get(way, {}),
                right.get(way, {}),
                confidence=share,
                delta=_rounded_up(case.delta),
            )
            for way in sorted(left.keys() | right.keys())
        }
        way = max(sorted(tried), key=lambda each: _worth(each, tried[each][0]))
        bound, event = tried[way]
        own = (case.claimed, case.delta) == (subject.claimed, subject.delta)
        ranked[own].append((bound / float(case.claimed), number, way, event))
    for each in ranked.values():
        each.sort(key=lambda one: (-one[0], one[1]))
    best = (*ranked[True][:FINALISTS], *ranked[False][:OTHER_FINALISTS])
    return [(number, way, event) for _, number, way, event in best]


def _worth(way: str, bound: float) -> float:
    """A bound of the first runs, less what the best of many codings has by luck."""
    return bound if way in attack.PLAIN_CODINGS else bound / LUCKY_FACTOR - LUCKY_BOUND


def _complete(tables: Sequence[dict[str, Counts]]) -> None:
    """Count runs that did not show a field, such as a public array, in a cell of their own.

    Parameters
    ----------
    tables : sequence of dict
        All tables of a case. A field may be shown on one of the two streams only.
    """
    names = {name for each in tables for name in each}
    for each in tables:
        runs = sum(each.get(ERRORS, {}).values())
        for name in names:
            counts = each.setdefault(name, {})
            missing = runs - sum(counts.values())
            if missing > 0:
                counts[f"{name}: absent"] = missing


def _refuse_failures(
    subject: Subject, tables: dict[tuple[int, int, int], dict[str, Counts]]
) -> None:
    """Raise the error of a mechanism that fails in every run of some case, on both streams."""
    usual = f"{ERRORS}: {NO_ERROR}"
    for number in sorted({place[0] for place in tables}):
        seen = [
            counts
            for place, each in tables.items()
            if place[0] == number
            for counts in (each.get(ERRORS),)
            if counts is not None
        ]
        if seen and all(usual not in counts for counts in seen):
            text = next(iter(seen[0])).removeprefix(f"{ERRORS}: ")
            refused = text.removeprefix(f"{BudgetError.__name__}: ")
            failure = TaskFailure("crashed" if refused == text else "refused", refused)
            raise _TaskFailedError(subject.cases[number].shown, failure)


def _rounded_up(delta: Fraction) -> float:
    return math.nextafter(float(delta), math.inf) if delta else 0.0


def _top_cells(one: Counts, other: Counts, limit: int = 12) -> list[tuple[str, int, int]]:
    names = sorted(
        one.keys() | other.keys(),
        key=lambda cell: one.get(cell, 0) + other.get(cell, 0),
        reverse=True,
    )
    return [(name, one.get(name, 0), other.get(name, 0)) for name in names[:limit]]


def kept_path(folder: Path, subject: Subject) -> Path:
    """The file that keeps the finished chunks of an audit.

    Its name covers every file of the package, and the module of a mechanism of somebody else.
    """
    module = sys.modules.get(type(subject.mechanism).__module__)
    place = getattr(module, "__file__", None)
    theirs = b"" if place is None or not Path(place).is_file() else Path(place).read_bytes()
    facts = (subject.spec, subject.runs, CHUNK, CHUNK_BY_KEY, source_digest(PACKAGE), theirs)
    return folder / f"audit-{hashlib.sha256(repr(facts).encode()).hexdigest()[:16]}.jsonl"


@lru_cache(maxsize=4)
def source_digest(package: Path) -> str:
    """A digest of all files of a package, with their names, but for compiled ones.

    Parameters
    ----------
    package : Path
        The folder of the package.
    """
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            content = path.read_bytes()
            name = path.relative_to(package).as_posix()
            digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


class _KeptChunks:
    """The finished chunks of an audit: a file with one JSON line per chunk."""

    def __init__(self, folder: Path | None, subject: Subject) -> None:
        self.done: dict[str, dict[str, Counts]] = {}
        self.seconds = 0.0
        self._seed: int | None = None
        self._path: Path | None = None
        if folder is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        self._path = kept_path(folder, subject)
        if not self._path.exists():
            return
        for line in self._path.read_text(encoding="utf-8").splitlines():
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:
                break  # the audit was killed while it wrote this line
            if "seed" in entry:
                self._seed = entry["seed"]
            else:
                self.done[entry["task"]] = entry["counts"]
                self.seconds = entry["seconds"]

    def seed(self, wanted: int | None) -> int:
        """The seed that this audit began with, or a new one. Another wanted seed begins anew."""
        if self._seed is None or (wanted is not None and wanted != self._seed):
            self.done.clear()
            self.seconds = 0.0
            self._seed = secrets.randbits(62) if wanted is None else wanted
            if self._path is not None:
                self._path.write_text(json.dumps({"seed": self._seed}) + "\n", encoding="utf-8")
        elif self._path is not None:  # drop a torn last line
            lines = [json.dumps({"seed": self._seed})]
            lines += [
                json.dumps({"task": key, "counts": counts, "seconds": self.seconds})
                for key, counts in self.done.items()
            ]
            self._path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return self._seed

    def add(self, key: str, counts: dict[str, Counts], seconds: float) -> None:
        self.done[key] = counts
        self.seconds += seconds
        if self._path is not None:
            line = {"task": key, "counts": counts, "seconds": self.seconds}
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    def finish(self) -> None:
        if self._path is not None:
            self._path.unlink(missing_ok=True)
