#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What every executor must do (executors_body.py), as jobs of a real HTCondor."""
import unittest

import executors_body
from htcondor_pool import HtCondorPool


class HtCondorTest(executors_body.ExecutorTest):
    executor = "htcondor"
    there = r"slots: 1"

    @classmethod
    def start_servers(cls):
        cls.pool = HtCondorPool(cls.place / "condor", len(cls.gpus))
        cls.addClassCleanup(cls.pool.stop)
        cls.environment.update(cls.pool.environment)
        cls.prefix = cls.pool.prefix
        return {"Gpus": 1, "MemoryGiB": 0.25}

    def preempt(self, study, trial):
        done = self.pool.call("condor_vacate_job", "-constraint", f'JobBatchName == "{self.name(study, trial, 0)}"')
        self.assertEqual(done.returncode, 0, done.stderr)

    def lose(self, name):
        done = self.pool.call("condor_rm", "-constraint", f'JobBatchName == "{name}"')
        self.assertEqual(done.returncode, 0, done.stderr)

    def gpus_used(self, used):
        # Not numbers: the beginnings of their ids.
        self.assertEqual((len(used), {name[:4] for name in used}), (2, {"GPU-"}))


if __name__ == "__main__":
    unittest.main()
