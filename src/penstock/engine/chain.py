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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import index
from pathlib import Path
from typing import Protocol

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
    signature: bytes | None = field(default=None, compare=False, repr=False)
    """The public key and the signature by it, if the head is signed: see `signing`."""

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


def head_message(series: str, head: Head) -> bytes:
    """The bytes of a head that are signed, and authenticated with a key that readers lack."""
    name = series.encode()
    place = len(name).to_bytes(4, "big") + name + head.unit.to_bytes(8, "big")
    return b"penstock signed head 1\n" + place + head.link


# -- the head, kept elsewhere ----------------------------------------------------------------------


class HeadError(StoreUnavailableError):
    """A head that cannot be read or written at the fence. What waits for it is shown to nobody."""


class FencedError(StateError):
    """The fence has another head than this store: another copy of the store has released units.

    Nothing of this store's newest unit was shown, and it must not go on.
    """


class Fence(Protocol):
    """Where the heads of a stream are kept outside its store, and change from exactly what they
    were.

    Of two copies of a store, only one can move the heads to its next unit, and a unit is shown only
    after that.
    """

    @property
    def name(self) -> str:
        """What it is called in messages, such as "the head file"."""

    def read(self) -> Mapping[str, Head]:
        """The heads of all series that it knows."""

    def swap(
        self, before: Mapping[str, Head | None], after: Mapping[str, Head]
    ) -> Mapping[str, Head]:
        """Replace some heads if each is as before, all in one durable step; return what is there
        then.

        A head that is `after` already counts as replaced: an earlier answer may have been lost.
        `before` is None for a head that is not there. A `StoreUnavailableError` or `SinkError`
        means that the same call is worth a retry.
        """


class HeadFile:
    """The heads of a store's series in a file, kept where a restored backup does not reach.

    Parameters
    ----------
    path : str or os.PathLike
        The file.
    name : str
        What it is called in messages. Default: "the head file".
    """

    def __init__(self, path: str | os.PathLike[str], *, name: str = "the head file") -> None:
        self.path = Path(path).absolute()
        self.name = name
        self._tidy = False

    def read(self) -> dict[str, Head]:
        """All heads; none if there is no file yet."""
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise HeadError(
                f"{self.name} {self.path.name} cannot be read: {error.strerror}."
            ) from None
        try:
            content = json.loads(text)
            if content["format"] != [FORMAT, VERSION]:
                raise ValueError("another format")
            signatures = content.get("signatures", {})
            return {
                name: _head(unit, link, signatures.get(name))
                for name, (unit, link) in content["heads"].items()
            }
        except (ValueError, KeyError, TypeError, AttributeError):
            raise StateError(
                f"{self.path.name} is not a head file, or damaged: delete it only if you know that "
                "no old backup was restored."
            ) from None

    def write(self, stream: str, head: Head) -> None:
        """Note the newest head of a series."""
        self.update({stream: head})

    def update(self, heads: Mapping[str, Head]) -> None:
        """Note the newest heads of some series, whatever was noted before."""
        with self._locked():
            self._write(self.read() | dict(heads))

    def swap(self, before: Mapping[str, Head | None], after: Mapping[str, Head]) -> dict[str, Head]:
        """Replace some heads if each is as before: see `Fence`.

        Heads that are `after` already are written again, because the attempt that wrote them may
        have failed before they were on the disk.
        """
        with self._locked():
            heads = self.read()
            if all(heads.get(name) in (before[name], head) for name, head in after.items()):
                heads |= after
                self._write(heads)
            return {name: heads[name] for name in after if name in heads}

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Let no other process in: several may keep their heads in one file."""
        try:
            lock = open_locked(self.path.parent, os.O_RDONLY, wait=True)
        except OSError as error:
            raise self._unwritable(error) from None
        try:
            yield
        finally:
            os.close(lock)

    def _write(self, heads: Mapping[str, Head]) -> None:
        """Write all heads: killed at any point, the old or the new file is read."""
        try:
            if not self._tidy:
                remove_leftovers(self.path)
                self._tidy = True
            write_file(self.path, _text(heads))
        except OSError as error:
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> HeadError:
        return HeadError(
            f"{self.name} {self.path.name} cannot be written: {error.strerror}. Make its folder "
            "writable, and see that the disk is not full."
        )


def _head(unit: object, link: str, signature: str | None) -> Head:
    digest = bytes.fromhex(link)
    if not isinstance(unit, int) or unit < 0 or len(digest) != SIZE:
        raise ValueError("not a head")
    return Head(unit, digest, None if signature is None else bytes.fromhex(signature))


def _text(heads: Mapping[str, Head]) -> bytes:
    links = {name: [heads[name].unit, heads[name].link.hex()] for name in sorted(heads)}
    content: dict[str, object] = {"format": [FORMAT, VERSION], "heads": links}
    signatures = {name: sign.hex() for name in links if (sign := heads[name].signature) is not None}
    if signatures:
        content["signatures"] = signatures
    return json.dumps(content, ensure_ascii=False).encode() + b"\n"
