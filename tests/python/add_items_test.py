# SPDX-License-Identifier: Apache-2.0
"""`Recommender.add_items`: what the weights of new items are, that the others stay, and what is refused."""
import logging
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import norn
from norn import growing
from norn.folding import folded


class Shop:
    """Users of groups of items, of which some, of every group, are new; random features beside the group."""

    def __init__(self, draw):
        self.groups, each = int(draw.integers(3, 6)), int(draw.integers(9, 14))
        self.items = self.groups * each
        self.group_of = np.arange(self.items) % self.groups
        self.known = self.items - self.groups
        rows = draw.random((300, self.items)) < np.where(np.arange(300)[:, None] % self.groups == self.group_of, 0.5, 0.03)
        rows[np.arange(300), np.arange(300) % self.groups] = True
        self.users = sp.csr_matrix(rows[:, :self.known].astype(np.float32))
        self.noise = draw.random((self.items, 7)) < 0.2
        groups = np.eye(self.groups, dtype=bool)[self.group_of]
        self.features = sp.csr_matrix(np.concatenate([groups, self.noise], axis=1).astype(np.float32))
        self.labels = [f"item {number}" for number in draw.permutation(self.items)]

    def named(self, numbers):
        return {self.labels[item]: [f"feature {column}" for column in self.features[item].indices] for item in numbers}


@pytest.fixture
def shop(draw):
    return Shop(draw)


def recommender(**settings):
    return norn.Recommender(**({"recipe": "sigmoid", "hidden": 16, "epochs": 30, "batch": 40, "seed": 1} | settings))


def labelled(shop):
    return norn.Dataset(shop.users, feature_labels=shop.labels[:shop.known])


def test_rows_are_those_of_ridge_regression(draw):
    for _ in range(5):
        known, new, features, columns = (int(draw.integers(1, most)) for most in (90, 20, 40, 300))
        given = sp.random(known + new, features, density=0.2, format="csr", random_state=draw)
        weights, regularization = draw.standard_normal((known, columns)), float(10.0 ** draw.uniform(-1, 2))
        rows = growing.by_ridge(given[:known], given[known:], regularization)(weights)
        both = np.concatenate([given.toarray(), np.ones((known + new, 1))], axis=1)
        normal = both[:known].T @ both[:known] + regularization * np.eye(features + 1)
        np.testing.assert_allclose(rows, both[known:] @ np.linalg.solve(normal, both[:known].T @ weights), rtol=1e-6, atol=1e-8)


def test_new_items_are_recommended_to_those_who_have_what_is_like_them(shop):
    model = recommender().fit(shop.users)
    model.add_items(shop.features[shop.known:], known_features=shop.features[:shop.known])
    ids, _ = model.recommend(shop.users, N=1, items=np.arange(shop.known, shop.items))
    group = np.arange(shop.users.shape[0]) % shop.groups
    assert np.mean(shop.group_of[ids[:, 0]] == group) > 0.8


@pytest.mark.parametrize("recipe", ["sigmoid", "softmax", "ease"])
def test_weights_of_known_items_stay(shop, recipe):
    model = recommender(recipe=recipe, epochs=2) if recipe != "ease" else norn.Ease()
    model.fit(shop.users)
    before = {name: np.array(array) for name, array in model.network_.parameters.items()}
    model.add_items(shop.features[shop.known:], known_features=shop.features[:shop.known])
    assert set(model.network_.parameters) == set(before)
    for name, array in model.network_.parameters.items():
        np.testing.assert_array_equal(array[tuple(slice(0, extent) for extent in before[name].shape)], before[name])
        assert np.isfinite(array).all()
    if recipe == "ease":
        assert not np.diagonal(model.network_.parameters["Input -> Output"])[shop.known:].any()


def test_a_dictionary_and_a_matrix_give_the_same_bits(shop, tmp_path):
    numbers = range(shop.known, shop.items)
    one = recommender(epochs=2).fit(labelled(shop), item_features=shop.named(range(shop.known)))
    one.save(tmp_path / "trained.nc")
    names = list(one.network_.labels("Output features"))
    columns = [int(name.split()[1]) for name in names]
    one.add_items(shop.named(numbers))
    two = norn.load(tmp_path / "trained.nc")
    two.add_items(shop.features[shop.known:][:, columns], [shop.labels[item] for item in numbers])
    for model, name in ((one, "one.nc"), (two, "two.nc")):
        model.save(tmp_path / name)
        assert list(model.labels) == shop.labels
    for name, array in one.network_.parameters.items():
        np.testing.assert_array_equal(array, two.network_.parameters[name])


