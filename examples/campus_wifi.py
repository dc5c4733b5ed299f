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
from penstock.released.queries import Alerts, LowSignal, RollUp
from penstock_bench import figures
from penstock_bench.simulated.campus import UNITS_A_DAY, Campus

EPSILON, THETA = "1", "10"
BUILDING = "Birkett"
FAILURE = range(9 * UNITS_A_DAY + 10 * 12, 9 * UNITS_A_DAY + 16 * 12)
WINDOW, THRESHOLD = 12, 100


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
    rooms = np.array([path.startswith(BUILDING) for path in campus.paths.values()])
    counts[FAILURE.start : FAILURE.stop, rooms] = 0

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

    low = LowSignal(WINDOW, THRESHOLD).series(log)
    busy = _busy_hours(low.units)
    column = low.names.index(BUILDING)
    alerts = [
        int(unit)
        for unit, alert in zip(low.units, low.raised[:, column] & busy, strict=True)
        if alert
    ]
    print(
        f"\nUnits with an alert (fewer than {THRESHOLD} devices in an hour at {BUILDING}, on "
        f"weekdays from 10 to 18): {_stretches(alerts)}"
    )
    print(
        f"Units of the true failure: {FAILURE.start + 1}..{FAILURE.stop}"
        if units >= FAILURE.stop
        else "Units of the true failure: none in so few days"
    )
    truth_in_building = counts[:, rooms].sum(axis=1)
    print(f"\nWrote {_draw(low, truth_in_building, column, given.out / 'campus.png')} and {path}.")
    options = f"--window {WINDOW} --delta {THRESHOLD} --key {BUILDING} --last 5"
    print(f"Next: penstock query {path} low {options}")


def _busy_hours(units: np.ndarray) -> np.ndarray:
    day, hour = (units - 1) // UNITS_A_DAY, (units - 1) % UNITS_A_DAY // 12
    return (day % 7 < 5) & (hour >= 10) & (hour < 18)


def _stretches(units: list[int]) -> str:
    """Consecutive units as first..last, with commas between the stretches."""
    if not units:
        return "none"
    breaks = [0, *(i for i in range(1, len(units)) if units[i] > units[i - 1] + 1), len(units)]
    return ", ".join(f"{units[i]}..{units[j - 1]}" for i, j in pairwise(breaks))


def _draw(low: Alerts, counts: np.ndarray, column: int, path: Path) -> Path:
    figure, axis = figures.new(width=10, height=3.6)
    days = low.units / UNITS_A_DAY
    hours = np.convolve(counts, np.ones(WINDOW))[WINDOW - 1 : len(counts)]
    axis.plot(days, hours, color=figures.TRUTH, linewidth=1, label="true")
    axis.plot(
        days,
        low.statistic.estimate[:, column],
        color=figures.COLOURS[0],
        linewidth=1,
        label="released",
    )
    raised = low.raised[:, column] & _busy_hours(low.units)
    axis.fill_between(
        days,
        0,
        hours.max(),
        where=raised,
        color=figures.COLOURS[1],
        alpha=0.35,
        linewidth=0,
        label="alert",
    )
    axis.set_title(
        f"Devices in the last hour, {BUILDING}; failure on day {FAILURE.start // UNITS_A_DAY + 1}",
        fontsize=10,
    )
    axis.set_xlabel("day")
    axis.legend(fontsize=8, frameon=False, ncols=3)
    return figures.save(figure, path)


if __name__ == "__main__":
    main()
