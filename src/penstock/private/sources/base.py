"""Sources: batches of events in columns, the position after each, and a private tally of
rejections.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, get_args, runtime_checkable

import numpy as np

from penstock.core.arrays import BoolArray, IntArray
from penstock.core.declaration import EndpointKind, EndpointSetup, Options
from penstock.core.domain import AnyDomain, Domain
from penstock.core.errors import (
    ConfigurationError,
    InputError,
    StateError,
    UnreadableRowsError,
)
from penstock.core.product import Product
from penstock.private.person_ids import shortened

Arrow: TypeAlias = Any
"""An Arrow array, table or record batch."""

Position: TypeAlias = Mapping[str, str | int]
"""Where a source stands: plain data for JSON. It is private, as it tells how much was read."""

Kind: TypeAlias = Literal["text", "integer"]
Clock: TypeAlias = Literal["iso", "seconds", "milliseconds", "microseconds"]

MissingPerson: TypeAlias = Literal["drop", "each", "refuse"]
"""What happens to an event without the id of a person: it is dropped, it counts as a person of its
own, or the input is refused.
"""

FACTORS: dict[str, int] = {"seconds": 1_000_000, "milliseconds": 1_000, "microseconds": 1}

FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The years 1 to 9999 in microseconds since 1970, which is the range of a calendar."""

MAX_EXACT_FLOAT = 2**53
"""From here on, different whole numbers may be the same floating-point number."""

_HOUR = "(?:[01][0-9]|2[0-3])"
_LEAP = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_DATE = (
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    f"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP}-02-29)"
)
_TIME = f"[T ]{_HOUR}(?::[0-5][0-9](?::[0-5][0-9](?:\\.[0-9]+)?)?)?"
_OFFSET = f"(?:Z|[+-]{_HOUR}(?::?[0-5][0-9])?)"
NAIVE = rf"^{_DATE}(?:{_TIME})?\z"
ZONED = rf"^{_DATE}{_TIME}{_OFFSET}\z"
WHOLE = r"^(?:0|-?[1-9][0-9]{0,18})\z"
UTF8 = (
    r"^(?:[\x00-\x7F]|[\xC2-\xDF][\x80-\xBF]|\xE0[\xA0-\xBF][\x80-\xBF]|[\xE1-\xEC\xEE\xEF][\x80-\xBF]{2}|\xED[\x80-\x9F][\x80-\xBF]"
    r"|\xF0[\x90-\xBF][\x80-\xBF]{2}|[\xF1-\xF3][\x80-\xBF]{3}|\xF4[\x80-\x8F][\x80-\xBF]{2})*\z"
)


def arrow(module: str = "pyarrow") -> Any:
    """A module of PyArrow, imported when it is first used."""
    return import_module(module)


def release_unused_memory() -> None:
    """Give memory of large tables back to the system, as far as this thread has allocated it.

    Arrow's allocator keeps it per thread, and the next large table may be long in coming.
    """
    arrow().default_memory_pool().release_unused()


@contextmanager
def sealed(name: str) -> Iterator[None]:
    """Turn Arrow's errors into an `InputError`, as their messages show data."""
    try:
        yield
    except arrow().ArrowException as error:
        raise InputError(f"{name}: rows that cannot be read ({type(error).__name__}).") from None


class Reason(StrEnum):
    """Why a row, a line or a file was rejected."""

    BROKEN = "broken line"
    LONG = "line too long"
    ENCODING = "not UTF-8"
    FIELDS = "wrong number of fields"
    FIELD = "missing field"
    TYPE = "wrong type"
    MISSING = "missing value"
    TIME = "time out of range"
    KEY = "unknown key"
    ORDER = "file after its turn"
    FILE = "unreadable file"
    PARTITION = "wrong partition"


