"""The streams of the suite `rg`, cut into more units, fewer events or fewer keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from penstock_bench.cell import Stretch, Value

PEOPLE = 19_300
"""The number of commuters that gives the paper's traffic: 8.1 million visits to 342 places in 504
units of a week.
"""

TRAFFIC = Stretch(
    dataset="traffic", options=(("people", PEOPLE), ("roads", 342), ("units", 1_008)), merge=2
)
WORLD_CUP = Stretch(dataset="worldcup_88762", megabytes=1_400)
TURNSTILES = Stretch(dataset="turnstiles", megabytes=150)
STREAMS = {"traffic": TRAFFIC, "worldcup": WORLD_CUP, "turnstiles": TURNSTILES}
SWEPT = STREAMS | {"worldcup": replace(WORLD_CUP, keys=8_876, megabytes=600)}
QUICK_STREAMS = {
    # generated, so that the suite runs without data files
    "traffic": replace(TRAFFIC, options=(("people", PEOPLE), ("roads", 342), ("units", 504))),
    "worldcup": replace(WORLD_CUP, options=(("per_day", 2),), keys=2_000, megabytes=100),
    "turnstiles": replace(TURNSTILES, keys=500),
}
KEYS = {"traffic": 342, "worldcup": 88_762, "turnstiles": 5_067}

DAYS, SLOTS = 88, 294
"""Units of the World Cup, and slots of turnstiles."""
PER_DAY, QUICK_PER_DAY = (2, 6, 12, 24), (1, 2)
MERGES, QUICK_MERGES = (6, 3, 2, 1), (2, 1)

STEADY = {
    f"{law} {level}": Stretch(
        dataset="steady", options=(("law", law), ("level", level)), units=1_000
    )
    for law, levels in (("constant", (5, 500)), ("poisson", (5, 50, 500)))
    for level in levels
}
SINGLE = ("wifi_low", "wifi_med", "wifi_high", "bike_low", "bike_med", "us_departures_high")
QUICK_STEADY = ("constant 5", "poisson 5", "poisson 500", "wifi_med", "bike_med")
COPIES, SINGLE_UNITS = 64, 2_000


def paces(panel: str, base: Stretch, *, quick: bool) -> Iterator[tuple[int, Stretch]]:
    """The same time in fewer or more units."""
    if panel == "worldcup":
        for per_day in QUICK_PER_DAY if quick else PER_DAY:
            same = per_day == (2 if quick else 6)
            yield DAYS * per_day, base if same else replace(base, options=(("per_day", per_day),))
        return
    units = int(dict(base.options).get("units") or SLOTS)
    for merge in QUICK_MERGES if quick else MERGES:
        yield units // merge, replace(base, merge=merge)


def thinned(panel: str, stream: Stretch, share: int) -> Stretch:
    """A part of a stream's events; for traffic, a part of its people."""
    if share == 100:
        return stream
    part: dict[str, dict[str, Value]] = {
        "traffic": {"people": PEOPLE * share // 100},
        "worldcup": {"scale": f"{share}/100"},
        "turnstiles": {"share": f"{share}/100"},
    }
    return replace(stream, options=tuple((dict(stream.options) | part[panel]).items()))
