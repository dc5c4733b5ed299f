"""The hash chain of a series, followed from its beginning to its head."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol

from penstock.budget.accountant import account
from penstock.budget.grid import promised
from penstock.budget.ledger import Line
from penstock.core.errors import InputError, LedgerError, StateError
from penstock.engine.chain import Head, after_line, after_release, beginning, head_message
from penstock.engine.sealing import Key
from penstock.engine.signing import PublicKey, named_key
from penstock.engine.sql_store.schema import UNITS_PER_READ
from penstock.engine.sql_store.sealed_state import check_state
from penstock.engine.store import VerifiedLedger
from penstock.released.series import Series

if TYPE_CHECKING:
    from penstock.engine.sql_store.reader import SqlReader

_MAX_UNITS_NAMED = 5
"""The most stray units that a message names."""


class ChainRows(Protocol):
    """What stands in the chain of each series, from a store or from a service: see `SqlReader`."""

    name: str
    """The name of the store or service in messages."""

    def series(self, name: str, /) -> Series: ...
    def about(self, name: str, /) -> str: ...
    def head(self, series: str, /) -> Head: ...
    def at(self, series: str, unit: int, /) -> Head: ...
    def line_rows(self, series: str, first: int, last: int, /) -> list[Any]: ...
    def release_rows(self, series: str, first: int, last: int, /) -> dict[int, Any]: ...
    def own_body(self, series: str, unit: int, /) -> bytes | None: ...
    def next_unit(self, series: str, unit: int, /) -> int: ...


def verify(
    reader: SqlReader,
    name: str,
    *,
    head: Head | None = None,
    public_key: PublicKey | None = None,
    key: Key | None = None,
) -> VerifiedLedger:
    """Recompute every link and the cost of every window of a series: see `Reader.verify`."""
    found = verify_chain(reader, name, public_key=public_key, key=key)
    _check_strays(reader, name, found.head.unit)
    if key is not None:
        check_state(reader, name, key)
    if head is not None:
        check_past(reader, reader.series(name), head, "the head that was noted")
    return found


def verify_chain(
    reader: ChainRows, name: str, *, public_key: PublicKey | None = None, key: Key | None = None
) -> VerifiedLedger:
    """Recompute every link and the cost of every window, from the rows of the chain alone."""
    series, newest = reader.series(name), reader.head(name)
    if series.about != reader.about(name) or series.name != name:
        raise LedgerError(f"series {name!r}: its description is not what was committed.")
    proofs, counted = _Proofs(name, public_key, key), 0

    def lines() -> Iterator[Line]:
        nonlocal counted
        for (unit, _, _, _, link, _, mac, signature), rows in verified_units(
            reader, series, newest
        ):
            proofs.check(Head(unit, link, signature), mac)
            counted += len(rows)
            for of, _, kind, label, amount, number, run, _ in rows:
                yield Line(of, kind, label, amount, number, run)

    found = account(lines(), series.guarantee, units=newest.unit)
    proofs.check_newest(newest)
    if not found.kept:
        limit = promised(series.guarantee).amount
        raise LedgerError(f"series {name!r}: a window cost {found.worst}, above {limit}.")
    return VerifiedLedger(
        head=newest,
        account=found,
        links=counted + newest.unit,
        signed_from=proofs.signed_from,
        signed_by=proofs.signed_by,
        keyed_from=proofs.keyed_from,
    )


class _Proofs:
    """Follows the keyed links and signatures of a series: once begun, no unit may lack its own."""

    def __init__(self, series: str, public_key: PublicKey | None, key: Key | None) -> None:
        self.signed_from: int | None = None
        self.keyed_from: int | None = None
        self.signed_by = public_key
        self._series = series
        self._trusted = public_key is not None
        self._key = key

    def check(self, head: Head, mac: bytes | None) -> None:
        """Check what the next unit has. A signature that nobody vouches for is checked with the
        key that it names.
        """
        where = f"series {self._series!r}: unit {head.unit}"
        if mac is not None:
            self.keyed_from = self.keyed_from or head.unit
            check_mac(self._series, head, mac, self._key)
        elif self.keyed_from is not None:
            raise LedgerError(
                f"{where} has no keyed link, and units from {self.keyed_from} on have one."
            )
        if head.signature is not None:
            self.signed_from = self.signed_from or head.unit
            self.signed_by = self.signed_by or named_key(self._series, head)
            self.signed_by.check(self._series, head)
        elif self.signed_from is not None:
            raise LedgerError(f"{where} is not signed, and units from {self.signed_from} on are.")

    def check_newest(self, head: Head) -> None:
        """Refuse a newest unit without a signature, where a public key was given."""
        if self._trusted and head.unit and self.signed_from is None:
            raise LedgerError(
                f"series {self._series!r}: unit {head.unit}, the newest one, is not signed."
            )


def check_mac(series: str, head: Head, mac: bytes, key: Key | None) -> None:
    """Refuse a keyed link that was not made with this key; without a key, nothing is checked."""
    if key is not None and mac != key.authenticate(head_message(series, head)):
        raise LedgerError(
            f"series {series!r}: the keyed link of unit {head.unit} was not made with the key of "
            "this store. The history was rewritten, or the key is another one."
        )


def verified_units(
    reader: ChainRows, series: Series, newest: Head, after: Head | None = None
) -> Iterator[tuple[Any, list[Any]]]:
    """Each unit's row of `releases` and rows of `lines`, without the name of the series.

    The first whose link is wrong is a `LedgerError`. `after` is where to begin, if everything up
    to it was verified before.
    """
    name = series.name
    link, body_of, digest = beginning(series.about), 0, b""
    first = 1
    if after is not None and after.unit:
        link, first = after.link, after.unit + 1
        body_of, _, digest, *_ = reader.release_rows(name, after.unit, after.unit)[after.unit]
    for start in range(first, newest.unit + 1, UNITS_PER_READ):
        end = min(start + UNITS_PER_READ - 1, newest.unit)
        rows = groupby(reader.line_rows(name, start, end), key=lambda row: row[0])
        lines_of = {unit: list(lines) for unit, lines in rows}
        releases = reader.release_rows(name, start, end)
        for unit in range(start, end + 1):
            lines = lines_of.get(unit, [])
            link = _after_lines(link, name, unit, lines)
            body = reader.own_body(name, unit)
            if unit not in releases:
                raise LedgerError(f"series {name!r}: {_gap(reader, name, unit)} missing.")
            with _damaged(
                f"series {name!r}: the release of unit {unit} is not what was committed, or a "
                "line is missing."
            ):
                stored_body_of, flags, stored_digest, stored_link, mac, sign = releases[unit]
                if body is not None:
                    body_of, digest = unit, hashlib.sha256(body).digest()
                link = after_release(link, unit, flags, digest)
                _same((body_of, digest, link), (stored_body_of, stored_digest, stored_link))
            yield (unit, body_of, flags, digest, link, body, mac, sign), lines
    with _damaged(f"series {name!r}: its head is not what was committed."):
        _same(link, newest.link)


def _after_lines(link: bytes, name: str, unit: int, rows: list[Any]) -> bytes:
    """The link after a unit's ledger lines, each of which must have the link that it should."""
    for place, (_, stored_place, kind, label, amount, number, run, stored) in enumerate(rows, 1):
        with _damaged(f"series {name!r}: line {place} of unit {unit} is not what was committed."):
            link = after_line(link, Line(unit, kind, label, amount, number, run))
            _same((link, place), (stored, stored_place))
    return link


