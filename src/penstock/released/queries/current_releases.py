"""Which release stands for which unit, and with what noise. All sums read a log through this.

At unit t, the release of t stands for the units from `start` to t. A plain release stands for t
alone, a repeated one for all units since it was made, and the release of a retroactive or smoothed
group for all units since the group began. Units before `start` keep what stood for them at unit
`start` − 1. So per key, the starts cut a range of units into pieces with one noise each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.core.error_bounds import Kind, variance
from penstock.core.errors import NotCoveredError
from penstock.core.weights import UNIT, Weights
from penstock.released.log import Log
from penstock.released.queries.answer_noise import AnswerNoise, alike, beside, terms
from penstock.released.release_table import ReleaseTable

Array: TypeAlias = NDArray[Any]

MAX_NUMBERS_HELD = 1_000_000
"""About the most numbers of one kind that are held in memory at once."""


@dataclass(frozen=True)
class CurrentReleases:
    """The releases of consecutive units, one row per unit. Places are rows, counted from 0.

    `start` is the first place that a row stands for. `read` is the last place whose data are in it.
    `running` says that a group's release is made anew in each of its units, from one more noisy
    count each time.
    """

    first: int
    estimate: FloatArray
    start: IntArray
    read: IntArray
    variance: FloatArray
    mass: FloatArray
    peak: FloatArray
    grain: FloatArray
    scale: FloatArray
    layers: IntArray
    divisor: FloatArray
    kind: Kind
    weights: Weights
    running: bool = False

    def __len__(self) -> int:
        return len(self.estimate)

    @cached_property
    def settled(self) -> IntArray:
        """For each place, the last place that changes what stands for it or for earlier ones."""
        oldest = self.start.min(axis=1)
        return np.minimum(
            np.searchsorted(oldest, np.arange(len(self)), side="right"), len(self) - 1
        )

    def of(self, columns: BoolArray) -> CurrentReleases:
        """The releases of some keys."""
        return replace(self, **{name: getattr(self, name)[:, columns] for name in _ARRAYS})

    @property
    def noise(self) -> AnswerNoise:
        """The noise of each release by itself."""
        ones = np.ones(self.estimate.shape, np.bool_)
        return AnswerNoise(
            variance=self.variance,
            mass=self.mass,
            peak=self.peak,
            grain=self.grain,
            draws=self.layers,
            scale=self.scale,
            coefficient=1 / self.divisor,
            single=ones,
            alike=ones if self.kind == "sum" else ~ones,
            kind=self.kind,
            weights=self.weights,
        )


_ARRAYS = (
    "estimate",
    "start",
    "read",
    "variance",
    "mass",
    "peak",
    "grain",
    "scale",
    "layers",
    "divisor",
)


def counts(log: Log, first: int, last: int, *, settled: bool = False) -> CurrentReleases:
    """The counts that stand for each unit; the noisy counts where smoothing hides them.

    `settled` reads on after the last unit until no later release can change what stands for it.
    """
    standing, more = _counts(log, first, last), 16
    while (
        settled
        and standing.first + len(standing) <= log.last
        and standing.start[-1].min() <= last - first
    ):
        standing, more = _counts(log, first, min(last + more, log.last)), 4 * more
    return standing


def _counts(log: Log, first: int, last: int) -> CurrentReleases:
    table = log.table(first, last)
    if table.noisy is not None and (table.start is None or table.weights != UNIT):
        return _standing(_noisy(table, table.noisy))
    if table.weights != UNIT:
        raise NotCoveredError(
            f"this log holds {table.weights.in_words()}: "
            "counts of single units cannot be computed from it."
        )
    standing = _standing(_mean(table) if table.kind == "shrunk" else table)
    return replace(standing, running=table.running)


def numbers(log: Log, first: int, last: int) -> CurrentReleases:
    """The released numbers as they are, whichever units they sum."""
    return _standing(log.table(first, last))


def _noisy(table: ReleaseTable, noisy: IntArray) -> ReleaseTable:
    """The noisy counts themselves: sums of one draw."""
    one = np.broadcast_to(np.int64(1), noisy.shape)
    divisor = np.broadcast_to(np.float64(1), noisy.shape)
    # Only a whole repeat counts: a mechanism may have read keys that it leaves out.
    again = np.broadcast_to(table.whole[:, None], noisy.shape)
    return replace(
        table,
        value=noisy,
        repeated=again,
        divisor=divisor,
        layers=one,
        noisy=None,
        start=None,
        kind="sum",
        weights=UNIT,
    )


def _mean(table: ReleaseTable) -> ReleaseTable:
    """The mean of a shrunk value's group. The value is (x − mean)/n + mean."""
    n, divisor = table.layers, table.divisor.astype(np.int64)
    assert table.noisy is not None
    total = np.where(n > 1, n * table.value - divisor * table.noisy, table.value)
    mean = np.where(n > 1, total / (np.maximum(n - 1, 1) * divisor), table.estimate)
    sums = np.rint(mean * n).astype(np.int64)  # a sum of whole numbers
    none = np.zeros(table.repeated.shape, np.bool_)
    return replace(table, value=sums, divisor=n.astype(np.float64), repeated=none, kind="sum")


