"""The verb `penstock query` and its options."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from penstock.cli.completers import Conditions, KeyNames, KeyRange, StreamName
from penstock.cli.options import Flag, Json, MaybeInt, with_own_modules
from penstock.cli.query.describe import describe
from penstock.cli.query.output import (
    Answered,
    print_csv,
    print_json,
    print_table,
    write_page,
)
from penstock.cli.store_argument import chosen, configures, is_address, open_store
from penstock.core.calendar import Calendar
from penstock.core.errors import ConfigurationError
from penstock.engine.release_log import read_old_log
from penstock.engine.store import Reader, SeriesLog
from penstock.released.log import Log
from penstock.released.queries import Answer, Query, Ranking
from penstock.released.queries import registry as queries
from penstock.released.queries.filter_options import FilterOptions
from penstock.released.queries.key_choice import KeyChoice
from penstock.released.queries.questions import QUESTIONS, QueryOptions, build_query
from penstock.released.queries.refusal import refuse
from penstock.released.queries.unit_choice import UnitChoice


def query(
    log: str,
    question: Annotated[str | None, Parameter(completer=lambda _: tuple(QUESTIONS))] = None,
    *,
    stream: StreamName = None,
    window: str | None = None,
    gamma: str | None = None,
    power: str | None = None,
    delta: float | None = None,
    k: MaybeInt = None,
    set_: Annotated[tuple[str, ...], Parameter(name="--set", negative="")] = (),
    key: KeyNames = (),
    together: Flag = False,
    range_: KeyRange = None,
    where: Conditions = (),
    rectangle: str | None = None,
    grid: str | None = None,
    roll_up: Flag = False,
    depth: MaybeInt = None,
    unit: MaybeInt = None,
    last: str | None = None,
    everything: Annotated[bool, Parameter(name="--all", negative="")] = False,
    first: Annotated[str | None, Parameter(name="--from")] = None,
    until: Annotated[str | None, Parameter(name="--to")] = None,
    hindsight: Flag = False,
    filtered: Flag = False,
    period: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    kind: Literal["flow", "stock"] | None = None,
    point: Literal["median", "mean"] | None = None,
    nonnegative: Flag = False,
    confidence: str | None = None,
    as_json: Json = False,
    as_csv: Annotated[bool, Parameter(name="--csv", negative="")] = False,
    plot: Path | None = None,
) -> None:
    """Query the releases in a store. This costs no budget and reads nothing private.

    The store may be in use by a publisher. Without a question, the command shows what was
    released, its promise, and which questions can be answered.

    For example:

    * penstock query city.db

    * penstock query city.db counts --key Harbour --last 24

    * penstock query city.db sum --window 7d --all --plot out/week.html

    * penstock query city.db decay --gamma 0.95 --window 100 --json

    * penstock query city.db jump --window 3 --delta 200 --all

    * penstock query city.db low --window 12h --delta 5 --last 2d --csv

    * penstock query city.db top --k 5 --window 1d

    * penstock query campus.db sum --window 24 --roll-up --depth 0

    * penstock query census.db counts --where age=20..39 --where sex=f

    * penstock query grid.db counts --rectangle 0,0:3,4

    * penstock query taps.db counts --stream taps/hourly --from 2026-03-01 --to 2026-03-02

    * penstock query taps.db counts --filtered --period 1d --period 7d --last 24

    * penstock query taps.db counts --nonnegative --last 1d --csv

    * penstock query taps.db my_module:Share --set width=24

    Parameters
    ----------
    log
        The store: a file, a pipeline.toml that names it, or postgresql://… with the password in
        PGPASSWORD. A release log of version 0.1 is read as well.
    question
        counts: the counts of a unit. sum: the sum over the last --window units. decay: a sum in
        which older units weigh less. jump, drop, change: a move by --delta or more within --window
        units. low: fewer than --delta in --window units. top: the --k largest counts or sums. Or
        your own query: its plug-in name or module:Class.
    stream
        The stream or view, such as taps/hourly. Needed if the store has several.
    window
        The number of units, or a duration such as 1d.
    gamma
        decay: a unit weighs gamma to the power of its age.
    power
        decay: a unit weighs (1 + age) to the power of minus this number.
    delta
        The threshold of an alert.
    k
        top: how many keys. Default: 10.
    set_
        A parameter of your own query, such as width=24. Repeat it for several.
    key
        Show this key only. Repeat it for several.
    together
        Add up the chosen keys, or all keys.
    range_
        Add up all keys from the first to the second, in the domain's order.
    where
        Add up all keys with these attribute values: sex=f, a list region=north,west, or a range
        age=20..39 in the attribute's order. Leave out an end for an open range: age=65.. . Repeat
        it for several attributes.
    rectangle
        Add up all cells between two corners, x,y:x,y.
    grid
        The rows and columns of the grid, such as 10x20. Needed if keys are not like x,y and have
        no two attributes.
    roll_up
        Answer for every node of the hierarchy.
    depth
        With --roll-up: one level only; 0 is the roots.
    unit
        Answer at this unit. Default: the newest.
    last
        Answer at each of the newest units: their number, or a duration such as 2d.
    everything
        Answer at every unit that can be answered.
    first
        Answer from this unit on: its number, or a date or time in it.
    until
        Answer up to this unit: its number, or a date or time in it.
    hindsight
        Use releases that came after the unit as well.
    filtered
        Ask the filtered numbers instead of the released ones. This costs no budget. Intervals are
        for the counts themselves, as the filter believes.
    period
        --filtered: a season of the stream, as a number of units or a duration such as 1d. Repeat
        it for several.
    kind
        --filtered: flow for events of a unit, stock for what is present in it. Default: flow.
    point
        --filtered: median, or mean for numbers that add up. Default: median for counts of single
        keys, mean for everything else.
    nonnegative
        Show no negative number. Totals of a hierarchy are kept, and other numbers are cut at 0.
        This costs no budget. Numbers near 0 are too high on average.
    confidence
        The confidence of the intervals. Default: 0.95, with --filtered 0.9.
    as_json
        Print JSON.
    as_csv
        Print CSV with all rows.
    plot
        Write a page that shows the answer over time to this file.
    """
    _check_output(question, as_json=as_json, as_csv=as_csv, plot=plot)
    keys = KeyChoice(key, together, range_, where, rectangle, grid, roll_up, depth)
    units = UnitChoice(unit, last, everything, first, until)
    options = QueryOptions(window, gamma, power, delta, k, set_, hindsight, find=_own_query)
    filtering = FilterOptions(filtered, period, kind, point)
    with _opened(log, stream) as (opened, calendar):
        if question is None:
            refuse(None, csv=as_csv, plot=plot, nonnegative=nonnegative)
            for part in (keys, units, options, filtering):
                part.refuse_without_question()
            describe(opened, calendar, Path(log).name, as_json=as_json)
            return
        single = question in ("counts", "top") and window is None and not keys.sums
        opened = filtering.applied(opened, single=single)
        asked = build_query(question, keys, options, opened, calendar)
        sure = confidence or opened.confidence
        about = units.of(asked, opened, calendar, plotted=plot is not None)
        shown = keys.shown(opened)
        answer = asked.answer(opened, about, keys=None if nonnegative else shown)
        if nonnegative:
            answer = _nonnegative(answer, question, shown)
        if plot is not None and not isinstance(answer, Ranking):
            write_page(plot, answer, opened, calendar, sure)
        show = print_json if as_json else print_csv if as_csv else partial(print_table, page=plot)
        show(answer, opened, calendar, sure)


def _own_query(name: str) -> type[Query]:
    """A query of another package, or of a module in the current directory."""
    return with_own_modules(name, lambda: queries.find(name, tuple(QUESTIONS)))


def _nonnegative(answer: Answered, question: str, keys: tuple[str, ...] | None) -> Answer:
    """The answer without negative numbers, then for the chosen keys: totals need all of them."""
    if not isinstance(answer, Answer):
        raise ConfigurationError(
            f"--nonnegative cannot be used with {question}, which compares numbers as they were "
            "released. Use it with counts, sum or decay."
        )
    found = answer.nonnegative()
    return found if keys is None else found.of(*keys)


def _check_output(question: str | None, *, as_json: bool, as_csv: bool, plot: Path | None) -> None:
    """Refuse forms of output that exclude each other or do not fit the question."""
    if question == "top" and plot is not None:
        raise ConfigurationError(
            "--plot shows numbers over time: ask for counts or sums and choose keys with --key."
        )
    if as_json and as_csv:
        raise ConfigurationError("--json and --csv exclude each other.")


@contextmanager
def _opened(where: str, stream: str | None) -> Iterator[tuple[Log, Calendar | None]]:
    """A release log and, if it is known, the calendar of its units."""
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
    """A store, or a release log of version 0.1. A newer release log is a store."""
    return read_old_log(where) or open_store(where)
