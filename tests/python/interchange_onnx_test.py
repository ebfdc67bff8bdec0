# SPDX-License-Identifier: Apache-2.0
"""ONNX: what the engine predicts, onnxruntime does, and the formulas; graphs of Norn and of other programs come back."""
import json
import subprocess

import numpy as np
import pytest

import norn
from interchange_support import assert_close, assert_computes, engine_scores
from norn.interchange.activations import ACTIVATIONS
from norn.interchange.parts import Parts, canonical, network_of
from norn.interchange.wiring import Wiring
from random_networks import FORMULAS, RandomNetwork, forward, padded, whole

import onnx
import onnxruntime as ort
from norn.interchange.onnx_reader import import_onnx  # noqa: E402
from norn.interchange.onnx_writer import export_onnx  # noqa: E402

helper, numpy_helper = onnx.helper, onnx.numpy_helper


def parts_of(net, labels=None):
    return Parts(canonical(net.descriptor), net.parameters, labels or {})


def session_of(path):
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def feed_of(session, net, rows):
    names = {entry.name for entry in session.get_inputs()}
    used = [layer for layer in net.inputs() if {f"{layer['Name']}_x", f"{layer['Name']}_indices", "x", "indices"} & names]
    feed = {}
    for layer in used:
        prefix = f"{layer['Name']}_" if f"{layer['Name']}_x" in names or f"{layer['Name']}_indices" in names else ""
        if f"{prefix}x" in names:
            feed[f"{prefix}x"] = whole(rows[layer["Name"]], layer["N"]).astype(np.float32)
        else:
            feed[f"{prefix}indices"], feed[f"{prefix}values"] = padded(rows[layer["Name"]])
    return feed


def without_metadata(path, target):
    model = onnx.load(path)
    del model.metadata_props[:]
    onnx.save(model, target)
    return target


def test_activations_are_those_of_the_engine(source):
    """The table has each, with its parameters."""
    schema = json.loads((source / "configs/schema/network.schema.json").read_text())

    def words(value):
        if isinstance(value, dict):
            return [word for entry in value.values() for word in words(entry)]
        return [word for entry in value for word in words(entry)] if isinstance(value, list) else [value]
    known = set(map(str, words(schema)))
    assert set(ACTIVATIONS) == set(FORMULAS)
    assert set(ACTIVATIONS) <= known
    canonical_words = set()
    for word in sorted(known):
        try:
            read = canonical({"Layers": [{"N": 1, "DataSet": "x"}, {"N": 1, "Activation": word}]})
        except norn.UsageError:
            continue
        canonical_words.add(read["Layers"][1]["Activation"])
    assert canonical_words == set(ACTIVATIONS)


@pytest.mark.parametrize("words", ["any"] * 4 + list(FORMULAS))
def test_random_networks_score_as_the_engine_and_the_formulas(draw, words, tmp_path):
    net = RandomNetwork(draw, outputs=int(draw.integers(1, 3)), dense=draw.random() < 0.5,
                        words=tuple(FORMULAS) if words == "any" else (words,))
    network = network_of(parts_of(net), "draw")
    export_onnx(network, tmp_path / "net.onnx")
    onnx.checker.check_model(str(tmp_path / "net.onnx"), full_check=True)
    model = onnx.load(tmp_path / "net.onnx")
    assert model.ir_version == 8 and [entry.version for entry in model.opset_import] == [18]
    session = session_of(tmp_path / "net.onnx")
    rows = net.examples(int(draw.integers(1, 20)))
    found = dict(zip([entry.name for entry in session.get_outputs()], session.run(None, feed_of(session, net, rows))))
    expected = net.forward(rows)
    outputs = [layer["Name"] for layer in net.layers if layer["Kind"] == "Output"]
    for name in outputs:
        scores = found["scores" if len(outputs) == 1 else f"{name}_scores"]
        assert_close(scores, expected[name], 2e-5)
        assert_close(engine_scores(network, rows, name), expected[name], 2e-5)


