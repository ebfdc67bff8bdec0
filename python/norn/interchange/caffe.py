# SPDX-License-Identifier: Apache-2.0
"""Networks out of Caffe's files: a network in text (.prototxt) and its weights (.caffemodel)."""
from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from norn.interchange import caffe_schema, images
from norn.interchange.builder import Builder, Signal
from norn.interchange.parts import Parts
from norn.interchange.problems import Problems, Unsupported, fail, imports, need, reading, shown

if TYPE_CHECKING:
    from norn._types import Array

SOURCES = ("Input", "Data", "HDF5Data", "ImageData", "MemoryData", "DummyData")


@imports("a network of Caffe")
def import_caffe(prototxt: str | os.PathLike[str], caffemodel: str | os.PathLike[str], *, data: str = "data") -> Parts:
    """The Network of Caffe's files, of InnerProduct, Convolution, Pooling, LRN, ReLU, ELU, Sigmoid, TanH, Softmax, Eltwise (sums) and
    Concat; losses give the activation of the output, and dropout is left out. Windows must stand where Norn's do.

    prototxt: the file of the network.
    caffemodel: the file of its weights.
    data: its data sets are called DATA_input and DATA_output.

    Raises DataError for a damaged file, or with every layer that is none of these."""
    text_format = need("google.protobuf.text_format", "protobuf", "reading files of Caffe")
    net_class = caffe_schema.messages()["Net"]
    with open(prototxt, encoding="utf-8") as file:
        net = text_format.Parse(file.read(), net_class(), allow_unknown_field=True)
    with reading(os.fspath(caffemodel), "a caffemodel"):
        weights = _weights(caffemodel, net_class())
    return _Net(net, weights, os.fspath(prototxt), data).parts()


def _weights(caffemodel: str | os.PathLike[str], net: Any) -> dict[str, list[Array]]:
    with open(caffemodel, "rb") as file:
        net.ParseFromString(file.read())
    if not net.layer and not net.layers:
        raise fail(os.fspath(caffemodel), "has no layers; give the .caffemodel that Caffe wrote")
    return {layer.name: [_array(blob, layer.name, os.fspath(caffemodel)) for blob in layer.blobs] for layer in [*net.layer, *net.layers]}


def _array(blob: Any, name: str, where: str) -> Array:
    values = np.array(blob.double_data if blob.double_data else blob.data, dtype=np.float32)
    extent = list(blob.shape.dim) if blob.HasField("shape") else [blob.num, blob.channels, blob.height, blob.width]
    if min(extent, default=1) < 0 or math.prod(extent) != values.size:
        raise fail(where, f"layer \"{shown(name)}\" has an array of {values.size} numbers, whose extent is said to be {extent}")
    return values.reshape(extent)


