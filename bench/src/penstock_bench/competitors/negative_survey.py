"""`negative_survey`: people name a key that is not theirs. Not private."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.lab.survey_answers import answers, negative
from penstock.private.noise import Noise
from penstock_bench.competitors.competitor import Estimated


@dataclass(frozen=True, kw_only=True)
class NegativeSurvey(Estimated):
    r"""Every event says one of the M − 1 keys that are not its own, each alike.

    Of n events :math:`r_k` say k, and :math:`n-(M-1)r_k` is an unbiased estimate of its count.

    **Not ε-private for any ε**: an answer rules its key out for certain. ε is there so that it can
    stand beside the others; it changes nothing. The auditor convicts it (`negative_survey`).

    References
    ----------
    What Wang et al., Tsinghua Science and Technology 29(6), 2024, section 6, compare themselves
    with. Departure: everybody answers, while there a sample of the people does.
    """

    name = "negative_survey"
    promise = "nothing"
    private = False

    def publish(self, counts: IntArray, *, noise: Noise, unit: int = 1) -> FloatArray:
        keys = len(counts)
        said = answers(counts, negative(keys), noise=noise, unit=unit)
        return np.asarray(int(counts.sum()) - (keys - 1) * said, np.float64)
