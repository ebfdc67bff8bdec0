# SPDX-License-Identifier: Apache-2.0
"""Which class is taken for which."""
import numpy as np
import pytest
import scipy.sparse as sp

import norn


def test_counts_of_classes_are_those_of_the_best_units(draw):
    users, classes = int(draw.integers(40, 90)), int(draw.integers(2, 8))
    true = draw.integers(0, classes, users)
    marks = sp.csr_matrix((np.ones(users), (np.arange(users), (true + draw.integers(0, 3, users)) % 11)), shape=(users, 11))
    held = sp.csr_matrix((np.ones(users), (np.arange(users), true)), shape=(users, classes))
    data = norn.Dataset(marks, targets=held)
    model = norn.Recommender(hidden=5, epochs=3, batch=16, device="cpu", threads=2).fit(data)
    report = model.evaluate(marks, held, k=1, confusion=True)
    best, _ = model.recommend(marks, N=1, filter_already_liked_items=False)
    expected = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(expected, (true, best[:, 0]), 1)
    assert report.confusion.dtype == np.int64 and (report.confusion == expected).all()
    assert abs(np.trace(expected) / users - report["precision@1"]) < 1e-12
    assert model.evaluate(marks, held, k=1).confusion is None
    two = held.tolil()
    two[3] = 0
    two[3, :2] = 1
    with pytest.raises(norn.DataError, match="example 3 has 2 units, and `confusion` is of one class an example"):
        model.evaluate(marks, two.tocsr(), k=1, confusion=True)
