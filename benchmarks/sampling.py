"""How wrong range counts of sampled releases are: `dsft` and `dsat` beside the rest, as one page with figures.

    python benchmarks/sampling.py [--runs 5] [--quick] [--only share threshold epsilon …] [--json] [--out docs/results]

Writes OUT/sampling.md, a figure, a table and a sentence a question, as figures 2 to 9 of Li et al., CIKM 2015 ask them. Real
streams come from `PENSTOCK_DATA` (or ../shared/data); without them only the simulated ones are run, and the page says so.
Everything follows from --seed. What is done is kept, one line of JSON a piece, so that a second start goes on from there; the
page has every question whose pieces are all there.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from scipy.stats import t as student

import penstock as ps
from penstock.core.arrays import FloatArray, IntArray
from penstock.core.errors import ConfigurationError
from penstock.core.product import Product
from penstock.lab import figures
from penstock.lab.census import ATTRIBUTES, Census
from penstock.lab.data import births_by_day, flights_by_hour, folder
from penstock.lab.fleet import Fleet, Roads
from penstock.lab.workload import Workload
from penstock.private.histograms.base import Histogram
from penstock.private.histograms.greedy import Greedy
from penstock.private.histograms.kd_tree import KdTree
from penstock.private.histograms.plain import Plain
from penstock.private.histograms.quad_tree import QuadTree
from penstock.private.mechanisms.base import Mechanism
from penstock.private.mechanisms.dsat import AdaptiveThreshold
from penstock.private.mechanisms.dsft import FixedThreshold
from penstock.private.mechanisms.fixed import FixedSampling
from penstock.testing import NoNoise, TestNoise

EPSILONS = ("0.01", "0.03", "0.1", "0.3", "1", "3")
TABLED = ("0.1", "0.3", "1", "3")
SHARES = ("0.001", "0.003", "0.01", "0.03", "0.1", "0.3", "0.6", "0.9")
THRESHOLDS = ("0.001", "0.002", "0.005", "0.01", "0.02", "0.03", "0.05", "0.1", "0.2", "0.3", "0.5", "1")
RATES = ("0.001", "0.003", "0.01", "0.03", "0.1")
RELEASES = (2, 5, 10, 20, 40, 80)
SIZES = (1, 10, 100, 1000)
WINDOWS = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
"""As shares of the stream."""

MOST = 10
"""C, unless it is what varies."""
OFTEN = 40
"""C where ways to release one histogram are compared."""
CLOSE = 1.2
"""`dsat` is to be within 20 % of the best `dsft`."""

SAMPLED = ("dsft", "dsat", "fixed")
TRIVIAL = {"zeros": "all zeros", "mean": "long-run mean"}
PUBLIC = ("mean", "fixed, no noise", "dsat, no noise", "in hindsight, no noise")
"""Lines that are not private."""

Row = dict[str, Any]


# -- streams -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stream:
    """What is counted, by name, with how many units and how many people."""

    kind: str
    units: int
    people: int = 0
    attributes: int = 3
    rate: str = "0.01"
    side: int = 10

    @property
    def title(self) -> str:
        if self.kind == "census":
            return f"census, {self.attributes} attributes"
        return f"{self.kind} {self.side} × {self.side}" if self.kind in ("fleet", "roads") else self.kind


@dataclass(frozen=True)
class Setting:
    """How large the streams are and how many range counts are asked."""

    quick: bool
    runs: int
    seed: int

    @property
    def queries(self) -> int:
        return 200 if self.quick else 5_000

    def census(self, attributes: int = 3, rate: str = "0.01") -> Stream:
        units, people = (40, 5_000) if self.quick else (1_000, 500_000)
        return Stream("census", units, people, attributes=attributes, rate=rate)

    def fleet(self, side: int = 10) -> Stream:
        units, people = (48, 3_000) if self.quick else (168, 110_357)
        return Stream("fleet", units, people, side=side)

    def roads(self) -> Stream:
        units, people, side = (60, 2_000, 16) if self.quick else (1_000, 100_000, 32)
        return Stream("roads", units, people, side=side)

    def streams(self) -> list[Stream]:
        """One of each kind that a person may be in all units of."""
        units = 50 if self.quick else 1_000
        real = [Stream("flights2001", units), Stream("us_births", units)] if folder() is not None else []
        return [self.census(), self.fleet(), *real]


@lru_cache(maxsize=2)
def counts_of(stream: Stream) -> tuple[Product, Any]:
    """The keys and one row of counts a unit."""
    if stream.kind == "census":
        census = Census(people=stream.people, pool=6 * stream.people, attributes=stream.attributes, rate=float(stream.rate))
        return census.domain, census.counts(stream.units)
    if stream.kind == "fleet":
        fleet = Fleet(vehicles=stream.people, rows=stream.side, columns=stream.side)
        return fleet.domain, fleet.counts(stream.units)
    if stream.kind == "roads":
        roads = Roads(objects=stream.people, rows=stream.side, columns=stream.side)
        return roads.domain, roads.counts(stream.units)
    names, counts = flights_by_hour() if stream.kind == "flights2001" else births_by_day()
    return Product.of(names), counts[: stream.units]


@lru_cache(maxsize=3)
def answers_of(stream: Stream, queries: int, size: int | None) -> tuple[Workload, FloatArray]:
    """The range counts, and what is true of them in every unit."""
    domain, counts = counts_of(stream)
    workload = Workload.random(domain.shape, number=queries, seed=1, size=size)
    return workload, np.array([workload.answers(row) for row in counts], np.float64)


# -- one piece of work ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """One run of one mechanism on one stream."""

    stream: Stream
    mechanism: str
    epsilon: str
    window: int
    horizon: int | None
    queries: int
    releases: int = MOST
    decide: str | None = None
    threshold: str | None = None
    histogram: str = "plain"
    size: int | None = None
    seed: int = 0

    @property
    def fixed(self) -> bool:
        """Whether every run of it gives the same."""
        return self.mechanism in TRIVIAL or self.mechanism in PUBLIC

    @property
    def key(self) -> str:
        """What its result is kept under: all that it depends on, defaults of the mechanism too."""
        if self.mechanism in TRIVIAL:
            facts = {}
        elif self.mechanism.startswith("in hindsight"):
            facts = {"releases": str(self.releases)}
        else:
            facts = {name: str(value) for name, value in mechanism_of(self).configuration().items()}
        about = {"mechanism": self.mechanism, "queries": self.queries, "size": self.size, "seed": self.seed}
        return json.dumps([asdict(self.stream), about, facts], sort_keys=True)


def mechanism_of(cell: Cell) -> Mechanism[Any]:
    """The mechanism of a cell that has one, with the parameters that the cell gives."""
    quiet = cell.mechanism in PUBLIC
    # Without noise, ε is so large that no threshold allows for any.
    promise: dict[str, Any] = {"epsilon": 10**6 if quiet else cell.epsilon, "window": cell.window, "horizon": cell.horizon}
    asked = {name: getattr(cell, name) for name in ("decide", "threshold") if getattr(cell, name) is not None}
    histogram = HISTOGRAMS[cell.histogram]
    kinds: Mapping[str, Callable[[], Mechanism[Any]]] = {
        "baseline": lambda: ps.Uniform(**promise),
        "fixed": lambda: FixedSampling(**promise, every=-(-cell.window // cell.releases), histogram=histogram),
        "dsft": lambda: FixedThreshold(**promise, releases=cell.releases, **asked, histogram=histogram),
        "dsat": lambda: AdaptiveThreshold(**promise, releases=cell.releases, **asked, histogram=histogram),
        "bd": lambda: ps.BudgetDistribution(**promise),
        "ba": lambda: ps.BudgetAbsorption(**promise),
        "bd_grouped": lambda: ps.GroupedDistribution(**promise),
        "ba_grouped": lambda: ps.GroupedAbsorption(**promise),
    }
    return kinds[cell.mechanism.partition(",")[0]]()


HISTOGRAMS: Mapping[str, Histogram] = {"plain": Plain(), "quad tree": QuadTree(), "k-d tree": KdTree(), "greedy": Greedy()}


def work(cell: Cell) -> Row:
    """The mean errors of the cell's range counts, how many units it released, and the last of them."""
    domain, counts = counts_of(cell.stream)
    workload, truth = answers_of(cell.stream, cell.queries, cell.size)
    try:
        shown = list(shown_by(cell, domain, counts, truth))
    except ConfigurationError as refused:
        return {"refused": str(refused)}
    starts = [unit for unit, _ in shown]
    absolute = relative = 0.0
    for (start, values), end in zip(shown, [*starts[1:], len(counts)], strict=True):
        true = truth[start:end]
        off = np.abs(true - workload.answers(values))
        absolute += float(off.sum())
        relative += float((off / np.maximum(true, 1)).sum())
    means = {"absolute": absolute / truth.size, "relative": relative / truth.size}
    return means | {"releases": len(shown), "last": starts[-1] + 1}


