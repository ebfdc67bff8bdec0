# SPDX-License-Identifier: Apache-2.0
"""Recommender(recipe="auto"): what it chooses is told, goes with the model, and is that of the trainer."""
import json
import logging
import pickle
import signal

import numpy as np
import pytest
import scipy.sparse as sp

import norn
from conftest import run


def planted(draw, users=None, items=None):
    """[users x items]: a user has items of one of a few groups, and some of any."""
    users, items = users or int(draw.integers(40, 300)), items or int(draw.integers(20, 120))
    groups = int(draw.integers(2, 7))
    liked = (np.arange(items) % groups)[None, :] == draw.integers(groups, size=users)[:, None]
    chance = np.where(liked, draw.uniform(0.2, 0.6), draw.uniform(0.0, 0.05))
    matrix = draw.random((users, items)) < chance
    matrix[0, :2] = True  # some entry can be held back
    return sp.csr_matrix(matrix.astype(np.float32))


def fitted(matrix, **settings):
    usual = {"recipe": "auto", "epochs": 5, "budget": 4, "device": "cpu", "threads": 2, "seed": 3}
    return norn.Recommender(**{**usual, **settings}).fit(matrix)


def same(one, other):
    ours, theirs = one.network_.parameters, other.network_.parameters
    assert list(ours) == list(theirs)
    assert all(ours[name].tobytes() == theirs[name].tobytes() for name in ours)


def test_what_was_tried_is_told_and_stays_with_the_model(draw, tmp_path):
    matrix = planted(draw)
    model = fitted(matrix)
    chosen = model.chosen_
    assert chosen["metric"] == "ndcg@20" and chosen["spent"] <= 4.4000001
    assert 0 <= chosen["chosen"] < len(chosen["candidates"]) and chosen["candidates"][0]["recipe"] == "sigmoid"
    model.save(tmp_path / "model.nc")
    assert norn.load(tmp_path / "model.nc", device="cpu").chosen_ == chosen
    assert pickle.loads(pickle.dumps(model)).chosen_ == chosen
    assert norn.Recommender(epochs=1, device="cpu").fit(matrix).chosen_ is None


def test_it_is_the_model_of_the_trainer_on_any_number_of_threads(draw, programs, tmp_path):
    matrix = planted(draw)
    norn.Dataset(matrix, name="films").to_netcdf(tmp_path / "films.nc")
    run(programs / "trainer", "--recipe", "auto", "-i", tmp_path / "films.nc", "-n", tmp_path / "model.nc", "--epochs", "5",
        "--budget", "4", "--seed", "3", "--device", "cpu", "--threads", "3")
    theirs = norn.load(tmp_path / "model.nc", device="cpu")
    ours = fitted(matrix, threads=1)
    same(ours, theirs)
    assert ours.chosen_ == theirs.chosen_


def test_a_network_that_is_chosen_is_the_recipe_with_its_settings(draw):
    matrix = planted(draw)
    model = fitted(matrix, budget=2.5)  # has room for nothing else but EASE
    if model.chosen_["chosen"] == 0 and not model.chosen_["chosen_with_ease"]:
        same(model, norn.Recommender(epochs=5, device="cpu", threads=1, seed=3).fit(matrix))


class Interrupt(norn.callbacks.Callback):
    """Ctrl-C while the training of that number begins."""

    def __init__(self, number):
        self.left = number

    def __call__(self, env):
        self.left -= env.kind == "begin"
        if self.left == 0 and env.kind == "begin":
            signal.raise_signal(signal.SIGINT)


def test_a_search_that_is_interrupted_is_gone_on_with(draw):
    matrix = planted(draw)
    straight = fitted(matrix, epochs=10)
    for number in (1, 2, int(draw.integers(1, 5))):
        model = norn.Recommender(recipe="auto", epochs=10, budget=4, device="cpu", threads=2, seed=3)
        try:
            model.fit(matrix, callbacks=Interrupt(number))
        except KeyboardInterrupt:
            model.fit(matrix, resume=True)
        same(model, straight)
        assert model.chosen_ == straight.chosen_


