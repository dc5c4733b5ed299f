"""From a question and its options to a query."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.cli.options import with_own_modules
from penstock.cli.query.keys import KeyChoice
from penstock.cli.query.refusal import refuse
from penstock.cli.query.units import count_of
from penstock.core.calendar import Calendar
from penstock.core.errors import ConfigurationError
from penstock.core.weights import Weights
from penstock.released.log import Log
from penstock.released.queries import (
    Change,
    Drop,
    Jump,
    LowSignal,
    Query,
    SlidingSum,
    TopK,
    UnitCounts,
    WeightedSum,
)
from penstock.released.queries import registry as queries
from penstock.released.queries.aggregate import OverKeys
from penstock.released.queries.query import NumberQuery

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
    """The options of questions, as they were given."""

    window: str | None
    gamma: str | None
    power: str | None
    delta: float | None
    k: int | None
    set_: tuple[str, ...]
    hindsight: bool

    def refuse_without_question(self) -> None:
        """Refuse every option of this group."""
        refuse(None, **vars(self))

    def refuse_others(self, question: str, *own: str) -> None:
        """Refuse the options that this question does not have."""
        refuse(question, **{name: value for name, value in vars(self).items() if name not in own})


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
        """The number of units of `--window`."""
        text = _needed(self.options.window, "window", self.question)
        return count_of(text, self.calendar, name="window")

    @property
    def counts(self) -> NumberQuery:
        """The counts of single units."""
        return SlidingSum(1, hindsight=True) if self.options.hindsight else UnitCounts()

    @property
    def sums(self) -> NumberQuery:
        """The sums of `--window` units."""
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
        raise ConfigurationError("decay needs --gamma or --power, one of both.")
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
    delta = _needed(options.delta, "delta", asked.question)
    return ALERTS[asked.question](asked.width, delta, hindsight=options.hindsight)


def _top(asked: QuestionInput) -> Query:
    options, log = asked.options, asked.log
    options.refuse_others(asked.question, "window", "k", "hindsight")
    if asked.keys.key:
        raise ConfigurationError("top ranks all keys: --key cannot be used with it.")
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


def _own(asked: QuestionInput) -> Query:
    """A query of somebody else's: a plug-in, or `module:Class`."""
    asked.options.refuse_others(asked.question, "set_")
    cls = with_own_modules(asked.question, lambda: queries.find(asked.question, tuple(QUESTIONS)))
    fields = dataclasses.fields(cls)
    hints = typing.get_type_hints(cls)
    values: dict[str, Any] = {}
    for text in asked.options.set_:
        name, equals, value = text.partition("=")
        if not equals or name not in {field.name for field in fields}:
            raise ConfigurationError(
                f"--set must be like NAME=VALUE with NAME one of "
                f"{', '.join(field.name for field in fields) or 'none'}, not {text!r}."
            )
        values[name] = _value(value, hints[name], name, asked.calendar)
    for field in fields:
        required = field.default is field.default_factory is dataclasses.MISSING
        if required and field.name not in values:
            raise ConfigurationError(f"{asked.question} needs --set {field.name}=…")
    found = with_own_modules(asked.question, lambda: cls(**values))
    if isinstance(found, NumberQuery):
        return asked.keys.summed(found, asked.log)
    asked.keys.refuse_sums(asked.question)
    return found


def _value(text: str, kind: Any, name: str, calendar: Calendar | None) -> Any:
    """A parameter of the field's type: int (or a duration), float, bool or text."""
    if kind is int:
        return count_of(text, calendar, name=f"set {name}")
    try:
        return _BOOLS[text.lower()] if kind is bool else float(text) if kind is float else text
    except (ValueError, KeyError):
        raise ConfigurationError(
            f"--set {name} must be {'true or false' if kind is bool else 'a number'}, not {text!r}."
        ) from None


def _needed(value: object, name: str, question: str) -> Any:
    if value is None:
        raise ConfigurationError(f"{question} needs --{name}.")
    return value
