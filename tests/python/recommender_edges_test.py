# SPDX-License-Identifier: Apache-2.0
"""What stands at the edges of a recommender: nothing, too much, negative values, other names and other files."""
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import norn
from conftest import same

SETTINGS = {"epochs": 1, "hidden": 4, "batch": 16, "device": "cpu", "threads": 1}


@pytest.mark.parametrize("call", [
    lambda model: model.recommend(None), lambda model: model.transform(None), lambda model: model.evaluate(None, None),
    lambda model: model.score(None),
    lambda model: model.evaluate(None, sp.eye(3, format="csr")), lambda model: model.partial_fit(None),
    lambda model: norn.Recommender().fit(None),
    lambda model: norn.Recommender().partial_fit(None), lambda model: norn.most_popular(None),
])
def test_nothing_is_refused_by_name(trained, call):
    with pytest.raises(norn.UsageError, match="`user_items`"):
        call(trained)


def test_more_than_there_is_takes_what_there_is(baskets, trained, draw):
    users = baskets.matrix[: int(draw.integers(1, 40))]
    whole = trained.recommend(users, N=baskets.units, filter_already_liked_items=False)
    assert whole[0].shape == (users.shape[0], baskets.units)
    for n in (baskets.units + 1, 10**9, 2**31 - 1):
        assert same(trained.recommend(users, N=n, filter_already_liked_items=False), whole)
        assert trained.recommend(users[:0], N=n)[0].shape == (0, baskets.units)
        assert len(trained.recommend([0], N=n)) == baskets.units - 1
    left = trained.recommend(users, N=10**9)  # without what each has
    assert left[0].shape == whole[0].shape and (left[0] == -1).sum() == users.nnz == np.isnan(left[1]).sum()


@pytest.mark.parametrize("kind", ["float64", "longdouble"])
def test_numbers_that_float32_cannot_hold_are_told_with_their_value(trained, baskets, draw, kind):
    large = baskets.matrix.astype(kind)
    at = int(draw.integers(large.nnz))
    large.data[at] = -1e300
    row, column = int(np.searchsorted(large.indptr, at, side="right")) - 1, int(large.indices[at])
    said = rf"row {row} \(from 0\): the value of column {column} is -1e\+300, which does not fit float32"
    calls = {"user_items": trained.recommend, "matrix": norn.Dataset,
             "score_factors": lambda m: trained.recommend(baskets.matrix, score_factors=m)}
    for argument, call in calls.items():
        for given in (large, large.toarray()) if kind == "float64" else (large,):
            with pytest.raises(norn.DataError, match=f"`{argument}`: {said}"), warnings.catch_warnings():
                warnings.simplefilter("error")
                call(given)


def test_negative_targets_are_told_once(baskets, draw, caplog):
    signed = baskets.matrix.copy()
    signed.data[draw.random(signed.nnz) < 0.3] = -1
    negative = int((signed.data < 0).sum())
    assert negative
    for call, argument in ((lambda: norn.Recommender(**SETTINGS).fit(signed), "user_items"),
                           (lambda: norn.Recommender(**SETTINGS).fit(baskets.matrix, signed), "targets"),
                           (lambda: norn.Recommender(**SETTINGS).fit(baskets.matrix).partial_fit(signed), "user_items"),
                           (lambda: norn.Recommender(**SETTINGS).fit(baskets.matrix).evaluate(baskets.matrix, signed, keep_seen=True),
                            "held_out")):
        caplog.clear()
        call()
        told = [record.getMessage() for record in caplog.records if "negative" in record.getMessage()]
        assert len(told) == 1 and told[0].startswith(f"`{argument}`: {negative} of {signed.nnz} values are negative"), told
    caplog.clear()
    norn.Recommender(**SETTINGS).fit(signed, baskets.matrix)  # of inputs they are values
    assert not caplog.records


def test_a_file_has_the_ending_of_its_kind(trained, tmp_path):
    for name, way in (("m.pkl", "pickle.dump"), ("m.PICKLE", "pickle.dump"), ("m.onnx", "norn.export_onnx"),
                      ("m.safetensors", "norn.export_safetensors")):
        with pytest.raises(norn.UsageError, match=rf"`path` .*{name}: a model's file is NetCDF, NAME.nc; {way}"):
            trained.save(tmp_path / name)
        assert not (tmp_path / name).exists()
    for name in ("m.nc", "m", "m.pkl.nc", "m.model"):
        trained.save(tmp_path / name)
        assert norn.load(tmp_path / name, device="cpu").network_.trained
    assert pickle.loads(pickle.dumps(trained)).n_features_in_ == trained.n_features_in_


def test_scikit_learn_knows_whether_it_is_fitted(baskets, trained):
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(trained)
    assert trained.n_features_in_ == baskets.units
    with pytest.raises(NotFittedError):
        check_is_fitted(norn.Recommender())
    assert not hasattr(norn.Recommender(), "n_features_in_")


def test_old_keywords_are_taken_with_a_word(baskets):
    model = norn.Recommender(**SETTINGS)
    with pytest.warns(DeprecationWarning, match="`interactions` is called `user_items`") as told:
        model.fit(interactions=baskets.matrix)
    assert told[0].filename == __file__
    with pytest.warns(DeprecationWarning, match="`known` is called `user_items`"):
        old = model.evaluate(known=baskets.matrix, held_out=baskets.matrix, k=3, keep_seen=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert old == model.evaluate(user_items=baskets.matrix, held_out=baskets.matrix, k=3, keep_seen=True)
    with pytest.raises(norn.UsageError, match="'seed'|\"seed\""):
        norn.Recommender(random_seed=3)


def test_frames_with_a_time_are_read_as_their_csv_is(draw, tmp_path):
    frame = pd.DataFrame({"user": draw.integers(0, 30, 200), "item": draw.integers(100, 140, 200)}).drop_duplicates()
    for time in ("timestamp", "time"):
        frame[time] = draw.integers(0, 10**9, len(frame))
        frame.to_csv(tmp_path / "t.csv", index=False)
        read, given = norn.Dataset.from_table(tmp_path / "t.csv"), norn.Dataset.from_table(frame)
        assert (read.matrix != given.matrix).nnz == 0
        assert read.feature_labels == given.feature_labels and read.example_labels == given.example_labels
        del frame[time]
    frame["rating"], frame["timestamp"] = 1, 2
    with pytest.raises(norn.UsageError, match="which column has the examples"):
        norn.Dataset.from_table(frame)


def test_labels_and_numbers_are_not_mixed(baskets):
    model = norn.Recommender(**SETTINGS).fit(baskets.dataset)
    for given in (["unit3", 5], [5, "unit3"], pd.Series(["unit3", 5]), {5, "unit3"}, ["unit3", None]):
        with pytest.raises(norn.UsageError, match=r"`user_items`: 'unit3' is a label and (5|None) is none; give all units by label"):
            model.recommend(given)
    with pytest.raises(norn.UsageError, match="`items`: 'unit3' is a label and 5 is none"):
        model.recommend([1], items=["unit3", 5])
