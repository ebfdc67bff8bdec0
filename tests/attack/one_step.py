# SPDX-License-Identifier: Apache-2.0
"""One training step of a drawn network against NumPy in float64: its cost to 1e-7, and every parameter's change to 1e-5, besides what
rounding to float32 moves them by. How much that is the same formulas say, computed a few times in float32 from numbers that are a
last digit off. So what cancels, saturates or stands at a kink in this very network has the room that it needs, and nothing else."""
import json
import math

import netCDF4
import numpy as np

import factors
import reference
from augmentation import augmented
from cases import Finding
from datasets import seen
from drawing import Drawing
from windows import listed

COST_TOLERANCE = 1e-7
UPDATE_TOLERANCE = 1e-5
GRADIENT_NOISE = 3e-7  # of the magnitudes that a float32 gradient sums
PAIRS, ROUNDING_FACTOR = 4, 8  # of steps in float32, and how far from float64 a gradient may be in terms of the worst of theirs
TERM_ROUNDING = 2.0 ** -22  # of the gradient and the regularisation, which may cancel, and of their factors
WEIGHT_ROUNDING = 2.0 ** -22
ILL_CONDITIONED = 1e-3  # a share of the cost that hangs on the last bits of the weights
OUTPUT_ROUNDING = 3 * 2.0 ** -23  # of a unit's output, where the cost hangs on its last bits
WHOLE = ("-e", "1", "--shuffle", "no", "--threads", "1", "--checkpoint-epochs", "0")


def parameters_of(path, layers):
    """weights, biases, scales and shifts of a model file, in float64."""
    weights, biases, scales, shifts = {}, {}, {}, {}
    with netCDF4.Dataset(path) as file:
        numbers = {file.getncattr(f"layer{i}_name"): i for i in range(int(file.layers))}
        for w in range(int(file.weights)):
            source, to = (file.getncattr(f"weight{w}_{end}Layer") for end in ("input", "output"))
            width, height = (int(file.getncattr(f"weight{w}_{side}")) for side in ("width", "height"))
            values = np.array(file[f"weight{w}_weights"][...], dtype=float)
            is_convolution = int(file.getncattr(f"layer{numbers[to]}_type")) == 1  # a filter is a row, and a column here
            weights[source, to] = values.reshape(width, -1).T if is_convolution else values.reshape(height, width)
            biases[to] = biases.get(to, 0) + np.array(file[f"weight{w}_bias"][...], dtype=float)
        for layer in layers:
            if layer.get("BatchNormalization"):
                i = numbers[layer["Name"]]
                scales[layer["Name"]] = np.array(file[f"layer{i}_scaleBN"][...], dtype=float)
                shifts[layer["Name"]] = np.array(file[f"layer{i}_biasBN"][...], dtype=float)
    return weights, biases, scales, shifts


def batch_of(drawing):
    """inputs and outputs as the network sees them."""
    sets = {one["name"]: one for one in drawing.sets}
    inputs, outputs = {}, {}
    for number, layer in enumerate(drawing.layers):
        one = sets.get(layer.get("DataSet"))
        if layer["Kind"] == "Input":
            values, _, weights = seen(one, as_input=True)
            if "Augment" in layer:
                axes = min(2, max(1, len(listed(layer["N"])) - 1))  # channels stand along the last, where there are several
                values = augmented(layer, number, axes, values, -0.5 if one["dense"].dtype == np.uint8 else 0)
            if layer.get("Normalize") == "L2":
                norm = np.sqrt((values * values).sum(axis=1, keepdims=True))
                values = values / np.where(norm > 0, norm, 1)
            units = math.prod(listed(layer["N"]))
            inputs[layer["Name"]] = np.pad(values * weights[:, None], ((0, 0), (0, units - one["width"])))
        elif layer["Kind"] == "Output":
            outputs[layer["Name"]] = reference.Output(one, *seen(one, as_input=False), layer["N"], layer.get("EntryWeights"))
    return inputs, outputs


def keyed(parameters):
    weights, biases, scales, shifts = parameters
    return {**{("weight", *key): value for key, value in weights.items()}, **{("bias", key): value for key, value in biases.items()},
            **{("scale", key): value for key, value in scales.items()}, **{("shift", key): value for key, value in shifts.items()}}


def option(settings, name, otherwise):
    return float(settings[settings.index(name) + 1]) if name in settings else otherwise


def bounded(weight, others, bound):
    """WeightNorm of a weight: `others` is the sum of squares of all other weights into its unit. Rises with the weight, falls in
    magnitude as the others grow."""
    norm = np.sqrt(weight ** 2 + others)
    return weight * np.where(norm > bound, bound / np.maximum(norm, 1e-300), 1)


def bound_weights(low, high, layers):
    """Between what WeightNorm leaves weights that lie between `low` and `high`, each for itself: of all weights into a unit it makes
    one length, so the last digits of large ones decide on small ones, and three steps of all along one line do not show it."""
    for layer in layers:
        if not layer.get("WeightNorm"):
            continue
        keys = [("weight", source, layer["Name"]) for source in layer["Source"]]
        least = {key: np.where((low[key] < 0) & (high[key] > 0), 0, np.minimum(low[key] ** 2, high[key] ** 2)) for key in keys}
        most = {key: np.maximum(low[key] ** 2, high[key] ** 2) for key in keys}
        all_least, all_most = (sum(squares[key].sum(axis=0) for key in keys) for squares in (least, most))
        for key in keys:
            short, long = np.maximum(all_least - least[key], 0), np.maximum(all_most - most[key], 0)
            low[key], high[key] = (bounded(low[key], np.where(low[key] < 0, short, long), layer["WeightNorm"]),
                                   bounded(high[key], np.where(high[key] > 0, short, long), layer["WeightNorm"]))


