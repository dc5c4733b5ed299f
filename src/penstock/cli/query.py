"""`penstock query`."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import numpy as np
from cyclopts import Parameter
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.cli.formatting import begin, times
from penstock.cli.options import Flag, Json, MaybeInt
from penstock.cli.store_argument import chosen, configures, is_address, open_store
from penstock.core.calendar import Calendar
from penstock.core.errors import ConfigurationError, StateError
from penstock.core.exact import exact, whole
from penstock.core.product import SEPARATOR, Product
from penstock.core.weights import UNIT, Weights
from penstock.engine.ledger_report import units_from
from penstock.engine.store import Reader, SeriesLog
from penstock.released.log import Log
from penstock.released.pages.chart import Chart
from penstock.released.queries import (
    Aggregate,
    Alerts,
    Answer,
    Change,
    Drop,
    Everything,
    Jump,
    LowSignal,
    Query,
    Range,
    Ranking,
    Rectangle,
    RollUp,
    SlidingSum,
    TopK,
    UnitCounts,
    WeightedSum,
    Where,
)
from penstock.released.queries.aggregate import OverKeys
from penstock.released.queries.answer import shown
from penstock.released.queries.query import NumberQuery, key_places
from penstock.released.queries.where import Chosen, product_of

Question: TypeAlias = Literal["counts", "sum", "decay", "jump", "drop", "change", "low", "top"]

SHOWN = 40
"""How many rows a table has at most; --csv and --json have them all."""

DRAWN = 1_000_000
"""How many numbers a page has at most."""

N = TypeVar("N", int, float)

_ALERTS: dict[str, type[Jump] | type[LowSignal]] = {
    "jump": Jump,
    "drop": Drop,
    "change": Change,
    "low": LowSignal,
}


def query(
    log: str,
    question: Question | None = None,
    *,
    stream: str | None = None,
    window: MaybeInt = None,
    gamma: str | None = None,
    power: str | None = None,
    delta: float | None = None,
    k: MaybeInt = None,
    key: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    together: Flag = False,
    range_: Annotated[tuple[str, str] | None, Parameter(name="--range", negative="")] = None,
    where: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    rectangle: str | None = None,
    grid: str | None = None,
    roll_up: Flag = False,
    depth: MaybeInt = None,
    unit: MaybeInt = None,
    last: MaybeInt = None,
    everything: Annotated[bool, Parameter(name="--all", negative="")] = False,
    first: Annotated[str | None, Parameter(name="--from")] = None,
    until: Annotated[str | None, Parameter(name="--to")] = None,
    hindsight: Flag = False,
    confidence: str = "0.95",
    as_json: Json = False,
    as_csv: Annotated[bool, Parameter(name="--csv", negative="")] = False,
    plot: Path | None = None,
) -> None:
    """Ask a store or a release log. It is read only, may still be growing, and needs nothing
    private.

    Without a question: what was released, what it promises, and what it can answer.

    For example:

    * penstock query city.log

    * penstock query city.log counts --key Harbour --last 24

    * penstock query city.log sum --window 168 --all --plot out/week.html

    * penstock query city.log decay --gamma 0.95 --window 100 --json

    * penstock query city.log jump --window 3 --delta 200 --all

    * penstock query city.log low --window 12 --delta 5 --last 48 --csv

    * penstock query city.log top --k 5 --window 24

    * penstock query campus.log sum --window 24 --roll-up --depth 0

    * penstock query census.log counts --where age=20..39 --where sex=f

    * penstock query grid.log counts --rectangle 0,0:3,4

    * penstock query taps.db counts --stream taps/hourly --from 2026-03-01 --to 2026-03-02

    Parameters
    ----------
    log
        A store (a file, postgresql://… with the password in PGPASSWORD, or the pipeline.toml that
        names it), or a log's file.
    question
        counts: of a unit. sum: of the last --window units. decay: older units count less. jump,
        drop, change: by --delta or more within --window units. low: fewer than --delta in --window
        units. top: the --k largest counts, or sums.
    stream
        Which stream or view of a store, such as taps/hourly, if it has several.
    window
        How many units.
    gamma
        decay: a unit is worth gamma to the power of its age.
    power
        decay: a unit is worth (1 + age) to the power of minus this.
    delta
        The threshold of an alert.
    k
        top: how many; 10 unless told.
    key
        Only this key; give it several times for several.
    together
        The sum of the chosen keys, or of all.
    range_
        The sum of all keys from one to another, in the log's order.
    where
        The sum of all keys with these values of an attribute: sex=f, a list region=north,west or a
        range age=20..39, in the attribute's order and open where an end is left out, age=65.. ;
        give it several times for several attributes.
    rectangle
        The sum of all cells between two corners, x,y:x,y.
    grid
        The grid's rows and columns, such as 10x20, if the keys are not like x,y and have no two
        attributes.
    roll_up
        Of every node of the hierarchy.
    depth
        With --roll-up: one level only, 0 for the roots.
    unit
        At this unit; the newest unless told.
    last
        At each of the newest so many units.
    everything
        At every unit that can be answered.
    first
        At every unit from this one on: its number or, in a store, a date or time in it.
    until
        At every unit up to this one: its number or, in a store, a date or time in it.
    hindsight
        Use also what became known after the unit asked for.
    confidence
        Of the intervals.
    as_json
        As JSON, for programs.
    as_csv
        As CSV, with all rows.
    plot
        Write a page with the answer over time to this file.
    """
    if question == "top" and plot is not None:
        raise ConfigurationError(
            "--plot shows numbers over time: ask for counts or sums and choose keys with --key."
        )
    if as_json and as_csv:
        raise ConfigurationError("either --json or --csv, not both.")
    over = _Over(key, together, range_, where, rectangle, grid, roll_up, depth)
    with _opened(log, stream) as (opened, calendar):
        if question is None:
            _refuse(
                window=window,
                gamma=gamma,
                power=power,
                delta=delta,
                k=k,
                key=key,
                together=together,
                range=range_,
            )
            _refuse(
                rectangle=rectangle,
                grid=grid,
                roll_up=roll_up,
                depth=depth,
                unit=unit,
                last=last,
                all=everything,
            )
            _refuse(hindsight=hindsight, csv=as_csv, plot=plot, where=where)
            if first is not None or until is not None:
                raise ConfigurationError("--from and --to mean nothing without a question.")
            _describe(opened, calendar, Path(log).name, as_json=as_json)
            return
        asked = _query(
            question,
            over,
            window=window,
            gamma=gamma,
            power=power,
            delta=delta,
            k=k,
            hindsight=hindsight,
            log=opened,
        )
        if first is not None or until is not None:
            if unit is not None or last is not None or everything:
                raise ConfigurationError(
                    "--from and --to choose the units: --unit, --last and --all cannot stand beside them."
                )
            units: int | range | None = _between(asked, opened, calendar, first, until)
        else:
            units = _units(
                asked,
                opened,
                unit=unit,
                last=last,
                everything=everything or (plot is not None and unit == last),
            )
        answer = asked.answer(opened, units)
        if not together and not isinstance(answer, Ranking):
            answer = _only(answer, key, opened)
        if plot is not None and not isinstance(answer, Ranking):
            _plot(plot, answer, opened, calendar, confidence)
        if as_json:
            print(
                json.dumps(
                    _as_dict(answer, confidence, calendar),
                    indent=2,
                    ensure_ascii=False,
                    allow_nan=False,
                )
            )
        elif as_csv:
            _print_csv(_timed(answer.rows(confidence), calendar))
        else:
            _print_table(answer, confidence, calendar)
            if plot is not None:
                Console().print(Text(f"Open {plot}"), soft_wrap=True)


@contextmanager
def _opened(where: str, stream: str | None) -> Iterator[tuple[Log, Calendar | None]]:
    """A log to ask, and when its units are, if that is known: a stream of a store, or a release
    log.
    """
    found: Log | Reader = (
        open_store(where) if is_address(where) or configures(where) else _file(where)
    )
    with closing(found):
        if not isinstance(found, Log):
            name = chosen(found.series_names, stream)
            yield SeriesLog(found, name), found.series(name).calendar
        elif stream is not None:
            raise ConfigurationError(
                f"--stream chooses one of a store's streams, and {where} is a release log."
            )
        else:
            yield found, None


def _file(where: str) -> Log | Reader:
    """A release log or a store; of a file that is neither, both are said."""
    try:
        return Log.open(where)
    except StateError as error:
        try:
            return open_store(where)
        except StateError as other:
            raise StateError(f"{error} {other}") from None


# -- what is asked ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Over:
    """Which keys, and how they are added up."""

    key: tuple[str, ...]
    together: bool
    range: tuple[str, str] | None
    where: tuple[str, ...]
    rectangle: str | None
    grid: str | None
    roll_up: bool
    depth: int | None

    def of(self, inner: NumberQuery, log: Log) -> NumberQuery:
        ways = [
            self.together,
            self.range is not None,
            bool(self.where),
            self.rectangle is not None,
            self.roll_up,
        ]
        if sum(ways) > 1:
            raise ConfigurationError(
                "one of --together, --range, --where, --rectangle and --roll-up, not several."
            )
        if self.depth is not None and not self.roll_up:
            raise ConfigurationError("--depth can only be used with --roll-up.")
        if self.grid is not None and self.rectangle is None:
            raise ConfigurationError("--grid can only be used with --rectangle.")
        if self.together:
            return Aggregate(self.key, of=inner) if self.key else Everything(of=inner)
        if self.key and any(ways):
            raise ConfigurationError(
                "--key chooses keys to be shown or added up --together; here it has no meaning."
            )
        if self.range is not None:
            return Range(*self.range, of=inner)
        if self.where:
            return Where(_attributes(self.where, product_of(log)), of=inner)
        if self.rectangle is not None:
            first, last = _pairs(self.rectangle, ":", ",", "rectangle", "0,0:3,4")
            shape = None if self.grid is None else _pair(self.grid, "x", "grid", "10x20")
            return Rectangle(first, last, shape=shape, of=inner)
        return RollUp(of=inner, depth=self.depth) if self.roll_up else inner

    @property
    def none(self) -> bool:
        ways = (self.together, self.range, self.where, self.rectangle, self.grid, self.roll_up)
        return not any(ways) and self.depth is None


def _query(
    question: Question,
    over: _Over,
    *,
    window: int | None,
    gamma: str | None,
    power: str | None,
    delta: float | None,
    k: int | None,
    hindsight: bool,
    log: Log,
) -> Query:
    if question != "top":
        _refuse(question, k=k)
    if question != "decay":
        _refuse(question, gamma=gamma, power=power)
    if question in _ALERTS:
        if not over.none:
            raise ConfigurationError(
                f"{question} is asked of keys one by one: choose some with --key."
            )
        width, bound = _needed(window, "window", question), _needed(delta, "delta", question)
        return _ALERTS[question](width, bound, hindsight=hindsight)
    _refuse(question, delta=delta)
    if question == "decay":
        if (gamma is None) == (power is None):
            raise ConfigurationError("decay needs --gamma or --power.")
        width = _needed(window, "window", question)
        weights = Weights.power(power, width) if gamma is None else Weights.decay(gamma, width)  # type: ignore[arg-type]
        return over.of(WeightedSum(weights, hindsight=hindsight), log)
    if question == "sum":
        return over.of(SlidingSum(_needed(window, "window", question), hindsight=hindsight), log)
    if question == "top":
        if over.key:
            raise ConfigurationError("top ranks all keys: --key means nothing to it.")
        ranked = over.of(
            _counts(hindsight) if window is None else SlidingSum(window, hindsight=hindsight), log
        )
        most = len(ranked.groups(log)[1]) if isinstance(ranked, OverKeys) else log.domain.size
        if isinstance(ranked, OverKeys) and most == 1:
            raise ConfigurationError(
                "top ranks several numbers, and this is one sum: ask for sum or counts."
            )
        return TopK(min(10, most) if k is None else k, of=ranked)
    _refuse(question, window=window)
    return over.of(_counts(hindsight), log)


def _counts(hindsight: bool) -> NumberQuery:
    return SlidingSum(1, hindsight=True) if hindsight else UnitCounts()


def _needed(value: N | None, name: str, question: str) -> N:
    if value is None:
        raise ConfigurationError(f"{question} needs --{name}.")
    return value


def _refuse(question: str = "", /, **options: object) -> None:
    for name, value in options.items():
        if value is not None and value is not False and value != ():
            raise ConfigurationError(
                f"--{name.replace('_', '-')} means nothing {f'to {question}' if question else 'without a question'}."
            )


def _attributes(texts: tuple[str, ...], domain: Product) -> dict[str, Chosen]:
    """What is chosen of each attribute; a text that is a value is that value, whatever is in it."""
    values, chosen = dict(domain.attributes), dict[str, Chosen]()
    for text in texts:
        name, equals, what = text.partition("=")
        if not equals or not what:
            raise ConfigurationError(
                f"--where must be like age=20..39, sex=f or region=north,west, not {text!r}."
            )
        if name in chosen:
            raise ConfigurationError(
                f"--where must not name {name!r} twice: write values with ',' between them."
            )
        first, dots, last = what.partition("..")
        if what in values.get(name, ()):
            chosen[name] = what
        else:
            chosen[name] = (first or None, last or None) if dots else what.split(SEPARATOR)
    return chosen


def _pair(text: str, between: str, name: str, example: str) -> tuple[int, int]:
    try:
        first, last = (int(part) for part in text.split(between))
    except ValueError:
        raise ConfigurationError(f"--{name} must be like {example}, not {text!r}.") from None
    return first, last


def _pairs(
    text: str, outer: str, inner: str, name: str, example: str
) -> tuple[tuple[int, int], tuple[int, int]]:
    parts = text.split(outer)
    if len(parts) != 2:
        raise ConfigurationError(f"--{name} must be like {example}, not {text!r}.")
    return _pair(parts[0], inner, name, example), _pair(parts[1], inner, name, example)


def _units(
    asked: Query, log: Log, *, unit: int | None, last: int | None, everything: bool
) -> int | range | None:
    if (unit is not None) + (last is not None) + everything > 1:
        raise ConfigurationError("one of --unit, --last and --all, not several.")
    if everything and len(log):
        return asked.units(log) or None
    if last is not None:
        whole(last, name="last", least=1)
        can = asked.units(log)
        return can[-last:] or None
    return unit


def _between(
    asked: Query, log: Log, calendar: Calendar | None, first: str | None, until: str | None
) -> range:
    """The units from one to another that can be answered."""
    wanted, can = units_from(calendar, log.last, first, until), asked.units(log)
    found = range(max(wanted.start, can.start), min(wanted.stop, can.stop))
    if not found:
        extent = f"units {can[0]} to {can[-1]} can be" if can else "no unit can be yet"
        raise ConfigurationError(f"no unit from --from to --to can be answered: {extent}.")
    return found


def _only(answer: Answer | Alerts, keys: tuple[str, ...], log: Log) -> Answer | Alerts:
    if not keys:
        return answer
    chosen = [np.array([place]) for place in key_places(log, keys, name="--key")]
    if isinstance(answer, Alerts):
        return replace(answer, statistic=answer.statistic.among(chosen, keys))
    return answer.among(chosen, keys)


# -- what is shown ---------------------------------------------------------------------------------


def _timed(rows: Iterator[dict[str, Any]], calendar: Calendar | None) -> Iterator[dict[str, Any]]:
    """The rows with when their units begin and end, if that is known."""
    for row in rows:
        yield (
            row
            if calendar is None
            else {"unit": row["unit"], **times(calendar, row["unit"]), **row}
        )


def _as_dict(
    answer: Answer | Alerts | Ranking, confidence: str, calendar: Calendar | None
) -> dict[str, Any]:
    head: dict[str, Any] = {"query": answer.query, "confidence": confidence}
    if isinstance(answer, Alerts):
        head["threshold"] = answer.threshold
    return {**head, "rows": list(_timed(answer.rows(confidence), calendar))}


def _print_csv(rows: Iterator[dict[str, Any]]) -> None:
    first = next(rows)
    out = csv.DictWriter(sys.stdout, list(first), lineterminator="\n")
    out.writeheader()
    out.writerow(first)
    out.writerows(rows)


def _print_table(
    answer: Answer | Alerts | Ranking, confidence: str, calendar: Calendar | None
) -> None:
    table = Table(
        title=Text(answer.query), title_justify="left", title_style="bold", pad_edge=False
    )
    begins = () if calendar is None else (f"begins ({calendar.zone})",)
    for heading in (
        "unit",
        *begins,
        "name",
        "estimate",
        f"{_percent(confidence)} interval",
        "note",
    ):
        left = heading in (*begins, "name", "note")
        table.add_column(
            heading,
            justify="left" if left else "right",
            overflow="fold",
            min_width=16 if heading in begins else None,
        )
    rows = list(islice(answer.rows(confidence), SHOWN + 1))
    for row in rows[:SHOWN]:
        style = "bold yellow" if row.get("raised") else ""
        name = f"{row['rank']}. {row['name']}" if "rank" in row else row["name"]
        when = () if calendar is None else (begin(calendar, row["unit"]),)
        numbers = (_number(row["estimate"]), _band(row))
        table.add_row(str(row["unit"]), *when, Text(name), *numbers, Text(_note(row)), style=style)
    console = Console()
    console.print(table)
    if len(rows) > SHOWN:
        size = (
            answer.places.size
            if isinstance(answer, Ranking)
            else len(answer.units) * len(answer.names)
        )
        console.print(Text(f"… and {size - SHOWN:,} more: --csv and --json show all."))
    console.print(Text(_caution(rows)), soft_wrap=True)


def _number(value: float | None) -> str:
    return "?" if value is None else shown(value)


def _percent(confidence: str) -> str:
    percent = 100 * exact(confidence, name="confidence")
    text = f"{float(percent):.6g}"
    return f"{text} %" if Fraction(text) <= percent else confidence  # never more than was asked for


def _band(row: dict[str, Any]) -> str:
    if row["low"] is None:
        return "not known"
    return f"{shown(row['low'])} to {shown(row['high'])}"


def _note(row: dict[str, Any]) -> str:
    if "rank" in row:
        if row["surely_larger_than_the_rest"]:
            return "surely larger than the rest"
        return (
            "surely among them, its place is not sure"
            if row["surely_among_them"]
            else "may not belong here"
        )
    said = []
    if "raised" in row:
        doubt = "" if row["doubt"] is None else f", by noise alone at most {row['doubt']:.2g}"
        said.append(f"ALERT{doubt}" if row["raised"] else "")
    if row["unread"]:
        said.append(f"{row['unread']} not read")
    return "; ".join(part for part in said if part)


def _caution(rows: list[dict[str, Any]]) -> str:
    text = "Intervals speak of the noise in what was released"
    if any(row.get("unread") for row in rows):
        text += "; of counts that were not read, an earlier release stands, and how far they have moved is not known"
    return f"{text}."


def _describe(log: Log, calendar: Calendar | None, file: str, *, as_json: bool) -> None:
    weights = log[log.last].weights if len(log) else UNIT
    counts, sums = UnitCounts(), SlidingSum(weights.length if weights.kind == "window" else 1)
    fading = WeightedSum(weights if weights.kind in ("decay", "power") else Weights.decay("0.9", 2))
    can = [one for one in (counts, sums, fading) if len(log) and not one.why_not(log)] or [counts]
    candidates: dict[str, Query] = {
        "counts": counts,
        "sum": sums,
        "decay": fading,
        "jump, drop, change": Change(2, 1),
        "low": LowSignal(sums.width, 1),
        "top": TopK(1, of=counts if counts in can else sums),
        "--roll-up": RollUp(of=can[0]),
    }
    attributes = dict(log.domain.attributes) if isinstance(log.domain, Product) else {}
    if attributes:
        candidates["--where"] = Where(of=can[0])
    reasons = {name: one.why_not(log) for name, one in candidates.items()} if len(log) else {}
    guarantee = log.guarantee
    about: dict[str, Any] = {
        "name": log.name,
        "mechanism": log.mechanism,
        "configuration": log.configuration,
        "guarantee": "" if guarantee is None else str(guarantee),
        "promise": _promise(log),
        "private": log.private,
        "keys": log.domain.size,
        "attributes": attributes,
        "first_unit": log.first if len(log) else None,
        "last_unit": log.last if len(log) else None,
        "every": calendar.every if calendar else None,
        "begins": times(calendar, log.first)["begins"] if len(log) else None,
        "ends": times(calendar, log.last)["ends"] if len(log) else None,
        "numbers": weights.in_words() if len(log) else None,
        "answers": [name for name, reason in reasons.items() if not reason],
        "cannot_answer": {name: reason for name, reason in reasons.items() if reason},
    }
    if as_json:
        print(json.dumps(about, indent=2, ensure_ascii=False))
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    parameters = ", ".join(f"{name}={value}" for name, value in log.configuration.items())
    keys = ", ".join(log.keys[:5]) + (", …" if log.domain.size > 5 else "")
    units = f"{log.first} to {log.last}" if len(log) else "none yet"
    if calendar is not None and len(log):
        units += f", {calendar.label(log.first)} to {about['ends']}, every {calendar.every}"
    lines = {
        "log": log.name or file,
        "mechanism": f"{log.mechanism} ({parameters})" if parameters else log.mechanism,
        "guarantee": about["guarantee"],
        "promise": about["promise"],
        "keys": f"{log.domain.size:,}: {keys}",
        "attributes": "; ".join(f"{name}: {_some(values)}" for name, values in attributes.items()),
        "units": units,
        "each number is": about["numbers"] or "",
        "answers": ", ".join(about["answers"]),
        "cannot answer": "; ".join(
            f"{name}: {reason.rstrip('.')}" for name, reason in about["cannot_answer"].items()
        ),
    }
    for name, text in lines.items():
        if text:
            table.add_row(name, Text(text))
    Console().print(table)


def _some(values: tuple[str, ...]) -> str:
    return ", ".join(values if len(values) <= 6 else (*values[:3], "…", values[-1]))


def _promise(log: Log) -> str:
    if not log.private:
        return "NONE: made with a test's noise."
    return log.promise


def _plot(
    page: Path, answer: Answer | Alerts, log: Log, calendar: Calendar | None, confidence: str
) -> None:
    """Write the page of `--plot`."""
    numbers = answer.statistic if isinstance(answer, Alerts) else answer
    if numbers.estimate.size > DRAWN:
        raise ConfigurationError(
            f"--plot: {numbers.estimate.size:,} numbers are too many for one page (limit: {DRAWN:,}). "
            "Choose fewer with --key or --last. No page was written."
        )
    low, high = numbers.interval(confidence)
    thresholds: tuple[float, ...] = ()
    if isinstance(answer, Alerts):
        thresholds = (
            (answer.threshold, -answer.threshold)
            if answer.side == "either"
            else (answer.threshold,)
        )
    chart = Chart(
        title=f"{answer.query[:1].upper()}{answer.query[1:]}",
        promise=_promise(log),
        confidence=_percent(confidence),
        units=numbers.units,
        names=numbers.names,
        estimate=numbers.estimate,
        low=low,
        high=high,
        calendar=calendar,
        raised=answer.raised if isinstance(answer, Alerts) else None,
        thresholds=thresholds,
    )
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(chart.page(), encoding="utf-8")
