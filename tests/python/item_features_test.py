# SPDX-License-Identifier: Apache-2.0
"""`Recommender.fit(..., item_features=)`: what units score by them, all forms of them the same, and what is refused."""
import logging

import numpy as np
import pandas
import pytest
import scipy.sparse as sp

import norn


class Shop:
    """Users of groups of items; the item `new` is one that nobody has, of the first group."""

    def __init__(self, draw):
        self.groups, each = int(draw.integers(3, 6)), int(draw.integers(8, 14))
        self.items = self.groups * each
        self.group_of = np.arange(self.items) % self.groups
        self.new = 0
        rows = []
        for user in range(240):
            own = (self.group_of == user % self.groups) & (draw.random(self.items) < 0.6)
            own[self.new] = False
            own[user % self.groups + self.groups] = True
            rows.append(own)
        self.users = sp.csr_matrix(np.array(rows, dtype=np.float32))
        self.features = sp.csr_matrix((np.ones(self.items, np.float32), (np.arange(self.items), self.group_of)))


@pytest.fixture
def shop(draw):
    return Shop(draw)


def recommender(**settings):
    return norn.Recommender(**({"recipe": "softmax", "hidden": 16, "epochs": 25, "batch": 40, "rate": 0.01} | settings))


def scores(model, shop):
    return model.recommend(shop.users, N=shop.items, filter_already_liked_items=False)


def liking_of_new(model, shop):
    """How much larger the new item's score is for users of its group than for others."""
    ids, values = scores(model, shop)
    own = np.arange(shop.users.shape[0]) % shop.groups == shop.group_of[shop.new]
    of_new = np.log(values[ids == shop.new])  # users in their order
    return of_new[own].mean() - of_new[~own].mean()


def test_an_item_that_nobody_has_scores_by_its_features(shop):
    without = recommender().fit(shop.users)
    by_features = recommender().fit(shop.users, item_features=shop.features)
    assert liking_of_new(by_features, shop) > liking_of_new(without, shop) + 0.1


def test_a_matrix_and_a_dictionary_are_the_same(shop, tmp_path, caplog):
    recommender(epochs=2).fit(shop.users, item_features=shop.features).save(tmp_path / "matrix.nc")
    by_name = {item: [f"group {shop.group_of[item]}"] for item in range(shop.items)}
    with caplog.at_level(logging.WARNING, "norn"):
        named = recommender(epochs=2).fit(shop.users, item_features=by_name | {"nobody": ["group 0"]})
    assert "1 items do not exist, and are left out: nobody" in caplog.text
    given = scores(norn.load(tmp_path / "matrix.nc"), shop)
    for one, two in zip(given, scores(named, shop)):
        np.testing.assert_array_equal(one, two)


def test_any_order_of_entries_is_the_same(shop, draw, tmp_path):
    network = {"Layers": [{"Name": "Input", "Kind": "Input", "N": "auto", "DataSet": "in", "Sparse": True},
                          {"Name": "Output", "Kind": "Output", "N": "auto", "DataSet": "out", "Sparse": True, "Activation": "SoftMax",
                           "Features": "groups"}], "ErrorFunction": "CrossEntropy"}
    more = sp.hstack([shop.features, sp.random(shop.items, 9, density=0.5, random_state=draw, dtype=np.float32)]).tocsr()
    turned = more.copy()
    for first, last in zip(more.indptr, more.indptr[1:]):
        order = first + draw.permutation(last - first)
        turned.indices[first:last], turned.data[first:last] = more.indices[order], more.data[order]
    turned.has_sorted_indices = False
    for name, features in (("one", more), ("two", turned)):
        trained = norn.train(network, {"in": shop.users, "out": shop.users, "groups": features}, epochs=1, seed=1, device="cpu")
        trained.save(tmp_path / f"{name}.nc")
        norn.load(tmp_path / f"{name}.nc").recommend(shop.users, N=3)
    assert (tmp_path / "one.nc").read_bytes() == (tmp_path / "two.nc").read_bytes()


def test_a_model_that_is_loaded_needs_nothing_beside_it(shop, tmp_path):
    trained = recommender(epochs=2).fit(shop.users, item_features=shop.features)
    trained.save(tmp_path / "model.nc")
    for one, two in zip(scores(trained, shop), scores(norn.load(tmp_path / "model.nc"), shop)):
        np.testing.assert_array_equal(one, two)
    trained.partial_fit(shop.users)


