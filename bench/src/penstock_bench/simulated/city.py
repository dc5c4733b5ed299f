"""A simulated city whose people tap in at stations, hour by hour."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.core.errors import ConfigurationError

ORIGIN: Final = "2026-06-01"
"""The day of hour 0, a Monday."""

_DAY: Final = 24
_WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

# Events of the story, in days from the first Monday and hours of the day.
_CLOSURE_DAY: Final = 2
_CLOSURE_HOURS: Final = range(15, 20)
_CONCERT_DAY: Final = 4
_CONCERT_LEAVE: Final = (22, 23)
_GROWTH_DAYS: Final = range(3, 24)

# Stations with a part in the story. The closed line is every station of one line except the centre.
_CENTRE: Final = 0
_ARENA: Final = 5
_NEW_QUARTER: Final = 7
_LINES: Final = 6
_CLOSED_LINE: Final = 2

# The groups of inhabitants, as shares of the people.
_ROLES: Final = ("commuter", "student", "shift", "tourist", "at home")
_SHARES: Final = (0.54, 0.16, 0.11, 0.05, 0.14)
_COMMUTER, _STUDENT, _SHIFT, _TOURIST, _AT_HOME = range(5)
_SHIFTS: Final = np.array(
    [[5, 14], [13, 22], [21, 6]]
)  # leave home, leave work: early, late, night

_FIRST_WORDS: Final = """
Alder Amber Anchor Apple Badger Barley Beacon Birch Bramble Brook Candle Cedar Chapel Cherry Clover
Copper Coral Crane
Dove Elm Ember Falcon Fern Finch Fox Garnet Hazel Heron Holly Iron Ivy Jasper Juniper Kestrel Lark
Laurel Lime Linden
Maple Marble Meadow Mill Mint Moss Oak Olive Otter Pearl Pepper Pine Plum Poplar Quill Raven Robin
Rose Rowan Saffron
Sparrow Swan Thistle Tulip Velvet Walnut Willow Wren
"""
_LAST_WORDS: Final = """
Bank Bridge Circus Court Cross Fields Ford Gardens Gate Green Heath Hill Junction Lane Lock Market
Mews Park Quay Rise
Road Row Square Street Terrace Walk Wharf Yard
"""
_FIRST: Final = tuple(_FIRST_WORDS.split())
_LAST: Final = tuple(_LAST_WORDS.split())
_LINE_NAMES: Final = ("Crown", "Meridian", "Harbour", "Garden", "Northern Loop", "Foundry")


@dataclass(frozen=True)
class City:
    """People with homes, work and habits, who tap in at **at most one** station per hour.

    Hour 0 is a Monday at 00:00. There are commuters, students, shift workers, tourists and people
    who are mostly at home; weekends differ from weekdays. One line closes on the first Wednesday, a
    concert takes place on the first Friday, and a new quarter slowly fills from the first Thursday
    on. Each day has its own seed, so a longer run begins with the shorter one.

    >>> city = City(stations=12, people=500, seed=7)
    >>> city.counts(48).shape
    (48, 12)
    >>> person, hour, station = city.moves(48)
    >>> len(person) == int(city.counts(48).sum())
    True
    """

    stations: int = 60
    people: int = 20_000
    seed: int = 1

    def __post_init__(self) -> None:
        most = len(_FIRST) * len(_LAST)
        if not 12 <= self.stations <= most:
            raise ConfigurationError(f"stations={self.stations}: a city has 12 to {most} stations")
        if self.people < 1:
            raise ConfigurationError(f"people={self.people}: a city has at least 1 person")
        if self.seed < 0:
            raise ConfigurationError(f"seed={self.seed}: a seed is 0 or more")

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The names of the stations, in the order of the columns of `counts`."""
        rng = np.random.default_rng((self.seed, 0))
        first, turn = rng.permutation(len(_FIRST)), rng.integers(len(_LAST), size=len(_FIRST))
        names = []
        for i in range(self.stations):
            lap, which = divmod(i, len(_FIRST))
            names.append(f"{_FIRST[first[which]]} {_LAST[(turn[which] + lap) % len(_LAST)]}")
        names[_CENTRE], names[_ARENA], names[_NEW_QUARTER] = (
            "Grand Central",
            "Lantern Arena",
            "Orchard New Town",
        )
        return tuple(names)

    @cached_property
    def closed(self) -> BoolArray:
        """The stations of the closed line."""
        index = np.arange(self.stations)
        shut: BoolArray = (index % _LINES == _CLOSED_LINE) & (index != _CENTRE)
        return shut

    def counts(self, hours: int) -> IntArray:
        """Taps per hour and station: the moves, counted day by day to save memory."""
        out = np.zeros((_whole(hours), self.stations), dtype=np.int64)
        for hour, where in self._hours(hours):
            out[hour] = np.bincount(where[where >= 0], minlength=self.stations)
        return out

    def moves(self, hours: int) -> tuple[IntArray, IntArray, IntArray]:
        """Every tap as (person, hour, station), ordered by hour, then person."""
        person: list[IntArray] = []
        station: list[IntArray] = []
        for _, where in self._hours(hours):
            person.append(np.flatnonzero(where >= 0))
            station.append(where[person[-1]].astype(np.int64))
        if not person:
            nobody = np.zeros(0, dtype=np.int64)
            return nobody, nobody.copy(), nobody.copy()
        hour = np.repeat(np.arange(hours, dtype=np.int64), [len(taps) for taps in person])
        return np.concatenate(person), hour, np.concatenate(station)

    def moves_of_day(self, day: int) -> list[tuple[IntArray, IntArray]]:
        """The taps of one day as (person, station), a pair of arrays per hour.

        >>> city = City(stations=12, people=500, seed=7)
        >>> hours = city.moves_of_day(0)
        >>> len(hours), sum(len(person) for person, _ in hours) == int(city.counts(24).sum())
        (24, True)
        """
        found = []
        for where in self._day(day):
            person = np.flatnonzero(where >= 0)
            found.append((person, where[person].astype(np.int64)))
        return found

    def notes(self, hours: int) -> list[tuple[int, str]]:
        """The events in these hours that a chart should mark."""
        line = _LINE_NAMES[_CLOSED_LINE]
        shut, open_again = _CLOSURE_HOURS.start, _CLOSURE_HOURS.stop
        found = [
            (
                _CLOSURE_DAY * _DAY + shut,
                (
                    f"The {line} line is closed from {shut}:00 to {open_again}:00; its people "
                    "walk to the next open station"
                ),
            ),
            (
                _GROWTH_DAYS.start * _DAY,
                f"The first people move into {self.keys[_NEW_QUARTER]}; more follow every day",
            ),
            (
                _CONCERT_DAY * _DAY + _CONCERT_LEAVE[0],
                f"A concert at {self.keys[_ARENA]} ends and the crowd goes home",
            ),
        ]
        return [(hour, text) for hour, text in sorted(found) if hour < _whole(hours)]

    @staticmethod
    def unit_names(hours: int) -> tuple[str, ...]:
        """The names of the hours, with the week if there are several.

        >>> City.unit_names(2)
        ('Mon 00:00', 'Mon 01:00')
        """
        many = _whole(hours) > 7 * _DAY
        week = [f"W{h // (7 * _DAY) + 1} " if many else "" for h in range(hours)]
        return tuple(f"{week[h]}{_WEEKDAYS[h // _DAY % 7]} {h % _DAY:02d}:00" for h in range(hours))

    # The map and the homes.

    @cached_property
    def _places(self) -> FloatArray:
        """Stations on a plane: the centre in the middle, the lines as slightly bent rays."""
        rng = np.random.default_rng((self.seed, 1))
        index = np.arange(self.stations)
        out = 0.4 + index // _LINES + rng.uniform(0, 0.4, self.stations)
        angle = 2 * np.pi * (index % _LINES) / _LINES + rng.normal(0, 0.12, self.stations)
        out[_CENTRE] = 0
        return np.stack([out * np.cos(angle), out * np.sin(angle)], axis=1)

    @cached_property
    def _detour(self) -> IntArray:
        """For each station the nearest one that stays open during the closure."""
        apart = np.linalg.norm(self._places[:, None] - self._places[None, :], axis=2)
        apart[:, self.closed] = np.inf
        nearest: IntArray = apart.argmin(axis=1)
        return nearest

    def _pull(self, rng: np.random.Generator, *, spread: float, inward: float) -> FloatArray:
        """Probabilities of the stations: uneven by `spread`, drawn to the centre by `inward`.

        The new quarter starts empty.
        """
        weight: FloatArray = (
            rng.lognormal(0, spread, self.stations)
            / (1 + np.linalg.norm(self._places, axis=1)) ** inward
        )
        weight[_CENTRE] = weight.max() * 1.3 if inward > 1 else weight.mean()
        weight[_NEW_QUARTER] = 0
        weight[_ARENA] = np.median(weight) * 0.6
        weight /= weight.sum()
        return weight

    @cached_property
    def _people(self) -> _People:
        rng = np.random.default_rng((self.seed, 2))
        n = self.people
        role = rng.choice(len(_ROLES), size=n, p=_SHARES)
        homes = self._pull(rng, spread=0.75, inward=0.2)
        jobs = self._pull(rng, spread=0.8, inward=1.5)
        schools = self._pull(rng, spread=1.3, inward=0.5)
        fun = self._pull(rng, spread=0.9, inward=1.2)
        home = rng.choice(self.stations, size=n, p=homes)
        home = np.where(role == _TOURIST, rng.choice(self.stations, size=n, p=fun), home)
        work = np.where(
            role == _STUDENT,
            rng.choice(self.stations, size=n, p=schools),
            rng.choice(self.stations, size=n, p=jobs),
        )
        movers = (rng.random(n) < 0.05) & (role != _TOURIST)
        moving_day = np.where(
            movers, rng.integers(_GROWTH_DAYS.start, _GROWTH_DAYS.stop, n), np.iinfo(np.int64).max
        )
        leave = np.where(role == _STUDENT, rng.normal(7.7, 0.4, n), rng.normal(7.9, 0.85, n))
        back = np.where(role == _STUDENT, rng.normal(14.6, 1.1, n), rng.normal(17.5, 0.95, n))
        return _People(
            role=role,
            home=home,
            work=work,
            leave=leave,
            back=back,
            shift=rng.integers(len(_SHIFTS), size=n),
            rest=rng.integers(7, size=n),
            outgoing=rng.beta(2, 4, n),
            fan=rng.random(n) < 0.06,
            moving_day=moving_day,
            fun=fun,
        )

    # Time.

    def _hours(self, hours: int) -> Iterator[tuple[int, IntArray]]:
        """The station where each person taps in, by hour; -1 for none."""
        for day in range(-(-_whole(hours) // _DAY)):
            where = self._day(day)
            for hour in range(min(_DAY, hours - day * _DAY)):
                yield day * _DAY + hour, where[hour]

    def _day(self, day: int) -> IntArray:
        """One day of all people: a station or -1 by hour and person, so a person counts at most
        once.
        """
        rng = np.random.default_rng((self.seed, 3, day))
        them, n, weekend = self._people, self.people, day % 7 >= 5
        plan = _Plan(n)
        home = np.where(them.moving_day <= day, _NEW_QUARTER, them.home)
        place = rng.choice(self.stations, size=(3, n), p=them.fun)
        luck, jitter = rng.random((6, n)), rng.normal(0, 0.35, (2, n))

        # People who were out late come home first in the new day.
        plan.tap(
            rng.integers(0, 3, n),
            place[2],
            (luck[0] < (0.08 if day % 7 in (5, 6) else 0.012)) & (them.role <= _STUDENT),
        )

        office = (them.role == _COMMUTER) & (luck[1] < (0.06 if weekend else 0.9))
        school = (them.role == _STUDENT) & (luck[1] < (0.0 if weekend else 0.93))
        daily = office | school
        plan.tap(them.leave + jitter[0], home, daily)
        plan.tap(them.back + jitter[1], them.work, daily)
        plan.tap(rng.integers(11, 14, n), them.work, office & (luck[2] < 0.07))

        on_shift = (them.role == _SHIFT) & ((day + them.rest) % 7 < 5) & (luck[1] < 0.95)
        plan.tap(_SHIFTS[them.shift, 0] + rng.integers(0, 2, n), home, on_shift)
        plan.tap(_SHIFTS[them.shift, 1] + rng.integers(0, 2, n), them.work, on_shift)

        # Sights: from the hotel to one place, to another, to dinner, each with its own tap.
        tourist = them.role == _TOURIST
        start = rng.normal(9.8, 0.8, n)
        plan.tap(start, home, tourist & (luck[1] < 0.9))
        plan.tap(start + rng.uniform(2, 4, n), place[0], tourist & (luck[1] < 0.9))
        plan.tap(start + rng.uniform(5, 8, n), place[1], tourist & (luck[1] < 0.75))
        plan.tap(rng.normal(21, 1.0, n), place[2], tourist & (luck[1] < 0.5))

        # Errands by day for those who are free, an evening out for the others.
        free = ~(daily | on_shift | tourist)
        errand = free & (luck[3] < (0.55 if weekend else 0.6))
        out = np.where(weekend, rng.normal(13.2, 2.4, n), rng.normal(11.8, 2.3, n))
        plan.tap(out, home, errand)
        plan.tap(out + rng.uniform(1.2, 4.5, n), place[0], errand)
        keen = 1.5 if day % 7 in (4, 5) else 0.8
        evening = ~tourist & ~on_shift & (luck[4] < keen * them.outgoing * 0.5)
        out = rng.normal(19.4, 0.7, n)
        plan.tap(out, home, evening)
        plan.tap(out + rng.uniform(1.5, 3.8, n), place[1], evening)

        where = plan.where
        self._change_by_events(day, where, home, luck[5], rng)
        return where

    def _change_by_events(
        self, day: int, where: IntArray, home: IntArray, luck: FloatArray, rng: np.random.Generator
    ) -> None:
        """Change the taps of the day of the concert and of the day of the closure."""
        if day == _CONCERT_DAY:
            fans = np.flatnonzero(self._people.fan)
            where[18:, fans] = -1
            where[np.where(luck[fans] < 0.5, 18, 19), fans] = home[fans]
            where[np.where(luck[fans] < 0.7, *_CONCERT_LEAVE), fans] = _ARENA
        if day == _CLOSURE_DAY:
            shut = where[_CLOSURE_HOURS.start : _CLOSURE_HOURS.stop]
            hit = (shut >= 0) & self.closed[shut]
            patient = rng.random(shut.shape) < 0.85
            shut[hit] = np.where(patient, self._detour[shut], -1)[hit]


@dataclass(frozen=True)
class _People:
    """One row per person; `fun` has one per station."""

    role: IntArray
    home: IntArray
    work: IntArray
    leave: FloatArray
    back: FloatArray
    shift: IntArray
    rest: IntArray
    outgoing: FloatArray
    fan: BoolArray
    moving_day: IntArray
    fun: FloatArray


class _Plan:
    """The taps of one day, at most one per person and hour: the first one stays."""

    def __init__(self, people: int) -> None:
        self.where: IntArray = np.full((_DAY, people), -1, dtype=np.int64)

    def tap(self, hour: FloatArray | IntArray, station: IntArray, who: BoolArray) -> None:
        """Let `who` tap in at `station`, if the hour is inside the day and still free."""
        person = np.flatnonzero(who)
        slot = np.floor(hour[person]).astype(np.int64)
        inside = (slot >= 0) & (slot < _DAY)
        person, slot = person[inside], slot[inside]
        idle = self.where[slot, person] < 0
        person, slot = person[idle], slot[idle]
        self.where[slot, person] = station[person]


def _whole(hours: int) -> int:
    if hours < 0:
        raise ConfigurationError(f"hours={hours}: a run has 0 hours or more")
    return hours
