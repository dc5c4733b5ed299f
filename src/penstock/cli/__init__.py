"""The command line: one file a verb. Mistakes are one line on stderr and exit code 2, never a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

import penstock
from penstock.cli.audit import audit
from penstock.cli.check import check
from penstock.cli.demo import demo
from penstock.cli.histograms import histograms
from penstock.cli.mechanisms import mechanisms
from penstock.cli.query import query
from penstock.core.errors import PenstockError

HELP = """Publish live statistics of a stream of events about people, with differential privacy.

For example:

* penstock mechanisms: which mechanisms there are

* penstock histograms: by which methods some of them can release a unit

* penstock lab check ba: try everything on one of them

* penstock audit ba: try to convict it of promising too much

* penstock query city.log: what a release log holds and can answer

* penstock lab demo: a simulated city, published and shown beside the truth
"""

LAB_HELP = "Checks and demonstrations, on made-up data only."


def build() -> App:
    """The application with all its verbs."""
    app = App(name="penstock", help=HELP, help_format="markdown", version=penstock.__version__)
    app.command(mechanisms)
    app.command(histograms)
    app.command(audit)
    app.command(query)
    lab = App(name="lab", help=LAB_HELP)
    lab.command(check)
    lab.command(demo)
    app.command(lab)
    return app


def main(tokens: Sequence[str] | None = None) -> None:
    """Run the command line and leave the process with its exit code."""
    given = sys.argv[1:] if tokens is None else list(tokens)
    try:
        build()(given, exit_on_error=False, print_error=False)
    except (CycloptsError, PenstockError) as error:
        _refuse(str(error))
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        _refuse(f"{error.filename}: {error.strerror}" if error.filename else str(error))


def _refuse(message: str) -> None:
    print(f"penstock: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(2)
