"""What a configuration will publish, in words: to whom what is promised, what it costs, how far off
the numbers will be.
"""

from __future__ import annotations

import re
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
from penstock.engine.factory import finite
from penstock.engine.pipeline import AnyMechanism, Pipeline, SinkConfig, StreamConfig, View
from penstock.private.noise import NoNoise

MADE_UP = 1_000_000
"""How many events every key has in the made-up units that a mechanism is tried on: enough for a
release worth its while.
"""

_FEW, _LONGEST = 8, 1024
"""After how many units a first release is no longer waited for, and up to which length sums are
filled.
"""

_WIDTH = 100

LITTLE = 10
"""Above this epsilon a promise is worth little."""

BEWARE = "Beware"
"""The title of the warnings."""

_NOUNS = {"s": "second", "min": "minute", "h": "hour", "d": "day", "w": "week", "mo": "month"}


@dataclass(frozen=True)
class ExpectedError:
    """How far noise moves a fresh release: standard deviations and halves of 95 % intervals, the
    least and the largest.

    `unit` is the made-up unit it was seen in, and `cost` what was charged until the first fresh
    release.
    """

    unit: int
    deviation: tuple[float, float]
    half: tuple[float, float]
    weights: Weights
    cost: Fraction


def expected_error(mechanism: AnyMechanism, domain: Domain) -> ExpectedError | None:
    """The noise in a fresh release, found on made-up units and without any randomness; None where
    it cannot be known.

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
    return ExpectedError(
        released.unit, _extremes(deviation), _extremes(half), released.weights, cost
    )


def _filled(mechanism: AnyMechanism, weights: Weights) -> Released:
    """One key's sum when it has all its units, or as many as are tried."""
    run = mechanism.run(1, noise=NoNoise())
    released = run.step([MADE_UP])
    for _ in range(min(weights.length or _LONGEST, _LONGEST) - 1):
        released = run.step([MADE_UP])
    return released


def _fresh(released: Released) -> BoolArray:
    return np.asarray(
        np.isfinite(released.variance) & ~np.broadcast_to(released.repeated, released.value.shape)
    )


def _extremes(values: FloatArray) -> tuple[float, float]:
    return float(values.min()), float(values.max())


def in_words(pipeline: Pipeline) -> str:
    """All of it, for somebody who has never heard of epsilon, without touching any data."""
    said = parts(pipeline)
    beware = warnings(pipeline)
    if beware:
        said = {**said, BEWARE: beware}
    return (
        "\n\n".join(
            f"{title}\n{'-' * len(title)}\n{_wrapped(lines)}" for title, lines in said.items()
        )
        + "\n"
    )


def parts(pipeline: Pipeline) -> dict[str, list[str]]:
    """The same by title, sentence by sentence, without the warnings."""
    return {
        "What is published": _published(pipeline),
        "What is promised": _promised(pipeline),
        "What it costs": _costs(pipeline),
        "How far off the numbers will be": _errors(pipeline),
        "What is not protected": _open(pipeline),
    }


def warnings(pipeline: Pipeline) -> list[str]:
    """What should be mended before anything is published."""
    return [*_weak(pipeline), *_endless(pipeline), *_unnoticed(pipeline)]


def _weak(pipeline: Pipeline) -> list[str]:
    epsilon = pipeline.guarantee.epsilon
    if epsilon <= LITTLE:
        return []
    text = (
        f"Epsilon = {epsilon} promises little: a suspicion of 50 % that somebody was there may rise to more than 99.99 %. "
        f"Above {LITTLE} hardly anything is hidden; 1 or less is a promise that protects."
    )
    return [text]


def _endless(pipeline: Pipeline) -> list[str]:
    declared = pipeline.source.declaration
    if finite(pipeline) or not declared.finite(pipeline.source.options, True):
        return []
    late = (
        "are dropped" if pipeline.stream.late == "drop" else "count in the unit that is open then"
    )
    text = (
        'Standard input needs until = "…" in [stream] if what is piped is finished. Without it the stream is live: units close '
        f"by the clock, and events of units that have closed {late}."
    )
    return [text]


def _unnoticed(pipeline: Pipeline) -> list[str]:
    blind = _blind(pipeline)
    if not blind:
        return []
    of = "" if len(blind) == len(pipeline.views) else f" of {' and '.join(map(repr, blind))}"
    text = (
        f"If the store is restored from an old backup, nothing would show it, and units{of} would be released twice with "
        "different noise, which tells more than is promised. There is no head file, and no sink that can tell what it has "
        '(parquet, jsonl, kafka and postgres can). Write head = "…" in [store], on another disk.'
    )
    return [text]