def test_missing_items_are_told(shop, caplog):
    with caplog.at_level(logging.WARNING, "norn"):
        recommender(epochs=1).fit(shop.users, item_features={item: ["one"] for item in range(shop.items - 2)})
    told = [record.getMessage() for record in caplog.records]
    assert told == [f'data set "item_features": 2 ("{shop.items - 2}", "{shop.items - 1}") of its rows have no entries']


def test_items_without_features_are_told_once_in_whatever_form_they_come(shop, draw, caplog):
    labels = [f"item {item}" for item in range(shop.items)]
    users = norn.Dataset(shop.users, feature_labels=labels)
    without = sorted(draw.choice(shop.items, 2, replace=False).tolist())
    lists = {label: [f"group {shop.group_of[item]}"] for item, label in enumerate(labels) if item not in without}
    listed = lists | {labels[without[0]]: []}
    numbers = {label: dict.fromkeys(words, 2.0) for label, words in listed.items()}
    groups = sorted({word for words in lists.values() for word in words})
    rows = np.array([[word in lists.get(label, ()) for word in groups] for label in labels], np.float32)
    there = [label for label in labels if label in listed]
    named = norn.Dataset(rows[[labels.index(label) for label in there]], example_labels=there, feature_labels=groups)
    names = ", ".join(f'"{labels[item]}"' for item in without)
    for given in (lists, listed, numbers, named, rows):
        caplog.clear()
        with caplog.at_level(logging.WARNING, "norn"):
            recommender(epochs=1).fit(users, item_features=given)
        assert [record.getMessage() for record in caplog.records] == [
            f'data set "item_features": 2 ({names}) of its rows have no entries']
        caplog.clear()
        plain = recommender(epochs=1).fit(users)
        with caplog.at_level(logging.WARNING, "norn"):
            plain.add_items({"new": [groups[0]]} if given is not rows else np.eye(1, len(groups), dtype=np.float32),
                            None if given is not rows else ["new"], known_features=given)
        assert [record.getMessage() for record in caplog.records] == [
            "`known_features`: 2 items have none: " + ", ".join(labels[item] for item in without)]


def test_features_that_outweigh_the_others_are_named_once(shop, draw, caplog):
    has = draw.random((shop.items, int(draw.integers(2, 9)))) < 0.6
    has[0] = True
    known = sp.csr_matrix(has.astype(np.float32))
    known.data *= draw.uniform(0.5, 2)
    larger = draw.permutation([10, 50, 90, 110, 1000, 1e5])[:int(draw.integers(1, known.shape[1]))]
    names = [f"feature {column}" for column in range(known.shape[1])] + [f"large {size:g}" for size in larger]
    values = draw.lognormal(0, 1, (shop.items, len(larger)))
    values *= larger * known.data[0] / np.sqrt(np.mean(values**2, axis=0))
    table = sp.hstack([known, sp.csr_matrix(values)]).tocsr().astype(np.float32)
    sizes = [np.sqrt(np.mean(column.data.astype(np.float64)**2)) for column in table.T.tocsr()]
    with caplog.at_level(logging.WARNING, "norn"):
        (recommender(epochs=1) if draw.integers(3) else norn.Recommender(recipe="auto", epochs=1, budget=2)).fit(
            shop.users, item_features=norn.Dataset(table, feature_labels=names))
    told = [record.getMessage() for record in caplog.records if "times as large" in record.getMessage()]
    wanted = sorted((size for size in larger if size > 100), reverse=True)
    if not wanted:
        assert not told
        return
    shown = ", ".join(f'"large {size:g}"' for size in wanted)
    assert told == [f'data set "item_features": {len(wanted)} ({shown}) of its features have values more than 100 times as large as '
                    f"others' (root mean square {max(sizes):.4g}, and {np.median(sizes):.4g}), which training may learn little "
                    "beside; scale them to the others' size, or cut them into ranges, each a feature"]


def test_features_are_no_setting(shop):
    told = "^`item_features`: features are given to `fit`, with the data; here it names a data set of files$"
    with pytest.raises(norn.UsageError, match=told):
        recommender(item_features={0: ["one"]})