def _standing(table: ReleaseTable) -> CurrentReleases:
    shape, scale, repeated = table.value.shape, table.scale, table.repeated
    divisor = table.noise_divisor
    places = np.broadcast_to(np.arange(shape[0])[:, None], shape)
    read = (
        np.maximum.accumulate(np.where(repeated, -1, places), axis=0) if repeated.any() else places
    )
    if table.start is not None:
        starts = table.start - table.first
        # A pruned node says nothing of earlier units, and later releases say nothing of this one.
        absent = np.isinf(scale)
        seen = np.maximum.accumulate(np.where(absent, places, -1), axis=0)
        start = np.clip(np.maximum(starts, np.where(absent, places, seen + 1)), 0, places)
    else:
        start = np.maximum(read, 0)
    mass, peak, grain = terms(table.kind, scale, table.layers, divisor, table.weights)
    return CurrentReleases(
        first=table.first,
        estimate=table.estimate,
        start=start,
        read=read,
        variance=np.broadcast_to(
            variance(table.kind, scale, table.layers, table.weights) / np.square(divisor), shape
        ),
        mass=mass,
        peak=peak,
        grain=grain,
        scale=scale,
        layers=table.layers,
        divisor=divisor,
        kind=table.kind,
        weights=table.weights,
    )


# -- sums over units -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sums:
    """Sums of rows. `unread` counts, per number, the units that no release has read."""

    estimate: FloatArray
    noise: AnswerNoise
    unread: IntArray

    @classmethod
    def beside(cls, columns: BoolArray, these: Sums, others: Sums) -> Sums:
        """The sums of `these` at the columns that are marked, those of `others` elsewhere."""
        return cls(
            beside(columns, these.estimate, others.estimate),
            these.noise.beside(columns, others.noise),
            beside(columns, these.unread, others.unread),
        )

    @classmethod
    def stacked(cls, parts: Sequence[Sums]) -> Sums:
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([part.estimate for part in parts]),
            AnswerNoise.stacked([part.noise for part in parts]),
            np.concatenate([part.unread for part in parts]),
        )


def as_they_are(standing: CurrentReleases) -> Sums:
    """Each released number by itself; unread where an earlier release stands for it."""
    unread = np.arange(len(standing))[:, None] > standing.read
    return Sums(standing.estimate, standing.noise, unread.astype(np.int64))


def _pieces(start: IntArray) -> BoolArray:
    """Where a piece begins, seen from the last row: at each row's start and at place 0."""
    begins = np.zeros(start.shape, np.bool_)
    np.put_along_axis(begins, start, True, axis=0)
    begins[0] = True
    return begins


