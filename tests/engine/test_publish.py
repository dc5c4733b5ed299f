from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

import penstock as ps
from penstock.core.errors import ConfigurationError, StateError
from penstock.released.queries import UnitCounts
from penstock.testing import NoNoise

from tests.engine import streams


def published(folder, *, source="taps.parquet", **more):
    given = {
        "time": "ts",
        "key": "station",
        "person": "card",
        "person_type": "integer",
        "every": "1h",
        "origin": datetime(2026, 1, 1, tzinfo=UTC),
        "until": datetime(2026, 1, 1, 12, tzinfo=UTC),
        "mechanism": ps.Uniform(epsilon="1", window=6),
        "domain": streams.KEYS,
        "store": folder / "taps.db",
    }
    return ps.publish(folder / source, **(given | more))


@pytest.fixture
def columns(tmp_path):
    columns = streams.events()
    streams.parquet(tmp_path / "taps.parquet", columns)
    return columns


def test_publishing_gives_what_was_released(tmp_path, columns):
    with published(tmp_path, noise=NoNoise()) as stream:
        assert (
            np.array([release.value for release in stream.log]) == streams.truth(*columns)
        ).all()
        assert len(stream) == 12
        assert stream.guarantee == ps.Guarantee("1", 6)
        assert stream.verify().account.kept
        assert len(stream.ledger) == 12
        assert "12 units of 1h over 4 keys" in repr(stream)


def test_publishing_again_gives_the_same_numbers(tmp_path, columns):
    with published(tmp_path) as one:
        first = one.to_polars()
    with published(tmp_path) as again:
        assert again.to_polars().equals(first)


def test_a_table_of_all_counts(tmp_path, columns):
    with published(tmp_path, noise=NoNoise()) as stream:
        table = stream.to_polars()
    assert table.columns == ["begins", "unit", "key", "value", "low", "high", "repeated"]
    assert table["value"].to_list() == streams.truth(*columns).ravel().tolist()
    assert table["begins"][4] == datetime(2026, 1, 1, 1, tzinfo=UTC)
    assert (table["low"] < table["value"]).all()


def test_sums_over_a_length_of_time(tmp_path, columns):
    with published(tmp_path, noise=NoNoise()) as stream:
        sums = stream.window("6h").answer()
        assert sums.estimate[0].tolist() == streams.truth(*columns)[6:].sum(axis=0).tolist()
        assert stream.window(6).series().estimate[-1].tolist() == sums.estimate[0].tolist()
        with pytest.raises(ConfigurationError, match='is not a whole number of units of "1h"'):
            stream.window("90min")


def test_filtered_numbers_have_tables_and_pictures_too(tmp_path, columns):
    with published(tmp_path, noise=NoNoise()) as stream:
        smooth = stream.filtered(periods="6h", point="mean")
        assert repr(smooth).startswith("<Publication 'taps': 12 units of 1h over 4 keys, filtered")
        low, high = UnitCounts().series(smooth.log).interval("0.9")
        table = smooth.to_polars()
        assert table["low"].to_list() == low.ravel().tolist()
        assert table["high"].to_list() == high.ravel().tolist()
        assert smooth.log.filter.periods == (6,)
        assert repr(smooth.plot("Central")) == "<Chart 'taps, filtered': 12 units, 1 key>"
        assert stream.to_polars()["value"].to_list() == streams.truth(*columns).ravel().tolist()


def test_a_store_can_be_read_by_others(tmp_path, columns):
    published(tmp_path).close()
    with ps.Publication.read(tmp_path / "taps.db") as stream:
        assert len(stream) == 12
    with pytest.raises(
        ConfigurationError, match="name must be one of the series in the store: others, taps"
    ):
        _two(tmp_path)


def _two(folder):
    published(folder, name="others").close()
    ps.Publication.read(folder / "taps.db")


def test_unknown_keys_go_to_other(tmp_path):
    streams.csv(tmp_path / "taps.csv", streams.events())
    with published(
        tmp_path, source="taps.csv", domain=["Airport", "rest"], other="rest", noise=NoNoise()
    ) as stream:
        truth = streams.truth(*streams.events())
        assert [release.value.tolist() for release in stream.log] == np.c_[
            truth[:, 0], truth[:, 1:].sum(axis=1)
        ].tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source": "taps.xlsx"}, "source must be a file or a pattern that ends in"),
        ({"other": "Nowhere"}, "other must be a key of the domain"),
        ({"every": "1 fortnight"}, "every"),
        ({"mechanism": ps.PanAbsorption(epsilon="1", window=3)}, "holds the ids of the open unit"),
    ],
)
def test_what_cannot_be_used_is_refused(tmp_path, columns, change, message):
    with pytest.raises(ConfigurationError, match=message):
        published(tmp_path, **change)
    assert not (tmp_path / "taps.db").exists()


def test_another_promise_for_the_same_stream_is_refused(tmp_path, columns):
    published(tmp_path).close()
    with pytest.raises(StateError, match="is another one"):
        published(tmp_path, mechanism=ps.Uniform(epsilon="2", window=6))


def test_the_old_names_of_person_work_and_say_so(tmp_path, columns):
    with pytest.warns(DeprecationWarning, match=r"publish\((user|user_type)=…\) is now") as told:
        stream = ps.publish(
            tmp_path / "taps.parquet",
            time="ts",
            key="station",
            user="card",
            user_type="integer",
            every="1h",
            origin="2026-01-01",
            until="2026-01-01T12:00Z",
            mechanism=ps.Uniform(epsilon="1", window=6),
            domain=streams.KEYS,
            store=tmp_path / "taps.db",
        )
    assert {str(each.message).partition(" is now ")[2][:14] for each in told} == {
        "person=…. The ",
        "person_type=….",
    }
    stream.close()
    with published(tmp_path) as again:  # the configuration is the same one
        assert len(again) == 12
