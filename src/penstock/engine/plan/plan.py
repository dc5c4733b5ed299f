"""A plan: the ranking of mechanisms on public counts, what to use, and that in words."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from penstock.core.durations import length
from penstock.core.notebook_html import card, table
from penstock.engine.config_text import toml
from penstock.engine.plan.duration import Progress
from penstock.engine.plan.judgement import SIMULATED, USEFUL, number, percent, verdict, within
from penstock.engine.plan.knowledge import PlannedView
from penstock.engine.plan.page import plan_page
from penstock.engine.plan.planner import CoarserCount, PlanFigures, PlanRow, Simulations
from penstock.engine.plan.public_counts import PublicCounts


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What was found for one view: `penstock.plan` and `penstock plan` make it.

    Parameters
    ----------
    view : PlannedView
        The view and its promise.
    public : PublicCounts
        The public counts on which mechanisms were simulated.
    figures : PlanFigures
        The errors.

    Examples
    --------
    >>> import penstock as ps
    >>> plan = ps.plan(domain=3, every="1h", epsilon="1", window=4, typical=200)
    >>> plan.best.name in {row["mechanism"] for row in plan.table()}
    True
    >>> print(plan.to_toml().splitlines()[0])
    [privacy]
    """

    view: PlannedView
    public: PublicCounts
    figures: PlanFigures

    @property
    def best(self) -> PlanRow:
        """The recommended mechanism: the one with the smallest mean absolute error."""
        return self.figures.rows[0]

    @property
    def relative(self) -> float:
        """The error of the best mechanism, as a share of the mean count."""
        return self.best.error.mae / self.public.mean

    def table(self) -> list[dict[str, Any]]:
        """One row per mechanism, best first, then all zeros and the long-run mean."""
        return [self._row(row) for row in (*self.figures.rows, *self.figures.trivial)]

    def _row(self, row: PlanRow) -> dict[str, Any]:
        low, high = row.error.interval or (None, None)
        return {
            "mechanism": row.name,
            "parameters": {name: plain(value) for name, value in row.parameters.items()},
            "mae": row.error.mae,
            "low": low,
            "high": high,
            "relative": row.error.mae / self.public.mean,
            "private": row.choice is not None,
        }

    # -- in words ----------------------------------------------------------------------------------

    @property
    def words(self) -> list[str]:
        """The recommendation, one paragraph per idea."""
        best, zeros = self.best, self.figures.trivial[0].error.mae
        lines = [
            f"Use {best.label}. On average, a number is off by {number(best.error.mae)}"
            + (f" ({within(best.error.half)})" if best.error.half is not None else "")
            + f", where the mean count is {number(self.public.mean)}.",
            self._judged(zeros),
        ]
        if better := self.coarser:
            lines += [
                f"{_capital(_counted(each))}, the error is {percent(each.relative)} with "
                f"{each.best}."
                for each in better
            ]
        elif self.relative > USEFUL:
            least = min(self.figures.coarser, key=lambda each: each.relative)
            lines.append(
                f"Nothing that was tried is useful. The least error is {percent(least.relative)}: "
                f"{_counted(least)}, with {least.best}."
            )
        if best.choice is not None and best.choice.gaussian:
            lines.append(f"It uses delta = {self.view.promise.delta} of the promise.")
        if (told := self._current()) is not None:
            lines.append(told)
        return lines

    def _judged(self, zeros: float) -> str:
        what = _capital(_counted(CoarserCount.present(self.public, self.best)))
        word = verdict(self.best.error.mae, self.public.mean, zeros)
        beside = f" All zeros would be off by {number(zeros)}." if word == "noise" else ""
        return f"{what}, numbers are {word}: {percent(self.relative)} of the mean count.{beside}"

    @property
    def coarser(self) -> list[CoarserCount]:
        """Useful ways to count, where the present one is not: with the shortest units, and with
        the most keys.
        """
        useful = [each for each in self.figures.coarser if each.relative <= USEFUL]
        if self.relative <= USEFUL or not useful:
            return []
        most = max(useful, key=lambda each: each.keys)  # of equals, the shortest units
        return [useful[0]] if most is useful[0] else [useful[0], most]

    def _current(self) -> str | None:
        if self.view.current is None or self.figures.current is self.best:
            return None
        if self.figures.current is None:
            return f"The pipeline has {self.view.current.name}, which was not simulated."
        row = self.figures.current
        return f"The pipeline has {row.label}, which is off by {number(row.error.mae)}."

    # -- for programs and people -------------------------------------------------------------------

    def to_toml(self) -> str:
        """The table [privacy] with the recommended mechanism."""
        promise = self.view.promise
        table: dict[str, Any] = {
            "mechanism": self.best.name,
            "epsilon": str(promise.epsilon),
            "window": promise.window,
            "contribution": promise.contribution,
        }
        if promise.horizon is not None:
            table["horizon"] = promise.horizon
        table |= {name: plain(value) for name, value in self.best.parameters.items()}
        return "\n".join(["[privacy]", *(f"{name} = {toml(each)}" for name, each in table.items())])

    def plain(self) -> dict[str, Any]:
        """All of it as plain data, for programs."""
        promise = self.view.promise
        return {
            "series": self.view.name,
            "every": self.view.every,
            "epsilon": str(promise.epsilon),
            "delta": None if promise.delta is None else str(promise.delta),
            "window": promise.window,
            "contribution": promise.contribution,
            "keys": self.public.domain.size,
            "units": len(self.public.counts),
            "mean_count": self.public.mean,
            "knowledge": [self.public.words, *self.public.notes],
            "recommendation": {
                "mechanism": self.best.name,
                "parameters": self._row(self.best)["parameters"],
                "words": self.words,
            },
            "rows": self.table(),
            "left_out": self.figures.left_out,
            "curves": [
                {
                    "over": each.name,
                    "labels": each.labels,
                    "values": each.values,
                    "lines": each.lines,
                }
                for each in self.figures.curves
            ],
            "curve_units": self.figures.curve_units,
            "coarser": [
                {
                    "every": each.every,
                    "level": each.level or "per key",
                    "keys": each.keys,
                    "mean_count": each.mean,
                    "mechanism": each.best,
                    "mae": each.error,
                    "relative": each.relative,
                }
                for each in self.figures.coarser
            ],
        }

    def page(self, *, command: str = "") -> str:
        """The plan as one HTML document with charts.

        Parameters
        ----------
        command : str
            The command that makes the page again. Default: none.
        """
        return plan_page(self, command=command)

    def __repr__(self) -> str:
        return f"<Plan for {self.view.name!r}: {self.best.label}, {percent(self.relative)}>"

    def _repr_html_(self) -> str:
        """The recommendation and the ranking, for a notebook."""
        rows = [
            (
                row.label,
                f"{number(row.error.mae)} {within(row.error.half)}",
                percent(row.error.mae / self.public.mean),
            )
            for row in (*self.figures.rows, *self.figures.trivial)
        ]
        head = ("mechanism", "mean absolute error", "of the mean count")
        return card(
            f"Plan for {self.view.name}: {self.best.label}",
            lead=" ".join(self.words),
            parts=[table(head, rows)],
            note=SIMULATED,
        )


def make_plan(view: PlannedView, public: PublicCounts, *, progress: Progress | None = None) -> Plan:
    """Simulate every mechanism that can keep the promise of a view on public counts.

    Parameters
    ----------
    view : PlannedView
        The view and its promise.
    public : PublicCounts
        The public counts.
    progress : callable, optional
        Hears how many seconds of work are done and how many there are in all, both estimates.
        Default: nobody.
    """
    work = Simulations(public, view.promise, current=view.current)
    return Plan(view=view, public=public, figures=work.figures(progress))


def plain(value: object) -> Any:
    """A parameter as TOML and JSON have it."""
    if isinstance(value, Fraction):
        return value.numerator if value.denominator == 1 else str(value)
    return [plain(each) for each in value] if isinstance(value, tuple) else value


def _counted(each: CoarserCount) -> str:
    """How is counted, in words.

    >>> _counted(
    ...     CoarserCount(every="4h", level="per line", keys=3, mean=1.0, best="ba", error=1.0)
    ... )
    'every 4 hours per line'
    """
    comma = "," if each.level.startswith("all") else ""
    return f"every {length(each.every)}{comma} {each.level or 'per key'}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
