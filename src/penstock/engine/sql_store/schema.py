"""The tables of a store, for any database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from penstock.core.errors import StateError
from penstock.engine.chain import Head

Migration: TypeAlias = Callable[[Any], None]
"""Brings the tables to the next version, on a connection inside a transaction."""

VERSION_TABLE = "penstock_store"

ALERT_TABLES = ("alert_rules", "alerts")
"""The tables of alerts: what each rule has seen so far, and the keys that it raised and cleared."""

PUBLIC_TABLES = ("streams", "releases", "lines", "marks", *ALERT_TABLES)
"""The tables that any reader may see, beside the version."""

PRIVATE_TABLES = ("leases", "secrets")
"""The tables that an export and a release log do not have."""


OLDEST_READABLE = 1
"""The oldest version of the tables that can be read before its publisher has migrated it."""

SIGNED_SINCE = 2
"""The first version whose releases have keyed links and signatures."""

ALERTS_SINCE = 3
"""The first version that has tables of alerts."""

UNITS_PER_READ = 64
"""Units that one statement reads: a long read would keep SQLite from emptying its log."""


class UnitRows(msgspec.Struct, frozen=True, array_like=True):
    """The rows of one unit for the public tables, and the link of the chain after it."""

    unit: int
    link: bytes
    lines: Sequence[tuple[str, int, int, str, str, int, int, int, bytes]]
    release: tuple[str, int, int, bytes, bytes, bytes, bytes | None, bytes | None, bytes | None]

    @property
    def head(self) -> Head:
        """The head after this unit."""
        return Head(self.unit, self.link, self.release[-1])

    @property
    def mac(self) -> bytes | None:
        """The keyed link; None if there is no key."""
        return self.release[-2]


INSERT_RELEASE = (
    "INSERT INTO releases (stream, unit, body_of, flags, digest, link, body, mac, signature) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def first_tables(*, whole: str, content: str) -> dict[str, str]:
    """The statement that makes each table of version 1.

    `whole` and `content` are the database's types of whole numbers and of bytes.
    """
    releases = (
        f"stream TEXT NOT NULL, unit {whole} NOT NULL, body_of {whole} NOT NULL, "
        f"flags {content} NOT NULL, digest {content} NOT NULL, link {content} NOT NULL, "
        f"body {content}, PRIMARY KEY (stream, unit)"
    )
    lines = (
        f"stream TEXT NOT NULL, unit {whole} NOT NULL, place {whole} NOT NULL, "
        "kind TEXT NOT NULL, label TEXT NOT NULL, amount BIGINT NOT NULL, number BIGINT NOT NULL, "
        f"run {whole} NOT NULL, link {content} NOT NULL, PRIMARY KEY (stream, unit, place)"
    )
    marks = (
        f"stream TEXT NOT NULL, sink TEXT NOT NULL, unit {whole} NOT NULL, "
        "PRIMARY KEY (stream, sink)"
    )
    leases = (
        f"stream TEXT NOT NULL PRIMARY KEY, owner TEXT NOT NULL, number {whole} NOT NULL, "
        "since DOUBLE PRECISION NOT NULL, expires DOUBLE PRECISION NOT NULL"
    )
    secrets = (
        f"stream TEXT NOT NULL, part TEXT NOT NULL, unit {whole} NOT NULL, key TEXT NOT NULL, "
        f"content {content} NOT NULL, PRIMARY KEY (stream, part)"
    )
    return {
        "streams": "CREATE TABLE streams (name TEXT NOT NULL PRIMARY KEY, about TEXT NOT NULL)",
        "releases": f"CREATE TABLE releases ({releases})",
        "lines": f"CREATE TABLE lines ({lines})",
        "marks": f"CREATE TABLE marks ({marks})",
        "leases": f"CREATE TABLE leases ({leases})",
        "secrets": f"CREATE TABLE secrets ({secrets})",
    }


def proof_columns(*, content: str) -> tuple[str, ...]:
    """The statements that bring version 1 to version 2: keyed links and signatures."""
    return tuple(
        f"ALTER TABLE releases ADD COLUMN {column} {content}" for column in ("mac", "signature")
    )


def alert_tables(*, whole: str) -> dict[str, str]:
    """The statements that bring version 2 to version 3: tables of alerts.

    `whole` is the database's type of whole numbers. The alerts of a rule are numbered from 1.
    """
    rules = (
        "stream TEXT NOT NULL, rule TEXT NOT NULL, about TEXT NOT NULL, "
        f"since {whole} NOT NULL, unit {whole} NOT NULL, number {whole} NOT NULL, "
        f"sent {whole} NOT NULL, raised TEXT NOT NULL, PRIMARY KEY (stream, rule)"
    )
    alerts = (
        f"stream TEXT NOT NULL, rule TEXT NOT NULL, number {whole} NOT NULL, "
        f"unit {whole} NOT NULL, key TEXT NOT NULL, state TEXT NOT NULL, "
        "estimate DOUBLE PRECISION, low DOUBLE PRECISION, high DOUBLE PRECISION, "
        "threshold DOUBLE PRECISION, PRIMARY KEY (stream, rule, number)"
    )
    return {
        "alert_rules": f"CREATE TABLE alert_rules ({rules})",
        "alerts": f"CREATE TABLE alerts ({alerts})",
    }


ALERT_INDEX = "CREATE INDEX alerts_by_unit ON alerts (stream, unit)"
"""The statement that makes the alerts of a range of units quick to read."""


def known_version(version: int, migrations: Sequence[Migration], store: str) -> int:
    """The version of a store's tables, unless a later Penstock wrote them."""
    if version > len(migrations):
        raise StateError(
            f"{store} has tables of version {version}; this Penstock knows versions up to "
            f"{len(migrations)}."
        )
    return version
