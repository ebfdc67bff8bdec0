# SPDX-License-Identifier: Apache-2.0
"""Runs tuner with the real trainer on small data, and reads what it leaves."""
import json
import os
import pathlib
import subprocess
import sys

from tuner_case import ROOT
from programs import BIN, ProgramTest

TUNER = ROOT / "tools/tuner.py"
SPACE = """{ // what is searched
  "Parameters": {
    "Training.Alpha": { "Range": [1e-3, 1e-1], "Scale": "log" },
    "Training.Batch": { "Values": [16, 32, 64] },
    "Layers.Hidden.N": { "Whole": [8, 32], "Multiple": 8 },
    "Layers.Hidden.Count": { "Whole": [1, 2] }
  }
}
"""
DECISIONS = ("propose", "plan", "rung", "tell")


class TunerTest(ProgramTest):
    takes = ("--known", "none")  # studies of a test are compared, and each must have been trained

    def setUp(self):
        super().setUp()
        self.write("space.json", SPACE)

    def tuner(self, *arguments):
        return subprocess.run([sys.executable, "-B", str(TUNER), "--trainer", str(BIN / "trainer"), *self.takes, *map(str, arguments)],
                              cwd=self.folder,
                              capture_output=True, text=True, timeout=500)

    def command(self, study, *arguments, handed=("--validation-split", "0.2"), space="space.json"):
        return ["-c", "net.json", "--space", space, "-i", "train.nc", "--study", study, "--epochs", "6", "--rungs", "1,3", "--objective",
                "ndcg@10",
                *self.takes, *arguments, "--", *handed]

    def succeed_tuner(self, *arguments):
        done = self.tuner(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def refuse_tuner(self, code, parts, *arguments):
        """Ends with that code and one line that has those parts."""
        done = self.tuner(*arguments)
        errors = [line for line in done.stderr.splitlines() if line.startswith("tuner: error: ")]
        self.assertEqual((done.returncode, len(errors)), (code, 1), done.stderr)
        for part in parts:
            self.assertIn(part, errors[0])
        self.assertNotIn("Traceback", done.stderr)

    def events(self, study):
        return [json.loads(line) for line in self.path(study).joinpath("journal.jsonl").read_text().splitlines()]

    def decisions(self, study):
        """{kind: events without number and time}."""
        return {kind: [{k: v for k, v in event.items() if k not in ("n", "time")} for event in self.events(study) if event["event"] == kind]
                for kind in DECISIONS}

    def processes(self, study):
        """{what: process ids} of a study: its tuner, its trials, their trainers."""
        found = {"tuner": [], "trial": [], "trainer": []}
        folder = str(self.path(study))
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                where = os.readlink(entry / "cwd")
            except OSError:
                continue
            if str(TUNER) in words and study in words and where == str(self.folder):
                found["tuner"].append(int(entry.name))
            elif any(word.endswith("norn/tune/trial.py") for word in words) and any(word.startswith(folder + "/") for word in words):
                found["trial"].append(int(entry.name))
            elif (words[0] == str(BIN / "trainer")
                  or any(word.endswith("stand_in_trainer.py")
                         for word in words[1:3])) and "--last-epoch" in words and where.startswith(folder + "/trials"):
                found["trainer"].append(int(entry.name))
        return found
