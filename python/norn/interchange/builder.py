# SPDX-License-Identifier: Apache-2.0
"""From the operations of other formats to the layers of a network: what a layer of Norn's adds up, normalises and puts through its
activation is gathered operation by operation, and becomes a layer where the next one reads it."""
from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from norn.interchange.parts import Parts
from norn.interchange.problems import Problems, Unsupported, fail
from norn.interchange.wiring import NORM_VECTORS

if TYPE_CHECKING:
    from norn._types import Array

EPSILON = 1e-5  # that Norn adds to variances
MOST_JOINED = 1 << 14
LEAST_BYTES = 1 << 27
MOST_UNITS = (1 << 32) - 1


@dataclass(frozen=True)
class Signal:
    """[examples, units] of floats."""

    units: int


@dataclass(frozen=True)
class Output(Signal):
    """What a layer gives, times `scale` plus `shift` ([units] each, or None)."""

    layer: str
    scale: Array | None = None
    shift: Array | None = None

    def affine(self, scale: Array | None, shift: Array | None) -> Output:
        before = self.shift if scale is None or self.shift is None else self.shift * scale
        both = scale if self.scale is None else self.scale if scale is None else self.scale * scale
        return Output(self.units, self.layer, both, plus(before, shift))


@dataclass(frozen=True)
class Sum(Signal):
    """What a layer adds up, before its activation: products of layers with matrices [source units, units], a bias, other layers as they
    are; `norm` (scale, bias, mean, variance) of batch normalisation stands behind all of it. Of a Convolutional layer, whose `keys`
    are N, Kernel and KernelStride, they are filters [channels, channels of the source, .., y, x], and vectors are of channels."""

    terms: tuple[tuple[str, Array], ...] = ()
    bias: Array | None = None
    skips: tuple[str, ...] = ()
    norm: tuple[Array, ...] | None = None
    name: str = ""
    keys: dict[str, Any] | None = None

    @property
    def channels(self) -> int:
        return self.units if self.keys is None else int(self.keys["N"][-1])


@dataclass(frozen=True)
class Joined(Signal):
    """Several, side by side."""

    parts: tuple[Output, ...]


def vector(values: Any, units: int, what: str) -> Array:
    """[units] of what is one number, or as many."""
    array = np.asarray(values, dtype=np.float64).reshape(-1)
    if array.size == 1:
        array = np.broadcast_to(array, units)
    if array.size != units:
        raise Unsupported(f"{what} has {array.size} numbers for {units} units")
    return array


def plus(a: Array | None, b: Array | None) -> Array | None:
    if a is None or b is None:
        return b if a is None else a
    return np.add(a, b, dtype=np.float64)


