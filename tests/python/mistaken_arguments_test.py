# SPDX-License-Identifier: Apache-2.0
"""What is easily mistaken is refused with what was meant, where it had been taken for something else."""
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import norn
from conftest import same

SETTINGS = {"epochs": 1, "hidden": 4, "device": "cpu", "threads": 1}


@pytest.mark.parametrize("width_of", [lambda units: 1, lambda units: units - 1, lambda units: units + 1], ids=["one", "less", "more"])
def test_factors_and_pairs_have_a_column_for_each_unit(baskets, trained, width_of):
    width = width_of(baskets.units)
    users = baskets.matrix[:2]
    for given in (np.zeros(width), np.zeros((2, width)), sp.csr_matrix((2, width), dtype=np.float32)):
        with pytest.raises(norn.UsageError, match=rf"`score_factors`: has the shape \(2, {width}\), expected \(2, {baskets.units}\)"):
            trained.recommend(users, score_factors=given)
    with pytest.raises(norn.UsageError, match=rf"`filter_pairs`: has the shape \(2, {width}\), expected \(2, {baskets.units}\)"):
        trained.recommend(users, filter_pairs=sp.csr_matrix((2, width), dtype=np.float32))
    trained.recommend(users, score_factors=np.ones(baskets.units), filter_pairs=users)


def test_a_unit_twice_in_a_basket_counts_once(baskets, draw):
    model = norn.Recommender(epochs=2, batch=20, device="cpu", threads=1).fit(baskets.dataset)
    units = draw.choice(baskets.units, int(draw.integers(1, 6)), replace=False)
    again = draw.permutation(np.concatenate([units, draw.choice(units, int(draw.integers(1, 9)))]))
    once = model.recommend(sorted(units.tolist()), N=4)
    words = [f"unit{unit}" for unit in again]
    for given in (again.tolist(), again, words, pd.Series(words), tuple(words)):
        assert model.recommend(given, N=4) == once
    matrix = sp.csr_matrix((np.ones(len(again)), again, [0, len(again)]), shape=(1, baskets.units))  # whose values add up, as SciPy has it
    assert same(model.recommend(matrix, N=4), model.recommend(sp.csr_matrix(matrix.toarray()), N=4))


def test_a_row_of_a_matrix_is_no_basket(baskets, trained):
    row = np.zeros(baskets.units, int)
    row[[0, 1]] = 1
    with pytest.raises(norn.UsageError,
                       match=rf"`user_items`: {baskets.units} numbers, as many as there are units, each 0 or 1.*row\[None\]"):
        trained.recommend(row)
    ids, _ = trained.recommend(row[None], N=4)
    assert ids[0].tolist() == [unit for unit, _ in trained.recommend([0, 1], N=4)]
    assert len(trained.recommend(row.astype(bool))) == 10  # a mask of bools is a basket


def learners(matrix):
    """Everything that learns from a matrix with weights."""
    started = norn.Recommender(**SETTINGS).fit(matrix)
    network = {"Recipe": "sigmoid", "Layers": [{"Name": "Hidden", "N": 4}]}
    yield lambda data, weights: norn.Recommender(**SETTINGS).fit(data, weights=weights)
    yield lambda data, weights: norn.Recommender(**SETTINGS | {"hidden": None}, network=network).fit(data, weights=weights)
    yield lambda data, weights: started.partial_fit(data, weights=weights)


def test_weights_that_teach_nothing_are_refused(baskets):
    users = baskets.matrix.shape[0]
    negative = np.ones(users)
    negative[[4, 9]] = -2.5
    for learn in learners(baskets.matrix):
        with pytest.raises(norn.DataError, match="`weights`: example 4: its weight is -2.5, expected at least 0"):
            learn(baskets.matrix, negative)
        with pytest.raises(norn.DataError, match="`weights`: all are 0"):
            learn(baskets.matrix, np.zeros(users))
        with pytest.raises(norn.DataError, match="`weights`: the weight of example 1 is 1e[+]300, which does not fit float32"):
            learn(baskets.matrix, [1, 1e300] + [1] * (users - 2))
        with pytest.raises(norn.UsageError, match="`weights`: expected numbers, one for each example: int too large to convert to float"):
            learn(baskets.matrix, [10**400] * users)
        learn(baskets.matrix, np.arange(users) % 2)


