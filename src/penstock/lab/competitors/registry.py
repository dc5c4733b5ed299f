"""Every competitor by name."""

from __future__ import annotations

from penstock.lab.competitors.apb import AdaptiveBudget
from penstock.lab.competitors.competitor import Competitor
from penstock.lab.competitors.eshp_published import PublishedSketch
from penstock.lab.competitors.negative_survey import NegativeSurvey
from penstock.lab.competitors.node_laplace import NodeLaplace
from penstock.lab.competitors.per_release import NoisePerRelease
from penstock.lab.competitors.randomised_response import RandomisedResponse
from penstock.lab.competitors.recurrence import Recurrence
from penstock.lab.competitors.rtp_dmm import DecayedTree

COMPETITORS: dict[str, type[Competitor]] = {
    cls.name: cls
    for cls in (
        AdaptiveBudget,
        DecayedTree,
        NegativeSurvey,
        NodeLaplace,
        NoisePerRelease,
        PublishedSketch,
        RandomisedResponse,
        Recurrence,
    )
}
