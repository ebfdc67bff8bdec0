#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The model and what is proposed by it: gradients, formulas, and the same proposals on other processors' kernels."""
import hashlib
import os
import pathlib
import subprocess
import sys
import unittest

import numpy as np
from scipy import integrate

from tuner_case import NETWORK, PARAMETERS, ROOT, SeededTest

from norn.tune import acquisition
from norn.tune.draws import Draws, sobol
from norn.tune.gp import GaussianProcess
from norn.tune.space import space_of
from norn.tune.study import ALGORITHM

PINNED = "c9da4b3c238b"  # of sequence(3)
# OpenBLAS takes the kernels that it is told to take, whatever the processor: those that need more end with SIGILL.
KERNELS = {"Nehalem": {"sse4_2"}, "Haswell": {"avx2", "fma"}, "SkylakeX": {"avx512f", "avx512dq", "avx512bw", "avx512vl"}}


def instructions():
    """Of this processor, by the names that Linux gives them; none where it says nothing."""
    path = pathlib.Path("/proc/cpuinfo")
    return set(path.read_text().split()) if path.exists() else set()


class Model(SeededTest):
    def setUp(self):
        super().setUp()
        self.draw = np.random.default_rng(self.seed)

    def points(self, count, width, categories):
        points = self.draw.uniform(size=(count, width))
        points[:, categories] = self.draw.integers(0, 3, (count, int(categories.sum())))
        return points

    def test_the_gradient_is_that_of_differences(self):
        for count, width in ((2, 1), (7, 3), (25, 6)):
            categories = self.draw.uniform(size=width) < 0.4
            process = GaussianProcess(self.points(count, width, categories), self.draw.normal(size=count), categories)
            hyper = np.r_[self.draw.uniform(-1.5, 1.5, width), self.draw.uniform(-1, 1), self.draw.uniform(-5, -1)]
            _, gradient = process._loss(hyper)
            for at in range(width + 2):
                step = np.zeros(width + 2)
                step[at] = 1e-5
                difference = (process._loss(hyper + step)[0] - process._loss(hyper - step)[0]) / 2e-5
                self.assertAlmostEqual(gradient[at], difference, delta=1e-5 * max(1.0, abs(difference)))

    def test_predictions_are_those_of_the_formula(self):
        categories = np.array([False, True, False])
        points, targets = self.points(9, 3, categories), self.draw.normal(size=9)
        process = GaussianProcess(points, targets, categories)
        rows = self.points(5, 3, categories)

        def kernel(a, b):
            distance = np.sqrt(sum((float(x != y) if c else (x - y) ** 2) / l**2 for x, y, c, l in zip(a, b, categories, process.lengths)))
            return process.amplitude * (1 + np.sqrt(5) * distance + 5 / 3 * distance**2) * np.exp(-np.sqrt(5) * distance)

        noise = np.exp(process.hyper[-1]) + 1e-8
        inner = np.linalg.inv(np.array([[kernel(a, b) for b in points] for a in points]) + noise * np.eye(9))
        outer = np.array([[kernel(row, point) for point in points] for row in rows])
        mean, variance = process.predict(rows)
        np.testing.assert_allclose(mean, outer @ inner @ targets, atol=1e-8)
        np.testing.assert_allclose(variance, [kernel(r, r) - o @ inner @ o for r, o in zip(rows, outer)], atol=1e-8)

    def test_log_improvement_is_the_logarithm_of_the_integral(self):
        for z in (-8.0, -3.0, -1.0, -0.99, 0.0, 2.0, 6.0):
            integral, _ = integrate.quad(lambda x: (x + z) * np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi), -z, 40.0, epsabs=0.0, limit=200)
            self.assertAlmostEqual(float(acquisition.log_improvement(np.array([z]))[0]), np.log(integral), delta=1e-6)
        far = acquisition.log_improvement(np.linspace(-1e6, -1.0, 10001))
        self.assertTrue(np.all(np.isfinite(far)) and np.all(np.diff(far) > 0))

    def test_targets_keep_the_order_and_failures_are_the_worst(self):
        for _ in range(50):
            values = self.draw.choice([self.draw.normal(size=12), self.draw.standard_cauchy(12), np.round(self.draw.normal(size=12))])
            values[self.draw.uniform(size=12) < 0.2] = np.nan
            found = acquisition.targets(values)
            good = np.isfinite(values)
            self.assertTrue(np.all(np.isfinite(found)))
            if good.any() and not good.all():
                self.assertLess(found[~good].max(), found[good].min() + 1e-12)
            for a in np.flatnonzero(good):
                for b in np.flatnonzero(good):
                    if values[a] < values[b]:
                        self.assertLessEqual(found[a], found[b])
        self.assertEqual(acquisition.targets(np.array([np.nan, np.nan])).tolist(), [0.0, 0.0])
        same = acquisition.targets(np.array([2.0, np.nan, 2.0]))
        self.assertEqual(same[0], same[2])
        self.assertLess(same[1], same[0], "what failed is worse than all that did not, though these are all the same")
        self.assertEqual(acquisition.targets(np.array([3.0])).tolist(), [0.0])

    def test_sobol_points_fill_evenly(self):
        points = sobol(64, Draws(self.seed, 1).uniform(5))
        for column in points.T:
            self.assertEqual(np.bincount((column * 8).astype(int), minlength=8).tolist(), [8] * 8) if np.all(column < 1) else None
        np.testing.assert_array_equal(sobol(10, np.zeros(3)), sobol(64, np.zeros(3))[:10])

    def test_draws_are_those_of_philox(self):
        raw = np.random.Philox(key=np.array([7, (2 << 48) | 5], dtype=np.uint64)).random_raw(4)
        self.assertEqual(Draws(7, 2, 5).uniform(4).tolist(), [(int(x) >> 11) / 2**53 for x in raw])
        self.assertTrue(np.all(np.abs(Draws(1, 2).normal(10000)) < 10))

    def test_with_many_results_the_best_and_the_newest_are_fitted(self):
        values = self.draw.normal(size=1000)
        chosen = acquisition.chosen_points(values)
        self.assertEqual(len(set(chosen)), acquisition.FIT_LIMIT)
        self.assertLessEqual(set(range(800, 1000)) | set(np.argsort(-values[:800])[:200]), set(chosen))


