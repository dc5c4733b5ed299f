"""`penstock check`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from penstock.cli.formatting import terminal_width
from penstock.cli.options import Flag, Json, Season
from penstock.cli.store_argument import read_pipeline
from penstock.engine.config_sections import InvalidConfigurationError, dotted
from penstock.engine.explain import (
    WARNINGS,
    expected_error,
    no_end,
    parts,
    units_to_publish,
    warnings,
    wrapped,
)
from penstock.engine.pipeline import Pipeline
from penstock.engine.plan.auto import chosen
from penstock.engine.plan.knowledge import knowledge
from penstock.engine.plan.usefulness import Usefulness, usefulness
from penstock.engine.value_limits import refuse_too_wide

USEFUL = "How useful the numbers are"
"""The title of the judgement."""

DEVIATION = (
    "The ± is one standard deviation of the error: most numbers are at most that far off. All "
    "figures are simulated on public counts."
)

SMOOTH = (
    "These counts were made up from the typical count, and real ones may vary more. A file of past "
    "public counts gives surer figures: --typical counts.csv."
)

COLOURS = {"useful": "green", "rough": "yellow", "noise": "red"}


def check(
    configuration: Path,
    /,
    *,
    typical: str | None = None,
    season: Season = (),
    sparse: Flag = False,
    stock: Flag = False,
    sample: Path | None = None,
    as_json: Json = False,
) -> None:
    """Explain what a configuration will publish, promise and cost, and how accurate it will be.

    Neither data nor the store are touched. All mistakes are reported together, each with its line;
    the exit code is 2 then. Whether the numbers will be useful, and what would help, is simulated
    from what is publicly known: the options here, or the table [plan]. That takes a few seconds.

    For example:

    * penstock check pipeline.toml

    * penstock check pipeline.toml --typical 2 --season 1d

    * penstock check pipeline.toml --typical counts-of-last-year.csv

    * penstock check pipeline.toml --json

    Parameters
    ----------
    configuration
        The TOML file of the pipeline. penstock init writes one.
    typical
        The mean count of a key in a unit, as far as it is publicly known. Beside --sample, the
        sample's counts are scaled to this mean. Or a file of past public counts, as for --sample.
    season
        A duration after which the stream looks similar again, such as 1d. May be repeated.
    sparse
        A few keys have almost all events.
    stock
        Counts are what is present in a unit, such as docked bikes, and not events.
    sample
        A public CSV or Parquet file: events with the columns of the source, counts with a column
        count besides, or one column of counts per key and one row per unit.
    as_json
        The explanation, or the mistakes, as JSON for programs.
    """
    try:
        pipeline = read_pipeline(configuration)
        refuse_too_wide(pipeline, str(configuration))
    except InvalidConfigurationError as error:
        if as_json:
            problems = [
                {"line": each.line, "key": dotted(each.path), "message": each.message}
                for each in error.problems
            ]
            print(
                json.dumps(
                    {"valid": False, "file": error.name, "problems": problems},
                    indent=2,
                    ensure_ascii=False,
                )
            )
        raise
    known = knowledge(
        pipeline.plan, typical=typical, seasons=season, sparse=sparse, stock=stock, sample=sample
    )
    pipeline = replace(pipeline, plan=known)
    if as_json:
        print(json.dumps(plain(pipeline), indent=2, ensure_ascii=False))
        return
    show(pipeline)


def show(pipeline: Pipeline) -> None:
    """Print the explanation of a pipeline, and its warnings."""
    console, width = Console(), terminal_width()
    begun = time.monotonic()
    told = _Explanation.of(pipeline)
    for title, lines in told.words.items():
        console.print(Text(f"{title}\n{'-' * len(title)}", "bold"), soft_wrap=True)
        for line in lines:
            text = wrapped([line], width)
            console.print(Text(text, told.styles.get(line, "")), soft_wrap=True)
        console.print()
    if told.warnings:
        text = f"{WARNINGS}\n{'-' * len(WARNINGS)}\n{wrapped(told.warnings, width)}"
        console.print(Text(text, "bold yellow"), soft_wrap=True)
    if any(each.accuracy is not None for each in told.useful):
        seconds = f"Simulated in {time.monotonic() - begun:.1f} s. The source was not opened."
        Console(stderr=True).print(Text(seconds, "dim"), soft_wrap=True)


@dataclass(frozen=True, kw_only=True)
class _Explanation:
    """All that is said of a pipeline: with what `auto` chooses, and how useful numbers will be.

    `styles` has the colour of each line that is judged.
    """

    made: Pipeline
    useful: list[Usefulness]
    units: dict[str, int | None]
    words: dict[str, list[str]]
    warnings: list[str]
    styles: dict[str, str]

    @classmethod
    def of(cls, pipeline: Pipeline) -> _Explanation:
        made, now = chosen(pipeline), datetime.now(UTC)
        useful = usefulness(made, pipeline.plan)
        units = {view.name: units_to_publish(made, view, now=now) for view in made.views}
        words = parts(made)
        words["What is published"] += _units(made, units)
        words["What is published"] += [
            f"For {view.name!r}, auto chooses {made.mechanism(view.name).name} now. A store "
            "that has begun keeps the mechanism that it began with."
            for view in pipeline.views
            if view.auto is not None
        ]
        several = len(useful) > 1
        judged = {line: style for each in useful for line, style in _judged(each, several=several)}
        if any(each.accuracy is not None for each in useful):
            judged[DEVIATION] = "dim"
            if pipeline.plan.sample is None:
                judged[SMOOTH] = "dim"
        place = list(words).index("How accurate the numbers are") + 1
        titles = [*list(words)[:place], USEFUL, *list(words)[place:]]
        words = {title: words.get(title, list(judged)) for title in titles}
        return cls(
            made=made,
            useful=useful,
            units=units,
            words=words,
            warnings=[*warnings(made), *_empty_units(useful, units)],
            styles=judged | dict.fromkeys(no_end(made), "yellow"),
        )


def _units(pipeline: Pipeline, units: Mapping[str, int | None]) -> list[str]:
    """How many units a finite run publishes."""
    if all(number is None for number in units.values()):
        return []
    named = [
        f"{number:,} units" + (f" of view {view!r}" if len(units) > 1 else "")
        for view, number in units.items()
    ]
    end = "" if pipeline.stream.until else ", if it starts now"
    return [f"A run publishes {' and '.join(named)}{end}."]


def _judged(each: Usefulness, *, several: bool) -> Iterator[tuple[str, str]]:
    """The lines about a view, each with its colour."""
    if each.accuracy is None:
        yield f"For {each.view!r}, {each.words}", "yellow"
        return
    yield f"For {each.view!r}, {each.words}", f"bold {COLOURS[each.accuracy.verdict]}"
    of = f" (for {each.view!r})" if several else ""
    for suggestion in each.suggestions:
        text = f"{suggestion.what.capitalize()}{of}: {suggestion.words}"
        yield text, COLOURS[suggestion.accuracy.verdict]
    if each.accuracy.verdict != "useful" and not each.suggestions:
        yield f"Nothing that was tried is better{of}. penstock plan tries more.", ""


def _empty_units(useful: Sequence[Usefulness], units: Mapping[str, int | None]) -> list[str]:
    """A warning for each view of a finite run most of whose units have no event."""
    return [
        f"Most units of {each.view!r} will be empty: about {100 * each.empty:.0f} % of "
        f"{units[each.view]:,} units have no event in any key. Longer units cost less and say more."
        for each in useful
        if units[each.view] and each.empty is not None and each.empty > 0.5
    ]


def plain(pipeline: Pipeline) -> dict[str, Any]:
    """The explanation as plain data, for programs."""
    told = _Explanation.of(pipeline)
    made = told.made
    guarantee = made.guarantee
    return {
        "valid": True,
        "stream": pipeline.stream.name,
        "guarantee": str(guarantee),
        "epsilon": str(guarantee.epsilon),
        "delta": str(guarantee.delta),
        "window": guarantee.window,
        "horizon": guarantee.horizon,
        "person": pipeline.source.columns.person,
        "missing_person": pipeline.source.columns.missing_person,
        "every": pipeline.stream.calendar.every,
        "origin": str(pipeline.stream.calendar.origin),
        "until": pipeline.stream.until,
        "views": [
            _view(made, view.name)
            | {"auto": view.auto is not None, "units": told.units[view.name]}
            | _useful(each)
            for view, each in zip(pipeline.views, told.useful, strict=True)
        ],
        "sinks": [
            {
                "name": sink.name,
                "kind": sink.kind,
                "views": list(sink.views),
                "filters": {view: choice.facts for view, choice in sink.filters.items()},
            }
            for sink in pipeline.sinks
        ],
        "words": told.words,
        "warnings": told.warnings,
        "fingerprint": made.fingerprint(),
    }


def _useful(each: Usefulness) -> dict[str, Any]:
    """How useful the numbers of a view are, as plain data."""
    found = each.accuracy
    return {
        "simulated_error": None if found is None else found.mae,
        "mean_count": None if found is None else found.mean,
        "simulated_deviation": None if found is None else found.deviation,
        "verdict": None if found is None else found.verdict,
        "suggestions": [
            {
                "what": suggestion.what,
                "change": suggestion.change,
                "mechanism": suggestion.accuracy.mechanism,
                "mean_count": suggestion.accuracy.mean,
                "simulated_error": suggestion.accuracy.mae,
                "simulated_deviation": suggestion.accuracy.deviation,
                "verdict": suggestion.accuracy.verdict,
            }
            for suggestion in each.suggestions
        ],
    }


def _view(pipeline: Pipeline, name: str) -> dict[str, Any]:
    view = pipeline.view(name)
    error = expected_error(view.mechanism, pipeline.keys)
    return {
        "name": view.name,
        "series": pipeline.series(name),
        "every": view.calendar.every,
        "numbers": view.mechanism.released(pipeline.keys).size,
        "mechanism": view.mechanism.name,
        "configuration": {key: str(value) for key, value in view.mechanism.configuration().items()},
        "share": str(view.share),
        "times": view.times,
        "cost": str(Fraction(view.cost)),
        "error": None
        if error is None
        else {
            "unit": error.unit,
            "deviation": list(error.deviation),
            "within_95_percent": list(error.half),
        },
    }
