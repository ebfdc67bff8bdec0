# SPDX-License-Identifier: Apache-2.0
"""Networks as ONNX graphs, of opset 18 and IR 8: what ONNX Runtime 1.14 and Triton run. Example n of a batch with sparse inputs is
indices[n] and values[n], padded with value 0; nothing but standard operators is used."""
from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from norn.errors import UsageError
from norn.interchange.activations import ACTIVATIONS, parameters_of
from norn.interchange.parts import Parts, parts_of
from norn.interchange.problems import Problems, need
from norn.interchange.wiring import NORM_VECTORS, Edge, Layer, Wiring

if TYPE_CHECKING:
    from norn._types import Model

OPSET = 18
IR_VERSION = 8
WIDEST_DENSE = 1_000_000  # units; examples of a dense input take four bytes for each
LEAST_NORM = 1e-30        # rows of norm 0 stay as they are
EPSILON = 1e-5
ALIGNMENT = 4096          # bytes, of arrays in a file of their own
OWN_ARRAYS = ("number:", "axis:", "extent:")  # how those begin that are no parameters


def export_onnx(model: Model, path: str | os.PathLike[str], *, top_k: bool = False, seen: str | bool = True, output: str | None = None,
                dense: bool | None = None, external_over: int = 1 << 30) -> None:
    """Writes a model as an ONNX graph; files appear complete or not at all.

    Inputs are, of a sparse input `indices` [B, L] int64, from 0, and `values` [B, L] float32, 1 where data have none; rows are padded with
    value 0 and any index. Of a dense one `x` [B, units] float32. With several input layers their names come first, "Users_indices".
    Outputs are `scores` [B, units] float32; of several output layers each under its name, "Films_scores".

    model: a Network, a Recommender, or the name of a model file.
    path: of the file.
    top_k: an input `k` [1] int64 more, and instead of the scores `items` [B, min(k, units)] int64 and `scores`, best first, of equal
        ones the lower unit.
    seen: with top_k the entries of the input layer of that name come last, with score -inf (True: of the only sparse input whose
        units the output has; False: of none).
    output: the output layer, where there are several and one is wanted.
    dense: None: inputs are sparse wherever they can be; True: all are dense, however wide.
    external_over: bytes of arrays above which they stand in a file of their own, PATH.data; a file of ONNX ends at 2 GB.

    Raises UsageError for what ONNX cannot say, DataError where the file cannot be written."""
    need("onnx", "onnx", "writing ONNX")
    from norn.errors import DataError
    parts = parts_of(model)
    writer = _Writer(parts, dense, output)
    writer.write(top_k, seen)
    try:
        _save(writer, os.fspath(path), external_over)
    except OSError as error:
        raise DataError(f"{os.fspath(path)}: cannot be written: {error.strerror or error}") from error


