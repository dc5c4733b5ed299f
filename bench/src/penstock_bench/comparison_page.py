"""The page of `penstock lab city --compare`: releases of several mechanisms beside the truth.

For synthetic data only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.core.calendar import Calendar
from penstock.core.errors import ConfigurationError
from penstock.released.pages import render as render_page
from penstock.released.pages.chart import starts

_SLACK = 1e-9  # exact budgets as floats may exceed the promise by rounding alone


@dataclass(frozen=True)
class MechanismTrack:
    """The releases and the spend of one mechanism; `mae` and `mre` are over all units and keys."""

    mechanism: str
    title: str
    released: FloatArray  # [T, d]
    low: FloatArray  # [T, d], the 95 % interval; NaN or infinite where it is unknown
    high: FloatArray  # [T, d]
    fresh: BoolArray  # [T, d], False where the last release is repeated
    spent: FloatArray  # [T], epsilon charged in each unit
    window_spent: FloatArray  # [T], epsilon of the window that ends at each unit
    mae: float
    mre: float


@dataclass(frozen=True)
class Demo:
    """Everything on the page. It shows the truth, so never make it from data about people."""

    title: str
    promise: str  # the guarantee in plain words
    epsilon: str  # exact, such as "1" or "1/2"
    window: int
    keys: tuple[str, ...]
    units: int
    calendar: Calendar
    truth: IntArray  # [T, d]
    tracks: tuple[MechanismTrack, ...]
    notes: tuple[tuple[int, str], ...]
    baselines: tuple[tuple[str, float, float], ...]  # name, mae, mre; outside the promise
    command: str
    floor: int = 10  # relative errors divide by no less than this

    def __post_init__(self) -> None:
        try:
            positive = Fraction(self.epsilon) > 0
        except (ValueError, ZeroDivisionError):
            positive = False
        if not positive:
            raise ConfigurationError(
                f"epsilon={self.epsilon!r}: expected a positive number as text, such as '1'"
            )
        if self.window < 1:
            raise ConfigurationError(f"window={self.window}: expected at least 1 unit")
        units, keys = self.units, len(self.keys)
        if not (units and keys and self.tracks):
            raise ConfigurationError("a demo needs at least one unit, one key and one track")
        if len(set(self.keys)) != keys:
            raise ConfigurationError("keys: every key must have its own name")
        if len({track.mechanism for track in self.tracks}) != len(self.tracks):
            raise ConfigurationError("tracks: every track must have its own mechanism name")
        _expect("truth", self.truth, (units, keys))
        for track in self.tracks:
            for name in ("released", "low", "high", "fresh"):
                _expect(f"track {track.mechanism!r}: {name}", getattr(track, name), (units, keys))
            for name in ("spent", "window_spent"):
                _expect(f"track {track.mechanism!r}: {name}", getattr(track, name), (units,))
            if track.fresh.dtype != np.bool_:
                raise ConfigurationError(
                    f"track {track.mechanism!r}: fresh holds {track.fresh.dtype}, expected bool"
                )
        for unit, text in self.notes:
            if not 0 <= unit < units:
                raise ConfigurationError(f"note {text!r}: unit {unit} is not one of 0..{units - 1}")


def render(demo: Demo) -> str:
    """The page as one HTML document."""
    return render_page(
        "penstock_bench:comparison.html",
        title=demo.title,
        promise=demo.promise,
        command=demo.command,
        data=_data(demo),
        demo=demo,
        lines=_table(demo),
        verdict=_verdict(demo),
    )


def _expect(name: str, array: NDArray[Any], shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        meaning = "(units, keys)" if len(shape) == 2 else "(units,)"
        raise ConfigurationError(
            f"{name} has shape {array.shape}, expected {shape}, that is {meaning}"
        )


# -- the data block ------------------------------------------------------------------------------


def _data(demo: Demo) -> dict[str, Any]:
    """The data of comparison.js. Matrices are lists of rows, see `_rows`.

    An interval is given by its distances from the release.
    """
    promised = float(Fraction(demo.epsilon))
    tracks = []
    for track in demo.tracks:
        with np.errstate(invalid="ignore"):
            below, above = track.released - track.low, track.high - track.released
        digits = _digits(below + above)
        worst = float(track.window_spent.max())
        tracks.append(
            {
                "mechanism": track.mechanism,
                "title": track.title,
                "released": _rows(track.released, digits),
                "below": _rows(below, digits),
                "above": _rows(above, digits),
                "fresh": [_flags(row) for row in track.fresh],
                "spent": [_number(float(f"{value:.6g}")) for value in track.spent],
                "windowSpent": [_number(float(f"{value:.6g}")) for value in track.window_spent],
                "worst": _number(float(f"{worst:.6g}")),
                "kept": worst <= promised * (1 + _SLACK),
                "mae": _number(float(f"{track.mae:.6g}")),
                "mre": _number(float(f"{track.mre:.6g}")),
            }
        )
    return {
        "epsilon": promised,
        "promised": demo.epsilon,
        "window": demo.window,
        "keys": demo.keys,
        "zone": demo.calendar.zone,
        "starts": starts(range(1, demo.units + 1), demo.calendar),
        "truth": _rows(demo.truth.astype(np.float64), 0),
        "tracks": tracks,
        "notes": sorted(demo.notes),
    }


def _digits(width: FloatArray) -> int:
    """The decimals that matter beside an interval of this width."""
    known = width[np.isfinite(width)]
    return 0 if known.size and np.median(known) >= 40 else 1


def _rows(matrix: FloatArray, digits: int) -> list[Any]:
    """Row by row: "=" repeats the row before, one number stands for all keys, null is unknown."""
    finite = np.where(np.isfinite(matrix), np.round(matrix, digits), np.nan)
    out: list[Any] = []
    for i, row in enumerate(finite):
        if i and np.array_equal(row, finite[i - 1], equal_nan=True):
            out.append("=")
        elif np.array_equal(row, np.full_like(row, row[0]), equal_nan=True):
            out.append(_number(float(row[0])))
        else:
            out.append([_number(value) for value in row.tolist()])
    return out


def _number(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    return int(value) if value.is_integer() else value


def _flags(row: BoolArray) -> int | str:
    if row.all() or not row.any():
        return int(row[0])
    return "".join("1" if flag else "0" for flag in row)


# -- the errors ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _ErrorLine:
    """The errors of one mechanism, or of a baseline, which has no code."""

    name: str
    code: str
    mae: float
    mre: float


def _lines(demo: Demo) -> list[_ErrorLine]:
    lines = [_ErrorLine(each.title, each.mechanism, each.mae, each.mre) for each in demo.tracks]
    lines += [_ErrorLine(name, "", mae, mre) for name, mae, mre in demo.baselines]
    return sorted(lines, key=lambda line: (math.isnan(line.mae), line.mae))


def _table(demo: Demo) -> list[dict[str, Any]]:
    """The rows of the table of errors."""
    lines = _lines(demo)
    found: list[dict[str, Any]] = [
        {"name": line.name, "code": line.code, "errors": []} for line in lines
    ]
    for measure in ("mae", "mre"):
        values = [getattr(line, measure) for line in lines]
        top = max(filter(math.isfinite, values), default=0.0)
        best = _least([line for line in lines if line.code], measure)
        for row, line, value in zip(found, lines, values, strict=True):
            known = math.isfinite(value)
            row["errors"].append(
                {
                    "known": known,
                    "value": value,
                    "text": _short(value) if known else "unknown",
                    "share": f"{100 * value / top:.1f}" if known and top > 0 else "0",
                    "best": line is best,
                }
            )
    return found


def _short(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def _least(lines: list[_ErrorLine], measure: str) -> _ErrorLine | None:
    known = [line for line in lines if math.isfinite(getattr(line, measure))]
    return min(known, key=lambda line: float(getattr(line, measure)), default=None)


def _verdict(demo: Demo) -> str:
    """Name the mechanisms with the lowest errors, and how many a baseline beats."""
    lines = _lines(demo)
    private = [line for line in lines if line.code]
    first, relative = _least(private, "mae"), _least(private, "mre")
    if first is None:
        return "No error is known."
    said = [f"Of the mechanisms, {first.name} has the lowest absolute error ({_short(first.mae)})"]
    if relative is first:
        said.append(f" and the lowest relative error ({_short(first.mre)}).")
    elif relative is not None:
        said.append(f"; {relative.name} has the lowest relative error ({_short(relative.mre)}).")
    else:
        said.append(".")
    for line in lines:
        if not line.code:
            absolute = sum(it.mae > line.mae for it in private)
            by_ratio = sum(it.mre > line.mre for it in private)
            said.append(
                f" The baseline “{line.name}” beats {_of(absolute, len(private))} by absolute error"
                f" and {_of(by_ratio, len(private))} by relative error."
            )
    return "".join(said)


def _of(some: int, everything: int) -> str:
    if some == 0:
        return "none"
    return f"all {everything}" if some == everything else f"{some} of {everything}"
