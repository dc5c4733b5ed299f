"""Answers of the read API: from the parameters of a request to numbers and their JSON."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.core.error_bounds import miss_of
from penstock.core.errors import ConfigurationError
from penstock.core.nonnegative import NOTE as NONNEGATIVE
from penstock.released.log import Log
from penstock.released.queries import Alerts, Answer, Query, Ranking, UnitCounts
from penstock.released.queries import registry as plugged_queries
from penstock.released.queries.aggregate import OverKeys
from penstock.released.queries.filter_options import FilterOptions
from penstock.released.queries.key_choice import KeyChoice
from penstock.released.queries.query import key_places
from penstock.released.queries.questions import QUESTIONS, QueryOptions, build_query
from penstock.released.queries.top_k import TopK
from penstock.released.queries.unit_choice import UnitChoice
from penstock.released.release_filter import NOTE as FILTER_NOTE
from penstock.released.sinks.release_document import plain
from penstock.service.api_errors import ApiError, unknown
from penstock.service.streams import ServedStream
from penstock.service.unit_times import unit_times

MAX_NUMBERS = 100_000
"""The most numbers of one answer."""

MAX_COMPUTED = 5_000_000
"""The most numbers that are computed for one answer, where fewer are shown."""

MAX_ADDED_UP = 40_000_000
"""The most released numbers that are added up for one answer.

