"""The page of the live city. For a simulated city only: it shows the truth."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import numpy as np

from penstock.core.guarantee import Guarantee
from penstock.released.pages import render as render_page
from penstock.released.pages.chart import starts
from penstock_bench.live_city.findings import CityFindings, CitySeries
from penstock_bench.live_city.publisher import CONFIGURATION
from penstock_bench.live_city.run import DAILY, DAY, GATES, HOURLY, STORE, CityOutcome, CityPlan
from penstock_bench.simulated.city import City

_CENTRE, _ARENA, _NEW_TOWN = "Grand Central", "Lantern Arena", "Orchard New Town"


def render(found: CityFindings, *, command: str, program: str = "penstock") -> str:
    """The page as one HTML document.

    `command` makes the page; `program` is how the commands to try begin.
    """
    outcome, plan = found.outcome, found.outcome.plan
    false = [alert for alert in found.alerts if not alert.true]
    return render_page(
        "penstock_bench:city.html",
        title=f"{_span(plan.hours)} in a city of {plan.city.people:,} people, published live",
        promise=_promise(plan),
        command=command,
        data=_data(found),
        found=found,
        outcome=outcome,
        plan=plan,
        crash=outcome.crash,
        crash_time=_moment(found, outcome.crash.hour),
        moment=lambda hour: _moment(found, hour),
        names={"hourly": HOURLY, "daily": DAILY},
        hours=_hours,
        days=_days,
        span=_span(plan.hours).lower(),
        false_alerts=false,
        false_stations=sorted({name for alert in false for name in alert.stations}),
        views=_views(found),
        half=_half,
        gates=GATES,
        commands=commands(plan, program),
    )


def commands(plan: CityPlan, program: str = "penstock") -> list[tuple[str, str]]:
    """Commands to try on the store of the run, each after a description of its answer."""
    store, configuration = (shlex.quote(str(plan.folder / name)) for name in (STORE, CONFIGURATION))
    tried = [
        ("The state of the stream and its spend", f"status {store}"),
        ("Verify every link of the ledger and recompute every window", f"ledger verify {store}"),
        (
            "The charges of a day, hour by hour",
            f"ledger show {store} --from {plan.crash + 1} --to {plan.crash + DAY}",
        ),
        ("The configuration and its promise in words", f"check {configuration}"),
    ]
    if plan.hours >= DAY:
        tried.append(
            ("The busiest stations of the last day", f"query {store} top --stream {DAILY} --k 5")
        )
    if plan.hours > 119:
        what = f"query {store} jump --stream {HOURLY} --window 2 --delta {plan.city.people // 40}"
        tried.append(
            ("The night of the concert", f"{what} --key {shlex.quote(_ARENA)} --from 116 --to 120")
        )
    else:
        tried.append(
            (
                "The last hours of a station",
                f"query {store} counts --stream {HOURLY} --key {shlex.quote(_CENTRE)}",
            )
        )
    page = shlex.quote(str(plan.folder.with_name(f"{plan.folder.name}-sums.html")))
    hours = DAY if plan.hours >= DAY else 2
    sums = f"query {store} sum --stream {HOURLY} --window {hours} --all --plot {page}"
    tried.append((f"Sums of the last {hours} hours, at every hour, as a page", sums))
    return [(what, f"{program} {line}") for what, line in tried]


# -- the data block --------------------------------------------------------------------------------


def _data(found: CityFindings) -> dict[str, Any]:
    outcome, plan = found.outcome, found.outcome.plan
    city, keys = plan.city, plan.city.keys
    joint = found.joint
    return {
        "zone": found.hourly.calendar.zone,
        "keys": keys,
        "places": np.round(city._places, 3).tolist(),
        "lines": _lines(city),
        "closed": {
            "stations": np.flatnonzero(city.closed).tolist(),
            "hours": _closed_hours(outcome),
        },
        "named": [keys.index(name) for name in (_ARENA, _NEW_TOWN)],
        "start": _start(outcome),
        "series": [_shown(series) for series in _views(found)],
        "notes": _notes(found),
        "crash": outcome.crash.hour,
        "alerts": [
            [alert.first, alert.last, [keys.index(name) for name in alert.stations]]
            for alert in found.alerts
        ],
        "ledger": {
            "epsilon": float(plan.epsilon),
            "promised": str(plan.epsilon),
            "hourly": _floats(joint.by_view.get("hourly", []), joint.quantum, plan.hours),
            "daily": _floats(joint.by_view.get("daily", []), joint.quantum, plan.hours),
        },
    }


def _views(found: CityFindings) -> list[CitySeries]:
    return [found.hourly] if found.daily is None else [found.hourly, found.daily]


def _shown(series: CitySeries) -> dict[str, Any]:
    return {
        "view": series.view,
        "starts": starts(range(1, len(series.released) + 1), series.calendar),
        "half": _half(series),
        "released": series.released.astype(int).tolist(),
        "truth": series.truth.tolist(),
    }


def _half(series: CitySeries) -> int:
    """Half the width of the interval; `uniform` has the same one in every unit and station."""
    return int(np.ceil((series.high - series.low).max() / 2))


def _floats(costs: Iterable[int], quantum: Any, length: int) -> list[float]:
    found = [float(f"{float(cost * quantum):.6g}") for cost in costs]
    return found or [0.0] * length


def _lines(city: City) -> list[list[int]]:
    """Each line of the metro, from the centre outwards."""
    return [[0, *range(line or GATES, city.stations, GATES)] for line in range(GATES)]


def _closed_hours(outcome: CityOutcome) -> list[int]:
    """The daytime hours in which all stations of the closing line are empty."""
    shut = outcome.truth[:, outcome.plan.city.closed].sum(axis=1) == 0
    return [hour for hour in np.flatnonzero(shut).tolist() if 10 <= hour % DAY < 22]


def _start(outcome: CityOutcome) -> dict[str, int]:
    """The station and hour to show first.

    The station lies on the closing line and is neither its busiest nor its quietest, so that its
    noise is visible.
    """
    shut = np.flatnonzero(outcome.plan.city.closed)
    by_size = shut[np.argsort(outcome.truth[:, shut].sum(axis=0))[::-1]]
    return {"key": int(by_size[min(2, len(by_size) - 1)]), "hour": outcome.crash.hour}


def _notes(found: CityFindings) -> list[tuple[int, str, int | None]]:
    """What happened, as (hour, text, the station that shows it best)."""
    outcome, plan = found.outcome, found.outcome.plan
    keys = plan.city.keys
    busiest = max(
        np.flatnonzero(plan.city.closed).tolist(),
        key=lambda place: int(outcome.truth[:, place].sum()),
    )
    notes: list[tuple[int, str, int | None]] = []
    for hour, text in plan.city.notes(plan.hours):
        named = next((keys.index(name) for name in (_ARENA, _NEW_TOWN) if name in text), busiest)
        notes.append((hour, f"{text}.", named))
    notes.append(
        (outcome.crash.hour, "The publisher is killed and started again on the same store.", None)
    )
    return sorted(notes, key=lambda note: note[0])


# -- the words -------------------------------------------------------------------------------------


def _promise(plan: CityPlan) -> str:
    said = Guarantee(plan.epsilon, plan.window).clauses.protection
    return f"{said} A unit is one hour. The promise covers the hourly and the daily view together."


def _moment(found: CityFindings, hour: int) -> str:
    """When an hour of the run begins, such as 'Mon 8 Jun 2026, 08:00'."""
    start: datetime = found.hourly.calendar.start(hour + 1)
    return f"{start:%a} {start.day} {start:%b %Y, %H:%M}"


def _hours(count: int) -> str:
    return f"{count:,} hour{'' if count == 1 else 's'}"


def _days(count: int) -> str:
    return f"{count:,} day{'' if count == 1 else 's'}"


def _span(hours: int) -> str:
    """A length of time in whole weeks, days or hours.

    >>> _span(336), _span(48), _span(30)
    ('Two weeks', '2 days', '30 hours')
    """
    if hours == 14 * DAY:
        return "Two weeks"
    return _days(hours // DAY) if hours % DAY == 0 else _hours(hours)
