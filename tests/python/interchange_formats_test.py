# SPDX-License-Identifier: Apache-2.0
"""safetensors, PyTorch's arrays, Keras' and Caffe's files."""
import json
import re

import numpy as np
import pytest

import norn
from foreign_files import CAFFE_WORDS, caffe_files, keras_file
from interchange_support import assert_close, assert_computes
from norn.interchange.caffe import import_caffe
from norn.interchange.keras import import_keras
from norn.interchange.parts import Parts, canonical, network_of
from norn.interchange.torch import import_torch, state_dict
from random_networks import RandomNetwork, padded

# The parameters of these are fixed elsewhere.
ELSEWHERE = ("LRelu", "ELU")


def network(random, **keys):
    net = RandomNetwork(random, **keys)
    return net, network_of(Parts(canonical(net.descriptor), net.parameters), "random")


def outputs_of(net):
    return [layer["Name"] for layer in net.layers if layer["Kind"] == "Output"]


def assert_same(found, expected):
    assert found.descriptor == expected.descriptor
    assert found.parameters.keys() == expected.parameters.keys()
    for name, array in found.parameters.items():
        assert np.array_equal(array, expected.parameters[name]), name


@pytest.mark.parametrize("number", range(4))
def test_safetensors_bring_a_network_back_to_the_bit(draw, number, tmp_path):
    import safetensors
    net, written = network(draw, outputs=2, dense=True)
    norn.export_safetensors(written, tmp_path / "net.safetensors")
    assert_same(norn.import_safetensors(tmp_path / "net.safetensors"), written)
    with safetensors.safe_open(tmp_path / "net.safetensors", framework="numpy") as file:
        assert json.loads(file.metadata()["norn_descriptor"]) == written.descriptor
        names = {name: file.get_tensor(name) for name in file.keys()}
    for layer in net.layers:
        if isinstance(layer.get("Source"), list) and len(layer["Source"]) == 1 and "SharedWeights" not in layer:
            matrix = names.get(f"{layer['Name']}.weight")
            assert matrix is None or matrix.shape[0] == layer["N"]


def test_safetensors_without_a_descriptor_need_one(draw, tmp_path):
    import safetensors.numpy as numpy_files
    weights = {"enc.weight": draw.normal(size=(3, 7)).astype(np.float16), "enc.bias": draw.normal(size=3).astype(np.float64),
               "dec.weight": draw.normal(size=(5, 3)).astype(np.float32)}
    numpy_files.save_file(weights, tmp_path / "theirs.safetensors")
    with pytest.raises(norn.DataError, match="does not say of which network its weights are; give a descriptor with `like`"):
        norn.import_safetensors(tmp_path / "theirs.safetensors")
    like = {"Layers": [{"N": "auto", "DataSet": "x"}, {"Name": "Hidden", "N": 3}, {"N": "auto", "DataSet": "y"}]}
    found = norn.import_safetensors(tmp_path / "theirs.safetensors", like=like)
    assert [layer["N"] for layer in found.descriptor["Layers"]] == [7, 3, 5]
    assert np.array_equal(found.parameters["Input0 -> Hidden"], weights["enc.weight"].astype(np.float32).T)
    assert np.array_equal(found.parameters["Output2 bias"], np.zeros(5))


def test_modules_that_may_stand_for_each_other_are_refused(tmp_path, draw):
    import safetensors.numpy as numpy_files
    width = int(draw.integers(1, 10))
    names = ["Input", "First", "Second", "Output"]
    like = {"Name": "deep", "Kind": "FeedForward", "ErrorFunction": "L2", "Layers": [
        {"Name": name, "Kind": kind, "N": width, **({"DataSet": "x", "Sparse": True} if kind == "Input" else {"Activation": "Linear"})}
        for name, kind in zip(names, ("Input", "Hidden", "Hidden", "Output"))]}
    weights = {f"{name}.weight": np.full((width, width), number, np.float32) for number, name in enumerate("abc")}
    numpy_files.save_file(weights, tmp_path / "alike.safetensors")
    with pytest.raises(norn.DataError, match="which of .* is which of .* does not follow from their extents"):
        norn.import_safetensors(tmp_path / "alike.safetensors", like=like)
    named = norn.import_safetensors(tmp_path / "alike.safetensors", like=like, names=dict(zip("abc", names[1:])))
    assert [int(named.parameters[f"{one} -> {other}"][0, 0]) for one, other in zip(names, names[1:])] == [0, 1, 2]


