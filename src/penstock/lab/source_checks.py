"""What every kind of source must pass: `check_*` functions that take a kind and say what is wrong.

The `trial` of a declaration puts events where a source of that kind finds them. The checks read
them back:

>>> from penstock.private.sources.csv import KIND
>>> check_every_event_is_given_once(KIND, quick=True)
>>> from penstock.lab.checks import title
>>> [title(check) for check in SOURCE_CHECKS][:2]
['The declaration is complete.', 'Every event is given once.']
"""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

from penstock.core.calendar import instant
from penstock.core.declaration import EndpointKind
from penstock.core.errors import ConfigurationError, PenstockError
from penstock.engine.pipeline.endpoints import checked_options
from penstock.lab.checks import CheckError, CheckResult, run_all
from penstock.private.sources.base import (
    Batch,
    Columns,
    Intake,
    Position,
    Receiver,
    Source,
    SourceKind,
    SourceSetup,
    TrialEvent,
)

KEYS: Final = ("north", "south", "west")
MARK: Final = "p4711"
"""The beginning of every person's id: it must not appear in any message."""

INTAKE: Final = Intake(columns=Columns("time", "key", person="person"), domain=list(KEYS))

PATIENCE: Final = 30.0
"""Seconds that a source which waits for a broker has to give all events."""

_Row = tuple[int, str, str]


def run_source_checks(
    kind: SourceKind,
    *,
    quick: bool = False,
    progress: Callable[[str, CheckResult | None], object] | None = None,
) -> list[CheckResult]:
    """Run every check on a kind of source.

    Parameters
    ----------
    kind : SourceKind
        The declaration. Its `trial` puts events where the source finds them.
    quick : bool
        Fewer events (default: False).
    progress : callable, optional
        Is told each check's name when it begins, with None, and again with its result.

    Returns
    -------
    list of CheckResult
        One per check, in order.
    """
    return run_all(SOURCE_CHECKS, kind, quick=quick, progress=progress)


# -- the checks ------------------------------------------------------------------------------------


def check_the_declaration_is_complete(kind: EndpointKind, *, quick: bool = False) -> None:
    """The declaration is complete.

    Name, summary and the help of every option are there. Every option has an example or a default.
    The example of all required options is accepted, and described by a phrase.
    """
    if not kind.name or not kind.summary.endswith("."):
        raise CheckError("a kind must have a name, and a summary that is a sentence.")
    for option in kind.options:
        if not option.help or option.help.endswith("."):
            raise CheckError(f"option {option.name}: help must be a phrase without a full stop.")
        if option.shown is None:
            raise CheckError(f"option {option.name}: an example is missing.")
    needed = {each.keys[0]: each.shown for each in kind.options if each.required and not each.when}
    try:
        options = checked_options(kind, needed)
    except ConfigurationError as error:
        raise CheckError(f"the examples of its required options are refused: {error}") from error
    if not isinstance(kind.describe(options), str) or not kind.describe(options):
        raise CheckError("describe must return a phrase.")
    if isinstance(kind, SourceKind):
        for until in (False, True):
            if not isinstance(kind.finite(options, until), bool):
                raise CheckError("finite must return True or False.")


def check_every_event_is_given_once(kind: SourceKind, *, quick: bool = False) -> None:
    """Every event is given once.

    All events of three parts come out with their time, key and person, none lost, none twice.
    """
    with _trial(kind) as trial:
        written = trial.write(*_parts(quick))
        with trial.opened() as source:
            found = _rows(_batches(source, None, len(written)))
            again = source.rejections.for_operator()
        _same(found, written, "after one reading")
        if again:
            raise CheckError(f"good events were rejected: {again}.")


def check_it_resumes_from_every_position(kind: SourceKind, *, quick: bool = False) -> None:
    """It resumes from every position without loss or repetition.

    For every batch: a new source, asked for what follows the position of that batch, gives exactly
    the rest. A source that is not resumable gives no positions.
    """
    with _trial(kind) as trial:
        written = trial.write(*_parts(quick))
        with trial.opened() as source:
            batches = _batches(source, None, len(written))
            resumable = source.resumable
        positions = [batch.position for batch in batches]
        if not resumable:
            if any(position is not None for position in positions):
                raise CheckError("it is not resumable, and yet its batches have positions.")
            return
        for place, position in enumerate(positions):
            if position is None:
                raise CheckError("it is resumable, and yet a batch has no position.")
            rest = _rows(batches[place + 1 :])
            with trial.opened() as source:
                found = _rows(_batches(source, _copied(position), len(rest)))
            _same(found, rest, f"after the position of batch {place + 1} of {len(batches)}")


def check_positions_are_plain_data(kind: SourceKind, *, quick: bool = False) -> None:
    """Positions are plain data.

    JSON can write a position and read it back. Each value is a text or a whole number.
    """
    with _trial(kind) as trial:
        written = trial.write(*_parts(quick))
        with trial.opened() as source:
            for batch in _batches(source, None, len(written)):
                position = batch.position
                if position is None:
                    continue
                values = position.values()
                if any(
                    isinstance(each, bool) or not isinstance(each, (str, int)) for each in values
                ):
                    raise CheckError("a position must hold texts and whole numbers only.")
                if _copied(position) != dict(position):
                    raise CheckError("JSON does not give back the position that it was given.")


def check_a_foreign_position_is_refused(kind: SourceKind, *, quick: bool = False) -> None:
    """A position of another source is refused.

    Reading from the beginning instead would count events twice.
    """
    with _trial(kind) as trial:
        trial.write(_events(4, 0))
        with trial.opened() as source:
            try:
                found = list(source.batches({"nobody's": 1}))
            except PenstockError:
                return
    raise CheckError(f"a position of another source gave {len(found)} batches and no error.")


