#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the comparison of a step with float64 takes for right and for wrong, on updates made here."""
import random
import types
import unittest

import numpy as np

import one_step
from cases import Finding

BOUND = 0.3
SOURCES = ("A", "B")
LAYERS = [{"Name": "A", "Kind": "Input"}, {"Name": "B", "Kind": "Input"}, {"Name": "H", "Source": list(SOURCES), "WeightNorm": BOUND}]
SETTINGS = ("--optimizer", "SGD", "--rate", "0.1")


class Updates(unittest.TestCase):
    def setUp(self):
        self.seed = random.randrange(2**32)
        print(f"{self.id()}: seed {self.seed}", flush=True)
        self.draw = np.random.default_rng(self.seed)

    def drawn(self, noise):
        """(step, steps a little off, parameters): gradients known to `noise` times themselves."""
        units = int(self.draw.integers(1, 9))
        weights = {(source, "H"): self.draw.normal(size=(int(self.draw.integers(1, 9)), units)) for source in SOURCES}
        scale = 10 ** self.draw.uniform(-2, 3)
        gradients = {("weight", *key): scale * self.draw.normal(size=value.shape) for key, value in weights.items()}
        gradients["bias", "H"] = scale * self.draw.normal(size=units)
        step = types.SimpleNamespace(gradients=gradients, magnitudes={key: np.abs(g) for key, g in gradients.items()})
        off = types.SimpleNamespace(gradients={key: g * (1 + noise / 10) for key, g in gradients.items()})
        return step, [off], (weights, {"H": self.draw.normal(size=units)}, {}, {})

    def after(self, step, parameters, noise):
        """What a program may have, whose gradients are anywhere within the noise: half of them at its ends."""
        draw_side = lambda g: self.draw.choice((-1, 1), g.shape) if self.draw.random() < 0.5 else self.draw.uniform(-1, 1, g.shape)
        before = one_step.keyed(parameters)
        after = {key: before[key] - 0.1 * (g + noise * np.abs(g) * draw_side(g)) for key, g in step.gradients.items()}
        keys = [("weight", source, "H") for source in SOURCES]
        norm = np.sqrt(sum((after[key] ** 2).sum(axis=0) for key in keys))
        for key in keys:
            after[key] = after[key] * np.minimum(1, BOUND / norm)
        return {key: value.astype(np.float32).astype(float) for key, value in after.items()}

    def test_bounded_weights_within_the_noise_of_all_their_gradients_are_right(self):
        for _ in range(300):
            noise = 10 ** self.draw.uniform(-5, 1)
            step, off, parameters = self.drawn(noise)
            one_step.check_updates(step, off, parameters, self.after(step, parameters, noise), SETTINGS, LAYERS)

    def test_a_weight_beyond_it_is_wrong(self):
        for _ in range(300):
            step, off, parameters = self.drawn(1e-6)
            after = self.after(step, parameters, 1e-6)
            key = ("weight", str(self.draw.choice(SOURCES)), "H")
            at = tuple(int(self.draw.integers(size)) for size in after[key].shape)
            after[key][at] += float(self.draw.choice((-0.1, 0.1))) * BOUND
            with self.assertRaises(Finding):
                one_step.check_updates(step, off, parameters, after, SETTINGS, LAYERS)

    def test_weights_that_were_not_bounded_are_wrong(self):
        step, off, parameters = self.drawn(1e-6)
        after = self.after(step, parameters, 1e-6)
        for source in SOURCES:
            after["weight", source, "H"] *= 1.01
        with self.assertRaises(Finding):
            one_step.check_updates(step, off, parameters, after, SETTINGS, LAYERS)


if __name__ == "__main__":
    unittest.main(verbosity=2)