def test_a_list_of_features_is_a_set_without_what_is_missing(shop, draw, caplog):
    clean = {item: [f"group {shop.group_of[item]}", "item", 1] for item in range(shop.items)}
    missing = [None, float("nan"), np.float32("nan"), pandas.NA, pandas.NaT]
    spoilt = {item: [*words, "1", *words[:int(draw.integers(2))], missing[int(draw.integers(len(missing)))]]
              for item, words in clean.items()}
    with caplog.at_level(logging.WARNING, "norn"):
        one, other = (recommender(epochs=1).fit(shop.users, item_features=given).network_.parameters for given in (clean, spoilt))
    assert all((one[name] == other[name]).all() for name in one)
    assert f"`item_features`: {shop.items} features are None or NaN, and left out" in caplog.text


@pytest.mark.parametrize("wrong, problem", [
    (lambda shop: shop.features[:-1], "rows, and there are"),
    (lambda shop: sp.csr_matrix(shop.features.shape, dtype=np.float32), "no item of the data has a feature"),
    (lambda shop: {"nobody": ["one"]}, "no item of the data has a feature"),
    (lambda shop: {0: "one"}, "expected a list of features"),
    (lambda shop: [1, 2], "expected a matrix"),
    (lambda shop: {0: {"kind": "a"}},
     "of \"0\" the feature \"kind\" has 'a', expected a finite number; a word is a feature of its own, in a list"),
    (lambda shop: {0: {"price": float("nan")}}, "of \"0\" the feature \"price\" has nan, expected a finite number"),
    (lambda shop: pandas.DataFrame(shop.features.toarray()),
     "`item_features`: rows of a table of type DataFrame say nothing of the items that they are of; give a dictionary from items"),
])
def test_what_are_no_features_is_refused(shop, wrong, problem):
    with pytest.raises(norn.Error, match=problem):
        recommender(epochs=1).fit(shop.users, item_features=wrong(shop))


def test_recipes_without_features_refuse_them(shop):
    with pytest.raises(norn.UsageError, match="(?i)features"):
        norn.Recommender(recipe="ease").fit(shop.users, item_features=shop.features)


def test_a_search_gives_them_to_every_network_and_new_items_come(shop, draw):
    named = {item: [f"group {shop.group_of[item]}"] for item in range(shop.items)}
    usual = {"recipe": "auto", "epochs": int(draw.integers(2, 9)), "budget": 4, "seed": 2, "device": "cpu"}  # 1: no room for a search
    model = norn.Recommender(**usual, threads=1).fit(shop.users, item_features=named)
    other = norn.Recommender(**usual, threads=3).fit(shop.users, item_features=named)
    assert model.chosen_ == other.chosen_
    for one, two in zip(scores(model, shop), scores(other, shop)):
        np.testing.assert_array_equal(one, two)
    is_ease = model.chosen_["candidates"][model.chosen_["chosen"]]["recipe"] == "ease"
    assert any("Features" in layer for layer in model.network_.descriptor["Layers"]) != is_ease
    model.add_items({"new": ["group 0"], "other": ["group 1"]}, known_features=named if is_ease else None)
    ids, _ = model.recommend(shop.users, N=2, items=[shop.items, shop.items + 1], filter_already_liked_items=False)
    own = np.arange(shop.users.shape[0]) % shop.groups
    first = ids[:, 0] - shop.items
    assert (first[own == 0] == 0).mean() + (first[own == 1] == 1).mean() > 1.0


def test_a_search_of_other_features_is_another_search(shop):
    usual = {"recipe": "auto", "epochs": 3, "budget": 3.5, "seed": 2, "device": "cpu"}
    with_them = norn.Recommender(**usual).fit(shop.users, item_features=shop.features)
    without = norn.Recommender(**usual).fit(shop.users)
    assert with_them.chosen_["candidates"][0]["value"] != without.chosen_["candidates"][0]["value"]


def test_exported_vectors_have_them(shop):
    trained = recommender().fit(shop.users, item_features=shop.features)
    vectors = trained.export_vectors(shop.users)
    ids, _ = scores(trained, shop)
    products = vectors.users @ vectors.items.T
    ordered = np.take_along_axis(products, ids.astype(np.int64), axis=1)
    assert np.all(np.diff(ordered, axis=1) <= 1e-4)


def test_other_formats_have_them_in_the_weights(shop, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    trained = recommender(recipe="sigmoid").fit(shop.users, item_features=shop.features)
    norn.export_onnx(trained, tmp_path / "model.onnx")
    assert onnxruntime.InferenceSession(tmp_path / "model.onnx").get_outputs()
    again = norn.import_onnx(tmp_path / "model.onnx")
    (_, one), (_, two) = scores(trained, shop), scores(norn.Recommender.of(again), shop)
    np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-6)
