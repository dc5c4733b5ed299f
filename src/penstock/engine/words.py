"""What a configuration will publish, in words: to whom what is promised, what it costs, how far off the numbers will be."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from penstock.core.arrays import BoolArray, FloatArray
from penstock.core.calendar import duration
from penstock.core.domain import Domain
from penstock.core.exact import exact
from penstock.core.released import Released
from penstock.core.weights import Weights
from penstock.engine.pipeline import AnyMechanism, Pipeline, Stream, View
from penstock.private.noise import NoNoise

MADE_UP = 1_000_000
"""How many events every key has in the made-up units that a mechanism is tried on: enough for a release worth its while."""

_FEW, _LONGEST = 8, 1024
"""After how many units a first release is no longer waited for, and up to which length sums are filled."""

_WIDTH = 100


@dataclass(frozen=True)
class Error:
    """How far noise moves a fresh release: standard deviations and halves of 95 % intervals, the least and the largest.

    `unit` is the made-up unit it was seen in, and `cost` what was charged until the first fresh release.
    """

    unit: int
    deviation: tuple[float, float]
    half: tuple[float, float]
    weights: Weights
    cost: Fraction


def expected_error(mechanism: AnyMechanism, domain: Domain) -> Error | None:
    """The noise in a fresh release, found on made-up units and without any randomness; None where it cannot be known.

    >>> from penstock import Laplace
    >>> expected_error(Laplace(epsilon="1"), Domain.of(3)).half
    (3.0, 3.0)
    """
    run = mechanism.run(domain, noise=NoNoise())
    counts = np.full(domain.size, MADE_UP, np.int64)
    released = run.step(counts)
    while not _fresh(released).any() and run.unit < _FEW:
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
    return Error(released.unit, _ends(deviation), _ends(half), released.weights, cost)


def _filled(mechanism: AnyMechanism, weights: Weights) -> Released:
    """One key's sum when it has all its units, or as many as are tried."""
    run = mechanism.run(1, noise=NoNoise())
    released = run.step([MADE_UP])
    for _ in range(min(weights.length or _LONGEST, _LONGEST) - 1):
        released = run.step([MADE_UP])
    return released


def _fresh(released: Released) -> BoolArray:
    return np.asarray(np.isfinite(released.variance) & ~np.broadcast_to(released.repeated, released.value.shape))


def _ends(values: FloatArray) -> tuple[float, float]:
    return float(values.min()), float(values.max())


def in_words(pipeline: Pipeline) -> str:
    """All of it, for somebody who has never heard of epsilon, without touching any data."""
    parts = {
        "What is published": _published(pipeline),
        "What is promised": _promised(pipeline),
        "What it costs": _costs(pipeline),
        "How far off the numbers will be": _errors(pipeline),
        "What is not protected": _open(pipeline),
    }
    return "\n\n".join(f"{title}\n{'-' * len(title)}\n{_wrapped(lines)}" for title, lines in parts.items()) + "\n"


def _wrapped(lines: list[str]) -> str:
    tied = [line.replace(" %", "\N{NO-BREAK SPACE}%") for line in lines]  # a number and its sign stay on one line
    filled = (textwrap.fill(line, _WIDTH, initial_indent="- ", subsequent_indent="  ") for line in tied)
    return "\n".join(filled).replace("\N{NO-BREAK SPACE}", " ")


def _published(pipeline: Pipeline) -> list[str]:
    stream, source, calendar = pipeline.stream, pipeline.source, pipeline.stream.calendar
    lines = [_series(pipeline, view) for view in pipeline.views]
    told = "from the source" if source.kind in ("stdin", "http") else "from " + _from(pipeline)
    columns = source.columns
    person = f"the person in {columns.person!r}" if columns.person else "no column for persons"
    lines.append(
        f"Events come {told} ({source.kind}): the time in {columns.time!r}, the key in "
        f"{', '.join(map(repr, columns.keys))}, {person}."
    )
    unknown = f"are counted as {pipeline.other!r}" if pipeline.other is not None else "are dropped"
    lines.append(f"Events with other keys {unknown}. The keys are as declared and never learned from the data.")
    wait = f" and {stream.lateness} of waiting for late events" if _waits(stream) else ""
    late = "is dropped" if stream.late == "drop" else "counts in the unit that is open then"
    begins = f"Unit 1 begins at {calendar.origin} ({calendar.zone})"
    ends = f", and the last one ends at {stream.until} at the latest" if stream.until else ""
    lines.append(
        f"{begins}{ends}. A unit is released by the clock, after its end{wait}, also when nothing happened; "
        f"what comes later {late}."
    )
    goes = [
        f"{sink.name} ({sink.kind})" + (f", {' and '.join(sink.views)} only" if sink.views else "") for sink in pipeline.sinks
    ]
    lines.append(f"Releases go to {'; '.join(goes)}." if goes else "Releases stay in the store: there is no sink.")
    return lines


def _series(pipeline: Pipeline, view: View) -> str:
    domain = view.mechanism.released(pipeline.keys)
    some = ", ".join(domain.keys[:3]) + (", …" if domain.size > 3 else "")
    noun = "number" if domain.size == 1 else "numbers"
    return (
        f"{_title(pipeline, view)}: {domain.size} {noun} ({some}) every {view.calendar.every}, by {view.mechanism.name}: "
        f"{view.mechanism.summary().replace('`', '')}"
    )


def _title(pipeline: Pipeline, view: View) -> str:
    return f"Stream {view.name!r}" if len(pipeline.views) == 1 else f"View {view.name!r} of stream {pipeline.stream.name!r}"