@dataclass(frozen=True)
class Rejections:
    """How many rows were rejected, by reason. The numbers are private: only the operator may see
    them.

    >>> rejections = Rejections()
    >>> rejections.add(Reason.KEY, 3)
    >>> rejections
    Rejections(private)
    >>> rejections.for_operator()
    {'unknown key': 3}
    """

    _counts: Counter[tuple[Reason, str]] = field(
        default_factory=Counter, init=False, repr=False, compare=False
    )

    def __repr__(self) -> str:
        return "Rejections(private)"

    def add(self, reason: Reason, count: int, column: str = "") -> None:
        """Count rejected rows, with the column that was at fault where one was."""
        if count:
            self._counts[reason, column] += count

    def add_all(self, other: Rejections) -> None:
        """Count everything that another tally has."""
        self._counts.update(other.by_column())

    def take(self) -> Rejections:
        """Move everything into a new tally and begin again with nothing."""
        taken = Rejections()
        taken.add_all(self)
        self._counts.clear()
        return taken

    def by_column(self) -> dict[tuple[Reason, str], int]:
        """The tallies by reason and column; the column is empty where none was at fault."""
        return dict(self._counts)

    @property
    def rows(self) -> int:
        """The number of rejected rows. Whole files are not rows."""
        return sum(
            count
            for (reason, _), count in self.by_column().items()
            if reason not in (Reason.ORDER, Reason.FILE)
        )

    def for_operator(self) -> dict[str, int]:
        """The tallies, for the operator. Rows that are read again after a restart count again."""
        counts: Counter[Reason] = Counter()
        for (reason, _), count in self.by_column().items():
            counts[reason] += count
        return {str(reason): counts[reason] for reason in Reason if counts[reason]}


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """Events as columns of equal length: only good rows, each with a key of the domain.

    A batch may be empty; its position still moves on.

    Parameters
    ----------
    time : array of int64
        Microseconds since 1970 UTC.
    key : array of int64
        Codes into the domain.
    person : array of int64, Arrow strings (also as a dictionary), Arrow bytes or None
        The ids; with None each event counts as its own person, and so does an event whose id is
        null. A column with ids of more than 128 bytes comes as bytes, with digests for these ids.
    position : Position or None
        Where the source stands after this batch; None if it cannot resume.
    certain : int or None
        An instant that no later event precedes, as a finished file itself says. Default: None,
        unknown.
    parts : mapping of str to bytes or None
        Content to keep with this batch, by name, until the source gives None for the name. A
        `Receiver` gets it back. Default: nothing.
    """

    time: IntArray
    key: IntArray
    person: IntArray | Arrow | None
    position: Position | None
    certain: int | None = None
    parts: Mapping[str, bytes | None] = field(default_factory=dict)

    def __repr__(self) -> str:
        return "Batch(private)"

    def __len__(self) -> int:
        return len(self.time)


def batch_number(position: Position | None, kind: str) -> int:
    """The number of the batch that a position is after; 0 for None."""
    if position is None:
        return 0
    number = position.get("batch")
    if position.keys() != {"batch"} or type(number) is not int or number < 0:
        raise StateError(f"the position is not one of {kind}.")
    return number


class Source(Protocol):
    """Where events come from. A class of your own inherits from `Source` or from `Receiver`.

    `resumable`, `rejections` and `batches` must be there. The other members are optional abilities:
    they have defaults, which say that the source lacks the ability.

    Attributes
    ----------
    rejections : Rejections
        How many rows were not taken so far, by reason. Private.
    """

    rejections: Rejections

    @property
    @abstractmethod
    def resumable(self) -> bool:
        """Whether the source can go on from a position."""

    @abstractmethod
    def batches(self, after: Position | None = None) -> Iterator[Batch]:
        """Give all events that are there now and follow a position, in order, none twice.

        Parameters
        ----------
        after : Position, optional
            The position of the last batch that was kept (default: None, from the beginning).
        """

    @property
    def ended(self) -> bool:
        """Whether nothing will come any more and nothing can be read again (default: False)."""
        return False

    @property
    def problem(self) -> str:
        """Why nothing can be read just now, without any data (default: empty, all is well)."""
        return ""

    @property
    def unreadable(self) -> bool:
        """Whether a whole file, or the like, cannot be read just now (default: False).

        Everybody may see this. It must follow from the form of whole files, never from single rows.
        """
        return False

    def part(self, position: Position | None) -> str:
        """Which part of the source, such as a file, a position lies in (default: empty, no parts).

        The names of later parts sort later.
        """
        return ""

    @property
    def complete(self) -> bool:
        """Whether units may close: all events that were there when `batches` was called last have
        come, or those that have not are given up (default: True).
        """
        return True

    @property
    def pause(self) -> float:
        """Seconds for which a live source need not be asked again (default: 0).

        It is asked before a unit closes all the same.
        """
        return 0.0

    def notes(self) -> Sequence[str]:
        """What the operator must know since the last call, without any data (default: nothing)."""
        return ()

    @property
    def connection_counts(self) -> Mapping[str, int]:
        """What went wrong with senders' connections, for the operator (default: nothing)."""
        return {}

    def progress(self, position: Position) -> float:
        """Which share of a finite input lies before a position, from 0 to 1 (default: 0)."""
        return 0.0