class _Writer:
    def __init__(self, parts: Parts, dense: bool | None, output: str | None):
        import onnx
        self.onnx = onnx
        self.parts = parts
        self.wiring = Wiring(parts.descriptor)
        self.outputs = self._wanted(output)
        self.nodes: list[Any] = []
        self.arrays: dict[str, np.ndarray] = {}
        self.inputs: list[Any] = []
        self.results: list[Any] = []
        # Names that signals do not get.
        self.taken = {"k", "items", "scores", *parts.parameters, *(f"{layer.name}_scores" for layer in self.outputs)}
        self.signals: dict[str, str] = {}               # by layer: the name of its activations
        self.entries: dict[str, tuple[str, str]] = {}   # by sparse input: indices and values as they come in
        self.prepared: dict[str, tuple[str, str]] = {}  # and with their weights, normalised
        self._check(dense)
        self.dense = {layer.name for layer in self.wiring.inputs if dense or self.wiring.is_skipped_to(layer.name)}

    def _wanted(self, output: str | None) -> list[Layer]:
        if output is None:
            return self.wiring.outputs
        found = [layer for layer in self.wiring.outputs if layer.name == output]
        if not found:
            raise UsageError(f"`output`: the model has no Output layer \"{output}\". It has: "
                             + ", ".join(layer.name for layer in self.wiring.outputs))
        return found

    def _check(self, dense: bool | None) -> None:
        problems = Problems("onnx", UsageError)
        for layer in self.wiring.layers:
            if layer.type in ("Convolutional", "Pooling") and layer.extent is None:
                problems.add(f"layer \"{layer.name}\" is {layer.type}, and its size is not known; give a model")
            elif layer.type not in ("Input", "Pooling") and layer.keys.get("Activation") not in ACTIVATIONS:
                problems.add(f"layer \"{layer.name}\": activation {layer.keys.get('Activation')} is not known here")
            if layer.kind != "Input":
                continue
            forced = self.wiring.is_skipped_to(layer.name)
            if forced and dense is False:
                problems.add(f"`dense` is False, but layer \"{layer.name}\" is added to others by Skip, which needs all of its units")
            if forced and dense is None and (layer.units or 0) > WIDEST_DENSE:
                problems.add(f"layer \"{layer.name}\" has {layer.units} units, and by Skip must be dense, {4 * (layer.units or 0)} bytes "
                             "an example; write it so with `dense`")
        problems.raise_any()

    # Nodes, and the names of what they give.

    def node(self, operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        result = self.fresh(name or operator)
        self.nodes.append(self.onnx.helper.make_node(operator, list(inputs), [result], name=result, **attributes))
        return result

    def fresh(self, stem: str) -> str:
        stem = f"layer {stem}" if stem.startswith(OWN_ARRAYS) else stem
        number, name = 1, stem
        while name in self.taken:
            number += 1
            name = f"{stem} {number}"
        self.taken.add(name)
        return name

    def array(self, name: str, values: Any) -> str:
        self.arrays.setdefault(name, np.asarray(values))
        return name

    def parameter(self, name: str) -> str:
        return self.array(name, self.parts.parameters[name])

    def number(self, value: float) -> str:
        return self.array(f"number:{np.float32(value):.9g}", np.float32(value))

    def axis(self, value: int) -> str:
        return self.array(f"axis:{value}", np.array([value], np.int64))

    def _described(self, name: str, kind: str, extent: list[Any]) -> Any:
        return self.onnx.helper.make_tensor_value_info(name, getattr(self.onnx.TensorProto, kind), extent)

    def input(self, name: str, kind: str, extent: list[Any]) -> str:
        self.inputs.append(self._described(name, kind, extent))
        self.taken.add(name)
        return name

    # Layers.

    def write(self, top_k: bool, seen: str | bool) -> None:
        for layer in self.wiring.inputs:
            prefix = "" if len(self.wiring.inputs) == 1 else f"{layer.name}_"
            if layer.name in self.dense:
                self._dense_input(layer, prefix)
            else:
                self._sparse_input(layer, prefix)
        needed = self._leading_to({layer.name for layer in self.outputs})
        for layer in self.wiring.layers:
            if layer.kind != "Input" and layer.name in needed:
                self.signals[layer.name] = self._layer(layer)
        if top_k:
            self._best(seen)
            return
        for layer in self.outputs:
            prefix = "" if len(self.outputs) == 1 else f"{layer.name}_"
            name = f"{prefix}scores"
            self.nodes.append(self.onnx.helper.make_node("Identity", [self.signals[layer.name]], [name], name=f"{name} (output)"))
            self.results.append(self._described(name, "FLOAT", ["batch", layer.units]))

    def _leading_to(self, names: set[str]) -> set[str]:
        for layer in reversed(self.wiring.layers):
            if layer.name in names:
                names = names | set(self.wiring.sources_of(layer))
        return names

    def _dense_input(self, layer: Layer, prefix: str) -> None:
        x = self.input(f"{prefix}x", "FLOAT", ["batch", layer.units])
        if "InputWeighting" in layer.keys:
            x = self.node("Mul", x, self.parameter(f"{layer.name} featureWeights"))
        if layer.keys.get("Normalize", "None") == "L2":
            x = self._normalised(x)
        self.signals[layer.name] = x

    def _sparse_input(self, layer: Layer, prefix: str) -> None:
        length = f"{prefix}length"
        indices = self.input(f"{prefix}indices", "INT64", ["batch", length])
        values = self.input(f"{prefix}values", "FLOAT", ["batch", length])
        self.entries[layer.name] = (indices, values)
        if "InputWeighting" in layer.keys:
            values = self.node("Mul", values, self.node("Gather", self.parameter(f"{layer.name} featureWeights"), indices))
        if layer.keys.get("Normalize", "None") == "L2":
            values = self._normalised(values)
        self.prepared[layer.name] = (indices, self.node("Unsqueeze", values, self.axis(1)))

    def _normalised(self, x: str) -> str:
        norm = self.node("ReduceL2", x, self.axis(1), keepdims=1)
        return self.node("Div", x, self.node("Max", norm, self.number(LEAST_NORM)))

    def _layer(self, layer: Layer) -> str:
        if layer.type == "Convolutional":
            return self._convolution(layer)
        if layer.type == "Pooling":
            return self._pooling(layer)
        bias = self.parameter(f"{layer.name} bias")
        z = ""
        for edge in layer.edges:
            product = self._product(edge, "" if z else bias)
            z = self.node("Add", z, product) if z else product
        z = z or bias
        for skip in layer.skips:
            z = self.node("Add", z, self.signals[skip])
        if layer.normalized:
            z = self.node("BatchNormalization", z, *(self.parameter(f"{layer.name} {item}") for item in NORM_VECTORS), epsilon=EPSILON)
        return self._activation(layer, z)

    # Windows: in ONNX an example's units are [channels, .., y, x], in the same order as here.

    def _image(self, x: str, channels: int, places: Sequence[int]) -> str:
        shape = np.array([-1, channels, *reversed(places)], np.int64)
        return self.node("Reshape", x, self.array(f"extent:{list(shape)}", shape))

    def _flat(self, x: str, layer: Layer) -> str:
        shape = np.array([-1, layer.units], np.int64)
        return self.node("Reshape", x, self.array(f"extent:{list(shape)}", shape), name=layer.name)

    def _window(self, layer: Layer, source: str) -> tuple[str, dict[str, Any]]:
        """A source as an image, and the attributes of a window over it; ONNX, too, leaves out what windows of a stride do not reach."""
        window = self.wiring.window(layer, source)
        behind = [max(0, padding) for padding in window.behind]
        return self._image(self.signals[source], window.channels, window.places), {
            "kernel_shape": window.kernel[::-1], "strides": window.stride[::-1], "pads": [*window.padding[::-1], *behind[::-1]]}

    def _convolution(self, layer: Layer) -> str:
        assert layer.extent is not None
        z = ""
        for edge in layer.edges:
            image, attributes = self._window(layer, edge.source)
            bias = [] if z else [self.parameter(f"{layer.name} bias")]
            product = self.node("Conv", image, self.parameter(edge.parameter), *bias, **attributes)
            z = self.node("Add", z, product) if z else product
        for skip in layer.skips:
            z = self.node("Add", z, self._image(self.signals[skip], layer.extent[-1], layer.extent[:-1]))
        if layer.normalized:
            z = self.node("BatchNormalization", z, *(self.parameter(f"{layer.name} {item}") for item in NORM_VECTORS), epsilon=EPSILON)
        return self._flat(self._activation(layer, z), layer)

    def _pooling(self, layer: Layer) -> str:
        function = layer.keys["Function"]
        sources = [self.signals[name] for name in layer.pooled]
        if function == "Maxout":
            return self.node("Max", *sources, name=layer.name)
        if function in ("DotProduct", "Cosine"):
            return self._compared(layer, sources)
        parts = [self._flat(self._pooled(layer, name), layer) for name in layer.pooled]
        return self.node("Sum", *parts, name=layer.name) if len(parts) > 1 else parts[0]

    def _pooled(self, layer: Layer, source: str) -> str:
        if layer.keys["Function"] == "LRN":
            extent = self.wiring.by_name[source].extent
            assert extent is not None
            lrn = {"k": 2, "n": 5, "alpha": 1e-4, "beta": 0.75} | self.parts.descriptor.get("LocalResponseNormalization", {})
            places = extent[:-1] if len(extent) == 3 else [math.prod(extent[:-1]), 1]  # ONNX Runtime takes four axes
            return self._response(self.signals[source], places, extent[-1], lrn)
        image, attributes = self._window(layer, source)
        if layer.keys["Function"] == "Average":
            return self.node("AveragePool", image, count_include_pad=0, **attributes)
        return self.node("MaxPool", image, **attributes)

    def _response(self, x: str, places: Sequence[int], channels: int, lrn: dict[str, Any]) -> str:
        n = int(lrn["n"])
        if n % 2 == 1:  # ONNX Runtime takes no other
            return self.node("LRN", self._image(x, channels, places), size=n, alpha=float(lrn["alpha"]), beta=float(lrn["beta"]),
                             bias=float(lrn["k"]))
        image = self._image(x, 1, [math.prod(places), channels])
        mean = self.node("AveragePool", self.node("Mul", image, image), kernel_shape=[n, 1], count_include_pad=1,
                         pads=[(n - 1) // 2, 0, n - 1 - (n - 1) // 2, 0])
        response = self.node("Add", self.node("Mul", mean, self.number(lrn["alpha"])), self.number(lrn["k"]))
        return self.node("Mul", image, self.node("Pow", response, self.number(-lrn["beta"])))

    def _compared(self, layer: Layer, sources: list[str]) -> str:
        dots = [self.node("ReduceSum", self.node("Mul", sources[0], other), self.axis(1), keepdims=1) for other in sources[1:]]
        if layer.keys["Function"] == "Cosine":
            norms = [self.node("Add", self.node("ReduceL2", x, self.axis(1), keepdims=1), self.number(1e-8)) for x in sources]
            dots = [self.node("Div", dot, self.node("Mul", norms[0], norm)) for dot, norm in zip(dots, norms[1:])]
        return self.node("Concat", *dots, name=layer.name, axis=1)

    def _product(self, edge: Edge, bias: str) -> str:
        weights = self.parameter(edge.parameter)
        if edge.source in self.prepared:
            if edge.transposed:
                weights = self.node("Transpose", weights, perm=[1, 0])
            indices, values = self.prepared[edge.source]
            product = self.node("Squeeze", self.node("MatMul", values, self.node("Gather", weights, indices, axis=0)), self.axis(1))
            return self.node("Add", product, bias) if bias else product
        return self.node("Gemm", self.signals[edge.source], weights, *([bias] if bias else []), transB=int(edge.transposed))

    def _activation(self, layer: Layer, z: str) -> str:
        word = layer.keys["Activation"]
        parameters = parameters_of(layer.keys, self.parts.descriptor)
        activation = ACTIVATIONS[word]
        if word == "Linear":
            return z
        if word == "GELU":
            half = self.node("Mul", z, self.number(0.5))
            error = self.node("Erf", self.node("Mul", z, self.number(0.5 ** 0.5)))
            return self.node("Mul", half, self.node("Add", error, self.number(1.0)), name=layer.name)
        if word == "Swish":
            return self.node("Mul", z, self.node("Sigmoid", self.node("Mul", z, self.number(parameters["SwishBeta"]))), name=layer.name)
        attributes: dict[str, Any] = {activation.attributes[key]: value for key, value in parameters.items()}
        if word == "SoftMax":
            attributes["axis"] = -1
        return self.node(activation.onnx or "", z, name=layer.name, **attributes)

    # The best units.

    def _best(self, seen: str | bool) -> None:
        if len(self.outputs) != 1:
            raise UsageError("`top_k` is of one Output layer; name it with `output`: " + ", ".join(layer.name for layer in self.outputs))
        layer = self.outputs[0]
        scores = self.signals[layer.name]
        input_layer = self._seen_input(seen, layer)
        if input_layer:
            indices, values = self.entries[input_layer]
            unseen = self.node("Equal", values, self.number(0.0))
            penalty = self.node("Where", unseen, self.number(0.0), self.array("number:-inf", np.float32(-np.inf)))
            scores = self.node("ScatterElements", scores, indices, penalty, axis=1, reduction="add")
        k = self.input("k", "INT64", [1])
        length = self.node("Min", k, self.array("number:units", np.array([layer.units], np.int64)))
        self.nodes.append(self.onnx.helper.make_node("TopK", [scores, length], ["scores", "items"], name="TopK", axis=1, largest=1,
                                                     sorted=1))
        self.results += [self._described(name, kind, ["batch", "top"]) for name, kind in (("items", "INT64"), ("scores", "FLOAT"))]

    def _seen_input(self, seen: str | bool, layer: Layer) -> str | None:
        if seen is False:
            return None
        labels = self.parts.labels_sha256()
        same = [name for name in self.entries if self.wiring.by_name[name].units == layer.units
                and (name not in labels or layer.name not in labels or labels[name] == labels[layer.name])]
        if seen is True and len(same) == 1:
            return same[0]
        if seen in self.entries and seen in same:
            return str(seen)
        what = "which units are seen is not clear" if seen is True else f"`seen` \"{seen}\" is no sparse input of the output's units"
        raise UsageError(f"`top_k`: {what}: output \"{layer.name}\" has {layer.units} units, and sparse inputs with the same ones are: "
                         f"{', '.join(same) or 'none'}; name one with `seen`, or leave nothing out with `seen=False`")


def metadata_of(parts: Parts) -> dict[str, str]:
    """What a file of another format says of a model beside its weights."""
    from norn import _core
    return {"norn_version": str(_core.version()), "norn_descriptor": json.dumps(parts.descriptor, ensure_ascii=False),
            "norn_labels_sha256": json.dumps(parts.labels_sha256(), ensure_ascii=False)}


def graph_digest(graph: Any) -> str:
    """The SHA-256 of a graph's nodes: whether they are still those of the descriptor beside them."""
    digest = hashlib.sha256()
    for node in graph.node:
        digest.update(node.SerializeToString(deterministic=True))
    return digest.hexdigest()


def _save(writer: _Writer, path: str, external_over: int) -> None:
    onnx = writer.onnx
    used = {name for node in writer.nodes for name in node.input}
    arrays = {name: array for name, array in writer.arrays.items() if name in used}
    external = sum(array.nbytes for array in arrays.values()) > external_over
    folder, base = os.path.split(os.path.abspath(path))
    with tempfile.TemporaryDirectory(prefix=f".{base}-", dir=folder) as scratch:
        data = os.path.join(scratch, "data")
        with open(data, "wb") if external else contextlib.nullcontext() as file:
            tensors = [_tensor(onnx, name, array, file, f"{base}.data") for name, array in arrays.items()]
        graph = onnx.helper.make_graph(writer.nodes, "norn", writer.inputs, writer.results, tensors)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)], ir_version=IR_VERSION,
                                       producer_name="norn")
        onnx.helper.set_model_props(model, {**metadata_of(writer.parts), "norn_graph_sha256": graph_digest(graph)})
        with open(os.path.join(scratch, "model"), "wb") as file:
            file.write(model.SerializeToString())
        if external:
            os.replace(data, f"{path}.data")
        os.replace(os.path.join(scratch, "model"), path)


def _tensor(onnx: Any, name: str, array: np.ndarray, file: BinaryIO | None, location: str) -> Any:
    tensor = onnx.TensorProto(name=name, dims=array.shape, data_type=onnx.helper.np_dtype_to_tensor_dtype(array.dtype))
    whole = np.ascontiguousarray(array)
    if file is None or whole.nbytes < ALIGNMENT:
        tensor.raw_data = whole.tobytes()
        return tensor
    file.write(b"\0" * (-file.tell() % ALIGNMENT))
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", file.tell()), ("length", whole.nbytes)):
        tensor.external_data.add(key=key, value=str(value))
    file.write(whole.data.cast("B"))
    return tensor
