# SPDX-License-Identifier: Apache-2.0
"""What tests of norn.spark share: a session with two threads, which all files of tests use, and how sessions are made."""
import os
import shutil
import sys

import pytest

pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed: tools/dev/python_venv.sh --spark")
if shutil.which("java") is None:
    pytest.skip("there is no Java: tools/install_dependencies.sh --spark", allow_module_level=True)

from pyspark.sql import SparkSession  # noqa: E402

#: Of tests that CI leaves out: those that remain take it a minute.
long = pytest.mark.skipif(os.environ.get("CI") == "true", reason="CI runs the shorter tests of norn.spark")

for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_mpi_yield_when_idle"):
    os.environ[name] = "1"


def session(master, **settings):
    os.environ["SPARK_HOME"] = os.path.dirname(pyspark.__file__)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).appName("norn")
    common = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.bindAddress": "127.0.0.1",
              "spark.driver.host": "127.0.0.1",
              "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # it lives for a minute
              "spark.sql.shuffle.partitions": "3", "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    for name, value in (common | settings).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    made = session("local[2]", **{"spark.local.dir": str(tmp_path_factory.mktemp("spark")),
                                  "spark.sql.execution.arrow.maxRecordsPerBatch": "37",
                                  "spark.sql.autoBroadcastJoinThreshold": "-1"})
    made.sparkContext.setLogLevel("OFF")
    yield made
    made.stop()


def entries_of(baskets, draw):
    """Users, items, values and times, shuffled, some twice, some users with letters beyond ASCII."""
    matrix = baskets.matrix.tocoo()
    names = [f"{draw.choice(['u', 'U', 'ü', '𝄞'])}{user}" for user in range(matrix.shape[0])]
    rows = [(names[u], int(i) * 7, float(v), int(draw.integers(1, 10)) * 86_400) for u, i, v in zip(matrix.row, matrix.col, matrix.data)]
    rows += [rows[int(k)][:2] + (float(draw.integers(1, 9)) / 4, int(draw.integers(1, 10)) * 86_400)
             for k in draw.integers(0, len(rows), 20)]
    return [rows[k] for k in draw.permutation(len(rows))]
