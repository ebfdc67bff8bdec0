#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Optuna's samplers: rows of the space, better ones than at random, and what is said where it is not installed."""
import importlib.util
import sys
import unittest
from unittest import mock

import numpy as np

from tuner_case import NETWORK, PARAMETERS, SeededTest
from norn.errors import UsageError
from norn.tune.sampler import Sampler
from norn.tune.search import Result
from norn.tune.space import space_of


class Missing(SeededTest):
    def test_what_is_missing_is_named(self):
        space = space_of({"Parameters": PARAMETERS}, NETWORK, "space.json")
        for kind, missing, said in (("tpe", "optuna",
                                     "--sampler tpe: the Python package optuna is missing; install it (pip install optuna)"),
                                    ("cmaes", "optuna",
                                     "--sampler cmaes: the Python package optuna is missing; install it (pip install optuna cmaes)")):
            with mock.patch.dict(sys.modules, {missing: None}), self.assertRaises(UsageError) as caught:
                Sampler(space, kind, 1, 10)
            self.assertIn(said, str(caught.exception))


@unittest.skipUnless(importlib.util.find_spec("optuna") and importlib.util.find_spec("cmaes"), 
                     "the Python packages optuna and cmaes, which only --sampler tpe and cmaes need, are not installed; pip install optuna "
                     "cmaes")
class Proposals(SeededTest):
    def value(self, row):
        return -float(((row[:3] - 0.3) ** 2).sum()) if row[2] < 0.9 else float("nan")

    def search(self, sampler, trials, results=()):
        """Two at a time: the newest result is not known yet."""
        results = list(results)
        for number in range(len(results), trials):
            row = sampler.propose(number, results[:-1], [])
            results.append(Result(number, row, self.value(row)))
        return results

    def test_rows_are_points_of_the_space_and_become_better(self):
        conditional = space_of({"Parameters": PARAMETERS}, NETWORK, "space.json")
        plain = space_of({"Parameters": {name: {"Range": [0, 1]} for name in "ABCD"}}, NETWORK, "space.json")
        for kind in ("tpe", "cmaes"):
            for result in self.search(Sampler(conditional, kind, self.seed, 4), 12):
                # Values have six digits
                np.testing.assert_allclose(conditional.row(conditional.settings(result.row)), result.row, atol=1e-5)
            found = self.search(Sampler(plain, kind, self.seed, 8), 60)
            first, last = (np.nanmean([result.value for result in part]) for part in (found[:15], found[-15:]))
            self.assertGreater(last, first, kind)

    def test_a_study_that_goes_on_tells_what_was_found_before(self):
        space = space_of({"Parameters": {name: {"Range": [0, 1]} for name in "ABCD"}}, NETWORK, "space.json")
        before = self.search(Sampler(space, "random", self.seed, 0), 40)
        after = self.search(Sampler(space, "tpe", self.seed, 0), 60, before)[40:]
        self.assertGreater(np.nanmean([result.value for result in after]), np.nanmean([result.value for result in before]))


if __name__ == "__main__":
    unittest.main()