def shown_by(cell: Cell, domain: Product, counts: IntArray, truth: FloatArray) -> Iterator[tuple[int, IntArray | FloatArray]]:
    """What is shown, and from which unit on."""
    if cell.mechanism == "zeros":
        yield 0, np.zeros(domain.size)
        return
    if cell.mechanism == "mean":
        yield 0, counts.mean(axis=0)
        return
    if cell.mechanism.startswith("in hindsight"):
        for unit in hindsight(truth[:, :HINTS], cell.releases):
            yield unit, counts[unit]
        return
    run = mechanism_of(cell).run(domain, noise=NoNoise() if cell.fixed else TestNoise(cell.seed))
    for unit, row in enumerate(counts):
        released = run.step(np.asarray(row, np.int64))
        if not np.all(released.repeated) or not unit:
            yield unit, released.estimate


HINTS = 200
"""So many range counts are enough to choose units by."""


def hindsight(truth: FloatArray, releases: int) -> list[int]:
    """The units whose exact release, each shown until the next, makes the error least: a bound for whoever may choose units."""
    units = len(truth)
    cost = np.full((units, units + 1), np.inf)  # of showing unit i for units i to j - 1
    for first in range(units):
        cost[first, first + 1 :] = np.abs(truth[first:] - truth[first]).mean(axis=1).cumsum()
    best = cost[0]
    choices = []
    for _ in range(releases - 1):
        total = best[:units, None] + cost
        total[0] = cost[0]  # the first unit is always shown
        choices.append(total.argmin(axis=0))
        best = total.min(axis=0)
    chosen, end = [], units
    for choice in reversed(choices):
        end = int(choice[end])
        chosen.append(end)
        if not end:
            break
    return sorted({0, *chosen})


