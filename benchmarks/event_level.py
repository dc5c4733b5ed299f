"""How wrong event-level releases are: the family on real and simulated streams, as one page with figures.

    python benchmarks/event_level.py [--runs 20] [--quick] [--only counts windows rg hierarchy alerts] [--out docs/results]

Writes OUT/event-level.md, a table and a sentence a question, and the figures beside it. Real streams come from `PENSTOCK_DATA`
(or ../shared/data); without them only the simulated ones are run, and the page says so. Everything follows from --seed.
Started again after an interruption, it goes on from where it was.
Runs are laid side by side as keys, which is the same thing: these mechanisms treat every key by itself.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

import penstock as ps
from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.core.exact import exact
from penstock.lab import figures
from penstock.lab.campus import Campus
from penstock.lab.data import count_stream, folder
from penstock.private.mechanisms.base import Mechanism
from penstock.released.queries import Drop, Jump, LowSignal, SlidingSum, UnitCounts
from penstock.testing import TestNoise

EPSILONS = ("0.1", "0.01")
REAL = ("bike_low", "bike_med", "us_departures_high")
WIFI = {"wifi_low": 2_846, "wifi_med": 101_843, "wifi_high": 2_141_963}
SMOOTHED = (2, 4, 8, 16, 32)
WIDTHS = tuple(2**power for power in range(1, 11))
SHOWN = (2, 16, 64, 256, 1024)
ROOMS, CAMPUS_UNITS, CAMPUS_TOTAL = 128, 20_000, 646_254
ALERTS = {"us_departures_high": (12, 60, 12, 100), "wifi_high": (12, 20, 12, 60)}
"""Width and height of a jump and of a drop, width and height of a low signal."""

Row = dict[str, Any]


# -- streams and mechanisms --------------------------------------------------------------------------------------------


def stream_of(name: str, most: int | None) -> IntArray:
    """A stream by name, its first `most` units."""
    kind, _, level = name.partition(" ")
    if name in WIFI:
        return Campus(rooms=1, seed=1).counts(57_901, total=WIFI[name])[:most, 0]
    if kind == "constant":
        return np.full(4_000, int(level))[:most]
    if kind == "Poisson":
        return np.random.default_rng(11).poisson(float(level), 4_000)[:most]
    return count_stream(name)[:most]


def mechanism_of(name: str, epsilon: str) -> Mechanism[Any]:
    """`bs 8`, `sw_tree 64` and so on: a registered name and one parameter."""
    kind, _, value = name.partition(" ")
    parameters: dict[str, Callable[[], Mechanism[Any]]] = {
        "laplace": lambda: ps.Laplace(epsilon=epsilon),
        "bs": lambda: ps.BackwardSmoothing(epsilon=epsilon, over=int(value)),
        "pegasus": lambda: ps.Pegasus(epsilon=epsilon, theta=value) if value else ps.Pegasus(epsilon=epsilon),
        "rg": lambda: ps.RetroactiveGrouping(epsilon=epsilon),
        "rg_as_in_the_paper": lambda: ps.RetroactiveGrouping(epsilon=epsilon, watch="0.1", caution=0),
        "sw_tree": lambda: ps.WindowTree(epsilon=epsilon, span=int(value)),
        "kary": lambda: ps.SignedBlocks(epsilon=epsilon, span=int(value)),
    }
    return parameters[kind]()


def log_of(mechanism: Mechanism[Any], counts: IntArray, runs: int, seed: int) -> ps.Log:
    """The stream, released `runs` times side by side."""
    run = mechanism.run(runs, noise=TestNoise(seed))
    log = ps.Log.of(run)
    for count in counts.tolist():
        log.append(run.step(np.full(runs, count, np.int64)))
    return log


def window_sums(counts: IntArray, width: int) -> IntArray:
    """The true sums of `width` units, from the first full window on."""
    sums = np.concatenate([[0], np.cumsum(counts)])
    return np.asarray(sums[width:] - sums[:-width], np.int64)


# -- one piece of work each ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """A piece of work that another process can do."""

    question: str
    stream: str
    epsilon: str
    mechanism: str
    runs: int
    seed: int
    units: int | None


def work(task: Task) -> list[Row]:
    return {"counts": counts, "windows": windows, "rg": squared, "hierarchy": hierarchy, "alerts": alerts}[task.question](task)


def counts(task: Task) -> list[Row]:
    """Scaled L1 of unit counts; of PeGaSus and `laplace` also the mean L1 of window sums."""
    truth = stream_of(task.stream, task.units)
    log = log_of(mechanism_of(task.mechanism, task.epsilon), truth, task.runs, task.seed)
    error = np.abs(UnitCounts().series(log).estimate - truth[:, None])
    rows = [_row(task, "scaled L1", error.sum(axis=0) / truth.sum())]
    if task.mechanism in ("laplace", "pegasus", "pegasus 5"):
        for width in WIDTHS:
            if width <= len(truth):
                off = np.abs(SlidingSum(width).series(log).estimate - window_sums(truth, width)[:, None])
                rows.append(_row(task, f"window {width}", off.mean(axis=0)))
    return rows


def windows(task: Task) -> list[Row]:
    """Mean L1 of the window sums that a mechanism was built for: its noise does not depend on the stream."""
    mechanism = mechanism_of(task.mechanism, task.epsilon)
    width = int(task.mechanism.split()[1])
    truth = np.zeros(min(task.units or 12_000, max(8 * width, 4_000)), np.int64)
    log = log_of(mechanism, truth, task.runs, task.seed)
    return [_row(task, f"window {width}", np.abs(SlidingSum(width).series(log).estimate).mean(axis=0))]


def squared(task: Task) -> list[Row]:
    """Mean squared error of unit counts."""
    truth = stream_of(task.stream, task.units)
    log = log_of(mechanism_of(task.mechanism, task.epsilon), truth, task.runs, task.seed)
    return [_row(task, "MSE", np.square(UnitCounts().series(log).estimate - truth[:, None]).mean(axis=0))]


def hierarchy(task: Task) -> list[Row]:
    """Mean L1 over all nodes of a binary tree over the rooms; every tree of a forest is a run."""
    campus = Campus(rooms=ROOMS, seed=1).counts(CAMPUS_UNITS, total=CAMPUS_TOTAL)[: task.units]
    one = ps.Hierarchy.binary([f"{room:03}" for room in range(ROOMS)])
    paths = {
        f"{run}.{key}": (f"run {run}", *path[1:])
        for run in range(task.runs)
        for key, path in zip(one.keys, one.paths, strict=True)
    }
    forest = ps.Hierarchy.of(paths)
    if task.mechanism == "laplace":
        return [_row(task, "L1", _laplace_of_nodes(campus, forest, task))]
    kind, _, rule = task.mechanism.partition(" ")
    mechanism: Mechanism[Any] = (
        ps.HierarchicalPegasus(epsilon=task.epsilon)
        if kind == "hs_pegasus"
        else ps.PrunedPegasus(epsilon=task.epsilon, rule=rule)  # type: ignore[arg-type]
    )
    run = mechanism.run(forest, noise=TestNoise(task.seed))
    error = np.zeros(run.released.size)
    for counts in campus:
        every = np.tile(counts, task.runs)
        error += np.abs(run.step(every).estimate - run.released.totals(every))
    return [_row(task, "L1", _by_tree(error / len(campus), forest))]


def _laplace_of_nodes(campus: IntArray, forest: ps.Hierarchy, task: Task) -> FloatArray:
    """Every node by itself, with ε divided by the height."""
    run = ps.Laplace(epsilon=exact(task.epsilon) / forest.height).run(forest.nodes.size, noise=TestNoise(task.seed))
    error = np.zeros(forest.nodes.size)
    for counts in campus:
        totals = forest.nodes.totals(np.tile(counts, task.runs))
        error += np.abs(run.step(totals).estimate - totals)
    return _by_tree(error / len(campus), forest)


def _by_tree(error: FloatArray, forest: ps.Hierarchy) -> FloatArray:
    """The mean over the nodes of each tree."""
    roots = [name.split("/")[0] for name in forest.nodes.keys]
    _, tree = np.unique(roots, return_inverse=True)
    return np.asarray(np.bincount(tree, error) / np.bincount(tree))


def alerts(task: Task) -> list[Row]:
    """False and true positive rates of jumps, drops and low signals, as the alarm's threshold varies."""
    truth = stream_of(task.stream, task.units)
    width, delta, low_width, low = ALERTS[task.stream]
    log = log_of(mechanism_of(task.mechanism, task.epsilon), truth, task.runs, task.seed)
    rows = []
    if not task.mechanism.startswith("sw_tree"):
        rise = truth[width - 1 :] - truth[: 1 - width]
        rows.append(_roc(task, f"jump by {delta} within {width}", rise >= delta, Jump(width, delta).series(log).score))
        rows.append(_roc(task, f"drop by {delta} within {width}", rise <= -delta, Drop(width, delta).series(log).score))
    event = window_sums(truth, low_width) < low
    rows.append(_roc(task, f"fewer than {low} in {low_width}", event, LowSignal(low_width, low).series(log).score))
    return rows


