# SPDX-License-Identifier: Apache-2.0
"""Runs the programs as a user would, in a folder of their own, and checks what they say."""
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np

from norn_files import write_datasets, write_index

BIN = pathlib.Path(os.environ.get("NORN_BIN", "build/cpu/bin")).resolve()
SOURCE = pathlib.Path(__file__).resolve().parents[2]
LIMIT_SECONDS = 240
BLOCK_SECONDS = 400  # of commands of a page
# OpenBLAS begins with a thread for each core, whose memory passes what a test allows where there are many.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

NETWORK = """{
  "Name": "small", "ErrorFunction": "CrossEntropy", "ShuffleIndices": true, "Denoising": {"p": 0.25},
  "Training": {"Optimizer": "Adam", "Alpha": 0.01, "Batch": 32, "Epochs": 3, "Lambda": 0.0001},
  "Layers": [
    {"Name": "Input", "Kind": "Input", "N": "auto", "DataSet": "gl_input", "Sparse": true},
    {"Name": "Hidden", "Kind": "Hidden", "N": 16, "Activation": "Tanh", "pDropout": 0.1},
    {"Name": "Output", "Kind": "Output", "N": "auto", "DataSet": "gl_output", "Activation": "%s"}
  ]
}
"""

# Odd widths, two hidden layers, and whatever draws random numbers.
ODD_NETWORK = """{
  "Name": "odd", "ErrorFunction": "CrossEntropy", "ShuffleIndices": true, "Denoising": {"p": 0.2},
  "Training": {"Optimizer": "Adam", "Alpha": 0.002, "Batch": 29, "Lambda": 0.0001, "Lambda1": 0.00001},
  "Layers": [
    {"Name": "Input", "Kind": "Input", "N": "auto", "DataSet": "gl_input", "Sparse": true},
    {"Name": "First", "Kind": "Hidden", "N": 67, "Activation": "%s", "pDropout": 0.3},
    {"Name": "Second", "Kind": "Hidden", "N": 35, "Activation": "Tanh", "pDropout": 0.1},
    {"Name": "Output", "Kind": "Output", "N": "auto", "DataSet": "gl_output", "Activation": "%s"}
  ]
}
"""

# Wide enough, with a batch of 160, for the weights between the hidden layers to be shared out by source units.
WIDE_NETWORK = """{
  "Name": "wide", "ErrorFunction": "CrossEntropy",
  "Training": {"Optimizer": "Adam", "Alpha": 0.002, "Batch": 160, "Epochs": 3, "Lambda": 0.0001},
  "Layers": [
    {"Name": "Input", "Kind": "Input", "N": "auto", "DataSet": "gl_input", "Sparse": true},
    {"Name": "Wide", "Kind": "Hidden", "N": 6601, "Activation": "Relu", "pDropout": 0.1},
    {"Name": "Narrow", "Kind": "Hidden", "N": 35, "Activation": "Tanh"},
    {"Name": "Output", "Kind": "Output", "N": "auto", "DataSet": "gl_output", "Activation": "SoftMax"}
  ]
}
"""


def random_rows(generator, examples, width, groups=5):
    """Rows of units that tend to come from one group each, so that there is something to learn."""
    rows = []
    for _ in range(examples):
        group = generator.randrange(groups)
        liked = [u for u in range(width) if u % groups == group]
        row = set(generator.sample(liked, min(len(liked), generator.randint(2, 6))))
        row |= {generator.randrange(width) for _ in range(generator.randint(0, 2))}
        rows.append(sorted(row))
    return rows


