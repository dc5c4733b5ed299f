"""Spark as Penstock uses it: found, checked, started once per process, and told to be silent.

Nothing else in Penstock imports PySpark.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from penstock.core.errors import ConfigurationError, StateError
from penstock.core.optional import require
from penstock.engine.pipeline import EngineConfig

LEAST_JAVA, FIRST_JAVA_TOO_NEW = 17, 24
ANSWER_SECONDS = 5.0
"""How long a master may take to accept a connection."""

CONNECTOR = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
DEFAULT_MASTER_PORT = 7077
ROWS_PER_BATCH = 1_000
"""Rows that Spark sends to a Python worker together. A row may be a piece with many events."""

PROTECTED: Mapping[str, str] = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.io.encryption.enabled": "true",
}
"""Settings that encrypt what Spark sends, and what it writes to the disks of executors."""

_SILENT: Mapping[str, str] = {
    "spark.eventLog.enabled": "false",
    "spark.log.level": "OFF",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.worker.faulthandler.enabled": "false",
    "spark.sql.redaction.options.regex": "(?i)url|sasl|ssl|jaas|secret|password|token",
    "spark.redaction.regex": "(?i)sasl|jaas|secret|password|token|access[.]?key",
}
"""Settings by which Spark tells nobody how many rows it reads, and shows no password."""

_SQL: Mapping[str, str] = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS_PER_BATCH),
    "spark.sql.session.timeZone": "UTC",
}

CATALOGUE = "spark.sql.catalogImplementation"
"""The setting that says which catalogue of tables a session has: "hive" or "in-memory"."""

_LOGGERS_OF_QUERIES = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""Loggers by which PySpark would print queries that failed."""

DRIVER_ENDED = "Spark's driver process has ended. Nothing was released; start again to go on."
_GONE = {"Py4JNetworkError", "ConnectionRefusedError", "ConnectionResetError", "BrokenPipeError"}
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_JAR_VERSION = re.compile(r"_[0-9.]+-([0-9][^/]*)\.jar$")
_started: dict[str, tuple[EngineConfig, Any]] = {}
_lock = threading.Lock()


def spark_session(
    config: EngineConfig, *, folder: Path, kafka: bool, catalogue: bool = False
) -> Any:
    """The Spark session of this process, started if there is none.

    Parameters
    ----------
    config : EngineConfig
        The table [engine].
    folder : Path
        The folder from which relative paths start.
    kafka : bool
        Whether the connector for Kafka is needed.
    catalogue : bool
        Whether a session that is started gets the catalogue of Hive's metastore, as Spark's own
        shells do. Default: False, an empty catalogue.
    """
    pyspark = require("pyspark.sql", "spark", "counting on Spark")
    with _lock:
        if "session" in _started and not _stopped(_started["session"][1]):
            first, session = _started["session"]
            if (first.master, first.jars) != (config.master, config.jars):
                raise ConfigurationError(
                    f"engine: this process counts on {first.master} already. Write the same master "
                    "and jars in [engine] of all its pipelines."
                )
        else:
            check_java()
            check_master(config.master)
            session = _start(pyspark, config, _jars(config, folder), catalogue=catalogue)
            _started["session"] = config, session
    try:
        check_versions(session, require("pyspark", "spark", "counting on Spark").__version__)
        if kafka:
            check_connector(session)
    except Exception as error:
        if driver_ended(error):
            raise StateError(DRIVER_ENDED) from None
        raise
    return session


def driver_ended(error: Exception) -> bool:
    """Whether an error says that Spark's Java process is gone."""
    return not _GONE.isdisjoint(each.__name__ for each in type(error).__mro__)


