# SPDX-License-Identifier: Apache-2.0
"""What each operator of ONNX is in layers of Norn's: HANDLERS, by the operator's name."""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from norn.interchange.activations import ACTIVATIONS, BY_ONNX, ONNX_DEFAULTS
from norn.interchange.builder import Output, Signal
from norn.interchange.onnx_values import CLOSE, Dense, Indices, Lazy, Node, Part, Rows, Values, constant, floats, is_part, near
from norn.interchange.problems import Unsupported

if TYPE_CHECKING:
    from norn._types import Array


NO_FORMULA = "it is part of a formula that Norn has not"


def matmul(node: Node) -> Any:
    x, weights = node.two()
    if isinstance(x, Values) and x.axis == 1 and isinstance(weights, Rows) and weights.values is None:
        return replace(weights, values=x, summed=True)
    matrix = floats(weights, "its second factor")
    return node.graph.builder.matmul(node.signal(matrix.shape[0] if matrix.ndim == 2 else None), matrix, node.stem())


def gemm(node: Node) -> Any:
    if node.attributes.get("transA", 0):
        raise Unsupported("transA is set")
    matrix = floats(node.get(1), "its weights")
    if matrix.ndim != 2:
        raise Unsupported(f"its weights have {matrix.ndim} dimensions")
    matrix = matrix.T if node.attributes.get("transB", 0) else matrix
    result: Signal = node.graph.builder.matmul(node.signal(matrix.shape[0]), matrix, node.stem())
    if node.attributes.get("alpha", 1.0) != 1.0:
        result = node.affine(result, scale=node.attributes["alpha"])
    if node.get(2) is None:
        return result
    bias, beta = floats(node.get(2), "its bias"), node.attributes.get("beta", 1.0)
    return node.affine(result, shift=bias if beta == 1.0 else bias * np.float64(beta))


def add(node: Node) -> Any:
    result = node.x
    for value in node.inputs[1:]:
        result = sum_of(node, result, value)
    return result


def sum_of(node: Node, x: Any, y: Any) -> Any:
    for a, b in ((x, y), (y, x)):
        if is_part(a, "erf", "abs") and near(b, 1.0):
            return Part("1+" + a.word, a.of)
        if isinstance(b, np.ndarray):
            return node.affine(a, shift=floats(b, "its summand"))
    return node.graph.builder.add(node.graph.signal(x), node.graph.signal(y))


def subtract(node: Node) -> Any:
    a, b = node.two()
    if isinstance(b, np.ndarray):
        return node.affine(a, shift=-floats(b, "its summand"))
    return sum_of(node, a, node.affine(b, scale=-1.0))


def multiply(node: Node) -> Any:
    graph = node.graph
    node.two()
    for at in (0, 1):
        a, b, name, other = node.inputs[at], node.inputs[1 - at], node.names[at], node.names[1 - at]
        if isinstance(b, np.ndarray):
            return scaled(node, a, floats(b, "its factor"), name)
        if isinstance(a, Part) and isinstance(a.of, str):
            return formula(node, a, b, other)
        if isinstance(a, (Values, Dense)) and isinstance(b, Values) and b.weights is not None:
            a = a if isinstance(a, Values) else Values(a.name)
            if a.weights is None and a.indices in (None, b.indices) and not a.normalised and a.axis == b.axis:
                return replace(a, weights=b.weights, indices=b.indices)
        if isinstance(a, Values) and a.axis == 2 and isinstance(b, Rows) and b.values is None and not b.summed:
            return replace(b, values=a)
        if other in graph.sigmoid and isinstance(a, (Signal, Lazy)) and graph.sigmoid[other][0] == name:
            return node.activate("Swish", {"SwishBeta": graph.sigmoid[other][1]}, a)
    raise Unsupported("it multiplies layers with each other")


