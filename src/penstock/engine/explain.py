"""A configuration explained in plain sentences: what is published, promised and paid, and how
accurate the numbers will be. Neither data nor the store are touched.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

import numpy as np

from penstock.budget.grid import promised
from penstock.core.arrays import BoolArray, FloatArray
from penstock.core.calendar import duration, instant
from penstock.core.domain import Domain
from penstock.core.durations import length
from penstock.core.exact import exact
from penstock.core.promise_gaps import (
    EACH_ALONE,
    NO_PERSONS,
    longer_stay,
    promise_gaps,
)
from penstock.core.released import Released
from penstock.core.weights import Weights
from penstock.engine.factory import finite
from penstock.engine.pipeline import (
    AnyMechanism,
    EngineConfig,
    Pipeline,
    SinkConfig,
    StreamConfig,
    View,
)
from penstock.engine.sink_fence import fencing_sink
from penstock.private.mechanisms.tide import Tide
from penstock.private.noise import NoNoise
from penstock.released.sinks.registry import SINKS

MADE_UP = 1_000_000
"""Events per key in the made-up units on which a mechanism is tried: enough for a fresh release."""

_MAX_UNITS_TRIED, _MAX_UNITS_SUMMED = 8, 1024
"""The most units in which a first fresh release is expected, and the longest sum that is filled."""

_WIDTH = 100

MAX_EPSILON = 10
"""Above this epsilon a promise protects little."""

SAMPLE = (
    "Before the first release, a sample of rows is judged. If fewer than half of them can be "
    "taken, nothing is released."
)

WARNINGS = "Warnings"
"""The title of the warnings."""


@dataclass(frozen=True)
class ExpectedError:
    """The noise of a fresh release, found without data.

    `deviation` and `half` are the smallest and the largest standard deviation of a number, and half
    width of its 95 % interval. `unit` is the made-up unit in which the release was seen. `cost` was
    charged up to the first fresh release.
    """

    unit: int
    deviation: tuple[float, float]
    half: tuple[float, float]
    weights: Weights
    cost: Fraction


def expected_error(mechanism: AnyMechanism, domain: Domain) -> ExpectedError | None:
    """The noise of a fresh release, found on made-up units and without any randomness; None where
    it cannot be known before.

    >>> from penstock import Laplace
    >>> expected_error(Laplace(epsilon="1"), Domain.of(3)).half
    (3.0, 3.0)
    """
    run = mechanism.run(domain, noise=NoNoise())
    counts = np.full(domain.size, MADE_UP, np.int64)
    released = run.step(counts)
    if released.kind == "filtered":  # what a filter makes of the noise depends on the stream
        return None
    while not _fresh(released).any() and run.unit < _MAX_UNITS_TRIED:
        released = run.step(counts)
    fresh = _fresh(released)
    if not fresh.any():
        return None
    cost = run.cost.amount
    if released.weights.kind != "unit" and mechanism.by_key:
        released = _filled(mechanism, released.weights)
        fresh = _fresh(released)
    low, high = released.interval()
    half, deviation = ((high - low) / 2)[fresh], np.sqrt(released.variance)[fresh]
    return ExpectedError(
        released.unit, _extremes(deviation), _extremes(half), released.weights, cost
    )


def _filled(mechanism: AnyMechanism, weights: Weights) -> Released:
    """One key's sum when it has all its units, or as many as are tried."""
    run = mechanism.run(1, noise=NoNoise())
    released = run.step([MADE_UP])
    for _ in range(min(weights.length or _MAX_UNITS_SUMMED, _MAX_UNITS_SUMMED) - 1):
        released = run.step([MADE_UP])
    return released


def _fresh(released: Released) -> BoolArray:
    return np.asarray(
        np.isfinite(released.variance) & ~np.broadcast_to(released.repeated, released.value.shape)
    )


def _extremes(values: FloatArray) -> tuple[float, float]:
    return float(values.min()), float(values.max())


def in_words(pipeline: Pipeline) -> str:
    """The whole explanation with its warnings, as text of at most 100 columns."""
    found = parts(pipeline)
    if warned := warnings(pipeline):
        found[WARNINGS] = warned
    return "\n".join(
        f"{title}\n{'-' * len(title)}\n{wrapped(said)}\n" for title, said in found.items()
    )