def test_a_network_that_json_cannot_hold_is_refused():
    deep = {}
    for _ in range(100_000):
        deep = {"Layers": deep}
    around = {}
    around["Layers"] = around
    for network, why in ((deep, "recursion depth"), (around, "Circular reference"), ({"Layers": {1, 2}}, "set is not JSON")):
        with pytest.raises(norn.UsageError, match=f"`network`: .*{why}.*: expected what JSON can hold"):
            norn.Network.from_json(network)


def test_rows_of_other_examples_are_refused(baskets, draw):
    users = baskets.matrix.shape[0]
    names = [f"user {user}" for user in range(users)]
    data = norn.Dataset(baskets.matrix, example_labels=names)
    order = np.roll(np.arange(users), int(draw.integers(1, users)))
    turned = norn.Dataset(baskets.matrix[order], example_labels=[names[user] for user in order])
    told = rf"row 0 is 'user {order[0]}', and that of `user_items` is 'user 0'; give the same examples in the same order$"
    trained = norn.Recommender(**SETTINGS).fit(data, norn.Dataset(baskets.matrix, example_labels=list(names)))
    for argument, call in (("targets", lambda: norn.Recommender(**SETTINGS).fit(data, turned)),
                           ("held_out", lambda: trained.evaluate(data, turned)),
                           ("held_out", lambda: norn.compare(trained, trained, data, turned)),
                           ("targets", lambda: trained.partial_fit(data, turned))):
        with pytest.raises(norn.DataError, match=f"^`{argument}`: {told}"):
            call()
    with pytest.raises(norn.DataError, match=r"^`validation\[1\]`: row 0 is"):
        norn.Recommender(**SETTINGS).fit(data, validation=(data, turned))
    trained.evaluate(data, turned.matrix)  # which says nothing of whose they are
    two = {"Layers": [*({"Name": name, "Kind": "Input", "DataSet": name, "N": "auto", "Sparse": True} for name in "ab"),
                      {"Name": "H", "Kind": "Hidden", "N": 2, "Source": ["a", "b"]},
                      {"Name": "O", "Kind": "Output", "DataSet": "o", "N": "auto"}], "ErrorFunction": "CrossEntropy"}
    with pytest.raises(norn.DataError, match=r"^`user_items\['b'\]`: row 0 is .*, and that of `user_items\['a'\]` is 'user 0'"):
        norn.Recommender(network=two, hidden=None, epochs=1, device="cpu").fit({"a": data, "b": turned}, {"o": data})


def test_data_without_entries_are_refused(baskets):
    empty = sp.csr_matrix(baskets.matrix.shape, dtype=np.float32)
    zeros = baskets.matrix.copy()
    zeros.data[:] = 0
    for learn in learners(baskets.matrix):
        for data in (empty, zeros, empty.tocoo(), empty.toarray(), norn.Dataset(empty)):
            with pytest.raises(norn.DataError, match="`user_items`: the matrix has no entries"):
                learn(data, None)
    with pytest.raises(norn.DataError, match="`targets`: the matrix has no entries"):
        norn.Recommender(**SETTINGS).fit(baskets.matrix, empty)
    norn.Recommender(**SETTINGS).fit(empty, baskets.matrix)  # what everybody has


def test_a_matrix_of_another_width_is_refused_with_what_is_wrong(baskets, trained):
    labelled = norn.Recommender(**SETTINGS).fit(baskets.dataset)
    square = sp.csr_matrix((baskets.units, baskets.units + 9), dtype=np.float32)
    for model in (labelled, trained):
        for ask in (model.recommend, model.transform, model.partial_fit, lambda data: model.evaluate(data, data)):
            with pytest.raises(norn.DataError,
                               match=f"has {baskets.units + 9} columns, the model has {baskets.units} units .*is it transposed"):
                ask(square)
            with pytest.raises(norn.DataError, match=f"has {baskets.units + 2} columns.*a column for each unit"):
                ask(sp.csr_matrix((3, baskets.units + 2), dtype=np.float32))
    with pytest.raises(norn.DataError, match=f"`user_items`: has 7 columns, the model has {baskets.units} units"):
        labelled.recommend(baskets.matrix[:, :7])
    trained.recommend(baskets.matrix[:, :7])  # without labels its last units have no entries


