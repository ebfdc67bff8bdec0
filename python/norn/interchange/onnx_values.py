# SPDX-License-Identifier: Apache-2.0
"""The values of an ONNX graph until layers are made of them, arrays, Signals of the builder, or of the classes here; and its nodes."""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from norn.interchange.builder import MOST_UNITS, Builder, Output, Signal, Sum
from norn.interchange.problems import Unsupported

if TYPE_CHECKING:
    from norn._types import Array

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
    weights: Array | None = None
    normalised: bool = False
    axis: int | None = None  # of a third dimension


@dataclass(frozen=True)
class Rows:
    """Rows of a matrix for the entries of a sparse input, [batch, length, units]; `summed`: over the length, [batch, 1, units]."""

    matrix: Array
    indices: str
    name: str
    values: Values | None = None
    summed: bool = False


@dataclass(frozen=True)
class Part:
    """What is no layer by itself: of the signal called `of` "erf", "1+erf", "2gelu", "abs" or "1+abs", which are parts of formulas;
    "norm" or "extent" of an input, [batch, 1]; the "best" units of a signal; a "mask" that leaves seen units out."""

    word: str
    of: Any = None


@dataclass
class Lazy:
    """A signal that is part of a formula, or a layer if anybody reads it as one."""

    make: Callable[[], Signal]
    made: Signal | None = None


@dataclass
class Graph:
    """Values by name, and the builder that makes layers of them. `scaled`: by name of which signal, times what; `sigmoid`: and through
    a sigmoid."""

    builder: Builder
    opset: int = 1
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    dense: dict[str, Output] = field(default_factory=dict[str, Output])
    sparse: dict[tuple[str, str | None], Output] = field(default_factory=dict[tuple[str, "str | None"], Output])
    scaled: dict[str, tuple[str, float]] = field(default_factory=dict[str, tuple[str, float]])
    sigmoid: dict[str, tuple[str, float]] = field(default_factory=dict[str, tuple[str, float]])

    def scale_of(self, name: str) -> tuple[str, float]:
        return self.scaled.get(name, (name, 1.0))

    def signal(self, value: Any, units: int | None = None) -> Signal:
        """[batch, units]."""
        if isinstance(value, Lazy):
            value.made = value.made or value.make()
            return value.made
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
            if not np.array_equal(known, values.weights):
                raise Unsupported("its input has other weights of features elsewhere")
        if values.normalised:
            keys["Normalize"] = "L2"
        if ("InputWeighting" in keys, keys.get("Normalize") == "L2") != (values.weights is not None, values.normalised):
            raise Unsupported("its input is normalised or weighted elsewhere, but not here")
        return self.builder.matmul(source, rows.matrix, rows.name)


def constant(value: Any, what: str) -> Array:
    if not isinstance(value, np.ndarray):
        raise Unsupported(f"{what} is computed, not an array of the file")
    return value


def floats(value: Any, what: str) -> Array:
    array = constant(value, what)
    if array.dtype.kind not in "fiu" and array.dtype.name != "bfloat16":
        raise Unsupported(f"{what} is of {array.dtype}")
    return array.astype(np.float32, copy=False)


def near(a: Any, b: float) -> bool:
    return isinstance(a, np.ndarray) and a.size == 1 and math.isclose(float(a.reshape(-1)[0]), b, rel_tol=CLOSE)


def is_part(x: Any, *words: str) -> bool:
    return isinstance(x, Part) and x.word in words


@dataclass(frozen=True)
class Node:
    """A node of a graph with what it reads. `names`: of its inputs, `result`: of its first output."""

    graph: Graph
    operator: str
    name: str
    inputs: list[Any]
    names: list[str]
    attributes: dict[str, Any]
    result: str

    @property
    def x(self) -> Any:
        """Its first input."""
        if not self.inputs:
            raise Unsupported("it reads nothing")
        return self.inputs[0]

    def get(self, at: int) -> Any:
        return self.inputs[at] if at < len(self.inputs) else None

    def two(self) -> tuple[Any, Any]:
        if len(self.inputs) != 2:
            raise Unsupported(f"it reads {len(self.inputs)} values, expected two")
        return self.inputs[0], self.inputs[1]

    def signal(self, units: int | None = None) -> Signal:
        return self.graph.signal(self.x, units)

    def axes(self) -> list[int] | None:
        axes = self.attributes.get("axes")
        if axes is None and self.get(1) is not None:
            axes = constant(self.inputs[1], "its axes").reshape(-1).tolist()
        return None if axes is None else [int(axis) for axis in axes]

    def activate(self, word: str, parameters: dict[str, float] | None = None, x: Any = None) -> Output:
        return self.graph.builder.activate(self.signal() if x is None else self.graph.signal(x), word, parameters, self.stem())

    def affine(self, x: Any, scale: Any = None, shift: Any = None) -> Signal:
        arrays = [array for array in (scale, shift) if isinstance(array, np.ndarray)]
        signal = self.graph.signal(x, next((array.size for array in arrays), None))
        extent = self.graph.builder.extent_of(signal)
        if extent and any(array.size > 1 and array.shape[-len(extent):] != (extent[-1], *[1] * (len(extent) - 1)) for array in arrays):
            raise Unsupported(f"it has other numbers for the places of a channel: {[list(array.shape) for array in arrays]}")
        return self.graph.builder.affine(signal, scale, shift)

    def stem(self, first: int = 1) -> str:
        """What a layer is called: "fc1" for the weights "fc1.weight", else as the node is. `first`: of the inputs that may be weights."""
        for name in self.names[first:]:
            for end in (".weight", "/kernel", ".kernel", "/MatMul/ReadVariableOp:0"):
                if name.endswith(end):
                    return name.removesuffix(end)
            if " -> " in name:
                return name.rsplit(" -> ", 1)[1]
        return self.name.removesuffix("/MatMul").removesuffix("/Gemm")
