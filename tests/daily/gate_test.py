#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The gate's judgement: the bound of the ratio holds as often as it says, and what is weak, short or worse does not pass."""
import hashlib
import unittest

from daily_case import DailyTest

import numpy as np

from norn import _bootstrap as bootstrap
from norn.daily.gate_step import judge

RULES = {"Metric": "ndcg@20", "MinRatio": 0.98, "MinExamples": 100, "Floor": "popularity"}


class GateTest(DailyTest):
    def setUp(self):
        super().setUp()
        self.numbers = np.random.default_rng(self.seed)

    def pair(self, count, factor, noise=0.2):
        """Values of two models whose true ratio is `factor`, which agree on what is easy."""
        easy = self.numbers.beta(0.6, 0.8, count)
        return easy * factor * (1 + noise * self.numbers.uniform(-1, 1, count)), easy * (1 + noise * self.numbers.uniform(-1, 1, count))

    def test_the_bound_is_below_the_true_ratio_as_often_as_it_says(self):
        below = [bootstrap.lower_bound(*self.pair(150, 0.95)) <= 0.95 for _ in range(200)]
        self.assertGreater(np.mean(below), 0.86, "of 95 % expected")
        wrong = [bootstrap.lower_bound(*self.pair(150, 0.95)) > 0.97 for _ in range(60)]
        self.assertLess(np.mean(wrong), 0.1, "of 0.4 % expected")

    def test_more_examples_bring_the_bound_closer_and_groups_of_examples_change_little(self):
        gaps = [bootstrap.ratio(*pair) - bootstrap.lower_bound(*pair) for pair in (self.pair(count, 1.0) for count in (40_000, 100))]
        self.assertGreater(gaps[1], 5 * gaps[0])
        self.assertGreater(gaps[0], 0.0)
        ours, theirs = self.pair(3 * 1024 + 5, 1.0)
        self.assertAlmostEqual(bootstrap.lower_bound(ours, theirs, 1024), bootstrap.lower_bound(ours, theirs), delta=0.004)

    def test_it_is_a_function_of_the_values(self):
        ours = (np.arange(500) * 7919 % 100) / 100
        theirs = (np.arange(500) * 104729 % 97) / 100
        found = [bootstrap.lower_bound(ours, theirs) for _ in range(2)]
        self.assertEqual(found[0], found[1])
        drawn = bootstrap._draws(1000, 4096, 5)
        self.assertEqual((drawn.min() >= 0, drawn.max() < 4096), (True, True))
        self.assertEqual(hashlib.sha256(drawn.astype("<i8").tobytes()).hexdigest()[:16], "d286b9736ed643eb")

    def verdict(self, new, popularity, old=None, **rules):
        def number(values):
            return dict(enumerate(map(float, values)))
        return judge({**RULES, **rules}, number(new), number(popularity), None if old is None else number(old))

    def test_a_better_model_passes_and_a_worse_one_does_not(self):
        new, old = self.pair(3000, 1.1)
        self.assertEqual(self.verdict(new, old * 0.5, old)["why"], [])
        worse = self.verdict(old * 0.9, old * 0.5, old)
        self.assertFalse(worse["passed"])
        self.assertIn("may be worse than the model in service", worse["why"][0])
        self.assertEqual(worse["serving"]["ratio"], 0.9)

    def test_as_good_a_model_passes_where_there_are_enough_examples_to_know(self):
        new, old = self.pair(20_000, 1.0)
        self.assertTrue(self.verdict(new, old * 0.5, old)["passed"])
        self.assertTrue(self.verdict(old, old * 0.5, old)["passed"], "the same model")
        few, others = self.pair(110, 1.0, noise=0.9)
        few *= others.sum() / few.sum()  # as good in the sample, to the last digits: what is missing is certainty
        self.assertFalse(self.verdict(few, others * 0.1, others, MinRatio=0.999)["passed"])

    def test_too_few_examples_and_a_floor_hold_a_model_back(self):
        new, old = self.pair(99, 1.2)
        self.assertIn("99 examples have something held out, and MinExamples is 100", self.verdict(new, old * 0.5)["why"])
        new, popularity = self.pair(2000, 0.9)
        self.assertIn("not surely better than popularity", self.verdict(new, popularity)["why"][0])
        self.assertTrue(self.verdict(new, popularity, Floor=None)["passed"])
        self.assertTrue(self.verdict(new, popularity, Floor=0.1)["passed"])
        self.assertIn("is below the Floor of 0.99", self.verdict(new, popularity, Floor=0.99)["why"][0])

    def test_examples_that_one_model_knows_nothing_of_count_as_nothing_found(self):
        rules = {**RULES, "MinExamples": 1, "Floor": None}
        found = judge(rules, {0: 0.5, 1: 0.5, 7: 0.5}, {0: 0.1}, {0: 0.5, 1: 0.5})
        self.assertAlmostEqual(found["serving"]["mean"], 1 / 3)
        self.assertAlmostEqual(found["serving"]["ratio"], 1.5)
        nothing = judge(rules, {0: 0.0, 1: 0.0}, {0: 0.0, 1: 0.0}, {0: 0.0, 1: 0.0})
        self.assertEqual(nothing["serving"]["ratio"], 1.0)
        self.assertGreater(judge(rules, {0: 0.1, 1: 0.1}, {}, {0: 0.0, 1: 0.0})["serving"]["ratio"], 1e6)


if __name__ == "__main__":
    unittest.main()
