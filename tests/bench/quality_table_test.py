#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The table of recipes on drawn data: what the programs say themselves, and the same of files in the way of MovieLens."""
import json
import lzma
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

import recipe_runs

BIN = pathlib.Path(os.environ.get("NORN_BIN", recipe_runs.ROOT / "build/cpu/bin"))
SCRIPT = pathlib.Path(__file__).with_name("quality_table.py")


class QualityTable(unittest.TestCase):
    def setUp(self):
        seed = random.SystemRandom().randrange(1 << 32)
        print(f"seed {seed}", flush=True)
        self.random = random.Random(seed)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def drawn(self):
        """{user: items}, of groups with tastes of their own."""
        items, groups = self.random.randint(40, 90), self.random.randint(2, 4)
        return {f"user{user}": self.random.sample(range(user % groups, items, groups), self.random.randint(4, 9))
                for user in range(self.random.randint(60, 150))}

    def write_lines(self, folder, parts):
        folder.mkdir()
        for name, users in parts.items():
            with lzma.open(folder / f"{name}.txt.xz", "wt") as text:
                text.writelines(f"{user}\t{':'.join(map(str, items))}\n" for user, items in users.items())

    def write_ratings(self, folder, fold, parts, least):
        folder.mkdir(exist_ok=True)
        for name, users in parts.items():
            with open(folder / f"{fold}.{name}", "w", encoding="utf-8") as text:
                for user, items in users.items():
                    text.writelines(f"{user}\t{item}\t{self.random.randint(least, 5)}\t1\n" for item in items)
                    if least > 1:  # no item of anybody's, which is not to be read
                        text.write(f"{user}\tdisliked\t{least - 1}\t1\n")

    def table(self, *arguments):
        done = subprocess.run([sys.executable, "-B", SCRIPT, *map(str, arguments), "--bin", BIN, "--out", self.folder / "out"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines()[2:]]

    def test_rows_are_what_the_programs_say(self):
        users = self.drawn()
        train, test = ({user: items[part] for user, items in users.items()} for part in (slice(2, None), slice(2)))
        self.write_lines(self.folder / "lines", {"train": train, "test": test})
        least = self.random.randint(1, 5)
        self.write_ratings(self.folder / "folds", "u1", {"base": train, "test": test}, least)
        rows = self.table(self.folder / "lines", self.folder / "folds", "--recipes", "ease,auto", "--seeds", "1,2", "--least", least,
                          "--budget", 2)
        self.assertEqual([row[:2] for row in rows], [[name, recipe] for name in ("lines", "folds") for recipe in ("ease", "auto")])
        self.assertEqual([row[2:5] for row in rows[:2]], [row[2:5] for row in rows[2:]])
        self.assertEqual([row[6] for row in rows[:2]], [row[6] for row in rows[2:]])
        self.assertRegex(rows[1][2], r"^[01]\.\d{4} \(0\.\d{4}\)$")
        kept = json.loads((self.folder / "out/lines.ease.1.json").read_text())
        self.assertEqual([f"{kept[name]:.4f}" for name in ("Recall@20", "NDCG@20", "MAP@10")], rows[0][2:5])
        folder = self.folder / "by_hand"
        folder.mkdir()
        data, model = self.folder / "out/lines", folder / "model.nc"
        for program, *options in (("trainer", "--recipe", "ease", "-i", data / "train.nc", "-n", model),
                                  ("evaluator", "--model", model, "--data", data / "eval.nc", "--top", 10, "--format", "json")):
            said = subprocess.run([BIN / program, *map(str, options)], capture_output=True, text=True, check=True).stdout
        self.assertEqual(json.loads(said)["model"][0]["MAP"], kept["MAP@10"])

    def test_runs_are_kept_and_what_cannot_be_is_said(self):
        users = self.drawn()
        self.write_lines(self.folder / "lines", {"train": users, "test": users})
        (self.folder / "out").mkdir()
        kept = {"Recall@20": 0.25, "NDCG@20": 0.125, "MAP@10": 0.5, "seconds": 3, "chosen": None}
        (self.folder / "out/lines.ease.7.json").write_text(json.dumps(kept))
        rows = self.table(self.folder / "lines", "--recipes", "ease,nonsense", "--seeds", "7")
        self.assertEqual(rows[0], ["lines", "ease", "0.2500", "0.1250", "0.5000", "3.0", ""])
        self.assertIn("nonsense", rows[1][-1])


if __name__ == "__main__":
    unittest.main()
