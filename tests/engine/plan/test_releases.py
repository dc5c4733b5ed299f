from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.engine.plan.public_counts import FLOW, poisson
from penstock.engine.plan.releases import (
    counts_of_releases,
    counts_of_table,
    smoothed,
    without_noise,
)
from penstock.engine.sqlite import SQLiteReader
from penstock.testing import NoNoise, TestNoise

UNITS = 400


def noisy(truth, scale):
    noise = TestNoise(3).laplace(scale, truth.size, unit=1, label="noise")
    return truth + noise.reshape(truth.shape)


def test_noise_is_averaged_away_where_the_stream_is_still():
    truth = np.full((UNITS, 3), 40)
    ones = np.ones_like(truth, float)
    found = smoothed(noisy(truth, 20), 2 * 20**2 * ones, ones > 0)
    assert np.abs(found - truth).mean() < 4


def test_releases_that_are_nearly_exact_stay_as_they_are():
    truth = np.where(np.arange(UNITS)[:, None] % 2, 0, 1000) * np.ones((1, 2), int)
    ones = np.ones_like(truth, float)
    assert np.array_equal(smoothed(truth, 2 * ones, ones > 0), truth)


def test_a_season_is_averaged_over_its_phases():
    truth = np.tile(np.repeat([0, 300], 12), UNITS // 24)[:, None]
    ones = np.ones_like(truth, float)
    value = noisy(truth, 200)
    plain, phased = (
        np.abs(smoothed(value, 2 * 200**2 * ones, ones > 0, periods) - truth).mean()
        for periods in ((), (24,))
    )
    assert phased < 0.7 * plain


def test_repeated_releases_count_for_nothing():
    value = np.array([[10.0], [10.0], [999.0], [10.0]])
    fresh = np.array([[True], [True], [False], [True]])
    assert smoothed(value, np.ones((4, 1)), fresh).ravel().tolist() == [10.0] * 4


def released(mechanism, truth, noise=None):
    run = mechanism.run(truth.shape[1], noise=noise or TestNoise(5))
    return [run.step(row) for row in truth], run.released


def test_releases_at_chosen_times_do_not_overstate_the_stream():
    busy = (np.arange(UNITS) // 50 % 2)[:, None] * np.array([[400, 300, 200, 100]])
    truth = busy + 20
    releases, domain = released(ps.BudgetAbsorption(epsilon="1", window=10), truth)
    found = without_noise(releases, domain, FLOW)
    value, variance = (
        np.array([getattr(r, n) for r in releases]) for n in ("estimate", "variance")
    )
    fresh = np.isfinite(variance) & np.array([not r.repeated for r in releases])[:, None]
    averages = smoothed(value, variance, fresh)
    assert np.abs(found - truth).mean() < 0.7 * np.abs(averages - truth).mean()


def test_a_filter_that_would_lose_events_is_not_used():
    truth = poisson(np.full((UNITS, 30), 0.8))
    releases, domain = released(ps.Uniform(epsilon="1", window=24), truth)
    assert without_noise(releases, domain, FLOW).mean() > 0.5


@pytest.mark.parametrize("delta", [0, "1/1000"])
def test_events_that_medians_leave_out_are_put_back(delta):
    truth = poisson(np.full((UNITS, 30), 0.3))
    mechanism = ps.Tide(epsilon="1", window=24, delta=delta)
    releases, domain = released(mechanism, truth, noise=NoNoise())
    assert np.mean([each.estimate for each in releases]) < 0.7 * truth.mean()
    found = without_noise(releases, domain, FLOW)
    assert found.mean() == pytest.approx(truth.mean(), rel=0.05)


def test_a_table_of_other_columns_is_refused(tmp_path):
    Path(tmp_path / "x.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="has no column series"):
        counts_of_table(tmp_path / "x.csv", domain=Domain.of(2), every="1h", facts=FLOW)


def test_counts_are_like_past_releases_of_a_store_or_a_table(tmp_path):
    folder = tmp_path
    rows = [
        f"2026-01-{1 + hour // 24:02}T{hour % 24:02}:10Z,{key}"
        for hour in range(60)
        for key in ("north", "south")
        for _ in range(30)
    ]
    (folder / "taps.csv").write_text("\n".join(["ts,station", *rows]), encoding="utf-8")
    ps.publish(
        folder / "taps.csv",
        time="ts",
        key="station",
        every="1h",
        origin="2026-01-01",
        until="2026-01-03T12:00Z",
        mechanism=ps.Uniform(epsilon="1", window=2),
        domain=["north", "south"],
        store=folder / "taps.db",
        noise=TestNoise(4),
    ).close()
    table = folder / "taps.parquet"
    domain = Domain(("north", "south"))
    with SQLiteReader(folder / "taps.db") as reader:
        found = counts_of_releases(reader, "taps", domain=domain, every="1h", facts=FLOW)
        rows = [
            {
                "series": "taps",
                "unit": release.unit,
                "key": key,
                "value": value,
                "deviation": 2.8,
                "repeated": False,
            }
            for release in reader.releases("taps")
            for key, value in zip(domain.keys, release.value.tolist(), strict=True)
        ]
    assert found.counts.shape == (60, 2)
    assert found.mean == pytest.approx(30, rel=0.1)
    assert "like the releases of 'taps'" in found.words
    assert "typical" not in found.words
    pq.write_table(pa.Table.from_pylist(rows), table)
    again = counts_of_table(table, domain=domain, every="1h", facts=FLOW, series="taps")
    assert again.mean == pytest.approx(30, rel=0.1)
    known = {"domain": domain, "every": "1h", "facts": FLOW, "typical": Fraction(3000)}
    thick = counts_of_table(table, series="taps", **known)
    assert thick.mean == pytest.approx(3000, rel=0.01)
    assert "It was scaled to the typical count, 3,000 by your statement." in thick.words
    with SQLiteReader(folder / "taps.db") as reader:
        assert counts_of_releases(reader, "taps", **known).mean == pytest.approx(3000, rel=0.01)
