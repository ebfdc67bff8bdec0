# SPDX-License-Identifier: Apache-2.0
"""EASE beside a trained network, against both by themselves."""
import numpy as np
import pytest
from conftest import run
from ease_test import drawn, parameter

import norn


def network_for(draw, weight, lambda_, **training):
    first = {"Name": "Input", "Kind": "Input", "N": "auto", "DataSet": "input", "Sparse": True}
    if draw.integers(2):
        first |= {"Normalize": "L2"}
    if draw.integers(2):
        first |= {"InputWeighting": {"Scheme": str(draw.choice(["InverseDocumentFrequency", "InversePopularity"]))}}
    output = {"Name": "Output", "Kind": "Output", "N": "auto", "DataSet": "output", "Source": "Hidden",
              "Activation": str(draw.choice(["Sigmoid", "Linear", "SoftMax"]))}
    loss = {"Sigmoid": "CrossEntropy", "Linear": "L2", "SoftMax": "CrossEntropy"}[output["Activation"]]
    settings = {"Optimizer": str(draw.choice(["Adam", "SGD", "Momentum"])), "Alpha": 0.01, "Batch": int(draw.integers(1, 50)), "Epochs": 2,
                "Lambda": float(draw.choice([0, 0.001])), **training}
    if weight:
        settings |= {"EaseWeight": weight, "EaseLambda": lambda_}
    hidden = {"Name": "Hidden", "Kind": "Hidden", "N": int(draw.integers(1, 40)), "Source": "Input", "Activation": "Tanh"}
    return {"Version": 0.9, "Kind": "AutoEncoder", "ErrorFunction": loss, "Training": settings, "Layers": [first, hidden, output]}


def fit(network, matrix, **settings):
    return norn.Recommender(network=network, device="cpu", **settings).fit(matrix)


def sums(model, matrix, activation):
    """What the output layer adds up, but for what is the same for all units of a row."""
    ids, scores = model.recommend(matrix, N=matrix.shape[1], filter_already_liked_items=False)
    found = np.zeros(matrix.shape)
    np.put_along_axis(found, ids, scores.astype(np.float64), 1)
    if activation == "Sigmoid":
        return np.log(found) - np.log1p(-found)
    return np.log(found) - np.log(found).mean(1, keepdims=True) if activation == "SoftMax" else found


def test_its_scores_are_the_sum_of_both(draw):
    matrix = drawn(draw, valued=bool(draw.integers(2)))
    seed = int(draw.integers(2**31))
    weight, lambda_ = float(draw.uniform(0.05, 0.5)), float(draw.uniform(2, 50))
    description = network_for(np.random.default_rng(seed), weight, lambda_)
    activation = description["Layers"][-1]["Activation"]
    joined = fit(description, matrix, threads=int(draw.integers(1, 4)))
    alone = fit(network_for(np.random.default_rng(seed), 0, 0), matrix)
    ease = parameter(fit_ease(matrix, lambda_)).astype(np.float64)
    rows = matrix.toarray().astype(np.float64)
    if description["Layers"][0].get("Normalize"):
        lengths = np.linalg.norm(rows * feature_weights(description["Layers"][0], matrix), axis=1, keepdims=True)
        rows = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    expected = weight * rows @ ease
    if activation == "SoftMax":
        expected -= expected.mean(1, keepdims=True)
    found = sums(joined, matrix, activation) - sums(alone, matrix, activation)
    assert np.max(abs(found - expected)) <= 2e-4 * max(1, abs(expected).max()), (activation, seed)
    assert joined.network_.descriptor["Layers"][-1]["Source"] == ["Hidden", "Input"]
    assert not np.diagonal(joined.network_.parameters["Input -> Output"]).any()


def fit_ease(matrix, lambda_):
    return norn.Ease(regularization=lambda_, device="cpu", threads=1).fit(matrix)