def parts(pipeline: Pipeline) -> dict[str, list[str]]:
    """The explanation by title, as paragraphs of one topic each, without the warnings."""
    found = {
        "What is published": _published(pipeline),
        "What is promised": _promised(pipeline),
        "What it costs": _costs(pipeline),
        "How accurate the numbers are": _errors(pipeline),
        "What is not protected": _open(pipeline),
    }
    if pipeline.alerts:
        found["What is watched"] = _watched(pipeline)
    if pipeline.engine is not None:
        found["Where events are counted"] = _cluster(pipeline.engine)
    return found


def _cluster(engine: EngineConfig) -> list[str]:
    """Where Spark counts, what it encrypts, and what that does not help against."""
    counts = (
        f"With --engine spark, Spark at {engine.master} reads and counts events. Noise is drawn "
        "and releases are stored here."
    )
    encrypts = (
        "Spark encrypts what it sends (spark.network.crypto.enabled) and what it writes to disks "
        "(spark.io.encryption.enabled). It writes no event log, and has no web page."
    )
    reads = (
        "Whoever can become the user of Spark on one of its machines can read the events that are "
        "there."
    )
    said = [counts, encrypts, reads]
    if engine.partitioned is not None:
        said.append(
            "Each person must have one partition of the topic, by "
            f"{engine.partitioner} of the person's id. Events in another one are dropped, and "
            "counted privately."
        )
    return said


def warnings(pipeline: Pipeline) -> list[str]:
    """What to change before anything is published."""
    return [
        *_weak(pipeline),
        *_endless(pipeline),
        *_unnoticed(pipeline),
        *_unfenced(pipeline),
    ]


def _weak(pipeline: Pipeline) -> list[str]:
    epsilon = pipeline.guarantee.epsilon
    if epsilon <= MAX_EPSILON:
        return []
    text = (
        f"Epsilon = {epsilon} promises little: a suspicion of 50 % that somebody was there may "
        f"rise to more than 99.99 %. Above {MAX_EPSILON}, hardly anything is hidden. Choose 1 or "
        "less to protect people."
    )
    return [text]


def units_to_publish(pipeline: Pipeline, view: View, *, now: datetime) -> int | None:
    """How many units of a view a finite run publishes that starts now; None for a live stream."""
    if not finite(pipeline):
        return None
    return max(view.calendar.unit_at(instant(pipeline.stream.until or now)) - 1, 0)


def _endless(pipeline: Pipeline) -> list[str]:
    declared, options = pipeline.source.declaration, pipeline.source.options
    if finite(pipeline) or not declared.finite(options, True):
        return []
    late = "are dropped" if pipeline.stream.late == "drop" else "count in the current unit"
    text = (
        f"{_capital(declared.describe(options))} is read as a live stream, because no end is "
        "declared. Units close by the clock, and events of closed units "
        f'{late}. If the input is finished, write until = "…" in [stream].'
    )
    return [text]


def _unnoticed(pipeline: Pipeline) -> list[str]:
    blind = _blind(pipeline)
    if not blind:
        return []
    of = "" if len(blind) == len(pipeline.views) else f" of {' and '.join(map(repr, blind))}"
    able = ", ".join(name for name, kind in SINKS.own.items() if kind.reports)
    text = (
        "If the store is restored from an old backup, nothing would show it. Then units"
        f"{of} would be released twice with different noise, which reveals more than is promised. "
        f"There is no head file, and no sink that reports what it holds ({able} do). "
        + ("" if fencing_sink(pipeline) else "Nor would anything stop a second copy of the store. ")
        + 'Write head = "…" in [store], on another disk.'
    )
    return [text]


def _unfenced(pipeline: Pipeline) -> list[str]:
    fenced = pipeline.store.head is not None or fencing_sink(pipeline) is not None
    if fenced or _blind(pipeline):  # the other warning says it too
        return []
    able = ", ".join(name for name, kind in SINKS.own.items() if kind.fence is not None)
    text = (
        "If the store is copied and both copies are published, nothing would stop the second copy: "
        "both would release the same units with different noise. There is no head file, and no "
        f'sink that can be the fence ({able} can). Write head = "…" in [store], on another disk.'
    )
    return [text]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _blind(pipeline: Pipeline) -> list[str]:
    """The views for which neither a head file nor a sink would show that the store is old."""
    if pipeline.store.head is not None:
        return []
    reporting = [sink for sink in pipeline.sinks if sink.declaration.reports]
    return [
        view.name
        for view in pipeline.views
        if not any(not sink.views or view.name in sink.views for sink in reporting)
    ]


