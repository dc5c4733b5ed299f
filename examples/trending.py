"""Publish the trending topics of a web site: recent mentions count more than old ones.

    python examples/trending.py [--out out]

The data are one day of simulated mentions of 40 topics, with one unit per minute; six topics have a
burst. A mention has the weight 0.98 to the power of its age in minutes, for three hours. `eshp`
adds noise to every minute first, so decay, sketch and ranking cost no budget. Needs penstock-bench
for the figure.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import penstock as ps
from penstock.released.queries import TopK, WeightedSum
from penstock_bench import figures

EPSILON, GAMMA, SPAN = "0.5", "0.98", 180
TOPICS = [f"#topic{number:02}" for number in range(1, 41)]
BURSTS = {3: 200, 11: 420, 17: 600, 23: 760, 31: 1000, 37: 1200}


def mentions(minutes: int, seed: int = 3) -> np.ndarray:
    """The number of mentions per minute and topic."""
    rng = np.random.default_rng(seed)
    now = np.arange(minutes)
    rate = np.tile(rng.gamma(2.0, 1.0, len(TOPICS)), (minutes, 1))
    for topic, start in BURSTS.items():
        since = now - start
        rate[:, topic] += np.where(
            since >= 0, 40 * (1 - np.exp(-since / 10)) * np.exp(-since / 60), 0
        )
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
        "--minutes", type=int, default=1440, help="number of minutes (default: 1440)"
    )
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    counts = mentions(given.minutes)

    path = given.out / "trending.log"
    path.unlink(missing_ok=True)
    run = ps.WeightedHistogram(epsilon=EPSILON, gamma=GAMMA, span=SPAN).run(TOPICS)
    log = ps.open_log(path, run, name="trending topics")
    hours = range(60, given.minutes + 1, 120)
    print(run.guarantee.in_words(), end="\n\n")
    print(f"minute  {'released top 3':<44}  true top 3")
    weights = ps.Weights.decay(GAMMA, SPAN).sequence(SPAN)
    truth = np.zeros(counts.shape)
    for minute, unit in enumerate(counts, start=1):
        log.append(run.step(unit))
        recent = counts[max(minute - SPAN, 0) : minute][::-1]
        truth[minute - 1] = weights[: len(recent)] @ recent
        if minute in hours:
            top = TopK(3, of=WeightedSum(ps.Weights.decay(GAMMA, SPAN))).answer(log).names[0]
            best = [TOPICS[topic] for topic in np.argsort(-truth[minute - 1], kind="stable")[:3]]
            print(f"{minute:>6}  {'  '.join(top):<44}  {'  '.join(best)}")
    print(f"\nWrote {_draw(log, truth, given.out / 'trending.png')} and {path}.")
    print(f"Next: penstock query {path} decay --gamma {GAMMA} --window {SPAN}")


def _draw(log: ps.Log, truth: np.ndarray, path: Path) -> Path:
    figure, axis = figures.new(width=10, height=4.0)
    estimate = log.estimates()
    hours = np.arange(1, len(truth) + 1) / 60
    for topic in range(len(TOPICS)):
        if topic not in BURSTS:
            axis.plot(hours, estimate[:, topic], color=figures.FAINT, linewidth=0.7)
    for colour, topic in zip(figures.COLOURS, BURSTS, strict=False):
        axis.plot(hours, estimate[:, topic], color=colour, linewidth=1.4, label=TOPICS[topic])
        axis.plot(hours, truth[:, topic], color=figures.TRUTH, linewidth=0.7)
    axis.set_title(
        "Decayed mentions: released in colour, true in black, 34 quiet topics in grey", fontsize=10
    )
    axis.set_xlabel("hour")
    axis.legend(fontsize=8, frameon=False, ncols=3)
    return figures.save(figure, path)


if __name__ == "__main__":
    main()