def _gap(reader: ChainRows, name: str, first: int) -> str:
    """The missing units from this one on, up to the next that is there."""
    last = reader.next_unit(name, first) - 1
    if last == first:
        return f"the release of unit {first} is"
    return f"the releases of units {first}..{last} are"


def _check_strays(reader: SqlReader, name: str, newest: int) -> None:
    """Refuse rows of a series that belong to none of its units."""
    for table in ("releases", "lines"):
        stray = reader.stray_units(table, name)
        if stray:
            units = ", ".join(map(str, stray[:_MAX_UNITS_NAMED]))
            more = ", …" if len(stray) > _MAX_UNITS_NAMED else ""
            raise LedgerError(
                f"series {name!r}: {table} are of units that were never released: {units}{more}."
            )
    count = reader.count_releases(name, newest)
    if count != newest:
        raise LedgerError(f"series {name!r}: {newest} units have {count} releases.")
    for sink, unit, last in reader.stray_marks(name):
        raise LedgerError(
            f"series {name!r}: it ends with unit {last}, and by the store's own mark sink "
            f"{sink!r} was sent unit {unit}."
        )


def check_past(reader: ChainRows, series: Series, head: Head, whose: str) -> None:
    """Refuse a head that this store never had: it was restored from an old backup, or is another
    one.
    """
    newest = reader.head(series.name)
    if head.unit > newest.unit:
        raise StateError(
            f"{reader.name} was restored from an old backup: series {series.name!r} ends with "
            f"unit {newest.unit}, and {whose} is of unit {head.unit}. Going on would release units "
            "again with fresh noise: restore the newest one."
        )
    try:
        here = reader.at(series.name, head.unit)
    except InputError:  # the row is gone
        here = None
    if here != head:
        raise StateError(
            f"{reader.name} has another past than {whose}: unit {head.unit} of {series.name!r} "
            "differs. Either it was restored from an old backup and went on, or this is another "
            "store. Restore the newest store."
        )


@contextmanager
def _damaged(message: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        raise LedgerError(message) from None


def _same(one: object, other: object) -> None:
    if one != other:
        raise ValueError("not the same")
