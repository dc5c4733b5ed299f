"""Files of the folder of data, where something is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core.errors import ConfigurationError
from penstock_bench.datasets.files import absent, table


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path))
    return tmp_path


def test_a_file_that_is_not_there_is_named(here: Path):
    why = absent(("counts.parquet", "more.parquet"))
    assert why is not None
    assert why.startswith("the files counts.parquet, more.parquet are not there")
    with pytest.raises(ConfigurationError, match=r"the file counts\.parquet is not there.*\.$"):
        table("counts.parquet")
