"""How a table of Spark's catalogue is declared, and what is refused before Spark starts."""

from __future__ import annotations

import pytest

from penstock.core.errors import ConfigurationError
from penstock.engine.config_sections import InvalidConfigurationError
from penstock.engine.dry_run import dry_run
from penstock.engine.pipeline import Pipeline
from penstock.engine.source_check import source_digest

from tests.cli.outcome import Outcome
from tests.engine.spark.worlds import settings, taps_toml

TAPS = taps_toml('kind = "parquet"\ntable = "city.taps"')


def declared(**source):
    return Pipeline.of(settings({"kind": "parquet", **source}, store="taps.db"))


@pytest.mark.parametrize("name", ["taps", "city.taps", "spark_catalog.city.taps", "`my city`.taps"])
def test_names_of_tables_are_accepted(name):
    assert declared(table=name).source.options["table"] == name


@pytest.mark.parametrize("name", ["taps; DROP", "a.b.c.d", "city.", "taps*", "`taps"])
def test_other_texts_are_no_tables(name):
    with pytest.raises(InvalidConfigurationError, match=r"must be the name of a table, such as"):
        declared(table=name)


def test_either_a_path_or_a_table_is_declared():
    with pytest.raises(InvalidConfigurationError, match="table: cannot stand beside path"):
        declared(path="taps/*.parquet", table="taps")
    with pytest.raises(InvalidConfigurationError, match="path is missing"):
        declared()
    with pytest.raises(InvalidConfigurationError, match="table"):
        Pipeline.of(settings({"kind": "csv", "table": "taps"}, store="taps.db"))


def test_a_table_is_another_source_than_files():
    files, table = declared(path="taps"), declared(table="taps")
    assert source_digest(files) != source_digest(table)
    assert declared(table="taps").source.options["growing"] is False


def test_check_names_the_table(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taps.toml").write_text(TAPS)
    done = Outcome(capsys, "check", "taps.toml")
    assert done.code == 0
    assert "the table city.taps of Spark's catalogue" in " ".join(done.out.split())


def test_without_spark_a_table_is_refused_in_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taps.toml").write_text(TAPS)
    done = Outcome(capsys, "run", "taps.toml", "--log", "none")
    assert done.code == 2
    assert "source.table: only Spark reads a table of its catalogue" in done.err
    assert "--engine spark" in done.err
    assert len(done.err.strip().splitlines()) == 1
    with pytest.raises(ConfigurationError, match="without --dry"):
        dry_run(Pipeline.read(tmp_path / "taps.toml"))


def test_init_writes_a_table_in_place_of_a_path(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    given = ["--yes", "--kind", "parquet", "--option", "table=city.taps", "--keys", "north,south"]
    done = Outcome(capsys, "init", "taps.toml", *given)
    assert done.code == 0, done.err
    source = Pipeline.read(tmp_path / "taps.toml").source
    assert (source.options["table"], source.options["path"]) == ("city.taps", None)
    assert 'path = "' in (tmp_path / "taps.toml").read_text()  # as a comment
