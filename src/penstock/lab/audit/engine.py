"""Audits: many runs in chunks on all cores. Finished chunks are kept, so a killed audit goes on."""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import multiprocessing
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

from penstock.core.errors import ConfigurationError
from penstock.core.notebook_html import card, table
from penstock.lab.audit import attack
from penstock.lab.audit.attack import Counts, OutputEvent
from penstock.lab.audit.bounds import epsilon_bound
from penstock.lab.audit.model import Pair, Traces
from penstock.lab.audit.noise import LabNoise
from penstock.lab.audit.noise_audit import NoiseVerdict
from penstock.lab.audit.replay.verdict import ReplayVerdict
from penstock.lab.audit.sample import traces
from penstock.lab.audit.subjects import Subject, resolve

CHUNK_BY_KEY = 25_000
CHUNK = 1_000
TRAINING = 2_000
"""The number of runs of each stream that a classifier is learned on, if an audit has as many."""


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
        verdict = "CONVICTED" if self.convicted else "acquitted"
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
    size = CHUNK_BY_KEY if subject.mechanism.by_key else CHUNK
    size = min(size, max(1, subject.runs // 2))
    for pair in range(len(subject.pairs)):
        for chunk in range(2 * math.ceil(subject.runs / (2 * size))):
            for side in (0, 1):
                yield Task(subject.spec, pair, side, chunk, size, seed)


def work(task: Task) -> dict[str, Counts]:
    """Do one task: run the mechanism, and count the cells of every coding."""
    subject = resolve(task.subject)
    pair = subject.pairs[task.pair]
    seen = _traces(subject, pair, task.side, task.runs, (task.seed, task.subject, task.key))
    found = attack.codings(seen, pair.as_released(subject.mechanism))
    if subject.learn:
        found["learned"] = attack.score_cells(_training(task.subject, task.pair, task.seed), seen)
    return found


def _traces(subject: Subject, pair: Pair, side: int, runs: int, seed: tuple[object, ...]) -> Traces:
    ordered = pair.swapped() if side else pair
    noise = LabNoise(*seed) if pair.look is None else subject.noise(*seed)
    seen = traces(subject.mechanism, ordered.left, runs, noise, look=ordered.look)
    if side and seen.explained is not None:
        return replace(seen, explained=seen.explained[:, ::-1])
    return seen


@lru_cache(maxsize=8)
def _training(spec: str, number: int, seed: int) -> tuple[Traces, Traces]:
    subject = resolve(spec)
    pair = subject.pairs[number]
    runs = min(TRAINING, subject.runs)
    one, other = (
        _traces(subject, pair, side, runs, (seed, spec, number, "training", side))
        for side in (0, 1)
    )
    return one, other


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
    for number, (task, counts) in enumerate(
        _perform(left, workers, pool), start=len(todo) - len(left) + 1
    ):
        kept.add(task.key, counts)
        if progress is not None:
            progress(number, len(todo))
    verdict = judge(subject, todo, kept.done, confidence=confidence, seed=seed)
    if forget:
        kept.finish()
    return replace(verdict, seconds=kept.seconds + time.monotonic() - start)


def _perform(
    left: list[Task], workers: int | None, pool: ProcessPoolExecutor | None
) -> Iterator[tuple[Task, dict[str, Counts]]]:
    many = workers or os.cpu_count() or 1
    if pool is None and (many == 1 or len(left) < 8):
        yield from ((task, work(task)) for task in left)
        return
    own = None if pool is not None else new_pool(many)
    using = pool if pool is not None else own
    assert using is not None
    try:
        waiting = {using.submit(work, task): task for task in left}
        for future in as_completed(waiting):
            yield waiting[future], future.result()
    finally:
        if own is not None:
            own.shutdown(cancel_futures=True)


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
    share = 1 - (1 - confidence) / len(subject.pairs)
    tables: dict[tuple[int, int, int, str], Counts] = {}
    for task in todo:
        for coding, counts in done[task.key].items():
            place = (task.pair, task.side, task.chunk % 2, coding)
            tables[place] = attack.add(tables.get(place, {}), counts)
    best: Verdict | None = None
    delta = math.nextafter(float(subject.delta), math.inf) if subject.delta else 0.0
    for number, pair in enumerate(subject.pairs):
        ways = {place[3] for place in tables if place[0] == number}
        first = {way: (tables[number, 0, 0, way], tables[number, 1, 0, way]) for way in ways}
        tried = {way: attack.choose(*first[way], confidence=share, delta=delta) for way in ways}
        way = max(sorted(tried), key=lambda each: tried[each][0])
        event = tried[way][1]
        trial = tables[number, 0, 1, way], tables[number, 1, 1, way]
        one, other = reversed(trial) if event.swapped else trial
        half = sum(one.values())
        hits, misses = event.hits(one), event.hits(other)
        bound = epsilon_bound(hits, half, misses, half, confidence=share, delta=delta)
        if best is None or bound > best.lower_bound:
            shown = pair.swapped() if event.swapped else pair
            best = Verdict(
                name=subject.name,
                flawed=subject.flawed,
                claimed=subject.claimed,
                window=subject.window,
                lower_bound=bound,
                confidence=confidence,
                runs=2 * half,
                pair=shown,
                event=event,
                left_hits=hits,
                right_hits=misses,
                half=half,
                seconds=0.0,
                seed=seed,
                cells=_top_cells(one, other),
                method="learned classifier" if way == "learned" else "monte carlo",
                delta=subject.delta,
                configuration=subject.configuration,
                chosen=subject.chosen,
            )
    assert best is not None
    return best


def _top_cells(one: Counts, other: Counts, limit: int = 12) -> list[tuple[str, int, int]]:
    names = sorted(
        one.keys() | other.keys(),
        key=lambda cell: one.get(cell, 0) + other.get(cell, 0),
        reverse=True,
    )
    return [(name, one.get(name, 0), other.get(name, 0)) for name in names[:limit]]


def kept_path(folder: Path, subject: Subject) -> Path:
    """The file that keeps the finished chunks of an audit. Its name covers the audited source."""
    try:
        source = inspect.getsource(sys.modules[type(subject.mechanism).__module__])
    except (OSError, TypeError, KeyError):
        source = ""
    facts = (subject.spec, subject.runs, CHUNK, CHUNK_BY_KEY, source)
    return folder / f"audit-{hashlib.sha256(repr(facts).encode()).hexdigest()[:16]}.jsonl"


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
