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
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

from penstock.core.errors import BudgetError, ConfigurationError
from penstock.core.notebook_html import card, table
from penstock.lab.audit import attack
from penstock.lab.audit.attack import Counts, OutputEvent
from penstock.lab.audit.bounds import epsilon_bound
from penstock.lab.audit.classifier import TraceClassifier, learn
from penstock.lab.audit.model import Pair
from penstock.lab.audit.noise_audit import NoiseVerdict
from penstock.lab.audit.replay.verdict import ReplayVerdict
from penstock.lab.audit.sample import case_traces, clean_memory
from penstock.lab.audit.subjects import Subject, resolve
from penstock.lab.audit.trace_codings import ERRORS, NO_ERROR, MemoryOfBoth, trace_codings
from penstock.private.mechanisms.registry import MECHANISMS

CHUNK_BY_KEY = 25_000
CHUNK = 1_000
TRAINING, LEAST_TRAINING, TRAINING_SHARE = 2_000, 16, 8
"""The most and the fewest runs of each stream that a classifier is learned on, and how many times
as many runs an audit has.
"""

FEW, FEW_OF_OTHERS = 50, 200
"""Runs one by one that a task adds, where runs are keys: for what belongs to no key. Mechanisms
that are not registered get more, because nothing is known about them.
"""

FINALISTS, OTHER_FINALISTS = 3, 2
"""The most pairs whose events are tried on new runs, of the subject's own claim and of others. They
are chosen on the first runs, so only they share the confidence.
"""

LEARNED = "learned"
"""The name of the coding by a classifier's score."""

PACKAGE = Path(__file__).parents[2]
"""The folder of the package. A change of any file in it makes kept chunks invalid."""

Outcome: TypeAlias = Literal["acquitted", "convicted", "refused", "crashed"]
"""What an audit ends with. `refused`: the ledger stopped the mechanism. `crashed`: it failed."""

EXIT_CODES: dict[Outcome, int] = {
    "acquitted": 0,
    "convicted": 1,
    "refused": 3,
    "crashed": 3,
}
"""The exit code of each outcome."""


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
    method: str = "monte carlo"
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
        losses = [self.lower_bound]
        if self.exact is not None:
            losses.append(self.exact[0])
        if self.replay is not None:
            losses.append(self.replay.loss)
        return max(0.0, *losses) / float(self.claimed)

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
        return None if self.exact is None else self.exact[1] <= float(self.claimed) + 1e-8

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


