"""`pace`: look more often while the releases move, and a stream to try it on."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import penstock as ps
from penstock_bench.datasets.base import Dataset
from penstock_bench.datasets.counts import CountTable


@dataclass(frozen=True)
class Pacing:
    """The last release, and how many units the next one waits: both public."""

    last: ps.Released
    rest: int = 1


@dataclass(frozen=True, kw_only=True)
class Pace(ps.Mechanism[Pacing]):
    """Publish more often while the releases move, more precisely while they do not.

    A publication spends the shares (epsilon/window) of all units since the one before it, or what
    the window has left. If it is further from the one before than their noise explains, the next
    comes after half as many units, otherwise after twice as many, up to `longest`. In between the
    last release stands.

    Guarantee: w-event, pure.
    Kept between units: the last release, and how long to wait. No raw data.
    """

    name = "pace"
    paper = "docs/how-to/add-a-mechanism.md"
    proof = "docs/how-to/add-a-mechanism.md#why-it-is-private"
    State = Pacing

    audited: ClassVar[dict[str, int]] = {"window": 3}

    longest: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.longest < 1:
            raise ps.ConfigurationError(
                f"longest must be at least 1, not {self.longest}.", parameter="longest"
            )

    def start(self, domain: ps.Domain) -> Pacing:
        return Pacing(ps.Released.nothing(domain.size, self.guarantee))

    def step(self, state: Pacing, unit: ps.Private, gate: ps.Gate) -> tuple[Pacing, ps.Released]:
        waited = gate.unit - state.last.unit
        share = self.total // self.window
        if waited < state.rest or gate.left < share:
            return state, gate.repeat(state.last)
        fresh = gate.laplace(unit, epsilon=min(share * waited, gate.left), label="publish")
        moved = np.abs(fresh.value - state.last.value).mean() > float(fresh.scale) + float(
            state.last.scale
        )
        rest = max(1, state.rest // 2) if moved else min(self.longest, 2 * state.rest)
        return Pacing(fresh, rest), fresh


@dataclass(frozen=True)
class Ferries(Dataset):
    """Passengers who board at four made-up piers: none at night, more in summer, and a festival."""

    name: ClassVar[str] = "ferries"
    title: ClassVar[str] = "passengers at four piers"
    licence: ClassVar[str] = "generated"
    unit: ClassVar[str] = "1 hour"
    person: ClassVar[str] = "a passenger in an hour"
    key: ClassVar[str] = "a pier"
    period: ClassVar[int | None] = 24
    shape: ClassVar[tuple[int, int] | None] = (1_440, 4)

    seed: int = 1

    def make(self) -> CountTable:
        rng = np.random.default_rng(self.seed)
        hour = np.arange(1_440)
        day = np.clip(np.sin((hour % 24 - 6) / 16 * np.pi), 0, None)
        season = 1 + hour / 1_440 + 2 * (np.abs(hour - 1_000) < 36)
        expected = np.outer(day * season, [900, 400, 150, 20])
        return CountTable(
            ps.Domain(("harbour", "old town", "island", "cape")), rng.poisson(expected), period=24
        )
