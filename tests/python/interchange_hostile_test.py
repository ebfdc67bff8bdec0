# SPDX-License-Identifier: Apache-2.0
"""Files of others that are damaged, or made to do harm: a DataError, or a network; no crash, no endless loop, no large memory.
NORN_MUTATIONS=10000 makes so many of each kind."""
import json
import os
import resource
import signal
import zipfile

import numpy as np
import pytest

import norn
from foreign_files import CAFFE_WORDS, caffe_files, keras_file
from foreign_images import Block, caffe_classifier
from tables import mutated
from norn.interchange.parts import Parts, canonical
from random_networks import RandomNetwork

COUNT = int(os.environ.get("NORN_MUTATIONS", "90"))
SECONDS = 120   # on a busy machine
COMPUTING = 20  # seconds of processes that read; a file of a few kilobytes gets 5
MOST_GROWTH = 1 << 30  # bytes


class Clock:
    """Ends what takes too long, and looks at the memory afterwards."""

    def __enter__(self):
        self.before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        def late(*_):
            raise TimeoutError(f"took more than {SECONDS} s")
        self.old = signal.signal(signal.SIGALRM, late)
        return self

    def __exit__(self, *_):
        signal.alarm(0)
        signal.signal(signal.SIGALRM, self.old)
        assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - self.before) * 1024 < MOST_GROWTH

    def read(self, reader, *paths):
        signal.alarm(SECONDS)
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        try:
            reader(*paths)
        except norn.DataError as error:
            assert "TimeoutError" not in str(error) and "took more than" not in str(error), error
            return 0
        finally:
            assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < COMPUTING
        return 1


def attack(random, reader, folder, paths, count=COUNT, which=0):
    """Reads mutations of one of the files."""
    content = paths[which].read_bytes()
    read = 0
    with Clock() as clock:
        for number in range(count):
            hostile = [folder / f"hostile{path.suffix}" if path == paths[which] else path for path in paths]
            hostile[which].write_bytes(mutated(random, content))
            try:
                read += clock.read(reader, *hostile)
            except BaseException:
                print(f"mutation {number}, kept as {hostile[which]}")
                raise
    print(f"{read} of {count} were read all the same")


def small(random, **keys):
    return RandomNetwork(random, plain=True, **keys)