def weighted(
    standing: CurrentReleases, factors: FloatArray, place: int, *, hindsight: bool = False
) -> Sums:
    """The weighted sum of the counts up to `place`, the factor of the oldest place first.

    Counts are as known at `place` or, in hindsight, at the end.
    """
    low, seen, size = (
        place - len(factors) + 1,
        standing.settled[place] if hindsight else place,
        len(factors),
    )
    begins = _pieces(np.maximum(standing.start[low : seen + 1] - low, 0))
    after = np.concatenate([begins[1:], np.ones((1, begins.shape[1]), np.bool_)])
    places = np.arange(len(begins))[:, None]
    source = (
        low + np.minimum.accumulate(np.where(after, places, len(begins))[::-1], axis=0)[::-1][:size]
    )
    begin = np.maximum.accumulate(np.where(begins, places, 0), axis=0)[:size]
    last = after[:size].copy()  # the last place of each piece, among these
    last[-1] = True
    so_far = np.concatenate([[0.0], np.cumsum(factors)])
    noise_factor = so_far[1:, None] - so_far[begin]
    piece = np.where(last, noise_factor, 0.0)

    def at(values: Array) -> Array:
        return np.take_along_axis(values, source, axis=0)

    square = np.square(piece)
    used = np.abs(factors)[:, None] > 0
    nothing = np.asarray((used & np.isinf(at(standing.scale))).any(axis=0))
    # Each unit's own number times its own factor: exact where whole numbers are.
    estimate = _in_order(factors[:, None] * at(standing.estimate))
    with np.errstate(invalid="ignore"):
        spread = _in_order(np.where(square > 0, square * at(standing.variance), 0.0))
        mass = _in_order(np.where(square > 0, square * at(standing.mass), 0.0))
        reach = np.where(square > 0, np.abs(piece) * at(standing.peak), 0.0)
    grain = _in_order(square * at(standing.grain))
    peak = reach.max(axis=0)
    draws = np.where(square > 0, at(standing.layers), 0).sum(axis=0)
    most = reach.argmax(axis=0)[None]
    scale = np.take_along_axis(at(standing.scale), most, axis=0)[0]
    coefficient = np.take_along_axis(np.abs(piece) / at(standing.divisor), most, axis=0)[0]
    unread = (used & (np.arange(low, place + 1)[:, None] > at(standing.read))).sum(axis=0)
    single = np.asarray((square > 0).sum(axis=0) <= 1)
    noise = _noise(standing, spread, mass, peak, grain, draws, scale, coefficient, single, nothing)
    return Sums(estimate[None], _with_axis(noise), unread[None])


def windows(standing: CurrentReleases, width: int) -> Sums:
    """`weighted` with `width` ones, for every place from `width` − 1 on, in one pass.

    Counts are as known at each place.
    """
    plain = (standing.start == np.arange(len(standing))[:, None]).all(axis=0)
    if plain.all():
        return _plain_windows(standing, width)
    if not plain.any():
        return _grouped_windows(standing, width)
    return Sums.beside(
        plain,
        _plain_windows(standing.of(plain), width),
        _grouped_windows(standing.of(~plain), width),
    )


