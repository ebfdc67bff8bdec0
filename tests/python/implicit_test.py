# SPDX-License-Identifier: Apache-2.0
"""norn.implicit in the place of implicit's own models."""
import inspect

import numpy as np
import pytest
import scipy.sparse as sp

import norn
from conftest import Baskets
from norn.implicit import Autoencoder

import implicit
from implicit.als import AlternatingLeastSquares
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


@pytest.mark.parametrize("name", ["recommend", "similar_items", "similar_users"])
def test_signatures_are_theirs(name):
    theirs, ours = (list(inspect.signature(getattr(one, name)).parameters.items()) for one in (RecommenderBase, Autoencoder))
    assert [parameter for parameter, _ in theirs] == [parameter for parameter, _ in ours]
    assert [p.default for _, p in theirs] == [p.default for _, p in ours]


def test_explanations_have_their_form(draw):
    both = (implicit.cpu.als.AlternatingLeastSquares.explain, Autoencoder.explain)
    theirs, ours = (list(inspect.signature(one).parameters.items()) for one in both)
    assert [(name, p.default) for name, p in theirs] == [(name, p.default) for name, p in ours]
    baskets = Baskets(draw)
    model = Autoencoder(factors=6, iterations=2, num_threads=1, use_gpu=False).fit(baskets.matrix, show_progress=False)
    user, item = int(draw.integers(baskets.matrix.shape[0])), int(draw.integers(baskets.units))
    found = norn.Recommender.explain(model, baskets.matrix[[user]], item, N=4)
    for given in (baskets.matrix, baskets.matrix[[user]], None):
        score, pairs, kept = model.explain(user, given, item, user_weights="kept", N=4)
        assert score == found.scores[0] and kept == "kept"
        assert pairs == [(unit, effect) for unit, effect in zip(found.ids[0].tolist(), found.effects[0].tolist()) if unit >= 0]
    for wrong, message in ((baskets.units, "unit .* is out of range"), (-1, "unit -1 is out of range")):
        with pytest.raises(norn.UsageError, match=message):
            model.explain(user, baskets.matrix, wrong)


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


def test_its_words_are_ours(draw):
    baskets = Baskets(draw)
    factors, seed = int(draw.integers(2, 9)), int(draw.integers(1000))
    theirs = Autoencoder(factors, iterations=2, num_threads=1, random_state=seed, use_gpu=False, dtype=np.float32,
                         calculate_training_loss=True, regularization=0)
    ours = Autoencoder(hidden=factors, epochs=2, threads=1, seed=seed, device="cpu", lambda_=0)
    assert theirs.get_params() == ours.get_params()
    one, other = (model.fit(baskets.matrix, show_progress=False).recommend(3, baskets.matrix[3]) for model in (theirs, ours))
    assert (one[0] == other[0]).all() and (one[1] == other[1]).all()
    assert theirs.set_params(factors=3, iterations=5).get_params()["hidden"] == 3 and theirs.get_params()["epochs"] == 5
    assert Autoencoder(use_gpu=True).get_params()["device"] == "cuda" and Autoencoder().get_params() == norn.Recommender().get_params()
    assert Autoencoder(use_gpu=False, random_state=seed).fit(baskets.matrix, False).chosen_ is None  # one training, without a search


def test_every_word_of_its_models_is_known():
    known = set(inspect.signature(Autoencoder).parameters)
    words = set(inspect.signature(AlternatingLeastSquares).parameters) - {"use_native", "use_cg"}  # how it computes
    assert words <= known, words - known


def test_what_draws_gives_a_seed(draw):
    seed = int(draw.integers(1000))
    for kind in (np.random.RandomState, np.random.default_rng):
        one, other = (Autoencoder(random_state=kind(seed)).get_params()["seed"] for _ in range(2))
        assert one == other and isinstance(one, int) and 0 <= one < 2**31


@pytest.mark.parametrize("words, message", (
    ({"alpha": 40}, "`alpha` 40: .*DeltaBoost"), ({"regularization": 0.01}, "`regularization` 0.01: .*lambda_"),
    ({"dtype": np.float64}, "`dtype` .*float64.*: weights are float32"), ({"dtype": "nonsense"}, "`dtype` 'nonsense'"),
    ({"use_gpu": "no"}, "expected True or False"), ({"regularization": "0"}, "lambda_"), ({"factors": 3, "hidden": 4}, "one setting"),
    ({"random_state": 1, "seed": 2}, "one setting"), ({"factors": 0}, "`hidden` 0 is out"), ({"use_native": True}, "no such setting")))
