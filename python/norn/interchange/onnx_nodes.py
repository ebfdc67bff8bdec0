# SPDX-License-Identifier: Apache-2.0
"""What each operator of ONNX is in layers of Norn's. A value is an array, a Signal of the builder, or one of the classes here."""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from norn.interchange.activations import ACTIVATIONS, BY_ONNX, ONNX_DEFAULTS
from norn.interchange.builder import MOST_UNITS, Builder, Output, Signal, Sum, Unsupported

CLOSE = 1e-5  # constants that are meant to be the same


@dataclass(frozen=True)
class Dense:
    """An input of the graph, that has not been read. `extent`: without the batch, None where it is not said."""

    name: str
    extent: list[int | None]


@dataclass(frozen=True)
class Indices:
    """An input of integers: the units of a sparse one's entries, [batch, length]."""

    name: str


@dataclass(frozen=True)
class Values:
    """What the entries of a sparse input are multiplied by, [batch, length]: an input `name`, weights of features, or both."""

    name: str | None = None
    indices: str | None = None
    weights: np.ndarray | None = None
    normalised: bool = False
    axis: int | None = None  # of a third dimension


@dataclass(frozen=True)
class Rows:
    """Rows of a matrix for the entries of a sparse input, [batch, length, units]; `summed`: over the length, [batch, 1, units]."""

    matrix: np.ndarray
    indices: str
    name: str
    values: Values | None = None
    summed: bool = False


@dataclass(frozen=True)
class Norm:
    """The Euclidean norm of an input's rows, [batch, 1]."""

    of: Any


@dataclass(frozen=True)
class Extent:
    """That of a value."""

    of: Any


@dataclass(frozen=True)
class Part:
    """A part of a formula, of the signal called `base`: "erf" of it, "1+erf", "2gelu"; "abs", "1+abs"."""

    word: str
    base: str


@dataclass
class Lazy:
    """A signal that is part of a formula, or a layer if anybody reads it as one."""

    make: Callable[[], Signal]
    made: Signal | None = None


@dataclass(frozen=True)
class Ranked:
    """The best units of a signal."""

    signal: Signal


class Mask:
    """Computed of a sparse input's entries: what leaves seen units out."""


class Reader:
    """Values by name, and the builder that makes layers of them."""

    def __init__(self, builder: Builder):
        self.builder = builder
        self.values: dict[str, Any] = {}
        self.opset = 1
        self.dense: dict[str, Output] = {}
        self.sparse: dict[tuple[str, str | None], Output] = {}
        self.scaled: dict[str, tuple[str, float]] = {}    # by name: of which signal, times what
        self.sigmoid: dict[str, tuple[str, float]] = {}   # and through a sigmoid

    def signal(self, value: Any, units: int | None = None) -> Signal:
        """[batch, units]."""
        if isinstance(value, Lazy):
            value.made = value.made or value.make()
            value = value.made
        if isinstance(value, Signal):
            return value
        if not isinstance(value, Dense):
            raise Unsupported("it reads something that is not the output of a layer")
        if value.name not in self.dense:
            if len(value.extent) != 1:
                raise Unsupported(f"it reads an input of {len(value.extent) + 1} dimensions; flatten it before")
            width = value.extent[0] or units
            if not width or width > MOST_UNITS:
                raise Unsupported(f"input \"{value.name}\" does not say how wide it is")
            self.dense[value.name] = self.builder.input(value.name, width)
        return self.dense[value.name]

    def product(self, rows: Rows) -> Sum:
        """Rows that are summed up: weights of a sparse input."""
        values = rows.values or Values()
        if values.indices is not None and values.indices != rows.indices:
            raise Unsupported("its values are those of other indices")
        key = (rows.indices, values.name)
        if key not in self.sparse:
            self.sparse[key] = self.builder.input(values.name or rows.indices, rows.matrix.shape[0])
        source = self.sparse[key]
        keys = self.builder.layers[source.layer]
        if values.weights is not None:
            keys.setdefault("InputWeighting", {"Scheme": "InverseDocumentFrequency"})
            known = self.builder.parameters.setdefault(f"{source.layer} featureWeights", values.weights)
            if known.shape != values.weights.shape or not np.array_equal(known, values.weights):
                raise Unsupported("its input has other weights of features elsewhere")
        if values.normalised:
            keys["Normalize"] = "L2"
        wanted = ("InputWeighting" in keys, keys.get("Normalize") == "L2")
        if wanted != (values.weights is not None, values.normalised):
            raise Unsupported("its input is normalised or weighted elsewhere, but not here")
        return self.builder.matmul(source, rows.matrix, rows.name)


