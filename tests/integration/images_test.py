#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From files of images to a classifier, and images as DSSTNE keeps them."""
import json
import math
import unittest

import netCDF4
import numpy as np

from image_files import png
from norn_files import write_datasets
from programs import ProgramTest

NETWORK = """{
  "ErrorFunction": "CrossEntropy", "Training": {"Optimizer": "Adam", "Alpha": 0.01, "Batch": 25, "Epochs": 4},
  "Layers": [
    {"Name": "Picture", "Kind": "Input", "N": "auto", "DataSet": "%s_input"},
    {"Name": "Shapes", "Kind": "Hidden", "Type": "Convolutional", "N": [6], "Kernel": [3, 3], "KernelStride": [2, 2], "Activation": "Relu"},
    {"Name": "Class", "Kind": "Output", "N": "auto", "DataSet": "%s_output", "Activation": "SoftMax"}
  ]
}
"""
ONE_LAYER = """{
  "ErrorFunction": "CrossEntropy", "Training": {"Optimizer": "SGD", "Alpha": 0.5, "Batch": 32, "Epochs": 1},
  "Layers": [
    {"Name": "Picture", "Kind": "Input", "N": "auto", "DataSet": "shot_input"},
    {"Name": "Class", "Kind": "Output", "N": "auto", "DataSet": "shot_output", "Activation": "SoftMax"}
  ]
}
"""
CLASSES = ("bar", "disc", "stripe")


class ImagesTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.numbers = np.random.default_rng(self.seed)

    def picture(self, kind, width, height):
        """A shape of a class somewhere in an image of noise, [height x width x 3]."""
        y, x = np.mgrid[:height, :width]
        cy, cx = self.numbers.integers(5, height - 5), self.numbers.integers(5, width - 5)
        shape = {"bar": abs(x - cx) < 2, "disc": (x - cx) ** 2 + (y - cy) ** 2 < 20, "stripe": abs(y - cy) < 2}[kind]
        pixels = self.numbers.integers(0, 90, (height, width, 3))
        return np.where(shape[..., None], pixels + 150, pixels).astype(np.uint8)

    def draw_folder(self, count):
        """Images by their examples' names."""
        drawn = {}
        for kind in CLASSES:
            self.path("shots").joinpath(kind).mkdir(parents=True)
            for number in range(count):
                pixels = drawn[f"{kind}/{number}.png"] = self.picture(kind, 17, 13)
                self.path("shots").joinpath(kind, f"{number}.png").write_bytes(png(pixels))
        return drawn

    def test_a_folder_becomes_a_classifier(self):
        drawn = self.draw_folder(60)
        said = self.succeed("importer", "-i", "shots", "--format", "images", "-o", "shots.nc", "--split", "ratio:0.75/0.25").stdout
        self.assertIn("shots.train.nc: 135 images\nshots.test.nc: 45 images\nsize: 17 x 13, colour; 3 classes\n", said)
        self.write("shots.json", NETWORK % ("shots", "shots"))
        plan = self.succeed("trainer", "-c", "shots.json", "-i", "shots.train.nc", "-n", "model.nc", "--plan").stdout
        for extent in ("663 = 17 x 13 x 3", "288 = 8 x 6 x 6"):
            self.assertIn(extent, plan)
        self.succeed("trainer", "-c", "shots.json", "-i", "shots.train.nc", "-n", "model.nc")
        report = self.succeed("evaluator", "--model", "model.nc", "--data", "shots.test.nc", "--top", 1, "--format", "json").stdout
        precision = json.loads(report)["model"][0]["Precision"]
        self.assertGreater(precision, 0.6, "a third by chance")

        self.succeed("predictor", "-n", "model.nc", "--data", "shots.test.nc", "-k", 1, "-s", "best.txt")
        best = dict(line.split("\t") for line in self.read("best.txt").decode().splitlines())
        self.assertEqual(len(best), 45)
        self.assertLess(set(best), set(drawn))
        right = sum(found.split(",")[0] == name.split("/")[0] for name, found in best.items())
        self.assertAlmostEqual(right / 45, precision, places=6)

    def test_files_are_as_dsstne_has_them(self):
        drawn = self.draw_folder(3)
        self.succeed("importer", "-i", "shots", "--format", "images", "-o", "made.nc", "--name", "shot")
        with netCDF4.Dataset(self.path("made.nc")) as file:
            pixels = file["data0"][:].reshape(9, 3, 13, 17)
            expected = {"name0": "shot_input", "attributes0": 0, "dataType0": 8, "kind0": 1, "dimensions0": 3, "width0": 17, "height0": 13,
                        "length0": 3}
            for key, value in expected.items():
                self.assertEqual(getattr(file, key), value, key)
        self.assertTrue(np.array_equal(pixels, np.stack([drawn[name] for name in sorted(drawn)]).transpose(0, 3, 1, 2)))

    def test_images_that_others_wrote_are_read_as_they_are(self):
        extent = self.numbers.integers(1, 9, 3).tolist()
        pixels = self.numbers.integers(0, 256, (41, math.prod(extent)), dtype=np.uint8)
        classes = self.numbers.integers(0, 4, 41).tolist()
        write_datasets(self.path("theirs.nc"), [("shot_input", extent, pixels, None), ("shot_output", 4, [[one] for one in classes], None)])
        self.write("one.json", ONE_LAYER)
        self.assertIn(f"{math.prod(extent)} = {' x '.join(map(str, extent))}",
                      self.succeed("trainer", "-c", "one.json", "-i", "theirs.nc", "-n", "model.nc", "--plan").stdout)
        self.succeed("trainer", "-c", "one.json", "-i", "theirs.nc", "-n", "model.nc")
        self.succeed("predictor", "-n", "model.nc", "--data", "theirs.nc", "-k", 4, "-p", ".7g", "-s", "scores.txt")

        with netCDF4.Dataset(self.path("model.nc")) as model:
            weights, biases = (np.array(model[f"weight0_{name}"][:], dtype=np.float64) for name in ("weights", "bias"))
        scores = (pixels / 256 - 0.5) @ weights.reshape(-1, 4) + biases
        scores = np.exp(scores - scores.max(1, keepdims=True))
        scores /= scores.sum(1, keepdims=True)
        for example, line in enumerate(self.read("scores.txt").decode().splitlines()):
            for one in line.split("\t")[1].rstrip(":").split(":"):
                unit, score = one.split(",")
                self.assertAlmostEqual(float(score), scores[example, int(unit)], delta=1e-5)


if __name__ == "__main__":
    unittest.main()