def tasks(subject: Subject, seed: int) -> Iterator[Task]:
    """All tasks of an audit."""
    for number, case in enumerate(subject.cases):
        runs = case.runs or subject.runs
        size = min(CHUNK_BY_KEY if case.as_keys else CHUNK, max(1, runs // 2))
        for chunk in range(2 * math.ceil(runs / (2 * size))):
            for side in (0, 1):
                yield Task(subject.spec, number, side, chunk, size, seed)


def work(task: Task) -> dict[str, Counts]:
    """Do one task: run the mechanism, and count the cells of every coding."""
    case = resolve(task.subject).cases[task.pair]
    pair, seed = case.shown, (task.seed, task.subject, task.key)
    seen = case_traces(case, task.side, task.runs, seed)
    found = attack.codings(seen, pair)
    found.update(trace_codings(seen, pair, _clean(task.subject, task.pair)))
    found[LEARNED] = _classifier(task.subject, task.pair, task.seed).cells(seen)
    if case.as_keys:
        most = FEW if type(case.mechanism) in MECHANISMS.values() else FEW_OF_OTHERS
        many = min(most, max(1, task.runs // 4))
        few = case_traces(case, task.side, many, (*seed, "one by one"), one_by_one=True)
        alone = trace_codings(few, pair, None)
        found.update({name: alone[name] for name in (ERRORS, *few.fields)})
    return found


def attempt(task: Task) -> dict[str, Counts] | TaskFailure:
    """Do one task. Whatever a mechanism raises is a result: errors of plug-ins may not travel."""
    try:
        return work(task)
    except Exception as error:
        return TaskFailure.of(error)


LUCKY_FACTOR, LUCKY_BOUND = 1.15, 0.05
"""Other codings than those by sides of counts must be better by so much on the first runs."""


@lru_cache(maxsize=64)
def _clean(spec: str, number: int) -> MemoryOfBoth | None:
    case = resolve(spec).cases[number]
    return None if case.pair.look is None else clean_memory(case)


@lru_cache(maxsize=64)
def _classifier(spec: str, number: int, seed: int) -> TraceClassifier:
    subject = resolve(spec)
    case = subject.cases[number]
    runs = case.runs or subject.runs
    many = min(TRAINING, runs, max(LEAST_TRAINING, runs // TRAINING_SHARE))
    one, other = (
        case_traces(case, side, many, (seed, spec, number, "training", side)) for side in (0, 1)
    )
    return learn((one, other))


def audit(
    subject: Subject,
    *,
    confidence: float = 0.999,
    seed: int | None = None,
    workers: int | None = None,
    folder: Path | None = None,
    progress: Callable[[int, int], object] | None = None,
    pool: ProcessPoolExecutor | None = None,
    forget: bool = True,
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
    pool : ProcessPoolExecutor
        The processes to use. Default: new ones.
    forget : bool
        Delete the kept chunks at the end. Default: True.
    """
    if not 0 < confidence < 1:
        raise ConfigurationError(
            f"confidence must lie between 0 and 1, not {confidence}.", parameter="confidence"
        )
    start = time.monotonic()
    kept = _KeptChunks(folder, subject)
    seed = kept.seed(seed)
    todo = list(tasks(subject, seed))
    left = [task for task in todo if task.key not in kept.done]
    if progress is not None:
        progress(len(todo) - len(left), len(todo))
    try:
        for number, (task, counts) in enumerate(
            _perform(left, workers, pool), start=len(todo) - len(left) + 1
        ):
            kept.add(task.key, counts)
            if progress is not None:
                progress(number, len(todo))
        verdict = judge(subject, todo, kept.done, confidence=confidence, seed=seed)
    except _TaskFailedError as error:
        verdict = unjudged(subject, error.failure, pair=error.pair, seed=seed)
    if forget:
        kept.finish()
    return replace(verdict, seconds=kept.seconds + time.monotonic() - start)


def _perform(
    left: list[Task], workers: int | None, pool: ProcessPoolExecutor | None
) -> Iterator[tuple[Task, dict[str, Counts]]]:
    many = workers or os.cpu_count() or 1
    if pool is None and (many == 1 or len(left) < 8):
        yield from ((task, _done(task, attempt(task))) for task in left)
        return
    own = None if pool is not None else new_pool(many)
    using = pool if pool is not None else own
    assert using is not None
    waiting = {using.submit(attempt, task): task for task in left}
    try:
        for future in as_completed(waiting):
            try:
                found = future.result()
            except BrokenProcessPool:
                if own is None:
                    raise  # the pool serves others, too, and none of them can go on
                found = TaskFailure("crashed", "the process of the mechanism has ended")
            yield waiting[future], _done(waiting[future], found)
    finally:
        for future in waiting:
            future.cancel()
        if own is not None:
            own.shutdown(cancel_futures=True)


def _done(task: Task, found: dict[str, Counts] | TaskFailure) -> dict[str, Counts]:
    if isinstance(found, TaskFailure):
        raise _TaskFailedError(resolve(task.subject).cases[task.pair].shown, found)
    return found


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
    return Verdict(
        name=subject.name,
        flawed=subject.flawed,
        claimed=subject.claimed,
        window=subject.window,
        lower_bound=0.0,
        confidence=1.0,
        runs=0,
        pair=subject.pairs[0] if pair is None else pair,
        event=OutputEvent(frozenset(), False),
        left_hits=0,
        right_hits=0,
        half=0,
        seconds=0.0,
        seed=seed,
        delta=subject.delta,
        configuration=subject.configuration,
        chosen=subject.chosen,
        pairs=len(subject.cases),
        failure=failure,
    )


def new_pool(workers: int | None = None) -> ProcessPoolExecutor:
    """A pool of processes for several audits."""
    return ProcessPoolExecutor(
        workers or os.cpu_count() or 1, mp_context=multiprocessing.get_context("spawn")
    )


def judge(
    subject: Subject,
    todo: Iterable[Task],
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
    for table in tables.values():
        _complete(table)
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
                method="learned classifier" if way == LEARNED else "monte carlo",
                delta=case.delta,
                configuration=case.configuration,
                chosen=subject.chosen,
                pairs=len(subject.cases),
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
    for number, case in enumerate(subject.cases):
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


def _complete(table: dict[str, Counts]) -> None:
    """Count runs that did not show a field, such as a public array, in a cell of their own."""
    runs = sum(table.get(ERRORS, {}).values())
    for name, counts in table.items():
        missing = runs - sum(counts.values())
        if missing > 0:
            counts[f"{name}: absent"] = missing


def _refuse_failures(
    subject: Subject, tables: dict[tuple[int, int, int], dict[str, Counts]]
) -> None:
    """Raise the error of a mechanism that fails in every run of some case, on both streams."""
    usual = f"{ERRORS}: {NO_ERROR}"
    for number in range(len(subject.cases)):
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
        self._start = time.monotonic()
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

    def add(self, key: str, counts: dict[str, Counts]) -> None:
        self.done[key] = counts
        if self._path is not None:
            seconds = self.seconds + time.monotonic() - self._start
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"task": key, "counts": counts, "seconds": seconds}) + "\n")

    def finish(self) -> None:
        if self._path is not None:
            self._path.unlink(missing_ok=True)
