"""`eshp`: figures 4 to 14 of Wang et al., Tsinghua Science and Technology 29(6), 2024.

Also: when their sketch is needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock_bench.cell import MEAN, ZEROS, Cell, Stretch, Value
from penstock_bench.claims import NOTHING, Better, Claim, Places, Verdict, number, share, where
from penstock_bench.claims import Value as Mean
from penstock_bench.measures.base import MEMORY, TIME
from penstock_bench.plugins import LAB
from penstock_bench.suite import BenchQuestion, PlottedMeasure, Point, Setting, Suite

ESHP, ALONE, COARSE, PUBLISHED = (
    "eshp",
    "eshp, no groups",
    "eshp, no groups, β = 0.5",
    "eshp, published †",
)
LAPLACE, RECURRENCE, FAST = "laplace", "recurrence", "fast"
APB, TREE, EACH = "apb", "rtp_dmm", "noise per release"
RESPONSE, SURVEY = "k-ary response (replacing)", "negative survey †"

SUMMING: dict[str, tuple[str, dict[str, Value]]] = {
    ESHP: ("eshp", {"window": 1}),
    ALONE: ("eshp", {"window": 1, "grouping": False}),
    COARSE: ("eshp", {"window": 1, "grouping": False, "beta": "0.5"}),
    RECURRENCE: (f"{LAB}recurrence", {}),
    APB: (f"{LAB}apb", {}),
    TREE: (f"{LAB}rtp_dmm", {}),
    EACH: (f"{LAB}noise_per_release", {}),
    RESPONSE: (f"{LAB}randomised_response", {}),
    SURVEY: (f"{LAB}negative_survey", {}),
    PUBLISHED: (f"{LAB}eshp_published", {}),
}
"""Lines that show decayed sums, with their mechanisms. Counts of all other lines are summed."""

EVERYBODY = (ESHP, LAPLACE, RECURRENCE, FAST, APB, TREE, EACH, RESPONSE, SURVEY, PUBLISHED)
RIVALS = (LAPLACE, FAST, APB, TREE)
TRIVIAL_LINES = (ZEROS, MEAN)

STREAMS = ("ages", "taxi_passengers")
"""The first is generated, so that the suite runs without data files."""

SOME = 8
"""The most keys of a dataset that a user adds: most lines keep a whole window of them."""

SPANS, QUICK_SPANS = (2_000, 4_000, 6_000, 10_000), (200, 600)
GAMMAS, QUICK_GAMMAS = ("0.91", "0.93", "0.95", "0.97", "0.99"), ("0.91", "0.99")
EPSILONS, QUICK_EPSILONS = ("0.1", "0.5", "1", "1.5"), ("0.5", "1")
BETAS, QUICK_BETAS = ("0.1", "0.3", "0.5", "0.7", "0.9"), ("0.1", "0.9")
ALPHAS, QUICK_ALPHAS = ("0.1", "0.3", "0.5", "0.7", "0.9"), ("0.1", "0.9")
TOLERANCES, QUICK_TOLERANCES = ("0", "0.5", "1", "2"), ("0", "1")
WIDTHS, QUICK_WIDTHS = (10, 30, 100, 300, 1_000), (30, 100)
EPSILON, GAMMA, SLOW = "1", "0.91", "0.99"

TIMES = PlottedMeasure(TIME, "CPU time per publication, ms")
KEPT = PlottedMeasure(MEMORY, "kept between units, MB")
MSE = "mean squared error of a decayed sum"


@dataclass(frozen=True, kw_only=True)
class Saves(Claim):
    """One line needs less than another by a given share, on average. 90 % of the share is
    enough."""

    line: str
    rival: str
    share: float

    def look(self, places: Places) -> tuple[str, Verdict]:
        saved = {
            place: 1 - lines[self.line].mean / lines[self.rival].mean
            for place, lines in places.items()
            if {self.line, self.rival} <= lines.keys() and lines[self.rival].mean > 0
        }
        if not saved:
            return NOTHING
        mean = sum(saved.values()) / len(saved)
        least, most = min(saved, key=saved.__getitem__), max(saved, key=saved.__getitem__)
        words = (
            f"{self.line} needs {_less(mean)} on average, from {_less(saved[least])} "
            f"({where(least)}) to "
        )
        words += f"{_less(saved[most])} ({where(most)})"
        return words, "yes" if mean >= 0.9 * self.share else "partly" if mean > 0 else "no"


@dataclass(frozen=True, kw_only=True)
class Moves(Claim):
    """A line rises, falls, or stays flat (a factor of at most `flat`) from first place to last."""

    line: str
    way: str
    flat: float = 1.25

    def look(self, places: Places) -> tuple[str, Verdict]:
        parts, true = [], 0
        for panel in dict.fromkeys(panel for panel, _ in places):
            here = [
                (x, lines[self.line].mean)
                for (at, x), lines in places.items()
                if at == panel and self.line in lines
            ]
            if len(here) > 1 and here[0][1] > 0:
                (first, before), (last, after) = here[0], here[-1]
                way = (
                    "flat"
                    if 1 / self.flat <= after / before <= self.flat
                    else "up"
                    if after > before
                    else "down"
                )
                true += way == self.way
                parts.append(
                    f"{way} from {number(before)} at {first} to {number(after)} at {last} ({panel})"
                )
        if not parts:
            return NOTHING
        return "; ".join(parts), share(true, len(parts))


@dataclass(frozen=True, kw_only=True)
class Alike(Claim):
    """Two lines are equal from some place on: within 5 %, or within both intervals and 25 %."""

    line: str
    rival: str
    from_x: float = 0.0

    def look(self, places: Places) -> tuple[str, Verdict]:
        ratios = {
            place: lines[self.line].mean / lines[self.rival].mean
            for place, lines in places.items()
            if float(place[1]) >= self.from_x
            and {self.line, self.rival} <= lines.keys()
            and lines[self.rival].mean > 0
        }
        if not ratios:
            return NOTHING
        near = sum(
            abs(ratio - 1) <= 0.05
            or (
                abs(math.log(ratio)) <= math.log(1.25)
                and _overlap(places[at][self.line], places[at][self.rival])
            )
            for at, ratio in ratios.items()
        )
        least, most = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
        words = (
            f"alike at {near} of {len(ratios)} points; {self.line} has {number(ratios[least])} × "
            f"({where(least)}) to "
        )
        words += f"{number(ratios[most])} × ({where(most)}) the error of {self.rival}"
        return words, share(near, len(ratios))


def _overlap(one: Mean, other: Mean) -> bool:
    """Whether a difference lies within both intervals. A single run has no interval."""
    return abs(one.mean - other.mean) <= math.hypot(one.half, other.half)


def _less(share: float) -> str:
    return f"{abs(round(100 * share))} % {'less' if share >= 0 else 'more'}"


@dataclass(frozen=True)
class Eshp(Suite):
    """Sums over a window in which older units count less."""

    name = "eshp"
    title = "Decayed sums"
    paper = "Wang et al., Tsinghua Science and Technology 29(6), 2024"
    words = (
        "All lines promise ε for adding or removing one event, with two exceptions. "
        "Randomised response promises it for replacing one event by another, with a public "
        "number of events. Lines marked † promise nothing: a negative survey is not private "
        "for any ε, nor is ESHP as published. One event decides its clusters, and its noise "
        "does not cover the change that one event makes (docs/proofs/eshp.md). Ours adds "
        "noise of scale 1/ε once; the rest is post-processing. So do `laplace`, whose reader "
        "sums its counts, and `recurrence`, which keeps one number per key. `recurrence` is "
        "enough if γ^w is negligible, as in every setting of the paper. `fast` has a privacy "
        "window of 1: it spends ε in every unit and filters. Noise per release has the scale "
        "(1 − γ^w)/((1 − γ)ε) that all releases of an event need together. Errors cover all "
        "units. The paper's accident records are replaced by a stand-in; the taxi trips are "
        "those of 2021. Time is the CPU time of the steps in NumPy. That of mechanisms "
        "includes their ledger, which competitors do not have. Lines run side by side in one "
        "process, which affects the time of the cheapest. Memory is the state of the line; "
        "the window that a reader of `laplace` or `fast` keeps is not included."
    )
    leaders = (
        ("window", ("2000", "10000")),
        ("gamma", ("0.91", "0.95", "0.99")),
        ("epsilon", ("0.1", "0.5", "1.5")),
    )
    runs = 3
    quick_runs = 2

    def questions(self, setting: Setting) -> Sequence[BenchQuestion]:
        return (
            self._spans(setting),
            self._gammas(setting),
            self._epsilons(setting),
            self._betas(setting),
            self._alphas(setting),
            self._tolerances(setting),
            self._sketches(setting),
        )

    # -- the questions -----------------------------------------------------------------------------

    def _spans(self, setting: Setting) -> BenchQuestion:
        spans = QUICK_SPANS if setting.quick else SPANS
        sums = [(GAMMA, span) for span in spans]
        points = [
            Point(panel, line, str(span), self._cell(stream, line, EPSILON, GAMMA, span, sums))
            for panel, stream in self._streams(setting, max(spans) * 101 // 100)
            for span in spans
            for line in (*EVERYBODY, *setting.also, *TRIVIAL_LINES)
        ]
        return BenchQuestion(
            name="window",
            title="The window w (figures 5 to 10)",
            words=(
                "ε = 1, γ = 0.91. With this γ a unit has the weight 1/1000 after 73 units, for "
                "any w: only memory and the tree depend on w. `apb`, randomised response and the "
                "survey keep w histograms, as in the paper; they could use a recurrence instead. "
                "Noise per release keeps the units whose weight is above 2⁻²¹."
            ),
            axis="window w, units",
            measures=(PlottedMeasure(f"decayed:{GAMMA},{{x}}", MSE), TIMES, KEPT),
            points=tuple(points),
            claims=_headline(),
            linear=True,
            columns=2,
        )

    def _gammas(self, setting: Setting) -> BenchQuestion:
        gammas, span = QUICK_GAMMAS if setting.quick else GAMMAS, _span(setting)
        points = [
            Point(
                panel, line, gamma, self._cell(stream, line, EPSILON, gamma, span, _sums(setting))
            )
            for panel, stream in self._streams(setting, _units(setting))
            for gamma in gammas
            for line in (ESHP, ALONE, *EVERYBODY[1:], *setting.also, *TRIVIAL_LINES)
        ]
        measure = f"decayed:{{x}},{span}"
        return BenchQuestion(
            name="gamma",
            title="The decay γ (figures 11 and 12)",
            words=(
                f"ε = 1, w = {span:,}. All lines estimate the same sums, which are larger for a "
                "larger γ."
            ),
            axis="γ",
            measures=(PlottedMeasure(measure, MSE),),
            points=tuple(points),
            claims=(
                Moves(paper="the error of ESHP grows with γ", measure=measure, line=ESHP, way="up"),
                Moves(paper="the error of APB grows with γ", measure=measure, line=APB, way="up"),
                Moves(
                    paper="the error of FAST does not depend on γ",
                    measure=measure,
                    line=FAST,
                    way="flat",
                ),
                Moves(
                    paper="the error of RTP_DMM does not depend on γ",
                    measure=measure,
                    line=TREE,
                    way="flat",
                ),
                *_best(measure, up_to_x=0.95, where=" where γ is small (here: up to 0.95)"),
                Better(
                    paper="noise once is better than noise in every release, 23 × at γ = 0.91 and "
                    "216 × at 0.99",
                    source="docs/proofs/eshp.md",
                    measure=measure,
                    line=ALONE,
                    rival=EACH,
                    up_to=216,
                ),
                Alike(
                    paper="eshp without groups is as good as the decayed sums of laplace",
                    source="docs/proofs/eshp.md",
                    measure=measure,
                    line=ALONE,
                    rival=LAPLACE,
                ),
            ),
            linear=True,
            columns=2,
        )

    def _epsilons(self, setting: Setting) -> BenchQuestion:
        span = _span(setting)
        points = [
            Point(
                panel, line, epsilon, self._cell(stream, line, epsilon, GAMMA, span, _sums(setting))
            )
            for panel, stream in self._streams(setting, _units(setting))
            for epsilon in (QUICK_EPSILONS if setting.quick else EPSILONS)
            for line in (ESHP, ALONE, *EVERYBODY[1:], *setting.also, *TRIVIAL_LINES)
        ]
        measure = f"decayed:{GAMMA},{span}"
        return BenchQuestion(
            name="epsilon",
            title="The privacy loss ε",
            words=(
                f"γ = 0.91, w = {span:,}. The paper has 0.5, 1 and 1.5. Groups need similar "
                "keys; with more noise, more keys look similar."
            ),
            axis="ε",
            measures=(PlottedMeasure(measure, MSE),),
            points=tuple(points),
            claims=(
                Better(
                    paper="sums are better with groups of similar keys than without, above all at "
                    "a small ε",
                    source="docs/proofs/eshp.md",
                    measure=measure,
                    line=ESHP,
                    rival=ALONE,
                ),
            ),
            columns=2,
        )

    def _betas(self, setting: Setting) -> BenchQuestion:
        span = _span(setting)
        points = [
            Point(
                panel,
                line,
                beta,
                self._cell(stream, line, EPSILON, GAMMA, span, _sums(setting), **_beta(line, beta)),
            )
            for panel, stream in self._streams(setting, _units(setting))
            for beta in (QUICK_BETAS if setting.quick else BETAS)
            for line in (ESHP, PUBLISHED, *RIVALS, *TRIVIAL_LINES)
        ]
        measure = f"decayed:{GAMMA},{span}"
        return BenchQuestion(
            name="beta",
            title="The sketch's error factor β (figures 13 and 14)",
            words=(
                f"ε = 1, γ = 0.91, w = {span:,}. Units that have left such a window have no "
                "weight, so the sketch is correct for any β. The published noise is "
                "proportional to β, so its error grows. Only ESHP has a β: the other lines are "
                "constant."
            ),
            axis="β",
            measures=(PlottedMeasure(measure, MSE), KEPT),
            points=tuple(points),
            claims=(
                Moves(
                    paper="the error of ESHP grows with β (ours)",
                    measure=measure,
                    line=ESHP,
                    way="up",
                ),
                Moves(
                    paper="the error of ESHP grows with β (as published)",
                    measure=measure,
                    line=PUBLISHED,
                    way="up",
                ),
                Moves(
                    paper="ESHP needs less memory for a larger β",
                    measure=MEMORY,
                    line=ESHP,
                    way="down",
                ),
            ),
            linear=True,
            columns=2,
        )

    def _alphas(self, setting: Setting) -> BenchQuestion:
        span = _span(setting)
        points: list[Point] = []
        for panel, stream in self._streams(setting, _units(setting)):
            for alpha in QUICK_ALPHAS if setting.quick else ALPHAS:
                for line in (ESHP, APB, PUBLISHED, *TRIVIAL_LINES):
                    name, usual = {APB: ("share", "0.5"), PUBLISHED: ("alpha", "0.1")}.get(
                        line, ("", alpha)
                    )
                    more = {name: alpha} if alpha != usual else {}
                    points.append(
                        Point(
                            panel,
                            line,
                            alpha,
                            self._cell(stream, line, EPSILON, GAMMA, span, _sums(setting), **more),
                        )
                    )
        measure = f"decayed:{GAMMA},{span}"
        return BenchQuestion(
            name="alpha",
            title="How ε is split, α (figure 4)",
            words=(
                f"ε = 1, γ = 0.91, w = {span:,}. The paper gives α of ε to a test and the rest "
                "to its noise. Ours has no test and therefore no split; its error is constant. "
                "`apb` has a split of its own, between choosing groups and measuring them."
            ),
            axis="α",
            measures=(PlottedMeasure(measure, MSE),),
            points=tuple(points),
            claims=(
                Moves(
                    paper="the error of ESHP falls as α grows (and it takes α = 0.1)",
                    measure=measure,
                    line=PUBLISHED,
                    way="down",
                ),
            ),
            linear=True,
            columns=2,
        )

    def _tolerances(self, setting: Setting) -> BenchQuestion:
        span = _span(setting)
        points = [
            Point(
                panel,
                line,
                tolerance,
                self._cell(stream, line, EPSILON, GAMMA, span, _sums(setting), **more),
            )
            for panel, stream in self._streams(setting, _units(setting))
            for tolerance in (QUICK_TOLERANCES if setting.quick else TOLERANCES)
            for line, more in (
                (ESHP, {"tolerance": tolerance} if tolerance != "0" else {}),
                *((trivial, {}) for trivial in TRIVIAL_LINES),
            )
        ]
        measure = f"decayed:{GAMMA},{span}"
        return BenchQuestion(
            name="tolerance",
            title="Repeating a release that has hardly changed",
            words=(
                f"ε = 1, γ = 0.91, w = {span:,}. A key repeats its last release while its change "
                "is at most this many standard deviations of its noise. The paper releases "
                "selectively to save noise. Here the noise is drawn already, so repeating only "
                "gives readers fewer changes."
            ),
            axis="tolerance, standard deviations",
            measures=(PlottedMeasure(measure, MSE),),
            points=tuple(points),
            claims=(
                Moves(
                    paper="repeating never makes sums better",
                    source="docs/proofs/eshp.md",
                    measure=measure,
                    line=ESHP,
                    way="up",
                    flat=1.0,
                ),
            ),
            linear=True,
            columns=2,
        )

    def _sketches(self, setting: Setting) -> BenchQuestion:
        widths = QUICK_WIDTHS if setting.quick else WIDTHS
        sums = [(SLOW, width) for width in widths]
        points = [
            Point(panel, line, str(width), self._cell(stream, line, EPSILON, SLOW, width, sums))
            for panel, stream in self._streams(setting, _units(setting))
            for width in widths
            for line in (ALONE, COARSE, LAPLACE, RECURRENCE, *TRIVIAL_LINES)
        ]
        measure = f"decayed:{SLOW},{{x}}"
        return BenchQuestion(
            name="sketch",
            title="When a sketch is needed",
            words=(
                "ε = 1, γ = 0.99. `laplace` is summed exactly, by a reader who keeps the whole "
                "window. `recurrence` keeps one number per key and never forgets: its sums are "
                "too large by γ^w of the sum. A sketch lies between the two."
            ),
            axis="window w, units",
            measures=(PlottedMeasure(measure, MSE), KEPT),
            points=tuple(points),
            claims=(
                Better(
                    paper=(
                        "where γ^w is not negligible, the sketch is better than one number per key"
                    ),
                    source="docs/proofs/eshp.md",
                    measure=measure,
                    line=ALONE,
                    rival=RECURRENCE,
                    up_to_x=100,
                ),
                Better(
                    paper="and a finer sketch is better than a coarse one",
                    source="docs/proofs/eshp.md",
                    measure=measure,
                    line=ALONE,
                    rival=COARSE,
                    up_to_x=100,
                    panels=STREAMS[:1],
                ),
                Alike(
                    paper="where γ^w < 1e-4, one number per key is as good as the exact window",
                    source="docs/proofs/eshp.md",
                    measure=measure,
                    line=RECURRENCE,
                    rival=LAPLACE,
                    from_x=1_000,
                ),
            ),
            columns=2,
        )

    # -- cells -------------------------------------------------------------------------------------

    def _streams(self, setting: Setting, units: int) -> Iterator[tuple[str, Stretch]]:
        for name in STREAMS:
            yield name, Stretch(dataset=name, units=units)
        for name in setting.streams:
            yield name, Stretch(dataset=name, units=units, keys=SOME)

    def _cell(
        self,
        stream: Stretch,
        line: str,
        epsilon: str,
        gamma: str,
        span: int,
        sums: Sequence[tuple[str, int]],
        **more: Value,
    ) -> Cell:
        """A line that shows sums is made for one of them; for a line of counts, all `sums` are
        taken.
        """
        if line in SUMMING:
            name, given = SUMMING[line]
            measures = (f"decayed:{gamma},{span}", TIME, MEMORY)
            return Cell.of(
                self.name,
                stream,
                name,
                measures,
                epsilon=epsilon,
                gamma=gamma,
                span=span,
                **given,
                **more,
            )
        every = tuple(f"decayed:{rate},{width}" for rate, width in sums)
        if line in TRIVIAL_LINES:
            return Cell.of(self.name, stream, line, every)
        window: dict[str, Value] = {} if line.startswith(LAB) else {"window": 1}
        return Cell.of(self.name, stream, line, (*every, TIME, MEMORY), epsilon=epsilon, **window)


def _span(setting: Setting) -> int:
    """The default w."""
    return QUICK_SPANS[0] if setting.quick else SPANS[0]


def _units(setting: Setting) -> int:
    """The number of units that w needs."""
    return 300 if setting.quick else 2_400


def _sums(setting: Setting) -> list[tuple[str, int]]:
    """All γ of that w: one run of a line of counts serves several questions."""
    return [(gamma, _span(setting)) for gamma in (QUICK_GAMMAS if setting.quick else GAMMAS)]


def _beta(line: str, beta: str) -> dict[str, Value]:
    """The default β is not named, so that questions share the cell."""
    return {"beta": beta} if line in (ESHP, PUBLISHED) and beta != BETAS[0] else {}


def _best(
    measure: str, *, up_to_x: float | None = None, from_x: float | None = None, where: str = ""
) -> tuple[Claim, ...]:
    return tuple(
        Better(
            paper=f"ESHP is better than {name}{where}",
            measure=measure,
            line=ESHP,
            rival=rival,
            up_to_x=up_to_x,
            from_x=from_x,
        )
        for name, rival in (("FAST", FAST), ("RTP_DMM", TREE), ("APB", APB))
    )


_COSTS = {TIME: "time", MEMORY: "memory"}


def _headline() -> tuple[Claim, ...]:
    """The claims of the paper's abstract and of its figures on w."""
    return (*_costs(), *_errors(f"decayed:{GAMMA},{{x}}"))


