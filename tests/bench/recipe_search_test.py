#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The search for recipes with trainings that fail, in many threads; a training here is a line in a log."""
import argparse
import contextlib
import io
import json
import pathlib
import random
import tempfile
import unittest

import recipe_runs
import recipe_search

NETWORK = {"Training": {"Alpha": 0.01, "Epochs": 40, "Batch": 32}, "Denoising": {"p": 0.5}, "DeltaBoost": {"one": 10}, "Layers": [
    {"Name": "In", "Kind": "Input"}, {"Name": "Hidden", "Kind": "Hidden", "N": 128, "pDropout": 0.4}]}


class Trainings:
    """In place of the programs: the more epochs, the better; so many batches come to no end, or to no validation."""

    def __init__(self, failing=(), unevaluated=()):
        self.failing, self.unevaluated, self.folders = failing, unevaluated, []

    def import_parts(self, _, out, *parts):
        out.mkdir(parents=True, exist_ok=True)
        return out / "train.nc", out / "eval.nc"

    def run(self, *_):
        return json.dumps(NETWORK)

    def train(self, folder, network, *_):
        self.folders.append(folder)
        batch, epochs = network["Training"]["Batch"], network["Training"]["Epochs"]
        if batch in self.failing:
            raise recipe_runs.ProgramFailed("trainer failed:\ntrainer: error: the cost is not finite")
        (folder / "run").mkdir(parents=True)
        events = [{"event": "epoch", "cost": 1.0}]
        if batch not in self.unevaluated:
            events.append({"event": "eval", "metrics": [{"recall": epochs / 1000, "ndcg": 0.1}]})
        (folder / "run/log.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
        return folder / "model.nc", 0.1


class RecipeSearch(unittest.TestCase):
    def search(self, trainings, **more):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        out = pathlib.Path(folder.name)
        (out / "set").mkdir()
        (out / "set/train.txt").write_text("".join(f"e{e}\ta:b:c\n" for e in range(5)), encoding="utf-8")
        args = argparse.Namespace(**{"recipe": "sigmoid", "out": out, "held_out": 0.2, "seed": random.randrange(1000), "jobs": 4,
                                     "again": 2,
                                     "candidates": 20, "grid": [], "change": [], "only": None, **more})
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            recipe_search.search(trainings, args, {"set": recipe_runs.Data("set", "set", out / "set")})
        return said.getvalue(), json.loads((out / "results.json").read_text(encoding="utf-8"))

    def test_no_two_trainings_share_a_folder(self):
        trainings = Trainings()
        self.search(trainings)
        self.assertEqual(len(set(trainings.folders)), len(trainings.folders))

    def test_trainings_that_fail_are_told_and_left_out(self):
        trainings = Trainings(failing=(16,), unevaluated=(64,))
        said, results = self.search(trainings, candidates=14)
        searched = results["searched"]["set"]
        self.assertIn("batch x 0.5        FAILED, left out: trainer: error: the cost is not finite", said)
        self.assertRegex(said, "batch x 2 +FAILED, left out: .*log.jsonl has no validation, of a training of 80 epochs")
        self.assertEqual(len(searched), 12)
        self.assertNotIn("batch x 2", searched)
        self.assertRegex(said, r"set +recipe 0.0400 / 0.1000, best of 12 0.0800 / 0.1000 \(epochs x 2\): 22.2 % behind")
        self.assertIn("with 2 other seeds: recipe 0.0400 / 0.1000, epochs x 2 0.0800 / 0.1000", said)

    def test_a_recipe_that_fails_is_told(self):
        said, _ = self.search(Trainings(failing=(32,)), candidates=14)
        self.assertIn("the recipe itself failed", said)
        self.assertIn("with other seeds: none came to its end", said)

    def test_a_grid_has_every_product_of_factors(self):
        _, results = self.search(Trainings(), grid=[("epochs", [1, 2]), ("batch", [0.5, 1, 4])])
        names = [f"epochs x {e:g} batch x {b:g}" for e in (1, 2) for b in (0.5, 1, 4)]
        self.assertEqual(set(results["searched"]["set"]), {"recipe", *names})
        with self.assertRaisesRegex(SystemExit, "--grid knows .*epochs.*, not epoch$"):
            self.search(Trainings(), grid=[("epoch", [1, 2])])


if __name__ == "__main__":
    unittest.main(verbosity=2)
