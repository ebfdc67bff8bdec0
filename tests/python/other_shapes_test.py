# SPDX-License-Identifier: Apache-2.0
"""What people hand over beside CSR matrices and lists: arrays of NumPy, masks, columns of pandas; and what is refused."""
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

import norn
from conftest import same


@pytest.mark.parametrize("more", [{}, {"hidden": 7}])
def test_dense_arrays_are_what_is_not_zero_in_them(baskets, more):
    dense = baskets.matrix.toarray()
    one, other = (norn.Recommender(epochs=2, batch=20, device="cpu", threads=1, **more).fit(users, validation=(users, users))
                  for users in (baskets.matrix, dense))
    expected = one.recommend(baskets.matrix, N=3)
    assert same(other.recommend(dense, N=3), expected) and same(one.recommend(dense.astype(bool), N=3), expected)
    assert (other.transform(dense) == one.transform(baskets.matrix)).all()
    assert dict(other.evaluate(dense, dense, keep_seen=True)) == dict(one.evaluate(baskets.matrix, baskets.matrix, keep_seen=True))
    with pytest.raises(norn.UsageError, match="`user_items`.*object"):
        one.recommend(dense.astype(object))


def test_dense_networks_still_read_dense_arrays(baskets):
    layers = [{"Name": "Input", "Kind": "Input", "DataSet": "a", "N": "auto"},
              {"Name": "Hidden", "Kind": "Hidden", "N": 4, "Activation": "Tanh"},
              {"Name": "Output", "Kind": "Output", "DataSet": "b", "N": "auto", "Activation": "Sigmoid"}]
    model = norn.Recommender(network={"Layers": layers, "ErrorFunction": "CrossEntropy"}, epochs=1, device="cpu", threads=1)
    model.fit(baskets.matrix.toarray())
    assert model.recommend(baskets.matrix.toarray(), N=2)[0].shape == (baskets.matrix.shape[0], 2)


def test_factors_and_pairs_may_be_arrays(baskets, trained, draw):
    factors = draw.random(baskets.matrix.shape).astype(np.float32)
    factors[draw.random(factors.shape) < 0.3] = 0
    free = {"N": baskets.units, "filter_already_liked_items": False}
    ids, scores = trained.recommend(baskets.matrix, **free)
    got = trained.recommend(baskets.matrix, score_factors=factors, **free)
    plain, wanted = (np.take_along_axis(s, np.argsort(i, axis=1), axis=1) for i, s in ((ids, scores), got))
    assert (plain * factors == wanted).all()
    one = trained.recommend(baskets.matrix, score_factors=factors[0], **free)
    assert same(one, trained.recommend(baskets.matrix, score_factors=np.tile(factors[0], (len(factors), 1)), **free))
    assert trained.recommend([1, 2], score_factors=factors[0]) == trained.recommend([1, 2], score_factors=factors[:1])
    assert same(trained.recommend(baskets.matrix, filter_pairs=factors),
                trained.recommend(baskets.matrix, filter_pairs=sp.csr_matrix(factors)))


def test_masks_and_columns_of_tables_are_units(baskets, trained):
    mask = np.arange(baskets.units) % 3 == 0
    for given in (mask, pd.Series(mask), pl.Series(mask), pd.Series(np.flatnonzero(mask), index=np.flatnonzero(mask) + 7)):
        for argument in ("items", "filter_items"):
            assert same(trained.recommend(baskets.matrix, **{argument: given}),
                        trained.recommend(baskets.matrix, **{argument: np.flatnonzero(mask)}))
    labelled = norn.Recommender(epochs=1, device="cpu", threads=1).fit(baskets.dataset)
    words = ["unit2", "unit5"]
    for given in (pd.Series(words, index=[5, 9]), pl.Series(words), pd.Index(words), np.array(words), pd.Series([2, 5])):
        assert labelled.recommend(given) == labelled.recommend(words)


@pytest.mark.parametrize("given, parts", [
    ([["unit1"], ["unit2"]], ("['unit1'] stands in a list", "CSR matrix")), ([[1, 2], [3]], ("[1, 2]", "one list after the other")),
    ({1: 2.0}, ("data_input", "a list")), ({"unit1": 3}, ("data_input", "a list")),
    (pd.DataFrame({"user": [1], "film": [2]}), ("DataFrame", "from_table", "to_numpy")),
])
def test_what_is_no_basket_and_no_matrix(trained, given, parts):
    with pytest.raises(norn.UsageError) as raised:
        trained.recommend(given)
    assert "`user_items`" in str(raised.value) and all(part in str(raised.value) for part in parts), raised.value


def test_pairs_that_are_there_twice_add_up(trained, baskets, draw):
    """In any row, also where rows begin with the column that the one before ended with, of any type and order."""
    rows, width = int(draw.integers(40, 90)), baskets.units
    indices = np.concatenate([draw.integers(0, width, 7) for _ in range(rows)]).astype(np.int32)
    kind = draw.choice(["int8", "bool", "float32", "float64"])
    matrix = sp.csr_matrix((draw.integers(1, 100, indices.size).astype(kind), indices, np.arange(rows + 1) * 7), shape=(rows, width))
    before = matrix.indices.copy()
    summed = sp.csr_matrix(matrix.astype(np.float32).toarray())
    assert summed.nnz < matrix.nnz
    def fitted(*data):
        return norn.Recommender(hidden=4, epochs=1, batch=16, device="cpu", threads=1).fit(*data)
    given = baskets.matrix[np.arange(rows) % baskets.matrix.shape[0]]
    calls = {"fit": lambda m: fitted(m).transform(given), "targets": lambda m: fitted(given, m).transform(given),
             "evaluate": lambda m: np.array([*trained.evaluate(m, m, k=[3], keep_seen=True).values()]),
             "recommend": lambda m: trained.recommend(m, N=3)[1],
             "filter_pairs": lambda m: trained.recommend(given, N=3, filter_pairs=m)[1],
             "score_factors": lambda m: trained.recommend(given, N=3, score_factors=m)[1]}
    for name, call in calls.items():
        assert np.array_equal(call(matrix), call(summed), equal_nan=True), name
    data = norn.Dataset(matrix)
    assert (data.matrix != summed).nnz == 0 and data.entries == summed.nnz
    assert (matrix.indices == before).all()  # what was given stays


def test_layers_beside_each_other_are_shown_so():
    network = {"Layers": [{"Name": "a", "Kind": "Input", "N": 5, "DataSet": "a"}, {"Name": "b", "Kind": "Input", "N": 6, "DataSet": "b"},
                          {"Name": "Both", "Kind": "Hidden", "N": 4, "Source": ["a", "b"]},
                          {"Name": "Beside", "Kind": "Hidden", "N": 3, "Source": "a"},
                          {"Name": "Out", "Kind": "Output", "N": 7, "DataSet": "w", "Source": ["Both", "Beside"]}]}
    assert repr(norn.Network.from_json(network)) == "Network: a 5 + b 6 -> Both 4 + Beside 3 -> Out 7, not trained"
