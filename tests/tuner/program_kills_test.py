#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The real tuner and its trials, killed with -9 at random: what comes of it is what an undisturbed study decides.
tests/bench/tuner_kills.py makes a longer one."""
import sys
import unittest

from killed_study import KilledStudy
from tuner_case import SeededTest


class Kills(SeededTest):
    def test_each_trial_is_told_once_and_nothing_is_decided_otherwise(self):
        study = KilledStudy(self.folder, 3, self.random)
        study.run(15, 8)
        print(f"killed: {study.struck}", file=sys.stderr)
        study.check(15)
        self.assertGreaterEqual(sum(study.struck.values()), 2)


if __name__ == "__main__":
    unittest.main()
