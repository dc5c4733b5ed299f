"""Public counts of another size: what a thin sample would be like if it were thick."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.engine.plan.judgement import number
from penstock.engine.plan.public_counts import PublicCounts, scattered
from penstock.engine.plan.releases import best_average

_TINY = 1e-300
"""Keeps a division by zero away."""


def scaled(public: PublicCounts, *, mean: float, typical: float) -> PublicCounts:
    """Counts of the same form with another mean, always the same ones; the words say so.

    A flow is drawn at random around its rates. Multiplied counts would have wide gaps, and the
    chance of a thin sample would look like jumps of a thick stream. A stock is multiplied and
    rounded.

    Parameters
    ----------
    public : PublicCounts
        The counts that have the form: some or all keys and units of the sample.
    mean : float
        The mean count of a key in a unit of the whole sample.
    typical : float
        The mean that the whole sample shall have.

    Examples
    --------
    >>> from penstock.core.domain import Domain
    >>> thin = PublicCounts(counts=np.ones((500, 2), np.int64), domain=Domain.of(2), every="1h")
    >>> thick = scaled(thin, mean=1.0, typical=19.0)
    >>> round(thick.mean), len(np.unique(thick.counts)) > 20
    (19, True)
    """
    if typical == mean:
        return public
    facts, factor = public.facts, typical / mean
    means: FloatArray
    if facts.kind == "stock":
        means, how = factor * public.counts.astype(np.float64), "They were multiplied by"
    else:
        means = rates(public.counts, facts.periods)
        means *= factor * public.mean / max(float(means.mean()), _TINY)
        how = "New ones were drawn at random around their rates times"
    words = (
        f"{public.words} Their mean is {number(mean)} per key and unit. {how} {number(factor)}, "
        f"because the typical count is {number(typical)} by your statement."
    )
    return replace(public, counts=scattered(means, facts.kind), words=words)


def rates(counts: IntArray, periods: Sequence[int] = ()) -> FloatArray:
    """The rates behind counts of independent events, as far as the counts show them.

    Around a rate, counts have the variance of the rate. So a key whose counts miss their best
    average by no more than that has the average as its rates. If they miss it by more, the rates
    vary around the average in the same way, with the rest of the variance.

    Parameters
    ----------
    counts : IntArray
        One row per unit, one column per key.
    periods : sequence of int
        The seasons, in units. Default: none.

    Examples
    --------
    >>> still, jumps = [3, 5, 4, 4, 3, 5] * 20, [0] * 60 + [90] * 60
    >>> found = rates(np.array([still, jumps]).T)
    >>> found[[0, -1]].round().tolist()
    [[4.0, 0.0], [4.0, 90.0]]
    """
    value = counts.astype(np.float64)
    average, predicted = best_average(value, np.ones_like(value), periods)
    # The two differ by the unit's own chance. Their product has the variance around the rate.
    spread = ((value - predicted) * (value - average)).mean(axis=0)
    beyond = np.clip(1 - value.mean(axis=0) / np.maximum(spread, _TINY), 0, 1)
    return np.asarray(average + np.sqrt(beyond) * (value - average))
