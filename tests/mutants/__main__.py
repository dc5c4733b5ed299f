"""Plant every mutant in a copy of the source and see who convicts it.

`python -m tests.mutants --help`
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.mutants.catalogue import MUTANTS
from tests.mutants.judges import FOUND, JUDGES, PRELOADED, Finding, judge_planted
from tests.mutants.mutant import PACKAGE, ROOT, Mutant, compiled_package

SECONDS = 300
"""The longest time that the judges have for one mutant, and the unit tests again."""

WITHOUT_TESTS = 0.9
"""The share of mutants that must be found without unit tests."""

KEPT = ROOT / "out" / "mutants.jsonl"
"""Where finished verdicts are kept."""


@dataclass
class Score:
    """Who finds a mutant.

    Parameters
    ----------
    mutant : Mutant
        The mutant.
    findings : list of Finding
        What the judges said, in order.
    seconds : float
        How long it took.
    """

    mutant: Mutant
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def first(self) -> Finding | None:
        """The first finding that convicts it, or that shows a refusal or a crash."""
        return next((each for each in self.findings if each.kind in FOUND), None)

    @property
    def judge(self) -> str:
        """Who found it first: a judge, `unit tests` or `nobody`."""
        return "nobody" if self.first is None else self.first.judge

    @property
    def found(self) -> bool:
        """Whether a judge found it, without unit tests."""
        return self.judge not in ("nobody", "unit tests")

    def row(self) -> dict[str, object]:
        """The score as plain data."""
        return {
            "name": self.mutant.name,
            "file": self.mutant.file,
            "operator": self.mutant.operator,
            "about": self.mutant.about,
            "equivalent": self.mutant.equivalent,
            "judge": self.judge,
            "findings": [asdict(each) for each in self.findings],
            "seconds": round(self.seconds, 1),
        }


def digest_of_source() -> str:
    """A digest of the package and of the judges, on which verdicts depend."""
    digest = hashlib.sha256()
    for path in (*sorted(PACKAGE.rglob("*.py")), Path(__file__).with_name("judges.py")):
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def kept_scores(path: Path, wanted: list[Mutant], source: str | None) -> dict[str, Score]:
    """The verdicts in a file of an earlier run that still hold.

    Parameters
    ----------
    path : Path
        The file, one JSON row per verdict. It need not exist.
    wanted : list of Mutant
        The mutants. A verdict on another text of a mutant is not used.
    source : str or None
        Only verdicts on this source are used; None takes those on any source.
    """
    mutants = {each.name: each for each in wanted}
    kept: dict[str, Score] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            row = json.loads(line)
        except ValueError:  # the last line of a run that was killed
            continue
        mutant = mutants.get(row["name"])
        if mutant is None or row["digest"] != mutant.digest:
            continue
        findings = [Finding(**each) for each in row["findings"]]
        ended = all(each.kind != "not judged" for each in findings)
        if ended and source in (None, row["source"]):
            kept[mutant.name] = Score(mutant, findings, row["seconds"])
    return kept


def order_of(mutant: Mutant, judges: list[str]) -> list[tuple[str, list[str]]]:
    """The judges of a mutant, the cheapest first, each with the subjects that it concerns."""
    order = []
    for judge in judges:
        names = mutant.histograms if judge == "histogram check" else mutant.subjects
        if mutant.operator == "bounding":
            names = ("bounding",)
        if names and (judge == "bounding") == (mutant.operator == "bounding"):
            order.append((judge, list(names)))
    return order


def judged(
    mutant: Mutant,
    *,
    judges: list[str],
    package: Path = PACKAGE,
    every: bool = False,
    tests: bool = False,
    seconds: float = SECONDS,
) -> Score:
    """Plant a mutant and ask the judges; if none finds it, run its unit tests.

    Parameters
    ----------
    mutant : Mutant
        The mutant.
    judges : list of str
        The judges, in order.
    package : Path
        The package without the fault. Default: that of the checkout.
    every : bool
        Whether all judges are asked, not only until one finds it. Default: False.
    tests : bool
        Whether unit tests are run if no judge finds it. Default: False.
    seconds : float
        The limit of time. Default: 300.
    """
    score, began = Score(mutant), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="penstock-mutant-") as folder:
        planted = str(mutant.plant(Path(folder), package))
        score.findings = _findings(planted, order_of(mutant, judges), every, seconds)
        if tests and (every or score.first is None):
            score.findings.append(_unit_tests(mutant, planted, seconds))
    score.seconds = time.monotonic() - began
    return score


def _findings(
    planted: str, order: list[tuple[str, list[str]]], every: bool, seconds: float
) -> list[Finding]:
    """What the judges say, in a process of their own; a process that takes too long is ended."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(list(PRELOADED))
    hearer, teller = server.Pipe(duplex=False)
    process = server.Process(target=judge_planted, args=(planted, order, every, teller))
    process.start()
    teller.close()
    found: list[Finding] = []
    end = time.monotonic() + seconds
    with hearer:
        while hearer.poll(max(0.0, end - time.monotonic())):
            try:
                found.append(Finding(**hearer.recv()))
            except EOFError:
                break
        else:
            process.kill()
            why = f"no verdict after {seconds:.0f} seconds"
            found.append(Finding("all", "", "not judged", why))
    process.join()
    if process.exitcode and found[-1:] != [] and found[-1].judge == "all":
        return found
    if process.exitcode:
        found.append(Finding("import", "", "crashed", f"the process ended with {process.exitcode}"))
    return found


