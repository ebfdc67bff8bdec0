#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A study that goes on without a word of where runs on what it ran on before."""
import argparse
import json
import subprocess
import sys
import unittest

from killed_study import TRAINER, TUNER, KilledStudy
from tuner_case import SeededTest
from norn.tune.command_line import RUNNING, _run_as_before


class GoesOn(SeededTest):
    def tuner(self, *words):
        done = subprocess.run([sys.executable, "-B", str(TUNER), "--study", "study", "--trainer", str(TRAINER), "--quiet",
                               *map(str, words)],
                              cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [event for event in self.study.events() if event["event"] == "open"][-1]

    def test_it_has_as_many_workers_as_before(self):
        self.study = KilledStudy(self.folder, 3, self.random)
        self.study.run(3, 0)
        self.assertEqual(self.tuner("--trials", 4)["places"], 3)
        self.assertEqual(self.tuner("--trials", 5, "--workers", 1)["places"], 1)
        self.assertEqual(self.tuner("--trials", 6)["places"], 1)

    def wish(self, before, **given):
        (self.folder / "journal.jsonl").write_text("".join(json.dumps({"n": n, "event": "open", "running": one}) + "\n"
                                                           for n, one in enumerate((dict.fromkeys(RUNNING), before), 1)))
        wish = argparse.Namespace(**{**dict.fromkeys(RUNNING), **given})
        _run_as_before(wish, self.folder)
        return tuple(getattr(wish, key) for key in RUNNING)

    def test_what_is_given_is_done_and_the_rest_is_as_before(self):
        queue = {"executor": "slurm", "executor_file": "/there/queue.json", "workers": 16, "gpus": None}
        self.assertEqual(self.wish(queue), ("slurm", "/there/queue.json", 16, None))
        self.assertEqual(self.wish(queue, workers=4), ("slurm", "/there/queue.json", 4, None))
        self.assertEqual(self.wish(queue, executor="slurm", executor_file="/other.json"), ("slurm", "/other.json", 16, None))
        self.assertEqual(self.wish(queue, executor="local", gpus="0,1"), ("local", None, 1, "0,1"))
        here = {"executor": "local", "executor_file": None, "workers": 1, "gpus": "0,1"}
        self.assertEqual(self.wish(here), ("local", None, 1, "0,1"))
        self.assertEqual(self.wish(here, workers=2), ("local", None, 2, None))
        self.assertEqual(self.wish({}), ("local", None, 1, None))  # an earlier version's


if __name__ == "__main__":
    unittest.main()