def sequential(random, embedding=False, square=False):
    """The state_dict of a Sequential with batch normalisation, and its descriptor."""
    h = 9 if square else 6
    arrays = {"0.weight": random.normal(size=(9, h) if embedding else (h, 9)), "0.bias": random.normal(size=h),
              "1.weight": random.normal(size=h), "1.bias": random.normal(size=h), "1.running_mean": random.normal(size=h),
              "1.running_var": random.uniform(0.1, 2, h), "1.num_batches_tracked": np.array(7), "4.weight": random.normal(size=(8, h)),
              "4.bias": random.normal(size=8)}
    if embedding:
        del arrays["0.bias"]
    like = {"Layers": [{"Name": "In", "Kind": "Input", "N": "auto", "DataSet": "x"},
                       {"Name": "Hidden", "Kind": "Hidden", "N": h, "Activation": "GELU", "BatchNormalization": True},
                       {"Name": "Out", "Kind": "Output", "N": "auto", "DataSet": "y", "Activation": "SoftMax"}]}
    return {name: array.astype(np.float32) if array.ndim else array for name, array in arrays.items()}, like


@pytest.mark.parametrize("embedding", (False, True))
def test_arrays_of_a_state_dict_are_taken_in_their_order(draw, embedding):
    arrays, like = sequential(draw, embedding)
    found = norn.import_torch(arrays, like)
    p = found.parameters
    assert np.array_equal(p["In -> Hidden"], arrays["0.weight"] if embedding else arrays["0.weight"].T)
    assert np.array_equal(p["Hidden -> Out"], arrays["4.weight"].T)
    assert np.array_equal(p["Hidden runningVarianceBN"], arrays["1.running_var"])
    assert np.array_equal(p["Hidden bias"], np.zeros(6) if embedding else arrays["0.bias"])
    assert_same(norn.import_torch(state_dict(found), found), found)


def test_modules_are_named_where_their_order_is_another(draw):
    arrays, like = sequential(draw, square=True)
    turned = {f"m{name}": arrays[name] for name in reversed(arrays)} | {"user_bias": arrays["0.bias"]}
    names = {"m0": "Hidden", "m1": "Hidden.norm", "m4": "Out", "user_bias": "Hidden.bias"}
    p = import_torch.parts(turned, like, names=names).parameters
    assert np.array_equal(p["In -> Hidden"], arrays["0.weight"].T)
    assert np.array_equal(p["Hidden bias"], arrays["0.bias"] * 2), "biases are added up"
    assert np.array_equal(import_torch.parts(turned, like, names=names, embeddings=["m0"]).parameters["In -> Hidden"], arrays["0.weight"])


def test_arrays_that_do_not_fit_are_all_named(draw):
    arrays, like = sequential(draw)
    arrays |= {"7.weight": np.ones((2, 2), np.float32), "conv.weight": np.ones((2, 2, 3, 3), np.float32), "words": np.array(["a"])}
    with pytest.raises(norn.DataError) as raised:
        norn.import_torch(arrays, like, names={"nobody": "Out"})
    assert [problem["message"] for problem in raised.value.problems] == [
        'array "words" is of <U1; expected floats',
        '`names`: there is no "nobody"',
        '"conv" (weight [2, 2, 3, 3]) is neither a linear layer nor a batch normalisation of the network; say with `names` what it is, or '
        'leave it out',
        'it has 3 matrices of weights with other names (0, 4, 7) for 2 of the network (In.weight, Out.weight)'.replace(".weight",
                                                                                                                       "").replace(
            "In, Out", "Hidden, Out")]
    del arrays["7.weight"], arrays["conv.weight"], arrays["words"]
    arrays["4.weight"] = arrays["4.weight"][:, :5]
    arrays["4.bias"][2] = np.nan
    with pytest.raises(norn.DataError) as raised:
        norn.import_torch(arrays, like)
    assert [problem["key"] for problem in raised.value.problems] == ["Hidden -> Out", "Out bias"]
    with pytest.raises(norn.DataError, match="state_dict: \"epoch\" is a int, not an array; give the state_dict alone"):
        norn.import_torch({"epoch": 3}, like)
    with pytest.raises(norn.UsageError, match="Actviation"):
        norn.import_torch(arrays, {"Layers": [{"Actviation": 3}]})


