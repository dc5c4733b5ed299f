"""The competitors by name."""

from __future__ import annotations

from penstock_bench.competitors.adapub import AdaPub, PublishedAdaPub
from penstock_bench.competitors.apb import AdaptiveBudget
from penstock_bench.competitors.competitor import Competitor
from penstock_bench.competitors.eshp_published import PublishedSketch
from penstock_bench.competitors.negative_survey import NegativeSurvey
from penstock_bench.competitors.node_laplace import NodeLaplace
from penstock_bench.competitors.per_release import NoisePerRelease
from penstock_bench.competitors.randomised_response import RandomisedResponse
from penstock_bench.competitors.recurrence import Recurrence
from penstock_bench.competitors.rescuedp import PublishedRescueDp, RescueDp
from penstock_bench.competitors.rtp_dmm import DecayedTree

COMPETITORS: dict[str, type[Competitor]] = {
    cls.name: cls
    for cls in (
        AdaPub,
        AdaptiveBudget,
        DecayedTree,
        NegativeSurvey,
        NodeLaplace,
        NoisePerRelease,
        PublishedAdaPub,
        PublishedRescueDp,
        PublishedSketch,
        RandomisedResponse,
        Recurrence,
        RescueDp,
    )
}