def divide(node: Node) -> Any:
    a, b = node.two()
    if isinstance(b, np.ndarray):
        factor = floats(b, "its divisor")
        if np.any(factor == 0):
            raise Unsupported("it divides by 0")
        return scaled(node, a, 1.0 / factor.astype(np.float64), node.names[0])
    if is_part(b, "1+abs") and b.of == node.names[0]:
        return node.activate("SoftSign")
    if is_part(b, "norm") and b.of is a:
        if isinstance(a, Values) or isinstance(a, Dense) and a.extent == [None]:
            return replace(a if isinstance(a, Values) else Values(a.name), normalised=True)
        source = node.signal()
        if isinstance(source, Output) and source.scale is None and source.shift is None:
            keys = node.graph.builder.layers[source.layer]
            if keys["Kind"] == "Input":
                keys["Normalize"] = "L2"
                return source
    raise Unsupported("it divides by what is computed; only inputs are divided, by their norm")


def scaled(node: Node, x: Any, factor: Array, name: str) -> Any:
    if isinstance(x, Part):
        if x.word == "2gelu" and near(factor, 0.5):
            return node.activate("GELU", x=node.graph.values[x.of])
        raise Unsupported(NO_FORMULA)
    if factor.size > 1:
        return node.affine(x, scale=factor)
    base, before = node.graph.scale_of(name)
    node.graph.scaled[node.result] = (base, before * float(factor.reshape(-1)[0]))
    return Lazy(lambda: node.graph.builder.affine(node.graph.signal(x), factor))


def formula(node: Node, part: Part, other: Any, name: str) -> Any:
    base, factor = node.graph.scale_of(name)
    if part.word == "1+erf" and base == part.of and isinstance(other, (Signal, Lazy)):
        if math.isclose(factor, 0.5, rel_tol=CLOSE):
            return node.activate("GELU", x=node.graph.values[base])
        if factor == 1.0:
            return Part("2gelu", base)
    raise Unsupported(NO_FORMULA)


def error_function(node: Node) -> Any:
    base, factor = node.graph.scale_of(node.names[0])
    if not math.isclose(factor, 0.5 ** 0.5, rel_tol=CLOSE):
        raise Unsupported(NO_FORMULA)
    return Part("erf", base)


def activation(node: Node) -> Any:
    word = BY_ONNX[node.operator]
    given = {**ONNX_DEFAULTS.get(node.operator, {}), **node.attributes}
    if word == "Sigmoid":
        node.graph.sigmoid[node.result] = node.graph.scale_of(node.names[0])
        return Lazy(lambda: node.activate(word))
    return node.activate(word, {key: float(given[name]) for key, name in ACTIVATIONS[word].attributes.items()})


def softmax(node: Node) -> Any:
    axis = node.attributes.get("axis", -1 if node.graph.opset >= 13 else 1)
    if axis not in (-1, 1):
        raise Unsupported(f"axis {axis} is not that of the units")
    if node.operator == "LogSoftmax":
        node.graph.builder.notes.append("LogSoftmax is read as SoftMax: the scores are probabilities, not their logarithms")
    return node.activate("SoftMax")


def exact_gelu(node: Node) -> Any:
    if node.attributes.get("approximate", b"none") != b"none":
        raise Unsupported("it is approximate; Norn's GELU is the exact one")
    return node.activate("GELU")


def parametric_relu(node: Node) -> Any:
    slopes = np.unique(floats(node.get(1), "its slope"))
    if slopes.size != 1:
        raise Unsupported("it has a slope for each unit; LRelu has one for all")
    return node.activate("LRelu", {"RELUSlope": float(slopes[0])})


def batch_normalization(node: Node) -> Any:
    if node.attributes.get("training_mode", 0):
        raise Unsupported("training_mode is set; export the model for inference")
    scale, bias, mean, variance = (floats(node.get(at), "one of its inputs") for at in range(1, 5))
    return node.graph.builder.normalise(node.signal(scale.size), scale, bias, mean, variance, node.attributes.get("epsilon", 1e-5))


