#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""TensorBoard itself reads the events of --run-dir. It is installed from PyPI beside the build, at a fixed version."""
import json
import subprocess
import unittest

from programs import ProgramTest
from python_packages import TENSORBOARD, python_with
from run_files import read_log

READER = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
events.Reload()
print(json.dumps({tag: [(e.step, e.value, e.wall_time) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}))
"""


class TensorBoard(ProgramTest):
    @classmethod
    def setUpClass(cls):
        cls.python = python_with(TENSORBOARD)

    def scalars(self, folder="run"):
        """{tag: [(step, value, time)]}, as TensorBoard reads them."""
        done = subprocess.run([self.python, "-c", READER, self.path(folder)], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("corrupt", done.stderr.lower())
        return json.loads(done.stdout)

    def files(self):
        return list(self.path("run").glob("events.out.tfevents.*"))

    def test_reads_what_the_log_says(self):
        self.train("-e", "30", "--run-dir", "run")
        read = self.scalars()
        epochs = [event for event in read_log(self.path("run/log.jsonl")) if event["event"] == "epoch"]
        for tag, member in (("epoch/cost", "cost"), ("epoch/regularization", "regularization"), ("train/rate", "rate"),
                            ("epoch/examples_per_second", "examples_per_second")):
            self.assertEqual([step for step, _, _ in read[tag]], [event["step"] for event in epochs])
            for (_, value, _), event in zip(read[tag], epochs, strict=True):
                self.assertAlmostEqual(value, event[member], delta=1e-6 * abs(event[member]))
        steps = [event for event in read_log(self.path("run/log.jsonl")) if event["event"] == "step"]
        for tag in ("train/cost", "train/examples_per_second"):
            self.assertEqual([step for step, _, _ in read[tag]], [event["step"] for event in steps])
        self.assertRegex(self.files()[0].name, r"^events\.out\.tfevents\.\d{10}\.[\w.-]+$")

    def test_forgets_steps_that_are_made_again(self):
        self.train("-e", "6", "--checkpoint-epochs", "4", "--run-dir", "run")
        self.path("model.nc").unlink()
        self.train("-e", "6", "--resume", "--run-dir", "run")
        read = self.scalars()
        self.assertEqual([step for step, _, _ in read["epoch/cost"]], [5, 10, 15, 20, 25, 30])

    def test_reads_what_a_killed_run_left(self):
        self.train("-e", "6", "--run-dir", "run")
        file = self.files()[0]
        file.write_bytes(file.read_bytes()[:-7])
        self.assertEqual([step for step, _, _ in self.scalars()["epoch/cost"]], [5, 10, 15, 20, 25])

    def test_a_run_that_begins_anew_leaves_nothing_of_the_old_one(self):
        self.train("-e", "6", "--run-dir", "run")
        self.train("-e", "2", "--run-dir", "run", "--force")
        self.assertEqual([step for step, _, _ in self.scalars()["epoch/cost"]], [5, 10])


if __name__ == "__main__":
    unittest.main()
