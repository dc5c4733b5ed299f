"""Publish the number of WiFi devices per room, floor and building, and raise an alert.

    python examples/campus_wifi.py [--out out]

The data are two weeks of a simulated campus, in units of five minutes. On the second Wednesday the
access points of one building fail for six hours. One hierarchical release gives rooms, floors and
buildings that add up. The alert and the figure are queries on its release log. Needs penstock-bench
for the campus and the figure.
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from pathlib import Path

import numpy as np

import penstock as ps
from penstock.released.queries import LowSignal, RollUp
from penstock_bench import figures
from penstock_bench.simulated.campus import UNITS_A_DAY, Campus

EPSILON, THETA = "1", "10"
DARK = "Birkett"
FAILS = range(9 * UNITS_A_DAY + 10 * 12, 9 * UNITS_A_DAY + 16 * 12)
WIDTH, LOW = 12, 100


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("out"),
        help="folder for the log and the figure (default: out)",
    )
    parser.add_argument("--days", type=int, default=14, help="number of days (default: 14)")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)

    campus = Campus(rooms=48, seed=4)
    units = given.days * UNITS_A_DAY
    counts = campus.counts(units, total=150 * units)
    in_the_dark = np.array([path.startswith(DARK) for path in campus.paths.values()])
    for unit in FAILS:
        counts[unit : unit + 1, in_the_dark] = 0

    path = given.out / "campus.log"
    path.unlink(missing_ok=True)
    run = ps.HierarchicalPegasus(epsilon=EPSILON, theta=THETA).run(ps.Hierarchy.of(campus.paths))
    log = ps.open_log(path, run, name="campus WiFi")
    for unit in counts:
        log.append(run.step(unit))

    print(run.guarantee.in_words(), end="\n\n")
    noon = min(units, UNITS_A_DAY // 2)
    shown = RollUp().answer(log, noon)
    truth = dict(
        zip(run.released.keys, run.released.totals(counts[noon - 1]).tolist(), strict=True)
    )
    print(f"Unit {noon}, noon of the first day:")
    for row in shown.rows():
        if row["name"].count("/") < 2:
            print(f"  {row['name']:<22} {row['estimate']:7.1f}   (true {truth[row['name']]})")

    low = LowSignal(WIDTH, LOW).series(log)
    busy = _busy_hours(low.units)
    column = low.names.index(DARK)
    alarms = [
        int(unit)
        for unit, raised in zip(low.units, low.raised[:, column] & busy, strict=True)
        if raised
    ]
    print(
        f"\nFewer than {LOW} devices in an hour at {DARK}, between 10 and 18 on weekdays: "
        f"{_stretches(alarms)}"
    )
    print(
        f"It was dark in units {FAILS.start + 1}..{FAILS.stop}."
        if units >= FAILS.stop
        else "It was not dark that early."
    )
    print(f"\n{_draw(low, counts, in_the_dark, column, given.out / 'campus.png')}")
    print(f"penstock query {path} low --window {WIDTH} --delta {LOW} --key {DARK} --last 5")


def _busy_hours(units: np.ndarray) -> np.ndarray:
    day, hour = (units - 1) // UNITS_A_DAY, (units - 1) % UNITS_A_DAY // 12
    return (day % 7 < 5) & (hour >= 10) & (hour < 18)


def _stretches(units: list[int]) -> str:
    """Units as first..last, stretch by stretch."""
    if not units:
        return "never"
    breaks = [0, *(i for i in range(1, len(units)) if units[i] > units[i - 1] + 1), len(units)]
    return ", ".join(f"{units[i]}..{units[j - 1]}" for i, j in pairwise(breaks))


def _draw(low, counts, in_the_dark, column, path: Path) -> Path:
    figure, axis = figures.new(width=10, height=3.6)
    days = low.units / UNITS_A_DAY
    hours = np.convolve(counts[:, in_the_dark].sum(axis=1), np.ones(WIDTH))[WIDTH - 1 : len(counts)]
    axis.plot(days, hours, color=figures.TRUTH, linewidth=1, label="true")
    axis.plot(
        days,
        low.statistic.estimate[:, column],
        color=figures.COLOURS[0],
        linewidth=1,
        label="released",
    )
    alarm = low.raised[:, column] & _busy_hours(low.units)
    axis.fill_between(
        days,
        0,
        hours.max(),
        where=alarm,
        color=figures.COLOURS[1],
        alpha=0.35,
        linewidth=0,
        label="alert",
    )
    axis.set_title(
        f"Devices in the last hour, {DARK}: it goes dark on day {FAILS.start // UNITS_A_DAY + 1}",
        fontsize=10,
    )
    axis.set_xlabel("day")
    axis.legend(fontsize=8, frameon=False, ncols=3)
    return figures.save(figure, path)


if __name__ == "__main__":
    main()
