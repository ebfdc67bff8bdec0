# SPDX-License-Identifier: Apache-2.0
"""Random networks with random weights, random data for them, and what they compute, in float64: docs/user/numerics.md."""
import math

import numpy as np

# Of the activations and their parameters by default.
DEFAULTS = {"LRelu": {"RELUSlope": 0.01}, "ELU": {"ELUAlpha": 1.0}, "SELU": {"ELUAlpha": 1.67326324, "SELULambda": 1.05070099},
            "Swish": {"SwishBeta": 1.0}}
_erf = np.vectorize(math.erf)
FORMULAS = {
    "Linear": lambda z, p: z,
    "Sigmoid": lambda z, p: 1 / (1 + np.exp(-z)),
    "Tanh": lambda z, p: np.tanh(z),
    "Relu": lambda z, p: np.maximum(z, 0),
    "LRelu": lambda z, p: np.where(z > 0, z, p["RELUSlope"] * z),
    "ELU": lambda z, p: np.where(z > 0, z, p["ELUAlpha"] * np.expm1(z)),
    "SELU": lambda z, p: p["SELULambda"] * np.where(z > 0, z, p["ELUAlpha"] * np.expm1(z)),
    "SoftPlus": lambda z, p: np.logaddexp(0, z),
    "SoftSign": lambda z, p: z / (1 + abs(z)),
    "GELU": lambda z, p: z * (1 + _erf(z / math.sqrt(2))) / 2,
    "Swish": lambda z, p: z / (1 + np.exp(-p["SwishBeta"] * z)),
    "SoftMax": lambda z, p: np.exp(z - z.max(1, keepdims=True)) / np.exp(z - z.max(1, keepdims=True)).sum(1, keepdims=True),
}


def listed(value):
    return [] if value is None else value if isinstance(value, list) else [value]


class RandomNetwork:
    """`descriptor` and `parameters` as norn.Network has them. `plain`: what other formats have too: no weights of features, no shared
    weights, no normalised input. `dense`: inputs may be skipped to. `words`: activations that are drawn; `parametric`: those whose
    parameters are."""

    def __init__(self, random, outputs=1, plain=False, inputs=None, dense=False, words=tuple(FORMULAS), parametric=tuple(DEFAULTS),
                 norms=True):
        self.random = random
        self.plain, self.words, self.parametric, self.norms = plain, words, parametric, norms
        self.layers = []
        self.matrices = {}
        for i in range(random.integers(1, 3) if inputs is None else inputs):
            self.add({"Name": f"In {i}", "Kind": "Input", "N": int(random.integers(3, 40)), "DataSet": f"set_{i}"})
        for i in range(random.integers(1, 5)):
            self.hidden(f"Hidden{i}", dense)
        for i in range(outputs):
            self.computed(f"Out{i}", "Output", {"DataSet": f"out_{i}"})
        self.prepare_inputs()
        self.descriptor = {"Name": "random", "ErrorFunction": "L2", "Layers": self.layers}
        self.parameters = self.draw()

    def add(self, layer):
        self.layers.append(layer)
        return layer

    def some(self, chance):
        return self.random.random() < chance

    def hidden(self, name, dense):
        before = [layer for layer in self.layers if layer["Kind"] != "Output" and (dense or layer["Kind"] == "Hidden")]
        more = {"BatchNormalization": True} if self.norms and self.some(0.4) else {}
        layer = self.computed(name, "Hidden", more)
        skips = [other for other in before if other["Name"] != name]
        if skips and self.some(0.6):
            source = skips[self.random.integers(len(skips))]
            layer["N"], layer["Skip"] = source["N"], source["Name"]

    def computed(self, name, kind, more):
        before = [layer["Name"] for layer in self.layers if layer["Kind"] != "Output"]
        count = min(len(before), int(self.random.integers(1, 3)))
        sources = sorted({before[-1], *self.random.choice(before, count, replace=False).tolist()}, key=before.index)
        word = str(self.random.choice(self.words))
        keys = DEFAULTS.get(word, {}) if word in self.parametric else {}
        given = {key: round(float(self.random.uniform(0.1, 2)), 3) for key in keys if self.some(0.6)}
        n = int(self.random.integers(1, 30)) + (20 if kind == "Output" else 0)
        return self.add({"Name": name, "Kind": kind, "N": n, "Source": sources, "Activation": word, **given, **more})

    def prepare_inputs(self):
        skipped = {name for layer in self.layers for name in listed(layer.get("Skip"))}
        self.dense_inputs = [layer["Name"] for layer in self.layers if layer["Kind"] == "Input" and layer["Name"] in skipped]
        if self.plain:
            return
        read = {name for layer in self.layers for name in listed(layer.get("Source"))}
        for layer in self.layers:
            if layer["Kind"] == "Input" and self.some(0.5):
                layer["Normalize"] = "L2"
            if layer["Kind"] == "Input" and layer["Name"] in read - skipped and self.some(0.5):
                layer["InputWeighting"] = {"Scheme": "InversePopularity"}
        self.share()

    def share(self):
        """Where two connections have the same extents, one way or the other, the second uses the weights of the first."""
        units = {layer["Name"]: layer["N"] for layer in self.layers}
        kinds = {layer["Name"]: layer["Kind"] for layer in self.layers}
        edges = [(source, layer["Name"]) for layer in self.layers for source in listed(layer.get("Source")) if kinds[source] == "Hidden"]
        for first in range(len(edges)):
            for second in range(first + 1, len(edges)):
                a, b = edges[first], edges[second]
                turned = (units[a[1]], units[a[0]]) == (units[b[0]], units[b[1]])
                same = (units[a[0]], units[a[1]]) == (units[b[0]], units[b[1]])
                if not (turned or same) or self.matrices:
                    continue
                transposed = turned and (not same or self.some(0.5))
                layer = next(layer for layer in self.layers if layer["Name"] == b[1])
                layer["SharedWeights"] = {"InputLayer": b[0], "SourceInputLayer": a[0], "SourceOutputLayer": a[1],
                                          "Transposed": transposed}
                self.matrices[b] = (a, transposed)

    def draw(self):
        units = {layer["Name"]: layer["N"] for layer in self.layers}
        arrays = {}
        for layer in self.layers:
            name, n = layer["Name"], layer["N"]
            for source in listed(layer.get("Source")):
                if (source, name) not in self.matrices:
                    bound = 2 / math.sqrt(units[source])
                    arrays[f"{source} -> {name}"] = self.random.uniform(-bound, bound, (units[source], n))
            if "InputWeighting" in layer:
                arrays[f"{name} featureWeights"] = self.random.uniform(0.5, 5, n)
            if layer["Kind"] == "Input":
                continue
            arrays[f"{name} bias"] = self.random.uniform(-1, 1, n)
            if layer.get("BatchNormalization"):
                arrays.update({f"{name} scaleBN": self.random.uniform(0.5, 2, n), f"{name} biasBN": self.random.uniform(-1, 1, n),
                               f"{name} runningMeanBN": self.random.uniform(-1, 1, n),
                               f"{name} runningVarianceBN": self.random.uniform(0.01, 2, n)})
        return {name: array.astype(np.float32) for name, array in arrays.items()}

    def inputs(self):
        return [layer for layer in self.layers if layer["Kind"] == "Input"]

    def matrices_of(self, rows):
        """By input layer: [examples, units]."""
        return {layer["Name"]: whole(rows[layer["Name"]], layer["N"]) for layer in self.inputs()}

    def forward(self, rows):
        return forward(self.descriptor, self.parameters, self.matrices_of(rows))

    def examples(self, count):
        """By input layer: rows of {unit: value}; of dense ones all units."""
        rows = {}
        for layer in self.layers:
            if layer["Kind"] != "Input":
                continue
            units, dense = layer["N"], layer["Name"] in self.dense_inputs
            rows[layer["Name"]] = [{int(unit): float(np.float32(self.random.uniform(0.1, 2))) for unit in sorted(self.random.choice(
                units, units if dense else self.random.integers(0, min(units, 9)), replace=False))} for _ in range(count)]
        return rows


