# SPDX-License-Identifier: Apache-2.0
"""scikit-learn's searches over a recommender, and its score."""
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import GridSearchCV, cross_val_score

import norn
from conftest import Baskets

GRID = {"hidden": [3, 9], "lambda_": [0.0, 0.001]}


def model(**more):
    return norn.Recommender(**{"epochs": 2, "batch": 10, "device": "cpu", "threads": 1, **more})


def own_score(trained, known, held_out=None):
    return trained.evaluate(known, known if held_out is None else held_out, k=[5], keep_seen=True)["recall@5"]


@pytest.mark.parametrize("scoring", [None, own_score])
@pytest.mark.parametrize("with_targets", [False, True])
def test_a_grid_of_scikit_learn_is_searched(draw, scoring, with_targets):
    users = Baskets(draw, users=80).matrix
    search = GridSearchCV(model(), GRID, scoring=scoring, cv=2, error_score="raise")
    search.fit(users, *([users[:, ::-1].tocsr()] if with_targets else []))
    scores = search.cv_results_["mean_test_score"]
    assert len(scores) == 4 and np.isfinite(scores).all() and scores.max() == search.best_score_
    assert search.best_estimator_.get_params()["hidden"] == search.best_params_["hidden"]
    assert np.isfinite(cross_val_score(model(), users, cv=2, scoring=scoring, error_score="raise")).all()


def test_score_is_ndcg_of_what_is_held_out(draw):
    baskets = Baskets(draw, users=120)
    trained = model().fit(baskets.matrix)
    parts = norn.Dataset(baskets.matrix).split("ratio:0.8/0.2").test
    expected = trained.evaluate(parts.matrix, parts.targets, k=[20])["ndcg@20"]
    assert 0 < expected < 1
    for score in (trained.score(parts.matrix, parts.targets), trained.score(parts), trained.score(baskets.matrix),
                  trained.score(norn.Dataset(baskets.matrix))):
        assert score == expected
    with pytest.raises(norn.DataError, match="0 target entries are left"):
        trained.score(sp.csr_matrix(baskets.matrix.shape, dtype=np.float32))


def test_score_says_what_it_cannot_measure(draw, caplog):
    """Data that are split have parts for it, and what was trained on is known."""
    baskets = Baskets(draw, users=120)
    data = norn.Dataset(baskets.matrix).split("ratio:0.7/0.1/0.2")
    trained = model(validation_split=0.2).fit(data.train)
    for method in (trained.score, trained.evaluate):
        with pytest.raises(norn.UsageError, match="these data are split, and one part has what was held out: give .validation or .test"):
            method(data)

    def said(*given):
        caplog.clear()
        assert 0 <= trained.score(*given) <= 1
        return [record.getMessage() for record in caplog.records]

    known = ["`user_items` are the data that the model was fitted on, which knows the fifth that is looked for: other data give a lower "
             "score; hold users or entries out before `fit`, and give those"]
    assert said(data.test) == said(data.validation) == []
    assert said(baskets.matrix) == [] and said(data.train) == known and said(data.train) == []  # once
    for users in (baskets.matrix, norn.Dataset(baskets.matrix)):
        trained.fit(users)
        pickled = pickle.loads(pickle.dumps(trained))
        assert said(users[:50] if sp.issparse(users) else data.test) == [] and said(users) == known
        assert np.isfinite(pickled.score(users))
    trained.fit(baskets.matrix, baskets.matrix)
    assert said(baskets.matrix) == known
    held_out = data.test
    trained.fit(held_out)  # with its targets
    assert said(held_out) == []


def test_names_of_recipes_and_settings_are_refused_at_once():
    with pytest.raises(norn.UsageError, match='`recipe` softmx: .*did you mean "softmax"') as raised:
        norn.Recommender(recipe="softmx", epoch=3)
    assert [problem["key"] for problem in raised.value.problems] == ["recipe", "epoch"]
    assert raised.value.problems[0]["suggestion"] == "softmax"
    with pytest.raises(norn.UsageError, match="`recipe` 3: expected a str"):
        norn.Recommender(recipe=3)
    with pytest.raises(norn.UsageError, match='`hiden`: .*Did you mean "hidden"'):
        model().set_params(hiden=7)
    with pytest.raises(norn.UsageError, match="softmax"):
        model().set_params(recipe="softmacks")


def test_a_model_of_a_file_says_what_it_is(draw, tmp_path):
    users = Baskets(draw, users=50).matrix
    model(recipe="softmax", hidden=5).fit(users).save(tmp_path / "model.nc")
    loaded = norn.load(tmp_path / "model.nc", device="cpu", threads=1)
    assert loaded.get_params()["recipe"] is None and loaded.get_params()["network"]["Name"] == "softmax recipe"
    assert "network='softmax recipe'" in repr(loaded) and "Hidden 5" in repr(loaded) and "2 epochs" in repr(loaded)
    assert "sigmoid" not in repr(norn.Recommender(network={"Recipe": "softmax"}))
    loaded.set_params(network=None, hidden=4, epochs=1).fit(users)
    assert loaded.network_.descriptor["Name"] == "sigmoid recipe"
