"""Where the events of a stream are counted: in this process, or on a cluster.

An engine gives a publisher its source and the counters of its views. Everything else is the same
for all engines: the clock, the noise, the commit and the sinks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from penstock.engine import factory
from penstock.engine.notices import Notifier
from penstock.engine.pipeline import Pipeline, View
from penstock.engine.waiting import StopFlag
from penstock.private.counting import Counted, Counting
from penstock.private.sources.base import Source
from penstock.private.units import Units

Counter: TypeAlias = Callable[[Units, int, int], Counted]
"""Makes a counter, from units, the number of keys and the most events of a person in a unit."""


@dataclass(frozen=True, kw_only=True, repr=False)
class CountingHost:
    """What a counter may ask of its publisher.

    Parameters
    ----------
    source : Source
        The source of events.
    finite : bool
        Whether the input has an end.
    folder : Path or None
        The folder of temporary files; None for the system's.
    stop : StopFlag
        Says whether the publisher was asked to stop, and gives the time.
    notify : Notifier
        Tells the operator something without data.
    meanwhile : callable
        Is called now and then while a counter waits: it renews the leases.
    counted : callable
        Hears how many rows were taken, and how many of them are from before unit 1 or from the
        future, where rows are read elsewhere. Private.
    """

    source: Source
    finite: bool
    folder: Path | None
    stop: StopFlag
    notify: Notifier
    meanwhile: Callable[[], None]
    counted: Callable[[int, int], None]


class CountingEngine(Protocol):
    """Gives a publisher its source and the counters of its views."""

    def source(self, pipeline: Pipeline) -> Source:
        """The source of events."""

    def counter(self, pipeline: Pipeline, view: View, host: CountingHost) -> Counter:
        """What makes the counter of a view."""


class LocalEngine:
    """Reads and counts events in the process of the publisher."""

    def source(self, pipeline: Pipeline) -> Source:
        """The pipeline's source."""
        return factory.source(pipeline)

    def counter(self, pipeline: Pipeline, view: View, host: CountingHost) -> Counter:
        """Makes a `Counting`."""

        def counting(units: Units, keys: int, contribution: int) -> Counting:
            return Counting(
                units,
                keys=keys,
                contribution=contribution,
                finite=host.finite,
                folder=host.folder,
            )

        return counting
