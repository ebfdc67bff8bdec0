# SPDX-License-Identifier: Apache-2.0
"""Draws networks and the data that they read: any activation, loss, rule and kind of data set, in odd sizes."""
import json
import math

import numpy as np

import factors
from datasets import write_sets
from windows import extents_of, listed

ACTIVATIONS = ("Linear", "Sigmoid", "Tanh", "Relu", "LRelu", "ELU", "SELU", "SoftPlus", "SoftSign", "GELU", "Swish",
               "SoftMax")
LOSSES = ("L1", "L2", "Huber", "L2Hinge", "Hinge", "CrossEntropy", "ScaledMarginalCrossEntropy",
          "DataScaledMarginalCrossEntropy")
RULES = ("SGD", "Momentum", "Nesterov", "AdaGrad", "RMSProp", "AdaDelta", "Adam", "AMSGrad", "AdamW")
WIDTHS = (1, 2, 3, 7, 16, 17, 31, 33, 65)
MARGINAL = LOSSES[-2:]


class Drawing:
    """A network (JSON as a dictionary) and its data sets (as in datasets.py). `exact`: without what draws random numbers in
    training, and without what numerics.md leaves open."""

    def __init__(self, random, exact):
        self.random, self.exact = random, exact
        self.draw = np.random.default_rng(random.randrange(2**32))
        self.examples = random.choice((1, 2, 3, 13, 31, 32, 33, 64, 97, 130))
        self.sets, self.layers = [], []
        self.loss = random.choice(LOSSES)
        self.factored = self.chance(0.2)  # perhaps an output layer is
        if self.factored:
            self.loss = "L2"
        for i in range(random.choice((1, 1, 1, 2, 3))):
            self.layers.append(self.input_layer(i))
        self.draw_images()
        for i in range(random.choice((1, 1, 2, 3))):
            self.layers.append(self.hidden_layer(i))
        self.mend_leaves()
        hidden = len(self.layers)
        for i in range(random.choice((1, 1, 1, 2))):
            self.layers.append(self.output_layer(i, hidden))
        self.network = self.whole()

    def chance(self, p):
        return self.random.random() < p

    def rows(self, width, count):
        return [sorted(self.random.sample(range(width), self.random.choice((0, 1, 2, 5, width)) % (width + 1))) for _ in range(count)]

    def data(self, name, kinds, signed):
        """A data set of one of the kinds, perhaps indexed and weighted."""
        width, count = self.random.choice(WIDTHS), self.examples
        one = {"name": name, "width": width}
        if self.chance(0.2):
            count = self.random.randint(1, self.examples)
            one["index"] = self.draw.integers(0, count, self.examples)
        kind = self.random.choice(kinds)
        if kind in ("boolean", "valued"):
            one["rows"] = self.rows(width, count)
            one["rows"][0] = one["rows"][0] or [0]  # a set without any entry is none
            if kind == "valued":
                one["values"] = [self.draw.uniform(-1 if signed else 0.05, 1, len(row)) for row in one["rows"]]
        elif kind == "classes":
            one["classes"] = self.draw.integers(0, width, count)
        elif kind == "float":
            one["dense"] = self.draw.uniform(-1 if signed else 0.05, 1, (count, width)).astype(np.float32)
        else:
            one["dense"] = self.draw.integers(0, 256, (count, width)).astype(np.uint8)
        if self.chance(0.2):
            one["weights"] = self.draw.uniform(0.5, 2, self.examples)
        self.sets.append(one)
        return one

    def input_layer(self, i):
        one = self.data(f"in{i}", ("boolean", "boolean", "valued", "float", "bytes"), signed=True)
        layer = {"Name": f"In{i}", "Kind": "Input", "DataSet": one["name"], "N": one["width"] + self.random.choice((0, 0, 0, 5))}
        if self.chance(0.2):
            layer["Normalize"] = "L2"
        if not self.exact and "rows" in one and self.chance(0.3):
            layer["Sparse"] = True  # Denoising
        if "dense" in one and layer["N"] == one["width"]:
            self.augment(layer, 1)
        return layer

    def augment(self, layer, axes):
        """Perhaps moves and mirrors its images, which stand along so many axes."""
        if self.chance(0.4):
            extent = [size for axis, size in enumerate(listed(layer["N"])[:axes]) if axis == 0 or size > 1]
            layer["Augment"] = {"Crop": self.random.randint(0, min(extent) - 1), "Flip": self.chance(0.5)}

    def draw_images(self):
        """Perhaps a dense input of several axes, and convolutions and pooling behind it."""
        if not self.chance(0.35):
            return
        axes = self.random.choice((1, 2, 2, 3))
        extent = [self.random.randint(1, (19, 9, 5)[axes - 1]) for _ in range(axes)] + [self.random.choice((1, 2, 3, 5))]
        one = {"name": "images", "width": math.prod(extent)}
        if self.chance(0.5):
            one["dense"] = self.draw.uniform(-1, 1, (self.examples, one["width"])).astype(np.float32)
        else:
            one["dense"] = self.draw.integers(0, 256, (self.examples, one["width"])).astype(np.uint8)
        self.sets.append(one)
        self.layers.append({"Name": "Image", "Kind": "Input", "Type": "Convolutional", "N": extent, "DataSet": "images"})
        self.augment(self.layers[-1], min(2, axes))
        images = [self.layers[-1]]
        for i in range(self.random.choice((1, 2, 3))):
            images.append(self.convolution(i, axes) if i == 0 or self.chance(0.6) else self.pooling(i, axes))
            self.connect(images)
        self.layers += images[1:]

    def connect(self, images):
        """The last one, behind one or two layers of equal places, perhaps beside one that is added as it is."""
        *before, layer = images
        extents = extents_of(before)
        fit = [name for name in extents if extents[name][:-1] == extents[before[-1]["Name"]][:-1]]
        layer["Source"] = [before[-1]["Name"]]
        if layer["Type"] == "Pooling":
            twins = [name for name in extents if extents[name] == extents[before[-1]["Name"]]][:-1]
            if twins and self.chance(0.5):
                layer["Source"].append(self.random.choice(twins))
                if self.chance(0.4):
                    layer["Function"] = "Maxout"
                    layer.pop("Kernel", None), layer.pop("KernelStride", None)
            return
        if len(fit) > 1 and self.chance(0.3):
            layer["Source"].append(self.random.choice(fit[:-1]))
        own = extents_of(images)[layer["Name"]]
        twins = [one["Name"] for one in before if one["Kind"] == "Hidden" and extents[one["Name"]] == own]
        if twins and self.chance(0.5):
            layer["Skip"] = [self.random.choice(twins)]

    def window(self, axes):
        strides = [self.random.choice((1, 2, 3)) for _ in range(axes)] if self.chance(0.5) else [1] * axes
        kernel = [self.random.choice((1, 3, 3, 5, 7) if stride == 1 else (1, 2, 3, 4)) for stride in strides]
        return {"Kernel": kernel, **({"KernelStride": strides} if max(strides) > 1 or self.chance(0.5) else {})}

    def convolution(self, i, axes):
        layer = {"Name": f"Conv{i}", "Kind": "Hidden", "Type": "Convolutional", "N": self.random.choice((1, 2, 3, 5, 8)),
                 "Activation": self.random.choice(ACTIVATIONS[:-1]), **self.window(axes),
                 "WeightInit": {"Scheme": "Gaussian", "Scale": 0.3, "Bias": self.random.choice((0, 0.1, -0.2))}}
        if self.chance(0.25) and self.examples > 2:
            layer["BatchNormalization"] = True
        if self.chance(0.15):
            layer["WeightNorm"] = self.random.choice((0.3, 1, 3))
        if not self.exact and self.chance(0.3):
            layer["pDropout"] = self.random.choice((0.1, 0.5))
        return layer

    def pooling(self, i, axes):
        function = self.random.choice(("Max", "Average", "LRN"))
        return {"Name": f"Pool{i}", "Kind": "Hidden", "Type": "Pooling", "Function": function,
                **({} if function == "LRN" else self.window(axes))}

    def hidden_layer(self, i):
        layer = {"Name": f"Hidden{i}", "Kind": "Hidden", "N": self.random.choice(WIDTHS[1:]), "Activation": self.random.choice(ACTIVATIONS),
                 "Source": self.sources(self.layers)}
        twins = [other["Name"] for other in self.layers
                 if other["Kind"] == "Hidden" and "Type" not in other and other["N"] == layer["N"]]
        if twins and self.chance(0.5):
            layer["Skip"] = [self.random.choice(twins)]
        if self.chance(0.25) and self.examples > 2:
            layer["BatchNormalization"] = True
        self.decorate(layer)
        if not self.exact and layer["Activation"] != "SoftMax" and self.chance(0.3):
            layer["pDropout"] = self.random.choice((0.1, 0.5))
        return layer

    def decorate(self, layer):
        layer["WeightInit"] = {"Scheme": "Gaussian", "Scale": 0.3, "Bias": self.random.choice((0, 0.1, -0.2))}
        if self.chance(0.15) and not (self.exact and "BatchNormalization" in layer):
            layer["DeltaNorm"] = self.random.choice((0.01, 0.1, 1))
        if self.chance(0.15):
            layer["WeightNorm"] = self.random.choice((0.3, 1, 3))

    def sources(self, layers):
        """Sparse inputs feed hidden layers alone."""
        return [layer["Name"] for layer in self.random.sample(layers, self.random.randint(1, min(3, len(layers))))]

    def mend_leaves(self):
        """Every layer leads somewhere: those that nobody reads feed the last hidden one."""
        last = self.layers[-1]
        read = {name for layer in self.layers for name in layer.get("Source", [])}
        last["Source"] += [layer["Name"] for layer in self.layers[:-1] if layer["Name"] not in read | set(last["Source"])]

    def factored_layer(self, i, hidden):
        one = self.data(f"out{i}", ("boolean", "valued", "classes"), signed=False)
        if "rows" in one and self.chance(0.2):
            one["ignore_zero"] = True
        rule = self.random.choice(("Newton", "Newton", "SGD"))
        settings = {"Rule": rule, "FoldEvery": self.random.choice((1, 2, 3, 64))}
        if rule == "SGD":
            settings["Rate"] = self.random.choice((0.001, 0.01))
        elif self.chance(0.7):
            settings |= {"Rate": self.random.choice((0.003, 0.1, 3)), "Damping": self.random.choice((0.001, 0.1, 1))}
        return {"Name": f"Out{i}", "Kind": "Output", "DataSet": one["name"], "Activation": "Linear",
                "N": one["width"] + self.random.choice((0, 0, 0, 3)), "Source": [self.layers[hidden - 1]["Name"]], "Factored": settings,
                "WeightInit": {"Scheme": "Gaussian", "Scale": 0.3, "Bias": self.random.choice((0, 0.1, -0.2))}}

    def output_layer(self, i, hidden):
        if self.factored and (i == 0 or self.chance(0.5)):
            return self.factored_layer(i, hidden)
        marginal = self.loss in MARGINAL
        kinds = ("boolean", "valued", "classes") if marginal else ("boolean", "valued", "float", "bytes", "classes")
        one = self.data(f"out{i}", kinds, signed=False)
        activation = self.random.choice(ACTIVATIONS if self.exact or self.chance(0.3) else ("Sigmoid", "SoftMax", "Linear"))
        if self.exact and activation == "SoftMax" and self.loss == MARGINAL[1]:
            one.pop("weights", None)
        if "rows" in one and activation != "SoftMax" and self.chance(0.2):
            one["ignore_zero"] = True
        sources = [layer for layer in self.layers[:hidden] if layer["Kind"] == "Hidden"]
        layer = {"Name": f"Out{i}", "Kind": "Output", "DataSet": one["name"], "Activation": activation,
                 "N": one["width"] + self.random.choice((0, 0, 0, 3)), "Source": self.sources(sources)}
        if self.layers[hidden - 1]["Name"] not in layer["Source"]:
            layer["Source"].append(self.layers[hidden - 1]["Name"])
        if "dense" not in one and self.chance(0.2):
            layer["EntryWeights"] = self.random.choice(({"Scheme": "Value"}, {"Scheme": "Linear", "Alpha": 5},
                                                        {"Scheme": "Log", "Alpha": 2, "Epsilon": 0.1}))
        self.decorate(layer)
        return layer

    def whole(self):
        network = {"Name": "drawn", "ErrorFunction": self.loss, "Layers": self.layers}
        if self.loss in MARGINAL:
            network[self.loss] = {"oneTarget": self.random.choice((0.9, 1.0, 0.6)), "zeroTarget": self.random.choice((0.1, 0.3)),
                                  "oneScale": self.random.choice((1, 2)), "zeroScale": self.random.choice((1, 0.5))}
        if self.chance(0.3) and self.loss == "CrossEntropy":
            network["TargetWeight"] = "One"
        if self.chance(0.3):
            network["DeltaBoost"] = {"one": self.random.choice((1, 3, 0)), "zero": self.random.choice((1, 0.5))}
        if not self.exact and self.chance(0.5):
            network["Denoising"] = {"p": 0.3}
        if any(layer.get("Function") == "LRN" for layer in self.layers):
            network["LRN"] = {"k": self.random.choice((1, 2)), "n": self.random.choice((1, 2, 3, 5)), "alpha": 0.5, "beta": 0.75}
        if self.chance(0.2):
            network["SparsenessPenalty"] = {"p": 0.3, "beta": 0.1}
            for layer in self.layers:
                if layer["Kind"] == "Hidden" and "Type" not in layer and layer["Activation"] in ("Sigmoid", "SoftMax"):
                    layer["Sparse"] = True
        return network

    def write(self, case):
        case.path("net.json").write_text(json.dumps(self.network, indent=1))
        write_sets(case.path("data.nc"), self.sets)

    def settings(self):
        """Options of the update."""
        rule = self.random.choice(RULES)
        words = ["--optimizer", rule, "--rate", self.random.choice(("0.1", "0.01", "0.003"))]
        for option, values in (("--lambda", ("0", "0.001", "0.1")), ("--lambda1", ("0", "0", "0.01")),
                               ("--clip-gradient", ("0", "0", "0.001", "0.05"))):
            words += [option, self.random.choice(values)]
        if rule not in ("SGD", "AdaGrad") and self.chance(0.5):
            words += ["--mu", self.random.choice(("0", "0.5", "0.95"))]
        return factors.settle(words) if self.factored else words