def check_java() -> None:
    """Refuse to start Spark without Java, or with one that it does not run on."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    wanted = "counting on Spark needs Java 17 or 21"
    if java is None or not Path(java).exists():
        where = "JAVA_HOME has no bin/java" if home else "no Java was found"
        raise ConfigurationError(f"{wanted}, and {where}: install it, or set JAVA_HOME.")
    try:
        told = subprocess.run(  # noqa: S603  (the Java that Spark would start)
            [java, "-version"], capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        raise ConfigurationError(f"{wanted}, and {java} cannot be started.") from None
    found = _VERSION.search(told.stderr + told.stdout)
    if found is None or not LEAST_JAVA <= int(found[1]) < FIRST_JAVA_TOO_NEW:
        what = "is of an unknown version" if found is None else f"is Java {found[1]}"
        raise ConfigurationError(
            f"{wanted}, and {java} {what}. Install Java 17, or set JAVA_HOME to it."
        )


def check_master(master: str) -> None:
    """Refuse a standalone master that nobody answers at: Spark itself would wait for a minute."""
    if not master.startswith("spark://"):
        return
    places = master.removeprefix("spark://").split(",")
    for place in places:
        host, _, port = place.rpartition(":")
        host, port = (host, port) if host else (port, str(DEFAULT_MASTER_PORT))
        with suppress(OSError, ValueError):
            socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS).close()
            return
    raise StateError(
        f"engine: no Spark master answers at {master}. Nothing was released. Start the cluster, or "
        "correct master in [engine]."
    )


def check_versions(session: Any, version: str) -> None:
    """Refuse a Spark of another version than that of PySpark."""
    if session.version != version:
        raise ConfigurationError(
            f"engine: Spark is {session.version}, and PySpark is {version}. Install the PySpark of "
            "the cluster's version, or unset SPARK_HOME."
        )


def check_connector(session: Any) -> None:
    """Refuse to read from Kafka without Spark's connector, or with one of another version."""
    how = (
        f"Give the folder with spark-sql-kafka-0-10_2.13-{session.version}.jar and its "
        "dependencies as jars in [engine]."
    )
    try:
        utils = session._jvm.org.apache.spark.util.Utils
        found = utils.classForName(CONNECTOR, False, False)
        jar = str(found.getProtectionDomain().getCodeSource().getLocation().toString())
    except Exception as error:  # Java's own error, by way of py4j
        if driver_ended(error):
            raise
        raise ConfigurationError(
            f"engine: Spark has no connector for Kafka (spark-sql-kafka-0-10). {how}"
        ) from None
    version = _JAR_VERSION.search(jar)
    if version is not None and version[1] != session.version:
        raise ConfigurationError(
            f"engine: the connector for Kafka is of Spark {version[1]}, and Spark is "
            f"{session.version}. {how}"
        )


def spark_thread(session: Any, work: Callable[[], None], name: str) -> threading.Thread:
    """A thread for jobs of a session. It closes its connection to Spark when it ends."""
    pyspark = sys.modules.get("pyspark")
    kind = threading.Thread
    if pyspark is not None and hasattr(session, "_jvm"):
        kind = pyspark.InheritableThread
    return kind(target=work, name=name, daemon=True)


def _stopped(session: Any) -> bool:
    return session.sparkContext._jsc is None


def _jars(config: EngineConfig, folder: Path) -> list[str]:
    if config.jars is None:
        return []
    place = folder / config.jars
    found = sorted(str(each.absolute()) for each in place.glob("*.jar"))
    if not found:
        raise ConfigurationError(
            f"engine.jars: there are no jars in {place.absolute()}. Write the folder of Spark's "
            "connector for Kafka."
        )
    return found


def _start(pyspark: Any, config: EngineConfig, jars: list[str], *, catalogue: bool) -> Any:
    settings = {**_SILENT, **_SQL, **PROTECTED}
    if catalogue:
        settings[CATALOGUE] = "hive"
    logs = require("pyspark.logger", "spark", "counting on Spark").PySparkLogger
    for name in _LOGGERS_OF_QUERIES:
        logs.getLogger(name).disabled = True
    logging = Path(__file__).with_name("log4j2.properties").as_uri()
    options = f"-Dlog4j2.configurationFile={logging}"
    if catalogue:
        _check_current_folder()  # Hive's own metastore is there, too
    else:
        options += f' "-Duser.dir={_folder_of_driver()}"'
    settings["spark.driver.extraJavaOptions"] = options
    if jars:
        settings["spark.jars"] = ",".join(jars)
    if config.master.startswith("local"):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = pyspark.SparkSession.builder.master(config.master).appName("penstock")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with _signals_kept():
        try:
            return builder.getOrCreate()
        except Exception as error:  # PySpark's and Java's; their texts may be long and may quote
            raise StateError(
                f"engine: Spark did not start at {config.master} ({type(error).__name__}). Nothing "
                "was released."
            ) from None


def _folder_of_driver() -> Path:
    """A folder for the driver, deleted when this process ends.

    Spark 4.0.0 makes a folder `artifacts` in the driver's current folder. A service may not write
    to that of its own.
    """
    folder = Path(tempfile.mkdtemp(prefix="penstock-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _check_current_folder() -> None:
    if not os.access(Path.cwd(), os.W_OK):
        raise ConfigurationError(
            "engine: with a table, Spark writes to the current folder, and this process may not. "
            "Start it in a folder to which it may write."
        )


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Keep our handler of SIGINT: Spark's would end jobs and raise in the middle of a commit."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
