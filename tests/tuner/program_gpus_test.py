#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Places of the local executor, with GPUs that are only names: each has one trial, of whatever study, until its trainer is gone."""
import fcntl
import os
import signal
import subprocess
import sys
import time
import unittest

from tuner_program import BIN, TUNER, TunerTest
from norn.tune.trial import gpu_lock_path


class GpuTest(TunerTest):
    def setUp(self):
        super().setUp()
        self.gpu = f"GPU-{os.getpid():08x}"
        for name in (self.gpu, f"{self.gpu}b", f"{self.gpu}.0", f"{self.gpu}.1"):
            self.addCleanup(gpu_lock_path(name).unlink, missing_ok=True)
        # Says when it begins and ends on a GPU; everything but training is the real trainer's alone.
        self.write("watched", "#!/bin/bash\nif [[ $* != *--last-epoch* ]]; then exec %s \"$@\"; fi\n"
                   "echo \"$CUDA_VISIBLE_DEVICES begin\" >> %s\n%s \"$@\"; code=$?\necho \"$CUDA_VISIBLE_DEVICES end\" >> %s\nexit $code\n"
                   % (BIN / "trainer", self.path("said"), BIN / "trainer", self.path("said"))).chmod(0o755)

    def start(self, study, gpus, *arguments):
        words = self.command(study, "--trials", 5, "--confirm", 0, "--threads", 1, "--gpus", gpus, "--trainer", self.path("watched"),
                             *arguments)
        process = subprocess.Popen([sys.executable, "-B", str(TUNER), *map(str, words)], cwd=self.folder, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stderr.close)
        return process

    def most_at_a_time(self):
        """{GPU: how many trainings it had at once at most}."""
        now, most = {}, {}
        for line in self.path("said").read_text().splitlines():
            gpu, what = line.split()
            now[gpu] = now.get(gpu, 0) + (1 if what == "begin" else -1)
            most[gpu] = max(most.get(gpu, 0), now[gpu])
        return most

    def test_two_studies_share_a_gpu_one_trial_at_a_time(self):
        for process in [self.start("a", self.gpu), self.start("b", f"{self.gpu},{self.gpu}b")]:
            _, said = process.communicate(timeout=400)
            self.assertEqual(process.returncode, 0, said)
        self.assertEqual(self.most_at_a_time(), {self.gpu: 1, f"{self.gpu}b": 1})
        self.assertEqual(len(self.decisions("a")["tell"]), 5)

    def test_a_gpu_may_have_two_parts(self):
        process = self.start("parts", f"{self.gpu}*2")
        _, said = process.communicate(timeout=400)
        self.assertEqual(process.returncode, 0, said)
        self.assertLessEqual(self.most_at_a_time()[self.gpu], 2)
        places = {event["place"] for event in self.events("parts") if event["event"] == "submit"}
        self.assertEqual(places, {f"gpu {self.gpu}.0", f"gpu {self.gpu}.1"})

    def test_a_gpu_is_not_free_before_the_trainer_of_a_killed_trial_is_gone(self):
        process = self.start("killed", self.gpu)
        while not (found := self.processes("killed"))["trainer"]:
            self.assertIsNone(process.poll())
            time.sleep(0.02)
        trainer, trial = found["trainer"][0], found["trial"]
        try:
            os.kill(trainer, signal.SIGSTOP)
            process.kill()
            for pid in trial:
                os.kill(pid, signal.SIGKILL)
            while self.processes("killed")["trial"]:
                time.sleep(0.02)
            self.assertEqual(self.processes("killed")["trainer"], [trainer])
            with open(gpu_lock_path(self.gpu), "r+b") as lock, self.assertRaises(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.kill(trainer, signal.SIGCONT)
        done = self.start("killed", self.gpu)
        _, said = done.communicate(timeout=400)
        self.assertEqual(done.returncode, 0, said)


if __name__ == "__main__":
    unittest.main()