def wrapped(lines: list[str], width: int = _WIDTH) -> str:
    """Paragraphs as a list of at most `width` columns. A number stays with its ± and %."""
    tied = (
        line.replace(" %", "\N{NO-BREAK SPACE}%").replace("± ", "±\N{NO-BREAK SPACE}")
        for line in lines
    )
    filled = (
        textwrap.fill(
            line, width, initial_indent="- ", subsequent_indent="  ", break_long_words=False
        )
        for line in tied
    )
    return "\n".join(filled).replace("\N{NO-BREAK SPACE}", " ")


def _published(pipeline: Pipeline) -> list[str]:
    columns = pipeline.source.columns
    person = f"the person in {columns.person!r}" if columns.person else "no column for the person"
    keys = "the keys in" if len(columns.keys) > 1 else "the key in"
    read = f"the time in {columns.time!r}, {keys} {' and '.join(map(repr, columns.keys))}, {person}"
    source = pipeline.source.declaration.describe(pipeline.source.options)
    unknown = f"are counted as {pipeline.other!r}" if pipeline.other is not None else "are dropped"
    sinks = "; ".join(_sink(sink) for sink in pipeline.sinks)
    return [
        *(_series(pipeline, view) for view in pipeline.views),
        f"Events come from {source}: {read}.",
        f"Events with other keys {unknown}. The keys are declared, never learned from the data.",
        SAMPLE,
        *_when(pipeline),
        f"Releases go to {sinks}." if sinks else "Releases stay in the store: there is no sink.",
    ]


def _when(pipeline: Pipeline) -> list[str]:
    """When units begin, when they are released, and when all of it ends."""
    stream, calendar = pipeline.stream, pipeline.stream.calendar
    begins = f"Unit 1 begins at {calendar.origin} ({calendar.zone})"
    if finite(pipeline):
        end = (
            f"ended by {stream.until}, the declared end of the input,"
            if stream.until
            else "ended before the publisher starts"
        )
        text = (
            f"{begins}. The input is finished and is read to its end. Every unit that {end} is "
            "released, also without events. No event is late."
        )
        return [text, *no_end(pipeline)]
    wait = f" and another {length(stream.lateness)} for late events" if _waits(stream) else ""
    late = "are dropped" if stream.late == "drop" else "count in the current unit"
    ends = f", and the last unit ends by {stream.until}" if stream.until else ""
    text = (
        f"{begins}{ends}. The clock decides when a unit is released: after its end{wait}, also "
        f"without events. Events that come later {late}."
    )
    outage = {
        "close": "While the source is away, units close all the same, and events of that time that "
        'come later are late. outage = "wait" in [source] keeps units open until it is back.',
        "wait": "While the source is away, units stay open. When it is back, everything that it "
        "has is read; then units are released, late and in order.",
    }.get(pipeline.source.options.get("outage", ""))
    return [text, outage] if outage else [text]


def no_end(pipeline: Pipeline) -> list[str]:
    """What it means that a finite input has no declared end; nothing if it has one."""
    if not finite(pipeline) or pipeline.stream.until is not None:
        return []
    growing = any(option.name == "growing" for option in pipeline.source.declaration.options)
    more = ", or growing = true in [source] if more events will come" if growing else ""
    text = (
        "No end of the input is declared. So units without events follow its last event, "
        "and a later file with events of these units would be too late. "
        f'Write until = "…" in [stream]{more}.'
    )
    return [text]


def _series(pipeline: Pipeline, view: View) -> str:
    domain = view.mechanism.released(pipeline.keys)
    some = ", ".join(domain.keys[:3]) + (", …" if domain.size > 3 else "")
    noun = "number" if domain.size == 1 else "numbers"
    summary = view.mechanism.summary().replace("`", "")
    return (
        f"{_title(pipeline, view)}: {domain.size:,} {noun} ({some}) every "
        f"{length(view.calendar.every)}. "
        f"The mechanism is {view.mechanism.name}: {summary[:1].lower()}{summary[1:]}"
    )


def _title(pipeline: Pipeline, view: View) -> str:
    if len(pipeline.views) == 1:
        return f"Stream {view.name!r}"
    return f"View {view.name!r} of stream {pipeline.stream.name!r}"


def _sink(sink: SinkConfig) -> str:
    name = sink.declaration.describe(sink.options)
    named = name if sink.name == sink.kind else f"{sink.name} ({name})"
    named += f" for {' and '.join(sink.views)} only" if sink.views else ""
    ways = (("filtered", sink.filters), ("non-negative", sink.nonnegative))
    how = [word for word, used in ways if used]
    return named + (f", {' and '.join(how)}, which costs no budget" if how else "")


