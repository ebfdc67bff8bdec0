#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains and evaluates on a GPU, in each precision, sets whose widths and last batches are no round numbers.

Rows are drawn from NORN_TEST_SEED (any number; printed). NORN_BIN: folder of the programs."""
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import tempfile
import unittest

BIN = pathlib.Path(os.environ.get("NORN_BIN", "build/cuda/bin")).resolve()
SEED = int(os.environ.get("NORN_TEST_SEED", random.randrange(2**31)))
# How far a cost may be from the one in fp32, and a metric on the GPU from the CPU's.
COST = {"fp32": 1e-5, "tf32": 2e-3, "bf16": 2e-2}
METRIC = {"fp32": 2e-3, "tf32": 5e-3, "bf16": 1e-2}


def network(hidden, batch, softmax):
    training = {"Optimizer": "Adam", "Alpha": 0.001, "Batch": batch, "Epochs": 2, "Lambda": 0}
    return {
        "Name": "odd", "Kind": "AutoEncoder", "ErrorFunction": "CrossEntropy", "ShuffleIndices": True,
        "Denoising": {"p": 0.2}, "Training": training,
        "Layers": [
            {"Name": "Input", "Kind": "Input", "N": "auto", "DataSet": "odd_input", "Sparse": True},
            {"Name": "Hidden", "Kind": "Hidden", "N": hidden, "Activation": "Relu"},
            {"Name": "Output", "Kind": "Output", "N": "auto", "DataSet": "odd_output",
             "Activation": "SoftMax" if softmax else "Sigmoid", "WeightInit": {"Scheme": "Xavier", "Bias": 0 if softmax else -5}}]}


class OddSizes(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="norn-odd-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def run_program(self, name, *arguments):
        done = subprocess.run([str(BIN / name), *map(str, arguments), "--quiet"], capture_output=True, text=True,
                              timeout=250, check=False)
        self.assertEqual(done.returncode, 0, f"{name} {' '.join(map(str, arguments))}:\n{done.stderr[-2000:]}")
        return done.stdout

    def check(self, examples, width, hidden, batches, softmax):
        """Trains with the first batch size, evaluates with each."""
        draw = random.Random(SEED + width)
        text = self.folder / "set.txt"
        with text.open("w", encoding="utf-8") as file:
            for e in range(examples):
                # Every feature is somebody's; popular ones are many people's.
                row = set(range(e, width, examples)) | {int(width * draw.random() ** 3) for _ in range(draw.randint(1, 30))}
                file.write(f"e{e}\t{':'.join(f'f{f}' for f in row)}\n")
        config = self.folder / "net.json"
        config.write_text(json.dumps(network(hidden, batches[0], softmax)), encoding="utf-8")
        data = self.folder / "set.nc"
        self.run_program("importer", "--input", text, "--target", text, "--name", "odd", "--output", data,
                         "--features", self.folder / "features.txt")
        costs = {}
        for precision in COST:
            model = self.folder / f"{precision}.nc"
            on_gpu = ["--device", "cuda", "--precision", precision]
            told = self.run_program("trainer", "-c", config, "-i", data, "-o", data, "-n", model, "--log-format", "dsstne", *on_gpu)
            costs[precision] = [float(c) for c in re.findall(r"average error ([0-9.]+)", told)]
            self.assertEqual(len(costs[precision]), 2)
            for cost, expected in zip(costs[precision], costs["fp32"]):
                self.assertAlmostEqual(cost / expected, 1.0, delta=COST[precision], msg=f"{precision} {costs}")
            evaluate = ["--model", model, "--data", data, "--top", 20, "--format", "json", "--keep-seen"]
            expected = self.metrics(*evaluate, "--device", "cpu")
            for batch in batches:
                found = self.metrics(*evaluate, *on_gpu, "-b", batch)
                for name in ("Recall", "NDCG"):
                    self.assertAlmostEqual(found[name], expected[name], delta=METRIC[precision], msg=f"{precision}, batch {batch}")
        print(f"{examples} x {width}, {hidden} hidden: costs {costs}")

    def metrics(self, *arguments):
        return json.loads(self.run_program("evaluator", *arguments))["model"][0]

    def test_last_batches_of_839_and_863_of_17388_units(self):
        self.check(1863, 17388, 256, (1024, 1000), softmax=False)

    def test_last_batches_of_23_of_3628_units(self):
        self.check(6039, 3628, 1024, (128, 1024), softmax=False)

    def test_a_last_batch_of_one_of_24915_units(self):
        self.check(1025, 24915, 1024, (512, 1024), softmax=True)

    def test_a_last_batch_of_839_behind_softmax(self):
        self.check(1863, 17388, 256, (1024, 97), softmax=True)

    def test_any_sizes(self):
        draw = random.Random(SEED)
        examples, width = draw.randint(200, 2500), draw.randint(300, 30000)
        self.check(examples, width, draw.randint(16, 1100), (draw.randint(2, examples), draw.randint(2, examples)),
                   softmax=draw.random() < 0.5)


if __name__ == "__main__":
    print("NORN_TEST_SEED", SEED)
    unittest.main(verbosity=2)
