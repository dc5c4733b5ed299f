"""New cases of COVID-19 by county, province and country, per day."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from penstock.core.hierarchy import Hierarchy
from penstock_bench.datasets.base import Dataset, DatasetStream
from penstock_bench.datasets.counts import CountTable, places, tally
from penstock_bench.datasets.files import plain, table

_WHOLE = "as a whole"


class Covid(Dataset):
    """New confirmed cases since 22 March 2020. Negative corrections count as 0; day 1 has no cases.

    A country or province that reports as a whole is a key below a province or county called "as a
    whole", so every key has three levels.
    """

    name: ClassVar[str] = "covid"
    title: ClassVar[str] = "new cases of COVID-19 by county"
    licence: ClassVar[str] = (
        "CC BY 4.0, Center for Systems Science and Engineering at Johns Hopkins University"
    )
    unit: ClassVar[str] = "a day"
    person: ClassVar[str] = "a case"
    period: ClassVar[int | None] = 1
    key: ClassVar[str] = "a county, in a province, in a country"
    levels: ClassVar[int] = 3
    shape: ClassVar[tuple[int, int] | None] = (480, 4_059)
    needs: ClassVar[tuple[str, ...]] = ("jhu_covid_daily.parquet", "jhu_covid_keys.parquet")

    def make(self) -> DatasetStream:
        keys = table(
            "jhu_covid_keys.parquet", "key_id", "country", "province", "county"
        ).to_pylist()
        paths = {}
        for key in keys:
            country, province, county = (
                plain(key[what], otherwise=_WHOLE) for what in ("country", "province", "county")
            )
            paths[f"{county}, {province}, {country}"] = (country, province)
        place = places([key["key_id"] for key in keys])
        days = table("jhu_covid_daily.parquet", "day", "key_id", "new_confirmed")
        day = days["day"].to_numpy().astype(np.int64)
        cases = np.maximum(days["new_confirmed"].to_numpy().astype(np.int64), 0)
        counts = tally(
            day, place[days["key_id"].to_numpy()], units=480, keys=len(keys), weights=cases
        )
        return CountTable(Hierarchy.of(paths), counts, period=1)