def _from(pipeline: Pipeline) -> str:
    options = pipeline.source.options
    return str(options.get("path") or options.get("topic", ""))


def _waits(stream: Stream) -> bool:
    return duration(stream.lateness, name="lateness") > 0


def _promised(pipeline: Pipeline) -> list[str]:
    promise, _, _ = pipeline.guarantee.in_words().partition(" A person counts")
    alone = len(pipeline.views) == 1
    lines = [
        pipeline.guarantee.in_words() if alone else f"{promise} Units are the stream's, of {pipeline.stream.calendar.every}."
    ]
    if not alone:
        lines += [
            f"In view {view.name!r}, at most {_events(view.mechanism.contribution)} of a person count in a unit of "
            f"{view.calendar.every}."
            for view in pipeline.views
        ]
    if pipeline.source.columns.person is None:
        lines.append(
            "There is no column for persons, so the person of this promise is one event: who has several is not covered."
        )
    elif not pipeline.guarantee.user_level:
        span = "one unit" if pipeline.guarantee.window == 1 else f"{pipeline.guarantee.window} units"
        lines.append(f"Who is there for longer than {span} is covered for any {span} of that, not for all of it together.")
    return lines


def _events(number: int) -> str:
    return "one event" if number == 1 else f"{number} events"


def _costs(pipeline: Pipeline) -> list[str]:
    promise = pipeline.guarantee
    units = "one unit" if promise.window == 1 else f"{promise.window} consecutive units"
    delta = f" with delta = {promise.delta}" if promise.delta else ""
    lines = [
        f"All that reads any {units} costs at most epsilon = {promise.epsilon}{delta}. The ledger refuses what would be more."
    ]
    if promise.window > 1 and not promise.delta:
        lines.append(f"That is {promise.epsilon / promise.window} a unit on average.")
    if promise.horizon is None:
        lines.append("The budget is never used up: what a unit cost is free again when the unit leaves the window.")
    else:
        lines.append(f"After unit {promise.horizon} nothing is read any more, and the last release is repeated for ever.")
    if len(pipeline.views) == 1:
        return lines
    for view in pipeline.views:
        own = exact(view.mechanism.epsilon)
        many = f"units of at least {view.units}" if view.units > 1 else "units of one"
        twice = ", counted twice" if view.times == 2 else ""
        lines.append(
            f"View {view.name!r} has {view.share} of that, {view.cost}: its mechanism works with epsilon = {own} over any "
            f"{view.mechanism.window} of its units{twice} ({many} of the stream's)."
        )
    lines.append(f"Together: {' + '.join(str(view.cost) for view in pipeline.views)} = {sum(v.cost for v in pipeline.views)}.")
    if any(view.times == 2 for view in pipeline.views):
        lines.append(
            "Larger units count twice because a window may end inside one: without a person's events in the window, other "
            "events of that person may be the ones that count in the rest of it."
        )
    return lines


def _errors(pipeline: Pipeline) -> list[str]:
    lines = []
    for view in pipeline.views:
        error = expected_error(view.mechanism, pipeline.keys)
        title = f"{_title(pipeline, view)}: "
        if error is None:
            lines.append(f"{title}how much noise there is depends on the stream, and cannot be said before.")
            continue
        sums = f" Each number is {error.weights.in_words()}; this is in unit {error.unit}."
        sums = "" if error.weights.kind == "unit" else sums
        paid = "" if view.mechanism.guarantee.delta else f" The first one costs epsilon = {_near(view.times * error.cost)}."
        lines.append(
            f"{title}a fresh release has noise with a standard deviation of {_between(error.deviation)} on each number; 95 % "
            f"of them are within {_between(error.half)} of the truth.{sums}{paid}"
        )
    lines.append(
        "This is the noise of the first fresh release, found on made-up counts without any data. Later ones may have more or "
        "less of it, and say how much. What a mechanism repeats or smooths is also off by how far the stream has moved."
    )
    return lines


def _near(number: Fraction) -> str:
    return str(number) if number.denominator < 10_000 else f"{float(number):.3g}"


def _between(ends: tuple[float, float]) -> str:
    low, high = (f"{end:.3g}" if end < 1000 else f"{end:,.0f}" for end in ends)
    return low if low == high else f"{low} to {high}"


def _open(pipeline: Pipeline) -> list[str]:
    stream, store = pipeline.stream, pipeline.store
    lines = ["Two streams over the same people add up: their epsilons do. Nothing here knows of other streams."]
    later = f"more than {stream.lateness} " if _waits(stream) else ""
    if stream.late == "drop":
        lines.append(
            f"Events that come {later}after the end of their unit are missing from the numbers; how many is known to the "
            "operator only."
        )
    else:
        lines.append(
            "A late event is protected as one of the unit that it was counted in, not of the one in which it happened."
        )
    if store.head is None:
        known = "a sink that knows better" if pipeline.sinks else "nothing"
        lines.append(
            f"There is no head file: if the store is restored from an old backup, {known} would show it, and units may be "
            'released twice with different noise. Write head = "…" in [store], on another disk.'
        )
    if store.key_env is None and store.key_file is None:
        lines.append(
            "The mechanism's state is not encrypted: whoever can read the store as its owner sees what is held between units. "
            "Write key_env or key_file in [store]."
        )
    lines.append(
        "What is not in these counts is not protected: other data of the same people, and whoever can read the source."
    )
    return lines
