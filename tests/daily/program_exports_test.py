#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What daily writes for other engines is run by them: make, Slurm, HTCondor's DAGMan, Snakemake. Each publishes what daily itself does.
Where an engine is not installed its test is skipped, and says why."""
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

from daily_case import DailyTest
from htcondor_pool import HtCondorPool
from slurm_cluster import SlurmCluster, Unavailable

ENGINE_SECONDS = 300
NAMES = ["north sea", "Zürich", "no text", "it's"]
SEED = int(os.environ.get("NORN_TEST_SEED", random.SystemRandom().randrange(2**31)))  # of all: engines are compared with one day


class Exports(DailyTest):
    own = None  # what daily itself publishes

    def setUp(self):
        super().setUp()
        print(f"regions: NORN_TEST_SEED={SEED}", file=sys.stderr)
        self.random = random.Random(SEED)
        for name in NAMES:
            if name != "no text":
                self.draw_region(name, 100)
        # A path without blanks and marks, as engines want it.
        tune = {"Trials": 3, "Waves": 2, "Options": ["--confirm", "0", "--halving", "none", "--epochs", "2"],
                "Validation": ["--validation-split", "0.3"]}
        for folder in ("own", "engine"):
            self.regions({name: {"Trials": 3 if name in NAMES[:2] else 0} for name in NAMES}, f"{folder}.json", Space="space.json",
                         Tune=tune,
                         Gate={"MinExamples": 10, "Metric": "recall@20", "Floor": 0.05}, Requests="in/{region}.requests.txt",
                         Recommend={"Top": 4},
                         Days=f"{folder}/days", Serving=f"{folder}/serving")

    def export(self, kind, *arguments):
        """The folder, and the words that are said to start it."""
        done = self.ends_with(0, "--export", kind, self.path("day"), "--threads", 1, *arguments, file="engine.json")
        return self.path("day"), done.stdout.split()

    def check(self):
        """All is there that daily publishes, to the byte, and the region without a text is told."""
        if self.own is None:
            self.ends_with(7, "--slots", 2, "--quiet", file="own.json")
            type(self).own = self.published("own/serving")
        engine = self.published("engine/serving")
        self.assertEqual(list(engine), list(self.own))
        self.assertEqual([name for name in engine if self.own[name] != engine[name]], [])
        self.assertIn("3 published, 1 failed", self.ends_with(7, "--status", file="engine.json").stdout)

    @unittest.skipIf(shutil.which("make") is None, "make is not installed")
    def test_make(self):
        folder, words = self.export("make")
        self.assertEqual(words, ["make", "-f", f"{folder}/Makefile", "-j", "4", "-k"])
        done = subprocess.run(["make", "-f", folder / "Makefile", "-j", "3", "-k"], cwd=self.folder, capture_output=True, text=True,
                              timeout=ENGINE_SECONDS)
        self.assertEqual(done.returncode, 2, done.stderr)  # of make: the report ended with 7
        self.assertIn("no text: ", done.stderr)
        self.assertIn("3 published, 1 failed", done.stdout)
        self.check()
        def stamps():
            return {str(path.relative_to(self.path("engine/days"))): (path.stat().st_mtime_ns, path.read_text())
                    for path in self.path("engine/days").rglob("stamp.json")}
        before = stamps()
        subprocess.run(["make", "-f", folder / "Makefile", "-j", "3", "-k"], cwd=self.folder, capture_output=True, timeout=ENGINE_SECONDS)
        self.assertEqual([(name, before[name], one) for name, one in stamps().items() if one != before[name]], [])

    def test_slurm(self):
        place = tempfile.mkdtemp(prefix="norn-slurm-", dir="/tmp")
        self.addCleanup(shutil.rmtree, place, ignore_errors=True)
        try:
            cluster = SlurmCluster(place)
        except Unavailable as reason:
            self.skipTest(f"Slurm cannot run here: {reason}")
        self.addCleanup(cluster.stop)
        folder, words = self.export("slurm")
        done = subprocess.run([folder / "submit.sh", "--comment", "tested"], cwd=self.folder, env=cluster.environment, capture_output=True,
                              text=True,
                              timeout=ENGINE_SECONDS)
        self.assertEqual((done.returncode, words[0]), (0, str(folder / "submit.sh")), done.stderr)
        end = time.monotonic() + ENGINE_SECONDS
        while waiting := cluster.call("squeue", "-h", "-o", "%j %T %k").stdout.split("\n")[:-1]:
            self.assertLess(time.monotonic(), end, waiting)
            self.assertTrue(all(line.endswith("tested") for line in waiting), waiting)
            time.sleep(0.5)
        self.assertIn("3 published, 1 failed", (folder / "logs/report.txt").read_text())
        self.check()

    def test_dagman(self):
        place = tempfile.mkdtemp(prefix="norn-condor-", dir="/tmp")
        self.addCleanup(shutil.rmtree, place, ignore_errors=True)
        try:
            pool = HtCondorPool(pathlib.Path(place), 1)
        except Unavailable as reason:
            self.skipTest(f"HTCondor cannot run here: {reason}")
        self.addCleanup(pool.stop)
        folder, _ = self.export("dagman")
        with open(pathlib.Path(place) / "condor_config", "a") as config:
            config.write("DAGMAN_USER_LOG_SCAN_INTERVAL = 1\nDAGMAN_USE_STRICT = 0\n")  # it minds logs in /tmp
        done = pool.call("condor_submit_dag", "-f", str(folder / "day.dag"))
        self.assertEqual(done.returncode, 0, done.stderr)
        report, end = folder / "logs/report.txt", time.monotonic() + ENGINE_SECONDS
        while not (report.exists() and "published" in report.read_text()):
            if time.monotonic() > end:
                self.fail("".join(path.read_text()[-3000:] for path in folder.glob("day.dag.*out")))
            time.sleep(0.5)
        self.check()

    def test_snakemake(self):
        snakemake = os.environ.get("NORN_SNAKEMAKE") or shutil.which("snakemake")
        if snakemake is None:
            self.skipTest("snakemake is not installed: pip install snakemake, and NORN_SNAKEMAKE names the program")
        folder, _ = self.export("snakemake")
        done = subprocess.run([snakemake, "-s", folder / "Snakefile", "--cores", "3", "--keep-going"], cwd=self.folder, capture_output=True,
                              text=True,
                              timeout=ENGINE_SECONDS)
        self.assertIn("3 published, 1 failed", done.stdout, done.stderr[-3000:])
        self.check()

    def test_what_is_written_names_every_step_once_and_in_order(self):
        self.enterContext(unittest.mock.patch.dict(os.environ, OPENBLAS_CORETYPE="Sandybridge"))
        for kind, file in (("make", "Makefile"), ("slurm", "submit.sh"), ("dagman", "day.dag"), ("snakemake", "Snakefile")):
            folder, _ = self.export(kind, "--gpus", "0")
            text = (folder / file).read_text(encoding="utf-8")
            scripts = sorted(path.stem for path in (folder / "steps").iterdir())
            self.assertEqual(len(scripts), 5 * len(NAMES) + 2)
            places = {name: text.index(f"steps/{name}.sh") for name in scripts}
            self.assertEqual([name for name in scripts if text.count(f"steps/{name}.sh") != 1], [])
            for number in range(len(NAMES)):
                mine = [places[f"r{number}_{step}"]
                        for step in ("import", "tune", "train", "gate", "publish", "recommend") if f"r{number}_{step}" in places]
                self.assertEqual(mine, sorted(mine))
            asks = {"slurm": "--gres=gpu:1", "dagman": "gpus=\"1\""}.get(kind)
            if asks:
                self.assertEqual(text.count(asks), 3 * len(NAMES) + 2)  # not import and publish
            self.assertEqual([path.name for path in (folder / "steps").iterdir() if "export OPENBLAS_CORETYPE=Sandybridge\n" not in
                              path.read_text(encoding="utf-8")], [])
            self.assertEqual(subprocess.run(["sh", "-n", *map(str, (folder / "steps").iterdir()), str(folder / "report.sh")]).returncode, 0)
            shutil.rmtree(folder)
        self.refuses(2, ["--export cron: is no engine; take one of make, slurm, dagman, snakemake"], "--export", "cron", self.path("day"),
                     file="own.json")
        self.refuses(2, ["some engines take no blanks"], "--export", "make", self.path("a day"), file="own.json")
        self.refuses(3, ["cannot be written"], "--export", "make", pathlib.Path("/proc/nowhere"), file="own.json")


if __name__ == "__main__":
    unittest.main()