def constant(value: Any, what: str) -> np.ndarray:
    if not isinstance(value, np.ndarray):
        raise Unsupported(f"{what} is computed, not an array of the file")
    return value


def floats(value: Any, what: str) -> np.ndarray:
    array = constant(value, what)
    if array.dtype.kind not in "fiu" and array.dtype.name != "bfloat16":
        raise Unsupported(f"{what} is of {array.dtype}")
    return array if array.dtype == np.float32 else array.astype(np.float32)


def near(a: Any, b: float) -> bool:
    return isinstance(a, np.ndarray) and a.size == 1 and math.isclose(float(a.reshape(-1)[0]), b, rel_tol=CLOSE)


def axes_of(inputs: list[Any], attributes: dict[str, Any]) -> list[int] | None:
    axes = attributes.get("axes")
    if axes is None and len(inputs) > 1 and inputs[1] is not None:
        axes = constant(inputs[1], "its axes").reshape(-1).tolist()
    return None if axes is None else [int(axis) for axis in axes]


def matmul(reader: Reader, inputs: list[Any], attributes: dict[str, Any], node: Any) -> Any:
    x, weights = inputs[0], inputs[1]
    if isinstance(x, Values) and x.axis == 1 and isinstance(weights, Rows) and weights.values is None:
        return replace(weights, values=x, summed=True)
    matrix = floats(weights, "its second factor")
    return reader.builder.matmul(reader.signal(x, matrix.shape[0] if matrix.ndim == 2 else None), matrix, stem(node))


def gemm(reader: Reader, inputs: list[Any], attributes: dict[str, Any], node: Any) -> Any:
    if attributes.get("transA", 0):
        raise Unsupported("transA is set")
    matrix = floats(inputs[1], "its weights")
    if matrix.ndim != 2:
        raise Unsupported(f"its weights have {matrix.ndim} dimensions")
    matrix = matrix.T if attributes.get("transB", 0) else matrix
    result: Signal = reader.builder.matmul(reader.signal(inputs[0], matrix.shape[0]), matrix, stem(node))
    if attributes.get("alpha", 1.0) != 1.0:
        result = reader.builder.affine(result, scale=attributes["alpha"])
    if len(inputs) < 3 or inputs[2] is None:
        return result
    bias = floats(inputs[2], "its bias")
    beta = attributes.get("beta", 1.0)
    return reader.builder.affine(result, shift=bias if beta == 1.0 else bias * np.float64(beta))


def stem(node: Any, first: int = 1) -> str:
    """What a layer is called: "fc1" for the weights "fc1.weight", else as the node is. `first`: of the inputs that may be weights."""
    for name in list(node.input)[first:]:
        for end in (".weight", "/kernel", ".kernel", "/MatMul/ReadVariableOp:0"):
            if name.endswith(end):
                return name.removesuffix(end)
        if " -> " in name:
            return name.rsplit(" -> ", 1)[1]
    return (node.name or "").removesuffix("/MatMul").removesuffix("/Gemm")


