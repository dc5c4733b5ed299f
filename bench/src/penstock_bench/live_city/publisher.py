"""The publisher of the simulated city, in a process of its own that can be killed.

It is the real publisher, with the store, source and sinks of `city.toml`. Only its clock is the
city's: a time in a file, which the parent process writes. Its messages on standard output contain
no data.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path

from penstock.core.errors import PenstockError
from penstock.engine.notices import Notice
from penstock.engine.pipeline import Pipeline
from penstock.engine.publisher import Publisher
from penstock.private.sources.http import HttpSource

CONFIGURATION = "city.toml"
CLOCK = "clock"


class CityClock:
    """A clock in a file: microseconds since 1970. The file is replaced as a whole.

    >>> import tempfile
    >>> clock = CityClock(Path(tempfile.mkdtemp()) / "clock")
    >>> clock.beat(3_600_000_000)
    >>> clock.now()
    3600000000
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def now(self) -> int:
        return int(self._path.read_text(encoding="ascii"))

    def beat(self, now: int) -> None:
        """Set the time."""
        beside = self._path.with_name(f"{self._path.name}.new")
        beside.write_text(str(now), encoding="ascii")
        beside.replace(self._path)


def tell(what: str, **more: object) -> None:
    """Write one line to standard output in one call, so that it arrives whole."""
    with suppress(OSError):
        os.write(1, json.dumps({"what": what, **more}).encode() + b"\n")


def main(folder: Path) -> int:
    """Publish until standard input ends or a signal arrives."""

    def listener(told: Notice) -> None:
        tell(told.kind, stream=told.stream, unit=told.unit, text=told.text, level=told.level)

    try:
        pipeline = Pipeline.read(folder / CONFIGURATION)
        with Publisher(pipeline, clock=CityClock(folder / CLOCK), listener=listener) as publisher:
            for each in (signal.SIGTERM, signal.SIGINT):
                signal.signal(each, lambda *_: publisher.stop())
            threading.Thread(
                target=_stop_at_the_end_of_input, args=(publisher,), daemon=True
            ).start()
            assert isinstance(publisher.source, HttpSource)
            host, port = publisher.source.address
            tell(
                "listening",
                host=host,
                port=port,
                units={view.name: view.closed for view in publisher.views},
            )
            publisher.run()
        tell("over")
    except PenstockError as error:
        tell("failed", text=str(error))
        return 1
    return 0


def _stop_at_the_end_of_input(publisher: Publisher) -> None:
    """Stop when standard input ends: the parent has gone or wants this process to end."""
    sys.stdin.read()
    publisher.stop()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
