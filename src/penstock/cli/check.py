"""`penstock check`."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from penstock.cli.formatting import terminal_width
from penstock.cli.options import Flag, Json, Season
from penstock.cli.store_argument import read_pipeline
from penstock.engine.config_sections import InvalidConfigurationError, dotted
from penstock.engine.explain import WARNINGS, expected_error, parts, warnings, wrapped
from penstock.engine.pipeline import Pipeline
from penstock.engine.plan.auto import chosen
from penstock.engine.plan.knowledge import knowledge
from penstock.engine.plan.usefulness import Usefulness, usefulness


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
    the exit code is 2 then. Whether the numbers will be useful is simulated from what is publicly
    known: the options here, or the table [plan].

    For example:

    * penstock check pipeline.toml

    * penstock check pipeline.toml --typical 2 --season 1d

    * penstock check pipeline.toml --json

    Parameters
    ----------
    configuration
        The TOML file of the pipeline. penstock init writes one.
    typical
        The mean count of a key in a unit, as far as it is publicly known.
    season
        A duration after which the stream looks similar again, such as 1d. May be repeated.
    sparse
        A few keys have almost all events.
    stock
        Counts are what is present in a unit, such as docked bikes, and not events.
    sample
        A public CSV or Parquet file of similar events or counts, as for penstock plan.
    as_json
        The explanation, or the mistakes, as JSON for programs.
    """
    try:
        pipeline = read_pipeline(configuration)
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
    console = Console()
    made = chosen(pipeline)
    for title, lines in _parts(pipeline, made, usefulness(made, pipeline.plan)).items():
        console.print(Text(f"{title}\n{'-' * len(title)}", "bold"), soft_wrap=True)
        console.print(Text(f"{wrapped(lines, terminal_width())}\n"), soft_wrap=True)
    if warned := warnings(made):
        text = f"{WARNINGS}\n{'-' * len(WARNINGS)}\n{wrapped(warned, terminal_width())}"
        console.print(Text(text, "bold yellow"), soft_wrap=True)


def _parts(pipeline: Pipeline, made: Pipeline, useful: list[Usefulness]) -> dict[str, list[str]]:
    """The explanation with what `auto` chooses, and how useful the numbers will be."""
    found = parts(made)
    for view, each in zip(pipeline.views, useful, strict=True):
        if view.auto is not None:
            found["What is published"].append(
                f"For {view.name!r}, auto chooses {made.mechanism(view.name).name} now. A store "
                "that has begun keeps the mechanism that it began with."
            )
        found["How accurate the numbers are"].append(f"For {view.name!r}, {each.words}")
    return found


def plain(pipeline: Pipeline) -> dict[str, Any]:
    """The explanation as plain data, for programs."""
    made = chosen(pipeline)
    useful = usefulness(made, pipeline.plan)
    words = _parts(pipeline, made, useful)
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
        "every": pipeline.stream.calendar.every,
        "origin": str(pipeline.stream.calendar.origin),
        "until": pipeline.stream.until,
        "views": [
            _view(made, view.name)
            | {
                "auto": view.auto is not None,
                "simulated_error": each.mae,
                "mean_count": each.mean,
            }
            for view, each in zip(pipeline.views, useful, strict=True)
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
        "words": words,
        "warnings": list(warnings(made)),
        "fingerprint": made.fingerprint(),
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
