"""After the demo: the city goes on in fast motion, and a read service shows it live.

The publisher is killed in a rush hour of every second day and started again after a moment. The
service is a part of its own, as `penstock serve` is: it answers while the publisher is away, and
its readers see the releases go on where they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from penstock.cli.service_options import copy_folder, service_options
from penstock.core.arrays import IntArray
from penstock.engine.pipeline import Pipeline
from penstock.engine.sqlite import SQLiteReader
from penstock.service.options import TimelineEvent
from penstock.service.server import ServiceServer
from penstock_bench.live_city.publisher import CONFIGURATION
from penstock_bench.live_city.run import (
    DAY,
    FIRST_CARD,
    STORE,
    CityEvent,
    CityPlan,
    CityShow,
    Sent,
    TapGates,
    local_time,
)
from penstock_bench.simulated.city import City

LISTEN: Final = "127.0.0.1:0"
"""Where the service of the demo listens: this machine only, at any free port."""

KILLED: Final = "The publisher is killed (SIGKILL) and started again"
KILLS_TOLD: Final = 100
"""How many of the coming kills are on the timeline. Readers see each when its hour is there."""

RUSH_HOUR: Final = 8
MANY_HOURS: Final = 20 * 365 * DAY
"""How long the city goes on if nobody stops it."""

Watch = Callable[[CityEvent, SQLiteReader], None]


class EndlessGates(TapGates):
    """The taps of the city day by day, for as long as it goes on. Nobody counts them."""

    def __init__(self, city: City) -> None:
        self.city = city
        self.sent = Sent()
        self._withheld: list[tuple[IntArray, IntArray, IntArray]] = []
        self._day: tuple[int, list[tuple[IntArray, IntArray]]] = (-1, [])

    def _taps(self, hour: int) -> tuple[IntArray, IntArray]:
        day, of_day = divmod(hour, DAY)
        if self._day[0] != day:
            self._day = day, self.city.moves_of_day(day)
        person, station = self._day[1][of_day]
        return station, person + FIRST_CARD


class GoingOn(CityShow):
    """The city after the hours of its plan.

    Parameters
    ----------
    plan : CityPlan
        The plan whose hours are over. `seconds` of it is the least real time per hour.
    watch : callable
        It is told what happens.
    down : callable
        Waits between a kill and the restart, so that people can see it. Default: not at all.
    """

    def __init__(
        self, plan: CityPlan, watch: Watch, *, down: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(plan, watch)
        self._down = down

    def go_on(self, hours: int = MANY_HOURS) -> None:
        """Publish further hours.

        Parameters
        ----------
        hours : int
            How many. Default: until it is interrupted.
        """
        with self._publishing(lambda: EndlessGates(self.plan.city)):
            self._days(self.plan.hours, hours)

    def _kills(self, hour: int) -> bool:
        return kills(self.plan, hour)

    def _wait_before_restart(self) -> None:
        try:
            self._down()
        except KeyboardInterrupt:  # gates wait for an answer: let everything end in order
            self._outside.begin()
            self._outside.ready()
            raise

    def _note(self) -> None:
        """Nothing is noted: an endless run would need endless memory."""


def kills(plan: CityPlan, hour: int) -> bool:
    """Whether the publisher is killed in an hour: in the rush hour of every second day.

    Parameters
    ----------
    plan : CityPlan
        The plan whose hours are over.
    hour : int
        The hour.
    """
    days, of_day = divmod(hour - plan.hours // DAY * DAY, DAY)
    return hour >= plan.hours and of_day == RUSH_HOUR and days % 2 == 0


@contextmanager
def city_service(plan: CityPlan) -> Iterator[ServiceServer]:
    """Serve the store of the city as its configuration says, at a free port of this machine.

    Parameters
    ----------
    plan : CityPlan
        The plan.
    """
    pipeline = Pipeline.read(plan.folder / CONFIGURATION)
    coming = range(plan.hours, plan.hours + 2 * DAY * KILLS_TOLD)
    told = [TimelineEvent(at=local_time(hour), text=KILLED) for hour in coming if kills(plan, hour)]
    declared = service_options(pipeline)
    options = replace(declared, listen=LISTEN, events=(*declared.events, *told))
    stores = [lambda: SQLiteReader(plan.folder / STORE)]
    with ServiceServer(options, stores, copy_folder(pipeline)) as service:
        yield service