def drop_some(generator, rows):
    """Splits rows into known and held-out units; some held-out rows stay empty."""
    known, held_out = [], []
    for row in rows:
        out = set(generator.sample(row, len(row) // 3)) if generator.random() < 0.9 else set()
        known.append([u for u in row if u not in out])
        held_out.append([u for u in row if u in out])
    return known, held_out


def failing_call(call, part, number, what, **more):
    """The environment of a program whose call of that number, on a path with `part` in it, fails or waits:
    tests/support/failing_calls.cpp."""
    return {**os.environ, "LD_PRELOAD": str(BIN / "failing_calls.so"), "FAILING_CALL": f"{call}:{part}:{number}:{what}",
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0", **more}


class Gate:
    """Programs that were given its environment wait at that call until it opens: what is done to them hits them right there."""

    def __init__(self, file, call, part, number=1):
        self.file = file
        self.file.touch()
        self.environment = failing_call(call, part, number, "wait", FAILING_CALL_GATE=str(file))

    def waiting(self):
        """The processes that wait."""
        return [int(path.suffix[1:]) for path in self.file.parent.glob(self.file.name + ".*")]

    def open(self):
        self.file.unlink(missing_ok=True)


class ProgramTest(unittest.TestCase):
    """A folder with a small network and data in it, and ways to run the programs there."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="norn-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.seed = int(os.environ.get("NORN_TEST_SEED", random.SystemRandom().randrange(2**31)))
        self.random = random.Random(self.seed)
        print(f"{self.id()}: seed {self.seed}", file=sys.stderr)
        self.width = 40
        self.names = [f"item {u}" if u % 7 == 0 else f"item_{u}" for u in range(self.width)]
        self.rows = random_rows(self.random, 160, self.width)
        self.known, self.held_out = drop_some(self.random, self.rows)
        self.examples = [f"example{e}" for e in range(len(self.rows))]
        write_datasets(self.path("train.nc"), [("gl_input", self.width, self.known, None),
                                               ("gl_output", self.width, self.known, None)])
        write_datasets(self.path("test.nc"), [("gl_input", self.width, self.known, None),
                                              ("gl_output", self.width, self.held_out, None)])
        write_index(self.path("features.txt"), self.names)
        self.write("net.json", NETWORK % "SoftMax")

    def path(self, name):
        return self.folder / name

    def write(self, name, text):
        with open(self.path(name), "w", newline="") as file:
            file.write(text)
        return self.path(name)

    def read(self, name):
        return self.path(name).read_bytes()

    def run_program(self, program, *arguments, prefix=(), **more):
        command = [*prefix, str(BIN / program), *map(str, arguments)]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=LIMIT_SECONDS,
                              **more)

    def succeed(self, program, *arguments, **more):
        done = self.run_program(program, *arguments, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def fail_with(self, code, message, program, *arguments, **more):
        """The program ends with that code and says one line on stderr, which begins with `message`."""
        done = self.run_program(program, *arguments, **more)
        errors = [line for line in done.stderr.splitlines() if f"{program}: error: " in line]
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(len(errors), 1, done.stderr)
        self.assertTrue(errors[0].startswith(f"{program}: error: {message}"),
                        f"\n  {errors[0]}\ndoes not begin with\n  {program}: error: {message}")
        return done

    def train(self, *arguments, model="model.nc", config="net.json", **more):
        return self.succeed("trainer", "-c", config, "-i", "train.nc", "-n", model, *arguments, **more)

    def stop_after_epochs(self, number, count, *arguments, prefix=(), **more):
        """Starts a run of trainer, sends the signal when `count` epochs are done, and gives back how it ended. It must have some
        200 epochs more: their lines do not fit into the pipe, so it cannot end before it is stopped (but under mpirun, which
        keeps them; there it needs more epochs than a run ends)."""
        command = [*prefix, str(BIN / "trainer"), *map(str, arguments)]
        with tempfile.TemporaryFile("w+") as err, subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=err,
                                                                   text=True, pipesize=4096, **more) as process:
            for _ in range(count):
                self.assertTrue(process.stdout.readline(), "the run ended before it was stopped")
            process.send_signal(number)
            out, _ = process.communicate(timeout=LIMIT_SECONDS)
            err.seek(0)
            return process.returncode, out, err.read()

    def run_page(self, page, least):
        """Runs every command of a page of docs/user, in its order, of which there are so many blocks at least. Its folder, and what they
        said."""
        blocks = re.findall(r"^```sh\n(.*?)^```$", (SOURCE / "docs/user" / page).read_text(), re.MULTILINE | re.DOTALL)
        self.assertGreaterEqual(len(blocks), least)
        folder = self.path("page")
        folder.mkdir()
        environment = {**os.environ, "NORN": str(SOURCE), "PATH": f"{BIN}:{SOURCE / 'tools'}:/usr/bin:{os.environ['PATH']}"}
        said = []
        for block in blocks:
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=folder, env=environment, capture_output=True,
                                  text=True, timeout=BLOCK_SECONDS, check=False)
            self.assertEqual(done.returncode, 0, f"{block}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}")
            said.append(done.stdout + done.stderr)
        return folder, "\n".join(said)

    def gate(self, call, part, number=1):
        """Opens at the end, if not before, so that nothing waits for ever."""
        gate = Gate(self.path(f"gate{time.monotonic_ns()}"), call, part, number)
        self.addCleanup(gate.open)
        return gate

    def mount_small(self, size):
        """A folder on a file system of that size, such as "64k"; skips the test where none can be had."""
        if os.geteuid() != 0:
            self.skipTest("only the superuser can mount a small file system")
        small = self.path("small")
        small.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(small)], capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("a small file system cannot be mounted here: " + mounted.stderr.decode().strip())
        self.addCleanup(subprocess.run, ["umount", str(small)], check=True)
        return small


def mpirun(ranks):
    """The words before a command that start it on that many ranks, or None without Open MPI, here or in the build. Ranks of tests
    that run side by side would all be bound to the same first cores."""
    if shutil.which("mpirun") is None or os.environ.get("NORN_MPI") == "OFF":
        return None
    return ("mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(ranks))


def sigmoid(z):
    return 1.0 / (1.0 + np.exp(-z))