@pytest.mark.parametrize("number", range(8))
def test_a_written_graph_comes_back(draw, number, tmp_path):
    """To the bit, and without the metadata as a network that computes the same."""
    net = RandomNetwork(draw, outputs=int(draw.integers(1, 3)), dense=number % 2 == 1)
    parts = parts_of(net)
    export_onnx(parts, tmp_path / "net.onnx")
    network = norn.interchange.import_onnx(tmp_path / "net.onnx")
    assert network.descriptor == network_of(parts, "draw").descriptor
    for name, array in network.parameters.items():
        assert np.array_equal(array, net.parameters[name]), name
    rows = net.examples(9)
    read = import_onnx.parts(without_metadata(tmp_path / "net.onnx", tmp_path / "bare.onnx"))
    network_of(read, "file")
    sparse_and_dense = {f"{name}_{end}": own for name, own in rows.items() for end in ("values", "x")}
    outputs = [layer["Name"] for layer in net.layers if layer["Kind"] == "Output"]
    expected = net.forward(rows)
    used = [layer.name for layer in Wiring(parts.descriptor).inputs]
    only = {"one": rows[used[0]]} if len(used) == 1 else sparse_and_dense
    assert_computes(read, only, [expected[name] for name in outputs], 2e-5)


@pytest.mark.parametrize("name", ["axis:1", "number:0.5", "number:-inf", "number:units", "scores", "k", "Mul", "In -> Hidden"])
def test_a_layer_may_be_called_as_something_of_the_graph(draw, name, tmp_path):
    def of(hidden):
        return Parts(canonical({"Layers": [
            {"Name": "In", "Kind": "Input", "N": 9, "DataSet": "x", "Normalize": "L2"},
            {"Name": hidden, "Kind": "Hidden", "N": 5, "Activation": "GELU"},
            {"Name": "Out", "Kind": "Output", "N": 9, "DataSet": "y", "Activation": "GELU"}]}),
                     {f"In -> {hidden}": arrays[0], f"{hidden} bias": arrays[1], f"{hidden} -> Out": arrays[2], "Out bias": arrays[3]}, {})
    arrays = [draw.normal(0, 1, extent).astype(np.float32) for extent in ((9, 5), 5, (5, 9), 9)]
    found = []
    for hidden in ("Hidden", name):
        export_onnx(of(hidden), tmp_path / "net.onnx", top_k=True)
        onnx.checker.check_model(str(tmp_path / "net.onnx"), full_check=True)
        indices, values = np.array([[0, 3, 8], [2, 0, 0]]), np.array([[1, 2, 3], [1, 0, 0]], np.float32)
        found.append(session_of(tmp_path / "net.onnx").run(None, {"indices": indices, "values": values, "k": np.array([4])}))
    for one, other in zip(*found):
        assert np.array_equal(one, other)


