"""Streams as the read API describes them: promise, calendar, keys, questions."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from penstock.budget.grid import promised
from penstock.core.calendar import duration
from penstock.core.durations import length
from penstock.core.errors import ConfigurationError, InputError
from penstock.core.guarantee import Guarantee
from penstock.core.hierarchy import SEPARATOR, Hierarchy, Nodes
from penstock.core.plugins import plugins
from penstock.core.product import Product
from penstock.released.queries.questions import QUESTIONS, reasons
from penstock.released.queries.registry import GROUP
from penstock.released.series import Series
from penstock.service.options import TimelineEvent
from penstock.service.streams import ServedStream
from penstock.service.unit_times import unit_times

_WINDOW = {"name": "window", "words": "a number of units, or a duration such as 1d"}
_DELTA = {"name": "delta", "words": "the threshold", "required": True}
_QUESTIONS: dict[str, tuple[str, tuple[dict[str, Any], ...]]] = {
    "counts": ("the counts of each unit", ()),
    "sum": ("the sum over the last units", ({**_WINDOW, "required": True},)),
    "decay": (
        "a sum in which older units weigh less",
        (
            {**_WINDOW, "required": True},
            {"name": "gamma", "words": "a unit weighs gamma to the power of its age"},
            {"name": "power", "words": "a unit weighs (1 + age) to the power of minus this"},
        ),
    ),
    "jump": ("a rise by delta or more", ({**_WINDOW, "required": True}, _DELTA)),
    "drop": ("a fall by delta or more", ({**_WINDOW, "required": True}, _DELTA)),
    "change": ("a move by delta or more", ({**_WINDOW, "required": True}, _DELTA)),
    "low": ("fewer than delta in the last units", ({**_WINDOW, "required": True}, _DELTA)),
    "top": (
        "the largest counts or sums",
        (_WINDOW, {"name": "k", "words": "how many keys; default: 10"}),
    ),
}


def stream_url(name: str) -> str:
    """The path of a stream. The parts of its name are encoded one by one.

    >>> stream_url("taps/per hour")
    '/v1/streams/taps/per%20hour'
    """
    return "/v1/streams/" + "/".join(quote(part, safe="") for part in name.split("/"))


def stream_content(stream: ServedStream) -> dict[str, Any]:
    """What a list of streams says of one.

    Parameters
    ----------
    stream : ServedStream
        The stream.
    """
    series, head = stream.series, stream.head
    calendar, domain = series.calendar, series.domain
    newest = None
    if head.unit:
        times = unit_times(calendar, head.unit, head.unit)
        newest = {
            "unit": head.unit,
            "begins": times.begins[0],
            "ends": times.ends[0],
            "link": head.link.hex(),
        }
    fixed = calendar is not None and calendar.every.endswith(("s", "min", "h"))
    seconds = None
    if calendar is not None and fixed:
        seconds = (calendar.ends(1) - calendar.begins(1)) // 1_000_000
    behind = stream.catching_up
    return {
        "name": series.name,
        "url": stream_url(series.name),
        "mechanism": series.mechanism,
        "every": None if calendar is None else calendar.every,
        "every_words": "unit" if calendar is None else length(calendar.every),
        "seconds": seconds,
        "zone": None if calendar is None else calendar.zone,
        "keys": domain.size,
        "first_unit": 1,
        "units": head.unit,
        "newest": newest,
        "hierarchy": isinstance(domain, (Hierarchy, Nodes)),
        "attributes": [{"name": name, "values": list(values)} for name, values in domain.attributes]
        if isinstance(domain, Product)
        else None,
        "filtered": stream.is_filtered,
        "promise": promise_content(series),
        "live": f"{stream_url(series.name)}/live",
        "catching_up": None if behind is None else {"unit": behind},
    }


def promise_content(series: Series) -> dict[str, Any]:
    """The promise of a stream, in words and in exact amounts.

    Parameters
    ----------
    series : Series
        The series of the stream.
    """
    promise = series.stream_guarantee
    every = series.stream.every or (None if series.calendar is None else series.calendar.every)
    gaps = series.not_protected
    return {
        "words": series.promise,
        "not_protected": [gap.text for gap in gaps],
        "gaps": [{"kind": gap.kind, "values": dict(gap.values), "text": gap.text} for gap in gaps],
        "epsilon": str(promise.epsilon),
        "delta": str(promise.delta),
        "window": promise.window,
        "window_words": f"{promise.window} units" if every is None else _window(every, promise),
        "window_seconds": None if every is None else _window_seconds(every, promise),
        "contribution": promise.contribution,
        "horizon": promise.horizon,
        "intrusion": promise.intrusion.value,
        "currency": "rho" if series.guarantee.delta else "epsilon",
        "limit": str(promised(series.guarantee).amount),
    }


def _window_seconds(every: str, promise: Guarantee) -> int | None:
    """The length of the window, if it is the same everywhere: months and days differ.

    >>> _window_seconds("15min", Guarantee("1", 6)), _window_seconds("1mo", Guarantee("1", 6))
    (5400, None)
    """
    if not every.endswith(("s", "min", "h")):
        return None
    return promise.window * duration(every, name="every") // 1_000_000


def _window(every: str, promise: Guarantee) -> str:
    """The window in words, in the longest of hours, days and weeks that fits.

    >>> _window("1h", Guarantee("1", 24)), _window("15min", Guarantee("1", 6))
    ('1 day', '90 minutes')
    """
    number, letter = int(every.rstrip("abcdefghijklmnopqrstuvwxyz")), every.lstrip("0123456789")
    number *= promise.window
    for longer, many, name in (("s", 60, "min"), ("min", 60, "h"), ("h", 24, "d"), ("d", 7, "w")):
        if letter == longer and number % many == 0:
            number, letter = number // many, name
    return length(f"1{letter}", number, article="1")


def stream_details(stream: ServedStream, events: tuple[TimelineEvent, ...] = ()) -> dict[str, Any]:
    """All that the API says of one stream.

    Parameters
    ----------
    stream : ServedStream
        The stream.
    events : tuple of TimelineEvent
        What readers should know of on the timeline. Default: none.
    """
    return {
        **stream_content(stream),
        "questions": stream.remembered("questions", lambda: _questions(stream)),
        "configuration": dict(stream.series.configuration),
        "events": [_event(stream, each) for each in events],
    }


def _questions(stream: ServedStream) -> list[dict[str, Any]]:
    log = stream.log()
    url = stream_url(stream.name)
    why_not = reasons(log) if len(log) else dict.fromkeys(QUESTIONS, "there are no units yet.")
    found = [
        {
            "question": name,
            "url": f"{url}/answers/{name}",
            "words": words,
            "why_not": why_not[name] or None,
            "parameters": [{"required": False, **each} for each in parameters],
        }
        for name, (words, parameters) in _QUESTIONS.items()
    ]
    set_ = {"required": False, "name": "set", "words": "NAME=VALUE, its parameters"}
    found += [
        {
            "question": plugin.name,
            "url": f"{url}/answers/{quote(plugin.name, safe='')}",
            "words": f"a query of {plugin.package}",
            "why_not": None,
            "parameters": [set_],
        }
        for plugin in plugins(GROUP)
        if plugin.name not in QUESTIONS
    ]
    return found


def _event(stream: ServedStream, event: TimelineEvent) -> dict[str, Any]:
    calendar, unit = stream.series.calendar, None
    if calendar is not None:
        try:
            unit = calendar.unit_at(calendar.moment(event.at, name="at"))
        except (ConfigurationError, InputError):
            unit = None
    return {"at": event.at, "unit": unit or None, "text": event.text}


def key_rows(stream: ServedStream) -> list[dict[str, Any]]:
    """All keys in the order of releases, with their places in a hierarchy.

    Nodes of a hierarchy name their parents. Keys of a hierarchy whose nodes were not released name
    the node above them, which is no key of the stream.

    Parameters
    ----------
    stream : ServedStream
        The stream.
    """
    domain = stream.series.domain
    if isinstance(domain, Nodes):
        parents = domain.tree.parents.tolist()
        children = [0] * domain.size
        for parent in parents:
            if parent >= 0:
                children[parent] += 1
        return [
            {
                "key": key,
                "parent": None if parent < 0 else domain.keys[parent],
                "children": count,
                "depth": key.count(SEPARATOR),
            }
            for key, parent, count in zip(domain.keys, parents, children, strict=True)
        ]
    if isinstance(domain, Hierarchy):
        return [
            {"key": key, "parent": SEPARATOR.join(path) or None, "children": 0, "depth": len(path)}
            for key, path in zip(domain.keys, domain.paths, strict=True)
        ]
    return [{"key": key, "parent": None, "children": 0, "depth": 0} for key in domain.keys]
