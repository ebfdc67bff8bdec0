# SPDX-License-Identifier: Apache-2.0
"""Networks out of ONNX graphs."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from norn.interchange import onnx_images, onnx_nodes
from norn.interchange.builder import Builder, Signal
from norn.interchange.onnx_values import Dense, Graph, Indices, Lazy, Node, Part, Values, is_part
from norn.interchange.onnx_writer import graph_digest
from norn.interchange.parts import Parts, descriptor_of
from norn.interchange.problems import Problems, Unsupported, fail, imports, need, shown
from norn.interchange.wiring import Wiring

if TYPE_CHECKING:
    from norn._types import Array

HANDLERS = onnx_nodes.HANDLERS | onnx_images.HANDLERS
FLOATS = ("FLOAT", "FLOAT16", "DOUBLE", "BFLOAT16")
INTEGERS = ("INT32", "INT64")


@imports("an ONNX model")
def import_onnx(path: str | os.PathLike[str], *, outputs: list[str] | None = None, data: str = "data") -> Parts:
    """The Network that an ONNX file describes, of fully connected layers: Gemm, MatMul, Add, Mul, Sub, Div with constants, activations,
    BatchNormalization, Concat, Add of layers (Skip), Gather and ReduceSum of rows (a sparse input); and of images
    Conv, MaxPool, AveragePool and LRN, whose windows must stand where Norn's do.

    path: of the file.
    outputs: those of the graph that are wanted, all unless given.
    data: its data sets are called DATA_input and DATA_output.

    Raises DataError for a file that is none, or with every node that Norn's layers cannot compute."""
    onnx = need("onnx", "onnx", "reading ONNX")
    where = os.fspath(path)
    model = onnx.load(where)  # with arrays in files beside it, which it does not look for elsewhere
    if not model.graph.node:
        raise fail(where, "is no ONNX model, or one without nodes")
    reader = _Reader(onnx, model, where, data)
    own = reader.own_parts()
    return own if own is not None and outputs is None else reader.parts(outputs)


class _Reader:
    def __init__(self, onnx: Any, model: Any, where: str, data: str):
        self.onnx, self.nodes, self.where = onnx, model.graph, where
        self.problems = Problems(where)
        self.metadata: dict[str, str] = {entry.key: entry.value for entry in model.metadata_props}
        opset = max([entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")], default=1)
        self.graph = Graph(Builder(model.graph.name or "onnx", data), opset)
        self.values = self.graph.values
        for tensor in model.graph.initializer:
            self.values[tensor.name] = self._array(tensor)
        self.graph.builder.allow_for(self.values.values())

    def _array(self, tensor: Any) -> Array:
        if any(extent < 0 for extent in tensor.dims):
            raise fail(self.where, f"array \"{shown(tensor.name)}\" has extents below zero")
        return self.onnx.numpy_helper.to_array(tensor)

    def own_parts(self) -> Parts | None:
        """Of a file that Norn wrote and nobody changed: to the bit."""
        if self.metadata.get("norn_graph_sha256") != graph_digest(self.nodes):
            return None
        descriptor = descriptor_of(self.metadata, self.where)
        names = Wiring(descriptor).extents()
        arrays = {name: self.values[name] for name in names if name in self.values}
        return Parts(descriptor, arrays) if len(arrays) == len(names) else None

    def parts(self, outputs: list[str] | None) -> Parts:
        for info in self.nodes.input:
            if info.name not in self.values:
                self.values[info.name] = self._input(info)
        for node in self.nodes.node:
            self._read(node)
        known = [info.name for info in self.nodes.output]
        for name in known if outputs is None else outputs:
            self._finish(name, known)
        return self.graph.builder.parts_of(self.problems)

    def _input(self, info: Any) -> Any:
        tensor = info.type.tensor_type
        kind = self.onnx.TensorProto.DataType.Name(tensor.elem_type)
        extent = [dimension.dim_value if dimension.dim_value > 0 else None for dimension in tensor.shape.dim]
        if kind in INTEGERS:
            return Indices(info.name)
        if kind not in FLOATS or len(extent) < 2:
            self.problems.add(f"input \"{shown(info.name)}\" is {kind} of {len(extent)} dimensions; expected floats [batch, units]")
            return None
        return Dense(info.name, extent[1:])

    def _read(self, node: Any) -> None:
        names = list(node.input)
        inputs = [self.values.get(name) if name else None for name in names]
        if any(name and value is None for name, value in zip(names, inputs)):
            return  # of a node that is a problem already, or that there is not
        operator = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
        with self.problems.of(f"node \"{shown(node.name or ''.join(node.output[:1]))}\" ({shown(operator)})"):
            if operator not in HANDLERS:
                raise Unsupported("Norn's layers have nothing of the kind")
            attributes = {a.name: self.onnx.helper.get_attribute_value(a) for a in node.attribute}
            attributes = {key: self._array(value) if isinstance(value, self.onnx.TensorProto) else value
                          for key, value in attributes.items()}
            results = HANDLERS[operator](Node(self.graph, operator, node.name or "", inputs, names, attributes, node.output[0]))
            self.values.update(zip(node.output, results if isinstance(results, tuple) else (results,)))

    def _finish(self, name: str, known: list[str]) -> None:
        value = self.values.get(name)
        if value is None:
            if not self.problems.messages or name not in known:
                self.problems.add(f"there is no output \"{shown(name)}\"; the graph has: {', '.join(map(shown, known))}")
            return
        with self.problems.of(f"output \"{shown(name)}\""):
            if isinstance(value, Part) and is_part(value, "best"):
                value = value.of
            if isinstance(value, (Dense, Values, Indices)):
                raise Unsupported("it is an input as it is")
            if not isinstance(value, (Signal, Lazy)):
                raise Unsupported("it is not the output of a layer")
            self.graph.builder.finish(self.graph.signal(value))
