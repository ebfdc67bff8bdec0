# SPDX-License-Identifier: Apache-2.0
"""Convolutional and Pooling layers in files of others: what the engine predicts, what ONNX Runtime computes of what was written, and what
is read back of it are what NumPy computes."""
import math
import pathlib
import sys

import numpy as np
import pytest

import norn
from foreign_images import Block, caffe_classifier
from norn import _core
from norn._arrays import memory_set
from norn.interchange.caffe import import_caffe
from norn.interchange.named_arrays import arrays_of
from norn.interchange.onnx_reader import import_onnx
from norn.interchange.onnx_writer import export_onnx
from norn.interchange.parts import Parts
from norn.interchange.torch import import_torch
from norn.interchange.wiring import Wiring
from random_networks import FORMULAS

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "attack"))
import windows  # noqa: E402

FUNCTIONS = ("Max", "Average", "LRN", "Maxout", "DotProduct", "Cosine")


def drawn_window(draw, axes):
    stride = [int(draw.choice((1, 1, 2, 3))) for _ in range(axes)]
    return {"Kernel": [int(draw.choice((1, 3, 5) if one == 1 else (1, 2, 3, 4))) for one in stride], "KernelStride": stride}


def drawn_network(draw, function):
    """Two convolutions of one image, the second with the first added as it is; over both one more, and pooling; a layer behind."""
    axes = int(draw.integers(1, 4))
    extent = [int(draw.integers(1, 8)) for _ in range(axes)] + [int(draw.integers(1, 4))]
    conv = {"Kind": "Hidden", "Type": "Convolutional", "N": int(draw.integers(1, 5)), "Source": ["In"], **drawn_window(draw, axes)}
    layers = [{"Name": "In", "Kind": "Input", "Type": "Convolutional", "N": extent, "DataSet": "images"},
              {"Name": "A", **conv, "Activation": "Relu", "BatchNormalization": True},
              {"Name": "B", **conv, "Skip": ["A"], "Activation": "Tanh", "BatchNormalization": bool(draw.integers(2))},
              {"Name": "C", "Kind": "Hidden", "Type": "Convolutional", "N": 3, "Source": ["A", "B"], "Activation": "SoftPlus",
               **drawn_window(draw, axes)},
              {"Name": "Pool", "Kind": "Hidden", "Type": "Pooling", "Function": function, "Source": ["A", "B"], "Activation": "Linear",
               **(drawn_window(draw, axes) if function in windows.WINDOWED else {})},
              {"Name": "Out", "Kind": "Output", "N": 4, "Source": ["Pool", "C"], "Activation": "Linear", "DataSet": "classes"}]
    found = windows.extents_of(layers)
    for layer in layers:
        layer["N"] = found[layer["Name"]] if layer["Name"] != "Out" else 4  # as models have it
    lrn = {"k": 1.5, "n": int(draw.choice((1, 2, 3, 5))), "alpha": 0.5, "beta": 0.75}
    return {"Name": "drawn", "ErrorFunction": "L2", "LocalResponseNormalization": lrn, "Layers": layers}


def is_read(network):
    """Whether the graph alone says all: products of layers are nothing that Norn reads, and LRN only as ONNX Runtime has it."""
    functions = {layer.get("Function") for layer in network["Layers"]}
    as_it_is = network["LocalResponseNormalization"]["n"] % 2 == 1 and len(network["Layers"][0]["N"]) == 3
    return not functions & {"DotProduct", "Cosine"} and (as_it_is or "LRN" not in functions)


def drawn_parameters(draw, network):
    arrays = {}
    for name, extent in Wiring(network).extents().items():
        arrays[name] = draw.normal(0, 0.5, extent).astype(np.float32)
        if name.endswith(("scaleBN", "runningVarianceBN")):
            arrays[name] = draw.uniform(0.5, 1.5, extent).astype(np.float32)
    return arrays


def computed(network, arrays, x):
    """Activations of the last layer, of examples [B x units], in float64, with running statistics."""
    layers = network["Layers"]
    extents, y = windows.extents_of(layers), {layers[0]["Name"]: x.astype(float)}
    for layer in layers[1:]:
        name, sources = layer["Name"], layer["Source"]
        if layer.get("Type") == "Pooling":
            lrn = network.get("LocalResponseNormalization")
            y[name] = windows.Pooling(layer, [extents[source] for source in sources], lrn).forward([y[source] for source in sources])
            continue
        convolves = layer.get("Type") == "Convolutional"
        places = math.prod(extents[name][:-1]) if convolves else 1
        of_units = lambda item: np.repeat(arrays[f"{name} {item}"].astype(float), places)
        z = of_units("bias") + sum(y[source] for source in layer.get("Skip", []))
        for source in sources:
            w = arrays[f"{source} -> {name}"].astype(float)
            z = z + (windows.Filters(layer, extents[source]).forward(y[source], w.reshape(len(w), -1).T) if convolves else y[source] @ w)
        if layer.get("BatchNormalization"):
            z = (z - of_units("runningMeanBN")) / np.sqrt(of_units("runningVarianceBN") + 1e-5) * of_units("scaleBN") + of_units("biasBN")
        y[name] = FORMULAS[layer["Activation"]](z, {})
    return y[layers[-1]["Name"]]


