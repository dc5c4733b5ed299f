"""Each key's own season: a factor per phase and key, used where it predicts better."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.filters.key_models import CLASSES, Block, KeyModels, size_classes, sums_by_class
from penstock.filters.observation import FilterSettings

FIRST_VARIANCE, LATER_VARIANCE, LEAST_VARIANCE = 0.06, 0.03, 0.002
"""Prior variances of a season's factor, of the shortest period and of others; and the least."""

RANGE = (0.02, 20.0)
MOVE = (-1.0, 3.0)
"""The range of factors, and of relative errors that move them."""

EXTRA_VARIANCE = 0.01
MAX_CELLS = 40_000_000
"""A period with more phases × keys than this has no own season."""

MARGIN, KEEP, MOST_LOSS, SPREAD = 2.0, 0.998, 12.0, 0.2
"""Seasons are used in a size class if their log score is better by MARGIN. Scores are kept by KEEP
per key; a squared error counts at most MOST_LOSS; levels are uncertain by SPREAD."""

MAX_SHARE = 3
"""A block of more than 1/MAX_SHARE of a period says nothing of its phases."""


@dataclass
class KeySeasons:
    """Per period, phase and key a factor of mean about 1, with its variance.

    A sum of n units, short against the period, corrects the factors of its n phases: one diagonal
    Kalman step each, by its ratio to the forecast. In each size class, the sums are predicted with
    and without seasons, and the better of the two is used.
    """

    factors: list[NDArray[np.float32]]
    variances: list[NDArray[np.float32]]
    scores: FloatArray
    """Per size class, the log score without and with seasons."""

    @classmethod
    def nothing(cls, settings: FilterSettings) -> KeySeasons:
        """Factors of 1. A stock has none."""
        periods = [
            period
            for period in settings.periods
            if period > 1 and period * settings.keys <= MAX_CELLS and settings.kind == "flow"
        ]
        first = [FIRST_VARIANCE if not place else LATER_VARIANCE for place in range(len(periods))]
        return cls(
            [np.ones((period, settings.keys), np.float32) for period in periods],
            [
                np.full((period, settings.keys), variance, np.float32)
                for period, variance in zip(periods, first, strict=True)
            ],
            np.zeros((CLASSES, 2)),
        )

    def now(self, unit: int) -> FloatArray | float:
        """The product of each key's factors in this unit."""
        product: FloatArray | float = 1.0
        for factors in self.factors:
            product = product * factors[(unit - 1) % len(factors)].astype(np.float64)
        return product

    def used(self, classes: IntArray) -> BoolArray:
        """Which of these size classes are predicted better with seasons."""
        better = self.scores[:, 1] > self.scores[:, 0] + MARGIN
        return better[classes]

    def learn(
        self,
        unit: int,
        models: KeyModels,
        block: Block,
        plain: FloatArray | float,
        seasonal: FloatArray | float,
    ) -> None:
        """Score both predictions of the block's sums, then correct the factors.

        `plain` and `seasonal` are the sums of factors over each block, without and with seasons.
        """
        if not self.factors:
            return
        level = models.mean[block.keys]
        above: FloatArray = np.maximum(np.broadcast_to(seasonal, level.shape), 1e-9)
        expected = np.square(SPREAD * level) + level / block.factor
        expected += block.noise / np.square(block.factor)
        classes = size_classes(level, block.noise)
        scores = np.ones((3, len(level)))
        for place, factor in enumerate((plain, above)):
            loss = np.minimum(np.square(block.sums / factor - level) / expected, MOST_LOSS)
            scores[place] = -0.5 * loss
        *sums, number = sums_by_class(classes, scores)
        self.scores *= np.power(KEEP, number)[:, None]
        self.scores += np.transpose(sums)
        for factors, variances in zip(self.factors, self.variances, strict=True):
            self._correct(unit, models, block, above, factors, variances)

    def _correct(
        self,
        unit: int,
        models: KeyModels,
        block: Block,
        seasonal: FloatArray,
        factors: NDArray[np.float32],
        variances: NDArray[np.float32],
    ) -> None:
        period = len(factors)
        level = models.mean[block.keys]
        some = np.flatnonzero((block.units <= max(period // MAX_SHARE, 1)) & (level > 1e-6))
        if not len(some):
            return
        keys, units, level, factor = (
            block.keys[some],
            block.units[some],
            level[some],
            seasonal[some],
        )
        error = np.clip(block.sums[some] / (level * factor) - 1, *MOVE)
        drawn = np.broadcast_to(block.noise, block.keys.shape)[some]
        noise = drawn / np.square(factor) + level / factor + models.irregular[keys]
        noise = (noise / np.square(level) + EXTRA_VARIANCE) * units
        for back in range(int(units.max())):
            here = np.flatnonzero(units > back)
            phase, which = (unit - 1 - back) % period, keys[here]
            variance = variances[phase, which]
            gain = variance / (variance + noise[here])
            corrected = factors[phase, which] * (1 + gain * error[here])
            factors[phase, which] = np.clip(corrected, *RANGE)
            variances[phase, which] = np.maximum(variance * (1 - gain), LEAST_VARIANCE)
