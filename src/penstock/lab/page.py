"""One self-contained page that shows what was published beside what was true. For synthetic data
only.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import BoolArray, FloatArray, IntArray
from penstock.core.errors import ConfigurationError

_SLACK = 1e-9  # floats of exact budgets: a window may seem to pass its promise by rounding alone


@dataclass(frozen=True)
class MechanismTrack:
    """What one mechanism published, and what it paid. `mae` and `mre` are over all units and keys."""

    mechanism: str
    title: str
    released: FloatArray  # [T, d]
    low: FloatArray  # [T, d], the 95 % interval; NaN or infinite where nothing is known
    high: FloatArray  # [T, d]
    fresh: BoolArray  # [T, d], True where newly published, False where the last release is repeated
    spent: FloatArray  # [T], epsilon charged in each unit
    window_spent: FloatArray  # [T], epsilon of the window that ends at each unit
    mae: float
    mre: float


@dataclass(frozen=True)
class Demo:
    """Everything on the page. The truth is shown, so this must never be made from data about
    people.
    """

    title: str
    promise: str  # the guarantee in plain words
    epsilon: str  # exact, such as "1" or "1/2"
    window: int
    keys: tuple[str, ...]
    unit_names: tuple[str, ...]
    truth: IntArray  # [T, d]
    tracks: tuple[MechanismTrack, ...]
    notes: tuple[tuple[int, str], ...]
    baselines: tuple[
        tuple[str, float, float], ...
    ]  # name, mae, mre of trivial lines outside the promise
    command: str
    floor: int = 10  # relative errors divide by no less than this

    def __post_init__(self) -> None:
        try:
            positive = Fraction(self.epsilon) > 0
        except (ValueError, ZeroDivisionError):
            positive = False
        if not positive:
            raise ConfigurationError(
                f"epsilon={self.epsilon!r}: expected a positive number as text, such as '1' or '1/2'"
            )
        if self.window < 1:
            raise ConfigurationError(f"window={self.window}: expected at least 1 unit")
        units, keys = len(self.unit_names), len(self.keys)
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
    """The page as one HTML document. It loads nothing: its content security policy forbids every
    request.
    """
    scripts = [
        f"/*\n{asset('uplot', 'LICENSE')}\n*/\n{asset('uplot', 'uPlot.iife.min.js')}",
        asset("page.js"),
    ]
    units, keys = demo.truth.shape
    return Template(asset("page.html")).substitute(
        script_hashes=" ".join(script_hash(script) for script in scripts),
        style=asset("uplot", "uPlot.min.css") + "\n" + asset("page.css"),
        chart_script=scripts[0],
        page_script=scripts[1],
        data=safe_json(_data(demo)),
        title=escape(demo.title),
        promise=escape(demo.promise),
        epsilon=escape(demo.epsilon),
        window=f"{demo.window:,}",
        keys=f"{keys:,}",
        units=f"{units:,}",
        taps=f"{int(demo.truth.sum()):,}",
        mechanisms=len(demo.tracks),
        verdict=escape(_verdict(demo)),
        errors=_errors(demo),
        command=escape(demo.command),
        floor=f"{demo.floor:,}",
    )


def _expect(name: str, array: NDArray[Any], shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        meaning = "(units, keys)" if len(shape) == 2 else "(units,)"
        raise ConfigurationError(
            f"{name} has shape {array.shape}, expected {shape}, that is {meaning}"
        )


def asset(*path: str) -> str:
    """A file of the pages, as text."""
    package = "penstock.released.pages" if path[0] == "uplot" else "penstock.lab"
    return files(package).joinpath("assets", *path).read_text(encoding="utf-8")


def script_hash(script: str) -> str:
    """What a content security policy names a script by."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


# The data block.


def _data(demo: Demo) -> dict[str, Any]:
    """What page.js reads. Matrices are lists of rows, see `_rows`; the interval is stored as
    distances from the release.
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
        "units": demo.unit_names,
        "truth": _rows(demo.truth.astype(np.float64), 0),
        "tracks": tracks,
        "notes": sorted(demo.notes),
    }


def safe_json(data: dict[str, Any]) -> str:
    """JSON that no HTML parser can mistake for the end of its script, whatever the keys are called."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _digits(width: FloatArray) -> int:
    """Decimals that matter beside an interval this wide."""
    known = width[np.isfinite(width)]
    return 0 if known.size and np.median(known) >= 40 else 1


