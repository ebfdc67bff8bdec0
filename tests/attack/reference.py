# SPDX-License-Identifier: Apache-2.0
"""A training step in float64, from the formulas of docs/user/numerics.md: cost, deltas and gradients of a network in NumPy, whose
layers stand in an order in which they can be computed."""
import copy
import math

import numpy as np

import factors
from windows import Filters, Pooling, extents_of

FLOOR = 1e-12  # ln is of at least that
LRN = {"k": 2, "n": 5, "alpha": 1e-4, "beta": 0.75}
SELU_LAMBDA, SELU_ALPHA = float(np.float32(1.05070099)), float(np.float32(1.67326324))


ERF = np.vectorize(math.erf, otypes=[float])


def normal_below(z):
    return (1 + ERF(z / math.sqrt(2))) / 2


def sigmoid(z):
    return 0.5 * (1 + np.tanh(0.5 * z))


def activate(name, z):
    negative = np.minimum(z, 0)
    if name == "SoftMax":
        e = np.exp(z - z.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)
    return {"Linear": lambda: z, "Sigmoid": lambda: sigmoid(z), "Tanh": lambda: np.tanh(z), "Relu": lambda: np.maximum(z, 0),
            "LRelu": lambda: np.where(z > 0, z, float(np.float32(0.01)) * z), "ELU": lambda: np.where(z > 0, z, np.expm1(negative)),
            "SELU": lambda: SELU_LAMBDA * np.where(z > 0, z, SELU_ALPHA * np.expm1(negative)),
            "SoftPlus": lambda: np.logaddexp(0, z), "SoftSign": lambda: z / (1 + np.abs(z)),
            "GELU": lambda: z * normal_below(z), "Swish": lambda: z * sigmoid(z)}[name]()


def slope(name, z, y):
    positive = z > 0
    return {"Linear": lambda: np.ones_like(z), "Sigmoid": lambda: y * (1 - y), "Tanh": lambda: 1 - y * y,
            "Relu": lambda: positive * 1.0, "LRelu": lambda: np.where(positive, 1, float(np.float32(0.01))),
            "ELU": lambda: np.where(positive, 1, y + 1), "SELU": lambda: np.where(positive, SELU_LAMBDA, y + SELU_LAMBDA * SELU_ALPHA),
            "SoftPlus": lambda: sigmoid(z), "SoftSign": lambda: (1 - np.abs(y)) ** 2,
            "GELU": lambda: normal_below(z) + z * np.exp(-z * z / 2) / math.sqrt(2 * math.pi),
            "Swish": lambda: sigmoid(z) * (1 + z * (1 - sigmoid(z)))}[name]()


def through(name, z, y, d):
    """d cost / d z from d cost / d y, and a magnitude of its terms."""
    if name == "SoftMax":
        return y * (d - (d * y).sum(axis=1, keepdims=True)), y * (np.abs(d) + (np.abs(d) * y).sum(axis=1, keepdims=True))
    f = slope(name, z, y).astype(y.dtype)
    return d * f, np.abs(d * f)


def logs(y):
    """ln and its slope, both guarded."""
    return np.log(np.maximum(y, FLOOR)), np.where(y > FLOOR, 1 / np.maximum(y, FLOOR), 0)


def element_loss(name, y, t, one, margins):
    """cost and d cost / d y; `one`: which targets count as ones (of the marginal losses)."""
    if name == "L1":
        return np.abs(y - t), np.sign(y - t)
    if name == "L2":
        return (y - t) ** 2 / 2, y - t
    if name == "L2Hinge":
        d = np.where(t > 0, np.minimum(0, y - np.abs(t)), np.maximum(0, y - np.abs(t)))
        return d * d / 2, d
    if name == "Huber":  # Delta 1
        d = np.abs(y - t)
        return np.where(d <= 1, d * d / 2, d - 0.5), np.clip(y - t, -1, 1)
    if name == "Hinge":
        return np.maximum(0, 1 - t * y), np.where(1 - t * y > 0, -t, 0)
    ln_y, inverse_y = logs(y)
    ln_rest, inverse_rest = logs(1 - y)
    if name == "CrossEntropy":
        return -t * ln_y - (1 - t) * ln_rest, (1 - t) * inverse_rest - t * inverse_y
    weight = np.where(one, margins["oneScale"] * (t if name.startswith("Data") else 1.0), margins["zeroScale"])
    counts = np.where(one, y < margins["oneTarget"], y > margins["zeroTarget"])
    return counts * weight * np.where(one, -ln_y, -ln_rest), counts * weight * np.where(one, -inverse_y, inverse_rest)


