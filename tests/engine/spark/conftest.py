"""A real session of Spark, started once, where Spark is there."""

from __future__ import annotations

import gc
import os
import shutil
import warnings

import pytest

from penstock.engine.pipeline import EngineConfig

JARS = os.environ.get("PENSTOCK_TEST_SPARK_JARS")


@pytest.fixture(scope="module")
def real_spark(tmp_path_factory):
    """The table [engine] of a session: `PENSTOCK_TEST_SPARK_MASTER`, or two cores here."""
    pytest.importorskip("pyspark", reason="needs Spark: pip install 'penstock[spark]'")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("needs Java 17 or 21")
    from penstock.engine.spark.session import spark_session

    master = os.environ.get("PENSTOCK_TEST_SPARK_MASTER", "local[2]")
    table = {"master": master, "partitions": 3}
    if JARS is not None:
        table["jars"] = JARS
    session = spark_session(EngineConfig(**table), folder=tmp_path_factory.mktemp("x"), kafka=False)
    yield table
    session.stop()
    with warnings.catch_warnings():  # PySpark leaves sockets to the garbage collector
        warnings.simplefilter("ignore")
        gc.collect()