# -- all of the work -----------------------------------------------------------------------------------------------------


def read(kept: Path) -> dict[str, Row]:
    """What is done; a line that was cut short is not."""
    found: dict[str, Row] = {}
    if kept.exists():
        for line in kept.read_text(encoding="utf-8").splitlines():
            try:
                key, row = json.loads(line)
            except ValueError:
                continue
            found[key] = row
    return found


def everything(todo: Sequence[Cell], kept: Path) -> None:
    """Do all cells on all cores, with a bar that says how long it will take; each is kept as soon as it is done."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    pool = ProcessPoolExecutor(os.cpu_count())
    try:
        with kept.open("a", encoding="utf-8") as file, Progress(*columns, console=console) as progress:
            bar = progress.add_task("sampling", total=len(todo))
            waiting = {pool.submit(work, cell): cell for cell in todo}
            file.write("\n")  # after a line that was cut short
            said = time.monotonic()
            for number, done in enumerate(as_completed(waiting), start=1):
                file.write(json.dumps([waiting[done].key, done.result()]) + "\n")
                file.flush()
                progress.advance(bar)
                if not console.is_terminal and time.monotonic() > said + 30:
                    said = time.monotonic()
                    print(f"{number} of {len(todo)} cells, now {waiting[done].stream.title}", file=sys.stderr, flush=True)
    finally:
        pool.shutdown(cancel_futures=True)


# -- the questions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Point:
    """One place on one line of one panel: the mean over the cell's runs."""

    panel: str
    line: str
    x: float
    cell: Cell
    runs: int
    measure: str = "absolute"

    def cells(self, seed: int) -> list[Cell]:
        """Its runs; one where all are the same."""
        return [replace(self.cell, seed=seed + run) for run in range(1 if self.cell.fixed else self.runs)]


@dataclass(frozen=True)
class Question:
    """A figure of the page: how its points are made, how it reads, what the paper says."""

    name: str
    heading: str
    words: str
    axis: str
    points: Callable[[Setting], Iterator[Point]]
    claim: str = ""
    rivals: tuple[str, ...] = ()
    """What `dsat` is said to be better than, at every point."""
    given: Callable[[Point], bool] = lambda point: True
    columns: int = 4
    linear: bool = False


def user_level(stream: Stream, setting: Setting, mechanism: str, epsilon: str = "1", **more: Any) -> Cell:
    return Cell(stream, mechanism, epsilon, stream.units, stream.units, setting.queries, **more)


def lines(panel: str, x: float, cell: Cell, names: Iterable[str], runs: int) -> Iterator[Point]:
    """The same cell with one mechanism after the other; trivial lines do not depend on what else the cell says."""
    for name in names:
        this = replace(cell, mechanism=name)
        if this.fixed:
            this = replace(this, epsilon="1", threshold=None, decide=None)
        if name in TRIVIAL:
            this = replace(this, window=cell.stream.units, horizon=cell.stream.units, releases=MOST)
        yield Point(panel, name, x, this, runs)


def share_points(setting: Setting) -> Iterator[Point]:
    for stream in (setting.census(), setting.fleet()):
        for share in SHARES:
            cell = user_level(stream, setting, "dsat")
            yield Point(stream.title, "dsat", float(share), replace(cell, decide=share), setting.runs)
            yield Point(stream.title, "dsat, its own k", float(share), cell, setting.runs)
            yield from lines(stream.title, float(share), cell, ("fixed", *TRIVIAL), setting.runs)


def threshold_points(setting: Setting) -> Iterator[Point]:
    runs = 2 * setting.runs  # the best of many thresholds is chosen from them
    for epsilon in TABLED:
        for stream in setting.streams():
            panel = f"{stream.title}, ε = {epsilon}"
            for threshold in THRESHOLDS:
                cell = user_level(stream, setting, "dsft", epsilon)
                begun = replace(cell, mechanism="dsat", threshold=threshold)
                yield Point(panel, "dsft", float(threshold), replace(cell, threshold=threshold), runs)
                yield Point(panel, "dsat, beginning at T", float(threshold), begun, setting.runs)
                yield from lines(panel, float(threshold), cell, ("dsat", "fixed", *TRIVIAL), runs)


COMPARED = ("dsat", "fixed", "baseline", "bd", "ba", *PUBLIC[1:], *TRIVIAL)


