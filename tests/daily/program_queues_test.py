#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A day whose steps and trials go through the queues of real servers, amid kills, is published as one that ran here undisturbed, and no
GPU has two trainers. NORN_DAILY_KILLS: how often something is killed (4). NORN_DAILY_QUEUES=all: in every queue, not in three."""
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from daily_case import BIN, LIMIT_SECONDS, ROOT, DailyTest
from gridengine_cell import GridEngineCell
from htcondor_pool import HtCondorPool
from servers import CeleryServers, DaskServers, RabbitServers
from slurm_cluster import SlurmCluster, Unavailable

KILLS = int(os.environ.get("NORN_DAILY_KILLS", "4"))
NAMES = ["north sea", "Zürich", "a'b\"c"]
SEED = int(os.environ.get("NORN_TEST_SEED", random.SystemRandom().randrange(2**31)))  # of all: they are compared with one day


class Queues(DailyTest):
    prefix = ()  # words before those of daily
    calm = None  # what is published of the day that nothing disturbs

    def setUp(self):
        super().setUp()
        print(f"regions: NORN_TEST_SEED={SEED}", file=sys.stderr)
        self.random = random.Random(SEED)
        for name in NAMES:
            self.draw_region(name, 80)
        tune = {"Trials": 2, "Waves": 2, "Options": ["--confirm", "0", "--halving", "none", "--epochs", "2"],
                "Validation": ["--validation-split", "0.3"]}
        self.regions({name: {} for name in NAMES}, Space="space.json", Tune=tune,
                     Gate={"MinExamples": 10, "Metric": "recall@20", "Floor": 0.02})
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="norn-queue-", dir="/tmp"))
        self.addCleanup(shutil.rmtree, self.place, ignore_errors=True)
        self.place.chmod(0o755)
        self.bin = self.place / "bin"  # its trainer tells who is on which GPU
        self.bin.mkdir()
        for name in ("importer", "evaluator", "predictor"):
            (self.bin / name).symlink_to(BIN / name)
        (self.bin / "trainer").symlink_to(ROOT / "tests/tuner/stand_in_trainer.py")
        self.environment = {"NORN_GPU_LOCKS": str(self.place), "STAND_IN_FOLDER": str(self.place), "STAND_IN_TRAINER": str(BIN / "trainer"),
                            "OPENBLAS_NUM_THREADS": "1"}
        if self.calm is None:
            self.ends_with(0, "--slots", 2, "--quiet")
            type(self).calm = self.published()
            for folder in ("days", "serving"):
                shutil.rmtree(self.path(folder))

    def start(self, *where):
        words = [*self.prefix, *self.command("--bin", self.bin, "--quiet", *where)]
        with open(self.path("said.txt"), "ab") as said:
            process = subprocess.Popen(words, cwd=self.folder, env={**os.environ, **self.environment}, stdout=said, stderr=said)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def amid_kills(self, *where):
        """The day, while something of it is killed now and then."""
        struck, end = 0, time.monotonic() + LIMIT_SECONDS
        process = self.start(*where)
        while process.poll() != 0:
            self.assertLess(time.monotonic(), end, self.last_words())
            if process.poll() is not None:  # 7: a program was killed too often; what a kill ends is begun again
                self.assertIn(process.returncode, (7, 75, -signal.SIGKILL, -signal.SIGTERM), self.last_words())
                process = self.start(*where)
            time.sleep(self.random.uniform(0.2, 3.0))
            victims = [pid for pid, words in self.processes().items()
                       if words[0].startswith(str(self.bin)) or any(word.endswith(".py") for word in words)]
            if struck < KILLS and victims:  # not commands and daemons of the queue
                self.strike(self.random.choice(victims))
                struck += 1
        print(f"{struck} kills", file=sys.stderr)
        self.check()

    def strike(self, process):
        try:
            os.kill(process, self.random.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))  # the last: preempted, or stopped
        except ProcessLookupError:
            pass

    def last_words(self):
        steps = sorted(self.path("days").glob("*/.daily/steps/*/*.txt"))
        return self.path("said.txt").read_text()[-3000:] + "".join(f"\n{path}: {path.read_text()[-500:]}" for path in steps)

    def check(self):
        """All is published that the undisturbed day has published, to the byte; every GPU had one trainer at a time."""
        found = self.published()
        self.assertEqual(list(found), list(self.calm))
        self.assertEqual([name for name in found if found[name] != self.calm[name]], [])
        said = (self.place / "said").read_text().splitlines()
        self.assertEqual([line for line in said if "SHARED" in line], [])
        self.assertGreaterEqual(len([line for line in said if line.startswith("begin")]), 3 * len(NAMES))

    def gpus_used(self):
        return {line.split()[2] for line in (self.place / "said").read_text().splitlines() if line.startswith("begin")}

    def queue(self, **settings):
        self.write("queue.json", json.dumps({"Gpus": 1, "PollSeconds": 0.3, **settings}))
        return "--executor-file", "queue.json"

    def test_two_gpus_of_this_machine(self):
        self.amid_kills("--gpus", "0,1", "--threads", 1)
        self.assertEqual(self.gpus_used(), {"0", "1"})

    def servers(self, begin, *arguments):
        """Of a queue, until the test ends."""
        try:
            found = begin(*arguments)
        except Unavailable as reason:
            self.skipTest(f"it cannot run here: {reason}")
        self.addCleanup(found.stop)
        return found

    def by_wish(self, begin, *arguments):
        if os.environ.get("NORN_DAILY_QUEUES") != "all":
            self.skipTest("takes a minute, and what is daily's is tested with other queues: NORN_DAILY_QUEUES=all runs it")
        return self.servers(begin, *arguments)

    def test_slurm_with_fewer_gpus_than_searches(self):
        cluster = self.servers(SlurmCluster, self.place / "slurm", 1)
        self.environment["SLURM_CONF"] = cluster.environment["SLURM_CONF"]
        self.amid_kills("--executor", "slurm", *self.queue(Partition="all"), "--slots", 3)
        self.assertEqual(self.gpus_used(), {"0"})
        # Again nothing is submitted: all is made.
        attempts = {path: path.read_text() for path in self.path("days").glob("*/.daily/steps/*/attempt.json")}
        self.assertEqual(len(attempts), 4 * len(NAMES))
        self.assertEqual(self.start("--executor", "slurm", *self.queue(Partition="all"), "--slots", 3).wait(timeout=LIMIT_SECONDS), 0,
                         self.last_words())
        self.assertEqual({path: path.read_text() for path in attempts}, attempts)

    def test_celery(self):
        servers = self.servers(CeleryServers, self.place, ("0", "1"), self.environment)
        self.amid_kills("--executor", "celery", *self.queue(Broker=servers.broker, StartSeconds=12), "--slots", 4)
        self.assertEqual(self.gpus_used(), {"0", "1"})

    def test_celery_by_rabbitmq(self):
        servers = self.by_wish(RabbitServers, self.place, ("0", "1"), self.environment)
        self.amid_kills("--executor", "celery", *self.queue(Broker=servers.broker, StartSeconds=12), "--slots", 4)
        self.assertEqual(self.gpus_used(), {"0", "1"})

    def test_dask(self):
        servers = self.by_wish(DaskServers, self.place, ("0", "1"), self.environment)
        self.amid_kills("--executor", "dask", *self.queue(Scheduler=servers.address), "--slots", 4)
        self.assertEqual(self.gpus_used(), {"0", "1"})

    def test_grid_engine(self):
        cell = self.by_wish(GridEngineCell, self.place / "cell", 2)
        self.environment.update(cell.environment)
        self.prefix = cell.prefix
        self.amid_kills("--executor", "gridengine", *self.queue(GpuNames=["0", "1"], Queue="all.q"), "--slots", 4)
        self.assertEqual(self.gpus_used(), {"0", "1"})

    def test_htcondor(self):
        pool = self.by_wish(HtCondorPool, self.place / "condor", 2)
        self.environment.update(pool.environment)
        self.prefix = pool.prefix
        self.amid_kills("--executor", "htcondor", *self.queue(MemoryGiB=0.25), "--slots", 4)
        self.assertEqual({name[:4] for name in self.gpus_used()}, {"GPU-"})


if __name__ == "__main__":
    unittest.main()
