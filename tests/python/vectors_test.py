# SPDX-License-Identifier: Apache-2.0
"""Vectors whose inner products are in the order of the scores, and users by their likeness."""
import numpy as np
import pytest
import scipy.sparse as sp

import norn
from conftest import Baskets
from random_networks import DEFAULTS, FORMULAS, RandomNetwork, listed


def csr(rows, units):
    return sp.csr_matrix(np.array([[row.get(unit, 0.0) for unit in range(units)] for row in rows], np.float32).reshape(len(rows), units))


def scores_of(model, data, layer, users, units):
    """[users, units], as `recommend` gives them."""
    ids, scores = model.recommend(data, units, filter_already_liked_items=False, layer=layer)
    made = np.empty((users, units), np.float32)
    np.put_along_axis(made, ids.astype(np.int64), scores, axis=1)
    return made, ids


def test_an_inner_product_is_what_comes_into_the_activation(draw):
    compared = refused = 0
    for _ in range(200):
        net = RandomNetwork(draw, outputs=int(draw.integers(1, 3)))
        model = norn.Recommender.of(norn.Network.from_parameters(net.descriptor, net.parameters, device="cpu", threads=1))
        rows, users = net.examples(5), 5
        data = {one["DataSet"]: csr(rows[one["Name"]], one["N"]) for one in net.inputs()}
        kinds = {one["Name"]: one["Kind"] for one in net.layers}
        for output in (one for one in net.layers if one["Kind"] == "Output"):
            name, word = output["Name"], output["Activation"]
            if word in ("GELU", "Swish") or any(kinds[source] == "Input" for source in listed(output["Source"])):
                with pytest.raises(norn.UsageError, match=f'layer "{name}": (its activation {word} is not in the order|reads the input)'):
                    model.export_vectors(data, layer=name)
                refused += 1
                continue
            items, vectors = model.export_vectors(data, layer=name)
            assert items.shape == (output["N"], vectors.shape[1]) and items.dtype == vectors.dtype == np.float32
            assert items.flags.c_contiguous and vectors.flags.c_contiguous and (vectors[:, -1] == 1).all()
            z = vectors @ items.T
            made, ids = scores_of(model, data, name, users, output["N"])
            keys = {key: output.get(key, value) for key, value in DEFAULTS.get(word, {}).items()}
            wanted = FORMULAS[word](z.astype(np.float64), keys)
            bound = 2e-5 * (1 + np.abs(vectors) @ np.abs(items).T)
            assert (abs(made - wanted) < bound).all(), (word, abs(made - wanted).max())
            ours = np.argsort(-z, axis=1, kind="stable")
            assert (abs(np.take_along_axis(made, ours, 1) - np.take_along_axis(made, ids.astype(np.int64), 1)) < 2 * bound).all()
            compared += 1
        if compared >= 8 and refused >= 3:
            return
    pytest.fail(f"of 200 networks {compared} had vectors and {refused} had none")


def test_the_order_is_that_of_recommend(draw):
    baskets = Baskets(draw)
    model = norn.Recommender(epochs=4, batch=20, hidden=int(draw.integers(3, 12)), device="cpu", threads=1).fit(baskets.matrix)
    items, users = model.export_vectors(baskets.matrix)
    assert users.shape == (baskets.matrix.shape[0], model.transform(baskets.matrix).shape[1] + 1) and items.shape[0] == baskets.units
    ids, scores = model.recommend(baskets.matrix, 7, filter_already_liked_items=False)
    z = users @ items.T
    best = np.take_along_axis(z, ids.astype(np.int64), 1)
    bound = 2e-5 * (1 + (np.abs(users) @ np.abs(items).T).max())
    assert (abs(best - -np.sort(-z, axis=1)[:, :7]) < bound).all(), "units that change places have equal scores"
    assert (abs(1 / (1 + np.exp(-best)) - scores) < bound).all()
    alone = model.export_vectors()
    assert alone.users.shape == (0, items.shape[1]) and np.array_equal(alone.items, items)
    with pytest.raises(norn.UsageError, match="choose of: Output"):
        model.export_vectors(layer="Hidden")


