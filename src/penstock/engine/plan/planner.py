"""Ranks all mechanisms on public counts, and looks at other promises, unit lengths and levels."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple, TypeAlias

from penstock.core.errors import ConfigurationError
from penstock.engine.pipeline import AnyMechanism
from penstock.engine.plan.candidates import AskedPromise, MechanismChoice, candidates, unfit
from penstock.engine.plan.duration import Progress, Trial
from penstock.engine.plan.public_counts import PublicCounts, levels, periods_of
from penstock.engine.plan.simulation import RUNS, SimulatedError, repeated, simulate, trivial

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
        shown = ", ".join(f"{name} {_shown(value)}" for name, value in self.parameters.items())
        return f"{self.name} ({shown})" if shown else self.name


def _shown(value: object) -> str:
    """A parameter in words.

    >>> _shown(Fraction(1, 10**6)), _shown((6, 42))
    ('1e-06', '6 and 42')
    """
    if isinstance(value, tuple):
        return " and ".join(map(_shown, value))
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


class CountingWay(NamedTuple):
    """The same counts in units of `units` present ones, at one level of keys."""

    units: int
    level: str
    public: PublicCounts


@dataclass(frozen=True, kw_only=True)
class PlanFigures:
    """All that was simulated."""

    rows: tuple[PlanRow, ...]
    trivial: tuple[PlanRow, ...]
    left_out: dict[str, str]
    curves: tuple[ErrorCurve, ...]
    curve_units: int
    """How many units, the newest, the curves over ε, window and δ were simulated on."""
    coarser: tuple[CoarserCount, ...]
    current: PlanRow | None = None
    """The mechanism in use, if it could be simulated."""


Promises: TypeAlias = dict[str, tuple[float, AskedPromise]]
"""Other promises by their label, each with its place in a chart."""


class Simulations:
    """The work of a plan.

    Parameters
    ----------
    public : PublicCounts
        The counts on which mechanisms are simulated.
    promise : AskedPromise
        The promise that all of them keep.
    current : Mechanism, optional
        The mechanism in use. Default: none.
    """

    def __init__(
        self,
        public: PublicCounts,
        promise: AskedPromise,
        *,
        current: AnyMechanism | None = None,
    ) -> None:
        self.public = public
        self.promise = promise
        newest = max(CURVE_UNITS, 4 * promise.window)
        self.recent = dataclasses.replace(public, counts=public.counts[-newest:])
        """The counts on which other promises are simulated."""
        self.current = None if current is None else MechanismChoice.of(current)
        self.choices, self.left_out = candidates(public.domain, promise, public.facts)
        if self.current is not None and self.current not in self.choices:
            problem = unfit(self.current, public.domain, promise, public.facts)
            if problem is None:
                self.choices.append(self.current)
            else:
                self.left_out[self.current.name] = problem
        if not self.choices:
            raise ConfigurationError(
                f"no mechanism can keep this promise on these keys: {self.left_out}."
            )
        self.seconds = 0.0
        """About how long `figures` keeps the processor busy, known when it has tried all."""
        self._trials: dict[MechanismChoice, Trial] = {}
        self._done = 0.0
        self._progress: Progress | None = None

    # -- the ranking -------------------------------------------------------------------------------

    def ranked(self) -> list[PlanRow]:
        """Every mechanism with its error, the best first. Bad ones are simulated only once."""
        made = {each: each.made(self.promise, self.public.facts) for each in self.choices}
        first = {}
        for choice, mechanism in made.items():
            first[choice] = simulate(mechanism, self.public)
            self._advance(choice, self.public)
        limit = GOOD_UP_TO * min(error.mae for error in first.values())
        rows = []
        for choice, error in first.items():
            if error.mae <= limit:
                error = repeated(made[choice], self.public, error)
                self._advance(choice, self.public, runs=RUNS - 1)
            rows.append(self._row(choice, error))
        return sorted(rows, key=lambda row: row.error.mae)

    def _row(self, choice: MechanismChoice, error: SimulatedError) -> PlanRow:
        parameters = choice.parameters(self.promise, self.public.facts)
        return PlanRow(name=choice.name, error=error, choice=choice, parameters=parameters)

    def figures(self, progress: Progress | None = None) -> PlanFigures:
        """The ranking, and what changes with ε, window, unit length, level and δ.

        Parameters
        ----------
        progress : callable, optional
            Hears how many seconds of work are done and how many there are in all, both estimates.
            Default: nobody.
        """
        self._progress = progress
        self._estimate()
        rows = self.ranked()
        shown = _compared(rows, self.current)
        curves = [self._curve(*asked) for asked in self._other_promises(shown)]
        coarser, lengths = self._coarser(rows, shown)
        self._done = self.seconds
        self._tell()
        return PlanFigures(
            rows=tuple(rows),
            trivial=tuple(
                PlanRow(name=name, error=SimulatedError(mae))
                for name, mae in trivial(self.public).items()
            ),
            left_out=self.left_out,
            curves=tuple(curves) if lengths is None else (*curves, lengths),
            curve_units=len(self.recent.counts),
            coarser=tuple(coarser),
            current=next((row for row in rows if row.choice == self.current), None),
        )

    # -- how long it takes -------------------------------------------------------------------------

    def _estimate(self) -> None:
        """Try all mechanisms for a few units. Their errors tell which of them will be shown."""
        for choice in self.choices:
            self._trials[choice] = Trial.of(choice, self.promise, self.public)
        limit = GOOD_UP_TO * min(trial.error for trial in self._trials.values())
        rows = []
        for choice, trial in self._trials.items():
            runs = RUNS if trial.error <= limit else 1
            self.seconds += runs * self._cost(choice, self.public)
            self.seconds += sum(self._cost(choice, way.public) for way in self._ways[1:])
            rows.append(self._row(choice, SimulatedError(trial.error)))
        rows.sort(key=lambda row: row.error.mae)
        for _, some, promises in self._other_promises(_compared(rows, self.current)):
            for row in some:
                self.seconds += len(promises) * self._cost(row.choice, self.recent)
        self._tell()

    def _cost(self, choice: MechanismChoice | None, public: PublicCounts) -> float:
        assert choice is not None
        return self._trials[choice].seconds(public, self.promise)

    def _advance(self, choice: MechanismChoice, public: PublicCounts, *, runs: int = 1) -> None:
        """Tell that a mechanism was simulated, if anybody wants to know."""
        if self._trials:
            self._done += runs * self._cost(choice, public)
            self._tell()

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(min(self._done, self.seconds), self.seconds)

    # -- other promises ----------------------------------------------------------------------------

    def _error(self, row: PlanRow, public: PublicCounts, promise: AskedPromise) -> float | None:
        """The error of a mechanism under another promise, by one run; None if it cannot be used."""
        assert row.choice is not None
        fits = unfit(row.choice, public.domain, promise, public.facts) is None
        error = simulate(row.choice.made(promise, public.facts), public).mae if fits else None
        self._advance(row.choice, public)
        return error

    def _curve(self, name: str, shown: Sequence[PlanRow], promises: Promises) -> ErrorCurve:
        lines: dict[str, tuple[float | None, ...]] = {
            row.label: tuple(self._error(row, self.recent, each) for _, each in promises.values())
            for row in shown
        }
        for trivial_name, mae in trivial(self.recent).items():
            lines[trivial_name] = (mae,) * len(promises)
        return ErrorCurve(
            name=name,
            labels=tuple(promises),
            values=tuple(value for value, _ in promises.values()),
            asked=next(value for value, each in promises.values() if each == self.promise),
            lines=lines,
        )

    def _other_promises(
        self, shown: Sequence[PlanRow]
    ) -> Iterator[tuple[str, Sequence[PlanRow], Promises]]:
        """What changes, for which mechanisms, and the promises: ε, and window and δ if they can."""
        asked, change = self.promise, dataclasses.replace
        epsilons = [asked.epsilon * factor for factor in EPSILONS]
        yield (
            "epsilon",
            shown,
            {f"{float(each):g}": (float(each), change(asked, epsilon=each)) for each in epsilons},
        )
        most = min(asked.horizon or len(self.public.counts), len(self.public.counts))
        windows = sorted({int(asked.window * factor) for factor in WINDOWS} & {*range(1, most + 1)})
        if asked.horizon != asked.window and asked.window in windows and len(windows) > 1:
            yield (
                "window",
                shown,
                {f"{each:,}": (float(each), change(asked, window=each)) for each in windows},
            )
        used = [row for row in shown if row.choice is not None and row.choice.gaussian]
        if used and asked.delta is not None:
            deltas = sorted({*DELTAS, asked.delta})
            yield (
                "delta",
                used,
                {f"{float(each):g}": (float(each), change(asked, delta=each)) for each in deltas},
            )

    # -- longer units and larger groups ------------------------------------------------------------

    @cached_property
    def _ways(self) -> list[CountingWay]:
        """All unit lengths with all levels of keys; first the counts as they are."""
        found = []
        for every, units in _lengths(self.public):
            merged = self.public if units == 1 else self.public.merged(units, every)
            found.append(CountingWay(units, "", merged))
            found += [
                CountingWay(units, level, merged.grouped(*groups))
                for level, groups in levels(merged.domain).items()
            ]
        return found

    def _coarser(
        self, rows: Sequence[PlanRow], shown: Sequence[PlanRow]
    ) -> tuple[list[CoarserCount], ErrorCurve | None]:
        """The best mechanism at every unit length and level of keys; and the relative errors of
        those that are shown over the length of a unit.
        """
        found: list[CoarserCount] = []
        lines: dict[str, list[float | None]] = {row.label: [] for row in shown}
        lines |= {name: [] for name in trivial(self.public)}
        for way in self._ways:
            public, promise = way.public, self.promise.over(way.units)
            errors = {
                row.label: row.error.mae
                if way is self._ways[0]
                else self._error(row, public, promise)
                for row in rows
            }
            usable = [(error, row) for row in rows if (error := errors[row.label]) is not None]
            if usable:
                least, best = min(usable, key=lambda each: each[0])
                found.append(
                    CoarserCount(
                        every=public.every,
                        level=way.level,
                        keys=public.domain.size,
                        mean=public.mean,
                        best=best.short,
                        error=least,
                    )
                )
            if not way.level:
                errors |= trivial(public)
                for name, line in lines.items():
                    error = errors[name]
                    line.append(None if error is None else error / public.mean)
        lengths = {way.public.every: float(way.units) for way in self._ways if not way.level}
        curve = ErrorCurve(
            name="unit length",
            labels=tuple(lengths),
            values=tuple(lengths.values()),
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
