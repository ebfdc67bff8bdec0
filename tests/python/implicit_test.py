# SPDX-License-Identifier: Apache-2.0
"""norn.implicit in the place of implicit's own models."""
import inspect

import numpy as np
import pytest
import scipy.sparse as sp

from conftest import Baskets
from norn.implicit import Autoencoder

import implicit
from implicit.evaluation import ranking_metrics_at_k, train_test_split  # noqa: E402
from implicit.recommender_base import RecommenderBase  # noqa: E402


def test_ranking_metrics_at_k_are_those_of_evaluator(draw):
    baskets = Baskets(draw, users=250, units=90)
    train, test = train_test_split(baskets.matrix, train_percentage=0.7, random_state=int(draw.integers(1000)))
    train, test = sp.csr_matrix(train, dtype=np.float32), sp.csr_matrix(test, dtype=np.float32)
    model = Autoencoder(epochs=4, batch=50, device="cpu", threads=1).fit(train, show_progress=False)
    for k in (1, 5, 10):
        theirs = ranking_metrics_at_k(model, train, test, K=k, show_progress=False)
        ours = model.evaluate(train, test, k=[k])
        assert abs(theirs["ndcg"] - ours[f"ndcg@{k}"]) < 1e-9
        assert abs(theirs["map"] - ours[f"map@{k}"]) < 1e-9
        assert abs(theirs["precision"] - hits_over_most(model, train, test, k)) < 1e-9


def hits_over_most(model, train, test, k):
    """implicit's precision: all hits over all that there could be."""
    users = np.flatnonzero(np.diff(test.indptr))
    ids, _ = model.recommend(users, train[users], N=k)
    hits = sum(np.isin(ids[i], test[u].indices).sum() for i, u in enumerate(users))
    return hits / sum(min(k, test[u].nnz) for u in users)


@pytest.mark.parametrize("name", ["recommend", "similar_items"])
def test_signatures_are_theirs(name):
    theirs, ours = (list(inspect.signature(getattr(one, name)).parameters.items()) for one in (RecommenderBase, Autoencoder))
    assert [parameter for parameter, _ in theirs] == [parameter for parameter, _ in ours]
    assert [p.default for _, p in theirs] == [p.default for _, p in ours]


def test_one_user_and_several(draw):
    baskets = Baskets(draw)
    called = []
    model = Autoencoder(epochs=2, device="cpu", threads=1).fit(baskets.matrix, show_progress=False, callback=lambda *a: called.append(a))
    assert [epoch for epoch, _, _ in called] == [0, 1]
    ids, scores = model.recommend([3, 5], baskets.matrix[[3, 5]], N=4)
    one, _ = model.recommend(5, baskets.matrix[5], N=4)
    assert ids.shape == scores.shape == (2, 4) and ids.dtype == np.int32 and (one == ids[1]).all()
    assert model.similar_items(3, N=2)[0].shape == (2,) and model.similar_items([3, 4], N=2)[0].shape == (2, 2)
    with pytest.raises(ValueError, match="2 rows for 1 users"):
        model.recommend(5, baskets.matrix[[3, 5]])
