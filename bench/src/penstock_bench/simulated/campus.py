"""A simulated campus with devices that the WiFi of its rooms sees, in units of five minutes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.errors import ConfigurationError
from penstock.core.exact import whole

UNITS_A_DAY: Final = 288
"""Units of five minutes."""

_WEEK: Final = 7
_MEAN_STAY, _SPREAD_OF_STAY, _LONGEST_STAY = (
    9.0,
    1.0,
    144,
)  # units; the logarithm of a stay is normal
_WEEKEND, _BREAK = 0.35, 0.1
_BREAKS: Final = ((60, 74), (120, 127))  # days without classes
_KINDS: Final = ("lecture hall", "library", "dormitory")
_PROFILES: Final = (
    ((9.0, 1.2, 1.0), (11.0, 1.2, 1.2), (14.5, 1.8, 1.1)),  # (hour, spread in hours, weight)
    ((12.0, 3.5, 0.8), (19.0, 2.8, 1.0)),
    ((8.0, 1.5, 0.6), (21.5, 2.5, 1.3)),
)
_BUILDINGS: Final = (
    "Ashby",
    "Birkett",
    "Coulson",
    "Denholm",
    "Everard",
    "Fairfax",
    "Garland",
    "Hartley",
)


@dataclass(frozen=True)
class Campus:
    """Rooms on floors of buildings, and devices that stay in one room for a while.

    Devices arrive by the time of day of the building, fewer at weekends and in two breaks, with
    random variation between days. A stay is log-normal with a mean of 45 minutes. **One** room sees
    a device in a unit, so a count is a number of devices. The shares of the rooms are log-normal: a
    few rooms are full, many almost empty.

    >>> campus = Campus(rooms=16, seed=3)
    >>> campus.paths[campus.keys[0]]
    'Ashby/floor 1'
    >>> counts = campus.counts(600, total=5_000)
    >>> counts.shape, int(counts.sum())
    ((600, 16), 5000)
    """

    rooms: int = 128
    seed: int = 1

    def __post_init__(self) -> None:
        whole(self.rooms, name="rooms", least=1)
        whole(self.seed, name="seed", least=0)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The names of the rooms, in the order of the columns of `counts`."""
        return tuple(f"{_BUILDINGS[b]} {f + 1}{n + 1:02}" for b, f, n in self._places)

    @cached_property
    def paths(self) -> dict[str, str]:
        """The building and floor of each room."""
        return {
            key: f"{_BUILDINGS[building]}/floor {floor + 1}"
            for key, (building, floor, _) in zip(self.keys, self._places, strict=True)
        }

    @cached_property
    def _places(self) -> list[tuple[int, int, int]]:
        """Building, floor and number of every room. Buildings have up to four floors."""
        each = -(-self.rooms // len(_BUILDINGS))
        per_floor = -(-each // 4)
        return [
            (room // each, room % each // per_floor, room % each % per_floor)
            for room in range(self.rooms)
        ]

    def counts(self, units: int, *, total: int) -> IntArray:
        """The number of devices in each room and unit; the sum is exactly `total`."""
        whole(units, name="units", least=1)
        whole(total, name="total", least=0)
        rng = np.random.default_rng((self.seed, units, total))
        shares = np.exp(rng.normal(0.0, 1.6, self.rooms))
        curves = np.array([_curve(units, kind, rng) for kind in range(len(_KINDS))])
        kinds = np.array([building % len(_KINDS) for building, _, _ in self._places])
        rates = shares[:, None] * curves[kinds]
        sessions = int(total / _MEAN_STAY * 1.5) + 100
        cell = rng.choice(rates.size, sessions, p=(rates / rates.sum()).ravel())
        room, start = np.divmod(cell, units)
        stay = np.exp(
            rng.normal(np.log(_MEAN_STAY) - _SPREAD_OF_STAY**2 / 2, _SPREAD_OF_STAY, sessions)
        )
        end = np.minimum(start + np.clip(np.ceil(stay), 1, _LONGEST_STAY).astype(np.int64), units)
        seen = np.cumsum(end - start)
        if seen[-1] < total:
            raise ConfigurationError(
                f"total={total}: too many devices for {units} units; ask for fewer."
            )
        last = int(
            np.searchsorted(seen, total)
        )  # the session in which the total is reached is cut short
        end[last] -= seen[last] - total
        steps = np.zeros((units + 1, self.rooms), np.int64)
        np.add.at(steps, (start[: last + 1], room[: last + 1]), 1)
        np.add.at(steps, (end[: last + 1], room[: last + 1]), -1)
        return np.asarray(np.cumsum(steps[:-1], axis=0), np.int64)


def _curve(units: int, kind: int, rng: np.random.Generator) -> FloatArray:
    """The arrivals of one kind of building over time."""
    time = np.arange(units)
    hour = time % UNITS_A_DAY / (UNITS_A_DAY / 24)
    day = time // UNITS_A_DAY
    curve = np.full(units, 0.02)
    for peak, spread, weight in _PROFILES[kind]:
        away = np.minimum(np.abs(hour - peak), 24 - np.abs(hour - peak))
        curve += weight * np.exp(-0.5 * (away / spread) ** 2)
    curve *= np.where(day % _WEEK >= 5, _WEEKEND, 1.0)
    for first, end in _BREAKS:
        curve *= np.where((first <= day) & (day < end), _BREAK, 1.0)
    return curve * np.exp(rng.normal(0.0, 0.35, int(day[-1]) + 1))[day]
