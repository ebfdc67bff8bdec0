#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package beside the programs, on one device and real data: fit writes the model of trainer byte for byte, recommend
gives predictor's lists and scores, evaluate the evaluator's numbers, in each precision. What they take: tests/bench/python_speed.py.

  tests/cuda/python_test.py [--device cuda] [--set NAME FOLDER RECIPE]...

Ends with 1 where anything differs. PYTHONPATH: folder of the package; NORN_BIN: of the programs; NORN_SOURCE: the checkout."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import norn

BIN = pathlib.Path(os.environ.get("NORN_BIN", "build/cuda/bin")).resolve()
SOURCE = pathlib.Path(os.environ.get("NORN_SOURCE", pathlib.Path(__file__).resolve().parents[2])).resolve()
K = 20


def run_program(name, *arguments):
    done = subprocess.run([str(BIN / name), *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{name} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return done


class Compared:
    """One data set on one device."""

    def __init__(self, name, texts, recipe, options, folder):
        self.name, self.recipe, self.options, self.folder = name, SOURCE / "configs/recipes" / f"{recipe}.json", options, folder
        texts = {part: next(path for path in sorted(pathlib.Path(texts).glob(f"{part}.txt*"))) for part in ("train", "test")}
        index = ["--features", folder / "features.txt", "--name", name, "-q"]
        run_program("importer", "--input", texts["train"], "--target", texts["test"], "--missing-examples", "drop", "--output",
                    folder / "test.nc", *index)
        run_program("importer", "--input", texts["train"], "--output", folder / "train.nc", *index)
        self.train, self.test = norn.Dataset.from_netcdf(folder / "train.nc"), norn.Dataset.from_netcdf(folder / "test.nc")
        self.differences = 0

    def on(self, precision):
        return ["--device", self.options.device, "--precision", precision]

    def trainer(self, model, precision):
        epochs = ["--epochs", self.options.epochs] if self.options.epochs is not None else []
        return run_program("trainer", "-c", self.recipe, "-i", self.folder / "train.nc", "-n", self.folder / model, "--force",
                           *self.on(precision), *epochs)

    def fit(self, precision):
        epochs = {"epochs": self.options.epochs} if self.options.epochs is not None else {}
        return norn.Recommender(network=self.recipe, device=self.options.device, precision=precision, **epochs).fit(self.train)

    def say(self, precision, what, same, more=""):
        self.differences += not same
        print(f"{self.name:10} {precision:5} {what:22} {'the same' if same else 'DIFFERENT'} {more}", flush=True)

    def compare(self, precision):
        self.trainer("trainer.nc", precision)
        model = self.fit(precision)
        model.save(self.folder / "fit.nc")
        expected = (self.folder / "trainer.nc").read_bytes()
        self.say(precision, "fit = trainer", (self.folder / "fit.nc").read_bytes() == expected, f"{len(expected):,} bytes")
        self.compare_recommendations(precision, model)
        self.compare_metrics(precision, model)
        model.close()

    def compare_recommendations(self, precision, model):
        """Units and the bits of their scores, of all examples at once and of some by themselves."""
        run_program("predictor", "-n", self.folder / "trainer.nc", "--data", self.folder / "train.nc", "-k", K, "--exclude-seen", "-p",
                    ".9g",
                    "-s", self.folder / "best.txt", "-q", *self.on(precision))
        ids, scores = model.recommend(self.train, N=K)
        labels = np.array(self.train.feature_labels)
        different = 0
        lines = (self.folder / "best.txt").read_text(encoding="utf-8").splitlines()
        for row, line in enumerate(lines):
            pairs = [pair.rsplit(",", 1) for pair in line.split("\t")[1].split(":") if pair]
            listed = ids[row] >= 0
            different += list(labels[ids[row][listed]]) != [label for label, _ in pairs] or \
                scores[row][listed].tobytes() != np.array([score for _, score in pairs], np.float32).tobytes()
        self.say(precision, "recommend = predictor", different == 0 and len(lines) == len(ids),
                 f"{len(lines):,} lists of {K}, {different} differ")
        some = np.random.default_rng(len(ids)).choice(len(ids), min(50, len(ids)), replace=False)
        alone = [model.recommend(self.train.matrix[[row]], N=K) for row in some]
        same = all(one[0].tobytes() == ids[row].tobytes() and one[1].tobytes() == scores[row].tobytes() for row, one in zip(some, alone))
        self.say(precision, "one by one = together", same, f"{len(some)} users")

    def compare_metrics(self, precision, model):
        said = run_program("evaluator", "-n", self.folder / "trainer.nc", "-i", self.folder / "test.nc", "--top", K, "--format", "json",
                           "-q",
                           *self.on(precision)).stdout
        titles = {metric["title"]: metric["name"] for metric in json.loads((SOURCE / "python/norn/report/metrics.json").read_text())}
        numbers = {f"{titles[title]}@{K}": value for title, value in json.loads(said)["model"][0].items() if title in titles}
        got = model.evaluate(self.test, k=[K])
        self.say(precision, "evaluate = evaluator", len(numbers) > 3 and numbers == dict(got), f"ndcg@{K} {got[f'ndcg@{K}']:.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--set", nargs=3, action="append", metavar=("NAME", "FOLDER", "RECIPE"),
                        help="train.txt and test.txt, also .gz, and a recipe of configs/recipes "
                        "[packages tests/data/debian_packages debian_packages_sigmoid]")
    parser.add_argument("--precisions", default="fp32,tf32,bf16", help="[fp32,tf32,bf16]; the CPU knows float32 alone")
    parser.add_argument("--epochs", type=int, help="[those of the recipe]")
    options = parser.parse_args()
    print("Norn", norn.show_config())
    differences = 0
    for name, texts, recipe in options.set or [("packages", SOURCE / "tests/data/debian_packages", "debian_packages_sigmoid")]:
        with tempfile.TemporaryDirectory(prefix="norn-python-") as folder:
            compared = Compared(name, texts, recipe, options, pathlib.Path(folder))
            for precision in options.precisions.split(",") if options.device != "cpu" else ["fp32"]:
                compared.compare(precision)
            differences += compared.differences
    print("all the same" if not differences else f"{differences} differences")
    sys.exit(differences > 0)


if __name__ == "__main__":
    main()