@runtime_checkable
class Receiver(Source, Protocol):
    """A source that others send to, or that waits for a broker.

    The publisher calls `open` once, then `batches` and `wait` in turn, `kept` after each commit,
    and `close` at the end.
    """

    @property
    def answers(self) -> bool:
        """Whether a sender waits to hear that its events are kept. Then they are kept at once, not
        only when a unit closes (default: False).
        """
        return False

    @abstractmethod
    def open(self, parts: Mapping[str, bytes]) -> None:
        """Begin to listen.

        Parameters
        ----------
        parts : mapping of str to bytes
            The parts that were kept with earlier batches.
        """

    @abstractmethod
    def wait(self, seconds: float) -> None:
        """Return as soon as something has come, or after this many seconds."""

    def kept(self, batch: Batch) -> None:
        """Hear that this batch and all before it are on disk, with position and parts (default:
        does nothing).
        """
        return

    @abstractmethod
    def close(self) -> None:
        """Stop listening. What was not kept is refused, or left to be sent again."""


@dataclass(frozen=True)
class Columns:
    """Which columns hold the time, the key and the person, and how they are written.

    Types are declared, never guessed.

    Parameters
    ----------
    time : str
        The column of the time.
    key : str or tuple of str
        The column of the key, or one column per attribute of a `Product`, in its order.
    person : str or None
        The column of the person. Default: None, each event counts as its own person.
    clock : {"iso", "seconds", "milliseconds", "microseconds"}
        How times are written: ISO 8601 text with or without an offset, or whole numbers since 1970
        UTC. Arrow timestamps are accepted with each of them. Default: "iso".
    zone : str
        The time zone of times without an offset. A time that a clock shows twice means the first
        one, and a time that it skips means the moment of the jump. Default: "UTC".
    key_type : {"text", "integer"} or tuple of these
        The type of the key, or one type per column of the key. An integer is written as Python
        writes it, within 64 bits, so that 7 and 007 are not the same. A whole number can be read as
        text, and a text as a whole number: in JSON, 7 and "7" are the same. In a column of
        floating-point numbers, as pandas has it where some are missing, 7.0 is 7. Default: "text".
    person_type : {"text", "integer"}
        The type of the person, likewise. Default: "text".
    missing_person : {"drop", "each", "refuse"}
        What happens to an event whose person is null or an empty text: it is dropped, it counts as
        a person of its own, or the whole input is refused. Default: "drop".

    >>> Columns("start", "station", person="rider", zone="Europe/Paris").names
    ('start', 'station', 'rider')
    """

    time: str
    key: str | tuple[str, ...]
    _: KW_ONLY
    person: str | None = None
    clock: Clock = "iso"
    zone: str = "UTC"
    key_type: Kind | tuple[Kind, ...] = "text"
    person_type: Kind = "text"
    missing_person: MissingPerson = field(default="drop", repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.key, str):
            object.__setattr__(self, "key", tuple(self.key))
        if not self.keys or not all(self.names):
            raise ConfigurationError("columns: time, key and person must be names of columns.")
        if self.clock not in ("iso", *FACTORS):
            raise ConfigurationError(
                f"columns: clock must be 'iso', {', '.join(map(repr, FACTORS))}, "
                f"not {self.clock!r}."
            )
        if len(self.key_types) != len(self.keys):
            raise ConfigurationError(
                "columns: key_type must be one type, or one for each column of the key."
            )
        for kind in (*self.key_types, self.person_type):
            if kind not in ("text", "integer"):
                raise ConfigurationError(
                    f"columns: key_type and person_type must be 'text' or 'integer', not {kind!r}."
                )
        if self.missing_person not in get_args(MissingPerson):
            raise ConfigurationError(
                "columns: missing_person must be 'drop', 'each' or 'refuse', "
                f"not {self.missing_person!r}."
            )
        if self.missing_person != "drop" and not self.person:
            raise ConfigurationError(
                "columns: missing_person needs the column of the person: without it, each event "
                "is its own person."
            )

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of the key."""
        return (self.key,) if isinstance(self.key, str) else self.key

    @property
    def key_types(self) -> tuple[Kind, ...]:
        """The type of each column of the key."""
        return (
            (self.key_type,) * len(self.keys) if isinstance(self.key_type, str) else self.key_type
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Every column that is read, each once."""
        return tuple(
            dict.fromkeys((self.time, *self.keys, *((self.person,) if self.person else ())))
        )


