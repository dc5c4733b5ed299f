"""`RemoteReader`: the public part of a store, read through a service and checked on the way."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final, Self

import msgspec

from penstock.budget.ledger import Line
from penstock.client.live_events import head_of
from penstock.client.service_connection import ServiceConnection
from penstock.core.errors import ConfigurationError, InputError, LedgerError, StateError
from penstock.core.nearest_name import nearest_names
from penstock.core.released import Released
from penstock.engine import history
from penstock.engine.chain import Head, after_line, after_release, beginning
from penstock.engine.history import History, UnitHistory
from penstock.engine.sealing import Key
from penstock.engine.signing import PublicKey
from penstock.engine.sql_store.verification import check_past, verify_chain
from penstock.engine.store import Lease, VerifiedLedger
from penstock.released import encoding
from penstock.released.alerting import AlertEvent, RuleProgress
from penstock.released.series import Series

HEAD_SECONDS: Final = 1.0
"""How long the newest unit is remembered before the service is asked again."""

MAX_BYTES_KEPT: Final = 256_000_000
"""About the most bytes of units that are kept in memory, those that were used last."""

UNITS_AT_ONCE: Final = 1_024
"""The most units that are read before some of them are handed out."""

UNITS_AROUND: Final = 64
"""Units are asked for in portions of so many, so that reading one by one needs few requests."""


class RemoteReader:
    """Read-only access to what a service publishes: a `Reader` whose store is elsewhere.

    Units are kept in memory. Every unit that arrives must continue the hash chain, and must fit
    every link that was seen before. So a service cannot change a unit unnoticed while one looks.

    Parameters
    ----------
    connection : ServiceConnection
        The service. The reader closes it.
    """

    def __init__(self, connection: ServiceConnection) -> None:
        self.name = connection.url
        self.connection = connection
        self._lock = threading.RLock()
        self._series: dict[str, Series] = {}
        self._heads: dict[str, tuple[float, Head]] = {}
        self._links: dict[tuple[str, int], bytes] = {}
        self._units: OrderedDict[tuple[str, int], UnitHistory] = OrderedDict()
        self._bytes = 0
        self._ahead: dict[str, tuple[int, int]] = {}
        """The last unit that was fetched of each series, and how many were asked for."""

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the content -------------------------------------------------------------------------------

    @cached_property
    def series_names(self) -> tuple[str, ...]:
        """The names of all series."""
        found = self.connection.json("streams")
        try:
            return tuple(sorted(str(each["name"]) for each in found["streams"]))
        except (KeyError, TypeError):
            raise self._odd() from None

    def series(self, name: str) -> Series:
        """A series by its name."""
        if name not in self._series:
            about = self.about(name)
            try:
                self._series[name] = Series.read(about)
            except (ValueError, KeyError, TypeError, AttributeError):
                raise self._odd() from None
        return self._series[name]

    def about(self, name: str) -> str:
        """The text that describes a series."""
        names = self.series_names
        if name not in names:
            there = f" It has {', '.join(map(repr, names[:20]))}." if names else " It has none yet."
            raise ConfigurationError(
                f"stream: there is no stream {name!r} at {self.name}."
                f"{nearest_names(name, names) or there}",
                parameter="stream",
            )
        try:
            return self.connection.get("streams", name, "about").decode()
        except UnicodeDecodeError:
            raise self._odd() from None

    def head(self, series: str) -> Head:
        """The newest unit and the link after it, as it was at most a second ago."""
        with self._lock:
            asked, known = self._heads.get(series, (0.0, None))
            if known is None or time.monotonic() - asked > HEAD_SECONDS:
                known = self.refresh(series)
            return known

    def refresh(self, series: str) -> Head:
        """Ask for the newest unit now.

        Parameters
        ----------
        series : str
            The name of the series.
        """
        self.series(series)
        with self._lock:  # so that no live event comes between request and answer
            found = self.connection.json("streams", series, "ledger", "head")
            try:
                head = head_of(found)
            except (ValueError, KeyError, TypeError):
                raise self._odd() from None
            _, known = self._heads.get(series, (0.0, None))
            if known is not None and head.unit < known.unit:
                raise StateError(
                    f"{self.name} has an older history of {series!r} than before: it ends with "
                    f"unit {head.unit}, and unit {known.unit} was seen. It was restored from a "
                    "backup, or is another service."
                )
            self._note(series, head.unit, head.link)
            self._heads[series] = (time.monotonic(), head)
        return head

    def hear(self, series: str, head: Head) -> None:
        """Take the head of a live event. One that contradicts what was seen before is refused.

        Live events come one after the other, so newer units may be known already.

        Parameters
        ----------
        series : str
            The name of the series.
        head : Head
            The head.
        """
        with self._lock:
            self._note(series, head.unit, head.link)
            _, known = self._heads.get(series, (0.0, None))
            if known is None or head.unit >= known.unit:
                self._heads[series] = (time.monotonic(), head)

    def at(self, series: str, unit: int) -> Head:
        """The link after a released unit; unit 0 is the beginning."""
        if not unit:
            return Head(0, beginning(self.series(series).about))
        newest = self.head(series).unit
        if not 1 <= unit <= newest:
            raise InputError(f"unit {unit} is not in {series!r}: it has units 1..{newest}.")
        (found,) = self._read(series, unit, unit)
        return Head(unit, found.link, found.signature)

    def releases(self, series: str, first: int = 1, last: int | None = None) -> Iterator[Released]:
        """The releases of these units, one after the other."""
        guarantee = self.series(series).guarantee
        decoded: Released | None = None
        for start, end in self._portions(series, first, last):
            for each in self._read(series, start, end):
                try:
                    if decoded is None or decoded.unit != each.body_of:
                        body = self._body(series, each)
                        decoded = encoding.release_of(each.body_of, body, guarantee)
                    yield encoding.flagged(decoded, each.unit, each.flags)
                except (msgspec.DecodeError, KeyError, TypeError, ArithmeticError) as error:
                    raise StateError(
                        f"{self.name}: unit {each.unit} of {series!r} cannot be read: "
                        f"{type(error).__name__}."
                    ) from None

    def lines(self, series: str, first: int = 1, last: int | None = None) -> Iterator[Line]:
        """The ledger lines of these units, in order."""
        for start, end in self._portions(series, first, last):
            for each in self._read(series, start, end):
                yield from _lines(each)

    def lease(self, series: str) -> Lease | None:
        """None: a service does not say who publishes."""

    def marks(self, series: str) -> dict[str, int]:
        """Nothing: a service does not say what sinks have."""
        return {}

    def alert_rules(self, series: str) -> tuple[RuleProgress, ...]:
        """Nothing: how far a rule has come is known where alerts are raised."""
        return ()

    def alerts(
        self,
        series: str,
        first: int = 1,
        last: int | None = None,
        *,
        rule: str | None = None,
        key: str | None = None,
        limit: int | None = None,
    ) -> list[AlertEvent]:
        """Nothing: the API of the service has the alerts that were raised."""
        return []

    def verify(
        self,
        series: str,
        *,
        head: Head | None = None,
        public_key: PublicKey | None = None,
        key: Key | None = None,
    ) -> VerifiedLedger:
        """Recompute every link and the cost of every window: see `Reader.verify`."""
        self.refresh(series)
        found = verify_chain(self, series, public_key=public_key, key=key)
        if head is not None:
            self.check_past(series, head, "the head that was noted")
        return found

    def check_past(self, series: str, head: Head, whose: str) -> None:
        """Refuse a head that this service never had, by a `StateError`."""
        check_past(self, self.series(series), head, whose)

    def waiting_head(self, series: str, key: Key | None) -> Head | None:
        """None: a service sees no unit that waits."""

    def strays(self) -> tuple[str, ...]:
        """Nothing: a service hands out units of its series only."""
        return ()

    # -- rows, for verification --------------------------------------------------------------------

    def line_rows(self, series: str, first: int, last: int) -> list[Any]:
        """Unit, place, kind, label, amount, number, run and link of each ledger line."""
        return [
            (each.unit, line.place, *_amounts(line), line.link)
            for each in self._read(series, first, last)
            for line in each.lines
        ]

    def release_rows(self, series: str, first: int, last: int) -> dict[int, Any]:
        """By unit: body_of, flags, digest, link, mac and signature."""
        return {
            each.unit: (
                each.body_of,
                each.flags,
                each.digest,
                each.link,
                each.mac,
                each.signature,
            )
            for each in self._read(series, first, last)
        }

    def own_body(self, series: str, unit: int) -> bytes | None:
        """The body that was stored with a unit; None if it repeats an earlier one."""
        (found,) = self._read(series, unit, unit)
        return found.body

    def next_unit(self, series: str, unit: int) -> int:
        """The unit after this one: a service leaves none out."""
        return unit + 1

    # -- inside ------------------------------------------------------------------------------------

    def _portions(self, series: str, first: int, last: int | None) -> Iterator[tuple[int, int]]:
        newest = self.head(series).unit
        end = newest if last is None else last
        if first > end:
            return
        if first < 1 or end > newest:
            raise InputError(
                f"units {first}..{end} are not all in {series!r}: it has units 1..{newest}."
            )
        for start in range(first, end + 1, UNITS_AT_ONCE):
            yield start, min(start + UNITS_AT_ONCE - 1, end)

    def _body(self, series: str, unit: UnitHistory) -> bytes:
        """The body of a unit, which may be that of an earlier one."""
        if unit.body is not None:
            return unit.body
        (found,) = self._read(series, unit.body_of, unit.body_of)
        if found.body is None or found.digest != unit.digest:
            raise self._broken(series, unit.unit)
        return found.body

    def _read(self, series: str, first: int, last: int) -> list[UnitHistory]:
        """These units, from memory or from the service."""
        found = list[UnitHistory]()
        with self._lock:
            while first + len(found) <= last:
                unit = first + len(found)
                known = self._units.get((series, unit))
                if known is not None:
                    self._units.move_to_end((series, unit))
                    found.append(known)
                    continue
                fresh = self._fetch(series, unit, last)
                found += [each for each in fresh if unit <= each.unit <= last]
        return found

    def _fetch(self, series: str, first: int, last: int) -> list[UnitHistory]:
        """Ask for units from this one on, and for some around it; check and keep them."""
        after, ahead = (first - 1) // UNITS_AROUND * UNITS_AROUND, UNITS_AROUND
        if (series, first - 1) in self._units:
            after = first - 1
        end, asked = self._ahead.get(series, (-1, 0))
        if after == end:  # somebody reads on and on: ask for more and more at once
            ahead = min(4 * asked, history.MAX_UNITS)
        limit = min(max(-(-last // UNITS_AROUND) * UNITS_AROUND - after, ahead), history.MAX_UNITS)
        content = self.connection.get("streams", series, "history", after=after, limit=limit)
        reply = history.read(content)
        numbers = [each.unit for each in reply.units]
        if (
            reply.series != series
            or not numbers
            or numbers != list(range(after + 1, after + 1 + len(numbers)))
        ):
            raise self._odd()
        self._check(series, after, reply)
        for each in reply.units:
            self._keep(series, each)
        self._ahead[series] = (numbers[-1], limit)
        if numbers[-1] < first:  # the portion was cut before the unit that is wanted
            return self._fetch(series, first, last)
        return reply.units

    def _check(self, series: str, after: int, reply: History) -> None:
        """Follow the chain through these units, and compare it with links that are known."""
        link = beginning(self.series(series).about) if not after else reply.before
        self._note(series, after, link)
        if link != reply.before:
            raise self._broken(series, after + 1)
        for each in reply.units:
            try:
                for line, stored in zip(_lines(each), each.lines, strict=True):
                    link = after_line(link, line)
                    if link != stored.link:
                        raise ValueError
                link = after_release(link, each.unit, each.flags, each.digest)
                own = each.body is None or (
                    each.body_of == each.unit and hashlib.sha256(each.body).digest() == each.digest
                )
                if link != each.link or not own or not 1 <= each.body_of <= each.unit:
                    raise ValueError
            except (ValueError, TypeError, OverflowError):
                raise self._broken(series, each.unit) from None
            self._note(series, each.unit, link)

    def _note(self, series: str, unit: int, link: bytes) -> None:
        """Remember a link. A link that was another one before is refused."""
        if self._links.setdefault((series, unit), link) != link:
            raise self._broken(series, unit)

    def _keep(self, series: str, unit: UnitHistory) -> None:
        place = (series, unit.unit)
        if place in self._units:
            return
        self._units[place] = unit
        self._bytes += unit.size
        while self._bytes > MAX_BYTES_KEPT and len(self._units) > UNITS_AROUND:
            _, oldest = self._units.popitem(last=False)
            self._bytes -= oldest.size

    def _broken(self, series: str, unit: int) -> LedgerError:
        return LedgerError(
            f"series {series!r}: unit {unit} of {self.name} does not continue the chain of the "
            "units before it, or is not what it was before."
        )

    def _odd(self) -> StateError:
        return StateError(f"{self.name} does not answer like a read service of Penstock.")


def _amounts(line: history.HistoryLine) -> tuple[Any, ...]:
    return line.kind, line.label, line.amount, line.number, line.run


def _lines(unit: UnitHistory) -> list[Line]:
    return [Line(unit.unit, *_amounts(line)) for line in unit.lines]
