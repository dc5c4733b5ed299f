"""The command line: one file per verb, imported when the verb is called.

A mistake is one line on standard error and exit code 2, never a traceback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any, Final

from cyclopts import App, CycloptsError, Group, Parameter, UnknownCommandError

import penstock
from penstock.core.errors import ConfigurationError, PenstockError
from penstock.core.plugins import plugged

COMMANDS: Final = "penstock.commands"
"""The group of entry points by which `penstock-bench` adds its verbs."""

COMPLETE: Final = "__complete"
"""The first word of what the script of `penstock completion` asks."""

HELP = "Publish live statistics of a stream of events about people, with differential privacy."
EXAMPLES = """For example:
  penstock init taps.toml    write a configuration
  penstock run taps.toml     publish
  penstock lab city          see a demonstration
  penstock run --help        read about one verb"""
LAB_HELP = "Check mechanisms and see demonstrations, on simulated data only."


@dataclass(frozen=True)
class Verb:
    """A verb and where its function or `App` is: `module:name`. No path: an entry point has it."""

    name: str
    help: str
    path: str = ""

    def load(self) -> Any:
        """Import the function or `App`."""
        path = self.path
        if not path:
            plugin = plugged(COMMANDS, self.name)
            if plugin is None:
                raise ConfigurationError(
                    f"{self.name!r} is part of penstock-bench, which is not installed: "
                    "pip install penstock-bench, or pip install ./bench in a checkout."
                )
            path = plugin.path
        module, _, attribute = path.partition(":")
        return getattr(import_module(module), attribute)


VERBS: Final = (
    Verb("init", "Write a configuration, question by question.", "penstock.cli.init:init"),
    Verb("check", "Explain what a configuration will publish.", "penstock.cli.check:check"),
    Verb("plan", "Recommend a mechanism from public knowledge.", "penstock.cli.plan:plan"),
    Verb("run", "Publish.", "penstock.cli.run:run"),
    Verb("status", "Show the state of every stream in a store.", "penstock.cli.status:status"),
    Verb("query", "Ask questions about the releases.", "penstock.cli.query:query"),
    Verb("alerts", "Show alerts, or try rules on past units.", "penstock.cli.alerts:alerts"),
    Verb("serve", "Serve what is released: API and dashboard.", "penstock.cli.serve:serve"),
    Verb("ledger", "Show what every unit cost, and verify it.", "penstock.cli.ledger:app"),
    Verb("export", "Write the public part of a store.", "penstock.cli.export:export"),
    Verb("sources", "List the kinds of sources and their options.", "penstock.cli.kinds:sources"),
    Verb("sinks", "List the kinds of sinks and their options.", "penstock.cli.kinds:sinks"),
    Verb("completion", "Complete commands in your shell.", "penstock.cli.completion:completion"),
)
CHOICE_VERBS: Final = (
    Verb("mechanisms", "List the mechanisms.", "penstock.cli.mechanisms:mechanisms"),
    Verb("histograms", "List the histogram methods.", "penstock.cli.histograms:histograms"),
    Verb("audit", "Attack a mechanism to bound its privacy loss.", "penstock.cli.audit:audit"),
    Verb("bench", "Run the experiments of the papers (package penstock-bench)."),
)
LAB_VERBS: Final = (
    Verb(
        "check", "Run all checks on one mechanism, source or sink.", "penstock.cli.lab_check:check"
    ),
    Verb("city", "Publish a simulated city live (package penstock-bench)."),
    Verb("demo", "Moved: use `penstock lab city --compare`.", "penstock.cli:moved_demo"),
)


def build(tokens: Sequence[str]) -> App:
    """Make the application for these tokens: only the verb that they name is imported."""
    words = tokens[1:] if tokens[:1] == [COMPLETE] else tokens
    first, second = [*(token for token in words if not token.startswith("-")), "", ""][:2]
    return _app(first, second)


def whole_app() -> App:
    """Make the application with all verbs, but those of packages that are not installed."""
    return _app(None, None)


def _app(first: str | None, second: str | None) -> App:
    """The application with these verbs imported; None stands for all."""
    app = App(
        name="penstock",
        help=HELP,
        help_format="markdown" if first else "plaintext",  # importing Markdown takes 0.1 s
        help_epilogue="" if first else EXAMPLES,
        version=penstock.__version__,
    )
    publish, choose = Group("Publish a stream", sort_key=1), Group("Choose a mechanism", sort_key=2)
    _add(app, VERBS, first, publish)
    _add(app, CHOICE_VERBS, first, choose)
    lab = App(name="lab", help=LAB_HELP, group=choose)
    _add(lab, LAB_VERBS, second if first in ("lab", None) else "")
    app.command(lab)
    options = Group("Options", sort_key=3)
    app["--help"].group = app["--version"].group = options
    return app


def _add(app: App, verbs: Sequence[Verb], chosen: str | None, group: Group | None = None) -> None:
    """Add verbs. Those that are not chosen are not imported: the help page shows one line each."""
    for place, verb in enumerate(verbs):
        if verb.name == chosen or (chosen is None and (verb.path or plugged(COMMANDS, verb.name))):
            app.command(verb.load(), name=verb.name)
        else:
            app.command(_not_chosen, name=verb.name, help=verb.help, group=group, sort_key=place)


def _not_chosen() -> None:
    """Stand for the verbs that were not imported. It is never called."""
    raise AssertionError


def moved_demo(
    *_: Annotated[str, Parameter(allow_leading_hyphen=True, show=False)],
) -> None:
    """Say that `lab demo` is now a part of `lab city`."""
    raise ConfigurationError("penstock lab demo is now: penstock lab city --compare")


def main(tokens: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with its exit code."""
    given = sys.argv[1:] if tokens is None else list(tokens)
    try:
        build(given)(given, exit_on_error=False, print_error=False)
    except (CycloptsError, PenstockError) as error:
        _refuse(*_lines(error))
    except BrokenPipeError:  # the reader has closed the pipe, which is not an error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        from penstock.core.files import cannot

        _refuse(cannot("used", error.filename, error) if error.filename else str(error))


def _lines(error: Exception) -> list[str]:
    """The lines to print: one per mistake of a configuration, else one."""
    from penstock.engine.config_sections import InvalidConfigurationError

    text = str(error)
    if isinstance(error, UnknownCommandError):
        text += " penstock --help lists all commands."
    several = isinstance(error, InvalidConfigurationError)
    return text.splitlines() if several else [" ".join(text.split())]


def _refuse(*lines: str) -> None:
    for line in lines:
        print(f"penstock: {line}", file=sys.stderr)
    sys.exit(2)
