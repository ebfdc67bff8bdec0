# SPDX-License-Identifier: Apache-2.0
"""Models as values: copies, files, threads, processes; arrays that are not copied; callbacks."""
import copy
import io
import logging
import multiprocessing
import os
import pickle
import signal
import threading

import numpy as np
import pytest
import scipy.sparse as sp

import norn
from conftest import Baskets, same
from norn import _arrays


def test_arrays_are_read_where_they_stand(baskets):
    m = baskets.matrix
    m.data *= 2
    made = _arrays.memory_set("x", m, "m")
    _, columns, values, _ = made.addresses
    assert columns == m.indices.__array_interface__["data"][0] and values == m.data.__array_interface__["data"][0]
    wide = type(m)((m.data, m.indices, m.indptr.astype(np.int64)), shape=m.shape)
    wide.indptr = wide.indptr.astype(np.int64)
    assert _arrays.memory_set("x", wide, "m").addresses[0] == wide.indptr.__array_interface__["data"][0]
    dense = np.ones((3, 4), np.float32)
    assert _arrays.memory_set("x", dense, "m").addresses[3] == dense.__array_interface__["data"][0]
    read_only = m.copy()
    read_only.indices.flags.writeable = read_only.data.flags.writeable = False
    assert _arrays.memory_set("x", read_only, "m").addresses[1] == read_only.indices.__array_interface__["data"][0]


def test_matrices_wider_than_int32(draw):
    columns = np.array([5, 2**31 + 7, 2**32 - 2])
    wide = sp.csr_matrix((np.ones(3, np.float32), columns, np.array([0, 1, 3])), shape=(2, 2**32 - 1))
    assert wide.indices.dtype == np.int64
    made = _arrays.memory_set("data_input", wide, "m")
    assert made.width == 2**32 - 1
    network = {"Layers": [{"Name": "In", "Kind": "Input", "DataSet": "data_input", "N": "auto"},
                          {"Name": "Out", "Kind": "Output", "DataSet": "y", "N": "auto"}]}
    plan = norn.Network.from_json(network).plan({"data_input": wide, "y": np.zeros((2, 3), np.float32)}, device="cpu", batch=1)
    assert plan["weights"] == 3 * 2**32 and plan["memory_bytes"] > 4 * plan["weights"] and plan["available_bytes"] > 0
    assert plan["fits"] == (plan["memory_bytes"] <= plan["available_bytes"])
    with pytest.raises(norn.UsageError, match=f"{2**32} units are too many"):
        _arrays.memory_set("x", sp.csr_matrix((2, 2**32), dtype=np.float32), "m")


def test_weights_of_examples_count(baskets):
    settings = {"epochs": 2, "batch": 20, "device": "cpu", "threads": 1}
    plain, ones, halves = (norn.Recommender(**settings).fit(baskets.matrix, weights=w).history[-1]["cost"]
                           for w in (None, np.ones(baskets.matrix.shape[0]), np.full(baskets.matrix.shape[0], 0.5)))
    assert plain == ones != halves
    as_sklearn = norn.Recommender(**settings).fit(baskets.matrix, sample_weight=np.full(baskets.matrix.shape[0], 0.5))
    assert as_sklearn.history[-1]["cost"] == halves
    with pytest.raises(norn.UsageError, match="`weights` and `sample_weight` are one"):
        norn.Recommender(**settings).fit(baskets.matrix, weights=[1.0], sample_weight=[1.0])


def test_filters_and_factors_of_each_user(trained, baskets):
    users = baskets.matrix.shape[0]
    free, scores = trained.recommend(baskets.matrix, N=3, filter_already_liked_items=False)
    best = sp.csr_matrix((np.ones(users, np.float32), free[:, 0], np.arange(users + 1)), shape=baskets.matrix.shape)
    ids, got = trained.recommend(baskets.matrix, N=3, filter_already_liked_items=False, filter_pairs=best)
    assert (ids[:, :2] == free[:, 1:]).all()
    assert same(trained.recommend(baskets.matrix, N=3, filter_already_liked_items=False, score_factors=best), (free, scores))
    best.data[:] = 0  # a score of nothing is no score that is missing
    ids, got = trained.recommend(baskets.matrix, N=baskets.units, filter_already_liked_items=False, score_factors=best)
    assert (ids[:, -1] == free[:, 0]).all() and (got[:, -1] == 0).all()


