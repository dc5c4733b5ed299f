"""Publish which kinds of restaurant people visit: every day a histogram of the last two weeks.

    python examples/restaurants.py [--out out]

The data are half a year of simulated visits to 16 kinds of restaurant, with one unit per day and a
food festival in spring. One release by retroactive grouping answers windows of any number of
units; here the last two weeks. Needs penstock-bench for the figure.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import penstock as ps
from penstock.released.queries import SlidingSum, TopK
from penstock_bench import figures

KINDS = [
    *("bakery", "burger", "café", "curry", "diner", "dumpling", "falafel", "grill"),
    *("ice cream", "noodle", "pizza", "ramen", "salad", "seafood", "sushi", "taco"),
]
EPSILON = "0.1"
FORTNIGHT = 14
FESTIVAL = range(70, 84)


def visits(days: int, seed: int = 2) -> np.ndarray:
    """The number of visits per day and kind of restaurant."""
    rng = np.random.default_rng(seed)
    day = np.arange(days)
    weekend = np.where(day % 7 >= 5, 1.3, 1.0)
    rate = 60 * np.exp(rng.normal(0, 0.8, len(KINDS))) * weekend[:, None] * np.ones(days)[:, None]
    rate[:, KINDS.index("ice cream")] *= 0.3 + 1.4 * np.clip((day - 60) / 90, 0, 1)
    for kind in ("dumpling", "taco"):
        rate[FESTIVAL.start : FESTIVAL.stop, KINDS.index(kind)] *= 4
    return rng.poisson(rate)


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
    parser.add_argument(
        "--days", type=int, default=180, help="number of days, at least 14 (default: 180)"
    )
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    counts = visits(max(given.days, FORTNIGHT))

    path = given.out / "restaurants.log"
    path.unlink(missing_ok=True)
    run = ps.RetroactiveGrouping(epsilon=EPSILON).run(KINDS)
    log = ps.open_log(path, run, name="restaurants")
    for unit in counts:
        log.append(run.step(unit))

    print(run.guarantee.in_words(), end="\n\n")
    answer = SlidingSum(FORTNIGHT).answer(log)
    truth = counts[-FORTNIGHT:].sum(axis=0)
    print(f"The last two weeks, up to day {log.last}:")
    for row, true in sorted(
        zip(answer.rows(), truth.tolist(), strict=True), key=lambda pair: -pair[0]["estimate"]
    ):
        print(
            f"  {row['name']:<10} {row['estimate']:6.0f}   95 % interval {row['low']:6.0f} to "
            f"{row['high']:6.0f}   (true {true})"
        )
    print(
        "The intervals cover the added noise only. They do not cover differences between the days "
        "of one group."
    )
    print(
        "\nThe five most visited kinds:",
        ", ".join(TopK(5, of=SlidingSum(FORTNIGHT)).answer(log).names[0]),
    )
    print(f"\nWrote {_draw(log, counts, given.out / 'restaurants.png')} and {path}.")
    print(f"Next: penstock query {path} sum --window {FORTNIGHT}")


def _draw(log: ps.Log, counts: np.ndarray, path: Path) -> Path:
    series = SlidingSum(FORTNIGHT).series(log)
    sums = np.cumsum(np.vstack([np.zeros(len(KINDS), np.int64), counts]), axis=0)
    truth = sums[FORTNIGHT:] - sums[:-FORTNIGHT]
    figure, (left, right) = figures.new(1, 2, width=11, height=4.0, width_ratios=(1, 1.3))
    order = np.argsort(truth[-1])
    places = np.arange(len(KINDS))
    left.barh(
        places, series.estimate[-1, order], color=figures.COLOURS[0], height=0.7, label="released"
    )
    left.plot(
        truth[-1, order],
        places,
        "|",
        color=figures.TRUTH,
        markersize=9,
        markeredgewidth=2,
        label="true",
    )
    left.set_yticks(places, [KINDS[kind] for kind in order])
    left.set_title("Visits in the last two weeks", fontsize=10)
    left.legend(fontsize=8, frameon=False, loc="lower right")
    days = series.units
    for colour, kind in zip(figures.COLOURS, ("taco", "dumpling", "ice cream"), strict=False):
        column = KINDS.index(kind)
        right.plot(days, series.estimate[:, column], color=colour, linewidth=1.4, label=kind)
        right.plot(days, truth[:, column], color=figures.TRUTH, linewidth=0.8)
    right.set_title("Released visits over time; true ones in black", fontsize=10)
    right.set_xlabel("day")
    right.legend(fontsize=8, frameon=False)
    return figures.save(figure, path)


if __name__ == "__main__":
    main()
