"""A series: the releases of one view, as the store, sinks and readers know them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from penstock.core.calendar import Calendar
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.core.guarantee import Guarantee
from penstock.core.promise_gaps import EACH_ALONE, PromiseGap, promise_gaps
from penstock.core.released import Released
from penstock.released import encoding

MISSING_PERSON = "source.missing_person"
"""The fact that says that events without a person count, each as a person of its own."""


class PublishingRun(Protocol):
    """The public side of a run: all that a series and a log need to know of it."""

    @property
    def mechanism(self) -> Any: ...
    @property
    def released(self) -> Domain: ...
    @property
    def guarantee(self) -> Guarantee: ...
    @property
    def last(self) -> Released | None: ...


@dataclass(frozen=True)
class StreamFacts:
    """The declaration of the stream that a series belongs to, read from the series' facts.

    >>> facts = StreamFacts({"stream.name": "taps", "view.daily.times": "2"})
    >>> facts.views, facts.times("daily"), facts.share("daily")
    (('daily',), 2, None)
    """

    facts: Mapping[str, str]

    @property
    def name(self) -> str | None:
        """The stream's name; None if nothing was declared."""
        return self.facts.get("stream.name")

    @property
    def every(self) -> str | None:
        """The length of the stream's own units, the shortest of all views."""
        return self.facts.get("stream.every")

    @property
    def counts_alone(self) -> bool:
        """Whether an event without a person's id counts as a person of its own."""
        return self.facts.get(MISSING_PERSON) == "each"

    @property
    def has_persons(self) -> bool:
        """Whether events name their person. A series without a declaration is taken to."""
        return self.facts.get("source.person") != ""

    @cached_property
    def views(self) -> tuple[str, ...]:
        """The names of the declared views, whether or not the store has them."""
        names = []
        for fact in self.facts:
            section, _, rest = fact.partition(".")
            view, _, parameter = rest.rpartition(".")
            if section == "view" and parameter == "times":
                names.append(view)
        return tuple(names)

    def share(self, view: str) -> str | None:
        """The part of the promise that a view may spend."""
        return self.facts.get(f"view.{view}.share")

    def times(self, view: str) -> int | None:
        """How often the cost of a view counts in the joint ledger; None if it is not declared."""
        try:
            return int(self.facts[f"view.{view}.times"])
        except (KeyError, ValueError):
            return None

    def guarantee(self, contribution: int) -> Guarantee:
        """The promise for all views together, in the stream's units.

        A `KeyError` or `ValueError` if the facts do not declare it.
        """
        horizon = self.facts["privacy.horizon"]
        return Guarantee(
            self.facts["privacy.epsilon"],
            int(self.facts["privacy.window"]),
            contribution,
            horizon=int(horizon) if horizon else None,
        )


