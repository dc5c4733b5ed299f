"""The World Cup of 1998: real numbers of requests per unit, simulated pages."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Self

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.core.exact import Exact, exact, whole
from penstock_bench.datasets.base import Dataset, DatasetStream
from penstock_bench.datasets.drawn import GeneratedStream
from penstock_bench.datasets.files import table, text
from penstock_bench.datasets.requests import Requests

FIRST_DAY: Final = np.datetime64("1998-04-30", "D")
DAYS: Final = 88
_MINUTES: Final = 24 * 60
NOTICE: Final = "WC98_COPYRIGHT.txt"
"""The notice that must stay with these data."""


@dataclass(frozen=True)
class WorldCup(Dataset):
    """Requests to the site of the World Cup by page, over its 88 days, of which the first begins at
    half past nine at night.

    Real: the requests of every unit, the pages' names, and how many pages there were by then.
    Drawn: which page a request asks for (`Requests`). `scale` keeps that share of the requests,
    spread evenly; `keys` keeps the pages with the smallest numbers.

    References
    ----------
    M. Arlitt and T. Jin, 1998 World Cup Web Site Access Logs, August 1998,
    http://www.acm.org/sigcomm/ITA/.
    """

    name: ClassVar[str] = "worldcup"
    title: ClassVar[str] = "World Cup 98 requests by page (stand-in on the real load)"
    licence: ClassVar[str] = (
        "Copyright (C) 1997, 1998, 1999 Hewlett-Packard Company, all rights reserved; "
        "for non-commercial purposes, with the notice kept (WC98_COPYRIGHT.txt)"
    )
    unit: ClassVar[str] = "96 minutes"
    person: ClassVar[str] = "a request"
    period: ClassVar[int | None] = 15
    key: ClassVar[str] = "a page"
    shape: ClassVar[tuple[int, int] | None] = (1_320, 89_997)
    needs: ClassVar[tuple[str, ...]] = (
        "wc98_minute.parquet",
        "wc98_objects.parquet",
        "wc98_files.parquet",
        NOTICE,
    )

    per_day: int = 15
    keys: int = 89_997
    scale: Exact = 1
    seed: int = 1

    def __post_init__(self) -> None:
        whole(self.keys, name="keys", least=1)
        whole(self.seed, name="seed", least=0)
        if _MINUTES % whole(self.per_day, name="per_day", least=1):
            raise ConfigurationError(
                f"per_day must divide a day of {_MINUTES} minutes, not be {self.per_day}."
            )
        if not 0 < exact(self.scale, name="scale") <= 1:
            raise ConfigurationError(f"scale must be above 0 and at most 1, not {self.scale}.")

    def make(self) -> DatasetStream:
        names = self._names()
        load = self._load()
        requests = Requests(
            load=scaled(load, exact(self.scale)),
            known=np.minimum(self._known(), len(names)),
            keys=len(names),
            per_day=self.per_day,
            seed=self.seed,
        )
        return GeneratedStream(
            Domain(names), units=len(load), draw=requests.draw, period=self.per_day
        )

    def small(self) -> Self:
        return replace(self, per_day=2, keys=min(self.keys, 2_000), scale="1/1000")

    def notice(self) -> str:
        return text(NOTICE) or self.licence

    def _names(self) -> tuple[str, ...]:
        pages = table("wc98_objects.parquet", "object_id", "url")
        by_number = dict(zip(pages["object_id"].to_pylist(), pages["url"].to_pylist(), strict=True))
        urls = [by_number[number] for number in range(len(by_number))]
        if self.keys > len(urls):
            raise ConfigurationError(
                f"keys must be at most {len(urls):,}, the pages that there are, not {self.keys:,}."
            )
        twice = {url for url, times in Counter(urls).items() if times > 1}
        return tuple(
            f"{url} ({number})" if url in twice else url
            for number, url in enumerate(urls[: self.keys])
        )

    def _load(self) -> IntArray:
        """The requests of every unit."""
        minutes = table("wc98_minute.parquet", "minute", "requests")
        since = minutes["minute"].to_numpy().astype("datetime64[m]") - FIRST_DAY.astype(
            "datetime64[m]"
        )
        unit = since.astype(np.int64) * self.per_day // _MINUTES
        load = np.zeros(DAYS * self.per_day, np.int64)
        np.add.at(load, unit, minutes["requests"].to_numpy().astype(np.int64))
        return load

    def _known(self) -> IntArray:
        """The number of known pages at the end of each unit: the real growth, log file by log
        file."""
        files = table("wc98_files.parquet", "start_epoch", "max_object_id")
        start = files["start_epoch"].to_numpy()
        order = np.argsort(start, kind="stable")
        grown = np.maximum.accumulate(files["max_object_id"].to_numpy()[order]) + 1
        first = FIRST_DAY.astype("datetime64[s]").astype(np.int64)
        ends = first + np.arange(1, DAYS * self.per_day + 1) * (_MINUTES * 60 // self.per_day)
        latest = np.searchsorted(start[order], ends, side="left") - 1
        return np.asarray(grown[np.maximum(latest, 0)], np.int64)


@dataclass(frozen=True)
class WorldCupFewer(WorldCup):
    """As many pages as another paper has, six units per day. Here the last pages are left out."""

    name: ClassVar[str] = "worldcup_88762"
    title: ClassVar[str] = "World Cup 98 requests by 88,762 pages (stand-in on the real load)"
    unit: ClassVar[str] = "4 hours"
    period: ClassVar[int | None] = 6
    shape: ClassVar[tuple[int, int] | None] = (528, 88_762)

    per_day: int = 6
    keys: int = 88_762


def scaled(load: IntArray, scale: Exact) -> IntArray:
    """A share of the events of every unit. Rounding losses come back in later units.

    >>> scaled(np.array([5, 5, 5]), "1/2").tolist()
    [2, 3, 2]
    """
    share = exact(scale, name="scale")
    upto = [math.floor(share * int(events)) for events in np.cumsum(load)]
    return np.asarray(np.diff(np.array(upto, np.int64), prepend=0), np.int64)