def test_a_dense_input_of_another_width_is_refused(baskets):
    layers = [{"Name": "Input", "Kind": "Input", "DataSet": "known", "N": "auto", "Sparse": True},
              {"Name": "Ages", "Kind": "Input", "DataSet": "ages", "N": "auto"},
              {"Name": "Hidden", "Kind": "Hidden", "N": 4, "Activation": "Tanh", "Source": ["Input", "Ages"]},
              {"Name": "Output", "Kind": "Output", "DataSet": "wanted", "N": "auto", "Activation": "Sigmoid", "Sparse": True}]
    ages = np.ones((baskets.matrix.shape[0], 5), np.float32)
    data = {"known": baskets.matrix, "ages": ages, "wanted": baskets.matrix}
    model = norn.Recommender.of(norn.train({"Layers": layers}, data, epochs=1, batch=16, device="cpu", threads=1))
    for width in (3, 4, 6):
        with pytest.raises(norn.DataError, match=rf"`user_items`\['ages'\]: has {width} columns, the model has 5 units in layer \"Ages\""):
            model.recommend({"known": baskets.matrix, "ages": np.ones((len(ages), width), np.float32)})
    assert model.recommend({"known": baskets.matrix, "ages": ages}, N=2)[0].shape == (len(ages), 2)


def test_names_of_other_libraries_hint_at_settings():
    with pytest.raises(norn.UsageError) as raised:
        norn.Recommender(factors=64, iterations=3, learning_rate=0.1, random_seed=1, quux=1, zyzzy=2)
    lines = str(raised.value).splitlines()
    for line, meant in zip(lines, ("hidden", "epochs", "rate", "seed")):
        assert line.endswith(f'there is no such setting. Did you mean "{meant}"?')
    names = lines[4].partition("There are: ")[2].split(", ")
    assert {"recipe", "hidden", "device", "lambda_", "epochs"} <= set(names) and "lambda" not in names
    assert str(raised.value).count("There are:") == 1 and len(lines) == 6


@pytest.mark.parametrize("word, told", (("alpha", "confidence"), ("regularization", "lambda_"), ("sample_weight", "weights="),
                                        ("verbose", "norn.progress()")))
def test_words_that_mean_something_else_elsewhere_are_explained(word, told):
    with pytest.raises(norn.UsageError) as raised:
        norn.Recommender(**{word: 1})
    assert told in str(raised.value) and "Did you mean" not in str(raised.value) and "There are:" not in str(raised.value)


def test_a_trained_network_recommends(baskets, trained):
    network = trained.network_
    ids = trained.recommend(baskets.matrix, N=3)[0]
    assert np.array_equal(norn.Recommender.of(network).recommend(baskets.matrix, N=3)[0], ids)
    with pytest.raises(norn.UsageError, match=r"not trained.*`Recommender.of\(network\)` recommends"):
        norn.Recommender(network=network).recommend(baskets.matrix)
    with pytest.raises(norn.UsageError, match="not trained: `norn.train` does that"):
        norn.Recommender.of(norn.Network.from_json(network.descriptor))


def test_what_an_import_of_arrays_lacks_is_named_as_its_files_name_it(trained, tmp_path, monkeypatch):
    from norn.interchange import torch as reader

    arrays = reader.state_dict(trained)
    arrays.pop("Input.feature_weights")
    with pytest.raises(norn.DataError, match='array "Input.feature_weights" is missing.*"InputWeighting"'):
        norn.import_torch(arrays, like=trained)

    def load(*_, **__):
        import pickle
        raise pickle.UnpicklingError("Weights only load failed. \x1b[1mDo it only if you trust the source\x1b[0m")

    monkeypatch.setattr(reader, "need", lambda *_: type("torch", (), {"load": staticmethod(load)}))
    with pytest.raises(norn.DataError, match=r"such as a whole module.*save module.state_dict\(\): Weights only load failed. Do it only"):
        norn.import_torch(tmp_path / "module.pt", like=trained)
