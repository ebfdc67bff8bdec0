#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What other studies know: which of their trials count, and that a study begins where they found the best."""
import json
import math
import unittest

import numpy as np

from tuner_case import NETWORK, SeededTest

from norn.tune.acquisition import EARLY, model_row, modelled, targets
from norn.errors import UsageError
from norn.tune.gp import GaussianProcess
from norn.tune.sampler import Sampler
from norn.tune.search import Plan, Rules, Search
from norn.tune.shared import SharedProcess
from norn.tune.space import space_of
from norn.tune.study import ALGORITHM, FORMAT, Study
from norn.tune.transfer import Source, Stack, prior_of, read_sources

PARAMETERS = {"Training.Alpha": {"Range": [1e-4, 1e-1], "Scale": "log"}, "Training.Batch": {"Values": [32, 64, 128]},
              "Layers.Hidden.N": {"Whole": [64, 512], "Multiple": 64}}


class Transfer(SeededTest):
    def setUp(self):
        super().setUp()
        self.draw = np.random.default_rng(self.seed)
        self.space = space_of({"Parameters": PARAMETERS}, NETWORK, "space.json")

    def value(self, rows, best):
        return -((rows - best) ** 2).sum(axis=1)

    def sources(self, count, best):
        found = []
        for number in range(count):
            rows = self.space.spread(self.draw.uniform(size=(25, 3)))
            # Each with a level and a scale of its own, and a little beside the others.
            found.append(Source(str(number), rows, 3.0 * number + 0.7**number * self.value(rows, best + self.draw.normal(0, 0.03, 3))))
        return found

    def test_a_study_begins_where_the_others_found_the_best_and_learns_where_it_differs(self):
        best, own = np.array([0.3, 0.5, 0.7]), np.array([0.5, 0.5, 0.7])
        sampler = Sampler(self.space, "gp", self.seed, 0, Stack(self.space, self.sources(4, best)))
        search = Search(Rules(1), sampler.propose, lambda number, row: Plan(True, 1.0, 1), trials=14)
        while not search.done:
            search.advance()
            for segment in search.wanted():
                search.value(segment.trial, 1, float(self.value(search.trials[segment.trial].row[None, :], own)[0]))
        rows = np.array([trial.row for trial in search.trials])
        cold = Sampler(self.space, "random", self.seed, 0)
        self.assertLess(np.linalg.norm(rows[0] - best), 0.3)
        random_best = max(self.value(np.array([cold.propose(n, [], []) for n in range(14)]), own))
        self.assertGreater(max(self.value(rows, own)), min(-0.01, random_best))
        self.assertEqual(len({tuple(row) for row in rows}), len(rows))

    def test_studies_know_more_of_their_space_together_than_each_for_itself(self):
        """Few results in each, and one of six dimensions matters: which one, a study alone cannot tell."""
        space = space_of({"Parameters": {name: {"Range": [0, 1]} for name in "ABCDEF"}}, NETWORK, "space.json")
        anywhere = space.spread(self.draw.uniform(size=(500, 6)))
        together = apart = 0.0
        for _ in range(6):
            found = []
            for number in range(8):
                rows = space.spread(self.draw.uniform(size=(6, 6)))
                found.append(Source(str(number), rows, np.sin(5.0 * rows[:, 3]) + self.draw.normal(0, 0.1, 6)))
            truth = np.sin(5.0 * anywhere[:, 3])
            alone = np.mean([GaussianProcess(one.rows, targets(one.values, ranks=True), space.categories).mean(anywhere) for one in found],
                            axis=0)
            together += float(np.corrcoef(Stack(space, found).expected(anywhere), truth)[0, 1])
            apart += float(np.corrcoef(alone, truth)[0, 1])
        print(f"correlation with the truth: {together / 6:.3f}, each for itself {apart / 6:.3f}")
        self.assertGreater(together, apart)

    def test_results_of_a_study_count_by_how_much_of_them_is_luck(self):
        """Two studies agree, and the third says something else at random: what is expected is what the two say."""
        rows = [self.space.spread(self.draw.uniform(size=(25, 3))) for _ in range(3)]
        found = [Source(str(n), one, self.value(one, np.full(3, 0.4)) if n < 2 else self.draw.normal(size=25))
                 for n, one in enumerate(rows)]
        noise = Stack(self.space, found)._common.hyper[-3:]
        self.assertGreater(noise[2], noise[:2].max() + 1.0)

    def test_the_gradient_of_what_studies_share_is_that_of_differences(self):
        of = np.repeat([0, 1, 2], [9, 4, 7])
        process = SharedProcess(self.draw.uniform(size=(20, 3)), self.draw.normal(size=20), of, np.array([False, True, False]))
        hyper = process.hyper + self.draw.normal(0, 0.3, len(process.hyper))
        _, gradient = process._loss(hyper)
        for number, step in enumerate(1e-5 * np.eye(len(hyper))):
            found = (process._loss(hyper + step)[0] - process._loss(hyper - step)[0]) / 2e-5
            self.assertAlmostEqual(found, gradient[number], delta=1e-5 * max(1.0, abs(found)))

    def test_the_first_trials_are_where_most_is_expected(self):
        """By what the others have in common and by own results; improvement in what nobody knows may wait."""
        stack = Stack(self.space, self.sources(4, np.array([0.3, 0.5, 0.7])))
        rows = np.zeros((0, 3))
        anywhere = self.space.spread(self.draw.uniform(size=(1000, 3)))
        for number in range(EARLY):
            values = self.value(rows, np.array([0.4, 0.5, 0.7]))
            row = model_row(self.space, rows, values, rows[:0], self.seed, number, stack)[None, :]
            if number:
                model = modelled(self.space, rows, values, rows[:0], stack, number % 2 == 1)
                away = np.abs(anywhere[:, None] - rows[None]).max(axis=2).min(axis=1) >= 0.1
                self.assertGreater(model.predict(row)[0][0], np.quantile(model.predict(anywhere[away])[0], 0.99))
                self.assertGreaterEqual(np.abs(rows - row).max(axis=1).min(), 0.1)
            rows = np.vstack([rows, row])

    def test_sources_of_any_length_are_fitted_to_so_many_results_in_all(self):
        found = [Source(str(n), rows := self.space.spread(self.draw.uniform(size=(count, 3))), self.value(rows, np.full(3, 0.5)))
                 for n, count in enumerate((3, 290, 700))]
        self.assertEqual([len(Stack(self.space, found[:n])._common.targets) for n in (1, 2, 3)], [3, 203, 269])

    def test_trials_that_begin_together_are_not_alike(self):
        stack = Stack(self.space, self.sources(3, np.array([0.3, 0.5, 0.7])))
        sampler = Sampler(self.space, "gp", self.seed, 0, stack)
        search = Search(Rules(6), sampler.propose, lambda number, row: Plan(True, 1.0, 1), trials=6)
        search.advance()
        self.assertEqual(len({tuple(trial.row) for trial in search.trials}), 6)

    def test_the_residual_and_what_is_expected_make_the_values(self):
        stack = Stack(self.space, self.sources(3, np.array([0.3, 0.5, 0.7])))
        rows, values = self.space.spread(self.draw.uniform(size=(9, 3))), self.draw.normal(size=9)
        rest, expected = stack.residual(rows, values)
        np.testing.assert_allclose(rest + expected(rows), values, atol=1e-12)
        # What the others expect exactly is expected wholly.
        told = stack.expected(rows)
        rest, _ = stack.residual(rows, told - told.mean())
        self.assertLess(np.abs(rest).max(), 1e-9)

    def write_study(self, name, parameters, network, trials, objective="ndcg@20"):
        """A study's files, of [(settings, state, value)]."""
        folder = self.folder / name
        folder.mkdir()
        identity = {"format": FORMAT, "algorithm": ALGORITHM, "study": name, "descriptor": network, "space": {"Parameters": parameters},
                    "seed": 1, "clock": 4,
                    "sampler": "gp", "start": 0, "halving": 2, "rungs": [2], "objective": objective, "epochs": None, "inputs": [],
                    "outputs": [],
                    "options": [], "made_of": {}}
        (folder / "study.json").write_text(json.dumps(identity))
        events = []
        for number, (settings, state, value) in enumerate(trials):
            events.append({"event": "propose", "trial": number, "row": [], "from": "", "settings": settings})
            if state in ("done", "halved"):
                values = {"2": value - 1.0, "9": value} if state == "done" else {"2": value}
                events.append({"event": "value", "trial": number, "attempt": 0, "values": values, "checksum": "", "seconds": 1.0})
            events.append({"event": "tell", "trial": number, "state": state, "epochs": 2 if state == "halved" else 9,
                           "value": value if state in ("done", "halved") else None, "checksum": ""})
        (folder / "journal.jsonl").write_text("".join(json.dumps({"n": n, **event}) + "\n" for n, event in enumerate(events, 1)))
        return Study.open(folder)

    def test_trials_of_others_count_as_far_as_they_are_points_of_this_space(self):
        def point(alpha, units, batch=64):
            return {"Training.Alpha": alpha, "Layers.Hidden.N": units, "Training.Batch": batch}
        wide = {**PARAMETERS, "Training.Alpha": {"Range": [1e-5, 1.0], "Scale": "log"}}
        self.write_study("other", wide, NETWORK, [
            (point(1e-3, 64), "done", 5.0), (point(0.5, 64), "done", 9.0), (point(1e-2, 512), "halved", 1.0),
            (point(2e-2, 128), "diverged", None),
            (point(3e-2, 128), "infeasible", None), (point(1e-4, 256), "done", 4.0)])
        own = self.write_study("own", PARAMETERS, NETWORK, [])
        source = read_sources([str(self.folder / "other")], own)[0]
        # Without the one beyond the range and the one that had no place; the halved one with the gain of those that went on.
        self.assertEqual(source["values"], [5.0, 2.0, None, 4.0])
        self.assertEqual([own.space.settings(np.array(row))["Layers.Hidden.N"] for row in source["rows"]], [64, 512, 128, 256])
        own.identity["sources"] = [source]
        self.assertEqual(len(prior_of(own)), 1)
        self.assertTrue(math.isnan(prior_of(own).sources[0].values[2]))

    def test_what_the_other_study_did_not_search_is_what_its_descriptor_says(self):
        less = {path: entry for path, entry in PARAMETERS.items() if path != "Layers.Hidden.N"}
        network = json.loads(json.dumps(NETWORK).replace('"N": 64', '"N": 320'))
        self.write_study("other", less, network,
                         [({"Training.Alpha": 10.0**-n, "Training.Batch": 32}, "done", float(n)) for n in range(1, 5)])
        own = self.write_study("own", PARAMETERS, NETWORK, [])
        found = read_sources([str(self.folder / "other")], own)[0]
        self.assertEqual([own.space.settings(np.array(row))["Layers.Hidden.N"] for row in found["rows"]], [320] * 4)

    def test_studies_of_which_nothing_counts_are_refused(self):
        own = self.write_study("own", PARAMETERS, NETWORK, [])
        self.write_study("loss", PARAMETERS, NETWORK, [], objective="loss")
        self.write_study("few", PARAMETERS, NETWORK, [({"Training.Alpha": 1e-3, "Training.Batch": 32, "Layers.Hidden.N": 64}, "done", 1.0)])
        for name, said in (("loss", "is of loss, this one of ndcg@20"),
                           ("few", "1 of its 1 results lie within this space, and 3 are needed")):
            with self.assertRaises(UsageError) as caught:
                read_sources([str(self.folder / name)], own)
            self.assertIn(said, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