@dataclass
class Builder:
    """`data`: what the data sets are called: DATA_input and DATA_output, or where there are several DATA_LAYER."""

    name: str
    data: str
    layers: dict[str, dict[str, Any]] = field(default_factory=dict)
    parameters: dict[str, Array] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    # Of the arrays that operations make, so that a small file does not fill the memory.
    most_bytes: int = LEAST_BYTES
    made_bytes: int = 0
    lrn: dict[str, float] | None = None  # of all layers with Function LRN

    def allow_for(self, arrays: Iterable[Any]) -> None:
        """Operations may make some times as much as the file's arrays."""
        self.most_bytes = LEAST_BYTES + 32 * sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))

    def make_room(self, size: int) -> None:
        """For an array of so many bytes that an operation makes."""
        self.made_bytes += size
        if self.made_bytes > self.most_bytes:
            raise Unsupported(f"what it computes of weights, with all before it, takes more than {self.most_bytes} bytes")

    def set_response(self, lrn: dict[str, float]) -> None:
        if self.lrn is not None and self.lrn != lrn:
            raise Unsupported(f"its response normalisation is {lrn}, another layer's {self.lrn}; a network of Norn has one")
        self.lrn = lrn

    def unique(self, name: str, otherwise: str) -> str:
        stem = "".join(c if c.isprintable() else "_" for c in name).strip(" /")[:100] or otherwise
        number, chosen = 1, stem
        while chosen in self.layers:
            number += 1
            chosen = f"{stem}_{number}"
        return chosen

    def input(self, name: str, units: int) -> Output:
        if units < 1:
            raise Unsupported(f"it is {units} units wide")
        chosen = self.unique(name, "Input")
        self.layers[chosen] = {"Name": chosen, "Kind": "Input", "N": int(units)}
        return Output(int(units), chosen)

    def matmul(self, x: Signal, matrix: Array, name: str = "") -> Sum:
        """x times [units of x, units]."""
        if matrix.ndim != 2:
            raise Unsupported(f"its weights have {matrix.ndim} dimensions; Norn's layers have matrices")
        if matrix.shape[0] != x.units:
            raise Unsupported(f"its weights are for {matrix.shape[0]} units, but what it reads has {x.units}")
        parts: list[tuple[Output, Array]] = []
        if isinstance(x, Joined):
            ends = np.cumsum([part.units for part in x.parts])
            parts = list(zip(x.parts, np.split(matrix, ends[:-1])))
        elif isinstance(x, Sum) and not x.terms and x.norm is None:
            # Layers that are added up without weights: each goes through the matrix.
            result = Sum(matrix.shape[1], tuple((layer, matrix) for layer in x.skips), name=name)
            return result if x.bias is None else replace(result, bias=x.bias @ matrix.astype(np.float64))
        else:
            parts = [(self.output_of(x), matrix)]
        result = Sum(matrix.shape[1], name=name)
        if len({part.layer for part, _ in parts}) < len(parts):
            raise Unsupported("it reads the same layer twice")
        for part, rows in parts:
            bias = None if part.shift is None else part.shift @ rows.astype(np.float64)
            weights = rows if part.scale is None else self._made(part.scale[:, None], rows, np.multiply)
            result = replace(result, terms=result.terms + ((part.layer, weights),), bias=plus(result.bias, bias))
        return result

    def add(self, x: Signal, y: Signal) -> Sum:
        if x.units != y.units:
            raise Unsupported(f"it adds {x.units} units to {y.units}")
        a, b = (self._open(signal) for signal in (x, y))
        if a.keys != b.keys:
            a, b = (a, self._as_it_is(b, a)) if a.keys is not None else (b, self._as_it_is(a, b))
        if set(a.skips) & set(b.skips):
            raise Unsupported("it adds the same layer twice")
        terms = dict(a.terms)
        for layer, matrix in b.terms:
            terms[layer] = matrix if layer not in terms else self._made(terms[layer], matrix, np.add)
        return replace(a, terms=tuple(terms.items()), bias=plus(a.bias, b.bias), skips=a.skips + b.skips, name=a.name or b.name)

    def join(self, parts: list[Signal]) -> Joined:
        outputs: list[Output] = []
        for part in parts:
            outputs += part.parts if isinstance(part, Joined) else [self.output_of(part)]
        units = sum(part.units for part in outputs)
        if len(outputs) > MOST_JOINED or units > MOST_UNITS:
            raise Unsupported(f"it joins {len(outputs)} layers of {units} units")
        return Joined(units, tuple(outputs))

    def affine(self, x: Signal, scale: Any = None, shift: Any = None) -> Signal:
        """x * scale + shift, each a number or [units], or of what has places [channels]."""
        scale, shift = (None if values is None else vector(values, self.channels_of(x), what)
                        for values, what in ((scale, "its factor"), (shift, "its summand")))
        if isinstance(x, Joined):
            ends = np.cumsum([part.units for part in x.parts])[:-1]
            scales, shifts = (len(x.parts) * [None] if array is None else np.split(array, ends) for array in (scale, shift))
            return Joined(x.units, tuple(part.affine(*both) for part, *both in zip(x.parts, scales, shifts)))
        if isinstance(x, Output):
            places = x.units // self.channels_of(x)
            return x.affine(*(array if array is None else np.repeat(array, places) for array in (scale, shift)))
        assert isinstance(x, Sum)
        if x.skips and (x.norm is not None or scale is not None):
            return self.affine(self.output_of(x), scale, shift)
        x = self._without_norm(x)
        if scale is not None:
            x = replace(x, terms=self._scaled(x, scale), bias=None if x.bias is None else x.bias * scale)
        return replace(x, bias=plus(x.bias, shift))

    def extent_of(self, x: Signal) -> list[int] | None:
        """[x, y .., channels] of what has places."""
        extent: Any = None
        if isinstance(x, Sum) and x.keys is not None:
            extent = x.keys["N"]
        elif isinstance(x, Output):
            extent = self.layers[x.layer]["N"]
        return list(extent) if isinstance(extent, list) else None

    def channels_of(self, x: Signal) -> int:
        extent = self.extent_of(x)
        return x.units if extent is None else extent[-1]

    def normalise(self, x: Signal, scale: Any, bias: Any, mean: Any, variance: Any, epsilon: float) -> Signal:
        """Batch normalisation by running statistics."""
        values = [vector(value, self.channels_of(x), what) for value, what in
                  ((scale, "its scale"), (bias, "its bias"), (mean, "its mean"), (variance, "its variance"))]
        if not np.all(np.isfinite(values)) or not math.isfinite(epsilon) or np.any(values[3] + epsilon <= 0):
            raise Unsupported("its statistics are not those of numbers")
        if isinstance(x, Sum) and x.terms and x.norm is None:
            # Another epsilon is taken into the variance.
            values[3] = values[3] + (epsilon - EPSILON)
            return replace(x, norm=tuple(values))
        factor = values[0] / np.sqrt(values[3] + epsilon)
        return self.affine(x, factor, values[1] - values[2] * factor)

    def activate(self, x: Signal, word: str, parameters: dict[str, float] | None = None, name: str = "") -> Output:
        if isinstance(x, (Output, Joined)):
            if word == "Linear" and isinstance(x, Output):
                return x
            raise Unsupported("it stands behind another activation or an input, without weights between them")
        assert isinstance(x, Sum)
        return self._layer(x, word, parameters or {}, x.name or name)

    def output_of(self, x: Signal) -> Output:
        """What a layer reads: of sums a layer of their own."""
        if isinstance(x, Joined):
            raise Unsupported("it reads layers side by side, which in Norn only weights do")
        if isinstance(x, Output):
            return x
        assert isinstance(x, Sum)
        return self._layer(x, "Linear", {}, x.name)

    def finish(self, x: Signal) -> None:
        """An output of the network."""
        output = self.output_of(x)
        if output.scale is not None or output.shift is not None:
            raise Unsupported("an output is scaled behind its activation")
        if self.extent_of(output) is not None:
            raise Unsupported("an output has places and channels; Norn's outputs are FullyConnected")
        if self.layers[output.layer]["Kind"] == "Input":
            raise Unsupported("an output is an input as it is")
        if output.layer not in self.outputs:
            self.outputs.append(output.layer)

    def parts_of(self, problems: Problems) -> Parts:
        """The network, if no problem was found. Raises DataError."""
        problems.raise_any()
        try:
            return self.parts()
        except Unsupported as error:
            raise fail(problems.where, str(error)) from error

    def parts(self) -> Parts:
        """The network: layers that lead to no output are left out."""
        if not self.outputs:
            raise Unsupported("it has no output")
        used, pending = set(), list(self.outputs)
        while pending:
            name = pending.pop()
            if name not in used:
                used.add(name)
                pending += self.layers[name].get("Source", []) + self.layers[name].get("Skip", [])
        for name in self.outputs:
            self._make_output(name)
        layers = [layer for name, layer in self.layers.items() if name in used and name not in self.outputs]
        layers += [self.layers[name] for name in self.outputs]
        for name in used & set(self.outputs):
            readers = [layer["Name"] for layer in layers if name in layer.get("Source", []) + layer.get("Skip", [])]
            if readers:
                raise Unsupported(f"output \"{name}\" is read by \"{readers[0]}\" too; Norn's Output layers feed no other layer: "
                                  "name the outputs that are wanted")
        self._name_data(layers)
        judged = all(layer["Activation"] in ("Sigmoid", "SoftMax") for layer in layers if layer["Kind"] == "Output")
        descriptor: dict[str, Any] = {"Name": self.name, "ErrorFunction": "CrossEntropy" if judged else "L2", "Layers": layers}
        if self.lrn is not None:
            descriptor["LocalResponseNormalization"] = self.lrn
        parameters = {name: np.ascontiguousarray(array, dtype=np.float32) for name, array in self.parameters.items()
                      if name.rsplit(" -> ", 1)[-1] in used or name.rsplit(" ", 1)[0] in used}
        return Parts(descriptor, parameters, {}, self.notes)

    def _name_data(self, layers: list[dict[str, Any]]) -> None:
        for kind, word in (("Input", "input"), ("Output", "output")):
            of_kind = [layer for layer in layers if layer["Kind"] == kind]
            for layer in of_kind:
                layer["DataSet"] = f"{self.data}_{word if len(of_kind) == 1 else layer['Name']}"

    def _make_output(self, name: str) -> None:
        layer = self.layers[name]
        layer["Kind"] = "Output"
        if not layer.pop("BatchNormalization", False):
            return
        # Output layers have none: it becomes part of the weights.
        scale, bias, mean, variance = (self.parameters.pop(f"{name} {item}") for item in NORM_VECTORS)
        factor = scale / np.sqrt(variance + EPSILON)
        for source in layer["Source"]:
            self.parameters[f"{source} -> {name}"] = self.parameters[f"{source} -> {name}"] * factor
        self.parameters[f"{name} bias"] = (self.parameters[f"{name} bias"] - mean) * factor + bias

    def _made(self, a: Array, b: Array, operation: Any) -> Array:
        result = operation(a, b, dtype=np.float64)
        self.make_room(result.nbytes)
        return result

    def _open(self, x: Signal) -> Sum:
        """Something that more can be added to."""
        if isinstance(x, Sum) and not (x.norm is not None and x.skips):
            return self._without_norm(x)
        output = self.output_of(x)
        if output.scale is not None:
            raise Unsupported("it adds a layer that is scaled behind its activation")
        return Sum(x.units, bias=output.shift, skips=(output.layer,))

    def _without_norm(self, x: Sum) -> Sum:
        if x.norm is None:
            return x
        scale, bias, mean, variance = x.norm
        factor = scale / np.sqrt(variance + EPSILON)
        before = -mean if x.bias is None else x.bias - mean
        return replace(x, norm=None, terms=self._scaled(x, factor), bias=before * factor + bias)

    def _scaled(self, x: Sum, factor: Array) -> tuple[tuple[str, Array], ...]:
        """Its terms, times a factor a unit or channel."""
        along = factor if x.keys is None else factor.reshape(-1, *[1] * len(x.keys["N"]))
        return tuple((layer, self._made(array, along, np.multiply)) for layer, array in x.terms)

    def _as_it_is(self, x: Sum, y: Sum) -> Sum:
        """x, to be added unit by unit to the convolution y."""
        if x.terms:
            x = Sum(x.units, skips=(self.output_of(x).layer,))
        for layer in x.skips:
            if self.layers[layer]["N"] != (y.keys or {})["N"]:
                raise Unsupported(f"it adds \"{layer}\", whose extent is another, to a convolution")
        if x.bias is not None:
            raise Unsupported("it adds a layer that is shifted behind its activation to a convolution")
        return x

    def _layer(self, x: Sum, word: str, parameters: dict[str, float], name: str) -> Output:
        if not x.terms:
            raise Unsupported("it adds up layers as they are, without weights; a layer of Norn's has weights from a source")
        matrices = dict(x.terms)
        chosen = self.unique(name, f"Layer{len(self.layers)}")
        if word == "SoftMax" and x.keys is not None:
            raise Unsupported("SoftMax stands behind a convolution; in Norn it is of FullyConnected layers")
        keys = {"N": int(x.units)} if x.keys is None else {"Type": "Convolutional", **x.keys}
        layer: dict[str, Any] = {"Name": chosen, "Kind": "Hidden", **keys, "Source": list(matrices)}
        if x.skips:
            layer["Skip"] = list(x.skips)
        layer["Activation"] = word
        layer.update(parameters)
        for source, matrix in matrices.items():
            self.parameters[f"{source} -> {chosen}"] = matrix
        self.parameters[f"{chosen} bias"] = np.zeros(x.channels) if x.bias is None else x.bias
        if x.norm is not None:
            layer["BatchNormalization"] = True
            for item, values in zip(NORM_VECTORS, x.norm):
                self.parameters[f"{chosen} {item}"] = values
        self.layers[chosen] = layer
        return Output(x.units, chosen)
