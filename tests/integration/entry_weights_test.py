#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Values of targets as weights of their entries: by descriptor and option, the same bytes however they are trained, and what is refused."""
import json
import signal
import unittest

import netCDF4

from norn_files import write_datasets
from programs import NETWORK, ProgramTest, mpirun


class EntryWeights(ProgramTest):
    def setUp(self):
        super().setUp()
        self.counts = [[self.random.choice((1, 1, 2, 3, 7, 40)) for _ in row] for row in self.known]
        self.write_targets(self.counts)

    def write_targets(self, values, file="train.nc"):
        write_datasets(self.path(file), [("gl_input", self.width, self.known, None), ("gl_output", self.width, self.known, values)])

    def use(self, activation="Sigmoid", **weights):
        network = json.loads(NETWORK % activation)
        if weights:
            network["Layers"][2]["EntryWeights"] = weights
        self.write("net.json", json.dumps(network))

    def weights_of(self, model="model.nc"):
        with netCDF4.Dataset(self.path(model)) as file:
            return json.loads(file.norn_descriptor)["Layers"][2].get("EntryWeights")

    def arrays_after(self, weights):
        """The weights of the output layer."""
        self.use(**weights or {})
        self.train("--force")
        with netCDF4.Dataset(self.path("model.nc")) as file:
            return bytes(file["weight1_weights"][:])

    def same(self, *models):
        for model in models[1:]:
            self.assertEqual(self.read(models[0]), self.read(model), f"{models[0]} and {model}")


class Laws(EntryWeights):
    def test_are_the_same_by_descriptor_and_option_and_stand_in_the_model(self):
        self.use(Scheme="Log", Alpha=3, Epsilon=0.5)
        self.train()
        self.assertEqual(self.weights_of(), {"Scheme": "Log", "Alpha": 3, "Epsilon": 0.5})
        self.use()
        self.train("--entry-weights", "log", "--entry-alpha", "3", "--entry-epsilon", "0.5", model="option.nc")
        self.same("model.nc", "option.nc")
        self.use(Scheme="Log", Alpha=3, Epsilon=0.5)
        self.train("--entry-weights", "none", model="none.nc")
        self.assertIsNone(self.weights_of("none.nc"))

    def test_of_numbers_made_elsewhere_are_those_of_the_law(self):
        by_law = self.arrays_after({"Scheme": "Linear", "Alpha": 4})
        self.write_targets([[1 + 4 * count for count in row] for row in self.counts])
        self.assertEqual(self.arrays_after({"Scheme": "Value"}), by_law)
        self.assertNotEqual(self.arrays_after(None), by_law)  # values are targets

    def test_of_a_recipe_and_its_gradients(self):
        for recipe in ("sigmoid", "softmax"):
            done = self.succeed("trainer", "--recipe", recipe, "-i", "train.nc", "-n", f"{recipe}.nc", "-e", "2", "-b", "40",
                                "--entry-weights", "linear", "--entry-alpha", "0.5")
            self.assertIn("epoch 2/2", done.stdout)
            self.assertEqual(self.weights_of(f"{recipe}.nc"), {"Scheme": "Linear", "Alpha": 0.5})
            table = self.succeed("trainer", "--recipe", recipe, "-i", "train.nc", "-b", "16", "--entry-weights", "linear", "--entry-alpha",
                                 "0.5", "--check-gradients").stdout
            self.assertEqual(table.splitlines()[-1], "gradients agree with the cost")


class Bytes(EntryWeights):
    def test_are_the_same_on_any_number_of_ranks_and_streamed(self):
        for activation in ("SoftMax", "Sigmoid"):
            self.use(activation, Scheme="Log", Alpha=2)
            self.train("--force")
            self.train("--data-memory", "0", "--force", model="streamed.nc")
            self.same("model.nc", "streamed.nc")
            self.train("--threads", "3", "--force", model="threads.nc")
            self.same("model.nc", "threads.nc")
            if mpirun(1) is None:
                self.skipTest("mpirun is not installed")
            for ranks in (2, 3):
                self.train("--threads", "1", "--force", model=f"ranks{ranks}.nc", prefix=mpirun(ranks))
                self.same("model.nc", f"ranks{ranks}.nc")

    def test_are_the_same_after_a_kill(self):
        self.use(Scheme="Linear", Alpha=0.5)
        self.train("-e", "400")
        self.stop_after_epochs(signal.SIGKILL, 30, "-c", "net.json", "-i", "train.nc", "-n", "killed.nc", "-e", 400,
                               "--checkpoint-epochs", 3)
        self.train("-e", "400", "--resume", model="killed.nc")
        self.same("model.nc", "killed.nc")
        self.fail_with(2, "--entry-weights cannot change when a run is resumed: ",
                       "trainer", "-c", "net.json", "-i", "train.nc", "-n", "killed.nc", "-e", "401", "--resume", "--entry-weights",
                       "value")

    def test_are_those_of_no_weights_where_all_are_one(self):
        self.write_targets([[1] * len(row) for row in self.known])
        weighed = self.arrays_after({"Scheme": "Value"})
        self.write_targets(None)
        self.assertEqual(self.arrays_after({"Scheme": "Value"}), weighed)
        self.assertEqual(self.arrays_after(None), weighed)


class Refused(EntryWeights):
    def test_negative_weights_are_counted(self):
        entries = sum(map(len, self.counts))
        self.counts[7][0] = -3
        self.counts[20][-1] = -1
        self.write_targets(self.counts)
        self.use(Scheme="Linear")
        self.fail_with(3, f"train.nc: data set \"gl_output\": example 7: the weight of column {self.known[7][0]} is -3 by its value, "
                          f"expected at least 0; 2 of {entries:,} entries are such, and layer \"Output\" reads values as weights, "
                          "EntryWeights Linear: correct the data, or remove the key", "trainer", "-c", "net.json", "-i", "train.nc", "-n",
                       "m.nc")

    def test_words_and_numbers_that_mean_nothing(self):
        self.use()
        common = ("trainer", "-c", "net.json", "-i", "train.nc", "-n", "m.nc")
        self.fail_with(2, "--entry-alpha -1 is out of range", *common, "--entry-alpha", "-1")
        self.fail_with(2, "net.json:1: layer \"Output\": EntryWeights: Alpha 2 has no effect with Scheme Value; remove it", *common,
                       "--entry-weights", "value", "--entry-alpha", "2")
        done = self.succeed(*common, "--entry-alpha", "2")
        self.assertIn("--entry-alpha has no effect without weights of entries; --entry-weights chooses some", done.stderr)
        self.write_targets(None, "ones.nc")
        self.fail_with(2, "--recipe ease: \"Method\": \"Ease\" counts every entry once: without EntryWeights", "trainer", "--recipe",
                       "ease", "-i", "ones.nc", "-n", "ease.nc", "--entry-weights", "linear")


if __name__ == "__main__":
    unittest.main()