def predicted(parts, x):
    """By the engine."""
    layers = parts.descriptor["Layers"]
    network = norn.Network.from_parameters(parts.descriptor, parts.parameters)
    best, scores = _core.recommend(network.model, [memory_set(layers[0]["DataSet"], x, "x")], layers[-1]["N"], layers[-1]["Name"])
    found = np.empty(scores.shape, np.float32)
    np.put_along_axis(found, best.astype(np.int64), scores, axis=1)
    return found


def session_of(path):
    return pytest.importorskip("onnxruntime").InferenceSession(str(path), providers=["CPUExecutionProvider"])


def assert_near(found, expected, network):
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4 * max(1, abs(expected).max()), err_msg=str(network))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_engine_onnx_runtime_and_the_reader_agree_on_what_is_written(function, draw, tmp_path):
    import onnx
    for number in range(5):
        path = tmp_path / f"{number}.onnx"
        network = drawn_network(draw, function)
        arrays = drawn_parameters(draw, network)
        x = draw.normal(size=(int(draw.integers(1, 5)), math.prod(network["Layers"][0]["N"]))).astype(np.float32)
        expected = computed(network, arrays, x)
        assert_near(predicted(Parts(network, arrays), x), expected, network)
        export_onnx(norn.Network.from_parameters(network, arrays), path)
        assert_near(session_of(path).run(None, {"x": x})[0], expected, network)
        back = import_onnx(path).parameters
        assert back.keys() == arrays.keys() and all(np.array_equal(back[name], array) for name, array in arrays.items())
        if not is_read(network):
            continue
        # As a graph of somebody else's.
        model = onnx.load(path)
        del model.metadata_props[:]
        onnx.save(model, path)
        read = import_onnx.parts(path)
        assert_near(computed(read.descriptor, read.parameters, x), expected, network)
        assert_near(predicted(read, x), expected, network)


def test_filters_of_pytorch_are_taken_as_they_are(draw, tmp_path):
    for function in 2 * FUNCTIONS:
        network = drawn_network(draw, function)
        arrays = drawn_parameters(draw, network)
        named = arrays_of(Parts(network, arrays))
        assert np.array_equal(named["A.weight"], arrays["In -> A"]) and np.array_equal(named["C.B.weight"], arrays["B -> C"])
        # In the order of a module's layers, under names that say nothing.
        modules = {name.rpartition(".")[0]: None for name in named}
        others = {module: f"features.{i}" for i, module in enumerate(modules)}
        renamed = {f"{others[name.rpartition('.')[0]]}.{name.rpartition('.')[2]}": array for name, array in named.items()}
        names = {others[module]: module for module in modules if module in ("C", "Out")}  # which hold a bias alone
        for given, said in ((named, None), (renamed, names)):
            read = import_torch.parts(given, network, names=said).parameters
            assert read.keys() == arrays.keys()
            assert all(np.array_equal(read[name], array) for name, array in arrays.items())
    norn.export_safetensors(norn.Network.from_parameters(network, arrays), tmp_path / "net.safetensors")
    read = norn.import_safetensors(tmp_path / "net.safetensors").parameters
    assert all(np.array_equal(read[name], array) for name, array in arrays.items())


def test_filters_of_other_extents_are_named(draw):
    network = drawn_network(draw, "Max")
    arrays = arrays_of(Parts(network, drawn_parameters(draw, network)))
    arrays["A.weight"] = arrays["A.weight"][None]
    with pytest.raises(norn.DataError, match='array "A.weight" has .* dimensions; these weights have'):
        import_torch.parts(arrays, network)


