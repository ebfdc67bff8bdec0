#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training and predicting on several GPUs: the same bytes as on one, in every precision, resumed on another number too.

The network is small, with odd widths and whatever draws random numbers, and trained for 1000 steps and more. NORN_BIN:
folder of the programs. NORN_TEST_SEED: of the data. Ranks beyond the GPUs share the first one."""
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import tempfile
import unittest

import gpu_programs
from gpu_programs import gpus

PRECISIONS = ("fp32", "tf32", "bf16")
ITEMS, EXAMPLES, BATCH, STEPS = 20011, 2100, 256, 1000
EPOCHS = -(-STEPS // (EXAMPLES // BATCH))
NETWORK = """{
  "Name": "odd", "ErrorFunction": "%s", "ShuffleIndices": true, "Denoising": {"p": 0.2},
  "Training": {"Optimizer": "Adam", "Alpha": 0.001, "Batch": %d, "Lambda": 0.0001, "Lambda1": 0.00001},
  "Layers": [
    {"Name": "Input", "Kind": "Input", "N": "auto", "DataSet": "items_input", "Sparse": true},
    {"Name": "First", "Kind": "Hidden", "N": %d, "Activation": "Relu", "pDropout": 0.3},
    {"Name": "Second", "Kind": "Hidden", "N": %d, "Activation": "Tanh", "pDropout": 0.1},
    {"Name": "Output", "Kind": "Output", "N": "auto", "DataSet": "items_output", "Activation": "%s", "Sparse": true}
  ]
}
"""

# Layers of other kinds, behind an input of items: an exact squared error, features of items, and pictures beside the items.
INPUT = {"Name": "Input", "Kind": "Input", "N": "auto", "DataSet": "items_input", "Sparse": True}
OUTPUT = {"Name": "Output", "Kind": "Output", "N": "auto", "DataSet": "items_output", "Sparse": True}
HIDDEN = {"Name": "Hidden", "Kind": "Hidden", "N": 131, "Activation": "Tanh", "pDropout": 0.1}
PICTURES = [
    {"Name": "Pictures", "Kind": "Input", "Type": "Convolutional", "N": "auto", "DataSet": "pictures_input"},
    {"Name": "Filters", "Kind": "Hidden", "Type": "Convolutional", "Source": "Pictures", "N": 17, "Kernel": [5, 5], "KernelStride": [2, 2],
     "Activation": "Relu"},
    {"Name": "Response", "Kind": "Hidden", "Type": "Pooling", "Function": "LRN", "Source": "Filters"},
    {"Name": "Pool", "Kind": "Hidden", "Type": "Pooling", "Function": "Max", "Source": "Response", "Kernel": [3, 3],
     "KernelStride": [2, 2]},
    {"Name": "More", "Kind": "Hidden", "Type": "Convolutional", "Source": "Pool", "N": 24, "Kernel": [3, 3], "Activation": "Relu"}]
OTHERS = {
    "factored": ("L2", [INPUT, HIDDEN, OUTPUT | {"Activation": "Linear", "Factored": {"Rule": "Newton"}}]),
    "features": ("CrossEntropy", [INPUT, HIDDEN, OUTPUT | {"Activation": "SoftMax", "Features": "kinds_input"}]),
    "pictures and clicks": ("CrossEntropy", [*PICTURES, INPUT, HIDDEN | {"Source": ["More", "Input"]}, OUTPUT | {"Activation": "SoftMax"}]),
}


@unittest.skipIf(gpus() == 0, "there is no GPU here")
@unittest.skipIf(shutil.which("mpirun") is None, "mpirun is not installed")
class Ranks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="norn-ranks-"))
        seed = int(os.environ.get("NORN_TEST_SEED", random.SystemRandom().randrange(2**31)))
        print(f"seed {seed}, {gpus()} GPUs", flush=True)
        generator = random.Random(seed)
        # Power-law items, so that a few are in most examples; every item once, so that the width is known.
        with open(cls.folder / "items.txt", "w") as text:
            for e in range(EXAMPLES):
                row = {min(ITEMS - 1, int(generator.paretovariate(0.4)) - 1) for _ in range(generator.randint(3, 15))}
                row |= set(range(e, ITEMS, EXAMPLES))
                text.write(f"{e}\t" + ":".join(f"i{u}" for u in sorted(row)) + "\n")
        cls.run_program("importer", "--input", cls.folder / "items.txt", "--output", cls.folder / "items.nc",
                        "--features", cls.folder / "features.txt", "--name", "items")
        with open(cls.folder / "kinds.txt", "w") as text:
            text.writelines(f"i{u}\t{':'.join(f'k{kind}' for kind in generator.sample(range(90), generator.randint(1, 9)))}\n"
                            for u in range(ITEMS) if generator.random() < 0.9)
        cls.run_program("importer", "--input", cls.folder / "kinds.txt", "--output", cls.folder / "kinds.nc", "--name", "kinds")
        (cls.folder / "pictures.bin").write_bytes(
            b"".join(bytes([generator.randrange(10)]) + generator.randbytes(3072) for _ in range(EXAMPLES)))
        cls.run_program("importer", "--input", cls.folder / "pictures.bin", "--format", "images", "--output", cls.folder / "pictures.nc",
                        "--name", "pictures")
        with open(cls.folder / "items.txt") as text, open(cls.folder / "requests.txt", "w") as requests:
            requests.writelines(text.readlines()[:300])

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    @classmethod
    def run_program(cls, name, *arguments, ranks=1, said="--quiet"):
        return gpu_programs.run(cls.folder, name, *arguments, ranks=ranks, said=said)

    def train(self, model, precision, ranks, *options, epochs=EPOCHS):
        self.run_program("trainer", "-c", "net.json", "-i", "items.nc", "-i", "kinds.nc", "-i", "pictures.nc", "-n", model, "--device",
                         "cuda", "--precision", precision, "--epochs", epochs, "--checkpoint-epochs", 0, *options, ranks=ranks)

    def read(self, name):
        return (self.folder / name).read_bytes()

    def write_network(self, activation, second=259, first=601):
        error = "ScaledMarginalCrossEntropy" if activation == "Sigmoid" else "CrossEntropy"
        (self.folder / "net.json").write_text(NETWORK % (error, BATCH, first, second, activation))

    def test_the_same_bytes_on_any_number_of_gpus(self):
        for activation in ("Sigmoid", "SoftMax"):
            self.write_network(activation)
            for precision in PRECISIONS:
                self.train("1.nc", precision, 1, "--force")
                for ranks in range(2, gpus() + 1):
                    self.train(f"{ranks}.nc", precision, ranks, "--force")
                    self.assertTrue(self.read("1.nc") == self.read(f"{ranks}.nc"), f"{activation}, {precision}, {ranks} GPUs")

    def test_the_same_bytes_of_other_layers_and_resumed(self):
        few = -(-EPOCHS // 5)
        for name, (error, layers) in OTHERS.items():
            training = {"Optimizer": "Momentum" if name == "factored" else "Adam", "Alpha": 0.001, "Batch": BATCH, "Lambda": 0}
            (self.folder / "net.json").write_text(json.dumps({"Name": "other", "ErrorFunction": error, "ShuffleIndices": True,
                                                              "Training": training, "Layers": layers}))
            for precision in PRECISIONS:
                self.train("1.nc", precision, 1, "--force", epochs=few)
                self.train("2.nc", precision, 2, "--force", epochs=few)
                self.assertTrue(self.read("1.nc") == self.read("2.nc"), f"{name}, {precision}")
                self.train("parts.nc", precision, 2, "--force", epochs=few // 3)
                self.train("parts.nc", precision, 3, "--resume", epochs=few // 2)
                self.train("parts.nc", precision, 1, "--resume", epochs=few)
                self.assertTrue(self.read("1.nc") == self.read("parts.nc"), f"{name}, {precision}, resumed")

    # Layers of even widths, whose updates are one kernel each beside what ranks exchange.
    def test_the_same_bytes_where_updates_go_on_beside(self):
        self.write_network("Sigmoid", second=512, first=1024)
        few = -(-EPOCHS // 4)
        self.train("1.nc", "bf16", 1, "--force", epochs=few)
        for ranks in range(2, gpus() + 1):
            self.train(f"{ranks}.nc", "bf16", ranks, "--force", epochs=few)
            self.assertTrue(self.read("1.nc") == self.read(f"{ranks}.nc"), f"{ranks} GPUs")

    def test_the_same_bytes_on_ranks_that_share_a_gpu(self):
        self.write_network("Sigmoid")
        few = -(-EPOCHS // 10)
        for precision in PRECISIONS:
            self.train("1.nc", precision, 1, "--force", epochs=few)
            self.train("3.nc", precision, 3, "--force", "--gpu", 0, epochs=few)
            self.assertTrue(self.read("1.nc") == self.read("3.nc"), precision)

    def test_resumed_on_another_number_of_ranks(self):
        self.write_network("SoftMax")
        self.train("whole.nc", "bf16", 1, "--force", epochs=8)
        self.train("parts.nc", "bf16", 2, "--force", epochs=3)
        self.train("parts.nc", "bf16", 1, "--resume", epochs=5)
        self.train("parts.nc", "bf16", 3, "--resume", epochs=8)
        self.assertTrue(self.read("whole.nc") == self.read("parts.nc"))

    def test_recommendations_are_the_same(self):
        self.write_network("Sigmoid")
        for precision in PRECISIONS:
            self.train("model.nc", precision, 1, "--force", epochs=3)
            for ranks in (1, 2, 3):
                self.run_program("predictor", "-n", "model.nc", "-d", "items", "-i", "features.txt", "-o", "features.txt",
                                 "-r", "requests.txt", "-s", f"{ranks}.txt", "-k", 25, "-p", "9.8f", "--device", "cuda",
                                 "--precision", precision, ranks=ranks)
            self.assertEqual(self.read("1.txt"), self.read("2.txt"), precision)
            self.assertEqual(self.read("1.txt"), self.read("3.txt"), precision)

    def test_the_search_inside_the_product_finds_the_same(self):
        self.write_network("Sigmoid", second=128)
        self.train("model.nc", "bf16", 1, "--force", epochs=3)
        for ranks in (1, 2, 3):
            said = self.run_program("predictor", "-n", "model.nc", "-d", "items", "-i", "features.txt", "-o", "features.txt",
                                    "-r", "requests.txt", "-s", f"{ranks}.txt", "-k", 25, "-p", "9.8f", "--device", "cuda",
                                    "--precision", "bf16", ranks=ranks, said="--log-level=debug")
            ranked = re.search(r"(\d+) of (\d+) batches were ranked without writing their scores", said)
            self.assertIsNotNone(ranked, said)
            self.assertEqual(ranked[1], ranked[2], said)
        self.assertEqual(self.read("1.txt"), self.read("2.txt"))
        self.assertEqual(self.read("1.txt"), self.read("3.txt"))

    def test_metrics_are_the_same(self):
        for second in (259, 128):  # without and with the search inside the product
            self.write_network("SoftMax", second)
            for precision in PRECISIONS:
                self.train("model.nc", precision, 1, "--force", epochs=3)
                first, *others = [self.run_program("evaluator", "-n", "model.nc", "-i", "items.nc", "--keep-seen", "--format",
                                                   "json", "--top", "5,20", "--device", "cuda", "--precision", precision,
                                                   ranks=ranks) for ranks in (1, 2, 3)]
                self.assertIn("NDCG", first)
                self.assertEqual([first, first], others, precision)

    def test_the_doctor_looks_at_all_gpus(self):
        # Its own try of NCCL on one GPU must not keep the ranks from joining.
        done = subprocess.run(gpu_programs.command("trainer", "--doctor", "--doctor-format", "json", "--quiet", ranks=max(2, gpus())),
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertIn(done.returncode, (0, 4), done.stderr)  # 4: it found something wrong with the machine
        checks = {(c["area"], c["check"]): c for c in json.loads(done.stdout)["checks"]}
        self.assertIn("GB/s", checks["ranks", "GPU collectives"]["value"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
