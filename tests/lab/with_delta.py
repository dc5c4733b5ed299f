"""Mechanisms that are pure by default, with a delta by default: checks know no other parameters."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.exact import Exact
from penstock.private.mechanisms.ba import BudgetAbsorption
from penstock.private.mechanisms.bd import BudgetDistribution
from penstock.private.mechanisms.fixed import FixedSampling
from penstock.private.mechanisms.grouped import GroupedAbsorption, GroupedDistribution
from penstock.private.mechanisms.sample import Sample
from penstock.private.mechanisms.tide import Tide
from penstock.private.mechanisms.uniform import Uniform

DELTA = "1e-6"


@dataclass(frozen=True, kw_only=True)
class UniformWithDelta(Uniform):
    """Another default."""

    delta: Exact = DELTA


@dataclass(frozen=True, kw_only=True)
class SampleWithDelta(Sample):
    """Another default."""

    delta: Exact = DELTA


@dataclass(frozen=True, kw_only=True)
class FixedWithDelta(FixedSampling):
    """Another default."""

    delta: Exact = DELTA


@dataclass(frozen=True, kw_only=True)
class DistributionWithDelta(BudgetDistribution):
    """Another default."""

    delta: Exact = DELTA


@dataclass(frozen=True, kw_only=True)
class AbsorptionWithDelta(BudgetAbsorption):
    """Another default."""

    delta: Exact = DELTA


@dataclass(frozen=True, kw_only=True)
class FewGroupsWithDelta(GroupedDistribution):
    """Another default."""

    delta: Exact = DELTA
    groups: int = 2
    regroup: int = 3


@dataclass(frozen=True, kw_only=True)
class GroupedAbsorptionWithDelta(GroupedAbsorption):
    """Another default."""

    delta: Exact = DELTA


@dataclass(frozen=True, kw_only=True)
class TideWithDelta(Tide):
    """Another default."""

    delta: Exact = DELTA


ALL_WITH_DELTA = (
    UniformWithDelta,
    SampleWithDelta,
    FixedWithDelta,
    DistributionWithDelta,
    AbsorptionWithDelta,
    FewGroupsWithDelta,
    GroupedAbsorptionWithDelta,
    TideWithDelta,
)