def epsilon_points(setting: Setting) -> Iterator[Point]:
    for stream in setting.streams():
        for epsilon in EPSILONS:
            cell = user_level(stream, setting, "dsat", epsilon)
            yield from lines(stream.title, float(epsilon), cell, COMPARED, setting.runs)


def rate_points(setting: Setting) -> Iterator[Point]:
    for rate in RATES:
        stream = setting.census(rate=rate)
        cell = user_level(stream, setting, "dsat")
        yield from lines(stream.title, float(rate), cell, COMPARED, setting.runs)


def releases_points(setting: Setting) -> Iterator[Point]:
    for stream in setting.streams():
        for releases in RELEASES:
            cell = user_level(stream, setting, "dsat", releases=min(releases, stream.units))
            yield from lines(stream.title, releases, cell, COMPARED, setting.runs)


def attributes_points(setting: Setting) -> Iterator[Point]:
    for attributes in range(1, len(ATTRIBUTES) + 1):
        stream = setting.census(attributes)
        cell = user_level(stream, setting, "dsat")
        runs = setting.runs if attributes < 5 else min(3, setting.runs)
        yield from lines("census", attributes, cell, COMPARED, runs)


def size_points(setting: Setting) -> Iterator[Point]:
    for measure in ("absolute", "relative"):
        for size in SIZES:
            cell = user_level(setting.census(), setting, "dsat", size=size)
            for point in lines(f"{setting.census().title}: {measure} error", size, cell, COMPARED, setting.runs):
                yield replace(point, measure=measure)


ENDLESS = ("dsat", "bd", "ba", "bd_grouped", "ba_grouped", "fixed", *TRIVIAL)


def window_points(setting: Setting) -> Iterator[Point]:
    stream = setting.roads()
    for share in WINDOWS:
        window = round(share * stream.units)
        cell = Cell(stream, "dsat", "1", window, None, setting.queries)
        yield from lines(f"{stream.title}, ε = 1", window, cell, ENDLESS, setting.runs)


def window_epsilon_points(setting: Setting) -> Iterator[Point]:
    stream = setting.roads()
    window = round(0.8 * stream.units)
    for epsilon in EPSILONS:
        cell = Cell(stream, "dsat", epsilon, window, None, setting.queries)
        yield from lines(f"{stream.title}, w = {window}", float(epsilon), cell, ENDLESS, setting.runs)


def histogram_points(setting: Setting) -> Iterator[Point]:
    for stream in (setting.fleet(), setting.fleet(16 if setting.quick else 32)):
        for epsilon in EPSILONS:
            cell = user_level(stream, setting, "dsat", epsilon, releases=OFTEN)
            for histogram in HISTOGRAMS:
                yield Point(stream.title, histogram, float(epsilon), replace(cell, histogram=histogram), setting.runs)
            yield from lines(stream.title, float(epsilon), cell, TRIVIAL, setting.runs)


QUESTIONS = (
    Question(
        "share",
        "The share of ε for questions (figure 2)",
        "`dsat` with `decide` = k, beside the share that it takes by itself.",
        "k",
        share_points,
        "the error is least for k between 0.01 and 0.1",
    ),
    Question(
        "threshold",
        "The threshold (figure 3)",
        f"`dsft` with every T of a grid, `dsat` beside it; C = {MOST} for all. Twice as many runs of them as elsewhere. The "
        "best T is chosen in hindsight, from the same runs, which nobody who has to keep a promise can do.",
        "threshold T, as a share of n",
        threshold_points,
        "`dsat` is close to the best `dsft`, whatever T it begins with",
    ),
    Question(
        "epsilon",
        "The privacy budget (figure 4)",
        f"C = {MOST} for `dsat` and `fixed`; `baseline` is `uniform`. Without noise, both show the exact counts of the units "
        "that they choose; in hindsight, of the units that suit the first 200 range counts best: what choosing units can gain.",
        "ε",
        epsilon_points,
        "`dsat` is better than fixed sampling, and both are better than the baseline by far",
        ("fixed", "baseline"),
    ),
    Question(
        "rate",
        "The update rate (figure 5)",
        "The share of the people who are replaced in a unit, on average over ten periods.",
        "update rate",
        rate_points,
        "`dsat` is better than fixed sampling, even than that without noise",
        ("fixed", "fixed, no noise"),
    ),
    Question(
        "releases",
        "The number of releases",
        "C for `dsat` and `fixed`. The paper has a figure of this in its analysis only.",
        "releases C",
        releases_points,
    ),
    Question(
        "attributes",
        "The number of attributes (figure 6)",
        "The same people counted by their first k attributes: "
        + ", ".join(f"{np.prod(list(ATTRIBUTES.values())[: k + 1]):,}" for k in range(len(ATTRIBUTES)))
        + " cells. At most 3 runs for 5 and 6.",
        "attributes",
        attributes_points,
        "from 3 to 6 attributes, `dsat` is better than fixed sampling, even than that without noise",
        ("fixed", "fixed, no noise"),
        lambda point: point.x >= 3,
        linear=True,
    ),
    Question(
        "size",
        "The size of a range count (figure 7)",
        "Range counts over so many cells. Relative errors are to the true answer, or to 1 where that is larger.",
        "cells in a range",
        size_points,
        "`dsat` is better than fixed sampling at every size",
        ("fixed",),
    ),
    Question(
        "window",
        "The window (figure 8)",
        f"The endless form: any w units are protected, the stream goes on. C = {MOST} a window for `dsat` and `fixed`.",
        "window w",
        window_points,
        "`dsat` is better than `bd` and `ba`, the more so the longer the window",
        ("bd", "ba"),
    ),
    Question(
        "window-epsilon",
        "The privacy budget in a long window (figure 9)",
        "As before, with w = 800 of 1,000 units.",
        "ε",
        window_epsilon_points,
        "`dsat` is better than `bd` and `ba`, the more so the smaller ε",
        ("bd", "ba"),
    ),
    Question(
        "histogram",
        "How a unit is released (figure 4c)",
        f"`dsat` with each way to release one histogram, on the fleet's grid and on a finer one; C = {OFTEN}, so that noise "
        "and not the choice of units makes the difference.",
        "ε",
        histogram_points,
        "a private spatial decomposition improves on plain noise",
    ),
)