def add(reader: Reader, inputs: list[Any], attributes: dict[str, Any], node: Any) -> Any:
    for a, b in ((inputs[0], inputs[1]), (inputs[1], inputs[0])):
        if isinstance(a, Part) and a.word in ("erf", "abs") and near(b, 1.0):
            return Part("1+" + a.word, a.base)
        if isinstance(b, np.ndarray):
            return reader.builder.affine(reader.signal(a, b.size), shift=floats(b, "its summand"))
    return reader.builder.add(reader.signal(inputs[0]), reader.signal(inputs[1]))


def add_all(reader: Reader, inputs: list[Any], attributes: dict[str, Any], node: Any) -> Any:
    result = inputs[0]
    for value in inputs[1:]:
        result = add(reader, [result, value], attributes, node)
    return reader.signal(result)


def subtract(reader: Reader, inputs: list[Any], attributes: dict[str, Any], node: Any) -> Any:
    a, b = inputs
    if isinstance(b, np.ndarray):
        return reader.builder.affine(reader.signal(a, b.size), shift=-floats(b, "its summand"))
    negative = reader.builder.affine(reader.signal(b), scale=-1.0)
    if isinstance(a, np.ndarray):
        return reader.builder.affine(negative, shift=floats(a, "its summand"))
    return reader.builder.add(reader.signal(a), negative)


def multiply(reader: Reader, inputs: list[Any], attributes: dict[str, Any], node: Any) -> Any:
    for at in (0, 1):
        a, b, name, other = inputs[at], inputs[1 - at], node.input[at], node.input[1 - at]
        if isinstance(b, np.ndarray):
            return scale(reader, a, floats(b, "its factor"), name, node)
        if isinstance(a, Part):
            return formula(reader, a, b, other, node)
        if isinstance(a, (Values, Dense)) and isinstance(b, Values) and b.weights is not None:
            a = a if isinstance(a, Values) else Values(a.name)
            if a.weights is None and a.indices in (None, b.indices) and not a.normalised and a.axis == b.axis:
                return replace(a, weights=b.weights, indices=b.indices)
        if isinstance(a, Values) and a.axis == 2 and isinstance(b, Rows) and b.values is None and not b.summed:
            return replace(b, values=a)
        if other in reader.sigmoid and isinstance(a, (Signal, Lazy)) and reader.sigmoid[other][0] == name:
            a = reader.signal(a)
            return reader.builder.activate(a, "Swish", {"SwishBeta": reader.sigmoid[other][1]}, stem(node))
    raise Unsupported("it multiplies layers with each other")


def scale(reader: Reader, x: Any, factor: np.ndarray, name: str, node: Any) -> Any:
    if isinstance(x, Part):
        if x.word == "2gelu" and near(factor, 0.5):
            return gelu(reader, x.base, node)
        raise Unsupported("it is part of a formula that Norn has not")
    if factor.size > 1:
        return reader.builder.affine(reader.signal(x, factor.size), scale=factor)
    base, before = reader.scaled.get(name, (name, 1.0))
    reader.scaled[node.output[0]] = (base, before * float(factor.reshape(-1)[0]))
    return Lazy(lambda: reader.builder.affine(reader.signal(x), scale=factor))


def divide(reader: Reader, inputs: list[Any], attributes: dict[str, Any], node: Any) -> Any:
    a, b = inputs
    if isinstance(b, np.ndarray):
        factor = floats(b, "its divisor")
        if np.any(factor == 0):
            raise Unsupported("it divides by 0")
        return scale(reader, a, (1.0 / factor.astype(np.float64)), node.input[0], node)
    if isinstance(b, Part) and b.word == "1+abs" and b.base == node.input[0]:
        return reader.builder.activate(reader.signal(a), "SoftSign", name=stem(node))
    if isinstance(b, Norm) and b.of is a:
        if isinstance(a, Values) or isinstance(a, Dense) and a.extent == [None]:
            return replace(a if isinstance(a, Values) else Values(a.name), normalised=True)
        source = reader.signal(a)
        if isinstance(source, Output) and source.scale is None and source.shift is None:
            keys = reader.builder.layers[source.layer]
            if keys["Kind"] == "Input":
                keys["Normalize"] = "L2"
                return source
    raise Unsupported("it divides by what is computed; only inputs are divided, by their norm")