def _grouped_windows(standing: CurrentReleases, width: int) -> Sums:
    """`windows` where releases stand for several units."""
    total, keys = standing.estimate.shape
    places = np.arange(total)[:, None]
    begins = _pieces(standing.start)
    ends = np.concatenate([begins[1:], np.ones((1, keys), np.bool_)])
    end = np.minimum.accumulate(np.where(ends, places, total - 1)[::-1], axis=0)[::-1]
    begin = np.maximum.accumulate(np.where(begins, places, 0), axis=0)
    length = places - begin + 1

    t = np.broadcast_to(places[width - 1 :], (total - width + 1, keys))
    low = t - width + 1
    start = standing.start[width - 1 :]
    inside = low >= start  # one piece
    own = np.where(inside, width, t - start + 1)
    stop = np.where(inside, low, start)  # the places before this one are in closed pieces
    edge = np.take_along_axis(end, low, axis=0)  # where the first of these ends
    cut = np.where(inside, 0, edge - low + 1)

    def at(values: Array, where: IntArray) -> Array:
        return np.take_along_axis(values, where, axis=0)

    def now(values: Array) -> Array:
        return values[width - 1 :]

    def closed(values: Array, stretch: Callable[[Array], Array]) -> Array:
        """The sum over pieces: the part of the first, the whole ones, the last."""
        whole = _sums(np.where(ends, stretch(length) * values, 0))
        middle = np.where(
            inside, 0, at(whole, np.maximum(start, 0)) - at(whole, np.minimum(edge + 1, start))
        )
        return np.asarray(middle + stretch(cut) * at(values, edge) + stretch(own) * now(values))

    finite = np.isfinite(standing.scale)
    nothing = _sums(~at(finite, end))
    missing = at(nothing, stop) - at(nothing, low) + np.where(now(finite), 0, own) > 0
    clean = {
        name: np.where(finite, getattr(standing, name), 0.0)
        for name in ("variance", "mass", "peak")
    }
    total_of = _sums(at(standing.estimate, end))
    estimate = at(total_of, stop) - at(total_of, low) + own * now(standing.estimate)
    spread = np.maximum(closed(clean["variance"], np.square), 0.0)
    mass = np.maximum(closed(clean["mass"], np.square), 0.0)
    pieces = closed(np.ones_like(standing.layers), np.sign)
    draws = closed(standing.layers, np.sign)
    reach = length * clean["peak"]
    by_end = _maxima(np.where(ends, reach, 0.0), width)
    by_begin = _maxima(np.where(begins, at(reach, end), 0.0), width)
    peak = np.maximum(cut * at(clean["peak"], edge), own * now(clean["peak"]))
    between = ~inside & (edge + 1 < start)
    peak = np.where(between, np.maximum(peak, np.minimum(by_end, by_begin)), peak)
    unread_of = _sums(places > at(standing.read, end))
    late = np.clip(t - np.maximum(now(standing.read), t - own), 0, None)
    unread = at(unread_of, stop) - at(unread_of, low) + late
    coefficient = own / now(standing.divisor)
    grain = closed(standing.grain, np.square)
    noise = _noise(
        standing,
        spread,
        mass,
        peak,
        grain,
        draws,
        now(standing.scale),
        coefficient,
        pieces == 1,
        missing,
    )
    return Sums(estimate, noise, unread)


def _plain_windows(standing: CurrentReleases, width: int) -> Sums:
    """`windows` where each release stands for its own unit only."""

    def last(values: Array) -> Array:
        sums = _sums(values)
        return np.asarray(sums[width:] - sums[:-width])

    finite = np.isfinite(standing.scale)
    clean = {
        name: np.where(finite, getattr(standing, name), 0.0)
        for name in ("variance", "mass", "peak")
    }
    estimate, rows = last(standing.estimate), slice(width - 1, None)
    noise = _noise(
        standing,
        np.maximum(last(clean["variance"]), 0.0),
        np.maximum(last(clean["mass"]), 0.0),
        _maxima(clean["peak"], width),
        last(standing.grain),
        last(standing.layers),
        standing.scale[rows],
        1 / standing.divisor[rows],
        np.full(estimate.shape, width == 1),
        last(~finite) > 0,
    )
    return Sums(estimate, noise, last(np.arange(len(standing))[:, None] > standing.read))


