# SPDX-License-Identifier: Apache-2.0
"""What is easily mistaken is refused with what was meant, where it had been taken for something else."""
import numpy as np
import pytest
import scipy.sparse as sp

import norn

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


def test_a_unit_twice_in_a_basket_is_refused(baskets, trained):
    row = np.zeros(baskets.units, int)
    row[[3, 5]] = 1
    with pytest.raises(norn.UsageError, match=rf"unit 0 is in the basket {baskets.units - 2} times.*as long as there are units.*row\[None\]"):
        trained.recommend(row)
    with pytest.raises(norn.UsageError, match="unit 7 is in the basket 2 times, expected once.$"):
        trained.recommend([7, 2, 7])
    ids, _ = trained.recommend(row[None], N=4)
    assert ids[0].tolist() == [unit for unit, _ in trained.recommend([3, 5], N=4)]
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
        learn(baskets.matrix, np.arange(users) % 2)


def test_data_without_entries_are_refused(baskets):
    empty = sp.csr_matrix(baskets.matrix.shape, dtype=np.float32)
    zeros = baskets.matrix.copy()
    zeros.data[:] = 0
    for learn in learners(baskets.matrix):
        for data in (empty, zeros, empty.tocoo(), empty.toarray(), norn.Dataset(empty)):
            with pytest.raises(norn.DataError, match="`interactions`: the matrix has no entries"):
                learn(data, None)
    with pytest.raises(norn.DataError, match="`targets`: the matrix has no entries"):
        norn.Recommender(**SETTINGS).fit(baskets.matrix, empty)
    norn.Recommender(**SETTINGS).fit(empty, baskets.matrix)  # what everybody has
