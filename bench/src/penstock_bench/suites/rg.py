"""`rg`: figures 3 to 7 of Chen, Shen and Jin, CIKM 2015, constant streams, thresholds and
samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from penstock_bench.cell import MEAN, TRIVIAL, ZEROS, Cell, Stretch, Value
from penstock_bench.claims import Agrees, Better, Claim, Inside
from penstock_bench.feed import sized
from penstock_bench.shapes import Best, LeastAt, Power, Widens
from penstock_bench.suite import BenchQuestion, PlottedMeasure, Point, Setting, Suite
from penstock_bench.suites.rg_streams import (
    COPIES,
    KEYS,
    QUICK_STEADY,
    QUICK_STREAMS,
    SINGLE,
    SINGLE_UNITS,
    STEADY,
    STREAMS,
    SWEPT,
    paces,
    thinned,
)

PAPERS, BY_LOG, STILL = "rg as in the paper", "rg by the log", "rg without jumps"
AS_IN_THE_PAPER: dict[str, Value] = {"watch": "0.1", "caution": 0}
VARIANTS: dict[str, tuple[str, dict[str, Value]]] = {
    PAPERS: ("rg", AS_IN_THE_PAPER),
    BY_LOG: ("rg", {}),
    STILL: ("rg", {"watch": "0.1", "caution": 1_000_000}),
}
"""Lines that are a mechanism with parameters, or with another query."""

RIVALS = ("laplace", "fast", "ba")
LINES = (*RIVALS, PAPERS, "rg")
TRIVIAL_LINES = (ZEROS, MEAN)

EPSILON, WIDTH = "0.1", 15
EPSILONS, QUICK_EPSILONS = ("0.02", "0.05", "0.1", "0.3", "1"), ("0.1", "1")
WIDTHS, QUICK_WIDTHS = (1, 5, 15, 30, 60), (1, 5, 15)
SHARES, QUICK_SHARES = (25, 50, 75, 100), (50, 100)

STEADY_EPSILONS, QUICK_STEADY_EPSILONS = ("0.01", "0.1", "1"), ("0.1", "1")

FLOORS, QUICK_FLOORS = (63, 255), (63,)
FLOOR_WIDTHS = (1, 2, 4, 8, 15, 31, 63)
FLOOR_KEYS = 4_096

WATCHES, CAUTIONS, QUICK_CAUTIONS = ("0.1", "0.3", "0.5"), (0, 1, 2, 4, 6, 8, 12), (0, 6)
KEEPS, QUICK_KEEPS = ("0.1", "0.25", "0.5", "1"), ("0.25", "1")
FEW_KEYS = 2_000
"""The number of pages or turnstiles for questions about a parameter."""

TOTAL, AVERAGE = f"sse:{WIDTH}", f"sse_mean:{WIDTH}"
ERRORS = (
    PlottedMeasure(AVERAGE, f"mean SSE of a window of {WIDTH} units"),
    PlottedMeasure(TOTAL, f"total SSE of all windows of {WIDTH} units"),
)
TIMES = (
    PlottedMeasure("time", "ms of CPU per publication"),
    PlottedMeasure(AVERAGE, f"mean SSE of a window of {WIDTH} units"),
)
PROOF = "docs/proofs/rg.md"


@dataclass(frozen=True)
class RetroactiveGroups(Suite):
    """Retroactive grouping beside the mechanisms of its paper, all at event level."""

    name = "rg"
    title = "Retroactive grouping"
    paper = "Chen, Shen and Jin, CIKM 2015"
    words = (
        "All lines promise (ε, w = 1): one event of one person. A window's histogram is the "
        "sum of its units' counts, each as first shown. Its SSE adds the squared errors of "
        "all keys, as in the paper. `rg` has our split and threshold; `rg as in the paper` "
        "has the published ones, with a tenth of ε for the watch and a threshold that "
        "ignores its noise. Both are private. At w = 1 `fast` samples every unit with all of "
        "ε and shows a filter's estimate, which assumes that a count changes by about 1 per "
        "unit (the default; its authors fitted this to their data). `fast_w` would leave "
        "half of ε unspent in blocks of one unit, so it is not shown. `laplace` is the "
        "paper's Baseline. The paper's Traffic (Montreal) is not public: city traffic of the "
        "same size replaces it, and turnstiles of New York are added. The World Cup has real "
        "numbers of requests and simulated pages."
    )
    leaders = (("epsilon", ("0.02", "0.1", "1")),)
    runs = 3
    quick_runs = 2

    def questions(self, setting: Setting) -> Sequence[BenchQuestion]:
        return (
            self._epsilons(setting),
            self._windows(setting),
            self._units(setting),
            self._events(setting),
            self._bins(setting),
            self._steady(setting),
            self._floor(setting),
            self._threshold(setting),
            self._sampling(setting),
        )

    # -- the figures of the paper ------------------------------------------------------------------

    def _epsilons(self, setting: Setting) -> BenchQuestion:
        points = [
            point
            for panel, stream in self._panels(setting)
            for epsilon in (QUICK_EPSILONS if setting.quick else EPSILONS)
            for point in self._everybody(setting, panel, epsilon, stream, epsilon)
        ]
        return BenchQuestion(
            name="epsilon",
            title="The privacy loss ε (figure 3)",
            words=f"Windows of {WIDTH} units, as in the paper, whose default is ε = {EPSILON}.",
            axis="ε",
            measures=ERRORS,
            points=tuple(points),
            claims=(*_best(AVERAGE, "at every ε, by up to 43 % of the second best", below=0.43),),
        )

    def _windows(self, setting: Setting) -> BenchQuestion:
        widths = QUICK_WIDTHS if setting.quick else WIDTHS
        points: list[Point] = []
        for panel, stream in self._panels(setting):
            for width in widths:
                points += self._everybody(setting, panel, str(width), stream, EPSILON)
                points.append(
                    Point(panel, BY_LOG, str(width), self._cell(setting, stream, BY_LOG, EPSILON))
                )
        return BenchQuestion(
            name="window",
            title="The size of the window (figure 4)",
            words=(
                f"ε = {EPSILON}. `{BY_LOG}` has the same releases as `rg`, summed as the release "
                "log answers a sliding sum: the mean of a finished group stands for all units "
                "of the group. The paper does not do that."
            ),
            axis="units of a window",
            measures=(
                PlottedMeasure("sse_mean:{x}", "mean SSE of a window"),
                PlottedMeasure("sse:{x}", "total SSE of all windows"),
            ),
            points=tuple(points),
            claims=(
                *_best("sse_mean:{x}", "at every size of the window"),
                *(
                    Widens(
                        paper=(
                            f"the larger the window, the more RG improves on the others (`{line}`)"
                        ),
                        measure="sse_mean:{x}",
                        line=line,
                        rivals=RIVALS,
                    )
                    for line in (PAPERS, "rg")
                ),
                Better(
                    paper=(
                        "sums by the log are better than sums of the numbers as first shown, on "
                        "streams that suit `rg`"
                    ),
                    source="SlidingSum",
                    measure="sse_mean:{x}",
                    line=BY_LOG,
                    rival="rg",
                    from_x=2,
                ),
            ),
        )

    def _units(self, setting: Setting) -> BenchQuestion:
        points: list[Point] = []
        for panel, base in self._swept(setting).items():
            for units, stream in paces(panel, base, quick=setting.quick):
                points += self._everybody(setting, panel, str(units), stream, EPSILON)
        flat = (
            "laplace",
            "the mean SSE of Baseline is the same for any number of units",
            -0.05,
            0.05,
        )
        falling = [
            (
                line,
                (f"the mean SSE of RG falls as the same time is cut into more units (`{line}`)"),
                -10.0,
                -0.02,
            )
            for line in (PAPERS, "rg")
        ]
        return BenchQuestion(
            name="units",
            title="The number of units (figure 5)",
            words=(
                f"The same time in more and shorter units; ε = {EPSILON}, windows of {WIDTH} "
                "units. Counts of shorter units are smaller and change less. Of the World Cup "
                "every tenth page is used."
            ),
            axis="units",
            measures=ERRORS,
            points=tuple(points),
            claims=(
                *_best(AVERAGE, "for every number of units"),
                *(
                    Power(paper=words, measure=AVERAGE, line=line, least=least, most=most)
                    for line, words, least, most in (flat, *falling)
                ),
            ),
        )

    def _events(self, setting: Setting) -> BenchQuestion:
        points = [
            point
            for panel, stream in self._swept(setting).items()
            for share in (QUICK_SHARES if setting.quick else SHARES)
            for point in self._everybody(
                setting, panel, str(share), thinned(panel, stream, share), EPSILON
            )
        ]
        return BenchQuestion(
            name="events",
            title="The share of events (figure 6)",
            words=(
                "The time of a publication, from the counts of a unit to its release, on the "
                "machine of the run. The paper's times, on an Intel i7 of 2.4 GHz, include the "
                "sampling of single events; ours begin with counts. Of the World Cup every tenth "
                "page is used."
            ),
            axis="share of the events, %",
            measures=TIMES,
            points=tuple(points),
            claims=(
                Power(
                    paper="the time of RG grows linearly with the number of events",
                    measure="time",
                    line="rg",
                    least=0.7,
                    most=1.3,
                ),
            ),
        )

    def _bins(self, setting: Setting) -> BenchQuestion:
        points: list[Point] = []
        for panel, stream in self._own(setting).items():
            whole = stream.keys or KEYS[panel]
            for share in QUICK_SHARES if setting.quick else SHARES:
                part = stream if share == 100 else replace(stream, keys=whole * share // 100)
                points += self._everybody(setting, panel, str(share), part, EPSILON)
        return BenchQuestion(
            name="bins",
            title="The number of bins (figure 7)",
            words=(
                "A part of the keys, evenly spread. Traffic has 342 keys, the World Cup "
                f"{KEYS['worldcup']:,}, turnstiles {KEYS['turnstiles']:,} (fewer in the quick "
                "setting)."
            ),
            axis="share of the keys, %",
            measures=TIMES,
            points=tuple(points),
            claims=(
                *_times(),
                Power(
                    paper="the time of RG grows linearly with the number of bins",
                    measure="time",
                    line="rg",
                    least=0.7,
                    most=1.3,
                ),
            ),
        )

    # -- what its text says ------------------------------------------------------------------------

    def _steady(self, setting: Setting) -> BenchQuestion:
        streams = STEADY | {
            name: Stretch(dataset=name, units=SINGLE_UNITS, copies=COPIES) for name in SINGLE
        }
        if setting.quick:
            streams = {panel: replace(streams[panel], units=300) for panel in QUICK_STEADY}
        lines = ("laplace", "fast", PAPERS, "rg", *setting.also, *TRIVIAL_LINES)
        points = [
            Point(panel, line, epsilon, self._cell(setting, stream, line, epsilon, "mse", TOTAL))
            for panel, stream in streams.items()
            for epsilon in (QUICK_STEADY_EPSILONS if setting.quick else STEADY_EPSILONS)
            for line in lines
        ]
        constant = tuple(panel for panel in STEADY if panel.startswith("constant"))
        return BenchQuestion(
            name="still",
            title="Constant streams",
            words=(
                "Constant counts, Poisson counts, and single streams from quiet to busy, each "
                f"{COPIES} times side by side, as keys. `ba` decides for all keys together, so "
                "it is not shown."
            ),
            axis="ε",
            measures=(PlottedMeasure("mse", "mean squared error of a count"), ERRORS[0]),
            points=tuple(points),
            claims=(
                Better(
                    paper=(
                        "on a constant stream RG has less error than Baseline (with the paper's "
                        "parameters)"
                    ),
                    measure="mse",
                    line=PAPERS,
                    rival="laplace",
                    panels=constant,
                ),
                Better(
                    paper="with the paper's parameters a constant count has 1.2 times the error "
                    "of `laplace`",
                    source=PROOF,
                    measure="mse",
                    line="laplace",
                    rival=PAPERS,
                    up_to=1.2,
                    panels=constant,
                ),
                Better(
                    paper="with our parameters a constant count has 0.22 times the error of "
                    "`laplace`",
                    source=PROOF,
                    measure="mse",
                    line="rg",
                    rival="laplace",
                    up_to=1 / 0.22,
                    panels=constant,
                ),
                Better(
                    paper=(
                        "a watch that never takes noise for jumps misses small ones: with our "
                        "parameters Poisson counts around 500 have more error than with "
                        "`laplace` from ε = 0.1 on"
                    ),
                    source=PROOF,
                    measure="mse",
                    line="laplace",
                    rival="rg",
                    from_x=0.1,
                    panels=("poisson 500",),
                ),
            ),
        )

    def _floor(self, setting: Setting) -> BenchQuestion:
        points: list[Point] = []
        for units in QUICK_FLOORS if setting.quick else FLOORS:
            still = (("law", "constant"), ("level", 50), ("keys", FLOOR_KEYS))
            stream = Stretch(dataset="steady", options=still, units=units)
            widths = [width for width in FLOOR_WIDTHS if width <= units // 2]
            sums = tuple(f"sse:{width}" for width in widths)
            for line in ("laplace", PAPERS, "rg", STILL, *TRIVIAL_LINES):
                floors = tuple(f"rg_floor:{width}" for width in widths) if line == STILL else ()
                cell = self._cell(setting, stream, line, EPSILON, *sums, *floors)
                points += [Point(f"{units} units", line, str(width), cell) for width in widths]
        return BenchQuestion(
            name="floor",
            title="The least error (theorem 7)",
            words=(
                f"A constant stream of {FLOOR_KEYS:,} keys; ε = {EPSILON}. `{STILL}` never takes "
                "noise for a jump, so its groups grow to 2, 4, 8, … units: the best that "
                "grouping alone can do. Dotted: the theorem, recomputed. It adds up the errors "
                "of units as if each had its own noise; but a repeated number has the same "
                "noise."
            ),
            axis="units of a window",
            measures=(PlottedMeasure("sse_mean:{x}", "mean SSE of a window", "rg_floor:{x}"),),
            points=tuple(points),
            claims=(
                Better(
                    paper="the least error of RG in 63 units is 8.6 % of Baseline's (recomputed: "
                    "7.6 %)",
                    measure="sse_mean:{x}",
                    line=STILL,
                    rival="laplace",
                    up_to=1 / 0.086,
                    panels=("63 units",),
                ),
                Agrees(
                    paper="theorem 7 is the least mean SSE of a window",
                    source="The paper",
                    measure="sse_mean:{x}",
                    line=STILL,
                    within=0.05,
                ),
            ),
            columns=2,
        )

    def _threshold(self, setting: Setting) -> BenchQuestion:
        points: list[Point] = []
        cautions = QUICK_CAUTIONS if setting.quick else CAUTIONS
        for panel, stream in self._few(setting):
            for caution in cautions:
                points += self._beside(setting, panel, str(caution), stream)
                for watch in WATCHES:
                    cell = self._cell(setting, stream, "rg", EPSILON, watch=watch, caution=caution)
                    points.append(Point(panel, f"{watch} ε watches", str(caution), cell))
        return BenchQuestion(
            name="threshold",
            title="The threshold for jumps",
            words=(
                f"ε = {EPSILON}. κ is the multiple of the watch's own noise that is added to the "
                "threshold. The paper has κ = 0 and a watch with 0.1 ε; ours have 6 and 0.3 ε. "
                "A higher κ takes less noise for a jump, and misses more jumps."
            ),
            axis="κ",
            measures=(ERRORS[0],),
            points=tuple(points),
            claims=(
                LeastAt(
                    paper=(
                        "a change by more than a publication's noise is best published at once "
                        "(κ = 0)"
                    ),
                    measure=AVERAGE,
                    line="0.1 ε watches",
                    x="0",
                ),
            ),
            linear=True,
        )

    def _sampling(self, setting: Setting) -> BenchQuestion:
        points: list[Point] = []
        for panel, stream in self._few(setting):
            for keep in QUICK_KEEPS if setting.quick else KEEPS:
                points += self._beside(setting, panel, keep, stream)
                for line, given in (("rg", {}), (PAPERS, AS_IN_THE_PAPER)):
                    points.append(
                        Point(
                            panel,
                            line,
                            keep,
                            self._cell(setting, stream, "rg", EPSILON, **given, keep=keep),
                        )
                    )
        return BenchQuestion(
            name="sampling",
            title="Watching a sample (section 5.2)",
            words=(
                f"ε = {EPSILON}. The watch sees every event with probability π, and may have "
                "less noise in return. The paper searches for the best π in every unit; by its "
                "own formula that is 1 for every count and ε."
            ),
            axis="π",
            measures=(ERRORS[0],),
            points=tuple(points),
            claims=tuple(
                LeastAt(
                    paper=f"sampling never pays, π = 1 is best (`{line}`)",
                    source=PROOF,
                    measure=AVERAGE,
                    line=line,
                    x="1",
                )
                for line in ("rg", PAPERS)
            ),
        )

    # -- streams and cells -------------------------------------------------------------------------

    def _own(self, setting: Setting) -> dict[str, Stretch]:
        return QUICK_STREAMS if setting.quick else STREAMS

    def _swept(self, setting: Setting) -> dict[str, Stretch]:
        """A tenth of the World Cup's pages, for figures that need it several times."""
        return QUICK_STREAMS if setting.quick else SWEPT

    def _panels(self, setting: Setting) -> Iterator[tuple[str, Stretch]]:
        """The streams of the suite, then those of the user."""
        yield from self._own(setting).items()
        for name in setting.streams:
            yield name, sized(name, units=250 if setting.quick else 1_000)

    def _few(self, setting: Setting) -> Iterator[tuple[str, Stretch]]:
        """Smaller streams, constant and moving, for questions about a parameter."""
        yield from (
            (panel, replace(STEADY[panel], units=500))
            for panel in ("poisson 5", "poisson 50")[: 1 if setting.quick else 2]
        )
        for panel, stream in self._own(setting).items():
            yield (
                panel,
                stream
                if setting.quick or panel == "traffic"
                else replace(stream, keys=FEW_KEYS, megabytes=400),
            )

    def _everybody(
        self, setting: Setting, panel: str, x: str, stream: Stretch, epsilon: str
    ) -> list[Point]:
        lines = (*LINES, *setting.also, *TRIVIAL_LINES)
        return [Point(panel, line, x, self._cell(setting, stream, line, epsilon)) for line in lines]

    def _beside(self, setting: Setting, panel: str, x: str, stream: Stretch) -> list[Point]:
        """The lines that a parameter of `rg` does not change."""
        return [
            Point(panel, line, x, self._cell(setting, stream, line, EPSILON))
            for line in ("laplace", *TRIVIAL_LINES)
        ]

    def _cell(
        self,
        setting: Setting,
        stream: Stretch,
        line: str,
        epsilon: str,
        *measures: str,
        **given: Value,
    ) -> Cell:
        """The cell of a line, with the given measures or those of several questions."""
        mechanism, own = VARIANTS.get(line, (line, {}))
        taken = measures or self._taken(setting, stream, line, epsilon)
        timed = () if line in TRIVIAL else ("time",)
        return Cell.of(
            self.name,
            stream,
            mechanism,
            (*taken, *timed),
            epsilon=epsilon,
            window=1,
            **own,
            **given,
        )

    def _taken(self, setting: Setting, stream: Stretch, line: str, epsilon: str) -> tuple[str, ...]:
        """Windows of all sizes if the figure of sizes needs them: one run serves the other figures
        too.
        """
        widths = QUICK_WIDTHS if setting.quick else WIDTHS
        if line == BY_LOG:
            return (f"log_sse:{','.join(map(str, widths))}",)
        whole = stream in dict(self._panels(setting)).values()
        if whole and (epsilon == EPSILON or line in TRIVIAL):
            return tuple(f"sse:{width}" for width in widths)
        return (f"sse:{WIDTH}",)


def _best(measure: str, words: str, below: float | None = None) -> tuple[Claim, ...]:
    """The published parameters and ours."""
    said = f"RG has the least error {words}"
    return (
        Best(
            paper=f"{said} (with the paper's parameters)",
            measure=measure,
            line=PAPERS,
            rivals=RIVALS,
            below=below,
        ),
        Best(
            paper=f"{said} (with our parameters)",
            measure=measure,
            line="rg",
            rivals=RIVALS,
            below=below,
        ),
    )


def _times() -> tuple[Claim, ...]:
    return (
        Inside(
            paper="a publication of RG takes less than 700 ms on World Cup",
            measure="time",
            line="rg",
            low=0,
            high=700,
            panels=("worldcup",),
        ),
        Inside(
            paper="a publication of RG takes less than 1 ms on Traffic",
            measure="time",
            line="rg",
            low=0,
            high=1,
            panels=("traffic",),
        ),
    )
