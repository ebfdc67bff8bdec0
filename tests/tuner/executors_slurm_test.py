#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What every executor must do (executors_body.py), as jobs of a real Slurm."""
import unittest

import executors_body
from slurm_cluster import SlurmCluster


class SlurmTest(executors_body.ExecutorTest):
    executor = "slurm"

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


if __name__ == "__main__":
    unittest.main()