def formula(reader: Reader, part: Part, other: Any, name: str, node: Any) -> Any:
    base, factor = reader.scaled.get(name, (name, 1.0))
    if part.word == "1+erf" and base == part.base and isinstance(other, (Signal, Lazy)):
        if math.isclose(factor, 0.5, rel_tol=CLOSE):
            return gelu(reader, base, node)
        if factor == 1.0:
            return Part("2gelu", base)
    raise Unsupported("it is part of a formula that Norn has not")


def gelu(reader: Reader, base: str, node: Any) -> Any:
    return reader.builder.activate(reader.signal(reader.values[base]), "GELU", name=stem(node))


def error_function(reader: Reader, inputs: list[Any], attributes: dict[str, Any], node: Any) -> Any:
    base, factor = reader.scaled.get(node.input[0], (node.input[0], 1.0))
    if not math.isclose(factor, 0.5 ** 0.5, rel_tol=CLOSE):
        raise Unsupported("it is part of a formula that Norn has not")
    return Part("erf", base)


def absolute(reader: Reader, inputs: list[Any], attributes: dict[str, Any], node: Any) -> Any:
    return Part("abs", node.input[0])


def activation(word: str) -> Callable[..., Any]:
    def read(reader: Reader, inputs: list[Any], attributes: dict[str, Any], node: Any) -> Any:
        known = ACTIVATIONS[word]
        given = {**ONNX_DEFAULTS.get(known.onnx or "", {}), **attributes}
        parameters = {key: float(given[name]) for key, name in known.attributes.items()}
        if word == "Sigmoid":
            reader.sigmoid[node.output[0]] = reader.scaled.get(node.input[0], (node.input[0], 1.0))
            return Lazy(lambda: reader.builder.activate(reader.signal(inputs[0]), word, name=stem(node)))
        return reader.builder.activate(reader.signal(inputs[0]), word, parameters, stem(node))
    return read


def softmax(reader: Reader, inputs: list[Any], attributes: dict[str, Any], node: Any) -> Any:
    axis = attributes.get("axis", -1 if reader.opset >= 13 else 1)
    if axis not in (-1, 1):
        raise Unsupported(f"axis {axis} is not that of the units")
    if node.op_type == "LogSoftmax":
        reader.builder.notes.append("LogSoftmax is read as SoftMax: the scores are probabilities, not their logarithms")
    return reader.builder.activate(reader.signal(inputs[0]), "SoftMax", name=stem(node))


def exact_gelu(reader: Reader, inputs: list[Any], attributes: dict[str, Any], node: Any) -> Any:
    if attributes.get("approximate", b"none") != b"none":
        raise Unsupported("it is approximate; Norn's GELU is the exact one")
    return reader.builder.activate(reader.signal(inputs[0]), "GELU", name=stem(node))


def parametric_relu(reader: Reader, inputs: list[Any], attributes: dict[str, Any], node: Any) -> Any:
    slopes = np.unique(floats(inputs[1], "its slope"))
    if slopes.size != 1:
        raise Unsupported("it has a slope for each unit; LRelu has one for all")
    return reader.builder.activate(reader.signal(inputs[0]), "LRelu", {"RELUSlope": float(slopes[0])}, stem(node))


def batch_normalization(reader: Reader, inputs: list[Any], attributes: dict[str, Any], node: Any) -> Any:
    if attributes.get("training_mode", 0):
        raise Unsupported("training_mode is set; export the model for inference")
    arrays = [floats(value, "one of its inputs") for value in inputs[1:5]]
    return reader.builder.normalise(reader.signal(inputs[0], arrays[0].size), *arrays, attributes.get("epsilon", 1e-5))


def concat(reader: Reader, inputs: list[Any], attributes: dict[str, Any], node: Any) -> Any:
    if attributes.get("axis") not in (1, -1):
        raise Unsupported(f"axis {attributes.get('axis')} is not that of the units")
    return reader.builder.join([reader.signal(value) for value in inputs])