def test_a_file_of_pytorch_is_loaded_with_weights_only(draw, tmp_path):
    torch = pytest.importorskip("torch", reason="hundreds of megabytes for one oracle: build/venv/bin/pip install torch")
    module = torch.nn.Sequential(torch.nn.Linear(9, 6), torch.nn.BatchNorm1d(6), torch.nn.GELU(), torch.nn.Linear(6, 8))
    with torch.no_grad():
        for tensor in module.state_dict().values():
            if tensor.dtype.is_floating_point:
                tensor.copy_(torch.from_numpy(draw.uniform(0.1, 1, tuple(tensor.shape)).astype(np.float32)))
    module.eval()
    torch.save(module.state_dict(), tmp_path / "net.pt")
    _, like = sequential(draw)
    like["Layers"][2]["Activation"] = "Linear"
    x = draw.normal(size=(5, 9)).astype(np.float32)
    expected = module(torch.from_numpy(x)).detach().numpy()
    assert_computes(import_torch.parts(tmp_path / "net.pt", like), {"In": [dict(enumerate(row)) for row in x.tolist()]}, [expected])
    torch.save({"model": module.state_dict()}, tmp_path / "more.pt")
    with pytest.raises(norn.DataError, match="\"model\" is a .*Dict, not an array; give the state_dict alone"):
        import_torch.parts(tmp_path / "more.pt", like)


