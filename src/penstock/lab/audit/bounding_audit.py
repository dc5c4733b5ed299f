"""The bounding audit: what one person changes in the counts, from the source to the bounding.

All other audits begin with counts. They assume that one person changes the counts of a unit by at
most the contribution. This audit tests that. It makes streams of events with and without one
person, writes them in every format, and counts them with the shipped source, units and bounding.
"""

from __future__ import annotations

import secrets
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from penstock.core.exact import whole
from penstock.lab.audit.bounding.counting_run import CountedStream, counted
from penstock.lab.audit.bounding.feeds import FEEDS, FeedKind
from penstock.lab.audit.bounding.naive_counts import Counts, PlacedEvent, naive_counts, placed
from penstock.lab.audit.bounding.single_unit import judged_unit, make_unit
from penstock.lab.audit.bounding.streams import (
    EventCase,
    Random,
    StreamSetting,
    ViewSetting,
    make_case,
    make_large_case,
)
from penstock.lab.audit.bounding.verdict import (
    BoundingVerdict,
    BoundingViolation,
    NearestCase,
    Outcome,
    Sentence,
)

ROUNDS, QUICK_ROUNDS = 120, 30
"""How many pairs of streams an audit tries: about 8 and 2 of every format."""

LARGE_EVERY = 30
"""Of so many rounds, one has very many persons."""

UNITS_PER_ROUND = 3
"""Beside each pair of streams, so many single units are counted without a source."""

MAX_VIOLATIONS = 20
"""An audit ends after so many violations."""


