#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images that training moves and mirrors: the same weights as of images that were moved by hand, by bytes of three axes; in training
alone; and the same bytes on any number of ranks, resumed anywhere."""
import json
import pathlib
import sys
import unittest

import netCDF4
import numpy as np

from norn_files import model_arrays
from programs import SOURCE, ProgramTest, mpirun

sys.path.insert(0, str(SOURCE / "tests/attack"))
from augmentation import augmented  # noqa: E402
from datasets import write_sets  # noqa: E402


class Augmentation(ProgramTest):
    def setUp(self):
        super().setUp()
        self.draw = np.random.default_rng(self.seed)
        self.extent = [self.random.randint(3, 9), self.random.randint(3, 9), self.random.randint(1, 3)]
        self.augment = {"Crop": self.random.randint(1, 2), "Flip": True}
        width = int(np.prod(self.extent))
        self.images = self.draw.integers(0, 256, (self.random.randint(30, 50), width)).astype(np.uint8)
        self.classes = self.draw.integers(0, 5, len(self.images))
        self.write_images("images.nc", self.images)
        self.use("net.json", self.augment)
        self.use("plain.json", None)

    def write_images(self, name, images):
        write_sets(self.path(name), [{"name": "images", "width": images.shape[1], "dense": images},
                                     {"name": "classes", "width": 5, "classes": self.classes}])
        with netCDF4.Dataset(self.path(name), "a") as file:  # of three axes
            file.dimensions0 = np.uint32(3)
            file.width0, file.height0, file.length0 = (np.uint32(size) for size in self.extent)

    def use(self, name, augment):
        image = {"Name": "Image", "Kind": "Input", "Type": "Convolutional", "N": "auto", "DataSet": "images"}
        if augment:
            image["Augment"] = augment
        self.write(name, json.dumps({"Name": "images", "ShuffleIndices": False, "Layers": [
            image, {"Name": "Filters", "Kind": "Hidden", "Type": "Convolutional", "N": 3, "Kernel": [3, 3], "Activation": "Relu"},
            {"Name": "Class", "Kind": "Output", "N": "auto", "DataSet": "classes", "Activation": "SoftMax"}]}))

    def run_trainer(self, network, model, *options, data="images.nc", ranks=0):
        return self.succeed("trainer", "-c", network, "-i", data, "-n", model, "-b", "7", "--threads", "1", *options,
                            prefix=mpirun(ranks) if ranks else ())

    def weights(self, model):
        arrays, _ = model_arrays(self.path(model))
        return {name: array for name, array in arrays.items() if name.startswith("weight")}

    def test_trains_on_images_that_are_moved_as_documented(self):
        self.run_trainer("net.json", "model.nc", "-e", "1")
        layer = {"N": self.extent, "Augment": self.augment}
        moved = augmented(layer, 0, 2, self.images, 0)  # of bytes: 0 is a stored 0
        self.assertFalse(np.array_equal(moved, self.images))
        self.write_images("moved.nc", moved)
        self.run_trainer("plain.json", "by_hand.nc", "-e", "1", data="moved.nc")
        expected = self.weights("by_hand.nc")
        for name, array in self.weights("model.nc").items():
            np.testing.assert_array_equal(array, expected[name], name)

    def test_validations_see_images_as_they_are(self):
        seen = []
        for network in ("net.json", "plain.json"):
            folder = network + ".run"
            self.run_trainer(network, network + ".nc", "-e", "1", "--rate", "1e-30", "--validation-split", "0.3", "--metrics-at", "1,3",
                             "--run-dir", folder)
            events = [json.loads(line) for line in pathlib.Path(self.path(f"{folder}/log.jsonl")).read_text().splitlines()]
            [epoch] = [event for event in events if event["event"] == "epoch"]
            [validation] = [event for event in events if event["event"] == "eval"]
            del validation["time"], validation["seconds"]
            seen.append((epoch["cost"], validation))
        self.assertNotEqual(seen[0][0], seen[1][0])
        self.assertEqual(seen[0][1], seen[1][1])

    def test_predictions_see_images_as_they_are(self):
        scores = []
        for network in ("net.json", "plain.json"):
            self.run_trainer(network, network + ".nc", "-e", "1", "--rate", "1e-30")
            self.succeed("predictor", "-n", network + ".nc", "--data", "images.nc", "-s", network + ".txt", "-k", "5")
            scores.append(self.read(network + ".txt"))
        self.assertEqual(*scores)

    @unittest.skipIf(mpirun(1) is None, "mpirun is not installed")
    def test_has_the_same_bytes_on_any_number_of_ranks_and_after_any_resume(self):
        self.run_trainer("net.json", "alone.nc", "-e", "3", "--checkpoint-epochs", "0")
        self.run_trainer("net.json", "part.nc", "-e", "3", "--checkpoint-epochs", "0", "--checkpoint-minutes", "1e-9", "--keep", "0",
                         ranks=2)
        self.assertEqual(self.read("part.nc"), self.read("alone.nc"))
        chosen = self.random.choice(sorted(self.folder.glob("part.epoch*.nc")))
        self.run_trainer("net.json", "rest.nc", "-e", "3", "--checkpoint-epochs", "0", "--resume", chosen.name,
                         ranks=self.random.choice((1, 3)))
        self.assertEqual(self.read("rest.nc"), self.read("alone.nc"), chosen.name)

    def test_refuses_crops_out_of_sight(self):
        self.use("net.json", {"Crop": max(self.extent[:2])})
        done = self.run_program("trainer", "-c", "net.json", "-i", "images.nc", "-n", "model.nc")
        self.assertEqual(done.returncode, 2)
        self.assertIn("layer \"Image\": Augment Crop", done.stderr)


if __name__ == "__main__":
    unittest.main()
