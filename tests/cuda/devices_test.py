#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The programs on a CPU and on a GPU: the same costs, the same quality, the same model whenever it is trained again.

Runs configs/quickstart.json on its own data. NORN_BIN: folder of the programs; NORN_SOURCE: the checkout."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

BIN = pathlib.Path(os.environ.get("NORN_BIN", "build/cuda/bin")).resolve()
SOURCE = pathlib.Path(os.environ.get("NORN_SOURCE", pathlib.Path(__file__).resolve().parents[2])).resolve()
PACKAGES = SOURCE / "tests/data/debian_packages"
CONFIG = SOURCE / "configs/quickstart.json"
PRECISIONS = ("fp32", "tf32", "bf16")


class Devices(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="norn-devices-"))
        features = ["--features", cls.folder / "features.txt", "--name", "packages"]
        cls.run_program("importer", "--input", PACKAGES / "train.txt.gz", "--target", PACKAGES / "test.txt.gz",
                        "--output", cls.folder / "test.nc", *features)
        cls.run_program("importer", "--input", PACKAGES / "train.txt.gz", "--output", cls.folder / "train.nc", *features)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    @classmethod
    def run_program(cls, name, *arguments):
        done = subprocess.run([str(BIN / name), *map(str, arguments), "--quiet"], capture_output=True, text=True,
                              timeout=250, check=False)
        if done.returncode != 0:
            raise AssertionError(f"{name} ended with {done.returncode}:\n{done.stderr[-3000:]}")
        return done.stdout

    def train(self, model, *options):
        """The mean cost of every epoch."""
        train = self.folder / "train.nc"
        text = self.run_program("trainer", "-c", CONFIG, "-i", train, "-o", train, "-n", self.folder / model, "--log-format", "dsstne",
                                *options)
        return [float(cost) for cost in re.findall(r"Epoch \d+, average error ([0-9.]+)", text)]

    def on_gpu(self, precision):
        return ["--device", "cuda", "--precision", precision]

    def recall(self, model):
        text = self.run_program("evaluator", "--model", self.folder / model, "--data", self.folder / "test.nc",
                                "--top", 20, "--format", "json", "--device", "cpu")
        return json.loads(text)["model"][0]["Recall"]

    def test_costs_of_five_epochs_agree(self):
        on_cpu = self.train("cpu5.nc", "--device", "cpu", "--epochs", 5)
        on_gpu = self.train("gpu5.nc", *self.on_gpu("fp32"), "--epochs", 5)
        self.assertEqual(len(on_cpu), 5)
        self.assertEqual(len(on_gpu), 5)
        apart = [abs(c - g) / c for c, g in zip(on_cpu, on_gpu)]
        print("relative differences of the costs, epoch by epoch:", " ".join(f"{x:.1e}" for x in apart))
        self.assertLessEqual(max(apart), 1e-3)

    def test_quality_agrees(self):
        self.train("cpu.nc", "--device", "cpu")
        expected = self.recall("cpu.nc")
        print(f"Recall@20: {expected:.4f} trained on the CPU")
        for precision in PRECISIONS:
            self.train(f"{precision}.nc", *self.on_gpu(precision))
            found = self.recall(f"{precision}.nc")
            print(f"Recall@20: {found:.4f} trained on the GPU in {precision}")
            self.assertAlmostEqual(found, expected, delta=0.005)

    def test_a_second_run_gives_the_same_model(self):
        for precision in PRECISIONS:
            self.train(f"{precision}-a.nc", *self.on_gpu(precision), "--epochs", 6)
            self.train(f"{precision}-b.nc", *self.on_gpu(precision), "--epochs", 6)
            first = (self.folder / f"{precision}-a.nc").read_bytes()
            self.assertEqual(first == (self.folder / f"{precision}-b.nc").read_bytes(), True, precision)

    def test_resumed_is_never_stopped(self):
        for precision in PRECISIONS:
            whole, parts = f"{precision}-whole.nc", f"{precision}-parts.nc"
            options = [*self.on_gpu(precision), "--checkpoint-epochs", 3]
            self.train(whole, *options, "--epochs", 8)
            self.train(parts, *options, "--epochs", 3)
            costs = self.train(parts, *options, "--epochs", 8, "--resume")
            self.assertEqual(len(costs), 5)
            first = (self.folder / whole).read_bytes()
            self.assertEqual(first == (self.folder / parts).read_bytes(), True, precision)


if __name__ == "__main__":
    unittest.main(verbosity=2)