def concat(node: Node) -> Any:
    if node.attributes.get("axis") not in (1, -1):
        raise Unsupported(f"axis {node.attributes.get('axis')} is not that of the units")
    return node.graph.builder.join([node.graph.signal(value) for value in node.inputs])


def gather(node: Node) -> Any:
    table, indices = node.two()
    if node.attributes.get("axis", 0) != 0 or not isinstance(indices, Indices):
        raise Unsupported("only rows of weights are gathered, by indices that are an input")
    array = floats(table, "what it takes rows of")
    if array.ndim == 1:
        return Values(None, indices.name, array)
    if array.ndim != 2:
        raise Unsupported(f"its weights have {array.ndim} dimensions")
    return Rows(array, indices.name, node.stem(0))


def reduce_sum(node: Node) -> Any:
    if not isinstance(node.x, Rows) or node.x.summed or node.axes() not in ([1], [-2]):
        raise Unsupported("only rows of a sparse input's weights are summed up, over axis 1")
    return replace(node.x, summed=True) if node.attributes.get("keepdims", 1) else node.graph.product(node.x)


def unsqueeze(node: Node) -> Any:
    axes = node.axes()
    x = Values(node.x.name) if isinstance(node.x, Dense) else node.x
    if isinstance(x, np.ndarray) and axes:
        return np.expand_dims(x, tuple(axes))
    if isinstance(x, Values) and x.axis is None and axes in ([1], [2], [-1], [-2]):
        return replace(x, axis=axes[0] % 3)
    raise Unsupported("only values of a sparse input get a dimension more")


def squeeze(node: Node) -> Any:
    if isinstance(node.x, np.ndarray):
        return np.squeeze(node.x)
    if isinstance(node.x, Rows) and node.x.summed and node.axes() in ([1], [-2]):
        return node.graph.product(node.x)
    raise Unsupported("only sums of a sparse input's rows lose a dimension")


def norm(node: Node) -> Any:
    if node.axes() not in ([1], [-1]) or not node.attributes.get("keepdims", 1):
        raise Unsupported("it is no norm of rows")
    return Part("norm", node.x)


def _is_no_bound(value: Any) -> bool:
    """Of a largest value: the default of Clip's attribute, or more."""
    return isinstance(value, (np.ndarray, float)) and np.size(value) == 1 and bool(np.all(value >= np.finfo(np.float32).max))


def least(node: Node) -> Any:
    """By Max or Clip, whose bounds are attributes before opset 11. Nothing else may hold the norm."""
    low, others = node.attributes.get("min", node.get(1)), [*node.inputs[2:], node.attributes.get("max")]
    if is_part(node.x, "norm") and all(one is None or node.operator == "Clip" and _is_no_bound(one) for one in others):
        if low is None or isinstance(low, (np.ndarray, float)) and np.size(low) == 1 and 0 <= float(np.reshape(low, -1)[0]) <= 1e-6:
            return node.x
    raise Unsupported("only norms of inputs are held above a number near 0")


def expand(node: Node) -> Any:
    x, extent = node.two()
    if is_part(x, "norm") and is_part(extent, "extent") and extent.of is x.of:
        return x
    raise Unsupported("only norms of inputs are expanded, to these")


def flatten(node: Node) -> Any:
    if node.attributes.get("axis", 1) != 1:
        raise Unsupported("axis is not 1")
    return flat(node)


def flat(node: Node) -> Dense | Signal:
    x = node.x
    if not isinstance(x, Dense):
        return node.signal()
    return Dense(x.name, [math.prod(extent or 0 for extent in x.extent) if all(x.extent) else None])


