"""`penstock audit`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NoReturn

from cyclopts import Parameter
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from penstock.cli.audit_output import (
    print_bounding,
    print_json,
    print_noise,
    print_replay,
    print_verdict,
    print_verdicts,
)
from penstock.cli.completers import AuditedName
from penstock.cli.options import Flag, Json, MaybeInt, MaybeUnits, with_own_modules
from penstock.core.errors import BudgetError, ConfigurationError
from penstock.core.exact import positive, whole
from penstock.core.optional import require
from penstock.lab.audit import report, suite
from penstock.lab.audit.bounding.verdict import BoundingVerdict
from penstock.lab.audit.bounding_audit import QUICK_ROUNDS, ROUNDS, bounding_audit
from penstock.lab.audit.engine import TaskFailure, Verdict, new_pool, unjudged
from penstock.lab.audit.flawed import VARIANTS
from penstock.lab.audit.noise_audit import NoiseVerdict, noise_audit
from penstock.lab.audit.replay import ReplayVerdict, replay_audit
from penstock.lab.audit.replay.search import REPLAYS
from penstock.lab.audit.subjects import Subject, subject

EPSILON, RUNS, CONFIDENCE = "2", 20_000, 0.999
EXACT_EPSILON = "6"
"""The default ε of an exact audit. The larger ε is, the fewer outputs there are."""

FOLDER = Path("out/audit")
INTERRUPTED = 130
NOT_JUDGED = 3


def audit(
    name: AuditedName = None,
    /,
    *,
    everybody: Annotated[bool, Parameter(name="--all", negative="")] = False,
    epsilon: str | None = None,
    window: MaybeUnits = None,
    runs: MaybeInt = None,
    confidence: float | None = None,
    seed: MaybeInt = None,
    exact: Flag = False,
    replay: Flag = False,
    noise: Flag = False,
    bounding: Flag = False,
    quick: Flag = False,
    as_json: Json = False,
    page: Annotated[Path | None, Parameter(name="--report")] = None,
    workers: MaybeInt = None,
    folder: Path = FOLDER,
) -> None:
    """Attack a mechanism on synthetic streams. Exit code 1 if it breaks its promise.

    The audit first replays a mechanism: it forces one transcript on two streams that differ by one
    person, and computes the loss of that transcript. Anything else that differs is a violation.
    Then it runs the mechanism many times on both streams. An output that is much likelier on one of
    them gives a lower bound on ε. If a loss or a bound is above the promise, the mechanism is
    convicted. An acquittal is no proof: see docs/how-to/audit.md.

    Exit codes: 0 acquitted, 1 convicted, 2 the command cannot be used, 3 it could not be judged,
    because the ledger refused it or it failed.

    For example:

    * penstock audit ba --epsilon 2 --window 3

    * penstock audit bd --epsilon 6 --window 2 --exact

    * penstock audit my_module:MyMechanism --replay

    * penstock audit my_module:MyMechanism --runs 100000 --report out/mine.html

    * penstock audit dsat@user

    * penstock audit flawed:short_window

    * penstock audit --bounding

    * penstock audit --all --quick --json

    Parameters
    ----------
    name
        The name of a registered mechanism, of a mechanism of a plug-in, or the import path
        module:Class of your own. Modules in the current directory are found too. Append @user to
        audit it at user level, @between to audit a pan-private one with looks between units, or
        @delta to audit it with a delta of 0.01 and Gaussian noise.
        flawed:NAME is a mechanism that is broken on purpose.
    everybody
        Audit every registered mechanism, which must be acquitted, and every flawed variant, which
        must be convicted, and the bounding of contributions. Exit code 1 if one verdict is another.
    epsilon
        The promised ε of a window, exact: 2, 0.5 or 1/3. A larger ε is easier to test.
        Default: 2; with --exact: 6.
    window
        The number of consecutive units in which a person is protected. Default: 2, or more if a
        mechanism has nothing to decide in 2 units.
    runs
        The number of runs on each stream of each pair. Half of them choose the event, the other
        half test it. With --replay: the number of transcripts. With --bounding: the number of pairs
        of event streams. Default: 20000; with --replay: 400; with --bounding: 120.
    confidence
        The confidence that a conviction needs. Default: 0.999.
    seed
        The seed. The same seed gives the same verdict. Default: a new one.
    exact
        Compute the loss itself on small streams instead of sampling. This needs a large epsilon and
        a short window.
    replay
        Replay only: no sampling, no statistics.
    noise
        Test only the noise that the mechanism draws: whether draws are fresh, independent and of
        their law.
    bounding
        Test only what one person changes in the counts: events of every source's format go through
        the shipped source, units and bounding. It needs no NAME.
    quick
        With --all: fewer runs. They still convict every flawed variant.
    as_json
        Print the verdict as JSON; with --all a list of verdicts.
    page
        Write a page about the verdicts to this file.
    workers
        The number of processes. Default: one per core.
    folder
        The folder that keeps finished work until the audit ends. An audit that was killed goes on
        from there. With --all, exact losses stay there for later runs of the same code.
    """
    require("scipy.stats", "lab", "an audit")
    if workers is not None:
        whole(workers, name="workers", least=1)
    options = {"epsilon": epsilon, "window": window, "runs": runs, "confidence": confidence}
    given = [f"--{option}" for option, value in options.items() if value is not None]
    how = _Job(seed, workers, folder, page, as_json)
    given += ["--exact"] * exact + ["--replay"] * replay + ["--noise"] * noise
    if bounding:
        given += ["--all"] * everybody + ["--quick"] * quick + ["--report"] * (page is not None)
        _bounding_only(how, name, runs, [each for each in given if each != "--runs"])
    if everybody:
        if name is not None:
            raise ConfigurationError(f"either {name!r} or --all, not both.")
        if given:
            raise ConfigurationError(f"{', '.join(given)} cannot be used with --all.")
        _audit_all(how, quick=quick)
        return
    if name is None:
        raise ConfigurationError("give the NAME of a mechanism, --all or --bounding.")
    if quick:
        raise ConfigurationError("--quick can only be used with --all: use --runs.")
    _check_ways(
        exact=exact, replay=replay, noise=noise, sampled=page is not None or confidence is not None
    )
    if exact and epsilon is None and not name.startswith("flawed:"):
        epsilon = EXACT_EPSILON
    if replay and runs is None:
        runs = REPLAYS
    audited = _subject(name, epsilon=epsilon, window=window, runs=runs)
    if replay:
        _replay_one(how, name, audited, audited.runs)
    if noise:
        _show_noise(how, noise_audit(audited))
    sure = _confidence(confidence)
    if exact:
        _audit_one(how, name, audited, exact=exact, confidence=sure)
    else:
        _audit_all_ways(how, name, audited, confidence=sure)


def _confidence(given: float | None) -> float:
    """The confidence that was asked for, or the default."""
    sure = CONFIDENCE if given is None else given
    if not 0 < sure < 1:
        raise ConfigurationError(
            f"confidence must lie between 0 and 1, not {sure}.", parameter="confidence"
        )
    return sure


def _audit_all_ways(how: _Job, name: str, audited: Subject, *, confidence: float) -> None:
    """Replay, test the noise, and sample. A mechanism that fails early is not sampled."""
    found = _replayed(how, audited, suite.replays_of(audited.runs))
    if not audited.flawed and found.outcome in ("convicted", "refused", "crashed"):
        _show_replay(how, name, audited, found, suite.replays_of(audited.runs))
    drawn = None if audited.flawed else noise_audit(audited)
    if drawn is not None and drawn.convicted:
        _show_noise(how, drawn)
    _audit_one(how, name, audited, exact=False, confidence=confidence, replay=found, noise=drawn)


def _bounding_only(how: _Job, name: str | None, runs: int | None, others: list[str]) -> NoReturn:
    """Audit bounding, and end with the exit code of the verdict."""
    if name is not None or others:
        given = ", ".join([*([] if name is None else [repr(name)]), *others])
        raise ConfigurationError(f"{given} cannot be used with --bounding.")
    rounds = whole(ROUNDS if runs is None else runs, name="runs", least=1)
    with _interruptible("a bounding audit keeps nothing and begins anew"), _bar() as progress:
        found = bounding_audit(
            seed=how.seed,
            rounds=rounds,
            progress=lambda done, total: progress("bounding", done, total),
        )
    if how.as_json:
        print_json(found.row())
    else:
        print_bounding(
            found, _command(None, {"bounding": True, "runs": rounds, "seed": found.seed})
        )
    sys.exit(found.exit_code)


def _check_ways(*, exact: bool, replay: bool, noise: bool, sampled: bool) -> None:
    """Refuse options of several ways to audit."""
    if exact + replay + noise > 1:
        raise ConfigurationError("give one of --exact, --replay and --noise, or none of them.")
    if (replay or noise) and sampled:
        raise ConfigurationError("--report and --confidence need an audit by sampling.")


@dataclass(frozen=True)
class _Job:
    """How to run an audit, and where its results go."""

    seed: int | None
    workers: int | None
    folder: Path
    page: Path | None
    as_json: bool

    def make_room(self) -> None:
        """Refuse a page that cannot be written before the work, not after it."""
        if self.page is None:
            return
        if self.page.is_dir():
            raise ConfigurationError(f"{self.page} is a folder, not a file.", parameter="report")
        self.page.parent.mkdir(parents=True, exist_ok=True)

    def write_page(
        self,
        verdicts: list[Verdict],
        title: str,
        command: str,
        bounding: BoundingVerdict | None = None,
    ) -> None:
        if self.page is not None:
            text = report.render(verdicts, title=title, command=command, bounding=bounding)
            self.page.write_text(text, encoding="utf-8")

    def say_where(self) -> None:
        if self.page is not None:
            Console().print(Text(f"Open {self.page}"), soft_wrap=True)


def _audit_all(how: _Job, *, quick: bool) -> None:
    how.make_room()
    rounds = QUICK_ROUNDS if quick else ROUNDS
    with (
        _interruptible("the same command goes on from what was done"),
        _bar() as progress,
        new_pool(how.workers) as pool,
    ):
        bounding_verdict = _bounding_in(pool, how.seed, rounds)
        verdicts = suite.audit_all(
            quick=quick, seed=how.seed, folder=how.folder, progress=progress, pool=pool
        )
        bounding = bounding_verdict()
    command = _command(None, {"all": True, "quick": quick, "seed": how.seed})
    how.write_page(verdicts, "Every mechanism and every flaw, audited", command, bounding)
    if how.as_json:
        print_json([verdict.row() for verdict in verdicts] + [bounding.row()])
    else:
        print_verdicts(verdicts, bounding)
        how.say_where()
    code = report.exit_code(verdicts, bounding)
    if code:
        sys.exit(code)


def _bounding_in(
    pool: ProcessPoolExecutor, seed: int | None, rounds: int
) -> Callable[[], BoundingVerdict]:
    """Audit bounding in a process of the pool. What is given back waits for the verdict."""
    return pool.submit(bounding_audit, seed=seed, rounds=rounds).result


def _show_noise(how: _Job, found: NoiseVerdict) -> NoReturn:
    """Print the verdict of a noise audit, and end with its exit code."""
    if how.as_json:
        print_json(found.row())
    else:
        print_noise(found)
    sys.exit({"acquitted": 0, "convicted": 1}.get(found.outcome, NOT_JUDGED))


def _replay_one(how: _Job, name: str, audited: Subject, replays: int) -> NoReturn:
    """Replay only."""
    _show_replay(how, name, audited, _replayed(how, audited, replays), replays)


def _replayed(how: _Job, audited: Subject, replays: int) -> ReplayVerdict:
    how.make_room()
    with _interruptible("a replay keeps nothing and begins anew"), _bar() as progress:
        return replay_audit(
            audited,
            replays=replays,
            seed=how.seed,
            progress=lambda done, total: progress(f"{audited.name}, replay", done, total),
        )


def _show_replay(
    how: _Job, name: str, audited: Subject, found: ReplayVerdict, replays: int
) -> NoReturn:
    """Print the verdict of a replay, and end with its exit code."""
    claims = {} if audited.flawed else {"epsilon": audited.claimed, "window": audited.window}
    command = _command(name, {**claims, "replay": True, "runs": replays, "seed": found.seed})
    if how.as_json:
        print_json(found.row())
    else:
        print_replay(found, type(audited.mechanism).__name__, command)
    sys.exit(found.exit_code)


def _audit_one(
    how: _Job,
    name: str,
    audited: Subject,
    *,
    exact: bool,
    confidence: float,
    replay: ReplayVerdict | None = None,
    noise: NoiseVerdict | None = None,
) -> None:
    how.make_room()
    kept = (
        "an exact audit keeps nothing and begins anew"
        if exact
        else "the same command goes on from what was done"
    )
    with _interruptible(kept), _bar() as progress:

        def tell(done: int, total: int) -> None:
            progress(audited.name, done, total)

        if exact:
            try:
                verdict = suite.audit_exactly(audited, progress=tell)
            except BudgetError as error:
                verdict = unjudged(audited, TaskFailure.of(error))
        else:
            verdict = suite.audit_one(
                audited,
                confidence=confidence,
                seed=how.seed,
                workers=how.workers,
                folder=how.folder,
                progress=tell,
            )
    verdict = replace(verdict, replay=replay, noise=noise)
    command = _same_command(name, audited, verdict, exact=exact)
    how.write_page([verdict], f"An audit of {verdict.name}", command)
    if how.as_json:
        print_json(verdict.row())
    else:
        print_verdict(verdict, type(audited.mechanism).__name__, command)
        how.say_where()
    if verdict.exit_code:
        sys.exit(verdict.exit_code)


def _subject(name: str, *, epsilon: str | None, window: int | None, runs: int | None) -> Subject:
    """The mechanism to audit, in the configuration that was asked for."""
    positive(EPSILON if epsilon is None else epsilon, name="epsilon")
    if window is not None:
        whole(window, name="window", least=1)
    whole(RUNS if runs is None else runs, name="runs", least=2)
    if " " in name:
        raise ConfigurationError(f"{name!r} is not the name of a mechanism.")
    variant = VARIANTS.get(name.removeprefix("flawed:")) if name.startswith("flawed:") else None
    if variant is not None:
        other = epsilon is not None and positive(epsilon, name="epsilon") != variant.claimed
        if other or window not in (None, variant.window):
            raise ConfigurationError(
                f"{name} claims epsilon {variant.claimed} in {variant.window} units only: "
                "leave out --epsilon and --window."
            )
        return subject(
            name,
            epsilon=str(variant.claimed),
            window=variant.window,
            runs=variant.runs if runs is None else runs,
        )
    return with_own_modules(
        name,
        lambda: subject(
            name,
            epsilon=EPSILON if epsilon is None else epsilon,
            window=window,
            runs=RUNS if runs is None else runs,
        ),
    )


def _command(name: str | None, options: dict[str, object]) -> str:
    words = ["penstock", "audit", *([] if name is None else [name])]
    for option, value in options.items():
        if value is True:
            words.append(f"--{option}")
        elif value is not None and value is not False:
            words += [f"--{option}", str(value)]
    return shlex.join(words)


def _same_command(name: str, audited: Subject, verdict: Verdict, *, exact: bool) -> str:
    """The command that gives the same verdict again."""
    claims = {} if audited.flawed else {"epsilon": audited.claimed, "window": audited.window}
    if exact or verdict.method == "exact":
        return _command(name, {**claims, "exact": True})
    options = {
        "runs": audited.runs,
        "confidence": f"{verdict.confidence:.12g}",
        "seed": verdict.seed,
    }
    return _command(name, {**claims, **options})


@contextmanager
def _interruptible(state: str) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        print(f"penstock: interrupted; {state}.", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except BrokenProcessPool:
        ended = "a process of the audit was ended from outside, perhaps for want of memory"
        print(f"penstock: {ended}. Nothing was judged; {state}.", file=sys.stderr)
        sys.exit(NOT_JUDGED)


@contextmanager
def _bar() -> Iterator[Callable[[str, int, int], None]]:
    """One progress bar per audit, with its chunks and the remaining time."""
    screen = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("chunks, left:"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        tasks: dict[str, Any] = {}

        def progress(name: str, done: int, total: int) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(name, total=total)
            bar.update(tasks[name], completed=done, total=total, visible=done < total)

        yield progress