def _watched(pipeline: Pipeline) -> list[str]:
    """What each rule watches and where its alerts go, and what that costs."""
    lines = []
    for alert in pipeline.alerts:
        of = "" if len(pipeline.views) == 1 else f" watches view {alert.view!r}"
        goes = "the log and a webhook" if alert.posts else "the log"
        lines.append(f"Alert {alert.rule.name!r}{of}: {alert.rule.in_words()}. It goes to {goes}.")
    lines += _late_alerts(pipeline)
    lines.append(
        "Alerts are computed from releases, so they cost no budget. Rules may change at any time: "
        "a new rule watches from the next unit on."
    )
    return lines


def _late_alerts(pipeline: Pipeline) -> list[str]:
    """For watched views of `tide`: a surge of a steady key is seen when its block ends."""
    watched = {alert.view for alert in pipeline.alerts}
    lines = []
    for view in pipeline.views:
        tide = view.mechanism
        if view.name not in watched or not isinstance(tide, Tide) or tide.delta:
            continue
        units = tide.longest_pulse if tide.kind == "stock" else tide.longest_block
        if units > 1:
            of = "" if len(pipeline.views) == 1 else f" of view {view.name!r}"
            chosen = "tide, if auto chooses it," if view.auto else "tide"
            advice = "" if tide.kind == "stock" else " A smaller longest in [privacy] limits that."
            lines.append(
                f"The mechanism {chosen} reads a steady key{of} once in up to {units} units. An "
                f"alert about it may come up to {units - 1} units late.{advice}"
            )
    return lines


def _waits(stream: StreamConfig) -> bool:
    return duration(stream.lateness, name="lateness") > 0


def _wait(stream: StreamConfig) -> str:
    return length(stream.lateness, article="one")


def _promised(pipeline: Pipeline) -> list[str]:
    promise = pipeline.guarantee
    alone = len(pipeline.views) == 1
    every = pipeline.stream.calendar.every
    lines = [promise.in_words() if alone else promise.clauses.protection]
    whose = "A unit" if alone else "A unit of the stream"
    window = (
        f" The window is any {length(every, promise.window)}."
        if promise.window > 1 and not promise.user_level
        else ""
    )
    lines.append(f"{whose} is {length(every, article='one')}.{window}")
    if not alone:
        lines += [
            f"In view {view.name!r}, at most {_events(view.mechanism.contribution)} per person "
            f"{'counts' if view.mechanism.contribution == 1 else 'count'} in a unit of "
            f"{length(view.calendar.every, article='one')}."
            for view in pipeline.views
        ]
    if pipeline.source.columns.person is None:
        lines.append(NO_PERSONS.text)
    else:
        lines.append(_missing_person(pipeline))
    if pipeline.source.columns.person is not None and not promise.user_level:
        lines.append(longer_stay(promise).text)
    return lines


def _missing_person(pipeline: Pipeline) -> str:
    columns = pipeline.source.columns
    return {
        "drop": f"Events without a person in {columns.person!r} are dropped.",
        "each": EACH_ALONE,
        "refuse": f"No event may lack the person in {columns.person!r}: otherwise nothing more is "
        "read, and the publisher stops.",
    }[columns.missing_person]


def _events(number: int) -> str:
    return "one event" if number == 1 else f"{number} events"


def _costs(pipeline: Pipeline) -> list[str]:
    promise = pipeline.guarantee
    units = "unit" if promise.window == 1 else f"{promise.window} consecutive units"
    delta = f" with delta = {promise.delta}" if promise.delta else ""
    read = f"Any {units} cost{'s' if promise.window == 1 else ''}"
    if promise.user_level:
        all_units = (
            "the only unit costs" if promise.window == 1 else f"all {promise.window} units cost"
        )
        read = f"The whole stream is covered: {all_units}"
    limit = f"at most epsilon = {promise.epsilon}{delta}"
    lines = [f"{read} {limit}. The ledger refuses any charge above that."]
    if promise.delta:
        total = _near(promised(promise).amount)
        lines.append(f"All noise is Gaussian. The ledger counts rho: a window has about {total}.")
    elif promise.window > 1:
        lines.append(f"The average per unit is {promise.epsilon / promise.window}.")
    if promise.horizon is None:
        lines.append(
            "The budget is never used up: the charge of a unit is free again when the unit leaves "
            "the window."
        )
    else:
        lines.append(
            f"After unit {promise.horizon}{_ends(pipeline, promise.horizon)} no more events are "
            "read, and the last release is repeated for ever."
        )
    return lines if len(pipeline.views) == 1 else [*lines, *_shares(pipeline)]