def _blind(pipeline: Pipeline) -> list[str]:
    """The views of which neither a head file nor a sink would show that the store is an old one."""
    if pipeline.store.head is not None:
        return []
    telling = [sink for sink in pipeline.sinks if sink.declaration.reports]
    return [
        view.name
        for view in pipeline.views
        if not any(not sink.views or view.name in sink.views for sink in telling)
    ]


def _wrapped(lines: list[str]) -> str:
    tied = [
        line.replace(" %", "\N{NO-BREAK SPACE}%") for line in lines
    ]  # a number and its sign stay on one line
    filled = (
        textwrap.fill(
            line, _WIDTH, initial_indent="- ", subsequent_indent="  ", break_long_words=False
        )
        for line in tied
    )
    return "\n".join(filled).replace("\N{NO-BREAK SPACE}", " ")


def length(every: str, number: int = 1, *, article: str = "") -> str:
    """A duration in words, so many times; a single one is a noun, after an article if one is given.

    >>> length("1h"), length("15min"), length("1h", 24), length("1mo", article="one")
    ('hour', '15 minutes', '24 hours', 'one month')
    """
    found = re.fullmatch(r"([0-9]+)([a-z]+)", every)
    assert found is not None
    many, noun = int(found[1]) * number, _NOUNS[found[2]]
    return " ".join(filter(None, (article, noun))) if many == 1 else f"{many:,} {noun}s"


def _published(pipeline: Pipeline) -> list[str]:
    source = pipeline.source
    lines = [_series(pipeline, view) for view in pipeline.views]
    columns = source.columns
    person = (
        f"the person in {columns.person!r}" if columns.person else "and nothing says whose it is"
    )
    many = "the keys in " if len(columns.keys) > 1 else "the key in "
    lines.append(
        f"Events come from {_from(pipeline)}: the time in {columns.time!r}, {many}"
        f"{' and '.join(map(repr, columns.keys))}, {person}."
    )
    unknown = f"are counted as {pipeline.other!r}" if pipeline.other is not None else "are dropped"
    lines.append(
        f"Events with other keys {unknown}. The keys are as declared and never learned from the data."
    )
    lines += _when(pipeline)
    goes = [_goes(sink) for sink in pipeline.sinks]
    lines.append(
        f"Releases go to {'; '.join(goes)}."
        if goes
        else "Releases stay in the store: there is no sink."
    )
    return lines


def _when(pipeline: Pipeline) -> list[str]:
    """When units begin, when they are released, and where it all ends."""
    stream, calendar = pipeline.stream, pipeline.stream.calendar
    begins = f"Unit 1 begins at {calendar.origin} ({calendar.zone})"
    empty = "also those in which nothing happened"
    if finite(pipeline):
        end = (
            f"by {stream.until}, where the input ends,"
            if stream.until
            else "when the publisher started"
        )
        text = (
            f"{begins}. The input is finished: it is read to its end, and every unit that was over {end} is released, {empty}. "
            "Nothing in it is late."
        )
        lines = [text]
        if stream.until is None:
            lines.append(
                "Nothing says where the input ends, so empty units go on from its last event to that time, and what a later "
                'file brings of them would be too late. Write until = "…" in [stream] for an end, or growing = true in '
                "[source] if more will come."
            )
        return lines
    wait = f" and {_wait(stream)} of waiting for late events" if _waits(stream) else ""
    late = "is dropped" if stream.late == "drop" else "counts in the unit that is open then"
    ends = f", and the last one ends at {stream.until} at the latest" if stream.until else ""
    text = (
        f"{begins}{ends}. A unit is released by the clock, after its end{wait}, also when nothing happened; "
        f"what comes later {late}."
    )
    return [text]


def _series(pipeline: Pipeline, view: View) -> str:
    domain = view.mechanism.released(pipeline.keys)
    some = ", ".join(domain.keys[:3]) + (", …" if domain.size > 3 else "")
    noun = "number" if domain.size == 1 else "numbers"
    summary = view.mechanism.summary().replace("`", "")
    return (
        f"{_title(pipeline, view)}: {domain.size:,} {noun} ({some}) every {length(view.calendar.every)}. "
        f"The mechanism is {view.mechanism.name}: {summary[:1].lower()}{summary[1:]}"
    )


def _title(pipeline: Pipeline, view: View) -> str:
    return (
        f"Stream {view.name!r}"
        if len(pipeline.views) == 1
        else f"View {view.name!r} of stream {pipeline.stream.name!r}"
    )


