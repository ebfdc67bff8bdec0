#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The planted catalogue against its own probabilities, the bounds of Recall, the drawing, and curves of whole trainings on few items."""
import contextlib
import importlib.util
import io
import json
import math
import os
import pathlib
import random
import tempfile
import unittest
import xml.etree.ElementTree

import numpy as np

import curve_drawing
import planted_catalogue
import recipe_runs
import scale_curves
import scale_norn

BIN = pathlib.Path(os.environ.get("NORN_BIN", recipe_runs.ROOT / "build/cpu/bin"))


def too_far(counts, expected):
    """Whether a chi-square of counts is beyond what one in 10^10 draws has (Laurent and Massart, Annals of Statistics 28, 2000). Cells of
    which fewer than 20 are expected are one."""
    small = expected < 20
    pairs = [*zip(counts[~small], expected[~small])]
    if expected[small].sum() >= 20:
        pairs.append((counts[small].sum(), expected[small].sum()))
    value, freedom, x = sum((seen - of) ** 2 / of for seen, of in pairs), max(len(pairs) - 1, 1), math.log(1e10)
    return value > freedom + 2 * math.sqrt(freedom * x) + 2 * x


class Case(unittest.TestCase):
    def setUp(self):
        self.seed = random.SystemRandom().randrange(1 << 32)
        self.random = np.random.default_rng(self.seed)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def settings(self, items, clusters, **more):
        more = {"users": 40, "entries": 6, "held_out_entries": 2, "held_out_users": 30, "rank": int(self.random.integers(1, 9)),
                "beta": self.random.uniform(0.5, 2.5), "exponent": self.random.uniform(0.5, 1.2), "seed": self.seed, **more}
        return planted_catalogue.Settings(items=items, clusters=clusters, **more)


class Truth(Case):
    def test_items_are_drawn_as_often_as_their_probabilities_say(self):
        items = int(self.random.choice([7, 100, 301]))
        catalogue = planted_catalogue.Catalogue(self.settings(items, int(self.random.choice([1, 5, items, 2 * items]))))
        u, rng = catalogue.tastes(1, 0, 1)
        draws = 5000
        taken = catalogue.draw(np.repeat(u, draws, axis=0), rng, 1)
        probabilities = catalogue.probabilities(u)[0]
        self.assertAlmostEqual(probabilities.sum(), 1)
        counts = np.bincount(taken[:, 0], minlength=items)
        self.assertFalse(too_far(counts, probabilities * draws), f"seed {self.seed}")

    def test_later_items_are_drawn_from_those_that_are_left(self):
        catalogue = planted_catalogue.Catalogue(self.settings(5, int(self.random.choice([2, 5]))))
        u, rng = catalogue.tastes(1, 0, 1)
        draws, p = 5000, catalogue.probabilities(u)[0]
        taken = catalogue.draw(np.repeat(u, draws, axis=0), rng, 2)
        self.assertTrue((taken[:, 0] != taken[:, 1]).all(), f"seed {self.seed}")
        pairs = np.array([[0 if i == j else p[i] * p[j] / (1 - p[i]) for j in range(5)] for i in range(5)])
        counts = np.bincount(taken[:, 0] * 5 + taken[:, 1], minlength=25)
        self.assertFalse(too_far(counts[pairs.ravel() > 0], pairs[pairs > 0] * draws), f"seed {self.seed}")

    def test_a_wrong_probability_is_found(self):
        expected = np.full(50, 100.0)
        counts = self.random.poisson(expected * np.linspace(0.6, 1.4, 50))
        self.assertTrue(too_far(counts, expected), f"seed {self.seed}")

    def test_what_is_drawn_does_not_depend_on_threads(self):
        catalogue = planted_catalogue.Catalogue(self.settings(80, 20))
        one, many = (planted_catalogue.users_of(catalogue, 1, 70, threads) for threads in (1, 5))
        np.testing.assert_array_equal(one[0], many[0])
        self.assertTrue(all(len(set(row)) == 6 for row in one[0].tolist()))

    def test_the_oracle_lists_the_largest_probabilities(self):
        items = int(self.random.integers(30, 200))
        catalogue = planted_catalogue.Catalogue(self.settings(items, int(self.random.choice([3, 20, items]))))
        u, rng = catalogue.tastes(1, 0, 10)
        known = catalogue.draw(u, rng, 6)
        lists, p = catalogue.best(u, known, 9), catalogue.probabilities(u)
        for own, seen, found in zip(p, known, lists):
            own[seen] = 0
            np.testing.assert_allclose(own[found], np.sort(own)[::-1][:9], rtol=1e-4, err_msg=f"seed {self.seed}")
            self.assertEqual(len(set(found) - set(seen)), 9)