def check_bad_events_are_rejected_alone(kind: SourceKind, *, quick: bool = False) -> None:
    """A bad event is rejected alone.

    Among good events, one has no time and one an unknown key. All others are given; the two are
    counted as rejections.
    """
    good = _events(6, 0)
    bad = (TrialEvent("soon", "north", f"{MARK}a"), TrialEvent(good[0].time, "nowhere", MARK))
    with _trial(kind) as trial:
        trial.write([good[0], bad[0], *good[1:4], bad[1], *good[4:]])
        with trial.opened() as source:
            found = _rows(_batches(source, None, len(good)))
            rejected = sum(source.rejections.for_operator().values())
    _same(found, [_row(event) for event in good], "with two bad events among them")
    if rejected != len(bad):
        raise CheckError(f"{len(bad)} events were bad, and {rejected} were counted as rejected.")


def check_an_empty_input_gives_nothing(kind: SourceKind, *, quick: bool = False) -> None:
    """An empty input gives nothing, and no error."""
    with _trial(kind) as trial:
        trial.write([])
        with trial.opened() as source:
            found = _rows(list(source.batches()))
    if found:
        raise CheckError(f"an empty input gave {len(found)} events.")


def check_messages_show_no_data(kind: SourceKind, *, quick: bool = False) -> None:
    """Messages and representations show no data.

    Neither the source nor its batches, rejections, notes and problems show a person.
    """
    bad = TrialEvent("soon", "north", f"{MARK}b")
    with _trial(kind) as trial:
        trial.write([*_events(4, 0), bad])
        with trial.opened() as source:
            batches = _batches(source, None, 4)
            texts = [repr(source), repr(source.rejections), source.problem, *source.notes()]
            texts += [repr(batch) for batch in batches]
            texts += [repr(dict(batch.position or {})) for batch in batches]
    if any(MARK in text for text in texts):
        raise CheckError("the id of a person appears in a message, a representation or a position.")


SOURCE_CHECKS: Final[tuple[Callable[..., None], ...]] = (
    check_the_declaration_is_complete,
    check_every_event_is_given_once,
    check_it_resumes_from_every_position,
    check_positions_are_plain_data,
    check_a_foreign_position_is_refused,
    check_bad_events_are_rejected_alone,
    check_an_empty_input_gives_nothing,
    check_messages_show_no_data,
)


# -- what they share -------------------------------------------------------------------------------


class _SourceTrial:
    """A folder in which a kind is tried."""

    def __init__(self, kind: SourceKind, folder: Path) -> None:
        if kind.trial is None:
            raise CheckError(
                f"the declaration of {kind.name!r} has no trial, which puts events where its "
                "sources find them: write one, as docs/how-to/add-a-source.md shows."
            )
        self._put = kind.trial
        self._kind = kind
        self._folder = folder
        self._options: Mapping[str, Any] = {}

    def write(self, *parts: Sequence[TrialEvent]) -> list[_Row]:
        """Put events there, part by part; what must be read of them."""
        for number, events in enumerate(parts, start=1):
            self._options = self._put(self._folder, number, events)
        return [_row(event) for events in parts for event in events if event.time != "soon"]

    @contextmanager
    def opened(self) -> Iterator[Source]:
        """A new source on what is there."""
        options = checked_options(self._kind, self._options)
        finite = self._kind.finite(options, True)
        source = self._kind.build(
            SourceSetup(options=options, folder=self._folder, intake=INTAKE, finite=finite)
        )
        if not isinstance(source, Receiver):
            yield source
            return
        source.open({})
        try:
            yield source
        finally:
            source.close()


@contextmanager
def _trial(kind: SourceKind) -> Iterator[_SourceTrial]:
    with tempfile.TemporaryDirectory() as folder:
        yield _SourceTrial(kind, Path(folder))


def _batches(source: Source, after: Position | None, least: int) -> list[Batch]:
    """All batches after a position. A source that waits for a broker is asked again until it has
    given `least` events.
    """
    found = list(source.batches(after))
    deadline = time.monotonic() + PATIENCE
    while isinstance(source, Receiver) and sum(map(len, found)) < least:
        if time.monotonic() > deadline:
            break
        source.wait(0.5)
        last = found[-1].position if found else after
        found += source.batches(last)
    return found


def _parts(quick: bool) -> list[list[TrialEvent]]:
    size = 5 if quick else 500
    return [_events(size, part * size) for part in range(3)]


def _events(count: int, first: int) -> list[TrialEvent]:
    """Made-up events: one per second, each of another person."""
    return [
        TrialEvent(
            f"2026-01-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z",
            KEYS[number % len(KEYS)],
            f"{MARK}{number}",
        )
        for number in range(first, first + count)
    ]


def _row(event: TrialEvent) -> _Row:
    return instant(event.time), event.key, event.person


def _rows(batches: Iterable[Batch]) -> list[_Row]:
    rows: list[_Row] = []
    for batch in batches:
        people: Any = batch.person
        names = people.tolist() if isinstance(people, np.ndarray) else people.to_pylist()
        keys = (KEYS[code] for code in batch.key.tolist())
        rows += zip(batch.time.tolist(), keys, map(str, names), strict=True)
    return rows


def _same(found: Sequence[_Row], wanted: Sequence[_Row], where: str) -> None:
    if list(found) == list(wanted):
        return
    lost = (Counter(wanted) - Counter(found)).total()
    more = (Counter(found) - Counter(wanted)).total()
    said = f"{lost} events are lost and {more} too many" if lost or more else "the order is another"
    raise CheckError(f"{where}: {said}, of {len(wanted)}.")


def _copied(position: Position) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(dict(position)))
    return found
