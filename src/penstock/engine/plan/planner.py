"""Ranks all mechanisms on public counts, and looks at other promises, unit lengths and levels."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

from penstock.core.errors import ConfigurationError
from penstock.engine.pipeline import AnyMechanism
from penstock.engine.plan.candidates import AskedPromise, MechanismChoice, candidates, unfit
from penstock.engine.plan.public_counts import PublicCounts, levels, periods_of
from penstock.engine.plan.simulation import (
    RUNS,
    SimulatedError,
    repeated,
    seconds_per_unit,
    simulate,
    trivial,
)

Progress: TypeAlias = Callable[[float, float], None]
"""Hears how many seconds of work are done, and how many there are in all, both estimates."""

COMPARED = 3
"""How many of the best mechanisms are shown under other promises."""

CURVE_UNITS = 300
"""Other promises are simulated on the newest units: this many, or four windows if that is more."""

GOOD_UP_TO = 3
"""Mechanisms with up to this many times the least error are simulated `RUNS` times."""

EPSILONS = tuple(map(Fraction, ("1/8", "1/4", "1/2", "1", "2", "4")))
WINDOWS = tuple(map(Fraction, ("1/4", "1/2", "1", "2", "4")))
"""Other promises, as multiples of the asked ε and window."""

DELTAS = tuple(map(Fraction, ("1/10000", "1/1000000", "1/1000000000")))

LENGTHS = ("5min", "15min", "30min", "1h", "2h", "4h", "8h", "12h", "1d", "2d", "1w", "2w")
_MAX_LENGTHS, _LEAST_UNITS = 4, 20
"""How many longer units are tried, and how many units must be left then."""


@dataclass(frozen=True, kw_only=True)
class PlanRow:
    """One line of the ranking.

    Parameters
    ----------
    choice : MechanismChoice, optional
        The mechanism; None for all zeros and the long-run mean.
    name : str
        The name of the mechanism, or of the trivial line.
    parameters : mapping
        The parameters that are not defaults, without the promise.
    error : SimulatedError
        The mean absolute error, with its interval.
    """

    name: str
    error: SimulatedError
    choice: MechanismChoice | None = None
    parameters: dict[str, object] = field(default_factory=dict)

    @property
    def short(self) -> str:
        """The name, and whether the noise is Gaussian."""
        gaussian = self.choice is not None and self.choice.gaussian
        return f"{self.name} with delta" if gaussian else self.name

    @property
    def label(self) -> str:
        """The name with its parameters, for people."""
        shown = ", ".join(f"{name} = {_shown(value)}" for name, value in self.parameters.items())
        return f"{self.name} ({shown})" if shown else self.name


def _shown(value: object) -> str:
    return f"{float(value):g}" if isinstance(value, Fraction) else str(value)


@dataclass(frozen=True, kw_only=True)
class ErrorCurve:
    """The errors of some lines over one quantity; None where a mechanism cannot be used."""

    name: str
    labels: tuple[str, ...]
    values: tuple[float, ...]
    asked: float
    """Where the asked promise stands."""
    lines: dict[str, tuple[float | None, ...]]


@dataclass(frozen=True, kw_only=True)
class CoarserCount:
    """The smallest error at one unit length and one level of keys."""

    every: str
    level: str
    """In words; empty for the keys themselves."""
    keys: int
    mean: float
    best: str
    error: float

    @classmethod
    def present(cls, public: PublicCounts, row: PlanRow) -> CoarserCount:
        """The counts as they are declared."""
        return cls(
            every=public.every,
            level="",
            keys=public.domain.size,
            mean=public.mean,
            best=row.label,
            error=row.error.mae,
        )

    @property
    def relative(self) -> float:
        """The error as a share of the mean count."""
        return self.error / self.mean if self.mean else float("inf")


@dataclass(frozen=True, kw_only=True)
class PlanFigures:
    """All that was simulated."""

    rows: tuple[PlanRow, ...]
    trivial: tuple[PlanRow, ...]
    left_out: dict[str, str]
    curves: tuple[ErrorCurve, ...]
    coarser: tuple[CoarserCount, ...]
    current: PlanRow | None = None
    """The mechanism in use, if it could be simulated."""


class Simulations:
    """The work of a plan, with what is known of its duration."""

    def __init__(
        self,
        public: PublicCounts,
        promise: AskedPromise,
        *,
        current: AnyMechanism | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.public = public
        self.promise = promise
        self.current = None if current is None else MechanismChoice.of(current)
        self.choices, self.left_out = candidates(public.domain, promise, public.periods)
        if self.current is not None and self.current not in self.choices:
            problem = unfit(self.current, public.domain, promise, public.periods)
            if problem is None:
                self.choices.append(self.current)
            else:
                self.left_out[self.current.name] = problem
        self._progress = progress or (lambda done, total: None)
        if not self.choices:
            raise ConfigurationError(
                f"no mechanism can keep this promise on these keys: {self.left_out}."
            )
        self._cost = {id(each): self._seconds(each) for each in self.choices}
        self._done = 0.0
        costs = sorted(self._cost.values())
        points = COMPARED * (len(EPSILONS) + len(WINDOWS))
        middle = costs[len(costs) // 2] if costs else 0.0
        self.seconds = RUNS * sum(costs) + points * middle
        """About how long all of it takes."""

    def _seconds(self, choice: MechanismChoice) -> float:
        mechanism = choice.made(self.promise, self.public.periods)
        return len(self.public.counts) * seconds_per_unit(mechanism, self.public)

    def ranked(self) -> list[PlanRow]:
        """Every mechanism with its error, the best first. Bad ones are simulated only once."""
        made = {id(each): each.made(self.promise, self.public.periods) for each in self.choices}
        errors: dict[int, SimulatedError] = {}
        for choice in self.choices:
            errors[id(choice)] = simulate(made[id(choice)], self.public)
            self._advance(self._cost[id(choice)])
        limit = GOOD_UP_TO * min(error.mae for error in errors.values())
        rows = []
        for choice in self.choices:
            error = errors[id(choice)]
            if error.mae <= limit:
                error = repeated(made[id(choice)], self.public, error)
                self._advance((RUNS - 1) * self._cost[id(choice)])
            parameters = choice.parameters(self.promise, self.public.periods)
            rows.append(
                PlanRow(name=choice.name, error=error, choice=choice, parameters=parameters)
            )
        return sorted(rows, key=lambda row: row.error.mae)

    def figures(self) -> PlanFigures:
        """The ranking, and what changes with ε, window, unit length, level and δ."""
        self._advance(0)
        rows = self.ranked()
        shown = _compared(rows, self.current)
        curves = [self._epsilons(shown), self._windows(shown), self._deltas(shown)]
        coarser, lengths = self._coarser(rows, shown)
        curves.append(lengths)
        self._progress(self.seconds, self.seconds)
        return PlanFigures(
            rows=tuple(rows),
            trivial=tuple(
                PlanRow(name=name, error=SimulatedError(mae))
                for name, mae in trivial(self.public).items()
            ),
            left_out=self.left_out,
            curves=tuple(curve for curve in curves if curve is not None),
            coarser=tuple(coarser),
            current=next((row for row in rows if row.choice == self.current), None),
        )

    def _advance(self, seconds: float) -> None:
        self._done = min(self._done + seconds, self.seconds)
        self._progress(self._done, self.seconds)

    # -- other promises ----------------------------------------------------------------------------

    def _error(self, row: PlanRow, public: PublicCounts, promise: AskedPromise) -> float | None:
        """The error of a mechanism under another promise, by one run; None if it cannot be used."""
        assert row.choice is not None
        try:
            if unfit(row.choice, public.domain, promise, public.periods) is not None:
                return None
            return simulate(row.choice.made(promise, public.periods), public).mae
        finally:
            self._advance(self._cost[id(row.choice)] * public.counts.size / self.public.counts.size)

    def _under(
        self, name: str, shown: Sequence[PlanRow], promises: dict[str, tuple[float, AskedPromise]]
    ) -> ErrorCurve:
        newest = max(CURVE_UNITS, 4 * self.promise.window)
        recent = dataclasses.replace(self.public, counts=self.public.counts[-newest:])
        lines: dict[str, tuple[float | None, ...]] = {
            row.label: tuple(self._error(row, recent, each) for _, each in promises.values())
            for row in shown
        }
        for trivial_name, mae in trivial(recent).items():
            lines[trivial_name] = (mae,) * len(promises)
        values = tuple(value for value, _ in promises.values())
        asked = next(value for value, each in promises.values() if each == self.promise)
        return ErrorCurve(
            name=name, labels=tuple(promises), values=values, asked=asked, lines=lines
        )

    def _epsilons(self, shown: Sequence[PlanRow]) -> ErrorCurve:
        epsilons = [self.promise.epsilon * factor for factor in EPSILONS]
        promises = {
            f"{float(each):g}": (float(each), dataclasses.replace(self.promise, epsilon=each))
            for each in epsilons
        }
        return self._under("epsilon", shown, promises)

    def _windows(self, shown: Sequence[PlanRow]) -> ErrorCurve | None:
        most = min(self.promise.horizon or len(self.public.counts), len(self.public.counts))
        windows = sorted({int(self.promise.window * factor) for factor in WINDOWS})
        if self.promise.horizon == self.promise.window or self.promise.window > most:
            return None
        promises = {
            f"{each:,}": (float(each), dataclasses.replace(self.promise, window=each))
            for each in windows
            if 1 <= each <= most
        }
        return self._under("window", shown, promises) if len(promises) > 1 else None

    def _deltas(self, shown: Sequence[PlanRow]) -> ErrorCurve | None:
        used = [row for row in shown if row.choice is not None and row.choice.gaussian]
        if not used or self.promise.delta is None:
            return None
        deltas = sorted({*DELTAS, self.promise.delta})
        promises = {
            f"{float(each):g}": (float(each), dataclasses.replace(self.promise, delta=each))
            for each in deltas
        }
        return self._under("delta", used, promises)

    # -- longer units and larger groups ------------------------------------------------------------

    def _coarser(
        self, rows: Sequence[PlanRow], shown: Sequence[PlanRow]
    ) -> tuple[list[CoarserCount], ErrorCurve | None]:
        """The best mechanism at every unit length and level of keys; and the relative errors of
        those that are shown over the length of a unit.
        """
        found: list[CoarserCount] = []
        lengths = dict(_lengths(self.public))
        lines: dict[str, list[float | None]] = {row.label: [] for row in shown}
        lines |= {name: [] for name in trivial(self.public)}
        for every, units in lengths.items():
            merged = self.public if units == 1 else self.public.merged(units, every)
            promise = self.promise.over(units)
            ways = levels(merged.domain)
            for level in ("", *ways):
                public = merged.grouped(*ways[level]) if level else merged
                errors = {
                    row.label: row.error.mae
                    if public is self.public
                    else self._error(row, public, promise)
                    for row in rows
                }
                named = {row.label: row.short for row in rows}
                usable = {name: error for name, error in errors.items() if error is not None}
                if usable:
                    best = min(usable, key=usable.__getitem__)
                    found.append(
                        CoarserCount(
                            every=every,
                            level=level,
                            keys=public.domain.size,
                            mean=public.mean,
                            best=named[best],
                            error=usable[best],
                        )
                    )
                if not level:
                    errors |= trivial(public)
                    for name, line in lines.items():
                        error = errors[name]
                        line.append(None if error is None else error / public.mean)
        curve = ErrorCurve(
            name="unit length",
            labels=tuple(lengths),
            values=tuple(map(float, lengths.values())),
            asked=1.0,
            lines={name: tuple(line) for name, line in lines.items()},
        )
        return found, curve if len(lengths) > 1 else None


def _compared(rows: Sequence[PlanRow], current: MechanismChoice | None) -> list[PlanRow]:
    """The best rows, one per mechanism and noise, and that of the mechanism in use."""
    best: dict[tuple[str, bool], PlanRow] = {}
    for row in rows:
        assert row.choice is not None
        best.setdefault((row.name, row.choice.gaussian), row)
    shown = list(best.values())[:COMPARED]
    shown += [row for (_, gaussian), row in best.items() if gaussian and row not in shown][:1]
    return shown + [row for row in rows if row.choice == current and row not in shown]


def _lengths(public: PublicCounts) -> Iterator[tuple[str, int]]:
    """The present length of a unit and a few longer ones, each with its number of present units."""
    yield public.every, 1
    found = [
        (every, units[0])
        for every in LENGTHS
        if (units := periods_of([every], public.every))
        and len(public.counts) // units[0] > _LEAST_UNITS
    ]
    step = max(1, -(-len(found) // _MAX_LENGTHS))
    yield from found[step - 1 :: step]