def _costs() -> tuple[Claim, ...]:
    """The claims about time and memory."""
    return (
        _saves(SURVEY, "negative surveys", 0.62),
        _saves(
            SURVEY,
            "negative surveys (its own figure at w = 6,000 has 40 %)",
            0.76,
            measure=MEMORY,
        ),
        _moves(ESHP, "ESHP", "flat"),
        _saves(TREE, "RTP_DMM", 0.46),
        _saves(APB, "APB", 0.77),
        _saves(FAST, "FAST", 0.59),
        _moves(APB, "APB", "up"),
        _moves(TREE, "RTP_DMM", "up"),
        _moves(ESHP, "ESHP", "up", measure=MEMORY),
        _moves(SURVEY, "negative surveys", "up", measure=MEMORY),
        _saves(TREE, "RTP_DMM", 0.68, measure=MEMORY),
    )


def _saves(rival: str, name: str, share: float, *, measure: str = TIME) -> Saves:
    needs = f"ESHP needs {round(100 * share)} % less {_COSTS[measure]} than {name}"
    return Saves(paper=needs, measure=measure, line=ESHP, rival=rival, share=share)


def _moves(line: str, name: str, way: str, *, measure: str = TIME) -> Moves:
    verb = "grows with w" if way == "up" else "hardly depends on w"
    return Moves(
        paper=f"the {_COSTS[measure]} of {name} {verb}", measure=measure, line=line, way=way
    )


def _errors(measure: str) -> tuple[Claim, ...]:
    """The claims about errors, and about the sketch."""
    return (
        *_best(measure, from_x=4_000, where=" over long windows (here: from 4,000 units on)"),
        Better(
            paper="over short windows APB is better than ESHP",
            measure=measure,
            line=APB,
            rival=ESHP,
            up_to_x=2_000,
        ),
        Better(paper="RTP_DMM is better than FAST", measure=measure, line=TREE, rival=FAST),
        Alike(
            paper="one number per key is as good as the sketch here",
            source="docs/proofs/eshp.md",
            measure=measure,
            line=RECURRENCE,
            rival=ESHP,
        ),
        Saves(
            paper="and needs less memory than the sketch",
            source="docs/proofs/eshp.md",
            measure=MEMORY,
            line=RECURRENCE,
            rival=ESHP,
            share=0.5,
        ),
    )
