"""`pegasus`: figures 3 to 7 of Chen et al., CCS 2017, and θ. Suite `hierarchy` has the trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from penstock.private.mechanisms.smoothers import SMOOTHERS
from penstock_bench.cell import MEAN, ZEROS, Cell, Parameter, Stretch, Value
from penstock_bench.claims import Better, Claim, Inside
from penstock_bench.feed import declared
from penstock_bench.measures.alerts import KINDS, ROC_AT
from penstock_bench.shapes import Best
from penstock_bench.suite import BenchQuestion, PlottedMeasure, Point, Setting, Suite

WIFI = ("wifi_low", "wifi_med", "wifi_high")
"""Generated streams with the length and the totals of the paper."""

REAL = ("bike_low", "bike_med", "us_departures_high")
BUSY = ("wifi_high", "us_departures_high")
"""Streams with events that an alert could report."""

QUICK_STREAMS = ("wifi_med", "wifi_high", "bike_med")
EPSILONS = ("0.1", "0.01")

OWN = "tide"
OURS, PAPERS = "pegasus", "pegasus, paper's θ"
THEN, PAPERS_THEN = f"{OURS}, units as shown", f"{PAPERS}, units as shown"
PAPERS_THETA = 5
SMOOTHED = (2, 8, 32)
"""The number of units in a mean of backward smoothing."""

BACKWARD = tuple(f"bs {over}" for over in SMOOTHED)
THETAS, QUICK_THETAS = (5, 20, 60, 200), (5, 60)
WIDTHS, QUICK_WIDTHS = tuple(2**power for power in range(1, 11)), (2, 16, 64, 256)
TREES = ("sw_tree", "kary")
"""Lines that are built for one width and answer no other sum."""

WITHIN = 12
"""The width of an alert in units: an hour."""

MOVES, QUICK_MOVES = (10, 20, 40, 60), (10, 20)
LOWS, QUICK_LOWS = (30, 60, 120, 240), (30, 60)
MOVE, LOW = 20, 60
"""The alerts whose curves are drawn."""

COPIES, QUICK_COPIES, TREE_COPIES = 20, 4, 64
"""The number of releases side by side. Trees have errors that do not depend on the counts, so few
units and many copies are enough.
"""

RUNS_ALONE = 5
"""The number of runs where a stream is released once."""

UNITS, QUICK_UNITS, THETA_UNITS = 8_640, 1_200, 2_016
SOME = 5
"""The most keys of a dataset that a user adds. Intervals then include differences between keys."""


@dataclass(frozen=True)
class PegasusSuite(Suite):
    """PeGaSus and its competitors on single streams."""

    name = "pegasus"
    title = "PeGaSus: perturb, group, smooth"
    paper = "Chen, Machanavajjhala, Hay and Miklau, CCS 2017, sections 6.1 to 6.3"
    words = (
        "All lines promise (ε, w = 1), one event of one person. The WiFi traces of the "
        "paper are not public: ours are simulated, with its length and exact totals; the "
        "other streams are real. `pegasus` has θ = 60/ε_g, our default; the paper's θ = "
        "5/ε_g is a line of its own. Both split ε as the paper does, 0.8 to 0.2. Releases "
        f"may be negative. A run has {COPIES} releases of each stream side by side "
        f"({QUICK_COPIES} if quick), as many as the paper has trials. Intervals are two "
        "standard errors over these."
    )
    leaders = (("counts", ()), ("alone", ()), ("windows", ("16", "256")))
    runs = 1
    quick_runs = 1
    runs_by_cell = True

    def repeats(self, setting: Setting, cell: Cell | None = None) -> int:
        """One run, and `RUNS_ALONE` of cells with one release of a stream."""
        alone = cell is not None and cell.stream.copies == 1
        if alone and setting.runs is None and not setting.quick:
            return RUNS_ALONE
        return super().repeats(setting, cell)

    def repeats_in_words(self, setting: Setting) -> str:
        usual = super().repeats_in_words(setting)
        if setting.runs is not None or setting.quick:
            return usual
        return f"{usual}, means over {RUNS_ALONE} runs where a stream is released once"

    def questions(self, setting: Setting) -> Sequence[BenchQuestion]:
        return (
            self._counts(setting),
            self._alone(setting),
            self._theta(setting),
            self._windows(setting),
            self._alarms(setting),
            self._curves(setting),
        )

    # -- the questions -----------------------------------------------------------------------------

    def _counts(self, setting: Setting) -> BenchQuestion:
        points: list[Point] = []
        for stream in self._streams(setting, whole=True):
            for epsilon in EPSILONS:
                lines = {
                    name: self._main(setting, stream, name, epsilon)
                    for name in (OURS, PAPERS, "laplace")
                }
                for over, line in zip(SMOOTHED, BACKWARD, strict=True):
                    lines[line] = self._cell(stream, "bs", ("unit_l1", "time"), epsilon, over=over)
                lines |= {
                    name: self._cell(stream, name, ("unit_l1", "time"), epsilon)
                    for name in setting.also
                }
                lines |= {
                    name: self._main(setting, stream, name, epsilon) for name in (ZEROS, MEAN)
                }
                points += [
                    Point(stream.dataset, line, epsilon, cell) for line, cell in lines.items()
                ]
        rivals = ("laplace", *BACKWARD)
        whole = f"The WiFi streams are complete; of the others the first {UNITS:,} units are used."
        if setting.quick:
            whole = f"The first {QUICK_UNITS:,} units of each stream."
        return BenchQuestion(
            name="counts",
            title="Counts of single units (figure 3)",
            words=(
                "The sum of all errors divided by the number of all events: all zeros has 1. "
                f"`bs` k is the mean of the last k noisy counts. {whole}"
            ),
            axis="ε",
            measures=(
                PlottedMeasure(
                    "scaled_l1", "scaled L1 error", error="scaled_l1 error", beside=True
                ),
            ),
            points=tuple(points),
            claims=(
                Best(
                    paper="PeGaSus is the best on all streams and at both ε",
                    measure="scaled_l1",
                    line=PAPERS,
                    rivals=rivals,
                ),
                Best(
                    paper="PeGaSus is the best on all streams and at both ε (with our θ)",
                    measure="scaled_l1",
                    line=OURS,
                    rivals=rivals,
                ),
            ),
            columns=3,
        )

    def _alone(self, setting: Setting) -> BenchQuestion:
        points: list[Point] = []
        for stream in self._streams(setting, whole=True):
            one = replace(stream, copies=1)
            for epsilon in EPSILONS:
                for name in (OWN, OURS, "laplace", *setting.also, ZEROS, MEAN):
                    more = declared(name, one)
                    cell = self._cell(one, name, ("scaled_l1", "time"), epsilon, **more)
                    points.append(Point(stream.dataset, name, epsilon, cell))
                for over, line in zip(SMOOTHED, BACKWARD, strict=True):
                    cell = self._cell(one, "bs", ("scaled_l1", "time"), epsilon, over=over)
                    points.append(Point(stream.dataset, line, epsilon, cell))
        return BenchQuestion(
            name="alone",
            title="Counts of single units, one stream at a time",
            words=(
                "As above, with one release of each stream per run: `tide` learns from all keys "
                "that it is given, so it must not have the same stream twenty times. It is told "
                "days and weeks. Intervals are over the runs."
            ),
            axis="ε",
            measures=(PlottedMeasure("scaled_l1", "scaled L1 error"),),
            points=tuple(points),
            claims=(
                Best(
                    source="Ours",
                    paper="`tide` is the best on all streams and at both ε",
                    measure="scaled_l1",
                    line=OWN,
                    rivals=(OURS, "laplace", *BACKWARD),
                ),
            ),
            columns=3,
        )

    def _theta(self, setting: Setting) -> BenchQuestion:
        thetas = QUICK_THETAS if setting.quick else THETAS
        points: list[Point] = []
        for stream in self._streams(setting, units=THETA_UNITS):
            for epsilon in EPSILONS[:1] if setting.quick else EPSILONS:
                for theta in thetas:
                    lines = {
                        _smoothed(smoother): self._cell(
                            stream,
                            "pegasus",
                            ("unit_l1", "time"),
                            epsilon,
                            theta=theta,
                            smoother=smoother,
                        )
                        for smoother in SMOOTHERS
                    }
                    for name in ("laplace", ZEROS, MEAN):
                        lines[name] = self._cell(stream, name, ("unit_l1", "time"), epsilon)
                    points += [
                        Point(_panel(stream, epsilon), line, str(theta), cell)
                        for line, cell in lines.items()
                    ]
        best, others = (
            _smoothed("median"),
            tuple(_smoothed(name) for name in SMOOTHERS if name != "median"),
        )
        return BenchQuestion(
            name="theta",
            title="θ and the smoother (figure 4)",
            words=(
                "θ is the allowed spread of the units of a group, in multiples of 1/ε_g. The "
                "smoother is the median of the group, its mean, or James and Stein's estimate. "
                "The paper has θ = 5 only. The first "
                f"{QUICK_UNITS if setting.quick else THETA_UNITS:,} units of each stream."
            ),
            axis="θ · ε_g",
            measures=(
                PlottedMeasure(
                    "scaled_l1", "scaled L1 error", error="scaled_l1 error", beside=True
                ),
            ),
            points=tuple(points),
            claims=(
                *(
                    Better(
                        paper="the median is the better smoother on all streams, better than "
                        f"{label}",
                        measure="scaled_l1",
                        line=best,
                        rival=_smoothed(name),
                        up_to_x=PAPERS_THETA,
                    )
                    for name, label in (("mean", "the mean"), ("james_stein", "James and Stein's"))
                ),
                Best(
                    paper="the median is the best smoother (at every θ of ours)",
                    measure="scaled_l1",
                    line=best,
                    rivals=others,
                ),
            ),
        )

    def _windows(self, setting: Setting) -> BenchQuestion:
        widths = QUICK_WIDTHS if setting.quick else WIDTHS
        points: list[Point] = []
        for stream in self._streams(setting):
            for epsilon in EPSILONS:
                panel = _panel(stream, epsilon)
                for line in ("laplace", OURS, PAPERS, ZEROS, MEAN):
                    cell = self._main(setting, stream, line, epsilon)
                    points += [Point(panel, line, str(width), cell) for width in widths]
                    if line in (OURS, PAPERS):
                        as_then = THEN if line == OURS else PAPERS_THEN
                        points += [
                            Point(panel, as_then, str(width), cell, "then ") for width in widths
                        ]
                for line in setting.also:
                    cell = self._cell(stream, line, (_windows(widths), "time"), epsilon)
                    points += [Point(panel, line, str(width), cell) for width in widths]
                for line in TREES:
                    for width in widths:
                        few = self._few(stream.dataset, stream.keys, width)
                        cell = self._cell(
                            few, line, (f"window_l1:{width}", "time"), epsilon, span=width
                        )
                        points.append(Point(panel, line, str(width), cell))
        return BenchQuestion(
            name="windows",
            title="Sums of windows (figure 5)",
            words=(
                "The mean error of the sum of the last W units. `pegasus` uses for every unit "
                "the latest value of its group, the paper's window-sum smoother; “units as "
                "shown” adds up the first release of each unit. `sw_tree` (SW_w of the paper) "
                "and `kary` are built for one width each; the others answer all widths from one "
                f"release. The first {QUICK_UNITS if setting.quick else UNITS:,} units of each "
                "stream; fewer for the trees, whose error does not depend on the stream."
            ),
            axis="width W of the window",
            measures=(
                PlottedMeasure(
                    "l1 {of}{x}", "mean error of a window's sum", error="error {of}{x}", beside=True
                ),
            ),
            points=tuple(points),
            claims=_window_claims(),
        )

    def _alarms(self, setting: Setting) -> BenchQuestion:
        points: list[Point] = []
        for kind in KINDS:
            lows = LOWS if not setting.quick else QUICK_LOWS
            deltas = lows if kind == "low" else QUICK_MOVES if setting.quick else MOVES
            for stream, epsilon, lines in self._alarmed(setting, kind):
                for delta in deltas:
                    points += [
                        Point(
                            f"{_panel(stream, epsilon)}: {kind}",
                            line,
                            str(delta),
                            cell,
                            f"{kind},{WITHIN}",
                        )
                        for line, cell in lines.items()
                    ]
        return BenchQuestion(
            name="alarms",
            title="Alerts, by the size of the move",
            words=(
                "More is better: the area below the ROC curve as the alert's threshold varies; "
                "½ is guessing, 1 is always right. Jump and drop: the count has risen or fallen "
                f"by at least δ over {WITHIN} units. Change: either, as in the paper. Low: the "
                f"sum of {WITHIN} units is below δ, the only alert that a tree can raise. The "
                "paper names no w and δ: these are ours."
            ),
            axis="δ",
            measures=(
                PlottedMeasure(
                    "roc:{of},{x} area",
                    "area below the ROC curve",
                    error="roc:{of},{x} error",
                    more=True,
                    beside=True,
                ),
            ),
            points=tuple(points),
            claims=_alarm_claims(),
        )

    def _curves(self, setting: Setting) -> BenchQuestion:
        points: list[Point] = []
        for kind in KINDS:
            of = f"{kind},{WITHIN},{LOW if kind == 'low' else MOVE}"
            for stream, epsilon, lines in self._alarmed(setting, kind):
                for rate in ROC_AT:
                    panel = f"{_panel(stream, epsilon)}: {kind}"
                    points += [
                        Point(panel, line, f"{rate:g}", cell, of) for line, cell in lines.items()
                    ]
        return BenchQuestion(
            name="curves",
            title="Alerts, as curves (figures 6 and 7)",
            words=(
                f"δ = {MOVE:,} for jumps, drops and changes, {LOW:,} for low signals, over "
                f"{WITHIN} units. A constant line is on the diagonal."
            ),
            axis="false positive rate",
            measures=(
                PlottedMeasure("roc:{of} at {x}", "true positive rate", more=True, curve=True),
            ),
            points=tuple(points),
            linear=True,
        )

    # -- their parts -------------------------------------------------------------------------------

    def _streams(
        self, setting: Setting, *, units: int = UNITS, whole: bool = False
    ) -> Iterator[Stretch]:
        """The streams of the suite and of the user, with this many units; `whole`: WiFi in full."""
        cut, copies = (QUICK_UNITS, QUICK_COPIES) if setting.quick else (units, COPIES)
        for name in QUICK_STREAMS if setting.quick else (*WIFI, *REAL):
            full = whole and name in WIFI and not setting.quick
            yield Stretch(dataset=name, units=None if full else cut, copies=copies, megabytes=300)
        for name in setting.streams:
            yield Stretch(
                dataset=name, units=cut, keys=SOME, copies=max(copies // SOME, 1), megabytes=300
            )

    def _few(self, dataset: str, keys: int | None, width: int) -> Stretch:
        """The units for a window whose error does not depend on the counts."""
        copies = TREE_COPIES if keys is None else -(-TREE_COPIES // keys)
        return Stretch(dataset=dataset, units=max(1_024, 3 * width), keys=keys, copies=copies)

    def _alarmed(
        self, setting: Setting, kind: str
    ) -> Iterator[tuple[Stretch, str, dict[str, Cell]]]:
        """Busy streams, each ε, and the lines that can raise this kind of alert."""
        measures = _alarms(setting)
        for stream in self._streams(setting):
            for epsilon in EPSILONS if stream.dataset in BUSY else ():
                lines = {
                    name: self._main(setting, stream, name, epsilon)
                    for name in ("laplace", OURS, PAPERS)
                }
                if kind == "low":
                    lines |= {
                        name: self._cell(stream, name, (measures[-1], "time"), epsilon, span=WITHIN)
                        for name in TREES
                    }
                lines |= {
                    name: self._cell(stream, name, (*measures, "time"), epsilon)
                    for name in setting.also
                }
                lines |= {
                    name: self._main(setting, stream, name, epsilon) for name in (ZEROS, MEAN)
                }
                yield stream, epsilon, lines

    def _main(self, setting: Setting, stream: Stretch, line: str, epsilon: str) -> Cell:
        """A line of all questions: one run has the numbers of all of them."""
        measures = ["unit_l1", "time"]
        if stream.units is not None:
            measures.append(_windows(QUICK_WIDTHS if setting.quick else WIDTHS))
            measures += _alarms(setting) if stream.dataset in BUSY else ()
        more: dict[str, Value] = {"theta": PAPERS_THETA} if line == PAPERS else {}
        return self._cell(
            stream, OURS if line == PAPERS else line, tuple(measures), epsilon, **more
        )

    def _cell(
        self,
        stream: Stretch,
        mechanism: str,
        measures: tuple[str, ...],
        epsilon: str,
        **more: Parameter,
    ) -> Cell:
        return Cell.of(self.name, stream, mechanism, measures, epsilon=epsilon, window=1, **more)


def _panel(stream: Stretch, epsilon: str) -> str:
    return f"{stream.dataset}, ε = {epsilon}"


def _smoothed(smoother: str) -> str:
    return f"pegasus, {smoother}"


def _windows(widths: Sequence[int]) -> str:
    return "window_l1:" + ",".join(map(str, widths))


def _alarms(setting: Setting) -> list[str]:
    """The measures of all kinds, low signals last."""
    moves, lows = (QUICK_MOVES, QUICK_LOWS) if setting.quick else (MOVES, LOWS)
    return [
        f"roc:{kind},{WITHIN}," + ",".join(map(str, lows if kind == "low" else moves))
        for kind in KINDS
    ]


# -- what the paper says ---------------------------------------------------------------------------


def _window_claims() -> tuple[Claim, ...]:
    measure, found = "l1 {of}{x}", list[Claim]()
    for line, then, whose in ((PAPERS, PAPERS_THEN, ""), (OURS, THEN, " (with our θ)")):
        found += [
            Better(
                paper=f"PeGaSus answers windows better than SW_w up to a width of 256{whose}",
                measure=measure,
                line=line,
                rival="sw_tree",
                up_to_x=256,
            ),
            Better(
                paper=f"SW_w is better than PeGaSus for wider windows{whose}",
                measure=measure,
                line="sw_tree",
                rival=line,
                from_x=512,
            ),
            Better(
                paper=f"the Laplace mechanism has excessive error beside PeGaSus{whose}",
                measure=measure,
                line=line,
                rival="laplace",
            ),
            Better(
                paper="the window-sum smoother is slightly but always better than the "
                f"median{whose}",
                measure=measure,
                line=line,
                rival=then,
            ),
        ]
    found.append(
        Better(
            paper="signed k-ary blocks are better than the binary tree at every width from 64 on",
            source="docs/proofs/kary.md",
            measure=measure,
            line="kary",
            rival="sw_tree",
            from_x=64,
        )
    )
    return tuple(found)


def _alarm_claims() -> tuple[Claim, ...]:
    measure, found = "roc:{of},{x} area", list[Claim]()

    def panels(kind: str, *epsilons: str) -> tuple[str, ...]:
        return tuple(f"{stream}, ε = {epsilon}: {kind}" for stream in BUSY for epsilon in epsilons)

    for line, whose in ((PAPERS, ""), (OURS, " (with our θ)")):
        found += [
            Inside(
                paper="at ε = 0.1 PeGaSus finds jumps and drops very well, which we take for an "
                f"area of 0.9{whose}",
                measure=measure,
                line=line,
                low=0.9,
                high=1,
                panels=panels("change", "0.1"),
            ),
            Better(
                paper="at ε = 0.1 the Laplace mechanism is slightly better than PeGaSus at jumps "
                f"and drops{whose}",
                measure=measure,
                line="laplace",
                rival=line,
                panels=panels("change", "0.1"),
            ),
            Better(
                paper="at ε = 0.01 PeGaSus is much better than the Laplace mechanism at jumps "
                f"and drops{whose}",
                measure=measure,
                line=line,
                rival="laplace",
                panels=panels("change", "0.01"),
            ),
            Better(
                paper=f"PeGaSus is better than SW_w at low signals, always{whose}",
                measure=measure,
                line=line,
                rival="sw_tree",
                panels=panels("low", *EPSILONS),
            ),
        ]
    return tuple(found)
