#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Steps of networks with convolutions and every pooling function, in NumPy: gradients against differences of the cost, convolution
against loops."""
import random
import unittest

import numpy as np

import reference
from windows import Filters, extents_of

STEP = 1e-6
FUNCTIONS = ("Max", "Average", "LRN", "Maxout", "DotProduct", "Cosine")


def layer(name, sources, kind="Hidden", **keys):
    return {"Name": name, "Kind": kind, "Source": sources, **keys}


class Windows(unittest.TestCase):
    def setUp(self):
        self.seed = random.randrange(2**32)
        print(f"{self.id()}: seed {self.seed}", flush=True)
        self.random, self.draw = random.Random(self.seed), np.random.default_rng(self.seed)

    def window(self, axes, keep=False):
        return {"Kernel": [self.random.choice((1, 3, 5)) for _ in range(axes)],
                "KernelStride": [1 if keep else self.random.choice((1, 2, 3)) for _ in range(axes)]}

    def image(self, axes):
        return {"Name": "In", "Kind": "Input", "N": [self.random.randint(1, 6) for _ in range(axes)] + [self.random.choice((1, 2, 3))]}

    def test_convolution_is_what_loops_give(self):
        for _ in range(30):
            axes = self.random.choice((1, 2, 3))
            image = self.image(axes)
            conv = layer("Conv", ["In"], Type="Convolutional", N=self.random.randint(1, 4), **self.window(axes))
            extent, out = image["N"], extents_of([image, conv])["Conv"]
            filters = Filters(conv, extent)
            x = self.draw.normal(size=(2, np.prod(extent)))
            w = self.draw.normal(size=(filters.channels * np.prod(conv["Kernel"]), out[-1]))
            got = filters.forward(x, w).reshape(2, *out[::-1])
            by_place = x.reshape(2, *extent[::-1])
            by_tap = w.T.reshape(out[-1], extent[-1], *conv["Kernel"][::-1])
            for at in np.ndindex(*out[::-1]):
                expected = sum(by_place[(slice(None), tap[0], *place)] * by_tap[(at[0], *tap)]
                               for tap in np.ndindex(*by_tap.shape[1:])
                               for place in [self.place(conv, extent, at[1:][::-1], tap[1:][::-1])] if place is not None)
                np.testing.assert_allclose(got[(slice(None), *at)], expected, atol=1e-9)

    @staticmethod
    def place(conv, extent, at, tap):
        """(.., y, x) that a tap of a window reads, None outside."""
        place = []
        for width, kernel, stride, window, t in zip(extent, conv["Kernel"], conv["KernelStride"], at, tap):
            padding = (kernel - width + 1) // 2 if width <= kernel else kernel // 2 if stride == 1 else 0
            place.insert(0, stride * window - padding + t)
            if not 0 <= place[0] < width:
                return None
        return place

    def network(self, function):
        """Two convolutions of one size and a pooling layer over both, behind an image; a skip and batch normalisation."""
        axes = self.random.choice((1, 2, 3))
        window, units = self.window(axes), self.random.randint(1, 4)
        layers = [self.image(axes), layer("A", ["In"], Type="Convolutional", N=units, Activation="Tanh", BatchNormalization=True, **window),
                  layer("B", ["In"], Type="Convolutional", N=units, Activation="SoftPlus", Skip=["A"], **window),
                  layer("Pool", ["A", "B"], Type="Pooling", Function=function),
                  layer("Out", ["Pool", "A"], "Output", N=3, Activation="Linear")]
        if function in ("Max", "Average"):
            layers[3].update(self.window(axes))
        return {"ErrorFunction": "L2", "Layers": layers,
                "LRN": {"k": 1, "n": self.random.choice((1, 2, 3, 5)), "alpha": 0.5, "beta": 0.75}}

    def parameters(self, network):
        extents, weights, biases = extents_of(network["Layers"]), {}, {}
        for one in network["Layers"]:
            name = one["Name"]
            if one["Kind"] == "Input" or one.get("Type") == "Pooling":
                continue
            for source in one["Source"]:
                inputs = np.prod(extents[source])
                if one.get("Type") == "Convolutional":
                    inputs = extents[source][-1] * np.prod(one["Kernel"])
                weights[source, name] = self.draw.normal(0, 0.5, (inputs, extents[name][-1]))
            biases[name] = self.draw.normal(size=extents[name][-1])
        return weights, biases, {"A": 1 + 0.1 * self.draw.normal(size=len(biases["A"]))}, {"A": self.draw.normal(size=len(biases["A"]))}

    def test_gradients_are_those_of_the_cost(self):
        compared = 0
        for function in FUNCTIONS:
            for _ in range(4):
                network, rows = self.network(function), self.random.choice((2, 3, 5))
                parameters = self.parameters(network)
                inputs = {"In": self.draw.normal(size=(rows, np.prod(network["Layers"][0]["N"])))}
                output = reference.Output({"dense": True, "width": 3}, self.draw.normal(size=(rows, 3)), np.ones((rows, 3), bool),
                                          np.ones(rows), 3)
                step = lambda: reference.Step(network, inputs, {"Out": output}, parameters)
                first = step()
                for kind, part in zip(("weight", "bias", "scale", "shift"), parameters):
                    for key, values in part.items():
                        name = (kind, *key) if kind == "weight" else (kind, key)
                        self.assertTrue((abs(first.gradients[name]) <= first.magnitudes[name] * (1 + 1e-9) + 1e-12).all(), (function, name))
                        for at in random.Random(self.seed).sample(list(np.ndindex(values.shape)), min(5, values.size)):
                            before = values[at]
                            slopes = []
                            for h in (STEP, -STEP):
                                values[at] = before + h
                                slopes.append((step().cost - first.cost) / h / rows)
                            values[at] = before
                            scale = max(1, abs(first.gradients[name]).max())
                            if abs(slopes[0] - slopes[1]) > 1e-3 * scale:
                                continue  # another unit becomes the largest within the step
                            compared += 1
                            self.assertAlmostEqual(sum(slopes) / 2, first.gradients[name][at], msg=(function, name, at), delta=1e-4 * scale)
        self.assertGreater(compared, 300)


if __name__ == "__main__":
    unittest.main(verbosity=2)
