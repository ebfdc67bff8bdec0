# SPDX-License-Identifier: Apache-2.0
"""Going on with few users, of every form of data, and what is said of it: nothing, but of units that are new."""
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import norn
from norn import growing
from conftest import Baskets, same

SETTINGS = {"hidden": 6, "batch": 32, "rate_schedule": "constant", "warm_up": 0, "device": "cpu", "threads": 2}


def forms(baskets, rows):
    """{name: users as `partial_fit` takes them}."""
    matrix = baskets.matrix[rows]
    labels = [f"unit{unit}" for unit in range(baskets.units)]
    entries = matrix.tocoo()
    frame = pd.DataFrame({"user": [f"u{row:05}" for row in entries.row], "item": [labels[column] for column in entries.col]})
    return {"CSR": matrix, "dense": matrix.toarray(), "COO": entries, "Dataset": norn.Dataset(matrix, feature_labels=labels),
            "frame": norn.Dataset.from_table(frame, "user", "item", features=labels)}


@pytest.mark.parametrize("rows", [1, 2, 31, 33, "odd"])
@pytest.mark.parametrize("validated", [False, True])
def test_any_number_of_users_is_an_epoch_of_theirs(draw, caplog, rows, validated):
    baskets = Baskets(draw, users=2 * int(draw.integers(40, 90)) + 1)
    count = 2 * int(draw.integers(1, 40)) + 1 if rows == "odd" else rows
    chosen = np.sort(draw.choice(baskets.matrix.shape[0], count, replace=False))
    more = {"validation": 0.2, "callbacks": norn.early_stopping("ndcg@20", patience=2)} if validated else {}
    fitted = {}
    for name, users in forms(baskets, chosen).items():
        model = norn.Recommender(epochs=2, **SETTINGS).fit(norn.Dataset(baskets.matrix,
                                                                        feature_labels=[f"unit{unit}" for unit in range(baskets.units)]),
                                                                        **more)
        done = model.network_.model.epochs()
        caplog.clear()
        model.partial_fit(users, epochs=2)
        assert not caplog.records, (name, caplog.records)
        assert model.network_.model.epochs() == done + 2 and model.network_.descriptor["Training"]["Batch"] == 32
        assert [(epoch["examples"], "validation_cost" in epoch) for epoch in model.history[-2:]] == [(count, False)] * 2
        assert model.history[-1]["step"] - model.history[-2]["step"] == -(-count // 32)
        fitted[name] = model.recommend(baskets.matrix, N=5)
    assert all(same(lists, fitted["CSR"]) for lists in fitted.values())


def test_a_short_batch_is_a_batch_of_so_many(draw):
    """The weights are those of a network whose batch is as large as the users are many."""
    baskets, users = Baskets(draw), int(draw.integers(1, 30))
    descriptor = {"Kind": "AutoEncoder", "Layers": [
        {"Name": "Input", "Kind": "Input", "N": baskets.units, "DataSet": "data_input", "Sparse": True},
        {"Name": "Hidden", "Kind": "Hidden", "N": 5, "Activation": "Tanh"},
        {"Name": "Output", "Kind": "Output", "N": baskets.units, "DataSet": "data_output", "Sparse": True, "Activation": "Sigmoid"}]}
    run = {"rate": 0.1, "rate_schedule": "constant", "warm_up": 0, "optimizer": "SGD", "device": "cpu", "threads": 1, "epochs": 1}
    model = norn.Recommender(network=descriptor, batch=32, **run).fit(baskets.matrix)
    before = {name: values.copy() for name, values in model.network_.parameters.items()}
    few = baskets.matrix[:users]
    after = model.partial_fit(few).network_.parameters
    expected = norn.train(norn.Network.from_parameters(descriptor, before, device="cpu"), {"data_input": few, "data_output": few},
                          batch=users, **run).parameters
    assert any((before[name] != values).any() for name, values in after.items())
    for name, values in after.items():
        assert np.allclose(values, expected[name], rtol=1e-3, atol=1e-5), name


def test_units_that_are_new_are_told_once(draw, caplog):
    baskets = Baskets(draw)
    labels = [f"unit{unit}" for unit in range(baskets.units)]
    model = norn.Recommender(epochs=1, **SETTINGS).fit(norn.Dataset(baskets.matrix, feature_labels=labels))
    new = int(draw.integers(1, 9))
    wide = sp.hstack([baskets.matrix, sp.csr_matrix(np.ones((baskets.matrix.shape[0], new), np.float32))]).tocsr()
    order = draw.permutation(wide.shape[1])
    data = norn.Dataset(wide[:, order], feature_labels=[(labels + [f"new{unit}" for unit in range(new)])[place] for place in order])
    caplog.clear()
    model.partial_fit(data)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1 and f"{new} of {baskets.units + new} features" in told[0], told
    assert "not known to the model and were left out" in told[0], told
    again = norn.Recommender(epochs=1, **SETTINGS).fit(norn.Dataset(baskets.matrix, feature_labels=labels)).partial_fit(baskets.matrix)
    assert same(model.recommend(baskets.matrix, N=4), again.recommend(baskets.matrix, N=4))
    for users in (slice(None), draw.integers(wide.shape[0], size=baskets.units)):  # as many as units, which could be the other way round
        with pytest.raises(norn.DataError,
                           match=rf"has {baskets.units + new} columns, the model has {baskets.units} units .*: `partial_fit` with `grow`"):
            model.partial_fit(wide[users])


AXES = {"Input -> Hidden": 0, "Hidden -> Output": 1, "Output bias": 0, "Input featureWeights": 0}  # of units


def grown_by_hand(model, wide, units):
    """Parameters of a model whose new units have the mean weights of what users have beside them."""
    has = wide.toarray().astype(np.float64)
    beside = has[:, units:].T @ has[:, :units]
    expected = {}
    for name, array in model.network_.parameters.items():
        axis = AXES.get(name)
        if axis is None:
            expected[name] = array
            continue
        rows = np.moveaxis(array, axis, 0).astype(np.float64)
        sums = np.tensordot(beside, rows, axes=1)
        counts = beside.sum(axis=1).reshape(-1, *[1] * (rows.ndim - 1))
        counts = counts * (name != "Input featureWeights")  # these are the mean of all
        means = np.where(counts > 0, sums / np.maximum(counts, 1), rows.mean(axis=0))
        expected[name] = np.moveaxis(np.concatenate([rows, means]), 0, axis)
    return expected


@pytest.mark.parametrize("has_labels", [True, False])
def test_units_that_are_new_become_part_of_the_model(draw, has_labels):
    baskets = Baskets(draw)
    new, users = int(draw.integers(1, 9)), baskets.matrix.shape[0]
    more = sp.random(users, new, density=0.1, format="csr", random_state=draw, dtype=np.float32)
    more.data[:] = 1
    wide = sp.hstack([baskets.matrix, more]).tocsr()
    labels = [f"unit {unit}" for unit in draw.permutation(baskets.units + new)]
    first = norn.Dataset(baskets.matrix, feature_labels=labels[:baskets.units]) if has_labels else baskets.matrix
    model = norn.Recommender(epochs=2, **SETTINGS).fit(first)
    expected = grown_by_hand(model, wide, baskets.units)
    order = draw.permutation(baskets.units + new) if has_labels else np.arange(baskets.units + new)
    given = norn.Dataset(wide[:, order], feature_labels=[labels[place] for place in order]) if has_labels else wide
    network, data = growing.with_items_of(model.network_, given)
    there = [label for label in given.feature_labels if label in labels[baskets.units:]] if has_labels else None
    place = [labels[baskets.units:].index(label) for label in there] if has_labels else list(range(new))
    columns = np.concatenate([np.arange(baskets.units), baskets.units + np.array(place)])
    assert (data.matrix != wide[:, columns]).nnz == 0
    for name, array in network.parameters.items():
        axis = AXES.get(name)
        np.testing.assert_allclose(array, expected[name] if axis is None else np.take(expected[name], columns, axis), rtol=1e-5, atol=1e-7)
    model.partial_fit(given, epochs=3, grow=True)
    assert model.network_.model.epochs() == 3
    assert model.network_.layer()["N"] == baskets.units + new
    assert list(model.labels or ()) == (labels[:baskets.units] + there if has_labels else [])
    before = model.recommend(wide[:, columns], N=5)
    model.partial_fit(given, grow=True)  # nothing is new, and the optimizer goes on
    assert model.network_.model.epochs() == 4 and not same(before, model.recommend(wide[:, columns], N=5))


def test_what_cannot_grow_is_refused(draw):
    baskets = Baskets(draw)
    model = norn.Recommender(epochs=1, **SETTINGS).fit(baskets.matrix)
    labelled = norn.Dataset(baskets.matrix, feature_labels=[f"unit {unit}" for unit in range(baskets.units)])
    with pytest.raises(norn.UsageError, match="the data have labels and the model's items none"):
        model.partial_fit(labelled, grow=True)
    with pytest.raises(norn.UsageError, match="the model's items have labels and the data none"):
        norn.Recommender(epochs=1, **SETTINGS).fit(labelled).partial_fit(baskets.matrix, grow=True)
    other = norn.Recommender(epochs=1, **SETTINGS).fit(baskets.matrix, baskets.matrix[:, :9])
    with pytest.raises(norn.UsageError, match="need a model that recommends what users have"):
        other.partial_fit(baskets.matrix, grow=True)