class Bounds(Case):
    def test_what_is_known_orders_the_bounds(self):
        settings = self.settings(400, 100, users=2000, entries=16, held_out_users=600, held_out_entries=6, beta=3.0, rank=3, exponent=0.7)
        bounds = planted_catalogue.make(settings, self.folder, 20, 2)
        self.assertLess(bounds["popularity"], bounds["inferred"], f"seed {self.seed}: {bounds}")
        # The oracle knows more; by chance what is inferred may be as good.
        self.assertLess(bounds["inferred"], bounds["oracle"] + 0.05, f"seed {self.seed}: {bounds}")
        known, wanted = (np.load(self.folder / f"{name}.npy") for name in ("known", "wanted"))
        self.assertEqual((known.shape, wanted.shape), ((600, 10), (600, 6)))
        self.assertTrue(all(len({*a, *b}) == 16 for a, b in zip(known.tolist(), wanted.tolist())))

    def test_recall_is_that_of_the_definition(self):
        lists = np.stack([self.random.permutation(40)[:9] for _ in range(20)])
        lists[3, 5:] = -1
        wanted = np.stack([self.random.permutation(40)[:4] for _ in range(20)])
        recall = np.mean([len({*found} & {*own}) / 4 for found, own in zip(lists.tolist(), wanted.tolist())])
        self.assertAlmostEqual(planted_catalogue.recall_of(lists, wanted), recall, places=12)

    def test_the_most_popular_are_listed_by_count(self):
        counts = self.random.permutation(50)
        known = np.stack([self.random.permutation(50)[:5] for _ in range(8)])
        for seen, found in zip(known, planted_catalogue.most_popular(counts, known, 10)):
            left = [item for item in np.argsort(-counts) if item not in seen][:10]
            self.assertEqual(found.tolist(), left)


class Drawing(Case):
    def test_curves_bounds_and_names_are_there(self):
        curves = {f"method <{n}>": [(10 ** self.random.uniform(-2, 4), self.random.uniform(0, 1)) for _ in range(6)] for n in range(7)}
        curves = {name: sorted(points) for name, points in curves.items()}
        svg = curve_drawing.curves_svg("a & b", curves, {"oracle": 0.5, "popularity": 0.49}, "Recall@100")
        root = xml.etree.ElementTree.fromstring(svg)
        texts = [(one.text, float(one.get("y"))) for one in root.iter("{http://www.w3.org/2000/svg}text")]
        for name in [*curves, "oracle", "popularity"]:
            self.assertTrue(any(text.startswith(name) for text, _ in texts), name)
        names = sorted(y for text, y in texts if text.startswith(("method", "oracle", "popularity")))
        self.assertTrue(all(b - a > 0.99 * curve_drawing.LINE for a, b in zip(names, names[1:])))
        self.assertEqual(len(root.findall(".//*[@class='bound']")), 2)
        self.assertIn("prefers-color-scheme:dark", svg)

    def test_axes_reach_all_values(self):
        for _ in range(200):
            high = 10 ** self.random.uniform(-5, 1)
            levels = curve_drawing.steps(high)
            self.assertGreaterEqual(levels[-1], high * (1 - 1e-9))
            self.assertTrue(4 <= len(levels) <= 9, f"{high}: {levels}")
            ticks = curve_drawing.powers_of_ten(high, 3 * high)
            self.assertTrue(ticks[0] <= high and 3 * high <= ticks[-1] * (1 + 1e-9))


