"""A plan as one HTML page with charts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.core.durations import length
from penstock.core.guarantee import Guarantee
from penstock.engine.plan.judgement import SIMULATED, USEFUL, number, percent, within
from penstock.engine.plan.planner import ErrorCurve
from penstock.released.pages.render import render

if TYPE_CHECKING:
    from penstock.engine.plan.plan import Plan

_AXES = {
    "epsilon": ("Epsilon", "epsilon of a window", "mean absolute error"),
    "window": ("Window", "window, in units", "mean absolute error"),
    "delta": ("Delta", "delta", "mean absolute error"),
    "unit length": ("Unit length", "length of a unit", "error, % of the mean count"),
}


def plan_page(plan: Plan, *, command: str = "") -> str:
    """The page of a plan.

    Parameters
    ----------
    plan : Plan
        The plan.
    command : str
        The command that makes the page again. Default: none.
    """
    promise = plan.view.promise
    guarantee = Guarantee(
        promise.epsilon, promise.window, promise.contribution, horizon=promise.horizon
    )
    return render(
        "plan.html",
        title=f"Which mechanism for {plan.view.name}?",
        promise=guarantee.in_words()
        + (f" A delta of {promise.delta} is allowed." if promise.delta is not None else ""),
        words=plan.words,
        toml=plan.to_toml(),
        knowledge=[plan.public.words, *plan.public.notes, SIMULATED],
        facts=[
            ("epsilon", str(promise.epsilon)),
            ("window", f"{promise.window:,} units"),
            ("every", length(plan.view.every)),
            ("keys simulated", f"{plan.public.domain.size:,}"),
            ("units simulated", f"{len(plan.public.counts):,}"),
            ("mean count", number(plan.public.mean)),
        ],
        rows=_rows(plan),
        coarser=_coarser(plan),
        left_out=sorted(plan.figures.left_out.items()),
        data={"charts": [_chart(curve) for curve in plan.figures.curves]},
        curves_use=_curves_use(plan),
        axes=[_AXES[curve.name] for curve in plan.figures.curves],
        command=command,
    )


def _curves_use(plan: Plan) -> str:
    """On which units the charts were simulated, in words."""
    units, newest = len(plan.public.counts), plan.figures.curve_units
    if newest >= units:
        return f"All charts use the same {units:,} units as the ranking."
    return (
        "To save time, the charts over epsilon, window and delta use the newest "
        f"{newest:,} of the {units:,} units, so their errors differ a little from those of the "
        "ranking. The chart over the unit length uses all units."
    )


def _rows(plan: Plan) -> list[dict[str, Any]]:
    """The ranking with the length of its bars; the long ones are cut."""
    lines = (*plan.figures.rows, *plan.figures.trivial)
    longest = 3 * max(plan.best.error.mae, plan.figures.trivial[0].error.mae)
    ranked = sorted(lines, key=lambda row: row.error.mae)
    return [
        {
            "label": row.label,
            "best": row is plan.best,
            "private": row.choice is not None,
            "mae": number(row.error.mae),
            "half": within(row.error.half),
            "relative": percent(row.error.mae / plan.public.mean),
            "bar": min(100, round(100 * row.error.mae / longest)),
        }
        for row in ranked
    ]


def _coarser(plan: Plan) -> list[dict[str, Any]]:
    return [
        {
            "every": length(each.every),
            "level": each.level or "per key",
            "numbers": f"{each.keys:,}",
            "mean": number(each.mean),
            "best": each.best,
            "error": number(each.error),
            "relative": percent(each.relative),
            "useful": each.relative <= USEFUL,
        }
        for each in plan.figures.coarser
    ]


def _chart(curve: ErrorCurve) -> dict[str, Any]:
    factor = 100 if curve.name == "unit length" else 1
    _, x, y = _AXES[curve.name]
    return {
        "x": x,
        "y": y,
        "labels": curve.labels,
        "values": curve.values,
        "asked": curve.asked,
        "names": list(curve.lines),
        "lines": [
            [None if each is None else float(f"{factor * each:.4g}") for each in line]
            for line in curve.lines.values()
        ],
    }