def reshape(node: Node) -> Any:
    extent = constant(node.get(1), "its extent").reshape(-1).tolist() if len(node.inputs) > 1 else list(node.attributes.get("shape", []))
    if isinstance(node.x, np.ndarray):
        return node.x.reshape(extent)
    if len(extent) > 2:
        return image(node, extent[1:])
    if len(extent) != 2:
        raise Unsupported(f"it makes {len(extent)} dimensions; layers have two")
    x = flat(node)
    units = x.extent[0] if isinstance(x, Dense) else x.units
    if extent[1] not in (-1, units) and units is not None:
        raise Unsupported(f"it makes rows of {extent[1]} of {units} units")
    return Dense(x.name, [extent[1]]) if isinstance(x, Dense) and units is None and extent[1] > 0 else x


def image(node: Node, extent: list[int]) -> Any:
    """[batch, channels, .., y, x] of an input, or of what has these already."""
    if isinstance(node.x, Dense):
        if min(extent) > 0 and (None in node.x.extent or math.prod(extent) == math.prod(one or 0 for one in node.x.extent)):
            return Dense(node.x.name, list(extent))
    elif node.graph.builder.extent_of(node.signal()) == extent[::-1]:
        return node.x
    raise Unsupported(f"it makes {len(extent) + 1} dimensions; only inputs, and what has these dimensions, are images")


def transpose(node: Node) -> Any:
    perm = node.attributes.get("perm")
    return constant(node.x, "what it transposes").transpose(perm if perm is None else list(perm))


def as_it_is(node: Node) -> Any:
    if node.operator == "Dropout" and node.get(2) is not None and np.any(constant(node.get(2), "its training_mode")):
        raise Unsupported("training_mode is set; export the model for inference")
    if node.names[0] in node.graph.scaled:
        node.graph.scaled[node.result] = node.graph.scaled[node.names[0]]
    if node.operator == "Cast" and not isinstance(node.x, (Signal, Lazy, Dense, Indices, np.ndarray)):
        raise Unsupported("only inputs, layers and arrays are cast")
    return node.x


def constant_node(node: Node) -> Any:
    for key in ("value", "value_float", "value_int", "value_floats", "value_ints"):
        if key in node.attributes:
            return np.asarray(node.attributes[key])
    raise Unsupported("it has no number")


def mask(node: Node) -> Any:
    if all(isinstance(value, (Values, Dense, Indices, np.ndarray)) or is_part(value, "mask") for value in node.inputs):
        return Part("mask")
    raise Unsupported("it compares what layers compute")


def scatter(node: Node) -> Any:
    if isinstance(node.x, (Signal, Lazy)) and isinstance(node.get(1), Indices) and is_part(node.get(2), "mask"):
        node.graph.builder.notes.append("what leaves seen units out is not part of the network")
        return node.x
    raise Unsupported("only what leaves seen units out is scattered")


def best(node: Node) -> Any:
    signal = node.graph.builder.output_of(node.signal())
    return Part("best", signal), Part("best", signal)


HANDLERS: dict[str, Callable[[Node], Any]] = {
    **dict.fromkeys(BY_ONNX, activation), "Softmax": softmax, "LogSoftmax": softmax, "Gelu": exact_gelu, "PRelu": parametric_relu,
    "Erf": error_function, "Abs": lambda node: Part("abs", node.names[0]), "BatchNormalization": batch_normalization,
    "MatMul": matmul, "Gemm": gemm, "Add": add, "Sum": add, "Sub": subtract, "Mul": multiply, "Div": divide, "Concat": concat,
    "Gather": gather, "ReduceSum": reduce_sum, "Unsqueeze": unsqueeze, "Squeeze": squeeze,
    "ReduceL2": norm, "Max": least, "Clip": least, "Shape": lambda node: Part("extent", node.x), "Expand": expand,
    "Flatten": flatten, "Reshape": reshape, "Transpose": transpose, "Identity": as_it_is, "Dropout": as_it_is, "Cast": as_it_is,
    "Constant": constant_node, "TopK": best, "ScatterElements": scatter,
    **dict.fromkeys(("Equal", "Greater", "Less", "Not", "Where", "Min"), mask),
}
