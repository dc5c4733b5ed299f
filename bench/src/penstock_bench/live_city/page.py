"""The page of the live city: one self-contained HTML document, in the look of `lab.page`. For a
made-up city only.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from html import escape
from string import Template
from typing import Any

import numpy as np

from penstock.core.guarantee import Guarantee
from penstock.lab.page import asset, safe_json, script_hash
from penstock_bench.live_city.findings import CityFindings, CitySeries
from penstock_bench.live_city.publisher import CONFIGURATION
from penstock_bench.live_city.run import DAILY, DAY, GATES, HOURLY, STORE, CityPlan, Outcome
from penstock_bench.simulated.city import City

_CENTRE, _ARENA, _NEW_TOWN = "Grand Central", "Lantern Arena", "Orchard New Town"


def render(found: CityFindings, *, command: str, program: str = "penstock") -> str:
    """The page as one HTML document. It loads nothing: its content security policy forbids every
    request.

    `program` is how the commands to try begin, `command` how the page is made.
    """
    outcome, plan = found.outcome, found.outcome.plan
    scripts = [
        f"/*\n{asset('uplot', 'LICENSE')}\n*/\n{asset('uplot', 'uPlot.iife.min.js')}",
        asset("city.js"),
    ]
    return Template(asset("city.html")).substitute(
        script_hashes=" ".join(script_hash(script) for script in scripts),
        style="\n".join([asset("uplot", "uPlot.min.css"), asset("page.css"), asset("city.css")]),
        chart_script=scripts[0],
        page_script=scripts[1],
        data=safe_json(_data(found)),
        title=escape(
            f"{_span(plan.hours)} in a city of {plan.city.people:,} people, published live"
        ),
        promise=escape(_promise(found)),
        taps=f"{outcome.sent.taps:,}",
        releases=f"{len(outcome.seen):,}",
        changed=f"{found.changed:,}",
        epsilon=escape(str(plan.epsilon)),
        window=f"{plan.window:,}",
        worst=escape(str(found.joint.worst)),
        span=escape(_span(plan.hours).lower()),
        seconds=f"{outcome.seconds:.0f}",
        crash=escape(_crash(found)),
        crash_rows=_crash_rows(found),
        crash_hint=escape(_crash_hint(found)),
        alerts=escape(_alerts(found)),
        alert_rows=_alert_rows(found),
        ledger=_ledger(found),
        view_rows="\n".join(_view_row(found, series) for series in _views(found)),
        gate_rows=_gate_rows(outcome),
        commands="\n".join(_command(what, line) for what, line in commands(plan, program)),
        command=escape(command),
    )


def commands(plan: CityPlan, program: str = "penstock") -> list[tuple[str, str]]:
    """What to try on the store that is left, each with a word on what it shows."""
    store, configuration = (shlex.quote(str(plan.folder / name)) for name in (STORE, CONFIGURATION))
    tried = [
        ("Where the stream stands, and what it has cost", f"status {store}"),
        ("Every link of the ledger and every window, computed again", f"ledger verify {store}"),
        (
            "What was charged, hour by hour",
            f"ledger show {store} --from {plan.crash + 1} --to {plan.crash + DAY}",
        ),
        ("What the configuration publishes and promises, in words", f"check {configuration}"),
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
    page = plan.folder.with_name(f"{plan.folder.name}-sums.html")
    tried.append(
        (
            "Sums of a day, as a page",
            f"query {store} sum --stream {HOURLY} --window 2 --all --plot {shlex.quote(str(page))}",
        )
        if plan.hours < DAY
        else (
            "Sums of the last day at every hour, as a page",
            f"query {store} sum --stream {HOURLY} --window {DAY} --all --plot {shlex.quote(str(page))}",
        )
    )
    return [(what, f"{program} {line}") for what, line in tried]


# -- the data block --------------------------------------------------------------------------------


def _data(found: CityFindings) -> dict[str, Any]:
    outcome, plan = found.outcome, found.outcome.plan
    city, keys = plan.city, plan.city.keys
    joint = found.joint
    return {
        "keys": keys,
        "units": city.unit_names(plan.hours),
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
        "hours": DAY if series.view == "daily" else 1,
        "half": _half(series),
        "released": series.released.astype(int).tolist(),
        "truth": series.truth.tolist(),
    }


def _half(series: CitySeries) -> int:
    """Half of the interval, which is the same for every unit and station of `uniform`."""
    return int(np.ceil((series.high - series.low).max() / 2))


def _floats(costs: Iterable[int], quantum: Any, length: int) -> list[float]:
    found = [float(f"{float(cost * quantum):.6g}") for cost in costs]
    return found or [0.0] * length


def _lines(city: City) -> list[list[int]]:
    """Each line of the metro, from the centre outwards."""
    return [[0, *range(line or GATES, city.stations, GATES)] for line in range(GATES)]


def _closed_hours(outcome: Outcome) -> list[int]:
    """When all stations of the line that closes are empty by day."""
    shut = outcome.truth[:, outcome.plan.city.closed].sum(axis=1) == 0
    return [hour for hour in np.flatnonzero(shut).tolist() if 10 <= hour % DAY < 22]


def _start(outcome: Outcome) -> dict[str, int]:
    """A station of the line that closes, neither the busiest nor the quietest of it: the noise can
    be seen there.
    """
    shut = np.flatnonzero(outcome.plan.city.closed)
    by_size = shut[np.argsort(outcome.truth[:, shut].sum(axis=0))[::-1]]
    return {"key": int(by_size[min(2, len(by_size) - 1)]), "hour": outcome.crash.hour}


def _notes(found: CityFindings) -> list[tuple[int, str, int | None]]:
    """What happened that the chart points at, and the station that shows it best."""
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
        (outcome.crash.hour, "The publisher is killed, and started again on the same store.", None)
    )
    return sorted(notes, key=lambda note: note[0])


# -- the words -------------------------------------------------------------------------------------


def _promise(found: CityFindings) -> str:
    plan = found.outcome.plan
    words = Guarantee(plan.epsilon, plan.window).clauses.protection
    return f"{words} A unit is an hour. That is for all views together, hourly and daily."


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


def _crash(found: CityFindings) -> str:
    outcome = found.outcome
    crash = outcome.crash
    name = outcome.plan.city.unit_names(outcome.plan.hours)[crash.hour]
    air = (
        f"{crash.unanswered} of the gates' batches were on their way"
        if crash.unanswered
        else "nothing was on its way"
    )
    return (
        f"{name}: the publisher's process was killed (SIGKILL) while {air}. {crash.down:.1f} seconds later a new one was "
        "started on the same store. The gates sent again, with their idempotency keys, what nobody had answered."
    )


def _crash_rows(found: CityFindings) -> str:
    outcome, at = found.outcome, found.crash
    crash = outcome.crash
    same = crash.released == crash.resumed
    inside = at.low <= at.truth <= at.high
    rows = [
        (
            "Released before it was killed",
            f"{_hours(crash.released[HOURLY])} and {_days(crash.released[DAILY])}",
        ),
        (
            "Found in the store by the next",
            f"{_hours(crash.resumed[HOURLY])} and {_days(crash.resumed[DAILY])} {_mark(same, 'the same', 'not the same')}",
        ),
        ("Not answered, so sent again", f"{crash.unanswered} batches with {crash.taps:,} taps"),
        (
            "All stations in that hour",
            f"published {at.released:,.0f}, true {at.truth:,}; the noise leaves {at.low:,.0f} to {at.high:,.0f} (99 %) "
            + _mark(
                inside,
                "nothing seems lost or counted twice",
                "further off than the noise leaves in 99 of 100 runs",
            ),
        ),
        (
            "Every release, as first seen and at the end",
            f"{len(outcome.seen):,} compared in the store and in the Parquet files "
            + _mark(not found.changed, "none has changed", f"{found.changed} have changed"),
        ),
    ]
    return "\n".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{text}</td></tr>' for name, text in rows
    )


def _crash_hint(found: CityFindings) -> str:
    crash = found.outcome.crash
    each = crash.taps // crash.unanswered if crash.unanswered else 0
    lost = f" A lost batch would be about {each:,} taps fewer." if each else ""
    tested = (
        "That not one tap is lost or counted twice is tested with the noise off (tests/recovery)."
    )
    return f"The noise hides people, not batches.{lost} {tested}"


def _mark(well: bool, good: str, bad: str) -> str:
    return f'<span class="{"good" if well else "bad"}">{"✓" if well else "✗"} {escape(good if well else bad)}</span>'


def _alerts(found: CityFindings) -> str:
    told = []
    for tally in found.tallies:
        right = f"{_times(tally.both)} rightly; it should have been {_times(tally.true)}"
        told.append(f"“{tally.query}” was raised {_times(tally.raised)}, {right}.")
    return " ".join(told) or "The run is too short for alerts."


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count:,} times")


def _alert_rows(found: CityFindings) -> str:
    """The alerts that were right, and one row for all others."""
    names = found.outcome.plan.city.unit_names(found.outcome.plan.hours)
    rows = []
    for alert in found.alerts:
        end = f"{(alert.last + 1) % DAY:02d}:00"
        where = ", ".join(
            escape(name) if name in alert.true else f"<s>{escape(name)}</s>"
            for name in alert.stations
        )
        if alert.true:
            cells = f'<td class="when">{escape(names[alert.first])} to {end}</td><td>{escape(alert.query)}</td><td>{where}</td>'
            rows.append(f"<tr>{cells}</tr>")
    noise = [alert for alert in found.alerts if not alert.true]
    if noise:
        where = ", ".join(
            f"<s>{escape(name)}</s>"
            for name in sorted({name for alert in noise for name in alert.stations})
        )
        rows.append(
            f"<tr><td>{len(noise)} more, by noise alone</td><td>{escape(noise[0].query)}</td><td>{where}</td></tr>"
        )
    return "\n".join(rows) or '<tr><td colspan="3">None was raised.</td></tr>'


def _ledger(found: CityFindings) -> str:
    joint, plan = found.joint, found.outcome.plan
    heads = ", ".join(
        f"<code>{escape(name)} {escape(head[:16])}…</code>" for name, head in found.heads.items()
    )
    return (
        f"No {plan.window:,} hours in a row may cost more than epsilon = {escape(str(plan.epsilon))}. The dearest cost "
        f"{escape(str(joint.worst))}: {_mark(joint.kept, 'the promise was kept.', 'the promise was broken.')} "
        f"Every line is chained to the one before; the heads are {heads}."
    )


def _view_row(found: CityFindings, series: CitySeries) -> str:
    share = found.joint.window(len(found.joint.windows), series.view)
    cells = [
        ("mechanism", f"{series.mechanism}, every {series.every}"),
        ("its share", f"{share} of epsilon"),
        ("95 % interval", f"± {_half(series):,}"),
        ("off by, on average", f"{series.error:,.0f} of {series.truth.mean():,.0f}"),
        ("interval held the truth", f"{100 * series.held:.1f} %"),
    ]
    told = "".join(f'<td data-label="{escape(label)}">{escape(text)}</td>' for label, text in cells)
    return f'<tr><th scope="row">{escape(series.view)}</th>{told}</tr>'


def _gate_rows(outcome: Outcome) -> str:
    sent = outcome.sent
    rows = [
        (
            "Batches",
            f"{sent.batches:,}, from {GATES} gates, out of order; Arrow from five of them, JSON lines from an old one",
        ),
        ("Sent twice", f"{sent.twice:,} batches: each counts once, by its idempotency key"),
        (
            "Delayed",
            f"{sent.delayed:,} taps came half an hour after the others of their time, and count all the same",
        ),
        (
            "Too late",
            f"{sent.late:,} taps came after their hour had closed: only the daily view has them, if the day was open",
        ),
        (
            "Broken",
            f"{sent.broken:,} lines were no JSON, no UTF-8 or no tap: dropped, and the rest of their batch counts",
        ),
    ]
    told = "\n".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(text)}</td></tr>'
        for name, text in rows
    )
    return f"{told}\n"


def _command(what: str, line: str) -> str:
    return f'<div class="try"><p>{escape(what)}:</p><pre><code>{escape(line)}</code></pre></div>'
