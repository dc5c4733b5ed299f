"""`auto`: the mechanism of a view, chosen once from public knowledge and kept by the store.

A store that has the series decides: the choice of its first start stands, whatever the
configuration or a newer version would choose now.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from penstock.core.domain import Domain
from penstock.core.errors import PenstockError, StateError
from penstock.engine.pipeline import AnyMechanism, Pipeline, View
from penstock.engine.pipeline.model import AUTO_FALLBACK
from penstock.engine.plan.candidates import PROMISE, AskedPromise, MechanismChoice, unfit
from penstock.engine.plan.knowledge import PlannedView, public_counts
from penstock.engine.plan.planner import Simulations
from penstock.engine.store import Reader
from penstock.private.mechanisms import registry
from penstock.released.series import Series


def chosen(pipeline: Pipeline, store: Reader | None = None) -> Pipeline:
    """The pipeline with a mechanism in every view for which `auto` was declared.

    Parameters
    ----------
    pipeline : Pipeline
        The pipeline.
    store : Reader, optional
        The store. A series that is in it keeps its mechanism. Default: none, all are chosen anew.
    """
    if all(view.auto is None for view in pipeline.views):
        return pipeline
    names = store.series_names if store is not None else ()
    views = []
    for view in pipeline.views:
        if view.auto is not None:
            series = pipeline.series(view.name)
            mechanism = (
                _kept(view, store.series(series), pipeline.keys)
                if store is not None and series in names
                else recommended(pipeline, view)
            )
            view = dataclasses.replace(view, declared=mechanism, mechanism=mechanism, auto=None)
        views.append(view)
    guarantee = (
        views[0].mechanism.guarantee
        if len(views) == 1 and views[0].units == 1 and views[0].times == 1
        else pipeline.guarantee
    )
    return dataclasses.replace(pipeline, views=tuple(views), guarantee=guarantee)


def recommended(pipeline: Pipeline, view: View) -> AnyMechanism:
    """The mechanism that a plan recommends from the table [plan]; the fallback if that says little.

    Only the table [plan] and the public sample that it names are read.
    """
    planned = PlannedView.of(pipeline, view.name)
    public = public_counts(planned, pipeline.plan, pipeline=pipeline)
    if public is not None:
        rows = Simulations(public, planned.promise).ranked()
        for row in rows:
            assert row.choice is not None
            # The simulation may have had fewer keys, or others.
            if unfit(row.choice, pipeline.keys, planned.promise, public.facts) is None:
                return row.choice.made(planned.promise, public.facts).decided(pipeline.keys)
    fallback = MechanismChoice(cls=registry.find(AUTO_FALLBACK))
    return fallback.made(planned.promise, planned.facts(pipeline.plan)).decided(pipeline.keys)


def _kept(view: View, series: Series, keys: Domain) -> AnyMechanism:
    """The mechanism of a stored series, under the promise that is declared now.

    A promise that has changed is found later, when the store compares.
    """
    assert view.auto is not None
    promise = AskedPromise.of(view.mechanism.guarantee, delta=view.auto.delta)
    try:
        cls = registry.find(series.mechanism)
        values = _values(cls, series.configuration)
        if Fraction(series.configuration.get("delta", "0") or "0") and promise.delta is not None:
            values["delta"] = promise.delta
        declared = cls(**{name: getattr(promise, name) for name in PROMISE}, **values)
        made = declared.decided(keys, kept=series.configuration)
    except (PenstockError, TypeError, ValueError):
        made = None
    fixed = {*PROMISE, "delta"}
    there = {name: text for name, text in series.configuration.items() if name not in fixed}
    here = {} if made is None else {name: str(each) for name, each in made.configuration().items()}
    if made is None or {name: here[name] for name in here if name not in fixed} != there:
        raise StateError(
            f"the store has {series.name!r} with mechanism {series.mechanism!r} and parameters "
            "that cannot be read back here. Write the mechanism and its parameters into the "
            "configuration instead of auto. Nothing was released."
        )
    return made


def _values(cls: type, configuration: Mapping[str, str]) -> dict[str, Any]:
    """The parameters beside the promise that are not defaults, from their texts."""
    found: dict[str, Any] = {}
    for each in dataclasses.fields(cls):
        text = configuration.get(each.name)
        if each.name in (*PROMISE, "delta") or text is None or text == str(each.default):
            continue
        try:
            found[each.name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            found[each.name] = text
    return found
