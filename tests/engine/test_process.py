from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.core.errors import ConfigurationError, InputError
from penstock.engine.pipeline import Pipeline
from penstock.engine.process import Process
from penstock.engine.sqlite import SQLiteReader
from penstock.testing import NoNoise

from tests.engine import streams


def made(folder, name, **more):
    stream = {"name": name, "until": "2026-01-01T12:00Z"}
    return Pipeline.of(
        streams.pipeline(stream=stream, store={"path": "city.db"}, **more), folder=folder
    )


def test_streams_of_one_store_are_published_side_by_side(tmp_path):
    columns = streams.events()
    streams.parquet(tmp_path / "taps.parquet", columns)
    with Process(
        [made(tmp_path, name) for name in ("gates", "buses", "trams")], noise=NoNoise
    ) as process:
        process.start()
        while not process.wait(1):
            pass
    assert not process.failures
    assert not process.unfinished
    with SQLiteReader(tmp_path / "city.db") as reader:
        assert reader.series_names == ("buses", "gates", "trams")
        for name in reader.series_names:
            assert reader.verify(name).account.kept
            assert (
                np.array([each.value for each in reader.releases(name)]) == streams.truth(*columns)
            ).all()


def test_a_stream_that_fails_does_not_hold_up_the_others(tmp_path):
    streams.parquet(tmp_path / "taps.parquet", streams.events())
    broken = made(tmp_path, "broken", source={"path": "nothing.parquet"})
    with Process([broken, made(tmp_path, "gates")], noise=NoNoise) as process:
        process.start()
        while not process.wait(1):
            pass
    assert isinstance(process.failures["broken"], InputError)
    with SQLiteReader(tmp_path / "city.db") as reader:
        assert [reader.head(name).unit for name in ("broken", "gates")] == [0, 12]


def test_two_streams_of_one_name_are_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="two of these pipelines publish a stream 'gates'"):
        Process([made(tmp_path, "gates"), made(tmp_path, "gates")])


def test_a_store_that_is_shared_has_one_key(tmp_path):
    (tmp_path / "key").write_bytes(bytes(32))
    (tmp_path / "key").chmod(0o600)
    one, other = made(tmp_path, "gates"), made(tmp_path, "buses")
    other = replace(other, store=replace(other.store, key_file="key"))
    with pytest.raises(
        ConfigurationError, match="share a store and differ in its head file or its key"
    ):
        Process([one, other])
