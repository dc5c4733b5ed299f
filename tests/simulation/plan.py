"""What a seed decides before its world begins: how it is made, and which faults can come."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

RATES = {
    "kill": 0.0015,  # the process dies, and the machine goes on
    "power": 0.0015,  # the machine loses its power
    "error": 0.002,  # EIO
    "full": 0.001,  # ENOSPC, for some time
    "short": 0.002,  # a part of a write, and then an error
    "lost request": 0.01,
    "lost answer": 0.02,
    "server power": 0.001,
    "clock": 0.001,
    "stall": 0.003,  # the process stands still, longer than its lease
    "stop": 0.001,  # the operator stops the publisher in order
}
"""How often each fault comes, per call in which it can come, where a seed has chosen it."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One world. Most faults are left out of most worlds, so that the others come far."""

    store: str
    head: str
    sinks: tuple[str, ...]
    mechanism: str
    every: int
    units: int
    lateness: int
    pace: int
    checkpoint: int
    senders: int
    rates: dict[str, float] = field(default_factory=dict)
    lies: bool = False
    twin_at: float | None = None
    rival_at: float | None = None
    backup_at: float | None = None
    switching: float = 0.0

    @property
    def seconds(self) -> float:
        """When the last unit has ended."""
        return float(self.every * self.units)

    @property
    def witnessed(self) -> bool:
        """Whether something outside the store's disk knows the newest unit before anybody else."""
        return self.head == "apart"


def plan_of(random: Random) -> Plan:
    """Draw a plan."""
    store = random.choice(("file", "file", "server"))
    head = random.choice(("apart", "apart", "beside", "none"))
    kinds = [kind for kind in ("file", "remote", "topic", "marked") if random.random() < 0.35]
    every, units = random.choice((2, 3, 5)), random.randint(4, 7)
    rates = {
        name: rate * random.choice((0.3, 1.0, 3.0))
        for name, rate in RATES.items()
        if random.random() < 0.35
    }
    specials = ("none", "none", "lies", "twin", "backup", "rival")
    special = random.choice(specials if store == "file" else ("none", "lies", "rival"))
    if special == "rival" and store == "server":  # a lease must have the time to expire
        every = 10
        rates["stall"] = rates.get("stall", 0.0) + random.choice((0.0, 0.01))
    moment = lambda: random.uniform(0.1, 0.9) * every * units  # noqa: E731
    apart = head == "apart"
    return Plan(
        store=store,
        head=head,
        sinks=tuple(kinds),
        mechanism=random.choice(("uniform", "uniform", "ba")),
        every=every,
        units=units,
        lateness=random.choice((0, 1)),
        pace=random.choice((0, 1)),
        checkpoint=random.choice((4, 30, 1000)),
        senders=random.randint(1, 2),
        rates=rates,
        lies=special == "lies" and apart,
        twin_at=moment() if special == "twin" and apart and store == "file" else None,
        rival_at=moment() if special == "rival" else None,
        backup_at=moment() if special == "backup" and apart and store == "file" else None,
        switching=random.choice((0.0, 0.02, 0.2)),
    )
