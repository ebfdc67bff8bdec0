# SPDX-License-Identifier: Apache-2.0
"""What every executor must do, with its real servers on this machine: six trials on two GPUs, of which one is preempted, one is killed
with -9, one diverges, one never starts, one is stopped with the study, and one is plain; and a study amid kills."""
import fcntl
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from tuner_program import BIN, ROOT, TUNER, TunerTest
from programs import mpirun
from slurm_cluster import Unavailable

STAND_IN = ROOT / "tests/tuner/stand_in_trainer.py"
SIX = '{"Parameters": {"Training.Alpha": {"Values": [0.003, 0.005, 0.01, 0.02, 0.03, 0.05]}}}'
LIMIT_SECONDS = 300.0
PLAIN, PREEMPTED, KILLED, DIVERGES, NEVER_STARTS, STOPPED = range(6)
KILLS = int(os.environ.get("NORN_TEST_KILLS", "4"))


class ExecutorTest(TunerTest):
    """One executor is one of these: `executor` its name, `start_servers` begins them and gives what --executor-file holds."""

    executor = ""
    there = ""    # what --dry-run says of it, as a regular expression
    gpus = ("0", "1")
    kills_by_wish = False
    prefix = ()   # words before those of the tuner
    tells = True  # whether the queue knows what it has lost

    @classmethod
    def setUpClass(cls):
        cls.place = pathlib.Path(tempfile.mkdtemp(prefix="norn-queue-", dir="/tmp"))
        cls.addClassCleanup(shutil.rmtree, cls.place, ignore_errors=True)
        cls.place.chmod(0o755)
        # Trials find these wherever their queue runs them.
        cls.environment = {"NORN_GPU_LOCKS": str(cls.place), "STAND_IN_FOLDER": str(cls.place), "STAND_IN_TRAINER": str(BIN / "trainer"),
                           "OPENBLAS_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                           "OMPI_MCA_rmaps_base_oversubscribe": "1"}
        try:
            cls.settings = {"PollSeconds": 0.3, **cls.start_servers()}
        except Unavailable as reason:
            print(f"SKIPPED: {cls.executor} cannot run here: {reason}", file=sys.stderr)
            raise unittest.SkipTest(str(reason))

    @classmethod
    def start_servers(cls):
        return {}

    def setUp(self):
        super().setUp()
        (self.place / "said").unlink(missing_ok=True)
        self.folder.chmod(0o755)
        self.write("six.json", SIX)
        self.write("executor.json", json.dumps(self.settings))

    # What an executor may have its own way for.

    def where(self):
        return ["--executor", self.executor, "--executor-file", "executor.json", "--workers", 4]

    def preempt(self, study, trial):
        os.kill(self.lease(study, trial)["pid"], signal.SIGUSR1)

    def lose(self, name):
        """The queue forgets an attempt that waits."""
        raise NotImplementedError

    def keep_servers(self):
        """Starts again what was killed."""

    # Tools.

    def lease(self, study, trial):
        return json.loads(self.path(f"{study}/trials/{trial:04d}/lock").read_text())

    def start(self, study, *arguments, trainer=STAND_IN, out=subprocess.DEVNULL):
        """A tuner at work."""
        words = [*self.prefix, sys.executable, "-B", TUNER,
                 *self.command(study, "--trainer", trainer, "--threads", 1, "--confirm", 0, *arguments)]
        process = subprocess.Popen([str(word) for word in words], cwd=self.folder, stdout=out, stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, **self.environment})
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close if process.stdout else lambda: None)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def mpi(self):
        """Skips the test where nothing can run on several ranks."""
        if mpirun(2) is None:
            self.skipTest("no mpirun, or a build without MPI")

    def six(self, study, *where):
        return self.start(study, *where, "--plain", "no", "--sampler", "grid", "--halving", "none", "--clock", 6, "--space", "six.json")

    def command(self, study, *arguments, **more):
        words = list(map(str, super().command(study, *arguments, **more)))
        if "six.json" in words:  # one segment a trial
            at = words.index("--rungs")
            del words[at:at + 2]
        return words

    def act(self, study, trial, what):
        folder = self.place / "acts" / study
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{trial:04d}").write_text(what)

    def said(self):
        path = self.place / "said"
        return path.read_text().splitlines() if path.exists() else []

    def wait_until(self, what, happened, process):
        end = time.monotonic() + LIMIT_SECONDS
        while not happened():
            if process.poll() is not None:
                self.fail(f"{what} did not come; the tuner ended with {process.returncode}: {process.stderr.read()}")
            if time.monotonic() > end:
                process.kill()
                self.fail(f"{what} has not come: {self.said()} {self.last_words(process)}")
            time.sleep(0.05)

    def last_words(self, process):
        return process.stderr.read()[-2000:] + "".join(f"\n{path}: {path.read_text()[-500:]}"
                                                       for path in self.folder.glob("*/trials/*/job.txt"))

    def has(self, study, kind, **members):
        path = self.path(f"{study}/journal.jsonl")
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return [event for event in map(json.loads, lines) if event["event"] == kind and all(event.get(k) == v for k, v in members.items())]

    def name(self, study, trial, attempt):
        return f"norn-{json.loads(self.read(f'{study}/study.json'))['study'][:8]}-{trial:04d}-a{attempt}"

    def end(self, process, code=0):
        _, said = process.communicate(timeout=LIMIT_SECONDS)
        self.assertEqual(process.returncode, code, said)
        return said

    def calm(self, study, **more):
        """The same six, undisturbed and here."""
        self.act(study, DIVERGES, "diverge")
        self.end(self.six(study, "--workers", 2))
        return self.decisions(study)

    # The tests.

    def test_a_dry_run_says_what_is_there(self):
        process = self.start("dry", *self.where(), "--dry-run", out=subprocess.PIPE)
        said, _ = process.communicate(timeout=LIMIT_SECONDS)
        self.assertRegex(said, f"executor {self.executor}: {self.there}\n")
        self.assertFalse(self.path("dry").exists())

    def test_six_trials(self):
        for trial in (PREEMPTED, KILLED, STOPPED):
            self.act("six", trial, "hang")
        self.act("six", DIVERGES, "diverge")
        process = self.six("six", *self.where())
        self.prepare_loss()
        for trial in (PREEMPTED, KILLED):
            self.wait_until(f"trial {trial}", lambda: f"hangs {trial:04d}" in self.said(), process)
        self.lose_one(process)
        self.preempt("six", PREEMPTED)
        os.kill(self.lease("six", KILLED)["pid"], signal.SIGKILL)
        self.wait_until("the last trial", lambda: f"hangs {STOPPED:04d}" in self.said(), process)
        self.wait_until("the others' end", lambda: len(self.has("six", "tell")) == 5, process)
        process.send_signal(signal.SIGTERM)
        self.end(process, 75)
        left = self.processes("six")  # tuners of other executors' tests may run beside this one
        self.assertEqual((left["trial"], left["trainer"]), ([], []))
        self.end(self.six("six", *self.where()))
        self.check_journal()
        self.check_gpus()
        calm = self.calm("calm")
        self.assertEqual({kind: sorted(events, key=lambda e: e["trial"]) for kind, events in self.decisions("six").items()},
                         {kind: sorted(events, key=lambda e: e["trial"]) for kind, events in calm.items()})
        self.assertEqual(self.read("six/best.nc"), self.read("calm/best.nc"))

    def prepare_loss(self):
        pass

    def lose_one(self, process):
        """While both GPUs are taken the others wait."""
        name = self.name("six", NEVER_STARTS, 0)
        self.wait_until("a trial in the queue", lambda: self.has("six", "submit", trial=NEVER_STARTS), process)
        self.lose(name)
        if self.tells:
            self.wait_until("its loss", lambda: self.has("six", "lost", trial=NEVER_STARTS), process)

    def check_journal(self):
        told = {event["trial"]: event["state"] for event in self.has("six", "tell")}
        self.assertEqual(told, {PLAIN: "done", PREEMPTED: "done", KILLED: "done", DIVERGES: "diverged", NEVER_STARTS: "done",
                                STOPPED: "done"})
        self.assertEqual(len(self.has("six", "tell")), 6)  # none twice
        lost = {(event["trial"], event["attempt"]): (event["code"], event["counts"]) for event in self.has("six", "lost")}
        self.assertEqual(lost, {(PREEMPTED, 0): (75, False), (KILLED, 0): (137, True), (NEVER_STARTS, 0): (5, False),
                                (STOPPED, 0): (75, False)})
        tried = {trial: [event["attempt"] for event in self.has("six", "submit", trial=trial)] for trial in range(6)}
        self.assertEqual(tried, {trial: [0] if trial in (PLAIN, DIVERGES) else [0, 1] for trial in range(6)})

    def check_gpus(self):
        self.assertEqual([line for line in self.said() if "SHARED" in line], [])
        self.gpus_used({line.split()[2] for line in self.said() if line.startswith("begin")})

    def gpus_used(self, used):
        self.assertEqual(used, set(self.gpus))

    def victims(self, study):
        """What is killed: the tuner, trials, trainers; and workers, where the executor has some."""
        return [pid for pids in self.processes(study).values() for pid in pids]

    def test_kills_change_nothing(self):
        if self.kills_by_wish and "NORN_TEST_KILLS" not in os.environ:
            self.skipTest("takes a minute, and what is the tuner's is tested with other queues: NORN_TEST_KILLS=20 runs it with "
                          f"{self.executor}, too")
        arguments = ["--trials", 8, "--start", 5, "--clock", 4]
        self.end(self.start("undisturbed", *arguments, "--workers", 2, trainer=BIN / "trainer"))
        struck, process = 0, None
        while process is None or process.returncode != 0:
            process = self.start("killed", *arguments, *self.where(), trainer=BIN / "trainer")
            while process.poll() is None:
                time.sleep(self.random.uniform(0.1, 0.6))
                self.keep_servers()
                victims = self.victims("killed")
                if struck < KILLS and victims:
                    try:
                        os.kill(self.random.choice(victims), signal.SIGKILL)
                        struck += 1
                    except ProcessLookupError:
                        pass
            self.assertIn(process.returncode, (0, -signal.SIGKILL), process.stderr.read())
        print(f"{struck} kills", file=sys.stderr)
        self.assertEqual(self.decisions("killed"), self.decisions("undisturbed"))
        self.assertEqual(self.read("killed/best.nc"), self.read("undisturbed/best.nc"))


class HeldFolder:
    """Keeps the attempts of a trial's folder from beginning."""

    def __init__(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        self._file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def release(self):
        os.close(self._file)
