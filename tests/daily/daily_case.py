# SPDX-License-Identifier: Apache-2.0
"""Small regions drawn from the packages of Debian, and ways to run daily on them, for its tests."""
import gzip
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("NORN_BIN", "build/cpu/bin")).resolve()
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests/integration"), str(ROOT / "tests/tuner")]
sys.dont_write_bytecode = True
DAILY = ROOT / "tools/daily.py"
DAY = "2026-11-20"
LIMIT_SECONDS = 500

NETWORK = """{ // small
  "ErrorFunction": "CrossEntropy", "TargetWeight": "One", "Denoising": { "p": 0.5 },
  "Training": { "Optimizer": "Adam", "Alpha": %s, "Batch": 32, "Epochs": 5, "Lambda": 0 },
  "Layers": [
    { "Name": "Input", "Kind": "Input", "N": "auto", "DataSet": "shop_input", "Sparse": true, "Normalize": "L2" },
    { "Name": "Hidden", "Kind": "Hidden", "N": 16, "Activation": "Tanh" },
    { "Name": "Output", "Kind": "Output", "N": "auto", "DataSet": "shop_output", "Activation": "SoftMax" } ] }
"""
# Regions are so small that chance decides what is surely better.
LOOSE = {"Metric": "recall@20", "MinExamples": 10, "MinRatio": 0.3, "Floor": 0.08}
SPACE = """{ "Parameters": { "Training.Alpha": { "Range": [5e-3, 5e-2], "Scale": "log" }, "Training.Batch": { "Values": [16, 32] } } }"""
_packages: list[tuple[str, list[str]]] = []


def packages():
    """(name, what it needs)"""
    if not _packages:
        rows = {}
        for part in ("train", "test"):
            with gzip.open(ROOT / f"tests/data/debian_packages/{part}.txt.gz", "rt") as file:
                for line in file:
                    name, needs = line.rstrip("\n").split("\t")
                    rows.setdefault(name, []).extend(needs.split(":"))
        _packages.extend(rows.items())
    return _packages


class DailyTest(unittest.TestCase):
    """A folder with networks, and random numbers of its own."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="norn-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.addCleanup(self.kill_all)
        self.seed = int(os.environ.get("NORN_TEST_SEED", random.SystemRandom().randrange(2**31)))
        self.random = random.Random(self.seed)
        print(f"{self.id()}: seed {self.seed}", file=sys.stderr)
        self.write("net.json", NETWORK % "0.02")
        self.write("bad.json", NETWORK % "1e-9")
        self.write("space.json", SPACE)

    def path(self, *parts):
        return self.folder.joinpath(*parts)

    def write(self, name, text):
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        self.path(name).write_text(text, encoding="utf-8")

    def text(self, name, rows, packed=False):
        lines = "".join(f"{example}\t{':'.join(features)}\n" for example, features in rows).encode()
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        self.path(name).write_bytes(gzip.compress(lines, mtime=0) if packed else lines)

    def draw(self, examples, besides=()):
        """Packages with their needs, none of them twice and none of `besides`."""
        taken = {name for name, *_ in besides}
        return self.random.sample([row for row in packages() if row[0] not in taken], examples)

    def draw_region(self, name, examples=None, folder="in"):
        rows = self.draw(examples or self.random.randint(80, 180))
        self.text(f"{folder}/{name}.txt.gz", rows, packed=True)
        self.text(f"{folder}/{name}.requests.txt", self.draw(self.random.randint(1, 25)))

    def regions(self, regions, file="regions.json", **keys):
        """Writes the file; keys whose value is None are left out."""
        value = {"Model": "net.json", "Text": "in/{region}.txt.gz", "Gate": LOOSE, **keys, "Regions": regions}
        self.write(file, json.dumps({key: one for key, one in value.items() if one is not None}, ensure_ascii=False))

    def command(self, *arguments, day=DAY, file="regions.json"):
        return [sys.executable, "-B", str(DAILY), "--regions", str(self.path(file)), *(["--day", day] if day else []), "--bin", str(BIN),
                *map(str, arguments)]

    def daily(self, *arguments, **more):
        return subprocess.run(self.command(*arguments, **more), cwd=self.folder, capture_output=True, text=True, timeout=LIMIT_SECONDS)

    def ends_with(self, code, *arguments, **more):
        done = self.daily(*arguments, **more)
        self.assertEqual(done.returncode, code, f"{done.stdout}\n{done.stderr}")
        self.assertNotIn("Traceback", done.stderr)
        return done

    def refuses(self, code, parts, *arguments, **more):
        """Ends with that code and one line that has those parts."""
        done = self.ends_with(code, *arguments, **more)
        errors = [line for line in done.stderr.splitlines() if line.startswith("daily: error: ")]
        self.assertEqual(len(errors), 1, done.stderr)
        for part in parts:
            self.assertIn(part, errors[0])

    def current(self, region, folder="serving"):
        link = self.path(folder, region, "current")
        return os.readlink(link) if link.is_symlink() else None

    def record(self, region, name="published.json", folder="serving"):
        return json.loads(self.path(folder, region, "current", name).read_text())

    def published(self, folder="serving"):
        """{file: its bytes, or what a link names}. A run's record tells when and where it was: of it only what the model follows from."""
        found = {}
        for path in sorted(self.path(folder).rglob("*")):
            name = str(path.relative_to(self.path(folder)))
            if path.is_symlink():
                found[name] = os.readlink(path)
            elif path.name == "run.json":
                record = json.loads(path.read_text())
                found[name] = [record["network"], record["seed"], record["result"]["checksum"], [one["checksum"] for one in record["sets"]]]
            elif path.is_file() and path.name != ".lock":
                found[name] = path.read_bytes()
        return found

    def processes(self):
        """Of this test, but for the test itself: {process: the words that it was called with}."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                    where = os.readlink(entry / "cwd")
                    alive = (entry / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
                except OSError:
                    continue
                if alive and (any(str(self.folder) in word for word in words) or f"{where}/".startswith(f"{self.folder}/")):
                    found[int(entry.name)] = words
        return found

    def kill(self, process):
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def kill_all(self):
        while found := self.processes():
            for process in found:
                self.kill(process)
