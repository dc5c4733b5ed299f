"""What is publicly known about a view, and the public counts that follow from it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from pathlib import Path

from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.core.exact import Exact, positive
from penstock.engine.pipeline import AnyMechanism, Pipeline, PlanConfig
from penstock.engine.plan.candidates import AskedPromise
from penstock.engine.plan.public_counts import PublicCounts, StatedFacts, made_up, periods_of
from penstock.engine.plan.releases import counts_of_releases, counts_of_table
from penstock.engine.plan.sample_files import counts_of_sample
from penstock.engine.plan.scaling import scaled
from penstock.engine.store import Reader
from penstock.private.sources.base import Columns

HOW_TO_KNOW = (
    "Say what is publicly known: --typical 2, --sample FILE or --releases STORE, or write the "
    "table [plan]."
)

STOCK = "The stream is a stock by your statement: counts are what is present in a unit, not events."

MAX_TYPICAL = 10**12
"""The largest typical count. Sums of counts of this size fit into 64 bits."""

TABLES = (".csv", ".parquet")
"""Endings of exported tables of releases; anything else is a store."""


@dataclass(frozen=True, kw_only=True)
class PlannedView:
    """The public facts of a view that a plan is made for.

    Parameters
    ----------
    name : str
        The name of the series.
    domain : Domain
        The keys.
    every : str
        The length of a unit.
    promise : AskedPromise
        The promise to keep.
    units : int
        How many units of the stream one unit of the view has. Default: 1.
    zone : str
        The time zone of units. Default: "UTC".
    columns : Columns, optional
        The columns of a sample of events. Default: none, a sample has one column per key.
    other : str, optional
        The key that counts unknown keys. Default: none.
    current : Mechanism, optional
        The mechanism in use. Default: none.
    """

    name: str
    domain: Domain
    every: str
    promise: AskedPromise
    units: int = 1
    zone: str = "UTC"
    columns: Columns | None = None
    other: str | None = None
    current: AnyMechanism | None = None

    def facts(self, known: PlanConfig) -> StatedFacts:
        """What is stated about the stream: what is known, else what the mechanism in use says."""
        used = self.current
        own = {} if used is None else {each.name: getattr(used, each.name) for each in fields(used)}
        return StatedFacts(
            periods=periods_of(known.seasons, self.every) or own.get("periods", ()),
            kind="stock" if known.stock or own.get("kind") == "stock" else "flow",
        )

    def typical(self, known: PlanConfig) -> Fraction | None:
        """The stated mean count of a key in a unit of this view; None if none is stated.

        Events of several units of the stream add up in a unit of the view. A stock does not.
        """
        if known.typical is None:
            return None
        found = known.typical * (1 if self.facts(known).kind == "stock" else self.units)
        if found > MAX_TYPICAL:
            raise ConfigurationError(
                f"typical must be at most {MAX_TYPICAL:,} per unit of a view.", parameter="typical"
            )
        return found

    @classmethod
    def of(
        cls, pipeline: Pipeline, view: str | None = None, *, delta: Fraction | None = None
    ) -> PlannedView:
        """The facts of a view of a pipeline. Nothing is opened for that."""
        found = pipeline.view(view)
        declared = found.auto.delta if found.auto is not None else None
        if delta is not None and len(pipeline.views) > 1:
            raise ConfigurationError(
                "delta does not add up with other views: a plan with delta needs a single view.",
                parameter="delta",
            )
        return cls(
            name=pipeline.series(view),
            domain=pipeline.keys,
            every=found.calendar.every,
            promise=AskedPromise.of(found.mechanism.guarantee, delta=delta or declared),
            units=found.units,
            zone=found.calendar.zone,
            columns=pipeline.source.columns,
            other=pipeline.other,
            current=None if found.auto is not None else found.declared,
        )


def knowledge(
    known: PlanConfig,
    *,
    typical: Exact | None = None,
    seasons: Sequence[str] = (),
    sparse: bool = False,
    stock: bool = False,
    sample: str | os.PathLike[str] | None = None,
) -> PlanConfig:
    """What a configuration knows, and what was given beside it.

    `typical` may also name a file of past public counts. It is then the sample, and says the size
    of the counts, too: what the configuration knows of both does not hold then.
    """
    size = known.typical if typical is None else None
    if isinstance(typical, str) and Path(typical).suffix in TABLES:
        if sample is not None:
            raise ConfigurationError(
                "typical: give a number beside a sample, or a file in place of one.",
                parameter="typical",
            )
        sample = typical
    elif typical is not None:
        size = positive(typical, name="typical")
    return PlanConfig(
        typical=size,
        seasons=tuple(seasons) or known.seasons,
        sparse=sparse or known.sparse,
        stock=stock or known.stock,
        sample=known.sample if sample is None else str(Path(sample).absolute()),
    )


def public_counts(
    view: PlannedView,
    known: PlanConfig,
    *,
    pipeline: Pipeline | None = None,
    releases: Reader | Path | None = None,
    series: str | None = None,
) -> PublicCounts | None:
    """The public counts that follow from what is known; None if that is too little.

    A sample counts more than releases. Where one of them is given, it gives the form of the counts:
    keys, seasons and jumps. `typical` then gives only their size. A sample that is a file of the
    pipeline's private source is refused, unopened.
    """
    facts = view.facts(known)
    typical = view.typical(known)
    if known.sample is not None:
        found = counts_of_sample(
            Path(known.sample) if pipeline is None else _checked_sample(pipeline, known.sample),
            columns=view.columns,
            domain=view.domain,
            every=view.every,
            zone=view.zone,
            other=view.other,
        )
    elif isinstance(releases, Path):
        found = counts_of_table(
            releases,
            domain=view.domain,
            every=view.every,
            facts=facts,
            series=series or view.name,
            typical=typical,
        )
    elif releases is not None:
        found = counts_of_releases(
            releases,
            series or view.name,
            domain=view.domain,
            every=view.every,
            facts=facts,
            typical=typical,
        )
    elif typical is not None:
        found = made_up(
            view.domain,
            view.every,
            typical=typical,
            facts=facts,
            sparse=known.sparse,
            window=view.promise.window,
        )
    else:
        return None
    if facts.kind == "stock":
        found = replace(found, notes=(*found.notes, STOCK))
    window = view.promise.window
    mean, found = found.mean, replace(found, facts=facts).thinned(window=window)
    _refuse_empty(found, stated=known.sample is None and typical is not None)
    if known.sample is not None and typical is not None:
        found = scaled(found, mean=mean, typical=float(typical))
        _refuse_empty(found, stated=True)
    return found.lengthened(window)


def _refuse_empty(public: PublicCounts, *, stated: bool) -> None:
    """Refuse counts that tell nothing. `stated` says that their size is the typical count."""
    if len(public.counts) < 2 or not public.counts.any():
        raise ConfigurationError(
            "a plan needs public counts of at least two units that are not all empty.",
            parameter="typical" if stated else None,
        )


def _checked_sample(pipeline: Pipeline, sample: str) -> Path:
    path = pipeline.path(sample)
    if not path.is_file():
        raise ConfigurationError(f"sample: there is no file {sample!r}.", parameter="sample")
    pattern = pipeline.source.options.get("path")
    if not isinstance(pattern, str):
        return path
    source = pipeline.path(pattern).absolute()
    start = Path(source.anchor)
    found = start.glob(str(source.relative_to(start)))
    if any(each.samefile(path) for each in found):
        raise ConfigurationError(
            f"sample: {sample} is a file of the private source. A public sample must be another "
            "file. Nothing was opened.",
            parameter="sample",
        )
    return path
