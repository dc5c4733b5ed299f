"""Notices: log entries about a publisher. None holds private data; alerts hold released numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

Level: TypeAlias = Literal["info", "warning", "error"]
NoticeKind: TypeAlias = Literal[
    "accepting",  # where events are accepted
    "promise",  # what the stream promises
    "start",  # a series begins with unit 1
    "resume",  # a series goes on from its newest unit
    "metrics",  # where the monitor listens
    "service",  # where the read service listens
    "begin",  # the publisher reads its input
    "release",  # a unit is public
    "waiting",  # nothing is released until somebody else has answered
    "source",  # the source has a problem, or is back
    "store",  # the store has a problem, or is back
    "sink",  # a sink has a problem, or is back
    "alert",  # keys were raised or cleared, or a rule has a problem, or is back
    "trouble",  # something unexpected that does not stop the publisher
    "stopping",  # somebody asked the publisher to stop
    "stopped",  # an error ended the publisher
    "failed",  # the process ends because of an error
    "end",  # the publisher has ended as it should
    "published",  # how many units are published, and where they are
    "next",  # the commands that show them
]


@dataclass(frozen=True, kw_only=True)
class Notice:
    """One log entry.

    Parameters
    ----------
    kind : NoticeKind
        What happened. Programs read this and never the text.
    stream : str
        The stream or series that it is about; default: none.
    unit : int
        The unit that it is about; default: 0, none.
    text : str
        The same for people, without data; default: empty.
    level : {"info", "warning", "error"}
        How serious it is; default: "info".
    """

    kind: NoticeKind
    stream: str = ""
    unit: int = 0
    text: str = ""
    level: Level = "info"


Listener: TypeAlias = Callable[[Notice], None]
"""Hears all notices, from several threads."""


@dataclass(frozen=True)
class Notifier:
    """Sends notices about one stream to a listener."""

    stream: str
    listener: Listener

    def __call__(
        self,
        kind: NoticeKind,
        text: str = "",
        *,
        series: str = "",
        unit: int = 0,
        level: Level = "info",
    ) -> None:
        self.listener(
            Notice(kind=kind, stream=series or self.stream, unit=unit, text=text, level=level)
        )
