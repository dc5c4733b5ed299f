"""Audits of everybody: all registered mechanisms, and all flawed variants."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.files import write_file
from penstock.lab.audit.attack import OutputEvent
from penstock.lab.audit.engine import (
    PACKAGE,
    SampledAudit,
    Task,
    TaskResult,
    Verdict,
    attempt_all,
    audit,
    jobs,
    kept_path,
    new_pool,
    not_sampled,
    source_digest,
)
from penstock.lab.audit.exact import (
    ExactLoss,
    Output,
    WorstOutput,
    exact_loss,
    loss_at,
    worst_output,
)
from penstock.lab.audit.flawed import VARIANTS
from penstock.lab.audit.model import Pair
from penstock.lab.audit.noise_audit import NoiseVerdict, noise_audit
from penstock.lab.audit.replay import ReplayVerdict, replay_audit
from penstock.lab.audit.replay.search import REPLAYS
from penstock.lab.audit.report import BEYOND_REPLAY
from penstock.lab.audit.subjects import (
    PAN_PRIVATE,
    USER_LEVEL,
    WITH_DELTA,
    Subject,
    resolve,
    subject,
)
from penstock.private.mechanisms.base import Mechanism
from penstock.private.mechanisms.registry import MECHANISMS
from penstock.private.mechanisms.sampling import ByQuestion

FALSE_ALARM = 1e-3
"""The probability that a run over everybody convicts a mechanism that keeps its promise."""

EXACT = (
    "uniform",
    "sample",
    "bd",
    "ba",
    "laplace",
    "rg",
    "pegasus",
    "dsft",
    "dsat",
    "dsft@user",
    "dsat@user",
)
"""Mechanisms whose loss is also computed exactly, on a tiny stream and at a large ε."""

EPSILON, EPSILON_EXACT = "2", "6"

TAIL, TAIL_GROUPED, TAIL_ASKED = 1e-10, 1e-8, 1e-7
"""Outputs less likely than this are left out. Groups and questions take longer per output."""

POPULATION = 80
"""What thresholds are shares of, where outputs are enumerated."""

SHIPPED = (
    *MECHANISMS,
    *(f"{name}@user" for name in USER_LEVEL),
    *(f"{name}@between" for name in PAN_PRIVATE),
    *(f"{name}@delta" for name in WITH_DELTA),
)
"""All names of audits of registered mechanisms."""

FLAWED_REPLAYS = 5_000
"""The most transcripts of a flawed variant. Most are convicted by the first, a few by hundreds."""

RUNS_PER_REPLAY, LEAST_REPLAYS = 50, 20
"""How many runs of an audit stand beside one replay, and the least number of replays."""

RUNS, SLOW_RUNS, RUNS_BY_KEY = 300, 150, 50_000
QUICK_RUNS, QUICK_RUNS_BY_KEY = 80, 20_000
"""The runs on each stream of each pair, one by one or as keys of one run."""

EPSILON_ONE_BY_ONE, SLOW_EPSILON = "1", "1/2"
"""Few runs convict by an event that is seen on one stream only. The smaller ε is, the rarer that
event may be: 300 runs at ε = 1 convict what 600 at ε = 2 would not.
"""

QUICK_CASES = 5
"""The cases of one mechanism that `--quick` attacks. The seed chooses them."""

QUICK_EPSILON = "1/2"
"""With few runs one by one, `--quick` convicts only what tells two streams apart in nearly every
run, and only at a small ε.
"""

REPLAYS_OF_ALL, QUICK_REPLAYS_OF_ALL = 150, 20
"""The transcripts of one mechanism."""

NOT_SAMPLED_QUICKLY = frozenset(
    {
        "bd_independent_groups",
        "dsft_published",
        "fast_per_key",
        "tide_front_for_nothing",
        "bd_pan_reused_noise",
    }
)
"""Flawed variants that `--quick` leaves to the replay. Sampling each takes longer than five seconds
of one core.
"""

SLOW_TO_RUN: Mapping[str, int] = {
    "hs_pegasus": 4,
    "phs_pegasus": 4,
    "tide": 4,
    "eshp": 2,
    "toeplitz": 4,
}
"""Mechanisms whose runs take longer, and by what their number is divided where runs are keys of one
run. One by one there are `SLOW_RUNS` of them, and in `--quick` as many as of others.
"""

SLOW_TO_REPLAY: Mapping[str, int] = {
    "rg": 2,
    "hs_pegasus": 6,
    "phs_pegasus": 6,
    "pegasus": 2,
    "tide": 2,
}
"""Mechanisms whose replays take longer, and by what their number is divided: probabilities of
samples and of many questions are sums.
"""

LEAST_QUICK_REPLAYS = 8
"""The fewest transcripts."""


def everybody(*, quick: bool) -> list[Subject]:
    """All audits of registered mechanisms, and of all flawed variants."""
    subjects = []
    for name in SHIPPED:
        known = name.partition("@")[0]
        slow = SLOW_TO_RUN.get(known, 1)
        if MECHANISMS[known].by_key:
            epsilon, runs = EPSILON, (QUICK_RUNS_BY_KEY if quick else RUNS_BY_KEY) // slow
        elif quick:
            epsilon, runs = QUICK_EPSILON, QUICK_RUNS
        else:
            epsilon = EPSILON_ONE_BY_ONE if slow == 1 else SLOW_EPSILON
            runs = RUNS if slow == 1 else SLOW_RUNS
        subjects.append(subject(name, epsilon=epsilon, runs=runs))
    for name, variant in VARIANTS.items():
        subjects.append(resolve(f"flawed:{name} {variant.claimed} {variant.window} {variant.runs}"))
    return subjects


def audit_all(
    *,
    quick: bool,
    seed: int | None = None,
    workers: int | None = None,
    folder: Path | None = None,
    progress: Callable[[str, int, int], object] | None = None,
    pool: ProcessPoolExecutor | None = None,
) -> list[Verdict]:
    """Audit all registered mechanisms and all flawed variants.

    The probability of a false conviction in the whole run is at most `FALSE_ALARM`. `folder` keeps
    finished work until all of it is done; started again, the run goes on from there. Exact losses
    stay in it for later runs of the same code. `pool` has the processes to use; without it there
    are `workers` new ones.
    """
    subjects = everybody(quick=quick)
    if pool is not None:
        return _AllAudits(subjects, pool, quick, seed, folder).verdicts(progress)
    with new_pool(workers) as own:
        return _AllAudits(subjects, own, quick, seed, folder).verdicts(progress)


class _AllAudits:
    """All work of a run over everybody, in one pool: long pieces first, short ones last."""

    def __init__(
        self,
        subjects: list[Subject],
        pool: ProcessPoolExecutor,
        quick: bool,
        seed: int | None,
        folder: Path | None,
    ) -> None:
        self.subjects, self.quick, self.seed, self.folder = subjects, quick, seed, folder
        self.pool = pool
        confidence = 1 - FALSE_ALARM * 9 / 10 / len(subjects)  # a tenth is for the noise audits
        self.sampled = {
            each.spec: SampledAudit(
                each,
                confidence=confidence,
                seed=seed,
                folder=folder,
                most_cases=QUICK_CASES if quick else None,
            )
            for each in subjects
            if not each.exact and not (quick and each.name in NOT_SAMPLED_QUICKLY)
        }
        self.flawed: dict[str, Future[Verdict]] = {}
        self.exact: dict[str, Future[KeptLoss]] = {}
        self.replays: dict[str, Future[ReplayVerdict]] = {}
        self.noises: dict[str, Future[NoiseVerdict]] = {}
        self.samples: dict[Future[list[TaskResult]], tuple[SampledAudit, list[Task]]] = {}

    def verdicts(self, progress: Callable[[str, int, int], object] | None) -> list[Verdict]:
        """Do all of it."""
        try:
            self._submit()
            self._wait(progress)
        except BaseException:
            self.pool.shutdown(wait=False, cancel_futures=True)
            raise
        found = [self._verdict(each) for each in self.subjects]
        if self.folder is not None:
            for each in self.subjects:
                kept_path(self.folder, each).unlink(missing_ok=True)
            _forget_old_losses(self.folder)
        return found

    def _submit(self) -> None:
        submit = self.pool.submit
        for each in self.subjects:
            if each.exact:
                self.flawed[each.spec] = submit(_exact_of, each.spec)
            elif each.name in EXACT and not self.quick:
                path = None if self.folder is None else _exact_path(self.folder, each.name)
                self.exact[each.spec] = submit(_exact_once, each.name, path)
        for each in sorted(self.subjects, key=_slow_first):
            count = _replays(each, quick=self.quick)
            self.replays[each.spec] = submit(replayed, each.spec, count, self.seed)
        for sampled in sorted(self.sampled.values(), key=lambda one: _slow_first(one.subject)):
            for job in jobs(sampled.left):
                self.samples[submit(attempt_all, job)] = sampled, job
        for each in self.subjects:
            if not each.flawed:
                share = FALSE_ALARM / 10 / len(SHIPPED)
                self.noises[each.spec] = submit(noise_of, each.spec, share)

    def _wait(self, progress: Callable[[str, int, int], object] | None) -> None:
        others: list[dict[str, Future[Any]]] = [self.flawed, self.exact, self.replays, self.noises]
        names = {each.spec: each.name for each in self.subjects}
        about: dict[Future[Any], str] = {
            future: names[spec] for part in others for spec, future in part.items()
        }
        about |= {future: sampled.subject.name for future, (sampled, _) in self.samples.items()}
        total = len(about) + sum(sampled.done for sampled in self.sampled.values())
        for number, future in enumerate(as_completed(about), start=total - len(about) + 1):
            if future in self.samples:
                sampled, job = self.samples[future]
                for task, result in zip(job, future.result(), strict=True):
                    sampled.add(task, result)
            if progress is not None:
                progress(about[future], number, total)

    def _verdict(self, each: Subject) -> Verdict:
        spec = each.spec
        if each.exact:
            verdict = self.flawed[spec].result()
        elif spec in self.sampled:
            verdict = self.sampled[spec].verdict()
        else:
            verdict = not_sampled(each)
        replay = self.replays[spec].result()
        noise = self.noises[spec].result() if spec in self.noises else None
        seconds = verdict.seconds + replay.seconds + (0.0 if noise is None else noise.seconds)
        if spec in self.exact:
            loss = self.exact[spec].result()
            verdict = replace(
                verdict,
                exact=(loss.low, loss.high),
                exact_claimed=Fraction(EPSILON_EXACT),
                exact_kept=loss.kept,
            )
            seconds += loss.seconds
        return replace(verdict, replay=replay, noise=noise, seconds=seconds)


def _replays(subject: Subject, *, quick: bool) -> int:
    known = subject.name.partition("@")[0]
    usual = QUICK_REPLAYS_OF_ALL if quick else REPLAYS_OF_ALL
    return max(LEAST_QUICK_REPLAYS, usual // SLOW_TO_REPLAY.get(known, 1))


def _slow_first(subject: Subject) -> bool:
    """Long work begins first, so that no process is left alone with it at the end."""
    known = subject.name.partition("@")[0]
    return known not in SLOW_TO_REPLAY and known not in SLOW_TO_RUN


def replays_of(runs: int) -> int:
    """The number of transcripts that are replayed beside so many runs.

    >>> replays_of(20_000), replays_of(100)
    (400, 20)
    """
    return max(LEAST_REPLAYS, min(REPLAYS, runs // RUNS_PER_REPLAY))


def replayed(spec: str, replays: int, seed: int | None) -> ReplayVerdict:
    """The replay of the subject that a text names, also in another process."""
    subject = resolve(spec)
    if subject.flawed:
        replays = 1 if subject.name in BEYOND_REPLAY else FLAWED_REPLAYS
    return replay_audit(subject, replays=replays, seed=seed)


def noise_of(spec: str, false_alarm: float) -> NoiseVerdict:
    """The noise audit of the subject that a text names, also in another process."""
    return noise_audit(resolve(spec), false_alarm=false_alarm)


def _exact_of(spec: str) -> Verdict:
    """The exact verdict on the subject that a text names, also in another process."""
    return audit_exactly(resolve(spec))


@dataclass(frozen=True)
class KeptLoss:
    """An exact loss, which depends on no seed. So later runs of the same code need not compute it.

    Parameters
    ----------
    low, high : float
        The interval that contains the loss.
    seconds : float
        The seconds that it took in this run.
    kept : bool
        Whether an earlier run has computed it. Default: False.
    """

    low: float
    high: float
    seconds: float
    kept: bool = False


def _exact_once(name: str, path: Path | None) -> KeptLoss:
    """The exact loss at a large ε; from a file if the same code has computed it before."""
    if path is not None and path.exists():
        low, high = json.loads(path.read_text(encoding="utf-8"))
        return KeptLoss(low, high, 0.0, kept=True)
    verdict = audit_exactly(subject(name, epsilon=EPSILON_EXACT))
    assert verdict.exact is not None
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, json.dumps(verdict.exact).encode(), durable=False)
    return KeptLoss(*verdict.exact, verdict.seconds)


def _exact_path(folder: Path, name: str) -> Path:
    """The file of an exact loss. Its name covers every file of the package."""
    return folder / f"{_exact_prefix()}{name}.json"


def _exact_prefix() -> str:
    return f"exact-{source_digest(PACKAGE)[:16]}-"


def _forget_old_losses(folder: Path) -> None:
    """Delete the exact losses of other versions of the code."""
    for path in folder.glob("exact-*.json"):
        if not path.name.startswith(_exact_prefix()):
            path.unlink(missing_ok=True)


def audit_one(
    subject: Subject, *, progress: Callable[[int, int], object] | None = None, **how: Any
) -> Verdict:
    """Audit by sampling, or exactly if the flaw of a subject is too small for sampling."""
    return (
        audit_exactly(subject, progress=progress)
        if subject.exact
        else audit(subject, progress=progress, **how)
    )


def audit_exactly(
    subject: Subject, *, progress: Callable[[int, int], object] | None = None
) -> Verdict:
    """The exact loss over all outputs of tiny streams, or at the worst output found by a search."""
    start = time.monotonic()
    mechanism = subject.mechanism if subject.exact else _tiny(subject.mechanism)
    pairs = subject.pairs if subject.exact else tiny_streams(mechanism)
    tail = _tail(mechanism)
    best: tuple[ExactLoss | WorstOutput, Pair] | None = None
    highest = 0.0
    for number, pair in enumerate(pairs, start=1):
        found = (
            worst_output(mechanism, pair)
            if subject.exact
            else exact_loss(mechanism, pair, tail=tail)
        )
        highest = max(highest, found.high)
        if best is None or found.low > best[0].low:
            best = (found, pair)
        if progress is not None:
            progress(number, len(pairs))
    assert best is not None
    loss, pair = best
    if loss_at(mechanism, pair, loss.output)[1] < 0:  # the output is likelier on the right
        pair = pair.swapped()
    return Verdict(
        name=subject.name,
        flawed=subject.flawed,
        claimed=subject.claimed,
        window=subject.window,
        lower_bound=loss.low,
        confidence=1.0,
        runs=0,
        pair=pair,
        event=OutputEvent(frozenset([_as_text(loss.output)]), False),
        left_hits=0,
        right_hits=0,
        half=0,
        seconds=time.monotonic() - start,
        seed=0,
        exact=(loss.low, highest),
        method="exact",
        configuration=subject.configuration,
    )


def _tail(mechanism: Mechanism[Any]) -> float:
    if isinstance(mechanism, ByQuestion):
        return TAIL_ASKED
    return TAIL_GROUPED if mechanism.family == "event" else TAIL


def _tiny(mechanism: Mechanism[Any]) -> Mechanism[Any]:
    """The mechanism, changed so that tiny streams have questions and a threshold that moves.

    A twentieth of `POPULATION` is a few people. Less would be rounded to the same number in every
    unit.
    """
    if not isinstance(mechanism, ByQuestion):
        return mechanism
    limit = 2 if mechanism.guarantee.user_level else 1
    return replace(mechanism, releases=min(mechanism.releases, limit), population=POPULATION)


def tiny_streams(mechanism: Mechanism[Any]) -> list[Pair]:
    """Streams that are small enough to enumerate and long enough for the mechanism to decide."""
    if isinstance(mechanism, ByQuestion) and not mechanism.guarantee.user_level:
        return asked_pairs(mechanism.window)
    return tiny_pairs(mechanism.window, grouped=mechanism.family == "event")


def tiny_pairs(window: int, *, grouped: bool = False) -> list[Pair]:
    """A stream of one key, and one of two keys between which the person moves.

    With `grouped`, another stream has a unit before the person comes, in which a group may begin.
    """
    still = np.zeros((window, 1), np.int64)
    moving = np.zeros((min(window, 2), 2), np.int64)
    pairs = [
        _present("still", still),
        _present("a step", _steps(window)),
        _present("moving between two keys", moving),
    ]
    if grouped:
        without = np.zeros((max(3, window + 1), 1), np.int64)
        person = np.zeros_like(without)
        person[1 : window + 1] = 1
        pairs.append(Pair("still, a person from unit 2", without + person, without))
    return pairs


def asked_pairs(window: int) -> list[Pair]:
    """Streams with questions from the second block on, and a person in that block or across two."""
    leap = np.repeat(np.array([[0], [4]], np.int64), window, axis=0)
    fall = np.full((2 * window + 1, 1), 6, np.int64)
    fall[-1] = 2
    crossing = np.full((2 * window, 1), 100, np.int64)
    crossing[window:-1] = 105
    crossing[-1] = 95
    return [
        _at_the_end("a leap, a person after it", leap, window),
        _at_the_end("a fall, a person up to it", fall, window),
        _at_the_end("noes above the last release, a yes below it", crossing, window),
    ]


def _at_the_end(name: str, base: IntArray, window: int) -> Pair:
    person = np.zeros_like(base)
    person[-window:] = 1
    return Pair(name, base + person, base)


def _steps(units: int) -> IntArray:
    return np.cumsum(np.full((units, 1), 2, np.int64), axis=0)


def _present(name: str, base: IntArray) -> Pair:
    person = np.zeros_like(base)
    person[np.arange(len(base)), np.arange(len(base)) % base.shape[1]] = 1
    return Pair(f"{name}, a person in every unit", base + person, base)


def _as_text(shown: Output) -> str:
    """An output as text: the values of each unit with * for fresh ones, and its public arrays."""
    return " | ".join(
        " ".join(
            [
                f"{value}{'*' if fresh else ''}"
                for value, fresh in zip(unit.values, unit.fresh, strict=True)
            ]
            + [f"{name}={','.join(map(str, numbers))}" for name, numbers in unit.public]
        )
        for unit in shown
    )
