"""All tests of real Spark once more, with two executors that are processes of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MASTER = "local-cluster[2,1,1024]"
TESTS = [Path(__file__).with_name(name) for name in ("test_real_spark.py", "test_tables.py")]


@pytest.mark.nightly
def test_executors_in_other_processes_count_the_same(tmp_path):
    """The quick twins are the same tests on `local[2]`. A cluster of its own needs a secret."""
    pyspark = pytest.importorskip("pyspark", reason="needs Spark: pip install 'penstock[spark]'")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("needs Java 17 or 21")
    (tmp_path / "spark-defaults.conf").write_text("spark.authenticate.secret for-tests-only\n")
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--timeout=0", "-m", "nightly or not nightly", *map(str, TESTS)],
        env={**os.environ, **_environment(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    shutil.rmtree(Path(pyspark.__file__).with_name("work"), ignore_errors=True)  # of its workers
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout


def _environment(folder: Path) -> dict[str, str]:
    return {
        "PENSTOCK_TEST_SPARK_MASTER": MASTER,
        "SPARK_CONF_DIR": str(folder),
    }