@dataclass(frozen=True, kw_only=True)
class Intake:
    """Makes batches of Arrow columns: times in microseconds, keys as codes; bad rows drop and
    count.

    A key that is not in the domain becomes `other`, which is one of its keys. Without `other` the
    row is dropped. Whether a row is kept depends on that row alone.
    """

    columns: Columns
    domain: AnyDomain
    other: str | None = None

    def __post_init__(self) -> None:
        domain = Domain.of(self.domain)
        object.__setattr__(self, "domain", domain)
        if self.other is not None and self.other not in domain.keys:
            raise ConfigurationError("other must be a key of the domain.")
        sides = len(domain.attributes) if isinstance(domain, Product) else 1
        if len(self.columns.keys) not in (1, sides):
            raise ConfigurationError(
                f"columns: key must be one column or, for this domain, {sides}: one per attribute."
            )
        pa, pc = arrow(), arrow("pyarrow.compute")
        try:
            pc.assume_timezone(pa.array([0], pa.timestamp("us")), self.columns.zone)
        except pa.ArrowInvalid:
            raise ConfigurationError(
                f"columns: zone={self.columns.zone!r} is not a known time zone."
            ) from None

    def batch(self, table: Arrow, *, position: Position | None, rejections: Rejections) -> Batch:
        """The good rows of a table or record batch that has all columns."""
        with sealed("batch"):
            return self._batch(table, position, rejections)

    def _batch(self, table: Arrow, position: Position | None, rejections: Rejections) -> Batch:
        keep: BoolArray | None = None

        def drop(bad: BoolArray | None, reason: Reason, column: str) -> None:
            nonlocal keep
            if bad is None:
                return
            if keep is None:
                keep = np.ones(table.num_rows, np.bool_)
            rejections.add(reason, int(np.count_nonzero(bad & keep)), column)
            np.logical_and(keep, ~bad, out=keep)

        columns = self.columns
        arrays = {name: without_nan(_whole_array(table.column(name))) for name in columns.names}
        for name in (columns.time, *columns.keys):
            if arrays[name].null_count:
                drop(_mask(arrays[name].is_null()), Reason.MISSING, name)
        people = self._people(arrays[columns.person]) if columns.person else None
        if people is not None and people.null_count and columns.missing_person == "drop":
            drop(_mask(people.is_null()), Reason.MISSING, columns.person or "")

        time, wrong = instants(arrays[columns.time], columns)
        drop(wrong, Reason.TYPE, columns.time)
        if not _within(time, FIRST, LAST):
            drop((time < FIRST) | (time > LAST), Reason.TIME, columns.time)

        person = None
        if people is not None:
            person, wrong = self._ids(people)
            drop(wrong, Reason.TYPE, columns.person or "")

        key = self._keys(arrays, drop)
        if keep is not None and not keep.all():
            time, key = time[keep], key[keep]
            if isinstance(person, np.ndarray):
                person = person[keep]
            elif person is not None:
                person = person.filter(arrow().array(keep))
        if person is not None and not isinstance(person, np.ndarray) and _is_text(person.type):
            person = shortened(person)
        for array in (time, key, person):
            if isinstance(array, np.ndarray):
                array.flags.writeable = False
        return Batch(time=time, key=key, person=person, position=position)

    def _people(self, array: Arrow) -> Arrow:
        """The column of persons, with null for each empty text: a CSV file cannot tell them apart.

        Where missing ids are refused, one of them refuses everything.
        """
        array = without_empty(array)
        if array.null_count and self.columns.missing_person == "refuse":
            raise UnreadableRowsError(
                f"source: an event has no person in {self.columns.person!r}, and missing_person = "
                '"refuse" says that none may lack it. Nothing of these rows was counted. Correct '
                'the input, or write missing_person = "drop", which leaves such events out.'
            )
        return array

    def _ids(self, array: Arrow) -> tuple[IntArray | Arrow, BoolArray | None]:
        """The ids of persons, and which of them have the wrong type.

        Where events without an id count, all ids are text, in which an id can be null.
        """
        if self.columns.person_type == "text":
            return _texts(array)
        numbers, wrong = integers(array)
        if self.columns.missing_person != "each":
            return numbers, wrong
        pa = arrow()
        missing = pa.array(numbers, mask=_mask(array.is_null())).cast(pa.string())
        return missing, wrong

    def _keys(
        self, arrays: Mapping[str, Arrow], drop: Callable[[BoolArray | None, Reason, str], None]
    ) -> IntArray:
        """The code of each row's key. Rows of a wrong type or an unknown key are dropped."""
        key: IntArray | None = None
        known: BoolArray | None = None
        columns = self.columns
        for name, kind, lookup in zip(columns.keys, columns.key_types, self._lookups, strict=True):
            codes, wrong = lookup.codes(arrays[name], kind)
            drop(wrong, Reason.TYPE, name)
            if codes.min(initial=0) < 0:
                known = codes >= 0 if known is None else known & (codes >= 0)
            key = codes if key is None else key * lookup.size + codes
        assert key is not None
        if known is not None and self.other is not None:
            return np.where(known, key, Domain.of(self.domain).keys.index(self.other))
        drop(None if known is None else ~known, Reason.KEY, ", ".join(columns.keys))
        return key

    @cached_property
    def _lookups(self) -> tuple[_Lookup, ...]:
        domain = Domain.of(self.domain)
        if isinstance(domain, Product) and len(self.columns.keys) == len(domain.attributes):
            return tuple(_Lookup(values) for _, values in domain.attributes)
        return (_Lookup(domain.keys),)


