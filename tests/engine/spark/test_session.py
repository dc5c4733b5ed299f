"""What is refused before Spark starts, each in one sentence, and that nothing else imports it."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.core.errors import ConfigurationError, MissingExtraError, StateError
from penstock.engine.pipeline import EngineConfig, Pipeline
from penstock.engine.spark import session as sessions
from penstock.engine.spark.engine import SparkEngine
from penstock.engine.spark.session import (
    check_connector,
    check_java,
    check_master,
    check_versions,
    spark_session,
)

from tests.cli.outcome import Outcome
from tests.engine.spark.worlds import settings, taps_toml


def java(folder, version):
    """A program that says that it is this version of Java."""
    (folder / "bin").mkdir()
    path = folder / "bin" / "java"
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025' >&2\n")
    path.chmod(0o755)


@pytest.mark.parametrize("version", ["17.0.15", "21.0.1"])
def test_java_17_and_21_are_taken(tmp_path, monkeypatch, version):
    java(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    check_java()


@pytest.mark.parametrize(
    ("version", "told"), [("1.8.0_392", "Java 8"), ("11.0.2", "Java 11"), ("25", "Java 25")]
)
def test_another_java_is_refused(tmp_path, monkeypatch, version, told):
    java(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigurationError, match=rf"needs Java 17 or 21, and .* is {told}\."):
        check_java()


def test_no_java_is_told(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match="needs Java 17 or 21, and no Java was found"):
        check_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigurationError, match="JAVA_HOME has no bin/java"):
        check_java()


def test_a_master_that_does_not_answer_is_told_at_once():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(StateError, match=f"no Spark master answers at spark://127.0.0.1:{port}"):
        check_master(f"spark://127.0.0.1:{port}")
    with socket.create_server(("127.0.0.1", 0)) as server:
        other = server.getsockname()[1]
        check_master(f"spark://127.0.0.1:{port},127.0.0.1:{other}")
    check_master("local[2]")


def connector(jar):
    """A session whose Java finds the connector in this jar, or does not find it."""

    def found(name, *_):
        if jar is None:
            raise RuntimeError("java.lang.ClassNotFoundException")
        location = SimpleNamespace(toString=lambda: f"file:/jars/{jar}")
        source = SimpleNamespace(getLocation=lambda: location)
        return SimpleNamespace(
            getProtectionDomain=lambda: SimpleNamespace(getCodeSource=lambda: source)
        )

    utils = SimpleNamespace(classForName=found)
    util = SimpleNamespace(Utils=utils)
    java = SimpleNamespace(apache=SimpleNamespace(spark=SimpleNamespace(util=util)))
    return SimpleNamespace(version="4.0.0", _jvm=SimpleNamespace(org=java))


def test_a_missing_connector_and_one_of_another_version_are_refused():
    check_connector(connector("spark-sql-kafka-0-10_2.13-4.0.0.jar"))
    with pytest.raises(ConfigurationError, match=r"Spark has no connector for Kafka.*as jars in"):
        check_connector(connector(None))
    with pytest.raises(ConfigurationError, match=r"is of Spark 3\.5\.1, and Spark is 4\.0\.0"):
        check_connector(connector("spark-sql-kafka-0-10_2.13-3.5.1.jar"))


def test_versions_that_differ_are_refused():
    check_versions(SimpleNamespace(version="4.0.0"), "4.0.0")
    with pytest.raises(ConfigurationError, match=r"Spark is 3\.5\.1, and PySpark is 4\.0\.0"):
        check_versions(SimpleNamespace(version="3.5.1"), "4.0.0")


def test_one_process_has_one_master_and_jars_must_be_there(tmp_path, monkeypatch):
    pytest.importorskip("pyspark", reason="needs Spark: pip install 'penstock[spark]'")
    running = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=object()), version="4.0.0")
    monkeypatch.setattr(
        sessions, "_started", {"session": (EngineConfig(master="local[2]"), running)}
    )
    with pytest.raises(ConfigurationError, match=r"counts on local\[2\] already"):
        spark_session(EngineConfig(master="local[1]"), folder=tmp_path, kafka=False)
    monkeypatch.setattr(sessions, "_started", {})
    monkeypatch.setattr(sessions, "check_java", lambda: None)
    with pytest.raises(ConfigurationError, match=r"engine\.jars: there are no jars in"):
        spark_session(EngineConfig(jars="nothing"), folder=tmp_path, kafka=False)


def settings_of_a_new_session(monkeypatch, folder, **how):
    pyspark = pytest.importorskip("pyspark.sql", reason="needs Spark: the extra spark")
    told = dict[str, str]()
    session = SimpleNamespace(version="4.0.0", sparkContext=SimpleNamespace(_jsc=object()))
    builder = SimpleNamespace(getOrCreate=lambda: session)
    builder.config = lambda name, value: told.update({name: value}) or builder
    builder.master = builder.appName = lambda _: builder
    monkeypatch.setattr(pyspark, "SparkSession", SimpleNamespace(builder=builder))
    monkeypatch.setattr(sessions, "_started", {})
    monkeypatch.setattr(sessions, "check_java", lambda: None)
    monkeypatch.setattr(sessions, "check_versions", lambda *_: None)
    spark_session(EngineConfig(master="local[2]"), folder=folder, kafka=False, **how)
    return told


def test_the_driver_has_a_folder_of_its_own(tmp_path, monkeypatch):
    """A nightly test runs Spark where it may make nothing in the current folder."""
    options = settings_of_a_new_session(monkeypatch, tmp_path)["spark.driver.extraJavaOptions"]
    place = Path(re.search(r'"-Duser\.dir=(.*?)"', options)[1])
    assert place.is_dir()
    assert not list(place.iterdir())
    assert place != Path.cwd()


def test_a_metastore_is_in_the_current_folder_which_must_take_it(tmp_path, monkeypatch):
    told = settings_of_a_new_session(monkeypatch, tmp_path, catalogue=True)
    assert "user.dir" not in told["spark.driver.extraJavaOptions"]
    monkeypatch.setattr(sessions.os, "access", lambda *_: False)
    with pytest.raises(ConfigurationError, match="Spark writes to the current folder"):
        settings_of_a_new_session(monkeypatch, tmp_path, catalogue=True)


def test_without_the_extra_the_error_names_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    source = {"kind": "parquet", "path": "*.parquet"}
    with pytest.raises(MissingExtraError, match=r"penstock\[spark\]"):
        SparkEngine(Pipeline.of(settings(source, store="taps.db"), folder=tmp_path))


def test_nothing_but_a_session_imports_spark():
    code = (
        "import sys, penstock.engine.spark.engine, penstock.cli.run, penstock.engine.spark; "
        "print([name for name in sys.modules if name.split('.')[0] in ('pyspark', 'py4j')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def declared(kind, engine):
    return taps_toml(f'kind = "{kind}"\npath = "taps/*"', engine=engine)


@pytest.mark.parametrize(
    ("kind", "engine", "code", "told"),
    [
        ("jsonl", "", 2, 'not of kind = "jsonl"'),
        ("parquet", '[engine]\nmaster = "spark://127.0.0.1:1"', 1, "no Spark master answers at"),
        ("parquet", "[engine]\npartitons = 3", 2, "Did you mean partitions?"),
    ],
)
def test_the_command_line_says_one_sentence_and_how_bad_it_is(
    tmp_path, monkeypatch, capsys, kind, engine, code, told
):
    pytest.importorskip("pyspark", reason="needs Spark: pip install 'penstock[spark]'")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sessions, "check_java", lambda: None)
    monkeypatch.setattr(sessions, "_started", {})
    (tmp_path / "taps.toml").write_text(declared(kind, engine))
    done = Outcome(capsys, "run", "taps.toml", "--engine", "spark", "--log", "none")
    assert (done.code, told in done.err) == (code, True)
    assert len(done.err.strip().splitlines()) == 1


def test_check_says_what_spark_encrypts(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    engine = '[engine]\nmaster = "local[2]"'
    (tmp_path / "taps.toml").write_text(declared("parquet", engine))
    done = Outcome(capsys, "check", "taps.toml")
    assert done.code == 0
    said = " ".join(done.out.split())
    for name in (
        "Spark at local[2]",
        "spark.network.crypto.enabled",
        "spark.io.encryption.enabled",
    ):
        assert name in said