def test_arrays_live_as_long_as_they_are_read(baskets):
    made = _arrays.memory_set("data_input", baskets.matrix.copy(), "m")
    made = [made, _arrays.memory_set("data_output", baskets.matrix.copy(), "m")]
    network = norn.train({"Recipe": "sigmoid"}, {"data_input": made[0], "data_output": made[1]}, epochs=1, device="cpu")
    assert network.trained


def test_parameters_are_views_and_read_only(trained):
    first, second = trained.network_.parameters, trained.network_.parameters
    for name in first:
        assert first[name].dtype == np.float32 and not first[name].flags.writeable
        assert (first[name].ctypes.data == second[name].ctypes.data) == (" -> " in name)
    with pytest.raises(ValueError):
        first["Hidden bias"][0] = 1


def test_copies_have_the_same_bytes(trained, baskets, tmp_path):
    import joblib
    import sklearn.base

    expected = trained.recommend(baskets.matrix, N=4)
    trained.save(tmp_path / "one.nc")
    file = io.BytesIO()
    joblib.dump(trained, file)
    file.seek(0)
    copies = {"pickle": pickle.loads(pickle.dumps(trained)), "deepcopy": copy.deepcopy(trained), "joblib": joblib.load(file),
              "load": norn.load(tmp_path / "one.nc", device="cpu", threads=1),
              "clone of the settings": sklearn.base.clone(trained).fit(baskets.matrix)}
    for name, made in copies.items():
        made.save(tmp_path / "two.nc")
        assert (tmp_path / "one.nc").read_bytes() == (tmp_path / "two.nc").read_bytes(), name
        assert same(made.recommend(baskets.matrix, N=4), expected), name
        assert name in ("load", "clone of the settings") or made.history == trained.history and made.get_params() == trained.get_params()


def test_several_threads_use_one_model_and_two_models_train(baskets, trained):
    expected = trained.recommend(baskets.matrix, N=4)
    wrong = []

    def predict():
        for _ in range(5):
            if not same(trained.recommend(baskets.matrix, N=4), expected):
                wrong.append("recommend")

    def fit():
        model = norn.Recommender(epochs=3, batch=20, device="cpu", threads=1).fit(baskets.matrix)
        if not same(model.recommend(baskets.matrix, N=4), expected):
            wrong.append("fit")

    threads = [threading.Thread(target=work) for work in (predict, predict, predict, predict, fit, fit)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def in_child(trained, matrix, queue):
    lists = trained.recommend(matrix, N=2)
    made = norn.Recommender(epochs=1, batch=20, device="cpu", threads=2).fit(matrix)
    queue.put((lists, made.recommend(matrix, N=2)))


def test_a_forked_child_recommends_and_can_train(baskets, trained):
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=in_child, args=(trained, baskets.matrix, queue))
    child.start()
    known, lists = queue.get(timeout=60)
    child.join(60)
    assert child.exitcode == 0  # models of the parent do not keep it from ending
    assert same(trained.recommend(baskets.matrix, N=2), known)
    here = norn.Recommender(epochs=1, batch=20, device="cpu", threads=2).fit(baskets.matrix)
    assert same(here.recommend(baskets.matrix, N=2), lists)


def test_callbacks_are_called_here_in_order(draw):
    baskets = Baskets(draw)
    kinds, thread = [], threading.get_ident()

    class All(norn.Callback):
        step_seconds = 0.0

        def __call__(self, env):
            assert threading.get_ident() == thread
            kinds.append(env.kind)
            if env.kind == "validation":
                assert env.history[-1]["epoch"] == env.epoch == env.report["epoch"]
                assert env.metrics["recall@10"] == env.history[-1]["recall@10"]

    told = []
    model = norn.Recommender(epochs=3, batch=30, metrics_at=10, device="cpu", threads=2).fit(
        baskets.matrix, validation=0.2, callbacks=[All(), lambda env: told.append((env.kind, env.epoch))])
    assert told == [(kind, epoch) for epoch in (1, 2, 3) for kind in ("epoch", "validation")]
    assert kinds[0] == "begin" and kinds[-1] == "end" and kinds.count("step") == model.history[-1]["step"]
    assert set(model.history.curves()) >= {"cost", "validation_cost", "ndcg@10"}


