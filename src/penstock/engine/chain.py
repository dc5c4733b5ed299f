"""The hash chain of a series: its charges and releases, in an order that nobody can change
unnoticed.

It begins with the description of the series. Every ledger line adds a link, and after a unit's
lines its release adds one. The link after a unit's release is the *head*. Whoever has noted a head
can tell later whether anything up to it was changed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from operator import index
from pathlib import Path

from penstock.budget.ledger import Line
from penstock.core.errors import StateError, StoreUnavailableError
from penstock.core.files import open_locked, remove_leftovers, write_file

FORMAT = "penstock head"
VERSION = 1
SIZE = hashlib.sha256().digest_size


@dataclass(frozen=True)
class Head:
    """The newest unit of a chain and the link after it; unit 0 is the beginning, before any
    release.

    >>> str(Head(3, bytes(32)))
    '3:0000000000000000000000000000000000000000000000000000000000000000'
    """

    unit: int
    link: bytes

    def __str__(self) -> str:
        return f"{self.unit}:{self.link.hex()}"


# -- links -----------------------------------------------------------------------------------------


def beginning(about: str) -> bytes:
    """The link before the first line, from the text that describes the series."""
    return hashlib.sha256(b"penstock chain 1\n" + about.encode()).digest()


def canonical(line: Line) -> bytes:
    """A line as bytes: equal lines give equal bytes.

    >>> canonical(Line(7, "spend", "publish", 5, 5))
    b'[7,"spend","publish",5,5,0]'
    """
    numbers = [index(line.amount), index(line.number), index(line.run)]
    content = [index(line.unit), line.kind, line.label, *numbers]
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


def after_line(before: bytes, line: Line) -> bytes:
    """The link after a ledger line."""
    return hashlib.sha256(before + b"line" + canonical(line)).digest()


def after_release(before: bytes, unit: int, flags: bytes, body: bytes) -> bytes:
    """The link after a unit's release, of which `flags` is the short part and `body` the digest of
    the long one.
    """
    return hashlib.sha256(before + b"unit" + unit.to_bytes(8, "big") + body + flags).digest()


# -- the head, kept elsewhere ----------------------------------------------------------------------


class HeadError(StoreUnavailableError):
    """A head file that cannot be written, although its unit is committed."""


class HeadFile:
    """The heads of a store's series in a file, kept where a restored backup does not reach."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        self._tidy = False

    def read(self) -> dict[str, Head]:
        """All heads; none if there is no file yet."""
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise StateError(
                f"the head file {self.path.name} cannot be read: {error.strerror}."
            ) from None
        try:
            content = json.loads(text)
            if content["format"] != [FORMAT, VERSION]:
                raise ValueError("another format")
            return {name: _head(unit, link) for name, (unit, link) in content["heads"].items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            raise StateError(
                f"{self.path.name} is not a head file, or damaged: delete it only if you know that "
                "no old backup was restored."
            ) from None

    def write(self, stream: str, head: Head) -> None:
        """Note the newest head of a series."""
        self.update({stream: head})

    def update(self, heads: Mapping[str, Head]) -> None:
        """Note the newest heads of some series: killed at any point, the old or the new file is
        read.
        """
        try:  # several processes may note their heads in one file: one after the other
            lock = open_locked(self.path.parent, os.O_RDONLY, wait=True)
        except OSError as error:
            raise HeadError(
                f"the head file {self.path.name} cannot be written: {error.strerror}."
            ) from None
        try:
            self._update(heads)
        finally:
            os.close(lock)

    def _update(self, heads: Mapping[str, Head]) -> None:
        committed = " and ".join(
            f"unit {head.unit} of {stream!r}" for stream, head in heads.items()
        )
        heads = {**self.read(), **heads}
        try:
            if not self._tidy:
                remove_leftovers(self.path)
                self._tidy = True
            write_file(self.path, _text(heads))
        except OSError as error:
            raise HeadError(
                f"{committed} is committed, and the head file {self.path.name} cannot be written: "
                f"{error.strerror}. Make its folder writable, see that the disk is not full, and "
                "start again."
            ) from None


def _head(unit: object, link: str) -> Head:
    digest = bytes.fromhex(link)
    if not isinstance(unit, int) or unit < 0 or len(digest) != SIZE:
        raise ValueError("not a head")
    return Head(unit, digest)


def _text(heads: Mapping[str, Head]) -> bytes:
    content = {name: [heads[name].unit, heads[name].link.hex()] for name in sorted(heads)}
    return (
        json.dumps({"format": [FORMAT, VERSION], "heads": content}, ensure_ascii=False).encode()
        + b"\n"
    )
