# SPDX-License-Identifier: Apache-2.0
"""The first step of a factored output layer in float64, from numerics.md: dense, and without its factors."""
import numpy as np

NEWTON_RATE = 0.02
FLOAT32_PRODUCTS = 4  # that stand in a row between activations and weights
FIRST = 1 + 200  # times the damping


def boosts(network, output):
    """DeltaBoost's factors of stored and of absent targets."""
    boost = network.get("DeltaBoost", {"one": 1, "zero": 1})
    return boost["one"], 0 if output.ignores_zero else boost["zero"]


def rates(layers):
    """By the names of factored layers."""
    return {layer["Name"]: layer["Factored"].get("Rate", NEWTON_RATE) for layer in layers if "Factored" in layer}


class Factors:
    """What a step makes of the deltas of a layer. `h`: what it reads, and ones."""

    def __init__(self, network, layer, output, h, w):
        self.one, self.zero = boosts(network, output)
        self.output, self.w, self.h = output, w, h.astype(float)
        self.rate = rates([layer])[layer["Name"]]
        scaled = self.h * np.sqrt(output.weights)
        self.covariance = scaled.T @ scaled / len(h)
        newton = layer["Factored"]["Rule"] == "Newton"
        self.q = self.preconditioner(layer["Factored"].get("Damping", 0.1)) if newton else np.eye(len(self.covariance))

    def preconditioner(self, damping):
        c = self.covariance
        mean = np.trace(c) / len(c)
        return np.linalg.inv(c + FIRST * damping * mean * np.eye(len(c)) + self.rate * max(self.one, 2 * self.zero) * c)

    def share(self):
        """Of all units' way to 0 that a step of gradient descent goes in its longest direction."""
        return self.rate * self.zero * np.linalg.eigvalsh(self.covariance)[-1]

    def sizes(self):
        """Magnitudes of the terms of deltas: of all units and of stored targets, before they cancel."""
        z = np.abs(self.h) @ np.abs(self.w)
        stored = self.output.present * (abs(self.one - self.zero) * z + self.one * np.abs(self.output.target))
        return self.output.weights * (self.zero * z + stored)

    def gradient(self, delta):
        return self.q @ (self.h.T @ delta) / len(delta)

    def magnitude(self):
        return FLOAT32_PRODUCTS * np.abs(self.q) @ (np.abs(self.h).T @ self.sizes()) / len(self.h)

    def cost_terms(self):
        """Of h' W' W h and of what stored targets change of it."""
        z = np.abs(self.h) @ np.abs(self.w)
        everything = (z * z * self.output.weights).sum() * (not self.output.ignores_zero)
        return everything + (self.output.weights * self.output.present * (z * np.abs(self.output.target) + self.output.target ** 2)).sum()


def of_step(step, name, layer):
    """Of a layer of a reference.Step."""
    [source] = layer["Source"]
    y = step.y[source]
    w = np.vstack([step.weights[source, name], step.biases[name][None]]).astype(float)
    return Factors(step.network, layer, step.outputs[name], np.hstack([y, np.ones((len(y), 1), y.dtype)]), w)


def collect(step, name, layer, delta, upstream, sizes):
    """Gradients that the rule has been put into, and the source's delta."""
    factors = of_step(step, name, layer)
    gradient, magnitude = factors.gradient(delta), factors.magnitude()
    [source] = layer["Source"]
    step.keep(("weight", source, name), gradient[:-1], magnitude[:-1])
    step.keep(("bias", name), gradient[-1], magnitude[-1])
    w = step.weights[source, name]
    upstream[source] = upstream[source] + delta @ w.T
    sizes[source] = sizes[source] + FLOAT32_PRODUCTS * factors.sizes() @ np.abs(w).T
    step.cost_terms += FLOAT32_PRODUCTS * factors.cost_terms()
    step.shares[name] = factors.share() if layer["Factored"]["Rule"] == "SGD" else 0.0


def longest(step):
    return max(step.shares.values(), default=0.0)


def settle(settings):
    """Options without what looks at weights or gradients one by one."""
    settled = list(settings)
    for option in ("--lambda", "--lambda1", "--clip-gradient"):
        settled[settled.index(option) + 1] = "0"
    return settled
