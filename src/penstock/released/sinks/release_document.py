"""A unit's release as one JSON document, and as a table.

The document is one line, in columns: `keys`, `values`, `deviations`, `low`, `high` and `repeated`
are arrays in the order of keys. The same item always gives the same bytes: fields have one order,
and numbers computed from logarithms and roots are rounded to nine digits, as the last bits differ
between libraries.

- format: the name and version of this format.
- series, unit: the release's identity.
- link: the hash chain after this unit.
- signature: the publisher's public key (32 bytes) and its signature (64 bytes) of series, unit and
  link, as hexadecimal digits; only in signed streams.
- begins, ends: the unit's first instant, and the first instant after it, in UTC.
- private: false if the noise was a test's. Then nothing is promised.
- guarantee: epsilon and delta as exact fractions, window, contribution, horizon, intrusion.
- mechanism: its name. `configuration` holds its public parameters.
- weights: kind, length and rate of the sum that each number is (see `core.weights`).
- keys: the names in the domain's order; nodes of a hierarchy with "/" between their parts.
- values: the released numbers, divided where needed: `Released.estimate`.
- deviations: an upper bound of the noise's standard deviation per key; null before the first
  release of a key.
- low, high: the interval of each key, which covers the added noise with at least 95 %; null
  likewise. Filtered numbers have 90 % intervals for the counts.
- repeated: whether the number repeats an earlier release, so that later changes are unknown.
- public: other public results of the mechanism, such as where groups began.
- filter: the settings of the filter that the numbers come from, the confidence of the intervals,
  and that it costs no budget; only where numbers are filtered.
- nonnegative: how `values`, `low` and `high` were made non-negative, and that it costs no budget;
  only where they were. `deviations` are those of the release.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Context, Decimal
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

import msgspec
import numpy as np

from penstock.core.arrays import BoolArray, FloatArray
from penstock.core.column_descriptions import describe_columns
from penstock.core.domain import Domain
from penstock.core.exact import Exact
from penstock.core.guarantee import Guarantee
from penstock.core.nonnegative import cut_interval, make_nonnegative, nonnegative_facts
from penstock.core.released import Released
from penstock.released.release_filter import CONFIDENCE as FILTER_CONFIDENCE
from penstock.released.sinks.base import ReleaseItem

FORMAT = ("penstock release", 1)
CONFIDENCE = "0.95"
_EXACT = 2**53
_FINE, _NEAR, _UP = (
    Context(prec, way)
    for prec, way in ((12, ROUND_HALF_EVEN), (9, ROUND_HALF_EVEN), (9, ROUND_CEILING))
)


@dataclass(frozen=True, kw_only=True)
class ReleasedNumbers:
    """The numbers of each key. `deviation`, `low` and `high` are NaN before its first release."""

    value: FloatArray
    deviation: FloatArray
    low: FloatArray
    high: FloatArray
    repeated: BoolArray


def numbers(release: Released, confidence: Exact = CONFIDENCE) -> ReleasedNumbers:
    """The numbers of a release with deviations and intervals, equal on every machine."""
    low, high = release.interval(confidence)
    value, deviation = release.estimate, _rounded(np.sqrt(release.variance), _NEAR)
    if release.kind == "filtered":  # whole numbers, not around the value
        low, high = (np.where(np.isnan(deviation), np.nan, end) for end in (low, high))
    else:
        with np.errstate(invalid="ignore"):
            half = _rounded((high - low) / 2, _UP)
        low, high = value - half, value + half
    return ReleasedNumbers(
        value=value,
        deviation=deviation,
        low=low,
        high=high,
        repeated=np.broadcast_to(np.asarray(release.repeated, np.bool_), value.shape),
    )


def item_numbers(item: ReleaseItem) -> ReleasedNumbers:
    """The numbers of an item. Intervals around filtered numbers have the filter's confidence."""
    confidence = CONFIDENCE if item.filter is None else FILTER_CONFIDENCE
    found = numbers(item.release, confidence)
    return nonnegative_numbers(found, item.series.domain) if item.nonnegative else found


def nonnegative_numbers(found: ReleasedNumbers, domain: Domain) -> ReleasedNumbers:
    """The numbers without negative ones, consistent where the domain has totals."""
    variance = np.square(np.where(np.isnan(found.deviation), np.inf, found.deviation))
    (value,) = make_nonnegative(domain, found.value[None], variance[None])
    low, high = cut_interval(value, found.low, found.high)
    return replace(found, value=value, low=low, high=high)


def document(item: ReleaseItem) -> bytes:
    """The release as canonical JSON, without a newline."""
    series, release = item.series, item.release
    of = item_numbers(item)
    whole = isinstance(release.divisor, int) and release.divisor == 1 and not item.nonnegative
    content = {
        "format": FORMAT,
        "series": series.name,
        "unit": item.unit,
        "link": item.link,
        **({"signature": item.signature} if item.signature else {}),
        "begins": moment(item.begins),
        "ends": moment(item.ends),
        "private": release.private,
        "guarantee": _promise(series.stream_guarantee),
        "mechanism": series.mechanism,
        "configuration": {
            name: str(series.configuration[name]) for name in sorted(series.configuration)
        },
        "weights": {
            "kind": release.weights.kind,
            "length": release.weights.length,
            "rate": str(release.weights.rate),
        },
        "keys": series.domain.keys,
        "values": release.value.tolist() if whole else plain(of.value),
        "deviations": plain(of.deviation),
        "low": plain(of.low),
        "high": plain(of.high),
        "repeated": of.repeated.tolist(),
        "public": {name: release.public[name].tolist() for name in sorted(release.public)},
        **({} if item.filter is None else {"filter": item.filter.facts}),
        **({"nonnegative": nonnegative_facts(series.domain)} if item.nonnegative else {}),
    }
    return msgspec.json.encode(content)


