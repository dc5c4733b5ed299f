r"""The configuration of a publisher: read once, checked once, and everything that is wrong with it
said at once.

Several views of one stream
---------------------------
The promise (ε, w) counts in the stream's units, the small ones: nobody can tell whether a person
was there in any w consecutive small units. A view may have larger units, each of m small ones (at
least m, where months or days differ), of which it reads at most L_v events of a person, its own
`contribution`.

*How many units of a view a window meets.* All but the first and the last of them lie in the window
whole, so a window of w ≥ 2 small units meets at most k = ⌊(w − 2)/m⌋ + 2 units of the view; a
window of one small unit meets one; and for m = 1 it is k = w. The view's mechanism therefore has a
window of k of its own units.

*What a unit that lies in the window only in part costs.* Without the person's events in the window,
bounding may choose other events of that person, from outside the window: that is a replacement and
counts twice. The streams of bounded counts are two steps apart: first all that was chosen of the
person in the k units goes, then the new choice comes; each step is a change of presence of at most
L_v events a unit in k consecutive units. So a view with m > 1 whose mechanism has ε_v costs 2ε_v,
and one with m = 1 costs ε_v. A view's unit is charged in every small unit that it reads, and a
window pays it once, however many of these are in it.

*User level* (`horizon` = `window`): all of a person's events go, no choice is left and nothing
counts twice; the view's window is the whole of its units.

*The split.* With shares s_v that add up to 1, ε_v = s_v·ε for m = 1 or at user level, and s_v·ε/2
otherwise, in exact fractions: what the views cost adds up to ε. Refused is what would not be exact:
units of a view that are no whole number of small units, a horizon that is no whole number of a
view's units, and a mechanism with δ among several views.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import types
import typing
import zoneinfo
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias
from urllib.parse import parse_qsl, urlsplit

import numpy as np

from penstock.core.calendar import Calendar
from penstock.core.deprecated import moved
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError, PenstockError
from penstock.core.exact import exact, positive
from penstock.core.guarantee import Guarantee
from penstock.core.hierarchy import SEPARATOR, Hierarchy
from penstock.core.product import Product
from penstock.engine import toml
from penstock.engine.toml import (
    ELSEWHERE,
    Document,
    InvalidConfigurationError,
    Section,
    nearest,
    secret,
    shown,
)
from penstock.private.histograms import registry as histograms
from penstock.private.histograms.base import Histogram
from penstock.private.mechanisms import registry as mechanisms
from penstock.private.mechanisms.base import Mechanism
from penstock.private.noise import NoNoise
from penstock.private.sources.base import Columns

AnyMechanism: TypeAlias = Mechanism[Any]
Options: TypeAlias = Mapping[str, Any]
Late: TypeAlias = Literal["drop", "current"]

TYPES = ("text", "integer")
SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
CLOCKS = ("iso", "seconds", "milliseconds", "microseconds")
DURATION = re.compile(r"([0-9]{1,9}) ?(s|min|h|d|w|mo)")
_ADDRESS = re.compile(r"(?:[^\s:/@]+|\[[0-9a-fA-F:]+\]):([0-9]{1,5})")
_TELLING = re.compile(r"token|password|secret|key|signature|sig|auth", re.IGNORECASE)
_INTRUDED = (
    "{name} promises something to those whose memory is looked into, and a publisher cannot keep that: it holds the ids of the "
    "open unit. Use the same mechanism without it."
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True, kw_only=True)
class StreamConfig:
    """What the releases are called, and when. `lateness` and `tolerance` are durations, as
    `private.units` takes them.

    `pace`: in a live stream releases leave at multiples of it after a unit's close, whatever the
    work took.
    """

    name: str
    calendar: Calendar
    until: str | None = None
    lateness: str = "0s"
    late: Late = "drop"
    tolerance: str = "1min"
    pace: str = "1s"


@dataclass(frozen=True, kw_only=True)
class SourceConfig:
    """Where events come from, and which of their columns say what. Without a person, every event is
    its own person.
    """

    kind: str
    columns: Columns
    options: Options = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class View:
    """One series of releases. Its mechanism counts in the view's own units; `units` of the stream's
    make one, at least.

    `share` of the stream's ε is what it costs; `times` is how often the mechanism's ε is counted in
    that.
    """

    name: str
    calendar: Calendar
    mechanism: AnyMechanism
    units: int = 1
    share: Fraction = Fraction(1)
    times: int = 1

    @property
    def cost(self) -> Fraction:
        """What a window of the stream pays for this view at most."""
        return self.times * exact(self.mechanism.epsilon)


@dataclass(frozen=True, kw_only=True)
class StoreConfig:
    """Where releases, ledger and state are kept. Secrets are named, never held."""

    path: str | None = None
    url: str | None = None
    url_env: str | None = None
    password_env: str | None = None
    key_env: str | None = None
    key_file: str | None = None
    head: str | None = None


@dataclass(frozen=True, kw_only=True)
class SinkConfig:
    """Where releases go, of all views unless some are named."""

    name: str
    kind: str
    views: tuple[str, ...] = ()
    options: Options = field(default_factory=dict)

    @property
    def place(self) -> tuple[Any, ...] | None:
        """What two sinks cannot share; None where they can."""
        names = {
            "parquet": ("path",),
            "jsonl": ("path",),
            "kafka": ("servers", "topic"),
            "postgres": ("url", "url_env", "table"),
        }
        if self.kind not in names:
            return None
        return self.kind, *(self.options.get(name) for name in names[self.kind])


@dataclass(frozen=True, kw_only=True)
class OperatorConfig:
    """Who may see private figures, and where public ones are served; `figures` is a file for
    private ones at the end.
    """

    token_env: str | None = None
    token_file: str | None = None
    metrics: str | None = None
    figures: str | None = None


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """All that a publisher needs to know, without having seen any data.

    >>> pipeline = Pipeline.of({
    ...     "stream": {"name": "taps", "every": "1h", "origin": "2026-01-01"},
    ...     "source": {"kind": "parquet", "path": "taps/*.parquet", "time": "ts", "key": "station", "person": "card"},
    ...     "domain": {"keys": ["north", "south"], "other": "elsewhere"},
    ...     "privacy": {"mechanism": "ba", "epsilon": "1", "window": "1d"},
    ... })
    >>> pipeline.mechanism(), pipeline.domain().keys
    (BudgetAbsorption(epsilon=Fraction(1, 1), window=24, ...), ('north', 'south', 'elsewhere'))
    """

    stream: StreamConfig
    source: SourceConfig
    keys: Domain
    other: str | None
    guarantee: Guarantee
    views: tuple[View, ...]
    store: StoreConfig
    sinks: tuple[SinkConfig, ...] = ()
    operator: OperatorConfig = OperatorConfig()
    folder: Path = field(default=Path(), compare=False)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """From a TOML file. Relative paths in it start from its folder."""
        return cls._made(toml.read(path), Path(path).parent)

    @classmethod
    def of(cls, content: Mapping[str, Any], *, folder: str | os.PathLike[str] = ".") -> Self:
        """From the same tables as a dict; `domain` may also be a `Domain`, and `privacy` a
        mechanism.
        """
        return cls._made(Document(content), Path(folder))

    @classmethod
    def _made(cls, document: Document, folder: Path) -> Self:
        top = Section.of(document)
        for path in toml.secrets_in(
            {name: part for name, part in document.content.items() if name != "domain"}
        ):
            top.wrong(
                str(path[0]),
                f"looks like a secret, and no secret belongs into this file: {ELSEWHERE}.",
                *path[1:],
            )
        stream = _stream(top.table("stream"))
        keys, other = _domain(top, folder)
        source = _source(top.table("source"), keys, stream)
        guarantee, views = _views(top, stream, keys)
        store = _store(top.table("store"), stream)
        sinks = _sinks(top.tables("sink"), views)
        operator = _operator(top.table("operator"))
        if stream is not None and stream.late == "current" and len(views) > 1:
            top.table("stream").wrong(
                "late",
                'must be "drop" where there are several views: a late event would count in units of two views that do not '
                "belong together, and the promise would not cover it.",
            )
        top.close()
        if top.problems or stream is None or keys is None or source is None or guarantee is None:
            raise InvalidConfigurationError(document.name, dict.fromkeys(top.problems))
        return cls(
            stream=stream,
            source=source,
            keys=keys,
            other=other,
            guarantee=guarantee,
            views=tuple(views),
            store=store,
            sinks=sinks,
            operator=operator,
            folder=folder,
        )

    def domain(self) -> Domain:
        """The keys, with the one for all others."""
        return self.keys

    def view(self, name: str | None = None) -> View:
        """The view of this name; without one, the only view."""
        found = [view for view in self.views if name in (None, view.name)]
        if len(found) != 1:
            raise ConfigurationError(
                f"view must be one of {', '.join(view.name for view in self.views)}, not {name!r}."
            )
        return found[0]

    def mechanism(self, view: str | None = None) -> AnyMechanism:
        """A view's mechanism; without a name, that of the only view."""
        return self.view(view).mechanism

    def series(self, view: str | None = None) -> str:
        """The name under which the store and the sinks know a view's releases: the stream's, and
        the view's if it has one.
        """
        found = self.view(view)
        return (
            self.stream.name
            if found.name == self.stream.name
            else f"{self.stream.name}/{found.name}"
        )

    def path(self, name: str) -> Path:
        """A path of this configuration, from its folder on."""
        return self.folder / name

    def facts(self) -> dict[str, str]:
        """What may not change from one start to the next, by key. Sources, sinks, lateness and the
        store's place may.
        """
        calendar = self.stream.calendar
        facts = {
            "stream.name": self.stream.name,
            "stream.every": calendar.every,
            "stream.zone": calendar.zone,
            "stream.origin": str(calendar.origin),
            "source.key": json.dumps(self.source.columns.keys),
            "source.key_type": json.dumps(self.source.columns.key_types),
            "source.person": self.source.columns.person or "",
            "source.person_type": self.source.columns.person_type,
            "source.time": self.source.columns.time,
            "source.clock": self.source.columns.clock,
            "source.zone": self.source.columns.zone,
            "domain": f"{type(self.keys).__name__} {_digest(self.keys.facts)}",
            "domain.other": self.other or "",
            "privacy": repr(self.guarantee),
            "privacy.epsilon": str(self.guarantee.epsilon),
            "privacy.window": str(self.guarantee.window),
            "privacy.horizon": str(self.guarantee.horizon or ""),
        }
        for view in self.views:
            facts[f"view.{view.name}.every"] = view.calendar.every
            facts[f"view.{view.name}.share"] = str(view.share)
            facts[f"view.{view.name}.times"] = str(view.times)
            facts[f"view.{view.name}.mechanism"] = view.mechanism.name
            for name, value in view.mechanism.configuration().items():
                facts[f"view.{view.name}.{name}"] = str(value)
        return facts

    def fingerprint(self) -> str:
        """A digest of these facts: the same wherever and whenever it is computed."""
        facts = self.facts()
        return _digest(text for name in sorted(facts) for text in (name, facts[name]))

    def changed(self, facts: Mapping[str, str]) -> tuple[str, ...]:
        """The names of facts that were others when these were written: a stream that has begun
        cannot go on with them.
        """
        here = self.facts()
        return tuple(
            sorted(name for name in here.keys() | facts.keys() if here.get(name) != facts.get(name))
        )