def updated(before, gradients, settings, side=0, rates=None):
    """Parameters after the step, before WeightNorm. Each falls as its own gradient grows, and depends on no other one. `side`: where
    between -1 and 1 the rounding of the gradient's and the regularisation's sum lies. `rates`: of factored layers, whose rule the
    gradients hold."""
    rule = settings[settings.index("--optimizer") + 1]
    mu = option(settings, "--mu", 0.9)
    clip = option(settings, "--clip-gradient", 0)
    after = {}
    for key, value in before.items():
        if rates and key[-1] in rates:
            after[key] = value - rates[key[-1]] * gradients[key]
            continue
        g = np.clip(gradients[key], -clip, clip) if clip > 0 else gradients[key]
        rate, decay, l1 = option(settings, "--rate", 0), 0.0, 0.0
        if key[0] == "weight":
            l1 = option(settings, "--lambda1", 0) * np.sign(value)
            decay = option(settings, "--lambda", 0) * value
        decoupled = rule == "AdamW"
        inside = 0.0 if decoupled else decay
        h = g + l1 + inside + side * TERM_ROUNDING * (np.abs(g) + np.abs(l1) + np.abs(inside))
        after[key] = value + reference.first_step(rule, h, rate, mu, 0.999) - decoupled * rate * decay
    return after


def epoch_cost(case):
    events = [json.loads(line) for line in case.path("log/log.jsonl").read_text().splitlines()]
    [epoch] = [event for event in events if event["event"] == "epoch"]
    return epoch["cost"]


def attack(case, _):
    drawing = Drawing(case.random, exact=True)
    drawing.write(case)
    settings = drawing.settings()
    common = ("-i", "data.nc", "-b", drawing.examples, *WHOLE)
    first = case.run("trainer", "-c", "net.json", "-n", "before.nc", "--rate", "1e-30", "--lambda", "0", *common)
    if first.code == 6 and drawing.factored:
        case.undecided = True  # a step of gradient descent is too long
        return
    if first.code != 0:
        raise Finding(f"refused: {first}")
    case.note(f"{drawing.loss} {settings}")
    done = case.run("trainer", "-c", "before.nc", "-n", "after.nc", "--run-dir", "log", *settings, *common)
    layers = drawing.layers
    parameters = parameters_of(case.path("before.nc"), layers)
    inputs, outputs = batch_of(drawing)
    step = reference.Step(drawing.network, inputs, outputs, parameters)
    if check_end(done, factors.longest(step)):
        case.undecided = True
        return
    off = reference.rounded_steps(drawing.network, inputs, outputs, parameters, drawing.draw, PAIRS)
    case.undecided = hangs_on_last_bits(step, off)
    if case.undecided:
        return
    check_cost(case, step, off, drawing.examples, done)
    check_updates(step, off, parameters, keyed(parameters_of(case.path("after.nc"), layers)), settings, layers)


def check_end(done, share):
    """Whether it ended, rightly, because a step of a factored layer would go a share of nearly 1, or more, of its way to 0."""
    if done.code == 6 and share > 0.9:
        return True
    if done.code != 0 or share > 1.0001:
        raise Finding(f"a factored step goes {share} of the way to 0: {done}" if share > 0 else f"failed: {done}")
    return False


def hangs_on_last_bits(step, off):
    """Whether float32 leaves so little of the cost that nothing can be said."""
    return bool(max(abs(other.cost - step.cost) for other in off) > ILL_CONDITIONED * step.cost_terms)


def check_cost(case, step, off, examples, done):
    cost = epoch_cost(case)
    noise = 3 * max(abs(other.cost - step.cost) for other in off) + OUTPUT_ROUNDING * np.sqrt(step.shake)
    if not abs(cost * examples - step.cost) <= COST_TOLERANCE * step.cost_terms + noise + 1e-12:
        raise Finding(f"the cost is {cost!r}, float64 says {step.cost / examples!r}: {done}")


def noise_of(step, off):
    """How far gradients in float32 may be from those of `step`."""
    return {key: GRADIENT_NOISE * step.magnitudes[key] + ROUNDING_FACTOR * np.max([abs(other.gradients[key] - g) for other in off], axis=0)
            for key, g in step.gradients.items()}


def check_updates(step, off, parameters, after, settings, layers):
    """Every parameter lies between what the gradient's noise allows on either side."""
    before, noise = keyed(parameters), noise_of(step, off)
    ends = [updated(before, {key: g + side * noise[key] for key, g in step.gradients.items()}, settings, side,
                    factors.rates(layers)) for side in (-1, 0, 1)]
    margin = {key: UPDATE_TOLERANCE * abs(ends[1][key] - value) + WEIGHT_ROUNDING * abs(value) + 1e-9 for key, value in before.items()}
    low = {key: np.minimum.reduce([end[key] for end in ends]) - margin[key] for key in before}
    high = {key: np.maximum.reduce([end[key] for end in ends]) + margin[key] for key in before}
    bound_weights(low, high, layers)
    for key, value in after.items():
        rounding = WEIGHT_ROUNDING * abs(value)
        wrong = ~((value >= low[key] - rounding) & (value <= high[key] + rounding))
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            raise Finding(f"{wrong.sum()} of {wrong.size} of {key} differ, first at {at}: {before[key][at]!r} became {value[at]!r}, "
                          f"float64 says {low[key][at]!r} to {high[key][at]!r} (gradient {step.gradients[key][at]!r}, noise "
                          f"{noise[key][at]:.2g})")
