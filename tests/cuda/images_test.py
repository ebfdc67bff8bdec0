#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains convolutions on a GPU, in each precision: as on the CPU, with the same bytes wherever the images stand, on ranks that share
the GPU, and resumed on another number of them.

Images are drawn from NORN_TEST_SEED (any number; printed). NORN_BIN: folder of the programs. NORN_TEST_DEVICE: cuda, or cpu, where
the test itself is tried."""
import json
import os
import pathlib
import random
import re
import shutil
import struct
import tempfile
import unittest

import gpu_programs

DEVICE = os.environ.get("NORN_TEST_DEVICE", "cuda")
SEED = int(os.environ.get("NORN_TEST_SEED", random.randrange(2**31)))
# How far a cost may be from the CPU's.
COST = {"fp32": 1e-3, "tf32": 2e-2, "bf16": 5e-2} if DEVICE == "cuda" else {"fp32": 1e-3}
WIDTH, HEIGHT, CLASSES, EXAMPLES, EPOCHS = 14, 13, 10, 437, 3
LAYERS = [
    {"Name": "Image", "Kind": "Input", "Type": "Convolutional", "N": "auto", "DataSet": "auto"},
    {"Name": "First", "Kind": "Hidden", "Type": "Convolutional", "N": 8, "Kernel": [3, 3], "BatchNormalization": True,
     "Activation": "Relu"},
    {"Name": "Pooled", "Kind": "Hidden", "Type": "Pooling", "Function": "Max", "Kernel": [2, 2], "KernelStride": [2, 2]},
    {"Name": "Responses", "Kind": "Hidden", "Type": "Pooling", "Function": "LRN"},
    {"Name": "Second", "Kind": "Hidden", "Type": "Convolutional", "N": 13, "Kernel": [3, 3], "KernelStride": [2, 2],
     "Activation": "Relu", "pDropout": 0.1},
    {"Name": "Full", "Kind": "Hidden", "N": 40, "Activation": "Tanh"},
    {"Name": "Output", "Kind": "Output", "N": "auto", "DataSet": "auto", "Activation": "SoftMax"}]


def idx(shape, values):
    return struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape) + bytes(values)


class Images(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="norn-images-"))
        draw = random.Random(SEED)
        marks = [[draw.randrange(WIDTH * HEIGHT) for _ in range(25)] for _ in range(CLASSES)]
        labels, pixels = [], []
        for e in range(EXAMPLES):  # every class is somebody's
            labels.append(e % CLASSES)
            image = [draw.randrange(120) for _ in range(WIDTH * HEIGHT)]
            for mark in marks[labels[-1]]:
                image[mark] = 255 - draw.randrange(60)
            pixels += image
        (cls.folder / "images-idx3-ubyte").write_bytes(idx((EXAMPLES, HEIGHT, WIDTH), pixels))
        (cls.folder / "labels-idx1-ubyte").write_bytes(idx((EXAMPLES,), labels))
        network = {"Name": "images", "ErrorFunction": "CrossEntropy", "Layers": LAYERS,
                   "Training": {"Optimizer": "Adam", "Rate": 0.003, "Batch": 100, "Epochs": EPOCHS, "Lambda": 0}}
        (cls.folder / "net.json").write_text(json.dumps(network), encoding="utf-8")
        gpu_programs.run(cls.folder, "importer", "--input", "images-idx3-ubyte", "--format", "images", "--output", "images.nc")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def train(self, model, *options, ranks=1, epochs=EPOCHS):
        """The model's bytes, and the cost of every epoch."""
        if ranks > 1 and DEVICE == "cuda":
            options += ("--gpu", 0)
        told = gpu_programs.run(self.folder, "trainer", "-c", "net.json", "-i", "images.nc", "-n", model, "--epochs", epochs,
                                "--checkpoint-epochs", 0, *options, ranks=ranks, said="--log-format=dsstne")
        return (self.folder / model).read_bytes(), [float(c) for c in re.findall(r"average error ([0-9.]+)", told)]

    def on_device(self, precision):
        return ["--device", DEVICE] + (["--precision", precision] if DEVICE == "cuda" else [])

    def test_costs_are_the_cpus(self):
        _, expected = self.train("cpu.nc", "--device", "cpu")
        self.assertLess(expected[-1], 0.8 * expected[0])
        for precision, most in COST.items():
            _, costs = self.train(f"cost_{precision}.nc", *self.on_device(precision))
            for cost, of_cpu in zip(costs, expected, strict=True):
                self.assertAlmostEqual(cost / of_cpu, 1.0, delta=most, msg=f"{precision}: {costs}, expected {expected}")

    def test_the_same_bytes_wherever_the_images_stand(self):
        places = ("yes", "no") if DEVICE == "cuda" else ("auto", "no")
        for precision in COST:
            models = [self.train(f"{precision}_{place}.nc", "--data-on-gpu", place, *self.on_device(precision))[0] for place in places]
            self.assertTrue(models[0] == models[1], precision)

    @unittest.skipIf(shutil.which("mpirun") is None, "mpirun is not installed")
    def test_the_same_bytes_on_ranks_that_share_the_gpu(self):
        for precision in COST:
            alone, costs = self.train(f"{precision}_1.nc", *self.on_device(precision))
            for ranks in (2, 3):
                shared, of_shared = self.train(f"{precision}_{ranks}.nc", *self.on_device(precision), ranks=ranks)
                self.assertTrue(alone == shared, f"{precision}, {ranks} ranks")
                self.assertEqual(costs, of_shared)
            self.train(f"{precision}_r.nc", *self.on_device(precision), ranks=3, epochs=1)
            resumed, _ = self.train(f"{precision}_r.nc", "--resume", *self.on_device(precision), ranks=2)
            self.assertTrue(alone == resumed, f"{precision}, resumed")


if __name__ == "__main__":
    print("NORN_TEST_SEED", SEED)
    unittest.main(verbosity=2)