def is_convolution(layer):
    return layer.get("Type") == "Convolutional" and layer["Kind"] != "Input"


def nudged(parameters, draw):
    """All of them a little off."""
    return {key: value * (1 + 3e-7 * draw.sign(value.shape)) + 1e-8 * draw.sign(value.shape) for key, value in parameters.items()}


class Draw:
    """Signs by a seed; the same with the other `side` are all the opposite ones, so that whoever stands at a kink is seen on either
    side of it."""

    def __init__(self, seed, side):
        self.chooser, self.side = np.random.default_rng(seed), side

    def sign(self, shape):
        return self.side * self.chooser.choice((-1, 1), shape)


def entry_weights(law, values):
    """What entries of these values count for."""
    alpha, epsilon = law.get("Alpha", 1.0), law.get("Epsilon", 1.0)
    by_scheme = {"Value": values, "Linear": 1 + alpha * values, "Log": 1 + alpha * np.log1p(values / epsilon)}
    return np.float64(np.float32(by_scheme[law["Scheme"]]))


class Output:
    """Targets of a layer: t, which are stored, and the weights of its examples and, by `law`, of its entries."""

    def __init__(self, one, values, present, weights, units, law=None):
        more = ((0, 0), (0, units - one["width"]))
        self.target, self.present = np.pad(values, more), np.pad(present, more)
        self.weights = weights[:, None]
        self.sparse = "dense" not in one
        self.boolean = self.sparse and "values" not in one
        self.entries = np.ones(self.target.shape)
        if law:
            self.entries = np.where(self.present, entry_weights(law, self.target), 1.0)
            self.target, self.boolean = self.present * 1.0, True
        self.weighted = "weights" in one
        self.ignores_zero = one.get("ignore_zero", False)

    def of(self, stored):
        """The same with `stored` of its numbers."""
        other = copy.copy(self)
        other.target, other.weights, other.entries = stored(self.target), stored(self.weights), stored(self.entries)
        return other

    def probabilities(self, network):
        """p of SoftMax's cross entropies."""
        loss = network["ErrorFunction"]
        stored_are_ones = self.boolean or loss == "ScaledMarginalCrossEntropy"
        if stored_are_ones and not self.weighted and loss != "DataScaledMarginalCrossEntropy" \
                and network.get("TargetWeight") != "One":
            return (self.present / np.maximum(1, self.present.sum(axis=1, keepdims=True))).astype(self.target.dtype) * self.entries
        p = np.where(self.present, 1.0 if stored_are_ones else self.target, 0.0).astype(self.target.dtype) * self.entries
        return p if loss == "DataScaledMarginalCrossEntropy" else p * self.weights

    def loss(self, network, activation, z, y):
        """(cost of every element, delta, magnitude of the delta's terms, what the cost changes by per share of y)."""
        loss = network["ErrorFunction"]
        margins = network.get(loss)
        boost = network.get("DeltaBoost", {"one": 1, "zero": 1}) if self.sparse else {"one": 1, "zero": 1}
        boost = np.where(self.present, boost["one"], boost["zero"]).astype(y.dtype)
        if activation == "SoftMax" and loss.endswith("CrossEntropy"):
            p = self.probabilities(network)
            if margins:
                let_go = (y >= margins["oneTarget"]) & (margins["oneTarget"] < 1)
                p = np.where(let_go, 0, p * margins["oneScale"])
            all_p = p.sum(axis=1, keepdims=True)
            return -p * logs(y)[0], boost * (y * all_p - p), boost * (y * all_p + np.abs(p)), p
        one = self.present & (self.target != 0 if not self.sparse else True)
        cost, d = (part.astype(y.dtype) for part in element_loss(loss, y, self.target, one, margins))
        factor = self.weights * self.entries * (self.present | (not self.ignores_zero))
        if activation == "Sigmoid" and loss == "CrossEntropy":  # exact where y rounds to 0 or 1
            cost, delta = np.logaddexp(0, z) - self.target * z, y - self.target
            magnitude = np.abs(y) + np.abs(self.target)
            return cost * factor, delta * factor * boost, magnitude * factor * boost, delta * factor
        delta, magnitude = through(activation, z, y, d * factor)  # the boost is the unit's own: a sum over the row is without
        return cost * factor, delta * boost, magnitude * boost, d * y * factor


def bound_rows(delta, magnitude, bound):
    norm = np.sqrt((delta * delta).sum(axis=1, keepdims=True, dtype=float))
    shrink = np.where(norm > bound, bound / np.maximum(norm, 1e-300), 1).astype(delta.dtype)
    return delta * shrink, magnitude * shrink


