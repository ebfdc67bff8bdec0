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
    layers = [{"Name": "Input", "Kind": "Input", "DataSet": "a", "N": "auto"}, {"Name": "Hidden", "Kind": "Hidden", "N": 4, "Activation": "Tanh"},
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
    assert same(trained.recommend(baskets.matrix, filter_pairs=factors), trained.recommend(baskets.matrix, filter_pairs=sp.csr_matrix(factors)))


def test_masks_and_columns_of_tables_are_units(baskets, trained):
    mask = np.arange(baskets.units) % 3 == 0
    for given in (mask, pd.Series(mask), pl.Series(mask), pd.Series(np.flatnonzero(mask), index=np.flatnonzero(mask) + 7)):
        for argument in ("items", "filter_items"):
            assert same(trained.recommend(baskets.matrix, **{argument: given}), trained.recommend(baskets.matrix, **{argument: np.flatnonzero(mask)}))
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


def test_pairs_that_are_there_twice(trained, baskets, draw):
    """The second of two columns, in any row, also where rows begin with the column that the one before ended with."""
    row = int(draw.integers(1, 40))
    matrix = sp.csr_matrix((np.ones(2 * row + 2, np.float32), np.array([0, 3] * row + [3, 3], np.int32), np.arange(row + 2) * 2), shape=(row + 1, baskets.units))
    matrix.indices[0] = 3
    matrix.indices[1] = 4
    fitting = norn.Recommender(epochs=1, batch=1, device="cpu", threads=1)
    for argument, call in (("interactions", lambda: fitting.fit(matrix)), ("targets", lambda: fitting.fit(baskets.matrix[: row + 1], matrix)),
                           ("held_out", lambda: trained.evaluate(matrix, matrix)), ("filter_pairs", lambda: trained.recommend(matrix, filter_pairs=matrix)),
                           ("score_factors", lambda: trained.recommend(matrix, score_factors=matrix))):
        with pytest.raises(norn.DataError, match=rf"`{argument}`: row {row} \(from 0\): column 3 occurs twice; matrix.sum_duplicates\(\)"):
            call()
    summed = matrix.copy()
    summed.sum_duplicates()
    fitting.fit(summed)
    assert summed.data.max() == 2