def _row(task: Task, measure: str, values: FloatArray) -> Row:
    """The mean over runs, and its standard error."""
    error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
    about = {"question": task.question, "stream": task.stream, "epsilon": task.epsilon, "mechanism": task.mechanism}
    return about | {"measure": measure, "value": float(values.mean()), "error": error, "runs": len(values)}


def _roc(task: Task, measure: str, event: BoolArray, score: FloatArray) -> Row:
    """True against false positive rates over all runs, and the area under the curve."""
    truth = np.broadcast_to(event[:, None], score.shape).ravel()
    order = np.argsort(-score.ravel(), kind="stable")
    hits, last = truth[order], score.ravel()[order]
    ends = np.append(np.flatnonzero(np.diff(last)), len(last) - 1)  # equal scores cannot be told apart
    true = np.concatenate([[0.0], np.cumsum(hits)[ends] / max(int(truth.sum()), 1)])
    false = np.concatenate([[0.0], np.cumsum(~hits)[ends] / max(int((~truth).sum()), 1)])
    at = np.linspace(0, 1, 401) ** 2
    row = _row(task, measure, np.array([np.sum(np.diff(false) * (true[1:] + true[:-1]) / 2)]))
    return row | {"share": float(event.mean()), "false": at.tolist(), "true": np.interp(at, false, true).tolist()}


