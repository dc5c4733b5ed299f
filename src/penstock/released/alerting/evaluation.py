"""Where a rule raises and clears keys: a function of releases and of the keys raised before."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.released.alerting.rule import AlertRule
from penstock.released.log import Log
from penstock.released.queries import Alerts, Answer

AlertState: TypeAlias = Literal["raised", "cleared"]

LEAST_BLOCK = 16
"""Units are answered in blocks of at least so many, which begin at fixed units. Longer blocks make
a trial on many units faster, and the next unit of a live stream slower.
"""

DECAY_BLOCK = 4
"""The same for decayed sums, each of which is computed by itself."""


@dataclass(frozen=True, kw_only=True)
class AlertEvent:
    """A key that was raised or cleared at a unit.

    Attributes
    ----------
    rule : str
        The name of the rule.
    unit : int
        The unit.
    key : str
        The key, or the name of a sum.
    state : "raised" or "cleared"
        What happened.
    estimate : float or None
        The number; None if the rule itself was changed or removed.
    low : float or None
        The lower end of its interval; None where it is not known.
    high : float or None
        The upper end of its interval; None where it is not known.
    threshold : float or None
        The threshold that was passed; None if the rule itself was changed or removed.
    """

    rule: str
    unit: int
    key: str
    state: AlertState
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    threshold: float | None = None

    @property
    def of_rule(self) -> bool:
        """Whether the key was cleared because the rule was changed or removed."""
        return self.threshold is None


@dataclass(frozen=True)
class Evaluation:
    """What a rule found in some units.

    Attributes
    ----------
    events : tuple of AlertEvent
        The keys that were raised or cleared, by unit and then in the order of the keys.
    raised : tuple of str
        The keys that are raised after the last unit, in the order of the keys.
    """

    events: tuple[AlertEvent, ...]
    raised: tuple[str, ...]

    @property
    def fired(self) -> int:
        """How many keys were raised."""
        return sum(event.state == "raised" for event in self.events)

    @property
    def cleared(self) -> int:
        """How many keys were cleared."""
        return len(self.events) - self.fired


def evaluate(rule: AlertRule, log: Log, units: range, raised: Collection[str] = ()) -> Evaluation:
    """Apply a rule to consecutive units.

    The result is the same whether units are given one by one or all at once. Units for which the
    log is too short, such as the first units of a wide sum, change nothing.

    Parameters
    ----------
    rule : AlertRule
        The rule.
    log : Log
        The releases.
    units : range
        The units, all of which are in the log.
    raised : collection of str
        The keys that were raised before the first of them. Default: none.

    Examples
    --------
    >>> from penstock import Laplace
    >>> from penstock.testing import NoNoise
    >>> run = Laplace(epsilon="1").run(["north", "south"], noise=NoNoise())
    >>> log = Log.of(run)
    >>> for counts in ([7, 0], [9, 1], [2, 8]):
    ...     log.append(run.step(counts))
    >>> found = evaluate(AlertRule(name="busy", above=8, clear=5), log, range(1, 4))
    >>> [(event.unit, event.key, event.state) for event in found.events], found.raised
    ([(2, 'north', 'raised'), (3, 'north', 'cleared'), (3, 'south', 'raised')], ('south',))
    """
    log = rule.watched(log)
    events: list[AlertEvent] = []
    names: tuple[str, ...] = ()
    was: BoolArray | None = None
    lasting: IntArray | None = None  # in how many units in a row, up to here, it was passed
    for answer in _blocks(rule, log, units):
        low, high = _bounds(rule, log, answer) if rule.sure else (answer.estimate, answer.estimate)
        beyond, back = _conditions(rule, low, high)
        if was is None or lasting is None:
            names, here = answer.names, frozenset(raised)
            was = np.fromiter((name in here for name in names), bool, len(names))
            lasting = np.zeros(len(names), np.int64)
        rows, lasting = _streaks(beyond, lasting)
        inside = answer.units >= units.start
        up = (rows >= rule.units_in_a_row)[inside]
        down = back[inside]
        states = _states(up, down, was)
        changed = states != np.concatenate([was[None], states[:-1]])
        if changed.any():
            events += _events(
                rule, log, answer, np.flatnonzero(inside).astype(np.int64), states, changed
            )
        if len(states):
            was = states[-1]
    if was is None:
        return Evaluation((), tuple(raised))
    return Evaluation(tuple(events), tuple(names[place] for place in np.flatnonzero(was)))


def units_needed(rule: AlertRule) -> int:
    """How many units back a rule looks when it is applied to one unit, at most.

    Parameters
    ----------
    rule : AlertRule
        The rule.

    Examples
    --------
    >>> units_needed(AlertRule(name="busy", question="sum", window=24, above=500))
    40
    """
    return _block_size(rule) + (rule.window or 1) + rule.units_in_a_row - 1


def _block_size(rule: AlertRule) -> int:
    return DECAY_BLOCK if rule.question == "decay" else max(LEAST_BLOCK, (rule.window or 1) // 4)


def _blocks(rule: AlertRule, log: Log, units: range) -> Iterator[Answer]:
    """The numbers of these units, and of earlier ones as far as `units_in_a_row` needs them.

    Blocks begin at fixed units, whichever units are asked for. Sums over time are differences of
    running sums, whose last bits depend on where they begin.
    """
    query = rule.query()
    can = query.units(log)
    first = max(units.start - rule.units_in_a_row + 1, can.start)
    stop = min(units.stop, can.stop)
    if first >= stop or not units:
        return
    size = _block_size(rule)
    start = (first - 1) // size * size + 1
    while start < stop:
        block = range(max(start, can.start), min(start + size, stop))
        found = query.answer(log, block, keys=rule.shown_keys)
        answer = found.statistic if isinstance(found, Alerts) else found
        assert isinstance(answer, Answer)
        yield answer
        start += size


def _bounds(rule: AlertRule, log: Log, answer: Answer) -> tuple[FloatArray, FloatArray]:
    """The intervals of the rule's confidence, or of the log's."""
    return answer.interval(rule.sure or log.confidence)


def _conditions(rule: AlertRule, low: FloatArray, high: FloatArray) -> tuple[BoolArray, BoolArray]:
    """Whether each number is beyond the threshold, and whether it is back; an interval that is not
    known is neither.
    """
    at, clear = rule.threshold, rule.clears_at
    if rule.side == "below":
        return high < at, low >= clear
    if rule.side == "above":
        return low >= at, high < clear
    return (low >= at) | (high <= -at), (high < clear) & (low > -clear)


def _streaks(beyond: BoolArray, before: IntArray) -> tuple[IntArray, IntArray]:
    """For each unit and key, in how many units in a row up to it the threshold was passed."""
    rows = np.arange(1, len(beyond) + 1)[:, None]
    last_miss = np.maximum.accumulate(np.where(beyond, 0, rows), axis=0)
    found = np.asarray(rows - last_miss + np.where(last_miss == 0, before, 0), np.int64)
    return found, found[-1]


def _states(up: BoolArray, down: BoolArray, was: BoolArray) -> BoolArray:
    """Whether each key is raised after each unit: the newest of raising and clearing decides."""
    rows = np.arange(1, len(up) + 1)[:, None]
    raising = np.maximum.accumulate(np.where(up, rows, 0), axis=0)
    clearing = np.maximum.accumulate(np.where(down, rows, 0), axis=0)
    return np.where(raising == clearing, was, raising > clearing)


def _events(
    rule: AlertRule,
    log: Log,
    answer: Answer,
    rows: IntArray,
    states: BoolArray,
    changed: BoolArray,
) -> list[AlertEvent]:
    low, high = _bounds(rule, log, answer)
    found = []
    for place, column in np.argwhere(changed).tolist():
        row = rows[place]
        on = bool(states[place, column])
        found.append(
            AlertEvent(
                rule=rule.name,
                unit=int(answer.units[row]),
                key=answer.names[column],
                state="raised" if on else "cleared",
                estimate=_known(answer.estimate[row, column]),
                low=_known(low[row, column]),
                high=_known(high[row, column]),
                threshold=rule.threshold if on else rule.clears_at,
            )
        )
    return found


def _known(value: float) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None
