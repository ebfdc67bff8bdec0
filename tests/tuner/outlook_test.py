#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What more trials of a study promise, and how hours are divided among studies by that."""
import subprocess
import sys
import unittest

import numpy as np

from made_study import Made
from tuner_case import NETWORK, ROOT, SeededTest
from norn.tune.outlook import LEAST_RESULTS, Outlook, divide, gains_of, outlook_of, shares
from norn.tune.space import space_of


class Gains(SeededTest):
    def setUp(self):
        super().setUp()
        self.draw = np.random.default_rng(self.seed)
        self.space = space_of({"Parameters": {name: {"Range": [0, 1]} for name in "AB"}}, NETWORK, "space.json")

    def value(self, rows):
        return 0.5 - ((rows - 0.5) ** 2).sum(axis=1)

    def test_a_study_that_has_found_the_best_promises_less_than_one_that_has_just_begun(self):
        few = self.space.spread(self.draw.uniform(size=(6, 2))) * 0.4
        many = np.vstack([few, self.space.spread(self.draw.uniform(size=(30, 2))), np.full((1, 2), 0.5)])
        little, much = (gains_of(self.space, rows, self.value(rows), 4) for rows in (many, few))
        # One study in three hundred begins so near the best that it has little to promise, too.
        self.assertLess(little[0], much[0])
        for gains in (little, much):
            self.assertEqual(list(gains), sorted(gains, reverse=True))
            self.assertEqual(len(gains), 4)

    def test_a_gain_is_a_share_of_the_best_whatever_the_unit_and_follows_from_its_arguments(self):
        rows = self.space.spread(self.draw.uniform(size=(12, 2)))
        values = self.value(rows)
        first = gains_of(self.space, rows, values, 3)
        self.assertEqual(gains_of(self.space, rows, values, 3), first)
        np.testing.assert_allclose(gains_of(self.space, rows, 1024.0 * values, 3), first, rtol=0.11)  # two digits count

    def test_the_outlook_of_a_folder_is_of_its_results_and_its_planned_time(self):
        made = Made(self.folder / "study", 14, confirm=0)
        found = outlook_of(self.folder / "study", 5)
        told = [trial for trial in made.search.finished]
        hours = sum(trial.reached * trial.plan.epoch_seconds for trial in told) / len(told) / 3600.0
        self.assertAlmostEqual(found.hours, hours)
        self.assertEqual(len(found.gains), 5)
        self.assertTrue(0.0 < found.gains[0] < 1.0, found)
        said = subprocess.run([sys.executable, "-B", str(ROOT / "tools/tuner.py"), "--study", str(self.folder / "study"), "--status"],
                              capture_output=True, text=True, check=True).stdout
        self.assertIn(f"a further trial is expected to raise the best by {found.gains[0]:.2%}", said)
        Made(self.folder / "short", LEAST_RESULTS - 1, confirm=0)
        self.assertIsNone(outlook_of(self.folder / "short", 5))
        Made(self.folder / "enough", LEAST_RESULTS, confirm=0)
        self.assertEqual(len(outlook_of(self.folder / "enough", 5).gains), 5)
        self.assertEqual(shares({"a": self.folder / "study", "b": None}, {"a": 1.0, "b": 1.0}, 6.0 * found.hours, 5),
                         {"a": 3.0 * found.hours, "b": 3.0 * found.hours})


class Divide(SeededTest):
    def test_hours_go_where_a_trial_gains_most_for_its_time(self):
        found = divide(100.0, {"a": 1.0, "b": 1.0}, {"a": Outlook((0.1,) * 100, 1.0), "b": Outlook((0.01,) * 100, 1.0)})
        self.assertEqual(found, {"a": 75.0, "b": 25.0})
        # Twice as much for three times the time is less.
        found = divide(100.0, {"a": 1.0, "b": 1.0}, {"a": Outlook((0.2,) * 100, 3.0), "b": Outlook((0.1,) * 100, 1.0)})
        self.assertEqual(found, {"a": 25.0, "b": 75.0})

    def test_gains_that_fall_are_followed_trial_by_trial(self):
        found = divide(12.0, {"a": 1.0, "b": 1.0}, {"a": Outlook((0.8, 0.1, 0.1), 2.0), "b": Outlook((0.4, 0.3, 0.2), 2.0)})
        self.assertEqual(found, {"a": 3.0 + 2.0, "b": 3.0 + 4.0})

    def test_who_is_not_known_has_its_part_by_weight_and_all_hours_are_given(self):
        for _ in range(50):
            names = [f"region {n}" for n in range(self.random.randrange(1, 9))]
            weights = {name: self.random.uniform(0.1, 5.0) for name in names}
            outlooks = {name: Outlook(tuple(sorted((self.random.choice((0.0, self.random.random())) for _ in range(4)), reverse=True)),
                                      self.random.uniform(0.1, 9.0)) for name in names if self.random.random() < 0.6}
            hours = self.random.uniform(1.0, 40.0)
            found = divide(hours, weights, outlooks)
            self.assertAlmostEqual(sum(found.values()), hours)
            self.assertEqual(divide(hours, dict(reversed(weights.items())), outlooks), found)
            for name in names:
                part = hours * weights[name] / sum(weights.values())
                self.assertGreaterEqual(found[name], (0.5 if name in outlooks else 1.0) * part - 1e-9)


if __name__ == "__main__":
    unittest.main()
