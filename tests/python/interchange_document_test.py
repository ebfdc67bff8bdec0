# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/user/interchange.md run as they stand."""
import re

import numpy as np
import norn
from page_test import run_page
from foreign_files import CAFFE_WORDS, caffe_files, keras_file
from random_networks import RandomNetwork


def test_the_examples_run(draw, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    films = {"Layers": [{"Name": "Input", "Kind": "Input", "N": 40, "DataSet": "films_input"},
                        {"Name": "Output", "Kind": "Output", "N": 40, "DataSet": "films_output"}]}
    norn.Network.from_parameters(films, {"Input -> Output": draw.normal(size=(40, 40)).astype(np.float32),
                                         "Output bias": np.zeros(40, np.float32)}).save("films.nc")
    norn.export_onnx("films.nc", "theirs.onnx")
    net = RandomNetwork(draw, plain=True, norms=False, words=tuple(CAFFE_WORDS), parametric=(), inputs=1)
    keras_file(net, tmp_path / "theirs.keras")
    caffe_files(net, tmp_path / "net.prototxt", tmp_path / "net.caffemodel")
    names, _ = run_page("interchange")
    assert names["items"].shape == (2, 5) and not set(names["items"][0]) & {3, 7, 9} and 5 not in names["items"][1]
    assert norn.Network.load("from_torch.nc").descriptor["Layers"][1]["N"] == 16
    assert (tmp_path / "theirs.nc").exists()


def test_every_name_of_the_table_is_there(source):
    text = (source / "docs/user/interchange.md").read_text()
    for name in set(re.findall(r"`norn\.(\w+)\(", text)):
        assert callable(getattr(norn, name)), name
