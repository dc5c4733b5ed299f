"""`dsat`: figures 2 to 9 of Li et al., CIKM 2015: few releases at chosen units, and range
counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock_bench.cell import Stretch
from penstock_bench.claims import Better, Claim
from penstock_bench.simulated.census import ATTRIBUTES
from penstock_bench.suite import BenchQuestion, PlottedMeasure, Point, Setting, Suite
from penstock_bench.suites.dsat_points import (
    CENSUS,
    GROUPED,
    MOST,
    SUITE,
    TRIVIAL_LINES,
    Points,
    length,
)
from penstock_bench.trends import FallsBehind, Least, Near, NearBest, Rises

WITH_SHARE = "dsat, share k"
BEGINNING = "dsat, beginning at T"
HISTOGRAMS = {
    "dsat, plain": "plain",
    "dsat, quad tree": "quad_tree",
    "dsat, k-d tree": "kd_tree",
    "dsat, greedy": "greedy",
}
RIVALS = {
    "bd": "BD",
    "ba": "BA",
    "bd_grouped": "column-partitioned BD",
    "ba_grouped": "column-partitioned BA",
}
BESIDE = ("dsat", "fixed", *TRIVIAL_LINES)

EPSILONS, QUICK_EPSILONS = ("0.01", "0.03", "0.1", "0.3", "1", "3"), ("0.1", "1")
FEWER_EPSILONS = ("0.1", "0.3", "1", "3")
SHARES, QUICK_SHARES = (
    ("0.001", "0.003", "0.01", "0.03", "0.1", "0.3", "0.6", "0.9"),
    ("0.01", "0.1", "0.9"),
)
THRESHOLDS = (
    "0.001",
    "0.002",
    "0.005",
    "0.01",
    "0.02",
    "0.03",
    "0.05",
    "0.1",
    "0.2",
    "0.3",
    "0.5",
    "1",
)
QUICK_THRESHOLDS = ("0.01", "0.1", "1")
BEGUN = ("0.001", "0.01", "0.1", "1")
"""The first thresholds of `dsat`."""
RATES, QUICK_RATES = ("0.001", "0.003", "0.01", "0.03", "0.1"), ("0.01", "0.1")
NUMBERS, QUICK_NUMBERS = (1, 2, 3, 4, 5, 6), (1, 3)
SIZES, QUICK_SIZES = (1, 10, 100, 1_000), (1, 100)
RELEASES, QUICK_RELEASES = (2, 5, 10, 20, 40, 80), (2, 10)
SIDES, QUICK_SIDES = (10, 32), (10, 16)
WINDOWS, QUICK_WINDOWS = ("0.05", "0.1", "0.2", "0.4", "0.6", "0.8", "1"), ("0.2", "0.8")
"""Thresholds as shares of the stream."""
LONG = "0.8"
"""The window of the paper's last figure, as a share of the stream."""

OFTEN = 40
"""C in the comparison of histogram methods."""


@dataclass(frozen=True)
class Dsat(Suite):
    """Sampling by distance beside fixed sampling and the w-event family, judged by range counts."""

    name = SUITE
    title = "Sampling by distance"
    paper = "Li, Xiong, Jiang and Liu, CIKM 2015"
    words = (
        "The mean error of 5,000 random range counts over all units (200 in the quick "
        "setting). All mechanisms at a place make the same promise: ε for a person in the "
        "whole stream (user level, `horizon` = `window` = its units). In the two questions "
        "about windows the promise is ε for a person in any w units. `uniform` is the "
        f"paper's baseline. `dsat` and `dsft` make at most C = {MOST} releases per window, "
        "and so does `fixed`; one question varies C. The paper's census and taxis are not "
        "public: ours are simulated, of the same size. Flights and births are real and not "
        "in the paper."
    )
    leaders = (("epsilon", ("0.1", "1")), ("window", ("200", "800")))
    runs = 5
    quick_runs = 3

    def questions(self, setting: Setting) -> Sequence[BenchQuestion]:
        points = Points(setting)
        return (
            _epsilons(points),
            _shares(points),
            _thresholds(points),
            _rates(points),
            _attributes(points),
            _sizes(points),
            _releases(points),
            _histograms(points),
            _windows(points),
            _window_epsilons(points),
        )