def _never(options: Options, until: bool) -> bool:
    """The input has no end."""
    return False


@dataclass(frozen=True, kw_only=True)
class SourceSetup(EndpointSetup):
    """What a source is built from: options, folder, the intake, and whether the input is finite."""

    intake: Intake
    finite: bool = False


class TrialEvent(NamedTuple):
    """A made-up event for the checks of a source, each part as text."""

    time: str
    key: str
    person: str


@dataclass(frozen=True, kw_only=True)
class SourceKind(EndpointKind):
    """The declaration of a kind of source: `KIND = SourceKind(…)` beside its class.

    Parameters
    ----------
    name, summary, options, describe, check, extra
        As in `EndpointKind`.
    build : callable
        From a `SourceSetup` to the source. Imports of optional packages belong in it.
    finite : callable
        From the checked options, and whether `until` is declared, to whether the input has an end
        (default: it has none).
    suffixes : tuple of str
        Endings of file names by which the kind is guessed (default: none).
    column_types : callable, optional
        From a file to its columns by name, each "time", "integer", "text", "number", "flag" or
        "other". It reads names and types and never shows data. Default: None, columns cannot be
        looked up.
    trial : callable, optional
        Puts made-up events where a source finds them, for `check_*`: from a folder, the number of
        the part and its `TrialEvent`s to the options. Columns are time, key and person.
    no_dry_run : str
        Why `penstock run --dry` cannot read such a source, as a sentence. Write "" if `batches` can
        be read to the end and later from the beginning, with no trace. Default: it cannot.

    Examples
    --------
    >>> from penstock.private.sources.csv import KIND
    >>> KIND.name, KIND.finite({"growing": False}, False), KIND.finite({"growing": True}, True)
    ('csv', True, False)
    """

    build: Callable[[SourceSetup], Source]
    finite: Callable[[Options, bool], bool] = _never
    suffixes: tuple[str, ...] = ()
    column_types: Callable[[Path], Mapping[str, str]] | None = None
    trial: Callable[[Path, int, Sequence[TrialEvent]], Options] | None = None
    no_dry_run: str = "it does not say that it can be read without taking events away."