def test_an_output_that_skips_has_no_vectors():
    network = {"Layers": [{"Name": "In", "Kind": "Input", "N": 4, "DataSet": "x"}, {"Name": "H", "Kind": "Hidden", "N": 3},
                          {"Name": "Out", "Kind": "Output", "N": 3, "DataSet": "y", "Skip": "H"}]}
    shapes = {"In -> H": (4, 3), "H bias": (3,), "H -> Out": (3, 3), "Out bias": (3,)}
    made = norn.Network.from_parameters(network, {name: np.ones(shape, np.float32) for name, shape in shapes.items()})
    with pytest.raises(norn.UsageError, match="what comes by Skip"):
        norn.Recommender.of(made).export_vectors()


def test_similar_users_are_those_with_the_largest_cosine(draw, monkeypatch):
    baskets = Baskets(draw, users=int(draw.integers(40, 120)))
    data = norn.Dataset(baskets.matrix, feature_labels=baskets.dataset.feature_labels,
                        example_labels=[f"user{u}" for u in range(baskets.matrix.shape[0])])
    model = norn.Recommender(epochs=2, batch=20, device="cpu", threads=1).fit(data)
    asked = np.sort(draw.choice(len(data), 9, replace=False))
    vectors = model.transform(data).astype(np.float64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = vectors[asked] @ vectors.T
    monkeypatch.setattr("norn.tables.ROWS", int(draw.integers(5, 50)))  # others come in parts, and so do those who are asked for
    monkeypatch.setattr("norn.vectors.AT_A_TIME", int(draw.integers(1, 12)))
    ids, scores = model.similar_users(baskets.matrix[asked], data, N=6)
    assert ids.dtype == np.int32 and scores.dtype == np.float32 and ids.shape == scores.shape == (9, 6)
    assert (abs(scores - -np.sort(-cosines, axis=1)[:, :6]) < 1e-5).all()
    assert (abs(np.take_along_axis(cosines, ids.astype(np.int64), 1) - scores) < 1e-5).all()
    assert all(abs(cosines[i, ids[i, 0]] - 1) < 1e-5 for i in range(9)), "a user is most like themselves"
    equal = [[row[i] < row[i + 1] for i in range(5) if near[i] == near[i + 1]] for row, near in zip(ids, scores)]
    assert all(map(all, equal)), "of equal ones the lower comes first"
    ids, scores = model.similar_users(baskets.matrix[:2], baskets.matrix[:3], N=5)
    assert (np.sort(ids) == [0, 1, 2]).all() and scores.shape == (2, 3), "there are no more"
    assert model.similar_users(baskets.matrix[:2], baskets.matrix, N=10**9)[0].shape == (2, len(data))
    assert model.similar_users(baskets.matrix[:0], data, N=4)[0].shape == (0, 4)
    assert model.similar_users(baskets.matrix[:2], baskets.matrix[:0])[0].shape == (2, 0)


def test_users_like_a_basket_are_told_by_label(draw):
    baskets = Baskets(draw)
    labels = [f"user{u}" for u in range(baskets.matrix.shape[0])]
    data = norn.Dataset(baskets.matrix, feature_labels=baskets.dataset.feature_labels, example_labels=labels)
    model = norn.Recommender(epochs=2, batch=20, device="cpu", threads=1).fit(data)
    user = int(draw.integers(len(data)))
    basket = [f"unit{u}" for u in baskets.matrix[user].indices]
    near = model.similar_users(basket, data, N=4)
    ids, scores = model.similar_users(baskets.matrix[user], data, N=4)
    assert near == [(labels[i], float(s)) for i, s in zip(ids[0], scores[0])]
    assert model.similar_users(basket, baskets.matrix, N=1)[0][0] == ids[0][0]
    with pytest.raises(norn.UsageError, match="no unit 'unitless'"):
        model.similar_users(["unitless"], data)
    with pytest.raises(norn.UsageError, match="`N` 0"):
        model.similar_users(basket, data, N=0)