# -- the page --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Value:
    """A point's mean, half the width of its 95 % interval, the mean number of releases, and the mean last unit of one."""

    point: Point
    mean: float
    half: float
    releases: float
    last: float


def values_of(question: Question, setting: Setting, rows: Mapping[str, Row]) -> list[Value] | None:
    """The question's points with their values, or nothing if some are not done."""
    found = []
    for point in question.points(setting):
        have = [rows.get(cell.key) for cell in point.cells(setting.seed)]
        done = [row for row in have if row is not None]
        if len(done) < len(have):
            return None
        each = [[row[what] for what in (point.measure, "releases", "last")] for row in done if "refused" not in row]
        values, releases, last = np.array(each).T if each else np.full((3, 1), np.nan)
        half = student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
        found.append(Value(point, float(values.mean()), float(half), float(releases.mean()), float(last.mean())))
    return found


def number(what: float) -> str:
    """Three significant digits."""
    if np.isnan(what):
        return "–"
    return f"{what:.3g}" if abs(what) < 999.5 else f"{what:,.0f}"


def table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def private(line: str) -> bool:
    """Whether a line is a mechanism's, and keeps its promise."""
    return line not in TRIVIAL and line not in PUBLIC


def shown(line: str) -> str:
    """A line's name as it is printed."""
    return TRIVIAL.get(line, line) + (" †" if line in PUBLIC else "")


def places(values: Sequence[Value]) -> dict[tuple[str, float], dict[str, Value]]:
    """The lines at each place of each panel."""
    found: dict[tuple[str, float], dict[str, Value]] = {}
    for value in values:
        found.setdefault((value.point.panel, value.point.x), {})[value.point.line] = value
    return found


def best_of(at: Mapping[str, Value]) -> str:
    """The private line that is least wrong."""
    return min((line for line in at if private(line)), key=lambda line: np.nan_to_num(at[line].mean, nan=np.inf))


def value_table(question: Question, values: Sequence[Value]) -> str:
    names = list(dict.fromkeys(value.point.line for value in values))
    body = []
    for (panel, x), at in places(values).items():
        best = best_of(at)
        cells = [_cell(at.get(name), bold=name == best) for name in names]
        body.append([panel, f"{x:g}", *cells])
    return table(["stream", question.axis, *(shown(name) for name in names)], body)


def _cell(value: Value | None, *, bold: bool) -> str:
    if value is None or np.isnan(value.mean):
        return "–"
    text = number(value.mean) + (f" ± {number(value.half)}" if value.half else "")
    return f"**{text}**" if bold else text


def winners(values: Sequence[Value]) -> list[str]:
    """A sentence a panel: who is least wrong how often, and where no mechanism was needed."""
    said = []
    for panel in dict.fromkeys(value.point.panel for value in values):
        here = {x: at for (of, x), at in places(values).items() if of == panel}
        best = {x: best_of(at) for x, at in here.items()}
        wins = {name: [x for x in best if best[x] == name] for name in dict.fromkeys(best.values())}
        words = "; ".join(
            f"`{name}` is the best mechanism" + ("" if len(wins) == 1 else f" at {_list(f'{x:g}' for x in xs)}")
            for name, xs in wins.items()
        )
        for line, name in TRIVIAL.items():
            beaten = [x for x, at in here.items() if line in at and at[line].mean < at[best[x]].mean]
            if beaten:
                words += f"; {name} is better than the best of them" + (
                    " everywhere" if len(beaten) == len(here) else f" at {_list(f'{x:g}' for x in beaten)}"
                )
        said.append(f"{panel}: {words}.")
    return said