def sequence(seed, count=22):
    """A hash of proposals of a search with conditions, categories and failures."""
    space = space_of({"Parameters": PARAMETERS}, NETWORK, "space.json")
    rows, values = [], []
    for number in range(count):
        if number < 8:
            row = acquisition.start_row(space, seed, number)
        else:
            row = acquisition.model_row(space, np.array(rows[:-2]), np.array(values[:-2]), np.array(rows[-2:]), seed, number)
        rows.append(row)
        values.append(float("nan") if row[1] == 1.0 and row[0] > 0.7 else round(-float(np.sum((row[:1] - 0.4) ** 2) + row[5] * 0.3), 9))
    return hashlib.sha256(np.array(rows).tobytes()).hexdigest()[:12]


class SameProposals(unittest.TestCase):
    def test_they_are_the_ones_that_they_were(self):
        """A study of this ALGORITHM is made again by other builds of numpy and scipy, and on other machines."""
        self.assertEqual((sequence(3), ALGORITHM), (PINNED, 4))

    def test_on_other_kernels_and_threads_they_have_the_same_bits(self):
        program = "import sys; sys.path.insert(0, sys.argv[1]); import proposals_test; print(proposals_test.sequence(3))"
        found = {}
        ways = {name: {"OPENBLAS_CORETYPE": name} for name, needed in KERNELS.items() if needed <= instructions()}
        for name, settings in {"as it is": {}, **ways, "two threads": {"OPENBLAS_NUM_THREADS": "2"},
                               "plain numpy": {"NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL "
                                                                           "AVX512_ICL"},
                               }.items():
            done = subprocess.run([sys.executable, "-B", "-W", "ignore", "-c", program, str(ROOT / "tests/tuner")], capture_output=True,
                                  text=True,
                                  env={**os.environ, "OPENBLAS_NUM_THREADS": "1", **settings})
            self.assertEqual(done.returncode, 0, (name, done.stderr))
            found[name] = done.stdout.strip()
        self.assertEqual(set(found.values()), {found["as it is"]}, found)


if __name__ == "__main__":
    unittest.main()
