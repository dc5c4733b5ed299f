"""`KeyCopy`: the releases of a series by key, so that one key over all units is read at once."""

from __future__ import annotations

import hashlib
import logging
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.core.errors import ConfigurationError, PenstockError
from penstock.core.files import make_folder
from penstock.core.released import DEVIATION, Released
from penstock.core.weights import Weights
from penstock.engine.chain import Head, beginning
from penstock.engine.sql_store import SqlReader
from penstock.engine.sql_store.verification import verified_units
from penstock.engine.store import SeriesLog
from penstock.released import encoding
from penstock.released.release_table import GROUP, NOISY, START, ReleaseTable

UNITS_PER_BLOCK = 256
"""How many units a block has. The newest block is in memory until it is full."""

VERSION = 1
ABOUT = "about.json"

_log = logging.getLogger(__name__)


class BlockFacts(msgspec.Struct, frozen=True):
    """What the file about a block says: between which links its units lie, and its arrays."""

    version: int
    first: int
    before: str
    after: str
    kind: str
    weights: tuple[str, int, str]
    bases: list[str]
    digests: dict[str, str]


@dataclass
class CopyBlock:
    """The releases of consecutive units by key.

    An array has one number per unit, or one row per key with a number per unit. The arrays of the
    open block are filled unit by unit; those of others are files.
    """

    first: int
    before: bytes
    after: bytes
    kind: str = ""
    weights: Weights = field(default_factory=Weights)
    bases: list[Fraction] = field(default_factory=list)
    scales: list[float] = field(default_factory=list)
    """The bases as floats: converting many fractions takes longer than everything else."""
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def last(self) -> int:
        """The last unit; below `first` if there is none yet."""
        return self.first + len(self.bases) - 1

    def take(self, release: Released, link: bytes) -> None:
        """Add the next unit."""
        if self.bases and (release.kind, release.weights) != (self.kind, self.weights):
            raise ConfigurationError(
                f"unit {release.unit} was released in another way than unit {self.first}."
            )
        self.kind, self.weights = release.kind, release.weights
        public, place = release.public, len(self.bases)
        given: dict[str, Any] = {
            "value": release.value,
            "parts": release.scale.parts,
            "divisor": release.divisor,
            "layers": release.layers,
            "repeated": release.repeated,
            "whole": release.repeated is True,
            "has_noisy": NOISY in public,
            "has_start": START in public,
            "grouped": GROUP in public,
            "noisy": public.get(NOISY, 0),
            "back": release.unit - public[START] if START in public else 0,
            "deviation": public.get(DEVIATION, 0),
        }
        for name, value in given.items():
            self._room(name, np.asarray(value))[..., place] = value
        self.after = link
        self.scales.append(float(release.scale.base))
        self.bases.append(release.scale.base)  # last: readers look at no unit before

    def _room(self, name: str, value: NDArray[Any]) -> NDArray[Any]:
        """The array to write into. It gets a row per key when a unit first has a number per key."""
        there = self.arrays.get(name)
        if there is None:
            shape = (*value.shape, UNITS_PER_BLOCK)
            there = self.arrays[name] = np.zeros(shape, value.dtype)
        elif value.ndim and there.ndim == 1:
            there = np.repeat(there[None], len(value), axis=0)
            self.arrays[name] = there
        return there

    def rows(self, name: str, units: slice, places: IntArray | None) -> NDArray[Any]:
        """One row per unit, with a number per key or one number."""
        array = self.arrays[name]
        if array.ndim == 1:
            return array[units, None]
        return (array if places is None else array[places])[:, units].T


