#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""compare_gpu.sh with programs that only write down how they were called: what it runs, and which versions it names."""
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

BENCH = pathlib.Path(__file__).resolve().parent
PROGRAM = """#!{python}
import json, os, pathlib, runpy, sys
with open({calls!r}, "a", encoding="utf-8") as out:
    out.write(json.dumps([os.path.basename(word) if word.endswith(".py") else word for word in {words}]) + "\\n")
if sys.argv[-1].endswith("versions.py") or sys.argv[1].endswith("comparison_table.py"):
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
elif "--json" in sys.argv:
    pathlib.Path(sys.argv[sys.argv.index("--json") + 1]).touch()
"""


class CompareGpu(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.calls = self.folder / "calls"
        shutil.copytree(BENCH / "peers", self.folder / "tests/bench/peers")
        shutil.copy(BENCH / "compare_gpu.sh", self.folder / "tests/bench")
        self.program("python", "sys.argv[1:]")
        for name in ("train_bench", "predict_bench"):
            self.program(name, f"['{name}', *sys.argv[1:]]")
        self.seed = random.SystemRandom().randrange(1 << 32)
        self.random = random.Random(self.seed)

    def program(self, name, words):
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(PROGRAM.format(python=sys.executable, calls=str(self.calls), words=words), encoding="utf-8")
        path.chmod(0o755)

    def compare(self, *options, packages=()):
        """What it says, and how the programs were called."""
        installed = self.folder / "site"
        for package, version in packages:
            info = installed / f"{package.replace('-', '_')}-{version}.dist-info"
            info.mkdir(parents=True)
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n", encoding="utf-8")
        environment = os.environ | {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "PYTHON": str(self.folder / "bin/python"),
                                    "PYTHONPATH": str(installed)}
        self.calls.write_text("", encoding="utf-8")
        done = subprocess.run([self.folder / "tests/bench/compare_gpu.sh", "--rounds", "1", "--out", self.folder / "out", *options],
                              env=environment, capture_output=True, text=True, check=False, timeout=100)
        self.assertEqual(done.returncode, 0, f"seed {self.seed}: {done.stdout}{done.stderr}")
        return done.stdout, [json.loads(line) for line in self.calls.read_text(encoding="utf-8").splitlines()]

    def test_names_the_versions_of_what_peers_are_made_of(self):
        packages = [(name, ".".join(str(self.random.randrange(100)) for _ in range(3)))
                    for name in ("liger-kernel", "cut-cross-entropy", "nvidia-cutlass-dsl") if self.random.random() < 0.7]
        said, _ = self.compare("--rows", "top100", "--peers", packages=packages)
        line = next(line for line in said.splitlines() if line.startswith("peers: "))
        named = dict(part.split(" ", 1) for part in line.removeprefix("peers: ").split(", "))
        self.assertTrue({"torch", "triton", "liger-kernel", "cut-cross-entropy", "nvidia-cutlass-dsl"} <= named.keys(), line)
        for name in ("liger-kernel", "cut-cross-entropy", "nvidia-cutlass-dsl"):
            self.assertEqual(named[name], dict(packages).get(name, "not installed"), f"seed {self.seed}: {line}")

    def test_names_no_versions_where_no_peer_runs(self):
        said, calls = self.compare("--rows", "top100", "--ours")
        self.assertNotIn("peers: ", said)
        self.assertEqual([call[0] for call in calls], ["predict_bench", "comparison_table.py"])

    def test_gives_everybody_the_same_network(self):
        listed = subprocess.run([BENCH / "compare_gpu.sh", "--list"], capture_output=True, text=True, check=True).stdout.split()
        names = [name.rstrip("*") for name in listed if name.startswith("wide")]
        with_hidden = [name for name in names if name.count("-") == 3]
        for name in {*self.random.sample(with_hidden, 2), *self.random.sample(names, 2)}:
            with self.subTest(row=name, seed=self.seed):
                _, calls = self.compare("--rows", name)
                programs = {call[0]: call for call in calls}
                self.assertEqual(set(programs), {"versions.py", "train_bench", "pytorch_gpu.py", "pytorch_strong.py",
                                                 "comparison_table.py"})
                shape, *rest = name.split("-")
                expected = {"--shape": shape, "--precision": rest[-2], "--optimizer": rest[-1], "--batch": "1024"}
                if len(rest) == 3:
                    expected["--hidden"] = rest[0]
                for program in ("train_bench", "pytorch_gpu.py", "pytorch_strong.py"):
                    words = programs[program]
                    given = {key: words[words.index(key) + 1] for key in (*expected, "--hidden") if key in words}
                    self.assertEqual(given, expected, program)
                self.assertIn("liger,liger_scaled", programs["pytorch_gpu.py"][programs["pytorch_gpu.py"].index("--variant") + 1])

    def test_runs_only_the_variants_that_are_asked_for(self):
        variants = self.random.sample(["eager", "compile", "cce", "liger", "liger_scaled"], 2)
        _, calls = self.compare("--rows", "wide1m_softmax-512-bf16-Adam", "--peers", "--no-strong", "--plain", ",".join(variants))
        self.assertEqual([call[0] for call in calls], ["versions.py", "pytorch_gpu.py", "comparison_table.py"])
        given = calls[1][calls[1].index("--variant") + 1].split(",")
        self.assertEqual(sorted(given), sorted(variants), f"seed {self.seed}")


if __name__ == "__main__":
    unittest.main()
