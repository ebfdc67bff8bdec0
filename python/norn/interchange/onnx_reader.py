# SPDX-License-Identifier: Apache-2.0
"""Networks out of ONNX graphs."""
from __future__ import annotations

import os
from typing import Any

import numpy as np

from norn.interchange.builder import Builder, Signal, Unsupported
from norn.interchange.onnx_nodes import HANDLERS, Dense, Indices, Lazy, Ranked, Reader, Values
from norn.interchange.onnx_writer import graph_digest
from norn.interchange.parts import Parts, descriptor_of, network_of
from norn.interchange.problems import Problems, fail, need, reads, shown
from norn.interchange.wiring import Wiring

FLOATS = ("FLOAT", "FLOAT16", "DOUBLE", "BFLOAT16")
INTEGERS = ("INT32", "INT64")


def import_onnx(path: str | os.PathLike[str], *, outputs: list[str] | None = None, data: str = "data") -> Any:
    """The Network that an ONNX file describes, of fully connected layers: Gemm, MatMul, Add, Mul, Sub, Div with constants, activations,
    BatchNormalization, Concat, Add of layers (Skip), Gather and ReduceSum of rows (a sparse input).

    path: of the file.
    outputs: those of the graph that are wanted, all unless given.
    data: its data sets are called DATA_input and DATA_output.

    Raises DataError for a file that is none, or with every node that Norn's layers cannot compute."""
    return network_of(read_onnx(path, outputs=outputs, data=data), os.fspath(path))


@reads("an ONNX model")
def read_onnx(path: str | os.PathLike[str], *, outputs: list[str] | None = None, data: str = "data") -> Parts:
    """As import_onnx(), before a Network is made of it."""
    onnx = need("onnx", "onnx", "reading ONNX")
    where = os.fspath(path)
    model = onnx.load(where)  # with arrays in files beside it, which it does not look for elsewhere
    if not model.graph.node:
        raise fail(where, "is no ONNX model, or one without nodes")
    reader = _GraphReader(onnx, model, where, data)
    own = reader.own_parts()
    return own if own is not None and outputs is None else reader.parts(outputs)


class _GraphReader(Reader):
    def __init__(self, onnx: Any, model: Any, where: str, data: str):
        super().__init__(Builder(model.graph.name or "onnx", data))
        self.onnx = onnx
        self.graph = model.graph
        self.where = where
        self.problems = Problems(where)
        self.metadata = {entry.key: entry.value for entry in model.metadata_props}
        self.opset = max([entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")], default=1)
        for tensor in self.graph.initializer:
            self.values[tensor.name] = self._array(tensor)
        self.builder.allow_for(self.values.values())

    def _array(self, tensor: Any) -> np.ndarray:
        if any(extent < 0 for extent in tensor.dims):
            raise fail(self.where, f"array \"{shown(tensor.name)}\" has extents below zero")
        return self.onnx.numpy_helper.to_array(tensor)

    def own_parts(self) -> Parts | None:
        """Of a file that Norn wrote and nobody changed: to the bit."""
        if self.metadata.get("norn_graph_sha256") != graph_digest(self.graph):
            return None
        descriptor = descriptor_of(self.metadata, self.where)
        names = Wiring(descriptor).extents()
        arrays = {name: self.values[name] for name in names if name in self.values}
        return Parts(descriptor, arrays) if len(arrays) == len(names) else None

    def parts(self, outputs: list[str] | None) -> Parts:
        for info in self.graph.input:
            if info.name not in self.values:
                self.values[info.name] = self._input(info)
        for node in self.graph.node:
            self._read(node)
        wanted = [info.name for info in self.graph.output] if outputs is None else outputs
        for name in wanted:
            self._finish(name, [info.name for info in self.graph.output])
        self.problems.raise_any()
        try:
            return self.builder.parts()
        except Unsupported as error:
            raise fail(self.where, str(error)) from error

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
        inputs = [self.values.get(name) if name else None for name in node.input]
        if any(name and self.values.get(name) is None for name in node.input):
            return  # of a node that is a problem already, or that there is not
        operator = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
        handler = HANDLERS.get(operator)
        name = shown(node.name or (node.output[0] if node.output else ""))
        try:
            if handler is None:
                raise Unsupported("Norn's layers have nothing of the kind")
            attributes = {a.name: self.onnx.helper.get_attribute_value(a) for a in node.attribute}
            attributes = {key: self._array(value) if isinstance(value, self.onnx.TensorProto) else value
                          for key, value in attributes.items()}
            results = handler(self, inputs, attributes, node)
        except Unsupported as error:
            self.problems.add(f"node \"{name}\" ({shown(operator)}): {error}")
            return
        for output, result in zip(node.output, results if isinstance(results, tuple) else (results,)):
            self.values[output] = result

    def _finish(self, name: str, known: list[str]) -> None:
        value = self.values.get(name)
        if value is None:
            if not self.problems.messages or name not in known:
                self.problems.add(f"there is no output \"{shown(name)}\"; the graph has: {', '.join(map(shown, known))}")
            return
        try:
            if isinstance(value, Ranked):
                value = value.signal
            if isinstance(value, (Dense, Values, Indices)):
                raise Unsupported("it is an input as it is")
            if not isinstance(value, (Signal, Lazy)):
                raise Unsupported("it is not the output of a layer")
            self.builder.finish(self.signal(value))
        except Unsupported as error:
            self.problems.add(f"output \"{shown(name)}\": {error}")
