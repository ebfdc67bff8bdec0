#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The networks in configs/recipes, and one of images and clicks: the programs take each of them, and one learns what it is for."""
import json
import math
import re
import unittest

import numpy as np
from norn_files import write_datasets
from programs import SOURCE, ProgramTest

RECIPES = sorted((SOURCE / "configs/recipes").glob("*.json")) + [SOURCE / "configs/images_and_clicks.json"]
PACKAGES = SOURCE / "tests/data/debian_packages"


def layers_of(recipe):
    text = re.sub(r"(?m)(^|[\s,])//.*$", r"\1", recipe.read_text(encoding="utf-8"))
    return json.loads(text).get("Layers", [{"Name": "Input"}, {"Name": "Hidden"}, {"Name": "Output"}])


class Recipes(ProgramTest):
    def test_every_recipe_has_a_plan_and_takes_a_step(self):
        self.assertGreaterEqual(len(RECIPES), 6)
        for recipe in RECIPES:
            with self.subTest(recipe.stem):
                names = {layer["DataSet"] for layer in layers_of(recipe) if "DataSet" in layer} - {"auto"}
                names = names or {"own_input", "own_output"}
                write_datasets(self.path("data.nc"), [self.set_of(name, recipe) for name in sorted(names)])
                plan = self.succeed("trainer", "-c", recipe, "-i", "data.nc", "-n", "model.nc", "--plan").stdout
                for layer in layers_of(recipe):
                    self.assertIn(layer["Name"], plan)
                self.succeed("trainer", "-c", recipe, "-i", "data.nc", "-n", "model.nc", "-e", 1, "--force")

    def set_of(self, name, recipe):
        """Sparse rows, or what a convolution reads: images of odd sizes."""
        images = {layer["DataSet"] for layer in layers_of(recipe) if layer.get("Type") == "Convolutional" and "DataSet" in layer}
        if name not in images and not (images == {"auto"} and name.endswith("_input")):
            return name, self.width, self.rows, None
        extent = [self.random.randint(20, 31), self.random.randint(20, 31), self.random.choice((1, 3))]
        pixels = np.random.default_rng(self.random.getrandbits(64)).integers(0, 256, (len(self.rows), math.prod(extent)), dtype=np.uint8)
        return name, extent, pixels, None

    def test_packages_are_recommended_far_better_than_by_popularity(self):
        features = ["--features", "packages.txt", "--name", "packages"]
        self.succeed("importer", "--input", PACKAGES / "train.txt.gz", "--target", PACKAGES / "test.txt.gz", "--output",
                     "packages_test.nc", *features)
        self.succeed("importer", "--input", PACKAGES / "train.txt.gz", "--output", "packages.nc", *features)
        self.assert_better_than_popularity("-c", SOURCE / "configs/recipes/debian_packages_sigmoid.json")
        self.assert_better_than_popularity("--recipe", "sigmoid", "--force")

    def assert_better_than_popularity(self, *recipe):
        self.succeed("trainer", *recipe, "-i", "packages.nc", "-n", "model.nc", "-e", 6)
        report = json.loads(self.succeed("evaluator", "--model", "model.nc", "--data", "packages_test.nc", "--top", 20,
                                         "--popularity", "packages.nc", "--format", "json").stdout)
        model, popularity = report["model"][0], report["popularity"][0]
        self.assertGreater(model["Recall"], 1.7 * popularity["Recall"])
        self.assertGreater(model["NDCG"], 1.7 * popularity["NDCG"])


if __name__ == "__main__":
    unittest.main()
