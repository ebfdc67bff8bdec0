# SPDX-License-Identifier: Apache-2.0
"""Runs whose numbers stop being finite: they end with 6, write no file that holds such numbers, and leave one to resume from."""
import json
import unittest

import numpy as np

from norn_files import model_arrays, write_datasets
from programs import ProgramTest, mpirun

DEEP = {"Name": "deep", "ErrorFunction": "L2", "Training": {"Optimizer": "SGD", "Batch": 50, "Lambda": 0, "Lambda1": 0},
        "Layers": [{"Name": "Input", "Kind": "Input", "N": "auto", "DataSet": "values", "Sparse": True},
                   {"Name": "First", "Kind": "Hidden", "N": 16, "Activation": "Relu"},
                   {"Name": "Second", "Kind": "Hidden", "N": 16, "Activation": "Relu"},
                   {"Name": "Output", "Kind": "Output", "N": "auto", "DataSet": "values", "Activation": "Linear"}]}


def shallow(error, activation, **more):
    """Without a hidden layer, whose deltas are looked at in every step."""
    return json.dumps({**DEEP, "ErrorFunction": error, "Layers": [
        {"Name": "Input", "Kind": "Input", "N": "auto", "DataSet": "gl_input", "Sparse": True},
        {"Name": "Output", "Kind": "Output", "N": "auto", "Activation": activation, **more}]})


class Divergence(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("deep.json", json.dumps(DEEP))
        self.write_values(lambda: self.random.uniform(0.1, 1))

    def write_values(self, draw):
        values = [[draw() for _ in row] for row in self.known[:50]]
        write_datasets(self.path("train.nc"), [("values", self.width, self.known[:50], values),
                                               ("gl_input", self.width, self.known[:50], None),
                                               ("gl_output", self.width, self.known[:50], None)])

    def diverge(self, *arguments, message="", config="deep.json", **more):
        done = self.fail_with(6, message, "trainer", "-c", config, "-i", "train.nc", "-n", "model.nc", *arguments, **more)
        resumable = any(self.folder.glob("model.epoch*")) or (self.folder / "model.best.nc").exists()
        self.assertEqual("--resume goes on from the last checkpoint" in done.stderr, resumable, done.stderr)
        self.assertNotIn("nan", done.stdout)
        self.assertNotIn("inf", done.stdout)
        left = sorted(self.folder.glob("model*"))
        self.assertNotIn(self.path("model.nc"), left)
        for path in left:
            for name, values in model_arrays(path)[0].items():
                self.assertTrue(np.isfinite(values).all(), f"{path}: {name}")
        return [path.name for path in left]

    def test_a_cost_that_grows_beyond_the_sums(self):
        left = self.diverge("--rate", "3", "-e", "200", "--checkpoint-epochs", "1", "--keep", "2")
        self.assertEqual(len(left), 2)
        newest = max(left, key=lambda name: int(name.split(".")[1][len("epoch"):]))
        done = self.run_program("trainer", "-c", "deep.json", "-i", "train.nc", "-n", "model.nc", "--resume", "-e", "200")
        self.assertIn(f"resuming from {newest}", done.stderr)
        self.assertEqual(done.returncode, 6)

    def test_early_stopping_by_a_cost_beyond_the_sums(self):
        self.diverge("--rate", "3", "-e", "200", "--validation-split", "0.2", "--early-stop", "loss", "--patience", "100",
                     "-b", "40")

    def test_the_best_model_before_is_what_the_run_goes_on_from(self):
        schedule = ("-e", "200", "-b", "40", "--validation-split", "0.2", "--keep-best", "loss", "--rate-schedule", "step",
                    "--rate-interval", "4")
        self.assertEqual(self.diverge(*schedule, "--rate", "1e-3", "--rate-multiplier", "1e12"), ["model.best.nc"])
        done = self.train("--resume", *schedule, "--rate", "1e-3", "--rate-multiplier", "1", config="deep.json")
        self.assertIn("resuming from model.best.nc", done.stderr)

    def test_targets_whose_cost_is_no_number(self):
        self.write("far.json", shallow("L2", "Linear", DataSet="values"))
        self.write_values(lambda: self.random.choice((1e30, 3e38)))
        for batch in ("50", "10"):
            self.assertEqual(self.diverge("-e", "1", "-b", batch, config="far.json"), [])

    def test_weights_after_the_last_step(self):
        self.write_values(lambda: self.random.uniform(5, 20))
        self.assertEqual(self.diverge("-e", "1", "--rate", "3e38", message='"weight0_'), [])

    def test_weights_after_the_last_step_on_ranks(self):
        if mpirun(1) is None:
            self.skipTest("mpirun is not installed")
        self.write_values(lambda: self.random.uniform(5, 20))
        done = self.run_program("trainer", "-c", "deep.json", "-i", "train.nc", "-n", "model.nc", "-e", "1", "--rate", "3e38",
                                "--threads", "1", prefix=mpirun(3))
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertIn("so nothing is saved", done.stderr)
        self.assertEqual(list(self.folder.glob("model*")), [])

    def test_weights_at_a_checkpoint_leave_the_one_before_to_resume_from(self):
        self.write_values(lambda: self.random.uniform(5, 20))
        self.train("-e", "1", "--rate", "1e-6", config="deep.json", model="first.nc")
        self.path("first.nc").rename(self.path("model.epoch1.nc"))
        again = ("--resume", "-e", "3", "--checkpoint-epochs", "1", "--keep", "1")
        self.assertEqual(self.diverge(*again, "--rate", "3e38", message='"weight0_'), ["model.epoch1.nc"])
        done = self.train(*again, "--rate", "1e-6", "--log-format", "dsstne", config="deep.json")
        self.assertIn("resuming from model.epoch1.nc", done.stderr)
        self.assertIn("Epoch 3, average error", done.stdout)

    def test_initial_weights_that_are_far_too_large(self):
        self.write("wild.json", shallow("CrossEntropy", "SoftMax", DataSet="gl_output",
                                        WeightInit={"Scheme": "Gaussian", "Scale": 1e18}))
        self.assertEqual(self.diverge("-e", "3", config="wild.json"), [])

    def test_a_regularisation_that_is_no_number(self):
        self.write("heavy.json", shallow("CrossEntropy", "SoftMax", DataSet="gl_output",
                                         WeightInit={"Scheme": "Gaussian", "Scale": 1e9}))
        self.assertEqual(self.diverge("-e", "3", "--rate", "1e-9", "--lambda", "1e-12", config="heavy.json",
                                      message="the regularisation is beyond 2^62 after step 1 (epoch 1); "), [])


if __name__ == "__main__":
    unittest.main()