def test_top_k_is_what_predictor_gives_1000_users(draw, programs, tmp_path):
    units, users = 301, 1000
    network = {"Layers": [{"Name": "Films", "Kind": "Input", "N": units, "DataSet": "films_input", "Normalize": "L2",
                           "InputWeighting": {"Scheme": "IDF"}},
                          {"Name": "Hidden", "Kind": "Hidden", "N": 32, "Activation": "Tanh"},
                          {"Name": "Best", "Kind": "Output", "N": units, "DataSet": "films_output", "Activation": "SoftMax"}]}
    parameters = {"Films -> Hidden": draw.normal(0, 1, (units, 32)), "Hidden bias": draw.normal(0, 1, 32),
                  "Hidden -> Best": draw.normal(0, 1, (32, units)), "Best bias": draw.normal(0, 1, units),
                  "Films featureWeights": draw.uniform(0.5, 3, units)}
    labels = [f"film{number * 7}" for number in draw.permutation(units)]
    model = norn.Network.from_parameters(network, {name: array.astype(np.float32) for name, array in parameters.items()},
                                         {"Films": labels, "Best": labels})
    model.save(tmp_path / "model.nc")
    rows = [sorted(draw.choice(units, draw.integers(1, 30), replace=False).tolist()) for _ in range(users)]
    (tmp_path / "requests.txt").write_text("".join(f"{e}\t{':'.join(labels[u] for u in row)}\n" for e, row in enumerate(rows)))
    subprocess.run([programs / "predictor", "-q", "-n", "model.nc", "-r", "requests.txt", "-s", "best.tsv", "-k", "20", "--exclude-seen",
                    "--format", "tsv", "--device", "cpu"], cwd=tmp_path, check=True)
    predicted = [line.split("\t") for line in (tmp_path / "best.tsv").read_text().splitlines()]
    predicted = [line for line in predicted if line[0].isdigit()]
    items = np.array([labels.index(line[2]) for line in predicted]).reshape(users, 20)
    scores = np.array([float(line[3]) for line in predicted]).reshape(users, 20)

    norn.interchange.export_onnx(tmp_path / "model.nc", tmp_path / "model.onnx", top_k=True)
    onnx.checker.check_model(str(tmp_path / "model.onnx"), full_check=True)
    session = session_of(tmp_path / "model.onnx")
    indices, values = padded([dict.fromkeys(row, 1.0) for row in rows])
    found, found_scores = session.run(["items", "scores"], {"indices": indices, "values": values, "k": np.array([20])})
    assert_close(found_scores, scores)
    same = (found == items).all(1)
    print(f"{same.sum()} of {users} lists are the same, scores differ by {abs(found_scores - scores).max():.1e}")
    for e in np.flatnonzero(~same):  # units of one score to float32 may change places
        assert np.array_equal(np.sort(found[e]), np.sort(items[e])) or abs(found_scores[e] - scores[e]).max() < 1e-6
    assert same.mean() > 0.99
    metadata = {entry.key: entry.value for entry in onnx.load(tmp_path / "model.onnx").metadata_props}
    digest = json.loads(metadata["norn_labels_sha256"])
    assert digest["Films"] == digest["Best"] == Parts({}, {}, {"x": labels}).labels_sha256()["x"]
    # More than there are, and an example without entries.
    all_items, all_scores = session.run(["items", "scores"], {"indices": indices[:2, :0], "values": values[:2, :0], "k": np.array([999])})
    assert all_items.shape == (2, units) and np.isfinite(all_scores).all()
    # Without its metadata the same network, whatever leaves seen units out.
    read = import_onnx.parts(without_metadata(tmp_path / "model.onnx", tmp_path / "bare.onnx"))
    few = [dict.fromkeys(row, 1.0) for row in rows[:5]]
    expected = forward(model.descriptor, model.parameters, {"Films": whole(few, units)})["Best"]
    assert_computes(read, {"one": few}, [expected])


def small(units=5, **keys):
    network = {"Layers": [{"Name": "In", "Kind": "Input", "N": units, "DataSet": "x"},
                          {"Name": "Out", "Kind": "Output", "N": 3, "DataSet": "y", "Activation": "Linear", **keys}]}
    return Parts(canonical(network), {"In -> Out": np.ones((units, 3), np.float32), "Out bias": np.arange(3, dtype=np.float32)})


def test_what_a_graph_cannot_be_is_refused(tmp_path):
    with pytest.raises(norn.UsageError, match=r"`top_k`: which units are seen is not clear: output \"Out\" has 3 units, and sparse inputs "
                                              r"with the same ones are: none; name one with `seen`, or leave nothing "
                                              r"out with `seen=False`"):
        export_onnx(small(), tmp_path / "a.onnx", top_k=True)
    export_onnx(small(), tmp_path / "a.onnx", top_k=True, seen=False)
    with pytest.raises(norn.UsageError, match="the model has no Output layer \"Best\". It has: Out"):
        export_onnx(small(), tmp_path / "b.onnx", output="Best")
    wide = small(1_000_001)
    wide.descriptor["Layers"].insert(1, {"Name": "H", "Kind": "Hidden", "N": 1_000_001, "Source": "In", "Skip": "In",
                                         "Activation": "Linear"})
    wide.descriptor["Layers"][2]["Source"] = "H"
    with pytest.raises(norn.UsageError, match="has 1000001 units, and by Skip must be dense, 4000004 bytes an example"):
        export_onnx(wide, tmp_path / "b.onnx")
    with pytest.raises(norn.DataError, match="b.onnx: cannot be written: No such file or directory"):
        export_onnx(small(), tmp_path / "none" / "b.onnx")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.onnx"]


