"""`windows`: sums over many units, at event level, against their formulas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from penstock_bench.cell import MEAN, ZEROS, Cell, Stretch, Value
from penstock_bench.claims import Agrees, Better, Claim
from penstock_bench.labels import label
from penstock_bench.measures.sums import decay
from penstock_bench.suite import BenchQuestion, PlottedMeasure, Point, Setting, Suite

STREAMS = ("wifi_high", "bike_med", "us_departures_high")
"""Single streams. The first is generated, so that the suite runs without data files."""

WIDTHS = tuple(2**power for power in range(1, 13))
QUICK_WIDTHS = (2, 16, 64, 256)
GAMMAS = ("0.9", "0.97", "0.99", "0.997")
QUICK_GAMMAS = ("0.9", "0.97")

COUNTING = ("laplace", "rg", "pegasus")
"""Lines whose releases answer any sum."""

TREES = ("sw_tree", "kary")
"""Lines that are built for one width and answer no other sum."""

TOEPLITZ = "toeplitz"

ENOUGH = 2_048
"""The number of units for sums of few units."""

COPIES = 64
"""The number of releases of each stream side by side."""

SOME = 8
"""The most keys of a dataset that a user adds: all releases are kept, for sums of any length."""


@dataclass(frozen=True)
class Windows(Suite):
    """Sums of windows, of all units so far, and with decaying weights."""

    name = "windows"
    title = "Sums over many units"
    paper = "docs/proofs, and Chen et al., CCS 2017, section 6.2"
    words = (
        "All lines promise (ε, w = 1), one event of one person, except `toeplitz`: its noise "
        "is Gaussian, so it promises (ε, δ = 1e-6, w = 1), which is slightly less. "
        "`laplace`, `rg` and `pegasus` release counts, from which any sum is computed; "
        "`sw_tree`, `kary` and `toeplitz` are built for one sum each. Several releases of a "
        "stream stand side by side as keys."
    )
    leaders = (("windows", ("2", "16", "64", "256", "1024", "4096")),)
    runs = 2
    quick_runs = 2

    def questions(self, setting: Setting) -> Sequence[BenchQuestion]:
        return (self._windows(setting), self._prefixes(setting), self._decay(setting))

    # -- the three questions -----------------------------------------------------------------------

    def _windows(self, setting: Setting) -> BenchQuestion:
        widths = QUICK_WIDTHS if setting.quick else WIDTHS
        every = ",".join(map(str, widths))
        points: list[Point] = []
        for stream, epsilon, panel in self._panels(setting, units=3 * max(widths)):
            for line in (*COUNTING, *setting.also, ZEROS, MEAN):
                cell = self._cell(stream, line, f"window_mse:{every}", epsilon)
                points += [Point(panel, line, str(width), cell) for width in widths]
            for line in (*TREES, TOEPLITZ):
                for width in (
                    widths
                ):  # the error of these does not depend on the counts, so a few windows are enough
                    enough = replace(stream, units=min(3 * max(widths), max(3 * width, ENOUGH)))
                    cell = self._cell(enough, line, f"window_mse:{width}", epsilon, span=width)
                    points.append(Point(panel, line, str(width), cell))
        return BenchQuestion(
            name="windows",
            title="Sliding sums",
            words="The mean squared error of the sum of the last W units, over all full windows. "
            "Dashed: the formula.",
            axis="width W of the window",
            measures=(
                PlottedMeasure(
                    "mse {x}", "mean squared error of a window's sum", "formula {x}", "error {x}"
                ),
            ),
            points=tuple(points),
            claims=(
                *_formulas("mse {x}", ("laplace", "sw_tree", "kary", TOEPLITZ)),
                Better(
                    paper="signed k-ary blocks are better than the binary tree at every width "
                    "from 64 on",
                    source="docs/proofs/kary.md",
                    from_x=64,
                    measure="mse {x}",
                    line="kary",
                    rival="sw_tree",
                ),
                Better(
                    paper="PeGaSus answers windows better than SW_w up to a width of 256 (there "
                    "in L1 and with its own θ)",
                    measure="mse {x}",
                    line="pegasus",
                    rival="sw_tree",
                    up_to_x=256,
                ),
            ),
            columns=2,
        )

    def _prefixes(self, setting: Setting) -> BenchQuestion:
        lasts = QUICK_WIDTHS if setting.quick else tuple(width for width in WIDTHS if width >= 8)
        every, length = ",".join(map(str, lasts)), max(lasts)
        points: list[Point] = []
        for stream, epsilon, panel in self._panels(setting, units=length):
            for line in (*COUNTING, *setting.also, TOEPLITZ, ZEROS, MEAN):
                more: dict[str, Value] = (
                    {"weights": "prefix", "epoch": length} if line == TOEPLITZ else {}
                )
                cell = self._cell(stream, line, f"prefix_mse:{every}", epsilon, **more)
                points += [Point(panel, line, str(last), cell) for last in lasts]
        return BenchQuestion(
            name="prefixes",
            title="Sums of all units so far",
            words=(
                "The mean squared error of the sum of units 1 to t, over eight units from ¾ t to "
                "t. Dashed: the formula. Trees for one width do not have such sums."
            ),
            axis="unit t",
            measures=(
                PlottedMeasure(
                    "mse {x}", "mean squared error of a prefix's sum", "formula {x}", "error {x}"
                ),
            ),
            points=tuple(points),
            claims=_formulas("mse {x}", ("laplace", TOEPLITZ)),
            columns=2,
        )

    def _decay(self, setting: Setting) -> BenchQuestion:
        gammas = QUICK_GAMMAS if setting.quick else GAMMAS
        points: list[Point] = []
        length = 2 * max(decay(gamma).length for gamma in gammas)
        for stream, epsilon, panel in self._panels(setting, units=length):
            for line in (*COUNTING, *setting.also, ZEROS, MEAN):
                cell = self._cell(stream, line, "decay_mse:" + ",".join(gammas), epsilon)
                points += [Point(panel, line, gamma, cell) for gamma in gammas]
            for gamma in gammas:
                given: dict[str, Value] = {
                    "weights": "decay",
                    "rate": gamma,
                    "span": decay(gamma).length,
                }
                cell = self._cell(stream, TOEPLITZ, f"decay_mse:{gamma}", epsilon, **given)
                points.append(Point(panel, TOEPLITZ, gamma, cell))
        return BenchQuestion(
            name="decay",
            title="Decaying sums",
            words=(
                "The mean squared error of a sum in which a unit has the weight γ to the power "
                "of its age. Dashed: the formula."
            ),
            axis="γ",
            measures=(
                PlottedMeasure(
                    "mse {x}", "mean squared error of a decayed sum", "formula {x}", "error {x}"
                ),
            ),
            points=tuple(points),
            claims=_formulas("mse {x}", ("laplace", TOEPLITZ)),
            linear=True,
            columns=2,
        )

    def _panels(self, setting: Setting, *, units: int) -> Iterator[tuple[Stretch, str, str]]:
        """One cell per stream and ε."""
        single = [
            Stretch(dataset=name, units=units, copies=COPIES)
            for name in (STREAMS[:2] if setting.quick else STREAMS)
        ]
        some = [
            Stretch(dataset=name, units=units, keys=SOME, copies=COPIES // SOME)
            for name in setting.streams
        ]
        for stream in (*single, *some):
            for epsilon in ("1",) if setting.quick else ("1", "0.1"):
                yield stream, epsilon, f"{stream.dataset}, ε = {epsilon}"

    def _cell(self, stream: Stretch, line: str, measure: str, epsilon: str, **more: Value) -> Cell:
        return Cell.of(
            self.name, stream, line, (measure, "time"), epsilon=epsilon, window=1, **more
        )


def _formulas(measure: str, lines: Sequence[str]) -> tuple[Claim, ...]:
    return tuple(
        Agrees(
            paper=f"the error of {label(line)} agrees with its formula", measure=measure, line=line
        )
        for line in lines
    )
