# SPDX-License-Identifier: Apache-2.0
"""Weights of entries: matrices beside the data, laws of values, the same bits, and what is refused."""
import numpy as np
import pytest
import scipy.sparse as sp

import norn

SETTINGS = {"epochs": 3, "batch": 16, "hidden": 8, "seed": 3, "device": "cpu", "threads": 1}


@pytest.fixture
def counts(draw, baskets):
    """One a unit that a user has."""
    made = baskets.matrix.copy()
    made.data = draw.choice(np.array([1, 1, 2, 3, 0.25, 17], np.float32), made.nnz)
    made.data[0] = 5
    return made


def parameters(model):
    return {name: array.tobytes() for name, array in model.network_.parameters.items()}


def fitted(data, **more):
    names = ("recipe", "hidden", "epochs", "network", "entry_weights", "entry_alpha", "entry_epsilon", "threads")
    settings = {name: more.pop(name) for name in names if name in more}
    given = SETTINGS | settings
    if "network" in settings:
        given = given | {"hidden": None}
    return norn.Recommender(**given).fit(data, **more)


@pytest.mark.parametrize("recipe", ("sigmoid", "softmax"))
def test_a_matrix_weighs_entries(baskets, counts, recipe):
    plain = parameters(fitted(baskets.matrix, recipe=recipe))
    ones = baskets.matrix.copy()
    assert parameters(fitted(baskets.matrix, recipe=recipe, sample_weight=ones)) == plain
    weighed = fitted(baskets.matrix, recipe=recipe, sample_weight=counts)
    assert parameters(weighed) != plain
    assert weighed.network_.layers("Output")[0]["EntryWeights"] == {"Scheme": "Value"}
    assert parameters(fitted(baskets.matrix, recipe=recipe, weights=counts.tocoo().astype(np.float64))) == parameters(weighed)
    for threads in (2, 3):
        assert parameters(fitted(baskets.matrix, recipe=recipe, sample_weight=counts, threads=threads)) == parameters(weighed)


def test_one_weight_of_all_entries_is_the_boost_of_ones(baskets):
    def trained(boost, weights):
        network = {"DeltaBoost": {"one": boost}, "Recipe": "sigmoid", "Layers": [{"Name": "Hidden", "N": 8}]}
        return parameters(fitted(baskets.matrix, network=network, sample_weight=weights))

    fours = baskets.matrix.copy()
    fours.data[:] = 4
    assert trained(2, fours) == trained(8, None) != trained(2, None)


def test_laws_make_weights_of_a_matrix_or_of_values(baskets, counts):
    alpha = np.float32(2.5)
    linear, log = counts.copy(), counts.copy()
    linear.data = (1 + float(alpha) * counts.data.astype(float)).astype(np.float32)
    log.data = (1 + float(alpha) * np.log1p(counts.data.astype(float) / 0.5)).astype(np.float32)
    by_law = fitted(baskets.matrix, entry_weights="linear", entry_alpha=2.5, sample_weight=counts)
    assert parameters(by_law) == parameters(fitted(baskets.matrix, sample_weight=linear))
    assert by_law.network_.layers("Output")[0]["EntryWeights"] == {"Scheme": "Linear", "Alpha": 2.5}
    costs = [fitted(baskets.matrix, sample_weight=log).history[-1]["cost"],
             fitted(baskets.matrix, entry_weights="log", entry_alpha=2.5, entry_epsilon=0.5, sample_weight=counts).history[-1]["cost"]]
    assert costs[0] == pytest.approx(costs[1], rel=1e-5)
    # Values of the data are read by inputs, too.
    of_values = fitted(counts, entry_weights="linear", entry_alpha=2.5)
    assert parameters(of_values) == parameters(fitted(counts, sample_weight=linear)) != parameters(by_law)
    network = {"Recipe": "sigmoid", "Layers": [{"Name": "Hidden", "N": 8},
                                               {"Name": "Output", "EntryWeights": {"Scheme": "Linear", "Alpha": 2.5}}]}
    assert parameters(fitted(counts, network=network)) == parameters(of_values)