@dataclass(frozen=True)
class _Lookup:
    """Codes of values: their places in a list."""

    values: tuple[str, ...]

    @property
    def size(self) -> int:
        return len(self.values)

    @cached_property
    def _texts(self) -> Arrow:
        pa = arrow()
        return pa.array(self.values, pa.large_string())

    @cached_property
    def _near(self) -> tuple[int, IntArray] | None:
        """The smallest whole number among the values, and the codes from it on (−1: no such value).

        None if the numbers lie too far apart for a table.
        """
        known, places = self._numbers
        numbers = known.to_numpy()
        if not len(numbers) or int(numbers.max()) - int(numbers.min()) >= 4 * len(numbers) + 1_024:
            return None
        low = int(numbers.min())
        codes = np.full(int(numbers.max()) - low + 1, -1, np.int64)
        codes[numbers - low] = places
        return low, codes

    @cached_property
    def _same(self) -> bool:
        """Whether the values are 0, 1, 2, …, so that each is its own code."""
        return (
            self._near is not None
            and self._near[0] == 0
            and np.array_equal(self._near[1], np.arange(self.size))
        )

    def _found(self, numbers: IntArray) -> IntArray:
        """The code of each number, −1 where there is none."""
        if self._near is None:
            known, places = self._numbers
            found = _filled(
                arrow("pyarrow.compute").index_in(arrow().array(numbers), value_set=known), -1
            )
            return (
                np.where(found >= 0, places[found], -1)
                if len(places)
                else np.full(len(numbers), -1, np.int64)
            )
        low, codes = self._near
        if _within(numbers, low, low + len(codes) - 1):
            return numbers if self._same else codes.take(numbers - low if low else numbers)
        inside = (numbers >= low) & (numbers <= low + len(codes) - 1)
        return np.where(inside, codes.take(np.where(inside, numbers, low) - low), -1)

    @cached_property
    def _numbers(self) -> tuple[Arrow, IntArray]:
        """The values that are whole numbers of 64 bits, and their places."""
        numbers, wrong = integers(self._texts)
        places = np.flatnonzero(~wrong) if wrong is not None else np.arange(self.size)
        return arrow().array(numbers[places]), places

    def codes(self, array: Arrow, kind: Kind) -> tuple[IntArray, BoolArray | None]:
        """The code of each value (−1: unknown), and which values have the wrong type."""
        pa, pc = arrow(), arrow("pyarrow.compute")
        if pa.types.is_dictionary(array.type):
            codes, wrong = self.codes(array.dictionary, kind)
            places = _filled(array.indices)
            if not len(codes):
                return np.full(len(array), -1, np.int64), None
            return codes[places], None if wrong is None else wrong[places]
        number = pa.types.is_integer(array.type) or pa.types.is_floating(array.type)
        if kind == "integer" or number:
            numbers, wrong = integers(array)
            return self._found(numbers), wrong
        texts, wrong = _texts(array)
        found = pc.index_in(_cast(texts, pa.large_string()), value_set=self._texts)
        return _filled(found, -1), wrong


def instants(array: Arrow, columns: Columns) -> tuple[IntArray, BoolArray | None]:
    """Microseconds since 1970 UTC, and which values are wrong. Wrong and missing ones have any
    number.
    """
    pa = arrow()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_date(array.type):
        array = array.cast(pa.timestamp("s" if pa.types.is_date32(array.type) else "ms"))
    if pa.types.is_timestamp(array.type):
        numbers = _filled(array.cast(pa.int64()))
        unit, zone = array.type.unit, array.type.tz
        numbers = (
            numbers // 1_000
            if unit == "ns"
            else _scaled(numbers, {"s": 1_000_000, "ms": 1_000, "us": 1}[unit])
        )
        return (numbers if zone else _placed(numbers, columns.zone)), None
    if columns.clock != "iso" and not pa.types.is_floating(array.type):
        numbers, wrong = integers(array)
        return _scaled(numbers, FACTORS[columns.clock]), wrong
    if not _is_text(array.type):
        return _none(array)
    return _iso(array, columns.zone)