@dataclass(frozen=True, kw_only=True)
class Series:
    """What the releases of one view are about. All of it is public and never changes.

    Parameters
    ----------
    name : str
        The name of the series: that of its stream, or STREAM/VIEW.
    domain : Domain
        The keys, in the order of the released numbers.
    guarantee : Guarantee
        The promise of this series alone.
    mechanism : str
        The name of its mechanism. Default: "", unknown.
    configuration : Mapping[str, str]
        The mechanism's public parameters, as text. Default: none.
    calendar : Calendar, optional
        When its units begin and end. Default: None, its units have no times.
    facts : Mapping[str, str]
        What else may not change from one start to the next: see `Pipeline.facts`. Default: none.

    >>> from penstock import Laplace
    >>> Series.of(Laplace(epsilon="1").run(["north", "south"]), name="visits")
    <Series 'visits': laplace over 2 keys, Guarantee(epsilon=1, window=1)>
    """

    name: str
    domain: Domain
    guarantee: Guarantee
    mechanism: str = ""
    configuration: Mapping[str, str] = field(default_factory=dict)
    calendar: Calendar | None = None
    facts: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.name.strip() or not self.name.isprintable():
            raise ConfigurationError(
                f"name must be printable text, not {self.name!r}.",
                parameter="name",
            )

    @classmethod
    def of(
        cls,
        run: PublishingRun,
        *,
        name: str,
        calendar: Calendar | None = None,
        facts: Mapping[str, str] | None = None,
    ) -> Series:
        """The series that this run publishes."""
        configuration = {key: str(value) for key, value in run.mechanism.configuration().items()}
        return cls(
            name=name,
            domain=run.released,
            guarantee=run.guarantee,
            mechanism=run.mechanism.name,
            configuration=configuration,
            calendar=calendar,
            facts=facts or {},
        )

    def __repr__(self) -> str:
        what = f"{self.mechanism or 'releases'} over {self.domain.size} keys"
        return f"<Series {self.name!r}: {what}, {self.guarantee}>"

    @property
    def stream(self) -> StreamFacts:
        """The declaration of its stream."""
        return StreamFacts(self.facts)

    @property
    def stream_guarantee(self) -> Guarantee:
        """The promise for all views of its stream together, in the stream's units.

        It is the series' own promise where the stream has one view only.
        """
        if len(self.stream.views) < 2:
            return self.guarantee
        return self.stream.guarantee(self.guarantee.contribution)

    @property
    def stream_promise(self) -> str:
        """The promise of its stream in words, without what holds for one of several views only."""
        promise = self.stream_guarantee
        several = len(self.stream.views) > 1
        words = promise.clauses.protection if several else promise.in_words()
        return f"{words} {EACH_ALONE}" if self.stream.counts_alone else words

    @property
    def promise(self) -> str:
        """The promise of its stream, in words."""
        promise = self.stream_promise
        if len(self.stream.views) < 2:
            return promise
        name, every = self.stream.name or self.name, self.stream.every or ""
        view = self.name.removeprefix(f"{name}/")
        share = self.stream.share(view) or "a part"
        return (
            f"{promise} Units are of {every}, and that is for all views of {name!r} together; "
            f"this one has {share} of it."
        )

    @property
    def not_protected(self) -> tuple[PromiseGap, ...]:
        """What the promise of its stream does not protect."""
        stream = self.stream
        return promise_gaps(
            self.stream_guarantee, persons=stream.has_persons, counts_alone=stream.counts_alone
        )

    @cached_property
    def about(self) -> str:
        """All of it as one text: equal series have equal texts. The hash chain begins with it."""
        content: dict[str, Any] = {
            "name": self.name,
            "domain": encoding.plain_domain(self.domain),
            "guarantee": encoding.plain_guarantee(self.guarantee),
            "mechanism": self.mechanism,
            "configuration": dict(self.configuration),
            "calendar": self.calendar
            and [self.calendar.every, self.calendar.zone, str(self.calendar.origin)],
            "facts": dict(self.facts),
        }
        return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def read(cls, about: str) -> Series:
        """The series of a text.

        A `ValueError`, `KeyError`, `TypeError` or `AttributeError` if it is no such text.
        """
        content = json.loads(about)
        content["domain"] = encoding.rich_domain(content["domain"])
        content["guarantee"] = encoding.rich_guarantee(content["guarantee"])
        if content["calendar"] is not None:
            every, zone, origin = content["calendar"]
            content["calendar"] = Calendar(every=every, zone=zone, origin=origin)
        return cls(**content)

    def differences(self, other: Series) -> tuple[str, ...]:
        """The names of all parameters and facts in which the two differ."""
        names = [
            name
            for name in ("domain", "guarantee", "mechanism", "calendar")
            if getattr(self, name) != getattr(other, name)
        ]
        for here, there in ((self.configuration, other.configuration), (self.facts, other.facts)):
            names += sorted(
                name for name in here.keys() | there.keys() if here.get(name) != there.get(name)
            )
        return tuple(dict.fromkeys(names))