def gather(reader: Reader, inputs: list[Any], attributes: dict[str, Any], node: Any) -> Any:
    if attributes.get("axis", 0) != 0 or not isinstance(inputs[1], Indices):
        raise Unsupported("only rows of weights are gathered, by indices that are an input")
    array = floats(inputs[0], "what it takes rows of")
    if array.ndim == 1:
        return Values(None, inputs[1].name, array)
    if array.ndim != 2:
        raise Unsupported(f"its weights have {array.ndim} dimensions")
    return Rows(array, inputs[1].name, stem(node, 0))


def reduce_sum(reader: Reader, inputs: list[Any], attributes: dict[str, Any], node: Any) -> Any:
    if not isinstance(inputs[0], Rows) or inputs[0].summed or axes_of(inputs, attributes) not in ([1], [-2]):
        raise Unsupported("only rows of a sparse input's weights are summed up, over axis 1")
    if attributes.get("keepdims", 1):
        return replace(inputs[0], summed=True)
    return reader.product(inputs[0])


def unsqueeze(reader: Reader, inputs: list[Any], attributes: dict[str, Any], node: Any) -> Any:
    axes = axes_of(inputs, attributes)
    x = Values(inputs[0].name) if isinstance(inputs[0], Dense) else inputs[0]
    if isinstance(x, np.ndarray) and axes:
        return np.expand_dims(x, tuple(axes))
    if isinstance(x, Values) and x.axis is None and axes in ([1], [2], [-1], [-2]):
        return replace(x, axis={-1: 2, -2: 1}.get(axes[0], axes[0]))
    raise Unsupported("only values of a sparse input get a dimension more")


def squeeze(reader: Reader, inputs: list[Any], attributes: dict[str, Any], node: Any) -> Any:
    if isinstance(inputs[0], np.ndarray):
        return np.squeeze(inputs[0])
    if isinstance(inputs[0], Rows) and inputs[0].summed and axes_of(inputs, attributes) in ([1], [-2]):
        return reader.product(inputs[0])
    raise Unsupported("only sums of a sparse input's rows lose a dimension")


def norm(reader: Reader, inputs: list[Any], attributes: dict[str, Any], node: Any) -> Any:
    if axes_of(inputs, attributes) not in ([1], [-1]) or not attributes.get("keepdims", 1):
        raise Unsupported("it is no norm of rows")
    return Norm(inputs[0])


def least(reader: Reader, inputs: list[Any], attributes: dict[str, Any], node: Any) -> Any:
    if isinstance(inputs[0], Norm) and all(value is None or isinstance(value, np.ndarray) for value in inputs[1:]):
        if all(value is None or value.size == 1 and 0 <= float(value.reshape(-1)[0]) <= 1e-6 for value in inputs[1:2]):
            return inputs[0]
    raise Unsupported("only norms of inputs are held above a number near 0")


def shape(reader: Reader, inputs: list[Any], attributes: dict[str, Any], node: Any) -> Any:
    return Extent(inputs[0])


def expand(reader: Reader, inputs: list[Any], attributes: dict[str, Any], node: Any) -> Any:
    if isinstance(inputs[0], Norm) and isinstance(inputs[1], Extent) and inputs[1].of is inputs[0].of:
        return inputs[0]
    raise Unsupported("only norms of inputs are expanded, to these")


def flatten(reader: Reader, inputs: list[Any], attributes: dict[str, Any], node: Any) -> Any:
    x = inputs[0]
    if attributes.get("axis", 1) != 1:
        raise Unsupported("axis is not 1")
    if not isinstance(x, Dense):
        return reader.signal(x)
    known = all(x.extent)
    return Dense(x.name, [math.prod(extent or 0 for extent in x.extent) if known else None])