# -- all of the work -----------------------------------------------------------------------------------------------------


def tasks(only: Sequence[str], *, runs: int, seed: int, quick: bool) -> Iterator[Task]:
    """Everything that is to be done, the longest first."""
    real = REAL if folder() is not None else ()
    units = 2_000 if quick else None
    streams = (*real, *WIFI)

    def each(question: str, stream: str, mechanisms: Sequence[str], how_many: int = runs) -> Iterator[Task]:
        for epsilon in EPSILONS:
            for mechanism in mechanisms:
                yield Task(question, stream, epsilon, mechanism, how_many, seed, units)

    if "hierarchy" in only:
        trees = max(2, runs // 5)
        yield from each("hierarchy", "campus", ("phs_pegasus noisy", "phs_pegasus privtree", "hs_pegasus", "laplace"), trees)
    if "counts" in only:
        for stream in streams:
            yield from each("counts", stream, ("pegasus", "pegasus 5", "laplace", *(f"bs {k}" for k in SMOOTHED)))
    if "alerts" in only:
        for stream in ALERTS:
            if stream in streams:
                yield from each(
                    "alerts", stream, ("pegasus", "pegasus 5", "laplace", f"sw_tree {ALERTS[stream][2]}"), max(2, runs // 4)
                )
    if "rg" in only:
        for stream in (*(f"constant {level}" for level in (5, 500)), *(f"Poisson {level}" for level in (5, 50, 500)), *streams):
            yield from each("rg", stream, ("laplace", "rg", "rg_as_in_the_paper"))
    if "windows" in only:
        for width in WIDTHS:
            yield from each("windows", "any", (f"sw_tree {width}", f"kary {width}"))


def done_once(task: Task, kept: Path) -> list[Row]:
    """The task's rows, from the folder of those that are done if they are there."""
    path = kept / f"{hashlib.sha256(repr(task).encode()).hexdigest()[:24]}.json"
    if not path.exists():
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(work(task)), encoding="utf-8")
        fresh.replace(path)
    rows: list[Row] = json.loads(path.read_text(encoding="utf-8"))
    return rows


def everything(todo: Sequence[Task], kept: Path) -> list[Row]:
    """All rows, on all cores, with a bar that says how long it will take."""
    kept.mkdir(parents=True, exist_ok=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    rows: list[Row] = []
    with ProcessPoolExecutor(os.cpu_count()) as pool, Progress(*columns) as progress:
        bar = progress.add_task("event level", total=len(todo))
        for done in pool.map(done_once, todo, [kept] * len(todo)):
            rows += done
            progress.advance(bar)
    return rows


# -- the page --------------------------------------------------------------------------------------------------------------


def find(rows: Sequence[Row], **facts: object) -> list[Row]:
    return [row for row in rows if all(row[name] == fact for name, fact in facts.items())]


def value(rows: Sequence[Row], **facts: object) -> float:
    found = find(rows, **facts)
    return float(found[0]["value"]) if found else float("nan")


def number(what: float) -> str:
    """Three significant digits."""
    if np.isnan(what):
        return "–"
    return f"{what:.3g}" if abs(what) < 1000 else f"{what:,.0f}"


def table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def counts_section(rows: Sequence[Row], units: int | None) -> str:
    names = ("laplace", *(f"bs {k}" for k in SMOOTHED), "pegasus 5", "pegasus")
    titles = ("`laplace`", *(f"`bs` {k}" for k in SMOOTHED), "`pegasus`, the paper's θ", "`pegasus`")
    here = find(rows, question="counts", measure="scaled L1")
    body, said = [], []
    for stream in dict.fromkeys(row["stream"] for row in here):
        truth = stream_of(stream, units)
        mean = float(np.abs(truth - truth.mean()).sum() / truth.sum())
        for epsilon in EPSILONS:
            found = {name: value(here, stream=stream, epsilon=epsilon, mechanism=name) for name in names}
            best = min(found, key=lambda name: found[name])
            cells = [f"**{number(found[name])}**" if name == best else number(found[name]) for name in names]
            body.append([stream, epsilon, *cells, "1", number(mean)])
            smoothed = min(found[f"bs {k}"] for k in SMOOTHED)
            trivial = [name for name, score in (("all zeros", 1.0), ("the long-run mean", mean)) if score < found[best]]
            words = f"{stream} at ε = {epsilon}: `{best}` is the best mechanism"
            words += f"; `pegasus` has {number(found['pegasus'] / smoothed)} × the error of the best `bs`"
            said.append(words + (f"; better than all of them: {' and '.join(trivial)}." if trivial else "."))
    text = """## Unit counts

Σ|ĉ − c| / Σc, mean over runs, no release is cut at 0. The last two columns need no mechanism: all zeros, and each stream's own
long-run mean, which is not private.

"""
    head = ["stream", "ε", *titles, "all zeros", "long-run mean"]
    return text + table(head, body) + "\n" + "\n".join(f"- {line}" for line in said) + "\n"


def windows_section(rows: Sequence[Row], out: Path) -> str:
    streams = list(dict.fromkeys(row["stream"] for row in find(rows, question="counts")))
    text = """## Sliding sums

Mean |error| of the sum of the last w units. `laplace` and `pegasus` (with the window-sum smoother) answer every width from one
release; `sw_tree` and `kary` are built for one width each, and their error is the same on every stream.

![Error of window sums against the window's width](event-level-windows.png)

"""
    lines = (("laplace", "`laplace`"), ("pegasus", "`pegasus`"), ("pegasus 5", "`pegasus`, paper's θ"))
    trees = (("sw_tree", "`sw_tree`"), ("kary", "`kary`"))
    body = []
    figure, axes = figures.new(len(EPSILONS), len(streams), width=3.1 * len(streams), height=5.6, sharex=True, squeeze=False)
    for i, epsilon in enumerate(EPSILONS):
        for j, stream in enumerate(streams):
            axis = axes[i, j]
            curves = {
                title: [value(rows, stream=stream, epsilon=epsilon, mechanism=name, measure=f"window {w}") for w in WIDTHS]
                for name, title in lines
            }
            curves |= {
                title: [value(rows, epsilon=epsilon, mechanism=f"{name} {w}", measure=f"window {w}") for w in WIDTHS]
                for name, title in trees
            }
            for colour, (title, curve) in zip(figures.COLOURS, curves.items(), strict=False):
                axis.loglog(WIDTHS, curve, color=colour, label=title.replace("`", ""), linewidth=1.5, base=2)
            axis.set_yscale("log")
            axis.set_title(f"{stream}, ε = {epsilon}", fontsize=9)
            axis.set_xlabel("width w" if i else "")
            axis.set_ylabel("" if j else "mean |error|")
            for width in SHOWN:
                at = {title: curve[WIDTHS.index(width)] for title, curve in curves.items()}
                best = min(at, key=lambda title: at[title])
                body.append(
                    [stream, epsilon, str(width)]
                    + [f"**{number(error)}**" if title == best else number(error) for title, error in at.items()]
                )
    axes[0, 0].legend(fontsize=7, frameon=False)
    figures.save(figure, out / "event-level-windows.png")
    return text + table(["stream", "ε", "w", *(title for _, title in (*lines, *trees))], body)


def rg_section(rows: Sequence[Row]) -> str:
    here = find(rows, question="rg")
    body, lost = [], []
    for stream in dict.fromkeys(row["stream"] for row in here):
        for epsilon in EPSILONS:
            base = value(here, stream=stream, epsilon=epsilon, mechanism="laplace")
            ours = value(here, stream=stream, epsilon=epsilon, mechanism="rg") / base
            theirs = value(here, stream=stream, epsilon=epsilon, mechanism="rg_as_in_the_paper") / base
            body.append([stream, epsilon, number(ours), number(theirs)])
            if ours > 1:
                lost.append(f"{stream} at ε = {epsilon}")
    text = """## Retroactive grouping

Mean squared error of unit counts, in multiples of `laplace`: `rg` as it is by default, and with the paper's parameters.

"""
    said = f"\n`rg` loses to `laplace` on: {', '.join(lost)}.\n" if lost else "\n`rg` loses to `laplace` on none of these.\n"
    return text + table(["stream", "ε", "`rg`", "`rg`, the paper's parameters"], body) + said


def hierarchy_section(rows: Sequence[Row], units: int | None) -> str:
    here = find(rows, question="hierarchy")
    campus = Campus(rooms=ROOMS, seed=1).counts(CAMPUS_UNITS, total=CAMPUS_TOTAL)[:units]
    tree = ps.Hierarchy.binary([f"{room:03}" for room in range(ROOMS)]).nodes
    totals = np.array([tree.totals(counts) for counts in campus])
    trivial = [number(float(totals.mean())), number(float(np.abs(totals - totals.mean(axis=0)).mean()))]
    names = {
        "laplace": "`laplace` per node",
        "hs_pegasus": "`hs_pegasus`",
        "phs_pegasus noisy": "`phs_pegasus`, noisy counts",
        "phs_pegasus privtree": "`phs_pegasus`, PrivTree",
    }
    body = []
    for epsilon in EPSILONS:
        found = {name: value(here, epsilon=epsilon, mechanism=name) for name in names}
        body.append([epsilon, *(number(found[name]) for name in names), *trivial])
        ratios = (found["laplace"] / found[name] for name in names)
        body.append(["laplace ÷ it", *(number(ratio) for ratio in ratios), "", ""])
    text = f"""## Hierarchies

A binary tree over {ROOMS} rooms of a simulated campus: mean |error| over all nodes and units. The paper's ratios, with a
pruning that is not private, are 78 (ε = 0.1) and 445 (ε = 0.01) for `laplace` ÷ `phs_pegasus`, and 4 and 9 for
`hs_pegasus` ÷ `phs_pegasus`. Most rooms are empty most of the time, so the two lines that need no mechanism are hard to beat.

"""
    return text + table(["ε", *names.values(), "all zeros", "long-run means (not private)"], body)


def alerts_section(rows: Sequence[Row], out: Path) -> str:
    here = find(rows, question="alerts")
    panels = list(dict.fromkeys((row["stream"], row["measure"]) for row in here))
    streams = list(dict.fromkeys(stream for stream, _ in panels))
    columns = max(sum(stream == of for of, _ in panels) for stream in streams)
    text = """## Alerts

True against false positive rates as the alarm's threshold varies. `sw_tree` releases window sums only, so it can tell low
signals but no jumps and drops. A large θ keeps units together that differ by less than the noise of a group's threshold:
the wrong choice for whoever looks for small and quick moves. Areas under the curves:

"""
    looks = {
        "pegasus 5": (figures.COLOURS[2], "pegasus, paper's θ"),
        "pegasus": (figures.COLOURS[0], "pegasus"),
        "laplace": (figures.COLOURS[1], "laplace"),
        "sw_tree": (figures.COLOURS[3], "sw_tree"),
    }
    body = []
    for stream in streams:
        figure, axes = figures.new(len(EPSILONS), columns, width=3.2 * columns, height=6.0, squeeze=False)
        measures = [measure for of, measure in panels if of == stream]
        for i, epsilon in enumerate(EPSILONS):
            for axis, measure in zip(axes[i], measures, strict=False):
                found = find(here, stream=stream, epsilon=epsilon, measure=measure)
                for row in found:
                    colour, title = next(look for name, look in looks.items() if row["mechanism"].startswith(name))
                    axis.plot(row["false"], row["true"], color=colour, label=f"{title} ({row['value']:.3f})", linewidth=1.5)
                axis.plot([0, 1], [0, 1], color=figures.FAINT, linewidth=1)
                axis.set_title(f"{measure}, ε = {epsilon}", fontsize=9)
                axis.set_xlabel("false positives")
                axis.set_ylabel("true positives")
                axis.legend(fontsize=7, frameon=False, loc="lower right")
                areas = {next(name for name in looks if row["mechanism"].startswith(name)): row["value"] for row in found}
                body.append(
                    [stream, epsilon, measure, f"{100 * found[0]['share']:.1f} %"]
                    + [_marked(areas.get(name, float("nan")), max(areas.values())) for name in looks]
                )
        figures.save(figure, out / f"event-level-alerts-{stream}.png")
    pictures = "".join(f"\n![ROC curves on {stream}](event-level-alerts-{stream}.png)\n" for stream in streams)
    return text + table(["stream", "ε", "event", "of all units", *(title for _, title in looks.values())], body) + pictures


def _marked(area: float, best: float) -> str:
    return f"**{number(area)}**" if area == best else number(area)


def page(rows: Sequence[Row], out: Path, *, command: str, runs: int, units: int | None) -> str:
    missing = "" if folder() is not None else "\n**The real streams were not there, so only simulated ones were run.**\n"
    parts = [
        f"""# Event level: how wrong the releases are

Made by `{command}`; {runs} runs (trees and alerts: fewer), guarantee (ε, w = 1) for all. The streams
`bike_*` and `us_departures_high` are real; `wifi_*` are simulated occupancy with the totals that the PeGaSus paper prints.
{missing}"""
    ]
    have = {row["question"] for row in rows}
    parts += [counts_section(rows, units)] if "counts" in have else []
    parts += [windows_section(rows, out)] if {"counts", "windows"} <= have else []
    parts += [rg_section(rows)] if "rg" in have else []
    parts += [hierarchy_section(rows, units)] if "hierarchy" in have else []
    parts += [alerts_section(rows, out)] if "alerts" in have else []
    return "\n".join(parts)


QUESTIONS = ("counts", "windows", "rg", "hierarchy", "alerts")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20, help="how often every stream is released (20)")
    parser.add_argument("--seed", type=int, default=1, help="of the noise (1)")
    parser.add_argument("--quick", action="store_true", help="the first 2,000 units of every stream")
    parser.add_argument("--only", nargs="+", choices=QUESTIONS, default=QUESTIONS, help="some of the questions")
    parser.add_argument("--out", type=Path, default=Path("docs/results"), help="the folder to write to (docs/results)")
    parser.add_argument(
        "--kept", type=Path, default=Path("out/event-level"), help="what is done is kept here; delete it to begin anew"
    )
    given = parser.parse_args()
    todo = list(tasks(given.only, runs=given.runs, seed=given.seed, quick=given.quick))
    rows = everything(todo, given.kept)
    given.out.mkdir(parents=True, exist_ok=True)
    command = shlex.join(["python", "benchmarks/event_level.py", *sys.argv[1:]])
    text = page(rows, given.out, command=command, runs=given.runs, units=2_000 if given.quick else None)
    (given.out / "event-level.md").write_text(text, encoding="utf-8")
    print(f"{given.out / 'event-level.md'}: {len(rows)} rows")


if __name__ == "__main__":
    main()