class _Net:
    def __init__(self, net: Any, weights: dict[str, list[Array]], where: str, data: str):
        self.net = net
        self.weights = weights
        self.problems = Problems(where)
        self.builder = Builder(net.name or "caffe", data)
        self.builder.allow_for(array for arrays in weights.values() for array in arrays)
        self.signals: dict[str, Signal | int | None] = {}  # by blob; of an input its units, until it is read
        self.extents: dict[str, list[int]] = {}  # of inputs that are images: x, y, channels
        self.read: set[str] = set()
        self.order: list[str] = []
        self.ends: list[str] = []

    def parts(self) -> Parts:
        self._take_inputs()
        for layer in [*self.net.layer, *self.net.layers]:
            if _is_for_use(layer):
                self._take(layer)
        self.problems.raise_any()
        for name in self.ends or [name for name in self.order if name not in self.read]:
            signal = self.signals[name]
            if isinstance(signal, Signal):
                with self.problems.of(f"output \"{shown(name)}\""):
                    self.builder.finish(signal)
        return self.builder.parts_of(self.problems)

    def _take_inputs(self) -> None:
        for number, name in enumerate(self.net.input):
            extent = (list(self.net.input_shape[number].dim) if number < len(self.net.input_shape)
                      else list(self.net.input_dim[4 * number:4 * number + 4]))
            self.signals[name] = self._units(name, extent)

    def _units(self, name: str, extent: list[int]) -> int | None:
        if len(extent) > 2:
            self.extents[name] = extent[:0:-1]
        return _units(extent)

    def _take(self, layer: Any) -> None:
        kind = _type_of(layer)
        name = layer.name or (layer.top[0] if layer.top else kind)
        with self.problems.of(f"layer \"{shown(name)}\" ({shown(kind)})"):
            if kind in SOURCES:
                self._take_source(layer, kind)
                return
            if kind not in _LAYERS:
                raise Unsupported("Norn's layers have nothing of the kind")
            if layer.bottom and layer.bottom[0] not in self.signals:
                return  # of a layer that is a problem already
            result = _LAYERS[kind](self, layer)
            for top in layer.top if result is not None else ():
                self.signals[top] = result
                self.order = [blob for blob in self.order if blob != top] + [top]
                self.read.discard(top)

    def _take_source(self, layer: Any, kind: str) -> None:
        extent: list[int] = []
        if kind == "Input" and layer.input_param.shape:
            extent = list(layer.input_param.shape[0].dim)
        elif kind == "MemoryData":
            memory = layer.memory_data_param
            extent = [1, memory.channels, memory.height, memory.width]
        for number, top in enumerate(layer.top):
            self.signals[top] = self._units(top, extent) if number == 0 or kind == "Input" else None  # labels

    def bottom(self, layer: Any, number: int = 0, units: int | None = None) -> Signal:
        if number >= len(layer.bottom):
            raise Unsupported("it reads nothing")
        name = layer.bottom[number]
        self.read.add(name)
        signal = self.signals.get(name)
        if isinstance(signal, Signal):
            return signal
        width = signal or units
        if name not in self.signals or width is None:
            raise Unsupported(f"it reads \"{shown(name)}\", whose width is not known")
        made = self.builder.input(name, width)
        self.signals[name] = made
        return made

    # Layers.

    def inner_product(self, layer: Any) -> Signal:
        settings = layer.inner_product_param
        arrays = self.weights.get(layer.name, [])
        has_bias = settings.bias_term if settings.HasField("bias_term") else True
        if len(arrays) != 1 + has_bias:
            raise Unsupported(f"the caffemodel has {len(arrays)} arrays of it, expected {1 + has_bias}")
        if settings.HasField("axis") and settings.axis != 1:
            raise Unsupported(f"axis {settings.axis} is not that of the units")
        weights: Any = arrays[0].reshape(arrays[0].shape[-2:]) if arrays[0].ndim > 2 and arrays[0].shape[:-2] == (1, 1) else arrays[0]
        if weights.ndim != 2 or weights.shape[1 if settings.transpose else 0] != settings.num_output:
            raise Unsupported(f"its weights are {list(arrays[0].shape)} for {settings.num_output} units")
        matrix = weights if settings.transpose else weights.T
        result: Signal = self.builder.matmul(self.bottom(layer, units=matrix.shape[0]), matrix, layer.name)
        return self.builder.affine(result, shift=arrays[1]) if has_bias else result

    def convolution(self, layer: Any) -> Signal:
        settings = layer.convolution_param
        arrays = self.weights.get(layer.name, [])
        has_bias = settings.bias_term if settings.HasField("bias_term") else True
        if len(arrays) != 1 + has_bias:
            raise Unsupported(f"the caffemodel has {len(arrays)} arrays of it, expected {1 + has_bias}")
        if settings.HasField("axis") and settings.axis != 1 or set(settings.dilation) - {1}:
            raise Unsupported("its window has gaps, or another axis of channels")
        if len(arrays[0]) != settings.num_output:
            raise Unsupported(f"its weights are {list(arrays[0].shape)} for {settings.num_output} channels")
        window = _window(settings, arrays[0].ndim - 2)
        result: Signal = images.convolve(self.builder, self.bottom(layer), arrays[0], window, layer.name, self._extent(layer),
                                         settings.group if settings.HasField("group") else 1)
        return self.builder.affine(result, shift=arrays[1]) if has_bias else result

    def _extent(self, layer: Any) -> list[int] | None:
        return self.extents.get(layer.bottom[0]) if layer.bottom else None

    def pooling(self, layer: Any) -> Signal:
        settings = layer.pooling_param
        if settings.pool not in (0, 1):
            raise Unsupported("its function is neither the largest nor the mean")
        x, extent = images.image(self.builder, self.bottom(layer), self._extent(layer))
        axes = len(extent) - 1
        window = _window(settings, axes, rounds_up=settings.round_mode == 0)
        if settings.global_pooling:
            window = images.Sliding(extent[:-1], [1] * axes, [0] * axes, [0] * axes)
        if settings.pool == 1 and window.reads_padding(extent[:-1]):
            raise Unsupported(images.COUNTS_PADDING)
        return images.pool(self.builder, [x], "Max" if settings.pool == 0 else "Average", layer.name, window)

    def response(self, layer: Any) -> Signal:
        settings = layer.lrn_param
        if settings.norm_region != 0:
            raise Unsupported("it goes over places; Norn's goes over channels")
        self.builder.set_response({key: getattr(settings, field) if settings.HasField(field) else otherwise for key, field, otherwise in
                                   (("k", "k", 1.0), ("n", "local_size", 5), ("alpha", "alpha", 1.0), ("beta", "beta", 0.75))})
        return images.pool(self.builder, [self.bottom(layer)], "LRN", layer.name, extent=self._extent(layer))

    def rectifier(self, layer: Any) -> Signal:
        slope = layer.relu_param.negative_slope
        return self.builder.activate(self.bottom(layer), "LRelu" if slope else "Relu", {"RELUSlope": slope} if slope else {}, layer.name)

    def exponential(self, layer: Any) -> Signal:
        alpha = layer.elu_param.alpha if layer.elu_param.HasField("alpha") else 1.0
        return self.builder.activate(self.bottom(layer), "ELU", {"ELUAlpha": alpha}, layer.name)

    def sum(self, layer: Any) -> Signal:
        settings = layer.eltwise_param
        if settings.HasField("operation") and settings.operation != 1:
            raise Unsupported("only sums of layers are Norn's")
        factors = list(settings.coeff) or [1.0] * len(layer.bottom)
        if len(factors) != len(layer.bottom):
            raise Unsupported(f"it has {len(factors)} factors for {len(layer.bottom)} layers")
        if not factors:
            raise Unsupported("it adds nothing")
        signals = [self.bottom(layer, number) for number in range(len(factors))]
        return functools.reduce(self.builder.add, [signal if factor == 1.0 else self.builder.affine(signal, scale=factor)
                                                   for signal, factor in zip(signals, factors)])

    def concat(self, layer: Any) -> Signal:
        settings = layer.concat_param
        if settings.HasField("axis") and settings.axis not in (1, -1) or settings.HasField("concat_dim") and settings.concat_dim != 1:
            raise Unsupported("its axis is not that of the units")
        return self.builder.join([self.bottom(layer, number) for number in range(len(layer.bottom))])

    def as_it_is(self, layer: Any) -> Signal | int | None:
        name = layer.bottom[0] if layer.bottom else ""
        if isinstance(self.signals.get(name), int):
            self.read.add(name)
            return self.signals[name]
        return self.bottom(layer)

    def loss(self, layer: Any) -> None:
        """What is trained is an output, whatever stands beside it."""
        signal: Signal = self.bottom(layer)
        kind = _type_of(layer)
        if kind != "EuclideanLoss":
            signal = self.builder.activate(signal, "SoftMax" if kind == "SoftmaxWithLoss" else "Sigmoid", name=layer.name)
        self.signals[f"{layer.name} (loss)"] = signal
        self.ends.append(f"{layer.name} (loss)")

    def nothing(self, layer: Any) -> None:
        """Measures or hides; the network is as before."""