def beginning(series: str | None = None) -> bytes:
    """The first bytes of every document, or of every document of a series."""
    if series is None:
        return msgspec.json.encode({"format": FORMAT})[:-1] + b","
    return msgspec.json.encode({"format": FORMAT, "series": series})[:-1] + b","


COLUMNS: Final = (
    "series",
    "unit",
    "begins",
    "ends",
    "key",
    "value",
    "deviation",
    "low",
    "high",
    "repeated",
)
"""All columns of a table of releases."""

LONG_COLUMNS: Final = ("unit", "begins", "key", "value", "low", "high")
"""The columns of a table in long format."""


def table(item: ReleaseItem, columns: Sequence[str] = COLUMNS) -> Any:
    """The release as an Arrow table: one row per key, null where nothing was released yet.

    Metadata of each column have its `description`. Those of the columns with numbers say whether
    and how they are filtered or made non-negative.
    """
    pa = arrow()
    of, rows = item_numbers(item), item.series.domain.size
    moments = pa.timestamp("us", "UTC")
    made = {
        "series": lambda: pa.repeat(pa.scalar(item.series.name), rows),
        "unit": lambda: pa.repeat(pa.scalar(item.unit, pa.int64()), rows),
        "begins": lambda: pa.repeat(pa.scalar(item.begins, moments), rows),
        "ends": lambda: pa.repeat(pa.scalar(item.ends, moments), rows),
        "key": lambda: _keys(item.series.domain.keys),
        "value": lambda: pa.array(of.value),
        "deviation": lambda: pa.array(of.deviation, from_pandas=True),
        "low": lambda: pa.array(of.low, from_pandas=True),
        "high": lambda: pa.array(of.high, from_pandas=True),
        "repeated": lambda: pa.array(of.repeated),
    }
    arrays = {name: made[name]() for name in columns}
    descriptions = column_descriptions(item)
    numbers_say = marks(item)
    fields = [
        pa.field(
            name,
            array.type,
            metadata={"description": descriptions[name]}
            | (numbers_say if name in NUMBER_COLUMNS else {}),
        )
        for name, array in arrays.items()
    ]
    return pa.Table.from_arrays(list(arrays.values()), schema=pa.schema(fields))


NUMBER_COLUMNS: Final = ("value", "deviation", "low", "high")


def column_descriptions(item: ReleaseItem) -> dict[str, str]:
    """What each column of the item's table means."""
    return describe_columns(
        confidence=CONFIDENCE if item.filter is None else FILTER_CONFIDENCE,
        filtered=item.release.kind == "filtered",
        nonnegative=item.nonnegative,
    )


def marks(item: ReleaseItem) -> dict[str, str]:
    """How the numbers of an item were computed from the release, for metadata; often empty."""
    found: dict[str, str] = {}
    if item.filter is not None:
        found["penstock.filter"] = json.dumps(dict(item.filter.facts))
    if item.nonnegative:
        found["penstock.nonnegative"] = json.dumps(dict(nonnegative_facts(item.series.domain)))
    return found


def file_facts(items: Sequence[ReleaseItem]) -> dict[str, str]:
    """What everybody who gets only a file with these items must know, for its metadata."""
    last = items[-1]
    return {
        "penstock.series": last.series.name,
        "penstock.unit": str(last.unit),
        "penstock.link": last.link,
        **({"penstock.signature": last.signature} if last.signature else {}),
        "penstock.mechanism": last.series.mechanism,
        "penstock.guarantee": repr(last.series.stream_guarantee),
        "penstock.promise": last.series.promise,
        "penstock.private": str(all(item.release.private for item in items)).lower(),
        **marks(last),
    }


def arrow(module: str = "pyarrow") -> Any:
    """A module of PyArrow, imported when it is first used."""
    return import_module(module)


def moment(when: datetime) -> str:
    """An instant in UTC as text.

    >>> from datetime import UTC
    >>> moment(datetime(2026, 1, 1, 12, tzinfo=UTC))
    '2026-01-01T12:00:00Z'
    """
    return when.isoformat().removesuffix("+00:00") + "Z"


def plain(values: FloatArray) -> list[float | int | None]:
    """Numbers for JSON: whole ones without a point, None for unknown ones."""
    whole = np.isfinite(values) & (np.abs(values) < _EXACT) & (values == np.floor(values))
    if whole.all():
        return values.astype(np.int64).tolist()  # type: ignore[no-any-return]
    kinds = np.where(whole, 1, np.where(np.isfinite(values), 0, 2)).tolist()
    return [
        int(value) if kind == 1 else None if kind == 2 else value
        for value, kind in zip(values.tolist(), kinds, strict=True)
    ]


@lru_cache(maxsize=8)
def _keys(keys: Sequence[str]) -> Any:
    return arrow().array(keys, arrow().string())


def _promise(guarantee: Guarantee) -> dict[str, Any]:
    return {
        "epsilon": str(guarantee.epsilon),
        "delta": str(guarantee.delta),
        "window": guarantee.window,
        "contribution": guarantee.contribution,
        "horizon": guarantee.horizon,
        "intrusion": guarantee.intrusion,
    }


def _rounded(values: FloatArray, context: Context) -> FloatArray:
    """Round to nine digits; NaN if not finite. Twelve digits are used, as the others differ by
    library.
    """
    each, which = np.unique(values, return_inverse=True)
    found = [
        float(context.plus(_FINE.create_decimal(Decimal(value))))
        for value in each[np.isfinite(each)].tolist()
    ]
    out = np.full(each.shape, np.nan)
    out[np.isfinite(each)] = found
    return out[which.reshape(values.shape)]
