# SPDX-License-Identifier: Apache-2.0
"""What the tests of other formats share."""
import numpy as np
import scipy.sparse as sp

from random_networks import forward, listed, whole


def assert_close(found, expected, bound=1e-5):
    """float32 against float64: relative to the largest of a row, where that is above 1. What is near 0 may be a sum of such numbers."""
    assert np.shape(found) == np.shape(expected)
    largest = np.max(abs(np.atleast_1d(expected)), axis=-1, keepdims=True, initial=1)
    assert np.max(abs(found - expected) / largest, initial=0) <= bound


def engine_scores(network, rows, output):
    """[examples, units] of an output layer, as the engine predicts. `rows`: by input layer."""
    from norn import _core
    from norn._arrays import memory_set
    sets = []
    skipped = {name for layer in network.descriptor["Layers"] for name in listed(layer.get("Skip"))}
    for layer in network.descriptor["Layers"]:
        if layer["Kind"] == "Input":
            x = whole(rows[layer["Name"]], layer["N"]).astype(np.float32)
            x = x if layer["Name"] in skipped else sp.csr_matrix(x)
            sets.append(memory_set(layer["DataSet"], x, "x"))
    units = next(layer["N"] for layer in network.descriptor["Layers"] if layer["Name"] == output)
    best, scores = _core.recommend(network.model, sets, units, output)
    found = np.empty(scores.shape, np.float32)
    np.put_along_axis(found, best.astype(np.int64), scores, axis=1)
    return found


def assert_computes(parts, rows, expected, bound=1e-5):
    """What was read of a file computes `expected`, a list for its outputs. `rows`: by input layer; of a single one whatever its name."""
    inputs = [layer for layer in parts.descriptor["Layers"] if layer["Kind"] == "Input"]
    outputs = [layer["Name"] for layer in parts.descriptor["Layers"] if layer["Kind"] == "Output"]
    assert len(outputs) == len(expected)
    if len(inputs) == 1 and inputs[0]["Name"] not in rows:
        rows = {inputs[0]["Name"]: next(iter(rows.values()))}
    y = forward(parts.descriptor, parts.parameters, {layer["Name"]: whole(rows[layer["Name"]], layer["N"]) for layer in inputs})
    for name, numbers in zip(outputs, expected):
        assert_close(y[name], numbers, bound)