@pytest.mark.parametrize("opset", (11, 17))
def test_graphs_that_pytorch_exports_compute_the_same(draw, opset, tmp_path):
    torch = pytest.importorskip("torch", reason="hundreds of megabytes for one oracle: build/venv/bin/pip install torch")
    from norn.interchange.onnx_reader import import_onnx
    functional, linear = torch.nn.functional, torch.nn.Linear

    class Residual(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm, self.second, self.third = linear(9, 6), torch.nn.BatchNorm1d(6), linear(6, 6, bias=False), linear(6, 6)
            self.fourth, self.slope, self.fifth = linear(15, 4), torch.nn.PReLU(), linear(4, 5)

        def forward(self, x):
            h = functional.gelu(self.norm(self.first(x)))
            h2 = functional.selu(self.third(functional.silu(self.second(h))) + h)
            return torch.softmax(self.fifth(self.slope(self.fourth(torch.cat([x, h2], 1)))) / 0.5, -1)

    class Normalised(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.third = linear(9, 7), linear(7, 5), linear(5, 5)

        def forward(self, x):
            h = functional.softplus(self.first(functional.normalize(x)))
            return torch.log_softmax(self.third(functional.softsign(self.second(h))), 1)

    x = torch.from_numpy(draw.normal(size=(6, 9)).astype(np.float32))
    for module in (Residual(), Normalised()):
        with torch.no_grad():
            for name, tensor in module.state_dict().items():
                if "running" in name:
                    tensor.uniform_(0.2, 1.5)
        module.eval()
        torch.onnx.export(module, x, str(tmp_path / "net.onnx"), opset_version=opset, input_names=["x"], dynamic_axes={"x": {0: "batch"}})
        expected = module(x).detach().numpy()
        expected = np.exp(expected) if isinstance(module, Normalised) else expected
        assert_computes(import_onnx.parts(tmp_path / "net.onnx"), {"x": [dict(enumerate(row)) for row in x.tolist()]}, [expected])


@pytest.mark.parametrize("number", range(4))
def test_a_file_of_keras_computes_the_same(draw, number, tmp_path):
    net = RandomNetwork(draw, outputs=int(draw.integers(1, 3)), plain=True, dense=True, parametric=ELSEWHERE)
    read = import_keras.parts(keras_file(net, tmp_path / "net.keras", named=number % 2 == 0), data="films")
    rows = net.examples(6)
    assert_computes(read, rows, [net.forward(rows)[name] for name in outputs_of(net)], 2e-5)
    assert any(layer.get("DataSet", "").startswith("films_output") for layer in read.descriptor["Layers"]) or len(outputs_of(net)) > 1
    network_of(read, "file")


def test_models_of_keras_itself(draw, tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "numpy")
    keras = pytest.importorskip("keras", reason="hundreds of megabytes for one oracle: build/venv/bin/pip install keras")
    inputs = keras.Input((2, 7))
    y = keras.layers.Dense(5, activation="gelu")(keras.layers.Flatten()(inputs))
    y = keras.layers.Dropout(0.3)(keras.layers.BatchNormalization()(y))
    z = keras.layers.Add()([keras.layers.Dense(6, use_bias=False)(y), keras.layers.Dense(6)(y)])
    z = keras.layers.LeakyReLU(0.3)(keras.layers.BatchNormalization(center=False)(z))
    joined = keras.layers.Concatenate()([y, z])
    functional = keras.Model(inputs, keras.layers.Dense(3, activation="softmax")(joined))
    chain = keras.Sequential([keras.layers.Dense(4, activation=keras.activations.silu), keras.layers.Activation("selu"),
                              keras.layers.ELU(0.7), keras.layers.Dense(2, activation="leaky_relu")])
    chain.layers.pop(1), chain.layers.pop(1)
    chain = keras.Sequential([keras.Input((14,)), keras.layers.Dense(4, activation="silu"), keras.layers.Dense(3), keras.layers.ELU(0.7),
                              keras.layers.Dense(2, activation="leaky_relu")])
    for number, model in enumerate((functional, chain)):
        for layer in model.layers:
            layer.set_weights([draw.uniform(0.1, 1, array.shape) for array in layer.get_weights()])
        x = draw.normal(size=(6, 14)).astype(np.float32)
        expected = np.asarray(model(x.reshape((6, 2, 7)) if number == 0 else x))
        model.save(tmp_path / "net.keras")
        assert_computes(import_keras.parts(tmp_path / "net.keras"), {"x": [dict(enumerate(row)) for row in x.tolist()]}, [expected], 2e-5)


def test_layers_of_keras_that_there_are_not_are_named(draw, tmp_path):
    net = RandomNetwork(draw, plain=True, parametric=(), words=("Tanh",), norms=False, inputs=1)
    keras_file(net, tmp_path / "net.keras")
    import zipfile
    with zipfile.ZipFile(tmp_path / "net.keras") as archive:
        config, weights = json.loads(archive.read("config.json")), archive.read("model.weights.h5")
    for layer in config["config"]["layers"]:
        if layer["class_name"] == "Activation":
            layer["config"]["activation"] = "hard_sigmoid"
        if layer["class_name"] == "Dropout":
            layer["class_name"] = "LayerNormalization"
    with zipfile.ZipFile(tmp_path / "net.keras", "w") as archive:
        archive.writestr("config.json", json.dumps(config))
        archive.writestr("model.weights.h5", weights)
    with pytest.raises(norn.DataError, match="LayerNormalization.*: Norn's layers have nothing of the kind; export it from Keras as ONNX"):
        norn.import_keras(tmp_path / "net.keras")
    with zipfile.ZipFile(tmp_path / "net.keras", "w") as archive:
        archive.writestr("config.json", "{}")
    with pytest.raises(norn.DataError, match="has no model.weights.h5; Keras 3 writes it with model.save"):
        norn.import_keras(tmp_path / "net.keras")
    with pytest.raises(norn.DataError, match="none.keras: does not exist"):
        norn.import_keras(tmp_path / "none.keras")


def caffe_network(random, **keys):
    return RandomNetwork(random, plain=True, norms=False, words=tuple(CAFFE_WORDS), parametric=ELSEWHERE, **keys)


@pytest.mark.parametrize("number", range(4))
def test_files_of_caffe_compute_the_same(draw, number, tmp_path):
    words = [word for word in CAFFE_WORDS if word != "ELU"] if number % 2 else CAFFE_WORDS
    net = RandomNetwork(draw, plain=True, norms=False, words=tuple(words), parametric=ELSEWHERE, inputs=1, dense=True)
    read = import_caffe.parts(*caffe_files(net, tmp_path / "net.prototxt", tmp_path / "net.caffemodel", old=bool(number % 2)))
    rows = net.examples(6)
    assert_computes(read, rows, [net.forward(rows)[name] for name in outputs_of(net)], 2e-5)
    network_of(read, "file")


def test_a_training_of_caffe_ends_in_its_loss(draw, tmp_path):
    net = caffe_network(draw, inputs=1)
    net.layers[-1]["Activation"] = "SoftMax"
    read = import_caffe.parts(*caffe_files(net, tmp_path / "net.prototxt", tmp_path / "net.caffemodel", training=True))
    assert read.descriptor["Layers"][-1]["Activation"] == "SoftMax"
    rows = net.examples(6)
    assert_computes(read, rows, [net.forward(rows)[name] for name in outputs_of(net)], 2e-5)


def test_opencv_computes_what_was_read_of_caffe(draw, tmp_path):
    cv2 = pytest.importorskip("cv2", reason="OpenCV, a second reader of Caffe's files, is not installed: build/venv/bin/pip install "
                                            "opencv-python-headless")
    if not hasattr(cv2.dnn, "readNetFromCaffe"):
        pytest.skip("this OpenCV reads no files of Caffe")
    net = caffe_network(draw, inputs=1)
    files = caffe_files(net, tmp_path / "net.prototxt", tmp_path / "net.caffemodel")
    there = cv2.dnn.readNetFromCaffe(*map(str, files))
    rows = net.examples(1)
    name = net.layers[0]["Name"]
    there.setInput(net.matrices_of(rows)[name].astype(np.float32))
    found = there.forward(f"{outputs_of(net)[0]}_act")
    assert_close(found, net.forward(rows)[outputs_of(net)[0]], 2e-5)
    assert_computes(import_caffe.parts(*files), rows, [found], 2e-5)


def test_layers_of_caffe_that_there_are_not_are_named(draw, tmp_path):
    net = caffe_network(draw, inputs=1)
    prototxt, caffemodel = caffe_files(net, tmp_path / "net.prototxt", tmp_path / "net.caffemodel")
    text = prototxt.read_text()
    first = net.layers[0]["Name"]
    prototxt.write_text(text + f'\nlayer {{ name: "conv1" type: "Convolution" bottom: "{first}" top: "conv1" '
                        'convolution_param { num_output: 3 } }'
                        + f'\nlayer {{ name: "lrn" type: "LRN" bottom: "{first}" top: "lrn" }}'
                        + f'\nlayer {{ name: "fc9" type: "InnerProduct" bottom: "{first}" top: "fc9" '
                        'inner_product_param { num_output: 3 } }'
                        + f'\nlayer {{ name: "power" type: "Power" bottom: "{first}" top: "power" }}')
    with pytest.raises(norn.DataError) as raised:
        norn.import_caffe(prototxt, caffemodel)
    assert [problem["message"] for problem in raised.value.problems] == [
        'layer "conv1" (Convolution): the caffemodel has 0 arrays of it, expected 2',
        f'layer "lrn" (LRN): it reads "{first}", which has units, not places and channels',
        'layer "fc9" (InnerProduct): the caffemodel has 0 arrays of it, expected 2',
        'layer "power" (Power): Norn\'s layers have nothing of the kind']
    with pytest.raises(norn.DataError, match="net.prototxt: cannot be read as a caffemodel"):
        norn.import_caffe(prototxt, prototxt)


@pytest.mark.parametrize("axis, good", [(1, True), (-1, True), (0, False), (2, False)])
def test_a_softmax_of_caffe_is_over_units(draw, axis, good, tmp_path):
    net = caffe_network(draw, inputs=1)
    prototxt, caffemodel = caffe_files(net, tmp_path / "net.prototxt", tmp_path / "net.caffemodel")
    name = f"{outputs_of(net)[0]}_act"
    text, count = re.subn(f'name: "{name}" type: "\\w+"', f'name: "{name}" type: "Softmax" softmax_param {{ axis: {axis} }}',
                          prototxt.read_text())
    assert count == 1
    prototxt.write_text(text)
    if good:
        assert import_caffe.parts(prototxt, caffemodel).descriptor["Layers"][-1]["Activation"] == "SoftMax"
    else:
        with pytest.raises(norn.DataError, match=f'layer "{name}" .*axis {axis} is not that of the units'):
            norn.import_caffe(prototxt, caffemodel)


def test_files_are_converted_by_their_endings(draw, tmp_path):
    convert = norn.interchange.convert
    net = caffe_network(draw, inputs=1)
    caffe_files(net, tmp_path / "a.prototxt", tmp_path / "a.caffemodel")
    keras_file(net, tmp_path / "a.keras")
    found = []
    for start in ("a.caffemodel", "a.keras"):
        convert(tmp_path / start, tmp_path / "b.onnx")
        convert(tmp_path / "b.onnx", tmp_path / "c.safetensors")
        convert(tmp_path / "c.safetensors", tmp_path / "d.nc")
        found.append(norn.Network.load(tmp_path / "d.nc"))
        for name, array in net.parameters.items():
            assert name not in found[-1].parameters or np.array_equal(found[-1].parameters[name], array), name
    assert found[0].descriptor["Layers"][0]["N"] == net.layers[0]["N"]
    norn.interchange.export(found[0], "onnx", tmp_path / "e.onnx", dense=True)
    for source, target, message in (("a.h5", "b.nc", "a.h5: files that end in \".h5\" are not read; there are: .nc, .onnx"),
                                    ("a.pt", "b.nc", "a state_dict does not say of which network it is"),
                                    ("a.keras", "b.keras", "b.keras: files that end in \".keras\" are not written; there are: .nc, .onnx")):
        with pytest.raises(norn.UsageError, match=message):
            convert(tmp_path / source, tmp_path / target)
    with pytest.raises(norn.UsageError, match="`format` \"h5\" is not written; there are: onnx, safetensors"):
        norn.interchange.export(found[0], "h5", tmp_path / "e.h5")


def test_a_trained_recommender_is_exported(draw, tmp_path):
    import onnxruntime as ort
    import scipy.sparse as sp
    baskets = sp.csr_matrix((draw.random((60, 25)) < 0.2).astype(np.float32))
    model = norn.Recommender(device="cpu", threads=1, hidden=8, epochs=2, batch=20).fit(baskets)
    norn.export_onnx(model, tmp_path / "model.onnx", top_k=True)
    found = model.recommend(baskets, N=3)
    rows = [dict.fromkeys(baskets[e].indices.tolist(), 1.0) for e in range(60)]
    indices, values = padded(rows)
    items, scores = ort.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"]).run(
        ["items", "scores"], {"indices": indices, "values": values, "k": np.array([3])})
    assert_close(scores, found[1])
    assert (items == found[0]).mean() > 0.95


def test_a_missing_package_is_named(monkeypatch, tmp_path):
    import importlib

    def missing(name, package=None):
        raise ImportError(name)
    from norn.interchange.safetensors import export_safetensors
    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ImportError, match="writing safetensors needs the package safetensors; install it: pip install safetensors"):
        export_safetensors(None, tmp_path / "x")
