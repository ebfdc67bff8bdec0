# SPDX-License-Identifier: Apache-2.0
"""Networks out of Keras 3's files: a zip archive of config.json and model.weights.h5."""
from __future__ import annotations

import functools
import json
import os
import re
import tempfile
import zipfile
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from norn.interchange.activations import BY_KERAS
from norn.interchange.builder import Builder, Signal
from norn.interchange.hdf5_apart import read_hdf5
from norn.interchange.parts import Parts
from norn.interchange.problems import Problems, Unsupported, fail, imports, shown

if TYPE_CHECKING:
    from norn._types import Array, Facts

MOST_TEXT = 64 << 20  # bytes of config.json
LEAKY = 0.2           # slope of the word "leaky_relu"; the layer LeakyReLU says its own
DROPPED = ("Dropout", "AlphaDropout", "GaussianDropout", "GaussianNoise", "ActivityRegularization", "SpatialDropout1D")
OTHERWISE = "export it from Keras as ONNX: model.export(path, format=\"onnx\")"


@imports("a Keras 3 model")
def import_keras(path: str | os.PathLike[str], *, data: str = "data") -> Parts:
    """The Network of a `.keras` file of Keras 3: a Sequential or Functional model of InputLayer, Dense, Activation and the layers of
    activations, BatchNormalization, Add, Concatenate, Flatten; dropout and noise are left out.

    path: of the file.
    data: its data sets are called DATA_input and DATA_output.

    Raises DataError for a damaged file, or with every layer that is none of these."""
    where = os.fspath(path)
    with zipfile.ZipFile(where) as archive, tempfile.TemporaryDirectory(prefix="norn-") as folder:
        config = json.loads(_text(archive, "config.json", where))
        weights = os.path.join(folder, "weights.h5")
        _unpack(archive, "model.weights.h5", weights, where)
        arrays, groups = read_hdf5(weights, where)
    return _Model(config, arrays, groups, where, data).parts()


def _member(archive: zipfile.ZipFile, name: str, where: str) -> zipfile.ZipInfo:
    try:
        return archive.getinfo(name)
    except KeyError as error:
        raise fail(where, f"has no {name}; Keras 3 writes it with model.save(\"NAME.keras\")") from error


def _text(archive: zipfile.ZipFile, name: str, where: str) -> bytes:
    if _member(archive, name, where).file_size > MOST_TEXT:
        raise fail(where, f"{name} is larger than {MOST_TEXT} bytes")
    with archive.open(name) as file:
        return file.read(MOST_TEXT)


def _unpack(archive: zipfile.ZipFile, name: str, target: str, where: str) -> None:
    member = _member(archive, name, where)
    if member.file_size > 16 * os.path.getsize(where) + MOST_TEXT:
        raise fail(where, f"{name} is packed much smaller than weights are; pack it without compression")
    left = member.file_size
    with archive.open(name) as source, open(target, "wb") as file:
        while left > 0 and (piece := source.read(min(left, 1 << 20))):
            file.write(piece)
            left -= len(piece)


