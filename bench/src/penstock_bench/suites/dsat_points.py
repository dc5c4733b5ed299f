"""The streams of `dsat`, and the points of its figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from penstock_bench.cell import MEAN, ZEROS, Cell, Stretch, Value
from penstock_bench.datasets.registry import find
from penstock_bench.feed import sized
from penstock_bench.suite import PlottedMeasure, Point, Setting

T = TypeVar("T")

SUITE = "dsat"
TRIVIAL_LINES = (ZEROS, MEAN)
LINES = ("dsat", "dsft", "fixed", "uniform", "bd", "ba")
GROUPED = ("bd_grouped", "ba_grouped")

CENSUS = Stretch(dataset="census", megabytes=300)
FLEET = Stretch(dataset="fleet")
MOVEMENT = Stretch(dataset="movement", megabytes=150)
STREAMS = (
    CENSUS,
    FLEET,
    Stretch(dataset="flights", units=1_000),
    Stretch(dataset="births", units=1_000),
)
QUICK_CENSUS = Stretch(
    dataset="census", options=(("people", 5_000), ("pool", 30_000), ("units", 40))
)
QUICK_FLEET = Stretch(dataset="fleet", options=(("units", 48), ("vehicles", 3_000)))
QUICK_MOVEMENT = Stretch(
    dataset="movement", options=(("objects", 2_000), ("side", 16), ("units", 60))
)
QUICK_STREAMS = (QUICK_CENSUS, QUICK_FLEET, Stretch(dataset="births", units=50))
"""The first ones are generated, so that the suite runs without data files."""

CUT, QUICK_CUT = 1_000, 50
"""The most units of a dataset that the user adds."""

USUAL: dict[str, Value] = {"rate": "0.01", "attributes": 3}
"""The default options of the census."""

EPSILON = "1"

MOST = 10
"""The default C."""

QUERIES, QUICK_QUERIES = 5_000, 200


@dataclass(frozen=True)
class Points:
    """Makes the points of all questions for one setting."""

    setting: Setting

    @property
    def measure(self) -> str:
        return f"ranges:{QUICK_QUERIES if self.setting.quick else QUERIES}"

    @property
    def drawn(self) -> tuple[PlottedMeasure, ...]:
        return (PlottedMeasure(self.measure, "mean absolute error of a range count"),)

    def swept(self, all_of_them: Sequence[T], quick: Sequence[T]) -> Sequence[T]:
        """The values along an axis."""
        return quick if self.setting.quick else all_of_them

    # -- streams -----------------------------------------------------------------------------------

    @property
    def own(self) -> tuple[Stretch, ...]:
        return QUICK_STREAMS if self.setting.quick else STREAMS

    @property
    def streams(self) -> list[Stretch]:
        """Our streams for questions at user level, and those of the user."""
        return [*self.own, *self._added(self.own)]

    @property
    def moving(self) -> list[Stretch]:
        """Our streams for questions about windows, and those of the user."""
        own = QUICK_MOVEMENT if self.setting.quick else MOVEMENT
        return [own, *self._added((own,))]

    def _added(self, own: Sequence[Stretch]) -> Iterator[Stretch]:
        cut = QUICK_CUT if self.setting.quick else CUT
        for name in self.setting.streams:
            if name not in {stream.dataset for stream in own}:
                there, _ = find(name).shape or (cut, 0)
                yield sized(name, units=min(cut, there))

    def census(self, **options: Value) -> Stretch:
        """The census with other options."""
        own = self.own[0]
        others = tuple((name, value) for name, value in options.items() if value != USUAL[name])
        heavy = 200 if "attributes" in dict(others) and not self.setting.quick else 0
        return replace(own, options=(*others, *own.options), megabytes=own.megabytes + heavy)

    def fleet(self, side: int) -> Stretch:
        """The fleet on a map of this many rows and columns."""
        own = self.own[1]
        return own if side == 10 else replace(own, options=(("side", side), *own.options))

    # -- points ------------------------------------------------------------------------------------

    def everybody(
        self,
        stream: Stretch,
        panel: str,
        x: str,
        epsilon: str = EPSILON,
        window: int | None = None,
        *,
        releases: int = MOST,
        more: Sequence[str] = (),
    ) -> list[Point]:
        """All mechanisms, those of the user included, and the trivial lines."""
        lines = tuple(dict.fromkeys((*LINES, *more, *self.setting.also, *TRIVIAL_LINES)))
        return self.lines(stream, panel, x, epsilon, window, releases=releases, lines=lines)

    def lines(
        self,
        stream: Stretch,
        panel: str,
        x: str,
        epsilon: str = EPSILON,
        window: int | None = None,
        *,
        releases: int = MOST,
        lines: Sequence[str],
    ) -> list[Point]:
        """Some of the lines."""
        return [
            Point(panel, line, x, self.cell(stream, line, epsilon, window, releases=releases))
            for line in lines
        ]

    def cell(
        self,
        stream: Stretch,
        mechanism: str,
        epsilon: str = EPSILON,
        window: int | None = None,
        *,
        releases: int = MOST,
        **more: Value,
    ) -> Cell:
        """Without a window, the promise covers a person in the whole stream."""
        units = length(stream) if window is None else window
        given: dict[str, Value] = {"epsilon": epsilon, "window": units, **more}
        if window is None:
            given["horizon"] = units
        if mechanism in ("dsat", "dsft"):
            given["releases"] = releases
        if mechanism == "fixed":
            given["every"] = -(-units // releases)
        return Cell.of(SUITE, stream, mechanism, (self.measure, "time"), **given)


def length(stream: Stretch) -> int:
    """The number of units of a stream."""
    there, _ = find(stream.dataset).shape or (0, 0)
    return stream.units or int(dict(stream.options).get("units") or there)