def test_large_arrays_stand_in_a_file_beside_it(tmp_path):
    parts = small(3000)
    parts.parameters["In -> Out"][:] = np.random.default_rng(1).random((3000, 3))
    export_onnx(parts, tmp_path / "net.onnx", dense=True, external_over=10_000)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.onnx", "net.onnx.data"]
    onnx.checker.check_model(str(tmp_path / "net.onnx"), full_check=True)
    x = np.random.default_rng(2).random((2, 3000), np.float32)
    assert_close(session_of(tmp_path / "net.onnx").run(None, {"x": x})[0], x @ parts.parameters["In -> Out"] + np.arange(3), 1e-4)
    assert np.array_equal(import_onnx.parts(tmp_path / "net.onnx").parameters["In -> Out"], parts.parameters["In -> Out"])
    (tmp_path / "net.onnx.data").unlink()
    with pytest.raises(norn.DataError, match="net.onnx: cannot be read as an ONNX model"):
        import_onnx.parts(tmp_path / "net.onnx")


class Graph:
    """Makes a model node by node, as other programs write them."""

    def __init__(self, opset=17):
        self.opset, self.nodes, self.arrays, self.inputs = opset, [], [], []

    def input(self, name, extent, kind=onnx.TensorProto.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, kind, extent))
        return name

    def array(self, name, values):
        self.arrays.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def node(self, operator, *inputs, outputs=None, **attributes):
        outputs = outputs or [f"{operator}_{len(self.nodes)}"]
        self.nodes.append(helper.make_node(operator, list(inputs), outputs, name=f"/{outputs[0]}", **attributes))
        return outputs[0]

    def save(self, path, *outputs):
        results = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "main_graph", self.inputs, results, self.arrays)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8), path)
        return path


