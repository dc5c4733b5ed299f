"""A user's module: publish a data frame, cut it, look at it, take tables of it."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl

import penstock as ps


def published(folder: Path) -> ps.Publication:
    trips = pl.DataFrame(
        {"at": [datetime(2026, 6, 1, tzinfo=UTC)], "zone": ["Jamaica"], "rider": [7]}
    )
    return ps.publish(
        trips,
        name="trips",
        time="at",
        key="zone",
        person="rider",
        person_type="integer",
        every="1h",
        origin="2026-06-01",
        until=datetime.fromisoformat("2026-06-03T00:00+00:00"),
        domain=["Jamaica", "Astoria"],
        epsilon="1",
        window="1d",
        store=folder / "trips.db",
    )


def from_a_lazy_frame(trips: pl.LazyFrame) -> ps.Publication:
    return ps.publish(
        trips,
        name="trips",
        time="at",
        key=("zone", "hour"),
        every="1h",
        origin="2026-06-01",
        domain=ps.Product.of({"zone": ["Jamaica"], "hour": ["0", "1"]}),
        mechanism=ps.Uniform(epsilon=Fraction(1, 2), window=24),
    )


def cut(stream: ps.Publication) -> list[str]:
    one: ps.Publication = stream["Jamaica"]
    some: ps.Publication = stream[["Jamaica", "Astoria"]]
    week: ps.Publication = stream["2026-06-01":"2026-06-08"]
    newest: ps.Released = stream[-1]
    values: list[int] = [int(release.value[0]) for release in one]
    low, high = newest.interval("0.9")
    assert (low < high).all()
    assert len(week) == len(values)
    return [*some.keys, str(newest.unit)]


def tables(stream: ps.Publication) -> float:
    frame: pl.DataFrame = stream.to_polars()
    answer = stream.window("1d").series()
    of_answer: pl.DataFrame = answer.of("Jamaica").to_polars(confidence="0.9")
    of_release: pl.DataFrame = stream[1].to_polars()
    stream.to_pandas()
    stream.to_arrow()
    assert frame.columns == of_release.columns
    return float(np.asarray(of_answer["value"]).sum())


def shown(stream: ps.Publication) -> str:
    chart = stream.filtered("1d").plot("Jamaica", path="jamaica.html")
    account: ps.Account = stream.verify().account
    worst: Fraction = account.worst
    lines: tuple[ps.Line, ...] = stream.ledger
    promise: ps.Guarantee = stream.guarantee
    return f"{promise.in_words()} {worst} {len(lines)} {chart.page()} {stream.promise}"


def main() -> None:
    with published(Path()) as stream:
        print(cut(stream), tables(stream), shown(stream))
        try:
            stream["Jamaca"]
        except ps.ConfigurationError as error:
            print(error, error.parameter)


if __name__ == "__main__":
    main()
