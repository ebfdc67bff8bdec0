# SPDX-License-Identifier: Apache-2.0
"""Networks of arrays."""
import json

import numpy as np
import pytest

import norn
from interchange_support import assert_close, engine_scores
from random_networks import RandomNetwork


def test_parameters_and_labels_are_those_given(draw, tmp_path):
    net = RandomNetwork(draw)
    given = {name: np.asfortranarray(array) if draw.random() < 0.5 else array for name, array in net.parameters.items()}
    output = net.layers[-1]["Name"]
    labels = [f"film {number}" for number in range(net.layers[-1]["N"])]
    network = norn.Network.from_parameters(json.dumps(net.descriptor), given, {output: labels}, device="cpu", threads=1)
    network.save(tmp_path / "model.nc")
    for one in (network, norn.Network.load(tmp_path / "model.nc", device="cpu", threads=1)):
        assert {name: array.shape for name, array in one.parameters.items()} == {name: array.shape for name, array in given.items()}
        assert all(np.array_equal(array, given[name]) for name, array in one.parameters.items())
        assert list(one.labels(output)) == labels
    again = norn.Network.from_parameters(network.descriptor, network.parameters, {output: network.labels(output)})
    again.save(tmp_path / "again.nc")
    assert (tmp_path / "again.nc").read_bytes() == (tmp_path / "model.nc").read_bytes()
    rows = net.examples(7)
    assert_close(engine_scores(again, rows, output), net.forward(rows)[output], 2e-5)


def test_all_that_does_not_fit_is_told_at_once():
    network = {"Layers": [{"Name": "In", "Kind": "Input", "N": 4, "DataSet": "x"},
                          {"Name": "Out", "Kind": "Output", "N": 3, "DataSet": "y"}]}
    bias = np.zeros(3, np.float32)
    bias[1] = np.inf
    with pytest.raises(norn.UsageError) as raised:
        norn.Network.from_parameters(network, {"In -> Out": np.zeros((3, 4), np.float32), "Out bias": bias, "Out Bias": bias})
    assert [problem["key"] for problem in raised.value.problems] == ["In -> Out", "Out bias", "Out Bias"]
    with pytest.raises(norn.UsageError) as raised:
        norn.Network.from_parameters(network, {"In -> Out": np.zeros((4, 3)), "Out bias": np.zeros((1, 1, 1, 1, 1, 3), np.float32)})
    assert [problem["message"] for problem in raised.value.problems] == [
        '`parameters`: "In -> Out" is float64 of 2 dimensions; expected float32 of one to five',
        '`parameters`: "Out bias" is float32 of 6 dimensions; expected float32 of one to five']


def test_files_are_made_when_data_come(draw, tmp_path, monkeypatch):
    net = RandomNetwork(draw)
    output, rows = net.layers[-1]["Name"], net.examples(5)
    with monkeypatch.context() as full:
        full.setenv("TMPDIR", str(tmp_path / "where there is no room"))
        network = norn.Network.from_parameters(net.descriptor, net.parameters, device="cpu", threads=1)
        before = network.parameters
        network.save(tmp_path / "model.nc")
        with pytest.raises(norn.DataError, match="a temporary folder cannot be made"):
            engine_scores(network, rows, output)
        assert all(np.array_equal(array, net.parameters[name]) for name, array in network.parameters.items())
    scores = engine_scores(network, rows, output)
    assert np.array_equal(scores, engine_scores(norn.Network.load(tmp_path / "model.nc", device="cpu", threads=1), rows, output))
    network.save(tmp_path / "after.nc")
    assert (tmp_path / "after.nc").read_bytes() == (tmp_path / "model.nc").read_bytes()
    network.model.close()
    assert all(np.array_equal(array, net.parameters[name]) for name, array in before.items()), "views of what has been replaced"
