#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What every executor must do (executors_body.py), as jobs of a real Slurm."""
import json
import unittest

import executors_body
from slurm_cluster import SlurmCluster


class SlurmTest(executors_body.ExecutorTest):
    executor = "slurm"
    there = r"partition all\* is up, nodes: 1"

    @classmethod
    def start_servers(cls):
        cls.cluster = SlurmCluster(cls.place / "slurm", gpus=2)
        cls.addClassCleanup(cls.cluster.stop)
        cls.environment["SLURM_CONF"] = cls.cluster.environment["SLURM_CONF"]
        return {"Gpus": 1, "Partition": "all"}

    def preempt(self, study, trial):
        self.cluster.call("scancel", "--signal=USR1", "--full", "--name", self.name(study, trial, 0))

    def lose(self, name):
        done = self.cluster.call("scancel", "--name", name)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_trial_on_two_gpus_by_srun_has_the_same_model(self):
        self.mpi()
        if "pmix" not in self.cluster.call("srun", "--mpi=list").stdout:
            self.skipTest("its srun has no pmix")
        self.write("executor.json", json.dumps({**self.settings, "Gpus": 2}))
        self.end(self.six("two", *self.where(), "--ranks", 2))
        begun = sorted(line for line in self.said() if line.startswith("begin"))
        self.assertEqual(begun, sorted(2 * [f"begin {trial:04d} 0,1" for trial in range(6)]))  # each rank saw both
        self.assertEqual([line for line in self.said() if "SHARED" in line], [])
        self.end(self.six("one", "--workers", 2))
        self.assertEqual(self.read("two/best.nc"), self.read("one/best.nc"))


if __name__ == "__main__":
    unittest.main()