def _digest(texts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        raw = text.encode()
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()


# -- the stream and its units ----------------------------------------------------------------------


def _stream(section: Section) -> StreamConfig | None:
    name = section.text("name", example="taps")
    if name and not _NAME.fullmatch(name):
        section.wrong(
            "name", f"must be of letters, digits, dots, dashes and underscores, not {shown(name)}."
        )
    every = _duration(section, "every", example="1h")
    zone = _zone(section, "UTC")
    origin = _moment(section, "origin")
    if "origin" not in section:
        section.missing("origin", 'write when the first unit begins, such as origin = "2026-01-01"')
    calendar = _calendar(section, every, zone, origin)
    until = _moment(section, "until") or None
    if calendar and until:
        until = _until(section, calendar, until)
    lateness, tolerance = _length(section, "lateness", "0s"), _length(section, "tolerance", "1min")
    pace = _length(section, "pace", "1s")
    late: Late = (
        "current"
        if section.text("late", "drop", among=("drop", "current")) == "current"
        else "drop"
    )
    section.close()
    if section.faulty or calendar is None:
        return None
    return StreamConfig(
        name=name,
        calendar=calendar,
        until=until,
        lateness=lateness,
        late=late,
        tolerance=tolerance,
        pace=pace,
    )


def _duration(section: Section, name: str, default: str | None = None, *, example: str) -> str:
    """A length of time such as 15min, as text; empty if it cannot be read."""
    value = section.text(name, default, example=example)
    if not value:
        return ""
    if not DURATION.fullmatch(value):
        hint = ' Write "min" for minutes, "mo" for months.' if value[-1:] == "m" else ""
        section.wrong(
            name,
            f'must be a number and one of s, min, h, d, w, mo, such as "{example}", not {shown(value)}.{hint}',
        )
        return ""
    return value.replace(" ", "")


def _length(section: Section, name: str, default: str) -> str:
    """A duration that has one length: without months."""
    value = _duration(section, name, default, example="10min")
    if value.endswith("mo"):
        section.wrong(
            name, f'must be a length in s, min, h, d or w, such as {name} = "10min": months differ.'
        )
    return value


def _zone(section: Section, default: str) -> str:
    """The name of a time zone; empty if there is no such zone."""
    zone = section.text("zone", default, example="Europe/Zurich")
    known = zoneinfo.available_timezones()
    if zone not in known:
        section.wrong(
            "zone",
            f"{shown(zone)} is no time zone: use UTC or a name such as Europe/Zurich.{nearest(zone, known)}",
        )
        return ""
    return zone


def _moment(section: Section, name: str) -> str:
    """A date or a time as ISO text; TOML's own dates do too."""
    value = section.take(name, "")
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    if not isinstance(value, str):
        section.wrong(
            name, f'must be a date or a time, such as {name} = "2026-01-01", not {shown(value)}.'
        )
        return ""
    return value


def _calendar(
    section: Section, every: str, zone: str, origin: str, *, blame: str | None = None
) -> Calendar | None:
    if not (every and zone and origin):
        return None
    try:
        return Calendar(every=every, zone=zone, origin=origin)
    except ConfigurationError as error:
        _refused(section, error, {"every", "zone", "origin"}, blame=blame)
    return None


def _until(section: Section, calendar: Calendar, until: str) -> str | None:
    try:
        moment = str(Calendar(every="1s", zone=calendar.zone, origin=until).origin)
    except ConfigurationError as error:
        section.wrong("until", str(error).replace("origin", "until").removeprefix("until "))
        return None
    if datetime.fromisoformat(moment) <= datetime.fromisoformat(str(calendar.origin)):
        section.wrong("until", f"must be after the origin, {calendar.origin}, not {moment}.")
    return moment


def units_in(inner: Calendar, outer: Calendar) -> tuple[int, int] | None:
    """How many units of one calendar make one of another, at least and at most; None if they do not
    fit together.

    >>> hours = Calendar(every="1h", zone="Europe/Zurich", origin="2026-01-01")
    >>> units_in(hours, Calendar(every="1d", zone="Europe/Zurich", origin="2026-01-01"))
    (23, 25)
    >>> units_in(hours, Calendar(every="90min", zone="Europe/Zurich", origin="2026-01-01")) is None
    True
    """
    if _fixed(outer):
        small, large = (calendar.ends(1) - calendar.begins(1) for calendar in (inner, outer))
        fits = _fixed(inner) and large % small == 0 and inner.begins(1) == outer.begins(1)
        return (large // small, large // small) if fits else None
    starts = np.array([outer.begins(unit) for unit in range(1, outer.last + 1)], np.int64)
    places = inner.unit_of(starts)
    before = inner.unit_of(starts - 1)
    if not (before == places - 1).all() or len(places) < 2:
        return None
    sizes = np.diff(places)
    return int(sizes.min()), int(sizes.max())


def _fixed(calendar: Calendar) -> bool:
    """Whether all units have one length, whatever the zone."""
    return calendar.every.endswith(("s", "min", "h"))


def _units(section: Section, name: str, calendar: Calendar | None) -> int | None:
    """A number of units, or a duration that is a whole number of them; None if it is not there or
    cannot be read.
    """
    value = section.take(name)
    if value is None:
        return None
    if isinstance(value, str):
        duration = _duration(section, name, example="1d")
        return _whole_units(section, name, duration, calendar) if duration and calendar else None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        section.wrong(
            name,
            f'must be a whole number of units, at least 1, or a duration such as "1d", not {shown(value)}.',
        )
        return None
    return value


def _whole_units(section: Section, name: str, duration: str, calendar: Calendar) -> int | None:
    """The units of a duration, wherever it begins; None, and why, where that is no one number."""
    fits = units_of(duration, calendar)
    if isinstance(fits, int):
        return fits
    if fits is None:
        section.wrong(
            name,
            f'"{duration}" is not a whole number of units of "{calendar.every}": write a number of units.',
        )
    else:
        section.wrong(
            name,
            f'"{duration}" has {fits[0]} to {fits[1]} units of "{calendar.every}" in {calendar.zone}: '
            f"write {name} = {fits[1]} for the longest.",
        )
    return None


def units_of(duration: str, calendar: Calendar) -> int | tuple[int, int] | None:
    """How many units so long a time has, wherever it begins: one number, the least and the most, or
    None if no whole number.

    >>> units_of("1d", Calendar(every="1h", origin="2026-01-01"))
    24
    >>> units_of("1d", Calendar(every="1h", zone="Europe/Zurich", origin="2026-01-01"))
    (23, 25)
    """
    day = datetime.fromisoformat(str(calendar.origin)).date()
    if duration.endswith("mo"):
        day = day.replace(day=1)
    try:
        whole = Calendar(every=duration, zone=calendar.zone, origin=day.isoformat())
        fits = units_in(dataclasses.replace(calendar, origin=whole.origin), whole)
    except ConfigurationError:
        return None
    return fits[0] if fits is not None and fits[0] == fits[1] else fits


# -- the domain ------------------------------------------------------------------------------------

WAYS = ("keys", "file", "range", "attributes", "hierarchy")


def _domain(top: Section, folder: Path) -> tuple[Domain | None, str | None]:
    declared = top.content.get("domain")
    if isinstance(declared, Domain):
        top.take("domain")
        return declared, None
    section = top.table("domain")
    other = section.maybe("other", example="other")
    given = [way for way in WAYS if way in section]
    if len(given) != 1:
        told = f"has {' and '.join(given)}" if given else "says nothing of its keys"
        section.wrong(None, f"{told}: use exactly one of {', '.join(WAYS)}.")
    section.close(*WAYS)
    if section.faulty:
        return None, other
    (way,) = given
    try:
        return _DOMAINS[way](section, folder, other), other
    except ConfigurationError as error:
        section.wrong(way, str(error).removeprefix("domain "))
    return None, other


def _with(keys: Sequence[str], other: str | None) -> tuple[str, ...]:
    return tuple(keys) if other is None or other in keys else (*keys, other)


def _listed(value: object) -> list[str]:
    if not isinstance(value, (list, tuple)) or any(
        isinstance(key, bool) or not isinstance(key, (str, int)) for key in value
    ):
        raise ConfigurationError(f"must be an array of texts or whole numbers, not {shown(value)}.")
    return [str(key) for key in value]


def _by_keys(section: Section, _: Path, other: str | None) -> Domain:
    return Domain(_with(_listed(section.take("keys")), other))


def _lines(section: Section, name: str, folder: Path) -> list[str]:
    path = section.text(name, example="stations.txt")
    if not path:
        raise ConfigurationError("must be the name of a file with one key a line.")
    try:
        text = (folder / path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigurationError(f"{shown(path)} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{shown(path)} is not UTF-8.") from None
    return [line.strip() for line in text.split("\n") if line.strip()]


def _by_file(section: Section, folder: Path, other: str | None) -> Domain:
    return Domain(_with(_lines(section, "file", folder), other))


def _by_range(section: Section, _: Path, other: str | None) -> Domain:
    value = section.take("range")
    ends = value if isinstance(value, (list, tuple)) and len(value) == 2 else ()
    if (
        not ends
        or any(isinstance(end, bool) or not isinstance(end, int) for end in ends)
        or ends[0] > ends[1]
    ):
        raise ConfigurationError(
            "must be the first and the last of the keys, whole numbers, such as range = [0, 99]."
        )
    return Domain(_with([str(key) for key in range(ends[0], ends[1] + 1)], other))


def _by_attributes(section: Section, _: Path, other: str | None) -> Domain:
    value = section.take("attributes")
    if not isinstance(value, Mapping):
        raise ConfigurationError(
            'must be a table of attributes, such as attributes = {sex = ["f", "m"], age = 100}.'
        )
    values: dict[str, tuple[str, ...]] = {}
    for name, each in value.items():
        plain = isinstance(each, int) and not isinstance(each, bool) and each > 0
        values[name] = tuple(map(str, range(each))) if plain else tuple(_listed(each))
    domain = Product.of(values)
    if other is not None and other not in domain.keys:
        first = shown(domain.keys[0])
        raise ConfigurationError(
            f"other must be one of the combinations, such as {first}, not {shown(other)}."
        )
    return domain


def _by_hierarchy(section: Section, folder: Path, other: str | None) -> Domain:
    value = section.take("hierarchy")
    if isinstance(value, str):
        paths = {
            key: above
            for above, _, key in (
                line.rpartition(SEPARATOR) for line in _lines(section, "hierarchy", folder)
            )
        }
    elif isinstance(value, Mapping) and all(
        isinstance(path, (str, list, tuple)) for path in value.values()
    ):
        paths = dict(value)
    else:
        raise ConfigurationError(
            'must be a file, or a table of what is above each key: hierarchy = {"room 1" = "A/floor 1"}.'
        )
    if other is not None:
        paths.setdefault(other, "")
    return Hierarchy.of(paths)


_DOMAINS: dict[str, Callable[[Section, Path, str | None], Domain]] = {
    "keys": _by_keys,
    "file": _by_file,
    "range": _by_range,
    "attributes": _by_attributes,
    "hierarchy": _by_hierarchy,
}


# -- where events come from and releases go --------------------------------------------------------


def _source(
    section: Section, keys: Domain | None, stream: StreamConfig | None
) -> SourceConfig | None:
    kind = section.text("kind", among=tuple(_SOURCES))
    found: dict[str, Any] = {
        "time": section.text("time", example="timestamp"),
        "key": _key(section, keys),
        "person": section.maybe("person", example="card"),
        "clock": section.text("clock", "iso", among=CLOCKS),
        "zone": _zone(section, stream.calendar.zone if stream else "UTC"),
        "person_type": section.text("person_type", "text", among=TYPES),
    }
    types = section.texts("key_type", example="text") or ("text",)
    for each in types:
        if each not in TYPES:
            section.wrong(
                "key_type",
                f"{shown(each)} is not known: use {', '.join(TYPES)}.{nearest(each, TYPES)}",
            )
    if len(types) not in (1, len(found["key"])):
        section.wrong(
            "key_type",
            f"must be one type, or one for each of {len(found['key'])} columns, not {len(types)}.",
        )
    options = _SOURCES[kind](section) if kind else {}
    section.close(*({} if kind else section.content))
    if section.faulty:
        return None
    found |= {"key": found["key"] if len(found["key"]) > 1 else found["key"][0]}
    found |= {"key_type": types if len(types) > 1 else types[0]}
    return SourceConfig(kind=kind, columns=Columns(**found), options=options)


def _key(section: Section, keys: Domain | None) -> tuple[str, ...]:
    """The columns of the key: one, or one for each attribute, which may have the attributes' names."""
    key = section.texts("key", example="station")
    names = keys.names if isinstance(keys, Product) else ()
    if "key" not in section:
        if not names:
            section.missing("key", 'write the column of the keys, such as key = "station"')
        return names
    if keys is not None and len(key) not in (0, 1, len(names)):
        wanted = (
            f"one column, or one for each attribute: {', '.join(names)}" if names else "one column"
        )
        section.wrong("key", f"must be {wanted}, not {len(key)} columns.")
    return key


def _files(section: Section) -> dict[str, Any]:
    return {
        "path": section.text("path", example="taps/*.parquet"),
        "growing": section.flag("growing", False),
    }


def _csv_format(section: Section) -> dict[str, Any]:
    delimiter = section.text("delimiter", ",", example=";")
    if len(delimiter) != 1:
        section.wrong("delimiter", f"must be one character, not {shown(delimiter)}.")
    names = section.texts("names", example="time")
    return {
        "delimiter": delimiter,
        "names": names or None,
        "quoted_newlines": section.flag("quoted_newlines", False),
    }


def _csv(section: Section) -> dict[str, Any]:
    return {**_files(section), **_csv_format(section)}


def _stdin(section: Section) -> dict[str, Any]:
    form = section.text("format", "jsonl", among=("jsonl", "csv"))
    return {"format": form, **(_csv_format(section) if form == "csv" else {})}


def _http(section: Section) -> dict[str, Any]:
    return {
        "listen": _address(section, "listen", "127.0.0.1:8080"),
        **_one_of(section, "token_env", "token_file", needed=True),
    }


def _kafka(section: Section) -> dict[str, Any]:
    form = section.text("format", "json", among=("json", "avro"))
    options = {
        **_broker(section),
        "group": section.text("group", "penstock", example="penstock"),
        "format": form,
        "accept_loss": section.flag("accept_loss", False),
    }
    if form == "avro":
        options["schema_file"] = section.text("schema_file", example="tap.avsc")
        options["framed"] = section.flag("framed", False) if "framed" in section else None
        section.take("framed")
    return options


def _mqtt(section: Section) -> dict[str, Any]:
    return {
        "server": _address(section, "server", None),
        "topic": section.text("topic", example="sensors/+/taps"),
        "client": section.text("client", "penstock", example="penstock"),
        **_login(section),
        **_encryption(section),
    }


def _broker(section: Section) -> dict[str, Any]:
    servers = section.texts("servers", example="localhost:9092")
    if "servers" not in section:
        section.missing(
            "servers", 'write one or more addresses, such as servers = "localhost:9092"'
        )
    for server in servers:
        if not _addressed(server):
            section.wrong(
                "servers", f'must be addresses such as "localhost:9092", not {shown(server)}.'
            )
    return {
        "servers": servers,
        "topic": section.text("topic", example="taps"),
        **_login(section),
        "mechanism": section.text("mechanism", "PLAIN", among=SASL_MECHANISMS),
        **_encryption(section),
    }


def _encryption(section: Section) -> dict[str, Any]:
    """TLS or not (if nothing is said: with a login), and a file of certificates to trust instead of
    the system's.
    """
    tls = section.flag("tls", False) if "tls" in section else None
    section.take("tls")
    return {"tls": tls, "authority": section.maybe("authority", example="broker.pem")}


def _login(section: Section) -> dict[str, Any]:
    found = {name: section.variable(name) for name in ("username_env", "password_env")}
    if ("username_env" in section) != ("password_env" in section):
        section.wrong(None, "username_env and password_env belong together: write both or neither.")
    return {name: value for name, value in found.items() if value is not None}


def _address(section: Section, name: str, default: str | None) -> str:
    value = section.text(name, default, example="127.0.0.1:8080")
    if value and not _addressed(value):
        section.wrong(
            name, f'must be a host and a port, such as "127.0.0.1:8080", not {shown(value)}.'
        )
    return value


def _addressed(text: str) -> bool:
    """Whether this is a host and a port."""
    found = _ADDRESS.fullmatch(text)
    return found is not None and int(found[1]) < 2**16


def _one_of(section: Section, *names: str, needed: bool = False) -> dict[str, Any]:
    """At most one of these names: of a variable (…_env), of a file (…_file, path, head), or an
    address (url).
    """
    given = [name for name in names if name in section]
    found = {}
    for name in names:
        if name.endswith("_env"):
            value = section.variable(name)
        elif name == "url":
            value = _url(section)
        else:
            value = section.maybe(
                name,
                example="releases.db"
                if name == "path"
                else "secrets/" + name.removesuffix("_file"),
            )
        if value is not None:
            found[name] = value
    if len(given) > 1:
        section.wrong(given[1], f"cannot stand beside {given[0]}: use one of {', '.join(names)}.")
    if needed and not given:
        section.missing(" or ".join(names), f"use one of {', '.join(names)}")
    return found


def _url(section: Section) -> str | None:
    """An address without anything secret in it: such a one is named by url_env."""
    value = section.maybe("url", example="https://example.org/releases")
    if not value:
        return None
    try:
        parts = urlsplit(value)
        telling = parts.password is not None or any(
            _TELLING.search(name) for name, _ in parse_qsl(parts.query, True)
        )
    except ValueError:
        section.wrong("url", "must be an address, such as https://example.org/releases.")
        return None
    if telling or secret(value):
        section.wrong(
            "url",
            f"has a secret in it, and no secret belongs into this file: {ELSEWHERE} (url_env).",
        )
    elif not (parts.scheme and (parts.netloc or parts.path)):
        section.wrong("url", "must be an address, such as https://example.org/releases.")
    return value


def _web(section: Section) -> dict[str, Any]:
    found = _one_of(section, "url", "url_env", needed=True)
    if found.get("url") and not found["url"].startswith(("http://", "https://")):
        section.wrong("url", "must begin with https:// or http://.")
    return {**found, **_one_of(section, "token_env", "token_file")}


def _table(section: Section) -> dict[str, Any]:
    found = _one_of(section, "url", "url_env", needed=True)
    _postgres(section, found)
    return {
        **found,
        "table": section.text("table", "published", example="published"),
        **_password(section),
    }


def _postgres(section: Section, found: Mapping[str, Any]) -> None:
    if found.get("url") and not found["url"].startswith(("postgresql://", "postgres://")):
        section.wrong("url", "must begin with postgresql://.")


def _password(section: Section) -> dict[str, Any]:
    value = section.variable("password_env")
    return {} if value is None else {"password_env": value}


def _place(section: Section) -> dict[str, Any]:
    return {"path": section.text("path", example="releases")}


_SOURCES: dict[str, Callable[[Section], dict[str, Any]]] = {
    "parquet": _files,
    "csv": _csv,
    "jsonl": _files,
    "stdin": _stdin,
    "http": _http,
    "kafka": _kafka,
    "mqtt": _mqtt,
}

_SINKS: dict[str, Callable[[Section], dict[str, Any]]] = {
    "parquet": _place,
    "jsonl": _place,
    "kafka": _broker,
    "webhook": _web,
    "postgres": _table,
}


def _store(section: Section, stream: StreamConfig | None) -> StoreConfig:
    found = {**_one_of(section, "path", "url", "url_env"), **_password(section)}
    _postgres(section, found)
    if not any(name in section for name in ("path", "url", "url_env")):
        found["path"] = f"{stream.name if stream else 'stream'}.db"
    found |= _one_of(section, "key_env", "key_file")
    head = section.maybe("head", example="elsewhere/taps.head")
    section.close()
    return StoreConfig(head=head, **found)


def _sinks(sections: Sequence[Section], views: Sequence[View]) -> tuple[SinkConfig, ...]:
    sinks: list[SinkConfig] = []
    known = tuple(view.name for view in views)
    for section in sections:
        kind = section.text("kind", among=tuple(_SINKS))
        name = section.text("name", kind, example="archive")
        if name and any(name == sink.name for sink in sinks):
            section.wrong(
                "name" if "name" in section else None,
                f"{shown(name)} names two sinks: give each a name of its own.",
            )
        wanted = section.texts("views", example="hourly")
        for each in wanted:
            if known and each not in known:
                section.wrong(
                    "views",
                    f"there is no view {shown(each)}: use {', '.join(known)}.{nearest(each, known)}",
                )
        options = _SINKS[kind](section) if kind else {}
        section.close(*({} if kind else section.content))
        sinks.append(SinkConfig(name=name, kind=kind, views=wanted, options=options))
        other = next(
            (
                sink.name
                for sink in sinks[:-1]
                if sink.place is not None and sink.place == sinks[-1].place
            ),
            None,
        )
        if other is not None:
            section.wrong(
                None,
                f"goes to the same place as {shown(other)}: one sink takes several views, or each has its own.",
            )
    return tuple(sinks)


def _operator(section: Section) -> OperatorConfig:
    found = _one_of(section, "token_env", "token_file")
    if "metrics" in section:
        found["metrics"] = _address(section, "metrics", None)
    else:
        section.take("metrics")
    found["figures"] = section.maybe("figures", example="private.json")
    section.close()
    return OperatorConfig(**found)


# -- the promise -----------------------------------------------------------------------------------


def _views(
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
        name: _units(section, name, calendar) for name in ("window", "horizon")
    }
    promise["epsilon"] = _epsilon(section)
    promise = {name: value for name, value in promise.items() if value is not None}
    if not views:
        mechanism = _mechanism(section, keys, promise, also=("epsilon", "window", "horizon"))
        if mechanism is None or stream is None:
            return None, []
        return mechanism.guarantee, [
            View(name=stream.name, calendar=stream.calendar, mechanism=mechanism)
        ]
    for name in ("mechanism", "contribution"):
        if name in section:
            section.take(name)
            section.wrong(name, "belongs into each [[view]] where there are several.")
    if "window" not in section:
        section.missing(
            "window",
            'write how much of a person is protected, in units of the stream or as window = "1d"',
        )
    section.close()
    guarantee = None if section.faulty else _guarantee(section, promise)
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
        _tried(Section(top.document, ("privacy",), {}, top.problems), mechanism, keys, {})
    if mechanism.guarantee.intrusion:
        top.wrong("privacy", _INTRUDED.format(name=mechanism.name))
    if stream is None:
        return None, []
    return mechanism.guarantee, [
        View(name=stream.name, calendar=stream.calendar, mechanism=mechanism)
    ]


def _epsilon(section: Section) -> Fraction | None:
    if "epsilon" not in section:
        section.missing("epsilon", 'write a whole number or a text, such as epsilon = "0.5"')
        return None
    if not section.exactly("epsilon"):
        return None
    try:
        return positive(section.take("epsilon"), name="epsilon")
    except ConfigurationError as error:
        _refused(section, error, {"epsilon"})
    return None


def _guarantee(section: Section, promise: dict[str, Any]) -> Guarantee | None:
    try:
        return Guarantee(**promise)
    except ConfigurationError as error:
        _refused(section, error, set(promise))
    return None


def _shares(views: Sequence[Section]) -> list[Fraction]:
    """Each view's share of ε: as it says, and an equal part of the rest for those that say nothing."""
    given: list[Fraction | None] = []
    for section in views:
        share = None
        if "share" in section and section.exactly("share"):
            try:
                share = positive(section.take("share"), name="share")
            except ConfigurationError as error:
                _refused(section, error, {"share"})
        section.take("share")
        given.append(share)
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
            f'the shares of all views add up to {total}: they must {rule}, such as share = "1/{len(views)}".',
        )
        return [Fraction(1, len(views))] * len(views)
    return [(1 - total) / silent if share is None else share for share in given]


def reach(
    window: int, units: int, *, most: int | None = None, horizon: int | None = None
) -> tuple[int, int]:
    """For a view with units of so many small ones: the window of its mechanism, and how often its ε
    counts.

    `units` is how many small ones a unit has at least, `most` how many at most, if that is not the
    same.

    >>> reach(1440, 1), reach(1440, 60), reach(1440, 1440), reach(1, 60), reach(1440, 60, horizon=1440)
    ((1440, 1), (25, 2), (2, 2), (1, 2), (24, 1))
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
    name = section.text("name", example="hourly")
    if name and not _NAME.fullmatch(name):
        section.wrong(
            "name", f"must be of letters, digits, dots, dashes and underscores, not {shown(name)}."
        )
    every = _duration(section, "every", stream.every if stream else "1h", example="1h")
    section.take("share")
    for each in ("epsilon", "window", "horizon"):
        if each in section:
            section.wrong(
                each,
                f"is computed from [privacy]: write {'a share' if each == 'epsilon' else 'it'} there.",
            )
            section.take(each)
    calendar = (
        _calendar(section, every, stream.zone, str(stream.origin), blame="every")
        if stream
        else None
    )
    computed: dict[str, Any] = {"epsilon": Fraction(1), "window": 1}
    units, times = 1, 1
    if stream and calendar:
        fits = units_in(stream, calendar)
        if fits is None:
            section.wrong(
                "every",
                f'must be a whole number of the stream\'s units of "{stream.every}", not "{every}".',
            )
        elif promise is not None:
            units = fits[0]
            if promise.horizon is not None and (fits[0] != fits[1] or promise.horizon % units):
                section.wrong(
                    "every",
                    f'the horizon of {promise.horizon} units must be a whole number of units of "{every}".',
                )
            else:
                window, times = reach(promise.window, units, most=fits[1], horizon=promise.horizon)
                horizon = None if promise.horizon is None else promise.horizon // units
                computed = {
                    "epsilon": promise.epsilon * share / times,
                    "window": window,
                    "horizon": horizon,
                }
    mechanism = _mechanism(section, keys, computed, also=("name", "every", "share"))
    if mechanism is not None and mechanism.guarantee.delta:
        section.wrong(
            "mechanism",
            f"{mechanism.name} keeps a delta, which does not add up with other views: use it alone.",
        )
    if section.faulty or mechanism is None or calendar is None:
        return None
    return View(
        name=name, calendar=calendar, mechanism=mechanism, units=units, share=share, times=times
    )


# -- a mechanism from its parameters ---------------------------------------------------------------


def _mechanism(
    section: Section, keys: Domain | None, computed: Mapping[str, Any], *, also: tuple[str, ...]
) -> AnyMechanism | None:
    """The mechanism that this table names, with the parameters that it has, tried on an empty unit
    of these keys.
    """
    name = section.text("mechanism", example="ba")
    cls = (
        _found(section, "mechanism", name, mechanisms.MECHANISMS, mechanisms.find) if name else None
    )
    if cls is None:
        section.close(*section.content)
        return None
    more = section.table("parameters")
    for each in more.content:
        if each in section and each not in also:
            more.wrong(each, "is given twice: here and beside the mechanism.")
    values = {
        **_parameters(section, cls, but=(*also, "parameters")),
        **_parameters(more, cls, but=()),
    }
    accepted = tuple(each.name for each in dataclasses.fields(cls) if each.name not in also)
    section.close(*accepted)
    more.close(
        *accepted, *(each for each in also if each in {one.name for one in dataclasses.fields(cls)})
    )
    for each in ("epsilon", "window", "horizon"):
        if each in more:
            more.wrong(each, "belongs into [privacy].")
    if "window" not in computed and "window" not in section and _required(cls, "window"):
        section.missing(
            "window", 'write how much of a person is protected, in units or as window = "1d"'
        )
    if section.faulty:
        return None
    try:
        mechanism = cls(**{**values, **computed})
    except PenstockError as error:
        _refused(section, error, {*values, *computed})
        return None
    if mechanism.guarantee.intrusion:
        section.wrong("mechanism", _INTRUDED.format(name=mechanism.name))
        return None
    return mechanism if keys is None or _tried(section, mechanism, keys, values) else None


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


def _tried(
    section: Section, mechanism: AnyMechanism, keys: Domain, values: Mapping[str, Any]
) -> bool:
    """Whether an empty unit of these keys goes through: what does not fit them is found here,
    before any data.
    """
    try:
        mechanism.run(keys, noise=NoNoise()).step(np.zeros(keys.size, np.int64))
    except PenstockError as error:
        _refused(section, error, set(values))
        return False
    return True


def _refused(
    section: Section, error: PenstockError, names: set[str], *, blame: str | None = None
) -> None:
    """Note an error of somebody else's at the key that it names first."""
    message = str(error)
    for word in (blame,) if blame else re.findall(r"[a-z_]+", message):
        inner = next(
            (
                name
                for name, part in section.content.items()
                if isinstance(part, Mapping) and word in part
            ),
            None,
        )
        if word in names and word in section:
            section.wrong(word, message.removeprefix(f"{word} "))
            return
        if inner is not None:
            section.wrong(inner, message.removeprefix(f"{word} "), word)
            return
    section.wrong(None, message)


def _parameters(section: Section, cls: type, *, but: tuple[str, ...]) -> dict[str, Any]:
    """The values in this table of a dataclass's fields, each of the field's type."""
    hints = _hints(cls)
    values = {}
    for each in dataclasses.fields(cls):
        if each.name in section and each.name not in but and section.exactly(each.name):
            values[each.name] = _value(section, each.name, hints.get(each.name, Any))
    return values


def _hints(cls: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls)
    except Exception:  # names that somebody's own module imports for type checkers only
        return {}


def _value(section: Section, name: str, hint: Any) -> Any:
    value = section.take(name)
    union = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
    kinds = set(typing.get_args(hint)) if union else {hint}
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
    values = _parameters(part, cls, but=("method",))
    part.close(*(each.name for each in dataclasses.fields(cls)))
    if part.faulty:
        return None
    try:
        return cls(**values)
    except PenstockError as error:
        _refused(part, error, set(values))
    return None


if not TYPE_CHECKING:
    __getattr__ = moved(__name__)
