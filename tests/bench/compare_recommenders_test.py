# SPDX-License-Identifier: Apache-2.0
"""The comparisons with implicit and with the programs: their metrics, their search, and whole runs on a few users."""
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import numpy as np  # noqa: E402
import scipy.sparse as sp  # noqa: E402

import held_out_items  # noqa: E402
from peers import settings_search  # noqa: E402


def by_definition(lists, wanted):
    recalls, gains, precisions = [], [], []
    for found, held_out in zip(lists, wanted):
        hits = [1 / math.log2(place + 2) for place, item in enumerate(found) if item in held_out]
        recalls.append(len(hits) / len(held_out))
        gains.append(sum(hits) / sum(1 / math.log2(place + 2) for place in range(min(len(found), len(held_out)))))
        at_hits = [len(held_out & set(found[:place + 1])) / (place + 1) for place, item in enumerate(found) if item in held_out]
        precisions.append(sum(at_hits) / min(len(found), len(held_out)))
    return tuple(sum(values) / len(values) for values in (recalls, gains, precisions))


class Comparison(unittest.TestCase):
    def setUp(self):
        self.seed = random.SystemRandom().randrange(1 << 32)
        self.random = random.Random(self.seed)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_metrics_are_those_of_the_definition(self):
        for _ in range(20):
            items, length = self.random.randrange(8, 60), self.random.randrange(1, 9)
            wanted = [set(self.random.sample(range(items), self.random.randrange(1, 8))) for _ in range(self.random.randrange(1, 30))]
            lists = [self.random.sample(range(items), length) for _ in wanted]
            matrix = sp.lil_matrix((len(wanted), items), dtype=np.float32)
            for user, own in enumerate(wanted):
                matrix[user, list(own)] = 1
            found = held_out_items.metrics_of(np.array(lists), matrix.tocsr())
            np.testing.assert_allclose(found, by_definition(lists, wanted), rtol=1e-12, err_msg=f"seed {self.seed}")

    def test_the_search_finds_the_top_of_a_hill_and_goes_on_where_it_was(self):
        space = settings_search.SPACES["als"]
        goal = {name: self.random.choice(values) for name, values in space.items()}

        def height(settings):
            return -sum(abs(space[name].index(settings[name]) - space[name].index(goal[name])) for name in space)

        tried, kept = [], []
        self.assertEqual(settings_search.search("als", height, 60, tried, lambda all_of_them: kept.append(len(all_of_them))), goal,
                         f"seed {self.seed}")
        self.assertEqual(kept, list(range(1, len(tried) + 1)))
        self.assertEqual(settings_search.search("als", lambda settings: self.fail("is known"), 60, tried, None), goal)
        first = [(dict(goal), 0.5)]
        self.assertEqual(settings_search.search("als", lambda settings: self.fail("the time is over"), 0, first, None), goal)

    def write(self):
        """Users of three tastes, most of whose items are to learn from."""
        lines = {"train": [], "test": []}
        for user in range(self.random.randrange(50, 80)):
            own = [f"i{item}" for item in self.random.sample(range(40 * (user % 3), 40 * (user % 3) + 40), 12)]
            lines["train"].append(f"u{user}\t{':'.join(own[:9])}")
            lines["test"].append(f"u{user}\t{':'.join(own[9:])}")
        for part, text in lines.items():
            (self.folder / f"{part}.txt").write_text("\n".join(text) + "\n", encoding="utf-8")

    def run_program(self, name, *options):
        done = subprocess.run([sys.executable, "-B", HERE / name, "--folder", f"debian_packages={self.folder}", *map(str, options)],
                              capture_output=True,
                              text=True, timeout=300)
        return done, f"seed {self.seed}: {done.stdout}{done.stderr}"

    def test_a_table_of_a_few_users(self):
        self.write()
        settings = {"als": {"best": {"factors": 8, "regularization": 0.1, "iterations": 5}}}
        (self.folder / "search.debian_packages.json").write_text(json.dumps(settings), encoding="utf-8")
        done, words = self.run_program("compare_recommenders.py", "debian_packages", "--models", "popularity,als,sigmoid", "--turns", 2,
                                       "--out", self.folder)
        self.assertEqual(done.returncode, 0, words)
        for name in ("popularity", "implicit, ALS", "Norn, recipe sigmoid", "Norn, sigmoid, by norn.implicit"):
            self.assertRegex(done.stdout, rf"(?m)^\| {name} \| 0\.\d{{4}} / 0\.\d{{4}} \|", words)
        told = json.loads((self.folder / "results.debian_packages.cpu.json").read_text(encoding="utf-8"))
        self.assertGreater(told["sigmoid"]["metrics"][0][0], told["popularity"]["metrics"][0][0], words)  # tastes can be learned
        self.assertEqual([len(turn) for turn in told["als"]["users_per_second"]], [2, 2])

    def test_missing_data_are_told(self):
        done, words = self.run_program("compare_recommenders.py", "debian_packages", "--out", self.folder)
        self.assertEqual(done.returncode, 1, words)
        self.assertIn(f"there is no {self.folder / 'train'}.txt, .txt.gz or .txt.xz", done.stderr)
        done, words = self.run_program("compare_recommenders.py", "netflix", "--out", self.folder)
        self.assertIn("there are no data netflix; known: ", done.stderr)

    def test_python_beside_the_programs(self):
        self.write()
        done, words = self.run_program("python_speed.py", "--turns", 1, "--epochs", 2, "--threads", 1, "--bin", os.environ["NORN_BIN"])
        self.assertEqual(done.returncode, 0, words)  # the models have the same bytes
        for line in (r"\| fit \| \d", r"\| recommend \| \d", r"import norn: \d"):
            self.assertRegex(done.stdout, rf"(?m)^{line}", words)


if __name__ == "__main__":
    unittest.main(verbosity=2)
