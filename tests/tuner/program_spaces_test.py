#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every recipe has a space whose corners the trainer takes."""
import re
import unittest

import jsonschema
import numpy as np
from tuner_program import ROOT, TunerTest
from norn_files import write_datasets
from norn._files import JsonText
from norn.tune.study import DEFAULT_EPOCHS

NAMES = {"extreme_classification": "xc"}
SCHEMA = JsonText(ROOT / "configs/schema/space.schema.json").value


def _objects(value):
    """All objects of a JSON value."""
    if isinstance(value, dict):
        yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _objects(one)


class SpacesTest(TunerTest):
    def test_corners_of_every_recipe_are_taken(self):
        schema = JsonText(ROOT / "configs/schema/network.schema.json").value
        epochs = [found for part in _objects(schema) if (found := part.get("properties", {}).get("Epochs"))]
        self.assertEqual({one["default"] for one in epochs}, {DEFAULT_EPOCHS})
        recipes, spaces = ({path.stem: path for path in (ROOT / "configs" / folder).glob("*.json")} for folder in ("recipes", "spaces"))
        self.assertEqual(recipes.keys(), spaces.keys())
        for name, space in spaces.items():
            with self.subTest(name):
                jsonschema.validate(JsonText(space).value, SCHEMA)
                self.assertTrue((space.parent / JsonText(space).value["$schema"]).exists())
                data = NAMES.get(name, "gl")
                write_datasets(self.path(f"{name}.nc"),
                               [self.inputs_of(JsonText(recipes[name]).value, f"{data}_input"),
                                (f"{data}_output", self.width, self.rows, None)])
                said = self.succeed_tuner("-c", recipes[name], "--space", space, "-i", f"{name}.nc", "--dry-run", "--",
                                          "--validation-split", "0.2").stdout
                planned, fit = map(int, re.search(r"(\d+) corners of the space planned: (\d+) fit", said).groups())
                self.assertEqual(planned, fit)
                self.assertGreater(planned, 10)

    def inputs_of(self, recipe, name):
        """Sparse rows, or images for a network that begins with convolutions."""
        if recipe.get("Layers", [{}])[0].get("Type") != "Convolutional":
            return name, self.width, self.rows, None
        return name, [28, 28], np.zeros((len(self.rows), 28 * 28), np.uint8), None


if __name__ == "__main__":
    unittest.main()
