"""Runs a suite on all cores. Cells that share a stream go through its rows together."""

from __future__ import annotations

import json
import multiprocessing
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass

from penstock.core.errors import PenstockError
from penstock_bench.cell import Cell, Stretch
from penstock_bench.code_digest import code_of
from penstock_bench.feed import feed, missing
from penstock_bench.lines import BenchLine, line_of
from penstock_bench.measures.base import MEMORY, TIME, Facts, Measure
from penstock_bench.measures.registry import measure_of
from penstock_bench.results import REFUSED, Results, Row
from penstock_bench.suite import Setting, Suite, choose

MOST_CELLS = 12
"""The most cells of a job. An interruption loses the jobs at work."""

MOST_MEGABYTES = 3_500
"""The most memory of all processes together. Large streams get fewer processes."""

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""The variables that set the number of threads of the libraries behind NumPy."""

PROCESS_MEGABYTES = 250
"""The memory of a process before it has any data."""


@dataclass(frozen=True)
class Job:
    """Cells of one stream that go through it together."""

    stream: Stretch
    cells: tuple[Cell, ...]
    seed: int

    @property
    def effort(self) -> int:
        """The approximate effort, to compare jobs."""
        return len(self.cells) * max(self.stream.megabytes, 1)


@dataclass(frozen=True)
class RunPlan:
    """The jobs to do, the number of cells done before, and the data that are missing."""

    jobs: tuple[Job, ...]
    commands: Mapping[Cell, str]
    skipped: Mapping[str, str]
    here: frozenset[str]
    """The datasets that are here."""
    done: int

    @property
    def cells(self) -> int:
        return sum(len(job.cells) for job in self.jobs)

    @property
    def effort(self) -> int:
        return sum(job.effort for job in self.jobs)


def plan(
    suite: Suite, setting: Setting, results: Results, *, only: Sequence[str] = (), workers: int = 1
) -> RunPlan:
    """Plan the cells that have no result of the present code, in jobs for `workers` processes."""
    chosen = choose(suite, setting, tuple(only))
    streams = list(dict.fromkeys(cell.stream for cell in chosen.cells))
    absent = {stream: reason for stream in streams if (reason := missing(stream)) is not None}
    done = results.done()
    commands: dict[Cell, str] = {}
    names = {
        point.cell: point.line
        for question in reversed(chosen.questions)
        for point in question.points
    }
    todo: dict[Stretch, list[Cell]] = {}
    before = 0
    for first in chosen.cells:
        if first.stream in absent:
            continue
        command = command_of(
            suite, setting, [first.stream.dataset, *([] if first.trivial else [names[first]])]
        )
        code = code_of(first)
        for cell in first.runs(suite.repeats(setting, first)):
            if done.get(key_of(cell, setting.seed)) == code:
                before += 1
            else:
                todo.setdefault(cell.stream, []).append(cell)
                commands[cell] = command
    jobs = list(_jobs(todo, setting.seed, workers))
    skipped = {stream.dataset: reason.rstrip(".") for stream, reason in absent.items()}
    here = frozenset(stream.dataset for stream in streams if stream not in absent)
    return RunPlan(tuple(jobs), commands, skipped, here, before)


def _jobs(todo: Mapping[Stretch, list[Cell]], seed: int, workers: int) -> Iterator[Job]:
    """Order jobs, the largest streams first. Every stream gets enough jobs for all processes."""
    for stream, cells in sorted(todo.items(), key=lambda item: -item[0].megabytes):
        cells = sorted(cells, key=lambda cell: cell.run)
        each = min(MOST_CELLS, -(-len(cells) // workers))
        for start in range(0, len(cells), each):
            yield Job(stream, tuple(cells[start : start + each]), seed)


def workers_for(streams: Iterable[Stretch], asked: int | None = None) -> int:
    """The number of processes: `jobs` or one per core, and as many as memory allows."""
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    most = cores if asked is None else asked
    heaviest = max((stream.megabytes for stream in streams), default=0)
    return max(1, min(most, MOST_MEGABYTES // (PROCESS_MEGABYTES + heaviest)))


def command_of(suite: Suite, setting: Setting, only: Sequence[str] = ()) -> str:
    """The command that gives the same numbers again."""
    words = [
        "penstock",
        "bench",
        suite.name,
        *(["--quick"] if setting.quick else []),
    ]
    if setting.runs is not None or setting.quick or not suite.runs_by_cell:
        words += ["--runs", str(suite.repeats(setting))]
    words += ["--seed", str(setting.seed)]
    for name in setting.also:
        words += ["--also", name]
    for name in setting.streams:
        words += ["--stream", name]
    for name in only:
        words += ["--only", name]
    return shlex.join(words)


# -- one piece of work -----------------------------------------------------------------------------


def work(job: Job) -> list[Row]:
    """Run a job and return its rows, without commands. A cell that fails has a note and no
    values."""
    try:
        rows = feed(job.stream)
        units, keys = rows.units, rows.domain.size
    except Exception as error:  # a dataset may be of another package
        return [_note(cell, job.seed, _words(error)) for cell in job.cells]
    lines: dict[Cell, tuple[BenchLine, list[Measure]]] = {}
    found: list[Row] = []

    def failed(cell: Cell, error: Exception) -> None:
        lines.pop(cell, None)
        found.append(_note(cell, job.seed, _words(error), units=units, keys=keys))

    for cell in job.cells:
        try:
            line = line_of(cell, rows, job.seed)
            shown = keys if line.run is None else line.run.released.size
            facts = Facts(units, rows.domain, shown, line.run, rows)
            lines[cell] = (
                line,
                [measure_of(name, facts) for name in cell.measures if name not in (TIME, MEMORY)],
            )
        except Exception as error:
            failed(cell, error)
    try:
        for counts in rows.rows() if lines else ():
            for cell, (line, measures) in list(lines.items()):
                try:
                    seen = line.step(counts)
                    for measure in measures:
                        measure.see(seen)
                except Exception as error:
                    failed(cell, error)
    except Exception as error:
        for cell in list(lines):
            failed(cell, error)
    for cell in list(lines):
        line, measures = lines[cell]
        try:
            found += _rows(cell, line, measures, job.seed, units, keys)
        except Exception as error:
            failed(cell, error)
        lines.pop(cell, None)  # the lines of the ledger are not needed any more
    return found


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, PenstockError) else f"{type(error).__name__}: {error}"


def _rows(
    cell: Cell, line: BenchLine, measures: Sequence[Measure], seed: int, units: int, keys: int
) -> list[Row]:
    values = {name: value for measure in measures for name, value in measure.values().items()}
    megabytes = line.megabytes()
    if TIME in cell.measures:
        values[TIME] = 1e3 * line.seconds / units
    if MEMORY in cell.measures:
        values[MEMORY] = megabytes
    about = _about(cell, seed) | {
        "seconds": line.seconds,
        "megabytes": megabytes,
        "units": units,
        "keys": keys,
        "note": "",
    }
    if line.run is not None:  # with what was left open in the cell decided for these keys
        decided = line.run.mechanism.configuration()
        about["parameters"] = _text({name: str(value) for name, value in decided.items()})
    return [about | {"measure": name, "value": value} for name, value in values.items()]


def _note(cell: Cell, seed: int, words: str, **facts: int) -> Row:
    nothing = {
        "measure": REFUSED,
        "value": float("nan"),
        "seconds": 0.0,
        "megabytes": 0.0,
        "units": 0,
        "keys": 0,
    }
    return _about(cell, seed) | nothing | facts | {"note": words}


def _about(cell: Cell, seed: int) -> Row:
    """The columns that all rows of a cell share. If the mechanism cannot be made, its given
    parameters.
    """
    try:
        parameters, guarantee = cell.configuration(), cell.guarantee()
    except Exception:
        parameters, guarantee = {name: str(value) for name, value in cell.parameters}, ""
    return {
        "suite": cell.suite,
        "stream": cell.stream.name,
        "mechanism": cell.mechanism,
        "parameters": _text(parameters),
        "guarantee": guarantee,
        "private": cell.private,
        "seed": seed,
        "run": cell.run,
        "cell": key_of(cell, seed),
        "code": code_of(cell),
        "command": "",
    }


def _text(parameters: Mapping[str, str]) -> str:
    return json.dumps(parameters, sort_keys=True)


def key_of(cell: Cell, seed: int) -> str:
    """The key of a cell's rows. A mechanism that cannot be made has none, and is tried every
    time."""
    try:
        return cell.key(seed)
    except Exception:
        return json.dumps(
            [REFUSED, cell.stream.facts, cell.mechanism, cell.parameters, cell.run, seed]
        )


# -- all of the work -------------------------------------------------------------------------------


def perform(
    what: RunPlan,
    results: Results,
    *,
    workers: int = 1,
    tell: Callable[[Job], object] | None = None,
) -> list[Row]:
    """Run all jobs, store each as soon as it is done, and return the rows that have a note."""
    notes: list[Row] = []
    with closing(_each(what.jobs, workers)) as each:
        for job, rows in each:
            by_key = {key_of(cell, job.seed): what.commands[cell] for cell in job.cells}
            rows = [row | {"command": by_key[row["cell"]]} for row in rows]
            results.add(rows)
            notes += [row for row in rows if row["measure"] == REFUSED]
            if tell is not None:
                tell(job)
    return notes


def _each(jobs: Sequence[Job], workers: int) -> Generator[tuple[Job, list[Row]]]:
    if workers == 1 or len(jobs) < 2:
        for job in jobs:
            yield job, work(job)
        return
    with _pool(min(workers, len(jobs))) as pool:
        left = iter(jobs)
        waiting: dict[Future[list[Row]], Job] = {}
        try:
            while True:
                for job in left:
                    waiting[pool.submit(work, job)] = job
                    if (
                        len(waiting) > workers
                    ):  # one job more than processes: no process waits, and few results pile up
                        break
                if not waiting:
                    return
                ready, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for done in ready:
                    yield waiting.pop(done), done.result()
        except BrokenProcessPool:
            raise PenstockError(
                "a process of the bench was killed, perhaps because memory ran out: start "
                "again with fewer --jobs. Finished work is stored."
            ) from None


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of fresh processes. They end at once when the suite ends early."""
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        workers, mp_context=multiprocessing.get_context("spawn"), initializer=_begin
    )
    try:
        with _one_thread_each():
            yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Limit NumPy's threads in new processes: its matrix library would use all cores."""
    mine = {name: "1" for name in THREADS if name not in os.environ}
    os.environ.update(mine)
    try:
        yield
    finally:
        for name in mine:
            del os.environ[name]


def _begin() -> None:
    """Prepare a worker: ignore Ctrl-C, which the parent handles, and end when the parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_leave_with_the_parent, daemon=True).start()


def _leave_with_the_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def peak_megabytes() -> float:
    """The peak memory of this process plus that of its largest finished child."""
    import resource

    unit = 1e6 if sys.platform == "darwin" else 1e3
    return (
        sum(
            resource.getrusage(who).ru_maxrss
            for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        )
        / unit
    )
