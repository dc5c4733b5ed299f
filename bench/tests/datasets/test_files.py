"""Files of the folder of data, where something is missing."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from penstock.core.errors import ConfigurationError, MissingExtraError
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


def test_without_pyarrow_a_file_that_is_there_says_what_to_install(
    here: Path, monkeypatch: pytest.MonkeyPatch
):
    (here / "counts.parquet").touch()
    assert absent(("counts.parquet",)) is None
    found = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "pyarrow" else found(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install 'penstock[columns]'" in (absent(("counts.parquet",)) or "")
    with pytest.raises(MissingExtraError, match=r"pyarrow.*penstock\[columns\]"):
        table("counts.parquet")
