#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What every executor must do (executors_body.py), on this machine itself."""
import fcntl
import os
import pathlib
import signal
import unittest

import executors_body
from norn.tune import trial


class LocalTest(executors_body.ExecutorTest):
    executor = "local"
    there = r"this machine, cores: \d+"
    kills_by_wish = True  # program_study_test.py has twelve
    places = ("--gpus", "0,1")

    def where(self):
        return self.places

    def test_kills_change_nothing_on_one_worker(self):
        self.places = ("--workers", 1)
        self.test_kills_change_nothing()

    def prepare_loss(self):
        self.held = executors_body.HeldFolder(self.path(f"six/trials/{executors_body.NEVER_STARTS:04d}"))

    def lose_one(self, _process):
        pass  # nothing waits here; see below

    def preempt(self, study, trial):
        super().preempt(study, trial)
        # The one that never starts has its turn now: it waits for its folder, and is killed there.
        folder = str(self.path(f"{study}/trials/{executors_body.NEVER_STARTS:04d}"))
        waiting = []
        while not waiting:
            waiting = [pid for pid in self.processes(study)["trial"]
                       if folder in pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")]
        os.kill(waiting[0], signal.SIGKILL)
        self.held.release()

    def seven(self, study, *where):
        """The six, and the plain recipe: which is best is the draw's."""
        return self.start(study, *where, "--sampler", "grid", "--halving", "none", "--space", "six.json")

    def two_ranks(self, study):
        return self.seven(study, "--gpus", "0,1", "--ranks", 2)

    def test_a_trial_on_two_gpus_has_the_same_model(self):
        self.mpi()
        self.end(self.two_ranks("two"))
        self.assertEqual({line.split()[2] for line in self.said() if line.startswith("begin")}, {"0,1"})
        self.assertEqual(len([line for line in self.said() if line.startswith("begin")]), 14)  # each rank of seven saw both
        self.end(self.seven("one", "--workers", 2))
        self.assertEqual(self.read("two/best.nc"), self.read("one/best.nc"))
        self.refuse_tuner(2, ["--ranks 1: the study", "was begun with 2"], "--study", "two", "--ranks", 1)

    def test_gpus_stay_locked_while_a_rank_lives(self):
        self.mpi()
        self.act("ranks", 0, "hang")
        process = self.two_ranks("ranks")
        self.wait_until("both ranks", lambda: len([line for line in self.said() if line.startswith("begin 0000")]) == 2, process)
        ranks = self.processes("ranks")["trainer"]
        self.assertEqual(len(ranks), 2)
        self.addCleanup(lambda: [os.kill(pid, signal.SIGKILL) for pid in self.processes("ranks")["trainer"]])
        lock = self.place / trial.gpu_lock_path("1").name
        process.kill()
        parents = {int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) for pid in ranks}
        for pid in {self.lease("ranks", 0)["pid"], *parents}:  # the trial, and mpirun
            os.kill(pid, signal.SIGKILL)
        # They were told to write a checkpoint, which takes them a second.
        seen, free = 0, False
        while not free:
            free = self.free(lock)
            alive = self.processes("ranks")["trainer"]
            self.assertFalse(free and alive)
            seen += len(alive) == 2
        self.assertGreater(seen, 0)
        self.assertFalse(trial.Lease(self.path("ranks/trials/0000")).held)

    def free(self, lock):
        with open(lock, "r+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                return False


if __name__ == "__main__":
    unittest.main()