def slide(image, kernel, step=1, pad=0):
    """[B, C, rows, columns, kernel's rows, its columns] of [B, C, y, x]."""
    padded = np.pad(image, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    return np.lib.stride_tricks.sliding_window_view(padded, kernel, axis=(2, 3))[:, :, ::step, ::step]


def convolved(image, filters, bias, step=1, pad=0, groups=1):
    """By the formula, group by group, of [B, C, y, x]."""
    read = np.split(slide(image, filters.shape[2:], step, pad), groups, axis=1)
    parts = [np.einsum("bcpqyx,kcyx->bkpq", part, w.astype(float)) for part, w in zip(read, np.split(filters, groups))]
    return np.concatenate(parts, axis=1) + bias.astype(float)[:, None, None]


def test_convolutions_of_caffe_are_read_in_its_order(draw, tmp_path):
    files, arrays = caffe_classifier(draw, tmp_path)
    read = import_caffe.parts(*files)
    x = draw.normal(size=(4, 3, 15, 13)).astype(np.float32)
    conv1 = np.maximum(convolved(x, *arrays["conv1"], step=2), 0)
    squares = np.pad(conv1 ** 2, ((0, 0), (1, 1), (0, 0), (0, 0)))
    norm1 = conv1 / (1 + 0.5 / 3 * sum(squares[:, i:i + 4] for i in range(3))) ** 0.75
    conv2 = convolved(norm1, *arrays["conv2"], pad=1, groups=2)
    pool2 = slide(conv2, (3, 3), 2).max(axis=(4, 5))
    expected = pool2.reshape(4, -1) @ arrays["fc"][0].astype(float).T + arrays["fc"][1]
    assert_near(predicted(read, x.reshape(4, -1)), expected, read.descriptor)


@pytest.mark.parametrize("key, text, message", [
    ("second", "kernel_size: 3 group: 2", "layer \"conv2\" .Convolution.: along x it has 3 windows, the first 0 in front of its 5 units; "
                                          "of kernel 3 and stride 1 Norn's layers have 5, the first 1 in front"),
    ("second", "pad: 1 kernel_size: 3", r"its weights are \[6, 2, 3, 3\] for 4 channels, windows of \[3, 3\] and 1 groups"),
    ("second", "pad: 1 kernel_size: 3 group: 2 dilation: 2", "its window has gaps"),
    ("second", "pad: 1 pad: 1 pad: 1 kernel_size: 3 group: 2", "pad has 3 numbers for 2 axes"),
    ("pool", "pool: MAX kernel_size: 2 stride: 2", "along x it has 3 windows, the first 0 in front of its 5 units; of kernel 2 and "
                                                   "stride 2 Norn's layers have 2"),
    ("pool", "pool: AVE kernel_size: 3 stride: 1 pad: 1", "its mean counts padding"),
    ("pool", "pool: STOCHASTIC kernel_size: 3 stride: 2", "its function is neither the largest nor the mean"),
    ("norm", "norm_region: WITHIN_CHANNEL", "it goes over places"),
    ("more", "local_size: 5", "its response normalisation is .*'n': 5.* another layer's .*'n': 3")])
def test_windows_of_caffe_that_stand_elsewhere_are_named(key, text, message, draw, tmp_path):
    files, _ = caffe_classifier(draw, tmp_path, **{key: text})
    with pytest.raises(norn.DataError, match=message):
        import_caffe.parts(*files)


def test_a_block_of_a_residual_network_is_read(draw, tmp_path):
    import onnx
    onnx.save(Block(draw).model, tmp_path / "block.onnx")
    read = import_onnx.parts(tmp_path / "block.onnx")
    x = draw.normal(size=(5, 2, 9, 12)).astype(np.float32)
    [expected] = session_of(tmp_path / "block.onnx").run(None, {"x": x})
    layers = {layer["Name"]: layer for layer in read.descriptor["Layers"]}
    assert [layer["Function"] for layer in layers.values() if layer.get("Type") == "Pooling"] == ["LRN", "Average", "Max"]
    assert layers["a"]["BatchNormalization"] and layers["b"]["N"] == [12, 9, 6] and len(layers["join"]["Source"]) == 2
    assert_near(computed(read.descriptor, read.parameters, x.reshape(5, -1)), expected, read.descriptor)
    assert_near(predicted(read, x.reshape(5, -1)), expected, read.descriptor)
    # And written again.
    export_onnx(read, tmp_path / "again.onnx")
    assert_near(session_of(tmp_path / "again.onnx").run(None, {"x": x.reshape(5, -1)})[0], expected, read.descriptor)


@pytest.mark.parametrize("changed, message", [
    ({"dilations": [2, 1], "pads": [2, 1, 2, 1]}, "Conv.: its window has gaps"),
    ({"pads": [1, 1, 1, 1], "strides": [1, 2]}, "along x it has 6 windows, the first 1 in front of its 12 units; of kernel 3 and stride 2 "
                                                "Norn's layers have 5, the first 0 in front"),
    ({"pool": {"ceil_mode": 1}}, "along x it has 3 windows, the first 0 in front of its 5 units; of kernel 2 and stride 2 Norn's layers "
                                 "have 2"),
    ({"mean": {"count_include_pad": 1}}, "AveragePool.: its mean counts padding"),
    ({"pads": [1]}, "its strides and pads are not those of 2 axes"),
    ({"group": 3}, r"its weights are \[6, 2, 3, 3\] for 4 channels, windows of \[3, 3\] and 3 groups"),
    ({"scale": (12,)}, "Mul.: it has other numbers for the places of a channel"),
    ({"scale": (1, 9, 12)}, "Mul.: it has other numbers for the places of a channel")])
def test_windows_of_graphs_that_stand_elsewhere_are_named(changed, message, draw, tmp_path):
    import onnx
    onnx.save(Block(draw, **changed).model, tmp_path / "block.onnx")
    with pytest.raises(norn.DataError, match=message):
        import_onnx.parts(tmp_path / "block.onnx")