@pytest.mark.parametrize("kind", ["epoch", "validation"])
def test_stopping_leaves_the_model_of_that_epoch(draw, kind):
    baskets = Baskets(draw)

    def stop(env):
        if (env.kind, env.epoch) == (kind, 2):
            raise norn.StopTraining

    stopped = norn.Recommender(epochs=9, batch=30, rate_schedule="constant", warm_up=0, device="cpu", threads=1)
    stopped.fit(baskets.matrix, validation=0.2, callbacks=[stop])
    assert [epoch["epoch"] for epoch in stopped.history] == [1, 2]
    assert stopped.network_.model.epochs() == 2
    short = norn.Recommender(epochs=9, last_epoch=2, batch=30, rate_schedule="constant", warm_up=0, device="cpu", threads=1)
    short.fit(baskets.matrix, validation=0.2)
    assert same(stopped.recommend(baskets.matrix), short.recommend(baskets.matrix))


def test_what_a_callback_raises_is_raised_and_the_model_is_usable(baskets):
    model = norn.Recommender(epochs=5, batch=20, device="cpu", threads=1)
    with pytest.raises(ZeroDivisionError):
        model.fit(baskets.matrix, callbacks=[lambda env: 1 / 0])
    assert [epoch["epoch"] for epoch in model.history] == [1]
    model.recommend(baskets.matrix)
    model.fit(baskets.matrix, resume=True)
    again = norn.Recommender(epochs=5, batch=20, device="cpu", threads=1).fit(baskets.matrix)
    assert same(model.recommend(baskets.matrix), again.recommend(baskets.matrix))
    for rates, wrong in (((lambda epoch, rate: "fast"), TypeError), ((lambda epoch, rate: -1.0), norn.UsageError),
                         ((lambda epoch: 1.0), TypeError)):
        with pytest.raises(wrong):
            model.fit(baskets.matrix, callbacks=[norn.reset_rate(rates)])
    with pytest.raises(norn.UsageError, match="callbacks"):
        model.fit(baskets.matrix, callbacks=[3])
    for wrong, part in ((3, "`callbacks` 3"), ("ab", "'a' cannot"), (norn.progress, r"norn.progress\(...\)")):
        with pytest.raises(norn.UsageError, match=part):
            model.fit(baskets.matrix, callbacks=wrong)


def test_one_callback_needs_no_list_and_what_it_keeps_stays(baskets):
    kept = []
    model = norn.Recommender(epochs=3, batch=20, metrics_at=[5], device="cpu", threads=1).fit(baskets.matrix, validation=0.2,
                                                                                              callbacks=kept.append)
    model.partial_fit(baskets.matrix, callbacks=kept.append).partial_fit(baskets.matrix, callbacks=None)
    assert [(env.kind, env.epoch) for env in kept] == [(kind, epoch) for epoch in (1, 2, 3)
                                                       for kind in ("epoch", "validation")] + [("epoch", 4)]
    assert [env.cost for env in kept if env.kind == "epoch"] == [epoch["cost"] for epoch in model.history[:4]]
    sets = {"data_input": baskets.matrix, "data_output": baskets.matrix}
    norn.train({"Recipe": "sigmoid"}, sets, epochs=1, device="cpu", callbacks=kept.append)
    assert kept[-1].epoch == 1 and kept[-2].epoch == 4


def test_partial_fit_names_no_file_that_nobody_knows(baskets, caplog):
    caplog.set_level("DEBUG", logger="norn")
    model = norn.Recommender(epochs=2, batch=20, device="cpu", threads=1).fit(baskets.matrix)
    model.partial_fit(baskets.matrix[:40])
    said = [record.getMessage() for record in caplog.records]
    model.set_params(optimizer="SGD")
    with pytest.raises(norn.UsageError, match="the model was trained with Adam") as raised:
        model.partial_fit(baskets.matrix)
    said += [str(raised.value), str(raised.value.problems)]
    assert not any("model.nc" in message or "/norn" in message for message in said), said


def test_an_interrupted_train_gives_its_network_with_the_interruption(baskets):
    def interrupt(env):
        signal.raise_signal(signal.SIGINT)

    sets = {"data_input": baskets.matrix, "data_output": baskets.matrix}
    network = norn.Network.from_json({"Recipe": "sigmoid"})
    assert not network.trained and "not trained" in repr(network)
    with pytest.raises(KeyboardInterrupt) as raised:
        norn.train(network, sets, epochs=5, device="cpu", callbacks=[interrupt])
    assert raised.value.network.trained and len(raised.value.network.history) == 1
    more = norn.train(raised.value.network, sets, epochs=2, device="cpu")  # from its weights
    assert more.history[0]["cost"] < raised.value.network.history[0]["cost"]
    for wrong in ([baskets.matrix], {"data_input": 3}, {1: baskets.matrix}):
        with pytest.raises(norn.UsageError, match="data"):
            norn.train(network, wrong, device="cpu")