def feature_weights(layer, matrix):
    examples, counts = matrix.shape[0], np.bincount(matrix.indices, minlength=matrix.shape[1])
    scheme = layer.get("InputWeighting", {}).get("Scheme")
    if scheme is None:
        return np.ones(matrix.shape[1])
    return np.log((1 + examples) / (1 + counts)) + 1 if scheme == "InverseDocumentFrequency" else np.sqrt(examples / np.maximum(1, counts))


def test_it_is_saved_and_read_and_stays_as_it_is(draw, tmp_path):
    matrix = drawn(draw, users=40, items=30, valued=False)
    model = fit(network_for(draw, 0.3, 9), matrix)
    model.save(tmp_path / "model.nc")
    again = norn.load(tmp_path / "model.nc", device="cpu")
    for one, other in zip(model.recommend(matrix), again.recommend(matrix), strict=True):
        assert np.array_equal(one, other)
    for trained in (model, again):
        with pytest.raises(norn.UsageError) as caught:
            trained.partial_fit(matrix)
        assert "the model: has EASE beside its network, and steps would change both; train it anew, on all data, " \
            "or with `recipe` sigmoid a model that can be gone on with" in str(caught.value)


def test_the_trainer_makes_the_same_bytes_again_and_resumed(draw, programs, tmp_path):
    import json

    matrix = drawn(draw, users=60, items=40, valued=False)
    norn.Dataset(matrix, name="films").to_netcdf(tmp_path / "films.nc")
    network = network_for(draw, 0.3, 9, Epochs=3)
    network["Layers"][0]["DataSet"], network["Layers"][-1]["DataSet"] = "films_input", "films_output"
    (tmp_path / "net.json").write_text(json.dumps(network))
    options = ("-i", tmp_path / "films.nc", "--device", "cpu", "--checkpoint-epochs", "1", "--keep", "0")
    run(programs / "trainer", "-c", tmp_path / "net.json", "-n", tmp_path / "model.nc", *options, "--threads", "1")
    bytes_ = (tmp_path / "model.nc").read_bytes()
    checkpoint = draw.choice(sorted(tmp_path.glob("model.epoch*.nc")))
    run(programs / "trainer", "-c", tmp_path / "net.json", "-n", tmp_path / "other.nc", *options, "--resume", checkpoint, "--threads", "3")
    assert (tmp_path / "other.nc").read_bytes() == bytes_
    run(programs / "trainer", "-c", tmp_path / "net.json", "-n", tmp_path / "model.nc", *options, "--resume")
    assert (tmp_path / "model.nc").read_bytes() == bytes_
    for file in tmp_path.glob("model.epoch*.nc"):
        file.unlink()
    run(programs / "trainer", "-c", tmp_path / "net.json", "-n", tmp_path / "model.nc", *options, "--resume", "--threads", "2")
    assert (tmp_path / "model.nc").read_bytes() == bytes_


@pytest.mark.parametrize("change, message", [
    ({"Training": {"EaseLambda": 0}}, "needs an EaseLambda above 0"),
    ({"Output": {"Source": ["Hidden", "Input"]}}, "needs one Output layer, not fed by the Input layer"),
    ({"Output": {"WeightNorm": 2.0}}, "needs an Output layer with weights of its own, without WeightNorm"),
    ({"Output": {"EntryWeights": {"Scheme": "Linear", "Alpha": 2}}}, "counts every entry once: without EntryWeights"),
    ({"Input": {"Sparse": False}}, "needs one Input layer, with \"Sparse\": true")])
def test_networks_that_cannot_have_it_are_refused_by_name(draw, change, message):
    network = network_for(draw, 0.3, 9)
    parts = {"Training": network["Training"], "Input": network["Layers"][0], "Output": network["Layers"][-1]}
    for part, keys in change.items():
        parts[part].update(keys)
    if not network["Layers"][0]["Sparse"]:
        network["Layers"][0].pop("InputWeighting", None)
        network["Layers"][0].pop("Normalize", None)
    with pytest.raises(norn.UsageError) as caught:
        fit(network, drawn(draw, users=30, items=20, valued=False))
    assert f"network: EaseWeight, which adds EASE's scores, {message}" in str(caught.value)
