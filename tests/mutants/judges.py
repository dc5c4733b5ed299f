"""The judges of a mutant. They run in a process of their own, in which the mutant is planted.

Nothing of Penstock is imported before that. The cheapest judges come first.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from typing import Literal, TypeAlias

SEED = 11
"""The seed of replays and sampled audits, so that a score can be repeated."""

FIRST, QUICK, LONG = 8, 60, 400
"""Transcripts of the first, the second and the third replay. The third is that of `penstock audit`,
the second that of `penstock audit --all --quick`.
"""

SLOW_CHECKS = (
    "check_no_window_costs_more_than_promised",
    "check_relabelling_keys_relabels_the_output",
    "check_memory_does_not_grow",
)
"""Checks that take most of the time of a lab check. They come last."""

SAMPLED_RUNS, SAMPLED_RUNS_BY_KEY = 3_000, 20_000

Kind: TypeAlias = Literal["convicted", "refused", "crashed", "acquitted", "not judged"]

PRELOADED = (
    "numpy",
    "scipy.stats",
    "scipy.special",
    "hypothesis",
    "hypothesis.strategies",
    "msgspec",
    "cryptography.hazmat.primitives.ciphers",
    "tests.mutants.judges",
)
"""Modules that are imported once for all mutants."""

FOUND = ("convicted", "refused", "crashed")
"""Outcomes that count as found. A refusal and a crash publish nothing."""


@dataclass(frozen=True)
class Finding:
    """What one judge says of one subject.

    Parameters
    ----------
    judge : str
        The judge.
    subject : str
        The subject.
    kind : str
        `convicted`, `refused`, `crashed`, `acquitted` or `not judged`.
    why : str
        The reason, in one line.
    """

    judge: str
    subject: str
    kind: Kind
    why: str = ""


def lab_check(name: str) -> Finding:
    """`penstock lab check --quick`, until a check fails."""
    from penstock.lab.audit.subjects import subject
    from penstock.lab.checks import CHECKS

    return _of_checks(name, CHECKS, type(subject(name).mechanism))


def histogram_check(name: str) -> Finding:
    """`penstock lab check --histogram --quick`, until a check fails."""
    from penstock.lab.histogram_checks import HISTOGRAM_CHECKS
    from penstock.private.histograms.registry import HISTOGRAMS

    return _of_checks(name, HISTOGRAM_CHECKS, HISTOGRAMS[name]())


def _of_checks(name: str, checks: Iterable[Callable[..., None]], about: object) -> Finding:
    from penstock.lab.checks import run_all

    for check in sorted(checks, key=lambda each: each.__name__ in SLOW_CHECKS):
        (result,) = run_all([check], about, quick=True, progress=None)
        if not result.ok:
            return Finding("lab check", name, "convicted", result.message.partition("\n")[0])
    return Finding("lab check", name, "acquitted")


def replay(name: str, replays: int = QUICK) -> Finding:
    """`penstock audit NAME --replay`."""
    from penstock.lab.audit.replay import replay_audit
    from penstock.lab.audit.subjects import subject

    found = replay_audit(subject(name), replays=replays, seed=SEED)
    return Finding("replay", name, found.outcome, found.sentence())


def first_replay(name: str) -> Finding:
    """The same with a few transcripts, which find plain mistakes within a second."""
    return replay(name, FIRST)


def long_replay(name: str) -> Finding:
    """The same with as many transcripts as an audit has by default."""
    return replay(name, LONG)


def noise(name: str) -> Finding:
    """`penstock audit NAME --noise`."""
    from penstock.lab.audit.noise_audit import noise_audit
    from penstock.lab.audit.subjects import subject

    found = noise_audit(subject(name))
    return Finding("noise audit", name, found.outcome, found.sentence())


def bounding(name: str) -> Finding:
    """`penstock audit --bounding`."""
    try:
        from penstock.lab.audit import bounding_audit
    except ImportError:
        return Finding("bounding audit", name, "not judged", "there is no bounding audit yet")
    found = bounding_audit.bounding_audit(seed=SEED, rounds=bounding_audit.QUICK_ROUNDS)
    return Finding("bounding audit", name, found.outcome, found.sentence())


def sampled(name: str) -> Finding:
    """`penstock audit NAME`, the part that samples."""
    from penstock.lab.audit.engine import audit
    from penstock.lab.audit.subjects import subject

    runs = SAMPLED_RUNS_BY_KEY if subject(name).mechanism.by_key else SAMPLED_RUNS
    verdict = audit(subject(name, runs=runs), confidence=0.999999, seed=SEED, workers=1)
    kind: Kind = "convicted" if verdict.convicted else "acquitted"
    why = f"found ε ≥ {verdict.lower_bound:.3f} (promised: {float(verdict.claimed):g})"
    return Finding("audit", name, kind, why)


JUDGES: dict[str, Callable[[str], Finding]] = {
    "bounding": bounding,
    "histogram check": histogram_check,
    "first replay": first_replay,
    "lab check": lab_check,
    "noise": noise,
    "replay": replay,
    "long replay": long_replay,
    "sampled": sampled,
}
"""All judges by name, the cheapest first."""


def findings(order: list[tuple[str, list[str]]], *, every: bool) -> Iterator[Finding]:
    """Ask judge after judge. Stop at the first that finds the mutant, unless all are asked.

    Parameters
    ----------
    order : list of (str, list of str)
        The judges, each with its subjects.
    every : bool
        Whether every judge is asked. A judge still stops at the first subject that it convicts.
    """
    for judge, subjects in order:
        for name in subjects:
            try:
                found = JUDGES[judge](name)
            except Exception as error:  # the mutant may fail anywhere
                last = traceback.extract_tb(error.__traceback__)[-1]
                why = f"{type(error).__name__}: {error} ({last.name})".partition("\n")[0]
                found = Finding(judge, name, "crashed", why)
            yield found
            if found.kind in FOUND:
                if not every:
                    return
                break


def judge_planted(
    planted: str, order: list[tuple[str, list[str]]], every: bool, teller: Connection
) -> None:
    """Ask the judges in this process, in which Penstock is imported from a folder.

    Parameters
    ----------
    planted : str
        The folder of the package with the fault.
    order, every
        As `findings` takes them.
    teller : Connection
        Each finding is sent there, as a dict.
    """
    assert "penstock" not in sys.modules
    sys.dont_write_bytecode = True
    sys.path.insert(0, planted)
    os.environ["PYTHONPATH"] = planted
    with teller:
        for found in findings(order, every=every):
            teller.send(asdict(found))