def _iso(array: Arrow, zone: str) -> tuple[IntArray, BoolArray | None]:
    pa, pc = arrow(), arrow("pyarrow.compute")
    texts, wrong = _texts(array)
    naive, zoned = pa.timestamp("us"), pa.timestamp("us", "UTC")
    for kind in (naive, zoned):
        try:
            texts.slice(0, 1).cast(kind)  # the whole column is slow to fail
            numbers = _filled(texts.cast(kind).cast(pa.int64()))
        except pa.ArrowInvalid:
            continue
        return (_placed(numbers, zone) if kind is naive else numbers), wrong
    texts = pc.replace_substring_regex(texts, pattern=r"(\.[0-9]{6})[0-9]+", replacement=r"\1")
    numbers, good = np.zeros(len(texts), np.int64), _mask(texts.is_null())
    for kind, pattern in ((naive, NAIVE), (zoned, ZONED)):
        mask = _mask(pc.match_substring_regex(texts, pattern=pattern))
        found = _filled(texts.filter(pa.array(mask)).cast(kind).cast(pa.int64()))
        numbers[mask] = _placed(found, zone) if kind is naive else found
        good |= mask
    return numbers, ~good


def _placed(numbers: IntArray, zone: str) -> IntArray:
    """Times of a clock in the zone as microseconds UTC."""
    if zone == "UTC":
        return numbers
    pa, pc = arrow(), arrow("pyarrow.compute")
    shown = pa.array(np.clip(numbers, FIRST, LAST)).cast(pa.timestamp("us"))
    moments = pc.assume_timezone(shown, zone, ambiguous="earliest", nonexistent="latest")
    return np.where(
        (numbers < FIRST) | (numbers > LAST), numbers, _filled(moments.cast(pa.int64()))
    )


def _scaled(numbers: IntArray, factor: int) -> IntArray:
    """The numbers times the factor. Numbers that would overflow stay out of range."""
    if factor == 1:
        return numbers
    return np.clip(numbers, FIRST // factor - 1, LAST // factor + 1) * factor


def _within(numbers: IntArray, low: int, high: int) -> bool:
    """Whether no number is out of the range."""
    return not len(numbers) or (int(numbers.min()) >= low and int(numbers.max()) <= high)


def integers(array: Arrow) -> tuple[IntArray, BoolArray | None]:
    """Whole numbers of 64 bits, and which values are wrong. Wrong and missing ones are 0."""
    pa, pc = arrow(), arrow("pyarrow.compute")
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_integer(array.type):
        if array.type != pa.uint64():
            return _filled(array.cast(pa.int64())), None
        numbers = _filled(array.cast(pa.int64(), safe=False))
        return numbers, (numbers < 0 if (numbers < 0).any() else None)
    if pa.types.is_floating(array.type):
        return _whole_floats(array)
    if not _is_text(array.type):
        return _none(array)
    texts, wrong = _texts(array)
    try:
        found = texts.cast(pa.int64())
        if pc.all(pc.equal(found.cast(texts.type), texts)).as_py() is not False:
            return _filled(found), None
    except pa.ArrowInvalid:
        pass
    whole = _mask(pc.match_substring_regex(texts, pattern=WHOLE))
    long = whole & (_filled(pc.binary_length(texts)) >= 19)
    if long.any():
        digits = pc.utf8_ltrim(texts, characters="-")
        most = pc.if_else(pc.starts_with(texts, pattern="-"), str(2**63), str(2**63 - 1))
        fits = pc.or_(
            pc.less(pc.binary_length(digits), 19), pc.less_equal(digits, most.cast(digits.type))
        )
        whole &= ~long | _mask(fits)
    bad = ~whole & ~_mask(array.is_null())
    wrong = bad if wrong is None else bad | wrong
    if not whole.all():
        texts = pc.if_else(pa.array(whole), texts, pa.scalar("0", texts.type))
    return _filled(texts.cast(pa.int64())), wrong if wrong.any() else None


def _texts(array: Arrow) -> tuple[Arrow, BoolArray | None]:
    """Strings, and which values are not UTF-8 or of another type. A dictionary stays one."""
    pa, pc = arrow(), arrow("pyarrow.compute")
    if pa.types.is_dictionary(array.type):
        words, wrong = _texts(array.dictionary)
        if wrong is None:
            return pa.DictionaryArray.from_arrays(array.indices, words), None
        return _texts(array.dictionary_decode())
    if pa.types.is_integer(array.type):
        return array.cast(pa.string()), None
    if pa.types.is_floating(array.type):
        numbers, wrong = _whole_floats(array)
        return pa.array(numbers, mask=_mask(array.is_null())).cast(pa.string()), wrong
    if not _is_text(array.type):
        return pa.nulls(len(array), pa.string()), _none(array)[1]
    raw = array.cast(
        pa.large_binary()
        if pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
        else pa.binary()
    )
    kind = pa.large_string() if pa.types.is_large_binary(raw.type) else pa.string()
    try:
        return raw.cast(kind), None
    except pa.ArrowInvalid:
        valid = pc.fill_null(pc.match_substring_regex(raw, pattern=UTF8), True)
        return pc.if_else(valid, raw, pa.scalar(b"", raw.type)).cast(kind), ~_mask(valid)


def without_nan(array: Arrow) -> Arrow:
    """The array with null for each NaN, by which tables of pandas say that a number is missing."""
    pa, pc = arrow(), arrow("pyarrow.compute")
    if not pa.types.is_floating(array.type):
        return array
    return pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)