def _shares(pipeline: Pipeline) -> list[str]:
    """How the views share the budget."""
    lines = []
    for view in pipeline.views:
        units = (
            f"each at least {view.units} of the stream's"
            if view.units > 1
            else "the same as the stream's"
        )
        width = view.mechanism.window
        window = "one of its units" if width == 1 else f"{width} of its units"
        twice = " It counts twice." if view.times == 2 else ""
        lines.append(
            f"View {view.name!r} has a share of {view.share}, epsilon = {view.cost}. Its mechanism "
            f"spends at most {exact(view.mechanism.epsilon)} in any {window} ({units}).{twice}"
        )
    costs = [view.cost for view in pipeline.views]
    lines.append(f"Together: {' + '.join(map(str, costs))} = {sum(costs)}.")
    if any(view.times == 2 for view in pipeline.views):
        lines.append(
            "Larger units count twice, because a window may end inside such a unit. Without the "
            "person's events in the window, other events of that person may count in the rest of "
            "the unit."
        )
    return lines


def _ends(pipeline: Pipeline, unit: int) -> str:
    calendar = pipeline.stream.calendar
    return f", which ends at {calendar.end(unit).isoformat()}," if unit <= calendar.last else ""


def _errors(pipeline: Pipeline) -> list[str]:
    lines = []
    for view in pipeline.views:
        error = expected_error(view.mechanism, pipeline.keys)
        title = f"{_title(pipeline, view)}: "
        if error is None:
            lines.append(f"{title}the noise depends on the stream and cannot be stated before.")
            continue
        sums = f" Each number is {error.weights.in_words()}; this is for unit {error.unit}."
        cost = f"{view.mechanism.grid.currency} = {_near(view.times * error.cost)}"
        paid = f" The first fresh release costs {cost}."
        lines.append(
            f"{title}the noise of a fresh release has a standard deviation of "
            f"{_between(error.deviation)} per number. With 95 % probability a number is within "
            f"{_between(error.half)} of the true count."
            + ("" if error.weights.kind == "unit" else sums)
            + paid
        )
    lines.append(
        "These figures are for the first fresh release and come from made-up counts. Later "
        "releases state their own noise, which may be larger or smaller. Repeated or smoothed "
        "numbers also miss what changed since."
    )
    return lines


def _near(number: Fraction) -> str:
    return str(number) if number.denominator < 10_000 else f"{float(number):.3g}"


def _between(ends: tuple[float, float]) -> str:
    low, high = (f"{end:.3g}" if end < 1000 else f"{end:,.0f}" for end in ends)
    return low if low == high else f"{low} to {high}"


def _open(pipeline: Pipeline) -> list[str]:
    stream, store = pipeline.stream, pipeline.store
    gaps = {gap.kind: gap.text for gap in promise_gaps(pipeline.guarantee)}
    lines = [gaps[kind] for kind in ("other_streams", "group", "many_people")]
    if not finite(pipeline) and stream.late == "drop":
        later = f"more than {_wait(stream)} " if _waits(stream) else ""
        lines.append(
            f"Events that come {later}after the end of their unit are missing from the numbers. "
            "Only the operator knows how many."
        )
    elif not finite(pipeline):
        lines.append(
            "A late event is protected as an event of the unit in which it is counted, not of the "
            "unit in which it happened."
        )
    fence = fencing_sink(pipeline)
    if fence is not None:
        lines.append(
            f"Sink {fence.name!r} is the fence: of two copies of the store, only one can release a "
            "unit. While this sink cannot be reached, nothing is released."
        )
    if store.head is None and not _blind(pipeline):
        lines.append(
            "There is no head file. If the store is restored from an old backup, only a sink that "
            "holds more than the store shows it, unless the sink is restored, too. "
            'Write head = "…" in [store], on another disk.'
        )
    if store.key_env is None and store.key_file is None:
        lines.append(
            "The state of the mechanism is not encrypted: whoever can read the store as its owner "
            "sees the data of open units. Write key_env or key_file in [store]."
        )
    return [*lines, gaps["other_data"]]
