"""Reading [privacy], [[view]] and [plan]: the promise, how views share it, what is known publicly.

docs/proofs/publisher.md, "Several views", proves the two rules of `reach`: how many units of a view
a window meets, and when the ε of a view counts twice. The shares of all views add up to 1 in exact
fractions, so the views together cost ε. Refused is what could not be exact: units of a view that
are no whole number of the stream's units, a horizon that is no whole number of a view's units, and
a mechanism with δ among several views.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from penstock.core.calendar import Calendar
from penstock.core.domain import Domain
from penstock.core.durations import DURATION, UNITS, units_in, units_of
from penstock.core.errors import ConfigurationError, PenstockError
from penstock.core.exact import positive
from penstock.core.guarantee import Guarantee
from penstock.engine.config_sections import Section, nearest, shown
from penstock.engine.pipeline.model import (
    AUTO,
    AUTO_FALLBACK,
    AnyMechanism,
    AutoMechanism,
    PlanConfig,
    StreamConfig,
    View,
)
from penstock.engine.pipeline.options import PLAN
from penstock.engine.pipeline.stream import read_calendar, read_duration, read_name, read_units
from penstock.private.histograms import registry as histograms
from penstock.private.histograms.base import Histogram
from penstock.private.mechanisms import registry as mechanisms
from penstock.private.mechanisms.base import Mechanism, WithDelta
from penstock.private.noise import NoNoise

_CHOSEN: dict[bool, tuple[str, ...]] = {False: (), True: ("delta",)}
"""Parameters that are not those of the fallback where `auto` chooses: what it may use."""

_INTRUDED = (
    "{name} promises something to those whose memory is looked into, and a publisher cannot keep "
    "that: it holds the ids of the open unit. Use the same mechanism without it."
)


def read_promise(
    top: Section, stream: StreamConfig | None, keys: Domain | None
) -> tuple[Guarantee | None, list[View]]:
    """The promise of the whole stream, and its views."""
    calendar = stream.calendar if stream else None
    given = top.content.get("privacy")
    if isinstance(given, Mechanism):
        top.take("privacy")
        return _ready(top, given, stream, keys)
    section, views = top.table("privacy"), top.tables("view")
    promise: dict[str, Any] = {
        name: read_units(section, name, calendar) for name in ("window", "horizon")
    }
    promise["epsilon"] = _epsilon(section)
    promise = {name: value for name, value in promise.items() if value is not None}
    if not views:
        mechanism = _mechanism(
            section, keys, calendar, promise, also=("epsilon", "window", "horizon")
        )
        if mechanism is None or stream is None:
            return None, []
        return _alone(mechanism, stream, keys, auto=_auto(section))
    for name in ("mechanism", "contribution"):
        if name in section:
            section.take(name)
            section.wrong(name, "belongs in each [[view]] where there are several.")
    if "window" not in section:
        section.missing(
            "window",
            'write how much of a person is protected, in units of the stream or as window = "1d"',
        )
    section.close()
    whole = not section.faulty and promise.keys() >= {"epsilon", "window"}
    guarantee = _guarantee(section, promise) if whole else None
    pairs = zip(views, _shares(views), strict=True)
    found = [
        view
        for view in (_view(each, calendar, keys, guarantee, share) for each, share in pairs)
        if view
    ]
    names = [each.content.get("name") for each in views]
    for place, each in enumerate(views):
        if names[place] in names[:place]:
            each.wrong(
                "name", f"{shown(names[place])} names two views: give each a name of its own."
            )
    if guarantee is None:
        return None, []
    most = max((view.mechanism.contribution for view in found), default=1)
    return dataclasses.replace(guarantee, contribution=most), found


def _ready(
    top: Section, mechanism: AnyMechanism, stream: StreamConfig | None, keys: Domain | None
) -> tuple[Guarantee | None, list[View]]:
    """A mechanism that was built in Python."""
    if top.take("view"):
        top.wrong(
            "view",
            "cannot stand beside a mechanism that is built already: write privacy as a table.",
        )
    if keys is not None:
        _tried(Section(top.document, ("privacy",), {}, top.problems), mechanism, keys)
    if mechanism.guarantee.intrusion:
        top.wrong("privacy", _INTRUDED.format(name=mechanism.name))
    if stream is None:
        return None, []
    return _alone(mechanism, stream, keys)


def _alone(
    mechanism: AnyMechanism,
    stream: StreamConfig,
    keys: Domain | None,
    *,
    auto: AutoMechanism | None = None,
) -> tuple[Guarantee, list[View]]:
    """The promise and the view of a stream that has one view."""
    view = View(
        name=stream.name,
        calendar=stream.calendar,
        declared=mechanism,
        mechanism=_decided(mechanism, keys),
        auto=auto,
    )
    return mechanism.guarantee, [view]


def _decided(mechanism: AnyMechanism, keys: Domain | None) -> AnyMechanism:
    """The mechanism without open parameters, where the keys are known."""
    return mechanism if keys is None else mechanism.decided(keys)


def _epsilon(section: Section) -> Fraction | None:
    if "epsilon" not in section:
        section.missing("epsilon", 'write a whole number or a text, such as epsilon = "0.5"')
        return None
    return _positive(section, "epsilon")


def _positive(section: Section, name: str) -> Fraction | None:
    """An exact number above 0; None if it is missing or cannot be used."""
    if name not in section or not section.exactly(name):
        return None
    try:
        return positive(section.take(name), name=name)
    except ConfigurationError as error:
        section.refuse(error)
    return None


def _guarantee(section: Section, promise: dict[str, Any]) -> Guarantee | None:
    try:
        return Guarantee(**promise)
    except ConfigurationError as error:
        section.refuse(error)
    return None


def _shares(views: Sequence[Section]) -> list[Fraction]:
    """The share of ε of each view: as declared, or an equal part of what is left."""
    given: list[Fraction | None] = []
    for section in views:
        given.append(_positive(section, "share"))
        section.take("share")
    total = sum((share for share in given if share is not None), Fraction(0))
    silent = sum("share" not in section for section in views)
    if any(
        "share" in section and share is None for section, share in zip(views, given, strict=True)
    ):
        return [Fraction(1, len(views))] * len(views)
    if total > 1 or (total == 1) == bool(silent):
        last = next(section for section in reversed(views) if "share" in section)
        rule = "leave something for the views without one" if silent else "add up to 1"
        last.wrong(
            "share",
            f"the shares of all views add up to {total}: they must {rule}, "
            f'such as share = "1/{len(views)}".',
        )
        return [Fraction(1, len(views))] * len(views)
    return [(1 - total) / silent if share is None else share for share in given]


def reach(
    window: int, units: int, *, most: int | None = None, horizon: int | None = None
) -> tuple[int, int]:
    """The window of a view's mechanism, and how often its ε counts.

    A unit of the view has at least `units` units of the stream, and at most `most` (default: the
    same). `window` and `horizon` count units of the stream.

    >>> reach(1440, 1), reach(1440, 60), reach(1440, 1440), reach(1, 60)
    ((1440, 1), (25, 2), (2, 2), (1, 2))
    >>> reach(1440, 60, horizon=1440)
    (24, 1)
    """
    if horizon == window:
        return horizon // units, 1
    if (most or units) == 1:
        return window, 1
    met = 1 if window == 1 else (window - 2) // units + 2
    return met if horizon is None else min(met, horizon // units), 2


def _view(
    section: Section,
    stream: Calendar | None,
    keys: Domain | None,
    promise: Guarantee | None,
    share: Fraction,
) -> View | None:
    name = read_name(section, example="hourly")
    every = read_duration(section, "every", stream.every if stream else "1h", example="1h")
    section.take("share")
    for each in ("epsilon", "window", "horizon"):
        if each in section:
            what = "a share" if each == "epsilon" else "it"
            section.wrong(each, f"is computed from [privacy]: write {what} there.")
            section.take(each)
    calendar = (
        read_calendar(section, every, stream.zone, str(stream.origin), blame="every")
        if stream
        else None
    )
    units, times, computed = _computed(section, stream, calendar, promise, share)
    mechanism = _mechanism(section, keys, calendar, computed, also=("name", "every", "share"))
    auto = _auto(section)
    if mechanism is not None:
        _refuse_delta_beside_others(section, mechanism, auto)
    if section.faulty or mechanism is None or calendar is None:
        return None
    return View(
        name=name,
        calendar=calendar,
        declared=mechanism,
        mechanism=_decided(mechanism, keys),
        units=units,
        share=share,
        times=times,
        auto=auto,
    )


def _refuse_delta_beside_others(
    section: Section, mechanism: AnyMechanism, auto: AutoMechanism | None
) -> None:
    if mechanism.guarantee.delta or (auto is not None and auto.delta):
        section.wrong(
            "mechanism",
            f"{AUTO if auto else mechanism.name} keeps a delta, which does not add up with other "
            "views: use it alone.",
        )


def _computed(
    section: Section,
    stream: Calendar | None,
    calendar: Calendar | None,
    promise: Guarantee | None,
    share: Fraction,
) -> tuple[int, int, dict[str, Any]]:
    """How many units of the stream a unit of a view has, how often its ε counts, and the promise of
    its mechanism.
    """
    computed: dict[str, Any] = {"epsilon": Fraction(1), "window": 1}
    if stream is None or calendar is None:
        return 1, 1, computed
    fits, every = units_in(stream, calendar), calendar.every
    if fits is None:
        section.wrong(
            "every",
            f'must be a whole number of the stream\'s units of "{stream.every}", not "{every}".',
        )
        return 1, 1, computed
    units, times = 1, 1
    if promise is not None:
        units = fits[0]
        if promise.horizon is not None and (fits[0] != fits[1] or promise.horizon % units):
            section.wrong(
                "every",
                f"the horizon of {promise.horizon} units must be a whole number of units of "
                f'"{every}".',
            )
        else:
            window, times = reach(promise.window, units, most=fits[1], horizon=promise.horizon)
            horizon = None if promise.horizon is None else promise.horizon // units
            epsilon = promise.epsilon * share / times
            computed = {"epsilon": epsilon, "window": window, "horizon": horizon}
    return units, times, computed


def _auto(section: Section) -> AutoMechanism | None:
    """The choice that is left open, where this table names `auto`."""
    if section.content.get("mechanism") != AUTO:
        return None
    return AutoMechanism(delta=_positive(section, "delta"))


def read_plan(section: Section) -> PlanConfig:
    """The table [plan]."""
    found = section.options(option for option in PLAN if option.type != "exact")
    for season in found["seasons"] or ():
        if not DURATION.fullmatch(season):
            section.wrong(
                "seasons",
                f'must be durations such as "1d", not {shown(season)}.',
            )
    typical = _positive(section, "typical")
    section.take("typical")
    section.close()
    return PlanConfig(
        typical=typical,
        seasons=tuple(each.replace(" ", "") for each in found["seasons"] or ()),
        sparse=found["sparse"],
        stock=found["stock"],
        sample=found["sample"],
    )


# -- a mechanism from its parameters ---------------------------------------------------------------


def _mechanism(
    section: Section,
    keys: Domain | None,
    calendar: Calendar | None,
    computed: Mapping[str, Any],
    *,
    also: tuple[str, ...],
) -> AnyMechanism | None:
    """The mechanism that this table names, with the parameters that it has, tried on an empty unit
    of these keys.
    """
    name = section.text("mechanism", example="ba")
    known = AUTO_FALLBACK if name == AUTO else name
    found = mechanisms.MECHANISMS, mechanisms.find
    cls = _found(section, "mechanism", known, *found) if name else None
    if cls is None:
        section.close(*section.content)
        return None
    _refuse_delta(section, cls)
    if name == AUTO:
        _refuse_beside_auto(section, also)
    more = section.table("parameters")
    for each in more.content:
        if each in section and each not in also:
            more.wrong(each, "is given twice: here and beside the mechanism.")
    values = {
        **_parameters(section, cls, calendar, but=(*also, "parameters", *_CHOSEN[name == AUTO])),
        **_parameters(more, cls, calendar, but=()),
    }
    accepted = tuple(each.name for each in dataclasses.fields(cls) if each.name not in also)
    section.close(*accepted)
    more.close(
        *accepted, *(each for each in also if each in {one.name for one in dataclasses.fields(cls)})
    )
    for each in ("epsilon", "window", "horizon"):
        if each in more:
            more.wrong(each, "belongs in [privacy].")
    if "window" not in computed and "window" not in section and _required(cls, "window"):
        section.missing(
            "window", 'write how much of a person is protected, in units or as window = "1d"'
        )
    if section.faulty:
        return None
    try:
        mechanism = cls(**{**values, **computed})
    except PenstockError as error:
        section.refuse(error)
        return None
    if mechanism.guarantee.intrusion:
        section.wrong("mechanism", _INTRUDED.format(name=mechanism.name))
        return None
    return mechanism if keys is None or _tried(section, mechanism, keys) else None


def _refuse_beside_auto(section: Section, also: tuple[str, ...]) -> None:
    """Refuse parameters of a mechanism where `auto` chooses them all."""
    section.take("delta")
    for each in {*section.content} - {*also, "mechanism", "contribution", "delta"}:
        section.take(each)
        section.wrong(each, "cannot stand beside auto, which chooses all parameters.")


def _refuse_delta(section: Section, cls: type[AnyMechanism]) -> None:
    """Refuse a delta beside a mechanism that has none, and name those that have one."""
    if "delta" in section and not issubclass(cls, WithDelta):
        able = [name for name, each in mechanisms.MECHANISMS.items() if issubclass(each, WithDelta)]
        section.take("delta")
        section.wrong(
            "delta",
            f"{cls.name} keeps a pure promise, without a delta: leave it out, or use one of "
            f"{', '.join(able)}.",
        )


def _required(cls: type, name: str) -> bool:
    return any(
        each.name == name and each.default is dataclasses.MISSING
        for each in dataclasses.fields(cls)
    )


def _found(
    section: Section, key: str, name: str, known: Mapping[str, Any], find: Callable[[str], Any]
) -> Any:
    try:
        return find(name)
    except PenstockError as error:
        section.wrong(key, f"{error}{nearest(name, known) if ':' not in name else ''}")
    except Exception as error:  # somebody's own module may fail in any way
        section.wrong(key, f"{shown(name)} cannot be used: {type(error).__name__}: {error}.")
    return None


def _tried(section: Section, mechanism: AnyMechanism, keys: Domain) -> bool:
    """Whether an empty unit of these keys goes through: a mechanism that does not fit them is found
    here, before any data.
    """
    try:
        mechanism.run(keys, noise=NoNoise()).step(np.zeros(keys.size, np.int64))
    except PenstockError as error:
        section.refuse(error)
        return False
    return True


def _parameters(
    section: Section, cls: type, calendar: Calendar | None, *, but: tuple[str, ...]
) -> dict[str, Any]:
    """The values in this table of a dataclass's fields, each of the field's type."""
    hints = _hints(cls)
    values = {}
    for each in dataclasses.fields(cls):
        if each.name in section and each.name not in but and section.exactly(each.name):
            values[each.name] = _value(section, each.name, hints.get(each.name, Any), calendar)
    return values


def _hints(cls: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except Exception:  # names that somebody's own module imports for type checkers only
        return {}


def _value(section: Section, name: str, hint: Any, calendar: Calendar | None) -> Any:
    """One parameter by the type of its field. Where it counts units, a duration will do."""
    value = section.take(name)
    union = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
    kinds = set(typing.get_args(hint)) if union else {hint}
    if isinstance(value, str) and any(UNITS in typing.get_args(kind) for kind in kinds):
        return read_units(section, name, calendar)
    if typing.get_origin(hint) is tuple and UNITS in typing.get_args(typing.get_args(hint)[0]):
        return _unit_counts(section, name, value, calendar)
    kinds = {typing.get_args(kind)[0] if UNITS in typing.get_args(kind) else kind for kind in kinds}
    if Histogram in kinds:
        return _histogram(section, name)
    if typing.get_origin(hint) is Literal:
        return section.text(name, among=typing.get_args(hint))
    if bool in kinds:
        return section.flag(name, False)
    if isinstance(value, (list, tuple)):
        return tuple(value)
    if Fraction in kinds:
        if isinstance(value, bool) or not isinstance(value, (int, str, Fraction)):
            section.wrong(
                name,
                f'must be a whole number or a text such as {name} = "0.5", not {shown(value)}.',
            )
    elif int in kinds and (isinstance(value, bool) or not isinstance(value, int)):
        section.wrong(name, f"must be a whole number, not {shown(value)}.")
    return value


def _unit_counts(
    section: Section, name: str, value: Any, calendar: Calendar | None
) -> tuple[int, ...]:
    """A list of numbers of units or durations; one of them will do."""
    each = value if isinstance(value, (list, tuple)) else (value,)
    try:
        return tuple(units_of(one, calendar, name=name) for one in each)
    except PenstockError as error:
        section.refuse(error)
        return ()


def _histogram(section: Section, name: str) -> Any:
    """A histogram method: its name, or a table of that and its parameters; from Python, the method
    itself.
    """
    value = section.take(name)
    if isinstance(value, str):
        named = _found(section, name, value, histograms.HISTOGRAMS, histograms.find)
        return None if named is None else named()
    if isinstance(value, Histogram) and not isinstance(value, type):
        return value
    if not isinstance(value, Mapping):
        section.wrong(
            name, f'must be a name or a table such as {{method = "quad_tree"}}, not {shown(value)}.'
        )
        return None
    part = section.table(name)
    method = part.text("method", example="quad_tree")
    cls = _found(part, "method", method, histograms.HISTOGRAMS, histograms.find) if method else None
    if cls is None:
        return None
    values = _parameters(part, cls, None, but=("method",))
    part.close(*(each.name for each in dataclasses.fields(cls)))
    if part.faulty:
        return None
    try:
        return cls(**values)
    except PenstockError as error:
        part.refuse(error)
    return None
