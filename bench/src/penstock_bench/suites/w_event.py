"""`w-event`: figures 6, 7, 9 and 10 of Kellaris et al., PVLDB 7(12), 2014, and ε."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from penstock.private.mechanisms.registry import MECHANISMS
from penstock_bench.cell import MEAN, ZEROS, Cell, Parameter, Stretch
from penstock_bench.claims import Better, Claim, Inside
from penstock_bench.feed import declared, sized
from penstock_bench.plugins import LAB
from penstock_bench.shapes import Best, RatioToBest
from penstock_bench.suite import BenchQuestion, PlottedMeasure, Point, Setting, Suite
from penstock_bench.trends import FallsBehind

LINES = tuple(
    name
    for name in (
        "uniform",
        "sample",
        "fast_w",
        "bd",
        "ba",
        "bd_grouped",
        "ba_grouped",
        "dsat",
        "fast",
        "rg",
        "pegasus",
        "tide",
    )
    if name in MECHANISMS
)
"""Every mechanism that takes any (ε, w) and releases the counts of units."""
COMPETITORS = tuple(
    f"{LAB}{name}" for name in ("adapub", "rescuedp", "adapub_published", "rescuedp_published")
)
"""They compare keys with each other, in time that grows faster than the number of keys. They run on
streams of at most some thousand keys.
"""
TRIVIAL_LINES = (ZEROS, MEAN)
PUBLISHED = "flawed:IndependentAbsorption"
WITH_DELTA = tuple(
    name
    for name in (*LINES, "fixed")
    if any(each.name == "delta" for each in fields(MECHANISMS[name]))
)
"""The mechanisms whose promise may have a δ."""

WORLD_CUP = Stretch(dataset="worldcup", megabytes=1_450)
TRAFFIC = Stretch(dataset="traffic", megabytes=700)
STREAMS = (
    WORLD_CUP,
    TRAFFIC,
    Stretch(dataset="covid"),
    Stretch(dataset="turnstiles"),
    Stretch(dataset="taxi_zones"),
    Stretch(dataset="flights", units=2_000),
    Stretch(dataset="births", units=2_000),
    Stretch(dataset="bikes", units=2_000),
)
QUICK_WORLD_CUP = Stretch(dataset="worldcup", options=(("per_day", 3),), keys=2_000)
QUICK_TRAFFIC = Stretch(
    dataset="traffic", options=(("people", 5_000), ("roads", 500), ("units", 240))
)
QUICK_STREAMS = (
    QUICK_TRAFFIC,  # generated, so that the suite runs without data files
    QUICK_WORLD_CUP,
    Stretch(dataset="covid", keys=400, units=240),
    Stretch(dataset="turnstiles", keys=500),
    Stretch(dataset="births", units=240),
)

WINDOWS, QUICK_WINDOWS = (24, 40, 80, 120, 160, 200), (24, 40)
EPSILONS, QUICK_EPSILONS = ("0.1", "0.3", "1", "3"), ("0.3", "1")
PER_DAY, QUICK_PER_DAY = (5, 10, 15, 30), (3, 6)
GROUPS, QUICK_GROUPS = (2, 5, 10, 20, 50, 100, 150, 200), (5, 20)
WINDOW, QUICK_WINDOW = 120, 40
EPSILON, DELTA = "1", "0.000001"
DELTA_WINDOWS = (24, 120)
INTERVAL_EPSILONS = ("0.1", "1")

EACH, QUICK_EACH = {131: 687, 229: 393}, {20: 100}
"""The number of groups and the keys of each, for the published form with groups of one size."""

FILTERED = "tide"
"""The mechanism whose intervals are for counts."""

RIVALS = ("uniform", "sample", "bd", "ba", "dsat", "fast_w")
"""The published mechanisms that take any (ε, w) and were made for it."""

LOW_EPSILON, QUICK_LOW_EPSILON = "0.1", "0.3"
"""The ε at which most streams are too thin."""

TAKEN = ("mae", "mre", "mre:total", "mre:key", "time")
MEASURES = (
    PlottedMeasure("mae", "mean absolute error"),
    PlottedMeasure("mre", "mean relative error, divisor at least 1"),
    PlottedMeasure("mre:total", "mean relative error, divisor at least 0.1 % of the unit's events"),
    PlottedMeasure("mre:key", "mean relative error, divisor at least 1 % of the key's events"),
)


@dataclass(frozen=True)
class WEvent(Suite):
    """The w-event family under one promise (ε, w), on real and simulated streams."""

    name = "w-event"
    title = "w-event privacy"
    paper = "Kellaris, Papadopoulos, Xiao and Papadias, PVLDB 7(12), 2014"
    words = (
        "All lines promise the same (ε, w): any w consecutive units of one person, who may "
        "be at another key in each. The paper names no sanity bound for relative errors, so "
        "three are shown. Its World Cup log and its Rome service are not public in the form "
        "that it used: ours are stand-ins of the same size. `bd_grouped` and `ba_grouped` "
        "have the paper's column partitioning under one ledger; one instance per group, as "
        "published, is not private (docs/proofs/grouped.md). Mechanisms run at their "
        "defaults; the paper tuned BD and BA for every experiment. AdaPub and RescueDP also "
        "run as published, which is not private. `tide` is told the days and weeks of a stream, "
        "and that bikes are a stock."
    )
    leaders = (
        ("window", ("24", "40", "120", "200")),
        ("epsilon", ("0.1", "3")),
        ("thin", ("24",)),
        *((("delta", ()),) if WITH_DELTA else ()),
    )
    runs = 10
    quick_runs = 2

    def questions(self, setting: Setting) -> Sequence[BenchQuestion]:
        return (
            self._windows(setting),
            self._change(setting),
            self._groups(setting),
            self._epsilons(setting),
            self._thin(setting),
            *([self._deltas(setting)] if WITH_DELTA else []),
            self._intervals(setting),
        )

    def _windows(self, setting: Setting) -> BenchQuestion:
        points = [
            point
            for stream in self._streams(setting)
            for window in (QUICK_WINDOWS if setting.quick else WINDOWS)
            for point in self._everybody(
                setting, stream, stream.dataset, str(window), EPSILON, window
            )
        ]
        return BenchQuestion(
            name="window",
            title="The window w (figures 6 and 7)",
            words="ε = 1.",
            axis="window w",
            measures=MEASURES,
            points=tuple(points),
            claims=(*_world_cup(), *_traffic(), *_of_tide(mean=0.5, others=1.02, zeros=1.02)),
            linear=True,
        )

    def _change(self, setting: Setting) -> BenchQuestion:
        window = QUICK_WINDOW if setting.quick else WINDOW
        points: list[Point] = []
        for per_day in QUICK_PER_DAY if setting.quick else PER_DAY:
            stream = QUICK_WORLD_CUP if setting.quick else WORLD_CUP
            if setting.quick or per_day != 15:
                heavy = stream.megabytes if setting.quick else 1_000 + 30 * per_day
                stream = replace(stream, options=(("per_day", per_day),), megabytes=heavy)
            points += self._everybody(setting, stream, "worldcup", str(per_day), EPSILON, window)
        return BenchQuestion(
            name="change",
            title="How fast the stream moves (figure 9)",
            words=(
                f"Units per day; ε = 1, w = {window}. With fewer units per day, more changes "
                "from one unit to the next. BD and BA at their defaults, not tuned as in the "
                "paper."
            ),
            axis="units per day",
            measures=MEASURES,
            points=tuple(points),
            claims=(
                *(
                    Best(
                        paper=f"{line.upper()} is better than the baselines at every rate, by one "
                        "to three orders of magnitude",
                        measure="mae",
                        line=line,
                        rivals=("uniform", "sample", "fast_w"),
                        below=0.9,
                    )
                    for line in ("ba", "bd")
                ),
                Better(
                    paper="BA is better than BD at every rate", measure="mae", line="ba", rival="bd"
                ),
                FallsBehind(
                    paper="the errors of BD come close to those of BA as units become shorter",
                    measure="mae",
                    line="ba",
                    rival="bd",
                    falls=True,
                ),
            ),
            columns=2,
        )

    def _groups(self, setting: Setting) -> BenchQuestion:
        window = QUICK_WINDOW if setting.quick else WINDOW
        counts = QUICK_GROUPS if setting.quick else GROUPS
        points: list[Point] = []
        for stream in (QUICK_WORLD_CUP, QUICK_TRAFFIC) if setting.quick else (WORLD_CUP, TRAFFIC):
            for groups in counts:
                points += self._single(stream, groups, window)
                points += self._grouped(stream, groups, window)
            if stream.dataset == "worldcup":
                for groups, each in (QUICK_EACH if setting.quick else EACH).items():
                    points += self._single(stream, groups, window)
                    cell = self._cell(stream, PUBLISHED, EPSILON, window, each=each)
                    points.append(Point(stream.dataset, PUBLISHED, str(groups), cell))
                    points += self._grouped(stream, groups, window)
        return BenchQuestion(
            name="groups",
            title="The number of column groups (figure 10)",
            words=(
                f"ε = 1, w = {window}. The published form, one independent instance per group, "
                "is not w-event private. All at their defaults, not tuned as in the paper."
            ),
            axis="column groups",
            measures=MEASURES,
            points=tuple(dict.fromkeys(points)),
            claims=_partitioned(),
            columns=2,
        )

    def _grouped(self, stream: Stretch, groups: int, window: int) -> list[Point]:
        return [
            Point(
                stream.dataset,
                line,
                str(groups),
                self._cell(stream, line, EPSILON, window, groups=groups),
            )
            for line in ("bd_grouped", "ba_grouped")
        ]

    def _single(self, stream: Stretch, groups: int, window: int) -> list[Point]:
        """The lines without groups, at each number of groups."""
        lines = ("bd", "ba", *TRIVIAL_LINES)
        return [
            Point(stream.dataset, line, str(groups), self._cell(stream, line, EPSILON, window))
            for line in lines
        ]

    def _epsilons(self, setting: Setting) -> BenchQuestion:
        window = QUICK_WINDOW if setting.quick else WINDOW
        points = [
            point
            for stream in self._streams(setting)
            for epsilon in (QUICK_EPSILONS if setting.quick else EPSILONS)
            for point in self._everybody(setting, stream, stream.dataset, epsilon, epsilon, window)
        ]
        return BenchQuestion(
            name="epsilon",
            title="The privacy loss ε",
            words=f"w = {window}. The paper has ε = 1 only.",
            axis="ε",
            measures=MEASURES,
            points=tuple(points),
        )

    def _thin(self, setting: Setting) -> BenchQuestion:
        epsilon = QUICK_LOW_EPSILON if setting.quick else LOW_EPSILON
        points = [
            point
            for stream in self._streams(setting)
            for window in (QUICK_WINDOWS if setting.quick else DELTA_WINDOWS)
            for point in self._everybody(
                setting, stream, stream.dataset, str(window), epsilon, window
            )
        ]
        return BenchQuestion(
            name="thin",
            title="The window w where ε is small",
            words=f"ε = {epsilon}.",
            axis="window w",
            measures=MEASURES,
            points=tuple(points),
            claims=_of_tide(mean=0.5, others=1.05, zeros=1.1),
        )

    def _deltas(self, setting: Setting) -> BenchQuestion:
        points = [
            Point(
                stream.dataset,
                line,
                str(window),
                self._cell(
                    stream,
                    line,
                    EPSILON,
                    window,
                    **({} if line in TRIVIAL_LINES else {"delta": DELTA}),
                ),
            )
            for stream in self._streams(setting)
            for window in (QUICK_WINDOWS if setting.quick else DELTA_WINDOWS)
            for line in (*WITH_DELTA, *TRIVIAL_LINES)
        ]
        return BenchQuestion(
            name="delta",
            title="With a δ",
            words=f"ε = 1, δ = {float(DELTA):g}: Gaussian noise. A weaker promise than the others.",
            axis="window w",
            measures=MEASURES,
            points=tuple(points),
        )

    def _intervals(self, setting: Setting) -> BenchQuestion:
        points = [
            Point(
                stream.dataset if epsilon == EPSILON else f"{stream.dataset}, ε = {epsilon}",
                FILTERED,
                str(window),
                self._cell(stream, FILTERED, epsilon, window),
            )
            for stream in self._streams(setting)
            for epsilon in (QUICK_EPSILONS if setting.quick else INTERVAL_EPSILONS)
            for window in (QUICK_WINDOWS if setting.quick else DELTA_WINDOWS)
        ]
        return BenchQuestion(
            name="intervals",
            title="How often 90 % intervals of `tide` hold",
            words=(
                "The share of counts inside, after the first window; ε = 1 where nothing else is "
                "said. Where most counts are 0, the interval from 0 to 0 may hold more often, and "
                "none is shorter."
            ),
            axis="window w",
            measures=(PlottedMeasure("coverage", "share of counts inside", more=True, curve=True),),
            points=tuple(points),
            claims=(
                Inside(
                    source="Ours",
                    paper="90 % intervals hold 85 to 95 % of the counts",
                    measure="coverage",
                    line=FILTERED,
                    low=0.85,
                    high=0.95,
                    percent=True,
                ),
            ),
        )

    def _streams(self, setting: Setting) -> list[Stretch]:
        own = QUICK_STREAMS if setting.quick else STREAMS
        cut = 240 if setting.quick else 2_000
        return [*own, *(sized(name, units=cut) for name in setting.streams)]

    def _everybody(
        self, setting: Setting, stream: Stretch, panel: str, x: str, epsilon: str, window: int
    ) -> list[Point]:
        narrow = stream.dataset not in (WORLD_CUP.dataset, TRAFFIC.dataset)
        lines = (
            *LINES,
            *(COMPETITORS if narrow or setting.quick else ()),
            *(name for name in setting.also if name not in LINES),
            *TRIVIAL_LINES,
        )
        return [Point(panel, line, x, self._cell(stream, line, epsilon, window)) for line in lines]

    def _cell(
        self, stream: Stretch, line: str, epsilon: str, window: int, **more: Parameter
    ) -> Cell:
        more |= declared(line, stream)
        taken = (*TAKEN, "coverage") if line == FILTERED else TAKEN
        return Cell.of(self.name, stream, line, taken, epsilon=epsilon, window=window, **more)


def _of_tide(*, mean: float, others: float, zeros: float) -> tuple[Claim, ...]:
    """What is asked of `tide` at windows of 24 and 120 units."""
    everybody = tuple(line for line in (*LINES, *COMPETITORS[:2]) if line != FILTERED)
    published = ", ".join(RIVALS)

    def ratio(
        words: str,
        rivals: tuple[str, ...],
        *,
        mean: float | None = None,
        most: float | None = None,
    ) -> Claim:
        return RatioToBest(
            source="Ours",
            paper=f"the MAE of tide is {words}",
            measure="mae",
            line=FILTERED,
            rivals=rivals,
            at=tuple(map(str, DELTA_WINDOWS)),
            mean=mean,
            most=most,
        )

    return (
        ratio(f"on geometric mean at most {mean:g} × the best of {published}", RIVALS, mean=mean),
        ratio(f"nowhere above {others:g} × any other mechanism", everybody, most=others),
        ratio(f"nowhere above {zeros:g} × all zeros", (ZEROS,), most=zeros),
    )


def _ahead(paper: str, rival: str, up_to: float, panel: str, line: str = "ba") -> Claim:
    return Better(paper=paper, measure="mae", line=line, rival=rival, up_to=up_to, panels=(panel,))


def _relative(paper: str, high: float, panel: str) -> tuple[Claim, ...]:
    """Both sanity bounds, because the paper names none."""
    return tuple(
        Inside(
            paper=f"{paper} ({bound})",
            measure=measure,
            line="ba",
            low=0,
            high=high,
            percent=True,
            panels=(panel,),
        )
        for measure, bound in (
            ("mre", "divisor at least 1"),
            ("mre:total", "divisor at least 0.1 % of all events"),
        )
    )


def _world_cup() -> tuple[Claim, ...]:
    here = "worldcup"
    return (
        _ahead(
            "BA is about two orders of magnitude better than Uniform on World Cup",
            "uniform",
            100,
            here,
        ),
        _ahead(
            "BA is up to three orders of magnitude better than Sample on World Cup",
            "sample",
            1000,
            here,
        ),
        _ahead(
            "BA is more than one order of magnitude better than FAST_w on World Cup",
            "fast_w",
            10,
            here,
        ),
        _ahead(
            "the MAE of BA is up to 51 % below that of BD on World Cup",
            "bd",
            1 / (1 - 0.51),
            here,
        ),
        *_relative("the MRE of BA is 3 to 14 %, on World Cup below 11.8 %", 0.118, here),
    )


def _traffic() -> tuple[Claim, ...]:
    here = "traffic"
    return (
        _ahead(
            "BA is up to one order of magnitude better than Uniform in Rome", "uniform", 10, here
        ),
        _ahead("the MAE of BA is 46 % below that of BD in Rome", "bd", 1 / (1 - 0.46), here),
        *_relative("the MRE of BA is 5 to 11 % in Rome", 0.11, here),
    )


def _partitioned() -> tuple[Claim, ...]:
    def less(of: str, share: int, where: str, whose: str) -> str:
        return f"column partitioning lowers the MAE of {of} by up to {share} % {where} ({whose})"

    ours = "ours, under one ledger"
    return (
        _ahead(
            less("BA", 71, "on World Cup", ours), "ba", 1 / (1 - 0.71), "worldcup", "ba_grouped"
        ),
        _ahead(
            less("BA", 71, "on World Cup", "as published, not private"),
            "ba",
            1 / (1 - 0.71),
            "worldcup",
            PUBLISHED,
        ),
        _ahead(
            less("BD", 36, "on World Cup", ours), "bd", 1 / (1 - 0.36), "worldcup", "bd_grouped"
        ),
        _ahead(less("BA", 21, "in Rome", ours), "ba", 1 / (1 - 0.21), "traffic", "ba_grouped"),
    )
