"""From a question and its options to a query."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock.core.calendar import Calendar
from penstock.core.errors import ConfigurationError, PenstockError
from penstock.core.weights import Weights
from penstock.released.log import Log
from penstock.released.queries import registry as queries
from penstock.released.queries.aggregate import OverKeys
from penstock.released.queries.jump import Change, Drop, Jump
from penstock.released.queries.key_choice import KeyChoice
from penstock.released.queries.low_signal import LowSignal
from penstock.released.queries.query import NumberQuery, Query
from penstock.released.queries.refusal import Spelling, as_flag, refuse
from penstock.released.queries.roll_up import RollUp
from penstock.released.queries.sliding_sum import SlidingSum
from penstock.released.queries.top_k import TopK
from penstock.released.queries.unit_choice import count_of
from penstock.released.queries.unit_counts import UnitCounts
from penstock.released.queries.weighted_sum import WeightedSum
from penstock.released.queries.where import Where

_BOOLS = {"true": True, "false": False}

DEFAULT_TOP = 10
"""How many keys `top` shows by default."""


ALERTS: dict[str, type[Jump] | type[LowSignal]] = {
    "jump": Jump,
    "drop": Drop,
    "change": Change,
    "low": LowSignal,
}


@dataclass(frozen=True)
class QueryOptions:
    """The options of questions, as they were given.

    Parameters
    ----------
    window : str, optional
        A number of units, or a duration. Default: none.
    gamma, power : str, optional
        How the weights of `decay` fall with age. Default: none.
    delta : float, optional
        The threshold of an alert. Default: none.
    k : int, optional
        How many keys `top` ranks. Default: 10.
    set_ : tuple of str
        Parameters of a query of another package, each NAME=VALUE. Default: none.
    hindsight : bool
        Whether later releases are used as well. Default: False.
    spelling : callable
        How options are written in messages. Default: as on a command line.
    find : callable
        Finds the query of another package by its name. Default: `registry.find`.

    Examples
    --------
    >>> QueryOptions(window="1d").window
    '1d'
    """

    window: str | None = None
    gamma: str | None = None
    power: str | None = None
    delta: float | None = None
    k: int | None = None
    set_: tuple[str, ...] = ()
    hindsight: bool = False
    spelling: Spelling = field(default=as_flag, kw_only=True, repr=False)
    find: Callable[[str], type[Query]] = field(
        default=lambda name: queries.find(name, tuple(QUESTIONS)), kw_only=True, repr=False
    )

    def refuse_without_question(self) -> None:
        """Refuse every option of this group."""
        refuse(None, self.spelling, **self._given())

    def refuse_others(self, question: str, *own: str) -> None:
        """Refuse the options that this question does not have."""
        refuse(question, self.spelling, **self._given(*own))

    def _given(self, *without: str) -> dict[str, object]:
        hidden = {*without, "spelling", "find"}
        return {name: value for name, value in vars(self).items() if name not in hidden}


@dataclass(frozen=True)
class QuestionInput:
    """All that a question is built from."""

    question: str
    keys: KeyChoice
    options: QueryOptions
    log: Log
    calendar: Calendar | None

    @property
    def width(self) -> int:
        """The number of units of `window`."""
        text = self.needed(self.options.window, "window")
        return count_of(text, self.calendar, name=self.options.spelling("window"))

    def needed(self, value: object, name: str) -> Any:
        """The value of an option that this question needs."""
        if value is None:
            raise ConfigurationError(f"{self.question} needs {self.options.spelling(name)}.")
        return value

    @property
    def counts(self) -> NumberQuery:
        """The counts of single units."""
        return SlidingSum(1, hindsight=True) if self.options.hindsight else UnitCounts()

    @property
    def sums(self) -> NumberQuery:
        """The sums of `window` units."""
        return SlidingSum(self.width, hindsight=self.options.hindsight)


def build_query(
    question: str, keys: KeyChoice, options: QueryOptions, log: Log, calendar: Calendar | None
) -> Query:
    """The query that a question and its options stand for."""
    asked = QuestionInput(question, keys, options, log, calendar)
    if question in QUESTIONS:
        return QUESTIONS[question](asked)
    return _own(asked)


def _counts(asked: QuestionInput) -> Query:
    asked.options.refuse_others(asked.question, "hindsight")
    return asked.keys.summed(asked.counts, asked.log)


def _sum(asked: QuestionInput) -> Query:
    asked.options.refuse_others(asked.question, "window", "hindsight")
    return asked.keys.summed(asked.sums, asked.log)


def _decay(asked: QuestionInput) -> Query:
    options = asked.options
    options.refuse_others(asked.question, "window", "gamma", "power", "hindsight")
    if (options.gamma is None) == (options.power is None):
        spelled = options.spelling
        raise ConfigurationError(
            f"decay needs {spelled('gamma')} or {spelled('power')}, one of both."
        )
    if options.gamma is not None:
        weights = Weights.decay(options.gamma, asked.width)
    else:
        assert options.power is not None
        weights = Weights.power(options.power, asked.width)
    return asked.keys.summed(WeightedSum(weights, hindsight=options.hindsight), asked.log)


def _alert(asked: QuestionInput) -> Query:
    options = asked.options
    options.refuse_others(asked.question, "window", "delta", "hindsight")
    asked.keys.refuse_sums(asked.question)
    delta = asked.needed(options.delta, "delta")
    return ALERTS[asked.question](asked.width, delta, hindsight=options.hindsight)


def _top(asked: QuestionInput) -> Query:
    options, log = asked.options, asked.log
    options.refuse_others(asked.question, "window", "k", "hindsight")
    if asked.keys.key:
        name = options.spelling("key")
        raise ConfigurationError(f"top ranks all keys: {name} cannot be used with it.")
    ranked = asked.keys.summed(asked.counts if options.window is None else asked.sums, log)
    most = len(ranked.groups(log)[1]) if isinstance(ranked, OverKeys) else log.domain.size
    if isinstance(ranked, OverKeys) and most == 1:
        raise ConfigurationError(
            "top ranks several numbers, and this is one sum: ask for sum or counts."
        )
    return TopK(min(DEFAULT_TOP, most) if options.k is None else options.k, of=ranked)


QUESTIONS: dict[str, Callable[[QuestionInput], Query]] = {
    "counts": _counts,
    "sum": _sum,
    "decay": _decay,
    **dict.fromkeys(ALERTS, _alert),
    "top": _top,
}
"""How each question is built."""


def reasons(log: Log) -> dict[str, str]:
    """Why this log cannot answer each question, or each way to add up keys; empty where it can.

    Parameters
    ----------
    log : Log
        The releases, at least of one unit.

    Examples
    --------
    >>> from penstock import Laplace
    >>> run = Laplace(epsilon="1").run(["north", "south"])
    >>> found = Log.of(run)
    >>> found.append(run.step([7, 0]))
    >>> reasons(found)["counts"], reasons(found)["jump"]
    ('', 'move by 1 or more within 2 units: this needs 2 units, and the log has 1.')
    """
    weights = log.way(log.last).weights
    counts, sums = UnitCounts(), SlidingSum(weights.length if weights.kind == "window" else 1)
    faded = weights if weights.kind in ("decay", "power") else Weights.decay("0.9", 2)
    fading = WeightedSum(faded)
    can = [query for query in (counts, sums, fading) if not query.why_not(log)] or [counts]
    moves = Change(2, 1).why_not(log)
    candidates: dict[str, Query] = {
        "low": LowSignal(sums.width, 1),
        "top": TopK(1, of=counts if counts in can else sums),
        "roll_up": RollUp(of=can[0]),
        "where": Where(of=can[0]),
    }
    return {
        **{
            name: query.why_not(log)
            for name, query in {"counts": counts, "sum": sums, "decay": fading}.items()
        },
        **dict.fromkeys(("jump", "drop", "change"), moves),
        **{name: query.why_not(log) for name, query in candidates.items()},
    }


def _own(asked: QuestionInput) -> Query:
    """A query of somebody else's: a plug-in, or `module:Class`."""
    asked.options.refuse_others(asked.question, "set_")
    option = asked.options.spelling("set")
    cls = asked.options.find(asked.question)
    fields = dataclasses.fields(cls)
    hints = typing.get_type_hints(cls)
    values: dict[str, Any] = {}
    for text in asked.options.set_:
        name, equals, value = text.partition("=")
        if not equals or name not in {field.name for field in fields}:
            raise ConfigurationError(
                f"{option} must be like NAME=VALUE with NAME one of "
                f"{', '.join(field.name for field in fields) or 'none'}, not {text!r}."
            )
        values[name] = _value(value, hints[name], f"{option} {name}", asked.calendar)
    for each in fields:
        required = each.default is each.default_factory is dataclasses.MISSING
        if required and each.name not in values:
            raise ConfigurationError(f"{asked.question} needs {option} {each.name}=…")
    found = _made(cls, values, asked.question)
    if isinstance(found, NumberQuery):
        return asked.keys.summed(found, asked.log)
    asked.keys.refuse_sums(asked.question)
    return found


def _made(cls: type[Query], values: dict[str, Any], question: str) -> Query:
    """The query of another package. An error of its own becomes one of ours."""
    try:
        return cls(**values)
    except PenstockError:
        raise
    except Exception as error:
        raise ConfigurationError(
            f"{question!r} cannot be used: {type(error).__name__}: {error}."
        ) from error


def _value(text: str, kind: Any, name: str, calendar: Calendar | None) -> Any:
    """A parameter of the field's type: int (or a duration), float, bool or text."""
    if kind is int:
        return count_of(text, calendar, name=name)
    try:
        return _BOOLS[text.lower()] if kind is bool else float(text) if kind is float else text
    except (ValueError, KeyError):
        raise ConfigurationError(
            f"{name} must be {'true or false' if kind is bool else 'a number'}, not {text!r}."
        ) from None
