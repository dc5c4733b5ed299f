"""The protocol of sinks, and helpers for every sink.

A unit of a series has one content for ever, and the link of the hash chain after it identifies that
content. A sink keeps a unit that comes again as it is. If the unit comes with another link, the
sink and the store have different histories (a restored backup, or two publishers): the sink
refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from penstock.core.declaration import EndpointKind, EndpointSetup, Option, Options
from penstock.core.deprecated import moved
from penstock.core.errors import InputError, PenstockError
from penstock.core.released import Released
from penstock.released.release_filter import FilterChoice
from penstock.released.series import Series

_LINK = re.compile(r"[0-9a-f]{64}")


class SinkError(PenstockError):
    """A sink did not take a release: it is down, full, or refused it. Sending again later is safe.

    Parameters
    ----------
    message : str
        What went wrong, and what to do.
    lasting : bool
        Whether the problem will hardly pass by itself (default: False).
    after : float, optional
        Seconds after which the sink asks to be tried again (default: None, it does not say).
    done : int
        The number of items, from the first on, that the sink has for sure (default: 0).
    """

    def __init__(
        self, message: str, *, lasting: bool = False, after: float | None = None, done: int = 0
    ) -> None:
        self.lasting = lasting
        self.after = after
        self.done = done
        super().__init__(message)


class SinkHead(NamedTuple):
    """The newest unit that a sink holds of a series, and the link after it."""

    unit: int
    link: str


@dataclass(frozen=True, kw_only=True)
class ReleaseItem:
    """The release of one unit.

    `link` is the hash chain after it, in hexadecimal digits. `signature` is the publisher's public
    key and signature of that link, likewise; empty if the stream is not signed. `filter` has the
    settings of the filter that the numbers come from; None if they are as released. The link of
    filtered numbers is that of the release. `nonnegative` says that the sink is to hold no negative
    numbers: the release is as it was, and `item_numbers` computes them.
    """

    series: Series
    unit: int
    begins: datetime
    ends: datetime
    release: Released = field(repr=False)
    link: str
    signature: str = ""
    filter: FilterChoice | None = None
    nonnegative: bool = False

    def __post_init__(self) -> None:
        where = f"unit {self.unit} of {self.series.name!r}"
        if not isinstance(self.release, Released):
            raise InputError(
                f"{where}: a sink takes what was released, not {type(self.release).__name__}."
            )
        if self.release.unit != self.unit or self.unit < 1:
            raise InputError(f"{where}: the release is of unit {self.release.unit}.")
        if self.release.value.shape != (self.series.domain.size,):
            raise InputError(
                f"{where}: {self.release.value.size} numbers for {self.series.domain.size} keys."
            )
        if not _LINK.fullmatch(self.link):
            raise InputError(f"{where}: the link must be 64 hexadecimal digits.")
        for name in ("begins", "ends"):
            moment: datetime = getattr(self, name)
            if moment.utcoffset() is None:
                raise InputError(f"{where}: {name} must have an offset from UTC.")
            object.__setattr__(self, name, moment.astimezone(UTC))
        if self.ends <= self.begins:
            raise InputError(f"{where}: it must end after it begins.")


class Sink(Protocol):
    """Where releases go. One publisher writes to it at a time; anybody may read.

    A class of your own has these three methods, and a `SinkKind` beside it. Every unit of a series
    has one content, so a sink may be sent a unit twice and keeps it once.
    """

    def head(self, series: str) -> tuple[int, str] | None:
        """Give the newest unit that it holds of a series, and the link after that unit.

        Parameters
        ----------
        series : str
            The name of the series.

        Returns
        -------
        tuple of (int, str), optional
            None if it holds nothing, or if its kind cannot report what it holds.
        """

    def put(self, items: Sequence[ReleaseItem]) -> None:
        """Take all items or raise a `SinkError`; leave alone what it holds already.

        Parameters
        ----------
        items : sequence of ReleaseItem
            Units of one or more series, those of each series in order.
        """

    def close(self) -> None:
        """Let go of files and connections. All that was put is safe already."""


@runtime_checkable
class Interruptible(Protocol):
    """A sink whose `put` or `head` another thread can end, so that a stop need not wait for it."""

    def interrupt(self) -> None:
        """End a call under way with an error. Without such a call, nothing happens."""


class SinkFence(Protocol):
    """Heads that are kept where a sink writes, and change from exactly what they were.

    The publisher moves the heads before anybody sees the units. So of two copies of a store that
    write to one place, only one can release a unit. The heads are not those of `Sink.head`: a unit
    is put after its head has moved.
    """

    def read(self) -> Mapping[str, SinkHead]:
        """Give the heads of all series, by name; a `SinkError` if that cannot be done now."""

    def swap(
        self, before: Mapping[str, SinkHead | None], after: Mapping[str, SinkHead]
    ) -> Mapping[str, SinkHead]:
        """Replace some heads if each is as before, in one step; give those that are there then.

        The new heads are safe from a power cut when this returns. If one of them is neither as
        `before` nor as `after`, none is replaced. A head that is as `after` already counts as
        replaced: an earlier answer may have been lost. After a `SinkError`, the publisher calls
        again.

        Parameters
        ----------
        before : mapping of str to SinkHead or None
            The heads that must be there, by series; None where there must be none.
        after : mapping of str to SinkHead
            The new heads of the same series.
        """

    def close(self) -> None:
        """Let go of files and connections."""


@dataclass(frozen=True, kw_only=True)
class SinkKind(EndpointKind):
    """The declaration of a kind of sink: `KIND = SinkKind(…)` beside its class.

    Parameters
    ----------
    name, summary, options, describe, check, extra
        As in `EndpointKind`.
    build : callable
        From an `EndpointSetup` to the sink. Imports of optional packages belong in it.
    reports : bool
        Whether `head` can be relied on (default: True). If not, the publisher keeps count itself,
        and the sink cannot show that a store was restored from an old backup.
    refuses : bool
        Whether `put` refuses another content of a unit that the sink holds (default: True). A topic
        cannot; the publisher compares heads before it sends anything.
    fence : callable, optional
        From an `EndpointSetup` to a `SinkFence`, or to the path of a file beside the releases, in
        which the publisher keeps the heads itself (default: None, two copies of a store that write
        to this sink cannot be kept apart).
    place : tuple of str
        The keys of options that say where the releases are. Two sinks of one pipeline cannot share
        them all (default: none, sinks can share everything).
    gathers : bool
        Whether each `put` makes a file, so that short units should come together (default: False).
    trial : callable, optional
        From an empty folder to the options of a sink to try, for `check_*` (default: None).

    Examples
    --------
    >>> from penstock.released.sinks.jsonl import KIND
    >>> KIND.name, KIND.reports, KIND.place
    ('jsonl', True, ('path',))
    """

    build: Callable[[EndpointSetup], Sink]
    reports: bool = True
    refuses: bool = True
    fence: Callable[[EndpointSetup], SinkFence | Path] | None = None
    place: tuple[str, ...] = ()
    gathers: bool = False
    trial: Callable[[Path], Options] | None = None


def in_order(items: Sequence[ReleaseItem]) -> dict[str, list[ReleaseItem]]:
    """The items of each series in the order of units. Another order is an `InputError`."""
    found: dict[str, list[ReleaseItem]] = {}
    for item in items:
        found.setdefault(item.series.name, []).append(item)
    for name, each in found.items():
        for one, other in pairwise(each):
            if other.unit != one.unit + 1:
                raise InputError(
                    f"unit {other.unit} of {name!r} comes after unit {one.unit}: "
                    "a sink takes units in order."
                )
    return found


def missing(items: Sequence[ReleaseItem], head: tuple[int, str] | None) -> Sequence[ReleaseItem]:
    """The items that a sink with this head lacks. Items are of one series and in order.

    Another link at the head, or a gap after it, is a `SinkError`: the publisher must read the head
    again.
    """
    if head is None or not items:
        return items
    unit, link = head
    fresh = [item for item in items if item.unit > unit]
    for item in items[: len(items) - len(fresh)]:
        if item.unit == unit and item.link != link:
            raise SinkError(
                f"unit {unit} of {item.series.name!r} is there with another link: the sink holds "
                "releases of another store, or of this one before it was restored. Nothing was "
                "written.",
                lasting=True,
            )
    if fresh and fresh[0].unit != unit + 1:
        raise SinkError(
            f"unit {fresh[0].unit} of {fresh[0].series.name!r} does not follow unit {unit}, the "
            "newest that the sink holds: send the units between them first. Nothing was written."
        )
    return fresh


@contextmanager
def on_disk(path: Path) -> Iterator[None]:
    """Turn an error of the disk into a `SinkError` with advice."""
    try:
        yield
    except OSError as error:
        raise SinkError(
            f"{path.name} cannot be used: {error.strerror or type(error).__name__}. Check that the "
            "disk is there and not full, and that this account may write to it. The missing "
            "releases are written then."
        ) from None


def head_file_beside(path: Path) -> Path:
    """The file in which the heads of a fence are kept, beside the file or folder of a sink."""
    return path.with_name(f"{path.name}.head")


def format_option() -> Option:
    """The option `format` of a sink that writes tables."""
    return Option(
        name="format",
        choices=("full", "long"),
        default="full",
        example="full",
        help="the columns of a row, which is one key of one unit: full for all, long for unit, "
        "begins, key, value, low and high",
    )


def path_option(example: str, help_text: str) -> Option:
    """The option `path` of a sink that writes files."""
    return Option(name="path", type="path", required=True, example=example, help=help_text)


if not TYPE_CHECKING:
    __getattr__ = moved(__name__)