class KeyCopy:
    """A copy of the releases of one series by key, in a folder beside the service.

    It is built from the log, and every unit is checked against the chain before it is copied. A
    block of the copy that is damaged, or does not belong to this chain, is made again.

    Parameters
    ----------
    reader : SqlReader
        The store.
    series : str
        The name of the series.
    folder : Path
        The folder of this series. Nothing else belongs into it.
    """

    def __init__(self, reader: SqlReader, series: str, folder: Path) -> None:
        self._reader = reader
        self._series = reader.series(series)
        self._folder = folder
        make_folder(folder)
        full = self._read_blocks()
        link = full[-1].after if full else beginning(self._series.about)
        self._blocks = (*full, CopyBlock(len(full) * UNITS_PER_BLOCK + 1, link, link))
        """The last one is open. The tuple is replaced as a whole: other threads read it."""
        self._body: Released | None = None

    @property
    def head(self) -> Head:
        """How far the copy goes."""
        newest = self._blocks[-1]
        return Head(newest.last, newest.after)

    def follow(self, units: int | None = None) -> bool:
        """Copy newer units, at most so many. Return whether the copy has all of them."""
        newest = self._reader.head(self._series.name)
        end = newest.unit if units is None else min(newest.unit, self.head.unit + units)
        if end > self.head.unit:
            target = self._reader.at(self._series.name, end)
            for row, _ in verified_units(self._reader, self._series, target, self.head):
                unit, body_of, flags, _, link, body, *_ = row
                *full, block = self._blocks
                block.take(self._release(unit, body_of, flags, body), link)
                if len(block.bases) == UNITS_PER_BLOCK:
                    self._blocks = (*full, self._written(block), CopyBlock(unit + 1, link, link))
        return end == newest.unit

    def table(self, first: int, last: int, places: IntArray | None = None) -> ReleaseTable:
        """The releases of these units as arrays, of all keys or of those at some places."""
        pieces = list(self._pieces(first, last))
        sample = pieces[0][0]
        for block, _ in pieces:
            if (block.kind, block.weights) != (sample.kind, sample.weights):
                raise ConfigurationError(
                    f"unit {block.first} was released in another way than unit {first}."
                )
        keys = self._series.domain.size if places is None else len(places)
        shape = (last - first + 1, keys)

        def rows(name: str, kind: type) -> NDArray[Any]:
            found = [block.rows(name, units, places) for block, units in pieces]
            if all(each.shape[1] == 1 for each in found) and keys != 1:
                return np.broadcast_to(np.concatenate(found).astype(kind), shape)
            out: NDArray[Any] = np.empty(shape, kind)
            place = 0
            for each in found:
                out[place : place + len(each)] = each
                place += len(each)
            return out

        def flags(name: str) -> BoolArray:
            return np.concatenate([block.arrays[name][units] for block, units in pieces])

        has_noisy, has_start = flags("has_noisy"), flags("has_start")
        units = np.arange(first, last + 1)[:, None]
        divisor = rows("divisor", np.float64)
        return ReleaseTable(
            first=first,
            value=rows("value", np.int64),
            scale=self._scale(pieces, rows, divisor),
            repeated=rows("repeated", np.bool_),
            whole=flags("whole"),
            divisor=divisor,
            layers=rows("layers", np.int64),
            noisy=rows("noisy", np.int64) if has_noisy.all() else None,
            start=units - rows("back", np.int64) if has_start.all() else None,
            kind=sample.kind,  # type: ignore[arg-type]
            weights=sample.weights,
            running=bool(has_noisy[0] and has_start[0]),
            grouped=bool(flags("grouped")[0]),
        )

    # -- inside ------------------------------------------------------------------------------------

    def _release(self, unit: int, body_of: int, flags: bytes, body: bytes | None) -> Released:
        if body is None and (self._body is None or self._body.unit != body_of):
            body = self._reader.own_body(self._series.name, body_of)
        if body is not None:
            self._body = encoding.release_of(body_of, body, self._series.guarantee)
        assert self._body is not None
        return encoding.flagged(self._body, unit, flags)

    def _pieces(self, first: int, last: int) -> Iterator[tuple[CopyBlock, slice]]:
        """The blocks of these units, and which of their units."""
        for block in self._blocks[(first - 1) // UNITS_PER_BLOCK :]:
            if block.first > last:
                return
            start = max(first, block.first) - block.first
            if start < len(block.bases):
                yield block, slice(start, min(last, block.last) - block.first + 1)

    @staticmethod
    def _scale(
        pieces: Sequence[tuple[CopyBlock, slice]], rows: Any, divisor: FloatArray
    ) -> FloatArray:
        """The scale of one draw, or of the error of a filter's estimate: see `Released`."""
        if pieces[0][0].kind == "filtered":
            deviation = rows("deviation", np.int64)
            return np.where(deviation > 0, deviation / divisor, np.inf)
        bases = [base for block, units in pieces for base in block.scales[units]]
        with np.errstate(divide="ignore"):
            return np.asarray(np.array(bases)[:, None] / rows("parts", np.float64))

    # -- files -------------------------------------------------------------------------------------

    def _read_blocks(self) -> list[CopyBlock]:
        """The blocks that are there and belong to the chain. Others are removed."""
        blocks, link = list[CopyBlock](), beginning(self._series.about)
        newest = self._reader.head(self._series.name).unit
        while (folder := self._path(len(blocks))).exists():
            try:
                block = self._read(folder)
                first = len(blocks) * UNITS_PER_BLOCK + 1
                known = block.last <= newest and self._reader.at(self._series.name, block.last)
                if not known or (block.first, block.before, block.after, len(block.bases)) != (
                    first,
                    link,
                    known.link,
                    UNITS_PER_BLOCK,
                ):
                    raise ValueError("other links")
            except (OSError, ValueError, KeyError, PenstockError, msgspec.MsgspecError) as error:
                _log.warning(
                    "The copy of %r is made again from unit %d on: %s.",
                    self._series.name,
                    len(blocks) * UNITS_PER_BLOCK + 1,
                    type(error).__name__,
                )
                break
            blocks.append(block)
            link = block.after
        for stale in self._folder.iterdir():
            if stale not in {self._path(place) for place in range(len(blocks))}:
                shutil.rmtree(stale) if stale.is_dir() else stale.unlink()
        return blocks

    def _path(self, place: int) -> Path:
        return self._folder / f"{place:08d}"

    def _written(self, block: CopyBlock) -> CopyBlock:
        """Write a full block, and return it with its arrays in files."""
        target = self._path((block.first - 1) // UNITS_PER_BLOCK)
        fresh, digests = target.with_suffix(".new"), dict[str, str]()
        fresh.mkdir()
        for name, array in block.arrays.items():
            path = fresh / f"{name}.npy"
            np.save(path, _smallest(array))
            digests[name] = _digest(path)
        weights = block.weights
        facts = BlockFacts(
            version=VERSION,
            first=block.first,
            before=block.before.hex(),
            after=block.after.hex(),
            kind=block.kind,
            weights=(weights.kind, weights.length, str(weights.rate)),
            bases=[str(base) for base in block.bases],
            digests=digests,
        )
        (fresh / ABOUT).write_bytes(msgspec.json.encode(facts))
        fresh.rename(target)  # after a power cut, digests tell whether all of it is on the disk
        return self._read(target)

    @staticmethod
    def _read(folder: Path) -> CopyBlock:
        facts = msgspec.json.decode((folder / ABOUT).read_bytes(), type=BlockFacts)
        if facts.version != VERSION:
            raise ValueError("another version")
        arrays = dict[str, NDArray[Any]]()
        for name, digest in facts.digests.items():
            path = folder / f"{name}.npy"
            if _digest(path) != digest:
                raise ValueError("damaged")
            arrays[name] = np.asarray(np.load(path, mmap_mode="r"))  # plain: slices are cheaper
        kind, length, rate = facts.weights
        bases = [Fraction(base) for base in facts.bases]
        return CopyBlock(
            facts.first,
            bytes.fromhex(facts.before),
            bytes.fromhex(facts.after),
            facts.kind,
            Weights(kind, length, Fraction(rate)),  # type: ignore[arg-type]
            bases,
            [float(base) for base in bases],
            arrays,
        )


class CopiedLog(SeriesLog):
    """A series of a store whose numbers are read from a copy by key, as far as that goes.

    Parameters
    ----------
    reader : SqlReader
        The store.
    copy : KeyCopy
        The copy of this series.
    series : str
        The name of the series.
    """

    def __init__(self, reader: SqlReader, series: str, copy: KeyCopy) -> None:
        super().__init__(reader, series)
        self._copy = copy

    def width_of(self, keys: int) -> int:
        """How many keys are read for each unit: the chosen ones, as far as the copy goes."""
        return max(keys, 1) if self.last <= self._copy.head.unit else self.width

    def table(self, first: int, last: int, places: IntArray | None = None) -> ReleaseTable:
        """The releases of these units as arrays, of all keys or of those at some places."""
        if first <= last <= self._copy.head.unit and first >= 1:
            return self._copy.table(first, last, places)
        return super().table(first, last, places)


def _smallest(array: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers in the fewest bytes that hold them all."""
    if array.dtype == np.bool_:
        return array
    low, high = int(array.min()), int(array.max())
    kinds = (np.int8, np.int16, np.int32, np.int64)
    fits = (kind for kind in kinds if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
    return array.astype(next(fits))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
