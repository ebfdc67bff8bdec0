#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the page of a run on images shows: filters, and images that are taken for another class."""
import base64
import html
import json
import math
import re
import unittest
import zlib

import netCDF4
import numpy as np

from image_files import png
from norn_files import write_datasets
from programs import BIN
from report_test import Report
from norn.report.pictures import picture_of

NETWORK = """{
  "ErrorFunction": "CrossEntropy", "Training": {"Optimizer": "SGD", "Alpha": 0.05, "Batch": 16, "Epochs": 1},
  "Layers": [
    {"Name": "Picture", "Kind": "Input", "N": "auto", "DataSet": "shot_input"},
    {"Name": "Shapes", "Kind": "Hidden", "Type": "Convolutional", "N": 5, "Kernel": [5, 3], "KernelStride": [2, 1], "Activation": "Relu"},
    {"Name": "More", "Kind": "Hidden", "Type": "Convolutional", "N": 3, "Kernel": [3, 3], "Activation": "Relu"},
    {"Name": "Class", "Kind": "Output", "N": "auto", "DataSet": "shot_output", "Activation": "SoftMax"}
  ]
}
"""


def pixels_of(address):
    """[height x width] or [height x width x 3] of a picture in the page."""
    data = base64.b64decode(address.removeprefix("data:image/png;base64,"))
    width, height = (int.from_bytes(data[at:at + 4], "big") for at in (16, 20))
    size = int.from_bytes(data[33:37], "big")
    rows = np.frombuffer(zlib.decompress(data[41:41 + size]), np.uint8).reshape(height, -1)
    return rows[:, 1:] if data[25] == 0 else rows[:, 1:].reshape(height, width, 3)


class Pictures(unittest.TestCase):
    def test_numbers_reach_from_black_to_white_and_one_alone_is_black(self):
        numbers = np.random.default_rng()
        extent = numbers.integers(2, 9, 2).tolist()
        units = numbers.normal(size=math.prod(extent))
        found = picture_of(units, extent)
        expected = (units - units.min()) / (units.max() - units.min()) * 255
        self.assertEqual((found.shape, found.dtype), (tuple(reversed(extent)), np.uint8))
        self.assertLess(abs(found.ravel() - expected).max(), 0.51)
        self.assertFalse(picture_of(np.full(math.prod(extent), 0.3), extent).any())


class OfImages(Report):
    def setUp(self):
        super().setUp()
        numbers = np.random.default_rng(self.seed)
        self.extent = [*numbers.integers(7, 12, 2).tolist(), int(numbers.choice((1, 3)))]
        self.pixels = numbers.integers(0, 256, (90, math.prod(self.extent)), dtype=np.uint8)
        self.classes = numbers.integers(0, 4, 90).tolist()
        self.write("net.json", NETWORK)
        self.sets("train.nc", range(50))
        self.sets("test.nc", range(50, 90))
        self.train("--run-dir", "run")

    def sets(self, name, examples):
        write_datasets(self.path(name), [("shot_input", self.extent, self.pixels[list(examples)], None),
                                         ("shot_output", 4, [[self.classes[e]] for e in examples], None)])

    def pictures(self, text, part):
        found = re.search(part, text, re.DOTALL)
        self.assertTrue(found, part)
        return [pixels_of(address) for address in re.findall(r'class="pixels" src="(.*?)"', found.group(0))]

    def test_filters_are_those_of_the_model(self):
        text = self.made("run")
        self.assertNotIn("Filters of More", text)
        shown = self.pictures(text, r"<h2>Filters of Shapes</h2>.*?</div>")
        with netCDF4.Dataset(self.path("model.nc")) as model:
            weights = np.array(model["weight0_weights"][:]).reshape(5, self.extent[2], 3, 5)
        self.assertEqual(len(shown), 5)
        for one, filter_weights in zip(shown, weights):
            expected = 127.5 + 127.5 * filter_weights.transpose(1, 2, 0) / abs(filter_weights).max()
            self.assertLess(abs(one.reshape(expected.shape) - expected).max(), 0.51)

    def test_mistakes_are_those_that_the_evaluator_counts(self):
        for data, first, count in (("train.nc", 0, 50), ("test.nc", 50, 40)):
            text = html.unescape(self.made("run", "--examples", "90", "--top", "3", "--data", data, "--predictor", BIN / "predictor"))
            report = self.succeed("evaluator", "--model", "model.nc", "--data", data, "--top", 1, "--format", "json").stdout
            wrong = round(count * (1 - json.loads(report)["model"][0]["Precision"]))
            self.assertGreater(wrong, 0)
            self.assertIn(f"{wrong} of {count} images", text)
            cards = re.findall(r'class="card person"><h3>(.*?)</h3>.*?it is (\d)</p><table>(.*?)</table>', text, re.DOTALL)
            self.assertEqual(len(cards), wrong)
            surest = []
            for (example, own, best), picture in zip(cards, self.pictures(text, r'id="mistakes".*')):
                example = first + int(re.search(r"\d+", example).group(0))
                self.assertEqual(int(own), self.classes[example])
                rows = re.findall(r"<td>(\d)</td>.*?<td class=\"number\">(.*?)</td>", best, re.DOTALL)
                self.assertEqual(len(rows), 3)
                self.assertNotEqual(rows[0][0], own)
                surest.append(float(rows[0][1]))
                planes = self.pixels[example].reshape(self.extent[2], self.extent[1], self.extent[0])
                self.assertTrue(np.array_equal(picture, planes[0] if self.extent[2] == 1 else planes.transpose(1, 2, 0)))
            self.assertEqual(surest, sorted(surest, reverse=True))

    def test_validation_data_come_before_those_of_training(self):
        self.train("--run-dir", "held_out", "--validation-input", "test.nc", "--validation-output", "test.nc", "--force")
        text = self.made("held_out", "--examples", "1", "--predictor", BIN / "predictor", page="held_out/report.html")
        self.assertRegex(text, r"\d+ of 40 images")

    def test_data_that_do_not_fit_are_refused(self):
        examples = ("run", "--examples", "2", "--predictor", BIN / "predictor")
        self.refused("--examples: none.nc cannot be read: No such file or directory; give another file with --data", *examples, "--data",
                     "none.nc")
        write_datasets(self.path("alone.nc"), [("shot_input", self.extent, self.pixels, None)])
        self.refused("--examples: alone.nc has no classes of its images; give data with both as --data", *examples, "--data", "alone.nc")
        write_datasets(self.path("other.nc"), [("other", 4, [[one] for one in self.classes], None)])
        self.refused("--examples: other.nc has no data set of the network's inputs; give another file with --data", *examples, "--data",
                     "other.nc")

    def test_images_of_classes_that_the_model_does_not_know_are_refused(self):
        for folder in ("known/a", "known/b", "new/unknown"):
            self.path(folder).mkdir(parents=True)
            self.path(f"{folder}/1.png").write_bytes(png(np.zeros((9, 11), np.uint8)))
        for folder in ("known", "new"):
            self.succeed("importer", "--input", folder, "--format", "images", "--output", f"{folder}.nc", "--name", "shot")
        self.succeed("trainer", "-c", "net.json", "-i", "known.nc", "-n", "two.nc", "--run-dir", "two")
        self.refused("--examples: the model names other classes than new.nc; give the data that it was trained for as --data", "two",
                     "--examples", "1", "--data", "new.nc", "--predictor", BIN / "predictor")


if __name__ == "__main__":
    unittest.main()