# -- at user level ---------------------------------------------------------------------------------


def _epsilons(make: Points) -> BenchQuestion:
    points = [
        point
        for stream in make.streams
        for epsilon in make.swept(EPSILONS, QUICK_EPSILONS)
        for point in make.everybody(stream, stream.dataset, epsilon, epsilon, more=GROUPED)
    ]
    return BenchQuestion(
        name="epsilon",
        title="The privacy loss ε (figure 4)",
        words=(
            "`dsft` has its default threshold, T = 0.05 of all people. The paper does not show "
            "it here."
        ),
        axis="ε",
        measures=make.drawn,
        points=tuple(points),
        claims=(
            _better(make, "DSAT is better than fixed sampling at every ε", "fixed"),
            _better(
                make, "DSAT is one order of magnitude better than the baseline", "uniform", up_to=10
            ),
        ),
    )


def _shares(make: Points) -> BenchQuestion:
    points = []
    for stream in make.own[:2]:
        for share in make.swept(SHARES, QUICK_SHARES):
            points.append(
                Point(stream.dataset, WITH_SHARE, share, make.cell(stream, "dsat", decide=share))
            )
            points += make.lines(stream, stream.dataset, share, lines=BESIDE)
    return BenchQuestion(
        name="share",
        title="The share k of ε for questions (figure 2)",
        words="`dsat` with `decide` = k, beside its default share. ε = 1.",
        axis="k",
        measures=make.drawn,
        points=tuple(points),
        claims=(
            Least(
                paper="the error is least for k between 0.01 and 0.1",
                measure=make.measure,
                line=WITH_SHARE,
                low=0.01,
                high=0.1,
            ),
            NearBest(
                paper="the default share is close to the best (here: within 20 %)",
                source="docs/proofs/dsft.md",
                measure=make.measure,
                line="dsat",
                rival=WITH_SHARE,
                axis="k",
            ),
        ),
        columns=2,
    )


def _thresholds(make: Points) -> BenchQuestion:
    epsilons = make.swept(FEWER_EPSILONS, QUICK_EPSILONS)
    points = []
    for epsilon in epsilons:
        for stream in make.streams:
            panel = _at(stream, epsilon)
            for threshold in make.swept(THRESHOLDS, QUICK_THRESHOLDS):
                points.append(
                    Point(
                        panel,
                        "dsft",
                        threshold,
                        make.cell(stream, "dsft", epsilon, threshold=threshold),
                    )
                )
                if threshold in BEGUN:
                    points.append(
                        Point(
                            panel,
                            BEGINNING,
                            threshold,
                            make.cell(stream, "dsat", epsilon, threshold=threshold),
                        )
                    )
                points += make.lines(stream, panel, threshold, epsilon, lines=BESIDE)
    return BenchQuestion(
        name="threshold",
        title="The threshold T (figure 3)",
        words=(
            "`dsft` with every T of a grid, as a share of all people. Beside it `dsat`, with its "
            "default and with some other first thresholds. The best T is chosen in hindsight, "
            "from the same runs; a publisher cannot do that."
        ),
        axis="threshold T",
        measures=make.drawn,
        points=tuple(points),
        claims=(
            NearBest(
                paper="DSAT is close to DSFT with the best threshold (here: within 20 % of it)",
                measure=make.measure,
                line="dsat",
                rival="dsft",
                axis="T",
            ),
            Near(
                paper=(
                    "DSAT may start at any threshold (here: within 20 % of its error at the "
                    "default)"
                ),
                measure=make.measure,
                line=BEGINNING,
                rival="dsat",
            ),
            Least(
                paper="the best T of DSFT is about 0.025 in the census (here: 0.01 to 0.05), with "
                "larger errors on both sides",
                measure=make.measure,
                line="dsft",
                low=0.01,
                high=0.05,
                panels=tuple(_at(CENSUS, epsilon) for epsilon in epsilons),
            ),
        ),
        columns=min(4, len(make.streams)),
    )


