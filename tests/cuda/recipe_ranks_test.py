#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every recipe of configs/recipes on one GPU and on several: the same bytes after 200 steps and more, in every precision, also when the
training was killed on one number of ranks and resumed on another.

Data are drawn: of items, of labels behind features with values, of digits and photographs. NORN_BIN: folder of the programs;
NORN_SOURCE: of the repository. NORN_TEST_SEED: of the data. NORN_RECIPES: names of recipes, with commas, instead of all. Where there is
one GPU two ranks share it. NORN_TEST_DEVICE: cuda, or cpu, where the test itself is tried."""
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

import gpu_programs

RECIPES = pathlib.Path(os.environ.get("NORN_SOURCE", pathlib.Path(__file__).parents[2])) / "configs/recipes"
DEVICE = os.environ.get("NORN_TEST_DEVICE", "cuda")
SEED = int(os.environ.get("NORN_TEST_SEED", random.randrange(2**31)))
PRECISIONS = ("fp32", "tf32", "bf16") if DEVICE == "cuda" else ("fp32",)
STEPS = 200
IMAGES = {"mnist": (28, 28, 1), "cifar100": (32, 32, 3)}


def import_items(draw, folder, name):
    """Items by a power law, every one somebody's."""
    width, examples = draw.randint(900, 7000), draw.randint(700, 1500)
    with open(folder / f"{name}.txt", "w", encoding="utf-8") as text:
        for e in range(examples):
            row = {min(width, int(draw.paretovariate(0.4))) - 1 for _ in range(draw.randint(3, 40))} | set(range(e, width, examples))
            text.write(f"u{e}\t{':'.join(f'i{item}' for item in sorted(row))}\n")
    gpu_programs.run(folder, "importer", "--input", f"{name}.txt", "--output", f"{name}.nc", "--name", name)
    return examples


def import_labels(draw, folder, name):
    """Labels behind features with values, in LibSVM's lines."""
    width, labels, examples = draw.randint(900, 4000), draw.randint(300, 3000), draw.randint(700, 1500)
    with open(folder / f"{name}.txt", "w", encoding="utf-8") as text:
        text.write(f"{examples} {width} {labels}\n")
        for _ in range(examples):
            features = sorted(draw.sample(range(width), draw.randint(1, 30)))
            own = sorted(draw.sample(range(labels), draw.randint(1, 4)))
            text.write(f"{','.join(map(str, own))} {' '.join(f'{f}:{draw.uniform(0.1, 3):.4f}' for f in features)}\n")
    gpu_programs.run(folder, "importer", "--input", f"{name}.txt", "--output", f"{name}.nc", "--name", name)
    return examples


def import_images(draw, folder, name, shape):
    """Random bytes; as CIFAR's records where they have three channels, else as idx files."""
    x, y, channels = shape
    examples, classes = draw.randint(500, 900), 10
    labels = [e % classes for e in range(examples)]
    pixels = [draw.randbytes(x * y * channels) for _ in labels]
    file = folder / (f"{name}.bin" if channels == 3 else f"{name}-images-idx3-ubyte")
    if channels == 3:
        file.write_bytes(b"".join(bytes([label]) + image for label, image in zip(labels, pixels)))
    else:
        file.write_bytes(struct.pack(">HBBIII", 0, 8, 3, examples, y, x) + b"".join(pixels))
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">HBBI", 0, 8, 1, examples) + bytes(labels))
    gpu_programs.run(folder, "importer", "--input", file.name, "--format", "images", "--output", f"{name}.nc", "--name", name)
    return examples


def kill_session(session):
    """mpirun's ranks are in process groups of their own."""
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[3]) == session:
                os.kill(int(stat.parent.name), signal.SIGKILL)
        except OSError:
            pass  # it has ended


@unittest.skipIf(DEVICE == "cuda" and gpu_programs.gpus() == 0, "there is no GPU here")
@unittest.skipIf(shutil.which("mpirun") is None, "mpirun is not installed")
class RecipeRanks(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="norn-recipes-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def make_data(self, recipe):
        """(file, epochs that have so many steps)"""
        draw = random.Random(f"{SEED} {recipe}")
        text = (RECIPES / f"{recipe}.json").read_text(encoding="utf-8")
        named = re.search(r'"DataSet": *"(\w+)_input"', text)
        name = named.group(1) if named else "drawn"
        if recipe in IMAGES:
            examples = import_images(draw, self.folder, name, IMAGES[recipe])
        else:
            examples = (import_labels if recipe == "extreme_classification" else import_items)(draw, self.folder, name)
        batch = re.search(r'"Batch": *(\d+)', text)
        return f"{name}.nc", -(-STEPS // -(-examples // int(batch.group(1) if batch else 1024)))

    def options(self, recipe, data, epochs, model, precision, ranks):
        options = ["-c", RECIPES / f"{recipe}.json", "-i", data, "-n", model, "--epochs", epochs, "--precision", precision, "--device",
                   DEVICE]
        return options + (["--gpu", 0] if DEVICE == "cuda" and ranks > gpu_programs.gpus() else [])

    def train(self, *what, ranks, more=("--force", "--checkpoint-epochs", 0)):
        gpu_programs.run(self.folder, "trainer", *self.options(*what, ranks), *more, ranks=ranks)
        return (self.folder / what[3]).read_bytes()

    def kill(self, *what, ranks):
        """Trains until a checkpoint is written, and kills every process of it."""
        command = gpu_programs.command("trainer", *self.options(*what, ranks), "--force", "--checkpoint-epochs", 1, "--quiet",
                                       ranks=ranks)
        process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   start_new_session=True)
        limit = time.monotonic() + gpu_programs.LIMIT_SECONDS
        while not any(self.folder.glob(f"{pathlib.Path(what[3]).stem}.epoch*.nc")):
            self.assertIsNone(process.poll(), "it ended without a checkpoint")
            self.assertLess(time.monotonic(), limit)
            time.sleep(0.01)
        kill_session(process.pid)
        process.wait()
        process.stderr.close()

    def test_one_number_of_gpus_is_as_another(self):
        chosen = os.environ.get("NORN_RECIPES", "")
        for recipe in chosen.split(",") if chosen else sorted(path.stem for path in RECIPES.glob("*.json")):
            data, epochs = self.make_data(recipe)
            for precision in PRECISIONS:
                with self.subTest(f"{recipe}, {precision}, seed {SEED}"):
                    what = recipe, data, epochs
                    alone = self.train(*what, "1.nc", precision, ranks=1)
                    self.assertTrue(alone == self.train(*what, "2.nc", precision, ranks=2))
                    for first, then in ((1, 2), (2, 1)):
                        self.kill(*what, "killed.nc", precision, ranks=first)
                        resumed = self.train(*what, "killed.nc", precision, ranks=then, more=("--resume", "auto"))
                        self.assertTrue(alone == resumed, f"killed on {first}, resumed on {then}")
                        for left in self.folder.glob("killed.*"):
                            left.unlink()


if __name__ == "__main__":
    unittest.main(verbosity=2)