def test_what_counts_more_is_learned_sooner(draw):
    """Users like units of a group, often, and meet any others once: what of their group they lack is found by the counts."""
    users, units, group = 900, 160, 20
    columns, times, wanted = [], [], []
    for _ in range(users):
        own = draw.permutation(group)[:10] + group * int(draw.integers(units // group))
        seen = np.concatenate([own[:5], draw.integers(0, units, 9)])
        columns.append(seen)
        times.append(np.concatenate([2 + draw.poisson(6, 5), np.ones(9, int)]))
        wanted.append(own[5:])
    made = lambda values, where: sp.csr_matrix((values, (np.repeat(np.arange(users), len(where[0])), np.concatenate(where))),
                                               shape=(users, units), dtype=np.float32)
    counts = made(np.concatenate(times), columns)
    seen = (counts > 0).astype(np.float32)
    lacked = made(np.ones(users * 5), wanted)
    lacked = sp.csr_matrix(lacked - lacked.multiply(seen))
    lacked.eliminate_zeros()
    for recipe in ("sigmoid", "softmax"):
        found = [fitted(seen, recipe=recipe, hidden=32, epochs=40, **more).evaluate(seen, lacked, k=20)["ndcg@20"]
                 for more in ({}, {"entry_weights": "linear", "entry_alpha": 1, "sample_weight": counts})]
        assert found[1] > found[0] + 0.08, (recipe, found)


def test_runs_go_on_with_weights(baskets, counts, tmp_path):
    model = fitted(baskets.matrix, sample_weight=counts)
    before = parameters(model)
    model.save(tmp_path / "model.nc")
    model.partial_fit(baskets.matrix, weights=counts)
    assert parameters(model) != before
    again = norn.Recommender.load(tmp_path / "model.nc", device="cpu", threads=1)
    assert again.evaluate(baskets.matrix, baskets.matrix, k=5, keep_seen=True)["ndcg@5"] > 0
    plain = fitted(baskets.matrix)
    with pytest.raises(norn.UsageError, match="`entry_weights` cannot change when a run is resumed"):
        plain.partial_fit(baskets.matrix, weights=counts)


def test_entries_of_no_weight_count_for_nothing(baskets, counts):
    some = counts.copy()
    some.data[1::3] = 0
    weighed = fitted(baskets.matrix, sample_weight=some)
    left_out = some.copy()
    left_out.eliminate_zeros()
    assert parameters(weighed) != parameters(fitted(baskets.matrix, targets=left_out, sample_weight=left_out)), "they are no zeros"
    some.data[:] = 0
    with pytest.raises(norn.DataError, match="`sample_weight`: all are 0"):
        fitted(baskets.matrix, sample_weight=some)


def test_weights_that_are_none_are_refused(draw, baskets, counts):
    at = int(draw.integers(counts.nnz))
    row, column = int(np.searchsorted(counts.indptr, at, side="right")) - 1, int(counts.indices[at])
    for wrong, shown in ((-2.5, "-2.5"), (np.nan, "nan"), (np.inf, "inf")):
        bad = counts.copy()
        bad.data[at] = wrong
        with pytest.raises(norn.DataError, match=rf"`sample_weight`: row {row} \(from 0\): the weight of column {column} is {shown}, "
                                                 rf"expected a finite number of at least 0: 1 of {counts.nnz} weights are such"):
            fitted(baskets.matrix, sample_weight=bad)
    bad = counts.copy()
    bad.data[at] = -1
    with pytest.raises(norn.DataError, match=rf"example {row}: the weight of column {column} is -1 by its value.*1 of {counts.nnz:,} "):
        fitted(bad, entry_weights="linear")


def test_other_entries_than_those_of_the_data_are_refused(draw, baskets, counts):
    at = int(draw.integers(counts.nnz))
    row, column = int(np.searchsorted(counts.indptr, at, side="right")) - 1, int(counts.indices[at])
    fewer = counts.tolil()
    fewer[row, column] = 0
    fewer = fewer.tocsr()
    with pytest.raises(norn.UsageError, match=rf"row {row} \(from 0\): the entry of column {column} of `user_items` has no weight.*1 of "
                                              rf"{counts.nnz} entries"):
        fitted(baskets.matrix, sample_weight=fewer)
    with pytest.raises(norn.UsageError, match=rf"row {row} .*: the entry of column {column} has a weight, and is no entry of `targets`"):
        fitted(baskets.matrix, targets=fewer, sample_weight=counts)
    with pytest.raises(norn.UsageError, match=r"`sample_weight`: has the shape"):
        fitted(baskets.matrix, sample_weight=counts[1:])
    with pytest.raises(norn.UsageError, match="counts every entry once"):
        norn.Ease(device="cpu").fit(baskets.matrix, weights=counts)


def test_networks_of_names_read_values(baskets, counts):
    network = norn.Network.from_json({"Layers": [{"Name": "In", "Kind": "Input", "N": "auto", "DataSet": "x", "Sparse": True},
                                                 {"Name": "Out", "Kind": "Output", "N": "auto", "DataSet": "y", "Activation": "SoftMax",
                                                  "EntryWeights": {"Scheme": "Log"}}]})
    plain = norn.Network.from_json({"Layers": network.descriptor["Layers"][:1] + [
        {name: value for name, value in network.descriptor["Layers"][1].items() if name != "EntryWeights"}]})
    settings = {"epochs": 2, "batch": 16, "device": "cpu", "threads": 1}
    costs = [norn.train(one, {"x": baskets.matrix, "y": y}, **settings).history[-1]["cost"]
             for one, y in ((network, counts), (network, baskets.matrix), (plain, baskets.matrix))]
    assert costs[0] != costs[1] != costs[2]
    assert sp.issparse(counts)


def test_weights_with_labels_are_of_the_same_examples_and_features(baskets, counts, draw):
    rows, columns = counts.shape
    users, items = [f"user {row}" for row in range(rows)], [f"item {column}" for column in range(columns)]
    data = norn.Dataset(baskets.matrix, example_labels=users, feature_labels=items)
    fitted(data, sample_weight=norn.Dataset(counts, example_labels=users, feature_labels=items))
    order = np.roll(np.arange(rows), int(draw.integers(1, rows)))
    other = norn.Dataset(counts[order], example_labels=[users[row] for row in order], feature_labels=items)
    with pytest.raises(norn.DataError, match=f"`sample_weight`: row 0 is 'user {order[0]}', and that of `user_items` is 'user 0'; give the "
                                             "same examples in the same order"):
        fitted(data, sample_weight=other)
    with pytest.raises(norn.DataError, match="`sample_weight`: column 0 is 'item 1', and that of `user_items` is 'item 0'; give the same "
                                             "features in the same order"):
        fitted(data, sample_weight=norn.Dataset(counts, example_labels=users, feature_labels=[*items[1:], items[0]]))


def test_weights_are_called_as_their_caller_does(baskets, counts):
    for name in ("weights", "sample_weight"):
        with pytest.raises(norn.UsageError, match=f"^`{name}`: has the shape .*, expected one for each of") as caught:
            fitted(baskets.matrix, **{name: np.ones(counts.shape[0] - 1)})
        assert caught.value.problems[0]["message"].startswith(f"`{name}`")
        with pytest.raises(norn.UsageError, match=f"^`{name}`: has the shape .* give a matrix with a weight"):
            fitted(baskets.matrix, **{name: counts[1:]})
