"""Common parts of all benchmarks: a figure with its bar, a CPU clock, and the output."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import fmean, median


@dataclass(frozen=True)
class Figure:
    """One measured value. `limit` is its bar: the most, or with `at_least` the least."""

    name: str
    value: float
    unit: str
    limit: float | None = None
    at_least: bool = False

    @property
    def ok(self) -> bool | None:
        if self.limit is None:
            return None
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def row(self) -> dict[str, object]:
        row: dict[str, object] = {
            "name": self.name,
            "value": float(f"{self.value:.4g}"),
            "unit": self.unit,
        }
        if self.limit is not None:
            row |= {"limit": self.limit, "ok": self.ok}
        return row


def cpu(work: Callable[[], object]) -> float:
    """The CPU seconds of one call, of this process with all its threads."""
    start = time.process_time_ns()
    work()
    return (time.process_time_ns() - start) / 1e9


def ratios(
    work: Callable[[], object], yardstick: Callable[[], object], *, rounds: int
) -> tuple[float, float]:
    """Median and mean cost of `work` as a multiple of `yardstick`, measured in turn."""
    pairs = [(cpu(work), cpu(yardstick)) for _ in range(rounds)]
    unit = median(y for _, y in pairs)
    return median(x for x, _ in pairs) / unit, fmean(x for x, _ in pairs) / unit


def main(
    description: str,
    measure: Callable[..., Iterable[Figure]],
    options: Callable[[argparse.ArgumentParser], None] | None = None,
) -> None:
    """Run `measure` and print a table, or with --json one list. Exit code 1 if a bar is missed.

    `options` adds options of the benchmark's own. Then `measure` gets all of them.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON list of name, value, unit and, with a bar, limit and ok",
    )
    if options is not None:
        options(parser)
    given = parser.parse_args()
    as_json = given.json
    figures: list[Figure] = []
    for figure in measure() if options is None else measure(given):
        figures.append(figure)
        bar = (
            ""
            if figure.limit is None
            else (
                f"   {'≥' if figure.at_least else '≤'} {figure.limit:g}  "
                f"{'ok' if figure.ok else 'MISSED'}"
            )
        )
        line = f"{figure.name:<58} {figure.value:>10.4g} {figure.unit:<14}{bar}"
        print(line, file=sys.stderr if as_json else sys.stdout, flush=True)
    if as_json:
        print(json.dumps([figure.row() for figure in figures], indent=1))
    sys.exit(any(figure.ok is False for figure in figures))