def _activation(word: str) -> Callable[[_Net, Any], Signal]:
    def read(net: _Net, layer: Any) -> Signal:
        if word == "SoftMax" and layer.softmax_param.HasField("axis") and layer.softmax_param.axis not in (1, -1):
            raise Unsupported(f"axis {layer.softmax_param.axis} is not that of the units")
        return net.builder.activate(net.bottom(layer), word, name=layer.name)
    return read


_LAYERS: dict[str, Any] = {
    "InnerProduct": _Net.inner_product, "Convolution": _Net.convolution, "Pooling": _Net.pooling, "LRN": _Net.response,
    "ReLU": _Net.rectifier, "ELU": _Net.exponential, "Sigmoid": _activation("Sigmoid"), "TanH": _activation("Tanh"),
    "Softmax": _activation("SoftMax"), "Eltwise": _Net.sum,
    "Concat": _Net.concat,
    "Dropout": _Net.as_it_is, "Flatten": _Net.as_it_is, "Split": _Net.as_it_is, "SoftmaxWithLoss": _Net.loss,
    "SigmoidCrossEntropyLoss": _Net.loss, "EuclideanLoss": _Net.loss, "Accuracy": _Net.nothing, "Silence": _Net.nothing,
    "ArgMax": _Net.nothing}


# What files before 2014 call the types, in capital letters.
_OLD_TYPES = {kind.upper(): kind for kind in (*_LAYERS, *SOURCES)} | {"SOFTMAXLOSS": "SoftmaxWithLoss"}


def _type_of(layer: Any) -> str:
    if isinstance(layer.type, str):
        return layer.type
    word: str = layer.DESCRIPTOR.fields_by_name["type"].enum_type.values_by_number[layer.type].name
    return _OLD_TYPES.get(word.replace("_", ""), word)


def _window(settings: Any, axes: int, rounds_up: bool = False) -> images.Sliding:
    padding = _along(settings, "pad", "pad", axes, 0)
    kernel, stride = _along(settings, "kernel_size", "kernel", axes, 0), _along(settings, "stride", "stride", axes, 1)
    return images.Sliding(kernel, stride, padding, padding, rounds_up)


def _along(settings: Any, every: str, each: str, axes: int, otherwise: int) -> list[int]:
    """A window's numbers along x, y, z; Caffe's go the other way."""
    if settings.HasField(f"{each}_h") or settings.HasField(f"{each}_w"):
        return [getattr(settings, f"{each}_w"), getattr(settings, f"{each}_h")]
    value = getattr(settings, every)
    values = list(value) if not isinstance(value, int) else [value] if settings.HasField(every) else []
    if len(values) not in (0, 1, axes):
        raise Unsupported(f"{every} has {len(values)} numbers for {axes} axes")
    return (values or [otherwise])[::-1] * (axes if len(values) < 2 else 1)


def _units(extent: list[int]) -> int | None:
    """All but the examples; None where it is not said."""
    product = math.prod(extent[1:])
    return product if len(extent) > 1 and product > 0 else None


def _is_for_use(layer: Any) -> bool:
    """Whether a layer is part of what is used after training. Losses and data are, so that files of a training can be read."""
    test = 1
    if layer.include and any(rule.HasField("phase") for rule in layer.include):
        return any(not rule.HasField("phase") or rule.phase == test for rule in layer.include)
    return not any(rule.HasField("phase") and rule.phase == test for rule in layer.exclude)