def idle(values: Sequence[Value]) -> list[str]:
    """A sentence: which mechanisms that choose units released less than half as often as they might have."""
    rare: dict[tuple[str, str], list[str]] = {}
    for value in values:
        point = value.point
        if (
            point.cell.mechanism == "dsat"
            and value.releases * point.cell.window < point.cell.releases * point.cell.stream.units / 2
        ):
            rare.setdefault((point.panel, point.line), []).append(f"{point.x:g} ({value.releases:.0f})")
    each = "; ".join(f"{panel}: `{line}` at {_list(where)}" for (panel, line), where in rare.items())
    return (
        [f"Fewer than half of the releases that there might have been (in brackets: how many there were): {each}."]
        if each
        else []
    )


def gains(values: Sequence[Value]) -> list[str]:
    """A sentence: how much of the error of fixed sampling it could save to choose units well, were there no noise."""
    saved: dict[str, tuple[float, float]] = {}
    for (panel, _), at in places(values).items():
        fixed = at["fixed, no noise"].mean
        saved[panel] = (1 - at["in hindsight, no noise"].mean / fixed, 1 - at["dsat, no noise"].mean / fixed)
    each = _list(f"{panel} {best:.0%} ({ours:.0%})".replace("%", " %") for panel, (best, ours) in saved.items())
    return [
        f"What the best choice of units in hindsight (in brackets: `dsat`) saves of fixed sampling's error, no noise: {each}."
    ]


def best_rows(values: Sequence[Value]) -> list[str]:
    """Who is least wrong in how many rows of the table of best thresholds, and where the best `dsft` soon stops."""
    at = list(best_thresholds(values).values())
    best = [best_of({line: row[line] for line in SAMPLED}) for row in at]
    wins = ", ".join(f"`{name}` in {best.count(name)}" for name in dict.fromkeys(best))
    words = f"Of {len(at)} rows, the best mechanism is {wins}"
    for line, name in TRIVIAL.items():
        beaten = sum(row[line].mean < row[which].mean for row, which in zip(at, best, strict=True))
        words += f"; {name} is better than the three of them in {beaten}"
    missed = [row for row in at if row["dsat"].mean > CLOSE * row["dsft"].mean]
    early, missed_early = (sum(10 * row["dsft"].last < row["dsft"].point.cell.window for row in rows) for rows in (at, missed))
    frozen = (
        f"In {early} rows the best `dsft` has made its last release within the first tenth of the stream, so that one early "
    )
    frozen += (
        f"histogram stands for all the rest; so in {missed_early} of the {len(missed)} rows where `dsat` is not within 20 %."
    )
    return [words + ".", frozen]