def _from(pipeline: Pipeline) -> str:
    return pipeline.source.declaration.describe(pipeline.source.options)


def _goes(sink: SinkConfig) -> str:
    name = sink.kind if sink.name == sink.kind else f"{sink.name} ({sink.kind})"
    return name + (f" for {' and '.join(sink.views)} only" if sink.views else "")


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
    span = (
        f", so that is any {length(every, promise.window)}"
        if promise.window > 1 and not promise.user_level
        else ""
    )
    lines.append(f"{whose} is {length(every, article='one')}{span}.")
    if not alone:
        lines += [
            f"In view {view.name!r}, at most {_events(view.mechanism.contribution)} of a person count in a unit of "
            f"{length(view.calendar.every, article='one')}."
            for view in pipeline.views
        ]
    if pipeline.source.columns.person is None:
        lines.append(
            "There is no column for persons, so the person of this promise is one event: who has several is not covered."
        )
    elif not promise.user_level:
        span = "one unit" if promise.window == 1 else f"{promise.window} units"
        lines.append(
            f"Who is there for longer than {span} is covered for any {span} of that, not for all of it together."
        )
    return lines


def _events(number: int) -> str:
    return "one event" if number == 1 else f"{number} events"


def _costs(pipeline: Pipeline) -> list[str]:
    promise = pipeline.guarantee
    units = "one unit" if promise.window == 1 else f"{promise.window} consecutive units"
    delta = f" with delta = {promise.delta}" if promise.delta else ""
    if promise.user_level:
        units = "the only unit" if promise.window == 1 else f"the {promise.window} units"
        lines = [
            f"All that is ever read, {units}, costs at most epsilon = {promise.epsilon}{delta}."
        ]
    else:
        lines = [f"All that reads any {units} costs at most epsilon = {promise.epsilon}{delta}."]
    lines[0] += " The ledger refuses what would be more."
    if promise.window > 1 and not promise.delta:
        lines.append(f"That is {promise.epsilon / promise.window} a unit on average.")
    if promise.horizon is None:
        lines.append(
            "The budget is never used up: what a unit cost is free again when the unit leaves the window."
        )
    else:
        lines.append(
            f"After unit {promise.horizon}{_ends(pipeline, promise.horizon)} nothing is read any more, and the last release is "
            "repeated for ever."
        )
    if len(pipeline.views) == 1:
        return lines
    for view in pipeline.views:
        own = exact(view.mechanism.epsilon)
        many = (
            f"each at least {view.units} of the stream's"
            if view.units > 1
            else "the same as the stream's"
        )
        twice = ", and that counts twice" if view.times == 2 else ""
        width = (
            "one of its units"
            if view.mechanism.window == 1
            else f"{view.mechanism.window} of its units"
        )
        lines.append(
            f"View {view.name!r} has a share of {view.share}, epsilon = {view.cost}: its mechanism works with {own} over any "
            f"{width} ({many}){twice}."
        )
    lines.append(
        f"Together: {' + '.join(str(view.cost) for view in pipeline.views)} = {sum(v.cost for v in pipeline.views)}."
    )
    if any(view.times == 2 for view in pipeline.views):
        lines.append(
            "Larger units count twice because a window may end inside one: without a person's events in the window, other "
            "events of that person may be the ones that count in the rest of it."
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
            lines.append(
                f"{title}how much noise there is depends on the stream, and cannot be said before."
            )
            continue
        sums = f" Each number is {error.weights.in_words()}; this is in unit {error.unit}."
        sums = "" if error.weights.kind == "unit" else sums
        paid = (
            ""
            if view.mechanism.guarantee.delta
            else f" The first one costs epsilon = {_near(view.times * error.cost)}."
        )
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
    lines = [
        "Two streams over the same people add up: their epsilons do. Nothing here knows of other streams."
    ]
    if finite(pipeline):
        pass
    elif stream.late == "drop":
        later = f"more than {_wait(stream)} " if _waits(stream) else ""
        lines.append(
            f"Events that come {later}after the end of their unit are missing from the numbers; how many is known to the "
            "operator only."
        )
    else:
        lines.append(
            "A late event is protected as one of the unit that it was counted in, not of the one in which it happened."
        )
    if store.head is None and not _blind(pipeline):
        lines.append(
            "There is no head file: if the store is restored from an old backup, only a sink that has more than the store "
            'shows it, as long as it is not restored too. Write head = "…" in [store], on another disk.'
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
