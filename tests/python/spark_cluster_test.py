# SPDX-License-Identifier: Apache-2.0
"""norn.spark on a cluster of this machine, whose executors have two GPUs that are not there and may be killed."""
import os
import shutil
import subprocess
import sys

import pytest

from spark_session import long, session

import norn
import pyarrow as pa
from conftest import Baskets, run

pytestmark = long

GPUS = 2

ON_A_CLUSTER = """
import sys
sys.path.insert(0, sys.argv[3])
from spark_cluster_test import begun, recommend_and_say, train_and_say

spark = begun(sys.argv[1])
recommend_and_say(spark, sys.argv[2])
train_and_say(spark, sys.argv[1])
spark.stop()
"""

# The trainer: it writes down what it was given, computes on the CPU, and the first one of a launch named "killed" takes its executor with
# it.
STAND_IN = """#!/bin/sh
echo "[$CUDA_VISIBLE_DEVICES] $*" >> FOLDER/given
for name in killed-shared killed; do
  case "$*" in *$name-checkpoint*)
    if mkdir FOLDER/$name-was 2> /dev/null; then
      pid=$PPID
      until tr '\\0' ' ' < /proc/$pid/cmdline | grep -q CoarseGrainedExecutorBackend; do pid=$(cut -d' ' -f4 /proc/$pid/stat); done
      echo $$ > FOLDER/$name-orphan
      kill -9 $pid
      exec sleep 600
    fi ;;
  esac
done
exec TRAINER $(echo "$*" | sed 's/--device cuda/--device cpu/')
"""


def begun(folder):
    return session("local-cluster[1,2,1024]", **{
        "spark.worker.resource.gpu.amount": GPUS, "spark.worker.resource.gpu.discoveryScript": folder + "/gpus",
        "spark.executor.resource.gpu.amount": GPUS, "spark.executor.resource.gpu.discoveryScript": folder + "/gpus",
        "spark.task.resource.gpu.amount": 1, "spark.executor.memory": "512m", "spark.local.dir": folder,
        "spark.executorEnv.NORN_BIN": folder + "/bin"})


def _devices(batches):
    from norn.spark.executing import device_of_task
    from pyspark import BarrierTaskContext

    for batch in batches:
        pass
    BarrierTaskContext.get().barrier()  # both live at the same time
    names = [device_of_task(wish) for wish in ("auto", "cuda", "cpu", "cuda:5")] + [os.environ.get("CUDA_VISIBLE_DEVICES", "unset")]
    yield pa.RecordBatch.from_arrays([pa.array([" ".join(names)])], names=["names"])


def recommend_and_say(spark, model):
    import norn.spark

    devices = _by_value(_devices)
    for _ in range(2):  # workers are reused
        rows = spark.range(10).repartition(2).mapInArrow(devices, "names string", barrier=True).collect()
        print("devices", sorted(row[0] for row in rows))
    frame = spark.createDataFrame([(n, ["unit1", "unit2"]) for n in range(10)], "user long, items array<string>").repartition(4)
    rows = norn.spark.transform(frame, model, 3, device="cpu").collect()
    print("lists", len(rows), {tuple(row["recommendations"]) for row in rows})
    try:
        norn.spark.transform(frame, model, 3).collect()
    except Exception as error:
        print("refused", "cuda" in str(error), "Error" in str(error))


def _by_value(function):
    """Executors cannot import this file."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[function.__module__])
    return function


def train_and_say(spark, folder):
    import norn.spark
    from pyspark.resource import ResourceProfileBuilder, TaskResourceRequests

    both = ResourceProfileBuilder().require(TaskResourceRequests().cpus(1).resource("gpu", 2)).build
    for name, wish in [("one", {}), ("two", {"ranks": 2, "profile": both}), ("many", {"ranks": 2}), ("killed", {}),
                       ("killed-shared", {"shared": True, "resume": True})]:
        try:
            norn.spark.launch(folder + "/films.nc", f"{folder}/{name}.nc", local_mode=False, spark=spark, epochs=3,
                              run_dir=f"{folder}/{name}-run",
                              checkpoint_name=f"{folder}/{name}-checkpoint", **wish)
            print("trained", name)
        except norn.Error as error:
            print("raised", name, type(error).__name__, error)


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What one session with such a cluster says, its folder, and a model that trainer made of the same data."""
    import pathlib

    import numpy as np

    folder = tmp_path_factory.mktemp("cluster")
    programs = pathlib.Path(os.environ["NORN_BIN"])
    data = Baskets(np.random.default_rng(), units=40).write(programs, folder)
    run(programs / "trainer", "-i", data, "-n", folder / "expected.nc", "--recipe", "sigmoid", "--epochs", 3, "--device", "cpu", "-q")
    for name, text in [("gpus", '#!/bin/sh\necho \'{"name":"gpu","addresses":["0","1"]}\'\n'),
                       ("bin/trainer", STAND_IN.replace("FOLDER", str(folder)).replace("TRAINER", str(programs / "trainer")))]:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    done = subprocess.run([sys.executable, "-B", "-c", ON_A_CLUSTER, folder, folder / "expected.nc", os.path.dirname(__file__)],
                          capture_output=True, text=True,
                          cwd=folder, env=environment, timeout=550)
    assert done.returncode == 0, done.stdout + "\n".join(line for line in done.stderr.splitlines() if not line.startswith("\tat "))
    yield done.stdout.splitlines(), folder
    shutil.rmtree(folder, ignore_errors=True)


def test_each_live_task_has_its_own_gpu(said):
    lines, folder = said
    expected = ["cuda:0 cuda:0 cpu cuda:5 unset", "cuda:1 cuda:1 cpu cuda:5 unset"]
    assert [line for line in lines if line.startswith("devices")] == [f"devices {expected}"] * 2
    best = tuple(label for label, _ in norn.load(folder / "expected.nc", device="cpu").recommend(["unit1", "unit2"], 3))
    assert f"lists 10 {{{best}}}" in lines
    if norn.show_config()["CUDA"] == "none":
        assert "refused True True" in lines


def test_a_task_trains_on_its_gpus(said):
    lines, folder = said
    assert {"trained one", "trained two"} <= set(lines)
    given = (folder / "given").read_text().splitlines()
    assert given[0].split()[0] in ("[0]", "[1]") and "--device cuda" in given[0]
    assert [line.split()[0] for line in given[1:3]] == ["[0,1]", "[0,1]"]  # both ranks take one of the two in turn
    assert (folder / "one.nc").read_bytes() == (folder / "two.nc").read_bytes() == (folder / "expected.nc").read_bytes()
    (refused,) = [line for line in lines if line.startswith("raised many")]
    assert "UsageError `ranks` 2: the task has 1 of the GPUs; ask for a GPU for each rank by spark.task.resource.gpu.amount" in refused


@pytest.mark.parametrize("name", ["killed", "killed-shared"])
def test_an_executor_that_is_killed_changes_nothing(said, name):
    lines, folder = said
    assert f"trained {name}" in lines
    assert (folder / f"{name}.nc").read_bytes() == (folder / "expected.nc").read_bytes()
    assert not os.path.exists(f"/proc/{(folder / f'{name}-orphan').read_text().strip()}")  # its trainer went with it
    assert sum(f"{name}-checkpoint" in line for line in (folder / "given").read_text().splitlines()) == 2
