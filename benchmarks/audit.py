"""Runs of an audit per minute of one core, and the distance of its bound from the true ε.

    python benchmarks/audit.py [--json]

CPU time of this process. Rates are measured on fewer runs and scaled to the number in the limit.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from penstock import Uniform
from penstock.lab.audit.engine import audit
from penstock.lab.audit.model import Pair
from penstock.lab.audit.noise import LabNoise
from penstock.lab.audit.sample import traces
from penstock.lab.audit.subjects import subject
from penstock.private.mechanisms.registry import MECHANISMS

from report import Figure, cpu, main

MILLION = 1_000_000
TRIED = 4_000


def figures() -> Iterator[Figure]:
    for epsilon in ("0.5", "1", "2"):
        verdict = audit(
            subject("uniform", epsilon=epsilon, window=1, runs=MILLION), workers=1, seed=1
        )
        yield Figure(
            f"plain Laplace, ε = {epsilon}: bound / ε",
            verdict.lower_bound / float(epsilon),
            "ratio",
            0.9,
            at_least=True,
        )
    stream = np.zeros((4, 1), np.int64)
    mechanism = Uniform(epsilon=1, window=4)
    seconds = cpu(lambda: traces(mechanism, stream, MILLION, LabNoise(1)))
    yield Figure("uniform: 1e6 runs of four units, runs as keys", seconds, "s", 60)
    for name in MECHANISMS:
        if MECHANISMS[name].by_key:
            continue
        tried = MECHANISMS[name](epsilon=2, window=2)
        pair = Pair("still", stream + 1, stream)
        seconds = cpu(
            lambda tried=tried, pair=pair: [  # type: ignore[misc]
                traces(tried, side, TRIED, LabNoise(2)) for side in (pair.left, pair.right)
            ]
        )
        limit = 60 if name in ("bd", "ba") else None
        yield Figure(
            f"{name}: 1e5 runs of both streams of four units", seconds * 100_000 / TRIED, "s", limit
        )


if __name__ == "__main__":
    main(__doc__ or "", figures)