def reshape(reader: Reader, inputs: list[Any], attributes: dict[str, Any], node: Any) -> Any:
    x = inputs[0]
    extent = constant(inputs[1], "its extent").reshape(-1).tolist() if len(inputs) > 1 else list(attributes.get("shape", []))
    if isinstance(x, np.ndarray):
        return x.reshape(extent)
    if len(extent) != 2:
        raise Unsupported(f"it makes {len(extent)} dimensions; layers have two")
    x = flatten(reader, [x], {}, node)
    units = x.extent[0] if isinstance(x, Dense) else x.units
    if extent[1] not in (-1, units) and units is not None:
        raise Unsupported(f"it makes rows of {extent[1]} of {units} units")
    return Dense(x.name, [extent[1]]) if isinstance(x, Dense) and units is None and extent[1] > 0 else x


def transpose(reader: Reader, inputs: list[Any], attributes: dict[str, Any], node: Any) -> Any:
    array = constant(inputs[0], "what it transposes")
    perm = attributes.get("perm")
    return array.transpose(perm if perm is None else list(perm))


def as_it_is(reader: Reader, inputs: list[Any], attributes: dict[str, Any], node: Any) -> Any:
    if node.op_type == "Dropout" and len(inputs) > 2 and inputs[2] is not None and np.any(constant(inputs[2], "its training_mode")):
        raise Unsupported("training_mode is set; export the model for inference")
    if node.input[0] in reader.scaled:
        reader.scaled[node.output[0]] = reader.scaled[node.input[0]]
    if node.op_type == "Cast" and not isinstance(inputs[0], (Signal, Lazy, Dense, Indices, np.ndarray)):
        raise Unsupported("only inputs, layers and arrays are cast")
    return inputs[0]


def constant_node(reader: Reader, inputs: list[Any], attributes: dict[str, Any], node: Any) -> Any:
    for key in ("value", "value_float", "value_int", "value_floats", "value_ints"):
        if key in attributes:
            return np.asarray(attributes[key])
    raise Unsupported("it has no number")


def mask(reader: Reader, inputs: list[Any], attributes: dict[str, Any], node: Any) -> Any:
    if all(isinstance(value, (Mask, Values, Dense, Indices, np.ndarray)) for value in inputs):
        return Mask()
    raise Unsupported("it compares what layers compute")


def scatter(reader: Reader, inputs: list[Any], attributes: dict[str, Any], node: Any) -> Any:
    if isinstance(inputs[0], (Signal, Lazy)) and isinstance(inputs[1], Indices) and isinstance(inputs[2], Mask):
        reader.builder.notes.append("what leaves seen units out is not part of the network")
        return inputs[0]
    raise Unsupported("only what leaves seen units out is scattered")


def best(reader: Reader, inputs: list[Any], attributes: dict[str, Any], node: Any) -> Any:
    signal = reader.builder.output_of(reader.signal(inputs[0]))
    return Ranked(signal), Ranked(signal)


HANDLERS: dict[str, Callable[..., Any]] = {
    **{operator: activation(word) for operator, word in BY_ONNX.items()},
    "Identity": as_it_is, "Dropout": as_it_is, "Cast": as_it_is, "Softmax": softmax, "LogSoftmax": softmax, "Gelu": exact_gelu,
    "PRelu": parametric_relu, "MatMul": matmul, "Gemm": gemm, "Add": add, "Sum": add_all, "Sub": subtract, "Mul": multiply, "Div": divide,
    "Erf": error_function, "Abs": absolute, "Shape": shape, "Expand": expand, "BatchNormalization": batch_normalization, "Concat": concat, "Gather": gather, "ReduceSum": reduce_sum,
    "Unsqueeze": unsqueeze, "Squeeze": squeeze, "ReduceL2": norm, "Max": least, "Clip": least, "Flatten": flatten, "Reshape": reshape,
    "Transpose": transpose, "Constant": constant_node, "Equal": mask, "Greater": mask, "Less": mask, "Not": mask, "Where": mask,
    "Min": mask, "ScatterElements": scatter, "TopK": best,
}