class Curves(Case):
    def test_validations_take_no_time(self):
        events = [{"event": "epoch", "seconds": 2.0}, {"event": "eval", "epoch": 1, "seconds": 100.0, "metrics": [
            {"k": 20, "recall": 0.9}, {"k": 100, "recall": 0.25}]}, {"event": "epoch", "seconds": 3.0}, {"event": "epoch", "seconds": 1.0},
            {"event": "eval", "epoch": 3, "seconds": 100.0, "metrics": [{"k": 100, "recall": 0.5}]}]
        self.assertEqual(scale_norn.curve_of(events, 100), [{"seconds": 2.0, "recall": 0.25, "epochs": 1},
                                                            {"seconds": 6.0, "recall": 0.5, "epochs": 3}])

    def test_settings_are_changed_by_name(self):
        changed = scale_curves.changed_settings(["softmax.popular=7", "factored.rate=0.5"])
        self.assertEqual((changed["softmax"]["popular"], changed["factored"]["rate"]), (7, 0.5))
        for wrong in ("rate=1", "factored.popular=1", "factored.rate"):
            self.assertRaisesRegex(ValueError, "is expected", scale_curves.changed_settings, [wrong])

    def options(self, *words):
        usual = {"items": 300, "users": 256, "entries": 12, "held-out-users": 50, "held-out-entries": 4, "beta": 2, "hidden": 16,
                 "batch": 64, "seconds": 0.2, "points": 3, "threads": 1, "data-seed": self.seed, "bin": BIN, "out": self.folder}
        return scale_curves.arguments([*(str(word) for name, value in usual.items() for word in (f"--{name}", value)), *words])

    def measure(self, args):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            self.assertTrue(scale_curves.measure_all(args), said.getvalue())
        return json.loads((self.folder / "results.json").read_text(encoding="utf-8"))

    @unittest.skipUnless((BIN / "trainer").exists(), f"there is no {BIN}/trainer")
    def test_both_networks_of_norn_learn_and_results_are_kept(self):
        self.measure(self.options("--methods", "factored"))
        results = self.measure(self.options("--methods", "sigmoid"))
        self.assertEqual([one["method"] for one in results["runs"]], ["factored", "sigmoid"])
        for one in results["runs"]:
            seconds = [point["seconds"] for point in one["curve"]]
            self.assertEqual(seconds, sorted(seconds))
            self.assertTrue(all(0 <= point["recall"] <= 1 for point in one["curve"]))
        xml.etree.ElementTree.parse(self.folder / "curves.svg")
        with self.assertRaisesRegex(SystemExit, "holds data of other settings"):
            scale_curves.prepare(self.options("--rank", "5"))

    @unittest.skipUnless((BIN / "trainer").exists(), f"there is no {BIN}/trainer")
    def test_the_trainer_says_what_its_lists_have(self):
        args = self.options()
        folder, _ = scale_curves.prepare(args)
        programs = recipe_runs.Programs(args.bin, args.device, args.threads)
        scale_norn.write_data(folder, args.items, programs)
        network = scale_norn.descriptor("factored", args.settings["factored"], args, args.entries, args.items)
        training = self.folder / "training"
        events = scale_norn.Training(programs, training, network, folder, args.top, ["--epochs", 2]).until(lambda _: False)
        programs.run("predictor", "--model", training / "model.nc", "--data", folder / "held_out.nc", "--top", args.top, "--exclude-seen",
                     "--output", training / "lists.txt")
        lists = np.full((args.held_out_users, args.top), -1)
        for user, line in enumerate((training / "lists.txt").read_text(encoding="utf-8").splitlines()):
            items = [pair.rsplit(",", 1)[0] for pair in line.split("\t")[1].split(":") if pair]
            lists[user, :len(items)] = [int(item) for item in items]
        recall = planted_catalogue.recall_of(lists, np.load(folder / "wanted.npy"))
        self.assertAlmostEqual(recall, scale_norn.curve_of(events, args.top)[-1]["recall"], places=6, msg=f"seed {self.seed}")

    @unittest.skipUnless(importlib.util.find_spec("torch"), "there is no PyTorch")
    def test_the_peer_learns(self):
        results = self.measure(self.options("--methods", "softmax", "--set", "softmax.popular=50", "--set", "softmax.uniform=50"))
        self.assertLess(results["runs"][0]["facts"]["checked"], 1e-10)


if __name__ == "__main__":
    unittest.main(verbosity=2)
