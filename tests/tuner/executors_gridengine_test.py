#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What every executor must do (executors_body.py), as jobs of a real Grid Engine."""
import unittest

import executors_body
from gridengine_cell import GridEngineCell


class GridEngineTest(executors_body.ExecutorTest):
    executor = "gridengine"
    there = r"hosts: 1"
    kills_by_wish = True

    @classmethod
    def start_servers(cls):
        cls.cell = GridEngineCell(cls.place / "cell", len(cls.gpus))
        cls.addClassCleanup(cls.cell.stop)
        cls.environment.update(cls.cell.environment)
        cls.prefix = cls.cell.prefix
        return {"Gpus": 1, "GpuNames": list(cls.gpus), "Queue": "all.q"}

    def preempt(self, study, trial):
        # With -notify it gets SIGUSR2 first.
        done = self.cell.call("qdel", self.name(study, trial, 0))
        self.assertEqual(done.returncode, 0, done.stderr)

    def lose(self, name):
        done = self.cell.call("qdel", name)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
