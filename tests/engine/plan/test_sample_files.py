from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.engine.plan.sample_files import counts_of_sample
from penstock.private.sources.base import Columns

COLUMNS = Columns("ts", "station", zone="Europe/Zurich")
DOMAIN = Domain(("north", "south"))


def read(path, text=None, **more):
    if text is not None:
        path.write_text(text, encoding="utf-8")
    given = {"columns": COLUMNS, "domain": DOMAIN, "every": "1h", "zone": "Europe/Zurich"}
    return counts_of_sample(path, **(given | more))


def test_events_are_counted_per_unit_and_key(tmp_path):
    text = "ts,station\n2025-07-01T10:05,north\n2025-07-01T10:55,north\n2025-07-01T12:00,south\n"
    found = read(tmp_path / "sample.csv", text)
    assert found.counts.tolist() == [[2, 0], [0, 0], [0, 1]]
    assert found.domain == DOMAIN
    assert "public by your statement" in found.words


def test_a_column_of_counts_is_added_up(tmp_path):
    text = "ts,station,count\n2025-07-01T10:05,north,7\n2025-07-01T10:55,north,2\n"
    assert read(tmp_path / "sample.csv", text).counts.tolist() == [[9, 0]]


def test_one_column_per_key_is_one_row_per_unit(tmp_path):
    pq.write_table(pa.table({"south": [1, 2, 3], "north": [4, 5, 6]}), tmp_path / "x.parquet")
    found = read(tmp_path / "x.parquet")
    assert found.counts.tolist() == [[4, 1], [5, 2], [6, 3]]


def test_other_keys_stand_in_and_that_is_said(tmp_path):
    text = "ts,station\n2025-07-01T10:05,Bern\n2025-07-01T10:55,Chur\n"
    found = read(tmp_path / "sample.csv", text)
    assert found.domain.keys == ("Bern", "Chur")
    assert "own keys stand in" in found.notes[0]


def test_unknown_keys_count_as_the_other_key(tmp_path):
    text = "ts,station\n2025-07-01T10:05,Bern\n2025-07-01T10:55,north\n"
    assert read(tmp_path / "sample.csv", text, other="south").counts.tolist() == [[1, 1]]


def test_months_begin_on_the_first(tmp_path):
    text = "ts,station\n2025-01-31T10:05,north\n2025-02-01T10:55,north\n"
    assert read(tmp_path / "sample.csv", text, every="1mo").counts[:, 0].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("x.txt", "", "must end in .csv or .parquet"),
        ("x.csv", "a,b\nx,y\n", "neither the columns of time and key, nor"),
        ("x.csv", "ts,station,count\n2025-07-01,north,-1\n", "must hold whole numbers"),
        ("x.csv", "ts,station\nyesterday,north\n", "no row of x.csv"),
        ("x.csv", "ts,station\n1970-01-01,north\n2200-01-01,north\n", "too many"),
        ("x.parquet", "no", "cannot be read"),
    ],
)
def test_a_sample_that_cannot_be_used_is_refused(tmp_path, name, text, problem):
    with pytest.raises(ConfigurationError, match=problem):
        read(tmp_path / name, text, every="1s")


def test_the_counts_are_whole_numbers(tmp_path):
    found = read(tmp_path / "s.csv", "ts,station\n2025-07-01,north\n")
    assert found.counts.dtype == np.int64
