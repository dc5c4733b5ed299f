"""The command line: one file a verb. Mistakes are one line on stderr and exit code 2, never a
traceback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

import penstock
from penstock.cli.audit import audit
from penstock.cli.bench import build as bench_verbs
from penstock.cli.check import check as check_pipeline
from penstock.cli.city import city
from penstock.cli.demo import demo
from penstock.cli.export import export
from penstock.cli.histograms import histograms
from penstock.cli.init import init
from penstock.cli.lab_check import check
from penstock.cli.ledger import build as ledger
from penstock.cli.mechanisms import mechanisms
from penstock.cli.query import query
from penstock.cli.run import run
from penstock.cli.status import status
from penstock.core.errors import PenstockError
from penstock.engine.toml import InvalidConfigurationError

HELP = """Publish live statistics of a stream of events about people, with differential privacy.

To publish a stream:

* penstock init taps.toml: write a configuration, question by question

* penstock check taps.toml: what it will publish, promise and cost, without touching any data

* penstock run taps.toml: publish

* penstock status taps.toml: where the stream stands

* penstock query taps.toml: what was released, and what it can answer

* penstock ledger verify taps.toml: whether every window kept the promise

* penstock export taps.toml public.db: what is public, for others

To choose a mechanism:

* penstock mechanisms: which mechanisms there are

* penstock histograms: by which methods some of them can release a unit

* penstock lab check ba: try everything on one of them

* penstock audit ba: try to convict it of promising too much

* penstock bench: the papers' experiments, as far as they are here

* penstock lab demo: a simulated city, published by every mechanism and shown beside the truth

* penstock lab city: the same city, published live by a publisher that is killed in the middle
"""

LAB_HELP = "Checks and demonstrations, on made-up data only."


def build() -> App:
    """The application with all its verbs."""
    app = App(name="penstock", help=HELP, help_format="markdown", version=penstock.__version__)
    app.command(init)
    app.command(check_pipeline)
    app.command(run)
    app.command(status)
    app.command(query)
    app.command(ledger())
    app.command(export)
    app.command(mechanisms)
    app.command(histograms)
    app.command(audit)
    app.command(bench_verbs())
    lab = App(name="lab", help=LAB_HELP)
    lab.command(check)
    lab.command(demo)
    lab.command(city)
    app.command(lab)
    return app


def main(tokens: Sequence[str] | None = None) -> None:
    """Run the command line and leave the process with its exit code."""
    given = sys.argv[1:] if tokens is None else list(tokens)
    try:
        build()(given, exit_on_error=False, print_error=False)
    except InvalidConfigurationError as error:
        for line in str(error).splitlines():
            print(f"penstock: {line}", file=sys.stderr)
        sys.exit(2)
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
