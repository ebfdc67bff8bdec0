# SPDX-License-Identifier: Apache-2.0
"""Where the tuner's package is, and a seed that is printed, for its tests."""
import os
import pathlib
import random
import shutil
import sys
import tempfile
import unittest

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests/integration")]
sys.dont_write_bytecode = True

NETWORK = {"Training": {"Alpha": 0.01, "Epochs": 30}, "Denoising": {"p": 0.5},
           "Layers": [{"Name": "Input", "Kind": "Input"}, {"Name": "Hidden", "Kind": "Hidden", "Source": "Input", "N": 64},
                      {"Name": "Output", "Kind": "Output", "Source": ["Hidden", "Input"]}]}
PARAMETERS = {
    "Training.Alpha": {"Range": [1e-4, 2e-2], "Scale": "log"},
    "Training.Batch": {"Values": [32, 64, 128, 512]},
    "Training.Optimizer": {"Names": ["Adam", "Momentum", "SGD"]},
    "Training.Mu": {"Range": [0.8, 0.99], "If": {"Training.Optimizer": ["Momentum", "Adam"]}},
    "Training.Mu1": {"Range": [0.9, 0.9999], "If": {"Training.Optimizer": "Adam"}},
    "Layers.Hidden.N": {"Whole": [64, 4096], "Scale": "log", "Multiple": 64},
    "Layers.Hidden.Count": {"Whole": [1, 3]},
    "Layers.Hidden2.pDropout": {"Range": [0.1, 0.5]},
    "Layers.Input.InputWeighting": {"Names": [None, {"Scheme": "InverseDocumentFrequency"}]},
}


class SeededTest(unittest.TestCase):
    """A folder and random numbers of its own."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="norn-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.seed = int(os.environ.get("NORN_TEST_SEED", random.SystemRandom().randrange(2**31)))
        self.random = random.Random(self.seed)
        print(f"{self.id()}: seed {self.seed}", file=sys.stderr)