def whole(rows, units):
    x = np.zeros((len(rows), units))
    for e, row in enumerate(rows):
        for unit, value in row.items():
            x[e, unit] += value
    return x


def padded(rows, length=None):
    """indices and values as an ONNX graph takes them."""
    length = max(map(len, rows), default=0) if length is None else length
    indices, values = np.zeros((len(rows), length), np.int64), np.zeros((len(rows), length), np.float32)
    for e, row in enumerate(rows):
        indices[e, :len(row)], values[e, :len(row)] = list(row), list(row.values())
    return indices, values


def forward(descriptor, parameters, inputs):
    """By layer: its activations in float64, for inputs [examples, units] by layer."""
    y = {}
    arrays = {name: array.astype(np.float64) for name, array in parameters.items()}
    for layer in descriptor["Layers"]:
        name = layer["Name"]
        if layer["Kind"] == "Input":
            x = np.asarray(inputs[name], np.float64) * arrays.get(f"{name} featureWeights", 1.0)
            if layer.get("Normalize") == "L2":
                norm = np.linalg.norm(x, axis=1, keepdims=True)
                x = x / np.where(norm > 0, norm, 1)
            y[name] = x
            continue
        z = np.broadcast_to(arrays[f"{name} bias"], (len(next(iter(y.values()))), layer["N"]))
        shared = {s["InputLayer"]: s for s in listed(layer.get("SharedWeights"))}
        for source in listed(layer["Source"]):
            key, turned = f"{source} -> {name}", False
            if source in shared:
                key = f"{shared[source]['SourceInputLayer']} -> {shared[source]['SourceOutputLayer']}"
                turned = shared[source].get("Transposed", False)
            z = z + y[source] @ (arrays[key].T if turned else arrays[key])
        for skip in listed(layer.get("Skip")):
            z = z + y[skip]
        if layer.get("BatchNormalization"):
            z = arrays[f"{name} biasBN"] + arrays[f"{name} scaleBN"] * (z - arrays[f"{name} runningMeanBN"]) / np.sqrt(
                arrays[f"{name} runningVarianceBN"] + 1e-5)
        word = layer["Activation"]
        y[name] = FORMULAS[word](z, {key: layer.get(key, value) for key, value in DEFAULTS.get(word, {}).items()})
    return y
