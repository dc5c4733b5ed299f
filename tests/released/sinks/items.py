"""Releases to send: the same for the same series and unit, wherever they are made."""

from __future__ import annotations

import hashlib
import zlib
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import numpy as np

from penstock.core.domain import Domain
from penstock.core.guarantee import Guarantee
from penstock.core.released import Released, Scale
from penstock.released.series import Series
from penstock.released.sinks.base import ReleaseItem

ROOT_OF_TESTS = Path(__file__).parents[3]
ORIGIN = datetime(2026, 1, 1, tzinfo=UTC)
AWKWARD = "Zürich/täglich ✓"
KEYS = ("Hauptbahnhof", "Örlikon/Süd", 'say "hi"\n', "上海")


def series(name: str = "taps", keys=KEYS) -> Series:
    return Series(
        name=name,
        domain=Domain.of(keys),
        guarantee=Guarantee("0.5", 24),
        mechanism="uniform",
        configuration={"window": "24", "epsilon": "1/2"},
    )


def item(
    of: Series, unit: int, *, hours: int = 1, release: Released | None = None, **more
) -> ReleaseItem:
    size = of.domain.size
    rng = np.random.default_rng([zlib.crc32(of.name.encode()), unit])
    fields = {
        "unit": unit,
        "value": rng.integers(-5, 1000, size),
        "scale": Scale(Fraction(48)),
        "guarantee": of.guarantee,
        "private": True,
        "repeated": unit % 2 == 0,
        **more,
    }
    begins = ORIGIN + timedelta(hours=hours * (unit - 1))
    return ReleaseItem(
        series=of,
        unit=unit,
        begins=begins,
        ends=begins + timedelta(hours=hours),
        release=release or Released(**fields),
        link=link(of, unit),
    )


def link(of: Series, unit: int) -> str:
    return hashlib.sha256(f"{of.name} {unit}".encode()).hexdigest()


def items(of: Series, first: int, last: int, **more) -> list[ReleaseItem]:
    return [item(of, unit, **more) for unit in range(first, last + 1)]