def _list(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def verdict(question: Question, values: Sequence[Value]) -> str:
    """Whether the paper's claim holds here."""
    if question.name == "share":
        return share_verdict(values)
    if question.name == "threshold":
        ratios = [found["dsat"].mean / found["dsft"].mean for found in best_thresholds(values).values()]
        within = sum(ratio <= CLOSE for ratio in ratios)
        begun = [at["dsat, beginning at T"].mean / at["dsat"].mean for at in places(values).values()]
        return (
            _held(within, len(ratios), "within 20 % of the best `dsft`")
            + f"; wherever on the grid it begins, it has {number(min(begun))} to {number(max(begun))} × its error by default"
        )
    if question.name == "histogram":
        at = list(places(values).values())
        return "; ".join(
            _held(sum(found[tree].mean < found["plain"].mean for found in at), len(at), f"the {tree} is better")
            for tree in ("quad tree", "k-d tree")
        )
    at = list(places([value for value in values if question.given(value.point)]).values())
    said = []
    for rival in question.rivals:
        ratios = [found[rival].mean / found["dsat"].mean for found in at]
        words = _held(sum(ratio > 1 for ratio in ratios), len(at), f"better than {shown(rival)}")
        if len({value.point.panel for value in values}) == 1:
            words += f" (its error is {number(ratios[0])} × that of `dsat` at the left, {number(ratios[-1])} × at the right)"
        said.append(words)
    return "; ".join(said)


def share_verdict(values: Sequence[Value]) -> str:
    said = []
    for panel in dict.fromkeys(value.point.panel for value in values):
        by_share = {value.point.x: value.mean for value in values if value.point.panel == panel and value.point.line == "dsat"}
        own = next(value.mean for value in values if value.point.panel == panel and value.point.line == "dsat, its own k")
        best = min(by_share, key=lambda x: by_share[x])
        said.append(
            f"{panel}: {'yes' if 0.01 <= best <= 0.1 else 'no'}, least at k = {best:g}; "
            f"its own share has {number(own / by_share[best])} × that error"
        )
    return "; ".join(said)


def _held(true: int, of: int, what: str) -> str:
    word = "yes" if true == of else "no" if not true else "partly"
    return f"{word}, {what} at {true} of {of} points"


def best_thresholds(values: Sequence[Value]) -> dict[str, dict[str, Value]]:
    """Of each panel the place with the best `dsft`."""
    found: dict[str, dict[str, Value]] = {}
    for (panel, _), at in places(values).items():
        if panel not in found or at["dsft"].mean < found[panel]["dsft"].mean:
            found[panel] = at
    return found


def threshold_table(values: Sequence[Value]) -> str:
    body = []
    for at in best_thresholds(values).values():
        dsft, dsat, best = at["dsft"], at["dsat"], best_of({line: at[line] for line in SAMPLED})
        ratio = dsat.mean / dsft.mean
        cells = [_cell(at[line], bold=line == best) for line in (*SAMPLED, *TRIVIAL)]
        cells += [number(ratio), "yes" if ratio <= CLOSE else "**no**"]
        cells += [f"{value.releases:.3g} to unit {value.last:.0f}" for value in (dsft, dsat)]
        body.append([dsft.point.cell.stream.title, dsft.point.cell.epsilon, f"{dsft.point.x:g}", *cells])
    head = ["stream", "ε", "best T", "`dsft` with it", "`dsat`", "`fixed`", *(shown(line) for line in TRIVIAL)]
    head += ["`dsat` ÷ `dsft`", "within 20 %", "releases of `dsft`", "releases of `dsat`"]
    return table(head, body)


LOOKS: Mapping[str, tuple[str, str]] = {
    "dsat": (figures.COLOURS[0], "-"),
    "dsat, its own k": (figures.COLOURS[0], ":"),
    "dsat, beginning at T": (figures.COLOURS[7], "-"),
    "dsat, no noise": (figures.COLOURS[0], "--"),
    "in hindsight, no noise": (figures.COLOURS[2], "--"),
    "fixed": (figures.COLOURS[1], "-"),
    "fixed, no noise": (figures.COLOURS[1], "--"),
    "dsft": (figures.COLOURS[2], "-"),
    "bd": (figures.COLOURS[3], "-"),
    "bd_grouped": (figures.COLOURS[3], "--"),
    "ba": (figures.COLOURS[6], "-"),
    "ba_grouped": (figures.COLOURS[6], "--"),
    "baseline": (figures.COLOURS[4], "-"),
    "plain": (figures.COLOURS[0], "-"),
    "quad tree": (figures.COLOURS[2], "-"),
    "k-d tree": (figures.COLOURS[3], "-"),
    "greedy": (figures.COLOURS[1], "-"),
    "zeros": (figures.COLOURS[5], "-."),
    "mean": (figures.COLOURS[5], ":"),
}


def draw(question: Question, values: Sequence[Value], path: Path) -> None:
    """One panel a stream, one line a mechanism, with the interval of its mean over the runs."""
    panels = list(dict.fromkeys(value.point.panel for value in values))
    columns = min(question.columns, len(panels))
    rows = -(-len(panels) // columns)
    figure, axes = figures.new(
        rows, columns, width=max(3.2 * columns, 5.6), height=2.7 * rows + 0.9, sharex=True, squeeze=False
    )
    for axis, panel in zip(axes.ravel(), panels, strict=False):
        here = _seen([value for value in values if value.point.panel == panel])
        for line in dict.fromkeys(value.point.line for value in here):
            colour, style = LOOKS[line]
            x, mean, half = np.array([(v.point.x, v.mean or np.nan, v.half) for v in here if v.point.line == line]).T
            axis.plot(x, mean, style, color=colour, label=shown(line), linewidth=1.5, marker="o" if private(line) else "", ms=3)
            axis.fill_between(x, np.maximum(mean - half, mean / 100), mean + half, color=colour, alpha=0.15, linewidth=0)
        axis.set_title(panel, fontsize=9)
        seen = [value.mean for value in here if value.mean > 0]
        axis.set_yscale("log")
        axis.set_ylim(0.7 * min(seen), 1.5 * max(seen))
        _plain(axis.yaxis, *axis.get_ylim())
        if not question.linear:
            axis.set_xscale("log")
            _plain(axis.xaxis, min(value.point.x for value in here), max(value.point.x for value in here))
    for axis in axes.ravel()[len(panels) :]:
        axis.set_visible(False)
    for axis in axes[-1]:
        axis.set_xlabel(question.axis)
    for axis in axes[:, 0]:
        axis.set_ylabel("mean |error| of a range count")
    legend = {label: h for axis in axes.ravel() for h, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(
        legend.values(), legend.keys(), loc="outside lower center", ncols=max(4, 2 * columns), fontsize=8, frameon=False
    )
    figures.save(figure, path)


def _seen(values: Sequence[Value]) -> list[Value]:
    """Without all zeros where it is so far above everything else that nothing else could be told apart."""
    highest = max(value.mean for value in values if value.point.line != "zeros")
    lowest = min((value.mean for value in values if value.point.line == "zeros"), default=0.0)
    return [value for value in values if value.point.line != "zeros" or lowest <= 4 * highest]


def _plain(axis: Any, low: float, high: float) -> None:
    """Marks on a logarithmic axis, written as numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    decades = np.log10(high / low)
    subs = (1.0,) if decades > 1.8 else (1.0, 2.0, 5.0) if decades > 0.8 else (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def section(question: Question, setting: Setting, values: Sequence[Value], out: Path) -> str:
    picture = f"sampling-{question.name}.png"
    draw(question, values, out / picture)
    body = threshold_table(values) if question.name == "threshold" else value_table(question, values)
    said = best_rows(values) if question.name == "threshold" else winners(values) + idle(values)
    said += gains(values) if question.name == "epsilon" else []
    said += [f"The paper: {question.claim}. Here: {verdict(question, values)}."] if question.claim else []
    sentences = "\n".join(f"- {line}" for line in said)
    return (
        f"## {question.heading}\n\n`{command(setting, question.name)}`\n\n{question.words}\n\n"
        f"![{question.heading}]({picture})\n\n{body}\n{sentences}\n"
    )


def command(setting: Setting, *only: str) -> str:
    """What makes this page, or a part of it."""
    words = ["python benchmarks/sampling.py", "--quick" if setting.quick else "", f"--runs {setting.runs}"]
    words += [f"--seed {setting.seed}" if setting.seed != 1 else "", f"--only {' '.join(only)}" if only else ""]
    return " ".join(word for word in words if word)


def page(setting: Setting, rows: Mapping[str, Row], out: Path) -> str:
    """All questions whose cells are done."""
    found = {question: values for question in QUESTIONS if (values := values_of(question, setting, rows))}
    notes = [] if folder() is not None else ["The real streams were not there, so only simulated ones were run."]
    notes += ["This is the quick setting: small streams, few range counts."] if setting.quick else []
    cells = [cell for values in found.values() for value in values for cell in value.point.cells(setting.seed)]
    notes += sorted({f"Refused: {rows[cell.key]['refused']}" for cell in cells if "refused" in rows[cell.key]})
    census, fleet, roads = setting.census(), setting.fleet(), setting.roads()
    intro = f"""# Sampling by distance: how wrong range counts are

Made by `{command(setting)}`. The mean absolute error of {setting.queries:,} random range counts over all units, mean over
{setting.runs} runs, ± half a 95 % interval over the runs. All mechanisms of a row keep the same promise: at user level
(`horizon` = `window` = the stream's length), in the two sections on windows any w units. The best of them is bold. Two lines
need no mechanism: all zeros, and the exact long-run mean of every key. What is marked † is not private. All zeros is not drawn
where it is far above everything else.

| stream | what | units | a person |
| --- | --- | --- | --- |
| census | simulated: {census.people:,} people with attributes, some replaced in every unit | {census.units:,} | in all units |
| fleet | simulated: {fleet.people:,} vehicles on a grid by the hour | {fleet.units:,} | in all units |
| roads | simulated: about {roads.people:,} objects on streets, entering and leaving | {roads.units:,} | while driving |
| flights2001 | real: departures by airport, west to east, and hour | {1_000 if not setting.quick else 50:,} | a flight |
| us_births | real: births by state and day | {1_000 if not setting.quick else 50:,} | a birth |
"""
    claims = [[q.heading, q.claim, verdict(q, values)] for q, values in found.items() if q.claim]
    said = "\n".join(f"**{note}**\n" for note in notes)
    summary = "## What holds\n\n" + table(["question", "the paper", "here"], claims) if claims else ""
    return "\n".join([intro, said, summary, *(section(q, setting, values, out) for q, values in found.items())])


def main() -> None:
    names = [question.name for question in QUESTIONS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="how often every stream is released (5)")
    parser.add_argument("--seed", type=int, default=1, help="of the noise (1)")
    parser.add_argument("--quick", action="store_true", help="small streams and few range counts; written to out/sampling")
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="some of the questions")
    parser.add_argument("--json", action="store_true", help="print one JSON list of question, panel, line, x, mean and half")
    parser.add_argument("--out", type=Path, help="the folder to write to (docs/results)")
    parser.add_argument(
        "--kept", type=Path, default=Path("out/sampling.jsonl"), help="what is done is kept here; delete it to begin anew"
    )
    given = parser.parse_args()
    setting = Setting(given.quick, given.runs, given.seed)
    out = given.out or Path("out/sampling" if given.quick else "docs/results")
    asked = [question for question in QUESTIONS if question.name in given.only]
    cells = {c.key: c for q in asked for point in q.points(setting) for c in point.cells(setting.seed)}
    done = read(given.kept)
    todo = [cell for key, cell in cells.items() if key not in done]
    # Streams and range counts that were made once serve all that need them.
    everything(sorted(todo, key=lambda cell: (repr(cell.stream), str(cell.size))), given.kept)
    rows = read(given.kept)
    out.mkdir(parents=True, exist_ok=True)
    (out / "sampling.md").write_text(page(setting, rows, out), encoding="utf-8")
    print(f"{out / 'sampling.md'}: {len(todo)} of {len(cells)} cells were run", file=sys.stderr)
    if given.json:
        print(json.dumps([row for question in asked for row in as_rows(question, setting, rows)], indent=1))


def as_rows(question: Question, setting: Setting, rows: Mapping[str, Row]) -> Iterator[Row]:
    """The points of a question as plain data."""
    for value in values_of(question, setting, rows) or []:
        point = value.point
        about = {"question": question.name, "panel": point.panel, "line": point.line, "x": point.x, "measure": point.measure}
        yield about | {"mean": value.mean, "half": value.half, "releases": value.releases, "last": value.last}


if __name__ == "__main__":
    main()
