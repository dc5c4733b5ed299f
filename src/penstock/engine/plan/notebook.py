"""`penstock.plan`: a plan for a notebook, from a pipeline or from a few public facts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from penstock.core.domain import AnyDomain, Domain
from penstock.core.errors import ConfigurationError
from penstock.core.exact import Exact, positive
from penstock.core.guarantee import Guarantee
from penstock.engine.pipeline import Pipeline, PlanConfig
from penstock.engine.plan.candidates import AskedPromise
from penstock.engine.plan.knowledge import TABLES, PlannedView, knowledge, public_counts
from penstock.engine.plan.plan import Plan, make_plan
from penstock.engine.sqlite import SQLiteReader
from penstock.engine.store import Reader


def plan(
    pipeline: str | os.PathLike[str] | Pipeline | None = None,
    *,
    view: str | None = None,
    domain: AnyDomain | None = None,
    every: str = "1h",
    epsilon: Exact | None = None,
    window: int | None = None,
    contribution: int = 1,
    horizon: int | None = None,
    delta: Exact | None = None,
    typical: Exact | None = None,
    seasons: Sequence[str] = (),
    sparse: bool = False,
    stock: bool = False,
    sample: str | os.PathLike[str] | None = None,
    releases: str | os.PathLike[str] | None = None,
    series: str | None = None,
) -> Plan:
    """Simulate every mechanism on public counts, and recommend one.

    The private source is never opened. Counts come from a public sample, from past releases or
    from public sentences, in this order. Beside a sample or past releases, `typical` is the size of
    the counts.

    Parameters
    ----------
    pipeline : path or Pipeline, optional
        The pipeline; its table [plan] holds for what is not given here. Default: none, then
        `domain`, `epsilon` and `window` are needed.
    view : str, optional
        The view of the pipeline. Default: the only one.
    domain : Domain, int or sequence of str, optional
        The keys. Default: those of the pipeline.
    every : str
        The length of a unit, without a pipeline. Default: "1h".
    epsilon : int, Fraction or str, optional
        The ε of a window, without a pipeline.
    window : int, optional
        The window in units, without a pipeline.
    contribution : int
        The most events of one person that count in one unit, without a pipeline. Default: 1.
    horizon : int, optional
        The last unit that is ever read, without a pipeline. Default: none.
    delta : int, Fraction or str, optional
        The δ that a mechanism may use. Default: that of the pipeline, or none.
    typical : int, Fraction or str, optional
        The mean count of a key in a unit. Beside `sample` or `releases`, counts of their form are
        scaled to it. Default: unknown, or that of the sample or the releases.
    seasons : sequence of str
        Durations after which the stream looks similar again. Default: none.
    sparse : bool
        Whether a few keys have almost all events. Default: False.
    stock : bool
        Whether counts are what is present in a unit, and not events. Default: False.
    sample : path, optional
        A public CSV or Parquet file of events or counts. Without a pipeline it has one column per
        key and one row per unit. Default: none.
    releases : path, optional
        A store of past releases, or a table of `penstock export`. Default: none.
    series : str, optional
        The series in `releases`. Default: the series of the view.

    Returns
    -------
    Plan
        The ranking, the recommendation and the figures behind it.

    Examples
    --------
    >>> import penstock as ps
    >>> found = ps.plan(domain=["north", "south"], epsilon="1", window=6, typical=500)
    >>> [row["mechanism"] for row in found.table()][-2:]
    ['all zeros', 'long-run mean']
    """
    allowed = None if delta is None else positive(delta, name="delta")
    with ExitStack() as stack:
        past: Path | Reader | None = None
        if releases is not None:
            path = Path(releases)
            past = path if path.suffix in TABLES else stack.enter_context(SQLiteReader(path))
        if pipeline is not None:
            if domain is not None or epsilon is not None or window is not None:
                raise ConfigurationError(
                    "domain, epsilon and window are those of the pipeline: leave them out."
                )
            read = pipeline if isinstance(pipeline, Pipeline) else Pipeline.read(pipeline)
            planned = PlannedView.of(read, view, delta=allowed)
        elif domain is None or epsilon is None or window is None:
            raise ConfigurationError("give a pipeline, or domain, epsilon and window.")
        else:
            read = None
            promise = Guarantee(epsilon, window, contribution, horizon=horizon)
            planned = PlannedView(
                name="stream",
                domain=Domain.of(domain),
                every=every,
                promise=AskedPromise.of(promise, delta=allowed),
            )
        known = knowledge(
            PlanConfig() if read is None else read.plan,
            typical=typical,
            seasons=seasons,
            sparse=sparse,
            stock=stock,
            sample=sample,
        )
        public = public_counts(planned, known, pipeline=read, releases=past, series=series)
    if public is None:
        raise ConfigurationError("give typical, sample or releases: something public to plan with.")
    return make_plan(planned, public)