def _rows(matrix: FloatArray, digits: int) -> list[Any]:
    """Row by row: "=" for the row before it once more, one number if all are equal, else a list;
    null is unknown.
    """
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


# The errors: plain HTML, so that they are there without any script.


@dataclass(frozen=True)
class _Line:
    name: str
    code: str
    mae: float
    mre: float

    @property
    def private(self) -> bool:
        return bool(self.code)


def _lines(demo: Demo) -> list[_Line]:
    lines = [_Line(track.title, track.mechanism, track.mae, track.mre) for track in demo.tracks]
    lines += [_Line(name, "", mae, mre) for name, mae, mre in demo.baselines]
    return sorted(lines, key=lambda line: (math.isnan(line.mae), line.mae))


def _errors(demo: Demo) -> str:
    lines = _lines(demo)
    most = [
        max([value for value in values if math.isfinite(value)], default=0.0)
        for values in _columns(lines)
    ]
    best = [
        _least(line for line in lines if line.private),
        _least((line for line in lines if line.private), relative=True),
    ]
    rows = []
    for line in lines:
        kind = (
            '<span class="tag">private</span>'
            if line.private
            else '<span class="tag open">baseline</span>'
        )
        code = f" <code>{escape(line.code)}</code>" if line.private else ""
        cells = [
            f'<td data-value="{value if math.isfinite(value) else ""}">{_bar(value, top, best=line is winner)}</td>'
            for value, top, winner in zip((line.mae, line.mre), most, best, strict=True)
        ]
        rows.append(
            f'<tr class="{"private" if line.private else "open"}" data-mechanism="{escape(line.code)}">'
            f'<th scope="row"><span class="name">{escape(line.name)}{code}</span> {kind}</th>{"".join(cells)}</tr>'
        )
    return "\n".join(rows)


def _columns(lines: Sequence[_Line]) -> tuple[list[float], list[float]]:
    return [line.mae for line in lines], [line.mre for line in lines]


def _bar(value: float, top: float, *, best: bool) -> str:
    if not math.isfinite(value):
        return '<span class="value">unknown</span>'
    share = 100 * value / top if top > 0 else 0
    mark = ' <span class="best">best private</span>' if best else ""
    return f'<span class="value">{_short(value)}{mark}</span><span class="bar"><i style="width:{share:.1f}%"></i></span>'


def _short(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def _least(lines: Iterable[_Line], *, relative: bool = False) -> _Line | None:
    known = [line for line in lines if math.isfinite(line.mre if relative else line.mae)]
    return min(known, key=lambda line: line.mre if relative else line.mae, default=None)


def _verdict(demo: Demo) -> str:
    """Who wins, said in words, and which mechanisms a trivial baseline beats."""
    lines = _lines(demo)
    private = [line for line in lines if line.private]
    first, relative = _least(private), _least(private, relative=True)
    if first is None:
        return "No error is known."
    said = [
        f"Of the private ones, {first.name} has the lowest absolute error ({_short(first.mae)})"
    ]
    if relative is first:
        said.append(f" and the lowest relative error ({_short(first.mre)}).")
    elif relative is not None:
        said.append(f"; by relative error it is {relative.name} ({_short(relative.mre)}).")
    else:
        said.append(".")
    for line in lines:
        if not line.private:
            absolute, by_ratio = (
                sum(it.mae > line.mae for it in private),
                sum(it.mre > line.mre for it in private),
            )
            said.append(
                f" The baseline “{line.name}” beats {_of(absolute, len(private))} by absolute error"
            )
            said.append(f" and {_of(by_ratio, len(private))} by relative error.")
    return "".join(said)


def _of(some: int, everything: int) -> str:
    return (
        "none"
        if some == 0
        else f"all {everything}"
        if some == everything
        else f"{some} of {everything}"
    )