def bounding_audit(
    *,
    seed: int | None = None,
    rounds: int = ROUNDS,
    progress: Callable[[int, int], object] | None = None,
) -> BoundingVerdict:
    """Test that one person changes the counts by no more than the contribution.

    Parameters
    ----------
    seed : int, optional
        The seed. The same seed gives the same streams. Default: a new one.
    rounds : int
        The number of pairs of streams. Default: 120.
    progress : callable, optional
        Called with the number of finished rounds and of all rounds. Default: none.

    >>> verdict = bounding_audit(seed=1, rounds=2)
    >>> verdict.outcome, verdict.exit_code
    ('acquitted', 0)
    """
    whole(rounds, name="rounds", least=1)
    start = time.monotonic()
    seed = secrets.randbits(62) if seed is None else seed
    found = _Findings()
    names = list(FEEDS)
    large = [name for name in names if FEEDS[name].large]
    with tempfile.TemporaryDirectory(prefix="penstock-audit-") as folder:
        for number in range(1, rounds + 1):
            rng = np.random.default_rng([seed, number])
            many = number % LARGE_EVERY == 0
            name = large[number // LARGE_EVERY % len(large)] if many else names[number % len(names)]
            make = make_large_case if many else make_case
            _Round(number, name, FEEDS[name], Path(folder), rng, found).judge(
                make(rng, finite=FEEDS[name].finite)
            )
            _judge_units(number, seed, found)
            if progress is not None:
                progress(number, rounds)
            if len(found.violations) >= MAX_VIOLATIONS:
                break
    return found.verdict(seed=seed, seconds=time.monotonic() - start)


def _judge_units(number: int, seed: int, found: _Findings) -> None:
    """Count single units, of any number of keys and any times, without a source."""
    for place in range(UNITS_PER_ROUND):
        rng = np.random.default_rng([seed, number, place])
        case = make_unit(rng)
        found.units += 1
        found.most_keys = max(found.most_keys, case.keys)
        try:
            broken = list(judged_unit(case, rng))
        except Exception as error:  # whatever the audited code raises is a finding
            found.failures.append(
                ("crashed", f"round {number} (a unit alone): {type(error).__name__}: {error}")
            )
            continue
        found.violations += [
            BoundingViolation(sentence, text, "a unit alone", number, 1, case.contribution)
            for sentence, text in broken
        ]


@dataclass
class _Findings:
    """What all rounds found and tried."""

    violations: list[BoundingViolation] = field(default_factory=list)
    failures: list[tuple[Outcome, str]] = field(default_factory=list)
    rounds: int = 0
    streams: int = 0
    units: int = 0
    events: int = 0
    restarts: int = 0
    longest: int = 0
    most_keys: int = 0
    most_persons: int = 0
    reached: int = 0
    contributions: set[int] = field(default_factory=set)
    sources: Counter[str] = field(default_factory=Counter)
    nearest: NearestCase | None = None

    def verdict(self, *, seed: int, seconds: float) -> BoundingVerdict:
        outcome: Outcome = "acquitted"
        reason = ""
        if self.violations:
            outcome = "convicted"
        elif self.failures:
            outcome, reason = self.failures[0]
        order: list[Sentence] = ["bounded", "one direction", "elsewhere", "own events", "failure"]
        ranked = {name: place for place, name in enumerate(order)}
        return BoundingVerdict(
            outcome,
            tuple(sorted(self.violations, key=lambda each: ranked.get(each.sentence, len(order)))),
            reason,
            self.rounds,
            self.streams,
            self.events,
            self.restarts,
            self.longest,
            self.most_keys,
            self.most_persons,
            tuple(sorted(self.contributions)),
            dict(self.sources),
            self.nearest,
            self.reached,
            seconds,
            seed,
            self.units,
        )

    def note(self, case: EventCase, name: str) -> None:
        """Note what is tried."""
        setting = case.setting
        self.rounds += 1
        self.sources[name] += 1
        self.longest = max(self.longest, setting.units)
        self.most_keys = max(self.most_keys, len(setting.keys))
        self.contributions |= {view.contribution for view in setting.views}
        persons = {str(row.person) for row in case.rows}
        self.most_persons = max(self.most_persons, len(persons))


@dataclass
class _Round:
    """One pair of streams in one format."""

    number: int
    name: str
    kind: FeedKind
    folder: Path
    rng: Random
    found: _Findings
    _runs: int = 0

    def judge(self, case: EventCase) -> None:
        """Count the streams in several ways, and compare."""
        self.found.note(case, self.name)
        without = case.without_person()
        with_person, neighbour = self._counted(case), self._counted(without)
        again = self._counted(case.in_another_order(self.rng), restarts=True)
        if self._failed(with_person, neighbour, case.setting):
            return
        fewer = case.with_fewer_others(self.rng)
        among_fewer, alone = self._counted(fewer), self._counted(fewer.without_person())
        best = False
        for place, view in enumerate(case.setting.views):
            events = placed(case, view)
            here, there = with_person.counts[place], neighbour.counts[place]
            broken = [
                *self._compared(case.setting, place, view, events, here, there),
                *self._own_events(place, view, among_fewer, alone, _less(here, there)),
                *self._same(place, view, "arrival", here, again, "other order, batches, restarts"),
                *self._by_the_rule(case, place, view, events, here),
                *self._by_the_rule(without, place, view, None, there),
            ]
            self.found.violations += broken
            best = best or any(
                sum(map(abs, change)) == view.contribution for change in _less(here, there).values()
            )
        self.found.reached += best

    def _counted(self, case: EventCase, *, restarts: bool = False) -> CountedStream:
        self._runs += 1
        folder = self.folder / f"{self.number}-{self._runs}"
        folder.mkdir()
        choices = np.random.default_rng([self.number, self._runs * restarts])
        result = counted(case, self.kind.make, folder, choices, restarts=restarts)
        self.found.streams += 1
        self.found.events += len(case.rows)
        self.found.restarts += result.restarts
        return result

    def _failed(self, one: CountedStream, other: CountedStream, setting: StreamSetting) -> bool:
        """Whether nothing can be compared. A failure that depends on the person is a violation."""
        if one.failure != other.failure:
            text = f"with the person: {one.failure or 'none'}; without: {other.failure or 'none'}"
            self._broken("failure", text)
        elif one.failure and not (one.foreseen and setting.missing_person == "refuse"):
            outcome: Outcome = "refused" if one.foreseen else "crashed"
            where = f"round {self.number} ({self.name})"
            self.found.failures.append((outcome, f"{where}: {one.failure}"))
        return bool(one.failure or other.failure)

    def _broken(self, sentence: Sentence, text: str) -> None:
        self.found.violations.append(BoundingViolation(sentence, text, self.name, self.number))

    def _violation(
        self, sentence: Sentence, text: str, place: int, view: ViewSetting, units: list[int]
    ) -> BoundingViolation:
        return BoundingViolation(
            sentence, text, self.name, self.number, place + 1, view.contribution, tuple(units)
        )

    def _compared(
        self,
        setting: StreamSetting,
        place: int,
        view: ViewSetting,
        events: list[PlacedEvent],
        here: Counts,
        there: Counts,
    ) -> Iterator[BoundingViolation]:
        """Compare the two neighbours unit by unit."""
        theirs = {event.unit for event in events if event.mine}
        for unit, change in sorted(_less(here, there).items()):
            size = sum(map(abs, change))
            said = f"unit {unit} of view {place + 1}: the counts differ by {size}"
            if size and unit not in theirs:
                text = f"{said}, and the person has no event in it"
                yield self._violation("elsewhere", text, place, view, [unit])
            if size > view.contribution:
                text = f"{said} (contribution: {view.contribution})"
                yield self._violation("bounded", text, place, view, [unit])
            if min(change) < 0 < max(change) or (min(change) < 0 and unit in theirs):
                text = f"{said}, and the person's events make some counts smaller"
                yield self._violation("one direction", text, place, view, [unit])
            spot = self.found.nearest
            nearest = NearestCase(
                size, view.contribution, unit, place + 1, self.number, self.name, setting.words()
            )
            if spot is None or (nearest.share, size) > (spot.share, spot.changed):
                self.found.nearest = nearest

    def _own_events(
        self,
        place: int,
        view: ViewSetting,
        among_fewer: CountedStream,
        alone: CountedStream,
        change: dict[int, tuple[int, ...]],
    ) -> Iterator[BoundingViolation]:
        """The person changes the same counts among fewer people."""
        if among_fewer.failure or alone.failure:
            text = f"with fewer people: {among_fewer.failure or alone.failure}"
            yield self._violation("failure", text, place, view, [])
            return
        other = _less(among_fewer.counts[place], alone.counts[place])
        units = [unit for unit in sorted(change) if change[unit] != other.get(unit)]
        if units:
            text = f"units {units} of view {place + 1}: the person changes other counts when half "
            text += "of the other events are gone"
            yield self._violation("own events", text, place, view, units)

    def _same(
        self,
        place: int,
        view: ViewSetting,
        sentence: Sentence,
        here: Counts,
        again: CountedStream,
        how: str,
    ) -> Iterator[BoundingViolation]:
        if again.failure:
            yield self._violation(sentence, f"{how}: {again.failure}", place, view, [])
            return
        other = again.counts[place]
        units = [unit for unit in sorted({*here, *other}) if here.get(unit) != other.get(unit)]
        if units:
            text = f"units {units} of view {place + 1}: {how} give other counts"
            yield self._violation(sentence, text, place, view, units)

    def _by_the_rule(
        self,
        case: EventCase,
        place: int,
        view: ViewSetting,
        events: list[PlacedEvent] | None,
        here: Counts,
    ) -> Iterator[BoundingViolation]:
        ruled = naive_counts(case, view, events)
        units = [unit for unit in sorted({*here, *ruled}) if here.get(unit) != ruled.get(unit)]
        if units:
            text = f"units {units[:9]} of view {place + 1}: a slow count by the rule differs"
            yield self._violation("rule", text, place, view, units)


def _less(one: Counts, other: Counts) -> dict[int, tuple[int, ...]]:
    """The difference of the counts, unit by unit. A unit that is missing has no counts."""
    size = len(next(iter((*one.values(), *other.values())), ()))
    none = (0,) * size
    return {
        unit: tuple(a - b for a, b in zip(one.get(unit, none), other.get(unit, none), strict=True))
        for unit in sorted({*one, *other})
    }
