#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Features weighted by how rare they are: what the model holds, the same bytes however it is trained, and predictions by it."""
import json
import signal
import unittest

import netCDF4
import numpy as np

from norn_files import model_arrays, read_recommendations, write_datasets, write_text
from programs import NETWORK, ProgramTest, mpirun


class InputWeighting(ProgramTest):
    def use(self, weighting, **more):
        network = json.loads(NETWORK % "SoftMax")
        network["Layers"][0].update({"InputWeighting": weighting, "Normalize": "L2"}, **more)
        self.write("net.json", json.dumps(network))

    def weights(self, model="model.nc"):
        with netCDF4.Dataset(self.path(model)) as file:
            return np.array(file["layer0_featureWeights"][:])

    def counts(self):
        return np.bincount([unit for row in self.known for unit in row], minlength=self.width)

    def same(self, *models):
        for model in models[1:]:
            self.assertEqual(self.read(models[0]), self.read(model), f"{models[0]} and {model}")


class Weights(InputWeighting):
    def test_are_the_formulas_of_the_counts(self):
        n = len(self.known)
        self.use({"Scheme": "InverseDocumentFrequency"})
        self.train()
        np.testing.assert_allclose(self.weights(), np.log((1 + n) / (1 + self.counts())) + 1, rtol=1e-6)
        self.use({"Scheme": "InversePopularity", "Exponent": 0.3})
        self.train("--force")
        np.testing.assert_allclose(self.weights(), (n / np.maximum(1, self.counts())) ** 0.3, rtol=1e-6)

    def test_are_absent_without_the_key(self):
        self.train()
        with netCDF4.Dataset(self.path("model.nc")) as file:
            self.assertNotIn("layer0_featureWeights", file.variables)

    def test_do_not_see_what_is_held_back(self):
        self.use({"Scheme": "InversePopularity", "Exponent": 1})
        self.train("--validation-split", "0.25", "--metrics-at", "5")
        n = 0.75 * len(self.known)
        counts = np.rint(n / self.weights()[self.counts() > 8])
        self.assertTrue(np.all(counts < self.counts()[self.counts() > 8] + 1))
        self.assertLess(counts.sum(), 0.85 * self.counts().sum())
        self.assertGreater(counts.sum(), 0.6 * self.counts().sum())

    def test_stay_when_a_run_begins_with_a_models_weights(self):
        self.use({"Scheme": "InverseDocumentFrequency"})
        self.train()
        rows = self.known[:40]
        write_datasets(self.path("train.nc"), [("gl_input", self.width, rows, None), ("gl_output", self.width, rows, None)])
        self.train(config="model.nc", model="second.nc")
        np.testing.assert_array_equal(self.weights(), self.weights("second.nc"))


class Bytes(InputWeighting):
    def setUp(self):
        super().setUp()
        self.use({"Scheme": "InversePopularity", "Exponent": 0.4})

    def test_are_the_same_on_any_number_of_ranks_and_streamed(self):
        self.train()
        self.train("--data-memory", "0", model="streamed.nc")
        self.same("model.nc", "streamed.nc")
        if mpirun(1) is None:
            self.skipTest("mpirun is not installed")
        for ranks in (2, 3):
            self.train("--threads", "1", model=f"ranks{ranks}.nc", prefix=mpirun(ranks))
            self.same("model.nc", f"ranks{ranks}.nc")

    def test_are_the_same_after_a_kill_and_when_repeated(self):
        self.train("-e", "400", "--run-dir", "run")
        self.stop_after_epochs(signal.SIGKILL, 30, "-c", "net.json", "-i", "train.nc", "-n", "killed.nc", "-e", 400,
                               "--checkpoint-epochs", 3)
        self.train("-e", "400", "--resume", model="killed.nc", prefix=mpirun(2) or ())
        self.same("model.nc", "killed.nc")
        done = self.succeed("trainer", "--repeat", "run/run.json", "-n", "again.nc")
        self.assertIn("the same bytes as that of the run that was repeated", done.stderr)
        self.same("model.nc", "again.nc")


class Predictions(InputWeighting):
    def test_use_the_models_weights_on_any_data(self):
        self.use({"Scheme": "InverseDocumentFrequency", "Exponent": 1.5})
        self.train()
        requests = [[3, 7, 30], [1], [12, 13, 14, 39]]
        write_text(self.path("requests.txt"), requests, self.names, ["a", "b", "c"])
        self.succeed("predictor", "-n", "model.nc", "-r", "requests.txt", "-i", "features.txt", "-o", "features.txt", "-s",
                     "recs.txt", "-k", "5", "-p", ".9g")
        arrays = model_arrays(self.path("model.nc"))[0]
        weight = [arrays[f"weight{w}_weights"].astype(np.float64) for w in (0, 1)]
        bias = [arrays[f"weight{w}_bias"].astype(np.float64) for w in (0, 1)]
        lists = read_recommendations(self.path("recs.txt"))
        for name, row in zip("abc", requests):
            x = np.zeros(self.width)
            x[row] = arrays["layer0_featureWeights"][row]
            hidden = np.tanh(x / np.linalg.norm(x) @ weight[0].reshape(self.width, 16) + bias[0])
            y = np.exp(hidden @ weight[1].reshape(16, self.width) + bias[1])
            self.assertEqual(len(lists[name]), 5)
            for feature, score in lists[name]:
                self.assertAlmostEqual(score, (y / y.sum())[self.names.index(feature)], delta=1e-5)

    def test_of_several_ranks_and_of_the_evaluator_are_the_same(self):
        self.use({"Scheme": "InversePopularity"})
        self.train()
        one = self.succeed("evaluator", "-n", "model.nc", "-i", "test.nc", "--top", "5").stdout
        if mpirun(1) is None:
            self.skipTest("mpirun is not installed")
        self.assertEqual(self.succeed("evaluator", "-n", "model.nc", "-i", "test.nc", "--top", "5", prefix=mpirun(2)).stdout, one)


if __name__ == "__main__":
    unittest.main()