def test_labels_of_a_dataset_are_taken_where_the_model_has_some(shop):
    new = norn.Dataset(shop.features[shop.known:], example_labels=shop.labels[shop.known:])
    for users, labels in ((shop.users, []), (labelled(shop), shop.labels)):
        model = recommender(epochs=1).fit(users)
        model.add_items(new, known_features=shop.features[:shop.known])
        assert list(model.labels or ()) == labels and model.network_.layer()["N"] == shop.items


def test_baskets_may_have_new_items(shop):
    model = recommender().fit(labelled(shop), item_features=shop.named(range(shop.known)))
    model.add_items(shop.named(range(shop.known, shop.items)))
    item = int(np.flatnonzero(shop.group_of[shop.known:] == 1)[0]) + shop.known
    recommended = model.recommend([shop.labels[item]], N=3)
    assert len(recommended) == 3 and shop.labels[item] not in dict(recommended)


def test_scores_are_the_same_without_the_layer_of_features(shop):
    model = recommender().fit(shop.users, item_features=shop.features[:shop.known])
    assert model.network_.parameters["Hidden -> Output features"].any()
    descriptor, parameters = folded(model.network_)
    plain = norn.Recommender.of(norn.Network.from_parameters(descriptor, parameters))
    for one, two in zip(*(sorted_scores(each, shop) for each in (model, plain)), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-6)


def sorted_scores(model, shop):
    ids, values = model.recommend(shop.users, N=shop.known, filter_already_liked_items=False)
    return np.take_along_axis(values, np.argsort(ids, axis=1), axis=1)


def test_training_goes_on_with_them(shop):
    model = recommender().fit(shop.users)
    model.add_items(shop.features[shop.known:], known_features=shop.features[:shop.known])
    more = sp.hstack([shop.users, sp.csr_matrix((shop.users.shape[0], shop.groups), dtype=np.float32)]).tolil()
    more[np.arange(300), shop.known + np.arange(300) % shop.groups] = 1
    before = np.array(model.network_.parameters["Output bias"])
    model.partial_fit(more.tocsr(), epochs=2)
    assert model.network_.parameters["Output bias"].shape == (shop.items,)
    assert not np.array_equal(before, model.network_.parameters["Output bias"])


def test_what_is_missing_is_told(shop, caplog):
    model = recommender(epochs=1).fit(labelled(shop), item_features=shop.named(range(shop.known)))
    with caplog.at_level(logging.WARNING, "norn"):
        model.add_items({"new": ["feature 0", "nonsense"], "other": []})
    assert "1 features are not those of items that the model knows, and are left out: nonsense" in caplog.text
    assert "1 items have none, and get what all items have in common: other" in caplog.text


@pytest.mark.parametrize("call, problem", [
    (lambda m, s: m.add_items(s.features[:1], ["a"]), "the model has no features of items: none were trained with"),
    (lambda m, s: m.add_items(s.features[:1], known_features=s.features[:s.known]), "the model's items have labels"),
    (lambda m, s: m.add_items(s.features[:1], ["a", "b"], known_features=s.features[:s.known]), "2 labels are given, and 1 items"),
    (lambda m, s: m.add_items(s.features[:2], ["a", "a"], known_features=s.features[:s.known]), '"a" is there twice'),
    (lambda m, s: m.add_items(s.features[:1], [s.labels[3]], known_features=s.features[:s.known]), "has .* already"),
    (lambda m, s: m.add_items(s.features[:1, :2], ["a"], known_features=s.features[:s.known]), "has 2 columns"),
    (lambda m, s: m.add_items(s.features[:1], ["a"], known_features=s.features[:s.known - 1]), "rows, and there are"),
    (lambda m, s: m.add_items(s.features[:1], ["a"], known_features=s.features[:s.known], regularization=0), "expected a number above 0"),
    (lambda m, s: m.add_items({"a": ["feature 0"]}, ["a"], known_features=s.named(range(s.known))), "the dictionary `item_features` has"),
    (lambda m, s: m.add_items([1, 2], ["a"], known_features=s.features[:s.known]), "expected a matrix"),
])
def test_what_does_not_go_together_is_refused(shop, call, problem):
    model = recommender(epochs=1).fit(labelled(shop))
    before = len(model.labels)
    with pytest.raises(norn.UsageError, match=problem):
        call(model, shop)
    assert len(model.labels) == before


