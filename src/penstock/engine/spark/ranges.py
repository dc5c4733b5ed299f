"""Ranges of the input: what a publisher notes when it does not read events itself.

A range is noted with the clock's time and the units that were open then. It is stored before
anything of it is counted. So the same range gives the same counts after a crash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import msgspec
import numpy as np

from penstock.core.errors import StateError
from penstock.private.partial_counts import RangeRule
from penstock.private.sources.base import Batch, Position
from penstock.private.sources.files import FilePart


@dataclass(frozen=True, kw_only=True, eq=False)
class OffsetRange:
    """Messages of a topic: its id, and for each partition the first offset and the one after the
    last.
    """

    topic: str
    starts: Mapping[int, int]
    ends: Mapping[int, int]

    def joined(self, later: OffsetRange) -> OffsetRange:
        """This range and the one that follows it."""
        if self.topic != later.topic:
            return later
        return OffsetRange(
            topic=self.topic,
            starts={**later.starts, **self.starts},
            ends={**self.ends, **later.ends},
        )

    def emptied(self) -> OffsetRange:
        """A range of no messages, in place of one that is gone."""
        return OffsetRange(topic=self.topic, starts={}, ends={})

    def plain(self) -> dict[str, Any]:
        """The range as plain data."""
        return {"topic": self.topic, "starts": dict(self.starts), "ends": dict(self.ends)}


@dataclass(frozen=True, kw_only=True, eq=False)
class FileRange:
    """Whole files, from a row of each on."""

    files: Sequence[FilePart]

    def joined(self, later: FileRange) -> FileRange:
        """This range and the one that follows it."""
        return FileRange(files=(*self.files, *later.files))

    def plain(self) -> dict[str, Any]:
        """The range as plain data."""
        return {"files": [asdict(each) for each in self.files]}


@dataclass(frozen=True, kw_only=True, eq=False)
class RangeBatch(Batch):
    """A batch that has no events, and says where they are."""

    content: OffsetRange | FileRange

    @classmethod
    def of(cls, content: OffsetRange | FileRange, position: Position) -> RangeBatch:
        """The batch of a range, with the position after it."""
        none = np.empty(0, np.int64)
        return cls(time=none, key=none, person=None, position=position, content=content)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NotedRange:
    """A range, and how its events are judged.

    Parameters
    ----------
    content : OffsetRange or FileRange
        The range.
    since, now : int
        The clock's times when its first and its last part were noted.
    units : mapping
        The state of the units at that time.
    tallied : bool
        Whether its rows are in the tallies already.
    """

    content: OffsetRange | FileRange
    since: int
    now: int
    units: Mapping[str, Any]
    tallied: bool = False

    @property
    def shut(self) -> int:
        """The last unit that took no more events when the range was noted."""
        return int(self.units["closed"])

    def rule(self) -> RangeRule:
        """How a worker judges its events."""
        return RangeRule(now=self.now, units=self.units, tallied=not self.tallied)

    def encode(self) -> bytes:
        """The range as bytes, for the private part of the store."""
        fields = {"since": self.since, "now": self.now, "units": self.units}
        return msgspec.msgpack.encode({**fields, **self.content.plain()})

    @classmethod
    def decode(cls, content: bytes, *, tallied: bool) -> NotedRange:
        """The range of these bytes."""
        try:
            plain = msgspec.msgpack.decode(content, strict=False)
            found: OffsetRange | FileRange
            if "files" in plain:
                found = FileRange(files=tuple(FilePart(**each) for each in plain["files"]))
            else:
                starts, ends = (
                    {int(partition): int(offset) for partition, offset in plain[name].items()}
                    for name in ("starts", "ends")
                )
                found = OffsetRange(topic=str(plain["topic"]), starts=starts, ends=ends)
            return cls(
                content=found,
                since=int(plain["since"]),
                now=int(plain["now"]),
                units=plain["units"],
                tallied=tallied,
            )
        except (msgspec.DecodeError, KeyError, TypeError, ValueError, AttributeError):
            raise StateError("what was kept of a range of the input is damaged.") from None
