#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the comparison of a step with float64 takes for right and for wrong: on updates made here, and on steps of drawn networks that
the reference computes as a program does, in float32, with and without a defect."""
import contextlib
import copy
import math
import random
import types
import unittest
import unittest.mock

import numpy as np

import factors
import one_step
import reference
import windows
from cases import Finding
from drawing import Drawing

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
        off = types.SimpleNamespace(gradients={key: g * (1 + noise / one_step.ROUNDING_FACTOR) for key, g in gradients.items()})
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


class Trained:
    """A network, its batch, its parameters and the options of an update."""

    def __init__(self, network, batch, parameters, settings):
        self.network, self.batch, self.parameters, self.settings = network, batch, parameters, settings

    def after(self, draw):
        """Parameters after one step by the reference as it is at the moment: in float32 with the last digits of units as `draw`
        has them, or in float64 (None)."""
        with unittest.mock.patch.object(reference, "nudged", lambda parameters, _: parameters):
            step = reference.Step(self.network, *self.batch, self.parameters, draw)
        after = one_step.updated(one_step.keyed(self.parameters), step.gradients, self.settings, 0, factors.rates(self.network["Layers"]))
        one_step.bound_weights(after, dict(after), self.network["Layers"])
        return after

    def judge(self, after, draw):
        """Whether that is found to be wrong; None where nothing can be said."""
        step = reference.Step(self.network, *self.batch, self.parameters)
        off = reference.rounded_steps(self.network, *self.batch, self.parameters, draw, one_step.PAIRS)
        if one_step.hangs_on_last_bits(step, off):
            return None
        stored = {key: value.astype(np.float32).astype(float) for key, value in after.items()}
        try:
            one_step.check_updates(step, off, self.parameters, stored, self.settings, self.network["Layers"])
        except Finding as finding:
            return str(finding)
        return ""


def drawn_training(seed):
    """One of tests/attack, with parameters that no trainer drew."""
    drawing = Drawing(random.Random(seed), exact=True)
    layers = {layer["Name"]: layer for layer in drawing.layers}
    stored = lambda x: np.asarray(x, dtype=np.float32).astype(float)
    extents = windows.extents_of(drawing.layers)
    fed = {name: layer for name, layer in layers.items() if "Source" in layer and layer.get("Type") != "Pooling"}
    inputs = lambda source, layer: (math.prod(extents[source]) if "Type" not in layer
                                    else math.prod([extents[source][-1], *layer["Kernel"]]))
    weights = {(source, name): stored(drawing.draw.normal(0, 0.3, (inputs(source, layer), layer["N"])))
               for name, layer in fed.items() for source in layer["Source"]}
    biases = {name: stored(np.full(layer["N"], layer["WeightInit"]["Bias"])) for name, layer in fed.items()}
    normalised = [name for name, layer in layers.items() if layer.get("BatchNormalization")]
    parameters = (weights, biases, {name: np.ones(layers[name]["N"]) for name in normalised},
                  {name: np.zeros(layers[name]["N"]) for name in normalised})
    return Trained(drawing.network, one_step.batch_of(drawing), parameters, drawing.settings()), drawing.draw


def times(name, factor):
    """A defect of an option's value."""
    def plant(training):
        if name in training.settings:
            at = training.settings.index(name) + 1
            training.settings[at] = str(float(training.settings[at]) * factor)
    return plant


def of_layers(name, factor):
    """A defect of a key of layers."""
    def plant(training):
        for layer in training.network["Layers"]:
            if name in layer:
                layer[name] *= factor
    return plant


def of_reference(owner, name, wrap):
    """A defect of the formulas: what `wrap` makes of one."""
    return lambda training: unittest.mock.patch.object(owner, name, wrap(getattr(owner, name)))


def with_heavier_entries(training):
    for output in training.batch[1].values():
        output.entries = np.where(output.entries == 1, 1, 1.03 * output.entries)


def without_last_row_of_biases(collect):
    def wrong(self, name, layer, delta, *others):
        collect(self, name, layer, delta, *others)
        self.gradients["bias", name] = self.gradients["bias", name] - self.rows(name, delta)[-1] / len(delta)
    return wrong


def without_one_product(collect):
    def wrong(self, name, layer, delta, *others):
        collect(self, name, layer, delta, *others)
        if name in self.channels:
            return
        source = layer["Source"][0]
        gradient = self.gradients["weight", source, name].copy()
        gradient[-1, -1] -= self.y[source][-1, -1] * delta[-1, -1] / len(delta)
        self.gradients["weight", source, name] = gradient
    return wrong


def with_deltas_of_ten_bits(collect):
    def wrong(self, name, layer, delta, *others):
        mantissa, exponent = np.frexp(delta)
        collect(self, name, layer, np.ldexp(np.round(mantissa * 2**11) / 2**11, exponent).astype(delta.dtype), *others)
    return wrong


def without_coupling(_):
    def wrong(self, name, delta, size):
        places = len(delta) // len(self.y[name])
        self.keep(("scale", name), places * reference.mean(delta * self.normal[name]), 0)
        self.keep(("shift", name), places * reference.mean(delta), 0)
        d = delta * self.scales[name]
        return (d - self.stored(reference.mean(d))) / self.deviation[name], size
    return wrong


def without_epsilon(first_step):
    return lambda rule, h, rate, *others: -rate * np.sign(h) if rule == "AdaGrad" else first_step(rule, h, rate, *others)


def by_tanh(_):
    return lambda z: (1 + np.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3))) / 2