def differences(standing: CurrentReleases, width: int) -> Sums:
    """`weighted` with 1 for the last of `width` places and −1 for the first, for every place.

    If one running group stands for both places, the difference is that of the group's two
    releases A and B, which share noise. E exp(t(A − B)) is at most the root of
    E exp(2tA) E exp(−2tB), so masses and peaks count twice.
    """
    places = np.arange(len(standing))[:, None]
    begins = _pieces(standing.start)
    ends = np.concatenate([begins[1:], np.ones((1, begins.shape[1]), np.bool_)])
    end = np.minimum.accumulate(np.where(ends, places, len(standing) - 1)[::-1], axis=0)[::-1]
    now = slice(width - 1, None)
    low = np.broadcast_to(places[: len(standing) - width + 1], standing.start[now].shape)
    apart = low < standing.start[now]  # otherwise one release stands for both
    shared = ~apart & standing.running & (standing.read[now] > standing.read[: len(low)])
    then = np.where(apart, end[: len(low)], np.where(shared, low, low + width - 1))

    def at(values: Array) -> Array:
        return np.take_along_axis(values, then, axis=0)

    def both(values: Array, *, twice: int = 2) -> Array:
        return np.where(apart | shared, values[now] + at(values), 0) * np.where(shared, twice, 1)

    finite = np.isfinite(standing.scale)
    clean = {
        name: np.where(finite, getattr(standing, name), 0.0)
        for name in ("variance", "mass", "peak")
    }
    unread = (places[now] > standing.read[now]).astype(np.int64) + (low > at(standing.read))
    noise = _noise(
        standing,
        both(clean["variance"]),
        both(clean["mass"]),
        np.where(apart | shared, np.maximum(clean["peak"][now], at(clean["peak"])), 0.0)
        * np.where(shared, 2, 1),
        np.where(shared, np.inf, both(standing.grain)),
        both(standing.layers, twice=1),
        standing.scale[now],
        1 / standing.divisor[now],
        np.zeros(apart.shape, np.bool_),
        ~finite[now] | ~at(finite),
    )
    return Sums(standing.estimate[now] - at(standing.estimate), noise, unread)


def negative(sums: Sums) -> Sums:
    """The sums with the opposite sign; noise is symmetric."""
    return replace(sums, estimate=-sums.estimate)


def _noise(
    standing: CurrentReleases,
    spread: FloatArray,
    mass: FloatArray,
    peak: FloatArray,
    grain: FloatArray,
    draws: IntArray,
    scale: FloatArray,
    coefficient: FloatArray,
    single: BoolArray,
    nothing: BoolArray,
) -> AnswerNoise:
    with np.errstate(invalid="ignore"):
        same = (
            alike(mass, peak, draws, spread, scale)
            if standing.kind == "sum"
            else np.zeros(single.shape, np.bool_)
        )
    # Without draws all noise has cancelled, and the data with it: the error is not known.
    unknown = np.where(nothing, np.inf, np.where(draws > 0, 0.0, np.nan))
    if standing.kind in (
        "weighted",
        "filtered",
    ):  # estimates of a filter share draws to an unknown extent
        unknown = np.where(nothing, np.inf, np.where(single, unknown, np.nan))
    return AnswerNoise(
        variance=spread + unknown,
        mass=mass + unknown,
        peak=peak + unknown,
        grain=np.maximum(grain, 0.0),
        draws=draws,
        scale=scale,
        coefficient=coefficient,
        single=single & ~nothing & (draws > 0),
        alike=same & ~nothing & (draws > 0),
        kind=standing.kind,
        weights=standing.weights,
    )


def _with_axis(noise: AnswerNoise) -> AnswerNoise:
    arrays = {
        field.name: getattr(noise, field.name)[None]
        for field in fields(noise)
        if field.name not in ("kind", "weights")
    }
    return replace(noise, **arrays)


def _in_order(values: FloatArray) -> FloatArray:
    """The sum over all rows, from the first one on: the same for one column as among many."""
    return np.asarray(np.add.accumulate(values)[-1])


def _sums(values: Array) -> Array:
    """Running sums with a row of zeros first."""
    kind = np.float64 if values.dtype == np.float64 else np.int64
    out = np.zeros((len(values) + 1, values.shape[1]), kind)
    np.cumsum(values, axis=0, out=out[1:])
    return out


def _maxima(values: FloatArray, width: int) -> FloatArray:
    """The maximum of every `width` rows in a row, in two passes over blocks of `width`."""
    total, keys = values.shape
    padded = np.zeros((-(-total // width) * width, keys))
    padded[:total] = values
    blocks = padded.reshape(-1, width, keys)
    ahead = np.maximum.accumulate(blocks, axis=1).reshape(-1, keys)
    back = np.maximum.accumulate(blocks[:, ::-1], axis=1)[:, ::-1].reshape(-1, keys)
    return np.maximum(back[: total - width + 1], ahead[width - 1 : total])