def test_a_graph_as_pytorch_exports_it_is_read(draw, tmp_path):
    """Gemm with transB, dropout, flatten, GELU and SiLU as formulas, batch normalisation before and behind activations, a residual."""
    f = lambda *extent: draw.normal(0, 0.7, extent).astype(np.float32)  # noqa: E731
    g = Graph()
    x = g.node("Flatten", g.input("image", ["batch", 3, 4]))
    z = g.node("Gemm", x, g.array("fc1.weight", f(8, 12)), g.array("fc1.bias", f(8)), transB=1)
    inner = g.node("Add", g.node("Erf", g.node("Div", z, g.array("root", np.float32(2 ** 0.5)))), g.array("one", np.float32(1)))
    y = g.node("Mul", g.node("Mul", z, inner), g.array("half", np.float32(0.5)))
    norm = [g.array(f"bn.{i}", abs(f(8)) + 0.1) for i in range(4)]
    y = g.node("Dropout", g.node("BatchNormalization", y, *norm, epsilon=1e-3))
    z2 = g.node("Add", g.node("MatMul", y, g.array("w2", f(8, 8))), g.array("b2", f(1, 8)))
    z2 = g.node("BatchNormalization", z2, *[g.array(f"bn2.{i}", abs(f(8)) + 0.1) for i in range(4)], epsilon=1e-3)
    y2 = g.node("Mul", z2, g.node("Sigmoid", z2))
    z3 = g.node("Gemm", y2, g.array("w3", f(8, 8)), alpha=0.5)
    z3 = g.node("Add", g.node("Sub", z3, g.array("b3", f(8))), y2)
    # Without epsilon it is 1e-5, which variances of that size tell.
    z3 = g.node("BatchNormalization", z3, *[g.array(f"bn3.{i}", abs(f(8)) + 0.1) for i in range(3)],
                g.array("bn3.3", np.full(8, 2e-5, np.float32)))
    y3 = g.node("PRelu", z3, g.array("slope", np.float32([0.2])))
    joined = g.node("Concat", y2, y3, axis=1)
    # y3 is in the hundreds: a softmax of sums as large would be a one, zeros and what float32 is off.
    z4 = g.node("Gemm", joined, g.array("w4", f(5, 16) / 100), g.array("b4", f(5)), transB=1, beta=2.0)
    g.save(tmp_path / "g.onnx", g.node("Softmax", g.node("Identity", z4), axis=1), y3)
    with pytest.raises(norn.DataError, match="is read by \"w?[^\"]*\" too; Norn's Output layers feed no other layer"):
        import_onnx.parts(tmp_path / "g.onnx")
    name = onnx.load(tmp_path / "g.onnx").graph.output[0].name
    read = import_onnx.parts(tmp_path / "g.onnx", outputs=[name], data="films")
    assert read.descriptor["ErrorFunction"] == "CrossEntropy"
    assert [layer.get("DataSet") for layer in read.descriptor["Layers"]][::len(read.descriptor["Layers"]) - 1] == ["films_input",
                                                                                                                   "films_output"]
    image = f(7, 3, 4)
    expected = session_of(tmp_path / "g.onnx").run([name], {"image": image})
    assert_computes(read, {"image": [dict(enumerate(row)) for row in image.reshape(7, 12).tolist()]}, expected, 2e-5)
    network_of(read, "file")


def test_formulas_of_normalisation_and_softsign_are_read(draw, tmp_path):
    g = Graph(11)
    x = g.input("x", ["batch", 6])
    norm = g.node("Clip", g.node("ReduceL2", x, axes=[1], keepdims=1), g.array("least", np.float32(1e-12)))
    x = g.node("Div", x, g.node("Expand", norm, g.node("Shape", x)))
    z = g.node("Gemm", x, g.array("w", draw.normal(0, 3, (6, 4)).astype(np.float32)))
    g.save(tmp_path / "g.onnx", g.node("Div", z, g.node("Add", g.node("Abs", z), g.array("one", np.float32(1)))))
    read = import_onnx.parts(tmp_path / "g.onnx")
    assert read.descriptor["Layers"][0]["Normalize"] == "L2" and read.descriptor["Layers"][1]["Activation"] == "SoftSign"
    x = draw.normal(size=(5, 6)).astype(np.float32)
    assert_computes(read, {"x": [dict(enumerate(row)) for row in x.tolist()]}, session_of(tmp_path / "g.onnx").run(None, {"x": x}))


@pytest.mark.parametrize("operator, bounds, attributes, good", [
    ("Clip", [1e-12], {}, True), ("Max", [1e-12], {}, True), ("Clip", [], {"min": 1e-12}, True), ("Clip", [], {}, True),
    ("Clip", [0.5], {}, False), ("Max", [0.5], {}, False), ("Clip", [], {"min": 0.5}, False), ("Clip", [], {"max": 3.0}, False),
    ("Clip", [], {"min": 1e-12, "max": 3.4028235e38}, True), ("Max", [1e-12, 3.4028235e38], {}, False),
    ("Clip", [1e-12, 3.0], {}, False), ("Max", [1e-12, 3.0], {}, False), ("Max", ["input"], {}, False)])