def _rates(make: Points) -> BenchQuestion:
    points = [
        point
        for rate in make.swept(RATES, QUICK_RATES)
        for point in make.everybody(make.census(rate=rate), "census", rate)
    ]
    return BenchQuestion(
        name="rate",
        title="The update rate (figure 5)",
        words=(
            "The share of the people who are replaced per unit, on average over ten periods. ε = 1."
        ),
        axis="update rate",
        measures=make.drawn,
        points=tuple(points),
        claims=(_better(make, "DSAT is better than fixed sampling at every rate", "fixed"),),
    )


def _attributes(make: Points) -> BenchQuestion:
    points = [
        point
        for number in make.swept(NUMBERS, QUICK_NUMBERS)
        for point in make.everybody(make.census(attributes=number), "census", str(number))
    ]
    cells = ", ".join(f"{math.prod(list(ATTRIBUTES.values())[:number]):,}" for number in NUMBERS)
    return BenchQuestion(
        name="attributes",
        title="The number of attributes (figure 6)",
        words=f"The same people, counted by their first attributes: {cells} cells. ε = 1.",
        axis="attributes",
        measures=make.drawn,
        points=tuple(points),
        claims=(
            _better(
                make, "DSAT is better than fixed sampling from 3 to 6 attributes", "fixed", from_x=3
            ),
        ),
        linear=True,
    )


def _sizes(make: Points) -> BenchQuestion:
    sizes, stream = make.swept(SIZES, QUICK_SIZES), make.own[0]
    taken = (*(f"{make.measure},{size}" for size in sizes), "time")
    absolute = f"{make.measure},{{x}}"
    relative = f"{absolute} relative"
    points = [
        replace(point, x=str(size), cell=replace(point.cell, measures=taken))
        for point in make.everybody(stream, stream.dataset, "")
        for size in sizes
    ]
    return BenchQuestion(
        name="size",
        title="The size of a range count (figure 7)",
        words=(
            "Range counts by their number of cells. Relative errors divide by the true answer, "
            "or by 1 if that is larger. ε = 1."
        ),
        axis="cells in a range",
        measures=(
            PlottedMeasure(absolute, "mean absolute error of a range count"),
            PlottedMeasure(relative, "mean relative error of a range count"),
        ),
        points=tuple(points),
        claims=(
            Better(
                paper="DSAT is better than fixed sampling at every size",
                measure=absolute,
                line="dsat",
                rival="fixed",
            ),
            Rises(paper="the absolute error grows with the size", measure=absolute, line="dsat"),
            Rises(
                paper="the relative error falls with the size",
                measure=relative,
                line="dsat",
                falls=True,
            ),
        ),
    )


def _releases(make: Points) -> BenchQuestion:
    points = [
        point
        for stream in make.streams
        for releases in make.swept(RELEASES, QUICK_RELEASES)
        for point in make.everybody(stream, stream.dataset, str(releases), releases=releases)
    ]
    return BenchQuestion(
        name="releases",
        title="The number of releases",
        words="C for `dsat`, `dsft` and `fixed`. The paper has this in its analysis only. ε = 1.",
        axis="releases C",
        measures=make.drawn,
        points=tuple(points),
    )