class _Model:
    def __init__(self, config: Facts, arrays: dict[str, Array], groups: dict[str, str | None], where: str, data: str):
        self.kind = config["class_name"]
        self.config = config["config"]
        self.where = where
        self.problems = Problems(where)
        self.builder = Builder(str(self.config.get("name", "keras")), data)
        self.signals: dict[str, Signal] = {}
        self.builder.allow_for(arrays.values())
        self.weights = self._weights(arrays, groups)

    def _weights(self, arrays: dict[str, Array], groups: dict[str, str | None]) -> dict[str, list[Array]]:
        """By layer: its arrays in their order. Groups of files are called after classes, and newer ones say the layer's name."""
        named = {label: path for path, label in groups.items() if label and path.endswith("/vars")}
        seen: Counter[str] = Counter()
        weights: dict[str, list[Array]] = {}
        for layer in self.config["layers"]:
            stem = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=.)(?=[A-Z][a-z])", "_", re.sub(r"\W", "", layer["class_name"])).lower()
            number, seen[stem] = seen[stem], seen[stem] + 1
            path = named.get(layer["config"]["name"], f"layers/{stem}{f'_{number}' if number else ''}/vars")
            own = {name[len(path) + 1:]: array for name, array in arrays.items() if name.startswith(path + "/")}
            weights[layer["config"]["name"]] = [own[key] for key in sorted(own, key=lambda key: (len(key), key))]
        return weights

    def parts(self) -> Parts:
        if self.kind not in ("Sequential", "Functional", "Model"):
            raise fail(self.where, f"is a {shown(self.kind)} model; Sequential and Functional ones can be read: {OTHERWISE}")
        layers = self.config["layers"]
        if self.kind == "Sequential":
            self._chain(layers)
        else:
            for layer in layers:
                self._read(layer, _sources(layer))
            for name in _names(self.config["output_layers"]):
                self._finish(name)
        return self.builder.parts_of(self.problems)

    def _chain(self, layers: list[Facts]) -> None:
        before: list[str] = []
        if layers and layers[0]["class_name"] != "InputLayer":
            extent = (self.config.get("build_input_shape") or layers[0].get("build_config", {}).get("input_shape"))
            layers = [{"class_name": "InputLayer", "config": {"name": "input", "batch_shape": extent}}, *layers]
        for layer in layers:
            self._read(layer, before)
            before = [layer["config"]["name"]]
        if before:
            self._finish(before[0])

    def _finish(self, name: str) -> None:
        if name not in self.signals:
            if not self.problems.messages:
                self.problems.add(f"there is no layer \"{shown(name)}\", which is an output")
            return
        with self.problems.of(f"output \"{shown(name)}\""):
            self.builder.finish(self.signals[name])

    def _read(self, layer: Facts, sources: list[str]) -> None:
        kind, config = layer["class_name"], layer["config"]
        name = config["name"]
        with self.problems.of(f"layer \"{shown(name)}\" ({shown(kind)})"):
            if kind not in _LAYERS:
                raise Unsupported(f"Norn's layers have nothing of the kind; {OTHERWISE}, where a layer is made of others")
            if len(layer.get("inbound_nodes", [])) > 1:
                raise Unsupported("it is used more than once")
            if config.get("axis", -1) not in (-1, 1, [-1], [1]):
                raise Unsupported(f"axis {config['axis']} is not that of the units")
            if all(source in self.signals for source in sources):  # else of a layer that is a problem already
                self.signals[name] = _LAYERS[kind](self, [self.signals[source] for source in sources], config)

    # Layers.

    def input(self, sources: list[Signal], config: Facts) -> Signal:
        extent = config.get("batch_shape") or config.get("batch_input_shape") or []
        if len(extent) < 2 or not all(isinstance(size, int) and size > 0 for size in extent[1:]):
            raise Unsupported(f"its extent {extent} is not known")
        return self.builder.input(config["name"], int(np.prod(extent[1:], dtype=object)))

    def dense(self, sources: list[Signal], config: Facts) -> Signal:
        arrays = self.weights[config["name"]]
        if len(arrays) != (2 if config.get("use_bias", True) else 1):
            raise Unsupported(f"it has {len(arrays)} arrays of weights; quantised and low-rank ones cannot be read")
        result: Signal = self.builder.matmul(sources[0], arrays[0].astype(np.float32, copy=False), config["name"])
        if result.units != config["units"]:
            raise Unsupported(f"it has {config['units']} units, its weights {result.units}")
        if len(arrays) > 1:
            result = self.builder.affine(result, shift=arrays[1])
        return self._activate(result, config.get("activation"), config["name"])

    def _activate(self, signal: Signal, word: Any, name: str) -> Signal:
        if isinstance(word, dict):
            word = word.get("config") if isinstance(word.get("config"), str) else word.get("class_name")
        if word in (None, "linear"):
            return signal
        if word not in BY_KERAS:
            raise Unsupported(f"activation {shown(word)} is none of Norn's")
        return self.builder.activate(signal, BY_KERAS[word], {"RELUSlope": LEAKY} if word == "leaky_relu" else {}, name)

    def activation(self, sources: list[Signal], config: Facts) -> Signal:
        return self._activate(sources[0], config["activation"], config["name"])

    def relu(self, sources: list[Signal], config: Facts) -> Signal:
        if config.get("max_value") is not None or config.get("threshold"):
            raise Unsupported("it has a max_value or a threshold; Norn's Relu has none")
        slope = float(config.get("negative_slope") or 0.0)
        return self.builder.activate(sources[0], "LRelu" if slope else "Relu", {"RELUSlope": slope} if slope else {}, config["name"])

    def leaky_relu(self, sources: list[Signal], config: Facts) -> Signal:
        slope = config.get("negative_slope", config.get("alpha", 0.3))
        return self.builder.activate(sources[0], "LRelu", {"RELUSlope": float(slope)}, config["name"])

    def elu(self, sources: list[Signal], config: Facts) -> Signal:
        return self.builder.activate(sources[0], "ELU", {"ELUAlpha": float(config.get("alpha", 1.0))}, config["name"])

    def softmax(self, sources: list[Signal], config: Facts) -> Signal:
        return self.builder.activate(sources[0], "SoftMax", name=config["name"])

    def batch_normalization(self, sources: list[Signal], config: Facts) -> Signal:
        arrays = list(self.weights[config["name"]])
        if len(arrays) != 2 + bool(config.get("scale", True)) + bool(config.get("center", True)):
            raise Unsupported(f"it has {len(arrays)} arrays")
        scale = arrays.pop(0) if config.get("scale", True) else 1.0
        bias = arrays.pop(0) if config.get("center", True) else 0.0
        return self.builder.normalise(sources[0], scale, bias, arrays[0], arrays[1], float(config.get("epsilon", 1e-3)))

    def add(self, sources: list[Signal], config: Facts) -> Signal:
        return functools.reduce(self.builder.add, sources)

    def concatenate(self, sources: list[Signal], config: Facts) -> Signal:
        return self.builder.join(sources)

    def as_it_is(self, sources: list[Signal], config: Facts) -> Signal:
        return sources[0]


_LAYERS: dict[str, Any] = {
    "InputLayer": _Model.input, "Dense": _Model.dense, "Activation": _Model.activation, "ReLU": _Model.relu,
    "LeakyReLU": _Model.leaky_relu, "ELU": _Model.elu, "Softmax": _Model.softmax, "BatchNormalization": _Model.batch_normalization,
    "Add": _Model.add, "Concatenate": _Model.concatenate, "Flatten": _Model.as_it_is, **{name: _Model.as_it_is for name in DROPPED}}


def _tensors(value: Any) -> list[str]:
    """The layers whose outputs stand anywhere in the arguments of a call."""
    if isinstance(value, dict):
        if value.get("class_name") == "__keras_tensor__":
            return [value["config"]["keras_history"][0]]
        return [name for entry in value.values() for name in _tensors(entry)]
    return [name for entry in value for name in _tensors(entry)] if isinstance(value, list) else []


def _sources(layer: Facts) -> list[str]:
    return [name for node in layer.get("inbound_nodes", []) for name in _tensors(node.get("args", []))]


def _names(value: Any) -> list[str]:
    """Of ["dense", 0, 0], or of a list or dictionary of these."""
    if isinstance(value, list) and value and isinstance(value[0], str):
        return [value[0]]
    entries = value.values() if isinstance(value, dict) else value
    return [name for entry in entries for name in _names(entry)]
