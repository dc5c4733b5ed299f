"""`penstock check`."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from penstock.cli.options import Json
from penstock.cli.store_argument import read_pipeline
from penstock.engine.config_sections import InvalidConfigurationError, dotted
from penstock.engine.explain import WARNINGS, expected_error, parts, warnings, wrapped
from penstock.engine.pipeline import Pipeline


def check(configuration: Path, /, *, as_json: Json = False) -> None:
    """Explain what a configuration will publish, promise and cost, and how accurate it will be.

    Neither data nor the store are touched. All mistakes are reported together, each with its line;
    the exit code is 2 then.

    For example:

    * penstock check pipeline.toml

    * penstock check pipeline.toml --json

    Parameters
    ----------
    configuration
        The TOML file of the pipeline. penstock init writes one.
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
    if as_json:
        print(json.dumps(plain(pipeline), indent=2, ensure_ascii=False))
        return
    show(pipeline)


def show(pipeline: Pipeline) -> None:
    """Print the explanation of a pipeline, and its warnings."""
    console = Console()
    for title, lines in parts(pipeline).items():
        console.print(Text(f"{title}\n{'-' * len(title)}", "bold"), soft_wrap=True)
        console.print(Text(f"{wrapped(lines)}\n"), soft_wrap=True)
    if warned := warnings(pipeline):
        text = f"{WARNINGS}\n{'-' * len(WARNINGS)}\n{wrapped(warned)}"
        console.print(Text(text, "bold yellow"), soft_wrap=True)


def plain(pipeline: Pipeline) -> dict[str, Any]:
    """The explanation as plain data, for programs."""
    guarantee = pipeline.guarantee
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
        "views": [_view(pipeline, view.name) for view in pipeline.views],
        "sinks": [
            {"name": sink.name, "kind": sink.kind, "views": list(sink.views)}
            for sink in pipeline.sinks
        ],
        "words": {title: list(lines) for title, lines in parts(pipeline).items()},
        "warnings": list(warnings(pipeline)),
        "fingerprint": pipeline.fingerprint(),
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