def _unit_tests(mutant: Mutant, planted: str, seconds: float) -> Finding:
    paths = os.pathsep.join([planted, str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-n", "0", "-x", "-q", "-p", "no:cacheprovider"]
    try:
        ended = subprocess.run(
            [*command, *mutant.test_paths],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Finding("unit tests", "", "not judged", f"no verdict after {seconds:.0f} seconds")
    failed = [line for line in ended.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if ended.returncode == 1 or failed:
        return Finding("unit tests", "", "convicted", failed[0] if failed else "a test fails")
    return Finding("unit tests", "", "acquitted")


def table(scores: list[Score]) -> str:
    """The report as Markdown: one row per mutant, then the score by judge."""
    lines = ["| mutant | file | found by | reason |", "| --- | --- | --- | --- |"]
    for score in scores:
        first = score.first
        how = score.judge
        if first is not None and first.kind != "convicted":
            how = f"{how}: {first.kind}"
        why = score.mutant.about if first is None else first.why
        if score.mutant.equivalent:
            how, why = "equivalent", score.mutant.equivalent
        cells = (score.mutant.name, score.mutant.file, how, _cell(why))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", by_judge(scores)])


def _cell(text: str) -> str:
    text = text.replace("|", "\\|").replace("\n", " ")
    return text if len(text) <= 160 else f"{text[:157]}..."


def by_judge(scores: list[Score]) -> str:
    """How many mutants each judge found first, as Markdown."""
    counted = [score for score in scores if not score.mutant.equivalent]
    tally: dict[str, list[int]] = {}
    for score in counted:
        row = tally.setdefault(score.judge, [0, 0])
        row[score.first is not None and score.first.kind != "convicted"] += 1
    lines = ["| found first by | convicted | refused or crashed |", "| --- | --- | --- |"]
    for judge, (convicted, stopped) in sorted(tally.items(), key=lambda each: -sum(each[1])):
        lines.append(
            f"| {judge} | {convicted} | {stopped} |"
            if judge != "nobody"
            else f"| nobody | {stopped + convicted} mutants | |"
        )
    found = sum(score.found for score in counted)
    lines += ["", f"{found} of {len(counted)} mutants found without unit tests"]
    lines[-1] += f" ({found / max(1, len(counted)):.0%}); {len(scores) - len(counted)} equivalent."
    return "\n".join(lines)


def chosen(patterns: list[str]) -> list[Mutant]:
    """The mutants whose name, file or operator fits one of the patterns; all without a pattern."""
    return [
        each
        for each in MUTANTS
        if not patterns
        or any(
            fnmatch.fnmatch(text, pattern)
            for pattern in patterns
            for text in (each.name, each.file, each.operator)
        )
    ]


def judge_all(asked: argparse.Namespace) -> list[Score]:
    """All chosen mutants, several at a time, with a line per mutant on standard error.

    Finished verdicts are appended to the file `--keep`, and the same command goes on from there.
    Several commands may share the file: none judges what another has finished.
    """
    wanted, source = chosen(asked.only), digest_of_source()
    scores: dict[str, Score] = {}

    def judge(mutant: Mutant) -> Score:
        kept = kept_scores(asked.keep, [mutant], None if asked.older else source)
        if mutant.name in kept:
            return kept[mutant.name]
        score = judged(
            mutant,
            judges=asked.judge or list(JUDGES),
            package=package,
            every=asked.every_judge,
            tests=asked.tests,
            seconds=asked.seconds,
        )
        _keep(asked.keep, score, source)
        return score

    with (
        tempfile.TemporaryDirectory(prefix="penstock-mutants-") as folder,
        ThreadPoolExecutor(asked.jobs) as pool,
    ):
        package = compiled_package(Path(folder))
        for done in as_completed([pool.submit(judge, each) for each in wanted]):
            score = done.result()
            scores[score.mutant.name] = score
            why = "" if score.first is None else f"{score.first.kind}: {score.first.why}"
            print(
                f"{len(scores)} of {len(wanted)}: {score.mutant.name}: {score.judge}, "
                f"{score.seconds:.0f} s. {why[:150]}",
                file=sys.stderr,
                flush=True,
            )
    return [scores[each.name] for each in wanted]


def _keep(path: Path, score: Score, source: str) -> None:
    row = {**score.row(), "digest": score.mutant.digest, "source": source}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    add = parser.add_argument
    add("--only", action="append", default=[], help="a name, file or operator; * fits all")
    add("--list", action="store_true", help="list the mutants and end")
    add("--json", type=Path, help="write all findings to this file")
    add("--report", type=Path, help="write the table to this file, too")
    add("--judge", action="append", choices=list(JUDGES), help="ask these judges; default: all")
    add("--every-judge", action="store_true", help="ask all judges, not only until one convicts")
    add("--no-tests", dest="tests", action="store_false", help="run no unit tests")
    add("--keep", type=Path, default=KEPT, help="finished verdicts; the same command goes on")
    add("--older", action="store_true", help="use kept verdicts on an older source, too")
    add("--jobs", type=int, default=os.cpu_count() or 1, help="how many mutants at a time")
    add("--seconds", type=float, default=SECONDS, help="the limit of time per mutant")
    asked = parser.parse_args()
    if asked.list:
        for each in chosen(asked.only):
            print(f"{each.name:38} {each.operator:12} {each.file}\n    {each.about}")
        return 0
    began = time.monotonic()
    scores = judge_all(asked)
    if asked.json is not None:
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps([score.row() for score in scores], indent=1) + "\n")
    text = table(scores)
    if asked.report is not None:
        asked.report.parent.mkdir(parents=True, exist_ok=True)
        asked.report.write_text(text + "\n", encoding="utf-8")
    print(text)
    print(f"{time.monotonic() - began:.0f} seconds.")
    counted = [score for score in scores if not score.mutant.equivalent]
    enough = sum(score.found for score in counted) >= WITHOUT_TESTS * len(counted)
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main())