def mean(x):
    """Over the batch, in float64: a column's sum is."""
    return x.mean(axis=0, dtype=float)


class Step:
    """One step over one batch: inputs {layer: [B x units]}, outputs {layer: Output}, weights {(from, to): matrix}, biases {layer:
    vector}, scales and shifts of batch normalisation {layer: vector}. `draw` (a Draw): everything is computed in float32,
    from parameters and units that are a last digit off, as it draws them. That is how much of the result is rounding."""

    def __init__(self, network, inputs, outputs, parameters, draw=None):
        self.network, self.draw = network, draw
        self.weights, self.biases, self.scales, self.shifts = (
            {key: self.stored(value) for key, value in (nudged(part, draw) if draw else part).items()} for part in parameters)
        self.layers = {layer["Name"]: layer for layer in network["Layers"]}
        extents = extents_of(network["Layers"])
        self.filters = {(source, name): Filters(layer, extents[source]) for name, layer in self.layers.items() if is_convolution(layer)
                        for source in layer["Source"]}
        self.pooling = {name: Pooling(layer, [extents[source] for source in layer["Source"]], LRN | network.get("LRN", {}))
                        for name, layer in self.layers.items() if layer.get("Type") == "Pooling"}
        self.channels = {name: extents[name][-1] for name, layer in self.layers.items() if is_convolution(layer)}
        self.outputs = {name: output.of(self.stored) for name, output in outputs.items()}
        self.z, self.y, self.normal, self.deviation = {}, {name: self.stored(x) for name, x in inputs.items()}, {}, {}
        self.cost, self.cost_terms, self.shake = 0.0, 0.0, 0.0
        self.gradients, self.magnitudes, self.shares = {}, {}, {}
        self.forward()
        self.backward()

    def stored(self, x):
        return x.astype(np.float32) if self.draw else x

    def computed(self, y):
        """Units as an activation may leave them: its last digit is its own, the same for equal rows; 0 and 1 are what they are."""
        if not self.draw:
            return y
        y = y.astype(np.float32)
        beside = np.nextafter(y, (np.inf * self.draw.sign(y.shape[1])).astype(np.float32))
        return np.where((y == 0) | (np.abs(y) == 1), y, beside)

    def forward(self):
        for name, layer in self.layers.items():
            if layer["Kind"] == "Input":
                continue
            if name in self.pooling:
                self.z[name] = self.y[name] = self.pooling[name].forward([self.y[s] for s in layer["Source"]])
                continue
            z = sum(self.product(s, name) for s in layer["Source"])
            z = self.rows(name, z + sum(self.y[s] for s in layer.get("Skip", []))) + self.biases[name]
            if layer.get("BatchNormalization"):
                if self.draw:  # rows that are equal may come out of a product a last digit apart, and be all that is left
                    z = z * (1 + self.stored(2.0 ** -23 * self.draw.sign(z.shape)))
                self.deviation[name] = self.stored(np.sqrt(z.var(axis=0, dtype=float) + 1e-5))
                self.normal[name] = self.stored(z - z.mean(axis=0, dtype=float)) / self.deviation[name]
                z = self.normal[name] * self.scales[name] + self.shifts[name]
            z = self.units(name, z)
            self.z[name], self.y[name] = z, self.computed(activate(layer["Activation"], z))

    def product(self, source, name):
        x, w = self.y[source], self.weights[source, name]
        return self.filters[source, name].forward(x, w) if name in self.channels else x @ w

    def rows(self, name, x):
        """[examples x units], of a convolution [examples and places x channels]."""
        if name not in self.channels:
            return x
        return x.reshape(len(x), self.channels[name], -1).transpose(0, 2, 1).reshape(-1, self.channels[name])

    def units(self, name, x):
        """The other way round."""
        if name not in self.channels:
            return x
        examples = len(next(iter(self.y.values())))
        return x.reshape(examples, -1, self.channels[name]).transpose(0, 2, 1).reshape(examples, -1)

    def penalty(self, layer, y):
        settings = self.network.get("SparsenessPenalty")
        if not settings or not layer.get("Sparse") or layer["Kind"] != "Hidden":
            return 0.0
        rho = np.clip(y.mean(axis=0), 1e-6, 1 - 1e-6)
        return settings["beta"] * (-settings["p"] / rho + (1 - settings["p"]) / (1 - rho))

    def backward(self):
        upstream = {name: 0.0 for name in self.layers}
        sizes = {name: 0.0 for name in self.layers}
        for name, layer in reversed(self.layers.items()):
            if layer["Kind"] == "Input":
                continue
            if name in self.pooling:
                parts = self.pooling[name].backward([self.y[s] for s in layer["Source"]], upstream[name], sizes[name])
                for source, (delta, size) in zip(layer["Source"], parts):
                    upstream[source], sizes[source] = upstream[source] + delta, sizes[source] + size
                continue
            z, y = self.z[name], self.y[name]
            if layer["Kind"] == "Output":
                cost, delta, size, shake = self.outputs[name].loss(self.network, layer["Activation"], z, y)
                self.cost += cost.sum(dtype=float)
                self.shake += (shake * shake).sum(dtype=float)
                self.cost_terms += np.abs(cost).sum(dtype=float)
            else:
                d = upstream[name] + self.penalty(layer, y)
                delta, _ = through(layer["Activation"], z, y, d)
                _, size = through(layer["Activation"], z, y, sizes[name] + np.abs(self.penalty(layer, y)))
                size = np.maximum(np.abs(size), np.abs(delta))
                if layer["Activation"] == "SoftMax":
                    total = sizes[name] + np.abs(self.penalty(layer, y))
                    size = y * (total + (total * y).sum(axis=1, keepdims=True))
            if layer.get("DeltaNorm"):
                delta, size = bound_rows(delta, size, layer["DeltaNorm"])
            if layer.get("BatchNormalization"):
                normal = self.through_normalisation(name, self.rows(name, delta), self.rows(name, size))
                delta, size = (self.units(name, part) for part in normal)
            if "Factored" in layer:
                factors.collect(self, name, layer, delta, upstream, sizes)
            else:
                self.collect(name, layer, delta, size, upstream, sizes)

    def through_normalisation(self, name, delta, size):
        x = self.normal[name]
        places = len(delta) // len(self.y[name])  # gradients are sums over them, and means over examples
        self.keep(("scale", name), places * mean(delta * x), places * mean(size * np.abs(x)))
        self.keep(("shift", name), places * mean(delta), places * mean(size))
        d, m = delta * self.scales[name], size * np.abs(self.scales[name])
        inner = d - self.stored(mean(d)) - x * self.stored(mean(d * x))
        outer = m + mean(m) + np.abs(x) * mean(m * np.abs(x))
        return inner / self.deviation[name], outer / self.deviation[name]

    def collect(self, name, layer, delta, size, upstream, sizes):
        batch = len(delta)
        of_units, sizes_of_units = self.rows(name, delta), self.rows(name, size)
        places = len(of_units) // batch
        self.keep(("bias", name), places * mean(of_units), places * mean(sizes_of_units))
        for source in layer["Source"]:
            w, y = self.weights[source, name], self.y[source]
            if name in self.channels:
                filters = self.filters[source, name]
                self.keep(("weight", source, name), filters.gradient(y, delta) / batch, filters.gradient(np.abs(y), size) / batch)
                upstream[source] = upstream[source] + filters.input_delta(delta, w)
                sizes[source] = sizes[source] + filters.input_delta(size, np.abs(w))
                continue
            self.keep(("weight", source, name), y.T @ delta / batch, np.abs(y).T @ size / batch)
            upstream[source] = upstream[source] + delta @ w.T
            sizes[source] = sizes[source] + size @ np.abs(w).T
        for source in layer.get("Skip", []):
            upstream[source] = upstream[source] + delta
            sizes[source] = sizes[source] + size

    def keep(self, key, gradient, magnitude):
        self.gradients[key], self.magnitudes[key] = gradient, magnitude


def first_step(rule, h, rate, mu, mu1):
    """What is added to a parameter in the first step of a rule, from the gradient with its regularisation."""
    if rule in ("SGD", "Momentum"):
        return -rate * h
    if rule == "Nesterov":
        return -rate * h * (1 + mu)
    if rule == "AdaGrad":
        return -rate * h / np.sqrt(np.maximum(1e-9, h * h))
    if rule == "RMSProp":
        return -rate * h / np.sqrt(np.maximum(1e-9, (1 - mu) * h * h))
    if rule == "AdaDelta":
        return -h * np.sqrt(1e-9 / np.maximum(1e-9, (1 - mu) * h * h))
    m, v = (1 - mu) * h, (1 - mu1) * h * h
    return -rate * (m / (1 - mu)) / (np.sqrt(v / (1 - mu1)) + 1e-8)


def rounded_steps(network, inputs, outputs, parameters, draw, pairs):
    """Steps in float32, two and two with the opposite signs."""
    seeds = draw.integers(2**63, size=pairs)
    return [Step(network, inputs, outputs, parameters, Draw(seed, side)) for seed in seeds for side in (-1, 1)]