def test_what_means_nothing_here_is_refused(words, message):
    with pytest.raises(norn.UsageError, match=message):
        Autoencoder(**words).fit(np.eye(30, dtype=np.float32), show_progress=False)


def test_factors_give_the_order_of_recommend(draw):
    baskets = Baskets(draw)
    model = Autoencoder(factors=6, iterations=3, num_threads=1, use_gpu=False).fit(baskets.matrix, show_progress=False)
    users, items = model.user_factors, model.item_factors
    assert users.shape == (baskets.matrix.shape[0], 7) and items.shape == (baskets.units, 7) and model.user_factors is users
    everybody = np.arange(len(users))
    ids, _ = model.recommend(everybody, baskets.matrix, N=5, filter_already_liked_items=False)
    z = users @ items.T
    best = np.take_along_axis(z, ids.astype(np.int64), 1)
    assert (abs(best - -np.sort(-z, axis=1)[:, :5]) < 1e-4 * (1 + abs(z).max())).all()
    model.partial_fit(baskets.matrix)
    assert model.user_factors is not users


def test_similar_users_are_theirs(draw):
    baskets = Baskets(draw)
    model = Autoencoder(factors=6, iterations=3, num_threads=1, use_gpu=False).fit(baskets.matrix, show_progress=False)
    count = baskets.matrix.shape[0]
    ids, scores = model.similar_users(4, N=5)
    others, cosines = norn.Recommender.similar_users(model, baskets.matrix[4], baskets.matrix, N=5)
    assert ids.shape == (5,) and (ids == others[0]).all() and np.allclose(scores, cosines[0], atol=1e-6)
    assert model.similar_users([4, 7], N=3)[0].shape == (2, 3)
    some = draw.choice(count, 10, replace=False)
    assert set(model.similar_users(4, N=10, users=some)[0]) == set(some)
    assert not set(model.similar_users(4, N=count - 10, filter_users=some)[0]) & set(some)
    left, scores = model.similar_users(4, N=12, users=some)
    assert sorted(left) == sorted(some) and len(scores) == 10
    with pytest.raises(norn.UsageError, match="`userid`: unit .* is out of range"):
        model.similar_users(count)


def test_rows_of_the_whole_matrix_are_taken(draw, tmp_path):
    baskets = Baskets(draw)
    model = Autoencoder(factors=6, iterations=2, num_threads=1, use_gpu=False).fit(baskets.matrix, show_progress=False)
    users = draw.choice(baskets.matrix.shape[0], 4, replace=False)
    rows = model.recommend(users, baskets.matrix[users], N=5)
    for given in (baskets.matrix, None, baskets.matrix.tocoo()):
        assert all((one == other).all() for one, other in zip(rows, model.recommend(users, given, N=5)))
    assert (model.recommend(int(users[0]), baskets.matrix, N=5)[0] == rows[0][0]).all()
    model.save(tmp_path / "model.nc")
    loaded = Autoencoder.load(tmp_path / "model.nc")
    assert (loaded.recommend(users, baskets.matrix[users], N=5)[0] == rows[0]).all()
    with pytest.raises(norn.UsageError, match="rows for 4 users"):
        loaded.recommend(users, baskets.matrix)
    for call in (lambda: loaded.user_factors, lambda: loaded.similar_users(3), lambda: loaded.recommend(users, None)):
        with pytest.raises(norn.UsageError, match="a model's file has no users"):
            call()


def test_it_has_all_that_a_recommender_has(draw):
    baskets = Baskets(draw)
    model = Autoencoder(factors=6, iterations=2, num_threads=1, use_gpu=False).fit(baskets.matrix, show_progress=False)
    ids, _ = model.recommend(np.arange(9), baskets.matrix[:9], N=3)
    assert model.recommend_table(baskets.matrix[:9], 3).to_arrow().column("item").to_pylist() == ids.ravel().tolist()
    assert 0 < model.score(baskets.matrix) < 1 and model.evaluate(baskets.matrix, baskets.matrix, keep_seen=True)["ndcg@10"] > 0


def test_it_is_called_by_its_name(draw):
    import pickle

    from sklearn.base import clone

    baskets = Baskets(draw)
    model = Autoencoder(factors=5, iterations=1, num_threads=1, use_gpu=False)
    assert repr(model).startswith("Autoencoder(hidden=5") and repr(clone(model)) == repr(model)
    model.fit(baskets.matrix, show_progress=False)
    again = pickle.loads(pickle.dumps(model))
    assert repr(again) == repr(model) and "norn.Autoencoder" in model._repr_html_()
    assert (again.user_factors == model.user_factors).all()
