"""What is publicly known about a view, and the public counts that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.engine.pipeline import AnyMechanism, Pipeline, PlanConfig
from penstock.engine.plan.candidates import AskedPromise
from penstock.engine.plan.public_counts import PublicCounts, made_up
from penstock.engine.plan.releases import counts_of_releases, counts_of_table
from penstock.engine.plan.sample_files import counts_of_sample
from penstock.engine.store import Reader
from penstock.private.sources.base import Columns

HOW_TO_KNOW = (
    "Say what is publicly known: --typical 2, --sample FILE or --releases STORE, or write the "
    "table [plan]."
)


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
            promise=AskedPromise.of(found.mechanism, delta=delta or declared),
            units=found.units,
            zone=found.calendar.zone,
            columns=pipeline.source.columns,
            other=pipeline.other,
            current=None if found.auto is not None else found.declared,
        )


def public_counts(
    view: PlannedView,
    known: PlanConfig,
    *,
    folder: Path = Path(),
    releases: Reader | Path | None = None,
    series: str | None = None,
) -> PublicCounts | None:
    """The public counts that follow from what is known; None if that is too little.

    A sample counts more than releases, and releases more than sentences.
    """
    if known.sample is not None:
        found = counts_of_sample(
            folder / known.sample,
            columns=view.columns,
            domain=view.domain,
            every=view.every,
            zone=view.zone,
            other=view.other,
            seasons=known.seasons,
        )
    elif isinstance(releases, Path):
        found = counts_of_table(
            releases,
            domain=view.domain,
            every=view.every,
            seasons=known.seasons,
            series=series or view.name,
        )
    elif releases is not None:
        found = counts_of_releases(
            releases, series or view.name, domain=view.domain, seasons=known.seasons
        )
    elif known.typical is not None:
        return made_up(
            view.domain,
            view.every,
            typical=known.typical * view.units,
            seasons=known.seasons,
            sparse=known.sparse,
            window=view.promise.window,
        )
    else:
        return None
    if len(found.counts) < 2 or not found.counts.any():
        raise ConfigurationError(
            "a plan needs public counts of at least two units that are not all empty."
        )
    return found.lengthened(view.promise.window).thinned()


def counts_of_view(
    pipeline: Pipeline,
    view: PlannedView,
    known: PlanConfig,
    *,
    releases: Reader | Path | None = None,
    series: str | None = None,
) -> PublicCounts | None:
    """The public counts for a view of a pipeline; a sample that is a file of the private source is
    refused, unopened.
    """
    if known.sample is not None:
        _check_sample(pipeline, known.sample)
    return public_counts(view, known, folder=pipeline.folder, releases=releases, series=series)


def _check_sample(pipeline: Pipeline, sample: str) -> None:
    path = pipeline.path(sample)
    if not path.is_file():
        raise ConfigurationError(f"sample: there is no file {sample!r}.", parameter="sample")
    pattern = pipeline.source.options.get("path")
    if not isinstance(pattern, str):
        return
    source = pipeline.path(pattern).absolute()
    start = Path(source.anchor)
    found = start.glob(str(source.relative_to(start)))
    if any(each.samefile(path) for each in found):
        raise ConfigurationError(
            f"sample: {sample} is a file of the private source. A public sample must be another "
            "file. Nothing was opened.",
            parameter="sample",
        )