DEFECTS = {
    "Lambda 1 % too large": times("--lambda", 1.01),
    "Lambda1 1 % too large": times("--lambda1", 1.01),
    "clipped at 1.01 times the bound": times("--clip-gradient", 1.01),
    "a rate 0.1 % too large": times("--rate", 1.001),
    "DeltaNorm 1 % too large": of_layers("DeltaNorm", 1.01),
    "WeightNorm 1 % too large": of_layers("WeightNorm", 1.01),
    "the last row is missing in the biases' sums": of_reference(reference.Step, "collect", without_last_row_of_biases),
    "a term is missing in a product": of_reference(reference.Step, "collect", without_one_product),
    "deltas of tf32": of_reference(reference.Step, "collect", with_deltas_of_ten_bits),
    "batch normalisation without its coupling": of_reference(reference.Step, "through_normalisation", without_coupling),
    "AdaGrad without its epsilon": of_reference(reference, "first_step", without_epsilon),
    "a factored layer damped 1 % too much": of_reference(factors, "FIRST", lambda times: 1.01 * times),
    "weights of entries 3 % too large": with_heavier_entries,
    "GELU by tanh": of_reference(reference, "normal_below", by_tanh),
}


class Steps(unittest.TestCase):
    def setUp(self):
        self.seed = random.randrange(2**32)
        print(f"{self.id()}: seed {self.seed}", flush=True)
        np.seterr(all="ignore")

    def trainings(self, count):
        for number in range(count):
            training, draw = drawn_training(f"{self.seed}/{number}")
            yield f"seed {self.seed}/{number}", training, draw, reference.Draw([self.seed, number], 1)

    def test_what_float32_makes_of_a_step_is_right(self):
        judged = 0
        for name, training, draw, program in self.trainings(20):
            found = training.judge(training.after(program), draw)
            self.assertFalse(found, name)
            judged += found is not None
        self.assertGreater(judged, 10)

    def test_a_weight_whose_gradient_and_regularisation_cancel_may_have_what_a_saturated_slope_rounds_to(self):
        """1 - y^2 of a y near 1 has four digits in float32, the same ones in all rows; of a sum that cancels there is nothing else left.
        None of that is wrong; Lambda that is 1 % off is."""
        draw = np.random.default_rng(self.seed)
        for _ in range(20):
            training = self.cancelling(draw)
            spoilt = copy.deepcopy(training)
            times("--lambda", 1.01)(spoilt)
            program = reference.Draw(draw.integers(2**63), 1)
            self.assertEqual(training.judge(training.after(program), draw), "")
            self.assertIn("differ", training.judge(spoilt.after(program), draw))

    def cancelling(self, draw):
        """A training whose Lambda undoes the gradient of the weight on which rounding tells most."""
        stored = lambda x: np.asarray(x, dtype=np.float32).astype(float)
        layers = [{"Name": "In", "Kind": "Input", "N": 2},
                  {"Name": "Hidden", "Kind": "Hidden", "N": 3, "Activation": "Sigmoid", "Source": ["In"]},
                  {"Name": "Out", "Kind": "Output", "N": 4, "Activation": "Tanh", "Source": ["Hidden"]}]
        rows = int(draw.integers(2, 100))
        ones = np.tile([False, True, True, True], (rows, 1))  # where y is negative they cost much, and have no slope
        output = reference.Output({"rows": [], "width": 4}, ones * 1.0, ones, np.ones(rows), 4)
        weights = {("In", "Hidden"): stored(draw.normal(0, 0.3, (2, 3))), ("Hidden", "Out"): stored(draw.uniform(-0.5, -0.1, (3, 4)))}
        biases = {"Hidden": np.zeros(3), "Out": stored([draw.uniform(4.9, 5.2), -1, -1, -1])}
        training = Trained({"ErrorFunction": "CrossEntropy", "Layers": layers}, ({"In": np.ones((rows, 2))}, {"Out": output}),
                           (weights, biases, {}, {}), ["--optimizer", "SGD", "--rate", "1"])
        g = reference.Step(training.network, *training.batch, training.parameters).gradients["weight", "Hidden", "Out"]
        rounded = reference.Step(training.network, *training.batch, training.parameters, reference.Draw(0, 1)).gradients["weight", "Hidden",
                                                                                                                         "Out"]
        at = np.unravel_index(np.argmax(abs(rounded - g)), g.shape)
        training.settings += ["--lambda", repr(float(-(g / weights["Hidden", "Out"])[at]))]
        return training

    def test_defects_are_found(self):
        counts = {defect: [0, 0] for defect in DEFECTS}
        for name, training, draw, program in self.trainings(60):
            right = training.after(None)
            for defect, plant in DEFECTS.items():
                spoilt = copy.deepcopy(training)
                with plant(spoilt) or contextlib.nullcontext():
                    there = self.differs(spoilt.after(None), right, one_step.keyed(training.parameters))
                    wrong = spoilt.after(program) if there else None
                found = training.judge(wrong, draw) if there else None
                if found is not None:
                    counts[defect][0] += found != ""
                    counts[defect][1] += 1
        for defect, (found, there) in counts.items():
            print(f"  {defect}: found in {found} of {there}")
            self.assertGreaterEqual(found, 0.5 * there - 1, f"{defect}; one that few trainings have may hide in all of them")
        self.assertGreater(sum(there for _, there in counts.values()), 60)

    @staticmethod
    def differs(one, other, before):
        """By more than a float32 keeps of a step."""
        return any((abs(one[key] - value) > 1e-6 * abs(value - before[key]) + 1e-7 * abs(value) + 1e-12).any()
                   for key, value in other.items())


if __name__ == "__main__":
    unittest.main(verbosity=2)
