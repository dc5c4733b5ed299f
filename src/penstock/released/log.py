"""The release log: what was published of one stream, unit after unit, and nothing else."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from operator import index
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import msgspec
import numpy as np

from penstock.core.arrays import FloatArray, IntArray
from penstock.core.domain import AnyDomain, Domain
from penstock.core.errors import ConfigurationError, InputError, StateError
from penstock.core.guarantee import Guarantee
from penstock.core.hierarchy import Hierarchy, Nodes
from penstock.core.released import Released
from penstock.released import encoding
from penstock.released.series import PublishingRun

FORMAT = "penstock log"
VERSION = 1
"""The version of the file format. A reader takes its own version only."""

CACHED = 4_000_000
"""About how many numbers of a file's releases are kept in memory."""


class Log:
    """The releases of one stream, in memory: appended one after the other, never changed.

    `log[unit]` is what was released of a unit; `len`, iteration and `log.units` are as one would
    think. `configuration` holds the mechanism's public parameters as text.

    >>> from penstock import Laplace
    >>> run = Laplace(epsilon="1").run(["north", "south"])
    >>> log = Log.of(run)
    >>> for counts in ([7, 0], [8, 1]):
    ...     log.append(run.step(counts))
    >>> log
    <Log of laplace over 2 keys, Guarantee(epsilon=1, window=1), units 1..2>
    >>> log.append(run.last)  # a unit may come again, if nothing in it has changed
    >>> log.append(run.step([9, 1])), log.units
    (None, range(1, 4))
    """

    def __init__(
        self,
        domain: AnyDomain,
        *,
        guarantee: Guarantee | None = None,
        mechanism: str = "",
        configuration: Mapping[str, object] | None = None,
        name: str = "",
    ) -> None:
        self.domain = Domain.of(domain)
        self.guarantee = guarantee
        self.mechanism = mechanism
        self.configuration = {key: str(value) for key, value in (configuration or {}).items()}
        self.name = name
        self._releases: list[Released] = []

    # -- making one --------------------------------------------------------------------------------

    @classmethod
    def of(
        cls, run: PublishingRun, path: str | os.PathLike[str] | None = None, *, name: str = ""
    ) -> Log:
        """A log for what this run releases, in memory or in a file. A file goes on where it stands.

        If the run was kept and its last release did not reach the log before a crash, it is
        appended now.
        """
        about: dict[str, Any] = {
            "guarantee": run.guarantee,
            "mechanism": run.mechanism.name,
            "configuration": run.mechanism.configuration(),
            "name": name,
        }
        log = Log(run.released, **about) if path is None else LogFile(path, run.released, **about)
        last = run.last
        try:
            if len(log) and (last is None or last.unit < log.last):
                raise StateError(
                    f"the log has units up to {log.last}, the run stands at {last.unit if last else 0}: going on would release "
                    "units again with fresh noise. Restore the run's newest state."
                )
            if last is not None:
                log.append(last)
        except BaseException:
            log.close()
            raise
        return log

    @staticmethod
    def open(path: str | os.PathLike[str]) -> LogFile:
        """A log file, for reading only; also while somebody else appends to it."""
        return LogFile(path)

    # -- what it holds -----------------------------------------------------------------------------

    @property
    def keys(self) -> tuple[str, ...]:
        """What each number is of, in the order of the releases."""
        return self.domain.keys

    @cached_property
    def hierarchy(self) -> Hierarchy | None:
        """The hierarchy, if the keys are in one or are its nodes."""
        if isinstance(self.domain, Nodes):
            return self.domain.tree
        return self.domain if isinstance(self.domain, Hierarchy) else None

    @cached_property
    def parents(self) -> IntArray | None:
        """Each node's parent, −1 at a root, if the numbers are of the nodes of a hierarchy."""
        return self.domain.tree.parents if isinstance(self.domain, Nodes) else None

    @property
    def private(self) -> bool:
        """Whether everything in it was made with real noise."""
        return all(release.private for release in self)

    @property
    def first(self) -> int:
        """The first unit; 1 if there is none yet."""
        return self._bounds()[0]

    @property
    def last(self) -> int:
        """The newest unit; below `first` if there is none yet."""
        return self._bounds()[1]

    @property
    def units(self) -> range:
        """All units so far."""
        first, last = self._bounds()
        return range(first, last + 1)

    @property
    def promise(self) -> str:
        """What is promised, in words."""
        return "" if self.guarantee is None else self.guarantee.in_words()

    def __len__(self) -> int:
        return len(self.units)

    def __iter__(self) -> Iterator[Released]:
        return self.between(*self._bounds())

    def __getitem__(self, unit: int) -> Released:
        if unit not in self.units:
            raise InputError(f"unit {unit} is not in this log: {self._extent()}.")
        return next(self.between(unit, unit))

    def __repr__(self) -> str:
        what = f"{self.mechanism or 'releases'} over {self.domain.size} keys"
        return f"<{type(self).__name__} of {what}, {self.guarantee}, {self._extent()}>"

    def between(self, first: int, last: int) -> Iterator[Released]:
        """The releases of these units, one after the other; never more than one is held here."""
        first, last, here = index(first), index(last), self.units
        if first > last:
            return iter(())
        if first not in here or last not in here:
            raise InputError(f"units {first}..{last} are not all in this log: {self._extent()}.")
        return self._read(first, last)

    def estimates(self, first: int | None = None, last: int | None = None) -> FloatArray:
        """What was released of these units (all, unless told otherwise), one row a unit."""
        start, end = self._bounds()
        start, end = start if first is None else first, end if last is None else last
        out = np.empty((max(end - start + 1, 0), self.domain.size))
        for row, release in zip(out, self.between(start, end), strict=True):
            row[:] = release.estimate
        return out

    def append(self, release: Released) -> None:
        """Add the next unit. A unit that is there already is left alone if it is the same, and
        refused if not.
        """
        first, last = self._bounds()
        self._look_over(release)
        if last >= first:
            if first <= release.unit <= last:
                if not same(self[release.unit], release):
                    raise InputError(
                        f"unit {release.unit} is in the log with other numbers: a release is never replaced."
                    )
                return
            if release.unit != last + 1:
                raise InputError(
                    f"unit {release.unit} is out of order: the log has {self._extent()}."
                )
        self._add(release)

    def close(self) -> None:
        """Nothing, in memory."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- inside ------------------------------------------------------------------------------------

    def _extent(self) -> str:
        first, last = self._bounds()
        return f"units {first}..{last}" if last >= first else "no units yet"

    def _look_over(self, release: Released) -> None:
        if not isinstance(release, Released):
            raise InputError(f"a log takes what was released, not {type(release).__name__}.")
        if release.value.shape != (self.domain.size,):
            raise InputError(
                f"unit {release.unit}: {release.value.size} numbers for {self.domain.size} keys."
            )
        if self.guarantee is None:
            self.guarantee = release.guarantee
        elif release.guarantee != self.guarantee:
            raise InputError(
                f"unit {release.unit}: released under {release.guarantee}, and this log is of {self.guarantee}."
            )

    def _bounds(self) -> tuple[int, int]:
        if not self._releases:
            return 1, 0
        return self._releases[0].unit, self._releases[-1].unit

    def _read(self, first: int, last: int) -> Iterator[Released]:
        start = self._bounds()[0]
        return iter(self._releases[first - start : last - start + 1])

    def _add(self, release: Released) -> None:
        self._releases.append(release)


def same(one: Released, other: Released) -> bool:
    """Whether two releases of a unit are the same, number by number."""
    return one is other or (
        encoding.body(one) == encoding.body(other) and encoding.flags(one) == encoding.flags(other)
    )


class LogFile(Log):
    """A log in one SQLite file: a unit is there whole or not at all, and others may read while it
    grows.

    With a domain it is made, or gone on with if it is there and of the same stream; without one it
    is opened for reading. Numbers stand in as few bytes as they need, and a release that stands
    again is stored once.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        domain: AnyDomain | None = None,
        *,
        guarantee: Guarantee | None = None,
        mechanism: str = "",
        configuration: Mapping[str, object] | None = None,
        name: str = "",
    ) -> None:
        self.path = Path(path)
        self._cache: OrderedDict[int, Released] = OrderedDict()
        self._writes = domain is not None
        if domain is None:
            self._file = _reader(self.path)
            try:
                super().__init__(**self._about())
            except BaseException:
                self._file.close()
                raise
            return
        super().__init__(
            domain, guarantee=guarantee, mechanism=mechanism, configuration=configuration, name=name
        )
        if self.guarantee is None:
            raise ConfigurationError("a log file needs the guarantee of what it will hold.")
        self._file = _writer(self.path)
        try:
            self._begin()
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _begin(self) -> None:
        """Write what the log is of, or see that the file is of the same."""
        with _transaction(self._file, self.path):
            self._file.execute(
                "CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"
            )
            self._file.execute(
                "CREATE TABLE IF NOT EXISTS units (unit INTEGER PRIMARY KEY, body_of INTEGER NOT NULL, "
                "flags BLOB NOT NULL, body BLOB)"
            )
            if not self._file.execute("SELECT count(*) FROM about").fetchone()[0]:
                about = {
                    "format": [FORMAT, VERSION],
                    "name": self.name,
                    "mechanism": self.mechanism,
                    "configuration": self.configuration,
                    "guarantee": encoding.plain_guarantee(self.guarantee),
                    "domain": encoding.plain_domain(self.domain),
                }
                rows = [
                    (key, json.dumps(value, ensure_ascii=False)) for key, value in about.items()
                ]
                self._file.executemany("INSERT INTO about VALUES (?, ?)", rows)
                return
        there = self._about()
        for what in ("domain", "guarantee", "mechanism", "configuration"):
            if there[what] != getattr(self, what):
                raise StateError(f"{self.path} is the log of another stream: its {what} differs.")
        self.name = there["name"]

    def _about(self) -> dict[str, Any]:
        """What the file says that it is of."""
        wrong = StateError(f"{self.path} is not a release log.")
        try:
            rows = dict(self._file.execute("SELECT name, value FROM about"))
            about = {key: json.loads(value) for key, value in rows.items()}
            kind, version = about["format"]
            if kind != FORMAT:
                raise wrong
            if version != VERSION:
                raise StateError(
                    f"{self.path} has format version {version}; this Penstock reads version {VERSION}."
                )
            return {
                "domain": encoding.rich_domain(about["domain"]),
                "guarantee": encoding.rich_guarantee(about["guarantee"]),
                "mechanism": about["mechanism"],
                "configuration": about["configuration"],
                "name": about["name"],
            }
        except (sqlite3.Error, KeyError, ValueError, TypeError, AttributeError):
            raise wrong from None

    def _select(self, what: str, *values: int) -> list[Any]:
        try:
            return self._file.execute(f"SELECT {what}", values).fetchall()
        except sqlite3.Error as error:
            raise StateError(f"{self.path} cannot be read: {str(error).rstrip('.')}.") from None

    def _bounds(self) -> tuple[int, int]:
        ((first, last),) = self._select(
            "(SELECT min(unit) FROM units), (SELECT max(unit) FROM units)"
        )
        return (1, 0) if first is None else (first, last)

    @property
    def private(self) -> bool:
        return all(
            self._flags(unit, flags)[0] for unit, flags in self._select("unit, flags FROM units")
        )

    def _read(self, first: int, last: int) -> Iterator[Released]:
        for start in range(
            first, last + 1, 256
        ):  # short reads: a long one would keep the writer from tidying up
            end = min(start + 255, last)
            rows = self._select(
                "unit, body_of, flags FROM units WHERE unit BETWEEN ? AND ? ORDER BY unit",
                start,
                end,
            )
            if len(rows) <= end - start:
                raise StateError(f"{self.path}: some of the units {start}..{end} are missing.")
            for unit, of, flags in rows:
                private, repeated = self._flags(unit, flags)
                yield replace(self._body(of), unit=unit, private=private, repeated=repeated)

    def _flags(self, unit: int, flags: bytes) -> tuple[bool, Any]:
        with self._readable(unit):
            return encoding.flags_of(flags)

    @contextmanager
    def _readable(self, unit: int) -> Iterator[None]:
        try:
            yield
        except (msgspec.DecodeError, KeyError, TypeError, ValueError, ArithmeticError) as error:
            raise StateError(
                f"{self.path}: unit {unit} cannot be read: {type(error).__name__}."
            ) from None

    def _body(self, of: int) -> Released:
        """The release that was stored with this unit, from memory if it was needed lately."""
        if of in self._cache:
            self._cache.move_to_end(of)
            return self._cache[of]
        rows = self._select("body FROM units WHERE unit = ?", of)
        with self._readable(of):
            ((body,),) = rows
            release = encoding.release_of(of, body, self.guarantee)
        self._cache[of] = release
        width = self.domain.size * (2 + len(release.public))
        while len(self._cache) > max(CACHED // width, 4):
            self._cache.popitem(last=False)
        return release

    def _add(self, release: Released) -> None:
        if not self._writes:
            raise InputError(f"{self.path} was opened for reading: append where it is published.")
        body, flags = encoding.body(release), encoding.flags(release)
        with _transaction(self._file, self.path):
            first, last = self._bounds()
            if last >= first and release.unit != last + 1:
                raise InputError(
                    f"unit {release.unit}: somebody else has appended to {self.path} meanwhile."
                )
            of, before = self._file.execute(
                "SELECT unit, body FROM units WHERE unit = (SELECT body_of FROM units WHERE unit = ?)",
                (last,),
            ).fetchone() or (0, None)
            row = (
                (release.unit, of, flags, None)
                if before == body
                else (release.unit, release.unit, flags, body)
            )
            self._file.execute("INSERT INTO units VALUES (?, ?, ?, ?)", row)


# -- the file --------------------------------------------------------------------------------------

_TABLES = {"about", "units"}


def _writer(path: Path) -> sqlite3.Connection:
    try:
        file = sqlite3.connect(path.absolute(), isolation_level=None, check_same_thread=False)
        tables = {
            name
            for (name,) in file.execute(
                "SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite%'"
            )
        }
        if tables and not tables >= _TABLES:
            file.close()
            raise StateError(f"{path} is not a release log.")
        file.execute("PRAGMA journal_mode = WAL")
        file.execute("PRAGMA synchronous = FULL")
    except sqlite3.Error as error:
        raise StateError(f"{path} cannot be used as a release log: {error}.") from None
    return file


def _reader(path: Path) -> sqlite3.Connection:
    """Read-only, whatever happens; where the folder cannot be written and nobody is writing, as the
    file stands.

    If nobody is writing, SQLite may write its own index beside the file, and takes it away again
    when the log is closed.
    """
    if not path.is_file():
        raise ConfigurationError(f"there is no log {str(path)!r}.")
    live = path.with_name(path.name + "-wal").exists()
    problem = "is not a release log"
    for mode in ("ro",) if live else ("rw", "ro", "ro&immutable=1"):
        address = f"file:{quote(str(path.resolve()))}?mode={mode}"
        file = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
        try:
            file.execute("PRAGMA query_only = ON")
            file.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError as error:  # no room for the index beside the file
            problem = f"cannot be read: {error}"
            file.close()
        except sqlite3.DatabaseError:
            file.close()
            break
        else:
            return file
    raise StateError(f"{path} {problem}.")


@contextmanager
def _transaction(file: sqlite3.Connection, path: Path) -> Iterator[None]:
    """All of it or nothing, and nobody else in between."""
    try:
        file.execute("BEGIN IMMEDIATE")
        try:
            yield
            file.execute("COMMIT")
        except BaseException:
            if file.in_transaction:  # a full disk may have ended it
                file.execute("ROLLBACK")
            raise
    except sqlite3.Error as error:
        raise StateError(f"{path} cannot be written: {str(error).rstrip('.')}.") from None