def test_rates_of_epochs(baskets):
    model = norn.Recommender(epochs=4, batch=20, warm_up=0, device="cpu", threads=1)
    model.fit(baskets.matrix, callbacks=[norn.reset_rate([0.5, 0.25])])
    assert [epoch["rate"] for epoch in model.history] == [0.5, 0.25, 0.25, 0.25]
    seen = []
    model.fit(baskets.matrix, callbacks=[norn.reset_rate(lambda epoch, rate: seen.append((epoch, rate)) or 0.125 * epoch)])
    assert [epoch for epoch, _ in seen] == [1, 2, 3, 4] and [epoch["rate"] for epoch in model.history] == [0.125, 0.25, 0.375, 0.5]


def test_partial_fit_goes_on(draw):
    baskets = Baskets(draw)
    settings = {"batch": 20, "rate_schedule": "constant", "warm_up": 0, "device": "cpu", "threads": 1}
    whole = norn.Recommender(epochs=5, **settings).fit(baskets.matrix)
    parts = norn.Recommender(epochs=2, **settings).fit(baskets.matrix).partial_fit(baskets.matrix, epochs=3)
    assert same(whole.recommend(baskets.matrix), parts.recommend(baskets.matrix))
    assert [epoch["epoch"] for epoch in parts.history] == [1, 2, 3, 4, 5]
    first = norn.Recommender(**settings).partial_fit(baskets.matrix, epochs=2)
    assert first.network_.model.epochs() == 2 and "epochs" not in first.get_params()
    stopped = norn.Recommender(epochs=40, metrics_at=[5], **settings).fit(
        baskets.matrix, validation=0.2, callbacks=[norn.early_stopping("ndcg@5", patience=1)])
    done = stopped.network_.model.epochs()
    assert stopped.partial_fit(baskets.matrix, epochs=2).network_.model.epochs() == done + 2
    with pytest.raises(norn.Error):
        parts.partial_fit(Baskets(draw, units=200).matrix)
    parts.partial_fit(baskets.matrix)


def test_records_and_checkpoints(baskets, tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="norn")
    model = norn.Recommender(epochs=4, batch=20, device="cpu", threads=1)
    files = [norn.run_folder(tmp_path / "run"), norn.checkpoints(tmp_path / "model.nc", epochs=1)]

    def kill(env):
        if env.epoch == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.fit(baskets.matrix, callbacks=[*files, kill])
    assert not (tmp_path / "model.nc").exists()
    norn.Recommender(epochs=4, batch=20, device="cpu", threads=1).fit(baskets.matrix, callbacks=files)
    model.fit(baskets.matrix).save(tmp_path / "whole.nc")
    assert (tmp_path / "model.nc").read_bytes() == (tmp_path / "whole.nc").read_bytes()
    assert '"program": "norn"' in (tmp_path / "run/run.json").read_text()
    assert any("resuming from" in record.getMessage() for record in caplog.records)


def test_progress_shows_epochs(baskets, capsys):
    norn.Recommender(epochs=2, device="cpu", threads=1).fit(baskets.matrix, validation=0.2, callbacks=[norn.progress()])
    said = capsys.readouterr().err
    assert "epoch 2 of 2" in said and "cost" in said


def test_shown_in_terminals_and_notebooks(trained, baskets):
    assert repr(norn.Recommender(epochs=3, lambda_=0.5)) == "Recommender(epochs=3, lambda_=0.5)"
    assert f"Input {baskets.units} -> Hidden" in repr(trained) and "3 epochs" in repr(trained)
    page = trained._repr_html_()
    assert "<svg" in page and "Hidden" in page and "cost" in page
    assert trained.set_params(epochs=7).get_params()["epochs"] == 7
    with pytest.raises(norn.UsageError):
        trained.set_params(epoch=7)


def test_similar_items_are_those_of_numpy(trained, baskets):
    weights = trained.network_.parameters["Hidden -> Output"].astype(np.float64)
    weights /= np.linalg.norm(weights, axis=0)
    expected = weights.T @ weights
    for of in ("output", "input"):
        ids, scores = trained.similar_items(np.arange(baskets.units), N=5, of=of)
        assert (ids[:, 0] == np.arange(baskets.units)).all() and np.allclose(scores[:, 0], 1)
        if of == "output":
            assert np.allclose(np.sort(expected, axis=1)[:, ::-1][:, :5], scores, atol=1e-5)
    ids, scores = trained.similar_items(3, N=500, filter_items=[3])
    assert ids.shape == (baskets.units,) and 3 not in ids and ids[-1] == -1 and np.isnan(scores[-1])