One of them takes 0.1 to 0.2 microseconds, so that the answer is there after a few seconds.
"""

DEFAULT_PAGE_UNITS = 1000
"""How many units a page has if `after` is given without `limit`."""


@dataclass(frozen=True, kw_only=True)
class AnswerRequest:
    """A question with its parameters, as a URL has them.

    Parameters
    ----------
    question : str
        The question.
    keys : KeyChoice
        The keys.
    units : UnitChoice
        The units, unless they are a page.
    options : QueryOptions
        The options of the question.
    filtering : FilterOptions
        The options of the filter.
    after, limit : int, optional
        A page: at most `limit` units after the unit `after`. Default: no page.
    confidence : str, optional
        The confidence of the intervals. Default: 0.95, 0.9 for filtered numbers.
    nonnegative : bool
        Whether negative numbers are replaced. Default: False.
    points : int, optional
        About how many numbers of each series are shown. Default: all.
    given : dict
        The parameters as they were given, for the answer. Default: none.
    """

    question: str
    keys: KeyChoice = field(default_factory=KeyChoice)
    units: UnitChoice = field(default_factory=UnitChoice)
    options: QueryOptions = field(default_factory=QueryOptions)
    filtering: FilterOptions = field(default_factory=FilterOptions)
    after: int | None = None
    limit: int | None = None
    confidence: str | None = None
    nonnegative: bool = False
    points: int | None = None
    given: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ServedAnswer:
    """An answer with what its reader must know of it."""

    stream: ServedStream
    log: Log
    request: AnswerRequest
    answer: Answer | Alerts | Ranking
    confidence: str
    newest: int
    next_after: int | None
    fixed: bool
    """Whether later releases cannot change it."""
    repeated: BoolArray | None

    @property
    def first(self) -> int:
        """The first unit."""
        return int(self.answer.units[0])

    @property
    def last(self) -> int:
        """The last unit."""
        return int(self.answer.units[-1])


def find_query(name: str) -> type[Query]:
    """A query of an installed package. Paths of modules are refused: a URL imports nothing."""
    known = tuple(QUESTIONS)
    if ":" in name:
        raise unknown("question", name, known)
    try:
        return plugged_queries.find(name, known)
    except ConfigurationError:
        raise unknown("question", name, known) from None


def answered(stream: ServedStream, request: AnswerRequest) -> ServedAnswer:
    """Answer a request.

    Parameters
    ----------
    stream : ServedStream
        The stream.
    request : AnswerRequest
        The question.
    """
    log = stream.log()
    if not len(log):
        raise ApiError(404, f"stream {stream.name!r} has no units yet. Ask again later.")
    check_keys(request.keys, log)
    if request.confidence is not None:
        miss_of(request.confidence)
    single = request.question in ("counts", "top")
    single = single and request.options.window is None and not request.keys.sums
    with stream.filtered(request.filtering, log, single=single) as asked_log:
        return _answered(stream, request, asked_log)


def _answered(stream: ServedStream, request: AnswerRequest, log: Log) -> ServedAnswer:
    newest, options = log.last, request.options
    asked = build_query(request.question, request.keys, options, log, log.calendar)
    units, next_after, fixed = chosen_units(request, asked, log)
    shown = request.keys.shown(log)
    check_size(request, asked, log, len(units), shown)
    answer = asked.answer(log, units, keys=None if request.nonnegative else shown)
    if request.nonnegative:
        if not isinstance(answer, Answer):
            raise ConfigurationError(
                f"nonnegative cannot be used with {request.question}, which compares numbers as "
                "they were released. Use it with counts, sum or decay."
            )
        answer = answer.nonnegative()
        answer = answer if shown is None else answer.of(*shown)
    repeated = None
    if isinstance(asked, UnitCounts) and log.filter is None:
        places = None if shown is None else key_places(log, shown)
        repeated = log.table(units[0], units[-1], places).repeated
    return ServedAnswer(
        stream=stream,
        log=log,
        request=request,
        answer=answer,
        confidence=request.confidence or log.confidence,
        newest=newest,
        next_after=next_after,
        fixed=fixed and not options.hindsight,
        repeated=repeated,
    )


def check_keys(keys: KeyChoice, log: Log) -> None:
    """Refuse keys that the stream does not have, with the nearest one.

    Parameters
    ----------
    keys : KeyChoice
        The keys that were chosen.
    log : Log
        The releases.
    """
    named = (*keys.key, *(keys.range_ or ()))
    if named:
        for key in named:
            if key not in log.domain.places:
                raise unknown("key", key, log.keys)


def chosen_units(request: AnswerRequest, asked: Query, log: Log) -> tuple[range, int | None, bool]:
    """The units of an answer, after which unit the next page begins, and whether they are fixed.

    Parameters
    ----------
    request : AnswerRequest
        The question.
    asked : Query
        The same as a query.
    log : Log
        The releases.
    """
    can = asked.units(log)
    if not can:
        asked.answer(log)  # says how many units it needs
    choice = request.units
    if request.after is not None or request.limit is not None:
        if any((choice.unit is not None, choice.last, choice.from_, choice.to_)):
            raise ConfigurationError(
                "after and limit make pages of all units: they exclude unit, last, from and to."
            )
        start = max((request.after or 0) + 1, can.start)
        stop = min(start + (request.limit or DEFAULT_PAGE_UNITS), can.stop)
        if start >= can.stop:
            raise ApiError(
                404, f"there is no unit after {request.after} yet: the newest is {log.last}."
            )
        more = stop < can.stop
        return range(start, stop), stop - 1 if more else None, more
    found = choice.of(asked, log, log.calendar)
    if found is None:
        return range(can[-1], can[-1] + 1), None, False
    if isinstance(found, int):
        if found > log.last:
            raise ApiError(404, f"unit {found} is not released yet: the newest is {log.last}.")
        return range(found, found + 1), None, True
    ends = choice.to_ is not None and (found.stop - 1 < log.last or _is_reached(choice.to_, log))
    return found, None, ends


def _is_reached(until: str, log: Log) -> bool:
    """Whether everything up to this unit or time is released."""
    if until.isascii() and until.isdecimal():
        return int(until) <= log.last
    choice = UnitChoice(to_=until, from_=str(log.last))
    later = choice.of(UnitCounts(), _Longer(log), log.calendar)
    return isinstance(later, range) and later.stop - 1 <= log.last


class _Longer(Log):
    """A log that seems to have one more unit, to see whether a range would reach it."""

    def __init__(self, log: Log) -> None:
        super().__init__(log.domain)
        self._last = log.last + 1

    def _bounds(self) -> tuple[int, int]:
        return 1, self._last


def check_size(
    request: AnswerRequest, asked: Query, log: Log, units: int, shown: tuple[str, ...] | None
) -> None:
    """Refuse answers that are too large.

    Parameters
    ----------
    request : AnswerRequest
        The question.
    asked : Query
        The same as a query.
    log : Log
        The releases.
    units : int
        The number of units.
    shown : tuple of str or None
        The keys that were chosen.
    """
    if isinstance(asked, TopK):
        names, computed = asked.k, _names(asked.of, log)
    else:
        names = _names(asked, log) if shown is None else len(shown)
        computed = log.domain.size if request.nonnegative else names
    per_series = units if request.points is None else min(units, request.points + 2)
    if names * per_series > MAX_NUMBERS:
        raise ApiError(
            413,
            f"{names * per_series:,} numbers are too many for one answer (limit: "
            f"{MAX_NUMBERS:,}). Choose fewer keys with key, fewer units with last or limit, or "
            "thin the series out with points.",
        )
    if computed * units > MAX_COMPUTED:
        raise ApiError(
            413,
            f"{computed * units:,} numbers are too many to compute for one answer (limit: "
            f"{MAX_COMPUTED:,}). Choose fewer keys or fewer units.",
        )
    check_added_up(asked, log, units)


def check_added_up(asked: Query, log: Log, units: int) -> None:
    """Refuse sums over so many keys and units that computing them would take too long.

    Parameters
    ----------
    asked : Query
        The question.
    log : Log
        The releases.
    units : int
        The number of units.
    """
    summed = asked.of if isinstance(asked, TopK) else asked
    if not isinstance(summed, OverKeys):
        return
    keys, before = sum(map(len, summed.groups(log)[0])), summed.reach(log) - 1
    numbers, fitting = keys * (units + before), MAX_ADDED_UP // max(keys, 1) - before
    if numbers > MAX_ADDED_UP:
        way = f"at most {fitting:,} units at once" if fitting > 0 else "a smaller window"
        raise ApiError(
            413,
            f"{numbers:,} released numbers are too many to add up for one answer (limit: "
            f"{MAX_ADDED_UP:,}). Ask for {way}, or for fewer keys.",
        )


def _names(asked: Query, log: Log) -> int:
    return len(asked.groups(log)[1]) if isinstance(asked, OverKeys) else log.domain.size


def about_intervals(log: Log) -> str:
    """What intervals around the numbers of a log mean.

    Parameters
    ----------
    log : Log
        The releases, filtered or not.
    """
    if log.filter is not None:
        return FILTER_NOTE
    if len(log) and log.way(log.last).kind == "filtered":
        return "Intervals are for the counts themselves, as the filter believes."
    return "Intervals cover the added noise only."


def answer_table(found: ServedAnswer) -> Any:
    """An answer as an Arrow table: one row per unit and key, thinned out where that was asked.

    Parameters
    ----------
    found : ServedAnswer
        The answer.
    """
    import pyarrow as pa

    made = found.answer.table_columns(found.confidence)
    more = dict(made.more)
    if found.repeated is not None:
        more["repeated"] = np.broadcast_to(found.repeated, made.value.shape)
    table = replace(made, more=more, about=_table_facts(found)).to_arrow()
    points = found.request.points
    if points is None or isinstance(found.answer, Ranking):
        return table
    shown = np.zeros(made.value.shape, np.bool_)
    for place in range(made.value.shape[1]):
        shown[thinned(made.value[:, place], points), place] = True
    return table.filter(pa.array(shown.ravel()))


def _table_facts(found: ServedAnswer) -> dict[str, str]:
    series = found.stream.series
    return {
        "penstock.series": series.name,
        "penstock.query": found.answer.query,
        "penstock.confidence": found.confidence,
        "penstock.intervals": about_intervals(found.log),
        "penstock.link": found.stream.link(found.last),
        "penstock.guarantee": repr(series.stream_guarantee),
        "penstock.promise": series.promise,
    }


def answer_content(found: ServedAnswer, *, next_url: str | None) -> dict[str, Any]:
    """The JSON of an answer.

    Parameters
    ----------
    found : ServedAnswer
        The answer.
    next_url : str or None
        Where the next page is.
    """
    request, answer, log = found.request, found.answer, found.log
    content: dict[str, Any] = {
        "stream": found.stream.name,
        "question": request.question,
        "query": answer.query,
        "parameters": request.given,
        "confidence": found.confidence,
        "intervals": about_intervals(log),
        "filtered": log.filter is not None,
        "nonnegative": request.nonnegative,
        "first": found.first,
        "last": found.last,
        "next": next_url,
        "points": request.points,
    }
    if request.nonnegative:
        content["nonnegative_words"] = NONNEGATIVE
    if isinstance(answer, Ranking):
        return content | {"ranking": _ranking(found, answer)}
    if isinstance(answer, Alerts):
        content["threshold"] = answer.threshold
    columns = _columns(found)
    times = unit_times(log.calendar, found.first, found.last)
    if request.points is None:
        content |= {"units": answer.units.tolist(), **times.lists()}
        content["series"] = columns.all()
        return content
    content["series"] = []
    for place in range(len(columns.names)):
        kept = thinned(columns.estimate[:, place], request.points)
        units = answer.units[kept].tolist()
        content["series"].append(
            {**columns.some(place, kept).all()[0], "units": units, **times.lists(kept)}
        )
    return content


@dataclass(frozen=True, kw_only=True)
class AnswerColumns:
    """The numbers of an answer, one row per unit and one column per name."""

    names: tuple[str, ...]
    estimate: FloatArray
    low: FloatArray
    high: FloatArray
    unread: IntArray
    repeated: BoolArray | None
    raised: BoolArray | None
    doubt: FloatArray | None

    def all(self) -> list[dict[str, Any]]:
        """All series as JSON. Numbers become lists all at once: there may be many keys."""
        size = len(self.estimate)
        lists = {
            "estimate": plain(self.estimate.T.ravel()),
            "low": plain(self.low.T.ravel()),
            "high": plain(self.high.T.ravel()),
            "repeated": None if self.repeated is None else self.repeated.T.ravel().tolist(),
            "unread": self.unread.T.ravel().tolist(),
        }
        if self.raised is not None and self.doubt is not None:
            lists |= {"raised": self.raised.T.ravel().tolist()}
            lists |= {"doubt": plain(self.doubt.T.ravel())}
        return [
            {
                "name": name,
                **{
                    field: None if values is None else values[place * size : (place + 1) * size]
                    for field, values in lists.items()
                },
            }
            for place, name in enumerate(self.names)
        ]

    def some(self, place: int, rows: IntArray) -> AnswerColumns:
        """Some numbers of one series."""
        where = rows[:, None], [place]
        return AnswerColumns(
            names=(self.names[place],),
            estimate=self.estimate[where],
            low=self.low[where],
            high=self.high[where],
            unread=self.unread[where],
            repeated=None if self.repeated is None else self.repeated[where],
            raised=None if self.raised is None else self.raised[where],
            doubt=None if self.doubt is None else self.doubt[where],
        )


def _columns(found: ServedAnswer) -> AnswerColumns:
    answer = found.answer
    assert not isinstance(answer, Ranking)
    alerts = answer if isinstance(answer, Alerts) else None
    numbers = answer.statistic if isinstance(answer, Alerts) else answer
    low, high = numbers.interval(found.confidence)
    return AnswerColumns(
        names=numbers.names,
        estimate=numbers.estimate,
        low=low,
        high=high,
        unread=numbers.unread,
        repeated=found.repeated,
        raised=None if alerts is None else alerts.raised,
        doubt=None if alerts is None else alerts.doubt,
    )


def _ranking(found: ServedAnswer, answer: Ranking) -> list[dict[str, Any]]:
    times = unit_times(found.log.calendar, found.first, found.last)
    content: list[dict[str, Any]] = [
        {"unit": unit, "begins": begins, "ends": ends, "rows": []}
        for unit, begins, ends in zip(answer.units.tolist(), times.begins, times.ends, strict=True)
    ]
    for row in answer.rows(found.confidence):
        unit = row.pop("unit")
        content[unit - found.first]["rows"].append(row)
    return content


def thinned(values: FloatArray, points: int) -> IntArray:
    """Which numbers of a long series to show: the smallest and the largest of each stretch.

    The first and the last one are always shown. A series that is short enough is shown whole.

    Parameters
    ----------
    values : array of float
        The numbers. Those that are not known come last among equals.
    points : int
        About how many to show.

    Examples
    --------
    >>> thinned(np.array([1.0, 5, 2, 3, 9, 4, 0, 2]), 4).tolist()
    [0, 1, 4, 6, 7]
    """
    size = len(values)
    if size <= points:
        return np.arange(size)
    stretches = max(points // 2, 1)
    edges = np.linspace(0, size, stretches + 1).astype(np.int64)
    low, high = np.nan_to_num(values, nan=np.inf), np.nan_to_num(values, nan=-np.inf)
    kept = {0, size - 1}
    for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        kept |= {start + int(low[start:stop].argmin()), start + int(high[start:stop].argmax())}
    return np.array(sorted(kept))