def test_split_by_items(shop, draw):
    share = float(draw.uniform(0.05, 0.6))
    parts = labelled(shop).split(f"new-items:{share:.3f}", seed=int(draw.integers(2**60)))
    train, test = parts.train, parts.test
    new = shop.known - train.shape[1]
    assert abs(new - float(f"{share:.3f}") * shop.known) <= 0.5 and parts.shape[1] == shop.known
    assert train.shape[0] == ((parts.matrix[:, :-new] != 0).sum(axis=1) > 0).sum()
    assert parts.feature_labels[:train.shape[1]] == train.feature_labels
    assert sorted(parts.feature_labels) == sorted(shop.labels[:shop.known])
    assert test.matrix[:, train.shape[1]:].nnz == 0 and test.targets[:, :train.shape[1]].nnz == 0
    column = {label: number for number, label in enumerate(shop.labels[:shop.known])}
    order = [column[label] for label in parts.feature_labels]
    assert (parts.matrix != shop.users[:, order]).nnz == 0
    for wrong in ("new-items:0", "new-items:1", "new-items:x", "new-items:nan"):
        with pytest.raises(norn.UsageError, match="give a share such as"):
            parts.split(wrong)
    with pytest.raises(norn.UsageError, match="split by items"):
        parts.split("new-items:0.1", by="pair")


def test_the_program_gives_the_same_bytes(shop, tmp_path, draw):
    model = recommender(epochs=2).fit(labelled(shop), item_features=shop.named(range(shop.known)))
    model.save(tmp_path / "model.nc")
    new = shop.named(range(shop.known, shop.items))
    lines = [f"{item},{feature}" for item, features in new.items() for feature in features] + ["late,feature 0", "late,nonsense"]
    (tmp_path / "new.csv").write_text("\n".join(lines) + "\n")
    done = subprocess.run([sys.executable, "-B", "-m", "norn", "add-items", tmp_path / "model.nc", tmp_path / "more.nc", "--item-features",
                           tmp_path / "new.csv"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    known = {feature for features in shop.named(range(shop.known)).values() for feature in features}
    unknown = {line.partition(",")[2] for line in lines} - known
    assert f"{len(unknown)} features are not those of items that the model knows, and are left out: " in done.stderr
    assert "nonsense" in done.stderr
    model.add_items(new | {"late": ["feature 0"]}).save(tmp_path / "python.nc")
    assert (tmp_path / "python.nc").read_bytes() == (tmp_path / "more.nc").read_bytes()
    (tmp_path / "headed.csv").write_text("item,feature\n" + "\n".join(lines) + "\n")
    again = [sys.executable, "-B", "-m", "norn", "add-items", tmp_path / "model.nc", tmp_path / "more.nc", "--item-features",
             tmp_path / "headed.csv", "--header", "yes", "--force"]
    assert subprocess.run(again).returncode == 0
    assert (tmp_path / "python.nc").read_bytes() == (tmp_path / "more.nc").read_bytes()
    for words, problem in ((["model.nc"], "1 files are given"),
                           (["model.nc", "more.nc", "--item-features", "new.csv"],
                            "more.nc: is there already; give another name, or --force"),
                           (["model.nc", "model.nc", "--item-features", "new.csv"], "is the model that"),
                           (["model.nc", "o.nc"], "--item-features is missing"),
                           (["model.nc", "o.nc", "--item-features", "new.csv", "--regularization", "x"], "expected a number above 0"),
                           (["model.nc", "o.nc", "--nonsense"], "there is no such option")):
        done = subprocess.run([sys.executable, "-B", "-m", "norn", "add-items", *words], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 2 and problem in done.stderr, done.stderr
