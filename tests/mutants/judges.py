"""The judges of a mutant. They run in a process of their own, in which the mutant is planted.

`python -m tests.mutants.judges` reads the order of judges and subjects from standard input, and
writes one line of JSON per finding. The cheapest judges come first.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

SEED = 11
"""The seed of replays and sampled audits, so that a score can be repeated."""

QUICK, LONG = 60, 400
"""Transcripts of the first and of the second replay. The second is that of `penstock audit`."""

SAMPLED_RUNS, SAMPLED_RUNS_BY_KEY = 3_000, 20_000

Kind: TypeAlias = Literal["convicted", "refused", "crashed", "acquitted", "not judged"]

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

    for check in checks:
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
    "lab check": lab_check,
    "replay": replay,
    "noise": noise,
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


def main() -> None:
    asked = json.load(sys.stdin)
    for found in findings([tuple(each) for each in asked["order"]], every=asked["every"]):
        print(json.dumps(asdict(found)), flush=True)


if __name__ == "__main__":
    main()
