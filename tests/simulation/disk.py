"""A disk that loses what was not synced.

The folder of a disk is a real one in memory. It shows what programs see: the cache of the operating
system. Beside it the disk knows what a power cut would leave. Content is kept in sectors. A sector
that was written and not synced may be on the disk or not, one by one, so pages may be torn. A new,
renamed or removed name is certain once the folder is synced.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

SECTOR = 512


@dataclass(eq=False)
class Inode:
    """The content of a file: what the disk has for certain, and the sectors that are not synced.

    `lied` are the sectors of which a sync has said that they are on the disk, and they are not.
    """

    durable: bytearray = field(default_factory=bytearray)
    dirty: set[int] = field(default_factory=set)
    lied: set[int] = field(default_factory=set)

    def wrote(self, offset: int, length: int) -> None:
        if length:
            self.dirty.update(range(offset // SECTOR, (offset + length - 1) // SECTOR + 1))

    def truncated(self, size: int) -> None:
        """Sectors beyond the new end are dirty: a power cut may bring them back."""
        self.dirty.update(range(size // SECTOR, len(self.durable) // SECTOR + 1))

    def sync(self, current: bytes, *, lie: bool = False) -> None:
        """Everything is on the disk, or only said to be."""
        if lie:
            self.lied |= self.dirty
            return
        _apply(self.durable, current, self.dirty, len(current))
        self.lied -= self.dirty
        self.dirty.clear()

    def sync_failed(self, current: bytes, random: Random) -> None:
        """Some sectors were written; the system has forgotten that the others were not."""
        size = max(len(current), len(self.durable))
        _apply(self.durable, current, _some(self.dirty, random), size)
        self.dirty.clear()

    def after_power_cut(self, current: bytes, random: Random) -> tuple[bytes, bool]:
        """What is left, and whether something is lost that a sync had promised."""
        kept = _some(self.dirty, random)
        end = min(max(kept, default=-1) * SECTOR + SECTOR, len(current))
        size = max(random.choice((len(current), len(self.durable))), end)
        left = bytearray(self.durable)
        _apply(left, current, kept, size)
        return bytes(left), bool(self.lied - kept)


def _apply(content: bytearray, current: bytes, sectors: set[int], size: int) -> None:
    """Copy some sectors of the current content, and set the size."""
    if len(content) < size:
        content.extend(bytes(size - len(content)))
    del content[size:]
    for sector in sectors:
        start = sector * SECTOR
        piece = current[start : min(start + SECTOR, size)]
        content[start : start + len(piece)] = piece


def _some(sectors: set[int], random: Random) -> set[int]:
    """All, none, the first ones, some pages, or some sectors."""
    ordered = sorted(sectors)
    match random.randrange(5):
        case 0:
            return set(ordered)
        case 1:
            return set()
        case 2:
            return set(ordered[: random.randrange(len(ordered) + 1)])
        case 3:
            pages = {sector // 8 for sector in ordered}
            kept = {page for page in sorted(pages) if random.random() < 0.5}
            return {sector for sector in ordered if sector // 8 in kept}
        case _:
            return {sector for sector in ordered if random.random() < 0.5}


def content_of(path: str | Path) -> bytes:
    """What programs see in a file, read past all faults."""
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read()


class Disk:
    """One disk with one folder. After a power cut it goes on in a new folder."""

    def __init__(self, place: Path, random: Random, name: str) -> None:
        self.name = name
        self.random = random
        self.boot = 0
        self.lies = False
        self.lost_promised = False
        """Whether a power cut took something that a sync had promised."""
        self.full = False
        self._place = place
        self._names: dict[str, Inode] = {}
        self._sure: dict[str, Inode] = {}  # names after the last sync of the folder
        self._changes: list[tuple[str, str, str]] = []
        self._make()

    def _make(self) -> None:
        self.folder = self._place / f"{self.name}-{self.boot}"
        self.folder.mkdir()

    def inode(self, path: str | Path) -> Inode:
        """The content of a name; made with its first use."""
        name = Path(path).name
        if name not in self._names:
            self._names[name] = Inode()
            self._changes.append(("make", name, ""))
        return self._names[name]

    def knows(self, path: str | Path) -> bool:
        return Path(path).name in self._names

    def renamed(self, old: str | Path, new: str | Path) -> None:
        old, new = Path(old).name, Path(new).name
        self._names[new] = self._names.pop(old)
        self._changes.append(("rename", old, new))

    def removed(self, path: str | Path) -> None:
        name = Path(path).name
        if self._names.pop(name, None) is not None:
            self._changes.append(("remove", name, ""))

    def sync_folder(self) -> None:
        self._sure = dict(self._names)
        self._changes.clear()

    # -- power cuts and copies ---------------------------------------------------------------------

    def cut_power(self) -> None:
        """Keep what is durable and some of the rest, in a new folder."""
        current = {
            name: content_of(self.folder / name)
            for name in self._names
            if (self.folder / name).exists()
        }
        by_inode = {id(inode): current.get(name, b"") for name, inode in self._names.items()}
        left = {}
        for name, inode in self._names_left().items():
            now = by_inode.get(id(inode), bytes(inode.durable))
            left[name], lost = inode.after_power_cut(now, self.random)
            self.lost_promised |= lost
        self.restore(left)

    def _names_left(self) -> dict[str, Inode]:
        """The names of the last sync, and some of the changes after it, in order."""
        following = dict(self._sure)
        for kind, name, other in self._changes[: self.random.randrange(len(self._changes) + 1)]:
            if kind == "make":
                following[name] = self._made(name)
            elif kind == "rename" and name in following:
                following[other] = following.pop(name)
            elif kind == "remove":
                following.pop(name, None)
        return following

    def _made(self, name: str) -> Inode:
        """The inode that was made under this name: under its present name, or an empty one."""
        at = name
        for kind, old, new in self._changes:
            if kind == "rename" and old == at:
                at = new
        return self._names.get(at, Inode())

    def image(self) -> dict[str, bytes]:
        """All files as programs see them: a clone of the machine."""
        return {
            path.name: content_of(path)
            for path in sorted(self.folder.iterdir())
            if not path.name.endswith("-shm")
        }

    def restore(self, image: dict[str, bytes]) -> None:
        """Begin anew with these files, all of them durable."""
        old = self.folder
        self.boot += 1
        self._make()
        self._names = {}
        for name, content in image.items():
            if name.endswith("-shm"):
                continue
            (self.folder / name).write_bytes(content)
            (self.folder / name).chmod(0o600)
            self._names[name] = Inode(bytearray(content))
        self.sync_folder()
        shutil.rmtree(old, ignore_errors=True)
