#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The table of recipes and peers on drawn data: what the programs say themselves, and the same of files in the way of MovieLens."""
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

    def program(self, name, *options):
        return subprocess.run([BIN / name, *map(str, options)], capture_output=True, text=True, check=True).stdout

    def test_rows_are_what_the_programs_say(self):
        users = self.drawn()
        train, test = ({user: items[part] for user, items in users.items()} for part in (slice(2, None), slice(2)))
        self.write_lines(self.folder / "lines", {"train": train, "test": test})
        least = self.random.randint(2, 5)
        self.write_ratings(self.folder / "folds", "u1", {"base": train, "test": test}, least)
        rows = self.table(self.folder / "lines", self.folder / "folds", "--recipes", "ease,auto", "--seeds", "1,2", "--least", least,
                          "--budget", 2)
        names = ("lines", f"folds_from_{least}")
        self.assertEqual([row[:2] for row in rows], [[name, f"`--recipe {recipe}`"] for name in names for recipe in ("ease", "auto")])
        self.assertEqual([row[2:5] for row in rows[:2]], [row[2:5] for row in rows[2:]])
        self.assertEqual([row[6] for row in rows[:2]], [row[6] for row in rows[2:]])
        self.assertRegex(rows[1][2], r"^[01]\.\d{4} \(0\.\d{4}\)$")
        kept = json.loads((self.folder / "out/lines.ease.1.json").read_text())
        self.assertEqual([f"{kept[name]:.4f}" for name in ("Recall@20", "NDCG@20", "MAP@10")], rows[0][2:5])
        folder = self.folder / "by_hand"
        folder.mkdir()
        data, model = self.folder / "out/lines", folder / "model.nc"
        self.program("trainer", "--recipe", "ease", "-i", data / "train.nc", "-n", model)
        said = self.program("evaluator", "--model", model, "--data", data / "eval.nc", "--top", 10, "--format", "json")
        self.assertEqual(json.loads(said)["model"][0]["MAP"], kept["MAP@10"])

    def test_runs_are_kept_and_what_cannot_be_is_said(self):
        users = self.drawn()
        self.write_lines(self.folder / "lines", {"train": users, "test": users})
        (self.folder / "out").mkdir()
        kept = {"Recall@20": 0.25, "NDCG@20": 0.125, "MAP@10": 0.5, "seconds": 3, "device": "cuda", "chosen": None}
        (self.folder / "out/lines.ease.7.json").write_text(json.dumps(kept))
        rows = self.table(self.folder / "lines", "--recipes", "ease,nonsense", "--seeds", "7")
        self.assertEqual(rows[0], ["lines", "`--recipe ease`", "0.2500", "0.1250", "0.5000", "3.0 cuda", ""])
        self.assertIn("nonsense", rows[1][-1])
        there = self.folder / "there"
        there.mkdir()
        (there / "lines.ease.1.json").write_text(json.dumps(kept | {"seconds": 40, "device": "cpu"}))
        rows = self.table(self.folder / "lines", "--recipes", "ease", "--seeds", "7", "--beside", there)
        self.assertEqual(rows[0][5], "40.0 cpu, 3.0 cuda")

    def test_peers_are_measured_as_recipes_are(self):
        """EASE of both with one lambda, and popularity beside what evaluator says of it."""
        users = self.drawn()
        train, test = ({user: items[part] for user, items in users.items()} for part in (slice(2, None), slice(2)))
        self.write_lines(self.folder / "lines", {"train": train, "test": test})
        (self.folder / "out").mkdir()
        regularization = self.random.uniform(1, 50)
        (self.folder / "out/lines.ease.settings.json").write_text(json.dumps({"regularization": regularization}))
        rows = self.table(self.folder / "lines", "--recipes", "", "--peers", "popularity,ease", "--published",
                          "--python", "/usr/bin/python3")
        self.assertEqual([row[:2] for row in rows], [["lines", "popularity"], ["lines", "EASE"]])
        if "left out: No module" in rows[0][-1]:
            self.skipTest(rows[0][-1])
        data, model = self.folder / "out/lines", self.folder / "model.nc"
        self.program("trainer", "--recipe", "ease", "--lambda", regularization, "-i", data / "train.nc", "-n", model)
        for top, names in ((20, ("Recall", "NDCG")), (10, ("MAP",))):
            said = json.loads(self.program("evaluator", "--model", model, "--data", data / "eval.nc", "--popularity", data / "train.nc",
                                           "--top", top, "--format", "json"))
            for row, measured in zip(rows, (said["popularity"][0], said["model"][0])):
                kept = json.loads((self.folder / f"out/lines.peer_{row[1].lower()}.1.json").read_text())
                for name in names:
                    # EASE in float64 and in float32: items that the same users have are as good as equal, and may change places, also
                    # at the last one; how metrics are counted popularity tells exactly.
                    apart = 0.05 if row[1] == "EASE" else 1e-6
                    self.assertAlmostEqual(kept[f"{name}@{top}"], measured[name], delta=apart, msg=f"{row[1]}, {name}")

    def test_settings_of_peers_are_searched_and_what_is_missing_is_said(self):
        users = self.drawn()
        self.write_lines(self.folder / "gowalla", {"train": users, "test": users})
        rows = self.table(self.folder / "gowalla", "--recipes", "", "--peers", "ease,nonsense,lightfm", "--search", 0, "--published",
                          "--python", "/usr/bin/python3")
        published = json.loads((SCRIPT.parent / "peers/published_quality.json").read_text())["gowalla"]
        self.assertEqual([row[1] for row in rows[3:]], [f"{one['model']}, published" for one in published])
        ordered = self.table(self.folder / "gowalla", "--recipes", "", "--peers", "nonsense", "--published", "--best-first")
        best = sorted(published, key=lambda one: -one["NDCG@20"])
        self.assertEqual([row[1] for row in ordered], [*(f"{one['model']}, published" for one in best), "nonsense"])
        if "left out" not in rows[0][-1]:
            self.assertIn("nonsense", rows[1][-1])
            kept = json.loads((self.folder / "out/gowalla.ease.settings.json").read_text())
            self.assertEqual(rows[0][-1], f"regularization {kept['regularization']}")


if __name__ == "__main__":
    unittest.main()
