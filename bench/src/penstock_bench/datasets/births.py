"""Births in the United States by state and day."""

from __future__ import annotations

from typing import ClassVar

from penstock.core.product import Product
from penstock_bench.datasets.base import Dataset, DatasetStream
from penstock_bench.datasets.counts import CountTable
from penstock_bench.public_data import births_by_day


class Births(Dataset):
    """Twenty years from 1 January 1969: a long stream with few surprises."""

    name: ClassVar[str] = "births"
    title: ClassVar[str] = "US births by state"
    licence: ClassVar[str] = (
        "public domain (counts of the US National Center for Health Statistics)"
    )
    unit: ClassVar[str] = "a day"
    person: ClassVar[str] = "a birth"
    period: ClassVar[int | None] = 1
    key: ClassVar[str] = "a state"
    shape: ClassVar[tuple[int, int] | None] = (7_305, 51)
    needs: ClassVar[tuple[str, ...]] = ("us_births_daily.parquet",)

    def make(self) -> DatasetStream:
        names, counts = births_by_day()
        return CountTable(Product.of(names), counts, period=self.period)