def _histograms(make: Points) -> BenchQuestion:
    points = []
    for side in make.swept(SIDES, QUICK_SIDES):
        stream, panel = make.fleet(side), f"fleet {side} × {side}"
        for epsilon in make.swept(EPSILONS, QUICK_EPSILONS):
            for line, histogram in HISTOGRAMS.items():
                cell = make.cell(stream, "dsat", epsilon, releases=OFTEN, histogram=histogram)
                points.append(Point(panel, line, epsilon, cell))
            points += make.lines(stream, panel, epsilon, epsilon, lines=TRIVIAL_LINES)
    return BenchQuestion(
        name="histogram",
        title="How a unit is released (figure 4c)",
        words=(
            f"`dsat` with each histogram method. C = {OFTEN}, so that noise makes the difference "
            "and not the choice of units. The paper decomposes the census; ours are maps, one "
            "coarse and one fine."
        ),
        axis="ε",
        measures=make.drawn,
        points=tuple(points),
        claims=tuple(
            Better(
                paper=f"a private spatial decomposition ({line.removeprefix('dsat, ')}) improves "
                "on plain noise",
                measure=make.measure,
                line=line,
                rival="dsat, plain",
            )
            for line in ("dsat, quad tree", "dsat, k-d tree")
        ),
        columns=2,
    )


# -- in windows ------------------------------------------------------------------------------------


def _windows(make: Points) -> BenchQuestion:
    points = []
    for stream in make.moving:
        for share in make.swept(WINDOWS, QUICK_WINDOWS):
            window = _window(stream, share)
            points += make.everybody(
                stream, stream.dataset, str(window), window=window, more=GROUPED
            )
    return BenchQuestion(
        name="window",
        title="The window w (figure 8)",
        words=(
            "The endless form: any w units are protected, and the stream goes on. ε = 1. The "
            "paper has 500,000 objects on 1024 × 1024 cells, and BD and BA with column "
            "partitioning as published, which is not private. Here 100,000 objects are on 32 × "
            "32 cells. `bd` and `ba` have no partitioning; `bd_grouped` and `ba_grouped` have it "
            "under one ledger."
        ),
        axis="window w",
        measures=make.drawn,
        points=tuple(points),
        claims=(
            *(
                _better(make, f"DSAT is better than {name} at every w", rival)
                for rival, name in RIVALS.items()
            ),
            *(
                _widens(make, f"the gap between DSAT and {name} grows with w", rival)
                for rival, name in RIVALS.items()
            ),
        ),
        linear=True,
    )


def _window_epsilons(make: Points) -> BenchQuestion:
    points = []
    for stream in make.moving:
        window = _window(stream, LONG)
        for epsilon in make.swept(EPSILONS, QUICK_EPSILONS):
            points += make.everybody(
                stream, f"{stream.dataset}, w = {window}", epsilon, epsilon, window, more=GROUPED
            )
    return BenchQuestion(
        name="window-epsilon",
        title="The privacy loss ε in a long window (figure 9)",
        words="The same with a window of 80 % of the stream: 800 of 1,000 units, as in the paper.",
        axis="ε",
        measures=make.drawn,
        points=tuple(points),
        claims=(
            _better(make, "DSAT is better than BD at every ε", "bd"),
            _better(make, "DSAT is better than BA at every ε", "ba"),
            *(
                _widens(
                    make,
                    f"the gap between DSAT and {RIVALS[rival]} grows as ε falls",
                    rival,
                    falls=True,
                )
                for rival in ("ba", "ba_grouped")
            ),
        ),
    )


def _window(stream: Stretch, share: str) -> int:
    return round(float(share) * length(stream))


def _at(stream: Stretch, epsilon: str) -> str:
    return f"{stream.dataset}, ε = {epsilon}"


def _better(
    make: Points, paper: str, rival: str, *, up_to: float | None = None, from_x: float | None = None
) -> Claim:
    return Better(
        paper=paper, measure=make.measure, line="dsat", rival=rival, up_to=up_to, from_x=from_x
    )


def _widens(make: Points, paper: str, rival: str, *, falls: bool = False) -> Claim:
    return FallsBehind(paper=paper, measure=make.measure, line="dsat", rival=rival, falls=falls)