def test_what_does_not_go_with_it_is_refused():
    matrix = sp.csr_matrix(np.ones((3, 4), np.float32))
    for settings, message in (({"hidden": 5}, "`hidden` does not go with `recipe` auto, which chooses how many there are"),
                              ({"budget": 0.5}, "`budget` 0.5 is out of range: it must be at least 1"),
                              ({"early_stop": "ndcg@20"}, "`early_stop` does not go with `recipe` auto"),
                              ({"lambda_": 3}, "`lambda_` does not go with `recipe` auto"),
                              ({"keep_best": "loss"}, "`keep_best` loss is no mean over examples")):
        with pytest.raises(norn.UsageError) as told:
            norn.Recommender(recipe="auto", device="cpu", **settings).fit(matrix)
        assert message in str(told.value)
    with pytest.raises(norn.UsageError, match="`budget` is what `recipe` auto may spend"):
        norn.Recommender(recipe="sigmoid", budget=3, device="cpu").fit(matrix)
    with pytest.raises(norn.UsageError, match="a descriptor is of one network"):
        norn.train({"Recipe": "auto"}, {"data_input": matrix, "data_output": matrix})


def test_data_of_which_nothing_can_be_held_back(draw):
    items = int(draw.integers(2, 30))
    matrix = sp.csr_matrix(np.eye(items, dtype=np.float32)[draw.integers(items, size=int(draw.integers(1, 60)))])
    model = fitted(matrix)
    assert "too little data" in model.chosen_["not_searched"]
    same(model, norn.Recommender(epochs=5, device="cpu", threads=1, seed=3).fit(matrix))
    json.dumps(model.chosen_)


def same_as_named(matrix, recipe, given, fit=None):
    """Nothing named is what that recipe is."""
    one = norn.Recommender(device="cpu", seed=3, **given).fit(matrix, **(fit or {}))
    same(one, norn.Recommender(recipe=recipe, device="cpu", seed=3, **given).fit(matrix, **(fit or {})))
    assert (one.chosen_ is not None) == (recipe == "auto")
    return one


def test_without_settings_it_measures_and_with_them_it_is_the_plain_recipe(draw, caplog):
    matrix = planted(draw, users=60, items=25)
    with caplog.at_level("WARNING", "norn"):
        same_as_named(matrix, "auto", {"budget": 2.5})
    said = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert len([one for one in said if one.startswith("recipe auto: budget 2.5, at most about ")]) == 1  # named, it is no warning
    caplog.clear()
    one = draw.choice(["epochs", "hidden", "rate", "batch", "lambda_", "validate_every", "validation"])
    given = {"epochs": {"epochs": 3}, "hidden": {"hidden": 4}, "rate": {"rate": 0.01}, "batch": {"batch": 16}, "lambda_": {"lambda_": 1e-4},
             "validate_every": {"validation_split": 0.2, "validate_every": 50}, "validation": {}}[one]
    with caplog.at_level("WARNING", "norn"):
        same_as_named(matrix, "sigmoid", given, {"validation": 0.2} if one == "validation" else None)
    assert not [told for told in caplog.records if "recipe auto" in told.getMessage()]


def test_nothing_is_told_to_those_who_want_no_warnings_and_the_log_is_as_it_was(draw, caplog):
    log = logging.getLogger("norn")
    before = log.level, list(log.filters)
    with caplog.at_level("ERROR", "norn"):
        norn.Recommender(device="cpu", budget=2, seed=1).fit(planted(draw, users=40, items=20))
        assert not caplog.records
    with pytest.raises(norn.DataError):
        norn.Recommender(device="cpu", seed=1).fit(sp.csr_matrix((3, 4), dtype=np.float32))
    assert (log.level, list(log.filters)) == before


def test_too_little_data_is_the_plain_recipe_and_says_so(draw, caplog):
    matrix = sp.csr_matrix(np.eye(5, dtype=np.float32)[draw.integers(5, size=20)])
    with caplog.at_level("WARNING", "norn"):
        norn.Recommender(device="cpu", seed=1).fit(matrix)
    assert "too little data to hold anything back" in caplog.text


def test_a_default_that_is_interrupted_is_gone_on_with_and_a_plain_model_stays_plain(draw):
    matrix = planted(draw, users=50, items=25)
    straight = norn.Recommender(budget=3, device="cpu", seed=3).fit(matrix)
    model = norn.Recommender(budget=3, device="cpu", seed=3)
    try:
        model.fit(matrix, callbacks=Interrupt(int(draw.integers(1, 4))))
    except KeyboardInterrupt:
        model.fit(matrix, resume=True)
    same(model, straight)
    assert pickle.loads(pickle.dumps(model)).get_params() == model.get_params()
    grown = norn.Recommender(device="cpu", seed=3).partial_fit(matrix, epochs=2)
    assert grown.chosen_ is None
    named = norn.Recommender(recipe="sigmoid", device="cpu", seed=3).partial_fit(matrix, epochs=2)
    same(grown.fit(matrix, resume=True), named.fit(matrix, resume=True))
    assert grown.chosen_ is None and len(grown.history) == len(named.history)