def test_mutations_of_onnx(draw, tmp_path):
    import onnx
    for number in range(3):
        net = small(draw)
        norn.export_onnx(Parts(canonical(net.descriptor), net.parameters, {}), tmp_path / "net.onnx", dense=number == 0)
        if number < 2:
            model = onnx.load(tmp_path / "net.onnx")
            del model.metadata_props[:]
            onnx.save(model, tmp_path / "net.onnx")
        attack(draw, norn.import_onnx, tmp_path, [tmp_path / "net.onnx"], COUNT // 3)


def test_mutations_of_images(draw, tmp_path):
    import onnx
    onnx.save(Block(draw).model, tmp_path / "block.onnx")
    attack(draw, norn.import_onnx, tmp_path, [tmp_path / "block.onnx"])
    files, _ = caffe_classifier(draw, tmp_path)
    for which in (0, 1):
        attack(draw, norn.import_caffe, tmp_path, list(files), which=which)


def test_mutations_of_safetensors(draw, tmp_path):
    net = small(draw)
    norn.export_safetensors(Parts(canonical(net.descriptor), net.parameters, {}), tmp_path / "net.safetensors")
    attack(draw, norn.import_safetensors, tmp_path, [tmp_path / "net.safetensors"])


def test_mutations_of_keras(draw, tmp_path):
    net = small(draw, parametric=("LRelu", "ELU"))
    path = keras_file(net, tmp_path / "net.keras")
    attack(draw, norn.import_keras, tmp_path, [path], max(10, COUNT // 30))

    # Mutations of the whole archive mostly end at its checksums; these are of what is in it.
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}

    def packed(name):
        def read(part):
            target = part.with_suffix(".keras")
            with zipfile.ZipFile(target, "w") as archive:
                for member, content in parts.items():
                    archive.writestr(member, part.read_bytes() if member == name else content)
            return norn.import_keras(target)
        return read
    for name, count in (("config.json", COUNT // 30), ("model.weights.h5", COUNT // 10)):
        file = tmp_path / name
        file.write_bytes(parts[name])
        attack(draw, packed(name), tmp_path, [file], max(5, count))


@pytest.mark.parametrize("which", (0, 1))
def test_mutations_of_caffe(draw, which, tmp_path):
    net = small(draw, norms=False, words=tuple(CAFFE_WORDS), parametric=("LRelu", "ELU"), inputs=1)
    files = caffe_files(net, tmp_path / "net.prototxt", tmp_path / "net.caffemodel", old=False)
    attack(draw, norn.import_caffe, tmp_path, list(files), which=which)


def test_files_made_to_fill_the_memory(tmp_path):
    """Each is a few kilobytes and asks for gigabytes, or for an endless time."""
    import onnx
    helper = onnx.helper
    weights = onnx.numpy_helper.from_array(np.ones((4, 4), np.float32), "w")
    huge = onnx.TensorProto(name="huge", dims=[1 << 40, 1 << 20], data_type=1, raw_data=b"1234")
    two = onnx.numpy_helper.from_array(np.full(4, 2.0, np.float32), "two")

    def save(nodes, arrays, last, units=4):
        x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["b", units])
        out = helper.make_tensor_value_info(last, onnx.TensorProto.FLOAT, None)
        nodes = [helper.make_node(operator, inputs, [result], **attributes) for operator, inputs, result, attributes in nodes]
        graph = helper.make_graph(nodes, "g", [x], [out], arrays)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "x.onnx")
        return tmp_path / "x.onnx"

    def chain(operator, others, count, **attributes):
        return [("MatMul", ["x", "w"], "z0", {})] + [(operator, [f"z{i}", *(others or [f"z{i}"])], f"z{i + 1}", attributes)
                                                    for i in range(count)]
    with Clock() as clock:
        assert clock.read(norn.import_onnx, save([("MatMul", ["x", "huge"], "y", {})], [huge], "y")) == 0
        assert clock.read(norn.import_onnx, save(chain("Add", [], 200), [weights], "z200")) == 0, "they overflow"
        assert clock.read(norn.import_onnx, save(chain("Concat", [], 60, axis=1), [weights], "z60")) == 0
        clock.read(norn.import_onnx, save(chain("Mul", ["two"], 5000), [weights, two], "z5000"))
        weights = onnx.numpy_helper.from_array(np.ones((600, 600), np.float32), "w")
        two = onnx.numpy_helper.from_array(np.full(600, 1.01, np.float32), "two")
        with pytest.raises(norn.DataError, match="with all before it, takes more than [0-9]+ bytes"):
            norn.import_onnx(save(chain("Mul", ["two"], 5000), [weights, two], "z5000", 600))
        (tmp_path / "x.keras").write_bytes(b"")
        with zipfile.ZipFile(tmp_path / "x.keras", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("config.json", json.dumps({"class_name": "Sequential", "config": {"layers": []}}))
            archive.writestr("model.weights.h5", b"\0" * (100 << 20))
        assert clock.read(norn.import_keras, tmp_path / "x.keras") == 0
        deep = "layer { " * 5000 + "} " * 5000
        (tmp_path / "x.prototxt").write_text(deep)
        assert clock.read(norn.import_caffe, tmp_path / "x.prototxt", tmp_path / "x.prototxt") == 0


@pytest.mark.parametrize("how", ["external", "virtual", "link"])
def test_arrays_of_keras_that_lie_in_another_file_are_not_read(tmp_path, how):
    h5py = pytest.importorskip("h5py", reason="h5py is not installed, without which norn reads no files of Keras")
    from norn.interchange.hdf5_apart import read_hdf5
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret!!" * 8)
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["w"] = np.arange(8.0)
    with h5py.File(tmp_path / "weights.h5", "w") as file:
        file["own"] = np.arange(3.0)
        if how == "external":
            file.create_dataset("layers/w", (8,), "f8", external=[(str(secret), 0, 64)])
        elif how == "virtual":
            layout = h5py.VirtualLayout((8,), "f8")
            layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "w", (8,))
            file.create_virtual_dataset("layers/w", layout)
        else:
            file["layers/w"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "/w")
    if how == "link":  # is no array of this file
        assert list(read_hdf5(str(tmp_path / "weights.h5"), "weights.h5")[0]) == ["own"]
        return
    with pytest.raises(norn.DataError, match="layers/w has its contents in another file, which is not opened"):
        read_hdf5(str(tmp_path / "weights.h5"), "weights.h5")