def _whole_floats(array: Arrow) -> tuple[IntArray, BoolArray | None]:
    """Floating-point numbers as whole numbers, and which of them are none, or not exact.

    A column of whole numbers with missing ones is such a column in pandas.
    """
    values = np.asarray(
        array.cast(arrow().float64()).fill_null(0).to_numpy(zero_copy_only=False), np.float64
    )
    good = (np.abs(values) < MAX_EXACT_FLOAT) & (values == np.floor(values))
    numbers = np.where(good, values, 0).astype(np.int64)
    return numbers, None if good.all() else ~good


def without_empty(array: Arrow) -> Arrow:
    """The array with null for each empty text."""
    pa, pc = arrow(), arrow("pyarrow.compute")
    if pa.types.is_dictionary(array.type):
        words = without_empty(array.dictionary)
        same = words is array.dictionary
        return array if same else without_empty(array.dictionary_decode())
    if not _is_text(array.type):
        return array
    if pa.types.is_string_view(array.type) or pa.types.is_binary_view(array.type):
        array = array.cast(pa.large_binary())
    empty = pc.equal(pc.binary_length(array), 0)
    if pc.any(empty).as_py() is not True:
        return array
    return pc.if_else(empty, pa.scalar(None, array.type), array)


def _is_text(kind: Arrow) -> bool:
    types = arrow().types
    tests = (
        types.is_string,
        types.is_large_string,
        types.is_string_view,
        types.is_binary,
        types.is_large_binary,
        types.is_binary_view,
    )
    return any(test(kind) for test in tests)


def _none(array: Arrow) -> tuple[IntArray, BoolArray]:
    """The result for a column of a type that is not accepted."""
    return np.zeros(len(array), np.int64), _mask(array.is_valid())


def _cast(array: Arrow, kind: Arrow) -> Arrow:
    return array if array.type == kind else array.cast(kind)


def _filled(array: Arrow, value: int = 0) -> IntArray:
    """An Arrow array of whole numbers as a NumPy array, with `value` for missing ones."""
    filled = array.fill_null(value) if array.null_count else array
    return np.asarray(filled.to_numpy(zero_copy_only=False)).astype(np.int64, copy=False)


def _mask(array: Arrow) -> BoolArray:
    """An Arrow array of booleans as a NumPy array; missing is false."""
    filled = array.fill_null(False) if array.null_count else array
    return np.asarray(filled.to_numpy(zero_copy_only=False), np.bool_)


def joined_texts(columns: Sequence[Arrow]) -> Arrow:
    """One column of text, of several of which some may be dictionaries, or bytes with digests."""
    pa = arrow()
    plain = [
        each.dictionary_decode() if pa.types.is_dictionary(each.type) else each for each in columns
    ]
    binary = any(pa.types.is_large_binary(each.type) for each in plain)
    kind = pa.large_binary() if binary else pa.large_string()
    return pa.concat_arrays([_cast(each, kind) for each in plain])


def _whole_array(column: Arrow) -> Arrow:
    """The column as one array, also if it is in chunks."""
    pa = arrow()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if pa.types.is_dictionary(column.type) and column.dictionary.null_count:
        column = column.dictionary_decode()
    return column
