#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The first example of docs/user/tuner.md, as it stands there, on fewer packages and for less long."""
import gzip
import json
import os
import re
import shutil
import subprocess
import unittest

from tuner_program import BIN, ROOT, TunerTest

PAGE = (ROOT / "docs/user/tuner.md").read_text(encoding="utf-8")
LINES = 1500  # of the packages
SHORTER = {"--epochs 4": "--epochs 2", "--trials 12": "--trials 4", "--start 6": "--start 3", "--seeds 2": "--seeds 1"}


class ExampleTest(TunerTest):
    def clone(self):
        """A folder that looks like the source tree with a build in it."""
        for name in ("configs", "tools"):
            (self.folder / name).symlink_to(ROOT / name)
        (self.folder / "build/cpu").mkdir(parents=True)
        (self.folder / "build/cpu/bin").symlink_to(BIN)
        data = self.folder / "tests/data/debian_packages"
        data.mkdir(parents=True)
        with gzip.open(ROOT / "tests/data/debian_packages/train.txt.gz") as whole, gzip.open(data / "train.txt.gz", "wb") as part:
            part.writelines(line for _, line in zip(range(LINES), whole))

    def test_two_commands_lead_from_text_to_a_page(self):
        self.clone()
        commands = re.search(r"```\n(build/cpu/bin/importer .*?)```", PAGE, re.S).group(1)
        self.assertEqual(len(commands.replace("\\\n", "").splitlines()), 2)
        for long, short in SHORTER.items():
            self.assertIn(long, commands)
            commands = commands.replace(long, short)
        environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
        done = subprocess.run(["bash", "-e", "-c", commands], cwd=self.folder, capture_output=True, text=True, timeout=500, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        study = self.folder / "build/studies/packages"
        self.assertIn('<span class="status good">ended</span>', (study / "report.html").read_text(encoding="utf-8"))
        self.assertIn("descriptor", done.stdout)
        best = json.loads((study / "best.json").read_text())
        self.assertEqual(best["Training"]["Epochs"], 2)
        shutil.copy(study / "best.json", self.folder / "net.json")
        self.train_best(study)

    def train_best(self, study):
        """The descriptor of the best is one that the trainer takes, and its model is recommended from."""
        self.succeed("trainer", "-c", "net.json", "-i", "build/packages.nc", "-n", "again.nc", "--epochs", "1")
        said = self.succeed("evaluator", "--model", study / "best.nc", "--data", "build/packages.nc", "--top", "20", "--format",
                            "json").stdout
        self.assertGreater(len(json.loads(said)["model"]), 0)


if __name__ == "__main__":
    unittest.main()