def test_a_norm_is_held_above_next_to_nothing(draw, operator, bounds, attributes, good, tmp_path):
    g = Graph(9 if attributes else 11)
    x = g.input("x", ["batch", 6])
    others = [g.input("other", ["batch", 1]) if bound == "input" else g.array(f"bound {bound}", np.float32(bound)) for bound in bounds]
    norm = g.node(operator, g.node("ReduceL2", x, axes=[1], keepdims=1), *others, **attributes)
    x = g.node("Div", x, g.node("Expand", norm, g.node("Shape", x)))
    g.save(tmp_path / "g.onnx", g.node("Gemm", x, g.array("w", draw.normal(0, 3, (6, 4)).astype(np.float32))))
    if good:
        assert import_onnx.parts(tmp_path / "g.onnx").descriptor["Layers"][0]["Normalize"] == "L2"
    else:
        with pytest.raises(norn.DataError, match="only norms of inputs are held above a number near 0"):
            import_onnx.parts(tmp_path / "g.onnx")


def test_bags_of_embeddings_are_sparse_inputs(draw, tmp_path):
    g = Graph(13)
    ids = g.input("ids", ["batch", "length"], onnx.TensorProto.INT64)
    weights = g.input("weights", ["batch", "length"])
    table = draw.normal(0, 1, (30, 6)).astype(np.float32)
    axes = g.array("axes", np.array([1]))
    rows = g.node("Mul", g.node("Gather", g.array("bag.weight", table), ids), g.node("Unsqueeze", weights, g.array("last", np.array([-1]))))
    z = g.node("Add", g.node("ReduceSum", rows, axes, keepdims=0), g.array("bias", draw.normal(0, 1, 6).astype(np.float32)))
    other = g.node("Gemm", g.input("x", ["batch", 4]), g.array("w", draw.normal(0, 1, (4, 6)).astype(np.float32)))
    out = g.node("LogSoftmax", g.node("Add", z, other))
    g.save(tmp_path / "g.onnx", out)
    read = import_onnx.parts(tmp_path / "g.onnx")
    assert read.notes == ["LogSoftmax is read as SoftMax: the scores are probabilities, not their logarithms"]
    assert [layer["N"] for layer in read.descriptor["Layers"]] == [30, 4, 6]
    bags = [{int(u): float(draw.uniform()) for u in draw.choice(30, 3, replace=False)} for _ in range(5)]
    x = draw.normal(0, 1, (5, 4)).astype(np.float32)
    indices, values = padded(bags)
    expected = session_of(tmp_path / "g.onnx").run(None, {"ids": indices, "weights": values, "x": x})[0]
    assert_computes(read, {"weights": bags, "x": [dict(enumerate(row)) for row in x.tolist()]}, [np.exp(expected)])
    network_of(read, "file")


def test_all_nodes_that_no_layer_computes_are_named_at_once(tmp_path):
    g = Graph()
    x = g.input("x", ["batch", 4])
    w = g.array("w", np.ones((4, 4), np.float32))
    a = g.node("MatMul", g.node("DepthToSpace", x, blocksize=1), w)
    b = g.node("Mul", g.node("Tanh", g.node("MatMul", x, w)), g.node("Relu", g.node("MatMul", x, w)))
    c = g.node("Softmax", g.node("MatMul", x, w), axis=0)
    d = g.node("Relu", g.node("Tanh", g.node("MatMul", x, g.array("narrow", np.ones((3, 4), np.float32)))))
    g.save(tmp_path / "g.onnx", a, b, c, d)
    with pytest.raises(norn.DataError) as raised:
        import_onnx.parts(tmp_path / "g.onnx")
    messages = [problem["message"] for problem in raised.value.problems]
    assert messages == [
        'node "/DepthToSpace_0" (DepthToSpace): Norn\'s layers have nothing of the kind',
        'node "/Mul_6" (Mul): it multiplies layers with each other',
        'node "/Softmax_8" (Softmax): axis 0 is not that of the units',
        'node "/MatMul_9" (MatMul): its weights are for 3 units, but what it reads has 4']
    assert str(tmp_path / "g.onnx") in str(raised.value)
    g.save(tmp_path / "h.onnx", "nothing")
    with pytest.raises(norn.DataError, match='there is no output "other"; the graph has: nothing'):
        import_onnx.parts(tmp_path / "h.onnx", outputs=["other"])
