# SPDX-License-Identifier: Apache-2.0
"""norn.most_popular is evaluator's baseline."""
import json

import numpy as np
import pytest
import scipy.sparse as sp

import norn
from conftest import Baskets, run


def test_its_metrics_are_those_of_evaluators_popularity(draw, programs, source, tmp_path):
    """Counts of few users tie often, so the order of equal units is compared, too."""
    data = norn.Dataset(Baskets(draw).matrix, name="films").split("ratio:0.7/0.3", seed=int(draw.integers(1000)))
    norn.Recommender(hidden=8, epochs=1, device="cpu").fit(data.train).save(tmp_path / "model.nc")
    train, test = data.to_netcdf(tmp_path / "films.nc")
    said = run(programs / "evaluator", "--model", tmp_path / "model.nc", "--data", test, "--popularity", train, "--top", "3,10", "--format",
               "json",
               "--device", "cpu").stdout
    got = norn.most_popular(data.train).evaluate(data.test, k=[3, 10])
    titles = {metric["title"]: metric["name"] for metric in json.loads((source / "python/norn/report/metrics.json").read_text())}
    wanted = {f"{titles[title]}@{at['K']}": value for at in json.loads(said)["popularity"]
              for title, value in at.items() if title in titles}
    assert len(wanted) > 10 and {name: got[name] for name in wanted} == wanted


def test_it_recommends_by_name_to_somebody_who_has_nothing_or_something(draw):
    matrix = sp.csr_matrix(np.array([[1, 1, 0, 0], [0, 1, 0, 7], [0, 1, 0, 1]], np.float32))
    model = norn.most_popular(norn.Dataset(matrix, feature_labels=["a", "b", "c", "d"]))
    assert model.recommend([], N=2) == [("b", 3.0), ("d", 2.0)]
    assert model.recommend(["b"], N=3) == [("d", 2.0), ("a", 1.0), ("c", 0.0)]
    ids, scores = norn.most_popular(matrix).recommend(matrix, N=1)
    assert ids.ravel().tolist() == [3, 0, 0] and scores.ravel().tolist() == [2.0, 1.0, 1.0]


def test_targets_of_other_units_are_counted(draw):
    known, wanted = sp.csr_matrix(np.eye(5, 9, dtype=np.float32)), sp.csr_matrix(np.array([[0, 1, 1]] * 5, np.float32))
    model = norn.most_popular(known, wanted)
    assert model.recommend(known, N=3, filter_already_liked_items=False)[0][0].tolist() == [1, 2, 0]
    data = norn.Dataset(known, targets=wanted, target_labels=["x", "y", "z"])
    assert list(norn.most_popular(data).labels) == ["x", "y", "z"]


def test_it_is_saved_and_loaded_as_any_model(draw, tmp_path):
    matrix = Baskets(draw).matrix
    model = norn.most_popular(matrix)
    model.save(tmp_path / "popular.nc")
    assert (norn.load(tmp_path / "popular.nc", device="cpu").recommend(matrix)[0] == model.recommend(matrix)[0]).all()


def test_nothing_is_not_popular():
    with pytest.raises(norn.DataError, match="have no entries"):
        norn.most_popular(sp.csr_matrix((3, 4), dtype=np.float32))
    with pytest.raises(norn.UsageError, match="`user_items`"):
        norn.most_popular([[1, 2]])


def test_stored_zeros_are_nothing_that_somebody_has():
    matrix = sp.csr_matrix((np.array([0, 0, 1], np.float32), ([0, 1, 2], [2, 2, 1])), shape=(3, 4))
    assert matrix.nnz == 3
    assert norn.most_popular(matrix).recommend([], N=2) == [(1, 1.0), (0, 0.0)]


def test_split_data_that_are_trained_on_whole_are_said(draw, caplog):
    data = norn.Dataset(Baskets(draw).matrix, name="films").split("ratio:0.6/0.2/0.2")
    model = norn.Recommender(hidden=8, epochs=1, device="cpu")
    descriptor = {"Kind": "AutoEncoder", "Layers": [{"Name": "Input", "Kind": "Input", "N": "auto", "DataSet": "films_input",
                                                     "Sparse": True},
                                                    {"Name": "Hidden", "Kind": "Hidden", "N": 3, "Activation": "Sigmoid"},
                                                    {"Name": "Output", "Kind": "Output", "N": "auto", "DataSet": "films_output",
                                                     "Sparse": True, "Activation": "Sigmoid"}]}
    calls = {"fit": lambda one: model.fit(one), "partial_fit": lambda one: model.partial_fit(one), "popular": norn.most_popular,
             "new": lambda one: norn.Recommender(hidden=8, device="cpu").partial_fit(one),
             "train": lambda one: norn.train(descriptor, {"films_input": one, "films_output": one.matrix}, epochs=1, device="cpu")}
    for name, call in calls.items():
        for given, count in ((data.train, 0), (data.matrix if name != "train" else data.train, 0), (data, 1)):
            caplog.clear()
            call(given)
            said = [record.getMessage() for record in caplog.records if "split" in record.getMessage()]
            assert len(said) == count, (name, said)
            assert not count or said[0].endswith("these data are split, and all of them are trained on, also what .validation or .test "
                                                 "holds out; give .train")


def test_data_without_anything_held_out_are_refused_with_the_part_that_has_it(draw):
    data = norn.Dataset(Baskets(draw).matrix).split("ratio:0.8/0.2")
    model = norn.Recommender(hidden=8, epochs=1, device="cpu").fit(data.train)
    for call, argument in ((model.evaluate, "user_items"), (lambda one: model.fit(data.train, validation=one), "validation")):
        with pytest.raises(norn.UsageError, match=f"`{argument}`: these data are split, and one part has what was held out: give .test"):
            call(data)
        with pytest.raises(norn.UsageError,
                           match=f"`{argument}`: .*a Dataset with targets, and this one has none; .*the parts .test and .validation have "
                                 "them"):
            call(data.train)
